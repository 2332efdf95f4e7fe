from __future__ import annotations

import pytest

from ssbench.core.model import ErrorKind, Phase, Result
from ssbench.core.operations import READ, UPDATE, Operation
from ssbench.core.records import PhaseRecord
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.tally import Verified
from tests.report import runs
from tests.report.runs import render


def wrong(number: int, kind: ErrorKind, operation: Operation = READ) -> Result:
    return runs.failure(
        number, operation, status=200, error=kind, detail=f"c/o{number}: wrong", bytes_moved=4000
    )


ROWS = [
    runs.result(1, READ),
    runs.result(2, UPDATE),
    wrong(3, ErrorKind.STALE),
    wrong(5, ErrorKind.CORRUPT),
    wrong(4, ErrorKind.CORRUPT),
    wrong(6, ErrorKind.CORRUPT, UPDATE),
    runs.failure(7, READ),
]


def stats_of(rows: list[Result], **changes: object) -> RunStats:
    started = PhaseRecord(Phase.RUN, runs.STARTED_AT, 4)
    header = runs.header(**{"verify": True, **changes})
    return runs.stats_of([header, started, runs.batch(rows), runs.footer()])


def sums(verified: Verified | None) -> tuple[int, int, int, int, str]:
    assert verified is not None
    assert verified.example is not None
    v = verified
    return v.reads, v.bytes_read, v.corrupt, v.stale, verified.example.detail


def test_checked_and_corrupt_operations_are_counted() -> None:
    # A 503 brings no body that could be checked.
    assert sums(stats_of(ROWS).verified) == (4, 17_000, 3, 1, "c/o4: wrong")


def test_the_warm_up_is_verified_too() -> None:
    scenario = {**runs.SCENARIO, "warmup": 0.045}
    stats = stats_of(ROWS, scenario=scenario)
    assert sums(stats.verified) == (4, 17_000, 3, 1, "c/o4: wrong")


def test_an_unverified_run_has_no_verification_figures() -> None:
    assert stats_of(ROWS, verify=False).verified is None
    assert "Verified" not in render("text", stats_of(ROWS, verify=False))


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        (
            ROWS,
            "\nVerified: 4 READs, 17.0 kB; 3 corrupt, 1 stale\n  First corrupt: READ: c/o4: wr",
        ),
        (ROWS[:2], "Verified: 1 READs, 5.0 kB; 0 corrupt, 0 stale\n"),
    ],
)
def test_the_header_of_the_report_shows_the_verification(rows: list[Result], wanted: str) -> None:
    assert wanted in render("text", stats_of(rows)).partition("% Ops")[0]
