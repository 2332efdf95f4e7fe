"""Results of a stat file put together while they are packed, for those who count them all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ssbench.core.errors import MessageError
from ssbench.statfile.records import PASSED_BY, RESULTS, together

#: Bytes of packed results that make a large batch (some 20,000 rows), and of all that may wait:
#: of many workers each has but a few of them.
ENOUGH = 1 << 20
MOST = 8 << 20


class _Waiting:
    """What is there of one phase and worker."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.size = 0


def stretched(items: Iterable[Any]) -> Iterator[Any]:
    """The objects of a stat file, results put together to a ResultBatch wherever they can be.

    Results of one phase and worker stay in their order, and behind all objects that they were
    behind, but for those of PASSED_BY, which bear on no result. Where one of them is damaged they
    come as they are.
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
        found.items.append(item)
        size = len(item[3])
        found.size += size
        total += size
        if found.size >= ENOUGH:
            total -= found.size
            yield from _together(key, waiting.pop(key).items)
        elif total >= MOST:
            yield from _released(waiting)
            total = 0
    yield from _released(waiting)


def is_results(item: Any) -> bool:
    """Whether an object of a stat file has the form of results; of what is in them it says
    nothing."""
    return (
        type(item) is list
        and len(item) == 4
        and item[0] == RESULTS
        and type(item[1]) is int
        and type(item[2]) is int
        and type(item[3]) is bytes
    )


def _is_barrier(item: Any) -> bool:
    return type(item) is not list or not item or item[0] not in PASSED_BY


def _released(waiting: dict[tuple[Any, Any], _Waiting]) -> Iterator[Any]:
    for key, found in waiting.items():
        yield from _together(key, found.items)
    waiting.clear()


def _together(key: tuple[int, int], items: list[Any]) -> Iterator[Any]:
    try:
        yield together(*key, [item[3] for item in items])
    except MessageError:
        yield from items
