"""Latency counts that merge: sparse, log-linear, in whole nanoseconds.

A value's bucket is the upper part of its IEEE 754 double: exponent and the first 11 bits of the
mantissa. So a bucket is at most 2**-11 of its lower edge wide, values below 4096 ns have a bucket
each, the order of the buckets is that of the values, and finding a batch's buckets is one
conversion and one shift a value.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise
from math import sqrt
from operator import mul
from typing import Any

from ssbench.core.columns import pack_column, unpack_column
from ssbench.core.errors import MessageError
from ssbench.core.stats.durations import Durations

MAX_NS = 3_600_000_000_000  #: one hour; more is out of range
RELATIVE_ERROR = 2.0**-12  #: of a quantile, against the samples' own (0.025 %)

_SHIFT = 52 - 11
_MAX_BUCKETS = 70_000  # from 0 to MAX_NS there are fewer; a packed form with more is refused
#: Values, of 8 bytes, that wait to be counted. A few hundred at a time take three times as long:
#: what is large of a report's histograms has been pushed out of the processor's cache by then.
_MOST_WAITING = 1 << 15


class Histogram:
    """Counts of durations from 0 to one hour.

    Count, minimum, maximum, mean and standard deviation are exact. A quantile is off by at most
    ``RELATIVE_ERROR``, and exact below 4096 ns. Values below 0 or above one hour are in
    ``out_of_range`` and in nothing else. Merging loses nothing: any order of merges, and one
    histogram of all values, are equal. Memory depends on the spread of the values, not on their
    number: at most some 67,000 buckets, a few thousand in practice, and 256 KB.
    """

    __slots__ = (
        "_counted", "_max", "_min", "_squares", "_sum", "_waiting", "count", "out_of_range",
    )  # fmt: skip

    def __init__(self) -> None:
        self.count = 0
        self.out_of_range = 0
        self._counted: Counter[int] = Counter()
        self._waiting = array("d")
        self._min = MAX_NS
        self._max = 0
        self._sum = 0
        self._squares = 0

    def __repr__(self) -> str:
        return f"<Histogram {self.count} values, {self.out_of_range} out of range>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Histogram):
            return NotImplemented
        return self._state() == other._state()

    __hash__ = None  # type: ignore[assignment]  # it changes

    def record(self, value_ns: int) -> None:
        """Count one value."""
        self.record_many((value_ns,))

    def record_many(self, values_ns: Sequence[int]) -> None:
        """Count whole nanoseconds."""
        if values_ns:
            self.record_all(Durations(values_ns))

    def record_all(self, durations: Durations) -> None:
        """Count all of these, fast: some 0.12 µs a value."""
        values_ns = durations.values_ns
        if durations.least < 0 or durations.most > MAX_NS:
            in_range = [value for value in values_ns if 0 <= value <= MAX_NS]
            self.out_of_range += len(values_ns) - len(in_range)
            self.record_many(in_range)
            return
        self._waiting.extend(durations.doubles)
        if len(self._waiting) >= _MOST_WAITING:
            self._flush()
        self.count += len(values_ns)
        self._sum += sum(values_ns)
        self._squares += sum(map(mul, values_ns, values_ns))
        self._min = min(self._min, durations.least)
        self._max = max(self._max, durations.most)

    def _flush(self) -> None:
        bits = memoryview(self._waiting).cast("B").cast("Q")
        self._counted.update([item >> _SHIFT for item in bits])
        self._waiting = array("d")

    @property
    def _counts(self) -> Counter[int]:
        """Values by bucket: all of them."""
        if self._waiting:
            self._flush()
        return self._counted

    def merge(self, other: Histogram) -> None:
        """Add the counts of ``other``, which stays as it is."""
        self._counts.update(other._counts)
        self.count += other.count
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

    def quantile(self, percent: float) -> float | None:
        """The value, in nanoseconds, below which ``percent`` of the values lie.

        At rank n * percent / 100 it is the mean of the two neighbours where the rank is whole,
        else the next value up; 100 gives the maximum. None without a value.

        :raises ValueError: unless 0 < percent <= 100.
        """
        return self.quantiles((percent,))[0]

    def quantiles(self, percents: Sequence[float]) -> list[float | None]:
        """As ``quantile``, for several at once, which is cheaper."""
        for percent in percents:
            if not 0 < percent <= 100:
                raise ValueError(f"percentile {percent}: it must be above 0 and at most 100")
        if not self.count:
            return [None for _ in percents]
        counts = self._counts
        keys = sorted(counts)
        cumulative = list(accumulate(map(counts.__getitem__, keys)))
        return [self._quantile(percent, keys, cumulative) for percent in percents]

    def _quantile(self, percent: float, keys: Sequence[int], cumulative: Sequence[int]) -> float:
        # A fraction of the printed number: 99.9 % of 1000 is rank 999, not 999.0000000000001.
        rank = self.count * Fraction(repr(percent)) / 100
        lower = rank.numerator // rank.denominator
        if rank.denominator != 1:
            return self._value_at(lower + 1, keys, cumulative)
        if lower >= self.count:
            return float(self._max)
        below = self._value_at(lower, keys, cumulative)
        return (below + self._value_at(lower + 1, keys, cumulative)) / 2

    def _value_at(self, position: int, keys: Sequence[int], cumulative: Sequence[int]) -> float:
        """The value at a position from 1, as near as the buckets tell."""
        if position == 1:
            return float(self._min)
        if position == self.count:
            return float(self._max)
        index = bisect_left(cumulative, position)
        return min(max(_middle(keys[index]), float(self._min)), float(self._max))

    def buckets(self) -> Iterator[tuple[int, int, int]]:
        """``(lowest value, highest value, count)`` of each bucket in use, in rising order."""
        for key, count in sorted(self._counts.items()):
            yield *_edges(key), count

    def to_packed(self) -> list[Any]:
        """A short form for msgpack: ``[out of range, min, max, sum, squares, keys, counts]``.

        The sums are bytes, little-endian: they may have more than 64 bits.
        """
        if not self.count:
            return [self.out_of_range]
        counts = self._counts
        keys = sorted(counts)
        steps = [keys[0], *(high - low for low, high in pairwise(keys))]
        return [
            self.out_of_range,
            self._min,
            self._max,
            _to_bytes(self._sum),
            _to_bytes(self._squares),
            len(keys),
            pack_column(steps),
            pack_column([counts[key] for key in keys]),
        ]

    @classmethod
    def from_packed(cls, packed: Any) -> Histogram:
        """The histogram of ``to_packed``.

        :raises MessageError: for anything that no histogram packs to.
        """
        histogram = cls()
        if type(packed) is not list or len(packed) not in (1, 8) or not _is_count(packed[0]):
            raise MessageError("a malformed histogram")
        histogram.out_of_range = packed[0]
        if len(packed) == 8:
            histogram._unpack(*packed[1:])
        return histogram

    def _unpack(
        self, low: Any, high: Any, total: Any, squares: Any, size: Any, steps: Any, counts: Any
    ) -> None:
        if not (
            _is_count(low)
            and _is_count(high)
            and _is_count(size)
            and low <= high <= MAX_NS
            and 0 < size <= _MAX_BUCKETS
            and isinstance(total, bytes)
            and isinstance(squares, bytes)
            and len(total) + len(squares) <= 64
        ):
            raise MessageError("a malformed histogram")
        keys = list(accumulate(unpack_column(steps, size)))
        numbers = unpack_column(counts, size)
        self._min, self._max = low, high
        self._sum = int.from_bytes(total, "little")
        self._squares = int.from_bytes(squares, "little")
        self._counted = Counter(dict(zip(keys, numbers, strict=True)))
        self.count = sum(numbers)
        if (
            min(numbers) < 1
            or len(self._counts) != size
            or keys != sorted(keys)
            or (keys[0], keys[-1]) != (_key(low), _key(high))
            or not self._sums_are_possible()
        ):
            raise MessageError("a histogram that contradicts itself")

    def _sums_are_possible(self) -> bool:
        return (
            self.count * self._min <= self._sum <= self.count * self._max
            and self._sum * self._sum <= self.count * self._squares
            and self._squares <= self._sum * self._max
        )

    def _state(self) -> tuple[Any, ...]:
        return (
            self.count,
            self.out_of_range,
            self._min,
            self._max,
            self._sum,
            self._squares,
            self._counts,
        )


def _key(value_ns: int) -> int:
    bits: int = struct.unpack("<Q", struct.pack("<d", value_ns))[0]
    return bits >> _SHIFT


def _edges(key: int) -> tuple[int, int]:
    """The lowest and the highest whole value of a bucket."""
    low, after = struct.unpack("<2d", struct.pack("<2Q", key << _SHIFT, (key + 1) << _SHIFT))
    # Below 4096 a bucket is narrower than 1: it holds the one whole number at its lower edge.
    return int(low), max(int(low), -int(-after // 1) - 1)


def _middle(key: int) -> float:
    low, high = _edges(key)
    return (low + high) / 2


def _to_bytes(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "little")


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0
