"""Many packed batches of results as one: checked together, unpacked together, by columns.

A batch of a few rows costs as much to unpack as one of a thousand, so a reader puts them together
while they are packed. What isn't asked for stays packed: transaction ids most of all.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, compress, repeat
from operator import add, mul
from typing import Any, overload

from ssbench.core.columns import (
    BIG_ENDIAN,
    MAX_ROWS,
    WIDTHS,
    unpack_column,
    unpack_details,
    unpack_ids,
)
from ssbench.core.errors import MessageError
from ssbench.core.model import RESULT_NUMBERS

_WIDTH = 1 + RESULT_NUMBERS + 2
_IDS, _DETAILS = RESULT_NUMBERS, RESULT_NUMBERS + 1


class Joined(Sequence[Sequence[Any]]):
    """The columns of several packed batches, in the order of Result's fields.

    A column is unpacked when it is first asked for.

    :param batches: as ``columns.pack_results`` gives them; at least one.
    :raises MessageError: where any of them is none.
    """

    def __init__(self, batches: Sequence[Any]) -> None:
        if set(map(type, batches)) != {list} or set(map(len, batches)) != {_WIDTH}:
            raise MessageError("a batch of the wrong form")
        self._counts, *self._packed = zip(*batches, strict=True)
        if set(map(type, self._counts)) != {int} or not (
            min(self._counts) >= 1 and max(self._counts) <= MAX_ROWS
        ):
            raise MessageError("a batch of no, or too many, rows")
        self.rows = sum(self._counts)
        for pieces in self._packed[:RESULT_NUMBERS]:
            _check(pieces, self._counts)
        _check_ids(self._packed[_IDS], self._counts)
        self._details = _joined_details(self._packed[_DETAILS], self._counts)
        self._made: dict[int, Sequence[Any]] = {}

    def __len__(self) -> int:
        return len(self._packed)

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

    def _column(self, at: int) -> Sequence[Any]:
        if at == _IDS:
            return Ids(self._packed[_IDS], self._counts)
        if at == _DETAILS:
            return self._details or [""] * self.rows
        return _joined(self._packed[at], self._counts, self.rows)


class Ids(Sequence[bytes]):
    """Transaction ids, each unpacked when it is asked for: reports need next to none of them."""

    def __init__(self, pieces: Sequence[Any], counts: Sequence[int]) -> None:
        self._pieces = pieces
        self._starts = list(accumulate(counts, initial=0))

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
        return self._ids(piece)[row - self._starts[piece]]

    def __iter__(self) -> Iterator[bytes]:
        return chain.from_iterable(map(self._ids, range(len(self._pieces))))

    def _ids(self, piece: int) -> Sequence[bytes]:
        return unpack_ids(self._pieces[piece], self._starts[piece + 1] - self._starts[piece])


# Checking: all pieces of a column at once, by functions of C that look at each


def _check(pieces: Sequence[Any], counts: Sequence[int]) -> None:
    kinds = set(map(type, pieces))
    if kinds == {int}:
        return
    if kinds == {int, list}:
        chosen = [type(piece) is list for piece in pieces]
        pieces, counts = list(compress(pieces, chosen)), list(compress(counts, chosen))
    elif kinds != {list}:
        raise MessageError("a malformed column")
    if set(map(len, pieces)) != {3}:
        raise MessageError("a malformed column")
    bases, codes, data = zip(*pieces, strict=True)
    if not (
        set(map(type, bases)) == {int}
        and set(map(type, codes)) == {str}
        and set(codes) <= WIDTHS.keys()
        and set(map(type, data)) == {bytes}
        and list(map(len, data)) == list(map(mul, map(WIDTHS.__getitem__, codes), counts))
    ):
        raise MessageError("a malformed column")


def _check_ids(pieces: Sequence[Any], counts: Sequence[int]) -> None:
    if set(map(type, pieces)) != {list} or set(map(len, pieces)) != {3}:
        raise MessageError("malformed transaction ids")
    shapes, suffixes, data = zip(*pieces, strict=True)
    if not (
        set(map(type, shapes)) == {str}
        and set(map(type, suffixes)) == {bytes}
        and set(map(type, data)) == {bytes}
    ):
        raise MessageError("malformed transaction ids")
    if set(shapes) <= {"uuid", "swift"}:
        if list(map(len, data)) != [16 * count for count in counts]:
            raise MessageError("malformed transaction ids")
        return
    for piece, count in zip(pieces, counts, strict=True):
        unpack_ids(piece, count)


def _joined_details(pieces: Sequence[Any], counts: Sequence[int]) -> list[str]:
    """Empty where no row has one."""
    if set(map(type, pieces)) != {dict}:
        raise MessageError("malformed error details")
    if not any(pieces):
        return []
    return list(chain.from_iterable(map(unpack_details, pieces, counts)))


# Unpacking


def _joined(pieces: Sequence[Any], counts: Sequence[int], rows: int) -> Sequence[int]:
    """The values of pieces that ``_check`` has let pass."""
    if len(pieces) == 1:
        return unpack_column(pieces[0], rows)
    kinds = set(map(type, pieces))
    if kinds == {int}:
        if pieces.count(pieces[0]) == len(pieces):
            return [pieces[0]] * rows
        if len(pieces) == rows:
            return pieces
        return list(chain.from_iterable(map(repeat, pieces, counts)))
    if kinds != {list}:
        # What was all one value there, as if it had been packed like the others.
        pieces = [
            piece if type(piece) is list else (piece, "B", bytes(count))
            for piece, count in zip(pieces, counts, strict=True)
        ]
    bases, codes, data = zip(*pieces, strict=True)
    items: Sequence[int]
    if BIG_ENDIAN:
        items = [
            item
            for piece in zip(codes, data, counts, strict=True)
            for item in unpack_column([0, *piece[:2]], piece[2])
        ]
    elif codes.count(codes[0]) == len(codes):
        items = array(codes[0], b"".join(data))
    else:
        items = list(chain.from_iterable(map(array, codes, data)))
    return _raised(items, bases, counts)


def _raised(items: Sequence[int], bases: Sequence[int], counts: Sequence[int]) -> Sequence[int]:
    if not any(bases):
        return items
    if bases.count(bases[0]) == len(bases):
        return [bases[0] + item for item in items]
    return list(map(add, items, chain.from_iterable(map(repeat, bases, counts))))
