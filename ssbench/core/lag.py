"""How late an event loop gets to what is due: fed by a timer of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

_SECOND = 1_000_000_000
#: Of a timer that runs twenty times a second; who never takes them must not fill the memory.
_MOST = 10_000


class LoopLag:
    """The lateness of a timer that the loop should run each ``interval_s``.

    Fed in the loop's thread and read in another one.

    :param clock: monotonic, nanoseconds.
    """

    def __init__(self, interval_s: float, clock: Callable[[], int]) -> None:
        self._interval_ns = round(interval_s * _SECOND)
        self._clock = clock
        self._due_ns: int | None = None
        # A deque's ends may be used from two threads at once.
        self._late_ns: deque[int] = deque(maxlen=_MOST)

    def __repr__(self) -> str:
        return f"<LoopLag {len(self._late_ns)} not yet taken>"

    def ran(self) -> None:
        """The timer ran."""
        now_ns = self._clock()
        due_ns = now_ns if self._due_ns is None else self._due_ns
        self.add(now_ns - due_ns)
        # As libev reckons: a timer that is late by more than its interval is due at once.
        self._due_ns = max(due_ns + self._interval_ns, now_ns)

    def add(self, late_ns: int) -> None:
        """Something that was due ran so late."""
        self._late_ns.append(max(late_ns, 0))

    def take(self) -> tuple[float, float] | None:
        """The most and the mean since the last time, in seconds; None where nothing was due.

        A loop that stands still is as late as it is by now.
        """
        late_ns = []
        while self._late_ns:
            late_ns.append(self._late_ns.popleft())
        due_ns = self._due_ns
        if due_ns is not None:
            overdue_ns = self._clock() - due_ns
            if overdue_ns > self._interval_ns or not late_ns:
                late_ns.append(max(overdue_ns, 0))
        if not late_ns:
            return None
        return max(late_ns) / _SECOND, sum(late_ns) / len(late_ns) / _SECOND
