"""What a worker knows of the master's clock, and until when it may start anything.

A pure machine: feed it beats and when they arrived. Times are nanoseconds of the worker's
monotonic clock, but for what a message says, which is by the master's.
"""

from __future__ import annotations

from collections import deque

from ssbench.core.messages import ControlState

_SECOND = 1_000_000_000
_DELAYS = 64  #: beats that the distance of the clocks is judged by; clocks drift over days


class ClockSync:
    """The distance of the two clocks and the worker time-out, by the newest beats."""

    def __init__(self) -> None:
        self.delay_ns = 0  #: our clock minus the master's, the fastest beat's way included
        self.lease_expires_ns = 0  #: half the worker time-out after the newest beat was sent
        self.timeout_ns = 10 * _SECOND  #: the worker time-out
        self._master = 0
        self._delays_ns: deque[int] = deque(maxlen=_DELAYS)  # of beats: arrival - master's clock

    def update(self, beat: ControlState, arrived_ns: int) -> None:
        """A beat arrived. Another master has another clock: what was known is forgotten."""
        if beat.master != self._master:
            self._master = beat.master
            self._delays_ns.clear()
        self._delays_ns.append(arrived_ns - beat.master_ns)
        self.delay_ns = min(self._delays_ns)
        self.timeout_ns = int(beat.timeout_s * _SECOND)
        self.lease_expires_ns = beat.master_ns + self.delay_ns + self.timeout_ns // 2

    def is_stale(self, sent_ns: int, now_ns: int) -> bool:
        """Whether what the master sent then has been on its way for half the time-out."""
        return now_ns - (sent_ns + self.delay_ns) > self.timeout_ns // 2
