"""``replay``: sends the requests of access logs again, at their own times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random

from ssbench.commands.replay.access_log import RequestLog, Requests
from ssbench.commands.replay.formats import UNKNOWN
from ssbench.core.errors import UsageError
from ssbench.core.live import Observer
from ssbench.core.model import NONE_NS, SECOND_NS, Failure, Job, SizeClass
from ssbench.core.operations import Effect, Operation, Target, row_of
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.scenario.values import profile
from ssbench.core.units import MAX_RATE
from ssbench.core.workload.pacing import LOOKAHEAD_NS, DueTimes
from ssbench.core.workload.workload import NOT_FOUND, EnsureWorkload, NumberedRun
from ssbench.runner import check_thresholds, execute, open_session
from ssbench.runner.config import RunConfig, RunPlan
from ssbench.runner.single_run import RunResult
from ssbench.runner.stop import Stop

#: A created object is not in the store; is; is or is not.
_ABSENT, _PRESENT, _UNKNOWN = 0, 1, 2
_new = tuple.__new__  # Job(...) takes twice as long


class PreparedObjects(EnsureWorkload):
    """Ensures that every object exists that the requests do not make themselves."""

    def __init__(self, requests: Requests) -> None:
        objects = (
            (0, number, size)
            for number, size in zip(requests.objects.data, requests.initial.data, strict=True)
            if size != UNKNOWN
        )
        super().__init__(objects, requests.prepared)


class ReplayWorkload(NumberedRun):
    """Sends each request at its due time, whatever became of those before it on its object.

    Objects that the run created are removed by ``cleanup``; those that were prepared stay.

    :param requests: their times are due times, from the start of the load.
    :param containers: how many there are.
    :param random: for the arguments that a log lacks, such as the offset of a part.
    """

    def __init__(self, requests: Requests, containers: int, random: Random) -> None:
        self.total = len(requests)
        due_ns = requests.at_ns.data  # not copied, and read as Python's numbers
        most = requests.most_within(LOOKAHEAD_NS) * SECOND_NS / LOOKAHEAD_NS
        self.dues: DueTimes = DueTimes(iter(due_ns), min(most, _MOST_PER_S), again=iter(due_ns))
        self.after_failed_upload = 0  #: operations that found no object, because its upload failed
        self._requests = requests
        self._slots, self._objects = requests.slots.data, requests.objects.data
        self._containers = containers
        self._random = random
        self._in_store = bytearray(len(requests.objects))  # created objects, by slot
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
                yield self._objects[slot]
        yield from self._copies

    def take(self, first_number: int, limit: int, now_s: float, group: int = 0) -> list[Job]:
        limit = self.dues.ready(limit, now_s)
        requests, begin = self._requests, self.taken
        end = self.taken = begin + limit
        columns = (requests.operations, requests.slots, requests.sizes, requests.moved)
        rows = zip(range(begin, end), *(each.data[begin:end] for each in columns), strict=True)
        jobs = []
        for at, operation, slot, size, length in rows:
            row, number = row_of(operation), self._objects[slot]
            if row.target is Target.CONTAINER:
                number %= self._containers
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
        return self._slots[job.version - 1]

    def _set(self, job: Job, state: int) -> None:
        slot = self._slot(job)
        if self._requests.initial[slot] == UNKNOWN:
            self._in_store[slot] = state


def _copy_of(number: int, at: int) -> int:
    """A number for the copy that request ``at`` makes of an object, in the same container."""
    return (number ^ (at + 1) * 0x9E3779B97F80) & _NUMBER_BITS | number & 0x7F


_NUMBER_BITS = (1 << 53) - 1 & ~0x7F


#: Of a burst, no more jobs are sent ahead than this rate needs: the rest would be late anyway.
_MOST_PER_S = 100_000
_LATEST_NS = float(1 << 62)


class Replay:
    """Requests of a log, ready to be sent.

    :param config: its scenario is ignored.
    :param log: is empty afterwards.
    """

    def __init__(self, config: RunConfig, speed: float, log: RequestLog) -> None:
        self.config = config
        self.speed = speed
        self.too_large = 0  #: requests that are left out: the store does not take such objects
        containers = config.overrides.get("container_count") or log.container_count
        requests = log.arrange()
        if not len(requests):
            reasons = ", ".join(f"{why} ({n:,})" for why, n in log.left_out.items())
            raise UsageError(f"the log has no request that can be sent again: {reasons}")
        self._seconds = requests.seconds / speed
        due_ns = requests.at_ns  # in place: logs have millions of lines
        due_ns -= due_ns[0]
        due_ns[:] = (due_ns / speed).clip(max=_LATEST_NS)
        self._build(requests, containers)

    def _build(self, requests: Requests, containers: int) -> None:
        sizes = requests.sizes
        size_class = SizeClass(
            "object", int(sizes.min()), int(sizes.max()),
            profile({row: float(count) for row, count in requests.counts.items()}),
            len(requests.objects),
        )  # fmt: skip
        self.requests = requests
        self.scenario = Scenario(
            name=f"replay at speed {self.speed:g}",
            sizes=(size_class,),
            operation_count=len(requests),
            rate=min(len(requests) / self._seconds, MAX_RATE),
            arrivals="replayed",
            parameters=_parameters(requests),
            source="replay",
            **{**self.config.overrides, "container_count": containers},
        )
        random = Random(self.scenario.seed)  # nosec B311 # offsets
        self.workload = ReplayWorkload(requests, containers, random)

    @property
    def prepared_bytes(self) -> int:
        """Bytes of the objects that must exist before."""
        return sum(size for size in self.requests.initial.data if size != UNKNOWN)

    @property
    def seconds(self) -> float:
        """From the first to the last due time."""
        return int(self.requests.at_ns[-1]) / SECOND_NS

    def run(
        self,
        observers: Sequence[Observer] = (),
        stop: Stop | None = None,
        show: Callable[[], None] = lambda: None,
    ) -> RunResult:
        """Send the requests; returns when the stat file is closed.

        :param show: called once it is known which requests the store takes.
        :raises SsbenchError, KeyboardInterrupt, Aborted: as ``runner.run``.
        """
        config = self.config
        check_thresholds(config, self.scenario)
        with open_session(config, [self.scenario], observers, stop) as session:
            with session.client() as client:
                self.leave_out_larger(client.call(client.storage.limits).max_object_size)
            show()
            prepared = PreparedObjects(self.requests) if self.requests.prepared else None
            plan = RunPlan({"kind": "hashed"}, workload=self.workload, prepared=prepared)
            return execute(session, config, self.scenario, plan)

    def leave_out_larger(self, most: int | None) -> None:
        """Leave out the requests for contents of more bytes than this; None: there is no limit.

        :raises UsageError: no request is left.
        """
        if most is None:
            return
        before = self.requests
        requests = before.without_larger(most)
        self.too_large = len(before) - len(requests)
        if not len(requests):
            raise UsageError(
                f"the log has no request that can be sent again: all objects have more than the"
                f" {most} bytes that this store takes in one object"
            )
        if self.too_large:
            self._build(requests, self.scenario.container_count)


def _parameters(requests: Requests) -> dict[str, int | str]:
    """Those of the requests' operations; of a number of bytes the average of the log."""
    return {
        each.key: (each.is_size and requests.mean_moved(operation)) or each.default
        for operation in requests.counts
        for each in row_of(operation).parameters
    }
