"""The progress of uploads and downloads: a bar for all files, and one for each that takes long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ssbench.core.live import RunProgress
from ssbench.core.model import Phase
from ssbench.core.text import bytes_text, clock_text, plural, printable
from ssbench.live.terminal import RunView
from ssbench.live.watch import LiveState

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress, TaskID

    from ssbench.commands.transfer.plan import Transfer, TransferWorkload

_MOST_BARS = 12  #: of single files; a terminal has few lines
_LONGEST_NAME = 24  #: characters


class TransferView(RunView):
    """Bars on a terminal, drawn by rich; a line every few seconds elsewhere."""

    wants_counts = False
    transfer: Transfer | None = None  #: whose files are shown; set before its first run

    def __init__(self) -> None:
        self._of: TransferWorkload | None = None  # whose bars there are
        self._bars: Progress
        self._files: dict[int, TaskID] = {}  # by number

    def line(self, state: LiveState, progress: RunProgress) -> str:
        transfer = self.transfer if state.phase is Phase.RUN else None
        if transfer is None or transfer.workload is None or not progress.total:
            return super().line(state, progress)
        size = transfer.total_bytes
        done = transfer.workload.bytes + sum(_moving(transfer, progress).values())
        rate = done / progress.elapsed_s if progress.elapsed_s else 0.0
        left = f", {clock_text((size - done) / rate)} left" if rate else ""
        return (
            f"{state.title}: {progress.done:,} of {plural(progress.total, 'file')},"
            f" {bytes_text(done)} of {bytes_text(size)} ({100 * done // max(size, 1)} %),"
            f" {bytes_text(int(rate))}/s, {plural(progress.errors, 'error')}{left}"
        )

    def picture(
        self, state: LiveState, waiting: str, size: tuple[int, int], *, utf8: bool
    ) -> RenderableType:
        transfer = self.transfer if state.phase is Phase.RUN else None
        progress = state.progress
        if transfer is None or transfer.workload is None or progress is None:
            return super().picture(state, waiting, size, utf8=utf8)
        if self._of is not transfer.workload:
            self._of, self._bars, self._files = transfer.workload, _make_bars(), {}
            self._total = self._bars.add_task("", total=transfer.total_bytes)
        bars, most = self._bars, min(_MOST_BARS, size[1] - 2)
        errors = f", {plural(progress.errors, 'error')}" if progress.errors else ""
        files = f"{state.title} {progress.done:,} of {plural(progress.total or 0, 'file')}{errors}"
        moving = _moving(transfer, progress)
        done = transfer.workload.bytes + sum(moving.values())
        bars.update(self._total, completed=done, description=files)
        for number in [each for each in self._files if each not in moving]:
            bars.remove_task(self._files.pop(number))
        for number, sent in moving.items():
            if number not in self._files and len(self._files) < most:
                name = printable(transfer.names[number])
                shown = name if len(name) <= _LONGEST_NAME else f"...{name[3 - _LONGEST_NAME :]}"
                self._files[number] = bars.add_task(shown, total=transfer.sizes[number])
            if number in self._files:
                bars.update(self._files[number], completed=sent)
        return bars


def _make_bars() -> Progress:
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        TextColumn("{task.percentage:>5.1f}%"),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(compact=True),
        auto_refresh=False,
        expand=True,
    )


def _moving(transfer: Transfer, progress: RunProgress) -> dict[int, int]:
    """Bytes sent so far of files that take long, by number. What workers say is a second old, and
    is not trusted."""
    workload, sizes = transfer.workload, transfer.sizes
    if workload is None:
        return {}
    return {
        number: min(sent, sizes[number])
        for number, sent in progress.moving.items()
        if number < len(sizes) and not workload.ended[number]
    }
