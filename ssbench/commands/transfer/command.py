"""``upload`` and ``download``: prints what Swift Profiler prints, and the CPU time."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ssbench.cli.config import command_config, values_of
from ssbench.cli.console import say, tell, tell_results, tell_status
from ssbench.cli.options import DEFAULT_STORE
from ssbench.commands.base import watched
from ssbench.commands.transfer.plan import ContainerDownload, FolderUpload, Transfer, TransferStep
from ssbench.commands.transfer.settings import CHECKSUMS, NONE, PRECOMPUTE, STORE, TransferConfig
from ssbench.core.errors import ExitStatus
from ssbench.core.live import RunProgress
from ssbench.core.model import Phase
from ssbench.core.text import bytes_text, clock_text, in_unit, plural, printable
from ssbench.live.terminal import RunView, make_progress
from ssbench.live.watch import TITLES, LiveState
from ssbench.report.load_generator import profile_section
from ssbench.report.run import store_section
from ssbench.report.tables import section_lines, store_lines
from ssbench.storage.registry import CHECKSUMS as STORE_CHECKSUMS
from ssbench.storage.registry import row_of

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress, TaskID

    from ssbench.commands.transfer.plan import TransferWorkload


_SHOWN = 5  #: names in a message
_DOING = {
    STORE: "Letting {} compute checksum...",
    PRECOMPUTE: "Precomputing checksum...",
    NONE: "Ignore checksums completely...",
}


def upload(ns: argparse.Namespace) -> ExitStatus:
    """Upload, once or several times; prints a table of several.

    :raises SsbenchError: what ended it before there were results.
    """
    common = _common(ns)
    store = common["run"].store
    driver = store.driver if store else DEFAULT_STORE
    checksum = ns.checksum
    if checksum is None:
        checksum = STORE if STORE_CHECKSUMS in row_of(driver).features else NONE
    checksums = CHECKSUMS if ns.compare else (checksum,)
    config = TransferConfig(checksums=checksums, **common)
    with _Runs(ns, _say_as_profiler if ns.as_profiler else say) as runs, ExitStack() as stack:
        upload = FolderUpload(config, stack, [runs.watch], runs.stop)
        runs.show(upload)
        for line in _container_lines(upload, driver):
            runs.say(line)
        for line in _skipped_lines(upload):
            tell(line)
        for users in config.users:
            for checksum in config.checksums:
                runs.say(_DOING[checksum].format(_title(driver)))
                upload.prepare()
                runs.say(f"Spawning {plural(users, 'user')} to run")
                runs.say(f"Copying {plural(len(upload.names), 'file')} concurrently")
                if not runs.add(upload.run(users, checksum)):
                    return runs.end()
        return runs.end()


def download(ns: argparse.Namespace) -> ExitStatus:
    """Read the objects of a container, once or several times.

    :raises SsbenchError: what ended it before there were results.
    """
    config = TransferConfig(**_common(ns))
    with _Runs(ns) as runs, ExitStack() as stack:
        download = ContainerDownload(config, stack, [runs.watch], runs.stop)
        runs.show(download)
        used = len(download.names)
        more = f", of which {used:,} are read" if used < download.listed else ""
        say(f"Container {printable(config.container)}: {plural(download.listed, 'object')}{more}")
        for line in _unmatched_lines(download):
            tell(line)
        for users in config.users:
            say(f"Spawning {plural(users, 'user')} to run")
            say(f"Reading {plural(used, 'object')} concurrently")
            if not runs.add(download.run(users)):
                break
        for names, why in (
            (download.missing, "not in the container"),
            (download.unreadable, "not readable, and could not be compared"),
        ):
            if names:
                text = f"{plural(len(names), 'file')} of {ns.folder}: {why}"
                runs.reasons.setdefault(ExitStatus.FAILED, text)
        return runs.end()


class _Runs:
    """The runs of one command: prints what each did, and collects the reasons of the status.

    :param say: prints a line that Swift Profiler prints, too.
    """

    def __init__(self, ns: argparse.Namespace, say: Callable[[str], None] = say) -> None:
        self.say = say
        self._view = TransferView()
        mode = "none" if ns.progress == "none" else "live"
        self.watch = make_progress(mode, quiet=ns.quiet, view=self._view)
        self._watched = watched(ns, display=self.watch)
        self.reasons: dict[ExitStatus, str] = {}
        self._quiet, self._profile = ns.quiet, ns.profile
        self._steps: list[TransferStep] = []

    def __enter__(self) -> _Runs:
        _, self.stop = self._watched.__enter__()
        return self

    def __exit__(self, *error: Any) -> bool | None:
        return self._watched.__exit__(*error)

    def show(self, transfer: Transfer) -> None:
        self._view.transfer = transfer
        title = "Uploading" if transfer.config.checksums else "Downloading"
        self.watch.titles = {**TITLES, Phase.RUN: title}

    def add(self, step: TransferStep) -> bool:
        """A run has ended; returns whether another may follow."""
        if not self._steps:
            for line in store_lines(store_section(step.result.header)):
                self.say(line)
        self._steps.append(step)
        for line in step_lines(step):
            self.say(line)
        for line in cpu_lines(step):
            say(line)
        for line in failure_lines(step):
            tell(line)
        result = step.result
        if self._profile and result.has_results:
            for line in section_lines(profile_section(result.stats.run), None):
                say(line)
        for status, why in result.reasons.items():
            self.reasons.setdefault(status, why)
        counts = result.outcome.counts
        if counts.failed > counts.corrupt:
            text = f"{plural(counts.failed, 'file')} failed; the first error: "
            self.reasons.setdefault(ExitStatus.FAILED, text + result.outcome.example)
        tell_results(result, quiet=self._quiet)
        return ExitStatus.INTERRUPTED not in result.reasons and (
            ExitStatus.FAILED not in result.reasons
        )

    def end(self) -> ExitStatus:
        """Print the table of several runs, and why the status is not 0."""
        if len(self._steps) > 1:
            for line in table(self._steps):
                self.say(line)
        return tell_status(self.reasons)


def _common(ns: argparse.Namespace) -> dict[str, Any]:
    """The fields that the configurations of both commands have."""
    container, prefix = ns.place
    run = command_config(ns, os.environ, max(ns.sweep or [ns.users]))
    return {
        **values_of(TransferConfig, ns), "folder": ns.folder, "container": container,
        "prefix": prefix, "users": ns.sweep or [ns.users], "run": run,
    }  # fmt: skip


def _say_as_profiler(line: str) -> None:
    """With the date, as Go's log package writes it."""
    say(f"{time.strftime('%Y/%m/%d %H:%M:%S')} {line}")


def _title(driver: str) -> str:
    return "Swift" if driver == DEFAULT_STORE else f"the {driver} store"


def _container_lines(upload: FolderUpload, driver: str) -> Iterator[str]:
    found, name = upload.container, upload.config.container
    metadata = found.metadata if found else {}
    shown = " ".join(f"{key}:{value}" for key, value in sorted(metadata.items()))
    yield f"{'Swift c' if driver == DEFAULT_STORE else 'C'}ontainer metadata: map[{shown}]"
    if found is None:
        yield f"Container {name}: new"
        return
    facts = ["made by ssbench" if found.marked else "not made by ssbench"]
    if found.object_count is not None:
        facts.append(plural(found.object_count, "object"))
    if found.policy:
        facts.append(f"storage policy {found.policy}")
    yield f"Container {name}: {', '.join(facts)}; objects with the names of files are replaced"


def _skipped_lines(upload: FolderUpload) -> Iterator[str]:
    files = upload.files
    if files.skipped_links:
        yield f"Left out: {plural(files.skipped_links, 'symbolic link')}; none is followed"
    if files.skipped_others:
        yield f"Left out: {plural(files.skipped_others, 'special file')} (pipes, sockets, devices)"


def _unmatched_lines(download: ContainerDownload) -> Iterator[str]:
    if download.unknown:
        yield f"No file to compare with: {_names(download.unknown)}"
    if download.missing:
        yield f"Not in the container: {_names(download.missing)}"
    if download.unreadable:
        yield f"Files that can't be read: {_names(download.unreadable)}"


def step_lines(step: TransferStep) -> Iterator[str]:
    """The figures of a run; of an upload, in Swift Profiler's words."""
    if step.checksum_s:
        yield f"Checksums took {go_duration(step.checksum_s)} before the clock started"
    done = plural(step.done, "file" if step.is_upload else "object")
    verb = "written" if step.is_upload else "read"
    yield f"  {done} {si_bytes(step.bytes)} {verb} in {go_duration(step.seconds)}"
    throughput = "Copy throughput" if step.is_upload else "Throughput"
    yield f"  {throughput} per second: {si_bytes(int(step.bytes_per_s))}"


def cpu_lines(step: TransferStep) -> Iterator[str]:
    """As bash's time prints them, and what was compared."""
    for name, seconds in zip(("real", "user", "sys"), (step.seconds, *step.cpu_s), strict=True):
        minutes, rest = divmod(seconds, 60)
        yield f"{name} {int(minutes)}m{rest:.3f}s"
    if step.checksum == NONE:
        return
    if step.compared:
        yield f"Checksums compared: {step.compared} of {step.done}"
    elif step.done:
        yield "Checksums compared: none, the store's responses have no MD5"


def failure_lines(step: TransferStep) -> Iterator[str]:
    """What was not transferred."""
    counts = step.result.outcome.counts
    if step.failed:
        lost = f" ({counts.lost:,} lost with a worker)" if counts.lost else ""
        example = step.result.outcome.example
        because = f"; the first error: {example}" if example else ""
        yield (
            f"WARNING: {len(step.failed):,} of {plural(step.files, 'file')} failed{lost}:"
            f" {_names(step.failed)}{because}"
        )
    left = step.files - step.done - len(step.failed)
    if left:
        yield f"Not begun: {plural(left, 'file')}"


def table(steps: Sequence[TransferStep]) -> Iterator[str]:
    """A row for each run; "before" is the time of checksums before the clock starts."""
    yield ""
    form = "{:>6} {:<11} {:>7} {:>8} {:>10} {:>10} {:>9} {:>9} {:>11}"
    yield form.format(
        "users", "checksum", "files", "bytes", "before", "real", "user", "sys", "per second"
    )
    for step in steps:
        user_s, system_s = step.cpu_s
        yield form.format(
            step.users, step.checksum, step.done, si_bytes(step.bytes),
            f"{step.checksum_s:.3f}s" if step.checksum_s else "", f"{step.seconds:.3f}s",
            f"{user_s:.2f}s", f"{system_s:.2f}s", si_bytes(int(step.bytes_per_s)),
        )  # fmt: skip


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", ..." if names[_SHOWN:] else "")


def si_bytes(count: int) -> str:
    """``60 MB``, ``2.1 GB``: powers of 1,000, with a decimal below 10."""
    size, unit = in_unit(count)
    return f"{size:.1f} {unit}" if count >= 1000 and size < 10 else f"{size:.0f} {unit}"


def go_duration(seconds: float) -> str:
    """``35.752444541s``, ``4m1.692408635s``: as Go writes it."""
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    text = f"{rest:.9f}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{hours}h{minutes}m{text}"
    return f"{minutes}m{text}" if minutes else text


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
