"""Latency counts in log-linear buckets, in the manner of HdrHistogram.

A bucket is the upper part of a value's IEEE 754 double: the exponent and the first bits of the
mantissa. So the order of the buckets is that of the values, a bucket's width is a fixed share of
its lower edge, and finding the buckets of a million values is one conversion and one shift.

``Histogram`` is for a whole run (11 bits of the mantissa), ``Buckets`` for a second of it (9 bits).
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

MAX_NS = 3_600_000_000_000  #: one hour; more is out of range
RELATIVE_ERROR = 2.0**-12  #: of a Histogram's quantile (0.025 %)
SECOND_ERROR = 2.0**-10  #: of a quantile of Buckets (0.098 %)
MOST_BITS = 9  #: by which Buckets can be made coarser: the octave is left

_BITS, _SECOND_BITS = 11, 9  # of the mantissa
_MOST_AT_ONCE = 1 << 20  # values whose sums of squares' parts fit 64 bits
_PER_VALUE = 4  # buckets
_HALF = 21  # bits: MAX_NS has 42


class Histogram:
    """Counts of durations from 0 to one hour, in whole nanoseconds.

    Count, minimum, maximum, mean and standard deviation are exact. A quantile is off by at most
    ``RELATIVE_ERROR``, and exact below 4096 ns. Values below 0 or above one hour are in
    ``out_of_range`` and in nothing else. Merging loses nothing: any order of merges, and one
    histogram of all values, are equal. Memory: 16 bytes for each bucket in use, of few values; of
    many, 8 bytes for each between the lowest and the highest in use: at most 86,000 of them
    (690 KB), a tenth of that in practice.
    """

    __slots__ = ("_buckets", "_counts", "_max", "_min", "_squares", "_sum", "count", "out_of_range")

    def __init__(self) -> None:
        self.count = 0
        self.out_of_range = 0
        self._min = MAX_NS
        self._max = 0
        self._sum = 0
        self._squares = 0
        # Rising; a range of all between two, if values are dense in it.
        self._buckets: range | Ints = range(0)
        self._counts: Ints = np.zeros(0, np.int64)

    def __repr__(self) -> str:
        return f"<Histogram {self.count} values, {self.out_of_range} out of range>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Histogram):
            return NotImplemented
        return self._state() == other._state()

    __hash__ = None  # type: ignore[assignment]  # mutable

    def _state(self) -> tuple[object, ...]:
        exact = (self.count, self.out_of_range, self._min, self._max, self._sum, self._squares)
        return *exact, *(each.tolist() for each in _used(self._buckets, self._counts))

    def record_many(self, values_ns: Sequence[int] | npt.NDArray[Any]) -> None:
        """Count whole nanoseconds."""
        values = np.asarray(values_ns)
        for at in range(0, len(values), _MOST_AT_ONCE):
            self._record(values[at : at + _MOST_AT_ONCE])

    def _record(self, found: npt.NDArray[Any]) -> None:
        within = (found >= 0) & (found <= MAX_NS)
        if not within.all():
            self.out_of_range += int(len(found) - np.count_nonzero(within))
            found = found[within]
            if not len(found):
                return
        values = found.astype(np.int64, copy=False)
        buckets = _keys(values, _BITS)
        first, end = int(buckets.min()), int(buckets.max()) + 1
        if _is_dense(end - first, len(values)):
            self._add(range(first, end), np.bincount(buckets - first), len(values))
        else:
            self._add(*np.unique(buckets, return_counts=True), len(values))
        self._sum += int(values.sum())
        high, low = values >> _HALF, values & ((1 << _HALF) - 1)
        self._squares += (
            (int(np.dot(high, high)) << 2 * _HALF)
            + (int(np.dot(high, low)) << _HALF + 1)
            + int(np.dot(low, low))
        )
        self._min = min(self._min, int(values.min()))
        self._max = max(self._max, int(values.max()))

    def _add(self, buckets: range | Ints, counts: Ints, values: int) -> None:
        """Add this many values: the counts of these buckets."""
        if not values:
            return
        self.count += values
        low, high = int(buckets[0]), int(buckets[-1]) + 1
        if len(self._buckets):
            low, high = min(low, int(self._buckets[0])), max(high, int(self._buckets[-1]) + 1)
        if not _is_dense(high - low, self.count):
            both = zip(_used(self._buckets, self._counts), _used(buckets, counts), strict=True)
            self._buckets, self._counts = summed(*map(np.concatenate, both))
            return
        if not isinstance(self._buckets, range) or self._buckets != range(low, high):
            wider = np.zeros(high - low, np.int64)
            wider[_within(self._buckets, low)] = self._counts
            self._buckets, self._counts = range(low, high), wider
        self._counts[_within(buckets, low)] += counts

    def merge(self, other: Histogram) -> None:
        """Add the counts of ``other``, which stays as it is."""
        self._add(other._buckets, other._counts, other.count)
        self.out_of_range += other.out_of_range
        self._min = min(self._min, other._min)
        self._max = max(self._max, other._max)
        self._sum += other._sum
        self._squares += other._squares

    @property
    def min(self) -> int | None:
        """Nanoseconds; None without a value."""
        return self._min if self.count else None

    @property
    def max(self) -> int | None:
        """Nanoseconds; None without a value."""
        return self._max if self.count else None

    @property
    def mean(self) -> float | None:
        """Nanoseconds; None without a value."""
        return self._sum / self.count if self.count else None

    @property
    def std_dev(self) -> float | None:
        """Standard deviation of the population (divided by n), in ns; None without a value."""
        if not self.count:
            return None
        # All in integers: the difference of two large near-equal floats would be noise.
        spread = self.count * self._squares - self._sum * self._sum
        return sqrt(spread) / self.count

    def quantile(self, share: float) -> float | None:
        """As ``percentile``, by a share as in numpy and pandas: 0.99 for the 99th percentile.

        :raises ValueError: unless 0 < share <= 1.
        """
        if not 0 < share <= 1:
            raise ValueError(f"quantile {share}: it must be above 0 and at most 1, as in 0.99")
        return self.percentile(float(Fraction(repr(share)) * 100))

    def percentile(self, percent: float) -> float | None:
        """The value, in nanoseconds, below which ``percent`` (99 for p99) of the values lie.

        At rank n * percent / 100 it is the mean of the two neighbours where the rank is whole,
        else the next value up; 100 gives the maximum. None without a value.

        :raises ValueError: unless 0 < percent <= 100.
        """
        return self.quantiles((percent,))[0]

    def quantiles(self, percents: Sequence[float]) -> list[float | None]:
        """As ``percentile``, for several at once, which is cheaper."""
        for percent in percents:
            if not 0 < percent <= 100:
                raise ValueError(f"percentile {percent}: it must be above 0 and at most 100")
        if not self.count:
            return [None for _ in percents]
        cumulative = np.cumsum(self._counts)
        found: list[float | None] = []
        for percent in percents:
            part, of = _share(percent)
            lower, rest = divmod(self.count * part, of)
            if rest:
                found.append(self._value_at(lower + 1, cumulative))
            elif lower >= self.count:
                found.append(float(self._max))
            else:
                below = self._value_at(lower, cumulative)
                found.append((below + self._value_at(lower + 1, cumulative)) / 2)
        return found

    def _value_at(self, position: int, cumulative: Ints) -> float:
        """The value at a position from 1, as near as the buckets tell."""
        if position == 1:
            return float(self._min)
        if position == self.count:
            return float(self._max)
        bucket = int(self._buckets[int(np.searchsorted(cumulative, position))])
        return min(max(_middle(bucket, _BITS), float(self._min)), float(self._max))


def _is_dense(width: int, values: int) -> bool:
    """Whether counts of this many adjacent buckets take less than those of the ones in use."""
    return width <= _PER_VALUE * values


def _used(buckets: range | Ints, counts: Ints) -> tuple[Ints, Ints]:
    """The buckets that are in use, and their counts."""
    if not isinstance(buckets, range):
        return buckets, counts
    used = np.flatnonzero(counts)
    return used + buckets.start, counts[used]


def _within(buckets: range | Ints, low: int) -> slice | Ints:
    """The places of these buckets in counts from ``low`` on."""
    if isinstance(buckets, range):
        return slice(buckets.start - low, buckets.stop - low)
    return buckets - low


class Buckets:
    """Counts of the latencies of one second, in buckets as wide as 2**-9 of their lower edge.

    :param keys: of buckets in use, rising: 0 is the bucket of 0 ns, 1 that of 1 ns.
    :param counts: of each.
    """

    __slots__ = ("counts", "keys")

    def __init__(self, keys: npt.NDArray[Any], counts: npt.NDArray[Any]) -> None:
        self.keys: Ints = keys.astype(np.int64, copy=False)
        self.counts: Ints = counts.astype(np.int64, copy=False)

    def __repr__(self) -> str:
        return f"<Buckets {self.count} values>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Buckets):
            return NotImplemented
        same = np.array_equal(self.keys, other.keys)
        return same and np.array_equal(self.counts, other.counts)

    __hash__ = None  # type: ignore[assignment]  # holds arrays

    @classmethod
    def of(cls, values_ns: Sequence[int]) -> Buckets:
        """Count whole nanoseconds from 0 to MAX_NS."""
        return cls(*np.unique(second_keys(np.asarray(values_ns)), return_counts=True))

    @classmethod
    def merged(cls, parts: Sequence[Buckets]) -> Buckets:
        """All of these together."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls(np.zeros(0, np.int64), np.zeros(0, np.int64))
        return cls(
            *summed(
                np.concatenate([part.keys for part in parts]),
                np.concatenate([part.counts for part in parts]),
            )
        )

    @property
    def count(self) -> int:
        """How many values there are."""
        return int(self.counts.sum())

    def quantiles(self, percents: Sequence[float]) -> list[float | None]:
        """Nanoseconds at rank n * percent / 100, rounded up; None for each without a value.

        A value is off by at most ``SECOND_ERROR``.
        """
        if not len(self.keys):
            return [None for _ in percents]
        cumulative = self.counts.cumsum().tolist()
        ranks = [rank_of(percent, cumulative[-1]) for percent in percents]
        return [value_of(int(self.keys[bisect_left(cumulative, rank)])) for rank in ranks]


def second_keys(values_ns: npt.NDArray[Any]) -> Ints:
    """The keys of ``Buckets`` of values from 0 to MAX_NS; each fits 16 bits."""
    return _keys(values_ns, _SECOND_BITS)


def _keys(values_ns: npt.NDArray[Any], bits: int) -> Ints:
    """The upper part of each double with this many bits of the mantissa, less what all have in
    common: 0 ns is in bucket 0, 1 ns in bucket 1."""
    upper = values_ns.astype(np.float64).view(np.int64) >> (52 - bits)
    keys: Ints = np.maximum(upper - (1023 << bits) + 1, 0)
    return keys


def coarser(keys: Ints, bits: int) -> Ints:
    """The keys of buckets 2**bits times as wide: that of the one in the middle of each.

    The same bits again change nothing, and more bits later are the same as those at once.
    """
    middle = ((keys - 1) >> bits << bits) + (1 << bits >> 1) + 1
    return np.where(keys > 0, middle, 0)  # the bucket of 1 begins an octave; 0 has its own


def relative_error(bits: int) -> float:
    """Of a quantile from keys that are ``coarser`` by this many bits."""
    return SECOND_ERROR * (2**bits + 1) if bits else SECOND_ERROR


def summed(keys: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Distinct keys in rising order, and the sum of the counts of each."""
    order = np.argsort(keys, kind="stable")
    keys, counts = keys[order], counts[order]
    begins = np.flatnonzero(np.diff(keys, prepend=keys[:1] - 1))
    return keys[begins], np.add.reduceat(counts, begins) if len(begins) else counts


def rank_of(percent: float, count: int) -> int:
    """From 1 to ``count``: the place of that percentile among the sorted values."""
    part, of = _share(percent)
    return max(1, -(-count * part // of))


def value_of(key: int) -> float:
    """The middle of the whole values of a bucket of ``Buckets``, in nanoseconds."""
    return _middle(key, _SECOND_BITS)


@lru_cache
def _share(percent: float) -> tuple[int, int]:
    """A fraction of the printed number: 99.9 % of 1000 is rank 999, not 999.0000000000001."""
    return (Fraction(repr(percent)) / 100).as_integer_ratio()


def _middle(key: int, bits: int) -> float:
    """The middle of a bucket's lowest and highest whole value, in nanoseconds."""
    if not key:
        return 0.0
    upper, shift = key + (1023 << bits) - 1, 52 - bits
    low, after = struct.unpack("<2d", struct.pack("<2Q", upper << shift, (upper + 1) << shift))
    # A bucket narrower than 1 holds the one whole number at its lower edge.
    highest = max(int(low), -int(-after // 1) - 1)
    return (int(low) + highest) / 2
