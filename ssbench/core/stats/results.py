"""Results of a phase as numpy arrays: joined from batches, and divided into groups.

Whole numbers are int64 wherever sums of two of them fit that, else Python's (dtype object): so
whatever a damaged file holds is added up exactly, by the same code.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate, compress, groupby, islice
from operator import attrgetter, mul
from typing import Any

import numpy as np
import numpy.typing as npt

from ssbench.core import unpacking
from ssbench.core.columns import (
    HEX_SHAPES,
    ID_BYTES,
    RESULT_COLUMNS,
    WIDTHS,
    batch_decoder,
    check_ids,
    unpack_details,
    unpack_ids,
)
from ssbench.core.errors import MessageError
from ssbench.core.model import NONE_NS
from ssbench.core.records import ResultBatch

Ints = npt.NDArray[Any]  #: whole numbers: int64, or Python's

_LARGEST = 1 << 60  # of either part of a packed number
_HALF = 31  # bits
_LOW_HALF = (1 << _HALF) - 1
#: The columns of whole numbers that figures are made of; others stay packed.
_COLUMNS = (
    "operation", "size_class", "error", "status", "due_ns", "start_ns", "headers_ns",
    "first_byte_ns", "last_byte_ns", "bytes_moved", "retries", "not_found_retries", "rate_limited",
    "reconnects", "renewals", "items", "url",
)  # fmt: skip
_AT_A_TIME = 256  #: batches; what many more unpack to would leave the processor's cache
_READ = frozenset([*_COLUMNS, "transaction_id", "detail"])


def as_ints(values: Sequence[int] | npt.NDArray[Any]) -> Ints:
    """An array of whole numbers."""
    found = np.asarray(values)
    if found.dtype.kind == "u" and found.itemsize < 8:
        return found.astype(np.int64)
    if found.dtype.kind in "iu":
        if int(found.max()) < _LARGEST and int(found.min()) > -_LARGEST:
            return found.astype(np.int64, copy=False)
        return found.astype(object)
    mixed = np.array(list(values), object)  # of which numpy would make floats
    return as_ints(mixed.astype(np.int64)) if abs(mixed).max() < _LARGEST else mixed


def decoded(pieces: Sequence[Any], counts: Sequence[int]) -> Ints:
    """The values of a packed column of several batches, one behind the other.

    All of them at once: a batch may have no more than one row.

    :param pieces: the column of each batch, as ``core.columns.batch_decoder`` reads it.
    :param counts: the rows of each batch.
    :raises MessageError: if one of them has another number of rows.
    """
    kinds = set(map(type, pieces))
    if kinds == {int}:
        return _repeated(pieces, counts)
    if int in kinds:  # what is one value there, as if it had been packed like the others
        pieces = [
            (piece, "B", bytes(count)) if type(piece) is int else piece
            for piece, count in zip(pieces, counts, strict=True)
        ]
    bases, codes, data = zip(*pieces, strict=True)
    widths = [WIDTHS[code] for code in codes]
    if list(map(len, data)) != list(map(mul, widths, counts)):
        raise MessageError("a malformed column")
    forms = set(codes)
    if len(forms) == 1:
        items = as_ints(np.frombuffer(b"".join(data), f"<u{widths[0]}"))
    else:
        own = {code: compress(data, [each == code for each in codes]) for code in forms}
        parts = {
            code: as_ints(np.frombuffer(b"".join(own[code]), f"<u{WIDTHS[code]}")) for code in forms
        }
        items = np.empty(sum(counts), np.result_type(*parts.values()))
        each_row = np.repeat(widths, counts)
        for code, part in parts.items():
            items[each_row == WIDTHS[code]] = part
    return items + _repeated(bases, counts) if any(bases) else items


def _repeated(values: Sequence[int], counts: Sequence[int]) -> Ints:
    """Each value as often as its count says."""
    if values.count(values[0]) == len(values):
        return np.broadcast_to(as_ints(values[:1]), sum(counts))
    return np.repeat(as_ints(values), counts)


def exact_sum(values: Ints) -> int:
    """The sum, exact for any of ``as_ints``, of up to 2**31 values."""
    if values.dtype == object:
        return int(values.sum())
    return (int((values >> _HALF).sum()) << _HALF) + int((values & _LOW_HALF).sum())


def exact_sums(values: Ints, places: npt.NDArray[np.int64]) -> list[int]:
    """The sums of the values at each place (from 0), exact for up to 2**22 values.

    bincount adds floats: of halves, no sum loses a bit.
    """
    halves = (values >> _HALF, values & _LOW_HALF)
    high, low = (np.bincount(places, half.astype(np.float64)).tolist() for half in halves)
    return [(int(a) << _HALF) + int(b) for a, b in zip(high, low, strict=True)]


class Results:
    """The rows of several batches of one phase, by column.

    :param shifts_ns: by worker: what is added to its offsets, because its clock was wrong.
    :param open_loop: whether the load has an arrival rate.
    :raises MessageError: if a batch is malformed.
    """

    def __init__(
        self,
        batches: Sequence[ResultBatch],
        shifts_ns: Mapping[int, int],
        *,
        open_loop: bool = False,
    ) -> None:
        self.open_loop = open_loop
        self._workers = [batch.worker for batch in batches]
        self._counts: list[int] = []
        self._ids: list[Any] = []  # packed, of each batch
        self._details: list[Any] = []
        parts: dict[str, list[Ints]] = {name: [] for name in _COLUMNS}
        for names, alike in groupby(batches, key=attrgetter("names")):
            while some := list(islice(alike, _AT_A_TIME)):
                self._add(parts, names, some)
        self._columns = {name: np.concatenate(arrays) for name, arrays in parts.items()}
        self._starts = list(accumulate(self._counts, initial=0))
        shifts = [shifts_ns.get(batch.worker, 0) + batch.later_ns for batch in batches]
        if any(shifts):
            self._shift(shifts)

    def _add(
        self, parts: dict[str, list[Ints]], names: tuple[str, ...], batches: Sequence[ResultBatch]
    ) -> None:
        """Decode some batches of one schema, a column of all of them at once."""
        counts, *packed = zip(*_unpacked(names, batches), strict=True)
        columns = dict(zip(names, packed, strict=True))
        if list(counts) != [batch.count for batch in batches]:
            raise MessageError("malformed results")
        rows = sum(counts)
        for name, arrays in parts.items():
            if name in columns:
                arrays.append(decoded(columns[name], counts))
            elif RESULT_COLUMNS[name].required:
                raise MessageError(f"results without {name}")
            else:
                arrays.append(np.broadcast_to(np.int64(RESULT_COLUMNS[name].default), rows))
        self._counts += counts
        self._ids += _checked_ids(columns.get("transaction_id"), counts)
        self._details += _checked_details(columns.get("detail"), counts)

    def _shift(self, of_batches_ns: Sequence[int]) -> None:
        shifts = np.repeat(as_ints(of_batches_ns), self._counts)
        self._columns["start_ns"] = self._columns["start_ns"] + shifts
        dues = self._columns["due_ns"]
        self._columns["due_ns"] = np.where(dues == NONE_NS, NONE_NS, dues + shifts)

    def __len__(self) -> int:
        return self._starts[-1]

    def __repr__(self) -> str:
        return f"<Results {len(self)} rows of {len(self._counts)} batches>"

    def column(self, name: str) -> Ints:
        """A column of whole numbers, by the name of Result's field; offsets are corrected."""
        return self._columns[name]

    @cached_property
    def workers(self) -> Ints:
        """The index of each row's worker."""
        return np.repeat(as_ints(self._workers), self._counts)

    def by_worker(self) -> Counter[int]:
        """The number of rows of each worker."""
        found: Counter[int] = Counter()
        for worker, count in zip(self._workers, self._counts, strict=True):
            found[worker] += count
        return found

    @cached_property
    def ends_ns(self) -> Ints:
        """When each row completed, as an offset from the phase's start."""
        # 0.3.9's latencies of 0, and those of its failed operations, are none.
        ends: Ints = self.column("start_ns") + np.maximum(self.column("last_byte_ns"), 0)
        return ends

    @cached_property
    def has_due_times(self) -> bool:
        """Whether any row has a due time."""
        return bool((self.column("due_ns") != NONE_NS).any())

    @cached_property
    def has_items(self) -> bool:
        """Whether any row lists entries, or handles several objects."""
        return bool(self.column("items").any())

    @cached_property
    def times_ns(self) -> Ints:
        """What decides to which stage a row belongs: its due time, or else its start."""
        starts = self.column("start_ns")
        if not self.has_due_times:
            return starts
        dues = self.column("due_ns")
        return np.where(dues < 0, starts, dues)

    def ids(self, rows: npt.NDArray[np.int64]) -> list[bytes]:
        """The transaction ids of these rows: next to none are ever unpacked."""
        found: list[bytes] = []
        for row in rows.tolist():
            at = bisect_right(self._starts, row) - 1
            shape, suffix, data = self._ids[at]
            at_row = row - self._starts[at]
            if shape in HEX_SHAPES:
                raw = data[at_row * ID_BYTES : (at_row + 1) * ID_BYTES]
                found += unpack_ids([shape, suffix, raw], 1)
            else:
                found.append(_plain_ids(data)[at_row])
        return found

    def details(self, rows: npt.NDArray[np.int64]) -> list[str]:
        """The details of the errors of these rows."""
        found: list[str] = []
        for row in rows.tolist():
            at = bisect_right(self._starts, row) - 1
            details = self._details[at]
            found.append(details[row - self._starts[at]] if details else "")
        return found

    def groups(self, stages: npt.NDArray[np.int64] | None = None) -> Iterator[Group]:
        """The rows by stage, operation, size class and whether they failed.

        :param stages: of each row; None: 0.
        """
        columns = [self.column("operation"), self.column("size_class"), self.column("error") != 0]
        if stages is not None:
            columns.append(stages)
        kinds = _numbered(columns)
        if kinds is None:
            yield Group(self, None, 0 if stages is None else int(stages[0]))
            return
        order = np.argsort(kinds, kind="stable")
        sorted_kinds = kinds[order]
        for rows in np.split(order, np.flatnonzero(np.diff(sorted_kinds)) + 1):
            yield Group(self, rows, 0 if stages is None else int(stages[rows[0]]))


@lru_cache(maxsize=64)
def _decoder(names: tuple[str, ...]) -> Any:
    return batch_decoder(names, _READ)


def _unpacked(names: tuple[str, ...], batches: Sequence[ResultBatch]) -> list[tuple[Any, ...]]:
    """What each batch unpacks to.

    :raises MessageError: if one is malformed.
    """
    decode = _decoder(names).decode
    try:
        return [decode(batch.packed) for batch in batches]
    except unpacking.FAULTS as error:
        raise MessageError("malformed results") from error


def _checked_ids(pieces: Sequence[Any] | None, counts: Sequence[int]) -> Sequence[Any]:
    """The packed transaction ids of each batch.

    :raises MessageError: if they are malformed.
    """
    if pieces is None:
        return [["plain", b"", b"\n" * count] for count in counts]
    shapes, _, data = zip(*pieces, strict=True)
    if "plain" in shapes or list(map(len, data)) != [ID_BYTES * count for count in counts]:
        for piece, count in zip(pieces, counts, strict=True):
            check_ids(piece, count)
    return pieces


def _checked_details(pieces: Sequence[Any] | None, counts: Sequence[int]) -> Sequence[Any]:
    """The details of each batch, nothing where no row has any.

    :raises MessageError: if they are malformed.
    """
    if pieces is None:
        return [None] * len(counts)
    return [
        unpack_details(piece, count) if piece else None
        for piece, count in zip(pieces, counts, strict=True)
    ]


@lru_cache(maxsize=4)
def _plain_ids(data: bytes) -> list[bytes]:
    return data.split(b"\n")


def _numbered(columns: Sequence[Ints]) -> npt.NDArray[Any] | None:
    """A small number for each row, the same where all columns are; None if no row differs."""
    kinds, size = None, 1
    for column in columns:
        least, most = int(column.min()), int(column.max())
        if least == most:
            continue
        if most - least >= 1 << 12:  # numbers that no scenario has: number those that there are
            values, column = np.unique(column, return_inverse=True)
            least, most = 0, len(values) - 1
        part = column.astype(np.int64) - least
        kinds = part if kinds is None else kinds * (most - least + 1) + part
        size *= most - least + 1
    if kinds is None:
        return None
    # Of 16 bits, because those are sorted in linear time.
    return kinds.astype(np.uint16) if size <= 1 << 16 else kinds


class Group:
    """The rows of one stage, operation and size class that are all failures or all successes."""

    def __init__(self, results: Results, rows: npt.NDArray[np.int64] | None, stage: int) -> None:
        self._results = results
        self._rows = rows  # None: all
        self._columns: dict[str, Ints] = {}
        self.stage = stage
        first = 0 if rows is None else int(rows[0])
        self.operation = int(results.column("operation")[first])
        self.size_class = int(results.column("size_class")[first])
        self.failed = bool(results.column("error")[first])

    def __len__(self) -> int:
        return len(self._results) if self._rows is None else len(self._rows)

    def __repr__(self) -> str:
        return f"<Group {self.operation}, {self.size_class}: {len(self)} rows>"

    def _picked(self, column: Ints) -> Ints:
        return column if self._rows is None else column[self._rows]

    def column(self, name: str) -> Ints:
        """These rows of a column, by the name of Result's field; "worker" is their worker."""
        found = self._columns.get(name)
        if found is None:
            whole = self._results.workers if name == "worker" else self._results.column(name)
            found = self._columns[name] = self._picked(whole)
        return found

    @cached_property
    def ends_ns(self) -> Ints:
        """When each row completed, as an offset from the phase's start."""
        return self._picked(self._results.ends_ns)

    @cached_property
    def responses_ns(self) -> Ints | None:
        """Response times, from due to last byte: NONE_NS for a row that has no due time.

        None if no row of the results has one: in a closed loop.
        """
        if not self._results.has_due_times:
            return None
        dues = self.column("due_ns")
        return np.where(dues == NONE_NS, NONE_NS, self.ends_ns - dues)

    @cached_property
    def extents_ns(self) -> tuple[Ints, Ints]:
        """From when and to when each row counts to a rate, as offsets from the phase's start.

        Its start and its end; of an open loop both are its due time (where it has none, its start).
        """
        if self._results.open_loop:
            times = self._picked(self._results.times_ns)
            return times, times
        return self.column("start_ns"), self.ends_ns

    @cached_property
    def items(self) -> Ints | None:
        """Entries listed, or objects handled, of each row; None if no row has any."""
        return self.column("items") if self._results.has_items else None

    @cached_property
    def bytes_moved(self) -> int:
        """By all of its rows."""
        return exact_sum(self.column("bytes_moved"))

    def ids(self, rows: npt.NDArray[np.int64]) -> list[bytes]:
        """The transaction ids of some of its rows."""
        return self._results.ids(rows if self._rows is None else self._rows[rows])

    def details(self, rows: npt.NDArray[np.int64]) -> list[str]:
        """The details of some of its rows."""
        return self._results.details(rows if self._rows is None else self._rows[rows])
