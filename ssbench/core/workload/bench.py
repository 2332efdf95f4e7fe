"""The run's own operations: what is drawn, what waits, what became of it.

The draws come from three streams, all made from one seed: operations with their size classes,
sizes, and targets. So the same seed gives the same operations, classes, sizes and names of created
objects, however the timing turns out; and the same targets where nothing is created or deleted.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import partial
from itertools import accumulate
from random import Random

from ssbench.core.model import NONE_NS, Job, Phase
from ssbench.core.operations import OPERATIONS, Effect, row_of
from ssbench.core.workload.population import ObjectPool, Population, lifetime_s

NOT_FOUND = 404
#: So many skips end a ``take``, so that the master gets on with other things.
SKIPS_AT_ONCE = 10_000
#: The same for skips because of operations in flight: only time helps against those.
BUSY_SKIPS_AT_ONCE = 4
#: Targets that are tried for an operation that must not meet certain others.
TRIES = 8

_REPLACING = -1  # in Pool.busy of an exclusive pool: nothing else may be in flight
_new = tuple.__new__  # Job(...) takes twice as long


class NoJob(Enum):
    """Why a draw gave no job."""

    NO_OBJECT = "the class has no object"
    BUSY = "an operation in flight on the object rules this one out"
    HELD = "a removal, which waits for the operations in flight on its object"


#: ``draw(job number, now in seconds)``
Draw = Callable[[int, float], "Job | NoJob"]


class TargetPicker:
    """The draws from one pool, which has been started.

    :param sizes: a stream of numbers in [0, 1), one for each content drawn.
    :param targets: another, one for each choice of an object.
    """

    def __init__(
        self,
        index: int,
        pool: ObjectPool,
        sizes: Callable[[], float],
        targets: Callable[[], float],
    ) -> None:
        size_class = pool.size_class
        self.pool = pool
        by_effect = {
            Effect.NONE: self._use,
            Effect.CREATES: self._create,
            Effect.REPLACES: self._replace,
            Effect.TOUCHES: self._touch,
            Effect.REMOVES: self._remove,
        }
        effects = {operation: row_of(operation).effect for operation, _share in size_class.profile}
        #: Of each operation of the class's profile.
        self.by_operation: dict[int, Draw] = {
            operation: partial(by_effect[effect], operation)
            for operation, effect in effects.items()
        }
        self._creates = Effect.CREATES in effects.values()
        #: Whether nobody needs to hear that a job succeeded.
        self.nothing_changes = pool.busy is None and set(effects.values()) <= {Effect.NONE}
        self._index = index
        self._sizes = sizes
        self._targets = targets
        self._exclusive = pool.exclusive
        self._size_min = size_class.size_min
        self._spread = size_class.size_max - size_class.size_min + 1

    @property
    def possible(self) -> bool:
        """Whether any operation of the class's profile can be drawn now."""
        return self._creates or len(self.pool.members) > 0

    def _create(self, operation: int, number: int, now_s: float) -> Job | NoJob:
        """A new object."""
        size = self._draw_size()
        target = self.pool.reserve(size)
        self.pool.writing(target, now_s)
        return _new(Job, (number, operation, self._index, target, 0, size, NONE_NS, (), (), 0))

    def _use(self, operation: int, number: int, now_s: float) -> Job | NoJob:
        """An open object, with the version and size that it is known to have."""
        pool = self.pool
        members = pool.members
        if not members:
            return NoJob.NO_OBJECT
        if self._exclusive:
            free = self._free_target(shared=True)
            if free is None:
                return NoJob.BUSY
            target = free
        else:
            target = members[int(self._targets() * len(members))]
        busy, sizes, versions = pool.busy, pool.sizes, pool.versions
        if busy is not None:
            busy[target] = busy.get(target, 0) + 1
        size = self._size_min if sizes is None else self._size_min + sizes[target]
        version = 0 if versions is None else versions[target]
        return _new(
            Job, (number, operation, self._index, target, version, size, NONE_NS, (), (), 0)
        )

    def _touch(self, operation: int, number: int, now_s: float) -> Job | NoJob:
        """As ``_use``; the object's time starts anew."""
        job = self._use(operation, number, now_s)
        if type(job) is Job:
            self.pool.writing(job.object, now_s)
        return job

    def _replace(self, operation: int, number: int, now_s: float) -> Job | NoJob:
        """An open object, with its next version. Several may be in flight, unless exclusive."""
        size = self._draw_size()
        pool = self.pool
        if not pool.members:
            return NoJob.NO_OBJECT
        target = self._free_target(shared=False) if self._exclusive else self._any_target()
        if target is None:
            return NoJob.BUSY
        if pool.busy is not None:
            pool.busy[target] = _REPLACING if self._exclusive else pool.busy.get(target, 0) + 1
        pool.writing(target, now_s)
        version = pool.versions[target] + 1 if pool.versions is not None else 1
        return _new(
            Job, (number, operation, self._index, target, version, size, NONE_NS, (), (), 0)
        )

    def _remove(self, operation: int, number: int, now_s: float) -> Job | NoJob:
        """An open object, which is closed by this."""
        if not self.pool.members:
            return NoJob.NO_OBJECT
        target = self._any_target()
        if self.pool.close(target, operation):
            return self.removal(operation, number, target)
        return NoJob.HELD

    def removal(self, operation: int, number: int, target: int) -> Job:
        """The job that removes an object which was closed before."""
        return _new(Job, (number, operation, self._index, target, 0, 0, NONE_NS, (), (), 0))

    def _draw_size(self) -> int:
        return self._size_min + int(self._sizes() * self._spread)

    def _any_target(self) -> int:
        members = self.pool.members
        return members[int(self._targets() * len(members))]

    def _free_target(self, shared: bool) -> int | None:
        """An object on which nothing is in flight or, where shared, nothing that replaces it."""
        busy = self.pool.busy
        assert busy is not None  # nosec B101 # for the type checker
        for _ in range(TRIES):
            target = self._any_target()
            in_flight = busy.get(target, 0)
            if in_flight == 0 or (shared and in_flight > 0):
                return target
        return None


def draw_table(draws: Sequence[TargetPicker]) -> tuple[list[tuple[int, Draw]], list[float]]:
    """Rows of (operation, its draw) and their cumulative probabilities, the last one 1.

    The class is drawn by its share of the initial objects, the operation by its profile.
    """
    rows = [row for each in draws for row in each.by_operation.items()]
    weights = [
        share * each.pool.size_class.initial_files
        for each in draws
        for _operation, share in each.pool.size_class.profile
    ]
    cumulative = list(accumulate(weights))
    return rows, [value / cumulative[-1] for value in cumulative]


class BenchWorkload:
    """The operations of the run, drawn by the classes' shares and their profiles.

    An operation that finds no object is skipped and counted, and another is drawn. ``take`` may
    give [] for such reasons with nothing in flight: ask again.
    """

    phase = Phase.RUN
    ahead = 0

    def __init__(
        self, population: Population, rng_seed: int, total: int | None, verify: bool = False
    ) -> None:
        self.population = population
        self.total = total
        self.taken = 0
        self.skipped: Counter[int] = Counter()
        self._stopped = False
        self._now_s = 0.0
        population.start(verify)
        self._pools = population.pools
        self._choose, sizes, targets = (
            Random(f"{rng_seed}/{stream}").random  # nosec B311 # choices that can be repeated
            for stream in ("operations", "sizes", "targets")
        )
        self._draws = [
            TargetPicker(index, pool, sizes, targets)
            for index, pool in enumerate(self._pools)
            if pool.size_class.initial_files
        ]
        self._rows, self._cumulative = draw_table(self._draws)
        self._nothing_changes = all(draws.nothing_changes for draws in self._draws)
        on_success = {
            Effect.NONE: self._over,
            Effect.CREATES: self._created,
            Effect.REPLACES: self._replaced,
            Effect.TOUCHES: self._touched,
            Effect.REMOVES: self._removed,
        }
        on_known_failure = {
            Effect.NONE: self._over,
            Effect.CREATES: self._never_created,
            Effect.REPLACES: self._not_written,
            Effect.TOUCHES: self._not_written,
            Effect.REMOVES: self._not_removed,
        }
        self._effects = {n: row.effect for n, row in OPERATIONS.items()}
        self._on_success: dict[int, Callable[[Job], None]] = {
            n: on_success[effect] for n, effect in self._effects.items()
        }
        self._on_known_failure: dict[int, Callable[[Job], None]] = {
            n: on_known_failure[effect] for n, effect in self._effects.items()
        }

    def begin(self, now_s: float, offset_ns: int) -> None:
        """As soon as there is a user: a closed loop. PacedWorkload makes an open one of it."""

    def never_started(self, now_s: float) -> int:
        """None of them is ever due."""
        return 0

    def waiting_since(self, now_s: float) -> None:
        """None of them is ever due."""

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
            f"after {self.taken} operations no object is left, "
            "and no operation of a profile in use creates any"
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

    def _take_ready(
        self, draws: TargetPicker, jobs: list[Job], first_number: int, limit: int
    ) -> None:
        """Removals that waited for other operations on their object."""
        pool = draws.pool
        while pool.ready and len(jobs) < limit:
            target, operation = pool.ready.popleft()
            if pool.expired(target, self._now_s):
                pool.removed(target)
                self.skipped[operation] += 1
            else:
                jobs.append(draws.removal(operation, first_number + len(jobs), target))

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
        # The 404 of a removal is no unknown outcome, but no reason to offer the object again.
        absent = status == NOT_FOUND and self._effects[job.operation] is Effect.REMOVES
        if unknown or absent:
            self._give_up(job)
        else:
            self._on_known_failure[job.operation](job)

    def lost(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self._give_up(job)

    def _give_up(self, job: Job) -> None:
        """The outcome is unknown: an object whose content may have changed is quarantined."""
        effect = self._effects[job.operation]
        pool = self._pools[job.size_class]
        if effect is Effect.CREATES:
            pool.written(job.object, False)
            pool.set_unknown(job.object)
            return
        if effect in (Effect.REPLACES, Effect.REMOVES):
            called_off = pool.quarantine(job.object)
            if called_off is not None:
                self.skipped[called_off] += 1
        if effect is Effect.REMOVES:
            pool.closing -= 1
            pool.set_unknown(job.object)
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

    def _replaced(self, job: Job) -> None:
        pool = self._pools[job.size_class]
        pool.written(job.object, True)
        pool.updated(job.object, job.version, job.size)
        pool.release(job.object)

    def _touched(self, job: Job) -> None:
        pool = self._pools[job.size_class]
        pool.written(job.object, True)
        pool.release(job.object)

    def _not_written(self, job: Job) -> None:
        pool = self._pools[job.size_class]
        pool.written(job.object, False)
        pool.release(job.object)

    def _removed(self, job: Job) -> None:
        self._pools[job.size_class].removed(job.object)

    def _not_removed(self, job: Job) -> None:
        self._pools[job.size_class].reopen(job.object, self._now_s)

    def __repr__(self) -> str:
        total = "" if self.total is None else f" of {self.total}"
        return f"<BenchWorkload {self.taken}{total} taken, {self.skipped.total()} skipped>"
