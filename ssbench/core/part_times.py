"""How long the parts of an operation took, as a row of results has it, in bounded space.

A summary is ``(count, slowest, url, time, ...)``: how many parts there were, the index of the
slowest one, the index of its storage URL, and ascending times in µs. Of more than ``MOST`` parts
each time stands for several, of which it is the longest, so the longest of all is always there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

MOST = 256  #: times in one summary: 1 KiB
_HEAD = 3
_MAX_PARTS = 1_000_000
_MAX_US = 1 << 40  #: 12 days


def summary(times_ns: Sequence[int], urls: Sequence[int]) -> tuple[int, ...]:
    """The summary of these parts, in the order of their bytes; at least one.

    :param urls: the index of each part's storage URL.
    """
    count = len(times_ns)
    slowest = max(range(count), key=times_ns.__getitem__)
    ascending = sorted(times_ns)
    kept = [ascending[last] for last in _lasts(count)]
    return count, slowest, urls[slowest], *(-(-each // 1000) for each in kept)


def weights(count: int) -> list[int]:
    """For how many of so many parts each time of a summary stands."""
    lasts = [-1, *_lasts(count)]
    return [after - before for before, after in pairwise(lasts)]


def _lasts(count: int) -> Sequence[int]:
    """Of the ascending times of so many parts, the indexes of those that are kept."""
    if count <= MOST:
        return range(count)
    return [-(-each * count // MOST) - 1 for each in range(1, MOST + 1)]


def is_possible(found: Sequence[int]) -> bool:
    """Whether a row can have these numbers: a summary, or none of an operation without parts."""
    if not found:
        return True
    if len(found) <= _HEAD:
        return False
    count, slowest, url, *times = found
    return (
        0 <= slowest < count <= _MAX_PARTS
        and url >= 0
        and len(times) == min(count, MOST)
        and times[0] >= 0
        and times[-1] <= _MAX_US
        and all(map(int.__le__, times, times[1:]))
    )
