"""Whole runs side by side: what they are, in what they were set up differently, their figures."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ssbench.core.operations import CRUD
from ssbench.core.records import RunHeader
from ssbench.core.stats.compare import (
    ENOUGH_SECONDS,
    PERCENTS,
    Change,
    ChangeVerdict,
    Estimate,
    Measure,
    Row,
    SettingDifference,
    compare,
    unlike,
)
from ssbench.core.stats.counted_seconds import counted, whole, whole_seconds
from ssbench.core.stats.headroom import HostLoad
from ssbench.core.stats.histogram import Histogram
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.tally import Tally

_NO_HEADER = RunHeader("", 0.0, "", {}, {}, {}, 0, "")


@dataclass(frozen=True, slots=True)
class Run:
    """One of the runs."""

    name: str  #: what the user calls it by: a path
    stats: RunStats
    seconds: int  #: whole ones that count
    hosts: Sequence[HostLoad] = ()  #: what kept the machines of master and workers busy

    @property
    def short(self) -> bool:
        """Too short for anything to be said of chance."""
        return self.seconds < ENOUGH_SECONDS

    @property
    def short_of_users(self) -> bool:
        """It had fewer users than its scenario asks for: nothing is concluded from it."""
        return self.stats.run.short_of_users

    @property
    def disturbed(self) -> bool:
        """Other work took the cores of a host: a difference may be its doing."""
        return any(host.taken for host in self.hosts)


@dataclass(frozen=True, slots=True)
class Section:
    """The figures of one operation type, None for all together."""

    operation: int | None
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Runs side by side, each against the first."""

    runs: Sequence[Run]
    unlike: Sequence[SettingDifference]
    sections: Sequence[Section]
    seed: int  #: what resamples were drawn with

    @property
    def legacy(self) -> bool:
        """Whether a run is ssbench 0.3.9's, which doesn't store the size of what was read."""
        return any(run.stats.run.legacy for run in self.runs)

    @property
    def no_store(self) -> bool:
        """Whether a run was made without a store (``--noop``), and moved nothing."""
        return any(run.stats.run.no_store for run in self.runs)


def comparison(
    named: Sequence[tuple[str, RunStats]],
    *,
    seed: int,
    operations: Sequence[int | None] = (),
    percents: Sequence[float] = PERCENTS,
) -> Comparison:
    """Compare them.

    :param named: each run and its name, at least two.
    :param operations: what sections there are; of none given, one for all operations and one for
        each type that a run has results of.
    """
    runs = [
        Run(name, stats, len(whole(counted(stats))), stats.verdict().hosts) for name, stats in named
    ]
    headers = [run.stats.run.header or _NO_HEADER for run in runs]
    no_bytes = any(run.stats.run.legacy or run.stats.run.no_store for run in runs)
    sections = []
    for operation in operations or _with_results(runs):
        # Each anew, so that a section is the same whatever others there are.
        rng = random.Random(seed)  # nosec B311 # for resamples, not for secrets
        rows = _rows(runs, operation, rng, percents)
        if no_bytes:
            rows = [row for row in rows if row.measure.name != "throughput"]
        sections.append(Section(operation, rows))
    return Comparison(runs, unlike(headers), sections, seed)


def _rows(
    runs: Sequence[Run], operation: int | None, rng: random.Random, percents: Sequence[float]
) -> list[Row]:
    """Rates of the reports, latencies of the seconds that count, and intervals by the seconds.

    Of a short run all figures are those of the whole, without intervals.
    """
    sides = [[] if run.short else whole_seconds(run.stats, operation) for run in runs]
    tallies = [run.stats.total(operation) for run in runs]
    throughputs = [tally.throughput for tally in tallies]
    found = compare(sides, rng, throughputs=throughputs, percents=percents)
    by_seconds = {row.measure: row for row in found}
    rows = []
    for measure in _measures(tallies, percents):
        row = by_seconds.get(measure)
        estimates = [
            Estimate(_of_whole(tally, measure))
            if run.short
            else (row.estimates[at] if row else Estimate(None))
            for at, (run, tally) in enumerate(zip(runs, tallies, strict=True))
        ]
        changes = [
            _judged(runs[0], runs[at], row.changes[at - 1])
            if row and not (runs[0].short or runs[at].short)
            else _judged(runs[0], runs[at], _guess(estimates[0], estimates[at]))
            for at in range(1, len(runs))
        ]
        rows.append(Row(measure, tuple(estimates), tuple(changes)))
    return rows


def _measures(tallies: Sequence[Tally], percents: Sequence[float]) -> Iterator[Measure]:
    yield Measure("rate")
    yield Measure("throughput")
    for name in ("service", "response"):
        if any(_latency(tally, name).count for tally in tallies):
            yield from (Measure(name, percent) for percent in percents)


def _of_whole(tally: Tally, measure: Measure) -> float | None:
    if measure.percent is None:
        return tally.rate_per_s if measure.name == "rate" else tally.bytes_per_s
    return _latency(tally, measure.name).quantile(measure.percent)


def _latency(tally: Tally, name: str) -> Histogram:
    return (tally.last_byte if name == "service" else tally.response).histogram


def _judged(first: Run, other: Run, change: Change) -> Change:
    """Without a verdict where one of the two had fewer users than it should have had."""
    short = first.short_of_users or other.short_of_users
    return replace(change, verdict=ChangeVerdict.NOT_JUDGED) if short else change


def _guess(first: Estimate, other: Estimate) -> Change:
    ratio = other.value / first.value if first.value and other.value is not None else None
    return Change(ratio, None, None, ChangeVerdict.UNKNOWN)


def _with_results(runs: Sequence[Run]) -> list[int | None]:
    found = {operation for run in runs for operation in run.stats.series.operations}
    return [None, *(o for o in CRUD if o in found), *sorted(found - set(CRUD))]
