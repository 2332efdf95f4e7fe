"""What a closed loop leaves out."""

from __future__ import annotations

import pytest

from ssbench.core.model import NONE_NS, Phase
from ssbench.core.operations import READ
from ssbench.core.records import MarkRecord, PhaseRecord
from ssbench.core.stats.coordinated_omission import Omission, omission
from ssbench.core.stats.run_stats import RunStats
from tests.report import runs

MS = runs.MS


def stats_of(lasts_ms: list[int], rate: float | None = None, **header: object) -> RunStats:
    rows = [
        runs.result(
            number, READ, start_ns=number * MS, last_byte_ns=last * MS,
            due_ns=number * MS if rate else NONE_NS,
        )
        for number, last in enumerate(lasts_ms)
    ]  # fmt: skip
    marks = [MarkRecord(0, "stage", 0, 4, rate)]
    return RunStats.of(
        [runs.header(**header), PhaseRecord(Phase.RUN, 0.0, 4), *marks, runs.batch(rows)]
    )


@pytest.mark.parametrize(
    ("slowest_ms", "found"), [(1000, True), (201, True), (199, False), (20, False)]
)
def test_an_operation_far_beyond_the_99th_percentile_tells_of_a_stall(
    slowest_ms: int, found: bool
) -> None:
    assert (omission(stats_of([20] * 500 + [slowest_ms])) is not None) is found


def test_what_is_quick_is_no_stall_whatever_the_rest() -> None:
    assert omission(stats_of([1] * 500 + [99])) is None
    assert omission(stats_of([1] * 500 + [100])) is not None


def test_an_open_loop_leaves_nothing_out() -> None:
    assert omission(stats_of([20] * 500 + [1000], rate=50)) is None


def test_a_stall_is_one_whatever_the_latencies() -> None:
    stats = RunStats.of(runs.lasting(30, lambda second: 0 if second in (9, 10) else 100))
    found = omission(stats)
    assert isinstance(found, Omission)
    assert not found.hidden
    assert omission(RunStats.of(runs.lasting(30, 100))) is None


def test_of_nothing_and_of_0_3_9_nothing_is_said() -> None:
    assert omission(RunStats()) is None
    assert omission(RunStats.of(runs.all_errors())) is None
    assert omission(stats_of([20] * 500 + [1000], run_id="", ssbench_version="0.3.9")) is None
