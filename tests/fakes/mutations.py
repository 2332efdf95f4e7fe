"""Recorded inputs, spoilt: what a broken disk, a foreign program or an attacker may send."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

#: Of each fuzz test. Ten times as many in ``make test-long``.
EXAMPLES = int(os.environ.get("SSBENCH_FUZZ_EXAMPLES") or 500)
_MOST_MUTATIONS = 5
#: An input is never made longer than this, whatever is repeated (hypothesis warns of longer ones).
LONGEST = 7000

#: What means something in msgpack: numbers at the edges, no value, and text for a terminal.
MSGPACK_WORDS = (
    b"\xcf" + b"\xff" * 8, b"\xd3\x80" + bytes(7), b"\xd3\x7f" + b"\xff" * 7,
    b"\xcb\x7f\xf0" + bytes(6), b"\xcb\x7f\xf8" + bytes(6), b"\xcb\x7f\xef" + b"\xff" * 6,
    b"\xcb\xff\xef" + b"\xff" * 6,
    b"\xca\x80\0\0\0", b"\x00", b"\x01", b"\xff", b"\xc0", b"\xc3", b"\x80", b"\x90", b"\xa0",
    b"\xa5\x1b[2J\x07", b"\xa3\xe2\x80\xae", b"\xa2\xc2\x9b", b"\xc4\x02\x1b\r", b"\x81\xa1a\xa1b",
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


def hostile(seeds: Sequence[bytes], words: Sequence[bytes] = ()) -> st.SearchStrategy[bytes]:
    """Mutations of the seeds.

    :param words: what means something to the parser: they are put in and written over.
    """

    def performed(script: bytes) -> bytes:
        seed, other = (seeds[number % len(seeds)] for number in script[:2])
        count = 1 + script[2] % _MOST_MUTATIONS
        steps = range(3, 3 + count * _STEP, _STEP)
        return mutate(seed, [_read(script[at : at + _STEP], words) for at in steps], other)

    # One draw for all: many small ones would take ten times as long as the parsers do. Of one
    # length: of strings that may be short, nearly all are.
    length = 3 + _MOST_MUTATIONS * _STEP
    return st.binary(min_size=length, max_size=length).map(performed)


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
    return pytest.mark.fuzz(settings(max_examples=EXAMPLES, deadline=None)(test))


def fuzzed(seeds: Sequence[bytes], words: Sequence[bytes] = ()) -> Callable[[Test], Any]:
    """Decorates a test of one argument, the hostile bytes: it gets EXAMPLES of them."""

    def decorate(test: Test) -> Any:
        return fuzz(given(hostile(seeds, words))(test))

    return decorate
