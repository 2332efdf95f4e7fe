"""Bytes from outside become plain objects, or nothing, and in linear time."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgpack
import pytest

from ssbench.core.errors import MessageError
from ssbench.core.messages import decode, unpack
from ssbench.core.text import MAX_KEY
from ssbench.statfile.records import objects
from tests.core.test_columns import packed_batches
from tests.corpus import recorded
from tests.fakes.mutations import fuzzed

KINDS = (type(None), bool, int, float, str, bytes, list, dict)


def _read(data: bytes) -> list[Any]:
    """As a stat file's records are."""
    said: list[str] = []
    found = list(objects([data], said.append))
    if said:
        raise MessageError(said[0])
    return found


def _read_raw(data: bytes) -> list[Any]:
    """As those of 0.3.9 are."""
    said: list[str] = []
    found = list(objects([data], said.append, raw=True))
    if said:
        raise MessageError(said[0])
    return found


READERS: list[Callable[[bytes], Any]] = [unpack, decode, _read, _read_raw]


def a_map(key: Callable[[int], bytes], entries: int) -> bytes:
    return b"\xdf" + entries.to_bytes(4, "big") + b"".join(key(n) + b"\xc0" for n in range(entries))


def timestamp(n: int) -> bytes:
    """Of many that have the same hash."""
    return b"\xc7\x0c\xff" + n.to_bytes(4, "big") + n.to_bytes(8, "big")


def whole_number(n: int) -> bytes:
    return b"\xcf" + (n << 40).to_bytes(8, "big")


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    "data",
    [
        a_map(timestamp, 16_000),
        a_map(timestamp, 4_000),
        a_map(whole_number, 20_000),
        msgpack.packb({1: 2}),
        msgpack.packb({"a": {None: 2}}),
        msgpack.packb([{"x" * (MAX_KEY + 1): 1}]),
        msgpack.packb([msgpack.Timestamp(5)]),
        msgpack.packb([msgpack.ExtType(5, b"")]),
        msgpack.packb([msgpack.ExtType(5, b"x")]),
        b"\xc7\x00\xff",
    ],
    ids=lambda data: data[:12].hex(),
)
def test_extensions_and_long_keys_are_rejected_at_once(
    read: Callable[[bytes], Any], data: bytes
) -> None:
    """16,000 timestamps with one hash as keys took 16 s."""
    began_s = time.process_time()
    with pytest.raises(MessageError):
        read(data)
    assert time.process_time() - began_s < 1


def test_bytes_are_keys_in_raw_maps_only() -> None:
    assert _read_raw(msgpack.packb({"a": 1})) == [{b"a": 1}]
    for read in (unpack, _read):
        with pytest.raises(MessageError):
            read(msgpack.packb({b"a": 1}))


def test_long_messages_obey_the_same_rules() -> None:
    """Budgets are for long ones only."""
    for key in (b"k", 5):
        with pytest.raises(MessageError):
            unpack(msgpack.packb([b"x" * 200_000, {key: 1}]))
    assert unpack(msgpack.packb([b"x" * 200_000, {"k": 1}]))[1] == {"k": 1}


def plain(data: bytes) -> None:
    """Invariant: what is unpacked is of plain kinds, its maps have short text as keys; or it is
    refused as MessageError."""
    for read, keys in ((unpack, str), (_read, str), (_read_raw, bytes)):
        with suppress(MessageError):
            _check(read(data), keys)


def _check(value: Any, keys: type) -> None:
    assert type(value) in KINDS
    if type(value) is dict:
        assert all(type(key) is keys and len(key) <= MAX_KEY for key in value)
        for item in value.values():
            _check(item, keys)
    if type(value) is list:
        for item in value:
            _check(item, keys)


def messages_and_batches() -> list[bytes]:
    """Recorded frames, packed batches, and maps of all sorts."""
    odd = [a_map(timestamp, 3), a_map(whole_number, 3), msgpack.packb({"a": {"b": [1.5]}})]
    return [*recorded("frames"), *packed_batches(), *odd]


@fuzzed(messages_and_batches())
def test_fuzz_unpacked_data_is_plain(data: bytes) -> None:
    """Invariant: that of ``plain``."""
    plain(data)
