"""What a phase needs and gives."""

from __future__ import annotations

from ssbench.core.dispatch.dispatcher import JobCounts
from ssbench.master.phases import PhaseOutcome


def test_a_phase_that_never_began_has_done_nothing() -> None:
    outcome = PhaseOutcome.nothing("interrupted", "interrupted by SIGINT")
    assert outcome == PhaseOutcome(JobCounts(), 0.0, "interrupted", "interrupted by SIGINT")
