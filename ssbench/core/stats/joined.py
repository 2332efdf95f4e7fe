"""Many packed batches of results as one: checked together, unpacked together, by columns.

A batch of a few rows costs as much to unpack as one of a thousand, so a reader puts them together
while they are packed. What isn't asked for stays packed: transaction ids most of all.
"""

from __future__ import annotations

from abc import abstractmethod
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, islice, repeat
from operator import add
from typing import Any, NamedTuple, overload

from ssbench.core.columns import (
    BIG_ENDIAN,
    HEX_SHAPES,
    ID_BYTES,
    MAX_ROWS,
    WIDTHS,
    unpack_details,
    unpack_ids,
)
from ssbench.core.errors import MessageError
from ssbench.core.model import RESULT_NUMBERS, Result

_WIDTH = 1 + RESULT_NUMBERS + 2
_IDS, _DETAILS = RESULT_NUMBERS, RESULT_NUMBERS + 1
#: Batches that are taken at a time. They are some 50 Python objects each, and those of many more
#: no longer fit the processor's cache: that takes a quarter longer.
_AT_A_TIME = 256


class Columns(Sequence[Sequence[Any]]):
    """Columns in the order of Result's fields, each made when it is first asked for."""

    def __init__(self) -> None:
        self._made: dict[int, Sequence[Any]] = {}

    def __len__(self) -> int:
        return len(Result._fields)

    @overload
    def __getitem__(self, index: int) -> Sequence[Any]: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Sequence[Any]]: ...

    def __getitem__(self, index: int | slice) -> Sequence[Any]:
        if isinstance(index, slice):
            return [self[at] for at in range(len(self))[index]]
        at = range(len(self))[index]
        found = self._made.get(at)
        if found is None:
            found = self._made[at] = self._column(at)
        return found

    @abstractmethod
    def _column(self, at: int) -> Sequence[Any]:
        """Make the column of this index."""


class Joined(Columns):
    """The columns of several packed batches, which stay packed until they are asked for.

    :param batches: as ``columns.pack_results`` gives them; at least one.
    :raises MessageError: where any of them is none.
    """

    def __init__(self, batches: Iterable[Any]) -> None:
        super().__init__()
        left = iter(batches)
        self._stretches: list[_Stretch] = []
        while some := list(islice(left, _AT_A_TIME)):
            self._stretches.append(_stretch(some))
        self.rows = sum(stretch.rows for stretch in self._stretches)
        self.batches = sum(len(stretch.counts) for stretch in self._stretches)

    def _column(self, at: int) -> Sequence[Any]:
        if at > _DETAILS:  # batches with optional columns aren't joined
            return [Result._field_defaults[Result._fields[at]]] * self.rows
        if at == _IDS:
            return Ids([piece for stretch in self._stretches for piece in stretch.ids])
        if at == _DETAILS:
            return [text for stretch in self._stretches for text in stretch.texts()]
        columns = [stretch.columns[at] for stretch in self._stretches]
        first = columns[0].only
        if first is not None and all(column.only == first for column in columns):
            return [first] * self.rows
        return _in_a_row([column.values() for column in columns])


class Ids(Sequence[bytes]):
    """Transaction ids, each unpacked when it is asked for: reports need next to none of them.

    :param pieces: packed ids, and how many each has.
    """

    def __init__(self, pieces: Sequence[_PackedIds]) -> None:
        self._pieces = pieces
        self._starts = list(accumulate((piece.rows for piece in pieces), initial=0))

    def __len__(self) -> int:
        return self._starts[-1]

    @overload
    def __getitem__(self, row: int) -> bytes: ...

    @overload
    def __getitem__(self, row: slice) -> Sequence[bytes]: ...

    def __getitem__(self, row: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(row, slice):
            return list(self)[row]
        row = range(len(self))[row]
        piece = bisect_right(self._starts, row) - 1
        return self._pieces[piece].one(row - self._starts[piece])

    def __iter__(self) -> Iterator[bytes]:
        return chain.from_iterable(piece.every() for piece in self._pieces)


class _PackedIds:
    """Transaction ids as they are packed; plain ones are unpacked once, at the first that is
    asked for."""

    __slots__ = ("_data", "_plain", "_shape", "_suffix", "rows")

    def __init__(self, shape: str, suffix: bytes, data: bytes, rows: int) -> None:
        self._shape = shape
        self._suffix = suffix
        self._data = data
        self._plain: Sequence[bytes] | None = None
        self.rows = rows

    def every(self) -> Sequence[bytes]:
        """All of them.

        :raises MessageError: where they are malformed.
        """
        return unpack_ids([self._shape, self._suffix, self._data], self.rows)

    def one(self, row: int) -> bytes:
        """The id of a row; constant time, but for the first of plain ones."""
        if self._shape not in HEX_SHAPES:
            if self._plain is None:
                self._plain = self.every()
            return self._plain[row]
        raw = self._data[row * ID_BYTES : (row + 1) * ID_BYTES]
        return unpack_ids([self._shape, self._suffix, raw], 1)[0]


class _PackedColumn(NamedTuple):
    """The numbers of a column, as they are packed: a base for each batch, and what is above it."""

    bases: Sequence[int]
    items: Sequence[int]  #: empty where the bases are all there is
    counts: Sequence[int]  #: rows of each batch

    @property
    def only(self) -> int | None:
        """What all rows have; None where they may differ."""
        return self.bases[0] if self._same and not self.items else None

    def values(self) -> Sequence[int]:
        if not self.items:
            return list(self._base_of_each_row())
        if not self._same:
            return list(map(add, self.items, self._base_of_each_row()))
        base = self.bases[0]
        return [base + item for item in self.items] if base else self.items

    @property
    def _same(self) -> bool:
        return self.bases.count(self.bases[0]) == len(self.bases)

    def _base_of_each_row(self) -> Iterator[int]:
        return chain.from_iterable(map(repeat, self.bases, self.counts))


class _Stretch(NamedTuple):
    """Some batches, checked: each column in one piece."""

    counts: Sequence[int]
    rows: int
    columns: Sequence[_PackedColumn]
    ids: Sequence[_PackedIds]
    details: Sequence[Any]  #: of each batch; empty where no row has any

    def texts(self) -> list[str]:
        found = [""] * self.rows
        starts = accumulate(self.counts, initial=0)
        for start, count, details in zip(starts, self.counts, self.details, strict=False):
            if details:
                found[start : start + count] = unpack_details(details, count)
        return found


# Checking and putting together: all of a column at once, by functions of C that look at each piece


def _stretch(batches: Sequence[Any]) -> _Stretch:
    if set(map(type, batches)) != {list} or set(map(len, batches)) != {_WIDTH}:
        raise MessageError("a batch of the wrong form")
    counts, *columns, ids, details = zip(*batches, strict=True)
    if set(map(type, counts)) != {int} or not (min(counts) >= 1 and max(counts) <= MAX_ROWS):
        raise MessageError("a batch of no, or too many, rows")
    sizes = {code: [width * count for count in counts] for code, width in WIDTHS.items()}
    try:
        packed = [_column(pieces, counts, sizes) for pieces in columns]
        return _Stretch(counts, sum(counts), packed, _ids(ids, counts), _details(details, counts))
    except (TypeError, ValueError) as error:  # not bytes, without a hash, of other lengths
        raise MessageError("malformed results") from error


def _column(
    pieces: Sequence[Any], counts: Sequence[int], sizes: dict[str, list[int]]
) -> _PackedColumn:
    kinds = set(map(type, pieces))
    if kinds == {int}:
        return _PackedColumn(pieces, (), counts)
    if kinds == {int, list}:
        # What is all one value there, as if it had been packed like the others.
        pieces = [
            piece if type(piece) is list else (piece, "B", bytes(count))
            for piece, count in zip(pieces, counts, strict=True)
        ]
    elif kinds != {list}:
        raise MessageError("a malformed column")
    bases, codes, data = zip(*pieces, strict=True)
    forms = set(codes)
    if set(map(type, bases)) != {int} or not forms <= WIDTHS.keys():
        raise MessageError("a malformed column")
    whole = b"".join(data)  # all of bytes, or it fails
    one = codes[0] if len(forms) == 1 else None
    wanted = sizes[one] if one else [sizes[code][at] for at, code in enumerate(codes)]
    if list(map(len, data)) != wanted:
        raise MessageError("a malformed column")
    items = _array(one, whole) if one else _arrays(codes, data)
    return _PackedColumn(bases, items, counts)


def _arrays(codes: Sequence[str], data: Sequence[bytes]) -> Sequence[int]:
    each: Any = _array if BIG_ENDIAN else array  # which is the faster
    return list(chain.from_iterable(map(each, codes, data)))


def _array(code: str, data: bytes) -> array[int]:
    items = array(code, data)
    if BIG_ENDIAN:
        items.byteswap()
    return items


def _ids(pieces: Sequence[Any], counts: Sequence[int]) -> Sequence[_PackedIds]:
    if set(map(type, pieces)) != {list} or set(map(len, pieces)) != {3}:
        raise MessageError("malformed transaction ids")
    shapes, suffixes, data = zip(*pieces, strict=True)
    if set(map(type, suffixes)) != {bytes} or set(map(type, data)) != {bytes}:
        raise MessageError("malformed transaction ids")
    forms = set(zip(shapes, suffixes, strict=True))
    if len(forms) == 1 and shapes[0] in HEX_SHAPES:
        if list(map(len, data)) != [ID_BYTES * count for count in counts]:
            raise MessageError("malformed transaction ids")
        return [_PackedIds(shapes[0], suffixes[0], b"".join(data), sum(counts))]
    found = list(map(_PackedIds, shapes, suffixes, data, counts))
    for each in found:
        each.every()
    return found


def _details(pieces: Sequence[Any], counts: Sequence[int]) -> Sequence[Any]:
    if not set(map(type, pieces)) <= {list, dict}:  # dict: see unpack_details
        raise MessageError("malformed error details")
    if not any(pieces):
        return ()
    for piece, count in zip(pieces, counts, strict=True):
        if piece:
            unpack_details(piece, count)
    return pieces


def _in_a_row(parts: Sequence[Sequence[int]]) -> Sequence[int]:
    if len(parts) == 1:
        return parts[0]
    codes = {part.typecode if isinstance(part, array) else "" for part in parts}
    whole: Any = [] if len(codes) > 1 or "" in codes else array(codes.pop())
    for part in parts:
        whole += part
    return whole  # type: ignore[no-any-return]
