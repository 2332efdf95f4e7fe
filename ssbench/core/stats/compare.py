"""Runs side by side: their settings, and the figures of each operation, judged against the first.

``intervals`` has the statistics of the figures.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from ssbench.core.errors import UsageError
from ssbench.core.operations import CRUD, operation_named
from ssbench.core.records import RunHeader
from ssbench.core.stats.findings import counted, whole, whole_seconds
from ssbench.core.stats.headroom import HostLoad
from ssbench.core.stats.intervals import (
    ENOUGH_SECONDS,
    PERCENTS,
    Change,
    ChangeVerdict,
    ComparedFigure,
    Measure,
    Sides,
    compare,
)
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.thresholds import ChangeRule, parse_figure, percent_of

#: Blocks of seconds that are drawn for all figures of a comparison, and more for each result: it
#: takes time in proportion to the files, whatever they say of operations and seconds.
_MOST_DRAWN, _DRAWN_FOR_RESULT = 60_000_000, 100

_NO_HEADER = RunHeader("", 0.0, "", {}, {}, {}, 0, "")
_DEEPEST = 8  # nested further, parts of a scenario are compared as a whole


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


class JudgedChange(Struct, frozen=True):
    """Whether a change fails by a rule."""

    rule: ChangeRule
    side: str  #: the run, or side, that was compared with the first
    passed: bool
    text: str  #: the change


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

    def judge(self, rule: ChangeRule) -> Iterator[JudgedChange]:
        """Each further run, or side, against the first: a change that meets the rule fails if it is
        more than noise, and one that can't be judged fails, too."""
        row = self.row(rule.metric, rule.operation)
        for place, name in enumerate(self.names[1:]):
            change = row.changes[place] if row else None
            yield _judged_change(rule, change, name)

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
    chosen = _chosen(runs, operations) if operations else _with_results(runs)
    results = sum(run.stats.total().operations for run in runs)
    figures = len(chosen) * len(runs) * (2 + 2 * len(percents))
    most_drawn = (_MOST_DRAWN + _DRAWN_FOR_RESULT * results) // figures
    sections = []
    for operation in chosen:
        numbers = [run.number_of(operation) for run in runs]
        seconds = [
            [] if run.short else whole_seconds(run.stats, number)
            for run, number in zip(runs, numbers, strict=True)
        ]
        # A new one for each section, so that it does not depend on the other sections.
        rng = random.Random(seed)  # nosec B311 # for resamples, not for secrets
        tallies = [run.stats.total(each) for run, each in zip(runs, numbers, strict=True)]
        rows = compare(
            seconds, rng, tallies=tallies, percents=percents, most_drawn=most_drawn, sides=sides
        )
        if no_bytes:
            rows = [row for row in rows if row.measure.name != "throughput"]
        sections.append(ComparedOperation(operation, rows))
    if sides is not None:  # each run has another seed
        headers = [structs.replace(headers[side[0]], seed=0) for side in sides.places]
    found = Comparison(runs, differing_settings(headers), sections, seed, sides)
    for at, part in enumerate(sections):
        done = [
            sum(run.stats.total(run.number_of(part.operation)).operations for run in group)
            for group in found.groups
        ]
        judged = [_judged(row, found.groups, done) for row in part.rows]
        sections[at] = ComparedOperation(part.operation, judged)
    return found


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


def _judged_change(rule: ChangeRule, change: Change | None, name: str) -> JudgedChange:
    if change is None or change.ratio is None:
        missing = change is not None and change.verdict is ChangeVerdict.MISSING
        text = ChangeVerdict.MISSING.value if missing else "not measured"
        return JudgedChange(rule, name, False, text)
    text = f"{100 * (change.ratio - 1):+.1f} %"
    if change.low is not None and change.high is not None:
        low, high = (f"{100 * (each - 1):+.1f}" for each in (change.low, change.high))
        text += f" ({low} to {high} %)"
    passes = change.verdict is ChangeVerdict.NOISE
    if change.verdict is ChangeVerdict.REAL:
        passes = not rule.meets(change.ratio)
    return JudgedChange(rule, name, passes, f"{text}: {change.verdict.value}")


def _judged(
    row: ComparedFigure, groups: Sequence[Sequence[ComparedRun]], done: Sequence[int]
) -> ComparedFigure:
    """The row without verdicts on runs that were short of users, lack results, or have none.

    :param done: operations of each group.
    """
    changes = []
    for group, own, change in zip(groups[1:], done[1:], row.changes, strict=True):
        verdict, both = change.verdict, (*groups[0], *group)
        if any(each.short_of_users for each in both):
            verdict = ChangeVerdict.NOT_JUDGED
        elif not all(each.stats.run.complete for each in both):
            verdict = ChangeVerdict.UNKNOWN
        elif bool(own) != bool(done[0]):
            change, verdict = Change(None, None, None, change.verdict), ChangeVerdict.MISSING
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
