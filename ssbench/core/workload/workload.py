"""Workloads: the jobs of a phase. Those of populate and cleanup are here, the run's in ``bench``.

A workload gives jobs and learns the outcome of each, once: succeeded, failed, lost with its
worker, or withdrawn (returned unstarted, and not sent again). The outcome may come under another
job number: operation and object identify a job.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any

from ssbench.core.model import NONE_NS, Failure, Job, Phase
from ssbench.core.operations import of_phase
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.workload.pacing import DueTimes
from ssbench.core.workload.population import ObjectPool, Population

NOT_FOUND = 404
_new = tuple.__new__  # Job(...) takes twice as long


class Workload(ABC):
    """A source of jobs. The defaults are those of a closed loop with one group of users."""

    phase: Phase
    #: Users of each group; a job is for the users of its group only. (): there is one group.
    groups: tuple[int, ...] = ()
    dues: DueTimes | None = None  #: of an open loop
    total: int | None = None  #: number of jobs; None if the phase ends by time
    taken = 0  #: jobs given so far
    skipped: Mapping[int, int] = MappingProxyType({})  #: draws that found no object, by operation

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

    @abstractmethod
    def take(self, first_number: int, limit: int, now_s: float, group: int = 0) -> list[Job]:
        """Up to ``limit`` jobs, numbered from ``first_number``; [] if there is none now."""

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


def initial_jobs(scenario: Scenario) -> InitialWorkload:
    """The populate phase of a scenario, with a new population."""
    return InitialWorkload(Population(scenario.sizes, scenario.delete_after))


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
