"""How far a figure of a run would have been off by chance: a block bootstrap over its seconds.

Neighbouring seconds are alike (a full cache, a compaction), so they are drawn in blocks, from a
circle: Politis and Romano 1992. A block is the cube root of the number of seconds long, or longer
where the rate's autocorrelation asks for it (Politis and White 2004, for a process of first
order), and a quarter of the seconds at most.

Blocks that short break the correlation at their ends, so the draws differ less than runs do. By how
much is known for a process of first order, and intervals are widened by it.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from math import ceil, sqrt
from statistics import NormalDist, fmean

from ssbench.core.stats.buckets import Buckets, merged, rank_of, value_of
from ssbench.core.stats.coarse_series import Stretches, divided, edges_about

MOST_RESAMPLES = 10_000

_HIGHEST_CORRELATION = 0.95
#: A correlation of this over the root of the number of seconds comes about by chance.
_BY_CHANCE = 1.6
_OUTSIDE = 0.025  #: of the draws, on either side

_NORMAL = NormalDist()


class Resampled:
    """A run of whole seconds, drawn anew many times.

    :param counts: of each second: what sets the blocks' length.
    :raises ValueError: for no second, or more than MOST_RESAMPLES resamples.
    """

    def __init__(self, counts: Sequence[int], rng: random.Random, resamples: int) -> None:
        if not counts or not 0 < resamples <= MOST_RESAMPLES:
            raise ValueError(f"at least a second, and 1 to {MOST_RESAMPLES:,} resamples")
        self.seconds = len(counts)
        self.block = block_length(counts)
        self.widening = widening(counts, self.block)
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

    def latencies(self, seconds: Sequence[Buckets], percents: Sequence[float]) -> Latencies:
        """What percentiles are drawn from, of each second.

        :param percents: those that will be asked for; others take longer.
        """
        return Latencies(self._draws, seconds, percents, self._block_sums)

    def _block_sums(self, values: Sequence[int]) -> list[int]:
        """The sum of the block that begins at each second."""
        cumulative = list(accumulate([*values, *values[: self.block]], initial=0))
        return [cumulative[at + self.block] - cumulative[at] for at in range(self.seconds)]


class Latencies:
    """The latencies of a run's seconds, drawn anew; made by ``Resampled.latencies``.

    Nearly all that a bootstrap does is to add up what the blocks of a draw have in each bucket. So
    that is done once for all percentiles, by stretches of buckets that are narrow where these are;
    where one falls into a wide stretch all the same, that one is divided in turn.
    """

    def __init__(
        self,
        draws: Sequence[Sequence[int]],
        seconds: Sequence[Buckets],
        percents: Sequence[float],
        block_sums: Callable[[Sequence[int]], Sequence[int]],
    ) -> None:
        self._draws = draws
        self._seconds = seconds
        self._block_sums = block_sums
        self.whole = merged(seconds)
        self._keys, cumulative = self.whole.levels()
        self._values = [value_of(key) for key in self._keys]
        self._parts: dict[tuple[int, int], Stretches] = {}
        self._cumulative: list[Sequence[int]] = []  # of each draw
        if self._keys:
            self._top = self._stretches(edges_about(percents, cumulative))
            self._cumulative = [self._top.cumulative(draw) for draw in draws]

    def quantiles(self, percent: float) -> list[float | None]:
        """The percentile over all values of the seconds, of each draw; None where it has none."""
        if not self._cumulative:
            return [None for _ in self._draws]
        return [
            self._quantile(draw, cumulative, rank_of(percent, cumulative[-1]))
            if cumulative[-1]
            else None
            for draw, cumulative in zip(self._draws, self._cumulative, strict=True)
        ]

    def _quantile(self, draw: Sequence[int], cumulative: Sequence[int], rank: int) -> float:
        stretches = self._top
        while True:
            at = bisect_left(cumulative, rank)
            low, high = stretches.edges[at : at + 2]
            if high - low == 1:
                return self._values[low]
            rank -= cumulative[at - 1] if at else 0
            if (low, high) not in self._parts:
                self._parts[low, high] = self._stretches(divided(low, high))
            stretches = self._parts[low, high]
            cumulative = stretches.cumulative(draw)

    def _stretches(self, edges: Sequence[int]) -> Stretches:
        return Stretches(self._seconds, self._keys, edges, self._block_sums)


def block_length(counts: Sequence[int]) -> int:
    """In seconds."""
    many = len(counts)
    lasting = _autocorrelation(counts)
    # Politis and White's factor of the cube root, with the sums of such a process put in.
    factor: float = (6 * lasting**2 / (1 - lasting**2) ** 2) ** (1 / 3)
    root: float = many ** (1 / 3)
    return max(1, min(ceil(max(1.0, factor) * root), many // 4))


def widening(counts: Sequence[int], block: int) -> float:
    """How many times further a mean is off than the means of draws in such blocks.

    For a process of first order with the autocorrelation of these counts, freed of its bias in
    short runs (Marriott and Pope 1954). A block's mean has the variance v(block), of which the
    draws, about the mean of all, keep v(block) - v(all); a draw is all/block of these.
    """
    many = len(counts)
    if block >= many:
        return 1.0
    found = _autocorrelation(counts)
    lasting = min(_HIGHEST_CORRELATION, found + (1 + 4 * found) / many)
    if lasting < _BY_CHANCE / sqrt(many):
        lasting = 0.0
    whole, part = _variance_of_mean(many, lasting), _variance_of_mean(block, lasting)
    return sqrt(whole / (block / many * (part - whole)))


def _variance_of_mean(many: int, lasting: float) -> float:
    """Of so many neighbours of variance 1 with this autocorrelation of first order."""
    if not lasting:
        return 1 / many
    tail = lasting / (1 - lasting)
    pairs = tail - tail * (1 - lasting**many) / (many * (1 - lasting))
    return (1 + 2 * pairs) / many


def _autocorrelation(values: Sequence[int]) -> float:
    """Of neighbours, from 0 to _HIGHEST_CORRELATION."""
    mean = fmean(values)
    rest = [value - mean for value in values]
    total = sum(value * value for value in rest)
    raw = sum(a * b for a, b in pairwise(rest)) / total if total else 0.0
    return min(_HIGHEST_CORRELATION, max(0.0, raw))


def interval(
    values: Sequence[float], confidence: float, blocks: float, wider: float = 1.0
) -> tuple[float, float]:
    """An interval about the median of the draws' values, none of which is below 0.

    It is the one that holds 95 % of them, made larger for more confidence, by ``wider`` and, for
    few blocks, by Student's t. (Percentiles further out, as Hesterberg 2015 takes in What Teachers
    Should Know about the Bootstrap, 4.3, end at the draws' extremes.)

    :param blocks: how many independent pieces there were, about, with one degree of freedom less.
    :param wider: how many times further off than its draws a figure is.
    """
    reach = wider * _student((1 + confidence) / 2, max(1.0, blocks - 1))
    further = reach / _NORMAL.inv_cdf(1 - _OUTSIDE)
    rising = sorted(values)
    cut = max(int(_OUTSIDE * (len(rising) + 1)) - 1, 0)
    centre = rising[len(rising) // 2]
    low, high = (_moved(centre, end, further) for end in (rising[cut], rising[-1 - cut]))
    return low, high


def _moved(centre: float, end: float, further: float) -> float:
    """So many times further from the centre, in logarithms: half and double are as far from it."""
    return centre * (end / centre) ** further if centre > 0 and end > 0 else end


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
