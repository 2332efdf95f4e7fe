"""Workloads: the jobs of the three phases.

A workload produces jobs and is told the outcome of each, once: succeeded, failed, lost with its
worker, or withdrawn (returned unstarted, and not sent again). A job may be reported under another
number than it was produced with; its operation and object identify it. The operations of the run
itself are in ``core.workload.bench``.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from itertools import chain, islice
from random import Random
from typing import TYPE_CHECKING, Protocol

from ssbench.core.model import NONE_NS, Job, Phase
from ssbench.core.operations import of_phase
from ssbench.core.workload.bench import BenchWorkload
from ssbench.core.workload.pacing import MODELS, PacedWorkload, due_times
from ssbench.core.workload.population import Population

if TYPE_CHECKING:
    from ssbench.core.scenario.scenario import Scenario

# Plain ints: a job's fields are compared and packed far more often than they are printed.
_POPULATING = int(of_phase(Phase.POPULATE)[0])
_CLEANING_UP = int(of_phase(Phase.CLEANUP)[0])
_new = tuple.__new__  # Job(...) takes twice as long


class Workload(Protocol):
    """A source of jobs that is told their outcomes."""

    phase: Phase

    @property
    def taken(self) -> int:
        """Jobs produced so far."""

    @property
    def skipped(self) -> Counter[int]:
        """Drawn operations that found no object."""

    @property
    def ahead(self) -> int:
        """Jobs that may wait at workers for their time."""

    def begin(self, now_s: float, offset_ns: int) -> None:
        """The load begins now, ``offset_ns`` after the phase's start."""

    def never_started(self, now_s: float) -> int:
        """Number of jobs due before this time that were never started."""

    def waiting_since(self, now_s: float) -> float | None:
        """When jobs began to fall due that nobody has taken so far; None where none has."""

    @property
    def total(self) -> int | None:
        """Total number of jobs; None if the phase ends by time."""

    @property
    def finished(self) -> bool:
        """Whether ``take`` will never return another job, whatever the outcomes in flight."""

    @property
    def exhausted(self) -> str | None:
        """Why no more jobs are possible before the total is reached, as a sentence; else None."""

    def take(self, first_number: int, limit: int, now_s: float) -> list[Job]:
        """Up to ``limit`` jobs, numbered upwards from ``first_number``; [] for none just now."""

    def succeeded(self, jobs: Iterable[Job], now_s: float) -> None:
        """These jobs succeeded."""

    def failed(self, job: Job, error: int, status: int, unknown: bool, now_s: float) -> None:
        """This job failed. ``unknown``: the store may have applied it nevertheless."""

    def lost(self, jobs: Iterable[Job]) -> None:
        """These jobs were held by a worker that is lost."""

    def withdrawn(self, jobs: Iterable[Job]) -> None:
        """These jobs were returned unstarted and will not be sent again."""


def initial_jobs(scenario: Scenario) -> InitialWorkload:
    """The populate phase: an ENSURE for every initial object, made as they are taken."""
    return InitialWorkload(Population(scenario.sizes, scenario.delete_after))


def bench_jobs(
    scenario: Scenario, rng_seed: int, population: Population, verify: bool = False
) -> Workload:
    """The run phase: operation_count operations, or as many as the time holds; at the
    scenario's rate where it has one."""
    bench = BenchWorkload(population, rng_seed, scenario.operation_count, verify)
    rates = [stage.rate for stage in scenario.load if stage.rate]
    if not rates:
        return bench
    rng = Random(f"{rng_seed}/arrivals")  # nosec B311 # choices that can be repeated
    dues = due_times(scenario.load, MODELS[scenario.arrivals], rng)
    return PacedWorkload(bench, dues, max(rates))


def cleanup_jobs(population: Population) -> CleanupWorkload:
    """The clean-up phase: a REMOVE for each created object that may be in the store.

    Call it when the run is over: what is in flight then counts as perhaps there.
    """
    return CleanupWorkload(population)


class InitialWorkload:
    """ENSURE jobs. What isn't known to be there afterwards is not in ``population``."""

    phase = Phase.POPULATE
    exhausted = None
    ahead = 0

    def __init__(self, population: Population) -> None:
        self.population = population
        self.taken = 0
        self.total = sum(pool.size_class.initial_files for pool in population.pools)
        self.skipped: Counter[int] = Counter()
        self.missing = 0  #: initial objects that could not be made sure of
        self._objects = (
            (index, number, pool.size(number))
            for index, pool in enumerate(population.pools)
            for number in range(pool.size_class.initial_files)
        )
        self._again: deque[tuple[int, int, int]] = deque()
        self._lost: set[tuple[int, int]] = set()

    def begin(self, now_s: float, offset_ns: int) -> None:
        """As soon as there is a user."""

    def never_started(self, now_s: float) -> int:
        """None of them is ever due."""
        return 0

    def waiting_since(self, now_s: float) -> None:
        """None of them is ever due."""

    @property
    def finished(self) -> bool:
        return self.taken >= self.total

    def take(self, first_number: int, limit: int, now_s: float) -> list[Job]:
        again = [self._again.popleft() for _ in range(min(limit, len(self._again)))]
        objects = enumerate(islice(chain(again, self._objects), limit), first_number)
        jobs = [
            _new(Job, (number, _POPULATING, index, name, 0, size, NONE_NS, (), (), 0))
            for number, (index, name, size) in objects
        ]
        self.taken += len(jobs)
        if self.population.delete_after_s:
            for job in jobs:
                self.population.pools[job.size_class].writing(job.object, now_s)
        return jobs

    def succeeded(self, jobs: Iterable[Job], now_s: float) -> None:
        """They are in the population from the start; those that expire were put just now."""
        if self.population.delete_after_s:
            for job in jobs:
                self.population.pools[job.size_class].written(job.object, True)

    def failed(self, job: Job, error: int, status: int, unknown: bool, now_s: float) -> None:
        self.withdrawn([job])

    def lost(self, jobs: Iterable[Job]) -> None:
        """Another worker does them, once: there is no harm in a second ENSURE."""
        for job in jobs:
            name = (job.size_class, job.object)
            if name in self._lost:
                self.withdrawn([job])
                continue
            self.population.pools[job.size_class].written(job.object, False)
            self._lost.add(name)
            self._again.append((*name, job.size))
            self.taken -= 1

    def withdrawn(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            pool = self.population.pools[job.size_class]
            pool.written(job.object, False)
            pool.leave(job.object)
            self.missing += 1

    def __repr__(self) -> str:
        return f"<InitialWorkload {self.taken} of {self.total} taken, {self.missing} missing>"


class CleanupWorkload:
    """REMOVE jobs. What is not known to be gone afterwards is ``left_behind``."""

    phase = Phase.CLEANUP
    exhausted = None
    ahead = 0

    def __init__(self, population: Population) -> None:
        self.population = population
        self.taken = 0
        self.total = population.left_behind
        self.skipped: Counter[int] = Counter()
        self._objects = (
            (index, number)
            for index, pool in enumerate(population.pools)
            for number in pool.created()
        )
        self._again: deque[tuple[int, int]] = deque()
        self._lost: set[tuple[int, int]] = set()

    def begin(self, now_s: float, offset_ns: int) -> None:
        """As soon as there is a user."""

    def never_started(self, now_s: float) -> int:
        """None of them is ever due."""
        return 0

    def waiting_since(self, now_s: float) -> None:
        """None of them is ever due."""

    @property
    def finished(self) -> bool:
        return self.taken >= self.total

    @property
    def left_behind(self) -> int:
        """Created objects that may be in the store: failed, lost, or not removed so far."""
        return self.population.left_behind

    def take(self, first_number: int, limit: int, now_s: float) -> list[Job]:
        again = [self._again.popleft() for _ in range(min(limit, len(self._again)))]
        objects = enumerate(islice(chain(again, self._objects), limit), first_number)
        jobs = [
            _new(Job, (number, _CLEANING_UP, index, name, 0, 0, NONE_NS, (), (), 0))
            for number, (index, name) in objects
        ]
        self.taken += len(jobs)
        return jobs

    def succeeded(self, jobs: Iterable[Job], now_s: float) -> None:
        for job in jobs:
            self.population.pools[job.size_class].set_may_exist(job.object, False)

    def failed(self, job: Job, error: int, status: int, unknown: bool, now_s: float) -> None:
        """It stays among those left behind."""

    def lost(self, jobs: Iterable[Job]) -> None:
        """Another worker does them, once: there is no harm in a second REMOVE."""
        again = {(job.size_class, job.object) for job in jobs} - self._lost
        self._lost |= again
        self._again.extend(sorted(again))
        self.taken -= len(again)

    def withdrawn(self, jobs: Iterable[Job]) -> None:
        """They stay among those left behind."""

    def __repr__(self) -> str:
        return f"<CleanupWorkload {self.taken} of {self.total} taken, {self.left_behind} left>"
