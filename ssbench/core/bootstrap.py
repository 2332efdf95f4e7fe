"""How far a figure of a run would have been off by chance: a block bootstrap over its seconds.

Neighbouring seconds are alike (a full cache, a compaction), so they are drawn in blocks, from a
circle: Politis and Romano 1992. A block is the cube root of the number of seconds long, or longer
where the rate's autocorrelation asks for it (Politis and White 2004, for a process of first
order), and a quarter of the seconds at most.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from math import ceil, sqrt
from statistics import NormalDist, fmean

from ssbench.core.buckets import Buckets, rank_of, value_of

MOST_RESAMPLES = 10_000

_NORMAL = NormalDist()


class Resampled:
    """A run of whole seconds, drawn anew many times.

    A draw costs some 3 µs a rate and 40 µs a percentile for 600 seconds.

    :param counts: of each second: what sets the blocks' length.
    :raises ValueError: for no second, or more than MOST_RESAMPLES resamples.
    """

    def __init__(self, counts: Sequence[int], rng: random.Random, resamples: int) -> None:
        if not counts or not 0 < resamples <= MOST_RESAMPLES:
            raise ValueError(f"at least a second, and 1 to {MOST_RESAMPLES:,} resamples")
        self.seconds = len(counts)
        self.block = block_length(counts)
        blocks = ceil(self.seconds / self.block)
        starts = range(self.seconds)
        self._draws = [rng.choices(starts, k=blocks) for _ in range(resamples)]
        self._drawn_seconds = blocks * self.block

    def __repr__(self) -> str:
        return f"<Resampled {len(self._draws)} x {self.seconds} s in blocks of {self.block} s>"

    @property
    def blocks(self) -> float:
        """How many independent pieces there are, about."""
        return self.seconds / self.block

    def means(self, values: Sequence[int]) -> list[float]:
        """The mean over the seconds, of each draw."""
        sums = self._block_sums(values)
        return [sum(map(sums.__getitem__, draw)) / self._drawn_seconds for draw in self._draws]

    def latencies(self, seconds: Sequence[Buckets]) -> Latencies:
        """What percentiles are drawn from, of each second; keep it for several percentiles."""
        return Latencies(self._draws, seconds, self._block_sums)

    def _block_sums(self, values: Sequence[int]) -> list[int]:
        """The sum of the block that begins at each second."""
        upto = list(accumulate([*values, *values[: self.block]], initial=0))
        return [upto[at + self.block] - upto[at] for at in range(self.seconds)]


class Latencies:
    """The latencies of a run's seconds, drawn anew; made by ``Resampled.latencies``."""

    def __init__(
        self,
        draws: Sequence[Sequence[int]],
        seconds: Sequence[Buckets],
        block_sums: Callable[[Sequence[int]], list[int]],
    ) -> None:
        self._draws = draws
        self._levels = [each.levels() for each in seconds]
        self._keys = sorted({key for levels in self._levels for key in levels.keys})
        self._block_sums = block_sums
        #: For a bucket, how many values each block has up to it; reckoned when asked for.
        self._columns: dict[int, list[int]] = {}

    def quantiles(self, percent: float) -> list[float | None]:
        """The percentile over all values of the seconds, of each draw; None where it has none."""
        return [self._quantile(draw, percent) for draw in self._draws]

    def _quantile(self, draw: Sequence[int], percent: float) -> float | None:
        low, high = 0, len(self._keys) - 1
        total = sum(map(self._column(high).__getitem__, draw)) if self._keys else 0
        if not total:
            return None
        rank = rank_of(percent, total)
        while low < high:
            middle = (low + high) // 2
            if sum(map(self._column(middle).__getitem__, draw)) >= rank:
                high = middle
            else:
                low = middle + 1
        return value_of(self._keys[low])

    def _column(self, index: int) -> list[int]:
        found = self._columns.get(index)
        if found is None:
            upto = list(self._upto(self._keys[index]))
            found = self._columns[index] = self._block_sums(upto)
        return found

    def _upto(self, key: int) -> Iterator[int]:
        for keys, upto in self._levels:
            place = bisect_right(keys, key)
            yield upto[place - 1] if place else 0


def block_length(counts: Sequence[int]) -> int:
    """In seconds."""
    many = len(counts)
    lasting = _autocorrelation(counts)
    # Politis and White's factor of the cube root, with the sums of such a process put in.
    factor: float = (6 * lasting**2 / (1 - lasting**2) ** 2) ** (1 / 3)
    root: float = many ** (1 / 3)
    return max(1, min(ceil(max(1.0, factor) * root), many // 4))


def _autocorrelation(values: Sequence[int]) -> float:
    """Of neighbours, from 0 to 0.95."""
    mean = fmean(values)
    rest = [value - mean for value in values]
    total = sum(value * value for value in rest)
    raw = sum(a * b for a, b in pairwise(rest)) / total if total else 0.0
    return min(0.95, max(0.0, raw))


def interval(values: Sequence[float], confidence: float, blocks: float) -> tuple[float, float]:
    """The percentile interval of the draws' values.

    It is widened for few blocks, by Student's t and the variance's n / (n - 1), as Hesterberg
    2015 (What Teachers Should Know about the Bootstrap, 4.3) does.
    """
    freedom = max(1.0, blocks - 1)
    reach = sqrt(1 + 1 / freedom) * _student((1 + confidence) / 2, freedom)
    outside = _NORMAL.cdf(-reach)
    rising = sorted(values)
    cut = min(int(outside * len(rising)), (len(rising) - 1) // 2)
    return rising[cut], rising[-1 - cut]


def _student(level: float, freedom: float) -> float:
    """Student's quantile, by Abramowitz and Stegun 26.7.5; within 2 % from 4 degrees on."""
    z = _NORMAL.inv_cdf(level)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return sum(term / freedom**power for power, term in enumerate(terms))
