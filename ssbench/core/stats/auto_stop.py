"""Ends a run once it is steady. Pure Python: it decides during the run.

The seconds are of the master's clock and count from the start of the load; an operation belongs
to the second in which the master received its result, which is late by the same little in each.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from statistics import fmean

_SECOND_NS = 1_000_000_000
_PARTS = 5  #: of a window


class SteadyStateDetector:
    """Says when a run has been steady for long enough to end it.

    It has when, of the whole seconds so far, the mean rate of successes of the last ``window_s`` is
    above 0 and differs by at most ``tolerance`` (a share of it) from

    - the mean of the ``window_s`` before those, and
    - the mean of each fifth of the window itself (of each second, where it has fewer than 5).

    So it takes two windows at least, and a ramp, a stall, or noise beyond the tolerance in either
    puts the end off. Of the past it keeps two windows.

    :param warmup_s: this much of the start doesn't count, as it doesn't in the statistics.
    """

    def __init__(
        self, *, window_s: int = 15, tolerance: float = 0.075, warmup_s: float = 0.0
    ) -> None:
        if window_s < 1 or not 0 < tolerance < 1:
            raise ValueError("a window of 1 s or more, and a tolerance between 0 and 1")
        self.window_s = window_s
        self.tolerance = tolerance
        self._since_s = math.ceil(warmup_s)
        self._begin_ns = 0
        self._done = 0
        self._second = 0  # the last that was asked about
        self._counts: Counter[int] = Counter()  # successes by second

    def __repr__(self) -> str:
        return f"<SteadyStateDetector in second {self._second}, {self._done} done>"

    def begin(self, now_ns: int) -> None:
        """The load begins; once."""
        self._begin_ns = now_ns

    def reason_to_end(self, now_ns: int, done: int) -> str:
        """Why the run may end, "" while it may not.

        To be called often: what completed since the last call counts to the second of this one.

        :param done: operations that have succeeded by now.
        """
        second = (now_ns - self._begin_ns) // _SECOND_NS
        self._counts[second] += done - self._done
        self._done = done
        if second == self._second:
            return ""
        self._second = second
        if not self._steady(second):
            return ""
        return (
            f"the rate was steady at second {second}: within {100 * self.tolerance:g} %"
            f" for {self.window_s} s"
        )

    def _steady(self, now_s: int) -> bool:
        """Whether it was in the two windows before this second."""
        begin = now_s - 2 * self.window_s
        for second in [second for second in self._counts if second < begin]:
            del self._counts[second]
        if begin < self._since_s:
            return False
        window = range(now_s - self.window_s, now_s)
        mean = self._mean(window)
        parts = min(_PARTS, self.window_s)
        cuts = [part * self.window_s // parts for part in range(parts + 1)]
        means = [self._mean(range(begin, window.start))]
        means += [self._mean(window[a:b]) for a, b in pairwise(cuts)]
        return mean > 0 and all(abs(each - mean) <= self.tolerance * mean for each in means)

    def _mean(self, seconds: range) -> float:
        return fmean(self._counts[second] for second in seconds)
