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
from ssbench.core.dispatch.worker_registry import SECOND, WorkerState
from ssbench.core.messages import Ack, Heartbeat, Host, Ready, Results, Returned
from ssbench.core.model import Phase, Stage
from ssbench.core.observer import Observer
from ssbench.core.records import PhaseRecord, WorkerRecord
from ssbench.core.settings import Credentials, StorageSettings
from ssbench.core.stats.auto_stop import SteadyStateDetector
from ssbench.core.text import printable
from ssbench.core.workload.pacing import StageSchedule
from ssbench.core.workload.workload import Workload
from ssbench.host.live import HostLive
from ssbench.master.host_metrics import HostMetricsRecorder
from ssbench.master.job_transport import JobTransport
from ssbench.master.phase_runner import WAIT_S, Ending, PhaseRunner, PhaseServices
from ssbench.master.phases import Limits, PhaseOutcome, Recorder
from ssbench.master.safe_recorder import SafeRecorder
from ssbench.master.worker_manager import Children, WorkerJoined, WorkerLeft, WorkerManager
from ssbench.master.worker_wait import ALL_JOINED_NS, WorkerWait
from ssbench.transport.master_transport import MasterTransport

log = logging.getLogger(__name__)

_TICK_NS = SECOND // 20
_SHOW_NS = SECOND // 4
_MOST_RELEASES = 16  #: workers of another release that are warned of
_WORKERS_NAMED = 1000  #: at most, in warnings of a run and among its lost workers
_POLL_NS = 999_999  #: polls are of whole milliseconds


class Master:
    """Runs phases with whoever connects.

    :param observers: told of progress; each message goes to all of them.
    :param warn: called with what the user must know; None: the observers' ``message``.
    :param renew: gives new credentials; called in a thread of its own when the store
        refuses the present one. May raise AuthError.
    :param host: samples the master's machine, and is running.
    :param children: worker processes of our own; one that ends is given up at once.
    """

    def __init__(
        self,
        transport: MasterTransport,
        observers: Sequence[Observer],
        settings: StorageSettings,
        *,
        limits: Limits | None = None,
        recorder: Recorder | None = None,
        renew: Callable[[], Credentials] | None = None,
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
        self._transport = transport
        self._observers = observers
        self._warn = warn or self._message
        self.recorder = SafeRecorder(recorder, self._warn)
        self._clock = clock
        self._manager = WorkerManager(
            transport, settings, self.limits,
            renew=renew, warn=self._warn, clock=clock, children=children,
        )  # fmt: skip
        self.registry = self._manager.registry
        self._hosts = HostMetricsRecorder(host, self.recorder.write, self._warn_of_worker)
        self._worker_warnings = 0
        self._runner: PhaseRunner | None = None  # the present phase
        self._needs_workers = False  # from when all came until they are let go
        self._lost_between_runs: list[str] = []  # workers, since the last run's end
        self._interrupted = self._reported_interrupt = ""
        self._next_tick_ns = self._next_show_ns = 0
        self._numbers = (1, 1)  # of the next job and batch
        self._on: Mapping[type, Callable[[Any], None]] = {
            WorkerJoined: self._on_worker_joined,
            WorkerLeft: self._on_worker_left,
            Heartbeat: self._on_heartbeat,
            Ready: self._on_ready,
            Host: self._on_host,
            Ack: self._on_ack,
            Results: self._on_results,
            Returned: self._on_returned,
        }

    def __repr__(self) -> str:
        return f"<Master {self._manager.phase.name} {self.registry} {self._runner}>"

    @property
    def settings(self) -> StorageSettings:
        """What the workers open the store with; its credentials may have been renewed."""
        return self._manager.settings

    def interrupt(self, reason: str) -> None:
        """Stop the present phase and every later one but the clean-up; from a signal handler."""
        self._interrupted = reason

    @property
    def refused(self) -> int:
        """Messages of this run that were stale, malformed, or none of ours."""
        return self._refused + self._transport.refused - self._unread

    @property
    def interrupted(self) -> str:
        """Why the run was interrupted; "" where it wasn't."""
        return self._interrupted

    # What one does with it ----------------------------------------------------------------

    def begin_run(self, run_id: str, recorder: Recorder | None) -> None:
        """Go on to another run with the workers that are here, and count anew."""
        self._manager.settings = replace(self._manager.settings, run_id=run_id)
        self.recorder.begin(recorder)
        self.workers_lost, self._lost_between_runs = self._lost_between_runs, []
        self._worker_warnings = 0
        self._refused = 0
        self._unread = self._transport.refused
        for worker in self.registry.workers.values():
            self._record_worker(worker)

    def stand_by(self, until: Callable[[], bool]) -> None:
        """Keep the workers between two runs, which end themselves where they hear nothing."""
        before = len(self.workers_lost)
        while not until():
            self._poll(WAIT_S)
        self._lost_between_runs += self.workers_lost[before:]
        del self.workers_lost[before:]

    def stand_by_once(self) -> None:
        """The same for a moment: without a wait, to be called again within a tenth of a second."""
        self._poll(0.0)

    def wait_for_workers(self, users: int, expected: int | None) -> None:
        """Wait for workers: for so many, or for enough of them to be all users.

        :raises NoWorkersError: where nobody, or fewer than expected, came in time.
        """
        wait_s = self.limits.worker_wait_s
        worker_wait = WorkerWait(
            self._transport, self._manager, users, expected, wait_s,
            fewer_ok=self.limits.fewer_workers_ok,
        )  # fmt: skip
        deadline_ns = self._clock() + int(wait_s * SECOND)
        self._manager.allocate_users(users)
        while not self._interrupted and self._clock() < deadline_ns:
            now_ns = self._clock()
            if worker_wait.complete(now_ns):
                break
            self._show_wait(worker_wait.progress(max(deadline_ns - now_ns, 0)))
            self._poll(WAIT_S)
        self._show_wait("")
        if not self._interrupted:
            for line in worker_wait.shortcomings():
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
        steady_state: SteadyStateDetector | None = None,
        title: str = "",
    ) -> PhaseOutcome:
        """Have the workers do a workload; returns when its last result is in, or it was stopped.

        :param seconds: stop sending after so long; None: until the workload is finished.
        :param stages: parts with users of their own, which say how long it takes.
        :param settling: says when the rate has been steady for long enough to end it.
        """
        live = any(observer.wants_latencies for observer in self._observers)
        self._manager.enter(phase, live=live and phase is Phase.RUN)
        self._runner = runner = self._make_runner(workload, users, seconds, stages, steady_state)
        for observer in self._observers:
            observer.start_phase(phase, workload.total, title)
        try:
            self._announce(runner.schedule.stage.users or users)
            runner.run()
        finally:
            self._end_phase(runner)
        return runner.outcome()

    def _make_runner(
        self,
        workload: Workload,
        users: int,
        seconds: float | None,
        stages: Sequence[Stage],
        steady_state: SteadyStateDetector | None,
    ) -> PhaseRunner:
        number, batch = self._numbers
        dispatcher = Dispatcher(
            workload, self.registry, self.limits.max_batch,
            ResultBounds(self.settings.sizes, self.settings.url_count),
            next_number=number, next_batch=batch,
        )  # fmt: skip
        schedule = StageSchedule(stages or [Stage(math.inf if seconds is None else seconds, users)])
        job_transport = JobTransport(
            dispatcher,
            self._manager,
            self.recorder,
            self._observers,
            self._transport.send_jobs,
            self._clock,
        )
        return PhaseRunner(
            self._services(),
            job_transport,
            workload,
            schedule,
            seconds=seconds,
            steady_state=steady_state,
        )

    def _services(self) -> PhaseServices:
        return PhaseServices(
            manager=self._manager,
            recorder=self.recorder,
            limits=self.limits,
            clock=self._clock,
            poll=self._poll,
            abort_reason=self._abort_reason,
            warn=self._warn,
            wants_counts=any(observer.wants_counts for observer in self._observers),
        )

    def _end_phase(self, runner: PhaseRunner) -> None:
        self._show(self._clock())
        job_transport = runner.job_transport
        job_transport.close()
        self._hosts.leave()
        for observer in self._observers:
            observer.end_phase()
        self._numbers = job_transport.numbers
        self._refused += job_transport.dispatcher.counts.refused
        self._runner = None
        self._manager.enter(Phase.IDLE)

    def release_workers(self, *, quit_: bool = False) -> None:
        """The run is over: tell the workers to wait for the next one, or to end."""
        self._needs_workers = False
        self._manager.quit = quit_
        self._manager.allocate_users(0)
        self._manager.send_control_state()
        self._manager.warn_of_rejected_peers(last=True)

    def kill_workers(self, patience_s: float) -> tuple[list[str], list[str]]:
        """End all workers that can be reached; gives the names of those gone, and still here."""
        self._manager.quit = True
        left = self._manager.departed
        left.clear()
        deadline_ns = self._clock() + int(patience_s * SECOND)
        quiet_since_ns = self._clock()
        while self._clock() < deadline_ns and not self._interrupted:
            gone = len(left)
            self._poll(WAIT_S)
            if self.registry.workers or len(left) > gone:
                quiet_since_ns = self._clock()
            elif self._clock() - quiet_since_ns > ALL_JOINED_NS:
                break
        self._manager.warn_of_rejected_peers(last=True)
        return list(left), [worker.name for worker in self.registry.workers.values()]

    # The loop -----------------------------------------------------------------------------

    def _announce(self, users: int) -> None:
        """Begin a phase: tell all, and wait until they are connected to the store."""
        manager = self._manager
        manager.allocate_users(users)
        manager.start_ns = self._clock()
        self.recorder.write(PhaseRecord(manager.phase, time.time(), users))
        self._hosts.enter(self.settings.run_id, manager.phase, manager.start_ns)
        self._next_tick_ns = manager.start_ns
        deadline_ns = manager.start_ns + int((self.limits.connect_timeout_s + 5) * SECOND)
        manager.send_control_state()
        while not self._interrupted_now() and self._clock() < deadline_ns:
            self._poll(WAIT_S)
            if manager.ready() if self.registry.workers else manager.no_workers_left(self._clock()):
                break
            here, of = self.registry.ready_count(self.settings.run_id, manager.phase)
            self._show_wait(f"Waiting for workers to connect to the store: {here} of {of}")
        self._show_wait("")

    def _interrupted_now(self) -> bool:
        return bool(self._interrupted) and self._manager.phase is not Phase.CLEANUP

    def _abort_reason(self) -> Ending | None:
        if self._interrupted_now():
            return "interrupted", self._interrupted
        if self.recorder.error and self._manager.phase is not Phase.CLEANUP:
            return "failed", str(self.recorder.error)
        return None

    def _poll(self, wait_s: float) -> None:
        """Once round: a beat if one is due, then whatever arrives within the wait."""
        or_writable = self._runner.update_state() if self._runner else False
        # So that the tick is late only where the loop is, or by the millisecond of a poll.
        left_s = (self._next_tick_ns - self._clock() + _POLL_NS) / SECOND
        for event in self._manager.poll(min(wait_s, left_s), or_writable=or_writable):
            self._on.get(type(event), self._refuse)(event)
        if self._interrupted != self._reported_interrupt:
            self._report_interrupt()
        now_ns = self._clock()
        if now_ns >= self._next_tick_ns:
            self._tick(now_ns)

    def _report_interrupt(self) -> None:
        """Not in the signal's handler: it may have come in the midst of another line."""
        reason = self._reported_interrupt = self._interrupted
        if self._manager.phase is Phase.CLEANUP:
            self._message(f"{reason}: the clean-up goes on; once more ends at once")
        elif self._runner:
            self._message(
                f"{reason}: waiting for what is in flight, {self.limits.drain_timeout_s:g} s at"
                " most; once more ends at once"
            )

    def _tick(self, now_ns: int) -> None:
        self._hosts.late(now_ns - self._next_tick_ns)
        self._hosts.tick()
        self._next_tick_ns = now_ns + _TICK_NS
        for event in self._manager.tick(now_ns):
            self._on.get(type(event), self._refuse)(event)
        if self._runner:
            self._runner.tick(now_ns)
        self.recorder.tick(now_ns / SECOND)
        if now_ns >= self._next_show_ns:
            self._show(now_ns)

    def _show(self, now_ns: int) -> None:
        self._next_show_ns = now_ns + _SHOW_NS
        if self._runner:
            progress = self._runner.progress(now_ns)
            for observer in self._observers:
                observer.update(progress)

    def _show_wait(self, text: str) -> None:
        for observer in self._observers:
            observer.wait_for(text)

    def _message(self, text: str) -> None:
        for observer in self._observers:
            observer.message(text)

    # What the crew passes on --------------------------------------------------------------

    def _refuse(self, event: Any) -> None:
        self._refused += 1

    def _on_worker_joined(self, joined: WorkerJoined) -> None:
        worker = joined.worker
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
        self.recorder.write(
            WorkerRecord(
                worker.index, hello.worker_id, hello.host, hello.pid, hello.concurrency,
                hello.version,
            )
        )  # fmt: skip

    def _on_ready(self, ready: Ready) -> None:
        self._hosts.check_clock(self.registry.workers[ready.incarnation])

    def _on_host(self, host: Host) -> None:
        worker = self.registry.workers.get(host.incarnation)
        if worker is not None:  # else a straggler of one that was given up
            self._hosts.on_host(worker, host, self._clock())

    def _on_heartbeat(self, heartbeat: Heartbeat) -> None:
        self._hosts.check_clock(self.registry.workers[heartbeat.incarnation])
        if self._runner:
            self._runner.on_heartbeat(heartbeat)

    def _on_ack(self, took: Ack) -> None:
        if self._runner:
            self._runner.job_transport.on_ack(took)

    def _on_results(self, results: Results) -> None:
        if self._runner is None or not self._runner.job_transport.on_results(results):
            self._refused += 1

    def _on_returned(self, returned: Returned) -> None:
        if self._runner:
            self._runner.job_transport.on_returned(returned)

    def _note_loss(self, name: str) -> None:
        if len(self.workers_lost) < _WORKERS_NAMED:
            self.workers_lost.append(name)
        elif len(self.workers_lost) == _WORKERS_NAMED:
            self.workers_lost.append("and more")

    def _warn_of_worker(self, line: str) -> None:
        """Warn of a worker, as often as there can be workers that are worth a line each."""
        self._worker_warnings += 1
        if self._worker_warnings > _WORKERS_NAMED:
            return
        if self._worker_warnings == _WORKERS_NAMED:
            line += "; more such warnings about workers are left out"
        self._warn(line)

    def _on_worker_left(self, gone: WorkerLeft) -> None:
        """Account for what a worker held."""
        name, runner = gone.worker.name, self._runner
        jobs = runner.job_transport.on_worker_left(gone.worker.hello.incarnation) if runner else 0
        needed = self._needs_workers or runner is not None
        if needed:  # from here on its users are missing, whoever ended it
            self._note_loss(name)
        if gone.left and not jobs:
            tell = self._warn_of_worker if needed else log.info
            tell(f"Worker {name} left before the end: {gone.reason}")
            return
        self._warn_of_worker(
            f"Lost worker {name}: {gone.reason}; {jobs} operations were lost with it"
        )
        if runner and not self.registry.workers and not self._manager.hopeless:
            wait_s = self.limits.worker_wait_s
            self._message(f"No worker is left; waiting up to {wait_s:g} s for another")
