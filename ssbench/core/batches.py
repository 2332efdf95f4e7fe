"""A batch of results, taken apart by columns: far cheaper than row by row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any

from ssbench.core.model import Phase
from ssbench.core.records import Record, ResultBatch

Group = tuple[int, int]  #: (operation, size class)
Pick = Callable[[Sequence[Any]], Sequence[Any]]  #: some rows of a column

_ENOUGH_ROWS = 1024


def split(batch: ResultBatch) -> Iterator[tuple[Group, bool, Pick]]:
    """The batch by operation and size class, and apart by whether it failed."""
    operations = batch.column("operation")
    classes = batch.column("size_class")
    errors = batch.column("error")
    failed = list(map(bool, errors)) if any(errors) else [False] * len(errors)
    rows: defaultdict[tuple[int, int, bool], list[int]] = defaultdict(list)
    for row, key in enumerate(zip(operations, classes, failed, strict=True)):
        rows[key].append(row)
    for (operation, size_class, has_failed), those in rows.items():
        yield (operation, size_class), has_failed, _picker(those, len(batch))


def _picker(rows: Sequence[int], length: int) -> Pick:
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
    for record in records:
        if not isinstance(record, ResultBatch):
            yield from _released(waiting)
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
        if len(columns[0]) >= _ENOUGH_ROWS:
            yield ResultBatch(*key, waiting.pop(key))
    yield from _released(waiting)


def _released(waiting: dict[tuple[Phase, int], list[list[Any]]]) -> Iterator[ResultBatch]:
    for (phase, worker), columns in waiting.items():
        yield ResultBatch(phase, worker, columns)
    waiting.clear()
