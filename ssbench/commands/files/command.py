"""``gen-files``, ``diff-dirs`` and ``bench files``: folders of files."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from ssbench.cli.signals import Signals
from ssbench.commands.files.plan import FilesConfig, FilesStep, first_difference, generate, measure
from ssbench.core.errors import ExitStatus, UsageError
from ssbench.core.text import plural, printable
from ssbench.live.console import say, tell
from ssbench.live.progress import make_progress
from ssbench.runner.stop import Stop

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_WIDTH = 12  #: of a column
_READ_BUFFER, _BUFFER = 8 << 10, 4 << 20  #: as in the tables that this command is modelled on


def gen_files(ns: argparse.Namespace) -> ExitStatus:
    with make_progress(quiet=ns.quiet) as progress:
        generate(ns.folder, ns.count, ns.total, progress.wait_for)
        progress.wait_for("")
    say(f"{printable(ns.folder)}: {plural(ns.count, 'file')}, {_size(ns.total)}")
    return ExitStatus.OK


def diff_dirs(ns: argparse.Namespace) -> ExitStatus:
    """Compare two folders; FAILED if they differ."""
    with make_progress(quiet=ns.quiet) as progress:
        found = first_difference(ns.first, ns.second, progress.wait_for)
        progress.wait_for("")
    if found:
        say(found)
    return ExitStatus.FAILED if found else ExitStatus.OK


def bench_files(ns: argparse.Namespace) -> ExitStatus:
    """Measure, and print a row for each step; FAILED if operations failed.

    :raises SsbenchError: what ended it.
    """
    config = _config(ns)
    has_head = has_failed = False
    step, stop = None, Stop()
    with Signals(stop, hold=True), make_progress(quiet=ns.quiet, brief=True) as progress:
        for step in measure(config, [progress], stop):
            cells = _cells(config, step)
            if not has_head:
                say(_line(cells))
                say(_line(["-"] * len(cells)))
            has_head = True
            say(_line(cells.values()))
            if step.failed:
                has_failed = True
                tell(f"WARNING: {plural(step.failed, 'operation')} failed: {step.example}")
    if step and not step.failed:
        say(f"Disk usage (du): {_size(step.disk_bytes)} for {_size(step.bytes)} of content.")
    return ExitStatus.FAILED if has_failed else ExitStatus.OK


def _config(ns: argparse.Namespace) -> FilesConfig:
    swept: dict[str, list[int]] = {}
    for what, values in ns.sweeps or ():
        swept.setdefault(what, []).extend(values)
    if ns.target and ns.method == "read":
        raise UsageError("--to: read writes nothing")
    store = {
        "io_buffer": ns.io_buffer or (_READ_BUFFER if ns.method == "read" else _BUFFER),
        "page_cache": ns.page_cache,
        **{name: True for name in ("fsync", "direct") if getattr(ns, name)},
    }
    return FilesConfig(
        method=ns.method,
        folder=ns.folder,
        target=ns.target,
        store=store,
        passes=ns.passes,
        seconds=ns.seconds or 0.0,
        queue=ns.queue,
        **swept,
    )


def _cells(config: FilesConfig, step: FilesStep) -> dict[str, str]:
    """A row of the table: title -> value. Columns are those of the earlier benchmark's tables."""
    cells = {"users": str(step.users)}
    if config.method != "write":
        cells["buffer"] = _size(int(str(config.store["io_buffer"])))
    if config.method == "copy":
        cells["queue"] = str(config.queue or "auto")
    cells["files"] = str(step.files)
    if step.failed:
        return {**cells, "total size": "-", "cost": "failed", "speed": "-"}
    return {
        **cells,
        "total size": _size(step.bytes),
        "cost": f"{step.seconds:.2f}s",
        "speed": f"{step.bytes_per_s / 2**20:.0f} MiB/s",
    }


def _line(cells: Iterable[str]) -> str:
    return f"|{'|'.join(f'{cell:>{_WIDTH}}' for cell in cells)}|"


def _size(count: int) -> str:
    """``5 GiB``, ``1.5 MiB``: powers of 1,024."""
    power = min(max(count.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    return f"{count / 1024**power:.4g} {_UNITS[power]}"
