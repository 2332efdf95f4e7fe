"""Latency counts of one second: coarser than a report's histogram, and small while at rest.

A bucket is the upper part of a value's IEEE 754 double with 9 bits of the mantissa (the report's
have 11): at most 2**-9 of its lower edge wide, one whole nanosecond below 1024 ns.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import NamedTuple

from ssbench.core.histogram import MAX_NS

RELATIVE_ERROR = 2.0**-10  #: of a quantile, against a sample of that rank (0.098 %)

_SHIFT = 52 - 9
_BELOW_ONE = (1023 << 9) - 1  # one below the bucket of 1; less than that is 0, bucket 0


class Levels(NamedTuple):
    """Buckets in rising order, and how many values lie in each and all below it."""

    keys: Sequence[int]
    upto: Sequence[int]


class Buckets:
    """Counts of durations from 0 to one hour; what lies outside is passed over.

    Merging loses nothing. Values wait as they are, some 40 bytes each, until ``settle`` or the
    first question; then a bucket takes 6 bytes.
    """

    __slots__ = ("_counts", "_keys", "_waiting")

    def __init__(self) -> None:
        self._waiting: list[int] = []
        self._keys = array("H")  # less _BELOW_ONE, so that they fit two bytes; rising
        self._counts = array("I")

    def __repr__(self) -> str:
        return f"<Buckets {self.count} values>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Buckets):
            return NotImplemented
        return self.levels() == other.levels()

    __hash__ = None  # type: ignore[assignment]  # it changes

    @property
    def count(self) -> int:
        """How many values there are."""
        self.settle()
        return sum(self._counts)

    def add(self, values_ns: Sequence[int]) -> None:
        """Count whole nanoseconds."""
        self._waiting += values_ns

    def merge(self, other: Buckets) -> None:
        """Add the counts of ``other``, which stays as it is."""
        self._waiting += other._waiting
        if other._keys:
            counts = self._counter()
            counts.update(other._counter())
            self._keep(counts)

    def settle(self) -> None:
        """Put what waits into buckets."""
        waiting, self._waiting = self._waiting, []
        if waiting and (min(waiting) < 0 or max(waiting) > MAX_NS):
            waiting = [value for value in waiting if 0 <= value <= MAX_NS]
        if not waiting:
            return
        bits = memoryview(array("d", waiting)).cast("B").cast("Q")
        counts = Counter([item >> _SHIFT for item in bits])
        if self._keys:
            counts.update(self._counter())
        self._keep(counts)

    def levels(self) -> Levels:
        """What quantiles are read from."""
        self.settle()
        return Levels([_widened(key) for key in self._keys], list(accumulate(self._counts)))

    def quantiles(self, percents: Sequence[float]) -> list[float | None]:
        """Nanoseconds at rank n * percent / 100, rounded up; None for each without a value.

        A value is off by at most ``RELATIVE_ERROR``.
        """
        keys, upto = self.levels()
        if not keys:
            return [None for _ in percents]
        return [value_of(keys[bisect_left(upto, rank_of(p, upto[-1]))]) for p in percents]

    def _counter(self) -> Counter[int]:
        return Counter(dict(zip(map(_widened, self._keys), self._counts, strict=True)))

    def _keep(self, counts: Counter[int]) -> None:
        keys = sorted(counts)
        self._counts = array("I", map(counts.__getitem__, keys))
        narrow = [key - _BELOW_ONE for key in keys]
        narrow[0] = max(0, narrow[0])
        self._keys = array("H", narrow)


def _widened(key: int) -> int:
    return key + _BELOW_ONE if key else 0


def rank_of(percent: float, count: int) -> int:
    """From 1 to ``count``: the place of that percentile among the sorted values."""
    # A fraction of the printed number: 99.9 % of 1000 is rank 999, not 999.0000000000001.
    rank = count * Fraction(repr(percent)) / 100
    return max(1, -(-rank.numerator // rank.denominator))


def value_of(key: int) -> float:
    """The middle of a bucket's whole values, in nanoseconds."""
    low, after = struct.unpack("<2d", struct.pack("<2Q", key << _SHIFT, (key + 1) << _SHIFT))
    # Below 1024 a bucket holds the one whole number at its lower edge.
    highest = max(int(low), -int(-after // 1) - 1)
    return (int(low) + highest) / 2


def merged(parts: Iterable[Buckets]) -> Buckets:
    """All of these together; they stay as they are."""
    whole = Buckets()
    for part in parts:
        whole.merge(part)
    return whole
