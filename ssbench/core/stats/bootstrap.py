"""The random variation of a run's figures: a block bootstrap over its seconds.

Neighbouring seconds are alike (a full cache, a compaction), so they are drawn in blocks, from a
circle. The length of a block follows from the series that is drawn (Politis and White 2004, with
the correction by Patton, Politis and White 2009), and is at most a quarter of the seconds.

Blocks this short break the correlation at their ends, so draws differ less than runs. In a short
run the noise of counting (few operations in a second) hides correlation from every test of single
autocorrelations. So intervals are widened by what a first-order process with white noise on top
would lack, averaged over all such processes by how well they explain the run's periodogram.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import ceil, log10, pi, sqrt, tan
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from ssbench.core.stats.histogram import Buckets, rank_of, value_of

MOST_RESAMPLES = 10_000
#: Drawn at a time: 2000 resamples of 20,000 seconds would take 640 MB.
_DRAWN_AT_ONCE = 1 << 19

Floats = npt.NDArray[np.float64]

_OUTSIDE = 0.025  #: of the draws, on either side
_NORMAL = NormalDist()

#: Before a run is seen: the probability of no correlation. Processes with correlation share the
#: rest evenly. (With less, changes of 5 % are missed; with more, correlation is.)
_UNCORRELATED = 0.93
#: Of neighbours. Those near 1 differ as much in how long they last as those farther from it.
_CORRELATIONS = 1 - np.geomspace(0.4, 0.01, 6)
_SIGNALS = np.array([0.35, 0.5, 0.7, 1.0])  #: share of the variance that is no noise
_MOST_FREQUENCIES = 500  #: the lowest; they determine how much the mean of a run varies


class Resampled:
    """Resamples of a run's whole seconds, which are drawn each time that they are needed.

    :param values: of each second; they determine the length of the blocks.
    :param seed: the same seed gives the same draws for blocks of the same length.
    :raises ValueError: no seconds, or more than MOST_RESAMPLES resamples.
    """

    def __init__(self, values: Sequence[float] | Floats, seed: int, resamples: int) -> None:
        if not len(values) or not 0 < resamples <= MOST_RESAMPLES:
            raise ValueError(f"at least a second, and 1 to {MOST_RESAMPLES:,} resamples")
        self.values = np.asarray(values, np.float64)
        self.seconds = len(values)
        self.block = max(1, min(round(block_length(self.values)), self.seconds // 4))
        self._seed, self._resamples = seed, resamples

    def __repr__(self) -> str:
        return f"<Resampled {self._resamples} x {self.seconds} s in blocks of {self.block} s>"

    @property
    def blocks(self) -> float:
        """The approximate number of independent pieces."""
        return self.seconds / self.block

    def means(self, *series: Sequence[float] | Floats) -> list[Floats]:
        """The mean over the seconds of each draw, for each series of values."""
        sums = []
        for values in series:
            each = np.asarray(values, np.float64)
            cumulative = np.cumsum(np.concatenate([[0.0], each, each[: self.block]]))
            sums.append((cumulative[self.block :] - cumulative[: -self.block])[: self.seconds])
        blocks = ceil(self.seconds / self.block)
        means = [np.empty(self._resamples) for _ in series]
        rng, some = np.random.default_rng(self._seed), max(1, _DRAWN_AT_ONCE // blocks)
        for at in range(0, self._resamples, some):
            # The seconds at which the blocks of each draw begin.
            draws = rng.integers(self.seconds, size=(min(some, self._resamples - at), blocks))
            for mean, of_block in zip(means, sums, strict=True):
                mean[at : at + some] = of_block[draws].sum(axis=1) / (blocks * self.block)
        return means


class Percentile:
    """The percentile of a run's latencies in each resample of its seconds.

    What is resampled is the share of values above the percentile; where in the whole run's
    distribution that share leads to is the percentile of the draw (Woodruff 1952).

    :param whole: the seconds' values together; at least one.
    """

    def __init__(
        self,
        seconds: Sequence[Buckets],
        whole: Buckets,
        percent: float,
        seed: int,
        resamples: int,
    ) -> None:
        counts = np.array([each.count for each in seconds], np.float64)
        cumulative, count = whole.counts.cumsum(), whole.count
        place = int(np.searchsorted(cumulative, rank_of(percent, count)))
        above = np.array(
            [each.counts[each.keys > whole.keys[place]].sum() for each in seconds], np.float64
        )
        share = above.sum() / count
        #: Of the values above, those that a second has more than its share.
        self.drawn = Resampled(above - share * counts, seed, resamples)
        values, of_draws = self.drawn.means(counts, above)
        shares = np.divide(of_draws, values, out=np.full(len(values), share), where=values > 0)
        ranks = rank_of(percent, count) + count * (shares - share)
        places = np.searchsorted(cumulative, np.clip(np.round(ranks), 1, count))
        found, those = np.unique(places, return_inverse=True)
        self.draws = np.array([value_of(key) for key in whole.keys[found].tolist()])[those]


def block_length(values: npt.ArrayLike) -> float:
    """The best length of the blocks of a circular bootstrap of the mean, in seconds.

    Autocorrelations count up to twice the last lag before several that may be chance, with a
    flat-top window.
    """
    rest = np.asarray(values, np.float64)
    rest = rest - rest.mean()
    many = len(rest)
    several = 5
    lags = min(ceil(sqrt(many)) + several, many - 1)  # those that are looked at
    if lags <= several or not rest.any():
        return 1.0
    sums = np.array([rest[lag:] @ rest[: many - lag] for lag in range(lags + 1)])
    squares = np.cumsum(rest**2)
    ends = squares[many - 1 - lags : many - 2][::-1] * (squares[-1] - squares[1:lags])
    large = abs(sums[1:lags]) >= 2 * np.sqrt(log10(many) / many * ends)
    last = next(
        (at + 1 for at in range(lags - several) if not large[at : at + several].any()), lags
    )
    window = min(2 * last, lags)
    lag = np.arange(1, window + 1)
    weighted = sums[1 : window + 1] * np.minimum(1, 2 * (1 - lag / window))
    variance, slope = sums[0] + 2 * weighted.sum(), 2 * (lag * weighted).sum()
    longest = ceil(min(3 * sqrt(many), many / 3))
    if not variance:
        return float(longest)
    return float(min(longest, (1.5 * many * (slope / variance) ** 2) ** (1 / 3)))


def variance_factor(samples: Sequence[Resampled]) -> float:
    """The factor by which means of runs vary more than the means of their draws, at most.

    The mean of a block has the variance v(block). Draws around the mean of all keep v(block) -
    v(all) of it, and a draw consists of all/block of these.

    :param samples: of runs that are compared: what one shows of its correlation holds for both.
    """
    known = [sample for sample in samples if sample.seconds > sample.block]
    chances = _chances(known)
    worst = 1.0
    for sample in known:
        many, block = sample.seconds, sample.block
        whole, part = _variance_of_mean(many), _variance_of_mean(block)
        worst = max(worst, float((chances * whole / (block / many * (part - whole))).sum()))
    return sqrt(worst)


def _chances(samples: Sequence[Resampled]) -> Floats:
    """The probability of no correlation, and of each process, after the samples were seen.

    By the likelihood of their periodograms (Whittle 1953) with the periodogram's exact
    expectation, because a run may be short. Of the scale nothing is known before.
    """
    processes = len(_CORRELATIONS) * len(_SIGNALS)
    likelihood = np.log([_UNCORRELATED, *[(1 - _UNCORRELATED) / processes] * processes])
    for sample in samples:
        many = sample.seconds
        found = abs(np.fft.rfft(sample.values)[1 : (many + 1) // 2][:_MOST_FREQUENCIES]) ** 2
        if found.sum() <= 1e-20 * many * (sample.values @ sample.values):
            continue
        turns = np.exp(2j * pi * np.arange(1, len(found) + 1) / many)
        step = _CORRELATIONS[:, None] * turns
        ends = 1 - _CORRELATIONS[:, None] ** many
        expected = 2 * (1 / (1 - step) - step * ends / (many * (1 - step) ** 2)).real - 1
        spectra = _processes(expected, np.ones(len(found)))
        likelihood -= np.log(spectra).sum(axis=1)
        likelihood -= len(found) * np.log((found / spectra).sum(axis=1))
    chances: Floats = np.exp(likelihood - likelihood.max())
    chances /= chances.sum()
    return chances


def _variance_of_mean(many: int) -> Floats:
    """The variance of the mean of neighbours with variance 1, for each process."""
    tail = _CORRELATIONS / (1 - _CORRELATIONS)
    pairs = tail - tail * (1 - _CORRELATIONS**many) / (many * (1 - _CORRELATIONS))
    return _processes((1 + 2 * pairs)[:, None] / many, np.ones(1) / many)[:, 0]


def _processes(signals: Floats, noise: Floats) -> Floats:
    """Rows for noise alone, and for each correlation with each share of the signal."""
    mixed = [share * signal + (1 - share) * noise for signal in signals for share in _SIGNALS]
    return np.array([noise, *mixed])


def interval(
    values: Sequence[float] | Floats, confidence: float, blocks: float, wider: float = 1.0
) -> tuple[float, float]:
    """A confidence interval around the median of the draws' values, which are not negative.

    The interval that holds 95 % of them is extended to the given confidence, by ``wider`` and, for
    few blocks, by Student's t. (Percentiles further out, as in Hesterberg 2015, What Teachers
    Should Know about the Bootstrap, 4.3, would end at the extremes of the draws.)

    :param blocks: approximate number of independent pieces; one degree of freedom less.
    :param wider: factor by which the figure varies more than its draws.
    """
    reach = wider * student((1 + confidence) / 2, max(1.0, blocks - 1))
    scale = reach / _NORMAL.inv_cdf(1 - _OUTSIDE)
    rising = np.sort(values).tolist()
    cut = max(int(_OUTSIDE * (len(rising) + 1)) - 1, 0)
    centre = rising[len(rising) // 2]
    low, high = (_moved(centre, end, scale) for end in (rising[cut], rising[-1 - cut]))
    return low, high


def _moved(centre: float, end: float, scale: float) -> float:
    """``end``, moved away from ``centre`` by this factor on a logarithmic scale."""
    return centre * (end / centre) ** scale if centre > 0 and end > 0 else end


@lru_cache
def student(level: float, freedom: float) -> float:
    """Student's quantile above the median, within 0.1 % up to 99.9 %.

    With t = sqrt(freedom) tan(angle), the density is a power of the angle's cosine.
    """
    freedom = min(freedom, 10_000.0)  # from there on it's the normal quantile
    angles = np.linspace(0, pi / 2, 20_001)
    density = np.cos(angles) ** (freedom - 1)
    cumulative: npt.NDArray[Any] = np.concatenate([[0], np.cumsum(density[1:] + density[:-1])])
    angle = np.interp((2 * level - 1) * cumulative[-1], cumulative, angles)
    return sqrt(freedom) * tan(float(angle))
