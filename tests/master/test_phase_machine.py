"""A phase from its announcement to its end, as scripts of messages and times."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from itertools import count, islice
from random import Random
from typing import Any

import pytest

from ssbench.core.arrivals import uniform
from ssbench.core.columns import JOB_SCHEMAS, JobLayout, pack_results
from ssbench.core.live import RunProgress
from ssbench.core.messages import Bye, Jobs, Ready, Results, decode, pack
from ssbench.core.model import SECOND_NS, Job, Phase, Stage
from ssbench.core.operations import READ
from ssbench.core.records import MarkRecord
from ssbench.core.stats.steady import SteadyStateDetector
from ssbench.core.workload.pacing import START_DELAY_NS, DueTimes
from ssbench.master.phase_machine import WAIT_S, PhaseMachine, PhaseOutcome, PhasePlan, PhaseState
from tests.core.workload.fleet import Ledger, packed, row
from tests.master import test_joining

RUN = "run1"
STILL = Stage(math.inf, 4)


class Scene(test_joining.Scene):
    """A phase, and a worker that does in each turn what it is sent."""

    def __init__(
        self,
        total: int = 100,
        *stages: Stage,
        phase: Phase = Phase.RUN,
        ledger: Ledger | None = None,
        steady_state: SteadyStateDetector | None = None,
        counts: bool = False,
        **limits: Any,
    ) -> None:
        limits = {"batch_size": 2, **limits}
        super().__init__(**limits)
        self.join(1, "w")
        self.ledger = ledger or Ledger(total)
        plan = PhasePlan(phase, self.ledger, 4, None, stages or [STILL], steady_state)
        self.workers.enter(phase)
        self.machine = PhaseMachine(plan, self.workers, count(1), counts=counts)
        self.records: list[Any] = []
        self.waits: list[float] = []
        self.states: list[tuple[bool, bool]] = []  # ending, stopping
        self.works = True
        self.error = 0
        self.then: Callable[[], object] = lambda: None
        self.stops_at_once = True

    def begin(self) -> None:
        """Announce the phase; the worker is ready."""
        self.machine.announce(self.now_ns, 1700000000.0)
        self.ready()

    def ready(self, *, stopped: bool = False, incarnation: int = 1) -> None:
        run, phase = self.workers.settings.run_id, self.workers.phase
        self.workers.receive_ready(Ready(incarnation, run, phase, stopped, 0))

    def turn(self) -> None:
        """What the master's loop does, in no time but that of the wait."""
        assert len(self.waits) < 10_000, "it never ends"
        machine = self.machine
        machine.step(self.now_ns)
        self.records += machine.records
        machine.records.clear()
        if machine.state is PhaseState.OVER:
            return
        wait_s = machine.wait_s(self.now_ns)
        self.waits.append(wait_s)
        self.now_ns += max(int(wait_s * SECOND_NS), 1)
        self.states.append((self.workers.ending, self.workers.stopping))
        if self.works:
            for number, jobs in self.sent():
                self.results(jobs, acked=[number])
        if self.workers.stopping and self.stops_at_once:
            self.ready(stopped=True)
        self.then()

    def sent(self) -> list[tuple[int, list[Job]]]:
        """Batches that the worker takes now."""
        found = []
        while self.machine.outbox:
            message = decode(self.machine.outbox.popleft())
            assert isinstance(message, Jobs)
            found.append((message.batch, JobLayout(JOB_SCHEMAS[0]).decode(message.packed)))
        return found

    def results(
        self, jobs: list[Job], acked: list[int] | None = None, data: bytes | None = None
    ) -> Any:
        """The worker completes these jobs."""
        status = 503 if self.error else 200
        data = packed(jobs, error=self.error, status=status) if data is None else data
        message = Results(1, RUN, self.workers.phase, acked or [], data)
        return self.machine.receive_results(message, self.now_ns)

    def end(self) -> tuple[str, str]:
        """All of it; returns how and why it ended."""
        self.begin()
        while self.machine.state is not PhaseState.OVER:
            self.turn()
        self.machine.close()
        outcome = self.machine.outcome()
        return outcome.ended, outcome.reason

    @property
    def outcome(self) -> PhaseOutcome:
        return self.machine.outcome()

    def marks(self) -> list[tuple[float, str, int]]:
        """Seconds, name and stage of each mark."""
        return [
            (record.at_ns / SECOND_NS, record.name, record.stage)
            for record in self.records
            if isinstance(record, MarkRecord)
        ]

    def users(self) -> list[tuple[float, str, int]]:
        """Seconds, name and users of each mark."""
        return [
            (round(record.at_ns / SECOND_NS, 1), record.name, record.users)
            for record in self.records
            if isinstance(record, MarkRecord)
        ]


# The end -----------------------------------------------------------------------------------


def test_it_ends_with_the_last_result() -> None:
    here = Scene(100)
    assert here.end() == ("complete", "")
    assert here.outcome.counts.done == 100
    assert here.outcome.seconds == pytest.approx(len(here.waits) * WAIT_S)
    assert here.marks() == [(0.0, "stage", 0), (here.outcome.seconds, "end", 0)]
    assert set(here.states) == {(False, False)}
    assert here.machine.dispatcher.next_number == 101
    assert "PhaseMachine OVER" in repr(here.machine)


def test_stages_follow_each_other_each_with_its_users() -> None:
    here = Scene(10**6, Stage(1.0, 2), Stage(1.0, 3), Stage(0.5, 3))
    seen: list[int] = []
    here.then = lambda: seen.append(here.workers.users)
    assert here.end() == ("complete", "")
    assert sorted(set(seen)) == [2, 3]
    assert [mark[1:] for mark in here.marks()] == [
        ("stage", 0), ("stage", 1), ("stage", 2), ("end", 2),
    ]  # fmt: skip
    assert [mark[0] for mark in here.marks()] == pytest.approx([0, 1, 2, 2.5], abs=0.01)


class Enough(SteadyStateDetector):
    """Steady when so many operations are done."""

    def __init__(self) -> None:
        super().__init__()
        self.began_ns = self.done = 0

    def begin(self, now_ns: int) -> None:
        self.began_ns = now_ns

    def add(self, now_ns: int, lasts_ns: Sequence[int], sizes: Sequence[int]) -> None:
        self.done += len(lasts_ns)

    def reason_to_end(self, now_ns: int) -> str:
        return "steady" if self.began_ns and self.done >= 20 else ""


def test_it_ends_when_the_rate_is_steady() -> None:
    assert Scene(10**6, steady_state=Enough()).end() == ("complete", "steady")


def test_a_worker_that_never_stops_is_named() -> None:
    here = Scene(10**6, Stage(0.1, 4), drain_timeout_s=2.0)
    here.stops_at_once = False
    assert here.end() == ("complete", "")
    assert here.outcome.counts.lost == 0
    name = here.workers.present[1].name
    text = f"Workers that did not stop within 2 s: {name}"
    assert here.machine.warnings == [text]


def test_where_all_workers_leave_before_it_begins_it_fails_at_once_with_the_last_reason() -> None:
    here = Scene(10**6, worker_wait_s=30.0)
    here.machine.announce(here.now_ns, 0.0)
    here.deliver(Bye(1, "no such driver"))
    here.machine.worker_left(1, "no such driver")
    assert here.end() == ("failed", "no worker could open the store: no such driver")
    assert here.outcome.seconds < 1


# Barriers ----------------------------------------------------------------------------------


class Gates(Ledger):
    """A workload that notes when each stage behind a barrier begins."""

    def __init__(self) -> None:
        super().__init__(10**6)
        self.begun: list[int] = []

    def begin_stage(self, index: int) -> None:
        self.begun.append(index)


class BarrierScene(Scene):
    """Two stages and a barrier between them. At the barrier the worker does what ``waits`` says, in
    each turn: False goes on to the next of them."""

    def __init__(self, *stages: Stage, **options: Any) -> None:
        self.gates = Gates()
        two = stages or (Stage(1.0, 4), Stage(1.0, 2, barrier=True))
        super().__init__(0, *two, ledger=self.gates, **options)
        self.stops_at_once = False
        self.at_barrier: list[tuple[bool, int]] = []  #: stopping, and users, in each turn of it
        self.then = self.wait_there

    def wait_there(self) -> None:
        workers = self.workers
        if self.machine.state is PhaseState.BARRIER:
            self.at_barrier.append((workers.stopping, workers.users))
            self.arrive_at_barrier()
        elif workers.stopping:
            self.ready(stopped=True)

    def arrive_at_barrier(self) -> None:
        self.ready(stopped=self.workers.stopping)


def test_a_stage_behind_a_barrier_begins_when_operations_have_ended_and_workers_are_ready() -> None:
    here = BarrierScene()
    turns: list[str] = []

    def arrive() -> None:
        dispatcher = here.machine.dispatcher
        turns.append("stopping" if here.workers.stopping else "resuming")
        here.works = len(turns) > 5  # until then operations are in flight
        if here.workers.stopping and len(turns) > 9:
            assert dispatcher.idle
            here.ready(stopped=True)
        elif turns.count("resuming") > 4:
            here.ready()

    here.arrive_at_barrier = arrive  # type: ignore[method-assign]
    inner = here.then

    def then() -> None:
        if here.now_ns > here.workers.start_ns + 0.9 * SECOND_NS and not turns:
            here.works = False
        inner()

    here.then = then
    assert here.end() == ("complete", "")
    assert (turns.count("stopping"), turns.count("resuming")) == (10, 5)
    waited_s = 15 * WAIT_S
    assert here.marks() == [
        (0.0, "stage", 0), (1.0, "pause", 0), (pytest.approx(1 + waited_s, abs=WAIT_S), "stage", 1),
        (pytest.approx(2 + waited_s, abs=WAIT_S), "end", 1),
    ]  # fmt: skip
    assert here.gates.begun == [1]
    assert {users for stopping, users in here.at_barrier if not stopping} == {2}
    assert here.outcome.counts.lost == 0


def test_an_operation_that_never_ends_holds_a_barrier_no_longer_than_the_drain_timeout() -> None:
    here = BarrierScene(drain_timeout_s=2.0)
    inner = here.then

    def then() -> None:
        since_s = (here.now_ns - here.workers.start_ns) / SECOND_NS
        here.works = since_s < 0.9 or here.machine.schedule.index == 1
        if not here.works:
            for number, _jobs in here.sent():
                here.machine.dispatcher.acked(1, [number], here.now_ns)
        inner()

    here.then = then
    assert here.end() == ("complete", "")
    names = [(round(at_s), name) for at_s, name, _stage in here.marks()]
    assert names == [(0, "stage"), (1, "pause"), (3, "stage"), (4, "end")]
    (warning,) = here.machine.warnings
    assert re.fullmatch(r"\d+ operations did not end within 2 s: counted as lost", warning)
    assert here.outcome.counts.lost > 0


def test_a_barrier_does_not_wait_for_a_worker_that_is_lost_there() -> None:
    here = BarrierScene()
    here.join(2, "other")

    def arrive() -> None:
        if len(here.at_barrier) == 5:
            here.deliver(Bye(2, "killed"))
            here.machine.worker_left(2)
        here.ready(stopped=here.workers.stopping)

    here.arrive_at_barrier = arrive  # type: ignore[method-assign]
    here.begin()
    here.ready(incarnation=2)
    while here.machine.state is not PhaseState.OVER:
        here.turn()
    assert [mark[1:] for mark in here.marks()] == [
        ("stage", 0), ("pause", 0), ("stage", 1), ("end", 1),
    ]  # fmt: skip
    stopping = [stopping for stopping, _users in here.at_barrier]
    assert stopping == [True] * 5 + [False]
    assert here.gates.begun == [1]


def test_without_any_worker_left_at_a_barrier_the_phase_fails() -> None:
    here = BarrierScene(worker_wait_s=3.0)

    def arrive() -> None:
        if here.workers.present:
            here.deliver(Bye(1, "killed"))
            here.machine.worker_left(1)

    here.arrive_at_barrier = arrive  # type: ignore[method-assign]
    assert here.end() == ("failed", "all workers are gone")
    assert here.gates.begun == []
    assert [mark[1:] for mark in here.marks()] == [("stage", 0), ("pause", 0), ("end", 0)]
    waited_s = (here.now_ns - here.workers.start_ns) / SECOND_NS - 1
    assert waited_s == pytest.approx(3, abs=2 * WAIT_S)


def test_an_interrupt_at_a_barrier_ends_the_phase() -> None:
    here = BarrierScene()
    here.arrive_at_barrier = lambda: here.machine.abort(  # type: ignore[method-assign]
        "interrupted", "SIGINT"
    )
    assert here.end() == ("interrupted", "SIGINT")
    assert here.gates.begun == []
    assert here.marks()[-1] == (1.0, "end", 0), "when the load ended, not the wait"


def test_a_ramp_behind_a_barrier_changes_the_users_step_by_step() -> None:
    here = BarrierScene(Stage(0.5, 2), Stage(3.0, 1, users_to=3, barrier=True))
    assert here.end() == ("complete", "")
    begin_s = next(at_s for at_s, _name, stage in here.marks() if stage == 1)
    users = [
        (round(at_s - begin_s, 1), users) for at_s, name, users in here.users() if name != "pause"
    ]
    assert users[1] == (0.0, 1)
    assert [each for _at_s, each in users[1:-1]] == [1, 2, 3]
    assert [at_s for at_s, _users in users[2:4]] == pytest.approx([1, 2], abs=0.3)


# Marks -------------------------------------------------------------------------------------


class Dues(Ledger):
    """An open loop whose operations are sent before its time is over."""

    def __init__(self, planned: int) -> None:
        super().__init__(planned)
        self.total, self.planned = None, planned  # type: ignore[assignment]

    @property
    def finished(self) -> bool:
        return self.taken >= self.planned

    def take(self, first_number: int, limit: int, now_s: float, group: int = 0) -> list[Job]:
        self.taken += (count := min(limit, self.planned - self.taken))
        return [Job(first_number + i, READ, 0, first_number + i, 0, 1) for i in range(count)]


def impossible(jobs: list[Job]) -> bytes:
    return pack(pack_results([row(job)._replace(size_class=-1) for job in jobs]))


@pytest.mark.parametrize(
    "data", [lambda jobs: b"\xc1", impossible], ids=["malformed", "impossible"]
)
def test_impossible_results_are_rejected_with_one_warning_per_worker(
    data: Callable[[list[Job]], bytes],
) -> None:
    here = Scene(8)
    here.works = False
    here.begin()
    here.turn()
    for number, jobs in here.sent():
        assert here.results(jobs, [number], data(jobs)) is None
    assert here.machine.dispatcher.counts.rejected > 1
    (warning,) = here.machine.warnings
    assert warning.startswith("Worker w (host, pid 1) reported results that are rejected (")


def test_users_that_no_worker_can_run_are_marked_as_missing() -> None:
    here = Scene(100, Stage(math.inf, 64))
    assert here.end() == ("complete", "")
    assert here.users()[:2] == [(0.0, "stage", 64), (0.0, "users", 4)]
    assert here.outcome.short_of_users


def test_an_open_loop_that_is_done_early_ends_when_its_time_is_over() -> None:
    here = Scene(0, Stage(3.0, 4), ledger=Dues(20))
    assert here.end() == ("complete", "")
    assert here.marks()[-1] == (3.0, "end", 0)
    assert here.now_ns < here.workers.start_ns + 3 * SECOND_NS


@pytest.mark.parametrize("abort_s", [None, 1.95])
def test_an_open_loop_by_count_ends_when_the_next_operation_would_fall_due(
    abort_s: float | None,
) -> None:
    here = Scene(100, Stage(math.inf, 4, 50.0))
    dues = [islice(uniform(50.0, Random()), 100) for _ in range(2)]
    here.ledger.dues = DueTimes(dues[0], 50.0, again=dues[1])
    here.works = False

    def then() -> None:
        since_s = (here.now_ns - here.workers.start_ns) / SECOND_NS
        if abort_s and since_s >= abort_s:
            here.machine.abort("interrupted", "SIGINT")
        here.works = since_s > 4  # nothing is completed within the load

    here.then = then
    here.end()
    ends_s = [at_s for at_s, name, _stage in here.marks() if name == "end"]
    assert min(ends_s) == pytest.approx(abort_s or START_DELAY_NS / SECOND_NS + 2, abs=0.01)


# Progress ----------------------------------------------------------------------------------


def test_workers_are_shown_with_their_states() -> None:
    here = Scene(counts=True)

    def states() -> list[tuple[str, str]]:
        seen = here.machine.progress(here.now_ns).workers_seen
        return [(each.name.split()[0], each.state) for each in seen]

    here.machine.announce(here.now_ns, 1700000000.0)
    (name,) = [worker.hello.worker_id for worker in here.workers.present.values()]
    assert states() == [(name, "connecting")]
    here.ready()
    here.machine.step(here.now_ns)
    assert states() == [(name, "running")]
    here.now_ns += 4 * SECOND_NS
    assert states() == [(name, "silent")]
    here.ready(stopped=True)
    here.deliver(Bye(1, ""))
    assert states() == [(name, "gone")]


def test_progress_of_an_open_loop_has_its_target_and_late_operations() -> None:
    here = Scene(10**6, Stage(5, 4, 100.0))
    seen: list[RunProgress] = []
    here.ledger.dues = DueTimes(uniform(100.0, Random()), 100.0)  # no job uses any
    here.then = lambda: seen.append(here.machine.progress(here.now_ns))
    here.end()
    assert {progress.target_rate for progress in seen} == {100}
    began_s = START_DELAY_NS / SECOND_NS
    assert seen[10].late == pytest.approx((11 * WAIT_S - began_s) * 100, abs=1)
    assert seen[-1].late == 500, "now it is known"
