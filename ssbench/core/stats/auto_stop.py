"""Decides during a run whether its rate has been steady for long enough.

Seconds count from the start of the load, by the master's clock. An operation belongs to the second
in which the master received its result.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from statistics import fmean

from ssbench.core.model import SECOND_NS

_PARTS = 5  #: of a window


class SteadyStateDetector:
    """Tells when a run has been steady for long enough to end it.

    A run is steady if the mean rate of successes in the last ``window_s`` whole seconds is above 0
    and differs by at most ``tolerance`` (as a fraction of it) from

    - the mean of the ``window_s`` before these, and
    - the mean of each fifth of the window (of each second if there are fewer than 5).

    So it takes at least two windows, and a ramp, a stall, or noise beyond the tolerance delays the
    end. Only two windows are kept.

    :param warmup_s: seconds at the start that do not count, as in the statistics.
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
        self._second = 0  # of the last call
        self._counts: Counter[int] = Counter()  # successes by second

    def __repr__(self) -> str:
        return f"<SteadyStateDetector in second {self._second}, {self._done} done>"

    def begin(self, now_ns: int) -> None:
        """The load begins; once."""
        self._begin_ns = now_ns

    def reason_to_end(self, now_ns: int, done: int) -> str:
        """Why the run may end; "" if it may not.

        Must be called often: what completed since the last call counts for the present second.

        :param done: operations that have succeeded so far.
        """
        second = (now_ns - self._begin_ns) // SECOND_NS
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
        """Whether it was steady in the two windows before this second."""
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
