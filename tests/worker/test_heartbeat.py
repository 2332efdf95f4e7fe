"""The second thread answers control states, whatever the event loop does."""

from __future__ import annotations

import random
import time

from ssbench.core.messages import Bye, Heartbeat, Host, Message
from ssbench.core.model import Job, Phase
from ssbench.core.operations import CREATE
from ssbench.host.live import HostLive, Sample
from ssbench.worker.machine import WorkerMachine, WorkerSettings
from ssbench.worker.worker import HeartbeatThread
from tests.fakes.control_states import IDLE


class Sockets:
    """Both sockets of the thread, in memory."""

    def __init__(self, *messages: Message) -> None:
        self.coming = list(messages)
        self.sent: list[Message] = []
        self.fault: Exception | None = None
        self.closed = False

    def receive(self, timeout_s: float) -> Message | None:
        if self.fault:
            raise self.fault
        if self.coming:
            return self.coming.pop(0)
        time.sleep(0.001)
        return None

    def send(self, message: Message) -> bool:
        self.sent.append(message)
        return True

    def close(self) -> None:
        self.closed = True


def machine() -> WorkerMachine:
    return WorkerMachine(WorkerSettings("w"), random.Random(1), time.perf_counter_ns())


def thread(
    sockets: Sockets, worker: WorkerMachine, host: HostLive | None = None
) -> tuple[HeartbeatThread, list[int]]:
    notices: list[int] = []
    made = HeartbeatThread(
        sockets,  # type: ignore[arg-type]
        worker,
        host,
        lambda: notices.append(1),
    )
    return made, notices


def test_each_control_state_is_answered_and_the_newest_kept() -> None:
    sockets, worker = Sockets(IDLE, Bye(1, "not for a worker"), IDLE._replace(serial=2)), machine()
    here, notices = thread(sockets, worker)
    before_ns, wall_ns = time.perf_counter_ns(), time.time_ns()
    here.start()
    while len(sockets.sent) < 2:
        time.sleep(0.001)
    here.stop()
    assert sockets.closed
    assert not here.is_alive()
    assert notices == [1, 1]
    assert here.newest is not None
    assert here.newest[0].serial == 2
    first, second = sockets.sent
    assert isinstance(first, Heartbeat)
    assert isinstance(second, Heartbeat)
    assert (first.answered_serial, second.answered_serial) == (1, 2)
    assert first.incarnation == worker.incarnation
    assert before_ns < first.worker_ns - first.hold_ns <= first.worker_ns
    assert 0 < first.hub_idle_ns <= first.worker_ns - worker.ticked_ns
    assert wall_ns <= first.wall_ns <= time.time_ns()


def test_a_heartbeat_counts_jobs_that_are_not_reported_as_queued() -> None:
    sockets, worker = Sockets(), machine()
    here, _ = thread(sockets, worker)
    shares = {worker.incarnation: (2, None)}
    control = IDLE._replace(run="r", phase=int(Phase.RUN), workers=shares)
    worker.receive_control_state(control, worker.ticked_ns, worker.ticked_ns)
    assert worker.phase is not None
    job = Job(1, CREATE, 0, 1, 0, 100)
    worker.phase.held.queues[0].extend([job, job])
    worker.phase.held.finished.append((job, 0, None))
    worker.phase.held.busy = 1
    sockets.coming.append(IDLE._replace(serial=2))
    here.start()
    while not sockets.sent:
        time.sleep(0.001)
    here.stop()
    (heartbeat,) = sockets.sent
    assert isinstance(heartbeat, Heartbeat)
    assert (heartbeat.busy, heartbeat.queued) == (1, 3)


def test_it_stops_without_a_control_state() -> None:
    sockets = Sockets()
    here, _ = thread(sockets, machine())
    here.start()
    here.stop()
    assert sockets.closed
    assert sockets.sent == []


def test_the_error_that_ended_it_is_kept() -> None:
    sockets = Sockets()
    sockets.fault = MemoryError()
    here, _ = thread(sockets, machine())
    assert here.fault is None
    here.start()
    here.join(5)
    assert not here.is_alive()
    assert isinstance(here.fault, MemoryError)
    assert sockets.closed


def test_host_metrics_need_no_control_state() -> None:
    class Live(HostLive):
        def take(self) -> list[Sample]:
            samples, self.ready = self.ready, []
            return samples

    live = Live()
    live.ready = [Sample(5, "boot", {"cpu_percent": 1.0})] * 2
    sockets, worker = Sockets(), machine()
    here, _ = thread(sockets, worker, live)
    here.start()
    while len(sockets.sent) < 2:
        time.sleep(0.001)
    here.stop()
    assert sockets.sent == [Host(worker.incarnation, 5, "boot", {"cpu_percent": 1.0})] * 2
