"""What is told of a run as a row of a table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ssbench.core.records import MarkRecord
from ssbench.core.stats.headroom import Headroom
from ssbench.core.stats.steps import Step
from ssbench.core.stats.thresholds import Threshold
from tests.report import runs

PERCENTILES = (50.0, 99.0, 100.0)


def step(*promises: str, records: list[runs.Record] | None = None) -> Step:
    stats = runs.stats_of(records or runs.lasting(4, 100))
    thresholds = [Threshold.parse(promise) for promise in promises]
    return Step.of(stats, 20, "x.stat.gz", PERCENTILES, thresholds)


def test_the_figures_are_those_of_the_report() -> None:
    records = runs.lasting(4, 100)
    total = runs.stats_of(records).total()
    found = step(records=records)
    assert (found.load, found.path, found.ended) == (20, "x.stat.gz", "complete")
    assert (found.operations, found.errors, found.lost, found.late) == (400, 0, 0, 0)
    assert found.seconds == pytest.approx(4, abs=0.2)
    assert found.rate_per_s == total.rate_per_s
    assert found.generator is Headroom.UNKNOWN
    assert step(records=runs.normal()).generator is Headroom.NONE
    assert found.bytes_per_s == total.bytes_per_s
    assert found.service[100.0] == total.last_byte.histogram.max
    assert found.response == dict.fromkeys(PERCENTILES)
    assert found.latencies is found.service


def test_what_was_felt_where_operations_were_due_is_the_response_time() -> None:
    found = step(records=runs.lasting(4, 100, due=True))
    assert found.latencies is found.response
    assert found.response[50.0] > found.service[50.0]  # type: ignore[operator]


def test_a_step_keeps_all_promises_or_misses_some() -> None:
    assert step().kept
    assert step("p50 < 1m", "rate > 1/s").kept
    found = step("p50 < 1m", "p50 < 1us", "rate > 1000000/s")
    assert not found.kept
    assert [str(each) for each in found.missed] == ["p50 < 1us", "rate > 1000000/s"]


@pytest.mark.parametrize("ended", ["failed", "interrupted"])
def test_a_run_that_did_not_come_to_its_end_has_kept_nothing(ended: str) -> None:
    records = runs.lasting(4, 100)
    assert not step(records=[*records[:-1], replace(runs.footer(), ended=ended)]).kept
    assert not step(records=records[:-1]).kept


def test_a_run_without_a_success_has_kept_nothing() -> None:
    assert not step(records=runs.no_results()).kept
    assert not step(records=runs.all_errors()).kept


def test_a_run_with_fewer_users_than_asked_for_has_counts_and_nothing_else() -> None:
    records = runs.lasting(4, 100)
    at = next(at for at, record in enumerate(records) if isinstance(record, MarkRecord))
    short = replace(records[at], name="users", users=1)  # type: ignore[type-var]
    found = step("p50 < 1m", records=[*records[: at + 1], short, *records[at + 1 :]])
    assert (found.users_asked, found.users_ran, found.short_of_users) == (4, 1, True)
    assert (found.operations, found.rate_per_s, found.bytes_per_s) == (400, None, None)
    assert found.latencies == dict.fromkeys(PERCENTILES)
    assert found.verdicts == ()
    assert not found.kept
    assert not step().short_of_users
