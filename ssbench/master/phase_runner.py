"""A shift: the course of one phase, from stage to stage, until it is over and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ssbench.core.dispatch.dispatcher import abort_reason, error_limit_reason
from ssbench.core.dispatch.worker_registry import SECOND
from ssbench.core.live import ProgressTracker, RunProgress
from ssbench.core.messages import Heartbeat
from ssbench.core.model import Phase
from ssbench.core.records import MarkRecord
from ssbench.core.stats.auto_stop import SteadyStateDetector
from ssbench.core.workload.pacing import START_DELAY_NS, StageSchedule
from ssbench.core.workload.workload import Workload
from ssbench.master.job_transport import JobTransport
from ssbench.master.phases import Limits, PhaseOutcome
from ssbench.master.safe_recorder import SafeRecorder
from ssbench.master.worker_manager import WorkerManager

WAIT_S = 0.05  #: at most, for whatever may arrive

#: How, and why, a phase ends: as PhaseOutcome has it.
Ending = tuple[str, str]


@dataclass(frozen=True, slots=True)
class PhaseServices:
    """What every shift has from its master.

    :param turn: once round the master's loop, with a wait of so many seconds at most.
    :param why_halt: what ends a phase for reasons of the whole run; None where it goes on.
    :param warn: called with what the user must know.
    """

    manager: WorkerManager
    recorder: SafeRecorder
    limits: Limits
    clock: Callable[[], int]
    poll: Callable[[float], None]
    abort_reason: Callable[[], Ending | None]
    warn: Callable[[str], None]
    wants_counts: bool = False  #: some observer does


class PhaseRunner:
    """One phase of the crew's.

    :param exchange: of the workload's jobs; it is closed by whoever made it.
    :param course: its stages.
    :param seconds: how long it takes, where that is known.
    :param settling: says when the rate has been steady for long enough to end it.
    """

    def __init__(
        self,
        services: PhaseServices,
        job_transport: JobTransport,
        workload: Workload,
        schedule: StageSchedule,
        *,
        seconds: float | None = None,
        steady_state: SteadyStateDetector | None = None,
    ) -> None:
        self.job_transport = job_transport
        self.schedule = schedule
        self._services = services
        self._manager = services.manager
        self._clock = services.clock
        self._workload = workload
        self._steady_state = steady_state
        self._dispatcher = job_transport.dispatcher
        self._tracker = ProgressTracker(workload.total, seconds)
        if services.wants_counts:
            job_transport.tracker = self._tracker
        self._drain_until_ns = 0
        self._ending: Ending = ("complete", "")
        self._duration_s = 0.0
        self._users = 0  # that run, as noted last
        self._short_of_users = False

    def __repr__(self) -> str:
        return f"<PhaseRunner {self.schedule} {self._dispatcher}>"

    # Its course ---------------------------------------------------------------------------

    def run(self) -> None:
        """Begin now, and go on until the last result is in or it was stopped."""
        manager, workload = self._manager, self._workload
        started_ns = self._clock() + (START_DELAY_NS if workload.ahead else 0)
        manager.expect(started_ns)
        self._dispatcher.bounds.begin(manager.start_ns)
        self.schedule.begin(started_ns)
        if self._steady_state:
            self._steady_state.begin(started_ns)
        workload.begin(started_ns / SECOND, started_ns - manager.start_ns)
        self._mark("stage", self.schedule.began_ns)
        self._send_and_poll()
        self._duration_s = max(self._clock() - started_ns, 0) / SECOND

    def outcome(self) -> PhaseOutcome:
        """How it went, once the exchange is closed."""
        dispatcher, workload = self._dispatcher, self._workload
        ended, reason = self._ending
        if ended == "complete" and workload.exhausted:
            ended, reason = "exhausted", workload.exhausted
        never = workload.never_started(self.schedule.ended_ns / SECOND)
        return PhaseOutcome(
            dispatcher.counts, self._duration_s, ended, reason, dispatcher.first_error, never,
            self._short_of_users,
        )  # fmt: skip

    def _send_and_poll(self) -> None:
        dispatcher, schedule = self._dispatcher, self.schedule
        while not self._finished():
            now_ns = self._clock()
            if not dispatcher.stopping:
                self._advance(now_ns)
            elif now_ns > self._drain_until_ns:
                self._services.warn(
                    f"{dispatcher.held} operations did not end within"
                    f" {self._services.limits.drain_timeout_s:g} s; they count as lost"
                )
                break
            self.job_transport.send(now_ns)
            next_ns = None if dispatcher.stopping else schedule.next_ns
            left_ns = SECOND if next_ns is None else next_ns - now_ns
            self._services.poll(min(WAIT_S, left_ns / SECOND))
        if not dispatcher.stopping:
            self._mark_end(self._finished_ns())

    def _finished(self) -> bool:
        dispatcher = self._dispatcher
        if not dispatcher.finished:
            return False
        return not dispatcher.stopping or self._manager.ready(stopped=True)

    def _advance(self, now_ns: int) -> None:
        """Go on to the next stage, or stop, where it is time."""
        ending = self._services.abort_reason() or self._why_stop(now_ns)
        if ending is not None:
            self._stop(ending, now_ns)
        elif self.schedule.advance(now_ns):
            users = self.schedule.stage.users
            if users is not None and users != self._manager.registry.users:
                self._manager.allocate_users(users)
            self._mark("stage", self.schedule.began_ns)
        else:
            self._count_users(now_ns)

    def _stop(self, ending: Ending, now_ns: int) -> None:
        self._ending = ending
        self._mark_end(self._clock())
        self._dispatcher.stop()
        self.job_transport.drop_unsent()
        self._manager.state_changed = True
        self._drain_until_ns = now_ns + int(self._services.limits.drain_timeout_s * SECOND)

    def _mark_end(self, now_ns: int) -> None:
        """The load ended: when its time was over, however late we come to look."""
        end_ns = self.schedule.end_ns
        self.schedule.ended_ns = now_ns if end_ns is None else min(now_ns, end_ns)
        self._mark("end", self.schedule.ended_ns)

    def _mark(self, name: str, at_ns: int) -> None:
        """Note what begins, or ends; in the run, also in the stat file."""
        users = self.schedule.stage.users or self._manager.registry.users
        self._note(at_ns, name, users)
        if name == "stage":
            self._users = users
            self._count_users(at_ns)

    def _count_users(self, at_ns: int) -> None:
        """Note from when on there are workers for more, or fewer, users than were noted last."""
        registry = self._manager.registry
        if registry.assigned_users != self._users:
            self._users = registry.assigned_users
            self._note(at_ns, "users", registry.assigned_users)
        self._short_of_users = self._short_of_users or registry.assigned_users < registry.users

    def _note(self, at_ns: int, name: str, users: int) -> None:
        if self._manager.phase is Phase.RUN:
            schedule, offset_ns = self.schedule, at_ns - self._manager.start_ns
            mark = MarkRecord(offset_ns, name, schedule.index, users, schedule.stage.rate)
            self._services.recorder.write(mark)

    def _finished_ns(self) -> int:
        """When a load ended of which all results are in: just now, or, where an open loop had
        nothing more to fall due, when its time is over."""
        workload, end_ns = self._workload, self.schedule.end_ns
        if end_ns is None or workload.exhausted or workload.taken == workload.total:
            return self._clock()
        return end_ns

    # Why it must stop ---------------------------------------------------------------------

    def _why_stop(self, now_ns: int) -> Ending | None:
        if self._manager.no_workers_left(now_ns):
            return "failed", "all workers are gone"
        end_ns = self.schedule.end_ns
        if end_ns is not None and now_ns >= end_ns:
            return "complete", ""
        return self._why_enough(now_ns) or self._why_give_up(now_ns)

    def _why_enough(self, now_ns: int) -> Ending | None:
        if self._steady_state is None:
            return None
        steady = self._steady_state.reason_to_end(now_ns, self._dispatcher.counts.done)
        return ("complete", steady) if steady else None

    def _why_give_up(self, now_ns: int) -> Ending | None:
        dispatcher, manager = self._dispatcher, self._manager
        if manager.phase is Phase.RUN:
            reason = error_limit_reason(dispatcher, self._services.limits.max_consecutive_errors)
        else:
            timeout_s = manager.settings.network_timeout_s
            reason = abort_reason(manager.phase, dispatcher, manager.start_ns, now_ns, timeout_s)
        return ("failed", reason) if reason else None

    # In the master's loop -----------------------------------------------------------------

    def update_state(self) -> bool:
        """Have the crew's beats say how things stand; True where jobs wait for somebody with
        room."""
        self._manager.ending = self._dispatcher.ending
        self._manager.stopping = self._dispatcher.stopping
        return self.job_transport.has_unsent

    def tick(self, now_ns: int) -> None:
        """Time passes."""
        if self._dispatcher.tick(now_ns):
            self._manager.state_changed = True

    def on_heartbeat(self, heartbeat: Heartbeat) -> None:
        """A worker told of latencies."""
        self._tracker.add_latencies(
            (self._clock() - self._manager.start_ns) / SECOND, heartbeat.live
        )

    def progress(self, now_ns: int) -> RunProgress:
        """Where it stands."""
        counts, registry = self._dispatcher.counts, self._manager.registry
        progress = self._tracker.progress(
            (now_ns - self._manager.start_ns) / SECOND,
            counts.done + counts.failed,
            counts.failed,
            len(registry.workers),
            registry.assigned_users,
        )
        rate = self.schedule.stage.rate
        return replace(progress, target_rate=rate, late=self._late(now_ns)) if rate else progress

    def _late(self, now_ns: int) -> int:
        """Operations that are due and not started: about so many, and once the load has ended
        exactly so."""
        dispatcher, workload = self._dispatcher, self._workload
        if dispatcher.stopping:
            return workload.never_started(self.schedule.ended_ns / SECOND)
        since_s = workload.waiting_since(now_ns / SECOND)
        if since_s is None:
            return 0
        waiting = int(self.schedule.due_between(round(since_s * SECOND), now_ns))
        if workload.total is not None:
            waiting = min(waiting, workload.total - workload.taken)
        # All that workers hold was due before that, and more of it than they have users waits.
        return waiting + max(dispatcher.in_flight - self._manager.registry.assigned_users, 0)
