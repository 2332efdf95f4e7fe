"""The workload of a replay: jobs and due times from outside, such as an access log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from random import Random

from msgspec import Struct

from ssbench.core.model import NONE_NS, Failure, Job
from ssbench.core.operations import Effect, Operation, Target, row_of
from ssbench.core.workload.numbered import NumberedRun
from ssbench.core.workload.pacing import DueTimes
from ssbench.core.workload.workload import NOT_FOUND, EnsureWorkload

NOT_PREPARED = -1  #: the size of an object that need not exist when the run begins
#: A created object is not in the store; is; is or is not.
_ABSENT, _PRESENT, _UNKNOWN = 0, 1, 2
_new = tuple.__new__  # Job(...) takes twice as long


class ReplayPlan(Struct, frozen=True):
    """Requests in the order of their due times; row i of the first five arrays is one."""

    due_ns: Sequence[int]  #: from the begin of the load; rising
    operations: Sequence[int]
    slots: Sequence[int]  #: index into ``objects``
    sizes: Sequence[int]  #: bytes of the object
    #: Bytes of the part that is read, the row's default if below 1; ignored for other operations.
    lengths: Sequence[int]
    objects: Sequence[int]  #: number of each object; of an operation on a container any number
    initial: Sequence[int]  #: size of each object before the run, or NOT_PREPARED
    prepared: int  #: how many objects must exist before the run
    containers: int  #: how many there are
    most_per_s: float  #: the highest rate of due times

    def __len__(self) -> int:
        return len(self.due_ns)


class PreparedObjects(EnsureWorkload):
    """Ensures that every object exists that the plan does not make itself."""

    def __init__(self, plan: ReplayPlan) -> None:
        objects = (
            (0, number, size)
            for number, size in zip(plan.objects, plan.initial, strict=True)
            if size != NOT_PREPARED
        )
        super().__init__(objects, plan.prepared)


class ReplayWorkload(NumberedRun):
    """Sends each request at its due time, whatever became of those before it on its object.

    Objects that the run created are removed by ``cleanup``; those that were prepared stay.

    :param random: for the arguments that a plan lacks, such as the offset of a part.
    """

    def __init__(self, plan: ReplayPlan, random: Random) -> None:
        self.total = len(plan)
        self.dues: DueTimes = DueTimes(iter(plan.due_ns), plan.most_per_s, again=iter(plan.due_ns))
        self.after_failed_upload = 0  #: operations that found no object, because its upload failed
        self._plan = plan
        self._random = random
        self._in_store = bytearray(len(plan.objects))  # created objects, by slot
        self._failed_uploads: set[int] = set()  # slots
        self._copies: Counter[int] = Counter()  # numbers of those that may be in the store

    @property
    def left_behind(self) -> int:
        slots = len(self._in_store) - self._in_store.count(_ABSENT)
        return slots + len(self._copies) - self.removed

    @property
    def left_unknown(self) -> int:
        return self._in_store.count(_UNKNOWN)

    def numbers_left(self) -> Iterator[int]:
        for slot, state in enumerate(self._in_store):
            if state != _ABSENT:
                yield self._plan.objects[slot]
        yield from self._copies

    def take(self, first_number: int, limit: int, now_s: float, group: int = 0) -> list[Job]:
        limit = self.dues.ready(limit, now_s)
        plan, begin = self._plan, self.taken
        end = self.taken = begin + limit
        rows = zip(
            range(begin, end), plan.operations[begin:end], plan.slots[begin:end],
            plan.sizes[begin:end], plan.lengths[begin:end], strict=True,
        )  # fmt: skip
        jobs = []
        for at, operation, slot, size, length in rows:
            row, number = row_of(operation), plan.objects[slot]
            if row.target is Target.CONTAINER:
                number %= plan.containers
            others = (_copy_of(number, at),) if row.target is Target.PAIR else ()
            arguments = self._arguments(row, size, length) if row.draw else ()
            # The version is the request's index: it tells outcomes apart, and rises.
            fields = (first_number + at - begin, operation, 0, number, at + 1, size, NONE_NS)
            jobs.append(_new(Job, (*fields, others, arguments, 0)))
        return self.dues.stamp(jobs)

    def _arguments(self, row: Operation, size: int, length: int) -> tuple[int | bytes, ...]:
        given = {each.key: length for each in row.parameters if each.is_size and length > 0}
        assert row.draw is not None  # nosec B101 # for the type checker
        return row.draw(self._random, size, **row.parameter_values(given))

    # Outcomes -----------------------------------------------------------------------------

    def succeeded(self, jobs: Iterable[Job], now_s: float) -> None:
        for job in jobs:
            row = row_of(job.operation)
            if row.effect is Effect.NONE or row.effect is Effect.TOUCHES:
                continue
            if row.target is Target.PAIR:
                self._copies.update(job.others)
            elif row.effect is Effect.REMOVES:
                self._set(job, _ABSENT)
            else:
                self._set(job, _PRESENT)
                self._failed_uploads.discard(self._slot(job))

    def failed(self, job: Job, failure: Failure, now_s: float) -> None:
        row = row_of(job.operation)
        slot = self._slot(job)
        if failure.status == NOT_FOUND and slot in self._failed_uploads:
            self.after_failed_upload += 1
        if row.target is Target.PAIR:
            if failure.unknown:
                self._copies.update(job.others)
        elif row.effect is Effect.REMOVES:
            if failure.status == NOT_FOUND:
                self._set(job, _ABSENT)
        elif row.effect in (Effect.CREATES, Effect.REPLACES):
            if failure.unknown:
                self._set(job, _UNKNOWN)
            else:
                self._failed_uploads.add(slot)

    def withdrawn(self, jobs: Iterable[Job]) -> None:
        self.dues.returned(jobs)

    def _slot(self, job: Job) -> int:
        return self._plan.slots[job.version - 1]

    def _set(self, job: Job, state: int) -> None:
        slot = self._slot(job)
        if self._plan.initial[slot] == NOT_PREPARED:
            self._in_store[slot] = state


def _copy_of(number: int, at: int) -> int:
    """A number for the copy that request ``at`` makes of an object, in the same container."""
    return (number ^ (at + 1) * 0x9E3779B97F80) & _NUMBER_BITS | number & 0x7F


_NUMBER_BITS = (1 << 53) - 1 & ~0x7F
