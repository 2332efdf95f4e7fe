"""A process seen from outside: its memory and processor time, moment by moment."""

from __future__ import annotations

import threading
import time
from bisect import bisect
from typing import NamedTuple

import psutil

_EVERY_S = 0.1
#: A process may end, or a look be late, while a time that is asked for is still so near.
_NEAR_S = 0.5


class Moment(NamedTuple):
    """How it stood at a moment."""

    at: float  #: wall clock, as in the stat file
    memory_mb: float  #: resident
    cpu_s: float  #: since it started
    files: int  #: open descriptors


class Watcher(threading.Thread):
    """Looks at a process, ten times a second unless told otherwise, until it ends."""

    def __init__(self, pid: int, every_s: float = _EVERY_S) -> None:
        super().__init__(name="watcher", daemon=True)
        self.moments: list[Moment] = []
        self._process = psutil.Process(pid)
        self._every_s = every_s
        self._over = threading.Event()

    def run(self) -> None:
        """Until the process is gone."""
        try:
            while not self._over.wait(self._every_s):
                self.moments.append(self._look())
        except psutil.Error:
            return

    def _look(self) -> Moment:
        with self._process.oneshot():
            times = self._process.cpu_times()
            return Moment(
                time.time(),
                self._process.memory_info().rss / 1e6,
                times.user + times.system,
                self._process.num_fds(),
            )

    def stop(self) -> None:
        """Look no more."""
        self._over.set()
        self.join()

    def between(self, start: float, end: float) -> list[Moment]:
        """What was seen from one time to another, and once before."""
        times = [moment.at for moment in self.moments]
        return self.moments[max(bisect(times, start) - 1, 0) : bisect(times, end) + 1]

    def cpu_between(self, start: float, end: float) -> float:
        """Processor time that it took from one time to another; in a straight line between looks.

        :raises ValueError: it wasn't looked at half a second before or after one of them.
        """
        return self._cpu_at(end) - self._cpu_at(start)

    def _cpu_at(self, at: float) -> float:
        times = [moment.at for moment in self.moments]
        if len(times) < 2 or not times[0] - _NEAR_S <= at <= times[-1] + _NEAR_S:
            raise ValueError(f"nobody looked near {at}")
        after = min(max(bisect(times, at), 1), len(times) - 1)
        one, two = self.moments[after - 1], self.moments[after]
        share = min(max((at - one.at) / (two.at - one.at), 0.0), 1.0)
        return one.cpu_s + (two.cpu_s - one.cpu_s) * share
