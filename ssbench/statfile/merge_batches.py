"""Merge small batches of packed results into large ones, which are faster to count."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any

from ssbench.core.errors import MessageError
from ssbench.statfile.records import RESULTS, UNORDERED, merge_packed

#: Bytes of packed results that make a large batch (some 20,000 rows), and of all that may wait:
#: of many workers each has but a few of them.
ENOUGH = 1 << 20
MOST = 8 << 20


class _Waiting:
    """Packed results of one phase and worker, one batch after the other in one buffer.

    Copying them is faster than keeping the objects: those of a megabyte of small batches would
    leave the processor's cache before they are needed again.
    """

    def __init__(self) -> None:
        self.packed = bytearray()
        self.sizes = array("I")

    def add(self, packed: bytes) -> None:
        self.packed += packed
        self.sizes.append(len(packed))

    def each(self) -> Iterator[bytes]:
        """The batches in their order."""
        for end, size in zip(accumulate(self.sizes), self.sizes, strict=True):
            yield bytes(self.packed[end - size : end])


def merge_batches(items: Iterable[Any]) -> Iterator[Any]:
    """The objects of a stat file, with results merged into ResultBatches where possible.

    Results of one phase and worker keep their order, and stay after all objects that preceded
    them, except those of UNORDERED, which affect no results. If a batch is damaged, its group is
    not merged.
    """
    waiting: dict[tuple[Any, Any], _Waiting] = {}
    total = 0
    for item in items:
        if not is_results(item):
            if _is_barrier(item):
                yield from _released(waiting)
                total = 0
            yield item
            continue
        key = item[1], item[2]
        found = waiting.get(key)
        if found is None:
            found = waiting[key] = _Waiting()
        found.add(item[3])
        total += len(item[3])
        if len(found.packed) >= ENOUGH:
            total -= len(found.packed)
            yield from _together(key, waiting.pop(key))
        elif total >= MOST:
            yield from _released(waiting)
            total = 0
    yield from _released(waiting)


def is_results(item: Any) -> bool:
    """Whether an object of a stat file has the form of results; their content is not checked."""
    return (
        type(item) is list
        and len(item) == 4
        and item[0] == RESULTS
        and type(item[1]) is int
        and type(item[2]) is int
        and type(item[3]) is bytes
    )


def _is_barrier(item: Any) -> bool:
    return type(item) is not list or not item or item[0] not in UNORDERED


def _released(waiting: dict[tuple[Any, Any], _Waiting]) -> Iterator[Any]:
    for key, found in waiting.items():
        yield from _together(key, found)
    waiting.clear()


def _together(key: tuple[int, int], found: _Waiting) -> Iterator[Any]:
    try:
        yield merge_packed(*key, found.packed, found.sizes)
    except MessageError:
        for packed in found.each():
            yield [RESULTS, *key, packed]
