"""The table of what can be promised."""

from __future__ import annotations

import pytest

from ssbench.core.operations import READ
from ssbench.core.stats.metrics import LATENCY, METRICS, latency_of, metric_of, percent_of
from ssbench.core.stats.tally import Tally
from tests.report import runs


@pytest.mark.parametrize(
    ("name", "percent", "latency"),
    [
        ("p99", 99.0, "last_byte"),
        ("first_byte_p99.9", 99.9, "first_byte"),
        ("service_mean", None, "last_byte"),
        ("response_max", None, "response"),
        ("rate", None, None),
    ],
)
def test_a_name_says_what_is_measured(
    name: str, percent: float | None, latency: str | None
) -> None:
    assert percent_of(name) == percent
    assert latency_of(name, Tally()) == latency


def test_a_bare_percentile_is_of_response_times_where_there_are_some() -> None:
    tally = Tally()
    tally.response.histogram.record(5)
    assert latency_of("p99", tally) == "response"


@pytest.mark.parametrize("name", [*METRICS, "p50", "min", "headers_max"])
def test_of_a_run_without_results_nothing_is_measured(name: str) -> None:
    stats = runs.stats_of(runs.no_results())
    metric = metric_of(name)
    assert [metric.measure(stats, stats.total(), unit) for unit in metric.units] == [
        None for _unit in metric.units
    ]


@pytest.mark.parametrize("name", METRICS)
def test_no_metric_is_called_like_a_latency(name: str) -> None:
    assert LATENCY.fullmatch(name) is None


def test_retries_without_a_success_have_no_share() -> None:
    stats = runs.stats_of([runs.header(), runs.batch([runs.failure(1, READ, retries=3)])])
    measure = METRICS["retries"].measure
    assert measure(stats, stats.total(), "") == 3
    assert measure(stats, stats.total(), "%") is None
