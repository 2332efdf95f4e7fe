"""The master: drives core.dispatch over the wire, phase by phase.

One plain loop, without an event library: send what is due, poll, take in what arrived, and once a
second say in a beat how things stand. What is decided is decided in core.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ssbench.core.columns import pack_jobs, unpack_column
from ssbench.core.dispatch import Dispatcher
from ssbench.core.errors import MessageError, NoWorkersError, StatFileError
from ssbench.core.messages import Jobs, Pulse, Results, Returned, Took, encode
from ssbench.core.model import Phase, Result
from ssbench.core.records import PhaseRecord, Record, WorkerRecord
from ssbench.core.roster import SECOND
from ssbench.core.settings import StorageSettings
from ssbench.core.watch import Watch
from ssbench.core.workload import Workload
from ssbench.crew import Came, Crew, Gone
from ssbench.phases import Limits, Observer, PhaseOutcome, Recorder
from ssbench.wire import MasterWire

log = logging.getLogger(__name__)

_TICK_NS = SECOND // 20
_SHOW_NS = SECOND // 4
_SENDS_A_TURN = 64
_WAIT_S = 0.05
#: When to give up populating or cleaning up: failures without a success between, or, of DELETEs,
#: so many network time-outs without an answer.
_FAILURES_IN_A_ROW = 20
_TIMEOUTS_OF_SILENCE = 3
#: Without --workers or --expect-workers: nobody new for this long means that all are here.
_SETTLED_NS = 2 * SECOND
_SHOWN = [1 + Result._fields.index(name) for name in
          ("operation", "error", "first_byte_ns", "last_byte_ns")]  # fmt: skip


class Master:
    """Runs phases with whoever connects.

    :param warn: called with what the user must know; None: the observer's message.
    :param renew: gives a fresh token and its serial; called in a thread of its own when the store
        refuses the present one. May raise AuthError.
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
    ) -> None:
        self.limits = limits or Limits()
        self.workers_lost: list[str] = []
        self.refused = 0
        self.record_error: StatFileError | None = None
        self._wire = wire
        self._observer = observer
        self._recorder = recorder
        self._warn = warn or observer.message
        self._clock = clock
        self._crew = Crew(wire, settings, self.limits, renew=renew, warn=self._warn, clock=clock)
        self.roster = self._crew.roster
        self._dispatcher: Dispatcher | None = None
        self._watch = Watch(None, None)
        self._pending: bytes | None = None
        self._interrupted = self._told_interrupt = ""
        self._next_tick_ns = self._next_show_ns = 0
        self._alone_since_ns = 0
        self._numbers = (1, 1)  # of the next job and batch
        self._on: Mapping[type, Callable[[Any], None]] = {
            Came: self._on_came,
            Gone: self._on_gone,
            Pulse: self._on_pulse,
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
    def interrupted(self) -> str:
        """Why the run was interrupted; "" where it wasn't."""
        return self._interrupted

    # What one does with it ----------------------------------------------------------------

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
        title: str = "",
    ) -> PhaseOutcome:
        """Have the workers do a workload; returns when its last result is in, or it was stopped.

        :param seconds: stop sending after so long; None: until the workload is finished.
        """
        number, batch = self._numbers
        dispatcher = Dispatcher(
            workload, self.roster, self.limits.max_batch, next_number=number, next_batch=batch
        )
        self._dispatcher = dispatcher
        self._crew.enter(phase, live=self._observer.wants_latencies and phase is Phase.RUN)
        self._watch = Watch(workload.total, seconds)
        self._observer.start_phase(phase, workload.total, title)
        try:
            self._announce(users)
            started_ns = self._clock()
            if self.roster.workers or not self._alone_since_ns:
                self._alone_since_ns = started_ns  # else they are waited for since they left
            end_ns = None if seconds is None else started_ns + int(seconds * SECOND)
            ended, reason = self._loop(dispatcher, end_ns)
            took_s = (self._clock() - started_ns) / SECOND
        finally:
            self._end_phase(dispatcher)
        if ended == "complete" and workload.exhausted:
            ended, reason = "exhausted", workload.exhausted
        return PhaseOutcome(dispatcher.counts, took_s, ended, reason, dispatcher.example)

    def _end_phase(self, dispatcher: Dispatcher) -> None:
        self._show(self._clock())
        dispatcher.close()
        self._observer.end_phase()
        self._numbers = (dispatcher.next_number, dispatcher.next_batch)
        self.refused += dispatcher.counts.refused
        self._dispatcher = self._pending = None
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
        self._record(PhaseRecord(crew.phase, time.time(), users))
        deadline_ns = crew.start_ns + int((self.limits.connect_timeout_s + 5) * SECOND)
        crew.send_beat()
        while not self._interrupted_now() and self._clock() < deadline_ns:
            self._turn(_WAIT_S)
            if crew.ready() if self.roster.workers else self._deserted():
                break

    def _interrupted_now(self) -> bool:
        return bool(self._interrupted) and self._crew.phase is not Phase.CLEANUP

    def _loop(self, dispatcher: Dispatcher, end_ns: int | None) -> tuple[str, str]:
        """Until the phase is over; gives how it ended and why."""
        ended, reason = "complete", ""
        drain_until_ns = 0
        while not self._over(dispatcher):
            now_ns = self._clock()
            if not dispatcher.stopping:
                why = self._why_stop(now_ns, end_ns)
                if why is not None:
                    ended, reason = why
                    dispatcher.stop()
                    self._pending, self._crew.news = None, True
                    drain_until_ns = now_ns + int(self.limits.drain_timeout_s * SECOND)
            elif now_ns > drain_until_ns:
                self._warn(
                    f"{dispatcher.held} operations did not end within"
                    f" {self.limits.drain_timeout_s:g} s; they count as lost"
                )
                break
            self._send_jobs(dispatcher, now_ns)
            left_ns = end_ns - now_ns if end_ns is not None and not dispatcher.stopping else SECOND
            self._turn(min(_WAIT_S, left_ns / SECOND))
        return ended, reason

    def _why_stop(self, now_ns: int, end_ns: int | None) -> tuple[str, str] | None:
        """How and why the phase must stop now; None where it goes on."""
        if self._interrupted_now():
            return "interrupted", self._interrupted
        if self.record_error and self._crew.phase is not Phase.CLEANUP:
            return "failed", str(self.record_error)
        if self.roster.workers:
            self._alone_since_ns = now_ns
        elif self._deserted():
            return "failed", "all workers are gone"
        if end_ns is not None and now_ns >= end_ns:
            return "complete", ""
        return self._why_give_up(now_ns)

    def _deserted(self) -> bool:
        """Whether those who left have been waited for; in a former phase, too."""
        alone_ns = self._clock() - self._alone_since_ns
        return bool(self._alone_since_ns) and alone_ns > self.limits.worker_wait_s * SECOND

    def _why_give_up(self, now_ns: int) -> tuple[str, str] | None:
        """Around the run nobody gains by trying a dead store object by object; in it, the user
        says how many failures are too many."""
        dispatcher = self._dispatcher
        if dispatcher is None:
            return None
        if self._crew.phase is Phase.RUN:
            return self._too_many_errors(dispatcher)
        in_a_row = dispatcher.failures_in_a_row
        if in_a_row >= max(self.roster.shared, _FAILURES_IN_A_ROW):
            return "failed", f"{in_a_row} operations failed in a row: {dispatcher.example}"
        # A DELETE is over in no time, or it isn't over for minutes, retries and all.
        patience_s = _TIMEOUTS_OF_SILENCE * self.settings.network_timeout_s
        silent_s = (now_ns - max(dispatcher.done_ns, self._crew.start_ns)) / SECOND
        if self._crew.phase is Phase.CLEANUP and silent_s > patience_s:
            return "failed", f"the store has deleted nothing for {patience_s:g} s"
        return None

    def _too_many_errors(self, dispatcher: Dispatcher) -> tuple[str, str] | None:
        most = self.limits.max_consecutive_errors
        if most is None or dispatcher.most_failures_in_a_row < most:
            return None
        what = "an operation" if most == 1 else f"{most} operations in a row"
        return "failed", f"stopped early, as told: {what} failed: {dispatcher.example}"

    def _over(self, dispatcher: Dispatcher) -> bool:
        if not dispatcher.finished:
            return False
        return not dispatcher.stopping or self._crew.ready(stopped=True)

    def _send_jobs(self, dispatcher: Dispatcher, now_ns: int) -> None:
        for _ in range(_SENDS_A_TURN):
            if self._pending is None:
                batch = dispatcher.to_send(now_ns)
                if batch is None:
                    return
                self._pending = encode(
                    Jobs(
                        self.settings.run_id, self._crew.phase, batch.number, now_ns,
                        pack_jobs(batch.jobs),
                    )
                )  # fmt: skip
            if not self._wire.send_jobs(self._pending):
                return
            self._pending = None

    def _turn(self, wait_s: float) -> None:
        """Once round: a beat if one is due, then whatever arrives within the wait."""
        crew, dispatcher = self._crew, self._dispatcher
        if dispatcher:
            crew.ending, crew.stopping = dispatcher.ending, dispatcher.stopping
        for event in crew.turn(wait_s, or_room=self._pending is not None):
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
        self._next_tick_ns = now_ns + _TICK_NS
        for event in self._crew.tick(now_ns):
            self._on.get(type(event), self._refuse)(event)
        if self._dispatcher and self._dispatcher.tick(now_ns):
            self._crew.news = True
        if self._recorder and not self.record_error:
            self._keep(self._recorder.tick, now_ns / SECOND)
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

    # Keeping ------------------------------------------------------------------------------

    def _record(self, record: Record) -> None:
        if self._recorder and not self.record_error:
            self._keep(self._recorder.write, record)

    def _keep(self, write: Callable[..., None], *args: object) -> None:
        """Write to the stat file. When that fails the run ends, but in good order."""
        try:
            write(*args)
        except StatFileError as error:
            self.record_error = error
            self._warn(str(error))

    # What the crew passes on --------------------------------------------------------------

    def _refuse(self, event: Any) -> None:
        self.refused += 1

    def _on_came(self, came: Came) -> None:
        worker, hello = came.worker, came.worker.hello
        log.info("Worker %s is here, for up to %d users", worker.name, hello.concurrency)
        self._record(
            WorkerRecord(
                worker.index, hello.worker_id, hello.host, hello.pid, hello.concurrency,
                hello.version,
            )
        )  # fmt: skip

    def _on_pulse(self, pulse: Pulse) -> None:
        self._watch.heard((self._clock() - self._crew.start_ns) / SECOND, pulse.live)

    def _on_took(self, took: Took) -> None:
        if self._dispatcher and took.run == self.settings.run_id:
            self._dispatcher.took(took.incarnation, took.batches, self._clock())

    def _on_results(self, results: Results) -> None:
        worker = self.roster.workers.get(results.incarnation)
        dispatcher = self._dispatcher
        here = (self.settings.run_id, self._crew.phase)
        if dispatcher is None or worker is None or (results.run, results.phase) != here:
            self.refused += 1
            return
        if results.took:
            dispatcher.took(results.incarnation, results.took, self._clock())
        packed = dispatcher.results(results.incarnation, results.packed, self._clock())
        if packed is None:
            return
        if self._recorder and not self.record_error:
            self._keep(
                self._recorder.append_results, self._crew.phase, worker.index, results.packed
            )
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
