"""The format of a stat file: records as msgpack, in blocks that a reader can skip.

A block is one whole gzip member (RFC 1952), so ``zcat`` and Python's gzip read the file as any
other. Its header has an extra field, id ``SB``, little-endian::

    u8   format version of the stat file
    u32  number of the block, from 0
    u32  length of the whole member in bytes
    u32  CRC-32 of the header's bytes before this field

The length leads to the next block; the fixed first bytes and the CRC find a block's beginning
again after damage.

In it each record is an array: ``[code, map of its fields]``, but for results, which are
``[RESULTS, phase, worker index, schema, bytes]`` where the bytes are the msgpack of
``core.columns.pack_results`` as the worker sent it. They are wrapped, not spliced in, so that a
malformed batch can't spoil the records behind it. ``[SCHEMA, number, [[name, kind], ...]]`` names
their columns, and stands in each block before the first results that refer to it.

Fields that a reader doesn't know are ignored and those that have a default may be missing: a
new field needs no new format version.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple, TypeVar

import msgpack
import msgspec

from ssbench.core import unpacking
from ssbench.core.boundary import typed
from ssbench.core.columns import RESULT_SCHEMAS, Schema, packed_count, read_schema
from ssbench.core.errors import MessageError, StatFileError
from ssbench.core.model import Phase
from ssbench.core.records import (
    MAX_ITEMS,
    MAX_RECORD_ITEMS,
    MAX_TOTAL_ITEMS,
    AddressRecord,
    ClockRecord,
    EventRecord,
    HostRecord,
    MarkRecord,
    PhaseRecord,
    ProfileRecord,
    Record,
    ResultBatch,
    RunFooter,
    RunHeader,
    WorkerRecord,
)
from ssbench.core.text import bytes_text

FORMAT = 2  #: history in docs/reference/stat-file.rst
MAX_BLOCK = 64 << 20  #: a block that inflates to more bytes is refused
#: Columns are mostly noise: level 6 of zlib is 2 to 5 % smaller than level 1, and takes twice its
#: time.
_FAST, _SMALL = 1, 6
_PIECE = 1 << 15  #: bytes that are compressed at a time

try:
    from isal import isal_zlib
except ImportError:  # there are no wheels for this platform
    ENGINE: Any = zlib
else:
    #: ISA-L compresses seven times as fast as zlib, to about the same size, with its interface.
    ENGINE = isal_zlib

_FRAME = struct.Struct("<16sBIII")
_MAGIC = struct.pack("<4sIBBH2sH", b"\x1f\x8b\x08\x04", 0, 0, 255, 17, b"SB", 13)
_TAIL = struct.Struct("<II")
_LEAST_LENGTH, _MOST_LENGTH = _FRAME.size + _TAIL.size, 2 * MAX_BLOCK  #: of a member
_GZIP = b"\x1f\x8b"
#: First bytes of msgpack's maps and arrays: what a stat file that was unpacked begins with.
MAP_MARKS = frozenset(bytes([mark]) for mark in (*range(0x80, 0x90), 0xDE, 0xDF))
ARRAY_MARKS = frozenset(bytes([mark]) for mark in (*range(0x90, 0xA0), 0xDC, 0xDD))
_WINDOW = 1 << 18
_FIRST_LOOK = 2 << 20
_INFLATED_RATIO = 32
_DEFLATE_RATIO = 1032  #: bytes that deflate makes of one at most
_INFLATED_SLACK = 32 << 20
_ITEMS_SLACK = 1 << 18

Item = TypeVar("Item")
OnDamage = Callable[[str], None]


class Block(NamedTuple):
    """An undamaged block."""

    number: int
    offset: int  #: of its first byte in the file
    data: bytes  #: inflated


class BlockBuilder:
    """Compresses one block in pieces: each call is short, and small writes are collected.

    :param small: compress better, and more slowly: always by zlib.
    """

    def __init__(self, *, small: bool = False) -> None:
        if small:
            self._engine = zlib.compressobj(_SMALL, zlib.DEFLATED, -15, 9)
        else:
            self._engine = ENGINE.compressobj(_FAST, zlib.DEFLATED, -15)
        self._parts: list[bytes] = []
        self._waiting = bytearray()
        self._crc = 0
        self.size = 0  #: bytes put in so far

    def add(self, data: bytes) -> None:
        """Put more bytes in."""
        self._waiting += data
        self.size += len(data)
        if len(self._waiting) >= _PIECE:
            self._compress()

    def _compress(self) -> None:
        self._parts.append(self._engine.compress(self._waiting))
        self._crc = ENGINE.crc32(self._waiting, self._crc)
        self._waiting.clear()

    def finish(self, number: int) -> bytes:
        """The whole gzip member. The builder is used up."""
        self._compress()
        self._parts.append(self._engine.flush())
        body = b"".join(self._parts)
        length = _FRAME.size + len(body) + _TAIL.size
        head = struct.pack("<16sBII", _MAGIC, FORMAT, number, length)
        return b"".join(
            [
                head,
                struct.pack("<I", zlib.crc32(head)),
                body,
                _TAIL.pack(self._crc, self.size),
            ]
        )


class Source:
    """A binary file with lookahead, read sequentially; it may be a pipe."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._buffer = bytearray()
        self.offset = 0  #: bytes consumed so far

    def peek(self, count: int) -> bytes:
        """The next ``count`` bytes, or fewer at the end of the file; they are not consumed."""
        while len(self._buffer) < count:
            piece = self._file.read(max(_WINDOW, count - len(self._buffer)))
            if not piece:
                break
            self._buffer += piece
        return bytes(memoryview(self._buffer)[:count])

    def skip(self, count: int) -> None:
        """Consume bytes that ``peek`` has returned."""
        del self._buffer[:count]
        self.offset += count

    def push_back(self, data: bytes) -> None:
        """Put back consumed bytes that belong to the next member."""
        self._buffer[:0] = data
        self.offset -= len(data)


class TooMuchError(Exception):
    """A file expands to far more than a run writes. The text is one line."""


class Bounds:
    """Bounds of what a file may unfold to, so that its size bounds the time to read it.

    Files of runs stay far below: a result takes some 20 bytes on disk (its times and its
    transaction id hardly compress), and a file inflates to 2 to 8 times its size.

    :param source: the file; the bounds grow with the bytes that were read.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._inflated = 0  #: bytes, those of blocks that turned out to be damaged included
        self._items = 0

    def count_bytes(self, size: int) -> None:
        """Count inflated bytes.

        :raises TooMuchError: if they are too many.
        """
        self._inflated += size
        if self._inflated > _INFLATED_SLACK + _INFLATED_RATIO * self._source.offset:
            raise TooMuchError("it inflates to far more than a run writes: the rest is not read")

    def counted(self, item: Item) -> Item:
        """Count one record, and return it."""
        self.count_items(1)
        return item

    def count_items(self, items: int) -> None:
        """Count records, or results in them.

        :raises TooMuchError: if they are too many.
        """
        self._items += items
        if self._items > _ITEMS_SLACK + self._source.offset:
            raise TooMuchError("it holds far more than a run writes: the rest is not read")


class _Frame(NamedTuple):
    version: int
    number: int
    length: int


def begins_a_block(data: bytes) -> bool:
    """Whether these bytes, at least four, begin a block, as far as they reach."""
    return len(data) >= 4 and data[: len(_MAGIC)] == _MAGIC[: len(data)]


def looks_like_blocks(source: Source) -> bool:
    """True for a file of blocks, even if its beginning is damaged or truncated.

    False for plain gzip, and for msgpack that isn't packed at all.

    :raises StatFileError: if it is none of these.
    """
    start = source.peek(_FIRST_LOOK)
    at = start.find(_MAGIC)
    while at >= 0:
        if _parse_frame(start[at : at + _FRAME.size]) is not None:
            return True
        at = start.find(_MAGIC, at + 1)
    if not start:
        raise StatFileError("it is empty: no run was ever written to it")
    if begins_a_block(start):
        raise StatFileError("it is cut off in its first block: nothing of the run is in it")
    if not start.startswith(_GZIP) and start[:1] not in MAP_MARKS | ARRAY_MARKS:
        raise StatFileError("it is no stat file: it is not gzip")
    return False


def read_blocks(
    source: Source, on_damage: OnDamage, count_bytes: Callable[[int], None] = lambda size: None
) -> Iterator[Block]:
    """Every block that is whole, in order; ``on_damage`` is called with what is damaged or missing.

    :param count_bytes: called for each block with its packed size before it is read, and with its
        inflated size before it is inflated; may raise.
    :raises StatFileError: if a newer ssbench has written the file.
    """
    expected = 0
    told = False  # the damage that the scan for the next block will skip is already reported
    while True:
        start = source.offset
        frame = _next_frame(source)
        if source.offset > start and not told:
            on_damage(f"bytes {start} to {source.offset - 1} are damaged")
        if frame is None:
            return
        check_version(frame.version)
        if frame.number > expected:
            on_damage(_missing(expected, frame.number - 1))
        try:
            if not _LEAST_LENGTH <= frame.length <= _MOST_LENGTH:
                raise _DamagedError("is damaged: impossible length")
            member = source.peek(frame.length)
            count_bytes(len(member))
            data = _inflate(member, frame.length, count_bytes)
        except _DamagedError as error:
            on_damage(f"block {frame.number} at byte {source.offset} {error}")
            told = True
            # Not by its length: if bytes of it are missing, that would skip the next block.
            source.skip(1)
        else:
            told = False
            offset = source.offset
            source.skip(frame.length)
            if frame.number >= expected:
                yield Block(frame.number, offset, data)
            else:
                on_damage(f"block {frame.number} at byte {offset} is out of order and left out")
        expected = max(expected, frame.number + 1)


def _missing(first: int, last: int) -> str:
    return f"block {first} is missing" if first == last else f"blocks {first} to {last} are missing"


class _DamagedError(Exception):
    pass


def _parse_frame(head: bytes) -> _Frame | None:
    if len(head) < _FRAME.size:
        return None
    magic, version, number, length, crc = _FRAME.unpack(head)
    if magic != _MAGIC or crc != zlib.crc32(head[:-4]):
        return None
    return _Frame(version, number, length)


def _next_frame(source: Source) -> _Frame | None:
    """Skip to the next valid header; None at the end of the file."""
    while True:
        window = source.peek(_WINDOW)
        at = window.find(_MAGIC)
        while 0 <= at <= len(window) - _FRAME.size:
            frame = _parse_frame(window[at : at + _FRAME.size])
            if frame is not None:
                source.skip(at)
                return frame
            at = window.find(_MAGIC, at + 1)
        if len(window) < _WINDOW:
            source.skip(len(window))
            return None
        source.skip(at if at >= 0 else len(window) - len(_MAGIC) + 1)


def check_version(version: int) -> None:
    """:raises StatFileError: for a format of the future."""
    if version > FORMAT:
        raise StatFileError(
            f"it was written by a newer ssbench (format {version});"
            f" this one reads up to format {FORMAT}"
        )


def _inflate(member: bytes, length: int, count_bytes: Callable[[int], None]) -> bytes:
    if len(member) < length:
        raise _DamagedError(f"is cut off after {len(member)} of {length} bytes")
    crc, size = _TAIL.unpack_from(member, length - _TAIL.size)
    if size > MAX_BLOCK:
        raise _DamagedError(
            f"is damaged: its length would be {bytes_text(size)}, and blocks have at most"
            f" {bytes_text(MAX_BLOCK)}"
        )
    # Where bytes of the file are missing, the size is any number.
    count_bytes(min(size, _DEFLATE_RATIO * length))
    engine = ENGINE.decompressobj(-15)
    try:
        # One byte more than announced, which detects a decompression bomb and stops it.
        data: bytes = engine.decompress(memoryview(member)[_FRAME.size : -_TAIL.size], size + 1)
    except ENGINE.error as error:
        raise _DamagedError("is damaged: it can't be decompressed") from error
    if not engine.eof or engine.unused_data or len(data) != size or ENGINE.crc32(data) != crc:
        raise _DamagedError("is damaged: its checksum doesn't match")
    return data


def read_plain(source: Source, on_damage: OnDamage) -> Iterator[bytes]:
    """Inflated pieces of plain gzip, bounded in size; ``on_damage`` gets a line if it is cut off or
    damaged.

    A file that is not compressed is read as it is.
    """
    if source.peek(len(_GZIP)) != _GZIP:
        while piece := source.peek(_WINDOW):
            source.skip(len(piece))
            yield piece
        return
    while source.peek(len(_GZIP)) == _GZIP:
        engine = zlib.decompressobj(31)
        while not engine.eof:
            pending = engine.unconsumed_tail
            if not pending:
                pending = source.peek(_WINDOW)
                source.skip(len(pending))
            if not pending:
                on_damage(f"it is cut off at byte {source.offset}")
                return
            try:
                piece = engine.decompress(pending, _WINDOW)
            except zlib.error as error:
                on_damage(f"it is damaged before byte {source.offset}: {error}; the rest is lost")
                return
            yield piece
        source.push_back(engine.unused_data)
    if source.peek(1):
        on_damage(f"what follows byte {source.offset} is not gzip")


RESULTS_1 = 3  #: results in files of format 1: without a schema
SCHEMA = 8
RESULTS = 9
_RESULTS = (RESULTS_1, RESULTS)
_COLUMNS_1 = tuple(name for name, _kind in RESULT_SCHEMAS[0])
_MAX_SCHEMAS = 4096  #: of one file
#: Code on disk -> record. Append only.
RECORD_TYPES: dict[int, type[Any]] = {
    0: RunHeader,
    1: WorkerRecord,
    2: PhaseRecord,
    4: HostRecord,
    5: RunFooter,
    6: MarkRecord,
    7: ClockRecord,
    10: ProfileRecord,
    11: EventRecord,
    12: AddressRecord,
}
_PHASES = {int(phase): phase for phase in Phase}
_CODES = {record: code for code, record in RECORD_TYPES.items()}

MAX_OBJECT = 16 << 20  #: bytes of one msgpack object
_encode = msgspec.msgpack.Encoder().encode  # a third of msgpack's time for a batch of results
_MAX_ENTRIES = 65536  #: of one map
_MAX_DEPTH = 50


def encode_record(record: Record) -> bytes:
    """The msgpack of any record but results.

    :raises MessageError: if it has a value that can't be written.
    """
    assert not isinstance(record, ResultBatch)  # nosec B101 # for mypy
    values = msgspec.structs.asdict(record)
    if isinstance(record, RunHeader):
        values["format"] = FORMAT  # also here: recompressing a file loses the block headers
    data = _pack([_CODES[type(record)], values])
    if isinstance(record, RunHeader) and not [*objects([data], lambda _fault: None)]:
        raise MessageError("a scenario with more values than a stat file holds")
    return data


def encode_schema(number: int, schema: Schema) -> bytes:
    return _pack([SCHEMA, number, schema])


def encode_results(phase: Phase, worker: int, schema: int, packed: bytes) -> bytes:
    """The record of a batch that is already msgpack.

    :raises StatFileError: if it is longer than readers accept.
    """
    if len(packed) > MAX_OBJECT - 64:
        raise StatFileError(f"a batch of results is {len(packed)} bytes long, above {MAX_OBJECT}")
    return _encode([RESULTS, phase, worker, schema, packed])


def _pack(record: list[Any]) -> bytes:
    """:raises MessageError: if a value can't be written: a number of more than 64 bits, say."""
    try:
        data: bytes = msgpack.packb(record, default=_plain)
    except (TypeError, ValueError, OverflowError) as error:
        raise MessageError(f"a record that can't be written: {error}") from error
    return data


def _plain(value: Any) -> Any:
    """Convert types that msgpack doesn't know: read-only mappings, sets and the like."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    raise TypeError(f"a record can't hold a {type(value).__name__}")


def objects(pieces: Iterable[bytes], on_damage: OnDamage, *, raw: bool = False) -> Iterator[Any]:
    """The msgpack objects of a stream, each bounded in size and in what it unfolds to.

    Calls ``on_damage`` and ends if the bytes are not msgpack or exceed a bound.
    """
    # Results are bytes here; in those of 0.3.9 they are maps.
    budget = unpacking.Budget(MAX_TOTAL_ITEMS if raw else MAX_RECORD_ITEMS)
    unpacker = unpacking.stream_unpacker(MAX_OBJECT, MAX_ITEMS, _MAX_ENTRIES, budget, raw=raw)
    try:
        for piece in pieces:
            for start in range(0, len(piece), MAX_OBJECT):
                unpacker.feed(piece[start : start + MAX_OBJECT])
                for item in unpacker:
                    budget.renew()
                    yield item
    except unpacking.FAULTS as error:
        on_damage(f"it holds bytes that are no record ({type(error).__name__})")


class UnknownRecordError(Exception):
    """A record type of a newer version."""


def is_results(item: Any) -> bool:
    """Whether an object of a stat file claims to be results."""
    return type(item) is list and bool(item) and item[0] in _RESULTS


class Decoder:
    def __init__(self) -> None:
        self._schemas: dict[int, tuple[str, ...]] = {}  # number -> names

    def decode(self, item: Any) -> Record | None:
        """The record of an unpacked object; None for a schema, which results refer to.

        :raises UnknownRecordError: for a kind that this version doesn't know.
        :raises MessageError: for anything else that is no record.
        :raises StatFileError: for a header of a newer format.
        """
        if type(item) is not list or not item or type(item[0]) is not int:
            raise MessageError("no record")
        code = item[0]
        if code in _RESULTS:
            return self._results(item)
        if code == SCHEMA:
            self._add_schema(item)
            return None
        record = RECORD_TYPES.get(code)
        if record is None:
            raise UnknownRecordError
        if len(item) != 2 or type(item[1]) is not dict:
            raise MessageError("no record")
        if record is RunHeader:
            check_version(_whole(item[1].get("format", FORMAT)))
        known = item[1].keys() & record.__struct_fields__
        # Names of objects that were listed are packed into bytes.
        values = {name: _anything(item[1][name], may_be_bytes=name == "names") for name in known}
        decoded: Record = typed(msgspec.convert, values, record.__name__, type=record)
        return decoded

    def _add_schema(self, item: list[Any]) -> None:
        if len(item) != 3 or len(self._schemas) >= _MAX_SCHEMAS:
            raise MessageError("no schema")
        self._schemas[_whole(item[1])] = tuple(name for name, _kind in read_schema(item[2]))

    def _results(self, item: list[Any]) -> ResultBatch:
        names: tuple[str, ...] | None = _COLUMNS_1
        if item[0] == RESULTS and len(item) == 5:
            _, phase, worker, schema, data = item
            names = self._schemas.get(schema) if type(schema) is int else None
        elif item[0] == RESULTS_1 and len(item) == 4:
            _, phase, worker, data = item
        else:
            raise MessageError("no record of results")
        if names is None:
            raise MessageError("results of an unknown schema")
        if not (type(data) is bytes and type(worker) is type(phase) is int and phase in _PHASES):
            raise MessageError("no record of results")
        return ResultBatch(_PHASES[phase], worker, packed_count(data, len(names)), names, data)


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise MessageError("expected a whole number")
    return value


def _anything(value: Any, depth: int = 0, may_be_bytes: bool = False) -> Any:
    """A JSON value. Rejected if nested so deeply that printing it would fail.

    :param may_be_bytes: bytes are accepted, too.
    """
    if depth > _MAX_DEPTH:
        raise MessageError("nested too deep")
    if type(value) is dict:
        if not all(type(key) is str for key in value):
            raise MessageError("a key that is no text")
        return {key: _anything(item, depth + 1, may_be_bytes) for key, item in value.items()}
    if type(value) is list:
        return [_anything(item, depth + 1, may_be_bytes) for item in value]
    if isinstance(value, bytes) and not may_be_bytes:
        raise MessageError("expected a string")
    return value
