"""The master with real workers: in threads, in processes, and scripted ones."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import gevent
import pytest
import zmq
from gevent import get_hub
from msgspec.structs import replace

from ssbench import __version__
from ssbench.core.columns import Schema, pack_results
from ssbench.core.errors import (
    AuthError,
    StatFileError,
    StorageError,
)
from ssbench.core.live import Observer, RunProgress
from ssbench.core.messages import (
    PROTOCOL,
    Ack,
    Addresses,
    Bye,
    Heartbeat,
    Jobs,
    Network,
    NetworkCheck,
    Profiled,
    Results,
    pack,
    unpack,
)
from ssbench.core.model import ErrorKind, Job, Phase, Timing
from ssbench.core.operations import OPERATIONS
from ssbench.core.records import (
    MASTER,
    AddressRecord,
    MarkRecord,
    PhaseRecord,
    ProfileRecord,
    Record,
    ResultBatch,
    WorkerRecord,
)
from ssbench.core.settings import Credentials, Limits, StorageSettings
from ssbench.core.text import said
from ssbench.master import master as master_module
from ssbench.master.master import Master
from ssbench.master.phase_machine import PhaseOutcome, PhasePlan
from ssbench.storage.noop import NoopStorage
from ssbench.storage.registry import Permissions, open_store
from ssbench.transport.master_transport import MasterTransport
from ssbench.transport.network import NetworkListener
from ssbench.transport.sockets import Ports
from ssbench.transport.worker_transport import WorkerTransport
from ssbench.worker import machine as machine_module
from ssbench.worker import user_pool as store_module
from ssbench.worker.worker import Worker, local_settings
from tests.core.workload.fleet import Ledger, packed, row
from tests.fakes.batches import unpack_results
from tests.fakes.drivers import with_token
from tests.fakes.scripted_worker import ScriptedWorker
from tests.fakes.slow_storage import DRIVER
from tests.timing import PATIENCE_S

RUN = "run1"
ROOT = Path(__file__).resolve().parents[2]
PATIENT = Limits(worker_wait_s=20.0)


class RecordingObserver(Observer):
    """Keeps what it receives."""

    wants_counts = True

    def __init__(self, wants_results: bool = True) -> None:
        self.wants_results = wants_results
        self.messages: list[str] = []
        self.phases: list[tuple[Phase, int | None]] = []
        self.progress: list[RunProgress] = []
        self.rows = 0
        self.waits: list[str] = []

    def start_phase(self, phase: Phase, total: int | None = None, title: str = "") -> None:
        self.phases.append((phase, total))

    def results(self, columns: Sequence[Sequence[int]]) -> None:
        assert len({len(column) for column in columns}) == 1
        self.rows += len(columns[0])

    def update(self, progress: RunProgress) -> None:
        self.progress.append(progress)

    def wait_for(self, text: str) -> None:
        self.waits.append(text)

    def message(self, text: str) -> None:
        self.messages.append(text)


class Recorder:
    """Keeps results; ``fault`` is raised at the next record of the kind ``fails_at``, or at a tick
    where it is None."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.batches = 0
        self.numbers: list[int] = []  #: of the operations
        self.fault: StatFileError | None = None
        self.fails_at: type[Record] | None = ResultBatch

    def write(self, record: Record) -> None:
        if self.fault and self.fails_at and isinstance(record, self.fails_at):
            raise self.fault
        self.records.append(record)

    def append_results(self, phase: Phase, worker: int, schema: Schema, packed: bytes) -> None:
        if self.fault and self.fails_at is ResultBatch:
            raise self.fault
        self.batches += 1
        self.numbers += unpack_results(unpack(packed))[0]

    def tick(self, now_s: float) -> None:
        if self.fault and self.fails_at is None:
            raise self.fault


class Scene:
    """A master, and whoever works for it."""

    def __init__(self, limits: Limits, **options: Any) -> None:
        self.observer, self.recorder = RecordingObserver(), Recorder()
        driver = options.pop("driver", "noop")
        self.transport = MasterTransport("127.0.0.1", Ports(0, 0, 0), None)
        self.master = Master(
            self.transport,
            [self.observer],
            StorageSettings(driver=driver, run_id=RUN),
            limits,
            recorder=self.recorder,
            **options,
        )
        self.stack = ExitStack()
        self._threads: list[threading.Thread] = []

    def begin_run(self, run_id: str, recorder: Recorder, **changes: Any) -> None:
        """Another run with the same settings, but for these, and without credentials."""
        settings = replace(self.master.settings, run_id=run_id, credentials=(), **changes)
        self.master.begin_run(settings, recorder)

    def thread_worker(self, worker_id: str = "w", **options: Any) -> None:
        """A worker in a thread."""
        thread = threading.Thread(target=self._work, args=(worker_id, options))
        self._threads.append(thread)
        thread.start()

    def _work(self, worker_id: str, options: dict[str, Any]) -> None:
        transport = WorkerTransport("127.0.0.1", self.transport.ports, None)
        try:
            open_driver = options.pop("open_driver", open_store)
            permitted = options.pop("permitted", Permissions())
            settings = local_settings(worker_id, **options)
            Worker(transport, settings, open_driver=open_driver, permitted=permitted).serve()
        finally:
            get_hub().destroy(destroy_loop=True)

    def process_worker(self, worker_id: str) -> subprocess.Popen[bytes]:
        """A worker in a process."""
        ports = self.transport.ports
        process = subprocess.Popen(
            [
                sys.executable, "-m", "ssbench.cli.worker", "-c", "4",
                "--zmq-work-port", str(ports.work), "--zmq-results-port", str(ports.results),
                "--zmq-control-port", str(ports.control),
                "--allow-driver", DRIVER.partition(":")[0], worker_id,
            ],
            env={**os.environ, "PYTHONPATH": str(ROOT), "SSBENCH_KEY_FILE": "none"},
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        return process

    def scripted(self, script: Any, **options: Any) -> ScriptedWorker:
        """A scripted."""
        return self.stack.enter_context(ScriptedWorker(self.transport.ports, script, **options))

    def run(
        self, ledger: Ledger, users: int = 8, expected: int | None = 1, **options: Any
    ) -> PhaseOutcome:
        """Gather workers and run one phase."""
        self.master.wait_for_workers(users, expected)
        return self.master.run_phase(PhasePlan(Phase.RUN, ledger, users, **options))

    def told(self, kind: type) -> list[Any]:
        """Records of a kind."""
        return [record for record in self.recorder.records if isinstance(record, kind)]

    def close(self) -> None:
        self.stack.close()
        self.master.kill_workers(0)
        self.master.release_workers()
        deadline = time.monotonic() + PATIENCE_S

        def is_over() -> bool:
            alive = any(thread.is_alive() for thread in self._threads)
            assert not alive or time.monotonic() < deadline, "a worker does not end"
            return not alive

        self.master.keep_workers(is_over)
        self.transport.__exit__(None, None, None)


@contextmanager
def scene(limits: Limits = PATIENT, **options: Any) -> Iterator[Scene]:
    made = Scene(limits, **options)
    try:
        yield made
    finally:
        made.close()


def adds_up(outcome: PhaseOutcome) -> bool:
    counts = outcome.counts
    return counts.sent == counts.done + counts.failed + counts.lost + counts.withdrawn


# A run ------------------------------------------------------------------------------------


def test_a_run_with_a_profile_records_it_for_each_process_that_is_left() -> None:
    # The living worker keeps in time also where it gets no core for seconds.
    with scene(Limits(worker_timeout_s=10, worker_wait_s=20), profile=True) as here:
        dying, _ = here.process_worker("dying"), here.process_worker("living")
        ledger = Ledger(40_000)
        note = ledger.succeeded

        def kill_at_2000(jobs: Iterable[Job], now_s: float) -> None:
            note(jobs, now_s)
            if len(ledger.outcome) > 2000:
                dying.kill()

        ledger.succeeded = kill_at_2000  # type: ignore[method-assign]
        outcome = here.run(ledger, expected=2)
        assert outcome.counts.done + outcome.counts.lost == 40_000
        index = {worker.worker_id: worker.index for worker in here.told(WorkerRecord)}
        profiles = {record.worker: record for record in here.told(ProfileRecord)}
        assert set(profiles) == {MASTER, index["living"]}
        for record in profiles.values():
            assert record.samples > 0
            assert 0 < record.overhead_ns < 0.2 * sum(record.stacks.values())
        assert any("ssbench/" in stack for stack in profiles[index["living"]].stacks)
        run_phase = "Master.run_phase" if sys.version_info >= (3, 11) else "run_phase ("
        assert any(run_phase in stack for stack in profiles[MASTER].stacks)


def test_a_worker_that_cannot_sample_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ssbench.master.master.PROFILES_NS", 3600 * 10**9)
    with scene(profile=True) as here:
        here.thread_worker()  # only the main thread of a process can
        assert here.run(Ledger(20), users=4).ended == "complete"
        samples = {record.worker: record.samples for record in here.told(ProfileRecord)}
        assert samples.keys() == {0, MASTER}
        assert samples[0] == 0


@pytest.mark.parametrize(
    ("asked", "run", "kept"), [(True, "run1", 1), (False, "run1", 0), (True, "another", 0)]
)
def test_only_the_first_profile_is_kept_that_the_run_asked_for(
    asked: bool, run: str, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tells(scripted: ScriptedWorker, batch: Jobs, jobs: list[Job]) -> None:
        for _ in range(3):
            scripted.transport.send(Profiled(scripted.incarnation, run, {"a": 1}, 1, 1))
        honest(scripted, batch, jobs)

    monkeypatch.setattr(master_module, "PROFILES_NS", 0)
    with scene(profile=asked) as here:
        here.scripted(tells)
        assert here.run(Ledger(4), users=4).counts.done == 4
        assert [each.worker for each in here.told(ProfileRecord)].count(0) == kept


def test_addresses_of_a_worker_only_grow_and_are_those_of_the_phase() -> None:
    """Its results number them, also those that are recorded already."""

    def tells(scripted: ScriptedWorker, batch: Jobs, jobs: list[Job]) -> None:
        for run, phase, names in (
            (RUN, Phase.RUN, ["a"]), ("another", Phase.RUN, ["a", "x"]),
            (RUN, Phase.CLEANUP, ["a", "y"]), (RUN, Phase.RUN, ["a"]), (RUN, Phase.RUN, ["b", "z"]),
            (RUN, Phase.RUN, ["a", "c\x1b"]), (RUN, Phase.RUN, []),
        ):  # fmt: skip
            scripted.transport.send(Addresses(scripted.incarnation, run, phase, names))
        honest(scripted, batch, jobs)

    with scene() as here:
        here.scripted(tells)
        assert here.run(Ledger(4), users=4).counts.done == 4
        kept = here.told(AddressRecord)
        assert {(each.worker, each.phase) for each in kept} == {(0, Phase.RUN)}
        assert [each.names for each in kept] == [("a",), ("a", said("c\x1b"))]


# Who comes --------------------------------------------------------------------------------


def test_the_second_of_two_with_one_id_is_refused_and_the_run_goes_on() -> None:
    with scene(Limits(worker_wait_s=1.0, fewer_workers_ok=True)) as here:
        here.thread_worker("twin")
        here.master.wait_for_workers(4, 1)
        here.thread_worker("twin")
        here.master.wait_for_workers(4, 2)
        (reason,) = here.master.workers.refused.values()
        assert reason.startswith('the worker id "twin" is taken by twin (')
        assert any("twin" in message for message in here.observer.messages)
        outcome = here.master.run_phase(PhasePlan(Phase.RUN, Ledger(50), 4))
        assert outcome.counts.done == 50
        assert len(here.master.workers.present) == 1


def test_a_limited_number_of_workers_is_warned_of_and_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert master_module._WORKERS_NAMED == 1000
    monkeypatch.setattr(master_module, "_WORKERS_NAMED", 2)
    with scene() as here:
        with ExitStack() as workers:
            for number in range(4):
                worker = ScriptedWorker(here.transport.ports, honest, worker_id=f"w{number}")
                worker.incarnation = number + 1
                workers.enter_context(worker)
            here.master.wait_for_workers(16, 4)
        here.master.keep_workers(lambda: not here.master.workers.present)
        here.begin_run("run2", here.recorder)
        *lost, last = here.master.workers_lost
        told = [line for line in here.observer.messages if "left before the end" in line]
    assert (len(lost), last) == (2, "and more")
    assert [line.count("further such warnings about workers are left out") for line in told] == [
        0, 1,
    ]  # fmt: skip


def test_an_interrupt_ends_the_wait_for_workers() -> None:
    with scene() as here:
        here.master.interrupt("interrupted by SIGINT")
        here.master.wait_for_workers(8, 2)
        outcome = here.master.run_phase(PhasePlan(Phase.RUN, Ledger(5), 4))
        assert (outcome.ended, outcome.reason) == ("interrupted", "interrupted by SIGINT")
        assert outcome.counts.done == 0


# Metrics, and the network -----------------------------------------------------------------


def test_a_worker_for_metrics_only_may_leave_a_run() -> None:
    with scene() as here:
        here.thread_worker("metrics", concurrency=0)
        here.thread_worker("w", concurrency=4)
        here.master.gather_workers(2)
        workers = here.master.workers.present
        (metrics,) = (each for each in workers.values() if each.metrics_only)
        here.master.wait_for_workers(4, 1)
        # Given up before it has seen that it is listed, it would return after 5 s only.
        here.master.keep_workers(lambda: metrics.answered_serial)
        sender = WorkerTransport("127.0.0.1", here.transport.ports, None)
        here.stack.callback(sender.close)
        sender.secret = metrics.hello.secret
        bye = Bye(metrics.hello.incarnation, "stopped")
        here.master.keep_workers(lambda: sender.send(bye) and metrics not in workers.values())
        outcome = here.master.run_phase(PhasePlan(Phase.RUN, Ledger(500), 4))
        assert (outcome.ended, outcome.counts.done, outcome.counts.lost) == ("complete", 500, 0)
        assert here.master.workers_lost == []
        assert {progress.workers for progress in here.observer.progress} == {1}
        (line,) = here.observer.messages
        assert line.startswith("No more metrics from worker metrics (")


def test_a_worker_connects_only_to_the_hosts_that_it_allows() -> None:
    with scene() as here, socket.create_server(("127.0.0.1", 0)) as elsewhere:
        here.thread_worker("a", permitted=Permissions(hosts=["store.example"]))
        here.master.gather_workers(1)
        (incarnation,) = here.master.workers.present
        port = elsewhere.getsockname()[1]
        check = NetworkCheck(1, incarnation, "127.0.0.1", port, 0.0, 1000, 5.0)
        answer = here.master.check_network(check, 30.0)
        assert "start this worker with --allow-host 127.0.0.1 if" in answer.fault
        elsewhere.setblocking(False)
        with pytest.raises(BlockingIOError):
            elsewhere.accept()


def test_a_worker_measures_its_connection_to_a_listener() -> None:
    with scene() as here, NetworkListener("127.0.0.1", 0, None, "") as listener:
        thread = threading.Thread(target=listener.serve)
        thread.start()
        here.thread_worker("a")
        here.master.gather_workers(1)
        (incarnation,) = here.master.workers.present
        check = NetworkCheck(1, incarnation, "", listener.port, 0.0, 100_000, 5.0)
        answer = here.master.check_network(check, 30.0)
        assert answer.fault == ""
        assert answer.result is not None
        for intervals in (answer.result.sent, answer.result.received):
            assert sum(each.size_bytes for each in intervals) == 100_000
        listener.close()
        thread.join(60)
        refused = here.master.check_network(check._replace(number=2), 30.0)
        assert refused.result is None
        assert refused.fault.startswith(f"127.0.0.1, port {listener.port}: ")


def test_a_worker_that_is_gone_or_silent_measures_nothing() -> None:
    with scene() as here:
        here.scripted(honest)
        here.master.gather_workers(None)
        (incarnation,) = here.master.workers.present
        check = NetworkCheck(1, incarnation, "store", 1, 1.0, 0, 1.0)
        assert "no response of the worker within" in here.master.check_network(check, 0.1).fault
        gone = check._replace(incarnation=incarnation + 1)
        assert here.master.check_network(gone, 30.0).fault == "the worker is gone"


def test_a_check_of_the_network_takes_only_the_answer_to_it() -> None:
    lies: list[int] = []

    def answers_another(heartbeat: Heartbeat) -> Heartbeat:
        check = other.state and other.state.network
        if check:
            other.transport.send(Network(other.incarnation, check.number, None, "of another"))
            lies.append(check.number)
        return heartbeat

    def answers_earlier(heartbeat: Heartbeat) -> Heartbeat:
        check = asked.state and asked.state.network
        if check and lies:
            for number in (check.number - 1, check.number, check.number - 1):
                asked.transport.send(Network(asked.incarnation, number, None, str(number)))
        return heartbeat

    with scene() as here:
        ports = here.transport.ports
        asked = ScriptedWorker(ports, honest, heartbeats=answers_earlier)
        other = ScriptedWorker(ports, honest, worker_id="other", heartbeats=answers_another)
        other.incarnation += 1
        here.stack.enter_context(asked)
        here.stack.enter_context(other)
        here.master.gather_workers(2)
        check = NetworkCheck(7, asked.incarnation, "store", 1, 1.0, 0, 1.0)
        assert here.master.check_network(check, 30.0).fault == "7"


# What goes wrong --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ResultBatch, MarkRecord, PhaseRecord, None])
def test_a_stat_file_that_cannot_be_written_ends_the_run(kind: type[Record] | None) -> None:
    with scene(driver=DRIVER) as here:
        here.thread_worker(concurrency=4)
        here.recorder.fails_at = kind
        here.recorder.fault = StatFileError("run.stat.gz: no space left on device")
        outcome = here.run(Ledger(10**6), users=4)
        assert (outcome.ended, outcome.reason) == ("failed", str(here.recorder.fault))
        assert adds_up(outcome)
        assert here.master.recorder.error is here.recorder.fault
        assert here.observer.messages == [str(here.recorder.fault)]


# The token --------------------------------------------------------------------------------


class Tokens:
    """A store that takes only the newest token, and where one gets it."""

    def __init__(self) -> None:
        self.good = "new"
        self.renewals = 0
        self.fault: Exception | None = None

    def renew(self) -> Credentials:
        self.renewals += 1
        if self.fault:
            raise self.fault
        return with_token(self.good, 5)

    def driver(self, settings: StorageSettings) -> Any:
        storage = NoopStorage(settings)
        tokens = [settings.newest.payload.get("token")]
        take = storage.set_credentials

        def set_credentials(credentials: Credentials) -> None:
            tokens.append(credentials.payload.get("token"))
            take(credentials)

        def act(job: Job, deadline_ns: int) -> Timing:
            gevent.sleep(0.001)
            if tokens[-1] != self.good:
                raise StorageError(ErrorKind.UNAUTHORIZED, "401 Unauthorized", status=401)
            now = time.perf_counter_ns()
            return Timing(now, now, now, job.size, 200)

        storage.set_credentials = set_credentials  # type: ignore[method-assign]
        storage.actions = dict.fromkeys(OPERATIONS, act)
        return storage


def test_a_token_that_cannot_be_renewed_fails_operations_and_not_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(master_module, "_RENEWAL_NS", 50_000_000)
    monkeypatch.setattr(machine_module, "_ASK_NS", 100_000_000)
    monkeypatch.setattr(store_module, "_LOOK_S", 0.1)
    tokens = Tokens()
    tokens.fault = AuthError("the user is disabled")
    with scene(renew=tokens.renew) as here:
        here.thread_worker(open_driver=tokens.driver, concurrency=2)
        outcome = here.run(Ledger(2), users=2)
        assert (outcome.ended, outcome.counts.failed) == ("complete", 2)
        assert (
            "The credentials could not be renewed: the user is disabled" in here.observer.messages
        )


# Workers that lie -------------------------------------------------------------------------


def honest(scripted: ScriptedWorker, batch: Jobs, jobs: list[Job]) -> None:
    results = Results(scripted.incarnation, RUN, batch.phase, [batch.batch], packed(jobs))
    scripted.transport.send(results)


def twice(scripted: ScriptedWorker, batch: Jobs, jobs: list[Job]) -> None:
    honest(scripted, batch, jobs)
    honest(scripted, batch, jobs)


def forged(scripted: ScriptedWorker, batch: Jobs, jobs: list[Job]) -> None:
    others = [job._replace(number=job.number + 10**6) for job in jobs]
    for incarnation in (scripted.incarnation, 99):
        scripted.transport.send(Results(incarnation, RUN, batch.phase, [10**6], packed(others)))
    honest(scripted, batch, jobs)


def malformed(scripted: ScriptedWorker, batch: Jobs, jobs: list[Job]) -> None:
    for data in (b"", b"\xc1", pack([1, 2, 3])):
        scripted.transport.send(Results(scripted.incarnation, RUN, batch.phase, [], data))
    honest(scripted, batch, jobs)


def of_another_run(scripted: ScriptedWorker, batch: Jobs, jobs: list[Job]) -> None:
    scripted.transport.send(Ack(scripted.incarnation, "another", [batch.batch]))
    scripted.transport.send(Results(scripted.incarnation, "another", batch.phase, [], packed(jobs)))
    scripted.transport.send(Results(scripted.incarnation, RUN, Phase.CLEANUP, [], packed(jobs)))
    honest(scripted, batch, jobs)


def on_the_wrong_port(scripted: ScriptedWorker, batch: Jobs, jobs: list[Job]) -> None:
    scripted.transport.send(batch)
    assert scripted.state is not None
    scripted.transport.send(scripted.state)
    honest(scripted, batch, jobs)


def with_odd_columns(scripted: ScriptedWorker, batch: Jobs, jobs: list[Job]) -> None:
    columns = pack_results([row(job) for job in jobs])
    columns[9] = "no column"
    data = pack(columns)
    scripted.transport.send(Results(scripted.incarnation, RUN, batch.phase, [batch.batch], data))
    honest(scripted, batch, jobs)


def with_impossible_results(scripted: ScriptedWorker, batch: Jobs, jobs: list[Job]) -> None:
    data = pack(pack_results([row(job)._replace(start_ns=10**17) for job in jobs]))
    scripted.transport.send(Results(scripted.incarnation, RUN, batch.phase, [batch.batch], data))
    honest(scripted, batch, jobs)


@pytest.mark.parametrize(
    "script", [honest, twice, forged, malformed, of_another_run, on_the_wrong_port,
               with_odd_columns, with_impossible_results]
)  # fmt: skip
def test_false_messages_are_rejected_and_each_job_counts_once(script: Any) -> None:
    with scene() as here:
        here.scripted(script)
        outcome = here.run(Ledger(40), users=4)
        assert (outcome.ended, outcome.counts.done) == ("complete", 40)
        assert adds_up(outcome)
        refused = here.master.rejected
        assert bool(refused) == (script is not honest)


def test_a_worker_of_another_release_is_warned_of_once() -> None:
    with scene() as here:
        here.scripted(honest, release="0.9\x1b[2J")
        here.run(Ledger(20), users=4)
        here.begin_run("run2", here.recorder)
    told = [line for line in here.observer.messages if "release" in line]
    assert told == [
        f"Worker scripted (host, pid 1) is of ssbench 0.9\\x1b[2J, this master of {__version__}:"
        " install the same release on every host, or figures may not compare"
    ]


def test_a_worker_of_another_protocol_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    with scene() as here, zmq.Context() as context, context.socket(zmq.PUSH) as sock:
        sock.connect(f"tcp://127.0.0.1:{here.transport.ports.results}")
        for _ in range(7):
            sock.send(pack([PROTOCOL + 1, "hello", 5, 0, "w1", 4, "bench-2", 12, "1.1.0"]))
        sock.send(pack([PROTOCOL + 1, "bye", 5, ""]))
        here.thread_worker()
        here.run(Ledger(20), users=4)
    told = [line for line in here.observer.messages if "protocol" in line]
    assert told == [
        "Worker w1 (bench-2, pid 12) can't join: its ssbench 1.1.0 speaks protocol"
        f" {PROTOCOL + 1}, this ssbench {__version__} protocol {PROTOCOL}; install the same"
        " release on every host"
    ]
    assert "protocol" not in caplog.text
    assert here.master.rejected == 8
