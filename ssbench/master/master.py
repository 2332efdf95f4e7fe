"""The master: drives core.dispatch.dispatcher over the wire, phase by phase.

One plain loop, without an event library: send what is due, poll, take in what arrived, and once a
second say in a beat how things stand. What is decided is decided in core.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ssbench import __version__
from ssbench.core.dispatch.dispatcher import Dispatcher
from ssbench.core.dispatch.result_bounds import ResultBounds
from ssbench.core.dispatch.stage_schedule import StageSchedule
from ssbench.core.dispatch.worker_registry import SECOND, WorkerState
from ssbench.core.messages import Ack, Heartbeat, Host, Ready, Results, Returned
from ssbench.core.model import Phase, Stage
from ssbench.core.records import PhaseRecord, WorkerRecord
from ssbench.core.settings import StorageSettings
from ssbench.core.stats.auto_stop import SteadyStateDetector
from ssbench.core.text import printable
from ssbench.core.workload.workload import Workload
from ssbench.host.live import HostLive
from ssbench.master.host_metrics import HostMetricsRecorder
from ssbench.master.job_transport import JobTransport
from ssbench.master.phase_runner import WAIT_S, Ending, PhaseRunner, PhaseServices
from ssbench.master.phases import Limits, Observer, PhaseOutcome, Recorder
from ssbench.master.safe_recorder import SafeRecorder
from ssbench.master.worker_manager import Children, WorkerJoined, WorkerLeft, WorkerManager
from ssbench.master.worker_wait import SETTLED_NS, WorkerWait
from ssbench.transport.master_transport import MasterTransport

log = logging.getLogger(__name__)

_TICK_NS = SECOND // 20
_SHOW_NS = SECOND // 4
_MOST_RELEASES = 16  #: workers of another release that are warned of
_WORKERS_NAMED = 1000  #: at most, in warnings of a run and among its lost workers
_POLL_NS = 999_999  #: polls are of whole milliseconds


class Master:
    """Runs phases with whoever connects.

    :param warn: called with what the user must know; None: the observer's message.
    :param renew: gives a fresh token and its serial; called in a thread of its own when the store
        refuses the present one. May raise AuthError.
    :param host: samples the master's machine, and is running.
    :param children: worker processes of our own; one that ends is given up at once.
    """

    def __init__(
        self,
        wire: MasterTransport,
        observer: Observer,
        settings: StorageSettings,
        *,
        limits: Limits | None = None,
        recorder: Recorder | None = None,
        renew: Callable[[], tuple[str, int]] | None = None,
        warn: Callable[[str], None] | None = None,
        clock: Callable[[], int] = time.perf_counter_ns,
        host: HostLive | None = None,
        children: Children | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.workers_lost: list[str] = []
        self._other_releases: set[tuple[str, str, str]] = set()  # warned of: id, host, release
        self._refused = 0
        self._unread = 0  # messages that the wire refused before the present run
        self._wire = wire
        self._observer = observer
        self._warn = warn or observer.message
        self.keeping = SafeRecorder(recorder, self._warn)
        self._clock = clock
        self._crew = WorkerManager(
            wire, settings, self.limits,
            renew=renew, warn=self._warn, clock=clock, children=children,
        )  # fmt: skip
        self.roster = self._crew.roster
        self._hosts = HostMetricsRecorder(host, self.keeping.write, self._tell_of_worker)
        self._told_of_workers = 0
        self._shift: PhaseRunner | None = None  # the present phase
        self._needs_workers = False  # from when all came until they are let go
        self._lost_between: list[str] = []  # workers, since the last run's end
        self._interrupted = self._told_interrupt = ""
        self._next_tick_ns = self._next_show_ns = 0
        self._numbers = (1, 1)  # of the next job and batch
        self._on: Mapping[type, Callable[[Any], None]] = {
            WorkerJoined: self._on_came,
            WorkerLeft: self._on_gone,
            Heartbeat: self._on_pulse,
            Ready: self._on_ready,
            Host: self._on_host,
            Ack: self._on_took,
            Results: self._on_results,
            Returned: self._on_returned,
        }

    def __repr__(self) -> str:
        return f"<Master {self._crew.phase.name} {self.roster} {self._shift}>"

    @property
    def settings(self) -> StorageSettings:
        """What the workers open the store with; its token may have been renewed."""
        return self._crew.settings

    def interrupt(self, reason: str) -> None:
        """Stop the present phase and every later one but the clean-up; from a signal handler."""
        self._interrupted = reason

    @property
    def refused(self) -> int:
        """Messages of this run that were stale, malformed, or none of ours."""
        return self._refused + self._wire.refused - self._unread

    @property
    def interrupted(self) -> str:
        """Why the run was interrupted; "" where it wasn't."""
        return self._interrupted

    # What one does with it ----------------------------------------------------------------

    def begin_run(self, run_id: str, recorder: Recorder | None) -> None:
        """Go on to another run with the workers that are here, and count anew."""
        self._crew.settings = replace(self._crew.settings, run_id=run_id)
        self.keeping.begin(recorder)
        self.workers_lost, self._lost_between = self._lost_between, []
        self._told_of_workers = 0
        self._refused = 0
        self._unread = self._wire.refused
        for worker in self.roster.workers.values():
            self._record_worker(worker)

    def stand_by(self, until: Callable[[], bool]) -> None:
        """Keep the workers between two runs, which end themselves where they hear nothing."""
        before = len(self.workers_lost)
        while not until():
            self._turn(WAIT_S)
        self._lost_between += self.workers_lost[before:]
        del self.workers_lost[before:]

    def stand_by_once(self) -> None:
        """The same for a moment: without a wait, to be called again within a tenth of a second."""
        self._turn(0.0)

    def gather(self, users: int, expected: int | None) -> None:
        """Wait for workers: for so many, or for enough of them to be all users.

        :raises NoWorkersError: where nobody, or fewer than expected, came in time.
        """
        wait_s = self.limits.worker_wait_s
        gathering = WorkerWait(
            self._wire, self._crew, users, expected, wait_s,
            fewer_ok=self.limits.fewer_workers_ok,
        )  # fmt: skip
        deadline_ns = self._clock() + int(wait_s * SECOND)
        self._crew.allocate_users(users)
        while not self._interrupted and self._clock() < deadline_ns:
            now_ns = self._clock()
            if gathering.complete(now_ns):
                break
            self._observer.wait_for(gathering.progress(max(deadline_ns - now_ns, 0)))
            self._turn(WAIT_S)
        self._observer.wait_for("")
        if not self._interrupted:
            for line in gathering.shortcomings():
                self._warn(line)
            self._needs_workers = True

    def run_phase(
        self,
        phase: Phase,
        workload: Workload,
        users: int,
        seconds: float | None = None,
        *,
        stages: Sequence[Stage] = (),
        settling: SteadyStateDetector | None = None,
        title: str = "",
    ) -> PhaseOutcome:
        """Have the workers do a workload; returns when its last result is in, or it was stopped.

        :param seconds: stop sending after so long; None: until the workload is finished.
        :param stages: parts with users of their own, which say how long it takes.
        :param settling: says when the rate has been steady for long enough to end it.
        """
        self._crew.enter(phase, live=self._observer.wants_latencies and phase is Phase.RUN)
        self._shift = shift = self._begin_shift(workload, users, seconds, stages, settling)
        self._observer.start_phase(phase, workload.total, title)
        try:
            self._announce(shift.course.stage.users or users)
            shift.work()
        finally:
            self._end_shift(shift)
        return shift.outcome()

    def _begin_shift(
        self,
        workload: Workload,
        users: int,
        seconds: float | None,
        stages: Sequence[Stage],
        settling: SteadyStateDetector | None,
    ) -> PhaseRunner:
        number, batch = self._numbers
        dispatcher = Dispatcher(
            workload, self.roster, self.limits.max_batch,
            ResultBounds(self.settings.sizes, len(self.settings.storage_urls)),
            next_number=number, next_batch=batch,
        )  # fmt: skip
        course = StageSchedule(stages or [Stage(math.inf if seconds is None else seconds, users)])
        exchange = JobTransport(
            dispatcher, self._crew, self.keeping, self._observer, self._wire.send_jobs, self._clock
        )
        return PhaseRunner(
            self._ties(), exchange, workload, course, seconds=seconds, settling=settling
        )

    def _ties(self) -> PhaseServices:
        return PhaseServices(
            crew=self._crew,
            keeping=self.keeping,
            limits=self.limits,
            clock=self._clock,
            turn=self._turn,
            why_halt=self._why_halt,
            warn=self._warn,
        )

    def _end_shift(self, shift: PhaseRunner) -> None:
        self._show(self._clock())
        exchange = shift.exchange
        exchange.close()
        self._hosts.leave()
        self._observer.end_phase()
        self._numbers = exchange.numbers
        self._refused += exchange.dispatcher.counts.refused
        self._shift = None
        self._crew.enter(Phase.IDLE)

    def release_workers(self, *, quit_: bool = False) -> None:
        """The run is over: tell the workers to wait for the next one, or to end."""
        self._needs_workers = False
        self._crew.quit = quit_
        self._crew.allocate_users(0)
        self._crew.send_control_state()
        self._crew.tell_strangers(last=True)

    def kill_workers(self, patience_s: float) -> tuple[list[str], list[str]]:
        """End all workers that can be reached; gives the names of those gone, and still here."""
        self._crew.quit = True
        left = self._crew.gone
        left.clear()
        deadline_ns = self._clock() + int(patience_s * SECOND)
        quiet_since_ns = self._clock()
        while self._clock() < deadline_ns and not self._interrupted:
            gone = len(left)
            self._turn(WAIT_S)
            if self.roster.workers or len(left) > gone:
                quiet_since_ns = self._clock()
            elif self._clock() - quiet_since_ns > SETTLED_NS:
                break
        self._crew.tell_strangers(last=True)
        return list(left), [worker.name for worker in self.roster.workers.values()]

    # The loop -----------------------------------------------------------------------------

    def _announce(self, users: int) -> None:
        """Begin a phase: tell all, and wait until they are connected to the store."""
        crew = self._crew
        crew.allocate_users(users)
        crew.start_ns = self._clock()
        self.keeping.write(PhaseRecord(crew.phase, time.time(), users))
        self._hosts.enter(self.settings.run_id, crew.phase, crew.start_ns)
        self._next_tick_ns = crew.start_ns
        deadline_ns = crew.start_ns + int((self.limits.connect_timeout_s + 5) * SECOND)
        crew.send_control_state()
        while not self._interrupted_now() and self._clock() < deadline_ns:
            self._turn(WAIT_S)
            if crew.ready() if self.roster.workers else crew.no_workers_left(self._clock()):
                break
            here, of = self.roster.ready_count(self.settings.run_id, crew.phase)
            self._observer.wait_for(f"Waiting for workers to connect to the store: {here} of {of}")
        self._observer.wait_for("")

    def _interrupted_now(self) -> bool:
        return bool(self._interrupted) and self._crew.phase is not Phase.CLEANUP

    def _why_halt(self) -> Ending | None:
        if self._interrupted_now():
            return "interrupted", self._interrupted
        if self.keeping.error and self._crew.phase is not Phase.CLEANUP:
            return "failed", str(self.keeping.error)
        return None

    def _turn(self, wait_s: float) -> None:
        """Once round: a beat if one is due, then whatever arrives within the wait."""
        or_room = self._shift.brief() if self._shift else False
        # So that the tick is late only where the loop is, or by the millisecond of a poll.
        left_s = (self._next_tick_ns - self._clock() + _POLL_NS) / SECOND
        for event in self._crew.turn(min(wait_s, left_s), or_room=or_room):
            self._on.get(type(event), self._refuse)(event)
        if self._interrupted != self._told_interrupt:
            self._tell_of_interrupt()
        now_ns = self._clock()
        if now_ns >= self._next_tick_ns:
            self._tick(now_ns)

    def _tell_of_interrupt(self) -> None:
        """Not in the signal's handler: it may have come in the midst of another line."""
        reason = self._told_interrupt = self._interrupted
        if self._crew.phase is Phase.CLEANUP:
            self._observer.message(f"{reason}: the clean-up goes on; once more ends at once")
        elif self._shift:
            self._observer.message(
                f"{reason}: waiting for what is in flight, {self.limits.drain_timeout_s:g} s at"
                " most; once more ends at once"
            )

    def _tick(self, now_ns: int) -> None:
        self._hosts.late(now_ns - self._next_tick_ns)
        self._hosts.tick()
        self._next_tick_ns = now_ns + _TICK_NS
        for event in self._crew.tick(now_ns):
            self._on.get(type(event), self._refuse)(event)
        if self._shift:
            self._shift.tick(now_ns)
        self.keeping.tick(now_ns / SECOND)
        if now_ns >= self._next_show_ns:
            self._show(now_ns)

    def _show(self, now_ns: int) -> None:
        self._next_show_ns = now_ns + _SHOW_NS
        if self._shift:
            self._observer.update(self._shift.progress(now_ns))

    # What the crew passes on --------------------------------------------------------------

    def _refuse(self, event: Any) -> None:
        self._refused += 1

    def _on_came(self, came: WorkerJoined) -> None:
        worker = came.worker
        log.info("Worker %s is here, for up to %d users", worker.name, worker.hello.concurrency)
        self._record_worker(worker)
        self._check_release(worker)

    def _check_release(self, worker: WorkerState) -> None:
        """Warn of a worker of another release of ssbench, once."""
        hello = worker.hello
        who = (hello.worker_id, hello.host, hello.version)
        known = self._other_releases
        if hello.version == __version__ or who in known or len(known) >= _MOST_RELEASES:
            return
        known.add(who)
        self._warn(
            f"Worker {worker.name} is of ssbench {printable(hello.version[:64])}, this master of"
            f" {__version__}: install the same release on every host, or figures may not compare"
        )

    def _record_worker(self, worker: WorkerState) -> None:
        hello = worker.hello
        self.keeping.write(
            WorkerRecord(
                worker.index, hello.worker_id, hello.host, hello.pid, hello.concurrency,
                hello.version,
            )
        )  # fmt: skip

    def _on_ready(self, ready: Ready) -> None:
        self._hosts.check_clock(self.roster.workers[ready.incarnation])

    def _on_host(self, host: Host) -> None:
        worker = self.roster.workers.get(host.incarnation)
        if worker is not None:  # else a straggler of one that was given up
            self._hosts.heard(worker, host, self._clock())

    def _on_pulse(self, pulse: Heartbeat) -> None:
        self._hosts.check_clock(self.roster.workers[pulse.incarnation])
        if self._shift:
            self._shift.heard(pulse)

    def _on_took(self, took: Ack) -> None:
        if self._shift:
            self._shift.exchange.took(took)

    def _on_results(self, results: Results) -> None:
        if self._shift is None or not self._shift.exchange.results(results):
            self._refused += 1

    def _on_returned(self, returned: Returned) -> None:
        if self._shift:
            self._shift.exchange.returned(returned)

    def _note_loss(self, name: str) -> None:
        if len(self.workers_lost) < _WORKERS_NAMED:
            self.workers_lost.append(name)
        elif len(self.workers_lost) == _WORKERS_NAMED:
            self.workers_lost.append("and more")

    def _tell_of_worker(self, line: str) -> None:
        """Warn of a worker, as often as there can be workers that are worth a line each."""
        self._told_of_workers += 1
        if self._told_of_workers > _WORKERS_NAMED:
            return
        if self._told_of_workers == _WORKERS_NAMED:
            line += "; more such warnings about workers are left out"
        self._warn(line)

    def _on_gone(self, gone: WorkerLeft) -> None:
        """Account for what a worker held."""
        name, shift = gone.worker.name, self._shift
        jobs = shift.exchange.gone(gone.worker.hello.incarnation) if shift else 0
        needed = self._needs_workers or shift is not None
        if needed:  # from here on its users are missing, whoever ended it
            self._note_loss(name)
        if gone.left and not jobs:
            tell = self._tell_of_worker if needed else log.info
            tell(f"Worker {name} left before the end: {gone.reason}")
            return
        self._tell_of_worker(
            f"Lost worker {name}: {gone.reason}; {jobs} operations were lost with it"
        )
        if shift and not self.roster.workers and not self._crew.hopeless:
            wait_s = self.limits.worker_wait_s
            self._observer.message(f"No worker is left; waiting up to {wait_s:g} s for another")
