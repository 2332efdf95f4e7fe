"""Which operations count, and to which stage of the load they belong.

An operation belongs to the time at which it was due, or, in a closed loop, at which it began. What
belongs to a warm-up or the cool-down is left out of the figures.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import compress
from typing import Any

from ssbench.core.figures.facts import ScenarioFacts
from ssbench.core.figures.spans import NEVER_NS, counts_from_ns, counts_until_ns
from ssbench.core.model import NONE_NS, Result
from ssbench.core.records import MarkRecord, ResultBatch

_DUE, _START = Result._fields.index("due_ns"), Result._fields.index("start_ns")

LEFT_OUT = -1


class Windows:
    """Cuts the run phase's batches at the marks of one run.

    :param facts: of its scenario: what is left out. Without any mark nothing is.
    :param end_ns: when the load ended, as an offset from the phase's start; None: not known, and
        nothing is left out at the end.
    """

    def __init__(self, facts: ScenarioFacts, end_ns: int | None = None) -> None:
        self._facts = facts
        # What began after the end's mark counts, as all does that was begun.
        self._end_ns = counts_until_ns(end_ns, facts) if facts.cooldown_s else NEVER_NS
        self._first_ns: int | None = None
        self._marks = 0
        #: Rising; what begins from each on belongs to the stage at the same place.
        self._edges: list[int] = []
        self._stages: list[int] = []

    def __repr__(self) -> str:
        return f"<Windows of stages {self._stages} from {self._edges} ns>"

    def mark(self, mark: MarkRecord) -> None:
        """A stage begins."""
        if mark.name != "stage":
            return
        begin_ns, stage = mark.at_ns, self._marks
        self._marks += 1
        if self._first_ns is None:
            self._first_ns = begin_ns
        low_ns = counts_from_ns(stage, begin_ns, self._first_ns, self._facts)
        if low_ns > begin_ns:
            self._from(begin_ns, LEFT_OUT)
        # Without a warm-up nothing can come before the first stage, whatever a worker's clock,
        # which is known to a fraction of a millisecond, makes of it.
        self._from(low_ns if stage or low_ns > begin_ns else -NEVER_NS, stage)
        self._from(self._end_ns, LEFT_OUT)

    def _from(self, at_ns: int, stage: int) -> None:
        """All from then on belongs to that stage, whatever was said before."""
        while self._edges and self._edges[-1] >= at_ns:
            self._edges.pop()
            self._stages.pop()
        self._edges.append(at_ns)
        self._stages.append(stage)

    def cut(self, batch: ResultBatch) -> Iterator[tuple[int, ResultBatch]]:
        """The batch in parts, each with the index of its stage, or LEFT_OUT."""
        if not self._edges:
            yield 0, batch
            return
        keys = _times(batch)
        part = self._part_of(min(keys))
        if part == self._part_of(max(keys)):
            yield self._stage_of(part), batch
            return
        rows: defaultdict[int, list[bool]] = defaultdict(lambda: [False] * len(keys))
        for row, key in enumerate(keys):
            rows[self._stage_of(self._part_of(key))][row] = True
        for stage, chosen in sorted(rows.items()):
            columns: list[Sequence[Any]] = [list(compress(c, chosen)) for c in batch.columns]
            yield stage, ResultBatch(batch.phase, batch.worker, columns)

    def _part_of(self, at_ns: int) -> int:
        return bisect_right(self._edges, at_ns) - 1

    def _stage_of(self, part: int) -> int:
        return self._stages[part] if part >= 0 else LEFT_OUT


def _times(batch: ResultBatch) -> Sequence[int]:
    dues, starts = batch.columns[_DUE], batch.columns[_START]
    if dues.count(NONE_NS) == len(dues):
        return starts
    if min(dues) >= 0:
        return dues
    return [start if due < 0 else due for due, start in zip(dues, starts, strict=True)]
