"""Two or more runs side by side: figures, how sure they are, and whether they truly differ.

What it can't know: what else was different when the second run was made. An interval speaks of
the chance within each run; only repeated runs speak of the rest.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from ssbench.core.records import RunHeader
from ssbench.core.stats.bootstrap import Latencies, Resampled, interval
from ssbench.core.stats.histogram import Buckets
from ssbench.core.stats.series import Second
from ssbench.core.stats.tally import Throughput

#: Of ten figures of two like runs a 95 % interval each would call one different in a third of all
#: cases; at 99 % it is one case in ten or fewer.
CONFIDENCE = 0.99
RESAMPLES = 2000
PERCENTS = (50.0, 90.0, 95.0, 99.0, 99.9)
#: A smaller change than this is never called more than noise: each of two percentiles may be off
#: by 0.1 % from its bucket's width alone.
SMALLEST_CHANGE = 0.002
ENOUGH_SECONDS = 10
ENOUGH_BEYOND = 10  #: values on either side of a percentile; with fewer it hangs on single ones

_DEEPEST = 8  # nested further, parts of a scenario are compared as a whole


class ChangeVerdict(Enum):
    """What a difference is."""

    NOISE = "no more than noise"
    REAL = "more than noise"
    UNKNOWN = "too little data to tell"
    NOT_JUDGED = "not judged"  #: a run that wasn't what its scenario says


class Measure(NamedTuple):
    """What is compared: a latency (``service``, ``response``) has a percent, a rate has none."""

    name: str  #: "rate" (successes a second), "throughput" (bytes a second), "service", "response"
    percent: float | None = None


@dataclass(frozen=True, slots=True)
class Estimate:
    """A run's own figure (per second, or nanoseconds), and the interval that it lies in."""

    value: float | None  #: None where the run has no such figure; so are low and high
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """A run's figure over the first run's; above 1 it is larger."""

    ratio: float | None  #: None where either is missing, or the first is 0
    low: float | None
    high: float | None
    verdict: ChangeVerdict


@dataclass(frozen=True, slots=True)
class Row:
    """One measure of all runs."""

    measure: Measure
    estimates: tuple[Estimate, ...]  #: of each run
    changes: tuple[Change, ...]  #: of each run but the first, against the first


@dataclass(frozen=True, slots=True)
class SettingDifference:
    """A setting in which runs differ, so that their figures may."""

    key: str  #: "sizes[0].size_max"
    values: tuple[Any, ...]  #: of each run; None where it has no such key
    of_scenario: bool


def compare(
    sides: Sequence[Sequence[Second]],
    rng: random.Random,
    *,
    throughputs: Sequence[Throughput] | None = None,
    percents: Sequence[float] = PERCENTS,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
) -> list[Row]:
    """The figures of runs side by side, each against the first.

    Seconds have what completed in them, rates what their definition counts. So a rate is that of
    the run's report, and its interval is as wide, in proportion, as that of the seconds' mean.

    :param sides: the whole seconds of each run that count, in order.
    :param rng: what resamples are drawn with: the same seed gives the same intervals.
    :param throughputs: of each run, what its rates are; None: the means of its seconds are.
    """
    of_runs: Sequence[Throughput | None] = throughputs or [None] * len(sides)
    runs = [
        _Side(side, throughput, rng, resamples, percents) if side else None
        for side, throughput in zip(sides, of_runs, strict=True)
    ]
    rows = []
    for measure in _measures(sides, percents):
        figures = [run.figure(measure) if run else _NOTHING for run in runs]
        rows.append(
            Row(
                measure,
                tuple(figure.estimate(confidence) for figure in figures),
                tuple(_change(figures[0], each, confidence) for each in figures[1:]),
            )
        )
    return rows


def unlike(headers: Sequence[RunHeader]) -> list[SettingDifference]:
    """In what the runs' settings differ: scenarios first, then driver, versions and seeds."""
    scenarios = [dict(_leaves(header.scenario)) for header in headers]
    for scenario in scenarios:
        scenario.pop("seed", None)  # what it became is in the header
    others = [
        {
            "driver": header.driver,
            "ssbench_version": header.ssbench_version,
            **{f"versions.{name}": version for name, version in header.versions.items()},
            "seed": header.seed,
        }
        for header in headers
    ]
    return [*_differing(scenarios, of_scenario=True), *_differing(others, of_scenario=False)]


# How it is reckoned


@dataclass(frozen=True, slots=True)
class _Figure:
    """A measure of one run: its value, that of each resample, and whether they suffice."""

    value: float | None
    draws: Sequence[float | None]
    blocks: float
    wider: float  #: how many times further off than its draws a figure is
    enough: bool

    def estimate(self, confidence: float) -> Estimate:
        known = [draw for draw in self.draws if draw is not None]
        if self.value is None or not known:
            return Estimate(self.value)
        return Estimate(self.value, *interval(known, confidence, self.blocks, self.wider))


_NOTHING = _Figure(None, (), 0, 1.0, enough=False)  #: of a run without a whole second


class _Side:
    """A run, and its seconds drawn anew."""

    def __init__(
        self,
        seconds: Sequence[Second],
        throughput: Throughput | None,
        rng: random.Random,
        resamples: int,
        percents: Sequence[float],
    ) -> None:
        self._seconds = seconds
        self._throughput = throughput
        self._percents = percents
        self._resampled = Resampled([second.count for second in seconds], rng, resamples)
        self._latencies: dict[str, Latencies] = {}

    def figure(self, measure: Measure) -> _Figure:
        if measure.percent is not None:
            return self._percentile(measure.name, measure.percent)
        if measure.name == "rate":
            values = [second.count for second in self._seconds]
            reported = self._throughput and self._throughput.rate_per_s
        else:
            values = [second.bytes_moved for second in self._seconds]
            reported = self._throughput and self._throughput.bytes_per_s
        mean = sum(values) / len(values)
        value = reported if self._throughput else mean
        if value is None or (value and not mean):
            return self._figure(value, (), enough=False)
        scale = value / mean if mean else 1.0
        return self._figure(value, [draw * scale for draw in self._resampled.means(values)])

    def _percentile(self, name: str, percent: float) -> _Figure:
        latencies = self._of(name)
        whole = latencies.whole
        (value,) = whole.quantiles((percent,))
        beyond = min(percent, 100 - percent) / 100 * whole.count
        return self._figure(value, latencies.quantiles(percent), enough=beyond >= ENOUGH_BEYOND)

    def _of(self, name: str) -> Latencies:
        if name not in self._latencies:
            seconds = [_latency(second, name) for second in self._seconds]
            self._latencies[name] = Latencies(self._resampled, seconds, self._percents)
        return self._latencies[name]

    def _figure(
        self, value: float | None, draws: Sequence[float | None], *, enough: bool = True
    ) -> _Figure:
        enough = enough and len(self._seconds) >= ENOUGH_SECONDS
        drawn = self._resampled
        return _Figure(value, draws, drawn.blocks, drawn.widening, enough)


def _measures(sides: Sequence[Sequence[Second]], percents: Sequence[float]) -> Iterator[Measure]:
    yield Measure("rate")
    yield Measure("throughput")
    for name in ("service", "response"):
        if any(_latency(second, name).count for side in sides for second in side):
            for percent in percents:
                yield Measure(name, percent)


def _latency(second: Second, name: str) -> Buckets:
    return second.service if name == "service" else second.response


def _change(first: _Figure, other: _Figure, confidence: float) -> Change:
    ratios = [
        mine / base
        for base, mine in zip(first.draws, other.draws, strict=False)
        if base and mine is not None
    ]
    ratio = other.value / first.value if first.value and other.value is not None else None
    if ratio is None or not ratios:
        return Change(ratio, None, None, ChangeVerdict.UNKNOWN)
    # Each run has a degree of freedom less than blocks.
    blocks, wider = first.blocks + other.blocks - 1, max(first.wider, other.wider)
    low, high = interval(ratios, confidence, blocks, wider)
    verdict = ChangeVerdict.REAL
    if not (first.enough and other.enough):
        verdict = ChangeVerdict.UNKNOWN
    elif low <= 1 <= high or abs(ratio - 1) <= SMALLEST_CHANGE:
        verdict = ChangeVerdict.NOISE
    return Change(ratio, low, high, verdict)


def _leaves(value: Any, place: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """(place, value) of all that is nested; a list of plain values stays one."""
    if isinstance(value, Mapping) and value and depth < _DEEPEST:
        for key, inner in value.items():
            yield from _leaves(inner, f"{place}.{key}" if place else str(key), depth + 1)
    elif isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{place}[{index}]", depth + 1)
    else:
        yield place, value


def _differing(
    settings: Sequence[Mapping[str, Any]], *, of_scenario: bool
) -> Iterator[SettingDifference]:
    for key in dict.fromkeys(key for each in settings for key in each):
        values = tuple(each.get(key) for each in settings)
        if any(value != values[0] for value in values):
            yield SettingDifference(key, values, of_scenario)
