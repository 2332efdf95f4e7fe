"""Bounds of the numbers in results: numbers out of bounds never reach the stat file.

Packed batches are checked: a column's one value, or its base and the width or the maximum of its
items. The time hardly depends on the number of rows.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

from ssbench.core.columns import BIG_ENDIAN, WIDTHS, unpack_column, unpack_ints
from ssbench.core.errors import MessageError
from ssbench.core.model import NONE_NS, RESULT_NUMBERS, UNCERTAIN_NS, Result, SizeClass
from ssbench.core.operations import OPERATIONS

#: How far a worker's times may be off: it counts from the phase's start on the master's clock, and
#: the offset between the clocks is not well known at first.
MARGIN_NS = 300 * 1_000_000_000
#: Bytes that the body of any response may have, whatever the object's size (storage.httpbody).
ANY_RESPONSE = 1 << 20
_MAX_OBJECT = 2**53  #: number of an object: what a scenario can have, and more
_MAX_COUNT = 1_000_000  #: of an operation's attempts
_MAX_STATUS = 999
_MAX_ERROR = 255  #: kinds that this release does not know yet are errors, too
_MAX_NUMBER = 2**63 - 1  #: of a job: whether it is held is looked at elsewhere

_NUMBERS = Result._fields[:RESULT_NUMBERS]
_OPERATION = _NUMBERS.index("operation")
_TIMES = [at for at, name in enumerate(_NUMBERS) if name.endswith("_ns")]
_LEAST = [
    {
        "due_ns": NONE_NS,
        "start_ns": -MARGIN_NS,
        "headers_ns": UNCERTAIN_NS,
        "first_byte_ns": UNCERTAIN_NS,
    }.get(name, 0)
    for name in _NUMBERS
]
_PLAIN = 1 + RESULT_NUMBERS + 2  #: items of a packed batch without optional columns
_numbers_of = itemgetter(slice(1, 1 + RESULT_NUMBERS))


class ResultBounds:
    """The bounds of one phase.

    :param sizes: the scenario's; empty: any size class, and any number of bytes.
    :param urls: how many storage URLs there are.
    """

    def __init__(self, sizes: Sequence[SizeClass] = (), urls: int = 1) -> None:
        self._start_ns = 0
        self._max_class = len(sizes) - 1 if sizes else _MAX_COUNT
        largest = max((size.size_max for size in sizes), default=_MAX_NUMBER)
        self._max_bytes = max(largest, ANY_RESPONSE)
        self._max_url = max(urls, 1) - 1
        self._most = [
            {
                "number": _MAX_NUMBER,
                "operation": _MAX_COUNT,
                "size_class": self._max_class,
                "object": _MAX_OBJECT,
                "bytes_moved": self._max_bytes,
                "url": self._max_url,
                "status": _MAX_STATUS,
                "error": _MAX_ERROR,
                "unknown": 1,
            }.get(name, _MAX_COUNT)
            for name in _NUMBERS
        ]

    def __repr__(self) -> str:
        return f"<ResultBounds {self._max_class + 1} classes, {self._max_bytes} bytes>"

    def begin(self, start_ns: int) -> None:
        """The phase, from which results count their times, began then on the master's clock."""
        self._start_ns = start_ns

    def check(self, columns: Sequence[Any], now_ns: int) -> None:
        """Check packed results, as ``columns.Layout.arrange`` returns them.

        :raises MessageError: where a number is out of bounds, or a column malformed.
        """
        # What ended by now began, was due and lasted within the time that the phase has had.
        latest_ns = now_ns - self._start_ns + MARGIN_NS
        numbers = _numbers_of(columns)
        if list(map(type, numbers)).count(int) == RESULT_NUMBERS:
            possible = self._possible(numbers, latest_ns)
        else:
            possible = self._columns_possible(columns[0], numbers, latest_ns)
        if len(columns) > _PLAIN and possible:
            possible = self._optional_possible(columns[0], columns[_PLAIN:])
        if not possible:
            raise MessageError("results that no operation can have")

    def _possible(self, numbers: Sequence[int], latest_ns: int) -> bool:
        """Whether a row can have these. Each message of a slow run is one: counted in 0.1 µs."""
        (
            number, operation, size_class, object_, due_ns, start_ns, headers_ns, first_ns, last_ns,
            moved, retries, not_found, limited, reconnects, renewals, url, status, error, unknown,
        ) = numbers  # fmt: skip
        return (
            0 <= number <= _MAX_NUMBER
            and operation in OPERATIONS
            and 0 <= size_class <= self._max_class
            and 0 <= object_ <= _MAX_OBJECT
            and NONE_NS <= due_ns <= latest_ns
            and -MARGIN_NS <= start_ns <= latest_ns
            and UNCERTAIN_NS <= headers_ns <= latest_ns
            and UNCERTAIN_NS <= first_ns <= latest_ns
            and 0 <= last_ns <= latest_ns
            and 0 <= moved <= self._max_bytes
            and 0 <= status <= _MAX_STATUS
            and 0 <= url <= self._max_url
            # All of these are 0 of nearly every operation.
            and (
                not (retries or not_found or limited or reconnects or renewals or error or unknown)
                or (
                    min(retries, not_found, limited, reconnects, renewals, error) >= 0
                    and max(retries, not_found, limited, reconnects, renewals) <= _MAX_COUNT
                    and error <= _MAX_ERROR
                    and 0 <= unknown <= 1
                )
            )
        )

    def _columns_possible(self, count: int, columns: Sequence[Any], latest_ns: int) -> bool:
        most = self._most
        for at in _TIMES:
            most[at] = latest_ns
        for column, least, high in zip(columns, _LEAST, most, strict=True):
            if type(column) is int:
                if not least <= column <= high:
                    return False
            elif not _in_bounds(column, count, least, high):
                return False
        return _operations(columns[_OPERATION]) <= OPERATIONS.keys()

    def _optional_possible(self, count: int, columns: Sequence[Any]) -> bool:
        items, others, statuses, groups = columns
        return (
            _all_between(unpack_column(items, count), _MAX_NUMBER)
            and _all_between(chain.from_iterable(unpack_ints(others, count)), _MAX_OBJECT)
            and _all_between(chain.from_iterable(unpack_ints(statuses, count)), _MAX_STATUS)
            and _all_between(unpack_column(groups, count), _MAX_COUNT)
        )


def _all_between(values: Iterable[int], high: int) -> bool:
    return all(0 <= value <= high for value in values)


def _in_bounds(column: Any, count: int, least: int, high: int) -> bool:
    """Whether all values of a packed column are; they are looked at where their width doesn't tell.

    :raises MessageError: where it is no column of so many values.
    """
    try:
        base, code, data = column
        width = WIDTHS[code]
        well_formed = type(base) is int and type(data) is bytes and len(data) == width * count
    except (TypeError, ValueError, LookupError) as error:
        raise MessageError("a malformed column") from error
    if not well_formed:
        raise MessageError("a malformed column")
    if base < least and base + min(_items(code, data)) < least:
        return False
    widest: int = (1 << 8 * width) - 1
    return bool(base + widest <= high or base + max(_items(code, data)) <= high)


def _items(code: str, data: bytes) -> Sequence[int]:
    if code == "B":
        return data
    items = array(code, data)
    if BIG_ENDIAN:
        items.byteswap()
    return items


def _operations(column: Any) -> set[int]:
    if type(column) is int:
        return {column}
    base, code, data = column
    return {base + item for item in set(_items(code, data))}
