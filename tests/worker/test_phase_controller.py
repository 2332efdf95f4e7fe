"""From stint to stint without sockets: what beats make of a worker."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import gevent
import gevent.event
import pytest

from ssbench.core.clock_sync import ClockSync
from ssbench.core.columns import pack_jobs
from ssbench.core.messages import ControlState, Jobs, Message, Ready, Returned, encode
from ssbench.core.model import Phase
from ssbench.core.settings import StorageSettings
from ssbench.storage.noop import NoopStorage
from ssbench.transport.ports import TransportError
from ssbench.worker.phase_controller import PhaseController
from ssbench.worker.store import WorkerStore
from ssbench.worker.worker_phase import PhaseHooks
from tests.fakes.scripted_master import RUN, jobs

SECOND = 1_000_000_000
US = 7  #: our incarnation
SETTINGS = StorageSettings(driver="noop", run_id=RUN, token="old", token_serial=1)


class Port:
    """A work port in memory."""

    def __init__(self) -> None:
        self.pipe: int | None = None  #: None: closed
        self.opened = 0
        self.listens = False
        self.fault: TransportError | None = None

    def open(self, pipe: int) -> None:
        if self.fault:
            raise self.fault
        self.pipe = pipe
        self.opened += 1

    def close(self) -> None:
        self.pipe = None

    def listen(self, on: bool) -> None:
        self.listens = on


class Host:
    """A HostMetricsSender that keeps what it is told."""

    def __init__(self) -> None:
        self.phases: list[Phase] = []

    def follow(self, phase: Phase) -> None:
        self.phases.append(phase)


class Scene:
    """A duty; connecting waits for ``gate``."""

    def __init__(self) -> None:
        self.now_ns = 100 * SECOND
        self.sent: list[Message] = []
        self.coming: deque[bytes] = deque()
        self.connected: list[int] = []
        self.stopped: list[str] = []
        self.begun = 0
        self.fault: Exception | None = None
        self.gate = gevent.event.Event()
        self.gate.set()
        self.port, self.host = Port(), Host()
        self.clock_sync = ClockSync()
        self.storage: Any = None
        self.controller = PhaseController(
            PhaseHooks(
                clock=lambda: self.now_ns,
                clock_sync=self.clock_sync,
                receive=lambda: self.coming.popleft() if self.coming else None,
                listen=self.port.listen,
                send=self.sent.append,
                renew=lambda began_ns: False,
                on_lease_expired=lambda: None,
                on_out_of_memory=lambda: None,
                on_latencies=lambda latencies_ns: None,
            ),
            WorkerStore(
                "w", self.open, lambda: self.now_ns, ask=lambda serial: None, wanted=lambda: True
            ),
            self.port,  # type: ignore[arg-type]
            self.host,  # type: ignore[arg-type]
            stop=self.stopped.append,
            begun=self.count,
        )

    def open(self, settings: StorageSettings) -> Any:
        self.storage = NoopStorage(settings)
        self.storage.connect = self.connect
        return self.storage

    def connect(self, count: int) -> None:
        if self.fault:
            raise self.fault
        self.connected.append(count)
        self.gate.wait()

    def count(self) -> None:
        self.begun += 1

    def follow(
        self, users: int, phase: Phase = Phase.RUN, *, incarnation: int = US, **other: Any
    ) -> None:
        """A beat says so; and what can be done about it at once is done."""
        said: dict[str, Any] = {
            "master": 1, "serial": 1, "master_ns": self.now_ns, "run": RUN, "phase": phase,
            "start_ns": 5 * SECOND, "workers": {incarnation: (users, SECOND)}, "refused": {},
            "settings": SETTINGS.to_map(), "timeout_s": 10.0, "operation_timeout_s": 0.0,
            "pipe": 3, "live": False, "ending": False, "stopping": False, "quit": False, **other,
        }  # fmt: skip
        self.clock_sync.update(ControlState(**said), self.now_ns)
        self.controller.follow(ControlState(**said), incarnation)
        self.settle()

    def settle(self) -> None:
        """Let greenlets run, as far as they can."""
        for _ in range(5):
            gevent.sleep(0)

    def arrive(self, *numbers: int) -> None:
        message = Jobs(RUN, Phase.RUN, 1, self.now_ns, pack_jobs(jobs(*numbers)))
        self.coming.append(encode(message))

    def readies(self) -> list[Ready]:
        return [message for message in self.sent if isinstance(message, Ready)]


def test_it_connects_reports_and_listens_to_what_beats_say_meanwhile() -> None:
    here = Scene()
    here.gate.clear()
    here.follow(4)
    assert (here.connected, here.port.pipe, here.controller.worker_phase) == ([4], 3, None)
    assert here.readies() == []
    here.gate.set()
    here.settle()
    assert here.readies() == [Ready(US, RUN, Phase.RUN, False, 6 * SECOND)]
    assert here.begun == 1
    assert "PhaseController RUN <WorkerPhase RUN" in repr(here.controller)
    here.follow(4)
    assert here.controller.worker_phase is not None
    assert here.controller.worker_phase.users.count == 4
    opened = here.port.opened
    here.follow(4)
    assert (here.connected, here.port.opened) == ([4], opened), "there is nothing new"


def test_where_the_masters_clock_is_not_known_the_fastest_beat_tells_it() -> None:
    here = Scene()
    here.follow(1, master_ns=98 * SECOND, workers={US: (1, None)})
    assert here.readies()[0].origin_ns == 7 * SECOND


def test_who_has_no_share_takes_no_jobs() -> None:
    here = Scene()
    here.port.pipe = 3  # of the phase before
    here.follow(0)
    assert here.port.pipe is None
    assert len(here.readies()) == 1


def test_more_users_wait_for_their_connections_and_fewer_do_not() -> None:
    here = Scene()
    here.follow(2)
    here.follow(2)
    users = here.controller.worker_phase.users  # type: ignore[union-attr]
    here.gate.clear()
    here.follow(5)
    assert (here.connected, users.count) == ([2, 5], 2)
    here.arrive(1)
    here.gate.set()
    here.settle()
    assert users.count == 5
    assert not here.coming, "they have come for jobs"
    here.follow(3)
    assert users.count == 3
    here.follow(0)
    assert (users.count, here.port.pipe) == (0, None)
    here.follow(4)
    assert (users.count, here.port.pipe, here.connected) == (4, 3, [2, 5])


def test_users_that_are_wanted_no_more_once_they_are_connected_do_not_come() -> None:
    here = Scene()
    here.follow(2)
    here.follow(2)
    here.gate.clear()
    here.follow(5)
    here.follow(1)
    here.gate.set()
    here.settle()
    assert here.controller.worker_phase.users.count == 1  # type: ignore[union-attr]


def test_another_phase_is_another_stint() -> None:
    here = Scene()
    here.follow(2, Phase.POPULATE)
    first = here.controller.worker_phase
    here.follow(2, Phase.RUN)
    assert here.controller.worker_phase is not first
    assert first is not None
    assert first.users.closed
    assert [ready.phase for ready in here.readies()] == [Phase.POPULATE, Phase.RUN]
    here.follow(0, Phase.IDLE, run="")
    assert (here.controller.worker_phase, here.port.pipe, here.controller.phase) == (
        None,
        None,
        Phase.IDLE,
    )
    assert here.host.phases == [Phase.POPULATE, Phase.RUN, Phase.IDLE]


def test_a_phase_that_is_over_before_it_could_be_begun_is_not_reported() -> None:
    here = Scene()
    here.gate.clear()
    here.follow(2, Phase.POPULATE)
    here.follow(2, Phase.RUN)
    here.gate.set()
    here.settle()
    assert [ready.phase for ready in here.readies()] == [Phase.RUN]


def test_one_that_left_while_it_connected_begins_only_as_another() -> None:
    here = Scene()
    here.gate.clear()
    here.follow(2)
    here.controller.leave()
    here.follow(2, incarnation=8)
    here.gate.set()
    here.settle()
    assert [ready.incarnation for ready in here.readies()] == [8]
    assert here.stopped == []


def test_a_beat_that_nobody_could_act_on_yet_is_overtaken_by_the_next_one() -> None:
    here = Scene()
    controller, settle = here.controller, here.settle
    here.settle = lambda: None  # type: ignore[method-assign]
    here.follow(2)
    controller.leave()
    here.follow(3, Phase.POPULATE, incarnation=8)
    settle()
    assert here.connected == [3]
    assert [ready.incarnation for ready in here.readies()] == [8]
    assert here.stopped == []


FAULTS: dict[str, tuple[Callable[[Scene], object], str]] = {
    "no socket": (
        lambda here: setattr(here.port, "fault", TransportError("no socket is to be had")),
        "can't begin: no socket is to be had",
    ),
    "settings": (
        lambda here: setattr(here, "fault", ValueError("odd")),
        "the storage settings can't be used: odd",
    ),
    "anything": (
        lambda here: setattr(here, "fault", OSError("no more files")),
        "can't begin: OSError: no more files",
    ),
}


@pytest.mark.parametrize(("breaks", "said"), FAULTS.values(), ids=FAULTS)
def test_what_cannot_be_begun_is_said(breaks: Callable[[Scene], object], said: str) -> None:
    here = Scene()
    breaks(here)
    here.follow(2)
    assert here.stopped == [said]
    assert here.readies() == []


def test_a_fresh_token_goes_to_the_store() -> None:
    here = Scene()
    here.follow(1)
    here.follow(1, settings={**SETTINGS.to_map(), "token": "new", "token_serial": 2})
    assert here.storage.token_serial == 2


def test_jobs_before_there_is_a_stint_are_left_for_it() -> None:
    here = Scene()
    here.port.listens = True
    here.arrive(1)
    here.controller.on_jobs_readable()
    here.controller.fetch_jobs()
    assert not here.port.listens
    assert len(here.coming) == 1
    here.follow(1)
    here.follow(1)
    assert not here.coming
    for tell in (here.controller.on_jobs_readable, here.controller.fetch_jobs):
        here.arrive(2)
        tell()
        assert not here.coming


def test_who_leaves_gives_back_what_it_has_not_started() -> None:
    here = Scene()
    assert here.controller.leave() == 0
    here.follow(1)
    here.follow(1)
    here.controller.worker_phase.users.resize(0)  # type: ignore[union-attr]
    here.controller.worker_phase.users.queue.extend(jobs(1, 2))  # type: ignore[union-attr]
    assert here.controller.jobs == 2
    assert here.controller.leave() == 2
    assert here.sent[-1] == Returned(US, RUN, [1, 2])
    assert (here.controller.run, here.controller.phase, here.port.pipe) == ("", Phase.IDLE, None)
    assert (here.controller.worker_phase, here.host.phases[-1]) == (None, Phase.IDLE)
    assert here.controller.jobs == 0
