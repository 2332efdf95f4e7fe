"""Event loop lag: how late a timer of the loop runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

_SECOND = 1_000_000_000
#: Samples kept: bounds the memory if nobody takes them. The timer runs twenty times a second.
_MOST = 10_000


class LoopLag:
    """The lateness of a timer that the loop should run every ``interval_s``.

    Written in the loop's thread, read in another one.

    :param clock: monotonic, nanoseconds.
    """

    def __init__(self, interval_s: float, clock: Callable[[], int]) -> None:
        self._interval_ns = round(interval_s * _SECOND)
        self._clock = clock
        self._due_ns: int | None = None
        # Appending to a deque and popping from it is thread-safe.
        self._late_ns: deque[int] = deque(maxlen=_MOST)

    def __repr__(self) -> str:
        return f"<LoopLag {len(self._late_ns)} not yet taken>"

    def ran(self) -> None:
        """The timer ran: record its lateness."""
        now_ns = self._clock()
        due_ns = now_ns if self._due_ns is None else self._due_ns
        self.add(now_ns - due_ns)
        # As libev does: a timer that is late by more than its interval is due at once.
        self._due_ns = max(due_ns + self._interval_ns, now_ns)

    def add(self, late_ns: int) -> None:
        """Record a lateness in ns; negative ones count as 0."""
        self._late_ns.append(max(late_ns, 0))

    def take(self) -> tuple[float, float] | None:
        """Maximum and mean lateness since the last call, in seconds; None if nothing was due.

        For a blocked loop, the lateness of the timer so far counts.
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
