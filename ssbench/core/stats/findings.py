"""Findings that qualify a run's figures: steady, on rate, without hidden stalls?

- ``steadiness``: of the seconds that count, without warm-ups and cool-down.
- ``arrivals``: whether an open loop kept its rate. It missed it if response times grew as long as
  the load lasted (``ResponseTrend``), if operations were never started, or if many were not
  complete at its end and then took longer than all before.
- ``bottleneck``: whose limit the throughput was.
- ``omission``: while a store stalls, the users of a closed loop wait and send nothing, so the
  requests that independent clients would have sent are missing from all figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from ssbench.core.model import SECOND_NS, Stage
from ssbench.core.records import MarkRecord
from ssbench.core.stats.headroom import Bottleneck, Headroom, HeadroomVerdict
from ssbench.core.stats.histogram import Buckets
from ssbench.core.stats.series import Second
from ssbench.core.stats.steady import Incomplete, Stalled, SteadinessFinding, TooShort, check
from ssbench.core.stats.tally import Basis
from ssbench.core.stats.windows import joined

if TYPE_CHECKING:
    from ssbench.core.stats.run_records import RunRecords
    from ssbench.core.stats.run_stats import RunStats

#: Longest silence after the last completion, and longest run, in seconds: a damaged file that says
#: more must cost neither time nor memory.
LONGEST_SILENCE = 3_600
LONGEST_RUN = 1_000_000

#: Share of the operations that fell due: a burst at the very end may leave fewer.
_LATE_SHARE = 0.001

_LONG_NS = 100_000_000  #: a shorter operation is no stall
_TIMES = 10  #: times the 99th percentile: such operations are in no usual percentile


class StageFinding(NamedTuple):
    """A reason not to quote an average of a run, or of one of its stages."""

    stage: int | None  #: its index; None if there is only one
    finding: SteadinessFinding


def counted(stats: RunStats, stage: int | None = None) -> list[range]:
    """The seconds that count, in ranges whose first and last second are partial.

    They include seconds at the end in which nothing completed.

    :param stage: only of this stage of the load; None: all.
    """
    known, spans = stats.series.span, stats.run.spans
    if not spans or not known:
        return [known[:LONGEST_RUN]] if known else []
    last = min(known.stop + LONGEST_SILENCE, known.start + LONGEST_RUN)
    if stats.run.end_ns is None:
        last = min(last, known.stop)
    found = []
    for low_ns, high_ns in joined(spans if stage is None else spans[stage : stage + 1]):
        low, high = low_ns // SECOND_NS, -(-high_ns // SECOND_NS)
        found.append(range(max(low, known.start), min(high, last)))
    return [each for each in found if each]


def whole(seconds: Sequence[range]) -> list[int]:
    """These seconds without the partial ones."""
    return [second for each in seconds for second in each[1:-1]]


def whole_seconds(stats: RunStats, operation: int | None = None) -> list[Second]:
    """The whole seconds that count, as if there were no gaps between stages.

    :param operation: only of this operation; None: all.
    """
    known = {each.second: each for each in stats.series.seconds(operation)}
    in_flight = known[max(known)].in_flight if known else 0
    nothing = Buckets.merged([])
    return [
        known.get(at) or Second(at, 0, 0, 0, in_flight, nothing, nothing)
        for at in whole(counted(stats))
    ]


def steadiness(stats: RunStats) -> list[StageFinding]:
    """Reasons not to quote an average; none if the run was steady, or did nothing.

    Where results are missing, nothing is known of the seconds that they are missing from.

    Each stage is judged on its own, because stages are meant to differ. Of a ramp beside other
    stages only stalls are reasons.
    """
    if stats.run.damage:
        return [StageFinding(None, Incomplete(tuple(stats.run.damage)))]
    return list(_noted(stats)) if stats.total().count else []


def steady(stats: RunStats) -> bool | None:
    """Whether an average of the run can be quoted; None: unknown, as it is too short to tell,
    results are missing, or nothing succeeded."""
    if not stats.total().count:
        return None
    kinds = [isinstance(noted.finding, TooShort | Incomplete) for noted in steadiness(stats)]
    return None if kinds and all(kinds) else not kinds


def _noted(stats: RunStats) -> Iterator[StageFinding]:
    several = stats.stage_count > 1
    load = stats.run.scenario.load
    ramps = [stage.ends != (None, None) for stage in load] if several else []
    for stage in range(stats.stage_count) if several else (None,):
        changes = stage is not None and stage < len(ramps) and ramps[stage] and not all(ramps)
        usual_ns = stats.total(stage=stage).last_byte.histogram.quantile(0.5)
        window_s = max(1, ceil((usual_ns or 0) / SECOND_NS))
        # At most one range, as all that is left out of a stage is at its ends.
        for seconds in counted(stats, stage):
            counts, moved = stats.series.flows(seconds)
            found = check(
                counts,
                () if stats.no_bytes else moved,
                zero_s=seconds.start + 1,
                window_s=window_s,
            )
            # A ramp is to change, beside stages that are not; but not to stall.
            yield from (
                StageFinding(stage, finding)
                for finding in found
                if not changes or isinstance(finding, Stalled)
            )


class Arrivals(Struct, frozen=True):
    """The rate of an open loop: wanted, and achieved.

    Started and completed are those of the operations that fell due, by the load's end.
    """

    target_per_s: float  #: operations/s that were to fall due
    due_per_s: float  #: operations/s that fell due: arrivals at random are a little more or less
    started_per_s: float
    due: int  #: fell due until the load's end
    completed: int  #: of these, including failed ones
    late: int  #: fell due and were never started
    mean_lag_s: float  #: from due to start, on average
    missed_stages: tuple[int, ...]  #: stages whose response times grew, or that were cut short

    @property
    def missed(self) -> bool:
        """Whether the load missed its rate."""
        return bool(self.missed_stages) or self.late > _LATE_SHARE * self.due


def arrivals(stats: RunStats) -> Arrivals | None:
    """The arrivals of an open loop.

    None for a closed loop, without operations, and if the stat file lacks its footer, which says
    what was not started.
    """
    run, total, found = stats.run, stats.total(), stats.in_time
    target_per_s = target_rate(run)
    due = found.due + run.late + run.lost
    if target_per_s is None or not due or run.footer is None:
        return None
    seconds = total.throughput.seconds
    per_s = 1 / seconds if seconds and stats.rate_basis is Basis.WINDOW else target_per_s / due
    return Arrivals(
        target_per_s,
        due * per_s,
        found.started * per_s,
        due,
        found.completed,
        run.late,
        (stats.lateness.mean or 0) / 1e9,
        tuple(filter(stats.missed_rate, range(stats.stage_count))),
    )


def target_rate(run: RunRecords) -> float | None:
    """Target arrival rate in operations/s, on average over the load; None in a closed loop."""
    stages, end_ns = run.stages, run.end_ns
    if not stages or not all(mark.rate for mark in stages):
        return None
    if len(stages) == 1 or end_ns is None:
        return stages[-1].rate
    lengths = run.stage_lengths_ns
    due = sum(
        _mean_rate(mark, run.scenario.load) * length
        for mark, length in zip(stages, lengths, strict=True)
    )
    return due / sum(lengths) if sum(lengths) else stages[-1].rate


def _mean_rate(mark: MarkRecord, load: Sequence[Stage]) -> float:
    """Of a stage, which may be a ramp."""
    stage = load[mark.stage] if mark.stage < len(load) else Stage(0.0)
    if not stage.rate or stage.rate_at(0) == stage.rate_at(stage.seconds):
        return mark.rate or 0.0
    return stage.rate_at(stage.seconds / 2) or 0.0


def bottleneck(stats: RunStats, verdict: HeadroomVerdict) -> Bottleneck:
    """Whose limit the throughput was, as far as the metrics of the hosts tell.

    :param verdict: that of ``stats``, which takes a while to compute.
    """
    if stats.run.no_store:
        return Bottleneck.NO_STORE
    if verdict.headroom is not Headroom.ENOUGH:
        return {
            Headroom.NONE: Bottleneck.GENERATOR,
            Headroom.AT_TIMES: Bottleneck.GENERATOR_AT_TIMES,
            Headroom.UNKNOWN: Bottleneck.UNKNOWN,
        }[verdict.headroom]
    if any(host.taken for host in verdict.hosts):
        return Bottleneck.OTHERS
    found = arrivals(stats)
    if found and found.missed:
        return Bottleneck.BEHIND
    return Bottleneck.RATE if stats.total().has_due_times else Bottleneck.CLOSED_LOOP


class Omission(Struct, frozen=True):
    """Signs that the store stalled during a closed loop."""

    slowest_ns: float
    p99_ns: float
    hidden: bool  #: the slowest operations are far beyond the 99th percentile


def omission(stats: RunStats) -> Omission | None:
    """Signs of coordinated omission; None if there are none, and in an open loop."""
    if any(mark.rate for mark in stats.run.stages):
        return None
    p99_ns, slowest_ns = stats.total().last_byte.histogram.quantiles([99, 100])
    if p99_ns is None or slowest_ns is None:
        return None
    hidden = slowest_ns >= max(_LONG_NS, _TIMES * p99_ns)
    if not hidden and not any(isinstance(noted.finding, Stalled) for noted in steadiness(stats)):
        return None
    return Omission(slowest_ns, p99_ns, hidden)
