"""A phase from its first stage to its end: a crew in memory, a clock that turns with the loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from ssbench.core.dispatch.worker_registry import SECOND
from ssbench.core.errors import StatFileError
from ssbench.core.live import RunProgress
from ssbench.core.messages import Ack, Bye, Ready, Returned
from ssbench.core.model import ErrorKind, Job, Phase, Stage
from ssbench.core.operations import READ
from ssbench.core.records import MarkRecord
from ssbench.core.stats.auto_stop import SteadyStateDetector
from ssbench.core.workload.pacing import START_DELAY_NS, StageSchedule
from ssbench.master.phase_runner import WAIT_S, Ending, PhaseRunner, PhaseServices
from ssbench.master.phases import Limits
from tests.core.workload.fleet import Ledger, packed
from tests.master import test_job_transport
from tests.master.test_worker_manager import heartbeat, hello

STILL = Stage(math.inf, 4)


class Scene(test_job_transport.Scene):
    """A shift, and a worker that does in each turn what it is sent."""

    def __init__(
        self,
        total: int = 100,
        *stages: Stage,
        limits: Limits | None = None,
        steady_state: SteadyStateDetector | None = None,
    ) -> None:
        super().__init__(total)
        self.manager.start_ns = self.now_ns
        self.works = True
        self.error = 0
        self.halt: Ending | None = None
        self.waits: list[float] = []
        self.states: list[tuple[bool, bool]] = []  # whether ending, whether stopping
        self.then: Callable[[], object] = lambda: None
        self.runner = PhaseRunner(
            PhaseServices(
                manager=self.manager,
                recorder=self.safe_recorder,
                limits=limits or Limits(),
                clock=lambda: self.now_ns,
                poll=self.poll,
                abort_reason=lambda: self.halt,
                warn=self.warnings.append,
            ),
            self.job_transport,
            self.ledger,
            StageSchedule(stages or [STILL]),
            steady_state=steady_state,
        )

    def poll(self, wait_s: float) -> None:
        """What the master's loop does, in no time but that of the wait."""
        assert len(self.waits) < 10_000, "it never ends"
        self.waits.append(wait_s)
        self.now_ns += max(int(wait_s * SECOND), 1)
        assert self.runner.update_state() is self.job_transport.has_unsent
        self.states.append((self.manager.ending, self.manager.stopping))
        if self.works:
            for number, jobs in self.batches():
                data = packed(jobs, error=self.error, status=503 if self.error else 200)
                self.job_transport.on_results(self.done(jobs, acked=[number])._replace(packed=data))
            self.sent.clear()
        self.then()

    def stopped(self) -> None:
        """The worker says so."""
        self.deliver(Ready(1, test_job_transport.RUN, self.manager.phase, True, 0))

    def end(self) -> tuple[str, str]:
        """Go through all of it; gives how it ended."""
        self.runner.run()
        self.job_transport.close()
        outcome = self.runner.outcome()
        return outcome.ended, outcome.reason

    def marks(self) -> list[tuple[float, str, int]]:
        return [
            (record.at_ns / SECOND, record.name, record.stage)
            for record in self.recorder.records
            if isinstance(record, MarkRecord)
        ]


def test_it_ends_with_the_last_result() -> None:
    here = Scene(100)
    assert here.end() == ("complete", "")
    outcome = here.runner.outcome()
    assert outcome.counts.done == 100
    assert outcome.seconds == pytest.approx(len(here.waits) * WAIT_S)
    assert here.marks() == [(0.0, "stage", 0), (outcome.seconds, "end", 0)]
    assert set(here.states) == {(False, False)}
    assert "PhaseRunner <StageSchedule stage 1 of 1>" in repr(here.runner)


def test_outside_of_the_run_nothing_is_marked() -> None:
    here = Scene(0)
    here.manager.phase = Phase.POPULATE
    assert here.end() == ("complete", "")
    assert here.marks() == []


def test_a_load_model_with_a_lead_starts_later() -> None:
    here = Scene(0)
    here.ledger.ahead = 1
    here.end()
    assert here.marks()[0][0] == START_DELAY_NS / SECOND


def test_stages_follow_each_other_each_with_its_users() -> None:
    here = Scene(10**6, Stage(1.0, 2), Stage(1.0, 3), Stage(0.5, 3))
    users: list[int] = []

    def look() -> None:
        users.append(here.manager.registry.users)
        if here.manager.stopping:
            here.stopped()

    here.then = look
    here.manager.allocate_users(2)
    assert here.end() == ("complete", "")
    assert sorted(set(users)) == [2, 3]
    assert [mark[1:] for mark in here.marks()] == [
        ("stage", 0), ("stage", 1), ("stage", 2), ("end", 2),
    ]  # fmt: skip
    assert [mark[0] for mark in here.marks()] == pytest.approx([0, 1, 2, 2.5], abs=0.01)


def test_the_loop_is_back_when_a_stage_ends() -> None:
    here = Scene(10**6, Stage(0.12, 4))
    here.then = lambda: here.stopped() if here.manager.stopping else None
    here.end()
    assert here.waits[:3] == pytest.approx([WAIT_S, WAIT_S, 0.02])


HALTS = {
    "a run that is interrupted": ("interrupted", "interrupted by SIGINT"),
    "a disk that is full": ("failed", "no space left"),
}


@pytest.mark.parametrize("halt", HALTS.values(), ids=HALTS)
def test_what_halts_the_run_stops_the_phase_in_good_order(halt: Ending) -> None:
    here = Scene(10**6)

    def then() -> None:
        here.halt = halt
        if here.manager.stopping:
            here.stopped()

    here.then = then
    assert here.end() == halt
    counts = here.runner.outcome().counts
    assert counts.lost == 0
    assert counts.done + counts.withdrawn == counts.sent
    assert here.marks()[-1][1] == "end"


class Enough(SteadyStateDetector):
    """Has had enough when so many are done."""

    def __init__(self) -> None:
        super().__init__()
        self.began_ns = 0

    def begin(self, now_ns: int) -> None:
        self.began_ns = now_ns

    def reason_to_end(self, now_ns: int, done: int) -> str:
        return "steady" if self.began_ns and done >= 20 else ""


def test_it_ends_when_it_is_steady() -> None:
    here = Scene(10**6, steady_state=Enough())
    here.then = lambda: here.stopped() if here.manager.stopping else None
    assert here.end() == ("complete", "steady")


def test_what_never_ends_is_lost_after_the_drain_time_out() -> None:
    here = Scene(10**6, Stage(1.0, 4), limits=Limits(drain_timeout_s=2.0))
    here.works = False

    def then() -> None:
        for number, _ in here.batches():
            here.job_transport.on_ack(Ack(1, test_job_transport.RUN, [number]))
        here.sent.clear()

    here.then = then
    assert here.end() == ("complete", "")
    counts = here.runner.outcome().counts
    assert counts.lost == counts.sent > 0
    assert here.warnings == [f"{counts.lost} operations did not end within 2 s; they count as lost"]
    assert here.runner.outcome().seconds == pytest.approx(3.0, abs=2 * WAIT_S)


def test_it_is_not_over_before_all_have_said_that_they_stopped() -> None:
    here = Scene(10**6, Stage(0.1, 4))
    stopping = (False, True)

    def then() -> None:
        if here.states.count(stopping) == 1:
            assert here.manager.state_changed, "they are told at once"
        if here.states.count(stopping) == 5:
            here.stopped()
        here.manager.state_changed = False

    here.then = then
    here.end()
    assert here.states.count(stopping) == 5


def test_without_anybody_left_it_fails_after_the_wait() -> None:
    here = Scene(10**6, limits=Limits(worker_wait_s=30.0))
    here.works = False
    left: list[Any] = []

    def then() -> None:
        if not left:
            left.extend(here.deliver(Bye(1, "enough")))
            here.job_transport.on_worker_left(1)

    here.then = then
    assert here.end() == ("failed", "all workers are gone")
    assert here.runner.outcome().seconds == pytest.approx(30.0, abs=3 * WAIT_S)


def test_where_nobody_is_from_the_beginning_it_fails_after_the_wait() -> None:
    here = Scene(10**6, limits=Limits(worker_wait_s=30.0))
    here.deliver(Bye(1, "enough"))
    assert here.end() == ("failed", "all workers are gone")
    assert here.runner.outcome().seconds == pytest.approx(30.0, abs=3 * WAIT_S)


def test_near_the_end_what_waits_at_one_worker_is_wanted_back_for_another() -> None:
    here = Scene(6)
    here.deliver(hello(2, "b"))
    here.manager.allocate_users(8)
    here.job_transport.send(here.now_ns)
    here.job_transport.on_ack(
        Ack(1, test_job_transport.RUN, [number for number, _ in here.batches()])
    )
    here.job_transport.send(here.now_ns)
    here.manager.state_changed = False
    here.runner.tick(here.now_ns)
    here.runner.update_state()
    assert not here.manager.state_changed
    assert not here.manager.ending
    here.runner.tick(here.now_ns + SECOND)
    here.runner.update_state()
    assert here.manager.state_changed
    assert here.manager.ending


def test_too_many_errors_end_the_run_where_one_wants_that() -> None:
    here = Scene(10**6, limits=Limits(max_consecutive_errors=3))
    here.error = int(ErrorKind.STATUS)
    here.then = lambda: here.stopped() if here.manager.stopping else None
    ended, reason = here.end()
    assert ended == "failed"
    assert reason.startswith("stopped early, as told: ")


def test_an_interrupt_keeps_back_what_nobody_had_room_for() -> None:
    here = Scene(10**6)
    here.room, here.works = 0, False

    def then() -> None:
        here.halt = ("interrupted", "enough")
        if here.manager.stopping:
            here.stopped()
            for number, jobs in here.batches():
                here.job_transport.on_ack(Ack(1, test_job_transport.RUN, [number]))
                here.job_transport.on_returned(
                    Returned(1, test_job_transport.RUN, [j.number for j in jobs])
                )

    here.then = then
    here.end()
    assert not here.job_transport.has_unsent
    assert here.sent == []


def test_where_it_stands() -> None:
    here = Scene(100)
    here.then = lambda: here.runner.on_heartbeat(heartbeat(1, 1)._replace(live={3: 7}))
    here.end()
    progress = here.runner.progress(here.now_ns)
    assert (progress.done, progress.errors, progress.workers, progress.users) == (100, 0, 1, 4)
    assert progress.p50_s is not None


def test_an_open_loops_target_and_what_waits_for_a_user_stand_in_it() -> None:
    here = Scene(10**6, Stage(5, 4, 100.0))
    seen: list[RunProgress] = []

    def look() -> None:
        seen.append(here.runner.progress(here.now_ns))
        if here.manager.stopping:
            here.stopped()

    here.ledger.waiting_since = lambda now_s: now_s - 2  # type: ignore[method-assign, assignment, return-value]
    here.ledger.never_started = lambda now_s: 77  # type: ignore[method-assign]
    here.then = look
    here.end()
    assert {progress.target_rate for progress in seen} == {100}
    assert seen[10].late == pytest.approx(11 * WAIT_S * 100, abs=1), "since the load's begin"
    assert max(progress.late for progress in seen) == 200
    assert seen[-1].late == 77, "now it is known"


def test_failures_stand_in_it_too() -> None:
    here = Scene(10)
    here.error = int(ErrorKind.STATUS)
    here.end()
    progress = here.runner.progress(here.now_ns)
    assert (progress.done, progress.errors) == (10, 10)


def test_a_workload_that_has_run_out_says_so() -> None:
    here = Scene(10)
    here.ledger.exhausted = "nothing is left to be read"
    assert here.end() == ("exhausted", "nothing is left to be read")


def test_a_mark_that_cannot_be_kept_is_told_once() -> None:
    here = Scene(10)

    def fail(record: object) -> None:
        raise StatFileError("no space left")

    here.recorder.write = fail  # type: ignore[method-assign]
    here.end()
    assert here.warnings == ["no space left"]


def users(here: Scene) -> list[tuple[float, str, int]]:
    """Seconds, name and users of each mark."""
    return [
        (round(record.at_ns / SECOND, 1), record.name, record.users)
        for record in here.recorder.records
        if isinstance(record, MarkRecord)
    ]


def test_users_that_nobody_can_run_are_marked_as_missing() -> None:
    here = Scene(100, Stage(math.inf, 64))
    here.manager.allocate_users(64)
    assert here.end() == ("complete", "")
    assert users(here)[:2] == [(0.0, "stage", 64), (0.0, "users", 4)]
    assert here.runner.outcome().short_of_users


def test_users_that_leave_in_the_midst_of_it_are_marked() -> None:
    here = Scene(10**6, Stage(2.0, 6))
    here.deliver(hello(2, "other"))
    here.manager.allocate_users(6)

    def then() -> None:
        if here.now_ns - here.manager.start_ns > SECOND and 2 in here.manager.registry.workers:
            here.deliver(Bye(2, "it was told to"))
        if here.manager.stopping:
            here.stopped()

    here.then = then
    assert here.end() == ("complete", "")
    assert [mark[1:] for mark in users(here)] == [("stage", 6), ("users", 4), ("end", 6)]
    assert 1 <= users(here)[1][0] < 1.3
    assert here.runner.outcome().short_of_users


def test_nothing_is_missing_where_the_others_take_the_share() -> None:
    here = Scene(100)
    here.deliver(hello(2, "other"))
    here.manager.allocate_users(4)
    here.then = lambda: here.deliver(Bye(2, "")) if 2 in here.manager.registry.workers else None
    here.end()
    assert [mark[1] for mark in users(here)] == ["stage", "end"]
    assert not here.runner.outcome().short_of_users


def test_the_load_ends_when_its_time_is_over_however_late_the_master_looks() -> None:
    here = Scene(10**6, Stage(0.12, 4))

    def then() -> None:
        here.now_ns += SECOND // 100
        if here.manager.stopping:
            here.stopped()

    here.then = then
    assert here.end() == ("complete", "")
    assert here.marks()[-1] == (0.12, "end", 0)
    assert here.runner.schedule.ended_ns == here.manager.start_ns + round(0.12 * SECOND)


def test_a_load_that_is_halted_ends_at_once() -> None:
    here = Scene(10**6, Stage(10.0, 4))

    def then() -> None:
        here.halt = ("interrupted", "interrupted by SIGINT")
        if here.manager.stopping:
            here.stopped()

    here.then = then
    here.end()
    assert here.marks()[-1] == (WAIT_S, "end", 0)


class Dues(Ledger):
    """Of an open loop: its operations are out before its time is."""

    @property
    def total(self) -> int | None:  # type: ignore[override]
        return None

    @total.setter
    def total(self, total: int) -> None:
        self.dues = total

    @property
    def finished(self) -> bool:
        return self.taken >= self.dues

    def take(self, first_number: int, limit: int, now_s: float) -> list[Job]:
        self.taken += (count := min(limit, self.dues - self.taken))
        return [Job(first_number + i, READ, 0, first_number + i, 0, 1) for i in range(count)]


def test_an_open_loop_that_is_done_early_ends_when_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(test_job_transport, "Ledger", Dues)
    here = Scene(20, Stage(3.0, 4))
    assert here.end() == ("complete", "")
    assert here.marks()[-1] == (3.0, "end", 0)
    assert here.now_ns < here.manager.start_ns + 3 * SECOND
