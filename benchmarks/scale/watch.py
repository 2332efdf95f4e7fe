"""Samples memory and CPU time of another process."""

from __future__ import annotations

import threading
import time
from bisect import bisect
from typing import NamedTuple

import psutil

_EVERY_S = 0.1
#: Times up to this long before the first and after the last sample are extrapolated.
_NEAR_S = 0.5


class Sample(NamedTuple):
    at: float  #: wall clock, as in the stat file
    memory_mb: float  #: resident
    cpu_s: float  #: since it started
    files: int  #: open descriptors


class Watcher(threading.Thread):
    """Samples a process until it ends, by default ten times per second."""

    def __init__(self, pid: int, every_s: float = _EVERY_S) -> None:
        super().__init__(name="watcher", daemon=True)
        self.samples: list[Sample] = []
        self._process = psutil.Process(pid)
        self._every_s = every_s
        self._over = threading.Event()

    def run(self) -> None:
        """Sample until the process ends."""
        try:
            while not self._over.wait(self._every_s):
                self.samples.append(self._sample())
        except psutil.Error:
            return

    def _sample(self) -> Sample:
        with self._process.oneshot():
            times = self._process.cpu_times()
            return Sample(
                time.time(),
                self._process.memory_info().rss / 1e6,
                times.user + times.system,
                self._process.num_fds(),
            )

    def stop(self) -> None:
        """Stop sampling."""
        self._over.set()
        self.join()

    def between(self, start: float, end: float) -> list[Sample]:
        """The samples from one time to another, and one before and after."""
        times = [sample.at for sample in self.samples]
        return self.samples[max(bisect(times, start) - 1, 0) : bisect(times, end) + 1]

    def cpu_between(self, start: float, end: float) -> float:
        """CPU seconds from one time to another, interpolated between samples.

        :raises ValueError: there is no sample within half a second of one of them.
        """
        return self._cpu_at(end) - self._cpu_at(start)

    def _cpu_at(self, at: float) -> float:
        times = [sample.at for sample in self.samples]
        if len(times) < 2 or not times[0] - _NEAR_S <= at <= times[-1] + _NEAR_S:
            raise ValueError(f"no sample near {at}")
        after = min(max(bisect(times, at), 1), len(times) - 1)
        one, two = self.samples[after - 1], self.samples[after]
        share = min(max((at - one.at) / (two.at - one.at), 0.0), 1.0)
        return one.cpu_s + (two.cpu_s - one.cpu_s) * share
