"""Latency counts of one second: coarser than a report's histogram, and small while at rest.

A bucket is the upper part of a value's IEEE 754 double with 9 bits of the mantissa (the report's
have 11): at most 2**-9 of its lower edge wide, one whole nanosecond below 1024 ns. Its key is that
part less what all of them have in common, so that it fits two bytes; 0 is the bucket of 0.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from ssbench.core.stats.histogram import MAX_NS

RELATIVE_ERROR = 2.0**-10  #: of a quantile, against a sample of that rank (0.098 %)

MOST_BITS = 9  #: that can be taken off a bucket's key: the octave is left

_SHIFT = 52 - 9
_LAST = struct.unpack("<Q", struct.pack("<d", MAX_NS))[0] >> _SHIFT
_BELOW_ONE = (1023 << 9) - 1  # one below the bucket of 1; less than that is 0, bucket 0


_NONE = array("d")  # shared by all that are at rest, and nobody adds to it


class Levels(NamedTuple):
    """Keys of buckets in rising order, and how many values lie in each and all below it."""

    keys: Sequence[int]
    cumulative: Sequence[int]

    def at(self, percent: float) -> int:
        """The place in ``keys`` of the bucket with that percentile; there must be a value."""
        return bisect_left(self.cumulative, rank_of(percent, self.cumulative[-1]))


class Buckets:
    """Counts of durations from 0 to one hour; what lies outside is passed over.

    Merging loses nothing. Values wait as they are, 8 bytes each, until ``flush`` or the first
    question; then a bucket takes 3 bytes where none has more than 255 values, and at most 6.
    """

    __slots__ = ("_counts", "_packed_keys", "_waiting")

    def __init__(self) -> None:
        self._waiting = _NONE
        self._packed_keys = b""  # rising
        self._counts: Sequence[int] = b""

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
        self.flush()
        return sum(self._counts)

    def add(self, values_ns: Sequence[float]) -> None:
        """Count whole nanoseconds; an array of doubles is fastest."""
        if not self._waiting:
            self._waiting = array("d")
        self._waiting.extend(values_ns)

    def merge(self, other: Buckets) -> None:
        """Add the counts of ``other``, which stays as it is."""
        self.add(other._waiting)
        if other._packed_keys:
            self._keep(_sums([self, other]))

    def flush(self) -> None:
        """Put what waits into buckets."""
        if not self._waiting:
            return
        found = _by_bucket(self._waiting)
        if max(found) >= _LAST:  # which negative values are, too: the sign is the highest bit
            found = _by_bucket(array("d", [v for v in self._waiting if 0 <= v <= MAX_NS]))
        self._waiting = _NONE
        counts = {upper - _BELOW_ONE: count for upper, count in found.items()}
        if -_BELOW_ONE in counts:
            counts[0] = counts.pop(-_BELOW_ONE)
        self._keep(_sums([self], counts) if self._packed_keys else counts)

    @property
    def size(self) -> int:
        """How many buckets there are, once all is flushed."""
        return len(self._packed_keys) // 2

    def coarsen(self, bits: int) -> None:
        """Put each 2**bits neighbouring buckets together in the one in their middle.

        Doing so by as many bits again changes nothing, and by more of them later is the same as by
        those at once. See ``relative_error``.
        """
        self.flush()
        counts: dict[int, int] = {}
        known = counts.get
        half = 1 << bits >> 1
        for key, count in zip(self._keys, self._counts, strict=True):
            # The bucket of 1 is the first of an octave, and 0 has one of its own.
            middle = ((key - 1) >> bits << bits) + half + 1 if key else 0
            counts[middle] = known(middle, 0) + count
        self._keep(counts)

    def items(self, first: int, last: int) -> Iterable[tuple[int, int]]:
        """(key, count) of each bucket from one key to another that has values, rising."""
        self.flush()
        these = slice(bisect_left(self._keys, first), bisect_right(self._keys, last))
        return zip(self._keys[these], self._counts[these], strict=True)

    def levels(self) -> Levels:
        """What quantiles are read from."""
        self.flush()
        return Levels(self._keys, list(accumulate(self._counts)))

    def quantiles(self, percents: Sequence[float]) -> list[float | None]:
        """Nanoseconds at rank n * percent / 100, rounded up; None for each without a value.

        A value is off by at most ``RELATIVE_ERROR``.
        """
        levels = self.levels()
        if not levels.keys:
            return [None for _ in percents]
        return [value_of(levels.keys[levels.at(percent)]) for percent in percents]

    def _keep(self, counts: Mapping[int, int]) -> None:
        keys = sorted(counts)
        found = [counts[key] for key in keys]
        # Bytes, because an array takes 32 more, and a day has a million of them.
        self._counts = bytes(found) if max(found, default=0) < 256 else array("I", found)
        self._packed_keys = array("H", keys).tobytes()

    @property
    def _keys(self) -> Sequence[int]:
        return memoryview(self._packed_keys).cast("H") if self._packed_keys else ()


def _by_bucket(doubles: array[float]) -> Counter[int]:
    """How many have each value of their upper part."""
    if not doubles:
        return Counter()
    return Counter([item >> _SHIFT for item in memoryview(doubles).cast("B").cast("Q")])


def relative_error(bits: int) -> float:
    """Of a quantile from buckets that were thinned by so many bits."""
    return RELATIVE_ERROR * (2**bits + 1) if bits else RELATIVE_ERROR


def rank_of(percent: float, count: int) -> int:
    """From 1 to ``count``: the place of that percentile among the sorted values."""
    part, of = _share(percent)
    return max(1, -(-count * part // of))


@lru_cache
def _share(percent: float) -> tuple[int, int]:
    """A fraction of the printed number: 99.9 % of 1000 is rank 999, not 999.0000000000001."""
    return (Fraction(repr(percent)) / 100).as_integer_ratio()


def value_of(key: int) -> float:
    """The middle of a bucket's whole values, in nanoseconds."""
    upper = key + _BELOW_ONE if key else 0
    low, after = struct.unpack("<2d", struct.pack("<2Q", upper << _SHIFT, (upper + 1) << _SHIFT))
    # Below 1024 a bucket holds the one whole number at its lower edge.
    highest = max(int(low), -int(-after // 1) - 1)
    return (int(low) + highest) / 2


def merged(parts: Sequence[Buckets]) -> Buckets:
    """All of these together; they stay as they are."""
    whole = Buckets()
    for part in parts:
        part.flush()
    whole._keep(_sums(parts))
    return whole


def _sums(parts: Iterable[Buckets], found: dict[int, int] | None = None) -> dict[int, int]:
    """The counts of all of them, and of ``found``, by key; what waits isn't among them."""
    found = {} if found is None else found
    known = found.get
    for part in parts:
        for key, count in zip(part._keys, part._counts, strict=True):
            found[key] = known(key, 0) + count
    return found
