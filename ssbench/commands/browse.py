"""``browse``: the stat files of a folder as a page, with their reports and comparisons."""

from __future__ import annotations

import argparse
import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import resources
from threading import Lock, Thread
from time import sleep
from typing import Any, NamedTuple
from urllib.parse import quote, unquote_to_bytes

from jinja2 import Environment, StrictUndefined

from ssbench import statfile
from ssbench.cli.console import tell
from ssbench.cli.start import Signals
from ssbench.core.errors import ExitStatus, SsbenchError, UsageError
from ssbench.core.sparse import SPARSE_MARK, SPARSE_NOTE, marked
from ssbench.core.stats.budget import MEMORY
from ssbench.core.stats.compare import comparison
from ssbench.core.text import latency_text, printable
from ssbench.host.files import open_file
from ssbench.live.web import Page, Query, WebServer
from ssbench.report import render_html
from ssbench.report.comparison import of_comparison
from ssbench.report.model import Report, time_text
from ssbench.report.notes import unusual
from ssbench.report.run import of_run
from ssbench.runner.results import read_distinct, read_stats
from ssbench.runner.stop import Stop

_REPORT_SCRIPTS = "'unsafe-inline'"  #: a report's own, which are part of it


def browse(ns: argparse.Namespace) -> ExitStatus:
    """Serve the page until a signal.

    :raises UsageError: there is no such folder.
    :raises SsbenchError: the address can't be listened on.
    """
    site = BrowseSite(ResultsFolder(ns.folder, ns.report_memory))
    stop = Stop()
    with Signals(stop, hold=True):
        server = WebServer(ns.web, site)
        try:
            tell(f"{ns.folder} is shown at {server.url} until Ctrl-C")
            while not stop.requested:
                sleep(0.1)
        finally:
            server.close()
    return ExitStatus.OK


class BrowseSite:
    """The list at ``/``, a report at ``/report?name=FILE``, a comparison at
    ``/compare?name=FILE&name=FILE``."""

    def __init__(self, folder: ResultsFolder) -> None:
        self._folder = folder

    def get(self, path: str, query: Query) -> Page | None:
        names = [os.fsdecode(unquote_to_bytes(key)) for key in query.get("name", [])]
        try:
            if path == "/":
                return self._list()
            if path == "/report" and len(names) == 1:
                return _shown(self._folder.report(names[0]))
            if path == "/compare":
                return _shown(self._folder.compare(names))
        except SsbenchError as error:
            status = 404 if isinstance(error, UsageError) else 500
            return Page(_template().render(fault=printable(str(error))), status=status)
        return None

    def post(self, path: str, query: Query) -> bool:
        """The page has no actions: every POST is refused."""
        return False

    def _list(self) -> Page:
        files = self._folder.files()
        is_reading = not all(each.is_known for each in files)
        if is_reading:
            Thread(target=self._folder.read_all, name="ssbench-browse", daemon=True).start()
        nonce = secrets.token_urlsafe(12)
        rows = [_row(each) for each in files]
        return Page(
            _template().render(
                fault="",
                nonce=nonce,
                folder=printable(self._folder.path),
                rows=rows,
                note=SPARSE_NOTE if any(SPARSE_MARK in r["p50"] + r["p99"] for r in rows) else "",
                sort=[_sort_values(each) for each in files],
                is_reading=is_reading,
            ),
            f"'nonce-{nonce}'",
        )


def _shown(made: Report) -> Page:
    return Page(render_html(made), _REPORT_SCRIPTS)


def _row(file: StatFile) -> dict[str, Any]:
    """A file's cells; names and texts are escaped by the template."""
    figures = file.figures or {}
    moved = figures.get("moved_bytes_per_s")
    rate = figures.get("operations_per_s")
    return {
        "key": quote(os.fsencode(file.name), safe=""),  # names may have any bytes
        "shown": printable(file.name),
        "date": time_text(figures["started_at_s"]) if figures.get("started_at_s") else "",
        "scenario": printable(figures.get("scenario", "")),
        "store": printable(figures.get("store") or ""),
        "users": "" if figures.get("users_ran") is None else figures["users_ran"],
        "operations": figures.get("operations"),
        "errors": figures.get("errors"),
        "rate": "" if rate is None else f"{rate:,.1f}",
        "moved": "" if moved is None else f"{moved / 1e6:,.2f}",
        "p50": _percentile(figures, 50) if figures else "",
        "p99": _percentile(figures, 99) if figures else "",
        "fault": printable(file.fault),
        "is_known": file.is_known,
        "has_report": bool(figures),
    }


def _percentile(figures: Mapping[str, Any], percent: int) -> str:
    successes = figures["operations"] - figures["errors"]
    return latency_text(marked(percent, figures[f"p{percent}_s"], successes))


def _sort_values(file: StatFile) -> list[str | float | None]:
    """What the columns are sorted by."""
    figures = file.figures or {}
    numbers = ("users_ran", "operations", "errors", "operations_per_s", "moved_bytes_per_s",
               "p50_s", "p99_s")  # fmt: skip
    return [
        file.order_s,
        printable(figures.get("scenario", "")),
        printable(figures.get("store") or ""),
        *(figures.get(name) for name in numbers),
        printable(file.name),
    ]


@cache
def _template() -> Any:
    text = resources.files("ssbench.commands").joinpath("browse.html.j2").read_text("utf-8")
    return Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True).from_string(
        text
    )


_GZIP = b"\x1f\x8b"
_WRITTEN = "its run is still in progress"


class StatFile(NamedTuple):
    """A file of the folder."""

    name: str
    modified_s: float  #: wall clock, since 1970
    #: Of its report: ``started_at_s``, ``scenario`` and the figures of its summary. None: not known
    #: yet, or never.
    figures: Mapping[str, Any] | None = None
    fault: str = ""  #: what is wrong with it

    @property
    def is_known(self) -> bool:
        """Whether it was looked at."""
        return self.figures is not None or bool(self.fault)

    @property
    def order_s(self) -> float:
        """When its run started or, as long as that is not known, when it was written last."""
        return (self.figures or {}).get("started_at_s") or self.modified_s


class ResultsFolder:
    """The stat files of a folder, not of those below it. Threads may use it.

    :param memory: of ``read_stats``.
    :raises UsageError: it is no folder that can be read.
    """

    def __init__(self, path: str, memory: int = MEMORY) -> None:
        self.path = path
        self._memory = memory
        self._known: dict[tuple[str, int, int], StatFile] = {}  # by name, time and size
        self._reading = Lock()  # statistics take memory: one file at a time
        try:
            os.listdir(path)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}: name a folder of stat files") from error

    def files(self) -> list[StatFile]:
        """Those that are there now, the newest run first."""
        present = self._present()
        found = []
        for key, path in present:
            entry = self._known.get(key) or StatFile(key[0], key[1] / 1e9)
            if statfile.is_being_written(path):
                entry = entry._replace(fault=_WRITTEN)
            found.append(entry)
        for key in self._known.keys() - dict(present).keys():
            self._known.pop(key, None)
        return sorted(found, key=lambda each: each.order_s, reverse=True)

    def read_all(self) -> None:
        """Look at those that are not known yet; at once, if another thread does so."""
        if not self._reading.acquire(blocking=False):
            return
        try:
            for key, path in self._present():
                if key not in self._known and not statfile.is_being_written(path):
                    self._known[key] = _figures(StatFile(key[0], key[1] / 1e9), path, self._memory)
        finally:
            self._reading.release()

    def report(self, name: str) -> Report:
        """The report on a file.

        :raises UsageError: the folder has no such file.
        :raises StatFileError: it is not a stat file.
        """
        path = self._path(name)
        with self._reading:
            stats = read_stats(path, memory=self._memory)
            return of_run(stats, stats_file=path)

    def compare(self, names: Sequence[str]) -> Report:
        """The comparison of files with the one whose run began first.

        :raises UsageError, StatFileError: as ``report``; or there are fewer than two, or two of the
            same run.
        """
        if len(names) < 2:
            raise UsageError("tick two or more runs to compare")
        named = [(name, self._path(name)) for name in names]
        with self._reading:
            runs = read_distinct(named, memory=self._memory)
        runs.sort(key=lambda run: run[1].started_s or 0.0)
        return of_comparison(comparison(runs, seed=1))

    def _path(self, name: str) -> str:
        for (present, _, _), path in self._present():
            if present == name:
                return path
        raise UsageError(f"{name}: no stat file of this folder")

    def _present(self) -> list[tuple[tuple[str, int, int], str]]:
        """Name, time of change in ns and size of each stat file; and its path."""
        found = []
        with suppress(OSError), os.scandir(self.path) as entries:  # the folder may be gone
            for entry in entries:
                with suppress(FileNotFoundError):  # so may a file
                    # No links: they could lead out of the folder.
                    if entry.is_file(follow_symlinks=False) and _may_be_results(entry):
                        status = entry.stat(follow_symlinks=False)
                        key = (entry.name, status.st_mtime_ns, status.st_size)
                        found.append((key, entry.path))
        return found


def _may_be_results(entry: os.DirEntry[str]) -> bool:
    if ".stat" in entry.name:
        return True
    try:
        with open_file(entry.path, follow=False) as file:
            return file.read(len(_GZIP)) == _GZIP
    except (OSError, UsageError):
        return False


def _figures(entry: StatFile, path: str, memory: int) -> StatFile:
    try:
        stats = read_stats(path, memory=memory)
        made = of_run(stats)
    except SsbenchError as error:
        return entry._replace(fault=str(error).removeprefix(f"{path}: "))
    figures = {
        "started_at_s": made["run"]["started_at_s"],
        "scenario": made["settings"]["scenario_name"] or "",
        "store": made["store"]["line"],
        **made["summary"].row,
    }
    return entry._replace(figures=figures, fault="; ".join([*stats.run.damage, *unusual(stats)]))
