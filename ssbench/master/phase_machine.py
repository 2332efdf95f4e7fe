"""One phase, as the master runs it: a state machine without sockets, loop or clock.

It is fed with messages and times. It answers with messages to send (``outbox``), records to write
(``records``) and warnings (``warnings``), which the caller takes. Which job is sent next, and what
became of it, is core.dispatch's decision::

                 all workers ready, or too late            time over, aborted, steady
    CONNECTING ─────────────────────────────────▶ SENDING ───────────────────────────▶ DRAINING
                          a stage is over that     │ ▲  │ all jobs are done               │
                          a barrier follows        │ │  └────────▶ OVER ◀─────────────────┘
                                                   ▼ │     all workers stopped, or too late
                                                  BARRIER: all workers stopped, then all ready

Times are nanoseconds of the master's monotonic clock.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from ssbench.core.dispatch.dispatcher import (
    CLOSED_NS,
    MAX_BATCH,
    Dispatcher,
    JobCounts,
    abort_reason,
)
from ssbench.core.dispatch.result_bounds import ResultBounds
from ssbench.core.dispatch.workers import MAX_NAMES, SILENT_NS, Workers
from ssbench.core.live import ProgressTracker, RunProgress, WorkerProgress
from ssbench.core.messages import Ack, Heartbeat, Jobs, Results, Returned, encode, pack
from ssbench.core.model import SECOND_NS, Phase, Stage
from ssbench.core.records import MarkRecord, PhaseRecord, Record
from ssbench.core.text import first_of, plural
from ssbench.core.workload.pacing import LOOKAHEAD_NS, START_DELAY_NS, Backlog, StageSchedule
from ssbench.core.workload.workload import Workload

if TYPE_CHECKING:
    from ssbench.core.stats.steady import SteadyStateDetector, ThresholdWatch

WAIT_S = 0.05  #: between two steps, at most
_SENDS_PER_STEP = 64
_MAX_NAMED = 5  #: workers in a warning
_RAMP_NS = SECOND_NS // 4  #: between two changes of the number of users on a ramp
_OVER = ("complete", "")  #: the time is over
#: Beyond the connect timeout, until the phase begins without workers that are not ready.
_READY_MARGIN_S = 5


class PhasePlan(Struct, frozen=True):
    """What a phase is to do.

    :param seconds: stop sending after so long; None: when the workload is finished.
    :param stages: parts with users and rates of their own; () for one part.
    :param steady_state: ends the phase when its rate has been steady for long enough.
    :param watch: ends the phase when it misses a threshold.
    :param think_s: pause of a user after each operation: the shortest and the longest.
    """

    phase: Phase
    workload: Workload
    users: int
    seconds: float | None = None
    stages: Sequence[Stage] = ()
    steady_state: SteadyStateDetector | None = None
    watch: ThresholdWatch | None = None
    think_s: tuple[float, float] = (0.0, 0.0)


class PhaseOutcome(Struct, frozen=True):
    """How a phase went."""

    counts: JobCounts
    seconds: float
    ended: str  #: "complete", "interrupted", "failed", "exhausted": RunFooter's words
    reason: str = ""
    example: str = ""  #: detail of an error, where there were any
    never_started: int = 0  #: operations of an open loop that fell due before it was stopped
    short_of_users: bool = False  #: at some time fewer ran than were asked for

    @classmethod
    def nothing(cls, ended: str, reason: str) -> PhaseOutcome:
        """A phase that never began."""
        return cls(JobCounts(), 0.0, ended, reason)


class PhaseState(Enum):
    """See the module's docstring."""

    CONNECTING = auto()
    SENDING = auto()
    BARRIER = auto()
    DRAINING = auto()
    OVER = auto()


class PhaseMachine:
    """See the module's docstring. The workers are in the phase already.

    :param batch_numbers: as of ``Dispatcher``.
    :param next_number: of the next job.
    :param counts: count results by operation and cause, for observers.
    """

    def __init__(
        self,
        plan: PhasePlan,
        workers: Workers,
        batch_numbers: Iterator[int],
        *,
        next_number: int = 1,
        counts: bool = False,
    ) -> None:
        self.state = PhaseState.CONNECTING
        self.outbox: deque[bytes] = deque()  #: messages with jobs that no worker took yet
        self.records: list[Record] = []
        self.warnings: list[str] = []
        settings = workers.settings
        self.dispatcher = Dispatcher(
            plan.workload, workers, batch_numbers, workers.limits.batch_size or MAX_BATCH,
            ResultBounds(settings.sizes, settings.url_count), next_number=next_number,
        )  # fmt: skip
        one_stage = Stage(math.inf if plan.seconds is None else plan.seconds, plan.users)
        self.schedule = StageSchedule(plan.stages or [one_stage])
        self._plan = plan
        self._workers = workers
        self._counts = counts or plan.watch is not None
        self._tracker = ProgressTracker(
            plan.workload.total, plan.seconds, moves_bytes=settings.driver != "noop",
            # Only there each group of users is of one identity.
            identities=len(settings.store.get("identities", ())) * (plan.phase is Phase.RUN),
        )  # fmt: skip
        self._connect_until_ns = self._drain_until_ns = self._started_ns = 0
        self._abort: tuple[str, str] | None = None
        self._ending = ("complete", "")
        self._duration_s = 0.0
        self._end_marked = False
        self._backlog, self._missed = Backlog(), False
        self._load_begin_ns = self._done_before = 0  # of the load since the last barrier
        self._never_before = 0  # started, of those that fell due before the last barrier
        self._next_ramp_ns = 0
        self._users = 0  # that ran, by the last mark
        self._short_of_users = False
        self._moving: dict[int, Mapping[int, int]] = {}  # incarnation -> as in its heartbeat
        self._seen: dict[str, None] = {}  # names of workers, for observers
        self._warned: set[int] = set()  # workers whose results were impossible

    def __repr__(self) -> str:
        return f"<PhaseMachine {self.state.name} {self.schedule} {self.dispatcher}>"

    @property
    def waiting_for(self) -> str:
        """What the phase waits for before it begins, or before it is over; "" in between."""
        if self.state is PhaseState.CONNECTING:
            ready, workers = self._workers.ready_count()
            return f"Waiting for workers to connect to the store: {ready} of {workers}"
        if self.state is PhaseState.DRAINING:
            held, timeout_s = self.dispatcher.held, self._workers.limits.drain_timeout_s
            work = f"{plural(held, 'operation')} in flight" if held else "workers to stop"
            return f"Waiting for {work} (at most {timeout_s:g} s)"
        return ""

    def announce(self, now_ns: int, wall_s: float) -> None:
        """Begin: workers connect to the store. ``wall_s``: seconds since 1970."""
        users = self.schedule.stage.users or self._plan.users
        self._workers.allocate_users(users)
        self._workers.start_ns = now_ns
        self.records.append(PhaseRecord(self._plan.phase, wall_s, users))
        self._connect_until_ns = now_ns + self._ready_ns

    def abort(self, ended: str, reason: str) -> None:
        """Stop at the next step; ``ended`` is "interrupted" or "failed"."""
        self._abort = ended, reason

    def step(self, now_ns: int) -> None:
        """Time has passed: change the state, and fill ``outbox``. Call it after ``wait_s``."""
        if self.state is PhaseState.CONNECTING and self._is_connected(now_ns):
            self._start(now_ns)
        if self.state is PhaseState.BARRIER:
            self._wait_at_barrier(now_ns)
        if self.state is PhaseState.SENDING:
            if not self.dispatcher.finished:
                self._advance(now_ns)
            elif self.schedule.behind_barrier is not None and not self._abort:
                self._pause(self._finished_ns(now_ns), now_ns)
            else:
                if not self._end_marked:
                    self._mark_end(self._finished_ns(now_ns))
                self._end(now_ns)
        elif self.state is PhaseState.DRAINING:
            self._drain(now_ns)
        if self.state is PhaseState.SENDING and not self.outbox:
            run, phase = self._workers.settings.run_id, self._plan.phase
            for batch in self.dispatcher.to_send(now_ns, _SENDS_PER_STEP):
                message = Jobs(run, phase, batch.number, now_ns, pack(batch.jobs))
                self.outbox.append(encode(message))

    def wait_s(self, now_ns: int) -> float:
        """How long until the next step, at most."""
        if self.state is not PhaseState.SENDING:
            return WAIT_S
        longest_ns = CLOSED_NS if self._workers.closed_socket else int(WAIT_S * SECOND_NS)
        next_ns = self.schedule.next_ns
        return (longest_ns if next_ns is None else min(longest_ns, next_ns - now_ns)) / SECOND_NS

    def tick(self, now_ns: int) -> None:
        """To be called some times a second: recalls jobs, and gives up lost messages."""
        if self.state is not PhaseState.CONNECTING:
            self.dispatcher.tick(now_ns)

    def _is_connected(self, now_ns: int) -> bool:
        workers = self._workers
        if self._abort or now_ns >= self._connect_until_ns:
            return True
        return workers.ready() if workers.load_workers else workers.no_workers_left(now_ns)

    def _start(self, now_ns: int) -> None:
        self._started_ns = now_ns + (START_DELAY_NS if self._plan.workload.dues else 0)
        self._workers.expect_workers(self._started_ns)
        self.dispatcher.bounds.begin(self._workers.start_ns)
        if self._plan.steady_state:
            self._plan.steady_state.begin(self._started_ns)
        if self._plan.watch:
            self._plan.watch.begin(self._started_ns)
        self._begin_load(0, self._started_ns)

    def _begin_load(self, stage: int, begin_ns: int) -> None:
        """Send the jobs of a stage, the first or one behind a barrier."""
        self.state = PhaseState.SENDING
        dues, counts = self._plan.workload.dues, self.dispatcher.counts
        self.schedule.begin(begin_ns, stage)
        if dues:
            dues.begin(begin_ns / SECOND_NS, begin_ns - self._workers.start_ns)
        self._load_begin_ns, self._backlog = begin_ns, Backlog()
        self._done_before = counts.completed + counts.lost
        self._mark("stage", self.schedule.began_ns)

    def _pause(self, end_ns: int, now_ns: int) -> None:
        """A stage is over before a barrier: send nothing until all of its operations ended."""
        schedule, workload = self.schedule, self._plan.workload
        if workload.exhausted:
            name = self._plan.stages[schedule.index].name or schedule.index + 1
            self.warnings.append(f"Stage {name}: {workload.exhausted}")
        schedule.ended_ns = end_ns
        self._never_before = self._never_started()
        self._mark("pause", end_ns)
        self.state = PhaseState.BARRIER
        self.dispatcher.stop()
        self._drain_until_ns = now_ns + int(self._workers.limits.drain_timeout_s * SECOND_NS)

    def _wait_at_barrier(self, now_ns: int) -> None:
        """Begin the next stage once all operations have ended and workers are ready for it."""
        workers, dispatcher = self._workers, self.dispatcher
        ending = self._abort or self._why_failed(now_ns)
        if ending is not None:
            self._stop(ending, now_ns)
            return
        if not workers.load_workers:
            return  # the stage would pass without operations, unless a worker joins
        schedule = self.schedule
        if not workers.stopping:  # the stage has been chosen
            if workers.ready() or now_ns >= self._connect_until_ns:
                delay_ns = START_DELAY_NS if self._plan.workload.dues else 0
                self._begin_load(schedule.index, max(now_ns + delay_ns, schedule.ended_ns))
            return
        late = now_ns > self._drain_until_ns
        if late:
            self._warn_of_slow_end()
            dispatcher.close()
        if late or (dispatcher.idle and workers.ready(stopped=True)):
            stage = schedule.behind_barrier or 0
            self._plan.workload.begin_stage(stage)
            schedule.begin(now_ns, stage)
            self._allocate(now_ns)
            dispatcher.resume()
            self._connect_until_ns = now_ns + self._ready_ns

    @property
    def _ready_ns(self) -> int:
        """How long to wait for workers that connect."""
        return int((self._workers.settings.connect_timeout_s + _READY_MARGIN_S) * SECOND_NS)

    def _allocate(self, now_ns: int) -> None:
        """Give the workers the users that the current stage is to have now."""
        workers = self._workers
        users, groups = self.schedule.users_at(now_ns), self.schedule.groups_at(
            now_ns, len(workers.groups)
        )  # fmt: skip
        if users is not None and (users != workers.users or (groups and groups != workers.groups)):
            workers.groups = groups or workers.groups
            workers.allocate_users(users)

    def _advance(self, now_ns: int) -> None:
        """Go on to the next stage, or stop, when it is time."""
        while self.schedule.advance(now_ns):  # on a busy host it may be time for several
            self._allocate(self.schedule.began_ns)
            self._mark("stage", self.schedule.began_ns)
        if now_ns >= self._next_ramp_ns:
            self._next_ramp_ns = now_ns + _RAMP_NS
            if self.schedule.stage.is_ramp_of_users:
                self._allocate(now_ns)
        ending = self._abort or self._why_stop(now_ns)
        end_ns = self.schedule.end_ns
        if ending == _OVER and end_ns is not None and self.schedule.behind_barrier is not None:
            self._pause(end_ns, now_ns)
        elif ending is not None:
            self._stop(ending, now_ns)
        else:
            self._count_users(now_ns)
            end_ns = None if self._end_marked else self._due_until_ns(now_ns)
            if end_ns is not None:  # ahead: before the results that cross it
                self._mark_end(end_ns)

    def _stop(self, ending: tuple[str, str], now_ns: int) -> None:
        """Send nothing more: workers return what they have not started."""
        paused, self.state = self.state is PhaseState.BARRIER, PhaseState.DRAINING
        self._ending = ending
        if paused:
            self._mark("end", self.schedule.ended_ns)
        elif not self._end_marked or now_ns < self.schedule.ended_ns:
            self._mark_end(now_ns)
        self.dispatcher.stop()
        self.outbox.clear()
        self._drain_until_ns = now_ns + int(self._workers.limits.drain_timeout_s * SECOND_NS)

    def _drain(self, now_ns: int) -> None:
        if self.dispatcher.finished and self._workers.ready(stopped=True):
            self._end(now_ns)
        elif now_ns > self._drain_until_ns:
            self._warn_of_slow_end()
            self._end(now_ns)

    def _warn_of_slow_end(self) -> None:
        held, within = self.dispatcher.held, f"within {self._workers.limits.drain_timeout_s:g} s"
        if held:
            self.warnings.append(
                f"{plural(held, 'operation')} did not end {within}: counted as lost"
            )
            return
        stopped = self._workers.settings.run_id, self._plan.phase, True
        workers = self._workers.present.values()
        names = [w.name for w in workers if w.users and w.ready != stopped]
        self.warnings.append(f"Workers that did not stop {within}: {first_of(names, _MAX_NAMED)}")

    def _end(self, now_ns: int) -> None:
        self.state = PhaseState.OVER
        self._duration_s = max(now_ns - self._started_ns, 0) / SECOND_NS

    def close(self) -> None:
        """Wait for nothing more: jobs that workers hold are lost."""
        self.dispatcher.close()
        doubtful = self.dispatcher.counts.doubtful
        if doubtful:
            self.warnings.append(
                f"Up to {plural(doubtful, 'operation')} may have run in addition to those counted:"
                " no worker acknowledged them, so they were sent again or withdrawn, but one that"
                " was stopped or cut off may have started some"
            )

    def outcome(self) -> PhaseOutcome:
        """How the phase went; after ``close``."""
        dispatcher, workload = self.dispatcher, self._plan.workload
        ended, reason = self._ending
        if ended == "complete" and workload.exhausted:
            ended, reason = "exhausted", workload.exhausted
        never = self._never_started()
        return PhaseOutcome(
            dispatcher.counts, self._duration_s, ended, reason, dispatcher.first_error, never,
            self._short_of_users,
        )  # fmt: skip

    def _why_stop(self, now_ns: int) -> tuple[str, str] | None:
        plan = self._plan
        end_ns = self.schedule.end_ns
        if end_ns is not None and now_ns >= end_ns:
            return _OVER
        if plan.steady_state:
            steady = plan.steady_state.reason_to_end(now_ns)
            if steady:
                return "complete", steady
        if plan.watch:
            missed = plan.watch.reason_to_end(now_ns, self._tracker)
            if missed:
                return "complete", missed
        return self._why_failed(now_ns)

    def _why_failed(self, now_ns: int) -> tuple[str, str] | None:
        workers, dispatcher, plan = self._workers, self.dispatcher, self._plan
        if workers.no_workers_left(now_ns):
            return "failed", "all workers are gone"
        if plan.phase is Phase.RUN:
            most = workers.limits.max_consecutive_errors
            if most is None or dispatcher.most_failures_in_a_row < most:
                return None
            what = "an operation" if most == 1 else f"{most} operations in a row"
            error = dispatcher.first_error
            return "failed", f"stopped at the error limit: {what} failed: {error}"
        timeout_s = workers.settings.network_timeout_s
        reason = abort_reason(plan.phase, dispatcher, workers.start_ns, now_ns, timeout_s)
        return ("failed", reason) if reason else None

    def receive(self, message: Ack | Returned, now_ns: int) -> None:
        """A worker has batches, or returns jobs that it has not started."""
        if message.run != self._workers.settings.run_id:
            return
        if isinstance(message, Ack):
            self.dispatcher.acked(message.incarnation, message.batches, now_ns)
        else:
            self.dispatcher.returned(message.incarnation, message.numbers)

    def receive_results(self, results: Results, now_ns: int) -> Sequence[Any] | None:
        """Returns the columns of results; None if they are rejected, and must not be recorded: they
        are of another phase, one of the jobs is not the worker's, or they are impossible."""
        here, dispatcher = (self._workers.settings.run_id, self._plan.phase), self.dispatcher
        if (results.run, results.phase) != here:
            dispatcher.counts.rejected += 1
            return None
        if results.acked:
            dispatcher.acked(results.incarnation, results.acked, now_ns)
        columns = dispatcher.results(results.incarnation, results.packed, now_ns, results.schema)
        if columns is None:
            if dispatcher.rejection:
                self._warn_of_results(results.incarnation, dispatcher.rejection)
            return None
        if self._counts:
            self._tracker.add_results(columns)
            if self._plan.watch:
                self._plan.watch.add_results(columns)
        if self._plan.steady_state:
            self._plan.steady_state.add_results(now_ns, columns)
        return columns

    def _warn_of_results(self, incarnation: int, reason: str) -> None:
        worker = self._workers.present[incarnation]
        if worker.index not in self._warned:
            self._warned.add(worker.index)
            self.warnings.append(
                f"Worker {worker.name} reported results that are rejected ({reason}): the"
                " operations in such messages count as lost"
            )

    def receive_heartbeat(self, heartbeat: Heartbeat) -> None:
        """A worker reports its uploads that take long."""
        self._moving[heartbeat.incarnation] = heartbeat.moving

    def worker_left(self, incarnation: int, reason: str = "") -> int:
        """A worker left or was dropped; returns how many operations are lost with it.

        :param reason: why it left by itself. If all do so before the phase begins, others would
            hardly fare better, so none are waited for.
        """
        connecting = self.state is PhaseState.CONNECTING
        if reason and connecting and not self._workers.load_workers:
            self.abort("failed", f"no worker could open the store: {reason}")
        self._moving.pop(incarnation, None)
        return self.dispatcher.worker_lost(incarnation)

    def _mark(self, name: str, at_ns: int) -> None:
        users = self.schedule.stage.users or self._workers.users
        self._note(at_ns, name, users)
        if name == "stage":
            self._users = users
            self._count_users(at_ns)

    def _mark_end(self, now_ns: int) -> None:
        """The load ended when its time was over, however late this step is."""
        self._end_marked = True
        end_ns = self.schedule.end_ns
        self.schedule.ended_ns = now_ns if end_ns is None else min(now_ns, end_ns)
        self._mark("end", self.schedule.ended_ns)

    def _count_users(self, at_ns: int) -> None:
        """Mark that from now on more, or fewer, users run than at the last mark."""
        workers = self._workers
        if workers.assigned_users != self._users:
            self._users = workers.assigned_users
            self._note(at_ns, "users", workers.assigned_users, workers.users)
        self._short_of_users = self._short_of_users or workers.assigned_users < workers.users

    def _note(self, at_ns: int, name: str, users: int, asked: int | None = None) -> None:
        if self._plan.phase is Phase.RUN:
            schedule, offset_ns = self.schedule, at_ns - self._workers.start_ns
            mark = MarkRecord(offset_ns, name, schedule.index, users, schedule.stage.rate, asked)
            self.records.append(mark)

    def _finished_ns(self, now_ns: int) -> int:
        """When a load ended whose results have all arrived: now, or, if no more operations of an
        open loop fall due, when its time is over."""
        workload, end_ns = self._plan.workload, self.schedule.end_ns
        until_ns = self._due_until_ns(now_ns)
        if until_ns is not None and not workload.exhausted:
            return until_ns
        if end_ns is None or workload.exhausted or workload.taken == workload.total:
            return now_ns
        return end_ns

    def _due_until_ns(self, now_ns: int) -> int | None:
        """When the load of an open loop ends with its number of operations: when the next one
        would fall due. None until that is known, and in a closed loop."""
        workload, rate = self._plan.workload, self.schedule.stage.rate
        if workload.dues is None or workload.total is None or not rate:
            return None
        last_s = workload.dues.last_s((now_ns + LOOKAHEAD_NS) / SECOND_NS)
        return None if last_s is None else round((last_s + 1 / rate) * SECOND_NS)

    def progress(self, now_ns: int) -> RunProgress:
        """The state of the phase, for observers."""
        counts, workers = self.dispatcher.counts, self._workers
        progress = self._tracker.progress(
            self._elapsed_s(now_ns),
            counts.completed,
            counts.failed,
            workers.load_workers,
            workers.assigned_users,
        )
        stage = self.schedule.stage
        rate = stage.rate and stage.rate_at((now_ns - self.schedule.began_ns) / SECOND_NS)
        return replace(
            progress,
            moving={
                number: sent for each in self._moving.values() for number, sent in each.items()
            },
            workers_seen=self._workers_seen(now_ns) if self._counts else (),
            target_rate=rate,
            late=self._late(now_ns) if rate else 0,
            rate_missed=bool(rate) and self._rate_missed(now_ns),
        )

    def _rate_missed(self, now_ns: int) -> bool:
        """Whether more falls due than completes, as far as the display needs to know."""
        workload, counts = self._plan.workload, self.dispatcher.counts
        if self.state is not PhaseState.SENDING or self._end_marked:
            return self._missed
        due = self.schedule.due_between(self._load_begin_ns, now_ns)
        done = counts.completed + counts.lost - self._done_before
        if workload.total is not None:
            due = min(due, workload.total)
        self._missed = self._backlog.grows(
            max(now_ns - self._load_begin_ns, 0) / SECOND_NS, due, done
        )
        return self._missed

    def _workers_seen(self, now_ns: int) -> list[WorkerProgress]:
        here = self._workers.settings.run_id, self._plan.phase
        found = []
        for worker in self._workers.present.values():
            if worker.metrics_only:
                state = "metrics only"
            elif now_ns - worker.fresh_ns > SILENT_NS:
                state = "silent"
            elif worker.ready[:2] != here:
                state = "connecting"
            elif worker.ready[2]:
                state = "stopped"
            else:
                state = "running" if worker.users else "spare"
            found.append(
                WorkerProgress(worker.name, state, worker.users, worker.jobs, worker.cpu_percent)
            )
        names = {each.name: None for each in found}
        if len(self._seen) < MAX_NAMES:
            self._seen.update(names)
        gone = [name for name in self._seen if name not in names]
        return found + [WorkerProgress(name, "gone", 0, 0, None) for name in gone]

    def _elapsed_s(self, now_ns: int) -> float:
        """Since the load began, as in the outcome; 0 while workers connect."""
        return max(now_ns - self._started_ns, 0) / SECOND_NS if self._started_ns else 0.0

    def _late(self, now_ns: int) -> int:
        """Operations that are due and not started: an estimate; once the load ended, those of
        ``_never_started``.
        """
        dispatcher, workload = self.dispatcher, self._plan.workload
        if self._workers.stopping:
            return self._never_started()
        since_s = workload.dues.waiting_since(now_ns / SECOND_NS) if workload.dues else None
        if since_s is None:
            return 0
        waiting = int(self.schedule.due_between(round(since_s * SECOND_NS), now_ns))
        if workload.total is not None:
            waiting = min(waiting, workload.total - workload.taken)
        # All jobs that workers hold were due before that; those above the number of users wait.
        return waiting + max(dispatcher.in_flight - self._workers.assigned_users, 0)

    def _never_started(self) -> int:
        """Operations of an open loop that fell due before the load's end and were not started: an
        estimate if they are more than pacing.MAX_COUNTED.
        """
        workload, counts = self._plan.workload, self.dispatcher.counts
        if workload.dues is None or self.state is PhaseState.BARRIER:
            return self._never_before
        never = workload.dues.never_started(self.schedule.ended_ns / SECOND_NS)
        never += self._never_before
        if workload.total is None:
            return never
        return min(never, workload.total - (counts.sent - counts.withdrawn))
