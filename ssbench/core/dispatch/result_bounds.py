"""Bounds of the numbers in results: numbers out of bounds never reach the stat file.

Packed batches are checked: a column's one value, or its base and the width or the maximum of its
items. The time hardly depends on the number of rows.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

from ssbench.core.columns import (
    BIG_ENDIAN,
    OPTIONAL_COLUMNS,
    RESULT_COLUMNS,
    WIDTHS,
    unpack_lengths,
    unpack_named,
)
from ssbench.core.errors import MessageError
from ssbench.core.model import (
    MAX_ADDRESSES,
    NONE_NS,
    RESULT_NUMBERS,
    SECOND_NS,
    UNCERTAIN_NS,
    Result,
    SizeClass,
)
from ssbench.core.operations import OPERATIONS
from ssbench.core.part_times import is_possible

#: How far a worker's times may be off: it counts from the phase's start on the master's clock, and
#: the offset between the clocks is not well known at first.
MARGIN_NS = 300 * SECOND_NS
#: Bytes that the body of any response may have, whatever the object's size (storage.http.response).
ANY_RESPONSE = 1 << 20
_MAX_OBJECT = 2**53  #: number of an object: what a scenario can have, and more
_MAX_COUNT = 1_000_000  #: of an operation's attempts
_MAX_STATUS = 999
_MAX_ERROR = 255  #: kinds that this release does not know yet are errors, too
_MAX_ITEMS = 2**63 - 1

#: Columns that are 0 of nearly every operation.
_RARE = (
    "retries", "not_found_retries", "rate_limited", "reconnects", "renewals", "error", "unknown",
)  # fmt: skip
#: All others; not the numbers: whether their worker holds these jobs is checked elsewhere.
_USUAL = [name for name in Result._fields[1:RESULT_NUMBERS] if name not in _RARE]
#: Of columns that a batch may lack; others are times.
_MOST_OPTIONAL = {
    "items": _MAX_ITEMS, "others": _MAX_OBJECT, "statuses": _MAX_STATUS, "group": _MAX_COUNT,
    "pages": _MAX_ITEMS, "address": MAX_ADDRESSES,
}  # fmt: skip
_LEAST = {
    "due_ns": NONE_NS,
    "start_ns": -MARGIN_NS,
    "headers_ns": UNCERTAIN_NS,
    "first_byte_ns": UNCERTAIN_NS,
}
_TIMES = [at for at, name in enumerate(_USUAL) if name.endswith("_ns")]
_OPERATION = 1 + Result._fields.index("operation")
_PLAIN = 1 + RESULT_NUMBERS + 2  #: items of a packed batch without optional columns
_usual_of = itemgetter(*(1 + Result._fields.index(name) for name in _USUAL))
_rare_of = itemgetter(*(1 + Result._fields.index(name) for name in _RARE))
_NO_RARE = (0,) * len(_RARE)
_RARE_BOUNDS = [(0, {"error": _MAX_ERROR, "unknown": 1}.get(name, _MAX_COUNT)) for name in _RARE]
_SPANS = {code: (1 << 8 * width) - 1 for code, width in WIDTHS.items()}  # of items


class ResultBounds:
    """The bounds of one phase.

    :param sizes: the scenario's; empty: any size class, and any number of bytes.
    :param urls: how many storage URLs there are.
    """

    def __init__(self, sizes: Sequence[SizeClass] = (), urls: int = 1) -> None:
        self._start_ns = 0
        largest = max((size.size_max for size in sizes), default=_MAX_ITEMS)
        most = {
            "operation": _MAX_COUNT,
            "size_class": len(sizes) - 1 if sizes else _MAX_COUNT,
            "object": _MAX_OBJECT,
            "bytes_moved": max(largest, ANY_RESPONSE),
            "url": max(urls, 1) - 1,
            "status": _MAX_STATUS,
        }
        self._bounds = [(_LEAST.get(name, 0), most.get(name, 0)) for name in _USUAL]
        self._operations = bytes(number for number in OPERATIONS if number < 256)

    def __repr__(self) -> str:
        return f"<ResultBounds {dict(zip(_USUAL, self._bounds, strict=True))}>"

    def begin(self, start_ns: int) -> None:
        """The phase, from which results count their times, began then on the master's clock."""
        self._start_ns = start_ns

    def check(self, columns: Sequence[Any], now_ns: int) -> None:
        """Check packed results, as ``columns.ResultLayout.decode`` returns them.

        :raises MessageError: if a number is out of bounds, or a column malformed.
        """
        # What ended by now began, was due and lasted within the time that the phase has had.
        latest_ns = now_ns - self._start_ns + MARGIN_NS
        bounds, count = self._bounds, columns[0]
        for at in _TIMES:
            bounds[at] = (bounds[at][0], latest_ns)
        if not (
            _within(_usual_of(columns), count, bounds)
            and ((rare := _rare_of(columns)) == _NO_RARE or _within(rare, count, _RARE_BOUNDS))
            and self._known(columns[_OPERATION])
            and (len(columns) <= _PLAIN or _optional_within(count, columns[_PLAIN:], latest_ns))
        ):
            raise MessageError("results that no operation can have")

    def _known(self, operations: Any) -> bool:
        """Whether all numbers in a checked column are of operations."""
        if isinstance(operations, int):
            return operations in OPERATIONS
        base, code, data = operations
        if base == 0 and code == "B":
            return not data.translate(None, self._operations)  # the fastest way for bytes
        return {base + item for item in set(_items(code, data))} <= OPERATIONS.keys()


def _within(columns: Sequence[Any], count: int, bounds: Iterable[tuple[int, int]]) -> bool:
    """True if all values of each packed column are within their bounds. Values are read only where
    base and width do not decide it.

    :raises MessageError: if one is no column of this many values.
    """
    for column, (least, most) in zip(columns, bounds, strict=True):
        if isinstance(column, int):
            if not least <= column <= most:
                return False
            continue
        base, code, data = column
        if len(data) != count * WIDTHS[code]:
            raise MessageError("a malformed column")
        if base < least and base + min(_items(code, data), default=0) < least:
            return False
        if base + _SPANS[code] > most and base + max(_items(code, data), default=0) > most:
            return False
    return True


def _optional_within(count: int, columns: Sequence[Any], latest_ns: int) -> bool:
    for name, column in zip(OPTIONAL_COLUMNS, columns, strict=False):
        kind, most = RESULT_COLUMNS[name].kind, _MOST_OPTIONAL.get(name, latest_ns)
        if name == "parts":
            possible = all(map(is_possible, unpack_named(name, column, count)))
        elif kind == "ints":
            listed = sum(unpack_lengths(column, count))
            possible = _within([column[1]], listed, [(0, most)])
        else:
            possible = kind != "int" or _within([column], count, [(0, most)])
        if not possible:
            return False
    return True


def _items(code: str, data: bytes) -> Sequence[int]:
    if code == "B":
        return data
    items = array(code, data)
    if BIG_ENDIAN:
        items.byteswap()
    return items
