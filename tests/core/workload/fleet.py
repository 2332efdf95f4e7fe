"""Workers in memory, a workload that keeps a ledger, and a link that loses what a test says.

No socket, no clock: a message is a value in a deque until ``Fleet.deliver`` hands it over.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count

from ssbench.core.columns import pack_results
from ssbench.core.dispatch.dispatcher import Batch, Dispatcher
from ssbench.core.dispatch.workers import Event, WorkerLeft, Workers
from ssbench.core.messages import (
    Ack,
    Bye,
    Heartbeat,
    Hello,
    Message,
    Ready,
    Results,
    Returned,
    pack,
)
from ssbench.core.model import SECOND_NS, ErrorKind, Failure, Job, Phase, Result
from ssbench.core.operations import READ
from ssbench.core.settings import Limits
from ssbench.core.workload.workload import Workload

MS = SECOND_NS // 1000
RUN = "run"


class Ledger(Workload):
    """A workload of READs that notes what became of each object, once."""

    phase = Phase.RUN
    exhausted: str | None = None

    def __init__(self, total: int, groups: tuple[int, ...] = ()) -> None:
        self.total = total
        self.groups = groups
        self.outcome: dict[int, str] = {}
        self.ended_s: dict[int, float] = {}  #: by object: when its success or failure arrived

    def take(self, first_number: int, limit: int, now_s: float, group: int = 0) -> list[Job]:
        count = min(limit, self.total - self.taken)
        objects = range(self.taken, self.taken + count)
        self.taken += count
        return [
            Job(first_number + at, READ, 0, each, 0, 100, group=group)
            for at, each in enumerate(objects)
        ]

    def succeeded(self, jobs: Iterable[Job], now_s: float) -> None:
        self._note(jobs, "done", now_s)

    def failed(self, job: Job, failure: Failure, now_s: float) -> None:
        self._note([job], "failed", now_s)

    def lost(self, jobs: Iterable[Job]) -> None:
        self._note(jobs, "lost")

    def withdrawn(self, jobs: Iterable[Job]) -> None:
        self._note(jobs, "withdrawn")

    def _note(self, jobs: Iterable[Job], outcome: str, now_s: float | None = None) -> None:
        for job in jobs:
            assert job.object not in self.outcome, "one outcome for each job"
            self.outcome[job.object] = outcome
            if now_s is not None:
                self.ended_s[job.object] = now_s


def row(job: Job, *, error: int = 0, status: int = 200, unknown: int = 0) -> Result:
    """The Result of a job."""
    return Result(
        job.number, job.operation, job.size_class, job.object, job.due_ns,
        5, 10, 20, 30, job.size, 0, 0, 0, 0, 0, 0, status, error, unknown,
    )  # fmt: skip


def packed(jobs: Sequence[Job], *, error: int = 0, status: int = 200) -> bytes:
    """Packed results of these jobs."""
    return pack(pack_results([row(job, error=error, status=status) for job in jobs]))


@dataclass
class SimWorker:
    """One incarnation: its jobs, and its messages that have not arrived yet."""

    hello: Hello
    pipe: deque[Batch] = field(default_factory=deque)  #: sent to it, not yet read
    queue: list[Job] = field(default_factory=list)
    outbox: deque[Message] = field(default_factory=deque)

    @property
    def incarnation(self) -> int:
        return self.hello.incarnation

    def take(self) -> Batch | None:
        """Read a batch and say so."""
        if not self.pipe:
            return None
        batch = self.pipe.popleft()
        self.queue.extend(batch.jobs)
        self.outbox.append(Ack(self.incarnation, RUN, [batch.number]))
        return batch

    def work(self, count: int = 1000, *, error: int = 0) -> None:
        """Do jobs of the queue and say so."""
        jobs, self.queue = self.queue[:count], self.queue[count:]
        if jobs:
            status = 503 if error else 200
            data = packed(jobs, error=error, status=status)
            along = self.outbox.pop() if self.outbox and isinstance(self.outbox[-1], Ack) else None
            took = along.batches if isinstance(along, Ack) else []
            self.outbox.append(Results(self.incarnation, RUN, Phase.RUN, took, data))

    def ready(self, *, receiving: bool = True) -> None:
        """Its work socket is open, or no longer."""
        self.outbox.append(Ready(self.incarnation, RUN, Phase.RUN, False, 0, receiving))

    def return_jobs(self, count: int = 1000) -> None:
        """Return unstarted jobs."""
        jobs, self.queue = self.queue[:count], self.queue[count:]
        if jobs:
            self.outbox.append(Returned(self.incarnation, RUN, [job.number for job in jobs]))


class Fleet:
    """A master's machines and the workers that they talk to."""

    def __init__(
        self,
        total: int = 100,
        *,
        timeout_s: float = 10.0,
        max_batch: int = 2,
        workload: Workload | None = None,
    ) -> None:
        self.now_ns = 1000 * SECOND_NS
        self.registry = Workers(limits=Limits(worker_timeout_s=timeout_s))
        self.ledger = Ledger(total)
        self.dispatcher = Dispatcher(workload or self.ledger, self.registry, count(1), max_batch)
        self.workers: list[SimWorker] = []
        self._incarnation = 100

    def hello(
        self, worker_id: str, concurrency: int = 4, *, previous: int = 0, users: int = 1000
    ) -> SimWorker:
        """A worker comes, with a new incarnation; whom it replaces is gone."""
        self._incarnation += 1
        hello = Hello(self._incarnation, previous, worker_id, concurrency, "host", 1, "1.0")
        worker = SimWorker(hello)
        self.workers.append(worker)
        self.registry.users = users
        self.register(worker)
        return worker

    def register(self, worker: SimWorker) -> bool:
        """The hello arrives, and its first heartbeat; whether the worker is here now."""
        self.lose(self.registry.receive(worker.hello, self.now_ns))
        state = self.registry.control_state(self.now_ns, at_once=True)
        assert state
        self.registry.heartbeat(
            Heartbeat(worker.incarnation, state.serial, 0, 0, 0, 0, 0), self.now_ns
        )
        return self.here(worker)

    def lose(self, events: Iterable[Event]) -> None:
        """Account for the jobs of workers that are gone."""
        for event in events:
            if isinstance(event, WorkerLeft):
                self.dispatcher.worker_lost(event.worker.hello.incarnation)

    def here(self, worker: SimWorker) -> bool:
        return worker.incarnation in self.registry.present

    def set_users(self, users: int) -> None:
        """Another stage."""
        self.registry.allocate_users(users)

    def send(self, worker: SimWorker) -> Batch | None:
        """The next batch, if there is one now, goes to this worker's pipe."""
        batches = self.dispatcher.to_send(self.now_ns)
        worker.pipe.extend(batches)
        return batches[0] if batches else None

    def send_all(self, worker: SimWorker) -> list[Batch]:
        """All that there is credit for."""
        return list(iter(lambda: self.send(worker), None))

    def hold_all(self, worker: SimWorker) -> list[Job]:
        """Send all that there is credit for, and let the worker acknowledge it; gives the jobs."""
        sent = self.send_all(worker)
        while worker.take():
            pass
        self.deliver(worker)
        return [job for batch in sent for job in batch.jobs]

    def heartbeat(self, worker: SimWorker, *, busy: int = 0, delay_ns: int = MS) -> None:
        """Send a control state, and this worker's heartbeat at once."""
        state = self.registry.control_state(self.now_ns, at_once=True)
        assert state is not None
        self.now_ns += delay_ns
        self.deliver_one(
            Heartbeat(worker.incarnation, state.serial, self.now_ns, 0, 0, busy, len(worker.queue))
        )

    def deliver(self, worker: SimWorker, count: int = 1_000_000) -> None:
        """What the worker has said arrives, in order."""
        while worker.outbox and count:
            self.deliver_one(worker.outbox.popleft())
            count -= 1

    def deliver_one(self, message: Message) -> None:
        """As the master does it."""
        dispatcher, now_ns = self.dispatcher, self.now_ns
        if isinstance(message, Ack):
            dispatcher.acked(message.incarnation, message.batches, now_ns)
        elif isinstance(message, Results):
            if message.acked:
                dispatcher.acked(message.incarnation, message.acked, now_ns)
            dispatcher.results(message.incarnation, message.packed, now_ns)
        elif isinstance(message, Returned):
            dispatcher.returned(message.incarnation, message.numbers)
        elif isinstance(message, Heartbeat):
            self.registry.heartbeat(message, now_ns)
        elif isinstance(message, Ready):
            self.registry.receive_ready(message)
        elif isinstance(message, Bye):
            self.lose(self.registry.receive(message, now_ns))

    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.now_ns += int(seconds * SECOND_NS)
        self.lose(self.registry.tick(self.now_ns))
        self.dispatcher.tick(self.now_ns)

    def round(self, worker: SimWorker, *, error: int = ErrorKind.NONE) -> None:
        """An honest worker takes, does and reports whatever has come."""
        while worker.take():
            pass
        worker.work(error=error)
        self.deliver(worker)

    def check(self) -> None:
        """Every job is accounted for once, and by the same word on both sides."""
        counts = self.dispatcher.counts
        told = Counter(self.ledger.outcome.values())
        by_word = (counts.done, counts.failed, counts.lost, counts.withdrawn)
        assert by_word == (told["done"], told["failed"], told["lost"], told["withdrawn"])
        assert counts.sent == sum(by_word) + self.dispatcher.in_flight
        assert counts.sent == self.ledger.taken
        assert self.dispatcher.idle == (self.dispatcher.in_flight == 0)
