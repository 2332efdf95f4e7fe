"""A real worker on real sockets, and a master that says what a test says."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gevent
import pytest

from ssbench.core.columns import pack_jobs
from ssbench.core.errors import ExitStatus
from ssbench.core.messages import (
    Ack,
    Bye,
    ControlState,
    Expired,
    Heartbeat,
    Hello,
    Jobs,
    Ready,
    Results,
    Returned,
    encode,
)
from ssbench.core.model import ErrorKind, Job, Phase, Timing
from ssbench.core.operations import OPERATIONS, READ
from ssbench.core.settings import StorageSettings
from ssbench.storage.noop import NoopStorage
from ssbench.worker import phase_controller as controller_module
from ssbench.worker import user_pool as users_module
from ssbench.worker import worker as worker_module
from ssbench.worker.worker import Worker
from ssbench.worker.worker_phase import WorkerPhase
from tests.fakes.memory_storage import MemoryStorage, MemoryStore
from tests.fakes.scripted_master import RUN, ScriptedMaster, WorkerThread, byes, jobs, rows_of
from tests.fakes.slow_storage import DRIVER


class Gate:
    """A driver whose operations end when the test says so."""

    def __init__(self) -> None:
        self.open = False
        self.started = 0
        self.connected: list[int] = []
        self.closed = False

    def driver(self, settings: StorageSettings) -> Any:
        storage = NoopStorage(settings)

        def act(job: Job, deadline_ns: int) -> Timing:
            self.started += 1
            while not self.open:
                gevent.sleep(0.002)
            now = time.perf_counter_ns()
            return Timing(now, now, now, job.size, 201)

        storage.actions = dict.fromkeys(OPERATIONS, act)
        storage.connect = self.connected.append  # type: ignore[method-assign]
        storage.close = lambda: setattr(self, "closed", True)  # type: ignore[method-assign]
        return storage


@pytest.fixture(autouse=True)
def _no_greenlet_died(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    yield
    assert "Traceback" not in capfd.readouterr().err


@contextmanager
def at_work(
    user_pool: int = 2, settings: StorageSettings | None = None, **options: Any
) -> Iterator[tuple[ScriptedMaster, int]]:
    """A worker that is ready in the run phase, and its incarnation."""
    with ScriptedMaster(settings) as master, WorkerThread(master, **options):
        yield master, master.begin(user_pool)


# Coming and going -------------------------------------------------------------------------


def test_it_says_hello_until_a_beat_knows_it() -> None:
    with ScriptedMaster() as master, WorkerThread(master, "name", concurrency=7):
        hello = master.expect(Hello)
        again = master.expect(Hello)
        assert hello == again
        assert (hello.worker_id, hello.concurrency, hello.previous) == ("name", 7, 0)
        master.broadcast(workers={hello.incarnation: (0, None)})
        master.expect(Heartbeat, lambda heartbeat: heartbeat.answered_serial == master.serial)
        before = len(master.all_of(Hello))
        for _ in range(60):
            master.listen()
        assert len(master.all_of(Hello)) == before


def test_who_is_known_is_not_woken_to_say_hello(monkeypatch: pytest.MonkeyPatch) -> None:
    say_hello, woken = Worker._say_hello, []

    def count(worker: Worker) -> None:
        woken.append(worker)
        say_hello(worker)

    monkeypatch.setattr(Worker, "_say_hello", count)
    with at_work() as (master, _):
        before = len(woken)
        for _ in range(60):
            master.listen()
        assert len(woken) <= before + 1


def test_who_is_known_no_more_says_hello_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "_HELLO_S", 0.02)
    with at_work() as (master, first):
        for _ in range(10):
            master.listen()
        master.broadcast(workers={})
        hello = master.expect(Hello, lambda hello: hello.incarnation != first)
        assert master.expect(Hello) == hello


def test_it_answers_beats() -> None:
    with ScriptedMaster() as master, WorkerThread(master):
        heartbeat = master.expect(Heartbeat)
        hello = master.expect(Hello)
        assert heartbeat.incarnation == hello.incarnation
        assert 0 <= heartbeat.hold_ns < 10**9
        assert (heartbeat.busy, heartbeat.queued, heartbeat.live) == (0, 0, {})
        states = [heartbeat.answered_serial for heartbeat in master.all_of(Heartbeat)]
        assert len(set(states)) == len(states)


def test_it_quits_when_the_master_says_so() -> None:
    with ScriptedMaster() as master, WorkerThread(master) as worker:
        incarnation = master.expect(Hello).incarnation
        master.broadcast(quit=True, workers={incarnation: (0, None)})
        assert worker.wait() is ExitStatus.OK
        assert byes(master) == ["the master says so"]


def test_a_phase_that_cannot_be_begun_ends_the_worker() -> None:
    def driver(settings: StorageSettings) -> Any:
        storage = NoopStorage(settings)

        def connect(count: int) -> None:
            raise OSError(24, "Too many open files")

        storage.connect = connect  # type: ignore[method-assign]
        return storage

    with ScriptedMaster() as master, WorkerThread(master, open_driver=driver) as worker:
        incarnation = master.expect(Hello).incarnation
        master.share(incarnation, 2, Phase.RUN)
        assert worker.wait() is ExitStatus.FAILED
        (reason,) = byes(master)
        assert "Too many open files" in reason


def test_another_master_is_met_as_a_stranger_without_alarm(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    with at_work() as (master, incarnation):
        master.broadcast(master=99, run="", phase=int(Phase.IDLE), workers={}, settings={})
        again = master.expect(Hello, lambda hello: hello.incarnation != incarnation)
        assert again.previous == incarnation
    assert "The master is gone (another one has come): waiting for the next one" in caplog.text
    assert "given this worker up" not in caplog.text


def test_another_master_hears_nothing_of_the_incarnation_that_the_last_one_knew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on_control_state = Worker._on_control_state

    def late_control_state(worker: Worker) -> None:
        gevent.sleep(0.1)  # the next hello is due before
        on_control_state(worker)

    monkeypatch.setattr(worker_module, "_HELLO_S", 0.02)
    with at_work() as (master, first):
        monkeypatch.setattr(Worker, "_on_control_state", late_control_state)
        before = len(master.all_of(Hello))
        master.broadcast(master=99, run="", phase=int(Phase.IDLE), workers={}, settings={})
        master.expect(Hello, lambda hello: hello.incarnation != first)
        assert first not in [hello.incarnation for hello in master.all_of(Hello)[before:]]


def test_a_worker_without_a_master_says_what_may_be_wrong(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "_NO_MASTER_WARNING_S", 0)
    with ScriptedMaster() as master, WorkerThread(master):
        deadline = time.monotonic() + 5
        while "is its key" not in caplog.text and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.6)  # and no second time
    assert caplog.text.count("is its key the same as ours?") == 1


def test_a_refused_worker_keeps_asking_and_then_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "_REFUSED_S", 0.3)
    with ScriptedMaster() as master, WorkerThread(master) as worker:
        incarnation = master.expect(Hello).incarnation
        master.broadcast(refused={incarnation: "taken by another"})
        assert worker.wait() is ExitStatus.FAILED
        assert byes(master) == ["refused: taken by another"]


def test_one_that_was_refused_is_taken_after_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "_REFUSED_S", 60.0)
    with ScriptedMaster() as master, WorkerThread(master):
        incarnation = master.expect(Hello).incarnation
        master.broadcast(refused={incarnation: "taken by another"})
        master.expect(Heartbeat, lambda heartbeat: heartbeat.answered_serial == master.serial)
        master.share(incarnation, 1, refused={})
        master.expect(Ready)


def test_a_driver_that_is_unknown_ends_the_worker_with_a_word() -> None:
    settings = StorageSettings(driver="no_such", run_id=RUN)
    with ScriptedMaster(settings) as master, WorkerThread(master) as worker:
        master.share(master.expect(Hello).incarnation, 1)
        assert worker.wait() is ExitStatus.FAILED
        assert "no_such" in byes(master)[0]


# A phase ----------------------------------------------------------------------------------


def test_jobs_are_taken_done_and_reported() -> None:
    with at_work() as (master, incarnation):
        batch = master.send(jobs(1, 2, 3))
        results = master.expect(Results)
        told = [number for message in master.all_of(Ack) for number in message.batches]
        assert [*told, *results.acked] == [batch]
        assert (results.incarnation, results.run, results.phase) == (incarnation, RUN, Phase.RUN)
        rows = rows_of(results)
        while len(rows) < 3:
            rows += rows_of(master.expect(Results))
        assert [row.number for row in rows] == [1, 2, 3]
        assert all(row.status == 201 and row.error == 0 for row in rows)
        assert all(0 <= row.start_ns < 10**10 for row in rows)


def test_connections_are_made_before_it_is_ready() -> None:
    gate = Gate()
    with at_work(5, open_driver=gate.driver):
        assert gate.connected == [5]
    assert gate.closed


def test_pulses_tell_of_latencies_where_they_are_wanted() -> None:
    with at_work() as (master, _):
        master.broadcast(live=True)
        master.expect(Heartbeat, lambda heartbeat: heartbeat.answered_serial == master.serial)
        master.send(jobs(1, 2, 3))
        counted = 0
        while counted < 3:
            counted += sum(master.expect(Heartbeat, lambda heartbeat: heartbeat.live).live.values())
        assert counted == 3


def test_a_worker_of_no_users_takes_no_jobs() -> None:
    with ScriptedMaster() as master, WorkerThread(master):
        master.begin(users=0)
        assert not master.transport.send_jobs(b"x")


def test_shares_grow_and_shrink_within_a_phase() -> None:
    gate = Gate()
    with at_work(1, open_driver=gate.driver) as (master, incarnation):
        for number in range(1, 7):
            master.send(jobs(number))
            master.listen()
        master.share(incarnation, 4)
        master.expect(Heartbeat, lambda heartbeat: heartbeat.busy == 4)
        assert gate.started == 4
        gate.open = True
        seen = 0
        while seen < 6:
            seen += len(rows_of(master.expect(Results)))


def test_when_stopping_what_was_not_started_comes_back() -> None:
    gate = Gate()
    with at_work(2, open_driver=gate.driver) as (master, _):
        master.send(jobs(1, 2))
        master.send(jobs(3, 4))
        master.expect(Heartbeat, lambda heartbeat: (heartbeat.busy, heartbeat.queued) == (2, 2))
        master.broadcast(stopping=True)
        assert master.expect(Returned).numbers == [3, 4]
        master.expect(Ready, lambda ready: ready.stopped)
        late = master.send(jobs(5))
        assert master.expect(Returned).numbers == [5]
        assert late in [number for took in master.all_of(Ack) for number in took.batches]
        gate.open = True
        seen: list[int] = []
        while len(seen) < 2:
            seen += [row.number for row in rows_of(master.expect(Results))]
        assert seen == [1, 2]
        assert gate.started == 2


def test_the_next_phase_begins_where_the_last_one_ended() -> None:
    with ScriptedMaster() as master, WorkerThread(master):
        incarnation = master.begin(phase=Phase.POPULATE)
        master.send(jobs(1), phase=Phase.POPULATE)
        master.expect(Results)
        master.share(incarnation, 2, Phase.RUN)
        master.expect(Ready, lambda ready: ready.phase == Phase.RUN)
        master.send(jobs(2))
        assert master.expect(Results).phase == Phase.RUN
        master.broadcast(run="", phase=int(Phase.IDLE), settings={})
        master.expect(Heartbeat, lambda heartbeat: heartbeat.answered_serial == master.serial)
        master.wait_until_nobody_takes_jobs()


def test_who_has_no_share_of_the_next_phase_takes_no_jobs_of_it() -> None:
    with ScriptedMaster() as master, WorkerThread(master):
        incarnation = master.begin(phase=Phase.POPULATE)
        master.send(jobs(1), phase=Phase.POPULATE)
        master.expect(Results)
        master.share(incarnation, 0, Phase.RUN)  # no beat between them that says IDLE
        master.expect(Ready, lambda ready: ready.phase == Phase.RUN)
        master.wait_until_nobody_takes_jobs()


def test_messages_that_are_left_do_not_keep_it_from_sleeping(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []

    class Counting(WorkerPhase):
        def on_readable(self) -> None:
            calls.append(self)
            super().on_readable()

    monkeypatch.setattr(controller_module, "WorkerPhase", Counting)
    monkeypatch.setattr(users_module, "FLUSH_S", 3600.0)  # no tick reads them
    gate = Gate()
    with at_work(4, open_driver=gate.driver) as (master, _):
        master.send(jobs(1, 2, 3, 4))
        master.expect(Heartbeat, lambda heartbeat: heartbeat.busy == 4)
        master.send(jobs(5))
        master.expect(Heartbeat, lambda heartbeat: heartbeat.queued == 1)
        before = len(calls)
        master.send(jobs(6))
        for _ in range(5):
            master.listen()
        assert len(calls) - before < 5
        gate.open = True
        done = 0
        while done < 6:
            done += len(rows_of(master.expect(Results)))


# Jobs that are not for now ----------------------------------------------------------------


def test_jobs_of_another_run_go_back_under_its_name() -> None:
    with at_work() as (master, incarnation):
        batch = master.send(jobs(7), run="another")
        assert master.expect(Ack) == Ack(incarnation, "another", [batch])
        assert master.expect(Returned) == Returned(incarnation, "another", [7])


def test_malformed_jobs_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    with at_work() as (master, _):
        master.send_raw(b"rubbish")
        master.send(jobs(1))
        assert [row.number for row in rows_of(master.expect(Results))] == [1]
    assert "Refused a message on the work port" in caplog.text


def test_jobs_that_no_driver_knows_are_failures() -> None:
    with at_work() as (master, _):
        rejected = jobs(1)[0]._replace(operation=77)
        now_ns = time.perf_counter_ns()
        master.send_raw(encode(Jobs(RUN, Phase.RUN, 1, now_ns, pack_jobs([rejected]))))
        (row,) = rows_of(master.expect(Results))
        assert row.error == ErrorKind.INTERNAL


# The token --------------------------------------------------------------------------------


def test_it_waits_for_a_fresh_token() -> None:
    store = MemoryStore(tokens={"new"})
    settings = StorageSettings(driver="memory", token="old", token_serial=1, run_id=RUN)
    store.add("c")

    def driver(settings: StorageSettings) -> MemoryStorage:
        storage = MemoryStorage(store, settings)
        storage.actions = dict.fromkeys(OPERATIONS, lambda job, ns: _ask(store, storage))
        return storage

    with at_work(1, settings, open_driver=driver) as (master, incarnation):
        master.send(jobs(1))
        assert master.expect(Expired) == Expired(incarnation, 1)
        fresh = StorageSettings(driver="memory", token="new", token_serial=2, run_id=RUN)
        master.broadcast(settings=fresh.to_map())
        (row,) = rows_of(master.expect(Results))
        assert (row.renewals, row.error, row.status) == (1, 0, 200)


def _ask(store: MemoryStore, storage: MemoryStorage) -> Timing:
    storage.delete_object("c", "none")
    now = time.perf_counter_ns()
    return Timing(now, now, now, 0, 200)


# When it can't go on ----------------------------------------------------------------------


def raises(error: Exception) -> Any:
    """In place of a method."""

    def act(*arguments: object) -> Any:
        raise error

    return act


def test_out_of_memory_in_an_operation_fails_that_one_and_ends_the_worker() -> None:
    def driver(settings: StorageSettings) -> Any:
        storage = NoopStorage(settings)
        storage.actions = {**storage.actions, READ: raises(MemoryError())}
        return storage

    with ScriptedMaster() as master, WorkerThread(master, open_driver=driver) as worker:
        master.begin(1)
        master.send([*jobs(1), *jobs(2, operation=READ), *jobs(3)])
        assert worker.wait() is ExitStatus.FAILED
        rows = [row for results in master.all_of(Results) for row in rows_of(results)]
        assert [row.number for row in rows if not row.error] == [1]
        assert [row.detail for row in rows if row.error] == ["the worker is out of memory"]
        assert [message.numbers for message in master.all_of(Returned)] == [[3]]
        assert byes(master) == ["out of memory"]


def test_what_nobody_has_caught_ends_the_worker_with_a_word(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def driver(settings: StorageSettings) -> Any:
        storage = NoopStorage(settings)
        storage.actions = {**storage.actions, READ: lambda *about: gevent.sleep(60)}
        return storage

    monkeypatch.setattr(
        "ssbench.worker.worker_phase.pack_completed", raises(ValueError("no number"))
    )
    with ScriptedMaster() as master, WorkerThread(master, open_driver=driver) as worker:
        master.begin(1)
        master.send([*jobs(1), *jobs(2, operation=READ), *jobs(3)])
        assert worker.wait() is ExitStatus.FAILED
        assert byes(master) == ["it can't go on: ValueError: no number"]
        # Nobody needs to lose what was never started.
        assert [message.numbers for message in master.all_of(Returned)] == [[3]]
    assert "Traceback" in capfd.readouterr().err


def test_a_worker_that_went_deaf_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedMaster() as master, WorkerThread(master) as worker:
        master.begin(1)
        monkeypatch.setattr("ssbench.worker.heartbeat.Heartbeat", raises(MemoryError()))
        assert worker.wait() is ExitStatus.FAILED
        assert byes(master) == ["out of memory"]


# The fence --------------------------------------------------------------------------------


def test_without_beats_it_starts_nothing_more_and_comes_back_as_another() -> None:
    gate = Gate()
    with at_work(1, open_driver=gate.driver) as (master, first):
        master.broadcast(timeout_s=1.6)
        master.expect(Heartbeat, lambda heartbeat: heartbeat.answered_serial == master.serial)
        master.send(jobs(1))
        master.send(jobs(2))
        master.expect(Heartbeat, lambda heartbeat: (heartbeat.busy, heartbeat.queued) == (1, 1))
        master.beating = False
        hello = master.expect(Hello, lambda hello: hello.incarnation != first)
        assert hello.previous == first
        assert [back.numbers for back in master.all_of(Returned)] == [[2]]
        master.wait_until_nobody_takes_jobs()
        gate.open = True
        master.beating = True
        master.share(hello.incarnation, 1)
        master.expect(Ready, lambda ready: ready.incarnation == hello.incarnation)
        master.send(jobs(3))
        results = master.expect(Results)
        assert results.incarnation == hello.incarnation
        assert [row.number for row in rows_of(results)] == [3]
        assert gate.started == 2  # 2 was dropped, and 1 ended unheard


def test_one_that_was_given_up_drops_its_jobs_and_comes_back_as_another() -> None:
    gate = Gate()
    with at_work(1, open_driver=gate.driver) as (master, first):
        master.send(jobs(1, 2))
        master.expect(Heartbeat, lambda heartbeat: (heartbeat.busy, heartbeat.queued) == (1, 1))
        master.broadcast(workers={})
        hello = master.expect(Hello, lambda hello: hello.incarnation != first)
        assert hello.previous == first
        gate.open = True
        master.expect(Heartbeat, lambda heartbeat: heartbeat.incarnation == hello.incarnation)
        assert gate.started == 1
        assert master.all_of(Results) == []


def test_a_master_with_another_clock_is_believed_at_once() -> None:
    with at_work() as (master, incarnation):
        master.beating = False
        master.serial += 1
        ahead_ns = time.perf_counter_ns() + 3600 * 10**9
        state = {**master.state, "master": 2, "start_ns": ahead_ns}
        sent = ControlState(serial=master.serial, master_ns=ahead_ns, **state)
        master.transport.send_control_state(sent)
        master.expect(Heartbeat, lambda heartbeat: heartbeat.answered_serial == master.serial)
        master.batch += 1
        data = encode(Jobs(RUN, Phase.RUN, master.batch, ahead_ns, pack_jobs(jobs(1))))
        master.send_raw(data)
        assert master.expect(Results).incarnation == incarnation


def test_a_slow_driver_by_its_place() -> None:
    settings = StorageSettings(driver=DRIVER, run_id=RUN)
    with at_work(2, settings) as (master, _):
        master.send(jobs(1, 2))
        row = rows_of(master.expect(Results))[0]
        assert row.last_byte_ns >= 10_000_000


# The master is gone -----------------------------------------------------------------------


def test_a_master_that_is_gone_is_told_with_what_was_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gate = Gate()
    with at_work(1, open_driver=gate.driver) as (master, first):
        master.broadcast(timeout_s=1.0)
        master.send(jobs(1, 2, 3))
        master.expect(Heartbeat, lambda heartbeat: (heartbeat.busy, heartbeat.queued) == (1, 2))
        master.beating = False
        master.expect(Hello, lambda hello: hello.incarnation != first)
        _wait_for("The master is gone", caplog)
        gate.open = True
        master.beating = True
        again = master.begin(1, master=2)
        master.send(jobs(4))
        assert [row.number for row in rows_of(master.expect(Results))] == [4]
        assert again != first
    text = "The master is gone (no word for 1 s): dropped 3 jobs, waiting for the next one"
    assert caplog.text.count(text) == 1
    assert gate.started == 2


def test_an_idle_worker_notices_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with ScriptedMaster() as master, WorkerThread(master):
        hello = master.expect(Hello)
        master.broadcast(timeout_s=0.5, workers={hello.incarnation: (1, None)})
        master.expect(Heartbeat, lambda heartbeat: heartbeat.answered_serial == master.serial)
        master.beating = False
        _wait_for("The master is gone (no word for 0.5 s): waiting for the next one", caplog)
        master.expect(Hello, lambda again: again.previous == hello.incarnation)
    assert "WARNING" not in caplog.text


def test_who_was_known_to_no_master_waits_for_the_first_one() -> None:
    with ScriptedMaster() as master, WorkerThread(master, exit_with_master=True) as worker:
        master.broadcast(timeout_s=0.3)
        master.expect(Hello)
        master.beating = False
        time.sleep(0.8)
        master.beating = True
        master.begin()
        assert worker.status is None


@pytest.mark.parametrize(
    ("phase", "status"), [(Phase.IDLE, ExitStatus.OK), (Phase.RUN, ExitStatus.FAILED)]
)
def test_to_exit_with_a_master_that_falls_silent(phase: Phase, status: ExitStatus) -> None:
    with ScriptedMaster() as master, WorkerThread(master, exit_with_master=True) as worker:
        incarnation = master.begin()
        run = RUN if phase else ""
        master.broadcast(timeout_s=0.5, phase=int(phase), run=run)
        master.expect(Heartbeat, lambda heartbeat: heartbeat.answered_serial == master.serial)
        assert incarnation in master.state["workers"]
        master.beating = False
        assert worker.wait() is status
        assert byes(master) == ["the master is gone"]


def test_to_exit_with_a_master_that_says_goodbye() -> None:
    with ScriptedMaster() as master, WorkerThread(master, exit_with_master=True) as worker:
        incarnation = master.begin()
        master.send(jobs(1))
        master.expect(Results)
        master.broadcast(run="", phase=int(Phase.IDLE), settings={})  # between two phases
        master.expect(Heartbeat, lambda heartbeat: heartbeat.answered_serial == master.serial)
        assert worker.status is None
        master.broadcast(workers={incarnation: (0, None)})
        assert worker.wait() is ExitStatus.OK
        assert byes(master) == ["the run is over"]


def test_to_exit_with_a_master_that_leaves_in_the_middle() -> None:
    gate = Gate()
    with at_work(1, open_driver=gate.driver, exit_with_master=True) as (master, incarnation):
        master.send(jobs(1))
        master.expect(Heartbeat, lambda heartbeat: heartbeat.busy == 1)
        master.broadcast(run="", phase=0, settings={}, workers={incarnation: (0, None)})
        gate.open = True
        master.expect(Bye, lambda bye: bye.reason == "the run is over")


def test_to_exit_with_a_master_whose_place_another_one_has_taken() -> None:
    with ScriptedMaster() as master, WorkerThread(master, exit_with_master=True) as worker:
        master.begin()
        master.broadcast(master=99, run="", phase=int(Phase.IDLE), workers={}, settings={})
        assert worker.wait() is ExitStatus.FAILED


def _wait_for(text: str, caplog: pytest.LogCaptureFixture) -> None:
    deadline = time.monotonic() + 10
    while text not in caplog.text:
        assert time.monotonic() < deadline, caplog.text
        time.sleep(0.02)
