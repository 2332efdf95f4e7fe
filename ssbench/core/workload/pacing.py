"""Load models: when is the next operation due?

In a *closed* loop there are no due times: each user starts its next operation when the last one
completes, so a slow store reduces the load. An *open* loop has an arrival rate: due times do not
depend on the store, and response times count from them.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from random import Random
from typing import TYPE_CHECKING

from ssbench.core.model import Job, Phase, Stage

if TYPE_CHECKING:
    from ssbench.core.workload.workload import Workload

SECOND_NS = 1_000_000_000
#: Jobs travel at most this far ahead of their due time, and wait at the worker.
LOOKAHEAD_NS = SECOND_NS // 5
#: They are sent in groups of this much time. Sent one by one, they cost ten times as much as the
#: operation itself, because each message is acknowledged, and each ack triggers the next message.
SEND_INTERVAL_NS = LOOKAHEAD_NS // 4
#: An open loop begins this long after all workers are ready, so that they have its first jobs.
START_DELAY_NS = LOOKAHEAD_NS // 2


#: ``gaps(rate, rng)``: offsets from the stage's start in ns, rising, without end.
Arrivals = Callable[[float, Random], Iterator[int]]


def uniform(rate: float, rng: Random) -> Iterator[int]:
    """Evenly spaced, the first at once. Counted out, not added up: no error grows."""
    return (round(n * SECOND_NS / rate) for n in count())


def poisson(rate: float, rng: Random) -> Iterator[int]:
    """A Poisson process: exponential gaps, as of many clients who don't know of each other."""
    at_s = 0.0
    while True:
        at_s += rng.expovariate(rate)
        yield round(at_s * SECOND_NS)


#: ``--arrivals``
MODELS: dict[str, Arrivals] = {"uniform": uniform, "poisson": poisson}


def due_times(stages: Sequence[Stage], arrivals: Arrivals, rng: Random) -> Iterator[int]:
    """Offsets from the begin of the load in ns, rising; ends with the last stage, if that ends.

    Every stage must have a rate, and the last may be infinitely long. Each begins anew at its
    start, which for Poisson arrivals is no seam: the process has no memory.
    """
    start_ns = 0
    for stage in stages:
        assert stage.rate is not None  # nosec B101 # for the type checker
        end_ns = start_ns + stage.seconds * SECOND_NS
        for offset_ns in arrivals(stage.rate, rng):
            if start_ns + offset_ns >= end_ns:
                break
            yield start_ns + offset_ns
        start_ns = round(end_ns)


class StageSchedule:
    """Steps through stages without gaps.

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
        """The current stage."""
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
        """Advance to the stage at this time; True if the stage changed."""
        before = self.index
        while self.index + 1 < len(self._stages):
            end_ns = self._end_of(self.index)
            if end_ns is None or now_ns < end_ns:
                break
            self.index += 1
        return self.index != before

    def _end_of(self, index: int) -> int | None:
        seconds = sum(stage.seconds for stage in self._stages[: index + 1])
        return None if math.isinf(seconds) else self._begin_ns + round(seconds * SECOND_NS)


class PacedWorkload:
    """A workload whose jobs have due times: an open loop.

    A skipped operation (no object left) uses no due time: another is drawn instead.

    :param dues: as ``due_times`` gives them.
    :param most_per_s: the highest rate that is to come.
    """

    def __init__(self, inner: Workload, dues: Iterator[int], most_per_s: float) -> None:
        self.phase: Phase = inner.phase
        self.ahead = int(most_per_s * LOOKAHEAD_NS / SECOND_NS) + 1
        self._inner = inner
        self._dues = dues
        self._next: deque[int] = deque()  # taken from dues, and not given to a job yet
        self._over = False
        self._begin_ns = 0
        self._zero_s = 0.0
        self._given_back: list[int] = []  # due times of jobs that came back unstarted
        self._taken_to_ns = 0  # due time of the newest job that was taken

    def __repr__(self) -> str:
        return f"<PacedWorkload {self.taken} taken of {self._inner!r}>"

    def begin(self, now_s: float, offset_ns: int) -> None:
        """The load begins now, which is so long after the phase's start."""
        self._zero_s, self._begin_ns = now_s, offset_ns

    def take(self, first_number: int, limit: int, now_s: float) -> list[Job]:
        """Jobs that are due, or due soon, by due time."""
        reach_ns = round((now_s - self._zero_s) * SECOND_NS) + LOOKAHEAD_NS
        horizon_ns = reach_ns - reach_ns % SEND_INTERVAL_NS
        due = self._due_before(horizon_ns, limit)
        if not due:
            return []
        jobs = self._inner.take(first_number, due, now_s)
        jobs = [job._replace(due_ns=self._begin_ns + self._next.popleft()) for job in jobs]
        if jobs:
            self._taken_to_ns = jobs[-1].due_ns - self._begin_ns
        return jobs

    def _due_before(self, horizon_ns: int, limit: int) -> int:
        """How many are, up to the limit; they stand in ``_next``."""
        while len(self._next) < limit and not self._over:
            if self._next and self._next[-1] >= horizon_ns:
                break
            due_ns = next(self._dues, None)
            if due_ns is None:
                self._over = True
            else:
                self._next.append(due_ns)
        within = sum(due_ns < horizon_ns for due_ns in self._next)
        return min(within, limit)

    def never_started(self, now_s: float) -> int:
        """How many fell due before this time, and came to nobody: an open loop owes them."""
        now_ns = round((now_s - self._zero_s) * SECOND_NS)
        self._due_before(now_ns, 1 << 62)
        waiting = sum(due_ns < now_ns for due_ns in self._next)
        if self.total is not None:
            waiting = min(waiting, self.total - self.taken)
        return waiting + sum(due_ns - self._begin_ns < now_ns for due_ns in self._given_back)

    def waiting_since(self, now_s: float) -> float | None:
        """When jobs began to fall due that nobody has taken so far; None where none has."""
        if self.finished:
            return None
        oldest_ns = self._next[0] if self._next else self._taken_to_ns
        since_s = self._zero_s + oldest_ns / SECOND_NS
        return since_s if since_s < now_s else None

    # As the inner one's -------------------------------------------------------------------

    @property
    def taken(self) -> int:
        return self._inner.taken

    @property
    def skipped(self) -> Counter[int]:
        return self._inner.skipped

    @property
    def total(self) -> int | None:
        return self._inner.total

    @property
    def finished(self) -> bool:
        return self._inner.finished or (self._over and not self._next)

    @property
    def exhausted(self) -> str | None:
        return self._inner.exhausted

    def succeeded(self, jobs: Iterable[Job], now_s: float) -> None:
        self._inner.succeeded(jobs, now_s)

    def failed(self, job: Job, error: int, status: int, unknown: bool, now_s: float) -> None:
        self._inner.failed(job, error, status, unknown, now_s)

    def lost(self, jobs: Iterable[Job]) -> None:
        self._inner.lost(jobs)

    def withdrawn(self, jobs: Iterable[Job]) -> None:
        jobs = list(jobs)
        self._given_back += [job.due_ns for job in jobs]
        self._inner.withdrawn(jobs)
