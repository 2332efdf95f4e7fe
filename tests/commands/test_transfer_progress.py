"""The bars of uploads on a terminal, and their lines elsewhere."""

from __future__ import annotations

import io
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from ssbench.commands.transfer.command import TransferView
from ssbench.commands.transfer.plan import TransferWorkload
from ssbench.core.live import RunProgress
from ssbench.core.model import Job, Phase
from ssbench.core.operations import CREATE
from ssbench.live.terminal import make_progress
from ssbench.live.watch import TITLES
from tests.fakes.terminal import FakeTerminal
from tests.live.test_terminal import Clock, screen_after

SIZES = [100_000_000, 300_000_000, 5]


NAMES = ["a.bin", "deep/" + "x" * 50 + ".bin", "c"]


def shown(
    stream: io.StringIO,
    *updates: RunProgress,
    done: int | None = None,
    sizes: Sequence[int] = SIZES,
    names: Sequence[str] = NAMES,
    checksums: Sequence[str] = ("none",),
) -> str:
    """What is printed for an upload of files; ``done``: the number of one that has ended."""
    clock = Clock()
    environ = {"TERM": "xterm"}
    workload = TransferWorkload(CREATE, sizes)
    if done is not None:
        workload.succeeded([Job(1, CREATE, 0, done, 0, sizes[done])], 0.0)
    transfer: Any = SimpleNamespace(
        names=names, sizes=sizes, total_bytes=sum(sizes),
        workload=workload, config=SimpleNamespace(checksums=checksums),
    )  # fmt: skip
    view = TransferView()
    view.transfer = transfer
    with make_progress("live", stream, environ, view=view, clock=clock) as progress:
        progress.titles = {**TITLES, Phase.RUN: "Uploading" if checksums else "Downloading"}
        progress.start_phase(Phase.IDLE, 1)
        progress.update(RunProgress(1.0, 1, 1))
        progress.start_phase(Phase.RUN, len(sizes))
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


@pytest.mark.parametrize(("lines", "bars"), [(50, 12), (8, 6)])
def test_a_terminal_shows_bars_of_as_many_files_as_it_has_lines_for(
    lines: int, bars: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINES", str(lines))
    monkeypatch.setenv("COLUMNS", "120")
    sizes, names = [100] * 20, [f"file-{n:02}" for n in range(20)]
    update = RunProgress(10.0, 0, 20, moving=dict.fromkeys(range(20), 50))
    text = shown(FakeTerminal(), update, sizes=sizes, names=names)
    files = [line.split()[0] for line in screen_after(text) if line.startswith("file-")]
    assert files == names[:bars]


def test_a_long_name_is_cut_at_its_beginning() -> None:
    names = ["x" * 24, "y" * 5 + "x" * 20, "c\x1b"]
    text = shown(FakeTerminal(), RunProgress(10.0, 0, 3, moving={0: 5, 1: 5, 2: 5}), names=names)
    assert [line.split()[0] for line in screen_after(text) if line][-3:] == [
        "x" * 24, "..." + "y" + "x" * 20, "c\\x1b",
    ]  # fmt: skip


def test_a_download_is_named_so_and_workers_are_not_trusted() -> None:
    moving = {0: 10**12, 9: 5}  # more than its size; and no file of this transfer
    text = shown(io.StringIO(), RunProgress(10.0, 0, 3, 2, moving=moving), checksums=())
    assert text.splitlines()[1] == (
        "Downloading: 0 of 3 files, 100.0 MB of 400.0 MB (24 %), 10.0 MB/s, 2 errors, 0:30 left"
    )


def test_elsewhere_a_line_says_how_many_files_and_bytes() -> None:
    text = shown(io.StringIO(), RunProgress(10.0, 1, 3, moving={0: 99_999_995}), done=2)
    assert text.splitlines() == [
        "Making containers: 1 in 0:01 (1/s)",
        "Uploading: 1 of 3 files, 100.0 MB of 400.0 MB (24 %), 10.0 MB/s, 0 errors, 0:30 left",
        "Uploading: 1 of 3 in 0:10 (0/s)",
    ]
