"""How long a worker has received nothing from its master.

A pure state machine: feed it the newest control state and the time, several times a second. Times
are nanoseconds of any monotonic clock.
"""

from __future__ import annotations

_SECOND = 1_000_000_000


class MasterTimeout:
    """Time without a new control state, counted only while the worker was running.

    A worker that was stopped itself (SIGSTOP, a suspended host) could not read, and its buffers
    may still hold control states. At most one second of such a gap counts.
    """

    def __init__(self, now_ns: int) -> None:
        self.silent_ns = 0  #: since the newest control state, or since the start
        self._newest: object = None
        self._ticked_ns = now_ns

    def __repr__(self) -> str:
        return f"<MasterTimeout {self.silent_ns / _SECOND:.1f} s>"

    def tick(self, newest: object, now_ns: int) -> int:
        """Report the newest control state (None: none yet). Returns ``silent_ns``."""
        step_ns = min(now_ns - self._ticked_ns, _SECOND)
        self._ticked_ns = now_ns
        self.silent_ns = self.silent_ns + step_ns if newest is self._newest else 0
        self._newest = newest
        return self.silent_ns
