"""Batches of jobs and results as columns: one packed array per field.

A column of whole numbers is packed as

- an int, where all of its values are that one;
- ``[base, typecode, bytes]``: value = base + item, items unsigned little-endian of the width
  that typecode (of the array module: B, H, I, Q) names.

Transaction ids are packed as ``[shape, suffix, bytes]``: shape "uuid" is ``tx`` and 32 hexadecimal
digits, 16 raw bytes each; shape "swift" is ``tx``, 21 digits, ``-``, 10 digits and the suffix
that all share, 16 raw bytes each; shape "plain" is one text with a newline after each id.

Details of errors are packed as ``[row, text, row, text, ...]``, rows in rising order. More than
MAX_DETAILS are packed as several such lists in a list: readers bound the length of each.

History: version 1 (ssbench 1.0). Before its release details were a map, row -> text.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain, islice, repeat
from typing import Any

from ssbench.core.errors import MessageError
from ssbench.core.model import RESULT_NUMBERS, Job, Result

MAX_ROWS = 65536  #: more rows in one batch are refused
MAX_DETAILS = 4096  #: rows in one list of details
MAX_LISTED = 1 << 20  #: numbers in all lists of one column
MAX_ARGUMENTS = 16  #: of one job
MAX_ARGUMENT_BYTES = 1024
WIDTHS = {"B": 1, "H": 2, "I": 4, "Q": 8}  #: of a column's items, by their typecode
BIG_ENDIAN = sys.byteorder == "big"
ID_BYTES = 16  #: of a transaction id of one of HEX_SHAPES
HEX_SHAPES = ("uuid", "swift")
_JOB_NUMBERS = Job._fields.index("others")  # fields that every batch of jobs has
_job = partial(tuple.__new__, Job)  # Job._make without its detour through Python

PackedColumn = int | list[Any]


def pack_column(values: Sequence[int]) -> PackedColumn:
    """Pack whole numbers, all in -2**63 .. 2**63-1; the sequence must not be empty."""
    first = values[0]
    if values.count(first) == len(values):
        return first
    base, high = min(values), max(values)
    spread = high - base
    code = "B" if spread < 1 << 8 else "H" if spread < 1 << 16 else "I" if spread < 1 << 32 else "Q"
    if base >= 0 and high < 1 << 8 * WIDTHS[code]:
        base = 0  # saves no bytes, and spares both sides an addition per value
    packed = array(code, [value - base for value in values] if base else values)
    if BIG_ENDIAN:
        packed.byteswap()
    return [base, code, packed.tobytes()]


def unpack_column(packed: Any, count: int) -> Sequence[int]:
    """The ``count`` values of a packed column.

    :raises MessageError: where it is not a column of that length.
    """
    if type(packed) is int:
        return [packed] * count
    if not (
        type(packed) is list
        and len(packed) == 3
        and type(packed[0]) is int
        and isinstance(packed[1], str)
        and isinstance(packed[2], bytes)
        and packed[1] in WIDTHS
        and len(packed[2]) == count * WIDTHS[packed[1]]
    ):
        raise MessageError("a malformed column")
    base, typecode, data = packed
    items = array(typecode, data)
    if BIG_ENDIAN:
        items.byteswap()
    return items if base == 0 else [base + item for item in items]


def pack_ids(ids: Sequence[bytes]) -> list[Any]:
    """Pack transaction ids; hexadecimal ones of Swift's forms take 16 bytes each."""
    first = ids[0]
    shape, suffix = "plain", b""
    if len(first) == 34:
        shape = "uuid" if first[23:24] != b"-" else "swift"
    elif len(first) > 34 and first[23:24] == b"-":
        shape, suffix = "swift", first[34:]
    if shape != "plain":
        packed = _pack_hex_ids(ids, shape, suffix)
        if packed is not None:
            return [shape, suffix, packed]
    # A header holds no newline, but a hostile store's response may.
    return ["plain", b"", b"".join(i.replace(b"\n", b" ") + b"\n" for i in ids)]


def _pack_hex_ids(ids: Sequence[bytes], shape: str, suffix: bytes) -> bytes | None:
    if shape == "swift":
        digits = b"".join([b"0" + i[2:23] + i[24:34] for i in ids])
    else:
        digits = b"".join([i[2:34] for i in ids])
    try:
        raw = bytes.fromhex(digits.decode("ascii"))
    except ValueError:
        return None
    # The short form must restore the ids exactly: upper case, for example, would be lost.
    return raw if list(ids) == _unpack_hex_ids(shape, suffix, raw) else None


def _unpack_hex_ids(shape: str, suffix: bytes, raw: bytes) -> list[bytes]:
    digits = raw.hex().encode("ascii")
    starts = range(0, len(digits), 2 * ID_BYTES)
    if shape == "uuid":
        return [b"tx" + digits[i : i + 32] for i in starts]
    return [
        b"tx%b-%b%b" % (digits[i + 1 : i + 22], digits[i + 22 : i + 32], suffix) for i in starts
    ]


def unpack_ids(packed: Any, count: int) -> Sequence[bytes]:
    """The ``count`` transaction ids.

    :raises MessageError: where it is not a column of that length.
    """
    if not (
        type(packed) is list
        and len(packed) == 3
        and isinstance(packed[0], str)
        and isinstance(packed[1], bytes)
        and isinstance(packed[2], bytes)
    ):
        raise MessageError("malformed transaction ids")
    shape: str = packed[0]
    suffix: bytes = packed[1]
    raw: bytes = packed[2]
    if shape == "plain":
        ids = raw.split(b"\n")
        if len(ids) != count + 1:
            raise MessageError("malformed transaction ids")
        return ids[:-1]
    if shape not in HEX_SHAPES or len(raw) != count * ID_BYTES:
        raise MessageError("malformed transaction ids")
    return _unpack_hex_ids(shape, suffix, raw)


def pack_jobs(jobs: Sequence[Job]) -> list[Any]:
    """``[count, column, ...]`` in the order of Job's fields; at least one job. The optional ones
    are absent where all have their default."""
    columns = list(zip(*jobs, strict=True))
    if len(jobs) == 1:
        packed: list[Any] = [1, *jobs[0][:_JOB_NUMBERS]]
    else:
        packed = [len(jobs), *map(_pack_in_haste, columns[:_JOB_NUMBERS])]
    others, arguments, groups = columns[_JOB_NUMBERS:]
    if any(others) or any(arguments) or any(groups):
        packed += [pack_ints(others), list(map(list, arguments)), pack_column(groups)]
    return packed


def _pack_in_haste(values: Sequence[int]) -> PackedColumn:
    """Like ``pack_column``, in a third of the time and up to four times the bytes: for messages
    that are not stored."""
    first = values[0]
    if values.count(first) == len(values):
        return first
    try:
        packed = array("I", values)
    except OverflowError:
        return pack_column(values)
    if BIG_ENDIAN:
        packed.byteswap()
    return [0, "I", packed.tobytes()]


def unpack_jobs(packed: Any) -> list[Job]:
    """The jobs of ``pack_jobs``.

    :raises MessageError: for anything else.
    """
    count = _row_count(packed, (1 + _JOB_NUMBERS, 1 + len(Job._fields)))
    plain = len(packed) == 1 + _JOB_NUMBERS
    if plain and count == 1 and all(type(value) is int for value in packed):
        return [_job((*packed[1:], (), (), 0))]
    columns = [unpack_column(column, count) for column in packed[1 : 1 + _JOB_NUMBERS]]
    optional: list[Iterable[Any]] = [repeat(()), repeat(()), repeat(0)]
    if not plain:
        others, arguments, groups = packed[1 + _JOB_NUMBERS :]
        optional = [
            unpack_ints(others, count),
            _unpack_arguments(arguments, count),
            unpack_column(groups, count),
        ]
    return list(map(_job, zip(*columns, *optional, strict=False)))


def _unpack_arguments(packed: Any, count: int) -> list[tuple[int | bytes, ...]]:
    """:raises MessageError: where they are not ``count`` lists of whole numbers and short bytes."""
    if type(packed) is not list or len(packed) != count:
        raise MessageError("malformed arguments")
    for values in packed:
        if type(values) is not list or len(values) > MAX_ARGUMENTS:
            raise MessageError("malformed arguments")
        for value in values:
            if type(value) is not int and not (
                type(value) is bytes and len(value) <= MAX_ARGUMENT_BYTES
            ):
                raise MessageError("malformed arguments")
    return list(map(tuple, packed))


def pack_ints(lists: Sequence[Sequence[int]]) -> list[Any]:
    """Pack a list of whole numbers per row: ``[column of lengths, column of all numbers]``."""
    flat = list(chain.from_iterable(lists))
    return [pack_column(list(map(len, lists))), pack_column(flat) if flat else 0]


def unpack_ints(packed: Any, count: int) -> list[tuple[int, ...]]:
    """The ``count`` lists of ``pack_ints``.

    :raises MessageError: for anything else, and for more than MAX_LISTED numbers.
    """
    if type(packed) is not list or len(packed) != 2:
        raise MessageError("malformed lists")
    lengths = unpack_column(packed[0], count)
    if not (min(lengths) >= 0 and sum(lengths) <= MAX_LISTED):
        raise MessageError("malformed lists")
    flat = iter(unpack_column(packed[1], sum(lengths)))
    return [tuple(islice(flat, length)) for length in lengths]


def pack_results(rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    """``[count, column of numbers ..., ids, details]`` in the order of Result's fields; then,
    where any row has one, those of its optional fields. At least one row."""
    columns = list(zip(*rows, strict=True))
    if len(rows) == 1:
        packed: list[Any] = [1, *rows[0][:RESULT_NUMBERS]]
    else:
        packed = [len(rows), *map(pack_column, columns[:RESULT_NUMBERS])]
    ids, details, *optional = columns[RESULT_NUMBERS:]
    packed += [pack_ids(ids), _pack_details(details) if any(details) else []]
    if any(map(any, optional)):
        packed += pack_optional(*optional)
    return packed


def pack_optional(
    items: Sequence[int],
    others: Sequence[Sequence[int]],
    statuses: Sequence[Sequence[int]],
    groups: Sequence[int],
) -> list[Any]:
    """The optional columns of results, packed, in their order."""
    return [pack_column(items), pack_ints(others), pack_ints(statuses), pack_column(groups)]


def _pack_details(texts: Iterable[str]) -> list[Any]:
    details = [item for row in enumerate(texts) if row[1] for item in row]
    if len(details) <= 2 * MAX_DETAILS:
        return details
    starts = range(0, len(details), 2 * MAX_DETAILS)
    return [details[at : at + 2 * MAX_DETAILS] for at in starts]


def result_count(packed: Any) -> int:
    """The number of rows of packed results.

    :raises MessageError: if the outer list is malformed (columns are not read).
    """
    return _row_count(packed, (1 + RESULT_NUMBERS + 2, 1 + len(Result._fields)))


def unpack_results(packed: Any) -> list[Sequence[Any]]:
    """The columns of ``pack_results``, in the order of Result's fields.

    :raises MessageError: for anything else.
    """
    count = result_count(packed)
    columns: list[Sequence[Any]] = [
        unpack_column(column, count) for column in packed[1 : 1 + RESULT_NUMBERS]
    ]
    ids, details, *optional = packed[1 + RESULT_NUMBERS :]
    columns += [unpack_ids(ids, count), unpack_details(details, count)]
    if not optional:
        return [*columns, [0] * count, [()] * count, [()] * count, [0] * count]
    items, others, statuses, groups = optional
    columns += [unpack_column(items, count), unpack_ints(others, count)]
    columns += [unpack_ints(statuses, count), unpack_column(groups, count)]
    return columns


def unpack_details(details: Any, count: int) -> list[str]:
    """The text of each row, "" for those that have none.

    :raises MessageError: if a text has no row, or the rows don't increase.
    """
    if details == {}:  # as it was before 1.0; a map with entries is none of msgpack that we read
        details = []
    if type(details) is list and details and set(map(type, details)) == {list}:
        details = list(chain.from_iterable(details))
    if type(details) is not list or len(details) % 2:
        raise MessageError("malformed error details")
    texts = list(repeat("", count))
    before = -1
    for row, text in zip(details[::2], details[1::2], strict=True):
        if type(row) is not int or not before < row < count or type(text) is not str:
            raise MessageError("malformed error details")
        texts[row] = text
        before = row
    return texts


def _row_count(packed: Any, widths: tuple[int, int]) -> int:
    if type(packed) is not list or len(packed) not in widths:
        raise MessageError("a batch of the wrong form")
    count = packed[0]
    if type(count) is not int or not 1 <= count <= MAX_ROWS:
        raise MessageError("a batch of no, or too many, rows")
    return count
