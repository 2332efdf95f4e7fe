"""Reads stat files, and judges their statistics by thresholds."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from ssbench import statfile
from ssbench.core.errors import ExitStatus, StatFileError, UsageError
from ssbench.core.model import SECOND_NS, Phase
from ssbench.core.operations import OPERATIONS, Operation
from ssbench.core.records import EventRecord, MarkRecord, PhaseRecord, Record, RunHeader
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.stats.budget import MEMORY, Budget
from ssbench.core.stats.merge import Part, check_distinct, end_of_load_ns, merged
from ssbench.core.stats.merge import check as check_parts
from ssbench.core.stats.run_records import RunRecords
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.selection import WHOLE, Selection
from ssbench.core.stats.thresholds import METRICS, Threshold, parse_figure, thresholds_of_run
from ssbench.host.process import tune_garbage_collector
from ssbench.report import render_html

if TYPE_CHECKING:
    from pandas import DataFrame

    from ssbench.core.stats.compare import Comparison
    from ssbench.core.stats.thresholds import ChangeRule

S = TypeVar("S")
T = TypeVar("T")

_TAIL_BYTES = 4 << 20  #: of a stat file, that are searched for the mark of the load's end


class StoredStats(RunStats):
    """The statistics of a stat file, with what a program asks of a run."""

    path = ""  #: of the stat file

    def metric(self, text: str) -> float | None:
        """A figure by its name in thresholds: ``p99``, ``p99.9(READ)``, ``mean(READ, "tiny")``,
        ``rate``, ``errors``.

        Latencies are in seconds; rates per second; throughput in bytes per second; others are
        counts. None: there was nothing to measure.

        :raises UsageError: there is no such figure, or the run has no such operation or size class.
        """
        figure = parse_figure(text, "metric", self.run.operations)
        figure.check(self.run.scenario, known=self.run.operations, what=f"metric {figure.name}")
        actual = figure.judge(self).actual
        is_latency = figure.metric not in METRICS
        return actual / SECOND_NS if is_latency and actual is not None else actual

    def to_pandas(self) -> DataFrame:
        """Each operation of the run, or of its part, as a row of a pandas DataFrame.

        The columns are those of ``report-scenario --parquet``.

        :raises ImportError: pandas is not installed.
        :raises StatFileError: the file can't be read again.
        """
        from pandas import DataFrame

        from ssbench.report.operations import ALL_COLUMNS, operations  # loads slowly

        with statfile.read(self.path) as reader:
            rows = operations(reader, ends_of_load([self.path]), self.chosen)
            return DataFrame.from_records(rows, columns=[*ALL_COLUMNS])

    def to_html(self) -> str:
        """The report as a page, with charts if ssbench[html] is installed.

        :raises StatFileError: the file can't be read again.
        """
        from ssbench.report.run import of_run  # loads slowly

        stats = read_stats(self.path, chosen=self.chosen)
        return render_html(of_run(stats, stats_file=self.path))


def ends_of_load(paths: Iterable[str]) -> dict[str, int]:
    """Run id -> when the load ended, of runs with a cool-down."""
    found = {}
    for path in paths:
        with statfile.read(path) as reader:
            first = next(iter(reader), None)
        if isinstance(first, RunHeader) and (end_ns := _end_of_load_ns(path, first)) is not None:
            found[first.run_id] = end_ns
    return found


def read_stats(
    path: str,
    warn: Callable[[str], None] | None = None,
    *,
    memory: int = MEMORY,
    chosen: Selection = WHOLE,
) -> StoredStats:
    """The statistics of a stat file.

    :param warn: called with each line on what is wrong with it; ``run.damage`` has these, too.
    :param memory: of the Budget.
    :param chosen: the part of the run that they are of.
    :raises StatFileError: the file is not a stat file.
    :raises UsageError: the run does not have this part.
    """
    with ExitStack() as stack:
        stack.callback(tune_garbage_collector())
        reader = stack.enter_context(statfile.read(path))
        records = iter(reader)
        first = next(records)
        end_ns = _end_of_load_ns(path, first)
        if chosen.needs_times:
            chosen = _times_of_file(path, chosen)
        budget = Budget(lambda: reader.bytes_read, memory)
        stats = StoredStats.of(chain([first], records), end_ns, budget=budget, chosen=chosen)
        stats.path = path
        stats.run.damage += reader.damage
        stats.run.unknown_records = reader.unknown_records
        for line in [*stats.run.damage, *reader.notes]:
            if warn is not None:
                warn(f"{path}: {line}")
        stats.check_chosen(path)
        return stats


def read_distinct(
    named: Iterable[tuple[str, str]],
    warn: Callable[[str], None] | None = None,
    memory: int = MEMORY,
    chosen: Selection = WHOLE,
) -> list[tuple[str, RunStats]]:
    """Names and statistics of runs to compare.

    :param named: name and path of each stat file.
    :param warn, memory, chosen: as of ``read_stats``.
    :raises StatFileError: one of the files is not a stat file.
    :raises UsageError: two of them are of the same run, or one does not have this part.
    """
    found: list[tuple[str, RunStats]] = [
        (name, read_stats(path, warn, memory=memory, chosen=chosen)) for name, path in named
    ]
    check_distinct((name, stats.run.header) for name, stats in found)
    return found


def read_merged(
    paths: Sequence[str],
    warn: Callable[[str], None] | None = None,
    *,
    memory: int = MEMORY,
    chosen: Selection = WHOLE,
) -> tuple[RunStats, list[Part]]:
    """The statistics of the runs of several masters, as of one run; and these runs.

    :param warn, memory, chosen: as of ``read_stats``.
    :raises StatFileError: one of the files is not a stat file.
    :raises UsageError: the runs do not go together, or do not have this part.
    """
    with ExitStack() as stack:
        stack.callback(tune_garbage_collector())
        parts = []
        for path in paths:
            with statfile.read(path) as reader:
                parts.append(Part.of(path, reader.without_results()))
        check_parts(parts)
        if chosen.needs_times:
            chosen = _times_of(merged(parts, [()] * len(parts)), chosen, ", ".join(paths))
        readers = [stack.enter_context(statfile.read(path)) for path in paths]
        budget = Budget(lambda: sum(reader.bytes_read for reader in readers), memory)
        records, end_ns = merged(parts, readers), end_of_load_ns(parts)
        stats = RunStats.of(records, end_ns, budget=budget, chosen=chosen)
        stats.run.damage += [f"{each.name}: {line}" for each in readers for line in each.damage]
        stats.run.unknown_records = sum(each.unknown_records for each in readers)
        notes = [f"{each.name}: {line}" for each in readers for line in each.notes]
        for line in [*stats.run.damage, *notes]:
            if warn is not None:
                warn(line)
        stats.check_chosen(", ".join(paths))
        return stats, parts


def _times_of_file(path: str, chosen: Selection) -> Selection:
    """The part with the times of its stage or marks, whose records are behind results.

    :raises UsageError: there is no such stage or mark, or the file can't be read a second time.
    """
    _check_twice(path, "a run of which a --stage, or the time of a mark, is asked for")
    with statfile.read(path) as reader:
        return _times_of(reader.without_results(), chosen, path)


def _times_of(records: Iterable[Record], chosen: Selection, name: str) -> Selection:
    run, started_s = RunRecords(), 0.0
    for record in records:
        if isinstance(record, RunHeader | MarkRecord | EventRecord):
            run.add(record)
        elif isinstance(record, PhaseRecord) and record.phase is Phase.RUN:
            started_s = record.started_at
    return run.times_of(chosen, name, started_s)


def _check_twice(path: str, what: str) -> None:
    """:raises UsageError: a pipe can't be read a second time."""
    if path == "-" or not os.path.isfile(statfile.existing_path(path)):  # another pipe
        name = "stdin" if path == "-" else path
        raise UsageError(f"{name}: {what} must be read twice: name the file")


def _end_of_load_ns(path: str, first: Record) -> int | None:
    """When the load was marked as ended, which its cool-down counts from; None if there is no
    cool-down. The file has the mark after the results.

    :raises UsageError: the file can't be read a second time.
    """
    if not isinstance(first, RunHeader) or not Scenario.of_header(first.scenario).cooldown:
        return None
    _check_twice(path, "a run with a cool-down")
    for tail_bytes in (_TAIL_BYTES, None):  # the mark may be far from the end: then all is read
        with suppress(StatFileError), statfile.read(path, tail_bytes=tail_bytes) as reader:
            for record in reader.without_results():
                if isinstance(record, MarkRecord) and record.name == "end":
                    return record.at_ns
    return None


def parse_thresholds(
    texts: Iterable[str],
    option: str = "--threshold",
    known: Mapping[int, Operation] | None = OPERATIONS,
) -> tuple[Threshold, ...]:
    """Each threshold once, in the order given.

    :param known: as of ``Threshold.parse``.
    :raises UsageError: a line for each that is malformed.
    """
    return tuple(_each(lambda text: Threshold.parse(text, option, known), dict.fromkeys(texts)))


def check_thresholds(thresholds: Sequence[Threshold], scenario: Scenario, **known: Any) -> None:
    """Check that a run of the scenario can meet or miss each threshold.

    :param known: what is known of the run, as of ``Threshold.check``.
    :raises UsageError: a line for each threshold on what the run does not have.
    """
    _each(lambda threshold: threshold.check(scenario, **known), thresholds)


def _each(call: Callable[[S], T], items: Iterable[S]) -> list[T]:
    """The result of the call with each item.

    :raises UsageError: a line for each item with which it raises one.
    """
    found, faults = [], []
    for item in items:
        try:
            found.append(call(item))
        except UsageError as error:
            faults.append(str(error))
    if faults:
        raise UsageError("\n".join(faults))
    return found


def missed_thresholds(stats: RunStats, thresholds: Sequence[Threshold]) -> dict[ExitStatus, str]:
    """THRESHOLD_MISSED and those that the run missed, the scenario's included; empty if none."""
    thresholds = thresholds_of_run(stats, thresholds)
    missed = [str(each) for each in thresholds if not each.judge(stats).passed]
    return {ExitStatus.THRESHOLD_MISSED: f"missed {'; '.join(missed)}"} if missed else {}


def failed_rules(found: Comparison, rules: Sequence[ChangeRule]) -> dict[ExitStatus, str]:
    """THRESHOLD_MISSED and the rules that a change met; empty if none did."""
    judged = [(rule, each) for rule in rules for each in found.judge(rule)]
    failed = [f"{rule} ({each.side}: {each.text})" for rule, each in judged if not each.passed]
    return {ExitStatus.THRESHOLD_MISSED: f"failed {'; '.join(failed)}"} if failed else {}
