"""Rate and latencies over the last seconds of a phase, for the progress display."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping

from ssbench.core.live import RunProgress, quantile_s

_WINDOW_S = 5.0
#: Counts that arrive within this time are merged: 256 workers send 256 maps per second.
_GRAIN_S = 0.25


class ProgressTracker:
    """Collects the data of a phase's display. Times are seconds since the start of the phase."""

    def __init__(self, total: int | None, run_seconds: float | None) -> None:
        self._total = total
        self._run_seconds = run_seconds
        self._done: deque[tuple[float, int]] = deque([(0.0, 0)])
        self._latencies: deque[tuple[float, Counter[int]]] = deque()

    def add_latencies(self, at_s: float, counts: Mapping[int, int]) -> None:
        """Add the latency counts of a heartbeat."""
        if not counts:
            return
        if not self._latencies or at_s - self._latencies[-1][0] > _GRAIN_S:
            self._latencies.append((at_s, Counter()))
        self._latencies[-1][1].update(counts)

    def progress(
        self, at_s: float, done: int, errors: int, workers: int, users: int
    ) -> RunProgress:
        """The state of the phase now."""
        self._done.append((at_s, done))
        while len(self._done) > 2 and self._done[0][0] < at_s - _WINDOW_S:
            self._done.popleft()
        while self._latencies and self._latencies[0][0] < at_s - _WINDOW_S:
            self._latencies.popleft()
        (from_s, before), (to_s, after) = self._done[0], self._done[-1]
        rate = (after - before) / (to_s - from_s) if to_s > from_s else 0.0
        recent: Counter[int] = Counter()
        for _, counts in self._latencies:
            recent.update(counts)
        return RunProgress(
            at_s,
            done,
            self._total,
            errors,
            rate,
            quantile_s(recent, 50),
            quantile_s(recent, 99),
            self._remaining_s(at_s, done, rate),
            workers,
            users,
        )

    def _remaining_s(self, at_s: float, done: int, rate: float) -> float | None:
        if self._run_seconds is not None:
            return max(self._run_seconds - at_s, 0.0)
        if self._total is None or not rate:
            return None
        return max(self._total - done, 0) / rate
