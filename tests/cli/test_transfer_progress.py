"""The bars of uploads on a terminal, and their lines elsewhere."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

from ssbench.cli.screen import Screen
from ssbench.cli.transfer_progress import TransferProgress
from ssbench.core.live import RunProgress
from ssbench.core.model import Job, Phase
from ssbench.core.operations import CREATE
from ssbench.runner.transfer import TransferWorkload
from tests.cli.test_progress import Clock, FakeTerminal, screen_after

SIZES = [100_000_000, 300_000_000, 5]


def shown(stream: io.StringIO, *updates: RunProgress, done: int | None = None) -> str:
    """What is printed for an upload of three files; ``done``: the number of one that has ended."""
    clock = Clock()
    environ = {"TERM": "xterm", "COLUMNS": "120"}
    workload = TransferWorkload(CREATE, SIZES)
    if done is not None:
        workload.succeeded([Job(1, CREATE, 0, done, 0, SIZES[done])], 0.0)
    transfer: Any = SimpleNamespace(
        names=["a.bin", "deep/" + "x" * 50 + ".bin", "c"], sizes=SIZES, total_bytes=sum(SIZES),
        workload=workload, config=SimpleNamespace(checksums=["none"]),
    )  # fmt: skip
    with TransferProgress(Screen(stream, environ), clock) as progress:
        progress.transfer = transfer
        progress.start_phase(Phase.IDLE, 1)
        progress.update(RunProgress(1.0, 1, 1))
        progress.start_phase(Phase.RUN, 3)
        for update in updates:
            clock.now += 10.0
            progress.update(update)
        during = stream.getvalue()
    return during if stream.isatty() else stream.getvalue()


def test_a_terminal_shows_a_bar_for_all_files_and_for_each_that_takes_long() -> None:
    moving = {0: 50_000_000, 1: 75_000_000, 9: 1, 2: 5}
    text = shown(FakeTerminal(), RunProgress(10.0, 1, 3, moving=moving), done=2)
    total, first, second = [line for line in screen_after(text) if line][-3:]
    assert total.startswith("Uploading 1 of 3 files")
    assert "31.3%" in total
    assert "125.0/400.0 MB" in total
    assert first.startswith("a.bin")
    assert "50.0%" in first
    assert "x.bin" in second
    assert "25.0%" in second


def test_a_bar_goes_with_its_file() -> None:
    updates = [RunProgress(10.0, 0, 3, moving={0: 5}), RunProgress(20.0, 1, 3, 1, moving={})]
    lines = [line for line in screen_after(shown(FakeTerminal(), *updates, done=0)) if line]
    assert lines[-1].startswith("Uploading 1 of 3 files, 1 error")
    assert not any("a.bin" in line for line in lines)


def test_elsewhere_a_line_says_how_many_files_and_bytes() -> None:
    text = shown(io.StringIO(), RunProgress(10.0, 1, 3, moving={0: 99_999_995}), done=2)
    assert text.splitlines() == [
        "Making containers: 1 in 0:01 (1/s)",
        "Uploading: 1 of 3 files, 100.0 MB of 400.0 MB (24 %), 10.0 MB/s, 0 errors, 0:30 left",
        "Uploading: 1 of 3 in 0:10 (0/s)",
    ]
