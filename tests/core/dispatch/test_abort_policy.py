"""When a phase is given up for what fails in it."""

from __future__ import annotations

import pytest

from ssbench.core.dispatch.dispatcher import (
    FAILURES_IN_A_ROW,
    TIMEOUTS_WITHOUT_SUCCESS,
    abort_reason,
)
from ssbench.core.model import SECOND_NS, ErrorKind, Phase
from tests.core.workload.fleet import Fleet

TIMEOUT_S = 2.0
LIMIT_NS = int(TIMEOUTS_WITHOUT_SUCCESS * TIMEOUT_S * SECOND_NS)


def failed(fleet: Fleet, users: int, count: int) -> None:
    """So many operations of the only worker fail, and none succeeds."""
    fleet.dispatcher.max_batch = 1
    worker = fleet.hello("w", users, users=users)
    while fleet.dispatcher.failures_in_a_row < count:
        assert fleet.send(worker)
        fleet.round(worker, error=ErrorKind.RESET)


@pytest.mark.parametrize("users", [1, FAILURES_IN_A_ROW + 5])
@pytest.mark.parametrize("phase", [Phase.POPULATE, Phase.CLEANUP])
def test_consecutive_failures_of_all_users_or_twenty_end_the_run(users: int, phase: Phase) -> None:
    enough = max(users, FAILURES_IN_A_ROW)
    fleet = Fleet(1000)
    failed(fleet, users, enough - 1)
    now_ns = fleet.now_ns
    assert abort_reason(phase, fleet.dispatcher, now_ns, now_ns, TIMEOUT_S) == ""
    worker = fleet.workers[0]
    assert fleet.send(worker)
    fleet.round(worker, error=ErrorKind.RESET)
    reason = abort_reason(phase, fleet.dispatcher, now_ns, now_ns, TIMEOUT_S)
    assert reason.startswith(f"{enough} operations failed in a row: ")


@pytest.mark.parametrize("phase", [Phase.POPULATE, Phase.CLEANUP])
def test_failures_of_one_identity_do_not_end_the_phase_of_the_others(phase: Phase) -> None:
    fleet = Fleet(1000)
    fleet.dispatcher.workload.is_divided = True
    failed(fleet, 1, 3 * FAILURES_IN_A_ROW)
    now_ns = fleet.now_ns
    fleet.dispatcher.last_success_ns = now_ns - int(TIMEOUT_S * SECOND_NS)
    assert abort_reason(phase, fleet.dispatcher, 0, now_ns, TIMEOUT_S) == ""
    reason = abort_reason(phase, fleet.dispatcher, 0, now_ns + 1, TIMEOUT_S)
    assert reason.startswith(f"{3 * FAILURES_IN_A_ROW} operations failed in a row: ")


@pytest.mark.parametrize(
    ("phase", "since_start_ns", "since_done_ns", "words"),
    [
        (Phase.CLEANUP, LIMIT_NS, None, ""),
        (Phase.CLEANUP, LIMIT_NS + 1, None, "the store has deleted nothing for 6 s"),
        (Phase.CLEANUP, 9 * LIMIT_NS, LIMIT_NS, ""),
        (Phase.CLEANUP, 9 * LIMIT_NS, LIMIT_NS + 1, "the store has deleted nothing for 6 s"),
        (Phase.POPULATE, 9 * LIMIT_NS, None, ""),  # a large upload may take its time
    ],
)
def test_cleanup_ends_at_consecutive_failures(
    phase: Phase, since_start_ns: int, since_done_ns: int | None, words: str
) -> None:
    dispatcher = Fleet(10).dispatcher
    now_ns = 1000 * SECOND_NS
    if since_done_ns is not None:
        dispatcher.last_success_ns = now_ns - since_done_ns
    start_ns = now_ns - since_start_ns
    assert abort_reason(phase, dispatcher, start_ns, now_ns, TIMEOUT_S) == words
