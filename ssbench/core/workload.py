"""What is done to the objects: the jobs of the three phases, one at a time.

A workload gives jobs and is told what became of each, once: succeeded, failed, lost with its
worker, or withdrawn (given back unstarted, not to be done). A job may come back under another
number than it was given; what counts is its operation and its object.

The draws come from three streams, all made from one seed: operations with their size classes,
sizes, and targets. So the same seed gives the same operations, classes, sizes and names of created
objects, however the timing turns out; and the same targets where nothing is created or deleted.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter, deque
from collections.abc import Callable, Iterable
from itertools import chain, islice
from random import Random
from typing import TYPE_CHECKING, Protocol

from ssbench.core.draws import Draws, NoJob, draw_table
from ssbench.core.model import NONE_NS, Job, Operation, Phase
from ssbench.core.population import Population, lifetime_s

if TYPE_CHECKING:
    from ssbench.core.scenario import Scenario

NOT_FOUND = 404
#: So many skips end a ``take``, so that the master gets on with other things.
SKIPS_AT_ONCE = 10_000
#: The same for skips because of operations in flight: only time helps against those.
BUSY_SKIPS_AT_ONCE = 4

# Plain ints: a job's fields are compared and packed far more often than they are printed.
_CREATE, _READ, _UPDATE, _DELETE, _ENSURE, _REMOVE = map(int, Operation)
_new = tuple.__new__  # Job(...) takes twice as long


class Workload(Protocol):
    """Where jobs come from and where their outcome goes."""

    phase: Phase
    taken: int  #: jobs given so far
    skipped: Counter[Operation]  #: drawn operations that found no object

    @property
    def total(self) -> int | None:
        """How many jobs there will be; None where time decides."""

    @property
    def finished(self) -> bool:
        """Whether ``take`` will never again give a job, whatever comes back."""

    @property
    def exhausted(self) -> str | None:
        """Why no job can ever come, in a sentence, where that ended it before its total."""

    def take(self, first_number: int, limit: int, now_s: float) -> list[Job]:
        """Up to ``limit`` jobs, numbered upwards from ``first_number``; [] for none just now."""

    def succeeded(self, jobs: Iterable[Job], now_s: float) -> None:
        """These were done."""

    def failed(self, job: Job, error: int, status: int, unknown: bool, now_s: float) -> None:
        """This ended with an error; ``unknown`` where it may have happened all the same."""

    def lost(self, jobs: Iterable[Job]) -> None:
        """These were held by a worker that is lost."""

    def withdrawn(self, jobs: Iterable[Job]) -> None:
        """These came back unstarted and will not be done."""


def initial_jobs(scenario: Scenario) -> InitialWorkload:
    """The populate phase: an ENSURE for every initial object, made as they are taken."""
    return InitialWorkload(Population(scenario.sizes, scenario.delete_after))


def bench_jobs(
    scenario: Scenario, rng_seed: int, population: Population, verify: bool = False
) -> BenchWorkload:
    """The run phase: operation_count operations, or as many as fit until ``stop``."""
    return BenchWorkload(population, rng_seed, scenario.operation_count, verify)


def cleanup_jobs(population: Population) -> CleanupWorkload:
    """The clean-up phase: a REMOVE for each created object that may be in the store.

    Call it when the run is over: what is in flight then counts as perhaps there.
    """
    return CleanupWorkload(population)


class InitialWorkload:
    """ENSURE jobs. What isn't known to be there afterwards is not in ``population``."""

    phase = Phase.POPULATE
    exhausted = None

    def __init__(self, population: Population) -> None:
        self.population = population
        self.taken = 0
        self.total = sum(pool.size_class.initial_files for pool in population.pools)
        self.skipped: Counter[Operation] = Counter()
        self.missing = 0  #: initial objects that could not be made sure of
        self._objects = (
            (index, number, pool.size(number))
            for index, pool in enumerate(population.pools)
            for number in range(pool.size_class.initial_files)
        )
        self._again: deque[tuple[int, int, int]] = deque()
        self._lost: set[tuple[int, int]] = set()

    @property
    def finished(self) -> bool:
        return self.taken >= self.total

    def take(self, first_number: int, limit: int, now_s: float) -> list[Job]:
        again = [self._again.popleft() for _ in range(min(limit, len(self._again)))]
        objects = enumerate(islice(chain(again, self._objects), limit), first_number)
        jobs = [
            _new(Job, (number, _ENSURE, index, name, 0, size, NONE_NS))
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


class BenchWorkload:
    """The operations of the run, drawn by the classes' shares and their profiles.

    An operation that finds no object is skipped and counted, and another is drawn. ``take`` may
    give [] for such reasons with nothing in flight: ask again.
    """

    phase = Phase.RUN

    def __init__(
        self, population: Population, rng_seed: int, total: int | None, verify: bool = False
    ) -> None:
        self.population = population
        self.total = total
        self.taken = 0
        self.skipped: Counter[Operation] = Counter()
        self._stopped = False
        self._now_s = 0.0
        population.start(verify)
        self._pools = population.pools
        self._choose, sizes, targets = (
            Random(f"{rng_seed}/{stream}").random for stream in ("operations", "sizes", "targets")
        )
        self._draws = [
            Draws(index, pool, sizes, targets, verify)
            for index, pool in enumerate(self._pools)
            if pool.size_class.initial_files
        ]
        self._rows, self._cumulative = draw_table(self._draws)
        self._nothing_changes = all(draws.nothing_changes for draws in self._draws)
        self._on_success: dict[int, Callable[[Job], None]] = {
            _CREATE: self._created,
            _READ: self._over,
            _UPDATE: self._updated,
            _DELETE: self._deleted,
        }
        self._on_known_failure: dict[int, Callable[[Job], None]] = {
            _CREATE: self._never_created,
            _READ: self._over,
            _UPDATE: self._not_updated,
            _DELETE: self._not_deleted,
        }

    # Asking -------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        return self._stopped or self.taken == self.total or self.exhausted is not None

    @property
    def exhausted(self) -> str | None:
        if self._stopped or self.taken == self.total:
            return None
        if any(draws.possible or draws.pool.closing for draws in self._draws):
            return None
        sentence = (
            f"after {self.taken} operations no object is left to READ, UPDATE or DELETE, "
            "and no crud_profile in use has a share of CREATE"
        )
        delete_after_s = self.population.delete_after_s
        if delete_after_s:
            stay_s = max(0.0, lifetime_s(delete_after_s))
            sentence += f" (with delete_after {delete_after_s}, objects are used for {stay_s:g} s)"
        return sentence

    def stop(self) -> None:
        """Give no more jobs: the time is over."""
        self._stopped = True

    def take(self, first_number: int, limit: int, now_s: float) -> list[Job]:
        self._now_s = now_s
        if self._stopped:
            return []
        self.population.expire(now_s)
        jobs: list[Job] = []
        waiting = 0
        for draws in self._draws:
            if draws.pool.closing:
                self._take_ready(draws, jobs, first_number, limit)
                waiting += draws.pool.held
        wanted = limit - len(jobs)
        if self.total is not None:
            wanted = min(wanted, self.total - self.taken - len(jobs) - waiting)
        if wanted > 0:
            self._draw(jobs, first_number + len(jobs), wanted)
        self.taken += len(jobs)
        return jobs

    def _take_ready(self, draws: Draws, jobs: list[Job], first_number: int, limit: int) -> None:
        """DELETEs that waited for other operations on their object."""
        pool = draws.pool
        while pool.ready and len(jobs) < limit:
            number = pool.ready.popleft()
            if pool.expired(number, self._now_s):
                pool.deleted(number)
                self.skipped[Operation.DELETE] += 1
            else:
                jobs.append(draws.delete_job(first_number + len(jobs), number))

    def _draw(self, jobs: list[Job], number: int, wanted: int) -> None:
        """Append up to ``wanted`` jobs, fewer where nothing more can be drawn just now."""
        rows, cumulative, choose = self._rows, self._cumulative, self._choose
        skips, busy_skips = SKIPS_AT_ONCE, BUSY_SKIPS_AT_ONCE
        while wanted:
            operation, draw = rows[bisect(cumulative, choose())]
            job = draw(number, self._now_s)
            if type(job) is Job:
                jobs.append(job)
                number += 1
                wanted -= 1
            elif job is NoJob.HELD:
                wanted -= 1
            else:
                self.skipped[operation] += 1
                skips -= 1
                busy_skips -= job is NoJob.BUSY
                if not (skips and busy_skips and any(draws.possible for draws in self._draws)):
                    return

    # What became of them ------------------------------------------------------------------

    def succeeded(self, jobs: Iterable[Job], now_s: float) -> None:
        if self._nothing_changes:
            return
        self._now_s = now_s
        on_success = self._on_success
        for job in jobs:
            on_success[job[1]](job)

    def failed(self, job: Job, error: int, status: int, unknown: bool, now_s: float) -> None:
        self._now_s = now_s
        # A DELETE's 404 is no unknown outcome, but no reason to offer the object again either.
        absent = status == NOT_FOUND and job.operation == _DELETE
        if (unknown and job.operation != _READ) or absent:
            self._give_up(job)
        else:
            self._on_known_failure[job.operation](job)

    def lost(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self._give_up(job)

    def _give_up(self, job: Job) -> None:
        """Nobody knows how the job's object is now: it leaves the population."""
        pool = self._pools[job.size_class]
        if job.operation == _CREATE:
            pool.written(job.object, False)
            return
        if pool.bar(job.object):
            self.skipped[Operation.DELETE] += 1
        if job.operation == _DELETE:
            pool.closing -= 1
        else:
            self._on_known_failure[job.operation](job)

    def withdrawn(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self._on_known_failure[job.operation](job)

    def _over(self, job: Job) -> None:
        self._pools[job.size_class].release(job.object)

    def _created(self, job: Job) -> None:
        pool = self._pools[job.size_class]
        pool.written(job.object, True)
        pool.join(job.object)

    def _never_created(self, job: Job) -> None:
        pool = self._pools[job.size_class]
        pool.written(job.object, False)
        pool.set_may_exist(job.object, False)

    def _updated(self, job: Job) -> None:
        pool = self._pools[job.size_class]
        pool.written(job.object, True)
        pool.updated(job.object, job.version, job.size)
        pool.release(job.object)

    def _not_updated(self, job: Job) -> None:
        pool = self._pools[job.size_class]
        pool.written(job.object, False)
        pool.release(job.object)

    def _deleted(self, job: Job) -> None:
        self._pools[job.size_class].deleted(job.object)

    def _not_deleted(self, job: Job) -> None:
        self._pools[job.size_class].reopen(job.object, self._now_s)

    def __repr__(self) -> str:
        total = "" if self.total is None else f" of {self.total}"
        return f"<BenchWorkload {self.taken}{total} taken, {self.skipped.total()} skipped>"


class CleanupWorkload:
    """REMOVE jobs. What is not known to be gone afterwards is ``left_behind``."""

    phase = Phase.CLEANUP
    exhausted = None

    def __init__(self, population: Population) -> None:
        self.population = population
        self.taken = 0
        self.total = population.left_behind
        self.skipped: Counter[Operation] = Counter()
        self._objects = (
            (index, number)
            for index, pool in enumerate(population.pools)
            for number in pool.created()
        )
        self._again: deque[tuple[int, int]] = deque()
        self._lost: set[tuple[int, int]] = set()

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
            _new(Job, (number, _REMOVE, index, name, 0, 0, NONE_NS))
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
