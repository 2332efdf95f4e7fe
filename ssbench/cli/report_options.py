"""Options of the commands that read stat files: report-scenario and compare."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ssbench.cli.shared_options import (
    add_format,
    add_pctile,
    add_threshold,
    format_of,
    percentiles_from,
)
from ssbench.cli.threshold_status import thresholds_from
from ssbench.core import option as types
from ssbench.core.errors import UsageError

if TYPE_CHECKING:
    from ssbench.core.operations import Operation
    from ssbench.core.stats.thresholds import Threshold


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """Options of report-scenario."""

    stats_file: str
    report_file: str | None  #: None: stdout
    percentiles: tuple[float, ...]
    thresholds: tuple[Threshold, ...]
    format: str  #: "text", "csv" or "json"
    rps_histogram: str | None
    time_series: str | None
    host_stats: str | None
    profile: bool


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """Options of compare."""

    stats_files: tuple[str, ...]
    operations: tuple[int, ...]  #: empty: all together, and each
    percentiles: tuple[float, ...]
    json: bool
    seed: int


def add_report_scenario(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "-s",
        "--stats-file",
        required=True,
        metavar="STATS_FILE",
        help="results to report on, including those of ssbench 0.3.9",
    )
    add(
        "-f",
        "--report-file",
        metavar="REPORT_FILE",
        help="write the report to this file [default: standard output]",
    )
    add_pctile(parser)
    add_threshold(parser)
    add_format(parser.add_mutually_exclusive_group(), "two lines of CSV", "all statistics, as JSON")
    add(
        "-r",
        "--rps-histogram",
        metavar="FILE",
        help="write the number of requests of each second to this file, as CSV",
    )
    add(
        "--time-series",
        metavar="FILE",
        help="write operations, bytes, errors, latencies and operations in flight of each second "
        "to this file, as CSV",
    )
    add(
        "--host-stats",
        metavar="FILE",
        help="write CPU, memory, network, disk and other metrics of the workers' and the master's "
        "hosts to this file, one row per second, as CSV",
    )
    add("--profile", action="store_true",
        help="profile the report's generation with cProfile")  # fmt: skip


def add_compare(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "stats_files",
        nargs="+",
        metavar="STATS_FILE",
        help="results of two or more runs; the others are compared with the first",
    )
    add(
        "--operation",
        type=operation,
        action="append",
        dest="operations",
        metavar="OPERATION",
        help="compare only this operation, such as READ; may be repeated [default: all together "
        "and each on its own]",
    )
    add(
        "--pctile",
        type=types.percentile,
        action="append",
        dest="percentiles",
        metavar="PERCENTILE",
        help="latency percentile to compare, such as 99.9; may be repeated [default: 50, 90, 95, "
        "99 and 99.9]",
    )
    add("--json", action="store_true", help="all statistics, as JSON")
    add("--seed", type=types.whole(0), default=1, metavar="NUMBER",
        help="seed of the resampling for intervals; the same seed repeats them")  # fmt: skip


def report_options(ns: argparse.Namespace) -> ReportOptions:
    """Options of report-scenario from a parsed command line.

    :raises UsageError: if the report would overwrite the stat file.
    """
    files = {
        "-f": ns.report_file,
        "-r": ns.rps_histogram,
        "--time-series": ns.time_series,
        "--host-stats": ns.host_stats,
    }
    from ssbench.statfile import existing_path  # lazy: other commands do not need it

    stats_file = existing_path(ns.stats_file)
    for option, path in files.items():
        if path and _same_file(path, stats_file):
            raise UsageError(f"{option} {path}: this is the stat file itself; name another file")
    return ReportOptions(
        stats_file=stats_file,
        report_file=ns.report_file,
        percentiles=percentiles_from(ns),
        thresholds=thresholds_from(ns),
        format=format_of(ns),
        rps_histogram=ns.rps_histogram,
        time_series=ns.time_series,
        host_stats=ns.host_stats,
        profile=ns.profile,
    )


def compare_options(ns: argparse.Namespace) -> CompareOptions:
    """Options of compare from a parsed command line.

    :raises UsageError: for fewer than two stat files.
    """
    from ssbench.core.stats.compare import PERCENTS  # lazy: other commands do not need it

    if len(ns.stats_files) < 2:
        raise UsageError(f"{ns.stats_files[0]}: only one stat file; name two or more to compare")
    if ns.stats_files.count("-") > 1:
        raise UsageError("-: standard input can be only one stat file; name the others")
    return CompareOptions(
        stats_files=tuple(ns.stats_files),
        operations=tuple(dict.fromkeys(ns.operations or ())),
        percentiles=tuple(sorted(set(ns.percentiles or PERCENTS))),
        json=ns.json,
        seed=ns.seed,
    )


def _same_file(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False  # one of them does not exist


def operation(text: str) -> Operation:
    """An operation of a run, in any case; GET is READ, PUT is CREATE."""
    from ssbench.core.model import Phase
    from ssbench.core.operations import of_phase, operation_named

    row = operation_named(text)
    if row is None:
        known = ", ".join(each.name for each in of_phase(Phase.RUN))
        raise UsageError(f"{text!r}: give one of {known}, GET or PUT")
    return row
