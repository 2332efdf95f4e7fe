"""When a run that may end once it is steady does end: the master's counts, told second by second.

The seconds are of the master's clock and count from the start of the load; an operation belongs
to the second in which the master heard of its end, which is late by the same little in each.
"""

from __future__ import annotations

import math

from ssbench.core.stats.steady import AutoStop

_SECOND_NS = 1_000_000_000


class SteadyStateDetector:
    """Feeds an AutoStop with successes, and says in words that it has had enough.

    :param warmup_s: this much of the start doesn't count, as it doesn't in the statistics.
    """

    def __init__(self, stop: AutoStop, warmup_s: float = 0.0) -> None:
        self._stop = stop
        self._since_s = math.ceil(warmup_s)
        self._begin_ns = 0
        self._done = 0
        self._second = 0  # the last that was asked about

    def __repr__(self) -> str:
        return f"<Settling {self._stop!r} in second {self._second}, {self._done} done>"

    def begin(self, now_ns: int) -> None:
        """The load begins; once."""
        self._begin_ns = now_ns

    def heard(self, now_ns: int, done: int) -> str:
        """So many operations have succeeded by now; gives why the run may end, "" while it may not.

        To be called often: what came since the last call belongs to the second of this one.
        """
        second = (now_ns - self._begin_ns) // _SECOND_NS
        if done > self._done:
            self._stop.add(second, done - self._done)
            self._done = done
        if second == self._second:
            return ""
        self._second = second
        if not self._stop.steady(second, since_s=self._since_s):
            return ""
        return (
            f"the rate was steady at second {second}: within {100 * self._stop.tolerance:g} %"
            f" for {self._stop.window_s} s"
        )
