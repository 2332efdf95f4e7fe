"""A real worker on real sockets, and a master that says what a test says."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gevent
import pytest

from ssbench.core.errors import ExitStatus
from ssbench.core.messages import (
    Heartbeat,
    Hello,
    Host,
    Ready,
    Results,
)
from ssbench.core.model import Job, Phase, Timing
from ssbench.core.operations import OPERATIONS
from ssbench.core.settings import StorageSettings
from ssbench.host.live import HostLive
from ssbench.storage.noop import NoopStorage
from ssbench.worker import user_pool as users_module
from ssbench.worker.user_pool import UserPool
from tests.fakes.scripted_master import ScriptedMaster, WorkerThread, byes, jobs, rows_of


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


# Joining and leaving ----------------------------------------------------------------------


@pytest.mark.parametrize("concurrency", ["greenlets", "threads"])
def test_a_phase_that_cannot_start_ends_the_worker(concurrency: str) -> None:
    def driver(settings: StorageSettings) -> Any:
        storage = NoopStorage(settings)
        storage.concurrency = concurrency  # type: ignore[assignment]

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


def test_a_connection_that_fails_for_a_phase_that_is_over_ends_nothing() -> None:
    gate = Gate()

    def driver(settings: StorageSettings) -> Any:
        storage = gate.driver(settings)

        def connect(count: int) -> None:
            gate.connected.append(count)
            if len(gate.connected) == 1:
                while not gate.open:
                    gevent.sleep(0.002)
                gate.connected.clear()
                raise OSError(110, "Connection timed out")

        storage.connect = connect
        return storage

    with ScriptedMaster() as master, WorkerThread(master, open_driver=driver):
        incarnation = master.expect(Hello).incarnation
        master.share(incarnation, 2, Phase.POPULATE)
        master.listen_until(lambda: gate.connected == [2])
        master.share(incarnation, 2, Phase.RUN)
        master.expect(Ready, lambda ready: ready.phase == Phase.RUN)
        gate.open = True
        master.listen_until(lambda: not gate.connected)
        master.send(jobs(1))
        assert [row.number for row in rows_of(master.expect(Results))] == [1]


# A phase ----------------------------------------------------------------------------------


def test_host_metrics_say_how_late_its_event_loop_is() -> None:
    class Sampler:
        def __init__(self, *_thread: int) -> None:
            pass

        def sample(self) -> dict[str, float]:
            return {"interval_s": 0.05}

    def driver(settings: StorageSettings) -> Any:
        storage = NoopStorage(settings)

        def blocks(job: Job, deadline_ns: int) -> Timing:
            time.sleep(0.4)  # not gevent's: the whole loop stands still
            now = time.perf_counter_ns()
            return Timing(now, now, now, job.size, 201)

        storage.actions = dict.fromkeys(OPERATIONS, blocks)
        return storage

    host = HostLive(interval_s=0.05, make_sampler=Sampler)  # type: ignore[arg-type]
    with at_work(host=host, open_driver=driver) as (master, incarnation):
        before = master.expect(Host, lambda sample: "loop_lag_max_s" in sample.figures)
        assert (before.incarnation, before.boot_id) == (incarnation, host.boot_id)
        master.send(jobs(1))
        master.expect(Host, lambda sample: sample.figures.get("loop_lag_max_s", 0) > 0.2)


def test_unread_messages_do_not_keep_the_loop_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []
    on_readable = UserPool.on_readable

    def count(pool: UserPool) -> None:
        calls.append(pool)
        on_readable(pool)

    monkeypatch.setattr(UserPool, "on_readable", count)
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


# Crashes -------------------------------------------------------------------------------


def raises(error: Exception) -> Any:
    """In place of a method."""

    def act(*arguments: object) -> Any:
        raise error

    return act


def test_a_dead_heartbeat_thread_ends_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedMaster() as master, WorkerThread(master) as worker:
        master.begin(1)
        monkeypatch.setattr("ssbench.worker.worker.Heartbeat", raises(MemoryError()))
        assert worker.wait() is ExitStatus.FAILED
        assert byes(master) == ["out of memory"]
