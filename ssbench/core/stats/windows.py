"""Which operations count, to which stage of the load they belong, and by what share to its rate.

An operation belongs to the time at which it was due, or, in a closed loop, at which it began. What
belongs to a warm-up or the cool-down is left out of the figures.

Rates are of windows, which end with the load. In an open loop an operation is in the window in
which it was due. In a closed loop it is in each by the share of its time that it spent there, so
that neither what was under way when a window began nor what still was at its end bends the rate.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import compress
from typing import Any

from ssbench.core.model import NONE_NS, Result
from ssbench.core.records import MarkRecord, ResultBatch
from ssbench.core.stats.batches import Part
from ssbench.core.stats.scenario_view import ScenarioView
from ssbench.core.stats.tally import SHARE_BITS
from ssbench.core.stats.windows_of_stages import (
    NEVER_NS,
    counts_from_ns,
    counts_until_ns,
    planned_end_ns,
)

_DUE, _START = Result._fields.index("due_ns"), Result._fields.index("start_ns")

LEFT_OUT = -1


class _Cuts:
    """Times at which one stage, or what is left out, gives way to the next."""

    def __init__(self) -> None:
        #: Rising; what comes from each on belongs to the stage at the same place.
        self.edges: list[int] = []
        self.stages: list[int] = []

    def cut(self, at_ns: int, stage: int) -> None:
        """All from then on belongs to that stage, whatever was said before."""
        while self.edges and self.edges[-1] >= at_ns:
            self.edges.pop()
            self.stages.pop()
        self.edges.append(at_ns)
        self.stages.append(stage)

    def part_of(self, at_ns: int) -> int:
        """The place of the part that this time is in; -1 before the first."""
        return bisect_right(self.edges, at_ns) - 1

    def stage_of(self, part: int) -> int:
        return self.stages[part] if part >= 0 else LEFT_OUT


class Windows:
    """Cuts the run phase's batches at the marks of one run.

    :param facts: of its scenario: what is left out. Without any mark nothing is.
    :param end_ns: when the load ended, as an offset from the phase's start; None: not known, and
        nothing is left out at the end.
    """

    def __init__(self, facts: ScenarioView, end_ns: int | None = None) -> None:
        self._facts = facts
        # What began after the end's mark counts, as all does that was begun.
        self._until_ns = counts_until_ns(end_ns, facts) if facts.cooldown_s else NEVER_NS
        #: When the load ends, as far as that is known yet.
        self.load_end_ns = NEVER_NS if end_ns is None else end_ns
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
        if self._first_ns is None:
            self._first_ns = begin_ns
        low_ns = counts_from_ns(stage, begin_ns, self._first_ns, self._facts)
        for cuts in (self._counts, self._rates):
            if low_ns > begin_ns:
                cuts.cut(begin_ns, LEFT_OUT)
            # Without a warm-up nothing can come before the first stage, whatever a worker's clock,
            # which is known to a fraction of a millisecond, makes of it.
            cuts.cut(low_ns if stage or low_ns > begin_ns else -NEVER_NS, stage)
        self._counts.cut(self._until_ns, LEFT_OUT)
        self._ends(planned_end_ns(self._first_ns, self._facts))

    def _ends(self, at_ns: int) -> None:
        self.load_end_ns = min(self.load_end_ns, at_ns)
        if self._rates.edges and self.load_end_ns != NEVER_NS:
            self._rates.cut(counts_until_ns(self.load_end_ns, self._facts), LEFT_OUT)

    def cut(self, batch: ResultBatch) -> Iterator[tuple[int, ResultBatch]]:
        """The batch in parts, each with the index of its stage, or LEFT_OUT."""
        cuts = self._counts
        if not cuts.edges:
            yield 0, batch
            return
        keys = _times(batch)
        part = cuts.part_of(min(keys))
        if part == cuts.part_of(max(keys)):
            yield cuts.stage_of(part), batch
            return
        rows: defaultdict[int, list[bool]] = defaultdict(lambda: [False] * len(keys))
        for row, key in enumerate(keys):
            rows[cuts.stage_of(cuts.part_of(key))][row] = True
        for stage, chosen in sorted(rows.items()):
            columns: list[Sequence[Any]] = [list(compress(c, chosen)) for c in batch.columns]
            yield stage, ResultBatch(batch.phase, batch.worker, columns)

    def shares(self, part: Part) -> Iterator[tuple[int, int, int]]:
        """(stage, operations, bytes) of successes that are in the window of its rate, the latter
        two in units of 1 / SHARE. Where a part crosses no edge no row of it is looked at.

        Rows that come before their edge is known are on its near side: they ended before.
        """
        cuts = self._rates
        at, last = map(cuts.part_of, part.range_ns)
        given = (0, 0)
        columns = *part.extents_ns, part.column("bytes_moved")
        rows = list(zip(*columns, strict=True)) if last > at else []
        for edge in cuts.edges[at + 1 : last + 1]:
            until = before(edge, rows)
            if cuts.stage_of(at) != LEFT_OUT:
                yield cuts.stage_of(at), until[0] - given[0], until[1] - given[1]
            at, given = at + 1, until
        if cuts.stage_of(at) != LEFT_OUT:
            count, size = len(part) << SHARE_BITS, part.bytes_moved << SHARE_BITS
            yield cuts.stage_of(at), count - given[0], size - given[1]


def before(edge_ns: int, rows: Sequence[tuple[int, int, int]]) -> tuple[int, int]:
    """Operations and bytes before an edge, in units of 1 / SHARE.

    An operation that crosses it is by the share of its time; one of no length at it is behind it.

    :param rows: (from, to, bytes) of each.
    """
    whole = [size for low, high, size in rows if high <= edge_ns and low < edge_ns]
    count, size = len(whole) << SHARE_BITS, sum(whole) << SHARE_BITS
    for low, high, each in rows:
        if low < edge_ns < high:
            share = ((edge_ns - low) << SHARE_BITS) // (high - low)
            count += share
            size += share * each
    return count, size


def _times(batch: ResultBatch) -> Sequence[int]:
    dues, starts = batch.columns[_DUE], batch.columns[_START]
    if dues.count(NONE_NS) == len(dues):
        return starts
    if min(dues) >= 0:
        return dues
    return [start if due < 0 else due for due, start in zip(dues, starts, strict=True)]
