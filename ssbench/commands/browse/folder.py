"""A folder of results: which stat files it has, and the main figures of each."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any, NamedTuple

from ssbench import report, statfile
from ssbench.core.errors import SsbenchError, UsageError
from ssbench.core.stats.compare import comparison
from ssbench.report import Report
from ssbench.report.comparison import of_comparison
from ssbench.report.notes import unusual
from ssbench.runner.results import read_distinct, read_stats

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


class ResultsFolder:
    """The stat files of a folder, not of those below it. Threads may use it.

    :raises UsageError: it is no folder that can be read.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._known: dict[tuple[str, int, int], StatFile] = {}  # by name, time and size
        self._reading = Lock()  # statistics take memory: one file at a time
        try:
            os.listdir(path)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}: name a folder of stat files") from error

    def files(self) -> list[StatFile]:
        """Those that are there now, newest first."""
        present = self._present()
        found = []
        for key, path in present:
            entry = self._known.get(key) or StatFile(key[0], key[1] / 1e9)
            if statfile.is_being_written(path):
                entry = entry._replace(fault=_WRITTEN)
            found.append(entry)
        for key in self._known.keys() - dict(present).keys():
            self._known.pop(key, None)
        return sorted(found, key=lambda each: each.modified_s, reverse=True)

    def read_all(self) -> None:
        """Look at those that are not known yet; at once, if another thread does so."""
        if not self._reading.acquire(blocking=False):
            return
        try:
            for key, path in self._present():
                if key not in self._known and not statfile.is_being_written(path):
                    self._known[key] = _figures(StatFile(key[0], key[1] / 1e9), path)
        finally:
            self._reading.release()

    def report(self, name: str) -> Report:
        """The report on a file.

        :raises UsageError: the folder has no such file.
        :raises StatFileError: it is not a stat file.
        """
        path = self._path(name)
        with self._reading:
            return report.of_run(read_stats(path, in_detail=True), stats_file=path)

    def compare(self, names: Sequence[str]) -> Report:
        """The comparison of files with the one whose run began first.

        :raises UsageError, StatFileError: as ``report``; or there are fewer than two, or two of the
            same run.
        """
        if len(names) < 2:
            raise UsageError("tick two or more runs to compare")
        named = [(name, self._path(name)) for name in names]
        with self._reading:
            runs = read_distinct(named)
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
        with open(entry.path, "rb") as file:
            return file.read(len(_GZIP)) == _GZIP
    except OSError:
        return False


def _figures(entry: StatFile, path: str) -> StatFile:
    try:
        stats = read_stats(path)
        made = report.of_run(stats)
    except SsbenchError as error:
        return entry._replace(fault=str(error).removeprefix(f"{path}: "))
    figures = {
        "started_at_s": made["run"]["started_at_s"],
        "scenario": made["settings"]["scenario_name"] or "",
        **made["summary"].row,
    }
    return entry._replace(figures=figures, fault="; ".join([*stats.run.damage, *unusual(stats)]))
