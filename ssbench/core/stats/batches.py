"""A batch of results, taken apart by columns: far cheaper than row by row."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from operator import add, itemgetter, sub
from typing import Any, overload

from ssbench.core.model import NONE_NS, Phase, Result
from ssbench.core.records import Record, ResultBatch
from ssbench.core.stats.durations import Durations
from ssbench.core.stats.joined import Columns
from ssbench.core.stats.tally import COUNTERS

Group = tuple[int, int]  #: (operation, size class)
_ENOUGH_ROWS = 1024
#: Of all workers: 256 of them with 1,023 rows each would be 100 MB.
MOST_WAITING_ROWS = 1 << 15
_OPERATIONS, _CLASSES = bytes(range(8)), bytes(range(16))  # that fit a byte together
_IS_ERROR = b"\0" + b"\1" * 255
_AT = {name: index for index, name in enumerate(Result._fields)}


class Part:
    """The rows of a batch that are of one group, and all failed or all successes."""

    __slots__ = (
        "_bytes_moved", "_columns", "_durations", "_ends_ns", "_extents_ns", "_pick", "_picked",
        "_range_ns", "_rows", "_span_ns", "counters", "due", "failed", "group",
    )  # fmt: skip

    def __init__(
        self,
        batch: ResultBatch,
        rows: Sequence[int],
        *,
        group: Group,
        failed: bool,
        counters: Sequence[str],
        due: bool,
    ) -> None:
        self.group = group
        self.failed = failed
        self.counters = counters  #: those of COUNTERS that are not all 0 in the batch
        self.due = due  #: whether any row of the batch has a due time
        self._columns = batch.columns
        self._rows = rows
        self._pick = _picker(rows, len(batch))
        self._picked: dict[str, Sequence[Any]] = {}
        self._durations: dict[str, Durations] = {}
        self._ends_ns: Sequence[int] | None = None
        self._span_ns: tuple[int, int] | None = None
        self._extents_ns: tuple[Sequence[int], Sequence[int]] | None = None
        self._range_ns: tuple[int, int] | None = None
        self._bytes_moved: int | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def column(self, name: str) -> Sequence[Any]:
        """This part's rows of a column, by the name of Result's field."""
        found = self._picked.get(name)
        if found is None:
            found = self._picked[name] = self._pick(self._columns[_AT[name]])
        return found

    def durations(self, name: str) -> Durations:
        """This part's rows of a column of durations; NONE_NS where there is no such time."""
        found = self._durations.get(name)
        if found is None:
            found = self._durations[name] = Durations(self.column(name))
        return found

    @property
    def transaction_ids(self) -> Sequence[bytes]:
        """Of this part's rows; those that aren't asked for stay packed."""
        return _Picked(self._columns[_AT["transaction_id"]], self._rows)

    @property
    def ends_ns(self) -> Sequence[int]:
        """When each row completed, as an offset from the phase's start."""
        if self._ends_ns is None:
            lasts = self.column("last_byte_ns")
            # 0.3.9's of 0, and those of its failed operations, are none.
            if self.durations("last_byte_ns").least < 0:
                lasts = [max(0, last) for last in lasts]
            self._ends_ns = list(map(add, self.column("start_ns"), lasts))
        return self._ends_ns

    @property
    def span_ns(self) -> tuple[int, int]:
        """The first start and the last end of its rows, as offsets from the phase's start."""
        if self._span_ns is None:
            self._span_ns = min(self.column("start_ns")), max(self.ends_ns)
        return self._span_ns

    @property
    def extents_ns(self) -> tuple[Sequence[int], Sequence[int]]:
        """From when and to when each row counts to a rate, as offsets from the phase's start.

        Its start and its end; of an open loop both are its due time (where it has none, its start).
        """
        if self._extents_ns is None:
            if self.due:
                dues = self.column("due_ns")
                if self.durations("due_ns").least < 0:
                    starts = self.column("start_ns")
                    pairs = zip(dues, starts, strict=True)
                    dues = [start if due < 0 else due for due, start in pairs]
                self._extents_ns = dues, dues
            else:
                self._extents_ns = self.column("start_ns"), self.ends_ns
        return self._extents_ns

    @property
    def range_ns(self) -> tuple[int, int]:
        """The first and the last of all times in ``extents_ns``."""
        if self._range_ns is None:
            known = self.durations("due_ns") if self.due else None
            if known is None:
                self._range_ns = self.span_ns
            elif known.least >= 0:
                self._range_ns = known.least, known.most
            else:
                dues, _dues = self.extents_ns
                self._range_ns = min(dues), max(dues)
        return self._range_ns

    @property
    def bytes_moved(self) -> int:
        """By all of its rows."""
        if self._bytes_moved is None:
            self._bytes_moved = sum(self.column("bytes_moved"))
        return self._bytes_moved

    @property
    def responses(self) -> Durations | None:
        """Response times, from due to last byte: NONE_NS for a row that has no due time.

        None where no row has one: in a closed loop.
        """
        if not self.due:
            return None
        found = self._durations.get("response")
        if found is None:
            found = self._durations["response"] = Durations(self._since_due())
        return found

    def _since_due(self) -> Sequence[int]:
        dues = self.column("due_ns")
        since = map(sub, self.ends_ns, dues)
        if NONE_NS not in dues:
            return list(since)
        return [NONE_NS if due == NONE_NS else x for due, x in zip(dues, since, strict=True)]


def split(batch: ResultBatch) -> Iterator[Part]:
    """The batch by operation and size class, and apart by whether it failed."""
    columns = [batch.column(name) for name in ("operation", "size_class", "error")]
    counters = [name for name in COUNTERS if not _all(0, batch.column(name))]
    due = not _all(NONE_NS, batch.column("due_ns"))
    for rows in _alike(*columns):
        operation, size_class, error = (column[rows[0]] for column in columns)
        group = operation, size_class
        yield Part(batch, rows, group=group, failed=bool(error), counters=counters, due=due)


def _alike(
    operations: Sequence[int], classes: Sequence[int], errors: Sequence[int]
) -> Sequence[Sequence[int]]:
    """The rows of each kind that there is."""
    kinds = _in_a_byte(operations, classes, errors)
    if kinds is None:
        kinds = list(zip(operations, classes, map(bool, errors), strict=True))
    rows: dict[Hashable, list[int]] = {kind: [] for kind in set(kinds)}
    if len(rows) == 1:
        return [range(len(kinds))]
    keepers = {kind: those.append for kind, those in rows.items()}
    for row, keep in enumerate(map(keepers.__getitem__, kinds)):
        keep(row)
    return list(rows.values())


def _in_a_byte(
    operations: Sequence[int], classes: Sequence[int], errors: Sequence[int]
) -> Sequence[Hashable] | None:
    """What tells rows apart as a byte for each, three bits of it the operation, four the class.

    Made of whole columns at once: a column of bytes is one large number here.

    :return: None where they have more bits than that.
    """
    try:
        operation, size_class, error = map(_bytes, (operations, classes, errors))
    except ValueError:
        return None
    if operation.translate(None, _OPERATIONS) or size_class.translate(None, _CLASSES):
        return None
    one, two, three = (
        int.from_bytes(column, "little")
        for column in (operation, size_class, error.translate(_IS_ERROR))
    )
    return (one << 5 | two << 1 | three).to_bytes(len(operation), "little")


def _all(value: int, column: Sequence[int]) -> bool:
    return column.count(value) == len(column)  # nobody looks at an object that is the same


def _bytes(column: Sequence[int]) -> bytes:
    """:raises ValueError: where a number is none of a byte."""
    wide = isinstance(column, array) and column.itemsize > 1  # as bytes it would be its memory
    return bytes(list(column) if wide else column)


class _Picked(Sequence[bytes]):
    """Some rows of a column, each looked up when it is asked for."""

    def __init__(self, column: Sequence[bytes], rows: Sequence[int]) -> None:
        self._column = column
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, row: int) -> bytes: ...

    @overload
    def __getitem__(self, row: slice) -> Sequence[bytes]: ...

    def __getitem__(self, row: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(row, slice):
            return _Picked(self._column, self._rows[row])
        return self._column[self._rows[row]]


class _Changed(Columns):
    """Columns, some of them by others; the rest stay as packed as they are."""

    def __init__(self, columns: Sequence[Sequence[Any]], by: dict[int, Sequence[Any]]) -> None:
        super().__init__()
        self._columns = columns
        self._made |= by

    def _column(self, at: int) -> Sequence[Any]:
        return self._columns[at]


def shifted(batch: ResultBatch, shift_ns: int) -> ResultBatch:
    """The batch with its offsets corrected: all that says when, and nothing that says how long."""
    by: dict[int, Sequence[Any]] = {
        _AT["start_ns"]: [start + shift_ns for start in batch.column("start_ns")]
    }
    dues = batch.column("due_ns")
    if max(dues) != NONE_NS:
        by[_AT["due_ns"]] = [d if d == NONE_NS else d + shift_ns for d in dues]
    return ResultBatch(batch.phase, batch.worker, _Changed(batch.columns, by))


def _picker(rows: Sequence[int], length: int) -> Callable[[Sequence[Any]], Sequence[Any]]:
    if len(rows) == length:
        return _all_rows
    if len(rows) == 1:
        row = rows[0]
        return lambda column: (column[row],)
    return itemgetter(*rows)


def _all_rows(column: Sequence[Any]) -> Sequence[Any]:
    return column


def gathered(records: Iterable[Record]) -> Iterator[Record]:
    """The same records, with small batches of results put together to larger ones.

    A batch costs some 10 µs to count however small it is, and a busy run with few users leaves
    batches of a few rows. Results of one phase and worker stay in their order, and no batch
    crosses another kind of record.
    """
    waiting: dict[tuple[Phase, int], list[list[Any]]] = {}
    rows = 0  # that wait
    for record in records:
        if not isinstance(record, ResultBatch) or rows > MOST_WAITING_ROWS:
            yield from _released(waiting)
            rows = 0
        if not isinstance(record, ResultBatch):
            yield record
            continue
        key = record.phase, record.worker
        columns = waiting.get(key)
        if columns is None:
            if len(record) >= _ENOUGH_ROWS:
                yield record
                continue
            columns = waiting[key] = [[] for _column in record.columns]
        for column, more in zip(columns, record.columns, strict=True):
            column.extend(more)
        rows += len(record)
        if len(columns[0]) >= _ENOUGH_ROWS:
            rows -= len(columns[0])
            yield ResultBatch(*key, waiting.pop(key))
    yield from _released(waiting)


def _released(waiting: dict[tuple[Phase, int], list[list[Any]]]) -> Iterator[ResultBatch]:
    for (phase, worker), columns in waiting.items():
        yield ResultBatch(phase, worker, columns)
    waiting.clear()
