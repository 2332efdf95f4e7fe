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
#: A correlation of this over the root of the number of seconds comes about by chance.
_BY_CHANCE = 1.6
_OUTSIDE = 0.025  #: of the draws, on either side
#: Ranges into which the buckets near a percentile, or a wide range of them, are divided.
_MOST_RANGES = 48
#: Standard deviations of a percentile's rank, if seconds were all alike, that count as near on
#: either side. Seconds that differ widen the deviation of a draw.
_REACH = 5

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
        #: The seconds at which the blocks of each draw begin.
        self.draws = np.array([rng.choices(starts, k=blocks) for _ in range(resamples)])

    def __repr__(self) -> str:
        return f"<Resampled {len(self.draws)} x {self.seconds} s in blocks of {self.block} s>"

    @property
    def blocks(self) -> float:
        """How many independent pieces there are, about."""
        return self.seconds / self.block

    def means(self, values: Sequence[int]) -> list[float]:
        """The mean over the seconds, of each draw."""
        seconds = self.draws.shape[1] * self.block
        cumulative = np.cumsum(np.array([0, *values, *values[: self.block]], object))
        sums = (cumulative[self.block :] - cumulative[: -self.block])[: self.seconds]
        if abs(sums).max() < (1 << 62) // seconds:  # else Python's whole numbers
            sums = sums.astype(np.int64)
        return [int(each) / seconds for each in sums[self.draws].sum(axis=1)]

    def block_sums(self, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The sums over the block that begins at each second (row), by column."""
        cumulative = np.concatenate([np.zeros_like(counts[:1]), counts, counts[: self.block]])
        np.cumsum(cumulative, axis=0, out=cumulative)
        sums: npt.NDArray[np.int64] = cumulative[self.block :] - cumulative[: -self.block]
        return sums[: self.seconds]


class Latencies:
    """The latencies of a run's seconds, drawn anew.

    Most of a bootstrap's time goes into adding up the counts of a draw's blocks. So that is done
    once for all percentiles, by ranges of buckets that are narrow near these; where a percentile
    falls into a wide range all the same, that range is divided in turn.

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
        """The percentile over all values of the seconds, of each draw; None where it has none."""
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
        """Set the place of the bucket with that rank, of each of these draws.

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
        """The values up to the end of each range between edges, a row for each of these draws."""
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
    """Edges of ranges that are narrow where these percentiles of a draw are likely to be.

    :param cumulative: of each bucket, rising: how many values of all seconds lie in it or below.
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
    """In seconds."""
    many = len(counts)
    lasting = _lasting(counts)
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
    found = _lasting(counts)
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


def _lasting(counts: Sequence[int]) -> float:
    """Autocorrelation of neighbouring seconds, from 0 to _HIGHEST_CORRELATION."""
    return min(_HIGHEST_CORRELATION, max(0.0, autocorrelation(counts) or 0.0))


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
