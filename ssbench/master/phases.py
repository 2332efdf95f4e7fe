"""A phase: what it is to do, and how it went."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from ssbench.core.dispatch.dispatcher import JobCounts
from ssbench.core.model import Phase, Stage
from ssbench.core.workload.workload import Workload

if TYPE_CHECKING:
    from ssbench.core.stats.auto_stop import SteadyStateDetector, ThresholdWatch


class PhasePlan(Struct, frozen=True):
    """What a phase is to do.

    :param seconds: stop sending after so long; None: when the workload is finished.
    :param stages: parts with users and rates of their own; () for one part.
    :param steady_state: ends the phase when its rate has been steady for long enough.
    :param watch: ends the phase when it misses a threshold.
    :param think_s: pause of a user after each operation: the shortest and the longest.
    """

    phase: Phase
    workload: Workload
    users: int
    seconds: float | None = None
    stages: Sequence[Stage] = ()
    steady_state: SteadyStateDetector | None = None
    watch: ThresholdWatch | None = None
    think_s: tuple[float, float] = (0.0, 0.0)


class PhaseOutcome(Struct, frozen=True):
    """How a phase went."""

    counts: JobCounts
    seconds: float
    ended: str  #: "complete", "interrupted", "failed", "exhausted": RunFooter's words
    reason: str = ""
    example: str = ""  #: detail of an error, where there were any
    never_started: int = 0  #: operations of an open loop that fell due before it was stopped
    short_of_users: bool = False  #: at some time fewer ran than were asked for

    @classmethod
    def nothing(cls, ended: str, reason: str) -> PhaseOutcome:
        """A phase that never began."""
        return cls(JobCounts(), 0.0, ended, reason)
