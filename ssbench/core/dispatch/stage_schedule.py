"""The stages of a phase: which one is current, and when the phase ends. Times are arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ssbench.core.model import Stage

SECOND_NS = 1_000_000_000


class StageSchedule:
    """Steps through stages without gaps.

    :param stages: at least one; the last may be infinitely long.
    """

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = tuple(stages)
        self._begin_ns = 0
        self.index = 0  #: of the current stage
        self.ended_ns = 0  #: when the load ended, once it has

    def __repr__(self) -> str:
        return f"<StageSchedule stage {self.index + 1} of {len(self._stages)}>"

    def begin(self, now_ns: int) -> None:
        """The first stage begins."""
        self._begin_ns = now_ns
        self.index = 0

    @property
    def stage(self) -> Stage:
        """The current stage."""
        return self._stages[self.index]

    @property
    def began_ns(self) -> int:
        """When the current stage began: exactly the time that its due times count from."""
        seconds = sum(stage.seconds for stage in self._stages[: self.index])
        return self._begin_ns + round(seconds * SECOND_NS)

    @property
    def end_ns(self) -> int | None:
        """When the last stage ends; None if it has no end."""
        return self._end_of(len(self._stages) - 1)

    @property
    def next_ns(self) -> int | None:
        """When the current stage ends; None if it has no end."""
        return self._end_of(self.index)

    def due_between(self, from_ns: int, until_ns: int) -> float:
        """Expected number of operations due in an interval; 0 without a rate."""
        found, begin_ns = 0.0, float(self._begin_ns)
        for stage in self._stages:
            end_ns = begin_ns + stage.seconds * SECOND_NS
            seconds = (min(until_ns, end_ns) - max(from_ns, begin_ns)) / SECOND_NS
            found += max(seconds, 0.0) * (stage.rate or 0.0)
            begin_ns = end_ns
        return found

    def advance(self, now_ns: int) -> bool:
        """Advance to the stage at this time; True if the stage changed."""
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
