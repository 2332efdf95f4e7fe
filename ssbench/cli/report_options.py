"""Options of the commands that read stat files, report-scenario and compare; what they come to."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ssbench.cli import option_types as types
from ssbench.cli.shared_options import (
    add_format,
    add_pctile,
    add_threshold,
    format_of,
    percentiles_from,
)
from ssbench.cli.threshold_status import thresholds_from
from ssbench.core.errors import UsageError

if TYPE_CHECKING:
    from ssbench.core.stats.thresholds import Threshold


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """report-scenario."""

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
    """compare."""

    stats_files: tuple[str, ...]
    operations: tuple[int, ...]  #: none: all together, and each
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
        help="results to report on; those of ssbench 0.3.9 can be read too",
    )
    add(
        "-f",
        "--report-file",
        metavar="REPORT_FILE",
        help="write the report here [default: standard output]",
    )
    add_pctile(parser)
    add_threshold(parser)
    add_format(
        parser.add_mutually_exclusive_group(), "two lines of CSV", "everything there is, as JSON"
    )
    add(
        "-r",
        "--rps-histogram",
        metavar="FILE",
        help="write the number of requests in each second here, as CSV",
    )
    add(
        "--time-series",
        metavar="FILE",
        help="write operations, bytes, errors, latencies and operations in flight of each second "
        "here, as CSV",
    )
    add(
        "--host-stats",
        metavar="FILE",
        help="write the live figures of the workers' and the master's machines here, a row a "
        "second, as CSV",
    )
    add("--profile", action="store_true",
        help="profile the making of the report with cProfile")  # fmt: skip


def add_compare(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "stats_files",
        nargs="+",
        metavar="STATS_FILE",
        help="results of two or more runs; the first is what the others are held against",
    )
    add(
        "--operation",
        type=types.operation,
        action="append",
        dest="operations",
        metavar="OPERATION",
        help="compare only this operation, such as READ; may be repeated [default: all together "
        "and each]",
    )
    add(
        "--pctile",
        type=types.percentile,
        action="append",
        dest="percentiles",
        metavar="PERCENTILE",
        help="percentile of latencies to compare, fractions too; may be repeated; 50, 90, 95, 99 "
        "and 99.9, unless given",
    )
    add("--json", action="store_true", help="everything there is, as JSON")
    add("--seed", type=types.whole(0), default=1, metavar="NUMBER",
        help="resamples for the intervals are drawn with it: the same gives the same")  # fmt: skip


def report_options(ns: argparse.Namespace) -> ReportOptions:
    """What report-scenario was told.

    :raises UsageError: where the report would overwrite the results.
    """
    files = {
        "-f": ns.report_file,
        "-r": ns.rps_histogram,
        "--time-series": ns.time_series,
        "--host-stats": ns.host_stats,
    }
    from ssbench.statfile import existing_path  # other commands do without it

    stats_file = existing_path(ns.stats_file)
    for option, path in files.items():
        if path and _same_file(path, stats_file):
            raise UsageError(f"{option} {path}: that is the stat file itself; name another file")
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
    """What compare was told.

    :raises UsageError: where there is nothing to compare with.
    """
    from ssbench.core.stats.compare import PERCENTS  # no other command has a use for it

    if len(ns.stats_files) < 2:
        raise UsageError(f"{ns.stats_files[0]}: one stat file alone; name two or more to compare")
    if ns.stats_files.count("-") > 1:
        raise UsageError("-: standard input is one stat file; name the other")
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
        return False  # one of them isn't there
