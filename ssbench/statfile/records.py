"""Records of a stat file to msgpack and back.

On disk each record is an array: ``[code, map of its fields]``, but for results, which are
``[RESULTS, phase, worker index, schema, bytes]`` where the bytes are the msgpack of
``core.columns.pack_results`` as the worker sent it. They are wrapped, not spliced in, so that a
malformed batch can't spoil the records behind it. ``[SCHEMA, number, [[name, kind], ...]]`` names
their columns, and stands in each block before the first results that refer to it.

Fields that a reader doesn't know are ignored and those that have a default may be missing: a
new field needs no new format version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

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
    ClockRecord,
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
from ssbench.statfile.blocks import FORMAT, OnDamage, check_version

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
}
_PHASES = {int(phase): phase for phase in Phase}
_CODES = {record: code for code, record in RECORD_TYPES.items()}

MAX_OBJECT = 16 << 20  #: bytes of one msgpack object
_encode = msgspec.msgpack.Encoder().encode  # a third of msgpack's time for a batch of results
_MAX_ENTRIES = 65536  #: of one map
_MAX_DEPTH = 50


def encode(record: Record) -> bytes:
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
