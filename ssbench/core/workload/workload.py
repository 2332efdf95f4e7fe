"""Workloads: the jobs of a phase. The run of a scenario is in ``bench``; here are those of populate
and cleanup, and those on objects by their number alone, of which nothing is kept.

A workload gives jobs and learns the outcome of each, once: succeeded, failed, lost with its
worker, or withdrawn (returned unstarted, and not sent again). The outcome may come under another
job number: operation and object identify a job.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any, cast

from ssbench.core.content import initial_size
from ssbench.core.model import NONE_NS, UNKNOWN_SIZE, Failure, Group, Job, Phase, SizeClass
from ssbench.core.operations import Body, Effect, of_phase, row_of
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.workload.division import Division
from ssbench.core.workload.pacing import AnyDueTimes
from ssbench.core.workload.population import ObjectPool, Population, Version

NOT_FOUND = 404
_new = tuple.__new__  # Job(...) takes twice as long


class Workload(ABC):
    """A source of jobs. The defaults are those of a closed loop with one group of users."""

    phase: Phase
    #: Users of each group; a job is for the users of its group only. (): there is one group.
    groups: tuple[int, ...] = ()
    dues: AnyDueTimes | None = None  #: of an open loop
    total: int | None = None  #: number of jobs; None if the phase ends by time
    taken = 0  #: jobs given so far
    skipped: Mapping[int, int] = MappingProxyType({})  #: draws that found no object, by operation
    knows_versions = False  #: it wants to know which versions uploads made
    is_divided = False  #: among identities

    def __repr__(self) -> str:
        total = "" if self.total is None else f" of {self.total}"
        return f"<{type(self).__name__} {self.taken}{total} taken>"

    @property
    def left_behind(self) -> int:
        """Number of objects that it created and that may be in the store."""
        return 0

    @property
    def left_unknown(self) -> int:
        """Number of those whose creation or removal had an unknown outcome."""
        return 0

    def cleanup(self) -> Workload | None:
        """The workload that removes what is left behind; None if that is nothing.

        Call it when the run is over: what is in flight then counts as perhaps in the store.
        """
        return None

    @property
    def finished(self) -> bool:
        """Whether ``take`` will never give another job, whatever the outcomes in flight."""
        return self.taken == self.total

    @property
    def exhausted(self) -> str | None:
        """Why no more jobs are possible before the total is reached, as a sentence; else None."""
        return None

    def begin_stage(self, index: int) -> None:  # noqa: B027 # most have one stage
        """The stage of the load at this index begins, the first or one behind a barrier."""

    @abstractmethod
    def take(self, first_number: int, limit: int, now_s: float, group: int = 0) -> list[Job]:
        """Up to ``limit`` jobs, numbered from ``first_number``; [] if there is none now."""

    def made(self, job: Job, version_id: bytes) -> None:  # noqa: B027 # most keep no versions
        """This job, which is about to succeed, has made, or found, a version of this id."""

    @abstractmethod
    def succeeded(self, jobs: Iterable[Job], now_s: float) -> None:
        """These jobs succeeded."""

    @abstractmethod
    def failed(self, job: Job, failure: Failure, now_s: float) -> None:
        """This job failed."""

    def lost(self, jobs: Iterable[Job]) -> None:
        """These jobs were held by a worker that is lost."""
        for job in jobs:
            self.failed(job, Failure(unknown=True), 0.0)

    @abstractmethod
    def withdrawn(self, jobs: Iterable[Job]) -> None:
        """These jobs were returned unstarted and will not be sent again."""


def initial_jobs(scenario: Scenario, division: Division | None = None) -> InitialWorkload:
    """The populate phase of a scenario, with a new population, which may be divided."""
    sizes: Sequence[SizeClass] = scenario.sizes
    named: list[Callable[[int], int]] = []
    if division is not None:
        sizes = division.sizes(sizes)
        named = [partial(division.number, index) for index in range(len(sizes))]
    population = Population(sizes, scenario.delete_after, scenario.uses_versions, named)
    return InitialWorkload(population)


class ListWorkload(Workload):
    """One operation for each object of a list. A lost one is repeated once, as that is harmless.

    :param objects: (size class, number, size).
    """

    def __init__(self, objects: Iterator[tuple[int, int, int]], total: int) -> None:
        self.total = total
        operation = int(of_phase(self.phase)[0])
        self._fields = (  # of jobs, all but their number
            (operation, index, number, 0, size, NONE_NS, (), (), 0)
            for index, number, size in objects
        )
        self._again: deque[tuple[Any, ...]] = deque()
        self._lost: set[tuple[int, int]] = set()

    def take(self, first_number: int, limit: int, now_s: float, group: int = 0) -> list[Job]:
        rows = [self._again.popleft() for _ in range(min(limit, len(self._again)))]
        rows += islice(self._fields, limit - len(rows))
        self.taken += len(rows)
        return [_new(Job, (number, *row)) for number, row in enumerate(rows, first_number)]

    def lost(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            key = (job.size_class, job.object)
            if key in self._lost:
                self._give_up(job)
            else:
                self._lost.add(key)
                self._again.append(job[1:])
                self.taken -= 1

    def failed(self, job: Job, failure: Failure, now_s: float) -> None:
        self.withdrawn([job])

    def withdrawn(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self._give_up(job)

    def _give_up(self, job: Job) -> None:
        """A job failed, was withdrawn, or was lost twice."""


class EnsureWorkload(ListWorkload):
    """Ensures that objects exist before the run."""

    phase = Phase.POPULATE
    missing = 0  #: objects whose existence is not known

    def succeeded(self, jobs: Iterable[Job], now_s: float) -> None:
        """They exist; nothing changes."""

    def _give_up(self, job: Job) -> None:
        self.missing += 1


class InitialWorkload(EnsureWorkload):
    """Ensures that every initial object exists. Those that may be missing leave the population."""

    def __init__(self, population: Population) -> None:
        counts = [pool.size_class.initial_files for pool in population.pools]
        objects = (
            (index, number, pool.size(number))
            for index, pool in enumerate(population.pools)
            for number in range(counts[index])
        )
        super().__init__(objects, sum(counts))
        self.population = population
        self.knows_versions = population.knows_versions

    def made(self, job: Job, version_id: bytes) -> None:
        note_version(self.population, job, version_id)

    def take(self, first_number: int, limit: int, now_s: float, group: int = 0) -> list[Job]:
        jobs = super().take(first_number, limit, now_s)
        for job in jobs if self.population.delete_after_s else ():
            self._pool(job).writing(job.object, now_s)
        return jobs

    def succeeded(self, jobs: Iterable[Job], now_s: float) -> None:
        """They are in the population from the start; those that expire were put just now."""
        for job in jobs if self.population.delete_after_s else ():
            self._pool(job).written(job.object, True)

    def lost(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self._pool(job).written(job.object, False)
            super().lost([job])

    def withdrawn(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self._pool(job).written(job.object, False)
            super().withdrawn([job])

    def _give_up(self, job: Job) -> None:
        self._pool(job).leave(job.object)
        super()._give_up(job)

    def _pool(self, job: Job) -> ObjectPool:
        return self.population.pools[job.size_class]


def note_version(population: Population, job: Job, version_id: bytes) -> None:
    """A job has made, or found, a version."""
    history = population.pools[job.size_class].history
    if history is not None and row_of(job.operation).body is Body.SENT:
        history.made(Version(job.object, version_id, job.version, job.size))


class CleanupWorkload(ListWorkload):
    """Removes each created object that may be in the store. Objects whose removal failed remain
    orphaned.
    """

    phase = Phase.CLEANUP

    def __init__(self, population: Population) -> None:
        objects = (
            (index, number, 0)
            for index, pool in enumerate(population.pools)
            for number in pool.created()
        )
        super().__init__(objects, population.left_behind)
        self._pools = population.pools

    def succeeded(self, jobs: Iterable[Job], now_s: float) -> None:
        for job in jobs:
            self._pools[job.size_class].set_absent(job.object)


class NumberedWorkload(Workload):
    """One operation on each of ``count`` objects, in the order of their numbers, repeatedly.

    Their sizes follow from their numbers (``core.content.initial_size``), so a run finds the
    objects of an earlier one.

    :param size_class: its sizes are those of the objects; None: nothing is known of their sizes.
    :param iterations: how often each object has its turn.
    :param sizes: of the objects, by number, in place of those that follow from the class.
    """

    phase = Phase.RUN

    def __init__(
        self,
        operation: int,
        size_class: SizeClass | None,
        count: int,
        iterations: int = 1,
        sizes: Sequence[int] | None = None,
    ) -> None:
        self.total: int = count * iterations
        self._operation, self._size_class, self._count = int(operation), size_class, count
        self._sizes = sizes

    def take(self, first_number: int, limit: int, now_s: float, group: int = 0) -> list[Job]:
        begin = self.taken
        self.taken = min(begin + limit, self.total)
        numbers = [turn % self._count for turn in range(begin, self.taken)]
        if self._sizes is None:
            sizes: Iterable[int] = _sizes(self._size_class, numbers)
        else:
            sizes = [self._sizes[number] for number in numbers]
        return _jobs(self._operation, sizes, numbers, first_number, 0)

    def succeeded(self, jobs: Iterable[Job], now_s: float) -> None:
        """Does nothing, as do the methods of the other outcomes."""

    def failed(self, job: Job, failure: Failure, now_s: float) -> None:
        pass

    def withdrawn(self, jobs: Iterable[Job]) -> None:
        pass


class NumberedRun(Workload):
    """A run phase that creates objects of one class, and knows them by their numbers alone."""

    phase = Phase.RUN
    removed = 0  #: objects that the clean-up has removed

    def cleanup(self) -> Workload | None:
        return NumberedCleanup(self) if self.left_behind else None

    @abstractmethod
    def numbers_left(self) -> Iterator[int]:
        """Those of all objects that it created and that may be in the store."""


class NumberedCleanup(ListWorkload):
    """Removes what a run has left."""

    phase = Phase.CLEANUP

    def __init__(self, run: NumberedRun) -> None:
        super().__init__(((0, number, 0) for number in run.numbers_left()), run.left_behind)
        self._run = run

    def succeeded(self, jobs: Iterable[Job], now_s: float) -> None:
        self._run.removed += len(list(jobs))


class MixedWorkload(NumberedRun):
    """Groups of users that create, use and remove objects, each group with one operation.

    Objects are created in the order of their numbers. The groups that use objects go round those
    that exist. A removal takes the lowest number, once nothing is in flight on it. Memory follows
    the number of failures, not that of objects.

    :param groups: each with a profile of one operation on one object.
    :param behind: objects that exist before the first is removed, and from then on.
    """

    def __init__(self, size_class: SizeClass, groups: Sequence[Group], behind: int) -> None:
        self.groups = tuple(group.users for group in groups)
        self._size_class, self._behind = size_class, behind
        self._rows = [row_of(operation) for ((operation, _share),) in (g.profile for g in groups)]
        self._next = 0  # number of the next object
        self._pending: set[int] = set()  # creations in flight
        self._absent: set[int] = set()  # from _oldest on, those that were perhaps not created
        self._oldest = 0  # the lowest number that may be used
        self._closed: deque[int] = deque()  # lower ones that are to be removed
        self._left = array("I")  # others that may be in the store, for the clean-up
        self._busy: Counter[int] = Counter()  # operations in flight that use an object
        self._last_used = [-1] * len(groups)

    @property
    def left_behind(self) -> int:
        known = self._next - self._oldest - len(self._absent)
        return known + len(self._closed) + len(self._left) - self.removed

    def numbers_left(self) -> Iterator[int]:
        yield from self._left
        yield from self._closed
        yield from (n for n in range(self._oldest, self._next) if n not in self._absent)

    def take(self, first_number: int, limit: int, now_s: float, group: int = 0) -> list[Job]:
        row = self._rows[group]
        numbers: Sequence[int]
        if row.effect is Effect.CREATES:
            numbers = range(self._next, self._next + limit)
            self._next += limit
            self._pending.update(numbers)
        elif row.effect is Effect.REMOVES:
            numbers = self._to_remove(limit)
        else:
            numbers = self._to_use(limit, group)
            self._busy.update(numbers)
        self.taken += len(numbers)
        sizes = _sizes(self._size_class, numbers)
        return _jobs(int(row), sizes, numbers, first_number, group)

    def _to_remove(self, limit: int) -> list[int]:
        closed = self._closed
        end = self._next - len(self._pending) - self._behind
        while len(closed) < limit and self._oldest < end and self._oldest not in self._pending:
            if self._oldest in self._absent:
                self._absent.remove(self._oldest)
            else:
                closed.append(self._oldest)
            self._oldest += 1
        idle = [number for number in closed if number not in self._busy][:limit]
        for number in idle:
            closed.remove(number)
        return idle

    def _to_use(self, limit: int, group: int) -> list[int]:
        low, high = self._oldest, self._next
        numbers: list[int] = []
        if len(self._absent) + len(self._pending) >= high - low:
            return numbers
        number = self._last_used[group]
        while len(numbers) < limit:
            number = number + 1 if low <= number + 1 < high else low
            if number not in self._absent and number not in self._pending:
                numbers.append(number)
        self._last_used[group] = number
        return numbers

    def succeeded(self, jobs: Iterable[Job], now_s: float) -> None:
        for job in jobs:
            effect = self._rows[job.group].effect
            if effect is Effect.CREATES:
                self._pending.remove(job.object)
            elif effect is not Effect.REMOVES:
                self._release(job.object)

    def failed(self, job: Job, failure: Failure, now_s: float) -> None:
        effect = self._rows[job.group].effect
        if effect is Effect.CREATES:
            self._pending.remove(job.object)
            self._absent.add(job.object)
        elif effect is not Effect.REMOVES:
            self._release(job.object)
        if (effect is Effect.CREATES and failure.unknown) or (
            effect is Effect.REMOVES and failure.status != NOT_FOUND
        ):
            self._left.append(job.object)

    def withdrawn(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            if self._rows[job.group].effect is Effect.REMOVES:
                self._closed.append(job.object)
            else:
                self.failed(job, Failure(), 0.0)

    def _release(self, number: int) -> None:
        """An operation that used this object has ended."""
        self._busy[number] -= 1
        if not self._busy[number]:
            del self._busy[number]


def _sizes(size_class: SizeClass | None, numbers: Sequence[int]) -> list[int]:
    size = UNKNOWN_SIZE if size_class is None else size_class.size_min
    if size_class is None or size_class.size_max == size:
        return [size] * len(numbers)
    return [initial_size(size_class, number) for number in numbers]


def _jobs(
    operation: int,
    sizes: Iterable[int],
    numbers: Sequence[int],
    first_number: int,
    group: int,
) -> list[Job]:
    return [
        _new(Job, (job, operation, 0, number, 0, size, NONE_NS, (), (), group))
        for job, (number, size) in enumerate(zip(numbers, sizes, strict=True), first_number)
    ]


class DividedWorkload:
    """A workload on the classes inside, as the master sees it."""

    is_divided = True

    def __init__(self, inner: Workload, division: Division) -> None:
        self._inner = inner
        self._division = division

    def __repr__(self) -> str:
        return f"<DividedWorkload among {self._division.count}: {self._inner!r}>"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def take(self, first_number: int, limit: int, now_s: float, group: int = 0) -> list[Job]:
        jobs = self._inner.take(first_number, limit, now_s, group)
        return [*map(self._division.outer_job, jobs)]

    def made(self, job: Job, version_id: bytes) -> None:
        self._inner.made(self._division.inner_job(job), version_id)

    def succeeded(self, jobs: Iterable[Job], now_s: float) -> None:
        self._inner.succeeded(map(self._division.inner_job, jobs), now_s)

    def failed(self, job: Job, failure: Failure, now_s: float) -> None:
        self._inner.failed(self._division.inner_job(job), failure, now_s)

    def lost(self, jobs: Iterable[Job]) -> None:
        self._inner.lost(map(self._division.inner_job, jobs))

    def withdrawn(self, jobs: Iterable[Job]) -> None:
        self._inner.withdrawn(map(self._division.inner_job, jobs))


def divided(workload: Workload, division: Division | None) -> Workload:
    """The workload as the master sees it; itself if the load is not divided."""
    if division is None:
        return workload
    return cast("Workload", DividedWorkload(workload, division))
