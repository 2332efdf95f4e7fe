"""The course of a phase: which stage it is in, and when it is over. Pure: the time is told."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ssbench.core.model import Stage

SECOND_NS = 1_000_000_000


class StageSchedule:
    """Goes through stages, one after the other, without a gap.

    :param stages: at least one; the last may be infinitely long.
    """

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = tuple(stages)
        self._begin_ns = 0
        self.index = 0  #: of the present stage
        self.ended_ns = 0  #: when the load ended, once it has

    def __repr__(self) -> str:
        return f"<StageSchedule stage {self.index + 1} of {len(self._stages)}>"

    def begin(self, now_ns: int) -> None:
        """The first stage begins."""
        self._begin_ns = now_ns
        self.index = 0

    @property
    def stage(self) -> Stage:
        """The present one."""
        return self._stages[self.index]

    @property
    def began_ns(self) -> int:
        """When the present stage began, to the nanosecond that its due times count from."""
        seconds = sum(stage.seconds for stage in self._stages[: self.index])
        return self._begin_ns + round(seconds * SECOND_NS)

    @property
    def end_ns(self) -> int | None:
        """When the last stage is over; None where that has no end."""
        return self._end_of(len(self._stages) - 1)

    @property
    def next_ns(self) -> int | None:
        """When something changes: the next stage begins, or all is over."""
        return self._end_of(self.index)

    def due_between(self, from_ns: int, until_ns: int) -> float:
        """How many operations fall due in a stretch of time, on average; 0 without a rate."""
        found, begin_ns = 0.0, float(self._begin_ns)
        for stage in self._stages:
            end_ns = begin_ns + stage.seconds * SECOND_NS
            seconds = (min(until_ns, end_ns) - max(from_ns, begin_ns)) / SECOND_NS
            found += max(seconds, 0.0) * (stage.rate or 0.0)
            begin_ns = end_ns
        return found

    def advance(self, now_ns: int) -> bool:
        """Go on to the stage of this time; True where that is another one."""
        before = self.index
        while self.index + 1 < len(self._stages):
            end_ns = self._end_of(self.index)
            if end_ns is None or now_ns < end_ns:
                break
            self.index += 1
        return self.index != before

    def _end_of(self, index: int) -> int | None:
        seconds = sum(stage.seconds for stage in self._stages[: index + 1])
        return None if math.isinf(seconds) else self._begin_ns + round(seconds * SECOND_NS)
