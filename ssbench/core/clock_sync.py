"""A worker's estimate of the master's clock, and its lease: until when it may start operations.

A pure state machine: feed it control states and their arrival times. Times are nanoseconds of the
worker's monotonic clock, except those in messages, which are of the master's.
"""

from __future__ import annotations

from collections import deque

from ssbench.core.messages import ControlState

_SECOND = 1_000_000_000
_DELAYS = 64  #: newest control states that the offset is taken from; clocks drift over days


class ClockSync:
    """The offset between the two clocks and the worker timeout, from the newest control states."""

    def __init__(self) -> None:
        self.delay_ns = 0  #: worker's clock minus master's, plus the shortest transit time
        #: Half the worker timeout after the newest control state was sent.
        self.lease_expires_ns = 0
        self.timeout_ns = 10 * _SECOND  #: the worker timeout
        self._master = 0
        self._delays_ns: deque[int] = deque(maxlen=_DELAYS)  # arrival minus the master's clock

    def update(self, control_state: ControlState, arrived_ns: int) -> None:
        """A control state arrived. A new master has another clock: earlier samples are dropped."""
        if control_state.master != self._master:
            self._master = control_state.master
            self._delays_ns.clear()
        self._delays_ns.append(arrived_ns - control_state.master_ns)
        self.delay_ns = min(self._delays_ns)
        self.timeout_ns = int(control_state.timeout_s * _SECOND)
        self.lease_expires_ns = control_state.master_ns + self.delay_ns + self.timeout_ns // 2

    def is_stale(self, sent_ns: int, now_ns: int) -> bool:
        """Whether a message sent at ``sent_ns`` (master's clock) is older than half the timeout."""
        return now_ns - (sent_ns + self.delay_ns) > self.timeout_ns // 2
