"""A master and workers on simulated links and clocks: the real Master and the real WorkerMachine.

``Cluster`` is the master's transport: while the master waits for messages, simulated time passes
and the workers run. A run of a minute takes about a second. ``check`` compares four accounts of a
run: the master's counts, the workload's, the recorded results, and what the workers started.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from ssbench import __version__
from ssbench.core.columns import Schema
from ssbench.core.errors import ExitStatus
from ssbench.core.messages import (
    Bye,
    ControlState,
    Heartbeat,
    Hello,
    Message,
    Results,
    encode,
    unpack,
)
from ssbench.core.model import ErrorKind, Job, Phase, Stage, Timing, WorkerExit
from ssbench.core.records import Record, ResultBatch
from ssbench.core.settings import Limits, StorageSettings, WorkerSettings
from ssbench.master.master import Master
from ssbench.master.phase_machine import PhaseOutcome, PhasePlan
from ssbench.transport.sockets import Ports
from ssbench.worker.held_jobs import Completed
from ssbench.worker.machine import (
    CloseJobs,
    Connect,
    EndPhase,
    OpenJobs,
    WorkerMachine,
    WorkerPhase,
)
from tests.core.workload.fleet import Ledger, row
from tests.fakes.observers import Recorder

SECOND = 1_000_000_000
STEP_NS = SECOND // 100
JOBS_NS = 2 * STEP_NS  #: the way of a message with jobs
PIPE = 2
CLOSING_NS = 4 * STEP_NS  #: until the master notices that a worker has closed its work socket
_START_NS = 10_000 * SECOND
_MAX_S = 600  #: simulated seconds; a run that takes longer hangs


@dataclass
class Chaos:
    """What a link does to each message to the master, and to each control state.

    No real link does this: TCP loses messages only with the connection, and keeps their order.
    """

    seed: int = 0
    loses: float = 0.0  #: probability
    repeats: float = 0.0
    delay_s: float = 0.0  #: at most; messages overtake each other
    forges: float = 0.0  #: a message is followed by a false one, or by an old one again
    chance: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)

    def arrivals_ns(self, now_ns: int) -> list[int]:
        """When a message arrives: never, once or twice."""
        if self.chance.random() < self.loses:
            return []
        count = 2 if self.chance.random() < self.repeats else 1
        return [now_ns + int(self.chance.random() * self.delay_s * SECOND) for _ in range(count)]


class SimWorker:
    """The shell of a worker: users that take ``operation_s`` for each job, a clock of its own."""

    def __init__(self, cluster: Cluster, name: str, concurrency: int, ahead_ns: int) -> None:
        self.name = name
        self.ahead_ns = ahead_ns  #: its clock minus the master's
        self.operation_s = 0.03
        self.failing = 0.0  #: share of its operations that fail
        self.connected = True  #: its links are up
        self.running = True  #: False: SIGSTOP
        self.sends = True  #: False: ZeroMQ keeps its messages
        self.hears = True  #: False: its link to the control port is down
        self.alive = True
        #: Messages with jobs that it has not read, and when each arrives.
        self.pipe: deque[tuple[int, bytes]] = deque()
        self.takes_jobs = False  #: its work socket is open
        self.closed_ns = 0  #: until then the master also sends to its former work socket
        self.cluster = cluster
        self._settings = WorkerSettings(
            name, concurrency, host="host", pid=cluster.next_pid(), version=__version__
        )
        self._state: ControlState | None = None  # in the control socket
        self._in_flight: list[tuple[int, int, Job, WorkerPhase]] = []  # (end, start, ...)
        self.restart()

    def restart(self) -> None:
        """Another process of the same name."""
        own = self._settings = replace(self._settings, pid=self.cluster.next_pid())
        chance = random.Random(own.pid)
        self.machine = WorkerMachine(own, chance, self.cluster.now_ns + self.ahead_ns)
        self.pipe.clear()
        self._in_flight.clear()
        self._state = None
        self.alive = self.running = self.sends = self.connected = True
        self.takes_jobs = False

    def kill(self) -> None:
        """SIGKILL: operations in flight may have run, their results are gone."""
        self.alive = self.takes_jobs = False
        self.pipe.clear()

    def cut(self) -> None:
        """The links break; what is in the sockets is lost."""
        self.connected = False
        self.pipe.clear()

    @property
    def pid(self) -> int:
        return self._settings.pid

    @property
    def can_take(self) -> bool:
        """Whether the master's socket has room for it."""
        return self.alive and self.connected and self.takes_jobs and len(self.pipe) < PIPE

    def deliver(self, state: ControlState) -> None:
        """A control state arrives at its socket; it reads the newest."""
        if self.alive and self.connected and self.hears:
            self._state = state

    def step(self) -> None:
        """10 ms pass."""
        if not (self.alive and self.running):
            return
        machine, now_ns = self.machine, self.cluster.now_ns + self.ahead_ns
        state, self._state = self._state, None
        if state is not None:
            machine.receive_control_state(state, now_ns, now_ns)
            self._answer(state, now_ns)
        machine.tick(now_ns)
        self._act()
        self._fetch()
        self._work(now_ns)
        self._send()
        hello = machine.hello(now_ns)
        if hello and self.connected:
            self.cluster.send(self, hello)
            machine.hello_sent(now_ns)
        if machine.status is not None:
            machine.close()
            self._act()
            self._send()
            self.alive = self.takes_jobs = False

    def _answer(self, state: ControlState, now_ns: int) -> None:
        phase = self.machine.phase
        busy = phase.held.busy if phase else 0
        queued = phase.held.total - busy if phase else 0
        incarnation = self.machine.incarnation
        self.cluster.send(self, Heartbeat(incarnation, state.serial, now_ns, 0, 0, busy, queued))

    def _act(self) -> None:
        while self.machine.actions:
            action = self.machine.actions.popleft()
            if isinstance(action, Connect):
                self.machine.connected(action.phase, action.users)
            elif isinstance(action, OpenJobs):
                self.takes_jobs = True
            elif isinstance(action, CloseJobs):
                self._fetch()
                if self.takes_jobs:
                    self.closed_ns = self.cluster.now_ns + CLOSING_NS
                self.takes_jobs = False
                self.pipe.clear()
            elif isinstance(action, EndPhase):
                self._in_flight.clear()

    def _fetch(self) -> None:
        at_ns = self.cluster.now_ns
        while self.pipe and self.pipe[0][0] <= at_ns and self.machine.wants_jobs:
            self.machine.receive_jobs(self.pipe.popleft()[1], at_ns + self.ahead_ns)
        if self.machine.phase:
            self.machine.acknowledge()

    def _work(self, now_ns: int) -> None:
        phase = self.machine.phase
        if phase is None:
            return
        held = phase.held
        ended = [entry for entry in self._in_flight if entry[0] <= now_ns]
        self._in_flight = [entry for entry in self._in_flight if entry[0] > now_ns]
        for end_ns, start_ns, job, _ in ended:
            done: Completed = (job, start_ns, Timing(end_ns, end_ns, end_ns, job.size, 200))
            if self.cluster.chance.random() < self.failing:
                done = row(job, error=int(ErrorKind.STATUS), status=503)
            held.finished.append(done)
            held.busy -= 1
        for group, queue in enumerate(held.queues):
            busy = sum(entry[2].group == group for entry in self._in_flight)
            while queue and busy < held.users[group] and now_ns <= held.lease_expires_ns:
                job = queue.popleft()
                busy += 1
                held.busy += 1
                self.cluster.note_start(job)
                end_ns = now_ns + int(self.operation_s * SECOND)
                self._in_flight.append((end_ns, now_ns, job, phase))
        self.machine.report(now_ns)

    def _send(self) -> None:
        outbox = self.machine.outbox
        while outbox and self.connected and self.sends:
            self.cluster.send(self, outbox.popleft())


class Cluster:
    """A master, its transport and its workers.

    :param options: of Limits.
    """

    pipe, ports, rejected = PIPE, Ports(1, 2, 3), 0
    ip, is_loopback, has_key, has_key_of_host = "192.0.2.1", False, True, False
    key_hint = ""

    def __init__(self, workers: int = 3, chaos: Chaos | None = None, **options: Any) -> None:
        self.now_ns = _START_NS
        self.foreign_connections = 0  #: to the work port, which take no jobs
        self.begun: Counter[int] = Counter()  #: how often each object's operation was started
        self.too_late: list[Job] = []  #: started after the master had given them up
        self.into_closed = 0  #: messages that were sent to a socket that was closed
        self.chance = random.Random(1)
        self.recorded: Counter[str] = Counter()  #: rows of the stat file, by outcome
        observer = Recorder()
        observer.wants_results = observer.wants_counts = False
        self.messages = observer.messages
        self.ledger = Ledger(0)
        self._pids = 100
        self._chaos = chaos or Chaos()
        #: (arrival, order, message, its size)
        self._coming: list[tuple[int, int, Message, int]] = []
        self._old: list[Message] = []  # all that workers have sent
        self._sent = 0
        self._turn = 0
        self._script: list[tuple[int, Callable[[], object]]] = []
        self._exits: list[WorkerExit] = []
        self.workers = [
            SimWorker(self, f"w{n}", 4, (n - 1) * 3600 * SECOND) for n in range(workers)
        ]
        limits = Limits(
            **{"worker_timeout_s": 4.0, "worker_wait_s": 10.0, "batch_size": 4, **options}
        )
        self.master = Master(
            self,  # type: ignore[arg-type]
            [observer],
            StorageSettings(driver="noop", run_id="run"),
            limits,
            children=[self],
            recorder=self,
            clock=lambda: self.now_ns,
        )

    # A run -------------------------------------------------------------------------------------

    def run(
        self,
        total: int = 400,
        users: int = 12,
        seconds: float | None = None,
        stages: Sequence[Stage] = (),
        groups: tuple[int, ...] = (),
    ) -> PhaseOutcome:
        """Wait for the workers, run the phase, check the accounts."""
        self.ledger = Ledger(total, groups)
        self.recorded.clear()
        self.master.wait_for_workers(users, len(self.workers))
        outcome = self.master.run_phase(PhasePlan(Phase.RUN, self.ledger, users, seconds, stages))
        self.check(outcome)
        return outcome

    def check(self, outcome: PhaseOutcome) -> None:
        """Every job ended once, as done, failed, lost or withdrawn, and as the counts say; each
        that is done or failed was recorded once, and had run."""
        counts = outcome.counts
        assert counts.sent == counts.done + counts.failed + counts.lost + counts.withdrawn
        told = Counter(self.ledger.outcome.values())
        by_outcome = (counts.done, counts.failed, counts.lost, counts.withdrawn)
        assert by_outcome == (told["done"], told["failed"], told["lost"], told["withdrawn"])
        assert self.recorded == +Counter(done=counts.done, failed=counts.failed)
        ran = [each for each, what in self.ledger.outcome.items() if what in ("done", "failed")]
        assert all(self.begun[number] for number in ran)
        if outcome.ended == "complete" and self.ledger.finished:
            assert counts.withdrawn == 0
        elif outcome.ended != "complete":
            assert outcome.reason

    def at(self, seconds: float, act: Callable[[], object]) -> None:
        """Let this happen at that time from now on."""
        self._script.append((self.now_ns + int(seconds * SECOND), act))

    def end(self, seconds: float = 5.0) -> list[ExitStatus | None]:
        """Release the workers and make them exit; returns their statuses."""
        self.master.kill_workers(0)
        self.master.release_workers()
        until_ns = self.now_ns + int(seconds * SECOND)
        self.master.keep_workers(lambda: self.now_ns >= until_ns)
        return [worker.machine.status for worker in self.workers]

    @property
    def started_twice(self) -> int:
        """Starts of operations beyond the first one."""
        return sum(self.begun.values()) - len(self.begun)

    def note_start(self, job: Job) -> None:
        """A user starts a job; the master must not have given it up before."""
        self.begun[job.object] += 1
        if self.ledger.outcome.get(job.object) in ("done", "failed", "lost"):
            self.too_late.append(job)

    def next_pid(self) -> int:
        self._pids += 1
        return self._pids

    # The links ---------------------------------------------------------------------------------

    def send(self, worker: SimWorker, message: Message, times: int = 1) -> None:
        """A worker sends, as often as that in a row."""
        if not worker.connected:
            return
        chaos, messages = self._chaos, [message]
        if chaos.forges:
            self._old.append(message)
            if chaos.chance.random() < chaos.forges:
                messages.append(self._forged(worker, chaos.chance.choice(self._old)))
        for each in messages:
            size = len(encode(each))
            for _ in range(times):
                for at_ns in chaos.arrivals_ns(self.now_ns):
                    self._sent += 1
                    self._coming.append((at_ns, self._sent, each, size))

    def _forged(self, worker: SimWorker, old: Message) -> Message:
        """A message again, or as if it were of this worker."""
        chance, incarnation = self._chaos.chance, worker.machine.incarnation
        if isinstance(old, (Bye, Hello)) or chance.random() < 0.5:
            return old  # a false hello or bye needs the worker's secret: see tests of transport
        if isinstance(old, Results) and chance.random() < 0.3:
            return old._replace(incarnation=incarnation, packed=old.packed[:-3])
        return old._replace(incarnation=incarnation)

    def send_jobs(self, data: bytes) -> bool:
        for _ in self.workers:
            self._turn += 1
            worker = self.workers[self._turn % len(self.workers)]
            if worker.closed_ns > self.now_ns:
                self.into_closed += 1
                return True
            if worker.can_take:
                worker.pipe.append((self.now_ns + JOBS_NS, data))
                return True
        return False

    @property
    def work_connections(self) -> int:
        closed = [worker for worker in self.workers if worker.closed_ns > self.now_ns]
        own = sum(worker.takes_jobs for worker in self.workers)
        return own + len(closed) + self.foreign_connections

    def send_control_state(self, state: ControlState) -> None:
        for worker in self.workers:
            if self._chaos.arrivals_ns(self.now_ns):
                worker.deliver(state)

    def receive(
        self, timeout_s: float, secrets: Mapping[int, bytes], *, or_writable: bool = False
    ) -> Iterator[tuple[Message, int]]:
        until_ns = self.now_ns + max(int(timeout_s * SECOND), 1)
        while not (found := self._arrived()) and self.now_ns < until_ns:
            self.now_ns = min(self.now_ns + STEP_NS, until_ns)
            self._step()
            if or_writable and any(worker.can_take for worker in self.workers):
                break
        yield from found

    def _arrived(self) -> list[tuple[Message, int]]:
        if not self._coming:
            return []
        arrived = sorted(entry for entry in self._coming if entry[0] <= self.now_ns)
        self._coming = [entry for entry in self._coming if entry[0] > self.now_ns]
        return [(message, size) for _, _, message, size in arrived]

    def _step(self) -> None:
        assert self.now_ns < _START_NS + _MAX_S * SECOND, f"it hangs: {self.master}"
        if self._script:
            due = [entry for entry in self._script if entry[0] <= self.now_ns]
            self._script = [entry for entry in self._script if entry[0] > self.now_ns]
            for _, act in due:
                act()
        for worker in self.workers:
            worker.step()

    def rejected_peers(self, *, last: bool = False) -> list[str]:
        return []

    # A recorder --------------------------------------------------------------------------------

    def write(self, record: Record) -> None:
        pass

    def append_results(self, phase: Phase, worker: int, schema: Schema, packed: bytes) -> None:
        count, names = unpack(packed)[0], tuple(name for name, _ in schema)
        errors = ResultBatch(phase, worker, count, names, packed).column("error")
        self.recorded.update("failed" if error else "done" for error in errors)

    def tick(self, now_s: float) -> None:
        pass

    # Children ----------------------------------------------------------------------------------

    def exits(self) -> list[WorkerExit]:
        found, self._exits = self._exits, []
        return found

    def all_gone(self) -> bool:
        return False

    def notice_exit(self, worker: SimWorker) -> None:
        """The master started this worker, and sees that its process ended."""
        self._exits.append(WorkerExit(worker.name, worker.pid, "it was killed by SIGKILL"))
