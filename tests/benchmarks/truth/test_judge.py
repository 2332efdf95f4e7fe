"""What is compared with what, and when it is off."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.truth import judge
from benchmarks.truth.cases import MS
from benchmarks.truth.log import Entry
from ssbench.core.stats.histogram import Histogram

LOG = [
    Entry("a", "GET", "/v1/A/c/1", 200, 1 * MS, 11 * MS, 51 * MS, 0, 700, 0),
    Entry("b", "PUT", "/v1/A/c/2", 201, 2 * MS, 12 * MS, 12 * MS, 500, 0, 0),
    Entry("c", "GET", "/v1/A/c/3", 503, 3 * MS, 13 * MS, 13 * MS, 0, 0, 0),
    Entry("d", "PUT", "/v1/A/c/3", 201, 0, 1, 1, 999, 0, 0),  # of another phase
]
#: due, start and last byte: all start 0.5 ms after they are due, and travel for 0.1 ms.
RESULTS = {
    "a": (400_000, 900_000, 50 * MS),
    "b": (1_400_000, 1_900_000, 10 * MS),
    "c": (2_400_000, 2_900_000, 10 * MS),
}


def report(**changed: int) -> dict[str, Any]:
    told = {"count": 2, "errors": 1, "up": 500, "down": 700, **changed}
    return {
        "total": {"count": told["count"], "errors": told["errors"]},
        "operations": {
            "CREATE": {"moved_bytes": told["up"]},
            "UPDATE": {"moved_bytes": 0},
            "READ": {"moved_bytes": told["down"]},
        },
    }


def test_counts_and_bytes_of_the_run_phase() -> None:
    assert all(figure.fine for figure in judge.count_figures(LOG, RESULTS, report()))


@pytest.mark.parametrize("name", ["count", "errors", "up", "down"])
def test_a_surplus_result_is_an_error(name: str) -> None:
    right = {"count": 2, "errors": 1, "up": 500, "down": 700}[name]
    told = judge.count_figures(LOG, RESULTS, report(**{name: right + 1}))
    assert [figure.error for figure in told if not figure.fine] == [1]


def test_requests_that_one_side_does_not_know_of() -> None:
    assert judge.strangers(LOG, {"a", "b", "c", "d"}).fine
    assert not judge.strangers(LOG, {"a", "b", "c"}).fine
    assert not judge.strangers(LOG, {"a", "b", "c", "d", "e"}).fine


def test_times_are_of_successes_of_the_run() -> None:
    assert judge.service_times(LOG, RESULTS) == [50 * MS, 10 * MS]
    assert judge.first_bytes(LOG, RESULTS) == [10 * MS]
    assert judge.first_bytes(LOG, RESULTS, {"a"}) == [], "the figures leave it out, too"
    # Their own 0.1 ms on the way can't be seen from the server: 0.5 of the 0.6 ms since due.
    assert judge.response_times(LOG, RESULTS) == [50 * MS + 500_000, 10 * MS + 500_000]


@pytest.mark.parametrize(("uncertain", "fine"), [(2, True), (3, False)])
def test_few_first_bytes_may_be_left_out(uncertain: int, fine: bool) -> None:
    assert judge.left_out([5.0 * MS] * 100, set(map(str, range(uncertain)))).fine is fine


@pytest.mark.parametrize(("ours_ms", "fine"), [(10.39, True), (9.59, False), (10.41, False)])
def test_a_time_may_differ_by_the_tolerance(ours_ms: float, fine: bool) -> None:
    told = {"mean_s": ours_ms / 1000, "percentiles_s": {"50": 0.01}}
    mean, median = judge.time_figures("t", [10.0 * MS] * 3, told)
    assert (mean.fine, median.fine) == (fine, True)


def test_a_long_time_may_differ_by_one_percent() -> None:
    told = {"mean_s": 1.009, "percentiles_s": {"99": 1.011, "100": 9.0}}
    mean, p99 = judge.time_figures("t", [1000.0 * MS] * 3, told)
    assert (mean.fine, p99.fine) == (True, False)


@pytest.mark.parametrize("percent", [0.1, 50.0, 99.0, 99.9, 100.0])
@pytest.mark.parametrize("count", [1, 2, 999, 1000])
def test_quantiles_use_the_definition_of_the_report(percent: float, count: int) -> None:
    histogram = Histogram()
    histogram.record_many(range(count))  # below 4096 its buckets are exact
    assert judge.quantile(range(count), percent) == histogram.percentile(percent)
