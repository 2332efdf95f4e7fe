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
        JobCounts(sent=20, done=done, failed=len(failed), lost=changes.pop("lost", 0)), 61.25,
        "complete", example=changes.pop("example", ""),
    )  # fmt: skip
    made = TransferStep(
        is_upload=True, users=8, checksum=STORE, files=20, bytes=60_000_000, checksum_s=0.0,
        compared=20, cpu_s=(62.5, 1.25), failed=failed,
        result=RunResult("1", "x.gz", {}, True, True, False, outcome),
    )  # fmt: skip
    return replace(made, **changes)


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        (
            {},
            ["  20 files 60 MB written in 1m1.25s", "  Copy throughput per second: 980 kB"],
        ),
        (
            {"is_upload": False},
            ["  20 objects 60 MB read in 1m1.25s", "  Throughput per second: 980 kB"],
        ),
        (
            {"checksum": PRECOMPUTE, "checksum_s": 0.5},
            [
                "Checksums took 0.5s before the clock started",
                "  20 files 60 MB written in 1m1.25s",
                "  Copy throughput per second: 980 kB",
            ],
        ),
    ],
)
def test_a_run_has_its_size_and_its_rate(changes: dict[str, Any], lines: list[str]) -> None:
    assert list(step_lines(step(**changes))) == lines


@pytest.mark.parametrize(
    ("changes", "compared"),
    [
        ({}, ["Checksums compared: 20 of 20"]),
        ({"compared": 19}, ["Checksums compared: 19 of 20"]),
        ({"compared": 0}, ["Checksums compared: none, the store's responses have no MD5"]),
        ({"compared": 0, "done": 0}, []),
        ({"checksum": NONE, "compared": 0}, []),
    ],
)
def test_times_are_those_of_bash_and_what_was_compared_follows(
    changes: dict[str, Any], compared: list[str]
) -> None:
    times = ["real 1m1.250s", "user 1m2.500s", "sys 0m1.250s"]
    assert list(cpu_lines(step(**changes))) == [*times, *compared]


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({}, []),
        (
            {"done": 19, "failed": ["a"], "example": "503"},
            ["WARNING: 1 of 20 files failed: a; the first error: 503"],
        ),
        (
            {"done": 14, "failed": list("abcdef"), "lost": 2},
            ["WARNING: 6 of 20 files failed (2 lost with a worker): a, b, c, d, e, ..."],
        ),
        (
            {"done": 4, "failed": list("abcde")},
            ["WARNING: 5 of 20 files failed: a, b, c, d, e", "Not begun: 11 files"],
        ),
        ({"done": 19}, ["Not begun: 1 file"]),
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
