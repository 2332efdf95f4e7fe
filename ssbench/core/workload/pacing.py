"""When is the next operation due, and which stage of the load is current?

In a *closed* loop there are no due times: each user starts its next operation when the last one
completes, so a slow store reduces the load. An *open* loop has an arrival rate: due times do not
depend on the store, and response times count from them.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from random import Random

from ssbench.core.arrivals import Arrivals
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
        if stage.rate_to is None:
            offsets = arrivals(stage.rate, rng)
        else:  # the arrivals of one operation a second, at the times at which as many are due
            offsets = (ramp_time_ns(stage, at / SECOND_NS) for at in arrivals(1.0, rng))
        for offset_ns in offsets:
            if start_ns + offset_ns >= end_ns:
                break
            yield start_ns + offset_ns
        start_ns = int(end_ns)


def ramp_time_ns(stage: Stage, count: float) -> int:
    """When so many operations of a ramp are due, from its begin; its length if never."""
    rate, rate_to = stage.rate or 0.0, stage.rate_to or 0.0
    if count >= ramp_count(stage, stage.seconds):
        return round(stage.seconds * SECOND_NS)
    # rate * t + slope / 2 * t ** 2 = count, solved without a difference of large numbers
    slope = (rate_to - rate) / stage.seconds
    root = math.sqrt(max(rate * rate + 2 * slope * count, 0.0))
    return round(2 * count / (rate + root) * SECOND_NS)


def ramp_count(stage: Stage, at_s: float) -> float:
    """How many operations of a stage are due so long after its begin."""
    rate = stage.rate or 0.0
    if stage.rate_to is None or not at_s:
        return rate * at_s
    return rate * at_s + (stage.rate_to - rate) / stage.seconds * at_s * at_s / 2


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

    def of(self, group: int) -> DueTimes:
        """Those of a group of users: here all groups share them."""
        return self

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


class GroupDueTimes:
    """The due times of groups of users, each of which has its own."""

    def __init__(self, by_group: Mapping[int, DueTimes]) -> None:
        self._by_group = by_group

    def __repr__(self) -> str:
        return f"<GroupDueTimes {self._by_group}>"

    def of(self, group: int) -> DueTimes:
        """Those of a group that has some now."""
        return self._by_group[group]

    def begin(self, now_s: float, offset_ns: int) -> None:
        for dues in self._by_group.values():
            dues.begin(now_s, offset_ns)

    @property
    def finished(self) -> bool:
        return all(dues.finished for dues in self._by_group.values())

    def returned(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            if job.group in self._by_group:
                self._by_group[job.group].returned([job])

    def never_started(self, now_s: float) -> int:
        return sum(dues.never_started(now_s) for dues in self._by_group.values())

    def waiting_since(self, now_s: float) -> float | None:
        since = [dues.waiting_since(now_s) for dues in self._by_group.values()]
        return min((each for each in since if each is not None), default=None)

    def last_s(self, before_s: float) -> float | None:
        """None: known only of a number of operations, which groups with rates do not end."""
        return None


AnyDueTimes = DueTimes | GroupDueTimes


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
    """Steps through stages, without gaps but at barriers. Times are ns of the master's monotonic
    clock.

    :param stages: at least one; the last, and each before a barrier, may be infinitely long.
    """

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = tuple(stages)
        self.ended_ns = 0  #: when the load ended, once it has, or that before a barrier
        self.begin(0)

    def __repr__(self) -> str:
        return f"<StageSchedule stage {self.index + 1} of {len(self._stages)}>"

    def begin(self, now_ns: int, index: int = 0) -> None:
        """The first stage, or the one behind a barrier, begins."""
        stages = self._stages
        behind = index + 1
        while behind < len(stages) and not stages[behind].barrier:
            behind += 1
        self._first = index
        #: The stages between two barriers that the current one is among.
        self.together = stages[index:behind]
        #: The stage behind the next barrier; None: there is no barrier any more.
        self.behind_barrier = None if behind == len(stages) else behind
        # When they begin, and the last ends: exactly the times that due times count from.
        begin_s = [sum(s.seconds for s in stages[index:at]) for at in range(index, behind + 1)]
        self._edges_ns = [
            None if math.isinf(seconds) else now_ns + round(seconds * SECOND_NS)
            for seconds in begin_s
        ]
        #: When the last stage before a barrier, or of all, ends; None if it has no end.
        self.end_ns = self._edges_ns[-1]
        self._enter(index)

    def _enter(self, index: int) -> None:
        self.index = index  #: of the current stage
        self.stage = self._stages[index]
        began_ns, self.next_ns = self._edges_ns[index - self._first :][:2]
        #: When the current stage began; it ends at ``next_ns``, None: never.
        self.began_ns = began_ns or 0

    def users_at(self, now_ns: int) -> int | None:
        """How many users the current stage is to have now; None: as many as before."""
        stage = self.stage
        return stage.users_at((now_ns - self.began_ns) / SECOND_NS) if stage.users else None

    def groups_at(self, now_ns: int, count: int) -> tuple[int, ...]:
        """The same by group, of so many groups; () if the stage has none."""
        stage, share = self.stage, (now_ns - self.began_ns) / SECOND_NS / self.stage.seconds
        if not stage.groups:
            return ()
        own = [group.users_at(share) for group in stage.groups]
        after = count - stage.first_group - len(own)
        return (0,) * stage.first_group + tuple(own) + (0,) * after

    def due_between(self, from_ns: int, until_ns: int) -> float:
        """Expected number of operations due in an interval since the last barrier; 0 without a
        rate."""
        found, begin_ns = 0.0, float(self._edges_ns[0] or 0)
        for stage in self.together:
            end_ns = begin_ns + stage.seconds * SECOND_NS
            for of in stage.groups or (stage,):
                line = Stage(stage.seconds, rate=of.rate, rate_to=of.rate_to)
                low, high = max(from_ns, begin_ns), min(until_ns, end_ns)
                if low < high:
                    found += ramp_count(line, (high - begin_ns) / SECOND_NS)
                    found -= ramp_count(line, (low - begin_ns) / SECOND_NS)
            begin_ns = end_ns
        return found

    def advance(self, now_ns: int) -> bool:
        """Whether the current stage is over at this time and has a next one before a barrier, which
        it goes to."""
        end_ns = self.next_ns
        if end_ns is None or now_ns < end_ns or self.index + 1 == self._first + len(self.together):
            return False
        self._enter(self.index + 1)
        return True
