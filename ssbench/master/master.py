"""The master: drives core.dispatch over the wire, phase by phase.

One plain loop, without an event library: send what is due, poll, take in what arrived, and once a
second say in a beat how things stand. What is decided is decided in core.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ssbench.core.columns import pack_jobs, unpack_column
from ssbench.core.course import Course
from ssbench.core.dispatch import Dispatcher
from ssbench.core.errors import MessageError, NoWorkersError
from ssbench.core.giving_up import too_many_errors, why_give_up
from ssbench.core.messages import Host, Jobs, Pulse, Ready, Results, Returned, Took, encode
from ssbench.core.model import Phase, Result, Stage
from ssbench.core.pacing import LEAD_NS
from ssbench.core.records import MarkRecord, PhaseRecord, WorkerRecord
from ssbench.core.roster import SECOND, Worker
from ssbench.core.settings import StorageSettings
from ssbench.core.settling import Settling
from ssbench.core.watch import Watch
from ssbench.core.workload import Workload
from ssbench.host.live import HostLive
from ssbench.master.crew import Came, Crew, Gone
from ssbench.master.hostlog import HostLog
from ssbench.master.keeping import Keeping
from ssbench.master.phases import Limits, Observer, PhaseOutcome, Recorder
from ssbench.wire.masterwire import MasterWire

log = logging.getLogger(__name__)

_TICK_NS = SECOND // 20
_SHOW_NS = SECOND // 4
_SENDS_A_TURN = 64
_WAIT_S = 0.05
_POLL_NS = 999_999  #: polls are of whole milliseconds
#: Without --workers or --expect-workers: nobody new for this long means that all are here.
_SETTLED_NS = 2 * SECOND
_SHOWN = [1 + Result._fields.index(name) for name in
          ("operation", "error", "first_byte_ns", "last_byte_ns")]  # fmt: skip


class Master:
    """Runs phases with whoever connects.

    :param warn: called with what the user must know; None: the observer's message.
    :param renew: gives a fresh token and its serial; called in a thread of its own when the store
        refuses the present one. May raise AuthError.
    :param host: samples the master's machine, and is running.
    """

    def __init__(
        self,
        wire: MasterWire,
        observer: Observer,
        settings: StorageSettings,
        *,
        limits: Limits | None = None,
        recorder: Recorder | None = None,
        renew: Callable[[], tuple[str, int]] | None = None,
        warn: Callable[[str], None] | None = None,
        clock: Callable[[], int] = time.perf_counter_ns,
        host: HostLive | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.workers_lost: list[str] = []
        self._refused = 0
        self._unread = 0  # messages that the wire refused before the present run
        self._wire = wire
        self._observer = observer
        self._warn = warn or observer.message
        self.keeping = Keeping(recorder, self._warn)
        self._clock = clock
        self._crew = Crew(wire, settings, self.limits, renew=renew, warn=self._warn, clock=clock)
        self.roster = self._crew.roster
        self._hosts = HostLog(host, self.keeping.write, self._warn)
        self._dispatcher: Dispatcher | None = None
        self._settling: Settling | None = None
        self._watch = Watch(None, None)
        self._pending: deque[bytes] = deque()  # messages with jobs that no worker had room for
        self._interrupted = self._told_interrupt = ""
        self._next_tick_ns = self._next_show_ns = 0
        self._alone_since_ns = 0
        self._numbers = (1, 1)  # of the next job and batch
        self._on: Mapping[type, Callable[[Any], None]] = {
            Came: self._on_came,
            Gone: self._on_gone,
            Pulse: self._on_pulse,
            Ready: self._on_ready,
            Host: self._on_host,
            Took: self._on_took,
            Results: self._on_results,
            Returned: self._on_returned,
        }

    def __repr__(self) -> str:
        return f"<Master {self._crew.phase.name} {self.roster} {self._dispatcher}>"

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
        self.workers_lost, self._refused = [], 0
        self._unread = self._wire.refused
        for worker in self.roster.workers.values():
            self._record_worker(worker)

    def stand_by(self, until: Callable[[], bool]) -> None:
        """Keep the workers between two runs, which end themselves where they hear nothing."""
        while not until():
            self._turn(_WAIT_S)

    def gather(self, users: int, expected: int | None) -> None:
        """Wait for workers: for so many, or for enough of them to be all users.

        :raises NoWorkersError: where nobody came in time.
        """
        deadline_ns = self._clock() + int(self.limits.worker_wait_s * SECOND)
        self._crew.share_out(users)
        while not self._interrupted and self._clock() < deadline_ns:
            if self._have_all(users, expected):
                break
            self._turn(_WAIT_S)
        if not self._interrupted:
            self._judge(users, expected)

    def _have_all(self, users: int, expected: int | None) -> bool:
        if expected:
            return len(self.roster.workers) >= expected
        settled = self._clock() - self._crew.newest_hello_ns > _SETTLED_NS
        return settled and self.roster.concurrency >= users

    def _judge(self, users: int, expected: int | None) -> None:
        """Whether those who came are enough: an error, or a warning, where not."""
        refused = "; ".join(self.roster.refused.values())
        because = f" ({refused})" if refused else ""
        here = len(self.roster.workers)
        if not here:
            raise NoWorkersError(
                f"no worker came within {self.limits.worker_wait_s:g} s to ports"
                f" {self._wire.ports.work}, {self._wire.ports.results} and"
                f" {self._wire.ports.control} of {self._wire.ip}{because}; start"
                f" ssbench-worker processes {self._wire.key_words}, or give --workers N"
            )
        if expected and here < expected:
            self._warn(f"Only {here} of {expected} workers came{because}; going on with them")
        if self.roster.concurrency < users:
            self._warn(
                f"The workers can be {self.roster.concurrency} users together, not {users};"
                " going on with so many (ssbench-worker -c sets how many one can be)"
            )

    def run_phase(
        self,
        phase: Phase,
        workload: Workload,
        users: int,
        seconds: float | None = None,
        *,
        stages: Sequence[Stage] = (),
        settling: Settling | None = None,
        title: str = "",
    ) -> PhaseOutcome:
        """Have the workers do a workload; returns when its last result is in, or it was stopped.

        :param seconds: stop sending after so long; None: until the workload is finished.
        :param stages: parts with users of their own, which say how long it takes.
        :param settling: says when the rate has been steady for long enough to end it.
        """
        number, batch = self._numbers
        dispatcher = Dispatcher(
            workload, self.roster, self.limits.max_batch, next_number=number, next_batch=batch
        )
        self._dispatcher, self._settling = dispatcher, settling
        self._crew.enter(phase, live=self._observer.wants_latencies and phase is Phase.RUN)
        course = Course(stages or [Stage(math.inf if seconds is None else seconds, users)])
        self._watch = Watch(workload.total, seconds)
        self._observer.start_phase(phase, workload.total, title)
        try:
            self._announce(course.stage.users or users)
            started_ns = self._clock() + (LEAD_NS if workload.ahead else 0)
            if self.roster.workers or not self._alone_since_ns:
                self._alone_since_ns = started_ns  # else they are waited for since they left
            course.begin(started_ns)
            if settling:
                settling.begin(started_ns)
            workload.begin(started_ns / SECOND, started_ns - self._crew.start_ns)
            self._mark("stage", course)
            ended, reason = self._loop(dispatcher, course)
            took_s = max(self._clock() - started_ns, 0) / SECOND
        finally:
            self._end_phase(dispatcher)
        if ended == "complete" and workload.exhausted:
            ended, reason = "exhausted", workload.exhausted
        never = workload.never_started(course.over_ns / SECOND)
        return PhaseOutcome(dispatcher.counts, took_s, ended, reason, dispatcher.example, never)

    def _end_phase(self, dispatcher: Dispatcher) -> None:
        self._show(self._clock())
        dispatcher.close()
        self._hosts.leave()
        self._observer.end_phase()
        self._numbers = (dispatcher.next_number, dispatcher.next_batch)
        self._refused += dispatcher.counts.refused
        self._dispatcher = None
        self._pending.clear()
        self._crew.enter(Phase.IDLE)

    def dismiss(self, *, quit_: bool = False) -> None:
        """The run is over: tell the workers to wait for the next one, or to end."""
        self._crew.quit = quit_
        self._crew.share_out(0)
        self._crew.send_beat()
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
            self._turn(_WAIT_S)
            if self.roster.workers or len(left) > gone:
                quiet_since_ns = self._clock()
            elif self._clock() - quiet_since_ns > _SETTLED_NS:
                break
        self._crew.tell_strangers(last=True)
        return list(left), [worker.name for worker in self.roster.workers.values()]

    # The loop -----------------------------------------------------------------------------

    def _announce(self, users: int) -> None:
        """Begin a phase: tell all, and wait until they are connected to the store."""
        crew = self._crew
        crew.share_out(users)
        crew.start_ns = self._clock()
        self.keeping.write(PhaseRecord(crew.phase, time.time(), users))
        self._hosts.enter(self.settings.run_id, crew.phase, crew.start_ns)
        self._next_tick_ns = crew.start_ns
        deadline_ns = crew.start_ns + int((self.limits.connect_timeout_s + 5) * SECOND)
        crew.send_beat()
        while not self._interrupted_now() and self._clock() < deadline_ns:
            self._turn(_WAIT_S)
            if crew.ready() if self.roster.workers else self._deserted():
                break

    def _interrupted_now(self) -> bool:
        return bool(self._interrupted) and self._crew.phase is not Phase.CLEANUP

    def _mark(self, name: str, course: Course) -> None:
        """Note what begins, or ends; in the run, also in the stat file."""
        at_ns, stage = course.began_ns, course.stage
        if name == "end":
            at_ns = course.over_ns = self._clock()
        if self._crew.phase is Phase.RUN:
            users = stage.users or self.roster.users
            offset_ns = at_ns - self._crew.start_ns
            self.keeping.write(MarkRecord(offset_ns, name, course.index, users, stage.rate))

    def _enter_stage(self, course: Course) -> None:
        users = course.stage.users
        if users is not None and users != self.roster.users:
            self._crew.share_out(users)
        self._mark("stage", course)

    def _loop(self, dispatcher: Dispatcher, course: Course) -> tuple[str, str]:
        """Until the phase is over; gives how it ended and why."""
        ended, reason = "complete", ""
        drain_until_ns = 0
        while not self._over(dispatcher):
            now_ns = self._clock()
            if not dispatcher.stopping:
                why = self._why_stop(now_ns, course.end_ns)
                if why is None and course.advance(now_ns):
                    self._enter_stage(course)
                if why is not None:
                    ended, reason = why
                    self._mark("end", course)
                    dispatcher.stop()
                    self._pending.clear()
                    self._crew.news = True
                    drain_until_ns = now_ns + int(self.limits.drain_timeout_s * SECOND)
            elif now_ns > drain_until_ns:
                self._warn(
                    f"{dispatcher.held} operations did not end within"
                    f" {self.limits.drain_timeout_s:g} s; they count as lost"
                )
                break
            self._send_jobs(dispatcher, now_ns)
            next_ns = None if dispatcher.stopping else course.next_ns
            left_ns = SECOND if next_ns is None else next_ns - now_ns
            self._turn(min(_WAIT_S, left_ns / SECOND))
        if not dispatcher.stopping:
            self._mark("end", course)
        return ended, reason

    def _why_stop(self, now_ns: int, end_ns: int | None) -> tuple[str, str] | None:
        """How and why the phase must stop now; None where it goes on."""
        if self._interrupted_now():
            return "interrupted", self._interrupted
        if self.keeping.error and self._crew.phase is not Phase.CLEANUP:
            return "failed", str(self.keeping.error)
        if self.roster.workers:
            self._alone_since_ns = now_ns
        elif self._deserted():
            return "failed", "all workers are gone"
        if end_ns is not None and now_ns >= end_ns:
            return "complete", ""
        return self._why_enough(now_ns) or self._why_give_up(now_ns)

    def _why_enough(self, now_ns: int) -> tuple[str, str] | None:
        if self._settling is None or self._dispatcher is None:
            return None
        steady = self._settling.heard(now_ns, self._dispatcher.counts.done)
        return ("complete", steady) if steady else None

    def _deserted(self) -> bool:
        """Whether those who left have been waited for; in a former phase, too."""
        alone_ns = self._clock() - self._alone_since_ns
        return bool(self._alone_since_ns) and alone_ns > self.limits.worker_wait_s * SECOND

    def _why_give_up(self, now_ns: int) -> tuple[str, str] | None:
        dispatcher, crew = self._dispatcher, self._crew
        if dispatcher is None:
            return None
        if crew.phase is Phase.RUN:
            reason = too_many_errors(dispatcher, self.limits.max_consecutive_errors)
        else:
            timeout_s = self.settings.network_timeout_s
            reason = why_give_up(crew.phase, dispatcher, crew.start_ns, now_ns, timeout_s)
        return ("failed", reason) if reason else None

    def _over(self, dispatcher: Dispatcher) -> bool:
        if not dispatcher.finished:
            return False
        return not dispatcher.stopping or self._crew.ready(stopped=True)

    def _send_jobs(self, dispatcher: Dispatcher, now_ns: int) -> None:
        pending, send = self._pending, self._wire.send_jobs
        if not pending:
            run, phase = self.settings.run_id, self._crew.phase
            pending.extend(
                encode(Jobs(run, phase, batch.number, now_ns, pack_jobs(batch.jobs)))
                for batch in dispatcher.to_send(now_ns, _SENDS_A_TURN)
            )
        while pending and send(pending[0]):
            pending.popleft()

    def _turn(self, wait_s: float) -> None:
        """Once round: a beat if one is due, then whatever arrives within the wait."""
        crew, dispatcher = self._crew, self._dispatcher
        if dispatcher:
            crew.ending, crew.stopping = dispatcher.ending, dispatcher.stopping
        # So that the tick is late only where the loop is, or by the millisecond of a poll.
        left_s = (self._next_tick_ns - self._clock() + _POLL_NS) / SECOND
        for event in crew.turn(min(wait_s, left_s), or_room=bool(self._pending)):
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
        elif self._dispatcher:
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
        if self._dispatcher and self._dispatcher.tick(now_ns):
            self._crew.news = True
        self.keeping.tick(now_ns / SECOND)
        if now_ns >= self._next_show_ns:
            self._show(now_ns)

    def _show(self, now_ns: int) -> None:
        self._next_show_ns = now_ns + _SHOW_NS
        if self._dispatcher:
            counts = self._dispatcher.counts
            self._observer.update(
                self._watch.progress(
                    (now_ns - self._crew.start_ns) / SECOND,
                    counts.done + counts.failed,
                    counts.failed,
                    len(self.roster.workers),
                    self.roster.shared,
                )
            )

    # What the crew passes on --------------------------------------------------------------

    def _refuse(self, event: Any) -> None:
        self._refused += 1

    def _on_came(self, came: Came) -> None:
        worker = came.worker
        log.info("Worker %s is here, for up to %d users", worker.name, worker.hello.concurrency)
        self._record_worker(worker)

    def _record_worker(self, worker: Worker) -> None:
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
            self._hosts.heard(worker, host)

    def _on_pulse(self, pulse: Pulse) -> None:
        self._hosts.check_clock(self.roster.workers[pulse.incarnation])
        self._watch.heard((self._clock() - self._crew.start_ns) / SECOND, pulse.live)

    def _on_took(self, took: Took) -> None:
        if self._dispatcher and took.run == self.settings.run_id:
            self._dispatcher.took(took.incarnation, took.batches, self._clock())

    def _on_results(self, results: Results) -> None:
        worker = self.roster.workers.get(results.incarnation)
        dispatcher = self._dispatcher
        here = (self.settings.run_id, self._crew.phase)
        if dispatcher is None or worker is None or (results.run, results.phase) != here:
            self._refused += 1
            return
        if results.took:
            dispatcher.took(results.incarnation, results.took, self._clock())
        packed = dispatcher.results(results.incarnation, results.packed, self._clock())
        if packed is None:
            return
        self.keeping.append_results(self._crew.phase, worker.index, results.packed)
        if self._observer.wants_results and self._crew.phase is Phase.RUN:
            self._display(packed)

    def _display(self, packed: Sequence[Any]) -> None:
        try:
            columns = [unpack_column(packed[i], packed[0]) for i in _SHOWN]
        except MessageError as error:
            log.warning("Results that can't be shown: %s", error)
            return
        self._observer.results(columns)

    def _on_returned(self, returned: Returned) -> None:
        if self._dispatcher and returned.run == self.settings.run_id:
            self._dispatcher.returned(returned.incarnation, returned.numbers)

    def _on_gone(self, gone: Gone) -> None:
        """Account for what a worker held."""
        name, dispatcher = gone.worker.name, self._dispatcher
        jobs = dispatcher.gone(gone.worker.hello.incarnation) if dispatcher else 0
        if gone.left and not jobs:
            # In a phase its users are missing from here on.
            tell = self._warn if dispatcher else log.info
            tell(f"Worker {name} left: {gone.reason}")
            return
        if dispatcher:
            self.workers_lost.append(name)
        self._warn(f"Lost worker {name}: {gone.reason}; {jobs} operations were lost with it")
