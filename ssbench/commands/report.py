"""``report-scenario`` and ``compare``: stat files in, reports out."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ssbench import statfile
from ssbench.cli.config import values_of
from ssbench.cli.console import (
    profiled,
    result_file,
    tell,
    tell_status,
    write_report,
    write_report_files,
    write_result,
)
from ssbench.core.errors import ExitStatus, UsageError
from ssbench.core.records import Record
from ssbench.core.stats.merge import Part
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.selection import Selection
from ssbench.core.stats.thresholds import metric_of
from ssbench.report.as_csv import (
    dstat_head,
    dstat_rows,
    host_columns,
    host_rows,
    hosts_of,
    rps_csv,
    time_series_csv,
)
from ssbench.report.load_generator import collapsed_stacks
from ssbench.report.model import Report
from ssbench.report.operations import operation_json, operation_rows, write_parquet
from ssbench.report.run import of_run
from ssbench.runner.results import (
    check_thresholds,
    ends_of_load,
    failed_rules,
    missed_thresholds,
    parse_thresholds,
    read_distinct,
    read_merged,
    read_stats,
)

if TYPE_CHECKING:
    from ssbench.core.stats.intervals import Sides

#: Files of these options that replace the report if they are "-". (That of --rps-histogram follows
#: it there, as in 0.3.9.)
_INSTEAD = (
    "operations_file", "jsonl", "profile_file", "html", "junit", "time_series", "host_stats",
    "dstat",
)  # fmt: skip


def report_scenario(ns: argparse.Namespace) -> ExitStatus:
    """Print or write the reports on a run, or on several that are merged.

    :raises UsageError: runs cannot be merged.
    :raises StatFileError: a file is not a stat file.
    """
    given = [ns.stats_file] if ns.stats_file else ns.stats_files
    if len(given) > 1 and "-" in given:
        raise UsageError("-: standard input cannot be merged: name the file")
    paths = [statfile.existing_path(each) for each in given]
    if ns.parquet:
        _check_parquet(ns.parquet)
    texts = ns.thresholds or ()
    early = parse_thresholds(texts, known=None)  # before the file is read, which may take long
    chosen = Selection(**values_of(Selection, ns))
    chosen.check()
    for each in early:
        if chosen and not metric_of(each.metric).scoped:
            raise UsageError(
                f"--threshold '{each}': {each.metric} is known of whole runs only: leave it "
                f"or the part out ({chosen.text})"
            )
    with profiled(ns.profile, "report"):
        parts: list[Part] = []
        stats: RunStats
        if len(paths) == 1:
            stats = read_stats(paths[0], tell, memory=ns.report_memory, chosen=chosen)
        else:
            stats, parts = read_merged(paths, tell, memory=ns.report_memory, chosen=chosen)
        wanted = parse_thresholds(texts, known=stats.run.operations)
        check_thresholds(wanted, stats.run.scenario, known=stats.run.operations)
        if ns.profile_file and not stats.run.profiles:
            raise UsageError(f"--profile-file: {paths[0]} has no profile: run with --profile")
        made = of_run(
            stats,
            tuple(dict.fromkeys(ns.percentiles)),
            wanted,
            stats_file=None if paths == ["-"] else ", ".join(paths),
            parts=parts,
        )
        if ns.report_file or "-" not in (getattr(ns, name) for name in _INSTEAD):
            write_report(made, ns.format, ns.report_file)
        write_report_files(ns, made)
        _write_data_files(ns, paths, stats, made)
    reasons = missed_thresholds(stats, wanted)
    return tell_status(reasons | _missing_results(() if stats.run.complete else paths))


def _missing_results(paths: Sequence[str]) -> dict[ExitStatus, str]:
    """FAILED for these files of a run that is not complete; empty without any."""
    reason = f"{', '.join(paths)}: some results of the run are missing"
    return {ExitStatus.FAILED: reason} if paths else {}


def _write_data_files(
    ns: argparse.Namespace, paths: Sequence[str], stats: RunStats, made: Report
) -> None:
    """Write the files for other programs; those of single records as the stat files are read."""
    chosen = stats.chosen
    if ns.operations_file:
        ends_ns = ends_of_load(paths)
        rows = operation_rows(_records(paths), ends_ns=ends_ns, chosen=chosen)
        write_result(rows, ns.operations_file)
    if ns.jsonl:
        write_result(operation_json(_records(paths), ends_of_load(paths), chosen), ns.jsonl)
    if ns.parquet:
        with result_file(ns.parquet) as file:
            write_parquet(_records(paths), file, ends_of_load(paths), chosen)
    if ns.profile_file:
        write_result(collapsed_stacks(stats.run), ns.profile_file)
    if ns.rps_histogram:
        write_result([rps_csv(made)], ns.rps_histogram)
    if ns.time_series:
        write_result([time_series_csv(made)], ns.time_series)
    if ns.host_stats:
        names = host_columns(_records(paths))
        write_result(host_rows(_records(paths), names), ns.host_stats)
    if ns.dstat:
        write_result(_dstat(paths), ns.dstat)


def compare(ns: argparse.Namespace) -> ExitStatus:
    """Print how the runs of some stat files differ.

    :raises UsageError: fewer than two stat files, or two of the same run.
    :raises StatFileError: one of them is not a stat file.
    """
    paths, sides = _sides(ns.stats_files)
    if len(paths) < 2:
        raise UsageError(f"{paths[0]}: only one stat file; name two or more to compare")
    if paths.count("-") > 1:
        raise UsageError("-: standard input can be only one stat file; name the others")
    from ssbench.core.stats.compare import comparison
    from ssbench.core.stats.intervals import PERCENTS
    from ssbench.core.stats.thresholds import ChangeRule  # few processes need these
    from ssbench.report.comparison import of_comparison

    rules_given = tuple(dict.fromkeys(ns.fail_if or ()))
    for text in rules_given:
        ChangeRule.parse(text, None)  # before the files are read, which may take long
    chosen = Selection(**values_of(Selection, ns))
    chosen.check()
    named = read_distinct(zip(paths, paths, strict=True), tell, ns.report_memory, chosen)
    known = {number: row for _name, each in named for number, row in each.run.operations.items()}
    rules = [ChangeRule.parse(text, known) for text in rules_given]
    percents = {*(ns.percentiles or PERCENTS)} | {each.percentile or 50 for each in rules}
    operations = list(ns.operations or ())
    if operations:  # otherwise all
        operations += [each.operation for each in rules]
    found = comparison(
        named,
        seed=ns.seed,
        operations=operations,
        percents=tuple(sorted(percents)),
        sides=sides,
    )
    made = of_comparison(found, rules)
    write_report(made, ns.format)
    write_report_files(ns, made)
    reasons = _missing_results([path for path, stats in named if not stats.run.complete])
    return tell_status(reasons | failed_rules(found, rules))


def _sides(words: Sequence[str]) -> tuple[list[str], Sides | None]:
    """The paths, and how many of them each side has; None: each is one.

    :raises UsageError: a side without a path.
    """
    from ssbench.core.stats.intervals import Sides

    groups: list[list[str]] = [[]]
    for word in words:
        if word == "vs":
            groups.append([])
        else:
            groups[-1].append(word)
    if len(groups) > 1 and not all(groups):
        raise UsageError("vs: name a stat file on either side of it")
    paths = [path for group in groups for path in group]
    is_grouped = len(groups) > 1 and len(paths) > len(groups)
    return paths, Sides(tuple(map(len, groups))) if is_grouped else None


def _check_parquet(path: str) -> None:
    if path == "-":
        raise UsageError("--parquet -: Parquet is not text: name a file")
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise UsageError(
            "--parquet: pyarrow is not installed: in ssbench's checkout, pip install '.[parquet]'"
        ) from error


def _records(paths: Sequence[str]) -> Iterator[Record]:
    """The records of the files, one file after the other."""
    for path in paths:
        with statfile.read(path) as reader:
            yield from reader


def _dstat(paths: Sequence[str]) -> Iterator[str]:
    """The lines of --dstat, one host after the other: a run may have more than memory holds."""
    yield dstat_head()
    for host in hosts_of(_records(paths)):
        yield from dstat_rows(_records(paths), host)
