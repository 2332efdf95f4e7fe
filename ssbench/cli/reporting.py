"""Reads stat files and writes reports on them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

from ssbench import report, statfile
from ssbench.cli.console import tell
from ssbench.core.errors import SsbenchError, UsageError
from ssbench.core.records import MarkRecord, Record, RunHeader
from ssbench.core.stats.run_records import RunRecords
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.scenario_view import ScenarioView
from ssbench.core.stats.thresholds import Threshold
from ssbench.host.process import tune_garbage_collector

_GZIP = b"\x1f\x8b"  #: what stat files, of any age, begin with


def read_stats(path: str) -> RunStats:
    """The statistics of a stat file; what is wrong with it is said on stderr.

    :raises StatFileError: where it is none.
    """
    tune_garbage_collector()
    with statfile.read(path) as reader:
        records = reader.merged()
        first = next(records)
        stats = RunStats.of(chain([first], records), _end_of_load_ns(path, first))
        stats.run.damage += reader.damage
        for line in [*reader.damage, *reader.notes]:
            tell(f"{path}: {line}")
    return stats


def _end_of_load_ns(path: str, first: Record) -> int | None:
    """From which a cool-down counts; None where there is none. It is told behind the results.

    :raises UsageError: where the file can't be read a second time.
    """
    if not isinstance(first, RunHeader) or not ScenarioView.of(first.scenario).cooldown_s:
        return None
    if path == "-":
        raise UsageError("stdin: a run with a cool-down must be read twice: name the file")
    facts = RunRecords()
    with statfile.read(path) as reader:
        for record in reader.without_results():
            if isinstance(record, RunHeader | MarkRecord):
                facts.add(record)
    return facts.end_ns


def write_report(
    stats: RunStats,
    form: str,
    percentiles: Sequence[float] | None,
    path: str | None = None,
    *,
    thresholds: Sequence[Threshold] = (),
) -> None:
    """Render and write to a file, or to standard output."""
    made = report.of_run(stats, percentiles or (95.0,), thresholds)
    write(report.render(made, form), path)


def write_rps(stats: RunStats, path: str) -> None:
    """Write the requests-per-second histogram."""
    write(report.rps_csv(report.of_run(stats)), path)


def write_series(stats: RunStats, path: str) -> None:
    """Write the run by seconds."""
    write(report.time_series_csv(report.of_run(stats)), path)


def write_host_stats(stats_file: str, path: str) -> None:
    """Write the live figures of machines and processes, without holding them all."""
    with statfile.read(stats_file) as reader:
        names = report.host_columns(reader)
    with statfile.read(stats_file) as reader:
        rows = report.host_rows(reader, names)
        if path == "-":
            for row in rows:
                _print(row)
            return
        _refuse_to_overwrite_results(path)
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(rows)
        except OSError as error:
            raise SsbenchError(f"{path}: can't be written: {error.strerror}") from error


def write(text: str, path: str | None) -> None:
    """Write to a file; None and ``-`` stand for standard output."""
    if path is None or path == "-":
        _print(text)
        return
    _refuse_to_overwrite_results(path)
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise SsbenchError(f"{path}: can't be written: {error.strerror}") from error


def _refuse_to_overwrite_results(path: str) -> None:
    """A slip of the keyboard must not cost a run: no report goes where packed data is.

    :raises UsageError: where it is.
    """
    with suppress(OSError):  # writing will tell
        if Path(path).is_file():
            with open(path, "rb") as file:
                packed = file.read(len(_GZIP)) == _GZIP
            if packed:
                raise UsageError(f"{path}: is a stat file and is not overwritten")


def _print(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # What Python still holds for it goes nowhere, without a last word when we end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # then whoever read it has enough
            raise SsbenchError(f"cannot print the report: {error.strerror}") from error
