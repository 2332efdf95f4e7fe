"""Throughput of results, from which the dispatcher derives how many jobs may be in transit."""

from __future__ import annotations

from collections import deque

from ssbench.core.dispatch.worker_registry import SECOND

_WINDOW_NS = 5 * SECOND
_STEP_NS = SECOND // 100


class ThroughputMeter:
    """Results per second over the last five seconds, updated every 10 ms."""

    def __init__(self) -> None:
        self.per_s = 0.0
        self._count = 0
        self._marks: deque[tuple[int, int]] = deque()  # (time, results so far)
        self._newest_ns = 0

    def __repr__(self) -> str:
        return f"<ThroughputMeter {self.per_s:.1f}/s>"

    def begin(self, now_ns: int) -> None:
        """Jobs are sent; the first call starts the measurement."""
        if not self._marks:
            self._marks.append((now_ns, 0))
            self._newest_ns = now_ns

    def add(self, count: int, now_ns: int) -> None:
        """Count results."""
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
        """The time in ns in which so many jobs should complete.

        At least half of the time since the newest result: a store that stalls, or is slow with its
        first responses, must not cause ever more jobs to be sent.
        """
        idle_ns = now_ns - self._newest_ns
        by_rate_ns = int(count * SECOND / self.per_s) if self.per_s else 0
        return max(by_rate_ns, idle_ns // 2)
