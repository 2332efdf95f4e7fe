"""Values of any kind and shape, each from one draw of hypothesis.

Strategies made of others draw each number and each choice by itself, which takes ten times as long
as what the tests do with the values. A shorter script, and one of zeros, gives simpler values.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")
Leaf: TypeAlias = "Callable[[Script], Any]"

_EDGES = [
    edge + step
    for edge in (0, 2**7, 2**8, 2**15, 2**16, 2**31, 2**32, 2**53, 2**63)
    for step in (-1, 0, 1)
]
_BIG = [2**64 - 1, 2**64, 10**30, -(10**30), 10**400]
_FLOATS = [
    0.0,
    -0.0,
    0.5,
    1e300,
    -1e300,
    5e-324,
    2.0**53,
    float("nan"),
    float("inf"),
    -float("inf"),
]
_ODD = "\0\n\r\t\x1b\x7f\x9b\"\\'<&,=é߷\u202e\u2028\ufeff\uffff\U0001f600\U0010ffff"


class Script:
    """Bytes that say which values come; zeros at their end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        """The next bytes."""
        self._at += size
        return self._data[self._at - size : self._at].ljust(size, b"\0")

    def below(self, limit: int) -> int:
        """A number below the limit, of at most 256."""
        return self.take(1)[0] % limit

    def integer(self, low: int, high: int) -> int:
        """A number of this range: a small one, one at an edge of a width, or any."""
        kind = self.below(4)
        if kind == 0:
            number = self.below(256)
        elif kind == 1:
            edges = (*_EDGES, low, high)
            number = edges[self.below(len(edges))] * (-1) ** self.below(2)
        else:
            number = int.from_bytes(self.take(8 if kind == 2 else 2), "big", signed=True)
        return min(max(number, low), high)


def scripted(read: Callable[[Script], T], size: int = 100) -> st.SearchStrategy[T]:
    """What ``read`` makes of scripts of so many bytes."""
    return st.binary(min_size=size, max_size=size).map(lambda data: read(Script(data)))


def none(_: Script) -> None:
    return None


def boolean(script: Script) -> bool:
    return script.below(2) == 1


def int64(script: Script) -> int:
    return script.integer(-(2**63), 2**63 - 1)


def msgpack_integer(script: Script) -> int:
    return script.integer(-(2**63), 2**64 - 1)


def integer(script: Script) -> int:
    """Of any size."""
    return _BIG[script.below(len(_BIG))] if script.below(8) == 7 else int64(script)


def number(script: Script) -> float:
    """Any float; infinity and what is no number as well."""
    if script.below(2) == 0:
        return _FLOATS[script.below(len(_FLOATS))]
    found: float = struct.unpack(">d", script.take(8))[0]
    return found


def finite(script: Script) -> float:
    """At most 1e18, so that sums are finite, too."""
    found = number(script)
    return found if abs(found) <= 1e18 else 1e18


def binary(script: Script) -> bytes:
    return script.take(script.below(33))


def text(script: Script) -> str:
    """Text without surrogates."""
    return "".join(_character(script) for _ in range(script.below(10)))


def _character(script: Script) -> str:
    kind = script.below(4)
    if kind < 2:
        return chr(ord("0") + script.below(75))
    if kind == 2:
        return _ODD[script.below(len(_ODD))]
    code = int.from_bytes(script.take(2), "big")
    return "x" if 0xD800 <= code < 0xE000 else chr(code)


def one_of(*values: Any) -> Leaf:
    """One of these."""
    return lambda script: values[script.below(len(values))]


def any_of(*leaves: Leaf, key: Leaf, depth: int = 3) -> Leaf:
    """What one of the leaves gives, or a list or dict of such, to this depth.

    :param key: gives keys of dicts.
    """

    def value(script: Script, depth: int) -> Any:
        kind = script.below(len(leaves) + (4 if depth else 0))
        if kind < len(leaves):
            return leaves[kind](script)
        inner = range(script.below(4))
        if kind < len(leaves) + 2:
            return [value(script, depth - 1) for _ in inner]
        return {key(script): value(script, depth - 1) for _ in inner}

    return lambda script: value(script, depth)
