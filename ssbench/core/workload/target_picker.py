"""How each operation finds its target: one method an effect, one Draws a size class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from itertools import accumulate

from ssbench.core.model import NONE_NS, Job
from ssbench.core.operations import Effect, row_of
from ssbench.core.workload.population import ObjectPool

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
        return _new(Job, (number, operation, self._index, target, 0, size, NONE_NS))

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
        return _new(Job, (number, operation, self._index, target, version, size, NONE_NS))

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
        return _new(Job, (number, operation, self._index, target, version, size, NONE_NS))

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
        return _new(Job, (number, operation, self._index, target, 0, 0, NONE_NS))

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
