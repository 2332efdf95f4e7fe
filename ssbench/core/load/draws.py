"""How each operation finds its target: one method an operation, one Draws a size class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from itertools import accumulate

from ssbench.core.load.population import Pool
from ssbench.core.model import CRUD, NONE_NS, Job, Operation

#: Targets that are tried for an operation that must not meet certain others (verify).
TRIES = 8

_CREATE, _READ, _UPDATE, _DELETE = map(int, CRUD)
_UPDATING = -1  # in Pool.busy under verify: an UPDATE is in flight, and nothing else may be
_new = tuple.__new__  # Job(...) takes twice as long


class NoJob(Enum):
    """Why a draw gave no job."""

    NO_OBJECT = "the class has no object"
    BUSY = "an operation in flight on the object rules this one out"
    HELD = "a DELETE, which waits for the operations in flight on its object"


#: ``draw(job number, now in seconds)``
Draw = Callable[[int, float], "Job | NoJob"]


class Draws:
    """The draws from one pool.

    :param sizes: a stream of numbers in [0, 1), one for each CREATE or UPDATE drawn.
    :param targets: another, one for each choice of an object.
    :param verify: READ and UPDATE of one object exclude one another.
    """

    def __init__(
        self,
        index: int,
        pool: Pool,
        sizes: Callable[[], float],
        targets: Callable[[], float],
        verify: bool,
    ) -> None:
        size_class = pool.size_class
        self.pool = pool
        self.by_operation: tuple[Draw, ...] = (self.create, self.read, self.update, self.delete)
        self._creates = size_class.crud_profile[_CREATE] > 0
        #: Whether nobody needs to hear that a job succeeded.
        self.nothing_changes = (
            pool.busy is None and not self._creates and not size_class.crud_profile[_UPDATE]
        )
        self._index = index
        self._sizes = sizes
        self._targets = targets
        self._verify = verify
        self._size_min = size_class.size_min
        self._spread = size_class.size_max - size_class.size_min + 1

    @property
    def possible(self) -> bool:
        """Whether any operation of the class's profile can be drawn now."""
        return self._creates or len(self.pool.members) > 0

    def create(self, number: int, now_s: float) -> Job | NoJob:
        """A new object."""
        size = self._draw_size()
        target = self.pool.reserve(size)
        self.pool.writing(target, now_s)
        return _new(Job, (number, _CREATE, self._index, target, 0, size, NONE_NS))

    def read(self, number: int, now_s: float) -> Job | NoJob:
        """An open object, with the version and size that it is known to have."""
        pool = self.pool
        members = pool.members
        if not members:
            return NoJob.NO_OBJECT
        if self._verify:
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
        return _new(Job, (number, _READ, self._index, target, version, size, NONE_NS))

    def update(self, number: int, now_s: float) -> Job | NoJob:
        """An open object, with its next version. Without verify, several may be in flight."""
        size = self._draw_size()
        pool = self.pool
        if not pool.members:
            return NoJob.NO_OBJECT
        target = self._free_target(shared=False) if self._verify else self._any_target()
        if target is None:
            return NoJob.BUSY
        if pool.busy is not None:
            pool.busy[target] = _UPDATING if self._verify else pool.busy.get(target, 0) + 1
        pool.writing(target, now_s)
        version = pool.versions[target] + 1 if pool.versions is not None else 1
        return _new(Job, (number, _UPDATE, self._index, target, version, size, NONE_NS))

    def delete(self, number: int, now_s: float) -> Job | NoJob:
        """An open object, which is closed by this."""
        if not self.pool.members:
            return NoJob.NO_OBJECT
        target = self._any_target()
        return self.delete_job(number, target) if self.pool.close(target) else NoJob.HELD

    def delete_job(self, number: int, target: int) -> Job:
        """The DELETE of an object that was closed before."""
        return _new(Job, (number, _DELETE, self._index, target, 0, 0, NONE_NS))

    def _draw_size(self) -> int:
        return self._size_min + int(self._sizes() * self._spread)

    def _any_target(self) -> int:
        members = self.pool.members
        return members[int(self._targets() * len(members))]

    def _free_target(self, shared: bool) -> int | None:
        """An object on which nothing is in flight, or, where shared, nothing but READs."""
        busy = self.pool.busy
        assert busy is not None  # nosec B101 # for the type checker
        for _ in range(TRIES):
            target = self._any_target()
            in_flight = busy.get(target, 0)
            if in_flight == 0 or (shared and in_flight > 0):
                return target
        return None


def draw_table(draws: Sequence[Draws]) -> tuple[list[tuple[Operation, Draw]], list[float]]:
    """Rows of (operation, its draw) and their cumulative probabilities, the last one 1.

    The class is drawn by its share of the initial objects, the operation by its profile.
    """
    rows = [(operation, each.by_operation[operation]) for each in draws for operation in CRUD]
    weights = [
        weight * each.pool.size_class.initial_files
        for each in draws
        for weight in each.pool.size_class.crud_profile
    ]
    cumulative = list(accumulate(weights))
    used = [i for i, weight in enumerate(weights) if weight > 0]
    total = cumulative[-1]
    return [rows[i] for i in used], [cumulative[i] / total for i in used]
