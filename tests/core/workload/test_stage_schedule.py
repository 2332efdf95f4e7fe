"""Stages, one after the other."""

from __future__ import annotations

import math

from ssbench.core.model import SECOND_NS, Stage
from ssbench.core.workload.pacing import StageSchedule

AT = 7 * SECOND_NS


def begun(*seconds: float) -> StageSchedule:
    schedule = StageSchedule([Stage(s, users) for users, s in enumerate(seconds, 1)])
    schedule.begin(AT)
    return schedule


def test_a_schedule_without_an_end() -> None:
    schedule = begun(math.inf)
    assert (schedule.end_ns, schedule.next_ns) == (None, None)
    assert not schedule.advance(AT + 10**18)


def test_operations_due_in_an_interval() -> None:
    schedule = StageSchedule([Stage(2, 8, 10), Stage(3, 8, 100), Stage(math.inf, 8, 1)])
    schedule.begin(AT)
    assert schedule.due_between(0, AT + SECOND_NS // 2) == 5
    assert schedule.due_between(AT + SECOND_NS, AT + 3 * SECOND_NS) == 10 + 100
    assert schedule.due_between(AT, AT + 10 * SECOND_NS) == 20 + 300 + 5
    assert begun(2, 3).due_between(AT, AT + SECOND_NS) == 0, "a closed loop"


def test_a_late_query_leaves_out_no_stage() -> None:
    schedule = begun(1, 1, 1, math.inf)
    assert [schedule.advance(AT + 2 * SECOND_NS) for _ in range(3)] == [True, True, False]
    assert schedule.index == 2
    assert schedule.advance(AT + 100 * SECOND_NS)
    assert (schedule.index, schedule.next_ns, schedule.end_ns) == (3, None, None)
    assert not schedule.advance(AT + 100 * SECOND_NS)
