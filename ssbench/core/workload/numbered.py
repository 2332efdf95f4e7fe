"""Workloads on objects by their number alone: nothing is kept of what is in the store.

The size of an object follows from its number (``core.content.initial_size``), so a run finds the
objects of an earlier one.
"""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence

from ssbench.core.content import initial_size
from ssbench.core.model import NONE_NS, UNKNOWN_SIZE, Failure, Group, Job, Phase, SizeClass
from ssbench.core.operations import Effect, row_of
from ssbench.core.workload.workload import NOT_FOUND, ListWorkload, Workload

_new = tuple.__new__  # Job(...) takes twice as long


class NumberedWorkload(Workload):
    """One operation on each of ``count`` objects, in the order of their numbers, repeatedly.

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
