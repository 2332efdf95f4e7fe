"""Which operations count, to which stage of the load they belong, and the windows of the rates.

An operation belongs to the time at which it was due or, in a closed loop, at which it began. All
figures exclude operations in a warm-up or the cool-down.

Rates are over windows, which end with the load. In an open loop an operation counts in the window
in which it completed. In a closed loop it counts in each window by the share of its time there, so
that operations in flight at a window's edges do not distort the rate. (In an open loop that would
count operations that wait in a growing queue.)

Times are nanoseconds from the run phase's start.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from operator import sub
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ssbench.core.model import SECOND_NS
from ssbench.core.records import MarkRecord
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.stats.budget import Budget
from ssbench.core.stats.histogram import MAX_NS
from ssbench.core.stats.results import LEFT_OUT, Ints, PhaseResults, ResultGroup, exact_sum
from ssbench.core.stats.selection import WHOLE, Selection
from ssbench.core.stats.tally import SHARE, SHARE_BITS, Throughput

NEVER_NS = (1 << 63) - 1

#: Of the operations that fell due; fewer may be a long queue of a store that keeps up.
_UNANSWERED_SHARE = 0.1
_LONGER = 1.25  #: times the longest response within the load
_STEPS_OF_EDGE = 10  #: that an edge takes, beside those of each row that crosses it
_MOST_IN_FLIGHT = 1 << 16  #: operations at the last start; in a damaged file it may be all


class Span(NamedTuple):
    """A part of the run, in ns from its start; both are the same if nothing of a stage counts."""

    low_ns: int
    high_ns: int  #: NEVER_NS: the end is unknown

    @property
    def seconds(self) -> float | None:
        """Its length; None: unknown."""
        return None if self.high_ns == NEVER_NS else (self.high_ns - self.low_ns) / SECOND_NS


def joined(parts: Sequence[Span]) -> list[Span]:
    """The same time, with adjacent spans joined and empty ones dropped."""
    found: list[Span] = []
    for part in parts:
        if part.low_ns == part.high_ns:
            continue
        if found and found[-1].high_ns == part.low_ns:
            part = Span(found.pop().low_ns, part.high_ns)
        found.append(part)
    return found


def gaps_ns(parts: Sequence[Span], low_ns: int, high_ns: int) -> int:
    """The time from low to high that lies between the spans."""
    return sum(
        max(0, min(after.low_ns, high_ns) - max(before.high_ns, low_ns))
        for before, after in pairwise(joined(parts))
    )


def planned_end_ns(scenario: Scenario, begin_ns: int) -> int:
    """The planned end of a load that begins then; NEVER_NS if its operations end it."""
    seconds = scenario.run_seconds
    return NEVER_NS if seconds is None else begin_ns + round(seconds * SECOND_NS)


def load_end_ns(scenario: Scenario, marks: Sequence[MarkRecord]) -> int | None:
    """The end of a load: its earliest ``end`` mark, but not later than planned. (One that is
    written ahead is followed by another if the run is stopped before.)

    :param marks: of one run.
    :returns: None without an ``end`` mark.
    """
    marked_ns = min((mark.at_ns for mark in marks if mark.name == "end"), default=None)
    begin_ns = next((mark.at_ns for mark in marks if mark.name == "stage"), None)
    if marked_ns is None or begin_ns is None:
        return marked_ns
    return min(marked_ns, planned_end_ns(scenario, begin_ns))


def counts_from_ns(
    scenario: Scenario, stage: int, begin_ns: int, first_ns: int, chosen: Selection = WHOLE
) -> int:
    """The end of a stage's warm-up: its own, or the run's, which may extend into it; not before
    the part that was chosen.

    :param begin_ns: when the stage began; ``first_ns``: when the first stage began.
    """
    own_ns = begin_ns + round(scenario.warmup_of(stage) * SECOND_NS)
    warmup = scenario.warmup if chosen.warmup_s is None else chosen.warmup_s
    return max(own_ns, first_ns + round(max(warmup, chosen.from_s or 0) * SECOND_NS))


def counts_until_ns(
    scenario: Scenario, end_ns: int | None, first_ns: int = 0, chosen: Selection = WHOLE
) -> int:
    """The start of the cool-down, but not after the part that was chosen; NEVER_NS if neither it
    nor the load's end is known.

    :param first_ns: when the first stage began.
    """
    last_ns = NEVER_NS
    if end_ns is not None and end_ns != NEVER_NS:
        last_ns = end_ns - round(scenario.cooldown * SECOND_NS)
    if chosen.to_s is not None:
        last_ns = min(last_ns, first_ns + round(chosen.to_s * SECOND_NS))
    return last_ns


def spans_of(
    scenario: Scenario,
    begins_ns: Sequence[int],
    end_ns: int | None,
    chosen: Selection = WHOLE,
    pauses_ns: Mapping[int, int] = {},
) -> list[Span]:
    """The part of each stage that counts.

    :param begins_ns: of each stage, at least one.
    :param end_ns: when the load ended; None: unknown.
    :param pauses_ns: when stages ended that a wait follows, by their index.
    """
    last_ns = counts_until_ns(scenario, end_ns, begins_ns[0], chosen)
    found = []
    for stage, (begin_ns, after_ns) in enumerate(pairwise([*begins_ns, last_ns])):
        low_ns = counts_from_ns(scenario, stage, begin_ns, begins_ns[0], chosen)
        after_ns = min(after_ns, pauses_ns.get(stage, NEVER_NS))
        found.append(Span(low_ns, max(low_ns, min(after_ns, last_ns))))
    return found


class _Cuts:
    """The times at which one stage, or an excluded part, ends and the next begins."""

    def __init__(self) -> None:
        #: Ascending; from each on, operations belong to the stage at the same place.
        self.edges: list[int] = []
        self.stages: list[int] = []

    def cut(self, at_ns: int, stage: int) -> None:
        """Everything from then on belongs to this stage; replaces later cuts."""
        while self.edges and self.edges[-1] >= at_ns:
            self.edges.pop()
            self.stages.pop()
        self.edges.append(at_ns)
        self.stages.append(stage)

    def part_of(self, at_ns: int) -> int:
        """The place of the part that contains this time; -1 before the first."""
        return bisect_right(self.edges, at_ns) - 1

    def stage_of(self, part: int) -> int:
        return self.stages[part] if part >= 0 else LEFT_OUT


class Windows:
    """Assigns the run phase's results to stages, and to the windows of their rates.

    :param scenario: of the run. Without marks nothing is excluded.
    :param end_ns: of the mark of the load's end; None: nothing is excluded at the end.
    :param chosen: the part of the load that counts, between its marks.
    """

    def __init__(
        self,
        scenario: Scenario,
        end_ns: int | None = None,
        budget: Budget | None = None,
        chosen: Selection = WHOLE,
    ) -> None:
        self._scenario = scenario
        self._chosen = chosen
        self._budget = budget or Budget()
        #: When the load ends, as far as it is known yet.
        self.load_end_ns = NEVER_NS if end_ns is None else end_ns
        self._marked_ns = end_ns
        self._first_ns: int | None = None
        self._lows_ns: list[int] = []  # of the stages so far, after their warm-ups
        self._paused_ns: int | None = None  # since when workers wait for the next stage
        self._counts = _Cuts()
        self._rates = _Cuts()

    def __repr__(self) -> str:
        return f"<Windows of stages {self._counts.stages} from {self._counts.edges} ns>"

    def mark(self, mark: MarkRecord) -> None:
        """A stage begins, or the load ends."""
        if mark.name == "end":
            self._ends(mark.at_ns)
        if mark.name == "pause" and self._rates.edges:
            self._rates.cut(mark.at_ns, LEFT_OUT)
            self._paused_ns = mark.at_ns
        if mark.name != "stage":
            return
        begin_ns, stage = mark.at_ns, len(self._lows_ns)
        if self._first_ns is None:
            self._first_ns = begin_ns
        low_ns = counts_from_ns(self._scenario, stage, begin_ns, self._first_ns, self._chosen)
        self._lows_ns.append(low_ns)
        # While workers waited nothing began, although the error of a worker's clock may say so.
        middle_ns = begin_ns if self._paused_ns is None else (self._paused_ns + begin_ns) // 2
        self._paused_ns = None
        for cuts in (self._counts, self._rates):
            if low_ns > begin_ns:
                cuts.cut(middle_ns, LEFT_OUT)
                cuts.cut(low_ns, stage)
            else:  # without a warm-up nothing precedes the first stage
                cuts.cut(middle_ns if stage else -NEVER_NS, stage)
        planned_ns = planned_end_ns(self._scenario, self._first_ns)
        # Without a cool-down, operations that began after the mark of the end count as well.
        has_cooldown = self._marked_ns is not None and self._scenario.cooldown
        until_ns = self._until_ns(min(self._marked_ns or 0, planned_ns) if has_cooldown else None)
        if until_ns != NEVER_NS:
            self._counts.cut(until_ns, LEFT_OUT)
        self._ends(planned_ns)

    def _until_ns(self, end_ns: int | None) -> int:
        """The end of what counts, of a load that ends then."""
        return counts_until_ns(self._scenario, end_ns, self._first_ns or 0, self._chosen)

    def _ends(self, at_ns: int) -> None:
        self.load_end_ns = min(self.load_end_ns, at_ns)
        until_ns = self._until_ns(self.load_end_ns)
        if self._rates.edges and until_ns != NEVER_NS:
            self._rates.cut(until_ns, LEFT_OUT)

    def begin_ns(self, stage: int) -> int:
        """From when on operations of a stage count; 0 without its mark."""
        return self._lows_ns[stage] if stage < len(self._lows_ns) else 0

    def ends_ns(self, stage: int) -> tuple[int, int]:
        """When the window of a stage ends, and that of the load; NEVER_NS while it is unknown."""
        cuts = self._rates
        at = cuts.stages.index(stage) + 1 if stage in cuts.stages else len(cuts.edges)
        of_stage = cuts.edges[at] if at < len(cuts.edges) else NEVER_NS
        return of_stage, self._until_ns(self.load_end_ns)

    def covers(self, at_s: float) -> bool:
        """Whether the second that ends then, from the run phase's start, is in the time that was
        chosen."""
        if not self._chosen.in_time or self._first_ns is None:
            return True
        low_s = (self._first_ns / SECOND_NS) + (self._chosen.from_s or 0)
        return low_s < at_s < self._until_ns(None) / SECOND_NS + 1

    def overlap(self, results: PhaseResults) -> npt.NDArray[np.bool_] | None:
        """Whether each row was in flight, or due, in the time that was chosen; None: all were."""
        if not self._chosen.in_time or self._first_ns is None:
            return None
        low_ns = self._first_ns + round((self._chosen.from_s or 0) * SECOND_NS)
        within: npt.NDArray[np.bool_] = results.ends_ns > low_ns
        if self._chosen.to_s is not None:
            within &= results.times_ns < self._until_ns(None)
        return within

    def stages(self, results: PhaseResults) -> Ints | None:
        """The index of each row's stage, or LEFT_OUT; None if all are of stage 0."""
        if not self._counts.edges:
            return None
        # Limited to 64 bits, which a warm-up may exceed.
        edges = np.array([min(max(edge, -NEVER_NS), NEVER_NS) for edge in self._counts.edges])
        parts = np.searchsorted(edges, results.times_ns, side="right")
        stages: Ints = np.array([LEFT_OUT, *self._counts.stages])[parts]
        return stages

    def shares(self, group: ResultGroup) -> Iterator[tuple[int, list[int]]]:
        """(stage, [operations, bytes, items, pages]) of successes in the window of its rate, in
        units of 1 / SHARE.

        Rows that arrive before an edge is known ended before it. Rows that cross more edges than
        the budget has time for count where they began.
        """
        cuts = self._rates
        lows, highs = group.extents_ns
        at, last = cuts.part_of(int(lows.min())), cuts.part_of(int(highs.max()))
        weights = [group.column(name) for name in ("bytes_moved", "items", "pages")]
        given = [0] * (1 + len(weights))
        for edge_ns in cuts.edges[at + 1 : last + 1]:
            crossing = int(np.count_nonzero((lows < edge_ns) & (highs > edge_ns)))
            if not self._budget.works(crossing + _STEPS_OF_EDGE):
                break
            until = _before(edge_ns, lows, highs, weights)
            if cuts.stage_of(at) != LEFT_OUT:
                yield cuts.stage_of(at), list(map(sub, until, given))
            at, given = at + 1, until
        if cuts.stage_of(at) != LEFT_OUT:
            sums = [len(group), group.bytes_moved, *map(exact_sum, weights[1:])]
            yield (
                cuts.stage_of(at),
                [(all_ << SHARE_BITS) - part for all_, part in zip(sums, given, strict=True)],
            )


def _before(edge_ns: int, lows: Ints, highs: Ints, weights: Sequence[Ints]) -> list[int]:
    """Number of operations, and sums of their weights, before an edge, in units of 1 / SHARE.

    An operation that crosses the edge counts by the share of its time; one without a duration, at
    the edge, is behind it.
    """
    begun = lows < edge_ns
    whole = begun & (highs <= edge_ns)
    found = [int(np.count_nonzero(whole)), *(exact_sum(weight[whole]) for weight in weights)]
    found = [each << SHARE_BITS for each in found]
    crossing = begun & ~whole
    columns = (column[crossing].tolist() for column in (lows, highs, *weights))
    for low, high, *parts in zip(*columns, strict=True):
        share = ((edge_ns - low) << SHARE_BITS) // (high - low)
        for at, each in enumerate((1, *parts)):
            found[at] += share * each
    return found


class InTime(Struct):
    """What of an open loop's operations was started, and completed, by the end of a window."""

    due: int = 0  #: those that were started at all; failed ones are among all three
    started: int = 0
    completed: int = 0
    longest_ns: int = 0  #: response time of those that were completed

    def add(self, dues_ns: Ints, starts_ns: Ints, ends_ns: Ints, window_end_ns: int) -> None:
        """Count operations that were due in the window."""
        completed = ends_ns <= window_end_ns
        self.due += len(dues_ns)
        self.started += int(np.count_nonzero(starts_ns < window_end_ns))
        self.completed += int(np.count_nonzero(completed))
        longest_ns = int((ends_ns - dues_ns).max(initial=0, where=completed))
        self.longest_ns = max(self.longest_ns, longest_ns)


class ResponseTrend:
    """Response times of an open loop in the order of due times: do they grow without end?

    They do where more operations fall due than are completed, whatever becomes late then: the
    number in flight, the start of operations, or the completion of the last ones. Each second of
    the load adds as much to them as the rate exceeds what is completed of it. They do not where
    operations are slow, and the first ones of a load do not differ.

    Times are kept as sums over short periods, which get longer with the load.
    """

    _PERIODS = 1 << 10
    _BATCHES = 16
    _LEAST = 4 * _BATCHES  #: operations
    _SHARE = 0.01  #: of the rate: a smaller one is no reason to call it missed
    #: Student's 99.9 % for the steps between 16 batches. They are as independent as in a store at
    #: exactly its limit, whose queue grows and shrinks by chance; below the limit they cancel out.
    _SURE = 3.79

    def __init__(self) -> None:
        self._period_ns = 1 << 20
        self._counts = np.zeros(self._PERIODS, np.int64)
        self._sums_ns = np.zeros(self._PERIODS)  # whole numbers: their order does not matter

    def __repr__(self) -> str:
        return f"<ResponseTrend of {self._counts.sum()} operations>"

    def add(self, dues_ns: Ints, ends_ns: Ints, begin_ns: int) -> None:
        """Add operations, in any order.

        :param begin_ns: of the load, always the same.
        """
        since = (dues_ns - begin_ns).clip(0, NEVER_NS >> 1).astype(np.int64)
        while int(since.max()) >= self._PERIODS * self._period_ns:
            self._period_ns *= 2
            for values in (self._counts, self._sums_ns):
                values[: self._PERIODS // 2] = values[::2] + values[1::2]
                values[self._PERIODS // 2 :] = 0
        periods = since // self._period_ns
        responses_ns = (ends_ns - dues_ns).clip(0, MAX_NS).astype(np.float64)
        self._counts += np.bincount(periods, minlength=self._PERIODS)
        self._sums_ns += np.bincount(periods, responses_ns, self._PERIODS)

    @property
    def grows(self) -> bool:
        """Whether they grow by more than chance, and so much that the rate is missed."""
        middles_s, means_s = self._batches()
        if len(means_s) < self._BATCHES:
            return False  # too few operations to tell
        steps_s = np.diff(means_s)
        grown_s, chance_s = float(steps_s.sum()), float(steps_s.std(ddof=1)) * len(steps_s) ** 0.5
        long_s = float(middles_s[-1] - middles_s[0])
        least_s = max(self._SHARE * long_s, self._SURE * chance_s)
        return bool(grown_s > least_s)

    @property
    def last_s(self) -> float:
        """The mean of the last ones to fall due."""
        return float(self._batches()[1][-1])

    def _batches(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Due times and response times, each the mean of about as many operations in a row."""
        there = np.flatnonzero(self._counts)
        counts = self._counts[there]
        batches = min(self._BATCHES, max(int(counts.sum()) * self._BATCHES // self._LEAST, 1))
        batch = (counts.cumsum() - counts) * batches // counts.sum()
        firsts = np.flatnonzero(np.diff(batch, prepend=-1))
        sizes = np.add.reduceat(counts, firsts)
        middles = np.add.reduceat(there * counts, firsts) / sizes
        means_ns = np.add.reduceat(self._sums_ns[there], firsts) / sizes
        return middles * (self._period_ns / SECOND_NS), means_ns / SECOND_NS


class Punctuality:
    """Whether an open loop, of a stage or a group, kept its rate, by its response times."""

    def __init__(self) -> None:
        self.in_time = InTime()
        self.trend = ResponseTrend()

    def __repr__(self) -> str:
        return f"<Punctuality {self.in_time}, {self.trend}>"

    def add(
        self, dues_ns: Ints, starts_ns: Ints, ends_ns: Ints, begin_ns: int, window_end_ns: int
    ) -> None:
        """Count operations that were due in the window, which began then."""
        self.in_time.add(dues_ns, starts_ns, ends_ns, window_end_ns)
        self.trend.add(dues_ns, ends_ns, begin_ns)

    @property
    def missed(self) -> bool:
        found, trend = self.in_time, self.trend
        many = found.due - found.completed > _UNANSWERED_SHARE * found.due
        return trend.grows or (many and trend.last_s > _LONGER * found.longest_ns / SECOND_NS)


class LastStart:
    """When the last operation began, and what was done until then.

    From then on, a run that ends with its operations has fewer and fewer busy users. The rows that
    were in flight at the last start so far are kept.
    """

    def __init__(self) -> None:
        self.at_ns: int | None = None  #: the last start; None without a result
        #: (start, end, bytes) of successes that ended later.
        self._rows: list[tuple[int, int, int]] = []

    def __repr__(self) -> str:
        return f"<LastStart at {self.at_ns} ns, {len(self._rows)} rows in flight>"

    def add(self, groups: Sequence[ResultGroup]) -> None:
        """Add operations that count."""
        if not groups:
            return
        self._move_to(max(int(group.extents_ns[0].max()) for group in groups))
        for group in groups:
            lows, highs = group.extents_ns
            if group.failed or int(highs.max()) < (self.at_ns or 0):
                continue
            late = np.flatnonzero(highs >= self.at_ns)[-_MOST_IN_FLIGHT:]
            columns = (lows, highs, group.column("bytes_moved"))
            self._rows += zip(*(column[late].tolist() for column in columns), strict=True)
        self._rows = self._rows[-_MOST_IN_FLIGHT:]

    def _move_to(self, at_ns: int) -> None:
        self.at_ns = at_ns = at_ns if self.at_ns is None else max(self.at_ns, at_ns)
        self._rows = [row for row in self._rows if row[1] >= at_ns][-_MOST_IN_FLIGHT:]

    def until(self, count: int, moved_bytes: int, first_ns: int) -> Throughput:
        """The throughput up to the last start.

        :param count: all successes; ``moved_bytes``: moved by these.
        :param first_ns: the first start.
        """
        at_ns = first_ns if self.at_ns is None else self.at_ns
        lows, highs, sizes = (
            (np.array(column, object) for column in zip(*self._rows, strict=True))
            if self._rows
            else (np.zeros(0, object),) * 3
        )
        shares, byte_shares = _before(at_ns, lows, highs, [sizes])
        operations = (count - len(sizes)) * SHARE + shares
        moved = (moved_bytes - int(sizes.sum())) * SHARE + byte_shares
        seconds = (at_ns - first_ns) / SECOND_NS
        return Throughput(operations / SHARE, moved / SHARE, seconds if seconds > 0 else None)
