"""Batches of results whose bytes have one form, as the rows of a matrix.

Most batches of a run differ in their values only: their columns have the same widths, and so the
same places. They are the rows of a matrix of bytes, and a column of results is a slice of it. Small
batches are read in a fraction of the time that unpacking each of them takes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ssbench.core.columns import WIDTHS, check_ids
from ssbench.core.errors import MessageError
from ssbench.core.records import ResultBatch

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
_Array = npt.NDArray[Any]


class _NoFormError(Exception):
    """A batch has more than a form describes."""


class _Place(NamedTuple):
    """Where each batch of a matrix has some numbers."""

    at: int
    kind: str  #: dtype of each
    numbers: int

    def of(self, matrix: _Bytes) -> _Array:
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
        """Fix all but the values of what begins there; gives its end."""
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

    def of(self, matrix: _Bytes) -> npt.NDArray[np.bool_]:
        """Which batches have the form, and transaction ids that are not malformed."""
        alike: npt.NDArray[np.bool_]
        alike = ((matrix[:, self._fixed] & self._bits) == self._values).all(axis=1)
        if self._plain_ids:
            ends = self._plain_ids.of(matrix) == ord("\n")
            alike &= (ends.sum(axis=1) == self.count) & ends[:, -1]
        return alike


class BatchMatrix:
    """Batches of one form: all have as many rows, no error details, and ids that are sound."""

    def __init__(self, form: _BatchForm, matrix: _Bytes, batches: Sequence[ResultBatch]) -> None:
        self._form = form
        self._matrix = matrix
        self.batches = batches

    def __repr__(self) -> str:
        return f"<BatchMatrix of {len(self.batches)} batches of {self.count} rows>"

    @property
    def count(self) -> int:
        """Rows of each batch."""
        return self._form.count

    @property
    def names(self) -> Collection[str]:
        """The columns of whole numbers that were unpacked."""
        return self._form.columns.keys()

    def column(self, name: str) -> tuple[_Array, _Array | None]:
        """A column of whole numbers: of each batch its base, and the items to which it is added.

        Without items, all rows of a batch have the base.
        """
        base, items = self._form.columns[name]
        return base.of(self._matrix)[:, 0], None if items is None else items.of(self._matrix)


def matrices(
    batches: Sequence[ResultBatch], unpack: Callable[[ResultBatch], Sequence[Any]]
) -> Iterator[BatchMatrix | list[ResultBatch]]:
    """The batches of one schema as matrices, and those that fit in none.

    :param unpack: as the decoder of ``core.columns.batch_decoder``, or raises MessageError.
    :raises MessageError: if a batch is malformed; those in no matrix are not checked.
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
            yield BatchMatrix(form, matrix if alike.all() else matrix[alike], found)
            left, matrix = list(compress(left, ~alike)), matrix[~alike]
        rest += left
    if rest:
        yield [batches[at] for at in sorted(rest)]
