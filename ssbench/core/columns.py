"""Batches of jobs and results, whose columns have names.

A batch is msgpack: jobs are a list of rows, results ``[count, column, ...]``. Its schema names the
columns: their names and kinds, in their order. Schemas are sent apart from batches (a worker's
hello, the control state, a record in each block of a stat file), so names are resolved once and not
per batch. Readers ignore columns that they don't know and give missing ones their default.

========== =========================================================================================
kind       of results
========== =========================================================================================
``int``    an int, if all values are that one; or ``[base, typecode, bytes]``: value = base +
           item, items unsigned little-endian of the width that typecode (of the array module: B, H,
           I, Q) names
``id``     ``[shape, suffix, bytes]``, transaction ids: shape "uuid" is ``tx`` and 32 hexadecimal
           digits, 16 raw bytes each; "swift" is ``tx``, 21 digits, ``-``, 10 digits and the suffix
           that all share, 16 raw bytes each; "plain" is one text with a newline after each id
``text``   ``[row, text, row, text, ...]``, rows in rising order, the others have "". More than
           MAX_DETAILS are several such lists in a list: readers bound the length of each
``ints``   ``[lengths, numbers]``, lists of whole numbers: two columns of the kind ``int``
========== =========================================================================================

In a row of a job an ``int`` is a number, ``ints`` a list of them, ``values`` a list of whole
numbers and bytes.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain, islice, repeat
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_type_hints

import msgspec
from msgspec import Meta

from ssbench.core.boundary import typed
from ssbench.core.errors import MessageError
from ssbench.core.model import NONE_NS, RESULT_NUMBERS, Job, Result

MAX_ROWS = 65536  #: more rows in one batch are refused
MAX_DETAILS = 4096  #: rows in one list of details
MAX_LISTED = 1 << 20  #: numbers in all lists of one column
MAX_ARGUMENTS = 16  #: of one job
MAX_ARGUMENT_BYTES = 1024
#: Of what others send: schemas in a message, columns of a schema, characters of a name or kind.
MAX_SCHEMAS, MAX_COLUMNS, MAX_NAME = 16, 64, 64
WIDTHS = {"B": 1, "H": 2, "I": 4, "Q": 8}  #: of a column's items, by their typecode
#: By the bits of a column's spread: typecode of its items, and the limit of their values.
_BY_BITS = [
    next((code, 1 << 8 * width) for code, width in WIDTHS.items() if bits <= 8 * width)
    for bits in range(65)
]
BIG_ENDIAN = sys.byteorder == "big"
ID_BYTES = 16  #: of a transaction id of one of HEX_SHAPES
HEX_SHAPES = ("uuid", "swift")
_new_job = partial(tuple.__new__, Job)  # as Job._make, without a Python-level call

_Name = Annotated[str, Meta(max_length=MAX_NAME)]
#: (name, kind) of each column
Schema = Annotated[tuple[tuple[_Name, _Name], ...], Meta(max_length=MAX_COLUMNS)]
Schemas = Annotated[tuple[Schema, ...], Meta(max_length=MAX_SCHEMAS)]
PackedColumn = int | list[Any]

_Packed = int | tuple[int, Literal["B", "H", "I", "Q"], bytes]
_Details = Annotated[list[int | str], Meta(max_length=2 * MAX_DETAILS)]
_Listed = Annotated[list[int | str | _Details], Meta(max_length=2 * MAX_ROWS)]
#: Of results, by kind: what ``ResultLayout`` accepts.
_RESULT_TYPES: Mapping[str, Any] = {
    "int": _Packed,
    "id": tuple[Literal["plain", "uuid", "swift"], bytes, bytes],
    "text": _Listed,
    "ints": tuple[_Packed, _Packed],
}
#: The same in a stat file: before 1.0 no details were an empty map.
STORED_TYPES: Mapping[str, Any] = {
    **_RESULT_TYPES,
    "text": _Listed | Annotated[dict[str, str], Meta(max_length=0)],
}
_Argument = int | Annotated[bytes, Meta(max_length=MAX_ARGUMENT_BYTES)]
_JOB_TYPES: Mapping[str, Any] = {
    "int": int,
    "ints": tuple[int, ...],
    "values": Annotated[tuple[_Argument, ...], Meta(max_length=MAX_ARGUMENTS)],
}
_Count = Annotated[int, Meta(ge=1, le=MAX_ROWS)]


class KnownColumn(NamedTuple):
    """A column that this version knows."""

    kind: str
    required: bool
    default: Any  #: packed value of all rows of a batch without the column


_KINDS: Mapping[Any, str] = {
    int: "int", bytes: "id", str: "text", tuple[int, ...]: "ints",
    tuple[int | bytes, ...]: "values",
}  # fmt: skip
_REQUIRED = frozenset(
    {"number", "operation", "size_class", "object", "version", "size", "start_ns", "last_byte_ns"}
)
_NO_TIMES = frozenset({"due_ns", "headers_ns", "first_byte_ns"})  #: their default is NONE_NS
#: The column of an id that no row has is for ``default_column``: it depends on the rows.
_RESULT_DEFAULTS = {"int": 0, "id": ["plain", b"", b""], "text": [], "ints": [0, 0]}
_JOB_DEFAULTS = {"int": 0, "ints": (), "values": ()}


def _columns(row: type, defaults: Mapping[str, Any]) -> Mapping[str, KnownColumn]:
    """A column for each field of a row, by name, in their order."""
    kinds = {name: _KINDS[hint] for name, hint in get_type_hints(row).items()}
    return {
        name: KnownColumn(kind, name in _REQUIRED, NONE_NS if name in _NO_TIMES else defaults[kind])
        for name, kind in kinds.items()
    }


RESULT_COLUMNS = _columns(Result, _RESULT_DEFAULTS)
JOB_COLUMNS = _columns(Job, _JOB_DEFAULTS)


def _schema(columns: Mapping[str, KnownColumn]) -> Schema:
    return tuple((name, column.kind) for name, column in columns.items())


#: What this version sends. A batch of results ends with one of these columns: the first behind
#: which all rows have the defaults. It names its schema by the index.
RESULT_SCHEMAS = tuple(
    _schema(RESULT_COLUMNS)[: 1 + Result._fields.index(last)]
    for last in ("detail", "address", "part_id", "version_id")
)
#: Items of a batch, its count included -> the index of its schema.
SCHEMA_NUMBERS = {1 + len(schema): at for at, schema in enumerate(RESULT_SCHEMAS)}
JOB_SCHEMAS = (_schema(JOB_COLUMNS),)
#: Columns that a batch may lack, and how many of them the schemas have.
OPTIONAL_COLUMNS = Result._fields[len(RESULT_SCHEMAS[0]) :]
_OPTIONAL_COUNTS = [len(schema) - len(RESULT_SCHEMAS[0]) for schema in RESULT_SCHEMAS]


def read_schema(value: Any) -> Schema:
    """A schema that another process wrote, from msgpack.

    :raises MessageError: if it is none.
    """
    schema: Schema = typed(msgspec.convert, value, "a malformed schema", type=Schema)
    if len(dict(schema)) != len(schema):
        raise MessageError("a schema that has a column twice")
    return schema


def _order(
    schema: Schema, known: Mapping[str, KnownColumn], own: Schemas
) -> list[tuple[int | None, KnownColumn]] | None:
    """Each known column with its index in a schema, None for one that is missing; None if the
    schema is one of our own, which need no reordering.

    :raises MessageError: if a required column is missing, or one has another kind or is there
        twice.
    """
    kinds = dict(schema)
    if len(kinds) != len(schema):
        raise MessageError("a schema that has a column twice")
    for name, column in known.items():
        if kinds.get(name, None if column.required else column.kind) != column.kind:
            raise MessageError(f"a schema without a column {name} of the kind {column.kind}")
    at = {name: index for index, name in enumerate(kinds)}
    return None if schema in own else [(at.get(name), column) for name, column in known.items()]


def _types(
    schema: Schema, known: Mapping[str, KnownColumn], types: Mapping[str, Any], *before: Any
) -> tuple[Any, ...]:
    """What each column of a schema must be, after others; unknown ones are skipped unread."""
    return *before, *(types[kind] if name in known else msgspec.Raw for name, kind in schema)


class ResultLayout:
    """Reads batches of results of one schema.

    :raises MessageError: if the schema can't be used.
    """

    def __init__(self, schema: Schema) -> None:
        self._order = _order(schema, RESULT_COLUMNS, RESULT_SCHEMAS)
        batch: Any = tuple[_types(schema, RESULT_COLUMNS, _RESULT_TYPES, _Count)]  # type: ignore[misc]
        self._decoder = msgspec.msgpack.Decoder(batch)

    def decode(self, data: bytes) -> Sequence[Any]:
        """``[count, packed column, ...]`` in the order of Result's fields, with the defaults of
        missing columns; optional ones may be absent at the end.

        :raises MessageError: if it is no batch of this schema.
        """
        found: Any = typed(self._decoder.decode, data, "a malformed batch")
        if self._order is None:
            return found  # type: ignore[no-any-return]
        count, *columns = found
        return [count] + [
            default_column(column, count) if at is None else columns[at]
            for at, column in self._order
        ]


class JobLayout:
    """Reads batches of jobs of one schema.

    :raises MessageError: if the schema can't be used.
    """

    def __init__(self, schema: Schema) -> None:
        self._order = _order(schema, JOB_COLUMNS, JOB_SCHEMAS)
        row: Any = tuple[_types(schema, JOB_COLUMNS, _JOB_TYPES)]  # type: ignore[misc]
        rows = Annotated[list[row], Meta(min_length=1, max_length=MAX_ROWS)]
        self._decoder = msgspec.msgpack.Decoder(rows)

    def decode(self, data: bytes) -> list[Job]:
        """The jobs of a batch; at least one.

        :raises MessageError: if it is no batch of this schema.
        """
        rows: Any = typed(self._decoder.decode, data, "a malformed batch")
        if self._order is not None:
            rows = (
                [column.default if at is None else row[at] for at, column in self._order]
                for row in rows
            )
        return list(map(_new_job, rows))


_Layout = TypeVar("_Layout")


def layouts(schemas: Sequence[Schema], make: Callable[[Schema], _Layout]) -> list[_Layout | None]:
    """The layout of each schema; None for one that can't be used."""
    found: list[_Layout | None] = []
    for schema in schemas:
        try:
            found.append(_layout_of(make, schema))
        except MessageError:
            found.append(None)
    return found


@lru_cache(maxsize=8)  # the workers of a run have the same, or that of another release
def _layout_of(make: Callable[[Schema], _Layout], schema: Schema) -> _Layout:
    return make(schema)


def layout(found: Sequence[_Layout | None], number: int) -> _Layout:
    """The layout of the schema of this number.

    :raises MessageError: if there is no such schema, or it can't be used.
    """
    here = found[number] if number < len(found) else None
    if here is None:
        raise MessageError(f"a batch of schema {number}, which is unknown")
    return here


def default_column(column: KnownColumn, count: int) -> Any:
    """The packed column of a batch that has none of this name."""
    return ["plain", b"", b"\n" * count] if column.kind == "id" else column.default


def pack_column(values: Sequence[int]) -> PackedColumn:
    """Pack whole numbers, all in -2**63 .. 2**63-1; the sequence must not be empty."""
    first = values[0]
    if values.count(first) == len(values):
        return first
    base, high = min(values), max(values)
    code, limit = _BY_BITS[(high - base).bit_length()]
    if base >= 0 and high < limit:
        base = 0  # saves no bytes, and spares both sides an addition per value
        packed = array(code, values)
    else:
        packed = array(code, [value - base for value in values])
    if BIG_ENDIAN:
        packed.byteswap()
    return [base, code, packed.tobytes()]


def unpack_column(packed: Any, count: int) -> Sequence[int]:
    """The ``count`` values of a packed column.

    :raises MessageError: if it is not a column of that length.
    """
    if type(packed) is int:
        return [packed] * count
    base, typecode, data = packed
    if len(data) != count * WIDTHS[typecode]:
        raise MessageError("a malformed column")
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

    :raises MessageError: if it is not a column of that length.
    """
    check_ids(packed, count)
    shape, suffix, raw = packed
    return raw.split(b"\n")[:-1] if shape == "plain" else _unpack_hex_ids(shape, suffix, raw)


def packed_count(packed: bytes, columns: int) -> int:
    """The number of rows of packed results, read without unpacking the rest.

    :param packed: msgpack of ``[count, column, ...]``.
    :raises MessageError: if it isn't a list of a count and that many columns.
    """
    # Of msgpack: the length of an array up to 15 is in its first byte, else in two more. A number
    # below 128 is a byte of its own, else its type says how many bytes follow.
    try:
        first = packed[0]
        length, at = (packed[1] << 8 | packed[2], 3) if first == 0xDC else (first - 0x90, 1)
        count = packed[at]
    except IndexError:
        raise MessageError("malformed results") from None
    if at == 1 and not 0 <= length <= 15:
        raise MessageError("malformed results")
    if length != 1 + columns:
        raise MessageError("a batch of the wrong form")
    if count >= 0x80:
        width = {0xCC: 1, 0xCD: 2, 0xCE: 4}.get(count, 0)
        count = int.from_bytes(packed[at + 1 : at + 1 + width], "big")
    if not 1 <= count <= MAX_ROWS:
        raise MessageError("a batch of no, or too many, rows")
    return count


@lru_cache(maxsize=128)
def batch_decoder(
    names: tuple[str, ...], wanted: frozenset[str] = frozenset(RESULT_COLUMNS)
) -> msgspec.msgpack.Decoder[tuple[Any, ...]]:
    """Reads stored batches of results with these columns, as ``(count, packed column, ...)``.

    Columns that are not wanted are skipped unread: they come as msgspec.Raw.
    """
    kinds = tuple((name, RESULT_COLUMNS[name].kind if name in wanted else "") for name in names)
    known = {name: RESULT_COLUMNS[name] for name in wanted}
    batch: Any = tuple[_types(kinds, known, STORED_TYPES, _Count)]  # type: ignore[misc]
    return msgspec.msgpack.Decoder(batch)


def check_ids(packed: Any, count: int) -> None:
    """Check packed transaction ids without unpacking them.

    :raises MessageError: if it is not a column of that length.
    """
    shape, _, raw = packed
    if shape == "plain":
        sound = raw.count(b"\n") == count and (not raw or raw.endswith(b"\n"))
    else:
        sound = len(raw) == count * ID_BYTES
    if not sound:
        raise MessageError("malformed transaction ids")


def pack_ints(lists: Sequence[Sequence[int]]) -> list[Any]:
    """Pack a list of whole numbers per row: ``[column of lengths, column of all numbers]``."""
    flat = list(chain.from_iterable(lists))
    return [pack_column(list(map(len, lists))), pack_column(flat) if flat else 0]


#: Columns of lists of which none is of several equal numbers: objects of one operation, and
#: summaries of parts. Equal numbers alone would unfold from a few bytes to any size.
_VARIED = frozenset({"others", "parts"})


def unpack_lengths(packed: Any, count: int) -> Sequence[int]:
    """The lengths of the ``count`` lists of ``pack_ints``, which stay packed: any count of equal
    numbers takes a byte.

    :raises MessageError: for other lengths, and for more than MAX_LISTED numbers.
    """
    lengths = unpack_column(packed[0], count)
    if not (min(lengths) >= 0 and sum(lengths) <= MAX_LISTED):
        raise MessageError("malformed lists")
    return lengths


def unpack_ints(packed: Any, count: int) -> list[tuple[int, ...]]:
    """The ``count`` lists of ``pack_ints``.

    :raises MessageError: as ``unpack_lengths``, and if there are more or fewer numbers.
    """
    lengths = unpack_lengths(packed, count)
    flat = iter(unpack_column(packed[1], sum(lengths)))
    return [tuple(islice(flat, length)) for length in lengths]


def pack_results(rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    """``[count, packed column, ...]`` in the order of Result's fields. At least one row."""
    columns = list(zip(*rows, strict=True))
    if len(rows) == 1:
        packed: list[Any] = [1, *rows[0][:RESULT_NUMBERS]]
    else:
        packed = [len(rows), *map(pack_column, columns[:RESULT_NUMBERS])]
    ids, details, *optional = columns[RESULT_NUMBERS:]
    packed += [pack_ids(ids), _pack_details(details) if any(details) else []]
    return packed + pack_optional(optional)


def pack_optional(columns: Sequence[Sequence[Any]]) -> list[Any]:
    """Of the columns that a batch may lack, in their order, those that it needs, packed."""
    if not any(map(any, columns)):
        return []
    needed = max(at for at, values in enumerate(columns, 1) if any(values))
    count = next(count for count in _OPTIONAL_COUNTS if count >= needed)
    packers = [_PACKERS[RESULT_COLUMNS[name].kind] for name in OPTIONAL_COLUMNS[:count]]
    return [pack(values) for pack, values in zip(packers, columns, strict=False)]


def _pack_details(texts: Iterable[str]) -> list[Any]:
    details = [item for row in enumerate(texts) if row[1] for item in row]
    if len(details) <= 2 * MAX_DETAILS:
        return details
    starts = range(0, len(details), 2 * MAX_DETAILS)
    return [details[at : at + 2 * MAX_DETAILS] for at in starts]


def unpack_named(name: str, packed: Any, count: int) -> Sequence[Any]:
    """The ``count`` values of the packed column of results of this name.

    :raises MessageError: if it is malformed.
    """
    if name in _VARIED and type(packed[1]) is int and max(unpack_lengths(packed, count)) > 1:
        raise MessageError(f"{name} that no operation can have")
    return _UNPACKERS[RESULT_COLUMNS[name].kind](packed, count)


def unpack_details(details: Any, count: int) -> list[str]:
    """The text of each row, "" for those that have none.

    :raises MessageError: if a text has no row, or the rows don't increase.
    """
    details = list(details)  # before 1.0 none were an empty map
    if details and set(map(type, details)) == {list}:
        details = list(chain.from_iterable(details))
    if len(details) % 2:
        raise MessageError("malformed error details")
    texts = list(repeat("", count))
    before = -1
    for row, text in zip(details[::2], details[1::2], strict=True):
        if type(row) is not int or not before < row < count or type(text) is not str:
            raise MessageError("malformed error details")
        texts[row] = text
        before = row
    return texts


_PACKERS: Mapping[str, Callable[[Sequence[Any]], Any]] = {
    "int": pack_column, "id": pack_ids, "ints": pack_ints,
}  # fmt: skip
_UNPACKERS: Mapping[str, Callable[[Any, int], Sequence[Any]]] = {
    "int": unpack_column,
    "id": unpack_ids,
    "text": unpack_details,
    "ints": unpack_ints,
}
