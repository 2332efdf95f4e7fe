"""A batch of results, taken apart by columns: far cheaper than row by row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from operator import add, itemgetter, sub
from typing import Any, overload

from ssbench.core.model import NONE_NS, Phase, Result
from ssbench.core.records import Record, ResultBatch
from ssbench.core.tally import COUNTERS

Group = tuple[int, int]  #: (operation, size class)
_ENOUGH_ROWS = 1024
#: Of all workers: 256 of them with 1,023 rows each would be 100 MB.
MOST_WAITING_ROWS = 1 << 15
_AT = {name: index for index, name in enumerate(Result._fields)}


class Part:
    """The rows of a batch that are of one group, and all failed or all successes."""

    __slots__ = (
        "_bounds", "_columns", "_pick", "_picked", "_responses_ns", "_rows", "counters", "failed",
        "group",
    )  # fmt: skip

    def __init__(
        self,
        batch: ResultBatch,
        rows: Sequence[int],
        *,
        group: Group,
        failed: bool,
        counters: Sequence[str],
    ) -> None:
        self.group = group
        self.failed = failed
        self.counters = counters  #: those of COUNTERS that are not all 0 in the batch
        self._columns = batch.columns
        self._rows = rows
        self._pick = _picker(rows, len(batch))
        self._picked: dict[str, Sequence[Any]] = {}
        self._bounds: dict[str, tuple[int, int]] = {}
        self._responses_ns: Sequence[int] | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def column(self, name: str) -> Sequence[Any]:
        """This part's rows of a column, by the name of Result's field."""
        found = self._picked.get(name)
        if found is None:
            found = self._picked[name] = self._pick(self._columns[_AT[name]])
        return found

    def bounds(self, name: str) -> tuple[int, int]:
        """The least and the greatest of a column of numbers."""
        found = self._bounds.get(name)
        if found is None:
            values = self.column(name)
            found = self._bounds[name] = min(values), max(values)
        return found

    @property
    def transaction_ids(self) -> Sequence[bytes]:
        """Of this part's rows; those that aren't asked for stay packed."""
        return _Picked(self._columns[_AT["transaction_id"]], self._rows)

    @property
    def responses_ns(self) -> Sequence[int]:
        """Response times, from due to last byte: NONE_NS for a row that has no due time.

        Empty where no row has one: in a closed loop.
        """
        if self._responses_ns is None:
            dues = self.column("due_ns")
            none = self.bounds("due_ns")[1] == NONE_NS
            self._responses_ns = () if none else self._since(dues)
        return self._responses_ns

    def _since(self, dues_ns: Sequence[int]) -> Sequence[int]:
        starts, lasts = self.column("start_ns"), self.column("last_byte_ns")
        if self.bounds("due_ns")[0] > NONE_NS:
            return list(map(add, map(sub, starts, dues_ns), lasts))
        return [
            NONE_NS if due == NONE_NS else start - due + last
            for due, start, last in zip(dues_ns, starts, lasts, strict=True)
        ]


def split(batch: ResultBatch) -> Iterator[Part]:
    """The batch by operation and size class, and apart by whether it failed."""
    operations = batch.column("operation")
    classes = batch.column("size_class")
    errors = batch.column("error")
    failed = list(map(bool, errors)) if any(errors) else repeat(False)
    rows: defaultdict[tuple[int, int, bool], list[int]] = defaultdict(list)
    for row, kind in enumerate(zip(operations, classes, failed)):  # noqa: B905 - repeat has no end
        rows[kind].append(row)
    counters = [name for name in COUNTERS if any(batch.column(name))]
    for (operation, size_class, has_failed), those in rows.items():
        group = operation, size_class
        yield Part(batch, those, group=group, failed=has_failed, counters=counters)


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


class _Changed(Sequence[Sequence[Any]]):
    """Columns, some of them by others; the rest stay as packed as they are."""

    def __init__(self, columns: Sequence[Sequence[Any]], by: dict[int, Sequence[Any]]) -> None:
        self._columns = columns
        self._by = by

    def __len__(self) -> int:
        return len(self._columns)

    @overload
    def __getitem__(self, index: int) -> Sequence[Any]: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Sequence[Any]]: ...

    def __getitem__(self, index: int | slice) -> Sequence[Any]:
        if isinstance(index, slice):
            return [self[at] for at in range(len(self))[index]]
        found = self._by.get(index)
        return self._columns[index] if found is None else found


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
