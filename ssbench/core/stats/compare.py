"""Compares runs: settings, figures with their confidence intervals, and significant differences.

An interval of two runs covers the random variation within each. Conditions that differed between
the runs are not in it: only repeated runs show those. So runs can be compared in groups (sides):
then an interval is from the differences between the runs of a side.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from math import exp, log, sqrt
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct, structs

from ssbench.core.errors import UsageError
from ssbench.core.operations import CRUD, operation_named
from ssbench.core.records import RunHeader
from ssbench.core.stats.bootstrap import (
    Floats,
    Percentile,
    Resampled,
    interval,
    student,
    variance_factor,
)
from ssbench.core.stats.findings import counted, whole, whole_seconds
from ssbench.core.stats.headroom import HostLoad
from ssbench.core.stats.histogram import Buckets
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.series import Second
from ssbench.core.stats.tally import Tally
from ssbench.core.stats.thresholds import ENOUGH_BEYOND, parse_figure, percent_of

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

_NO_HEADER = RunHeader("", 0.0, "", {}, {}, {}, 0, "")
#: Measure -> its attribute of Second, and that of Tally.
_ATTRIBUTES = {
    "rate": ("count", "rate_per_s"),
    "throughput": ("bytes_moved", "bytes_per_s"),
    "service": ("service", "last_byte"),
    "response": ("response", "response"),
}
_DEEPEST = 8  # nested further, parts of a scenario are compared as a whole


class ChangeVerdict(Enum):
    """What a difference is."""

    NOISE = "no more than noise"
    REAL = "more than noise"
    UNKNOWN = "too little data to tell"
    NOT_JUDGED = "not judged"  #: a run that wasn't what its scenario says


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


class SettingDifference(Struct, frozen=True):
    """A setting in which runs differ."""

    key: str  #: "sizes[0].size_max"
    values: tuple[Any, ...]  #: of each run; None if it has no such key
    of_scenario: bool


class ComparedRun(Struct, frozen=True):
    """One of the runs."""

    name: str  #: path of its stat file
    stats: RunStats
    seconds: int  #: whole seconds that count
    hosts: Sequence[HostLoad] = ()  #: of master and workers

    @property
    def short(self) -> bool:
        """Whether it is too short for intervals."""
        return self.seconds < ENOUGH_SECONDS

    @property
    def short_of_users(self) -> bool:
        """Whether fewer users ran than its scenario asks for: it is not judged."""
        return self.stats.run.short_of_users

    def number_of(self, operation: str | None) -> int | None:
        """The number of an operation in its file; -1, which has no results, if it has none of
        that name. None stands for all operations."""
        if operation is None:
            return None
        numbers = (*self.stats.run.operations, *self.stats.operations)
        return next((n for n in numbers if self.stats.operation_name(n) == operation), -1)

    @property
    def disturbed(self) -> bool:
        """Whether other processes took the cores of a host, which may explain a difference."""
        return any(host.taken for host in self.hosts)


class ComparedOperation(Struct, frozen=True):
    """The figures of one operation, None for all together.

    Runs have it by its name: two drivers may give the same operation different numbers.
    """

    operation: str | None
    rows: Sequence[ComparedFigure]


class Comparison(Struct, frozen=True):
    """Runs side by side, each against the first."""

    runs: Sequence[ComparedRun]
    differing_settings: Sequence[SettingDifference]
    sections: Sequence[ComparedOperation]
    seed: int  #: of the resamples
    sides: Sides | None = None  #: None: each run is one

    @property
    def groups(self) -> list[list[ComparedRun]]:
        """The runs of each side."""
        if self.sides is None:
            return [[run] for run in self.runs]
        return [[self.runs[at] for at in side] for side in self.sides.places]

    @property
    def names(self) -> list[str]:
        """Of each side: ``run 2``, ``B``."""
        if self.sides is None:
            return [f"run {number}" for number in range(1, len(self.runs) + 1)]
        return [Sides.letter(place) for place in range(len(self.sides.counts))]

    @property
    def run_names(self) -> list[str]:
        """Of each run: ``run 2``, ``B1``."""
        if self.sides is None:
            return self.names
        return [
            f"{name}{number}"
            for name, count in zip(self.names, self.sides.counts, strict=True)
            for number in range(1, count + 1)
        ]

    def __repr__(self) -> str:
        names = ", ".join(run.name for run in self.runs)
        return f"<Comparison of {names}: {len(self.sections)} sections>"

    def change(self, name: str, run: int = 1) -> Change | None:
        """The change of a figure against the first run, or side, over all operations or one.

        :param name: as in rules: ``rate``, ``throughput``, ``p99(READ)``, ``response_p50``.
        :param run: the run, or side, that changed: 1 is the second.
        :returns: None if it is not compared.
        :raises UsageError: there is no such figure.
        """
        figure = parse_figure(name, "figure")
        row = self.row(figure.metric, figure.operation.name if figure.operation else None)
        return row.changes[run - 1] if row else None

    def row(self, metric: str, operation: str | None) -> ComparedFigure | None:
        """The figure of a rule's metric and operation; None if it is not compared."""
        rows = next((s.rows for s in self.sections if s.operation == operation), ())
        kind, _, _percentile = metric.rpartition("_")
        percent = percent_of(metric)
        names = [kind] if kind else ["response", "service"]
        if percent is None:
            names = [metric]
        by_measure = {row.measure: row for row in rows}
        found = (by_measure.get(Measure(name, percent)) for name in names)
        return next((row for row in found if row and row.estimates[0].value is not None), None)

    @property
    def no_bytes(self) -> str:
        """Why no throughput is compared; "" where it is."""
        return next(filter(None, (run.stats.no_bytes for run in self.runs)), "")


def comparison(
    named: Sequence[tuple[str, RunStats]],
    *,
    seed: int,
    operations: Sequence[str | None] = (),
    percents: Sequence[float] = PERCENTS,
    sides: Sides | None = None,
) -> Comparison:
    """Compare runs: rates as in their reports, latencies of the whole seconds that count.

    The figures of a short run cover all of it, and have no intervals.

    :param named: at least two runs, each with its name.
    :param operations: names of operations in any case, None for all together: a section each. If
        empty, all together and each operation that a run has results of.
    :param sides: compares these groups of runs; None: each run with the first.
    :raises UsageError: an operation that no run knows.
    """
    runs = [
        ComparedRun(name, stats, len(whole(counted(stats))), stats.verdict().hosts)
        for name, stats in named
    ]
    headers = [run.stats.run.header or _NO_HEADER for run in runs]
    no_bytes = any(run.stats.no_bytes for run in runs)
    sections = []
    for operation in _chosen(runs, operations) if operations else _with_results(runs):
        numbers = [run.number_of(operation) for run in runs]
        seconds = [
            [] if run.short else whole_seconds(run.stats, number)
            for run, number in zip(runs, numbers, strict=True)
        ]
        # A new one for each section, so that it does not depend on the other sections.
        rng = random.Random(seed)  # nosec B311 # for resamples, not for secrets
        tallies = [run.stats.total(each) for run, each in zip(runs, numbers, strict=True)]
        rows = compare(seconds, rng, tallies=tallies, percents=percents, sides=sides)
        if no_bytes:
            rows = [row for row in rows if row.measure.name != "throughput"]
        sections.append(ComparedOperation(operation, rows))
    if sides is not None:  # each run has another seed
        headers = [structs.replace(headers[side[0]], seed=0) for side in sides.places]
    found = Comparison(runs, differing_settings(headers), sections, seed, sides)
    for at, part in enumerate(sections):
        judged = [_judged(row, found.groups) for row in part.rows]
        sections[at] = ComparedOperation(part.operation, judged)
    return found


def compare(
    seconds: Sequence[Sequence[Second]],
    rng: random.Random,
    *,
    tallies: Sequence[Tally] = (),
    percents: Sequence[float] = PERCENTS,
    resamples: int = RESAMPLES,
    sides: Sides | None = None,
) -> list[ComparedFigure]:
    """The figures of the runs, each compared with the first.

    A second counts what completed in it, which is not what the rate of a report counts. So the rate
    is that of the report, and its interval has the relative width of that of the seconds' mean.

    :param seconds: the whole seconds of each run that count, in order. If there are none, the
        figures are those of its tally, without intervals.
    :param rng: draws the resamples: the same seed gives the same intervals.
    :param tallies: the sums of each run; without them, rates are means over the seconds.
    :param sides: as of ``comparison``.
    """
    of_runs: Sequence[Tally | None] = tallies or [None] * len(seconds)
    runs = [
        _ResampledRun(own, tally, rng, resamples)
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


def differing_settings(headers: Sequence[RunHeader]) -> list[SettingDifference]:
    """The settings that differ: scenarios first, then driver, versions and seeds."""
    scenarios = [dict(_leaves(header.scenario)) for header in headers]
    for scenario in scenarios:
        scenario.pop("seed", None)  # the header has the seed that was used
    others = [
        {
            "driver": header.driver,
            **{f"store.{key}": value for key, value in header.store.items()},
            "ssbench_version": header.ssbench_version,
            **{f"versions.{name}": version for name, version in header.versions.items()},
            "seed": header.seed,
        }
        for header in headers
    ]
    return [*_differing(scenarios, of_scenario=True), *_differing(others, of_scenario=False)]


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
    ) -> None:
        self._seconds = seconds
        self._tally = tally
        self._seed = rng.getrandbits(64)
        self._resamples = resamples
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
        found = Percentile(seconds, whole, measure.percent, self._seed, self._resamples)
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
        drawn = Resampled(values, self._seed, self._resamples)
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
        elif low <= 1 <= high:
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


def _interval(found: Spread, within: float, confidence: float) -> tuple[float, float]:
    """The ends of the confidence interval, no longer as logarithms.

    :param within: the least variance of the mean.
    """
    reach = student((1 + confidence) / 2, found.freedom) * max(found.error, within**0.5)
    return _exp(found.mean - reach), _exp(found.mean + reach)


def _exp(value: float) -> float:
    return exp(max(-700.0, min(value, 700.0)))


def _judged(row: ComparedFigure, groups: Sequence[Sequence[ComparedRun]]) -> ComparedFigure:
    """The row without verdicts on runs that were short of users or lack results."""
    changes = []
    for group, change in zip(groups[1:], row.changes, strict=True):
        verdict, both = change.verdict, (*groups[0], *group)
        if any(each.short_of_users for each in both):
            verdict = ChangeVerdict.NOT_JUDGED
        elif not all(each.stats.run.complete for each in both):
            verdict = ChangeVerdict.UNKNOWN
        needed = change.runs_needed if verdict is change.verdict else None
        changes.append(structs.replace(change, verdict=verdict, runs_needed=needed))
    return structs.replace(row, changes=tuple(changes))


def _with_results(runs: Sequence[ComparedRun]) -> list[str | None]:
    found = dict.fromkeys(
        run.stats.operation_name(number)
        for run in runs
        for number in sorted(run.stats.series.operations)
    )
    usual = [row.name for row in CRUD]
    return [None, *(n for n in usual if n in found), *(n for n in found if n not in usual)]


def _chosen(runs: Sequence[ComparedRun], names: Sequence[str | None]) -> list[str | None]:
    """These operations, each once, by the names that the runs' files have for them.

    :raises UsageError: one that no run knows.
    """
    found: dict[str | None, None] = {}
    for name in names:
        rows = [name and operation_named(name, run.stats.run.operations) for run in runs]
        row = next((row for row in rows if row), None)
        if name is not None and not row:
            known = ", ".join(filter(None, _with_results(runs)))
            raise UsageError(f"operation {name!r}: none of the runs has it; give one of {known}")
        found[row.name if row else None] = None
    return [*found]


def _leaves(value: Any, place: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """(place, value) of each nested value; a list of plain values is one value."""
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
