"""When a phase is given up for what fails in it: "" where it goes on, else the reason in words."""

from __future__ import annotations

from ssbench.core.dispatch.dispatcher import Dispatcher
from ssbench.core.dispatch.worker_registry import SECOND
from ssbench.core.model import Phase

#: Around the run: failures without a success between, or, of DELETEs, so many network time-outs
#: without an answer.
FAILURES_IN_A_ROW = 20
TIMEOUTS_WITHOUT_SUCCESS = 3


def abort_reason(
    phase: Phase, dispatcher: Dispatcher, start_ns: int, now_ns: int, network_timeout_s: float
) -> str:
    """Whether to go on with the objects around the run: nobody gains by trying a dead store
    object by object.

    :param start_ns: when the phase began, on the clock of ``now_ns``.
    """
    in_a_row = dispatcher.failures_in_a_row
    if in_a_row >= max(dispatcher.registry.assigned_users, FAILURES_IN_A_ROW):
        return f"{in_a_row} operations failed in a row: {dispatcher.first_error}"
    # A DELETE is over in no time, or it isn't over for minutes, retries and all.
    patience_s = TIMEOUTS_WITHOUT_SUCCESS * network_timeout_s
    silent_s = (now_ns - max(dispatcher.last_success_ns, start_ns)) / SECOND
    if phase is Phase.CLEANUP and silent_s > patience_s:
        return f"the store has deleted nothing for {patience_s:g} s"
    return ""


def error_limit_reason(dispatcher: Dispatcher, most: int | None) -> str:
    """Whether a run has had more failures in a row than its user allows; None: any number."""
    if most is None or dispatcher.most_failures_in_a_row < most:
        return ""
    what = "an operation" if most == 1 else f"{most} operations in a row"
    return f"stopped early, as told: {what} failed: {dispatcher.first_error}"
