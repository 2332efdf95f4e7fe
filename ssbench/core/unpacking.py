"""msgpack of others becomes objects, within bounds.

What comes out of msgpack is nil, booleans, numbers, text, bytes, arrays, and maps whose keys are
text of at most MAX_KEY characters (bytes, where strings are read raw). Everything else is refused
before it costs anything: extension types, and keys whose hashes a sender can choose. A map of
timestamps took quadratic time (256 KB: 16 s); whole numbers as keys can be chosen to do the same.

A byte may unfold into 64 of memory, so readers of more than a few KB bound the items.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import msgpack

from ssbench.core.text import MAX_KEY

#: What msgpack raises for hostile bytes. TypeError: a map whose key can't be one; the last two:
#: nested arrays that announce more than there is memory for, or stack (a msgpack without C).
FAULTS = (msgpack.UnpackException, ValueError, TypeError, MemoryError, RecursionError)


def unpack(data: bytes, max_length: int, max_items: int) -> Any:
    """The one object in the bytes.

    :param max_length: items of one array or map.
    :param max_items: items of all arrays and maps.
    :raises FAULTS: if there isn't one, or it breaks a bound.
    """
    if len(data) <= max_length:  # no more items than bytes
        return msgpack.unpackb(
            data,
            raw=False,
            strict_map_key=True,
            max_ext_len=0,
            ext_hook=_no_extension,
            object_hook=partial(_with_keys, kind=str),
        )
    budget = Budget(max_items)
    return msgpack.unpackb(
        data,
        raw=False,
        strict_map_key=True,
        max_ext_len=0,
        ext_hook=_no_extension,
        max_array_len=max_length,
        max_map_len=max_length,
        list_hook=budget.spend,
        object_hook=budget.spend_map,
    )


def stream_unpacker(
    max_object: int, max_array: int, max_map: int, budget: Budget, *, raw: bool
) -> Any:
    """A msgpack.Unpacker: feed it bytes and iterate over the objects; both raise FAULTS.

    :param max_object: bytes; up to twice as many may be fed and not yet read.
    :param max_array: items of an array.
    :param max_map: entries of a map.
    :param budget: counts what objects unfold to.
    :param raw: strings, keys among them, come as bytes.
    """
    return msgpack.Unpacker(
        raw=raw,
        strict_map_key=True,
        max_buffer_size=2 * max_object,
        max_array_len=max_array,
        max_map_len=max_map,
        max_ext_len=0,
        ext_hook=_no_extension,
        list_hook=budget.spend,
        object_hook=budget.spend_raw_map if raw else budget.spend_map,
    )


class Budget:
    """Ends the unpacking of what would fill the memory.

    :param most: items of all arrays and maps; more raise ValueError.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._spent = 0

    def renew(self) -> None:
        """Another object begins."""
        self._spent = 0

    def spend(self, items: Any) -> Any:
        """Count an array, or map; gives it."""
        self._spent += 1 + len(items)
        if self._spent > self._most:
            raise ValueError("too many items in one object")
        return items

    def spend_map(self, items: Mapping[Any, Any]) -> Any:
        """Count a map and check its keys; gives it."""
        return self.spend(_with_keys(items, str))

    def spend_raw_map(self, items: Mapping[Any, Any]) -> Any:
        """As ``spend_map``, where strings are bytes."""
        return self.spend(_with_keys(items, bytes))


def _with_keys(items: Mapping[Any, Any], kind: type) -> Mapping[Any, Any]:
    if items and not (set(map(type, items)) == {kind} and max(map(len, items)) <= MAX_KEY):
        raise ValueError("a map with other keys than short text")
    return items


def _no_extension(code: int, data: bytes) -> Any:
    raise ValueError("an extension type")
