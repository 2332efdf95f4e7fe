"""How fast results come: what can be on its way to workers without waiting there for long."""

from __future__ import annotations

from collections import deque

from ssbench.core.dispatch.worker_registry import SECOND

_WINDOW_NS = 5 * SECOND
_STEP_NS = SECOND // 100


class ThroughputMeter:
    """Results a second, over the last five seconds; looked at anew each 10 ms."""

    def __init__(self) -> None:
        self.per_s = 0.0
        self._count = 0
        self._marks: deque[tuple[int, int]] = deque()  # (when, how many there were)
        self._newest_ns = 0

    def __repr__(self) -> str:
        return f"<ThroughputMeter {self.per_s:.1f}/s>"

    def begin(self, now_ns: int) -> None:
        """Something is sent; the first time is what the pace counts from."""
        if not self._marks:
            self._marks.append((now_ns, 0))
            self._newest_ns = now_ns

    def add(self, count: int, now_ns: int) -> None:
        """So many results came."""
        self.begin(now_ns)
        self._count += count
        self._newest_ns = now_ns
        marks = self._marks
        if now_ns - marks[-1][0] < _STEP_NS:
            return
        while len(marks) > 1 and now_ns - marks[0][0] > _WINDOW_NS:
            marks.popleft()
        since_ns, before = marks[0]
        self.per_s = (self._count - before) * SECOND / (now_ns - since_ns)
        marks.append((now_ns, self._count))

    def expected_ns(self, count: int, now_ns: int) -> int:
        """In what time so many jobs should be done.

        Where nothing has come for some time it is half of that time at least: a store that stalls,
        or takes long for its first answers, is no reason to send ever more.
        """
        idle_ns = now_ns - self._newest_ns
        by_rate_ns = int(count * SECOND / self.per_s) if self.per_s else 0
        return max(by_rate_ns, idle_ns // 2)
