"""Recorded inputs, spoilt: what a broken disk, a foreign program or an attacker may send."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from random import Random
from typing import Any, NamedTuple, TypeVar

import msgpack
import pytest
from hypothesis import settings

_MORE = int(os.environ.get("SSBENCH_FUZZ_EXAMPLES") or 0)
#: Of each fuzz test. Ten times as many in ``make test-long``.
EXAMPLES = _MORE or 500
_MOST_MUTATIONS = 5
#: An input is never made longer than this, whatever is repeated.
LONGEST = 7000

#: What means something in msgpack: numbers at the edges, no value, and text for a terminal.
MSGPACK_WORDS = (
    b"\xcf" + b"\xff" * 8, b"\xd3\x80" + bytes(7), b"\xd3\x7f" + b"\xff" * 7,
    b"\xcb\x7f\xf0" + bytes(6), b"\xcb\x7f\xf8" + bytes(6), b"\xcb\x7f\xef" + b"\xff" * 6,
    b"\xcb\xff\xef" + b"\xff" * 6,
    b"\xca\x80\0\0\0", b"\x00", b"\x01", b"\xff", b"\xc0", b"\xc3", b"\x80", b"\x90", b"\xa0",
    b"\xa5\x1b[2J\x07", b"\xa3\xe2\x80\xae", b"\xa2\xc2\x9b", b"\xc4\x02\x1b\r", b"\x81\xa1a\xa1b",
)  # fmt: skip

#: What may stand in place of any value of JSON: deep, huge, of another kind, or none.
JSON_VALUES = (
    b"null", b"true", b"-1", b"0", b"1.5", b"1e999", b"NaN", b"-Infinity", b"9" * 30, b"9" * 5000,
    b'""', b'"a"', b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\u001b[2J"', b'"\\n"', b'"a/b"', b"[]",
    b"{}", b"\xff", b"[" * 5000, b"[" * 2000 + b"]" * 2000,
    b'{"a":' * 2000 + b"1" + b"}" * 2000, b"[1,]", b"[0,0,0,0]",
    b'"\xe2\x80\xae"', b'"\xc2\x9b"', b'"' + b"x" * 5000 + b'"', b'"499 "', b'{"a":1,"a":2}',
)  # fmt: skip
_MSGPACK_VALUES = (
    *MSGPACK_WORDS, b"\x91" * 5000, b"\x91" * 2000 + b"\xc0", b"\x81\xa1a" * 2000 + b"\xc0",
    b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff",
    b"\xd6\xff" + bytes(4), b"\xc7\x00\x05", b"\xda\x13\x88" + b"x" * 5000, b"\xa2\xff\xff",
    b"\x81\xc4\x01a\xc0", b"\x81\xda\x13\x88" + b"k" * 5000 + b"\xc0",
    b"\xc4\x01a", b"\xa1a", b"\x82\xa1a\xc0\xa1a\xc0",
)  # fmt: skip

_DIGITS = re.compile(rb"[0-9]+")
_LENGTHS = (0x00, 0x7F, 0x80, 0xFF)

Test = TypeVar("Test", bound=Callable[..., Any])


class Mutation(NamedTuple):
    """What is done (a key of MUTATIONS), where, how much of it, and with what."""

    kind: str
    at: int
    size: int
    piece: bytes


def _flip(data: bytes, at: int, m: Mutation, other: bytes) -> bytes:
    if at == len(data):
        return data
    return data[:at] + bytes([data[at] ^ (1 << m.size % 8)]) + data[at + 1 :]


def _overwrite(data: bytes, at: int, m: Mutation, other: bytes) -> bytes:
    return data[:at] + m.piece + data[at + len(m.piece) :]


def _insert(data: bytes, at: int, m: Mutation, other: bytes) -> bytes:
    return data[:at] + m.piece + data[at:]


def _cut_out(data: bytes, at: int, m: Mutation, other: bytes) -> bytes:
    return data[:at] + data[at + 1 + m.size % 64 :]


def _cut_off(data: bytes, at: int, m: Mutation, other: bytes) -> bytes:
    return data[:at]


def _repeat(data: bytes, at: int, m: Mutation, other: bytes) -> bytes:
    """A slice stands there several times, or a thousand times."""
    times = 1000 if m.size % 16 == 0 else m.size % 4 + 1
    part = data[at : at + 1 + m.size % 200]
    return data[:at] + part * times + data[at:]


def _swap(data: bytes, at: int, m: Mutation, other: bytes) -> bytes:
    """Two neighbouring slices change places."""
    size = 1 + m.size % 200
    return (
        data[:at] + data[at + size : at + 2 * size] + data[at : at + size] + data[at + 2 * size :]
    )


def _splice(data: bytes, at: int, m: Mutation, other: bytes) -> bytes:
    """It goes on as another recorded input does."""
    return data[:at] + other[m.size % (len(other) + 1) :]


def _grow(data: bytes, at: int, m: Mutation, other: bytes) -> bytes:
    """A length says more, or less, than there is: in digits where there are any, else in bytes."""
    found = _DIGITS.search(data, at) if m.size % 2 else None
    if found:
        number = (b"0", b"%d" % (int(found[0][:18]) + 1), b"-1", b"9" * 30)[m.size // 2 % 4]
        return data[: found.start()] + number + data[found.end() :]
    width = (1, 2, 4, 8)[m.size // 2 % 4]
    byte = bytes([_LENGTHS[m.size // 8 % 4]])
    return data[:at] + byte * width + data[at + width :]


MUTATIONS: dict[str, Callable[[bytes, int, Mutation, bytes], bytes]] = {
    "flip": _flip,
    "overwrite": _overwrite,
    "insert": _insert,
    "cut out": _cut_out,
    "cut off": _cut_off,
    "repeat": _repeat,
    "swap": _swap,
    "splice": _splice,
    "grow": _grow,
}


def mutate(data: bytes, mutations: Sequence[Mutation], other: bytes = b"") -> bytes:
    """``data`` after all of these; ``other`` is what it may be spliced with."""
    for mutation in mutations:
        at = mutation.at % (len(data) + 1)
        data = MUTATIONS[mutation.kind](data, at, mutation, other)[:LONGEST]
    return data


def spoilt(seeds: Sequence[bytes], words: Sequence[bytes], count: int) -> Iterator[bytes]:
    """The seeds with changed bytes; and with other values, where they are JSON or msgpack.

    They are the same each time, except where more are asked for, to find something new.

    :param words: what means something to the parser: they are put in and written over.
    """
    chance = Random() if _MORE else Random(0)
    documents = [document for document in map(Document.of, seeds) if document]
    for _ in range(count):
        if documents and chance.random() < 0.5:
            yield chance.choice(documents).changed(chance.randbytes(12))
        else:
            yield _mutated(seeds, words, chance.randbytes(3 + _MOST_MUTATIONS * _STEP))


def _mutated(seeds: Sequence[bytes], words: Sequence[bytes], script: bytes) -> bytes:
    seed, other = (seeds[number % len(seeds)] for number in script[:2])
    count = 1 + script[2] % _MOST_MUTATIONS
    steps = range(3, 3 + count * _STEP, _STEP)
    return mutate(seed, [_read(script[at : at + _STEP], words) for at in steps], other)


_STEP = 12  #: bytes of a script that make a mutation
_KINDS = list(MUTATIONS)


def _read(step: bytes, words: Sequence[bytes]) -> Mutation:
    kind, size, choice = step[0], step[3], step[4]
    piece = step[5 : 5 + choice % 8]
    if words and choice % 2:
        piece = words[choice // 2 % len(words)]
    return Mutation(_KINDS[kind % len(_KINDS)], int.from_bytes(step[1:3], "big"), size, piece)


def fuzz(test: Test) -> Any:
    """Decorates a test with ``given``: marks it, and gives it EXAMPLES."""
    return pytest.mark.fuzz(settings(max_examples=EXAMPLES)(test))


class Pairs(list[Any]):
    """A map, whose keys may stand there twice."""


class Document(NamedTuple):
    """A seed as values: of JSON, or of msgpack one after the other."""

    values: list[Any]
    odd: Sequence[bytes]  #: what may stand in place of a value
    encode: Callable[[Any], bytes]

    def __repr__(self) -> str:
        return f"<Document {self.encode.__name__}>"

    @classmethod
    def of(cls, seed: bytes) -> Document | None:
        """None where it is neither."""
        with suppress(ValueError):
            return cls([json.loads(seed, object_pairs_hook=Pairs)], JSON_VALUES, _json)
        with suppress(ValueError, msgpack.UnpackException):
            unpacker = msgpack.Unpacker(
                raw=False, object_pairs_hook=Pairs, unicode_errors="surrogateescape"
            )
            unpacker.feed(seed)
            values = list(unpacker)
            if any(isinstance(value, list) for value in values):
                return cls(values, _MSGPACK_VALUES, _msgpack)
        return None

    def changed(self, script: bytes) -> bytes:
        """With up to three changes: another value, one twice, one gone, or two exchanged."""
        values = _copied(self.values)
        for step in range(0, 4 * (1 + script[0] % 3), 4):
            kind, *at, which = script[step : step + 4]
            parents = [each for each in _containers(values) if each]
            if not parents:
                break
            parent = parents[int.from_bytes(bytes(at), "big") % len(parents)]
            place = at[0] % len(parent)
            if kind % 4 or isinstance(parent, Pairs):
                odd = Encoded(self.odd[which % len(self.odd)])
                if isinstance(parent, Pairs):
                    key, value = parent[place]
                    pair = (key, odd) if which % 8 else (odd, value)
                    parent[place : place + kind % 2] = [pair]
                else:
                    parent[place] = odd if kind % 2 else _near(parent[place], which)
            else:
                parent[place : place + 1] = [parent[place]] * (which % 3)
        return b"".join(map(self.encode, values))[:LONGEST]


def _near(value: Any, which: int) -> Any:
    """A value of the same type that is shorter, longer, or on the other side of a bound."""
    if type(value) in (bytes, str):
        return (value[:-1], value * 2, value[:0])[which % 3]
    return (value + 1, value - 1, -value)[which % 3] if type(value) is int else value


class Encoded(bytes):
    """A value that is encoded, well or badly."""


def _copied(value: Any) -> Any:
    if isinstance(value, Pairs):
        return Pairs((key, _copied(each)) for key, each in value)
    return [_copied(each) for each in value] if isinstance(value, list) else value


def _containers(value: Any) -> Iterator[list[Any]]:
    if isinstance(value, list):
        yield value
        for each in value:
            yield from _containers(each[1] if isinstance(value, Pairs) else each)


def _json(value: Any) -> bytes:
    if isinstance(value, Encoded):
        return value
    if isinstance(value, Pairs):
        return b"{%b}" % b",".join(b"%b:%b" % (_json(key), _json(each)) for key, each in value)
    if isinstance(value, list):
        return b"[%b]" % b",".join(map(_json, value))
    return json.dumps(value).encode()


def _msgpack(value: Any) -> bytes:
    if isinstance(value, Encoded):
        return value
    if isinstance(value, Pairs):
        head = _PACKER.pack_map_header(len(value))
        return head + b"".join(_msgpack(key) + _msgpack(each) for key, each in value)
    if isinstance(value, list):
        return _PACKER.pack_array_header(len(value)) + b"".join(map(_msgpack, value))
    return _PACKER.pack(value)


_PACKER = msgpack.Packer(unicode_errors="surrogateescape")
