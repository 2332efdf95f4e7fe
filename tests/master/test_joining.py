"""Workers join and leave, as scripts of messages and times."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from ssbench.core.dispatch.workers import Event, WorkerJoined, Workers
from ssbench.core.errors import AuthError, NoWorkersError, RejectedError
from ssbench.core.messages import Bye, ControlState, Expired, Heartbeat, Hello, Leaving
from ssbench.core.model import SECOND_NS, WorkerExit
from ssbench.core.settings import Limits, StorageSettings
from ssbench.master.worker_wait import WorkerWait
from tests.fakes.drivers import with_token

SETTINGS = StorageSettings(driver="noop", run_id="run1", credentials=(with_token("old", 1),))


class Address:
    """Where the master is reached."""

    ip, is_loopback, has_key, has_key_of_host = "192.0.2.1", False, True, False
    key_hint = "with the same --zmq-key-file"
    ports = (1, 2, 3)


class Scene:
    """A manager and its clock."""

    def __init__(self, timeout_s: float = 10.0, **limits: Any) -> None:
        self.now_ns = 1000 * SECOND_NS
        own = Limits(worker_timeout_s=timeout_s, **limits)
        self.workers = Workers(SETTINGS, own, master_id=9, pipe=3, control_port=13581)
        self.address = Address()

    def deliver(self, *messages: Hello | Bye | Leaving | Expired) -> list[tuple[Any, ...]]:
        """These arrive; returns what happened, in a form that can be compared."""
        events = [
            each for message in messages for each in self.workers.receive(message, self.now_ns)
        ]
        return list(map(plain, events))

    def join(self, incarnation: int, worker_id: str) -> None:
        """A worker says hello, and answers the next control state."""
        self.deliver(hello(incarnation, worker_id))
        self.workers.heartbeat(heartbeat(incarnation, self.state().serial), self.now_ns)

    def wait(self, seconds: float) -> list[tuple[Any, ...]]:
        """Time passes; returns what happened."""
        self.now_ns += int(seconds * SECOND_NS)
        return list(map(plain, self.workers.tick(self.now_ns)))

    def exits(self, *exits: WorkerExit, gone: bool = False) -> None:
        """Processes of local workers exit."""
        self.workers.children_exited(exits, self.now_ns)
        self.workers.children_gone = gone

    def state(self) -> ControlState:
        """The next control state, now."""
        state = self.workers.control_state(self.now_ns, at_once=True)
        assert state is not None
        return state

    @property
    def names(self) -> list[str]:
        return [worker.hello.worker_id for worker in self.workers.present.values()]


def plain(event: Event) -> tuple[Any, ...]:
    incarnation = event.worker.hello.incarnation
    if isinstance(event, WorkerJoined):
        return ("joined", incarnation)
    return ("left", incarnation, event.reason, event.said_bye)


def hello(incarnation: int, worker_id: str = "w", previous: int = 0) -> Hello:
    return Hello(incarnation, previous, worker_id, 4, "host", 1, "1.0")


def heartbeat(incarnation: int, serial: int) -> Heartbeat:
    return Heartbeat(incarnation, serial, 0, 0, 0, 0, 0)


# Joining and leaving -----------------------------------------------------------------------


def test_a_worker_that_never_answered_is_dropped_with_a_hint_at_the_port() -> None:
    here = Scene()
    here.deliver(hello(7))
    assert here.wait(10) == []
    ((_, incarnation, reason, said_bye),) = here.wait(0.1)
    assert (incarnation, said_bye) == (7, False)
    assert reason == "no heartbeat for 10 s (can it reach port 13581, --zmq-control-port?)"


# Local workers -----------------------------------------------------------------------------


def test_no_worker_is_waited_for_if_none_can_join() -> None:
    here = Scene()
    here.deliver(hello(1, "local-0"))
    here.workers.expect_workers(here.now_ns)
    here.exits(WorkerExit("local-0", 1, "it was killed by SIGKILL"), gone=True)
    assert not here.workers.no_workers_left(here.now_ns)
    here.wait(0.3)
    assert here.workers.no_workers_left(here.now_ns)


# Credentials -------------------------------------------------------------------------------


def test_a_failed_renewal_is_reported_once_and_gives_a_new_serial() -> None:
    here = Scene()
    for serial in (2, 3):
        here.workers.renewed(AuthError("no response"), 0)
        assert here.workers.settings.credentials == (with_token("old", serial),)
        assert here.workers.warnings == ["The credentials could not be renewed: no response"]


def test_workers_learn_once_of_credentials_that_no_others_replace() -> None:
    here = Scene()
    wanted = (
        "The credentials could not be renewed: the key is gone; there are no other credentials, so"
        " operations fail at once"
    )
    for serial in (2, 3):
        here.workers.renewed(RejectedError("the key is gone"), 0)
        assert here.workers.settings.credentials == (
            replace(with_token("old", serial), rejected=(0,)),
        )
        assert here.workers.warnings == [wanted]
    here.workers.renewed(with_token("new", 4), 0)
    assert here.workers.settings.newest.rejected == ()


def test_rejected_identities_are_named_once() -> None:
    here = Scene()
    store = {"identities": [("ann", {}), ("bob", {}), ("cee", {})]}
    here.workers.settings = replace(SETTINGS, store=store)
    text = "The store rejects the credentials of {}; there are no other credentials, so"
    for serial, rejected in ((2, (2,)), (3, (2,)), (4, (1, 2, 3))):
        here.workers.renewed(replace(with_token("old", serial), rejected=rejected), 0)
        assert here.workers.settings.newest.rejected == rejected
    assert here.workers.warnings == [
        f"{text.format(many)} operations fail at once: {names}"
        for many, names in (("1 identity", "bob"), ("2 identities", "ann, cee"))
    ]  # fmt: skip
    here.workers.renewed(RejectedError("all are gone"), 0)
    assert here.workers.settings.newest.rejected == (1, 2, 3)


# The wait for workers ----------------------------------------------------------------------


def worker_wait(here: Scene, users: int = 8, expected: int | None = None) -> WorkerWait:
    return WorkerWait(here.workers, here.address, users, expected)


@pytest.mark.parametrize(("has_key", "is_of_host"), [(True, False), (True, True), (False, False)])
def test_an_address_that_only_this_host_reaches_is_named(has_key: bool, is_of_host: bool) -> None:
    here = Scene()
    here.address.ip, here.address.is_loopback = "127.0.0.1", True
    here.address.has_key, here.address.has_key_of_host = has_key, is_of_host
    with pytest.raises(NoWorkersError, match="can be reached from this host only") as e:
        worker_wait(here).shortcomings()
    assert ("make-key" in str(e.value)) is (is_of_host or not has_key)
    assert "--zmq-bind-ip" in str(e.value)


def test_a_local_worker_that_exited_is_not_waited_for() -> None:
    here = Scene()
    wait = worker_wait(here, expected=2)
    here.join(1, "a")
    here.exits(WorkerExit("b", 2, "it exited with status 1"))
    here.wait(0.3)
    assert wait.complete(here.now_ns)


def test_if_all_local_workers_exited_no_worker_is_waited_for() -> None:
    here = Scene()
    wait = worker_wait(here, expected=1)
    here.exits(WorkerExit("a", 1, "it exited with status 1"), gone=True)
    assert not wait.complete(here.now_ns)
    here.wait(0.3)
    assert wait.complete(here.now_ns)
    with pytest.raises(NoWorkersError, match="all workers that the run started have ended"):
        wait.shortcomings()


def test_the_wait_is_shown() -> None:
    here = Scene()
    assert (
        worker_wait(here).progress(7 * SECOND_NS) == "Waiting for workers: none so far (7 s left)"
    )
    here.deliver(hello(2, "b"))  # who only says hello
    here.join(1, "a")
    assert worker_wait(here).progress(0).endswith(": 1 so far, for 4 of 8 users (0 s left)")
    assert worker_wait(here, expected=3).progress(0).endswith(": 1 of 3 (0 s left)")
    here = Scene(fewer_workers_ok=True)
    assert worker_wait(here, expected=3).progress(0).endswith(": 0 of 3 (0 s left)")
    here.join(1, "a")
    shown = worker_wait(here, expected=3).progress(7 * SECOND_NS)
    assert shown.endswith(": 1 of 3 (7 s left, then the run starts with 1)")
