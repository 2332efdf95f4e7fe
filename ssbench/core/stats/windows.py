"""Which operations count, to which stage of the load they belong, and the windows of the rates.

An operation belongs to the time at which it was due or, in a closed loop, at which it began. All
figures exclude operations in a warm-up or the cool-down.

Rates are over windows, which end with the load. In an open loop an operation counts in the window
in which it was due. In a closed loop it counts in each window by the share of its time there, so
that operations in flight at a window's edges do not distort the rate.

Times are nanoseconds from the run phase's start.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import sub

import numpy as np

from ssbench.core.model import SECOND_NS
from ssbench.core.records import MarkRecord
from ssbench.core.stats.results import Ints, PhaseResults, ResultGroup, exact_sum
from ssbench.core.stats.scenario_view import NEVER_NS, ScenarioView
from ssbench.core.stats.tally import SHARE, SHARE_BITS, Throughput

LEFT_OUT = -1  #: in place of a stage's index

_MOST_IN_FLIGHT = 1 << 16  #: operations at the last start; in a damaged file it may be all


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

    :param view: of the run's scenario. Without marks nothing is excluded.
    :param end_ns: of the mark of the load's end; None: nothing is excluded at the end.
    """

    def __init__(self, view: ScenarioView, end_ns: int | None = None) -> None:
        self._view = view
        #: When the load ends, as far as it is known yet.
        self.load_end_ns = NEVER_NS if end_ns is None else end_ns
        self.open_loop = False  #: whether any stage so far has an arrival rate
        self._marked_ns = end_ns
        self._first_ns: int | None = None
        self._marks = 0
        self._counts = _Cuts()
        self._rates = _Cuts()

    def __repr__(self) -> str:
        return f"<Windows of stages {self._counts.stages} from {self._counts.edges} ns>"

    def mark(self, mark: MarkRecord) -> None:
        """A stage begins, or the load ends."""
        if mark.name == "end":
            self._ends(mark.at_ns)
        if mark.name != "stage":
            return
        begin_ns, stage = mark.at_ns, self._marks
        self._marks += 1
        self.open_loop = self.open_loop or bool(mark.rate)
        if self._first_ns is None:
            self._first_ns = begin_ns
        low_ns = self._view.counts_from_ns(stage, begin_ns, self._first_ns)
        for cuts in (self._counts, self._rates):
            if low_ns > begin_ns:
                cuts.cut(begin_ns, LEFT_OUT)
            # Without a warm-up nothing precedes the first stage, although the error of a worker's
            # clock may say so.
            cuts.cut(low_ns if stage or low_ns > begin_ns else -NEVER_NS, stage)
        planned_ns = self._view.planned_end_ns(self._first_ns)
        if self._marked_ns is not None and self._view.cooldown_s:
            # Without a cool-down, operations that began after the mark of the end count as well.
            end_ns = min(self._marked_ns, planned_ns)
            self._counts.cut(self._view.counts_until_ns(end_ns), LEFT_OUT)
        self._ends(planned_ns)

    def _ends(self, at_ns: int) -> None:
        self.load_end_ns = min(self.load_end_ns, at_ns)
        if self._rates.edges and self.load_end_ns != NEVER_NS:
            self._rates.cut(self._view.counts_until_ns(self.load_end_ns), LEFT_OUT)

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
        """(stage, [operations, bytes]) of successes in the window of its rate, in units of
        1 / SHARE; [operations, bytes, items] if results have items.

        Rows that arrive before an edge is known ended before it.
        """
        cuts = self._rates
        lows, highs = group.extents_ns
        at, last = cuts.part_of(int(lows.min())), cuts.part_of(int(highs.max()))
        weights = [group.column("bytes_moved")]
        if group.items is not None:
            weights.append(group.items)
        given = [0] * (1 + len(weights))
        for edge_ns in cuts.edges[at + 1 : last + 1]:
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


class LastStart:
    """When the last operation began, and what was done until then.

    From then on, a run that ends with its operations has fewer and fewer busy users. The rows that
    were in flight at the last start so far are kept.
    """

    def __init__(self) -> None:
        self.at_ns: int | None = None  #: the last start, or due time; None without a result
        #: (start, end, bytes) of successes that ended later; in an open loop (due, due, bytes).
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
