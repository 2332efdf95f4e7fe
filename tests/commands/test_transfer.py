"""What upload and download print of their runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from ssbench.commands.transfer.command import cpu_lines, failure_lines, step_lines, table
from ssbench.commands.transfer.plan import NONE, PRECOMPUTE, STORE, TransferStep
from ssbench.core.dispatch.dispatcher import JobCounts
from ssbench.master.phase_machine import PhaseOutcome
from ssbench.runner.single_run import RunResult


def step(done: int = 20, failed: Sequence[str] = (), **changes: Any) -> TransferStep:
    """An upload of 20 files of 60 MB, in 61.25 s, with the checksums of the store."""
    outcome = PhaseOutcome(
        JobCounts(sent=20, done=done, failed=len(failed), lost=changes.pop("lost", 0)),
        changes.pop("seconds", 61.25), "complete", example=changes.pop("example", ""),
    )  # fmt: skip
    made = TransferStep(
        is_upload=True, users=8, checksum=STORE, files=20, bytes=60_000_000, checksum_s=0.0,
        compared=20, cpu_s=(62.5, 1.25), failed=failed,
        result=RunResult("1", "x.gz", {}, True, True, False, outcome),
    )  # fmt: skip
    return replace(made, **changes)


TIMES = ["real 1m1.250s", "user 1m2.500s", "sys 0m1.250s"]
WRITTEN = ["  20 files 60 MB written in 1m1.25s", "  Copy throughput per second: 980 kB", *TIMES]


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({}, [*WRITTEN, "Checksums compared: 20 of 20"]),
        (
            {"checksum": PRECOMPUTE, "checksum_s": 0.5, "compared": 19},
            [
                "Checksums took 0.5s before the clock started", *WRITTEN,
                "Checksums compared: 19 of 20",
            ],
        ),
        ({"checksum": NONE, "compared": 0}, WRITTEN),
        (
            {"is_upload": False, "compared": 0},
            [
                "  20 objects 60 MB read in 1m1.25s", "  Throughput per second: 980 kB", *TIMES,
                "Checksums compared: none, the store's responses have no MD5",
            ],
        ),
        (
            {"done": 0, "compared": 0, "bytes": 0, "seconds": 0.0},
            [
                "  0 files 0 B written in 0s", "  Copy throughput per second: 0 B",
                "real 0m0.000s", *TIMES[1:], "Not begun: 20 files",
            ],
        ),
    ],
)  # fmt: skip
def test_a_run_has_its_size_its_rate_its_times_and_what_was_compared(
    changes: dict[str, Any], lines: list[str]
) -> None:
    made = step(**changes)
    assert [*step_lines(made), *cpu_lines(made), *failure_lines(made)] == lines


@pytest.mark.parametrize(
    ("size", "seconds", "line"),
    [
        (999, 0.5, "999 B written in 0.5s"),
        (2_148_000_000, 35.752444541, "2.1 GB written in 35.752444541s"),
        (258_000_000_000, 241.692408635, "258 GB written in 4m1.692408635s"),
        (9_400_000, 7200.0, "9.4 MB written in 2h0m0s"),
    ],
)
def test_figures_are_written_as_in_the_published_runs(size: int, seconds: float, line: str) -> None:
    assert next(step_lines(step(bytes=size, seconds=seconds))) == f"  20 files {line}"


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        (
            {"done": 19, "failed": ["a"], "example": "503"},
            ["WARNING: 1 of 20 files failed: a; the first error: 503"],
        ),
        (
            {"done": 14, "failed": list("abcdef"), "lost": 2},
            ["WARNING: 6 of 20 files failed (2 lost with a worker): a, b, c, d, e, ..."],
        ),
        (
            {"done": 14, "failed": list("abcde")},
            ["WARNING: 5 of 20 files failed: a, b, c, d, e", "Not begun: 1 file"],
        ),
    ],
)
def test_what_was_not_transferred_is_named(changes: dict[str, Any], lines: list[str]) -> None:
    assert list(failure_lines(step(**changes))) == lines


def test_several_runs_have_a_table() -> None:
    blank, head, *rows = table([step(), step(users=16, checksum=PRECOMPUTE, checksum_s=0.5)])
    assert blank == ""
    assert head.split() == [
        "users", "checksum", "files", "bytes", "before", "real", "user", "sys", "per", "second",
    ]  # fmt: skip
    first, second = (row.split() for row in rows)
    figures = ["61.250s", "62.50s", "1.25s", "980", "kB"]
    assert first == ["8", STORE, "20", "60", "MB", *figures]
    assert second == ["16", PRECOMPUTE, "20", "60", "MB", "0.500s", *figures]
    assert len({len(line) for line in (head, *rows)}) == 1
