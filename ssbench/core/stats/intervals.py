"""Figures of runs with confidence intervals, and which of their differences are more than noise.

An interval of one run, or of two, covers the random variation within each: a block bootstrap over
its seconds. Conditions that differed between the runs are not in it: only repeated runs show those.
So runs can be compared in groups (sides): then an interval is from the differences between the runs
of a side.

Neighbouring seconds are alike (a full cache, a compaction), so they are drawn in blocks, from a
circle. The length of a block follows from the series that is drawn (Politis and White 2004, with
the correction by Patton, Politis and White 2009), and is at most a quarter of the seconds.

Blocks this short break the correlation at their ends, so draws differ less than runs. In a short
run the noise of counting (few operations in a second) hides correlation from every test of single
autocorrelations. So intervals are widened by what a first-order process with white noise on top
would lack, averaged over all such processes by how well they explain the run's periodogram.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Sequence
from enum import Enum
from functools import lru_cache
from math import acosh, ceil, exp, inf, log, log10, pi, sinh, sqrt
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ssbench.core.sparse import ENOUGH_BEYOND
from ssbench.core.stats.histogram import Buckets, rank_of, value_of
from ssbench.core.stats.series import Second
from ssbench.core.stats.tally import Tally

MOST_RESAMPLES = 10_000
_LEAST_RESAMPLES = 100  #: with fewer, a figure has no interval
_WIDEST = 100.0  #: factor to each side of a mean of several runs; what is wider is unknown
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
    :param most_drawn: blocks that are drawn in all resamples together; fewer are made for it.
    :raises ValueError: no seconds, or more than MOST_RESAMPLES resamples.
    """

    def __init__(
        self,
        values: Sequence[float] | Floats,
        seed: int,
        resamples: int,
        most_drawn: float = inf,
    ) -> None:
        if not len(values) or not 0 < resamples <= MOST_RESAMPLES:
            raise ValueError(f"at least a second, and 1 to {MOST_RESAMPLES:,} resamples")
        self.values = np.asarray(values, np.float64)
        self.seconds = len(values)
        self.block = max(1, min(round(block_length(self.values)), self.seconds // 4))
        possible = most_drawn // ceil(self.blocks)
        if resamples > possible:
            resamples = int(possible) if possible >= _LEAST_RESAMPLES else 0
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
        most_drawn: float = inf,
    ) -> None:
        used = np.flatnonzero([len(each.keys) for each in seconds]).tolist()
        counts, above = np.zeros((2, len(seconds)))
        counts[used] = [seconds[at].count for at in used]
        cumulative, count = whole.counts.cumsum(), whole.count
        place = int(np.searchsorted(cumulative, rank_of(percent, count)))
        higher = whole.keys[place]
        above[used] = [seconds[at].counts[seconds[at].keys > higher].sum() for at in used]
        share = above.sum() / count
        #: Of the values above, those that a second has more than its share.
        self.drawn = Resampled(above - share * counts, seed, resamples, most_drawn)
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
    shares = _SIGNALS[:, None]
    mixed = shares * signals[:, None] + (1 - shares) * noise
    return np.concatenate([noise[None], mixed.reshape(-1, len(noise))])


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
    """Student's quantile above the median, within 0.001 % up to 99.95 %.

    With t = sqrt(freedom) sinh(place), the density is a power of the hyperbolic cosine; what
    is below exp(-20) of that at the median is left out. From the nearest place of known integral
    (trapezoids with the correction for their ends) it is two terms of a series to the quantile.
    """
    freedom = min(freedom, 1e6)  # from there on it's the normal quantile
    places, step = np.linspace(0, acosh(exp(20 / freedom)), 1001, retstep=True)
    density = np.cosh(places) ** -freedom
    slope = -freedom * np.tanh(places) * density
    sums = np.concatenate([[0], np.cumsum(density[1:] + density[:-1])])
    cumulative = sums * step / 2 - slope * step**2 / 12
    wanted = (2 * level - 1) * cumulative[-1]
    at = np.searchsorted(cumulative, wanted)
    move = (wanted - cumulative[at]) / density[at]
    place = places[at] + move - slope[at] / density[at] * move**2 / 2
    return sqrt(freedom) * sinh(float(place))


#: Of ten figures of two like runs a 95 % interval each would call one different in a third of all
#: cases; at 99 % it is one case in ten or fewer.
CONFIDENCE = 0.99
#: Of each interval where pairs end once the difference is known well enough. Student's interval is
#: narrowest where pairs are alike by chance: at 99 %, stopping there has up to 2.7 % false alarms,
#: at this level up to 1 % (simulated in tests/commands/test_ab.py).
CONFIDENCE_OF_LOOK = 0.997
POWER = 0.8  #: share of cases in which the runs that are said to be needed tell such a change
MOST_NEEDED = 1000  #: runs of a side; if more are needed, no number is said
RESAMPLES = 2000
PERCENTS = (50.0, 90.0, 95.0, 99.0, 99.9)
#: Smaller changes always count as noise: the width of its bucket alone puts each of the two
#: percentiles off by up to 0.1 %.
SMALLEST_CHANGE = 0.002
ENOUGH_SECONDS = 10
#: Measure -> its attribute of Second, and that of Tally.
_ATTRIBUTES = {
    "rate": ("count", "rate_per_s"),
    "throughput": ("bytes_moved", "bytes_per_s"),
    "service": ("service", "last_byte"),
    "response": ("response", "response"),
}


class ChangeVerdict(Enum):
    """What a difference is."""

    NOISE = "no more than noise"
    REAL = "more than noise"
    UNKNOWN = "too little data to tell"
    NOT_JUDGED = "not judged"  #: a run that wasn't what its scenario says
    MISSING = "not in both"  #: one has no such operation


class Measure(NamedTuple):
    """A figure that is compared. Latencies (``service``, ``response``) have a percent."""

    name: str  #: "rate" (successes a second), "throughput" (bytes a second), "service", "response"
    percent: float | None = None


class Estimate(Struct, frozen=True):
    """A figure of one run (per second, or nanoseconds), and its confidence interval."""

    value: float | None  #: None, as are low and high, if the run has no such figure
    low: float | None = None
    high: float | None = None


class Change(Struct, frozen=True):
    """The ratio of a run's figure to the first run's."""

    ratio: float | None  #: None if either is missing, or the first is 0
    low: float | None
    high: float | None
    verdict: ChangeVerdict
    #: Runs of each side that would probably tell such a change from noise. None: it was told, or
    #: more than MOST_NEEDED; or there are no sides.
    runs_needed: int | None = None


class ComparedFigure(Struct, frozen=True):
    """One measure of all runs, or of all sides."""

    measure: Measure
    estimates: tuple[Estimate, ...]  #: of each run
    changes: tuple[Change, ...]  #: of each run but the first, against the first


class Pairs(Struct, frozen=True):
    """How the pairs of ``ab`` came about."""

    asked: int  #: of pairs; at most, where a precision ends them
    ended: str = ""  #: why it ended before its end; "" if it did not
    left_out: tuple[tuple[str, str], ...] = ()  #: runs that are in no pair: path, and why
    sequential: bool = False  #: whether the pairs end by what is known after each


class Sides(Struct, frozen=True):
    """Runs that are compared in groups."""

    counts: tuple[int, ...]  #: the runs of each side, which follow each other
    names: tuple[str, ...] = ()  #: of each side, in words; (): none
    #: The runs of the sides were made in turn: the n-th of each is compared with the n-th of the
    #: first, so that what all runs drift by is in no difference.
    paired: bool = False
    pairs: Pairs | None = None  #: of runs that were made as pairs

    @property
    def confidence(self) -> float:
        """Of each interval."""
        return CONFIDENCE_OF_LOOK if self.pairs and self.pairs.sequential else CONFIDENCE

    def reach(self, freedom: float) -> float:
        """Half of an interval, in standard errors."""
        return student((1 + self.confidence) / 2, freedom)

    @property
    def places(self) -> list[range]:
        """The places of each side's runs."""
        ends = np.cumsum(self.counts).tolist()
        return [range(end - count, end) for end, count in zip(ends, self.counts, strict=True)]

    @staticmethod
    def letter(place: int) -> str:
        """``A`` for the first."""
        return chr(ord("A") + place)


def compare(
    seconds: Sequence[Sequence[Second]],
    rng: random.Random,
    *,
    tallies: Sequence[Tally] = (),
    percents: Sequence[float] = PERCENTS,
    resamples: int = RESAMPLES,
    most_drawn: float = inf,
    sides: Sides | None = None,
) -> list[ComparedFigure]:
    """The figures of the runs, each compared with the first.

    A second counts what completed in it, which is not what the rate of a report counts. So the rate
    is that of the report, and its interval has the relative width of that of the seconds' mean.

    :param seconds: the whole seconds of each run that count, in order. If there are none, the
        figures are those of its tally, without intervals.
    :param rng: draws the resamples: the same seed gives the same intervals.
    :param most_drawn: blocks that are drawn for each figure of a run.
    :param tallies: the sums of each run; without them, rates are means over the seconds.
    :param sides: as of ``comparison``.
    """
    of_runs: Sequence[Tally | None] = tallies or [None] * len(seconds)
    runs = [
        _ResampledRun(own, tally, rng, resamples, most_drawn)
        for own, tally in zip(seconds, of_runs, strict=True)
    ]
    measures = [Measure("rate"), Measure("throughput")]
    for name in ("service", "response"):
        if any(run.has(name) for run in runs):
            measures += [Measure(name, percent) for percent in percents]
    rows = []
    for measure in measures:
        figures = [run.figure(measure) for run in runs]
        if sides is not None:
            groups = [[figures[at] for at in side] for side in sides.places]
            rows.append(_of_sides(measure, groups, sides))
            continue
        rows.append(
            ComparedFigure(
                measure,
                tuple(figure.estimate for figure in figures),
                tuple(_change(figures[0], each) for each in figures[1:]),
            )
        )
    return rows


class _Figure(NamedTuple):
    """A figure of one run, and of each resample."""

    value: float | None
    draws: Floats = np.zeros(0)
    drawn: Resampled | None = None
    enough: bool = False  #: whether there are enough values for a verdict

    @property
    def error(self) -> float:
        """Standard error of the value's logarithm, by the variation within the run; 0: unknown."""
        positive = self.draws[self.draws > 0]
        if self.drawn is None or len(positive) < 2:
            return 0.0
        return float(np.log(positive).std()) * variance_factor([self.drawn])

    @property
    def estimate(self) -> Estimate:
        if self.value is None or self.drawn is None or not len(self.draws):
            return Estimate(self.value)
        wider = variance_factor([self.drawn])
        return Estimate(self.value, *interval(self.draws, CONFIDENCE, self.drawn.blocks, wider))


class _ResampledRun:
    """A run, and resamples of its seconds."""

    def __init__(
        self,
        seconds: Sequence[Second],
        tally: Tally | None,
        rng: random.Random,
        resamples: int,
        most_drawn: float,
    ) -> None:
        self._seconds = seconds
        self._tally = tally
        self._seed = rng.getrandbits(64)
        self._resamples = resamples, most_drawn
        self._whole: dict[str, Buckets] = {}  # latencies of all seconds

    def has(self, name: str) -> bool:
        """Whether it has latencies of this kind."""
        if self._tally is not None:
            return self._reported(Measure(name, 100)) is not None
        return any(buckets.count for buckets in self._of_seconds(name))

    def figure(self, measure: Measure) -> _Figure:
        if not self._seconds:
            return _Figure(self._reported(measure))
        if measure.percent is None:
            return self._rate(measure)
        seconds = self._of_seconds(measure.name)
        if measure.name not in self._whole:
            self._whole[measure.name] = Buckets.merged(seconds)
        whole = self._whole[measure.name]
        (value,) = whole.quantiles((measure.percent,))
        if min(measure.percent, 100 - measure.percent) / 100 * whole.count < ENOUGH_BEYOND:
            return _Figure(value)
        found = Percentile(seconds, whole, measure.percent, self._seed, *self._resamples)
        return _Figure(value, found.draws, found.drawn, len(seconds) >= ENOUGH_SECONDS)

    def _of_seconds(self, name: str) -> list[Any]:
        attribute, _of_tally = _ATTRIBUTES[name]
        return [getattr(second, attribute) for second in self._seconds]

    def _reported(self, measure: Measure) -> float | None:
        """The figure of the report, over the whole run."""
        _of_second, attribute = _ATTRIBUTES[measure.name]
        found = getattr(self._tally, attribute, None)
        if found is not None and measure.percent is not None:
            found = found.histogram.percentile(measure.percent)
        return found

    def _rate(self, measure: Measure) -> _Figure:
        values = self._of_seconds(measure.name)
        mean = sum(values) / len(values)
        value = self._reported(measure) if self._tally else mean
        if value is None or (value and not mean):
            return _Figure(value)
        drawn = Resampled(values, self._seed, *self._resamples)
        scale = value / mean if mean else 1.0
        enough = len(values) >= ENOUGH_SECONDS
        (means,) = drawn.means(values)
        return _Figure(value, means * scale, drawn, enough)


def _change(first: _Figure, other: _Figure) -> Change:
    ratio = other.value / first.value if first.value and other.value is not None else None
    some = slice(min(len(first.draws), len(other.draws)))
    base, mine = first.draws[some], other.draws[some]
    ratios = mine[base > 0] / base[base > 0]
    if ratio is None or first.drawn is None or other.drawn is None or not len(ratios):
        return Change(ratio, None, None, ChangeVerdict.UNKNOWN)
    # Each run has one degree of freedom less than it has blocks.
    blocks = first.drawn.blocks + other.drawn.blocks - 1
    wider = variance_factor([first.drawn, other.drawn])
    low, high = interval(ratios, CONFIDENCE, blocks, wider)
    verdict = ChangeVerdict.REAL
    if not (first.enough and other.enough):
        verdict = ChangeVerdict.UNKNOWN
    elif low <= 1 <= high or abs(ratio - 1) <= SMALLEST_CHANGE:
        verdict = ChangeVerdict.NOISE
    return Change(ratio, low, high, verdict)


class Spread(NamedTuple):
    """The mean of the logarithms of some runs' figures."""

    mean: float
    error: float  #: its standard error; 0 for one run
    freedom: float  #: degrees of freedom of that; 0 for one run

    @classmethod
    def of(cls, values: Sequence[float] | Floats) -> Spread:
        """Of the runs' logarithms, which are independent; at least one."""
        mean, many = float(np.mean(values)), len(values)
        if many == 1:
            return cls(mean, 0.0, 0.0)
        return cls(mean, float(np.std(values, ddof=1)) / many**0.5, many - 1)


def difference(
    first: Sequence[float] | Floats, other: Sequence[float] | Floats, *, paired: bool
) -> Spread:
    """The difference of the means of two sides' logarithms.

    Paired, it is Student's of the pairs' differences. Otherwise it is Welch's of independent runs;
    where one side has a single run, the other's variance counts for both.
    """
    if paired:
        return Spread.of(np.subtract(other, first))
    base, mine = Spread.of(first), Spread.of(other)
    if not base.freedom or not mine.freedom:
        known = base if base.freedom else mine
        variance = known.error**2 * (known.freedom + 1)
        error = (variance / len(first) + variance / len(other)) ** 0.5
        return Spread(mine.mean - base.mean, error, known.freedom)
    variances = (base.error**2, mine.error**2)
    parts = variances[0] ** 2 / base.freedom + variances[1] ** 2 / mine.freedom
    freedom = sum(variances) ** 2 / parts if parts else base.freedom + mine.freedom
    return Spread(mine.mean - base.mean, sum(variances) ** 0.5, freedom)


def _of_sides(
    measure: Measure, groups: Sequence[Sequence[_Figure]], sides: Sides
) -> ComparedFigure:
    """A measure of groups of runs: geometric means, and intervals from what their runs differ by.

    No interval is narrower than what is known of the variation within the runs: a few runs may be
    alike by chance.
    """
    paired, confidence = sides.paired, sides.confidence
    logs = [[log(each.value) for each in group if each.value] for group in groups]
    complete = [len(own) == len(group) for own, group in zip(logs, groups, strict=True)]
    within = [sum(each.error**2 for each in group) / len(group) ** 2 for group in groups]
    estimates = []
    for group, own, is_complete, least in zip(groups, logs, complete, within, strict=True):
        if len(group) == 1 or not is_complete:
            estimates.append(group[0].estimate if len(group) == 1 else Estimate(None))
            continue
        ends = _interval(Spread.of(own), least, confidence)
        estimates.append(Estimate(exp(sum(own) / len(own)), *ends))
    changes = []
    for own, is_complete, least in zip(logs[1:], complete[1:], within[1:], strict=True):
        if not (is_complete and complete[0]) or (paired and len(own) != len(logs[0])):
            changes.append(Change(None, None, None, ChangeVerdict.UNKNOWN))
            continue
        found = difference(logs[0], own, paired=paired)
        ratio = exp(found.mean)
        if not found.freedom:
            changes.append(Change(ratio, None, None, ChangeVerdict.UNKNOWN))
            continue
        found = found._replace(error=max(found.error, (within[0] + least) ** 0.5))
        low, high = _interval(found, 0.0, confidence)
        verdict, needed = ChangeVerdict.REAL, None
        if abs(ratio - 1) <= SMALLEST_CHANGE:
            verdict = ChangeVerdict.NOISE
        elif low is None or high is None or low <= 1 <= high:
            verdict, many = ChangeVerdict.NOISE, min(len(logs[0]), len(own))
            needed = runs_for(found, many, abs(found.mean), sides, POWER)
        changes.append(Change(ratio, low, high, verdict, needed))
    return ComparedFigure(measure, tuple(estimates), tuple(changes))


def runs_for(
    found: Spread, many: int, wanted: float, sides: Sides, power: float = 0.5
) -> int | None:
    """Runs of each side with which a difference of ``wanted`` (of logarithms) is probably outside
    of its interval, if runs go on to differ as they did; None: more than MOST_NEEDED.

    :param many: runs of each side so far.
    :param power: how probable that is; at 0.5 half of the interval is ``wanted``.
    """
    each = 1 if sides.paired else 2  # degrees of freedom of a further run of each side

    def enough(runs: int) -> bool:
        freedom = found.freedom + each * (runs - many)
        reach = sides.reach(freedom) + student(power, freedom)
        return reach * found.error * sqrt(many / runs) <= wanted

    choice = range(many + 1, MOST_NEEDED + 1)
    at = bisect_left(choice, True, key=enough)
    return choice[at] if at < len(choice) else None


def estimate_of(values: Sequence[float]) -> Estimate:
    """The geometric mean of the figures of several runs of one setting, which are above 0, with the
    interval that follows from what they differ by (Student's t of their logarithms)."""
    found = Spread.of([log(value) for value in values])
    ends = _interval(found, 0.0, CONFIDENCE) if found.freedom else (None, None)
    return Estimate(exp(found.mean), *ends)


def _interval(
    found: Spread, within: float, confidence: float
) -> tuple[float, float] | tuple[None, None]:
    """The ends of the confidence interval, no longer as logarithms; None where so few runs that
    differ so much say nothing.

    :param within: the least variance of the mean.
    """
    reach = student((1 + confidence) / 2, found.freedom) * max(found.error, within**0.5)
    if reach > log(_WIDEST):
        return None, None
    return exp(found.mean - reach), exp(found.mean + reach)
