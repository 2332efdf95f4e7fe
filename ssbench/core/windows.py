"""Which operations count, and to which stage of the load they belong.

An operation belongs to the time at which it was due, or, in a closed loop, at which it began. What
belongs to the warm-up or the cool-down is left out of the figures.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import compress
from typing import Any

from ssbench.core.model import Result
from ssbench.core.records import MarkRecord, ResultBatch

SECOND_NS = 1_000_000_000
_DUE, _START = Result._fields.index("due_ns"), Result._fields.index("start_ns")
_NEVER_NS = 1 << 63

LEFT_OUT = -1
_TOO_LATE = -2


class Windows:
    """Cuts the run phase's batches at the marks of one run.

    :param warmup_s: seconds left out after the first mark; without any mark nothing is left out.
    :param cooldown_s: seconds left out before ``end_ns``.
    :param end_ns: when the load ended, as an offset from the phase's start; None: not known, and
        nothing is left out at the end.
    """

    def __init__(
        self, warmup_s: float = 0.0, cooldown_s: float = 0.0, end_ns: int | None = None
    ) -> None:
        self._warmup_ns = round(warmup_s * SECOND_NS)
        self._high_ns = _NEVER_NS
        if end_ns is not None and cooldown_s:
            self._high_ns = end_ns - round(cooldown_s * SECOND_NS)
        #: Rising: where what counts begins, where each further stage begins.
        self._edges: list[int] = []

    def __repr__(self) -> str:
        return f"<Windows from {self._edges} to {self._high_ns} ns>"

    def mark(self, mark: MarkRecord) -> None:
        """A stage begins."""
        if mark.name == "stage":
            self._edges.append(mark.at_ns if self._edges else self._begin(mark.at_ns))

    def _begin(self, first_ns: int) -> int:
        """Without a warm-up nothing can come before the first stage, whatever a worker's clock,
        which is known to a fraction of a millisecond, makes of it."""
        return first_ns + self._warmup_ns if self._warmup_ns else -_NEVER_NS

    @property
    def low_ns(self) -> int | None:
        """Where what counts begins; None where nobody has said so yet."""
        return self._edges[0] if self._edges else None

    def cut(self, batch: ResultBatch) -> Iterator[tuple[int, ResultBatch]]:
        """The batch in parts, each with the index of its stage, or LEFT_OUT."""
        if not self._edges:
            yield 0, batch
            return
        keys = _times(batch)
        if self._stage_of(min(keys)) == self._stage_of(max(keys)):
            yield max(self._stage_of(keys[0]), LEFT_OUT), batch
            return
        rows: defaultdict[int, list[bool]] = defaultdict(lambda: [False] * len(keys))
        for row, key in enumerate(keys):
            rows[max(self._stage_of(key), LEFT_OUT)][row] = True
        for stage, chosen in sorted(rows.items()):
            columns: list[Sequence[Any]] = [list(compress(c, chosen)) for c in batch.columns]
            yield stage, ResultBatch(batch.phase, batch.worker, columns)

    def _stage_of(self, at_ns: int) -> int:
        return _TOO_LATE if at_ns >= self._high_ns else bisect_right(self._edges, at_ns) - 1


def _times(batch: ResultBatch) -> Sequence[int]:
    dues, starts = batch.columns[_DUE], batch.columns[_START]
    if max(dues) < 0:
        return starts
    return [start if due < 0 else due for due, start in zip(dues, starts, strict=True)]
