"""Results of a phase as numpy arrays: joined from batches, and divided into groups.

Whole numbers are int64 wherever sums of two of them fit that, else Python's (dtype object): so
sums are exact even if a damaged file contains huge numbers.

Most batches of a run differ in their values only: their columns have the same widths, and so the
same places. They are the rows of a matrix of bytes, and a column of results is a slice of it. Small
batches are read in a fraction of the time that unpacking each of them takes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from itertools import compress, groupby
from operator import attrgetter, mul
from typing import Any, NamedTuple

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
from ssbench.core.model import (
    MAX_ADDRESSES,
    NONE_NS,
    ErrorKind,
    crowd_of_group,
    identity_of_group,
)
from ssbench.core.part_times import is_possible
from ssbench.core.records import ResultBatch
from ssbench.core.stats.budget import OTHERS

Ints = npt.NDArray[Any]  #: whole numbers: int64, or Python's
LEFT_OUT = -1  #: in place of the index of a stage, of results that do not count

_LARGEST = 1 << 60  # of either part of a packed number
_HALF = 31  # bits
_LOW_HALF = (1 << _HALF) - 1
#: The columns of whole numbers that figures are made of; others stay packed.
_COLUMNS = (
    "operation", "size_class", "error", "status", "due_ns", "start_ns", "headers_ns",
    "first_byte_ns", "last_byte_ns", "bytes_moved", "retries", "not_found_retries", "rate_limited",
    "reconnects", "renewals", "items", "url",
    "renewed_ns", "pages", "address", "group",
)  # fmt: skip
_AT_A_TIME = 256  #: batches; what many more unpack to would leave the processor's cache
_READ = frozenset([*_COLUMNS, "transaction_id", "detail"])
_LEAST = 16  #: batches; a matrix of fewer takes longer than unpacking each
_MOST_FORMS = 8  #: that are tried for the batches of one length
#: First byte of msgpack's whole numbers of more than a byte -> type of the bytes behind it.
_NUMBERS = {
    0xCC: ">u1", 0xCD: ">u2", 0xCE: ">u4", 0xCF: ">u8",
    0xD0: ">i1", 0xD1: ">i2", 0xD2: ">i4", 0xD3: ">i8",
}  # fmt: skip
_LENGTHS = {0xC4: 1, 0xC5: 2, 0xC6: 4}  #: first byte of msgpack's bytes -> width of their length
_LONG_LIST = 0xDC

_Bytes = npt.NDArray[np.uint8]


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
    if len(values) and _is_constant(values):
        return int(values[0]) * len(values)
    if values.dtype == object:
        return int(values.sum())
    return (int((values >> _HALF).sum()) << _HALF) + int((values & _LOW_HALF).sum())


class _NoFormError(Exception):
    """A batch has more than a form describes."""


class _Place(NamedTuple):
    """Where each batch of a matrix has some numbers."""

    at: int
    kind: str  #: dtype of each
    numbers: int

    def of(self, matrix: _Bytes) -> Ints:
        """The numbers, a row for each batch."""
        size = self.numbers * np.dtype(self.kind).itemsize
        return np.ascontiguousarray(matrix[:, self.at : self.at + size]).view(self.kind)


class _BatchForm:
    """What a batch has where, and the bits that are the same in each batch of the form.

    :param packed: a batch, as msgpack.
    :param found: what ``core.columns.batch_decoder`` makes of it.
    :param names: of its columns.
    :raises _NoFormError: if it has error details, or a value that is not a number, bytes, text or
        a short list of these.
    :raises MessageError: if it is malformed.
    """

    def __init__(self, packed: bytes, found: Sequence[Any], names: Sequence[str]) -> None:
        self._packed = packed
        self._mask = bytearray(len(packed))
        self.count: int = found[0]
        #: Name -> place of the value; or of the base, and of the items.
        self.columns: dict[str, tuple[_Place, _Place | None]] = {}
        self._plain_ids: _Place | None = None
        at = 3 if packed[0] == _LONG_LIST else 1
        after = self._walk(at)
        self._fix(0, after)
        for name, value in zip(names, found[1:], strict=True):
            at, after = after, self._walk(after)
            self._add(name, value, at, after)
        mask = np.frombuffer(self._mask, np.uint8)
        self._fixed = np.flatnonzero(mask)
        self._bits = mask[self._fixed]
        self._values = np.frombuffer(packed, np.uint8)[self._fixed] & self._bits

    def _add(self, name: str, value: Any, at: int, after: int) -> None:
        if name == "detail":
            if value:
                raise _NoFormError
        elif name == "transaction_id":
            if type(value) is tuple:
                check_ids(value, self.count)
                if value[0] == "plain":
                    self._plain_ids = _Place(after - len(value[2]), "u1", len(value[2]))
        elif type(value) is int:
            self.columns[name] = self._number(at), None
        elif type(value) is tuple:
            width, size = WIDTHS[value[1]], len(value[2])
            if size != width * self.count:
                raise MessageError("a malformed column")
            items = _Place(after - size, f"<u{width}", self.count)
            self.columns[name] = self._number(at + 1), items

    def _walk(self, at: int) -> int:
        """Fix the structure of the value at this offset; returns the offset behind it."""
        first = self._packed[at]
        if first < 0x80 or first >= 0xE0:  # a number in one byte
            self._mask[at] = 0x80 if first < 0x80 else 0xE0
            return at + 1
        if first in _NUMBERS:
            self._fix(at, at + 1)
            return at + 1 + int(_NUMBERS[first][2])
        if first in _LENGTHS:
            after = at + 1 + _LENGTHS[first]
            self._fix(at, after)
            return after + int.from_bytes(self._packed[at + 1 : after], "big")
        if first >> 5 == 0b101:  # text of up to 31 bytes
            return self._fix(at, at + 1 + (first & 0x1F))
        if first >> 4 == 0b1001 or first == 0x80:  # a list of up to 15, or an empty map
            after = self._fix(at, at + 1)
            for _ in range(first & 0x0F):
                after = self._walk(after)
            return after
        raise _NoFormError

    def _fix(self, at: int, after: int) -> int:
        self._mask[at:after] = b"\xff" * (after - at)
        return after

    def _number(self, at: int) -> _Place:
        first = self._packed[at]
        if first in _NUMBERS:
            return _Place(at + 1, _NUMBERS[first], 1)
        return _Place(at, "u1" if first < 0x80 else "i1", 1)

    def columns_of(self, matrix: _Bytes) -> dict[str, Ints]:
        """The columns of whole numbers of batches that have the form."""
        return {
            name: _of_matrix(
                base.of(matrix)[:, 0], None if items is None else items.of(matrix), self.count
            )
            for name, (base, items) in self.columns.items()
        }

    def of(self, matrix: _Bytes) -> npt.NDArray[np.bool_]:
        """Which batches have the form, and transaction ids that are not malformed."""
        alike: npt.NDArray[np.bool_]
        alike = ((matrix[:, self._fixed] & self._bits) == self._values).all(axis=1)
        if self._plain_ids:
            ends = self._plain_ids.of(matrix) == ord("\n")
            alike &= (ends.sum(axis=1) == self.count) & ends[:, -1]
        return alike


def _matrices(
    batches: Sequence[ResultBatch], unpack: Callable[[ResultBatch], Sequence[Any]]
) -> Iterator[tuple[list[ResultBatch], dict[str, Ints] | None]]:
    """The batches of one schema: those of one form, which have no details and whose ids are sound,
    with their columns of whole numbers; last those of no form, with None.

    :param unpack: as the decoder of ``core.columns.batch_decoder``, or raises MessageError.
    :raises MessageError: if a batch is malformed; those of no form are not checked.
    """
    lengths = np.array([len(batch.packed) for batch in batches])
    order = np.argsort(lengths, kind="stable")
    rest: list[int] = []
    for places in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1):
        left = places.tolist()
        joined = b"".join([batches[at].packed for at in left])
        matrix = np.frombuffer(joined, np.uint8).reshape(len(left), -1)
        for _ in range(_MOST_FORMS):
            if len(left) < _LEAST:
                break
            first = batches[left[0]]
            try:
                form = _BatchForm(first.packed, unpack(first), first.names)
            except (_NoFormError, RecursionError):  # or lists in lists without end
                rest.append(left.pop(0))
                matrix = matrix[1:]
                continue
            alike = form.of(matrix)
            found = [batches[at] for at in compress(left, alike)]
            if {batch.count for batch in found} != {form.count}:
                raise MessageError("malformed results")
            yield found, form.columns_of(matrix if alike.all() else matrix[alike])
            left, matrix = list(compress(left, ~alike)), matrix[~alike]
        rest += left
    if rest:
        yield [batches[at] for at in sorted(rest)], None


class ObjectParts(NamedTuple):
    """The parts of one object that an operation moved, as ``core.part_times`` sums them up."""

    parts: int  #: how many
    slowest: int  #: its index
    url: int  #: of it: index of the storage URL
    times_us: Sequence[int]
    slowest_id: bytes  #: its transaction id
    object: int
    size: int  #: bytes that the operation moved


def address_of(number: int) -> tuple[int, int]:
    """Of which worker it is, and the number that this worker gave it; of a row's ``address``."""
    return divmod(number, MAX_ADDRESSES + 1)


class PhaseResults:
    """The rows of several batches of one phase, by column.

    :param shifts_ns: by worker: what is added to its starts, because its clock was wrong.
    :param identities: among which the load was divided; 0: it was not.
    :raises MessageError: if a batch is malformed.
    """

    def __init__(
        self,
        batches: Sequence[ResultBatch],
        shifts_ns: Mapping[int, int],
        identities: int = 0,
    ) -> None:
        self._batches: list[ResultBatch] = []
        self._ids: dict[int, Sequence[Any]] = {}  # packed, of batches that were asked for
        self._details: dict[int, list[str]] = {}  # of batches that have any
        self._parts: dict[int, dict[int, ObjectParts]] = {}  # the same, by row
        parts: dict[str, list[Ints]] = {name: [] for name in _COLUMNS}
        for names, alike in groupby(batches, key=attrgetter("names")):
            self._add(parts, names, list(alike))
        self._columns = {name: _joined(arrays) for name, arrays in parts.items()}
        self._workers = as_ints([batch.worker for batch in self._batches])
        self._counts = np.array([batch.count for batch in self._batches])
        self._ends = self._counts.cumsum()  # after the last row of each batch
        self._chosen: npt.NDArray[np.int64] | None = None  # rows of the batches; None: all
        later = [batch.later_ns for batch in self._batches]
        shifts = [shifts_ns.get(batch.worker, 0) + batch.later_ns for batch in self._batches]
        # The master draws due times: what corrects a worker's clock does not move them.
        dues = self._columns["awaited_ns"] = self._columns["due_ns"]
        if any(shifts):
            self._columns["start_ns"] = self._columns["start_ns"] + self._of_rows(shifts)
            self._columns["awaited_ns"] = _moved(dues, self._of_rows(shifts))
        if any(later):
            self._columns["due_ns"] = _moved(dues, self._of_rows(later))
        if any(batch.urls for batch in self._batches):
            self._renumber_urls()
        if self._columns["address"].any():
            self._name_addresses()
        groups, several = self._columns["group"], max(identities, 1)
        self._columns["identity"] = identity_of_group(groups, several)
        if identities:  # each has every group of users
            self._columns["group"] = crowd_of_group(groups, identities)

    def _renumber_urls(self) -> None:
        """As the merged run numbers them; those that its parts did not know stay as they are."""
        urls = self._columns["url"].copy()
        for batch, end in zip(self._batches, self._ends.tolist(), strict=True):
            own = urls[end - batch.count : end]
            known = (own >= 0) & (own < len(batch.urls))
            own[known] = np.array(batch.urls, np.int64)[own[known].astype(np.int64)]
        self._columns["url"] = urls

    def _name_addresses(self) -> None:
        """As ``address_of`` numbers them, because each worker numbers its own."""
        addresses = self._columns["address"]
        workers = self._of_rows(self._workers.tolist()).clip(0, 1 << 40)
        possible = (addresses > 0) & (addresses <= MAX_ADDRESSES)
        numbers = workers * (MAX_ADDRESSES + 1) + addresses
        self._columns["address"] = np.where(possible, numbers, 0)

    def _add(
        self, parts: dict[str, list[Ints]], names: tuple[str, ...], batches: Sequence[ResultBatch]
    ) -> None:
        """Decode batches of one schema."""
        for some, found in _matrices(batches, lambda batch: _unpacked(names, [batch])[0]):
            if found is not None:
                self._add_columns(parts, found, some[0].count * len(some))
                self._batches += some
                continue
            for at in range(0, len(some), _AT_A_TIME):
                part = some[at : at + _AT_A_TIME]
                counts, *packed = zip(*_unpacked(names, part), strict=True)
                if list(counts) != [batch.count for batch in part]:
                    raise MessageError("malformed results")
                pieces = dict(zip(names, packed, strict=True))
                if "transaction_id" in pieces:
                    _check_ids(pieces["transaction_id"], counts)
                for index, piece in enumerate(pieces.get("detail", ())):
                    if piece:
                        details = unpack_details(piece, counts[index])
                        self._details[len(self._batches) + index] = details
                known = [name for name in _COLUMNS if name in pieces]
                columns = {name: decoded(pieces[name], counts) for name in known}
                self._add_columns(parts, columns, sum(counts))
                self._batches += part

    def _add_columns(
        self, parts: dict[str, list[Ints]], columns: Mapping[str, Ints], rows: int
    ) -> None:
        """Add this many rows, with the defaults of missing columns."""
        for name, arrays in parts.items():
            if name in columns:
                arrays.append(columns[name])
            elif RESULT_COLUMNS[name].required:
                raise MessageError(f"results without {name}")
            else:
                arrays.append(np.broadcast_to(np.int64(RESULT_COLUMNS[name].default), rows))

    def _of_rows(self, of_batches: Sequence[int]) -> Ints:
        """The value of each row's batch."""
        return np.repeat(as_ints(of_batches), self._counts)

    def only(self, mask: npt.NDArray[np.bool_]) -> PhaseResults | None:
        """The rows of the mask alone; None if there are none."""
        rows = np.flatnonzero(mask)
        if len(rows) == len(self):
            return self
        if not len(rows):
            return None
        found = PhaseResults.__new__(PhaseResults)
        vars(found).update({key: value for key, value in vars(self).items() if key[0] == "_"})
        found._columns = {name: _picked(column, rows) for name, column in self._columns.items()}
        found.workers = self.workers[rows]
        found._chosen = rows if self._chosen is None else self._chosen[rows]
        return found

    def __len__(self) -> int:
        return int(self._ends[-1]) if self._chosen is None else len(self._chosen)

    def __repr__(self) -> str:
        return f"<PhaseResults {len(self)} rows of {len(self._counts)} batches>"

    def column(self, name: str) -> Ints:
        """A column of whole numbers, by the name of Result's field; offsets are corrected.

        "awaited_ns" are the due times as the worker waited for them, by the clock that its other
        times are of: each latency is the difference of two times by one clock.
        """
        return self._columns[name]

    def numbers(self, name: str) -> Ints:
        """The same, or with "worker" each row's worker."""
        return self.workers if name == "worker" else self._columns[name]

    @cached_property
    def workers(self) -> Ints:
        """The index of each row's worker."""
        return np.repeat(self._workers, self._counts)

    def by_worker(self) -> Counter[int]:
        """The number of rows of each worker."""
        if self._chosen is not None:
            found, rows = np.unique(self.workers, return_counts=True)
            return Counter(dict(zip(found.tolist(), rows.tolist(), strict=True)))
        workers, places = np.unique(self._workers, return_inverse=True)
        rows = np.bincount(places, self._counts).astype(np.int64)
        return Counter(dict(zip(workers.tolist(), rows.tolist(), strict=True)))

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
        for at, row in self._places(rows):
            shape, suffix, data = self._ids_of(at)
            if shape in HEX_SHAPES:
                raw = data[row * ID_BYTES : (row + 1) * ID_BYTES]
                found += unpack_ids([shape, suffix, raw], 1)
            else:
                found.append(_plain_ids(data)[row])
        return found

    def _places(self, rows: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
        """The index of each row's batch, and that of the row in it."""
        rows = rows if self._chosen is None else self._chosen[rows]
        at = np.searchsorted(self._ends, rows, side="right")
        return zip(at.tolist(), (rows - self._ends[at] + self._counts[at]).tolist(), strict=True)

    @cached_property
    def has_parts(self) -> bool:
        """Whether any batch has operations in parts."""
        return any("parts" in batch.names for batch in self._batches)

    def parts(self, rows: npt.NDArray[np.int64]) -> Iterator[ObjectParts]:
        """Of those of these rows that have parts."""
        for at, row in self._places(rows):
            if at not in self._parts:
                self._parts[at] = _parts_of(self._batches[at])
            if row in self._parts[at]:
                yield self._parts[at][row]

    def _ids_of(self, at: int) -> Sequence[Any]:
        """The packed transaction ids of a batch."""
        if at not in self._ids:
            batch = self._batches[at]
            _, *columns = _unpacked(batch.names, [batch])[0]
            found = dict(zip(batch.names, columns, strict=True)).get("transaction_id")
            self._ids[at] = found or ("plain", b"", b"\n" * batch.count)
        return self._ids[at]

    def details(self, rows: npt.NDArray[np.int64]) -> list[str]:
        """The details of the errors of these rows."""
        found = ((self._details.get(at), row) for at, row in self._places(rows))
        return [details[row] if details else "" for details, row in found]

    @property
    def notes(self) -> set[str]:
        """What drivers noted of the store, with operations that succeeded."""
        found: set[str] = set()
        for at, details in self._details.items():
            end = int(self._ends[at])
            errors = self.column("error")[end - int(self._counts[at]) : end].tolist()
            found |= {text for text, error in zip(details, errors, strict=True) if not error}
        return found - {""}

    def groups(
        self,
        stages: npt.NDArray[np.int64] | None = None,
        fits: Callable[[tuple[int, int, int]], bool] = lambda _kind: True,
    ) -> Iterator[ResultGroup]:
        """The rows by stage, operation, size class and whether they failed.

        :param stages: of each row; None: 0.
        :param fits: whether a stage, operation and size class have a group of their own; those
            that do not are in one of OTHERS.
        """
        columns = [self.column("operation"), self.column("size_class"), self._outcomes]
        if stages is not None:
            columns.append(stages)
        kinds = _numbered(columns)
        if kinds is None:
            yield ResultGroup(self, None, 0 if stages is None else int(stages[0]))
            return
        order = np.argsort(kinds, kind="stable")
        sorted_kinds = kinds[order]
        others: defaultdict[tuple[int, int], list[npt.NDArray[np.int64]]] = defaultdict(list)
        for rows in np.split(order, np.flatnonzero(np.diff(sorted_kinds)) + 1):
            group = ResultGroup(self, rows, 0 if stages is None else int(stages[rows[0]]))
            if fits((group.stage, group.operation, group.size_class)):
                yield group
            else:
                others[group.stage, group.failed + group.lost_race].append(rows)
        for (stage, _outcome), parts in others.items():
            group = ResultGroup(self, np.concatenate(parts), stage)
            group.operation = group.size_class = OTHERS
            yield group

    def outcomes(self, stages: npt.NDArray[np.int64] | None) -> Iterator[ResultGroup]:
        """The rows by outcome and whether they count, of any operation.

        :param stages: of each row, below 0 for those that do not count; None: all count.
        """
        outcomes = self._outcomes
        counts = np.ones(len(self), bool) if stages is None else stages >= 0
        for outcome in range(3):
            for chosen in (counts & (outcomes == outcome), ~counts & (outcomes == outcome)):
                if chosen.any():
                    rows = np.flatnonzero(chosen)
                    yield ResultGroup(self, rows, 0 if stages is None else int(stages[rows[0]]))

    @cached_property
    def _outcomes(self) -> Ints:
        """0 for a success, 1 for an error, 2 for a lost race."""
        errors = self.column("error")
        found: Ints = (errors != 0).astype(np.int8)
        found[errors == ErrorKind.LOST_RACE] = 2
        return found


def _parts_of(batch: ResultBatch) -> dict[int, ObjectParts]:
    """By row; none of those that are malformed."""
    found: dict[int, ObjectParts] = {}
    with suppress(MessageError):
        if "parts" not in batch.columns:
            return found
        names = "parts", "part_id", "object", "bytes_moved"
        rows = zip(*(batch.column(name) for name in names), strict=True)
        for row, (summary, *known) in enumerate(rows):
            if summary and is_possible(summary):
                count, slowest, url, *times_us = summary
                url = batch.urls[url] if url < len(batch.urls) else url
                found[row] = ObjectParts(count, slowest, url, times_us, *known)
    return found


def _unpacked(names: tuple[str, ...], batches: Sequence[ResultBatch]) -> list[tuple[Any, ...]]:
    """What each batch unpacks to.

    :raises MessageError: if one is malformed.
    """
    decode = batch_decoder(names, _READ).decode
    try:
        return [decode(batch.packed) for batch in batches]
    except unpacking.FAULTS as error:
        raise MessageError("malformed results") from error


def _of_matrix(bases: npt.NDArray[Any], items: npt.NDArray[Any] | None, count: int) -> Ints:
    """The values of a column of a matrix of batches, with this many rows each."""
    if items is not None:
        values = as_ints(items)
        return (values + as_ints(bases)[:, None] if bases.any() else values).reshape(-1)
    if (bases == bases[0]).all():
        return np.broadcast_to(as_ints(bases[:1]), len(bases) * count)
    return np.repeat(as_ints(bases), count)


def _is_constant(column: Ints) -> bool:
    """Whether it is one value that is not even stored for each row."""
    return column.strides == (0,)


def _moved(dues: Ints, by_ns: Ints) -> Ints:
    """Due times, where there are any, moved by so much."""
    return np.where(dues == NONE_NS, NONE_NS, dues + by_ns)


def _picked(column: Ints, rows: npt.NDArray[np.int64]) -> Ints:
    """These rows of a column."""
    if _is_constant(column):
        return np.broadcast_to(column[:1], len(rows))
    return column[rows]


def _joined(arrays: Sequence[Ints]) -> Ints:
    """One array behind the other; one value if all are that: most columns of most runs are 0."""
    first = arrays[0][:1]
    if all(_is_constant(array) and array[0] == first[0] for array in arrays):
        return np.broadcast_to(first, sum(map(len, arrays)))
    return np.concatenate(arrays)


def _check_ids(pieces: Sequence[Any], counts: Sequence[int]) -> None:
    """Check the packed transaction ids of each batch.

    :raises MessageError: if they are malformed.
    """
    shapes, sizes = {piece[0] for piece in pieces}, [len(piece[2]) for piece in pieces]
    if "plain" in shapes or sizes != [ID_BYTES * count for count in counts]:
        for piece, count in zip(pieces, counts, strict=True):
            check_ids(piece, count)


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
        if most - least >= 1 << 12 or most >= 1 << 63:  # no scenario has these: number those here
            values, column = np.unique(column, return_inverse=True)
            least, most = 0, len(values) - 1
        part = column.astype(np.int64) - least
        kinds = part if kinds is None else kinds * (most - least + 1) + part
        size *= most - least + 1
    if kinds is None:
        return None
    # Of 16 bits, because those are sorted in linear time.
    return kinds.astype(np.uint16) if size <= 1 << 16 else kinds


class ResultGroup:
    """The rows of one stage, operation and size class that have one outcome."""

    def __init__(
        self, results: PhaseResults, rows: npt.NDArray[np.int64] | None, stage: int
    ) -> None:
        self._results = results
        self._rows = rows  # None: all
        self._columns: dict[str, Ints] = {}
        self.stage = stage
        first = 0 if rows is None else int(rows[0])
        self.operation = int(results.column("operation")[first])
        self.size_class = int(results.column("size_class")[first])
        self.failed = bool(results.column("error")[first])  #: also if they are lost races
        self.lost_race = bool(results.column("error")[first] == ErrorKind.LOST_RACE)

    def __len__(self) -> int:
        return len(self._results) if self._rows is None else len(self._rows)

    def __repr__(self) -> str:
        return f"<ResultGroup {self.operation}, {self.size_class}: {len(self)} rows>"

    def part(self, rows: npt.NDArray[np.int64]) -> ResultGroup:
        """Some of its rows, at least one."""
        return ResultGroup(
            self._results, rows if self._rows is None else self._rows[rows], self.stage
        )

    def _picked(self, column: Ints) -> Ints:
        return column if self._rows is None else _picked(column, self._rows)

    def column(self, name: str) -> Ints:
        """These rows of a column, by the name of Result's field; "worker" is their worker."""
        found = self._columns.get(name)
        if found is None:
            found = self._columns[name] = self._picked(self._results.numbers(name))
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
        dues = self.column("awaited_ns")
        return np.where(dues == NONE_NS, NONE_NS, self.ends_ns - dues)

    @cached_property
    def extents_ns(self) -> tuple[Ints, Ints]:
        """From when and to when each row counts to a rate, as offsets from the phase's start.

        Its start and its end; if it has a due time, both are its end.
        """
        if self._results.has_due_times:
            closed = self.column("due_ns") == NONE_NS
            return np.where(closed, self.column("start_ns"), self.ends_ns), self.ends_ns
        return self.column("start_ns"), self.ends_ns

    @cached_property
    def bytes_moved(self) -> int:
        """By all of its rows."""
        return exact_sum(self.column("bytes_moved"))

    def ids(self, rows: npt.NDArray[np.int64]) -> list[bytes]:
        """The transaction ids of some of its rows."""
        return self._results.ids(rows if self._rows is None else self._rows[rows])

    def parts(self) -> Iterator[ObjectParts]:
        """As of the results, of its own rows."""
        if self._results.has_parts:
            rows = np.arange(len(self._results)) if self._rows is None else self._rows
            yield from self._results.parts(rows)

    def details(self, rows: npt.NDArray[np.int64]) -> list[str]:
        """The details of some of its rows."""
        return self._results.details(rows if self._rows is None else self._rows[rows])
