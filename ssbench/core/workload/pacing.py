"""Load models: when is the next operation due, and which stage of the load is current?

In a *closed* loop there are no due times: each user starts its next operation when the last one
completes, so a slow store reduces the load. An *open* loop has an arrival rate: due times do not
depend on the store, and response times count from them.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count, islice
from random import Random

from ssbench.core.model import SECOND_NS, Job, Stage

#: Jobs travel at most this far ahead of their due time, and wait at the worker.
LOOKAHEAD_NS = SECOND_NS // 5
#: They are sent in groups of this much time. Sent one by one, they cost ten times as much as the
#: operation itself, because each message is acknowledged, and each ack triggers the next message.
SEND_INTERVAL_NS = LOOKAHEAD_NS // 4
#: An open loop begins this long after all workers are ready, so that they have its first jobs.
START_DELAY_NS = LOOKAHEAD_NS // 2
#: Missed due times that are counted one by one, at 1 us each while the master's loop waits; the
#: number beyond is estimated.
MAX_COUNTED = 100_000

#: ``arrivals(rate, rng)``: endless rising offsets in ns from the stage's start.
Arrivals = Callable[[float, Random], Iterator[int]]


def uniform(rate: float, rng: Random) -> Iterator[int]:
    """Evenly spaced, the first at 0. Each is computed from its index: no error accumulates."""
    return (round(n * SECOND_NS / rate) for n in count())


def poisson(rate: float, rng: Random) -> Iterator[int]:
    """A Poisson process: exponential gaps, as of many independent clients."""
    at_s = 0.0
    while True:
        at_s += rng.expovariate(rate)
        yield round(at_s * SECOND_NS)


#: ``--arrivals``
MODELS: dict[str, Arrivals] = {"uniform": uniform, "poisson": poisson}


def due_times(stages: Sequence[Stage], arrivals: Arrivals, rng: Random) -> Iterator[int]:
    """Rising offsets in ns from the begin of the load; ends with the last stage, if that ends.

    Every stage must have a rate, and the last may be infinitely long. Arrivals restart with each
    stage, which does not distort a Poisson process: it has no memory.
    """
    start_ns = 0
    for number, stage in enumerate(stages, 1):
        assert stage.rate is not None  # nosec B101 # for the type checker
        seconds = sum(each.seconds for each in stages[:number])
        # As StageSchedule rounds it: no operation is due at the end itself.
        end_ns = seconds if math.isinf(seconds) else round(seconds * SECOND_NS)
        for offset_ns in arrivals(stage.rate, rng):
            if start_ns + offset_ns >= end_ns:
                break
            yield start_ns + offset_ns
        start_ns = int(end_ns)


class DueTimes:
    """The due times of an open loop: how many jobs can be sent, and how many were missed.

    A due time belongs to no job until one is drawn, so a skipped operation uses none.

    :param offsets: rising, in ns from the begin of the load; no more than there may be jobs.
    :param most_per_s: their highest rate.
    :param expected: how many may be expected between two offsets; None: they are always counted.
    :param again: the same offsets, which are read as time passes, whether or not jobs are drawn;
        None: ``last_s`` is not asked for.
    """

    def __init__(
        self,
        offsets: Iterator[int],
        most_per_s: float,
        expected: Callable[[int, int], float] | None = None,
        again: Iterator[int] | None = None,
    ) -> None:
        #: Jobs that may wait at workers for their time.
        self.ahead = int(most_per_s * LOOKAHEAD_NS / SECOND_NS) + 1
        self._offsets = offsets
        self._expected = expected
        self._next: deque[int] = deque()  # read from offsets, not yet given to a job
        self._ended = False
        self._again = again
        self._last_ns = 0  # the latest of them that was read
        self._begin_ns = 0
        self._begin_s = 0.0
        self._returned: list[int] = []  # due times of jobs that were returned unstarted

    def __repr__(self) -> str:
        return f"<DueTimes {len(self._next)} known{', ended' if self._ended else ''}>"

    def begin(self, now_s: float, offset_ns: int) -> None:
        """The load begins now, ``offset_ns`` after the phase's start."""
        self._begin_s, self._begin_ns = now_s, offset_ns

    @property
    def finished(self) -> bool:
        """Whether no due time is left."""
        return self._ended and not self._next

    def ready(self, limit: int, now_s: float) -> int:
        """How many jobs, up to the limit, are due or will be due soon."""
        reach_ns = self._since_begin_ns(now_s) + LOOKAHEAD_NS
        return self._due_before(reach_ns - reach_ns % SEND_INTERVAL_NS, limit)

    def stamp(self, jobs: Sequence[Job]) -> list[Job]:
        """These jobs with the next due times, as offsets from the phase's start."""
        return [job._replace(due_ns=self._begin_ns + self._next.popleft()) for job in jobs]

    def returned(self, jobs: Iterable[Job]) -> None:
        """These jobs were returned unstarted and will not be sent again."""
        self._returned += [job.due_ns for job in jobs]

    def never_started(self, now_s: float) -> int:
        """How many jobs fell due before this time and were not started.

        Beyond MAX_COUNTED it is an estimate, which may exceed the number of jobs that are left.
        """
        now_ns = self._since_begin_ns(now_s)
        returned = sum(due_ns - self._begin_ns < now_ns for due_ns in self._returned)
        if self._expected is None:
            return self._due_before(now_ns, 1 << 62) + returned
        found = self._due_before(now_ns, MAX_COUNTED)
        if found == MAX_COUNTED:
            found += round(self._expected(self._next[found - 1], now_ns))
        return found + returned

    def waiting_since(self, now_s: float) -> float | None:
        """Since when due times wait for a job; None if none does."""
        if not self._due_before(self._since_begin_ns(now_s), 1):
            return None
        return self._begin_s + self._next[0] / SECOND_NS

    def last_s(self, before_s: float) -> float | None:
        """When the last one is; None if it is not before this time."""
        horizon_ns = self._since_begin_ns(before_s)
        while self._again is not None and self._last_ns < horizon_ns:
            due_ns = next(self._again, None)
            if due_ns is None:
                return self._begin_s + self._last_ns / SECOND_NS
            self._last_ns = due_ns
        return None

    def _since_begin_ns(self, now_s: float) -> int:
        return round((now_s - self._begin_s) * SECOND_NS)

    def _due_before(self, horizon_ns: int, limit: int) -> int:
        """How many are due before the horizon, up to the limit; these are in ``_next`` then."""
        while len(self._next) < limit and not self._ended:
            if self._next and self._next[-1] >= horizon_ns:
                break
            due_ns = next(self._offsets, None)
            if due_ns is None:
                self._ended = True
            else:
                self._next.append(due_ns)
        return sum(due_ns < horizon_ns for due_ns in islice(self._next, limit))


class Backlog:
    """How many operations of an open loop are due and not complete, as time passes.

    For displays; a report has a better verdict (core.stats.windows.ResponseTrend).
    """

    _SHARE = 0.01  #: of what fell due
    _CHANCE = 3  #: standard deviations of Poisson arrivals

    def __init__(self) -> None:
        self._seen: list[tuple[float, float, float]] = []  # seconds, due, not complete

    def __repr__(self) -> str:
        return f"<Backlog {self._seen[-1:]}>"

    def grows(self, at_s: float, due: float, completed: int) -> bool:
        """Whether it grew since half of the time; to be called with rising times, twice a second
        or so."""
        self._seen.append((at_s, due, due - completed))
        _half_s, due_then, left_then = self._seen[bisect_left(self._seen, (at_s / 2,))]
        since = due - due_then
        return due - completed - left_then > self._SHARE * since + self._CHANCE * math.sqrt(since)


class StageSchedule:
    """Steps through stages without gaps. Times are ns of the master's monotonic clock.

    :param stages: at least one; the last may be infinitely long.
    """

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = tuple(stages)
        self._begin_ns = 0
        self.index = 0  #: of the current stage
        self.ended_ns = 0  #: when the load ended, once it has

    def __repr__(self) -> str:
        return f"<StageSchedule stage {self.index + 1} of {len(self._stages)}>"

    def begin(self, now_ns: int) -> None:
        """The first stage begins."""
        self._begin_ns = now_ns
        self.index = 0

    @property
    def stage(self) -> Stage:
        return self._stages[self.index]

    @property
    def began_ns(self) -> int:
        """When the current stage began: exactly the time that its due times count from."""
        seconds = sum(stage.seconds for stage in self._stages[: self.index])
        return self._begin_ns + round(seconds * SECOND_NS)

    @property
    def end_ns(self) -> int | None:
        """When the last stage ends; None if it has no end."""
        return self._end_of(len(self._stages) - 1)

    @property
    def next_ns(self) -> int | None:
        """When the current stage ends; None if it has no end."""
        return self._end_of(self.index)

    def due_between(self, from_ns: int, until_ns: int) -> float:
        """Expected number of operations due in an interval; 0 without a rate."""
        found, begin_ns = 0.0, float(self._begin_ns)
        for stage in self._stages:
            end_ns = begin_ns + stage.seconds * SECOND_NS
            seconds = (min(until_ns, end_ns) - max(from_ns, begin_ns)) / SECOND_NS
            found += max(seconds, 0.0) * (stage.rate or 0.0)
            begin_ns = end_ns
        return found

    def advance(self, now_ns: int) -> bool:
        """Whether the current stage is over at this time and has a next one, which it goes to."""
        end_ns = self.next_ns
        if end_ns is None or now_ns < end_ns or self.index + 1 == len(self._stages):
            return False
        self.index += 1
        return True

    def _end_of(self, index: int) -> int | None:
        seconds = sum(stage.seconds for stage in self._stages[: index + 1])
        return None if math.isinf(seconds) else self._begin_ns + round(seconds * SECOND_NS)
