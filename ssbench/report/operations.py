"""Each operation of a run, as CSV, JSON lines and Parquet; and how many completed in each minute.

The columns and their names are those of nectar's benchmark (``-csv``, ``-csvot``).
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, repeat
from typing import IO, Any

from ssbench.core.errors import MessageError
from ssbench.core.model import NONE_NS, SECOND_NS, Phase, error_label
from ssbench.core.naming import Naming, naming_of
from ssbench.core.operations import Operation, Target, row_of
from ssbench.core.records import (
    AddressRecord,
    ClockRecord,
    MarkRecord,
    PhaseRecord,
    Record,
    ResultBatch,
    RunHeader,
    WorkerRecord,
)
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.settings import StorageSettings
from ssbench.core.stats.findings import LONGEST_RUN
from ssbench.core.stats.results import LEFT_OUT, PhaseResults
from ssbench.core.stats.run_records import RunRecords
from ssbench.core.stats.selection import WHOLE, Chosen, Selection
from ssbench.core.stats.windows import Windows
from ssbench.core.text import for_spreadsheet, printable

#: Of put, post and delete; of get and head; of mixed; of any run.
WRITE_COLUMNS = (
    "completion_time_unix_nano", "object_name", "transaction_id", "status", "elapsed_nanoseconds",
)  # fmt: skip
READ_COLUMNS = (*WRITE_COLUMNS[:-1], "headers_elapsed_nanoseconds", WRITE_COLUMNS[-1])
MIXED_COLUMNS = (WRITE_COLUMNS[0], "method", *WRITE_COLUMNS[1:])
ALL_COLUMNS = (
    WRITE_COLUMNS[0], "method", *READ_COLUMNS[1:], "bytes", "retries", "error", "size_class",
    "worker", "start_time_unix_nano", "due_time_unix_nano", "counted", "endpoint", "address",
    "identity",
)  # fmt: skip

_TEXTS = (
    "method", "object_name", "transaction_id", "error", "size_class", "worker", "endpoint",
    "address", "identity",
)  # fmt: skip
_ROW_GROUP = 1 << 16  #: rows of Parquet that are in memory at a time, and that a reader can skip
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1

_MINUTE_NS = 60 * SECOND_NS
#: Of a run that has a line for each minute; what completed later is in the last line.
_LONGEST_NS = LONGEST_RUN * SECOND_NS
_TIMES = ("operation", "start_ns", "last_byte_ns", "error")
_FIELDS = (
    "operation", "size_class", "object", "start_ns", "last_byte_ns", "status", "headers_ns",
    "bytes_moved", "retries", "error", "transaction_id", "due_ns",
)  # fmt: skip


def operation_rows(
    records: Iterable[Record],
    columns: Sequence[str] = ALL_COLUMNS,
    ends_ns: Mapping[str, int] = {},
    chosen: Selection = WHOLE,
) -> Iterator[str]:
    """Lines of CSV: the names of the columns, then each operation of the run phase, failed ones
    included, in the order in which they were reported. What is None in ``_batches`` is empty.

    :param columns: a selection of ALL_COLUMNS.
    :param ends_ns, chosen: as of ``operations``.
    """
    pick = [ALL_COLUMNS.index(name) for name in columns]
    yield _lines([columns])
    for rows in _batches(records, ends_ns, chosen):
        yield _lines([_shown(row[at]) for at in pick] for row in rows)


def operations(
    records: Iterable[Record], ends_ns: Mapping[str, int] = {}, chosen: Selection = WHOLE
) -> Iterator[Sequence[Any]]:
    """The same operations as rows of ALL_COLUMNS, with None for what is not known.

    :param ends_ns: by run id, of runs with a cool-down: when the load ended, which the records
        say after the results.
    :param chosen: only operations of this part of the run.
    """
    return chain.from_iterable(_batches(records, ends_ns, chosen))


def operation_json(
    records: Iterable[Record], ends_ns: Mapping[str, int] = {}, chosen: Selection = WHOLE
) -> Iterator[str]:
    """The same operations, a JSON object with ALL_COLUMNS in each line."""
    for rows in _batches(records, ends_ns, chosen):
        yield "".join(f"{json.dumps(dict(zip(ALL_COLUMNS, row, strict=True)))}\n" for row in rows)


def write_parquet(
    records: Iterable[Record],
    file: IO[bytes],
    ends_ns: Mapping[str, int] = {},
    chosen: Selection = WHOLE,
) -> None:
    """Write the same operations as Parquet, with ALL_COLUMNS: text, truth values, and whole
    numbers of 64 bits.

    A number that has more bits, which only a damaged file has, becomes null.

    :raises ImportError: pyarrow is not installed.
    :raises OSError: the file can't be written.
    """
    import pyarrow
    from pyarrow import parquet

    types = {"counted": pyarrow.bool_(), **dict.fromkeys(_TEXTS, pyarrow.string())}
    schema = pyarrow.schema([(name, types.get(name, pyarrow.int64())) for name in ALL_COLUMNS])
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        rows = operations(records, ends_ns, chosen)
        while group := list(islice(rows, _ROW_GROUP)):
            columns = [
                [None if type(v) is int and not _LEAST <= v <= _MOST else v for v in column]
                for column in zip(*group, strict=True)
            ]
            writer.write_table(pyarrow.table(columns, schema=schema))


def over_time_rows(records: Iterable[Record], methods: Sequence[str] = ()) -> Iterator[str]:
    """Lines of CSV: the successes since the line before: at the start (zeros), then each minute,
    and at the end.

    :param methods: count these apart, in columns of their names; (): one number for all.
    """
    run = _Run()
    counts: Counter[tuple[int, int]] = Counter()
    start_ns = end_ns = None
    latest_ns = 0  # completion, since the start
    for record in records:
        run.add(record)
        if isinstance(record, MarkRecord) and record.name == "end":
            end_ns = max(end_ns or 0, run.origin_ns + record.at_ns)
        elif isinstance(record, MarkRecord) and start_ns is None:
            start_ns = run.origin_ns + record.at_ns
        elif isinstance(record, ResultBatch) and record.phase is Phase.RUN:
            start_ns = run.origin_ns if start_ns is None else start_ns
            since_ns = run.origin_of(record) - start_ns
            for operation, begin_ns, took_ns, error in run.columns(record, _TIMES):
                at_ns = min(max(since_ns + begin_ns + took_ns, 0), _LONGEST_NS)
                latest_ns = max(latest_ns, at_ns)
                if not error:
                    counts[at_ns // _MINUTE_NS, operation] += 1
    yield _lines([["time_unix_nano", *(methods or ["count_since_last_time"])]])
    if start_ns is None:
        return
    end_ns = min(max(end_ns or 0, start_ns + latest_ns), start_ns + _LONGEST_NS)
    totals: Counter[int] = Counter()
    by_method: Counter[tuple[int, str]] = Counter()
    for (minute, operation), count in counts.items():
        totals[minute] += count
        by_method[minute, run.method_of(operation)] += count
    yield _lines([[start_ns, *([0] * (len(methods) or 1))]])
    for minute in range((end_ns - start_ns) // _MINUTE_NS + 1):
        at_ns = min(start_ns + (minute + 1) * _MINUTE_NS, end_ns)
        found = [by_method[minute, name] for name in methods] or [totals[minute]]
        yield _lines([[at_ns, *found]])


def _batches(
    records: Iterable[Record], ends_ns: Mapping[str, int], chosen: Selection
) -> Iterator[Iterator[Sequence[Any]]]:
    """The operations of the run phase as rows of ALL_COLUMNS, those of a batch together.

    None: a time that isn't known, the error of a success, or a name of a run whose header is
    missing. Objects of ssbench 0.3.9 have no container.
    """
    run = _Run(ends_ns, chosen)
    for record in records:
        run.add(record)
        if isinstance(record, ResultBatch) and record.phase is Phase.RUN:
            yield run.rows(record)


class _Run:
    """What the records so far say of the results that follow."""

    def __init__(self, ends_ns: Mapping[str, int] = {}, chosen: Selection = WHOLE) -> None:
        self._ends_ns = ends_ns
        self._selection = chosen
        self.origin_ns = 0  #: of the run phase, Unix time
        self._shifts: dict[int, int] = {}
        self._begin()

    def _begin(self) -> None:
        """Nothing is known of the next run."""
        self._run = RunRecords()
        self._chosen = Chosen(self._selection, self._run.names_of)
        self._windows = Windows(self._run.scenario)
        self._naming: Naming | None = None
        self._classes: Sequence[str] = ()  # names of the size classes

    def add(self, record: Record) -> None:
        if isinstance(record, RunHeader):
            self._begin()
        if isinstance(record, RunHeader | WorkerRecord | AddressRecord):
            self._run.add(record)
        if isinstance(record, RunHeader):
            scenario, end_ns = self._run.scenario, self._ends_ns.get(record.run_id)
            self._windows = Windows(scenario, end_ns, chosen=self._selection)
            self._classes = [printable(size.name) for size in scenario.sizes]
            if not self._run.scenario_faults:
                self._naming = naming_of_run(record, scenario)
        elif isinstance(record, MarkRecord):
            self._windows.mark(record)
        elif isinstance(record, PhaseRecord):
            self._shifts.clear()
            if record.phase is Phase.RUN:
                self.origin_ns = round(record.started_at * 1e9)
        elif isinstance(record, ClockRecord):
            self._shifts[record.worker] = record.shift_ns

    def method_of(self, operation: int) -> str:
        """The operation's name for users of HTTP: PUT for CREATE, else its own name."""
        row = row_of(operation, self._run.operations)
        return row.alias or row.name

    def origin_of(self, batch: ResultBatch) -> int:
        """The time that the batch's offsets count from, Unix time in ns."""
        return self.origin_ns + self._shifts.get(batch.worker, 0)

    def columns(self, batch: ResultBatch, names: Sequence[str]) -> Iterator[Sequence[Any]]:
        """These columns of a batch, row by row; no row if one of them is malformed."""
        try:
            return zip(*[batch.column(name) for name in names], strict=True)
        except MessageError:
            return iter(())  # the statistics count it as damage

    def rows(self, batch: ResultBatch) -> Iterator[Sequence[Any]]:
        """The batch's results as rows of ALL_COLUMNS; none if it is malformed."""
        try:
            results = PhaseResults([batch], self._shifts, len(self._run.identities))
        except MessageError:
            return
        origin_ns = self.origin_of(batch)
        worker = printable(self._run.worker_id(batch.worker))
        classes = dict(enumerate(self._classes))
        places = zip(
            self._counted(results),
            self._places(results.column("url").tolist(), self._run.endpoint),
            self._places(results.column("address").tolist(), self._run.address),
            self._places(results.column("identity").tolist(), self._run.identity),
            strict=False,
        )
        for each, (counted, endpoint, address, identity) in zip(
            self.columns(batch, _FIELDS), places, strict=False
        ):
            if counted is None:
                continue
            (
                operation, size_class, number, start_ns, last_ns, status, headers_ns, moved,
                retries, error, transaction_id, due_ns,
            ) = each  # fmt: skip
            row = row_of(operation, self._run.operations)
            yield (
                origin_ns + start_ns + last_ns,
                self.method_of(operation),
                self._name(row, size_class, number),
                printable(transaction_id.decode("utf-8", "replace")),
                status,
                headers_ns if headers_ns >= 0 else None,
                last_ns,
                moved,
                retries,
                error_label(error) if error else None,
                None if row.target is Target.CONTAINER else classes.get(size_class),
                worker,
                origin_ns + start_ns,
                None if due_ns == NONE_NS else self.origin_ns + due_ns,
                counted,
                endpoint,
                address,
                identity,
            )

    def _places(
        self, numbers: Sequence[int], name_of: Callable[[int], str]
    ) -> Iterator[str | None]:
        """The name of each row's endpoint, address or identity; None: the only one, or unknown."""
        names = {number: printable(name_of(number)) or None for number in set(numbers)}
        return map(names.__getitem__, numbers)

    def _counted(self, results: PhaseResults) -> Iterable[bool | None]:
        """Whether each is in the figures of reports: not in a warm-up or the cool-down; None if it
        is not of the part of the run that was chosen."""
        stages = self._windows.stages(results)
        found: Iterable[bool | None] = repeat(True)
        if stages is not None:
            found = [stage != LEFT_OUT for stage in stages.tolist()]
        for mask in (self._chosen.rows(results), self._windows.overlap(results)):
            if mask is not None:
                found = [each if here else None for each, here in zip(found, mask, strict=False)]
        return found

    def _name(self, row: Operation, size_class: int, number: int) -> str | None:
        naming = self._naming
        try:
            if "containers" in self._run.unrecorded:
                name = f"{self._classes[size_class]}_{number:06d}"
            elif naming is None:
                return None
            elif row.target is Target.CONTAINER:
                name = naming.containers[number]
            else:
                name = f"{naming.container(size_class, number)}/{naming.object(size_class, number)}"
        except (IndexError, ZeroDivisionError):  # the latter: there are no containers
            return None
        return printable(name)


def naming_of_run(header: RunHeader, scenario: Scenario) -> Naming | None:
    """The run's; None if the header doesn't say, or is damaged."""
    settings = StorageSettings(
        run_id=header.run_id,
        sizes=scenario.sizes,
        container_base=scenario.container_base,
        container_count=scenario.container_count,
        placement=scenario.policy,
        names=header.names,
    )
    try:
        return naming_of(settings)
    except (KeyError, TypeError, AttributeError, ValueError):
        return None


def _shown(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _lines(rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(map(for_spreadsheet, row) for row in rows)
    return text.getvalue()
