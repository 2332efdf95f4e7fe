"""The crew, with a wire in memory and a clock that stands still unless it is told."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ssbench.core.dispatch.worker_registry import SECOND
from ssbench.core.errors import AuthError
from ssbench.core.messages import (
    Ack,
    Bye,
    ControlState,
    Expired,
    Heartbeat,
    Hello,
    Message,
    Ready,
    Results,
    Returned,
)
from ssbench.core.model import Phase, WorkerExit
from ssbench.core.settings import Credentials, StorageSettings
from ssbench.master.phases import Limits
from ssbench.master.worker_manager import Event, WorkerJoined, WorkerLeft, WorkerManager
from ssbench.transport.ports import Ports
from tests.fakes.drivers import with_token

SETTINGS = StorageSettings(driver="noop", run_id="run1", credentials=(with_token("old", 1),))


class Wire:
    """The master's end, in memory."""

    pipe = 3
    ports = Ports(1, 2, 3)
    key_hint = "with the same --zmq-key-file"

    def __init__(self) -> None:
        self.ip, self.is_loopback, self.has_key = "192.0.2.1", False, True
        self.states: list[ControlState] = []
        self.coming: list[Message] = []
        self.asked: list[tuple[float, bool]] = []
        self.knocked: list[str] = []

    def rejected_peers(self, *, last: bool = False) -> list[str]:
        told, self.knocked = self.knocked, []
        return told

    def send_control_state(self, state: ControlState) -> None:
        self.states.append(state)

    def receive(self, timeout_s: float, *, or_writable: bool = False) -> Iterator[Message]:
        self.asked.append((timeout_s, or_writable))
        while self.coming:
            yield self.coming.pop(0)


class FakeChildren:
    """Worker processes of our own, which end when a test says so."""

    def __init__(self) -> None:
        self.ending: list[WorkerExit] = []
        self.all_ended = False

    def exits(self) -> list[WorkerExit]:
        told, self.ending = self.ending, []
        return told

    def hopeless(self) -> bool:
        return self.all_ended


class Scene:
    """A crew and what it is told."""

    def __init__(
        self,
        renew: Callable[[], tuple[str, int]] | None = None,
        timeout_s: float = 10.0,
        children: FakeChildren | None = None,
    ) -> None:
        self.now_ns = 1000 * SECOND
        self.transport = Wire()
        self.warnings: list[str] = []
        self.manager = WorkerManager(
            self.transport,  # type: ignore[arg-type]
            SETTINGS,
            Limits(worker_timeout_s=timeout_s),
            renew=renew,
            warn=self.warnings.append,
            clock=lambda: self.now_ns,
            children=children,
            wall_clock=lambda: self.now_ns + 5000 * SECOND,
        )

    def deliver(self, *messages: Message) -> list[Event]:
        """One turn in which these arrive."""
        self.transport.coming += messages
        return list(self.manager.poll(0.05))

    def pass_time(self, seconds: float) -> list[Event]:
        """Let time pass; gives what the tick says."""
        self.now_ns += int(seconds * SECOND)
        return list(self.manager.tick(self.now_ns))

    @property
    def names(self) -> list[str]:
        return [worker.hello.worker_id for worker in self.manager.registry.workers.values()]


def hello(incarnation: int, worker_id: str = "w", previous: int = 0) -> Hello:
    return Hello(incarnation, previous, worker_id, 4, "host", 1, "1.0")


def heartbeat(incarnation: int, state: int) -> Heartbeat:
    return Heartbeat(incarnation, state, 0, 0, 0, 0, 0, {})


def told(events: list[Event]) -> list[Any]:
    """Who came and who is gone, in a form that can be compared; messages as they are."""
    return [
        ("came", event.worker.hello.incarnation)
        if isinstance(event, WorkerJoined)
        else ("gone", event.worker.hello.incarnation, event.left)
        if isinstance(event, WorkerLeft)
        else event
        for event in events
    ]


# Worker processes of the master's own --------------------------------------------------------


def test_a_child_is_given_up_as_soon_as_it_has_ended() -> None:
    children = FakeChildren()
    here = Scene(children=children)
    here.deliver(hello(1, "local-0"), hello(2, "local-1"))
    children.ending = [WorkerExit("local-0", 1, "it was killed by SIGKILL")]
    assert here.pass_time(0.01) == [], "its last messages may still arrive"
    (gone,) = here.pass_time(0.3)
    assert isinstance(gone, WorkerLeft)
    assert (gone.worker.hello.incarnation, gone.left) == (1, False)
    assert gone.reason == "it was killed by SIGKILL"
    assert here.names == ["local-1"]
    assert here.warnings == []
    assert here.pass_time(0.3) == []


def test_a_child_that_said_goodbye_is_not_given_up() -> None:
    children = FakeChildren()
    here = Scene(children=children)
    here.deliver(hello(1, "local-0"))
    children.ending = [WorkerExit("local-0", 1, "it exited with status 0")]
    here.pass_time(0.01)
    here.deliver(Bye(1, ""))
    assert here.pass_time(0.3) == []
    assert here.warnings == []


def test_a_namesake_of_a_child_stays() -> None:
    children = FakeChildren()
    here = Scene(children=children)
    here.deliver(hello(1, "local-0"))
    children.ending = [WorkerExit("local-0", 99, "it was killed by SIGKILL")]
    here.pass_time(0.01)
    assert here.pass_time(0.3) == []
    assert here.names == ["local-0"]


def test_a_child_that_ended_before_it_joined_is_told_of() -> None:
    children = FakeChildren()
    here = Scene(children=children)
    children.ending = [WorkerExit("local-0", 7, "it exited with status 1; its log x ends: oops")]
    here.pass_time(0.01)
    here.pass_time(0.3)
    assert here.warnings == [
        "Worker local-0 (pid 7) ended before it joined: it exited with status 1; its log x ends:"
        " oops"
    ]


def test_nobody_is_waited_for_where_nobody_can_come() -> None:
    children = FakeChildren()
    here = Scene(children=children)
    here.deliver(hello(1, "local-0"))
    here.manager.expect(here.now_ns)
    children.ending = [WorkerExit("local-0", 1, "it was killed by SIGKILL")]
    children.all_ended = True
    assert not here.manager.no_workers_left(here.now_ns)
    here.pass_time(0.01)
    here.pass_time(0.3)
    assert here.manager.no_workers_left(here.now_ns)


# The beat ---------------------------------------------------------------------------------


def test_the_first_turn_says_a_beat_and_the_next_one_is_due_a_second_later() -> None:
    here = Scene()
    here.deliver()
    here.deliver()
    assert [state.serial for state in here.transport.states] == [1]
    here.now_ns += SECOND - 1
    here.deliver()
    assert len(here.transport.states) == 1
    here.now_ns += 1
    here.deliver()
    assert [state.serial for state in here.transport.states] == [1, 2]
    assert here.transport.states[1].master_ns == here.now_ns


def test_a_short_worker_time_out_has_eight_beats_in_it() -> None:
    here = Scene(timeout_s=0.8)
    for _ in range(8):
        here.deliver()
        here.now_ns += SECOND // 10
    assert len(here.transport.states) == 8


def test_beats_are_said_sooner_until_who_came_has_heard_one() -> None:
    here = Scene()
    here.deliver(hello(1))
    sent_ms = []
    for ms in range(100):
        before = len(here.transport.states)
        here.deliver()
        sent_ms += [ms] * (len(here.transport.states) - before)
        here.now_ns += SECOND // 1000
    assert sent_ms == [0, 5, 10, 20, 40, 80]
    assert here.transport.asked[-1][0] == 0.05
    assert here.transport.asked[1][0] == 0.005  # a wait isn't longer than that
    here.deliver(heartbeat(1, here.transport.states[-1].serial))
    here.now_ns += SECOND // 5
    here.deliver()
    before = len(here.transport.states)
    here.now_ns += SECOND - 1
    here.deliver()
    assert len(here.transport.states) == before


def test_one_who_never_hears_a_beat_is_said_no_more_than_others() -> None:
    here = Scene()
    here.deliver(hello(1))
    for _ in range(50):
        here.now_ns += SECOND // 10
        here.deliver()
    before = len(here.transport.states)
    for _ in range(40):
        here.now_ns += SECOND // 10
        here.deliver()
    assert len(here.transport.states) == before + 4


def test_news_make_a_beat_due_at_once() -> None:
    here = Scene()
    here.deliver()
    for change in (
        lambda: here.manager.allocate_users(4),
        lambda: here.manager.enter(Phase.RUN),
        lambda: setattr(here.manager, "state_changed", True),
    ):
        before = len(here.transport.states)
        change()
        here.deliver()
        here.deliver()
        assert len(here.transport.states) == before + 1


def test_a_beat_says_what_was_set() -> None:
    here = Scene()
    here.deliver(hello(7))
    here.manager.allocate_users(3)
    here.manager.enter(Phase.RUN, live=True)
    here.manager.start_ns = 5
    here.manager.ending = here.manager.stopping = True
    here.manager.send_control_state()
    state = here.transport.states[-1]
    assert (state.run, state.phase, state.start_ns) == ("run1", Phase.RUN, 5)
    assert state.workers == {7: (3, None)}
    assert state.settings["credentials"][0]["payload"] == {"token": "old"}
    assert (state.timeout_s, state.pipe) == (10.0, 3)
    assert (state.live, state.ending, state.stopping, state.quit) == (True, True, True, False)


def test_between_phases_a_beat_keeps_settings_and_flags_to_itself() -> None:
    here = Scene()
    here.manager.enter(Phase.RUN, live=True)
    here.manager.ending = here.manager.stopping = True
    here.manager.enter(Phase.IDLE)
    here.deliver()
    (state,) = here.transport.states
    assert (state.run, state.phase, state.settings) == ("", Phase.IDLE, {})
    assert (state.live, state.ending, state.stopping) == (False, False, False)


def test_a_turn_waits_as_it_is_told() -> None:
    here = Scene()
    list(here.manager.poll(0.25, or_writable=True))
    assert here.transport.asked == [(0.25, True)]


# Who comes and goes -----------------------------------------------------------------------


def test_one_that_comes_is_told_of_once_and_named_in_the_next_beat() -> None:
    here = Scene()
    assert told(here.deliver(hello(7), hello(7))) == [("came", 7)]
    assert here.manager.newest_hello_ns == here.now_ns
    here.deliver()
    assert list(here.transport.states[-1].workers) == [7]


def test_one_that_comes_back_as_another_is_gone_first() -> None:
    here = Scene()
    here.deliver(hello(7))
    (gone, joined) = here.deliver(hello(8, previous=7))
    assert told([gone, joined]) == [("gone", 7, False), ("came", 8)]
    assert isinstance(gone, WorkerLeft)
    assert gone.reason == "it came back under a new incarnation"
    assert here.manager.departed == {}  # it is here


def test_a_namesake_is_refused_in_the_next_beat_until_it_leaves() -> None:
    here = Scene()
    here.deliver(hello(7))
    assert here.deliver(hello(8)) == []
    here.deliver()
    assert "is taken by" in here.transport.states[-1].refused[8]
    assert here.deliver(Bye(8, "refused")) == []
    here.manager.send_control_state()
    assert here.transport.states[-1].refused == {}


def test_a_bye_makes_one_gone_by_its_own_word() -> None:
    here = Scene()
    here.deliver(hello(7, "a"), hello(8, "b"))
    (gone,) = here.deliver(Bye(7, ""))
    assert isinstance(gone, WorkerLeft)
    assert (gone.worker.name, gone.reason, gone.left) == ("a (host, pid 1)", "it ended", True)
    assert (list(here.manager.departed), here.names) == (["a (host, pid 1)"], ["b"])
    assert told(here.deliver(Bye(7, "again"))) == []


def test_one_that_answers_nothing_is_given_up_with_a_hint() -> None:
    here = Scene()
    here.deliver(hello(7))
    assert here.pass_time(10) == []
    (gone,) = here.pass_time(0.001)
    assert isinstance(gone, WorkerLeft)
    assert not gone.left
    assert gone.reason == ("no sign of life for 10 s (can it reach port 3, --zmq-control-port?)")
    assert (list(here.manager.departed), here.names) == (["w (host, pid 1)"], [])


def test_one_that_falls_silent_is_given_up_without_a_hint() -> None:
    here = Scene()
    here.deliver(hello(7))
    here.now_ns += SECOND
    here.deliver()
    here.deliver(heartbeat(7, here.transport.states[-1].serial))
    assert here.pass_time(10) == []
    (gone,) = here.pass_time(0.001)
    assert isinstance(gone, WorkerLeft)
    assert gone.reason == "no sign of life for 10 s"


def test_pulses_are_passed_on_where_one_knows_who_it_is() -> None:
    here = Scene()
    here.deliver(hello(7))
    assert here.deliver(heartbeat(8, 1), heartbeat(7, 1)) == [heartbeat(7, 1)]


def test_the_crew_is_ready_when_all_who_have_users_are() -> None:
    here = Scene()
    here.deliver(hello(7, "a"), hello(8, "b"))
    here.manager.allocate_users(8)
    here.manager.enter(Phase.RUN)
    here.deliver(Ready(7, "run1", Phase.RUN, False), Ready(9, "run1", Phase.RUN, False))
    assert not here.manager.ready()
    here.deliver(Ready(8, "run1", Phase.RUN, False))
    assert here.manager.ready()
    assert not here.manager.ready(stopped=True)
    here.deliver(Ready(7, "run1", Phase.RUN, True), Ready(8, "run1", Phase.RUN, True))
    assert here.manager.ready(stopped=True)


def test_all_else_is_passed_on_in_the_order_of_its_arrival() -> None:
    """What a worker said before its bye is heard before it is gone."""
    here = Scene()
    took, returned = Ack(7, "run1", [1]), Returned(7, "run1", [2])
    results = Results(7, "run1", Phase.RUN, [], b"")
    stray = ControlState(1, 1, 0, "", 0, 0, {}, {}, {}, 1.0, 0.0, 1, False, False, False, False)
    events = here.deliver(hello(7), took, results, stray, Bye(7, ""), returned)
    assert told(events) == [("came", 7), took, results, stray, ("gone", 7, True), returned]


# The token --------------------------------------------------------------------------------


def renewed(here: Scene) -> None:
    """Let time pass until there is another serial."""
    serial = here.manager.settings.newest.serial
    deadline = time.monotonic() + 5
    while here.manager.settings.newest.serial == serial:
        assert time.monotonic() < deadline, "no token came"
        here.pass_time(0)


def test_a_new_token_is_said_at_once() -> None:
    here = Scene(renew=lambda: with_token("new", 5))
    here.deliver(hello(7), Expired(7, 1))
    here.deliver()
    renewed(here)
    assert here.manager.settings.credentials == (with_token("new", 5),)
    here.manager.enter(Phase.RUN)
    here.deliver()
    assert here.transport.states[-1].settings["credentials"][-1]["payload"] == {"token": "new"}


def test_an_expiry_of_a_former_token_asks_for_nothing() -> None:
    asked: list[int] = []

    def renew() -> Credentials:
        asked.append(1)
        return with_token("new", 5)

    here = Scene(renew=renew)
    assert here.deliver(Expired(7, 0)) == []
    here.pass_time(0)
    assert asked == []


def test_without_a_renewal_an_expiry_is_heard_and_that_is_all() -> None:
    here = Scene()
    assert here.deliver(Expired(7, 1)) == []
    assert here.pass_time(1) == []
    assert here.manager.settings == SETTINGS


def test_a_fault_is_told_once_and_gives_a_new_serial_all_the_same() -> None:
    def renew() -> Credentials:
        raise AuthError("the user is disabled")

    here = Scene(renew=renew)
    for serial in (1, 2):
        here.now_ns += 2 * SECOND
        here.deliver(Expired(7, serial))
        renewed(here)
        assert here.manager.settings.credentials == (with_token("old", serial + 1),)
    assert here.warnings == ["The token could not be renewed: the user is disabled"]


@pytest.mark.parametrize("phase", [Phase.IDLE, Phase.RUN])
def test_it_shows_no_secret(phase: Phase) -> None:
    here = Scene()
    here.manager.enter(phase)
    manager = f"<WorkerManager {phase.name} <WorkerRegistry 0 workers for 0 users>>"
    assert repr(here.manager) == manager


# Strangers --------------------------------------------------------------------------------


def test_strangers_are_warned_of() -> None:
    scene = Scene()
    scene.transport.knocked = ["someone at 192.0.2.7", "someone at 192.0.2.8"]
    scene.pass_time(1)
    scene.pass_time(1)
    assert scene.warnings == ["someone at 192.0.2.7", "someone at 192.0.2.8"]


def test_what_a_worker_says_of_its_clocks_is_kept_and_passed_on() -> None:
    here = Scene()
    here.deliver(hello(7))
    worker = here.manager.registry.workers[7]
    state = here.transport.states[-1].serial
    said = Ready(7, "run1", Phase.RUN, False, 123)
    answer = heartbeat(7, state)._replace(worker_ns=9 * SECOND, wall_ns=6009 * SECOND)
    rejected = Ready(9, "run1", Phase.RUN, False, 5)
    assert here.deliver(said, answer, rejected) == [said, answer]
    assert worker.origin_ns == 123
    assert worker.offset_ns == 9 * SECOND - here.now_ns
    # Its wall clock is 6000 s ahead of its other one, ours 5000 s.
    assert worker.wall_offset_ns == worker.offset_ns + 1000 * SECOND


# Being alone ------------------------------------------------------------------------------


def test_it_is_not_deserted_before_anybody_is_expected() -> None:
    here = Scene()
    assert not here.manager.no_workers_left(here.now_ns)
    here.manager.expect(here.now_ns)
    assert not here.manager.no_workers_left(here.now_ns + 30 * SECOND)
    assert here.manager.no_workers_left(here.now_ns + 30 * SECOND + 1)


def test_who_left_is_waited_for_from_then_on_and_in_the_next_phase_too() -> None:
    here = Scene()
    here.deliver(hello(1))
    here.manager.expect(here.now_ns)
    here.now_ns += 100 * SECOND
    assert not here.manager.no_workers_left(here.now_ns)
    here.deliver(Bye(1, "enough"))
    here.manager.expect(here.now_ns + 20 * SECOND)
    assert not here.manager.no_workers_left(here.now_ns + 30 * SECOND)
    assert here.manager.no_workers_left(here.now_ns + 31 * SECOND)
