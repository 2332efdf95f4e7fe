"""Whether an open loop kept up with its rate."""

from __future__ import annotations

from typing import Any

import pytest

from ssbench.core.model import Phase
from ssbench.core.operations import READ
from ssbench.core.records import MarkRecord, PhaseRecord
from ssbench.core.stats.arrivals import arrivals, target_rate
from ssbench.core.stats.run_stats import RunStats
from tests.report import runs

SECOND = 1_000_000_000


def open_run(
    started_per_s: float,
    *rates: float,
    seconds: float = 10,
    count: int | None = None,
    **footer: Any,
) -> RunStats:
    """Stages of equal length with these rates; operations of 10 ms begin in the order in which
    they fell due by the first one, so many a second.

    :param count: ends the run by its operations.
    """
    rate = rates[0]
    length = seconds / len(rates)
    total = count or int(min(started_per_s, rate) * seconds)
    rows = [
        runs.result(
            n, READ, due_ns=int(n / rate * SECOND), last_byte_ns=SECOND // 100,
            start_ns=int(max(n / rate, n / started_per_s) * SECOND),
        )
        for n in range(total)
    ]  # fmt: skip
    late = 0 if count else int(rate * seconds) - total
    end_s = total / started_per_s if count else seconds
    marks = [
        MarkRecord(int(n * length * SECOND), "stage", n, 8, each) for n, each in enumerate(rates)
    ]
    return runs.stats_of(
        [
            runs.header(), PhaseRecord(Phase.RUN, 0.0, 8), *marks,
            runs.batch(rows), MarkRecord(int(end_s * SECOND), "end", len(rates) - 1, 8, rates[-1]),
            runs.footer(late=late, sent=total, **footer),
        ]
    )  # fmt: skip


def test_one_that_kept_up() -> None:
    for stats in (open_run(200, 100), open_run(200, 100, count=1000)):
        found = arrivals(stats)
        assert found is not None
        assert (found.target_per_s, found.started_per_s) == (100, pytest.approx(100))
        assert (found.late, found.due, found.mean_lag_s) == (0, 1000, 0)
        assert not found.behind


def test_one_that_time_ended_counts_what_was_not_started() -> None:
    found = arrivals(open_run(92, 100))
    assert found is not None
    assert found.started_per_s == pytest.approx(92)
    assert (found.late, found.due) == (80, 1000)
    assert found.behind
    found = arrivals(open_run(99.9, 100))
    assert found is not None
    assert found.late == 1
    assert not found.behind, "one of a thousand may have come at the last moment"


def test_one_that_its_operations_ended_is_late_without_anything_missing() -> None:
    found = arrivals(open_run(50, 100, count=1000))
    assert found is not None
    assert found.late == 0
    assert found.mean_lag_s == pytest.approx(5, rel=0.01)
    assert found.started_per_s == pytest.approx(50, rel=0.01)
    assert found.behind
    found = arrivals(open_run(98, 100, count=1000))
    assert found is not None
    assert not found.behind


def test_without_due_times_or_without_a_footer_there_is_nothing_to_say() -> None:
    assert arrivals(runs.stats_of(runs.normal())) is None
    assert arrivals(RunStats()) is None
    stats = open_run(50, 100)
    stats.run.footers.clear()
    assert arrivals(stats) is None


def test_the_target_of_stages_is_their_mean_by_time() -> None:
    stats = open_run(400, 50, 400, 0.5, seconds=30)
    assert target_rate(stats.run) == pytest.approx(450.5 / 3)
    stats.run.marks["5e1f"].pop()
    assert target_rate(stats.run) == 0.5, "when the load ended isn't known"
