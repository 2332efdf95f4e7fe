"""When to abort a phase because of failures. "" means: continue; otherwise the reason."""

from __future__ import annotations

from ssbench.core.dispatch.dispatcher import Dispatcher
from ssbench.core.dispatch.worker_registry import SECOND
from ssbench.core.model import Phase

#: Populate and cleanup: failures without a success in between; cleanup also: so many network
#: timeouts without a success.
FAILURES_IN_A_ROW = 20
TIMEOUTS_WITHOUT_SUCCESS = 3


def abort_reason(
    phase: Phase, dispatcher: Dispatcher, start_ns: int, now_ns: int, network_timeout_s: float
) -> str:
    """Why to abort populate or cleanup: trying each object of a dead store helps nobody.

    :param start_ns: when the phase began, on the clock of ``now_ns``.
    """
    in_a_row = dispatcher.failures_in_a_row
    if in_a_row >= max(dispatcher.registry.assigned_users, FAILURES_IN_A_ROW):
        return f"{in_a_row} operations failed in a row: {dispatcher.first_error}"
    # A DELETE completes at once or, with its retries, not for minutes.
    limit_s = TIMEOUTS_WITHOUT_SUCCESS * network_timeout_s
    idle_s = (now_ns - max(dispatcher.last_success_ns, start_ns)) / SECOND
    if phase is Phase.CLEANUP and idle_s > limit_s:
        return f"the store has deleted nothing for {limit_s:g} s"
    return ""


def error_limit_reason(dispatcher: Dispatcher, most: int | None) -> str:
    """Why to abort a run with too many failures in a row.

    :param most: the number that ends the run (``--max-errors``); None for no limit.
    """
    if most is None or dispatcher.most_failures_in_a_row < most:
        return ""
    what = "an operation" if most == 1 else f"{most} operations in a row"
    return f"stopped early, as told: {what} failed: {dispatcher.first_error}"
