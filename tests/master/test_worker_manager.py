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
from ssbench.core.settings import StorageSettings
from ssbench.master.phases import Limits
from ssbench.master.worker_manager import Event, WorkerJoined, WorkerLeft, WorkerManager
from ssbench.transport.ports import Ports

SETTINGS = StorageSettings(driver="noop", run_id="run1", token="old", token_serial=1)


class Wire:
    """The master's end, in memory."""

    pipe = 3
    ports = Ports(1, 2, 3)
    key_words = "with the same --zmq-key-file"

    def __init__(self) -> None:
        self.ip, self.is_loopback, self.has_key = "192.0.2.1", False, True
        self.beats: list[ControlState] = []
        self.coming: list[Message] = []
        self.asked: list[tuple[float, bool]] = []
        self.knocked: list[str] = []

    def strangers(self, *, last: bool = False) -> list[str]:
        told, self.knocked = self.knocked, []
        return told

    def send_control_state(self, beat: ControlState) -> None:
        self.beats.append(beat)

    def receive(self, timeout_s: float, *, or_room: bool = False) -> Iterator[Message]:
        self.asked.append((timeout_s, or_room))
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
        self.wire = Wire()
        self.warnings: list[str] = []
        self.crew = WorkerManager(
            self.wire,  # type: ignore[arg-type]
            SETTINGS,
            Limits(worker_timeout_s=timeout_s),
            renew=renew,
            warn=self.warnings.append,
            clock=lambda: self.now_ns,
            children=children,
            wall_clock=lambda: self.now_ns + 5000 * SECOND,
        )

    def hear(self, *messages: Message) -> list[Event]:
        """One turn in which these arrive."""
        self.wire.coming += messages
        return list(self.crew.turn(0.05))

    def pass_time(self, seconds: float) -> list[Event]:
        """Let time pass; gives what the tick says."""
        self.now_ns += int(seconds * SECOND)
        return list(self.crew.tick(self.now_ns))

    @property
    def names(self) -> list[str]:
        return [worker.hello.worker_id for worker in self.crew.roster.workers.values()]


def hello(incarnation: int, worker_id: str = "w", previous: int = 0) -> Hello:
    return Hello(incarnation, previous, worker_id, 4, "host", 1, "1.0")


def pulse(incarnation: int, beat: int) -> Heartbeat:
    return Heartbeat(incarnation, beat, 0, 0, 0, 0, 0, {})


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
    here.hear(hello(1, "local-0"), hello(2, "local-1"))
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
    here.hear(hello(1, "local-0"))
    children.ending = [WorkerExit("local-0", 1, "it exited with status 0")]
    here.pass_time(0.01)
    here.hear(Bye(1, ""))
    assert here.pass_time(0.3) == []
    assert here.warnings == []


def test_a_namesake_of_a_child_stays() -> None:
    children = FakeChildren()
    here = Scene(children=children)
    here.hear(hello(1, "local-0"))
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
    here.hear(hello(1, "local-0"))
    here.crew.expect(here.now_ns)
    children.ending = [WorkerExit("local-0", 1, "it was killed by SIGKILL")]
    children.all_ended = True
    assert not here.crew.no_workers_left(here.now_ns)
    here.pass_time(0.01)
    here.pass_time(0.3)
    assert here.crew.no_workers_left(here.now_ns)


# The beat ---------------------------------------------------------------------------------


def test_the_first_turn_says_a_beat_and_the_next_one_is_due_a_second_later() -> None:
    here = Scene()
    here.hear()
    here.hear()
    assert [beat.serial for beat in here.wire.beats] == [1]
    here.now_ns += SECOND - 1
    here.hear()
    assert len(here.wire.beats) == 1
    here.now_ns += 1
    here.hear()
    assert [beat.serial for beat in here.wire.beats] == [1, 2]
    assert here.wire.beats[1].master_ns == here.now_ns


def test_a_short_worker_time_out_has_eight_beats_in_it() -> None:
    here = Scene(timeout_s=0.8)
    for _ in range(8):
        here.hear()
        here.now_ns += SECOND // 10
    assert len(here.wire.beats) == 8


def test_beats_are_said_sooner_until_who_came_has_heard_one() -> None:
    here = Scene()
    here.hear(hello(1))
    sent_ms = []
    for ms in range(100):
        before = len(here.wire.beats)
        here.hear()
        sent_ms += [ms] * (len(here.wire.beats) - before)
        here.now_ns += SECOND // 1000
    assert sent_ms == [0, 5, 10, 20, 40, 80]
    assert here.wire.asked[-1][0] == 0.05
    assert here.wire.asked[1][0] == 0.005  # a wait isn't longer than that
    here.hear(pulse(1, here.wire.beats[-1].serial))
    here.now_ns += SECOND // 5
    here.hear()
    before = len(here.wire.beats)
    here.now_ns += SECOND - 1
    here.hear()
    assert len(here.wire.beats) == before


def test_one_who_never_hears_a_beat_is_said_no_more_than_others() -> None:
    here = Scene()
    here.hear(hello(1))
    for _ in range(50):
        here.now_ns += SECOND // 10
        here.hear()
    before = len(here.wire.beats)
    for _ in range(40):
        here.now_ns += SECOND // 10
        here.hear()
    assert len(here.wire.beats) == before + 4


def test_news_make_a_beat_due_at_once() -> None:
    here = Scene()
    here.hear()
    for change in (
        lambda: here.crew.allocate_users(4),
        lambda: here.crew.enter(Phase.RUN),
        lambda: setattr(here.crew, "news", True),
    ):
        before = len(here.wire.beats)
        change()
        here.hear()
        here.hear()
        assert len(here.wire.beats) == before + 1


def test_a_beat_says_what_was_set() -> None:
    here = Scene()
    here.hear(hello(7))
    here.crew.allocate_users(3)
    here.crew.enter(Phase.RUN, live=True)
    here.crew.start_ns = 5
    here.crew.ending = here.crew.stopping = True
    here.crew.send_control_state()
    beat = here.wire.beats[-1]
    assert (beat.run, beat.phase, beat.start_ns) == ("run1", Phase.RUN, 5)
    assert beat.workers == {7: (3, None)}
    assert beat.settings["token"] == "old"
    assert (beat.timeout_s, beat.pipe) == (10.0, 3)
    assert (beat.live, beat.ending, beat.stopping, beat.quit) == (True, True, True, False)


def test_between_phases_a_beat_keeps_settings_and_flags_to_itself() -> None:
    here = Scene()
    here.crew.enter(Phase.RUN, live=True)
    here.crew.ending = here.crew.stopping = True
    here.crew.enter(Phase.IDLE)
    here.hear()
    (beat,) = here.wire.beats
    assert (beat.run, beat.phase, beat.settings) == ("", Phase.IDLE, {})
    assert (beat.live, beat.ending, beat.stopping) == (False, False, False)


def test_a_turn_waits_as_it_is_told() -> None:
    here = Scene()
    list(here.crew.turn(0.25, or_room=True))
    assert here.wire.asked == [(0.25, True)]


# Who comes and goes -----------------------------------------------------------------------


def test_one_that_comes_is_told_of_once_and_named_in_the_next_beat() -> None:
    here = Scene()
    assert told(here.hear(hello(7), hello(7))) == [("came", 7)]
    assert here.crew.newest_hello_ns == here.now_ns
    here.hear()
    assert list(here.wire.beats[-1].workers) == [7]


def test_one_that_comes_back_as_another_is_gone_first() -> None:
    here = Scene()
    here.hear(hello(7))
    (gone, came) = here.hear(hello(8, previous=7))
    assert told([gone, came]) == [("gone", 7, False), ("came", 8)]
    assert isinstance(gone, WorkerLeft)
    assert gone.reason == "it came back under a new incarnation"
    assert here.crew.gone == {}  # it is here


def test_a_namesake_is_refused_in_the_next_beat_until_it_leaves() -> None:
    here = Scene()
    here.hear(hello(7))
    assert here.hear(hello(8)) == []
    here.hear()
    assert "is taken by" in here.wire.beats[-1].refused[8]
    assert here.hear(Bye(8, "refused")) == []
    here.crew.send_control_state()
    assert here.wire.beats[-1].refused == {}


def test_a_bye_makes_one_gone_by_its_own_word() -> None:
    here = Scene()
    here.hear(hello(7, "a"), hello(8, "b"))
    (gone,) = here.hear(Bye(7, ""))
    assert isinstance(gone, WorkerLeft)
    assert (gone.worker.name, gone.reason, gone.left) == ("a (host, pid 1)", "it ended", True)
    assert (list(here.crew.gone), here.names) == (["a (host, pid 1)"], ["b"])
    assert told(here.hear(Bye(7, "again"))) == []


def test_one_that_answers_nothing_is_given_up_with_a_hint() -> None:
    here = Scene()
    here.hear(hello(7))
    assert here.pass_time(10) == []
    (gone,) = here.pass_time(0.001)
    assert isinstance(gone, WorkerLeft)
    assert not gone.left
    assert gone.reason == ("no sign of life for 10 s (can it reach port 3, --zmq-control-port?)")
    assert (list(here.crew.gone), here.names) == (["w (host, pid 1)"], [])


def test_one_that_falls_silent_is_given_up_without_a_hint() -> None:
    here = Scene()
    here.hear(hello(7))
    here.now_ns += SECOND
    here.hear()
    here.hear(pulse(7, here.wire.beats[-1].serial))
    assert here.pass_time(10) == []
    (gone,) = here.pass_time(0.001)
    assert isinstance(gone, WorkerLeft)
    assert gone.reason == "no sign of life for 10 s"


def test_pulses_are_passed_on_where_one_knows_who_it_is() -> None:
    here = Scene()
    here.hear(hello(7))
    assert here.hear(pulse(8, 1), pulse(7, 1)) == [pulse(7, 1)]


def test_the_crew_is_ready_when_all_who_have_users_are() -> None:
    here = Scene()
    here.hear(hello(7, "a"), hello(8, "b"))
    here.crew.allocate_users(8)
    here.crew.enter(Phase.RUN)
    here.hear(Ready(7, "run1", Phase.RUN, False), Ready(9, "run1", Phase.RUN, False))
    assert not here.crew.ready()
    here.hear(Ready(8, "run1", Phase.RUN, False))
    assert here.crew.ready()
    assert not here.crew.ready(stopped=True)
    here.hear(Ready(7, "run1", Phase.RUN, True), Ready(8, "run1", Phase.RUN, True))
    assert here.crew.ready(stopped=True)


def test_all_else_is_passed_on_in_the_order_of_its_arrival() -> None:
    """What a worker said before its bye is heard before it is gone."""
    here = Scene()
    took, returned = Ack(7, "run1", [1]), Returned(7, "run1", [2])
    results = Results(7, "run1", Phase.RUN, [], b"")
    stray = ControlState(1, 1, 0, "", 0, 0, {}, {}, {}, 1.0, 0.0, 1, False, False, False, False)
    events = here.hear(hello(7), took, results, stray, Bye(7, ""), returned)
    assert told(events) == [("came", 7), took, results, stray, ("gone", 7, True), returned]


# The token --------------------------------------------------------------------------------


def renewed(here: Scene) -> None:
    """Let time pass until there is another serial."""
    serial = here.crew.settings.token_serial
    deadline = time.monotonic() + 5
    while here.crew.settings.token_serial == serial:
        assert time.monotonic() < deadline, "no token came"
        here.pass_time(0)


def test_a_new_token_is_said_at_once() -> None:
    here = Scene(renew=lambda: ("new", 5))
    here.hear(hello(7), Expired(7, 1))
    here.hear()
    renewed(here)
    assert (here.crew.settings.token, here.crew.settings.token_serial) == ("new", 5)
    here.crew.enter(Phase.RUN)
    here.hear()
    assert here.wire.beats[-1].settings["token"] == "new"


def test_an_expiry_of_a_former_token_asks_for_nothing() -> None:
    asked: list[int] = []

    def renew() -> tuple[str, int]:
        asked.append(1)
        return "new", 5

    here = Scene(renew=renew)
    assert here.hear(Expired(7, 0)) == []
    here.pass_time(0)
    assert asked == []


def test_without_a_renewal_an_expiry_is_heard_and_that_is_all() -> None:
    here = Scene()
    assert here.hear(Expired(7, 1)) == []
    assert here.pass_time(1) == []
    assert here.crew.settings == SETTINGS


def test_a_fault_is_told_once_and_gives_a_new_serial_all_the_same() -> None:
    def renew() -> tuple[str, int]:
        raise AuthError("the user is disabled")

    here = Scene(renew=renew)
    for serial in (1, 2):
        here.now_ns += 2 * SECOND
        here.hear(Expired(7, serial))
        renewed(here)
        assert (here.crew.settings.token, here.crew.settings.token_serial) == ("old", serial + 1)
    assert here.warnings == ["The token could not be renewed: the user is disabled"]


@pytest.mark.parametrize("phase", [Phase.IDLE, Phase.RUN])
def test_it_shows_no_secret(phase: Phase) -> None:
    here = Scene()
    here.crew.enter(phase)
    manager = f"<WorkerManager {phase.name} <WorkerRegistry 0 workers for 0 users>>"
    assert repr(here.crew) == manager


# Strangers --------------------------------------------------------------------------------


def test_strangers_are_warned_of() -> None:
    scene = Scene()
    scene.wire.knocked = ["someone at 192.0.2.7", "someone at 192.0.2.8"]
    scene.pass_time(1)
    scene.pass_time(1)
    assert scene.warnings == ["someone at 192.0.2.7", "someone at 192.0.2.8"]


def test_what_a_worker_says_of_its_clocks_is_kept_and_passed_on() -> None:
    here = Scene()
    here.hear(hello(7))
    worker = here.crew.roster.workers[7]
    beat = here.wire.beats[-1].serial
    said = Ready(7, "run1", Phase.RUN, False, 123)
    answer = pulse(7, beat)._replace(worker_ns=9 * SECOND, wall_ns=6009 * SECOND)
    stranger = Ready(9, "run1", Phase.RUN, False, 5)
    assert here.hear(said, answer, stranger) == [said, answer]
    assert worker.origin_ns == 123
    assert worker.offset_ns == 9 * SECOND - here.now_ns
    # Its wall clock is 6000 s ahead of its other one, ours 5000 s.
    assert worker.wall_offset_ns == worker.offset_ns + 1000 * SECOND


# Being alone ------------------------------------------------------------------------------


def test_it_is_not_deserted_before_anybody_is_expected() -> None:
    here = Scene()
    assert not here.crew.no_workers_left(here.now_ns)
    here.crew.expect(here.now_ns)
    assert not here.crew.no_workers_left(here.now_ns + 30 * SECOND)
    assert here.crew.no_workers_left(here.now_ns + 30 * SECOND + 1)


def test_who_left_is_waited_for_from_then_on_and_in_the_next_phase_too() -> None:
    here = Scene()
    here.hear(hello(1))
    here.crew.expect(here.now_ns)
    here.now_ns += 100 * SECOND
    assert not here.crew.no_workers_left(here.now_ns)
    here.hear(Bye(1, "enough"))
    here.crew.expect(here.now_ns + 20 * SECOND)
    assert not here.crew.no_workers_left(here.now_ns + 30 * SECOND)
    assert here.crew.no_workers_left(here.now_ns + 31 * SECOND)
