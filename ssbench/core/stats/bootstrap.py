"""The random variation of a run's figures: a block bootstrap over its seconds.

Neighbouring seconds are alike (a full cache, a compaction), so they are drawn in blocks, from a
circle (Politis and Romano 1992). The length of a block is the cube root of the number of seconds,
or more if the rate is autocorrelated (Politis and White 2004, for a first-order process), and at
most a quarter of the seconds.

Blocks this short break the correlation at their ends, so draws differ less than runs. Intervals are
widened by the factor that is known for first-order processes.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import ceil, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from ssbench.core.stats.histogram import Buckets, rank_of, value_of
from ssbench.core.stats.results import Ints
from ssbench.core.stats.steady import autocorrelation

MOST_RESAMPLES = 10_000

_HIGHEST_CORRELATION = 0.95
#: A correlation below this over the square root of the number of seconds may be chance.
_BY_CHANCE = 1.6
_OUTSIDE = 0.025  #: of the draws, on either side
#: Number of ranges into which buckets near a percentile, or a wide range, are divided.
_MOST_RANGES = 48
#: Standard deviations of a percentile's rank (if all seconds were alike) that count as near, on
#: either side. Different seconds increase the deviation of a draw.
_REACH = 5

_NORMAL = NormalDist()


class Resampled:
    """Resamples of a run's whole seconds.

    :param counts: of each second; they determine the length of the blocks.
    :raises ValueError: no seconds, or more than MOST_RESAMPLES resamples.
    """

    def __init__(self, counts: Sequence[int], rng: random.Random, resamples: int) -> None:
        if not counts or not 0 < resamples <= MOST_RESAMPLES:
            raise ValueError(f"at least a second, and 1 to {MOST_RESAMPLES:,} resamples")
        self.seconds = len(counts)
        self.block = block_length(counts)
        self.widening = widening(counts, self.block)
        blocks = ceil(self.seconds / self.block)
        starts = range(self.seconds)
        #: The seconds at which the blocks of each draw begin.
        self.draws = np.array([rng.choices(starts, k=blocks) for _ in range(resamples)])

    def __repr__(self) -> str:
        return f"<Resampled {len(self.draws)} x {self.seconds} s in blocks of {self.block} s>"

    @property
    def blocks(self) -> float:
        """The approximate number of independent pieces."""
        return self.seconds / self.block

    def means(self, values: Sequence[int]) -> list[float]:
        """The mean over the seconds of each draw."""
        seconds = self.draws.shape[1] * self.block
        cumulative = np.cumsum(np.array([0, *values, *values[: self.block]], object))
        sums = (cumulative[self.block :] - cumulative[: -self.block])[: self.seconds]
        if abs(sums).max() < (1 << 62) // seconds:  # else they stay Python's integers
            sums = sums.astype(np.int64)
        return [int(each) / seconds for each in sums[self.draws].sum(axis=1)]

    def block_sums(self, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The sums over the block that begins at each second (row), by column."""
        cumulative = np.concatenate([np.zeros_like(counts[:1]), counts, counts[: self.block]])
        np.cumsum(cumulative, axis=0, out=cumulative)
        sums: npt.NDArray[np.int64] = cumulative[self.block :] - cumulative[: -self.block]
        return sums[: self.seconds]


class Latencies:
    """Latencies of resampled seconds.

    Most of the time goes into adding up the counts of a draw's blocks. So this is done once for all
    percentiles, by ranges of buckets that are narrow near these. If a percentile is in a wide
    range, that range is divided again.

    :param percents: those that will be asked for; others take longer.
    """

    def __init__(
        self, resampled: Resampled, seconds: Sequence[Buckets], percents: Sequence[float]
    ) -> None:
        self._resampled = resampled
        self.whole = Buckets.merged(seconds)
        self._rows = np.repeat(np.arange(len(seconds)), [len(each.keys) for each in seconds])
        keys = np.concatenate([each.keys for each in seconds])
        self._places = np.searchsorted(self.whole.keys, keys)
        self._counts = np.concatenate([each.counts for each in seconds])
        self._edges = _edges_about(percents, self.whole.counts.cumsum()) if len(keys) else []
        every = np.arange(len(resampled.draws))
        self._top = self._cumulative(self._edges, every) if self._edges else None

    def quantiles(self, percent: float) -> list[float | None]:
        """The percentile over all values of each draw; None if a draw has no values."""
        many = len(self._resampled.draws)
        if self._top is None:
            return [None] * many
        totals = self._top[:, -1]
        ranks = np.array([rank_of(percent, total) if total else 0 for total in totals.tolist()])
        places = np.zeros(many, np.int64)
        self._locate(np.arange(many), ranks, self._edges, self._top, places)
        values = [value_of(key) for key in self.whole.keys.tolist()]
        return [
            values[place] if total else None
            for place, total in zip(places.tolist(), totals.tolist(), strict=True)
        ]

    def _locate(
        self, draws: Ints, ranks: Ints, edges: Sequence[int], cumulative: Ints, places: Ints
    ) -> None:
        """Set the place of the bucket with this rank for each of these draws.

        :param cumulative: values up to each range's end, a row per draw.
        """
        ranges = (cumulative < ranks[:, None]).sum(axis=1)
        for at in np.unique(ranges).tolist():
            low, high = edges[at : at + 2]
            here = np.flatnonzero(ranges == at)
            if high - low == 1:
                places[draws[here]] = low
                continue
            before = cumulative[here, at - 1] if at else 0
            finer = _divided(low, high)
            inside = self._cumulative(finer, draws[here])
            self._locate(draws[here], ranks[here] - before, finer, inside, places)

    def _cumulative(self, edges: Sequence[int], draws: Ints) -> Ints:
        """The number of values up to the end of each range, one row for each of these draws."""
        width, seconds = len(edges) - 1, self._resampled.seconds
        inside = (self._places >= edges[0]) & (self._places < edges[-1])
        ranges = np.searchsorted(edges, self._places[inside], side="right") - 1
        counts = np.bincount(
            self._rows[inside] * width + ranges,
            self._counts[inside].astype(np.float64),
            minlength=seconds * width,
        ).astype(np.int64)
        blocks = self._resampled.block_sums(counts.reshape(seconds, width))
        found = np.array([blocks[draw].sum(axis=0) for draw in self._resampled.draws[draws]])
        cumulative: Ints = found.cumsum(axis=1)
        return cumulative


def _edges_about(percents: Sequence[float], cumulative: npt.NDArray[Any]) -> list[int]:
    """Edges of ranges that are narrow where these percentiles of a draw are likely.

    :param cumulative: by bucket: number of values in it or below, over all seconds.
    """
    total, many = int(cumulative[-1]), len(cumulative)
    edges = {0, many}
    for percent in percents:
        rank, share = rank_of(percent, total), percent / 100
        reach = _REACH * sqrt(total * share * (1 - share))
        low = max(0, int(np.searchsorted(cumulative, rank - reach)) - 1)
        high = min(many, int(np.searchsorted(cumulative, rank + reach)) + 2)
        edges.update(_divided(low, high))
    return sorted(edges)


def _divided(low: int, high: int) -> list[int]:
    """The edges of the parts of a range."""
    return [*range(low, high, ceil((high - low) / _MOST_RANGES)), high]


def block_length(counts: Sequence[int]) -> int:
    """The length of the blocks in seconds."""
    many = len(counts)
    lasting = _lasting(counts)
    # Politis and White's factor of the cube root, for a first-order process.
    factor: float = (6 * lasting**2 / (1 - lasting**2) ** 2) ** (1 / 3)
    root: float = many ** (1 / 3)
    return max(1, min(ceil(max(1.0, factor) * root), many // 4))


def widening(counts: Sequence[int], block: int) -> float:
    """The factor by which a mean varies more than the means of draws in such blocks.

    For a first-order process with the autocorrelation of these counts, corrected for the bias of
    short runs (Marriott and Pope 1954). The mean of a block has the variance v(block). Draws around
    the mean of all keep v(block) - v(all) of it, and a draw consists of all/block of these.
    """
    many = len(counts)
    if block >= many:
        return 1.0
    found = _lasting(counts)
    lasting = min(_HIGHEST_CORRELATION, found + (1 + 4 * found) / many)
    if lasting < _BY_CHANCE / sqrt(many):
        lasting = 0.0
    whole, part = _variance_of_mean(many, lasting), _variance_of_mean(block, lasting)
    return sqrt(whole / (block / many * (part - whole)))


def _variance_of_mean(many: int, lasting: float) -> float:
    """The variance of the mean of neighbours with variance 1 and this autocorrelation."""
    if not lasting:
        return 1 / many
    tail = lasting / (1 - lasting)
    pairs = tail - tail * (1 - lasting**many) / (many * (1 - lasting))
    return (1 + 2 * pairs) / many


def _lasting(counts: Sequence[int]) -> float:
    """Autocorrelation of neighbouring seconds, from 0 to _HIGHEST_CORRELATION."""
    return min(_HIGHEST_CORRELATION, max(0.0, autocorrelation(counts) or 0.0))


def interval(
    values: Sequence[float], confidence: float, blocks: float, wider: float = 1.0
) -> tuple[float, float]:
    """A confidence interval around the median of the draws' values, which are not negative.

    The interval that holds 95 % of them is extended to the given confidence, by ``wider`` and, for
    few blocks, by Student's t. (Percentiles further out, as in Hesterberg 2015, What Teachers
    Should Know about the Bootstrap, 4.3, would end at the extremes of the draws.)

    :param blocks: approximate number of independent pieces; one degree of freedom less.
    :param wider: factor by which the figure varies more than its draws.
    """
    reach = wider * _student((1 + confidence) / 2, max(1.0, blocks - 1))
    further = reach / _NORMAL.inv_cdf(1 - _OUTSIDE)
    rising = sorted(values)
    cut = max(int(_OUTSIDE * (len(rising) + 1)) - 1, 0)
    centre = rising[len(rising) // 2]
    low, high = (_moved(centre, end, further) for end in (rising[cut], rising[-1 - cut]))
    return low, high


def _moved(centre: float, end: float, further: float) -> float:
    """The end at so many times its distance from the centre, on a logarithmic scale."""
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
