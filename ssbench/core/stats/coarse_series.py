"""Counts by stretches of buckets, packed so that one addition does for all of them."""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
from math import ceil, sqrt
from typing import Final

from ssbench.core.stats.buckets import Buckets, rank_of

_FIELD: Final = "Q"  # an array's: no count of a draw is larger
_FIELD_BYTES = 8
#: Into how many stretches a percentile's surroundings, or a wide stretch, are divided. Of more, an
#: addition takes longer; of fewer, more stretches have to be divided in turn.
_MOST = 48
#: Standard deviations of a percentile's rank, if seconds were all alike, that its surroundings
#: reach to either side. Seconds that differ widen that of a draw.
_REACH = 5


class Stretches:
    """How many values each block of seconds has in each stretch of neighbouring buckets.

    :param seconds: the values of each.
    :param keys: of all buckets that they have, rising.
    :param edges: where stretches begin and the last one ends, as places in ``keys``.
    :param block_sums: gives the sum of each block of figures of the seconds.
    """

    def __init__(
        self,
        seconds: Sequence[Buckets],
        keys: Sequence[int],
        edges: Sequence[int],
        block_sums: Callable[[Sequence[int]], Sequence[int]],
    ) -> None:
        self.edges = edges
        self._size = (len(edges) - 1) * _FIELD_BYTES
        of = {
            key: stretch
            for stretch, (low, high) in enumerate(pairwise(edges))
            for key in keys[low:high]
        }
        self._blocks = block_sums(
            [self._packed(each.items(keys[edges[0]], keys[edges[-1] - 1]), of) for each in seconds]
        )

    def __repr__(self) -> str:
        return f"<Stretches {len(self.edges) - 1} of {len(self._blocks)} blocks>"

    def _packed(self, items: Iterable[tuple[int, int]], of: dict[int, int]) -> int:
        counts = array(_FIELD, bytes(self._size))
        for key, count in items:
            counts[of[key]] += count
        return int.from_bytes(counts.tobytes(), sys.byteorder)

    def cumulative(self, draw: Sequence[int]) -> Sequence[int]:
        """The values in each stretch and all before it, of the blocks at these places."""
        packed = sum(map(self._blocks.__getitem__, draw))
        fields = memoryview(packed.to_bytes(self._size, sys.byteorder)).cast(_FIELD)
        return array(_FIELD, accumulate(fields))


def edges_about(percents: Sequence[float], cumulative: Sequence[int]) -> list[int]:
    """Stretches that are narrow where these percentiles of a draw are likely to be.

    :param upto: of each bucket, rising: how many values of all seconds lie in it or below.
    """
    total, many = cumulative[-1], len(cumulative)
    edges = {0, many}
    for percent in percents:
        rank, share = rank_of(percent, total), percent / 100
        reach = _REACH * sqrt(total * share * (1 - share))
        low = max(0, bisect_left(cumulative, rank - reach) - 1)
        high = min(many, bisect_left(cumulative, rank + reach) + 2)
        edges.update(divided(low, high))
    return sorted(edges)


def divided(low: int, high: int) -> list[int]:
    """The edges of stretches that make up a larger one."""
    return [*range(low, high, ceil((high - low) / _MOST)), high]
