"""For how long a master has been silent, as far as a worker can tell.

A pure machine: feed it the newest beat and the time, several times a second. Times are
nanoseconds of any monotonic clock.
"""

from __future__ import annotations

_SECOND = 1_000_000_000


class MasterTimeout:
    """Silence that was listened to.

    A worker that was stopped itself (SIGSTOP, a suspended host) heard nothing because it didn't
    listen, and what was said meanwhile may still lie in its buffers: of such a gap one second
    counts at most.
    """

    def __init__(self, now_ns: int) -> None:
        self.silent_ns = 0  #: since the newest beat, or since the beginning
        self._newest: object = None
        self._ticked_ns = now_ns

    def __repr__(self) -> str:
        return f"<MasterTimeout {self.silent_ns / _SECOND:.1f} s>"

    def tick(self, newest: object, now_ns: int) -> int:
        """The newest beat is this one (None: none ever came); gives ``silent_ns``."""
        step_ns = min(now_ns - self._ticked_ns, _SECOND)
        self._ticked_ns = now_ns
        self.silent_ns = self.silent_ns + step_ns if newest is self._newest else 0
        self._newest = newest
        return self.silent_ns
