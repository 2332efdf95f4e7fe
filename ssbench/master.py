"""The master: drives core.dispatch over the wire, phase by phase.

One plain loop, without an event library: send what is due, poll, take in what arrived, and once a
second say in a beat how things stand. What is decided is decided in core.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ssbench.core.columns import pack_jobs, unpack_column
from ssbench.core.dispatch import MAX_BATCH, Counts, Dispatcher
from ssbench.core.errors import AuthError, MessageError, NoWorkersError, StatFileError
from ssbench.core.live import RunProgress
from ssbench.core.messages import (
    Beat,
    Bye,
    Expired,
    Hello,
    Jobs,
    Pulse,
    Ready,
    Results,
    Returned,
    Took,
    encode,
)
from ssbench.core.model import Phase, Result
from ssbench.core.records import PhaseRecord, Record, WorkerRecord
from ssbench.core.roster import SECOND, Roster, Worker
from ssbench.core.settings import StorageSettings
from ssbench.core.watch import Watch
from ssbench.core.workload import Workload
from ssbench.wire import MasterWire

log = logging.getLogger(__name__)

_BEAT_NS = SECOND
#: Beats within a worker time-out, at least: workers stop where half of it brought none.
_BEATS_A_TIMEOUT = 8
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
_RENEWAL_NS = SECOND  # at most one new token in so long
_SHOWN = [1 + Result._fields.index(name) for name in
          ("operation", "error", "first_byte_ns", "last_byte_ns")]  # fmt: skip


class Observer(Protocol):
    """Who watches a run: cli.progress."""

    wants_results: bool
    wants_latencies: bool  #: progress with p50 and p99

    def start_phase(self, phase: Phase, total: int | None = None, title: str = "") -> None:
        """A phase begins."""

    def results(self, columns: Sequence[Sequence[int]]) -> None:
        """Columns operation, error, first_byte_ns, last_byte_ns, where wants_results."""

    def update(self, progress: RunProgress) -> None:
        """Where the phase stands."""

    def message(self, text: str) -> None:
        """Something that the user should know."""

    def end_phase(self) -> None:
        """It is over."""


class Recorder(Protocol):
    """What keeps results: statfile.StatFileWriter."""

    def write(self, record: Record) -> None:
        """Keep a record."""

    def append_results(self, phase: Phase, worker: int, packed: bytes) -> None:
        """Keep packed results."""

    def tick(self, now_s: float) -> None:
        """Time passes: a good moment to write."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long, and how much at once."""

    worker_timeout_s: float = 10.0
    worker_wait_s: float = 30.0
    operation_timeout_s: float = 0.0  #: 0: none
    drain_timeout_s: float = 30.0
    connect_timeout_s: float = 10.0
    max_batch: int = MAX_BATCH


@dataclass(frozen=True, slots=True)
class PhaseOutcome:
    """How a phase went."""

    counts: Counts
    seconds: float
    ended: str  #: "complete", "interrupted", "failed", "exhausted": RunFooter's words
    reason: str = ""
    example: str = ""  #: detail of an error, where there were any

    @classmethod
    def nothing(cls, ended: str, reason: str) -> PhaseOutcome:
        """A phase that never began."""
        return cls(Counts(), 0.0, ended, reason)


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
        self.roster = Roster(self.limits.worker_timeout_s)
        self.settings = settings
        self.workers_lost: list[str] = []
        self.refused = 0
        self.record_error: StatFileError | None = None
        self._id = random.SystemRandom().getrandbits(63)
        self._wire = wire
        self._observer = observer
        self._recorder = recorder
        self._warn = warn or observer.message
        self._renewal = _Renewal(renew) if renew else None
        self._renewal_fault = ""
        self._clock = clock
        self._dispatcher: Dispatcher | None = None
        self._watch = Watch(None, None)
        self._phase = Phase.IDLE
        self._start_ns = 0
        self._pending: bytes | None = None
        self._beat_ns = min(_BEAT_NS, self.roster.timeout_ns // _BEATS_A_TIMEOUT)
        self._interrupted = ""
        self._quit = False
        self._left: dict[str, None] = {}  # names of those that are gone, in order
        self._news = True  # a beat is due at once
        self._next_beat_ns = self._next_tick_ns = self._next_show_ns = 0
        self._newest_hello_ns = self._alone_since_ns = 0
        self._numbers = (1, 1)  # of the next job and batch
        self._on: Mapping[type, Callable[..., None]] = {
            Hello: self._on_hello,
            Pulse: self._on_pulse,
            Ready: self._on_ready,
            Took: self._on_took,
            Results: self._on_results,
            Returned: self._on_returned,
            Expired: self._on_expired,
            Bye: self._on_bye,
        }

    def __repr__(self) -> str:
        return f"<Master {self._phase.name} {self.roster} {self._dispatcher}>"

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
        self._share_out(users)
        while not self._interrupted and self._clock() < deadline_ns:
            if self._have_all(users, expected):
                break
            self._turn(_WAIT_S)
        if self._interrupted:
            return
        refused = "; ".join(self.roster.refused.values())
        because = f" ({refused})" if refused else ""
        here = len(self.roster.workers)
        if not here:
            raise NoWorkersError(
                f"no worker came within {self.limits.worker_wait_s:g} s to ports"
                f" {self._wire.ports.work}, {self._wire.ports.results} and"
                f" {self._wire.ports.control} of {self._wire.ip}{because};"
                " start ssbench-worker processes, or give --workers N"
            )
        if expected and here < expected:
            self._warn(f"Only {here} of {expected} workers came{because}; going on with them")
        if self.roster.concurrency < users:
            self._warn(
                f"The workers can be {self.roster.concurrency} users together, not {users};"
                " going on with so many (ssbench-worker -c sets how many one can be)"
            )

    def _have_all(self, users: int, expected: int | None) -> bool:
        if expected:
            return len(self.roster.workers) >= expected
        settled = self._clock() - self._newest_hello_ns > _SETTLED_NS
        return settled and self.roster.concurrency >= users

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
        self._dispatcher, self._phase = dispatcher, phase
        self._watch = Watch(workload.total, seconds)
        self._observer.start_phase(phase, workload.total, title)
        try:
            self._announce(users)
            started_ns = self._alone_since_ns = self._clock()
            end_ns = None if seconds is None else started_ns + int(seconds * SECOND)
            ended, reason = self._loop(dispatcher, end_ns)
            took_s = (self._clock() - started_ns) / SECOND
        finally:
            self._show(self._clock())
            dispatcher.close()
            self._observer.end_phase()
            self._numbers = (dispatcher.next_number, dispatcher.next_batch)
            self.refused += dispatcher.counts.refused
            self._dispatcher, self._pending, self._phase = None, None, Phase.IDLE
            self._news = True
        if ended == "complete" and workload.exhausted:
            ended, reason = "exhausted", workload.exhausted
        return PhaseOutcome(dispatcher.counts, took_s, ended, reason, dispatcher.example)

    def dismiss(self, *, quit_: bool = False) -> None:
        """The run is over: tell the workers to wait for the next one, or to end."""
        self._quit = quit_
        self._share_out(0)
        self._send_beat(self._clock())

    def kill_workers(self, patience_s: float) -> tuple[list[str], list[str]]:
        """End all workers that can be reached; gives the names of those gone, and still here."""
        self._quit = True
        self._left.clear()
        deadline_ns = self._clock() + int(patience_s * SECOND)
        quiet_since_ns = self._clock()
        while self._clock() < deadline_ns and not self._interrupted:
            gone = len(self._left)
            self._turn(_WAIT_S)
            if self.roster.workers or len(self._left) > gone:
                quiet_since_ns = self._clock()
            elif self._clock() - quiet_since_ns > _SETTLED_NS:
                break
        return list(self._left), [worker.name for worker in self.roster.workers.values()]

    # The loop -----------------------------------------------------------------------------

    def _announce(self, users: int) -> None:
        """Begin a phase: tell all, and wait until they are connected to the store."""
        self._share_out(users)
        self._start_ns = self._clock()
        self._record(PhaseRecord(self._phase, time.time(), users))
        deadline_ns = self._start_ns + int((self.limits.connect_timeout_s + 5) * SECOND)
        self._send_beat(self._clock())
        while not self._interrupted_now() and self._clock() < deadline_ns:
            self._turn(_WAIT_S)
            if self.roster.workers and self.roster.all_ready(self.settings.run_id, self._phase):
                break

    def _interrupted_now(self) -> bool:
        return bool(self._interrupted) and self._phase is not Phase.CLEANUP

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
                    self._pending, self._news = None, True
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
        if self.record_error and self._phase is not Phase.CLEANUP:
            return "failed", str(self.record_error)
        if self.roster.workers:
            self._alone_since_ns = now_ns
        elif now_ns - self._alone_since_ns > self.limits.worker_wait_s * SECOND:
            return "failed", "all workers are gone"
        if end_ns is not None and now_ns >= end_ns:
            return "complete", ""
        return self._why_give_up(now_ns)

    def _why_give_up(self, now_ns: int) -> tuple[str, str] | None:
        """Around the run nobody gains by trying a dead store object by object."""
        dispatcher = self._dispatcher
        if dispatcher is None or self._phase is Phase.RUN:
            return None
        in_a_row = dispatcher.failures_in_a_row
        if in_a_row >= max(self.roster.shared, _FAILURES_IN_A_ROW):
            return "failed", f"{in_a_row} operations failed in a row: {dispatcher.example}"
        # A DELETE is over in no time, or it isn't over for minutes, retries and all.
        patience_s = _TIMEOUTS_OF_SILENCE * self.settings.network_timeout_s
        silent_s = (now_ns - max(dispatcher.done_ns, self._start_ns)) / SECOND
        if self._phase is Phase.CLEANUP and silent_s > patience_s:
            return "failed", f"the store has deleted nothing for {patience_s:g} s"
        return None

    def _over(self, dispatcher: Dispatcher) -> bool:
        if not dispatcher.finished:
            return False
        return not dispatcher.stopping or self.roster.all_ready(
            self.settings.run_id, self._phase, stopped=True
        )

    def _send_jobs(self, dispatcher: Dispatcher, now_ns: int) -> None:
        for _ in range(_SENDS_A_TURN):
            if self._pending is None:
                batch = dispatcher.to_send(now_ns)
                if batch is None:
                    return
                self._pending = encode(
                    Jobs(
                        self.settings.run_id, self._phase, batch.number, now_ns,
                        pack_jobs(batch.jobs),
                    )
                )  # fmt: skip
            if not self._wire.send_jobs(self._pending):
                return
            self._pending = None

    def _turn(self, wait_s: float) -> None:
        """Once round: a beat if one is due, then whatever arrives within the wait."""
        now_ns = self._clock()
        if self._news or now_ns >= self._next_beat_ns:
            self._send_beat(now_ns)
        for message in self._wire.receive(wait_s, or_room=self._pending is not None):
            handler = self._on.get(type(message))
            if handler is None:
                self.refused += 1
            else:
                handler(message)
        now_ns = self._clock()
        if now_ns >= self._next_tick_ns:
            self._tick(now_ns)

    def _tick(self, now_ns: int) -> None:
        self._next_tick_ns = now_ns + _TICK_NS
        for worker in self.roster.overdue(now_ns):
            reason = f"no sign of life for {self.limits.worker_timeout_s:g} s"
            if not worker.beat:
                port = self._wire.ports.control
                reason += f" (can it reach port {port}, --zmq-control-port?)"
            self._part(worker, reason)
        if self._dispatcher and self._dispatcher.tick(now_ns):
            self._news = True
        if self._renewal:
            self._take_token()
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
                    (now_ns - self._start_ns) / SECOND,
                    counts.done + counts.failed,
                    counts.failed,
                    len(self.roster.workers),
                    self.roster.shared,
                )
            )

    def _share_out(self, users: int) -> None:
        self.roster.users = users
        self.roster.share_out()
        self._news = True

    def _send_beat(self, now_ns: int) -> None:
        self._news = False
        self._next_beat_ns = now_ns + self._beat_ns
        dispatcher = self._dispatcher
        running = self._phase is not Phase.IDLE
        self._wire.send_beat(
            Beat(
                self._id,
                self.roster.beat_sent(now_ns),
                now_ns,
                self.settings.run_id if running else "",
                self._phase,
                self._start_ns,
                self.roster.shares(),
                dict(self.roster.refused),
                self.settings.to_map() if running else {},
                float(self.limits.worker_timeout_s),
                float(self.limits.operation_timeout_s),
                self._wire.pipe,
                self._observer.wants_latencies and self._phase is Phase.RUN,
                bool(dispatcher and dispatcher.ending),
                bool(dispatcher and dispatcher.stopping),
                self._quit,
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

    # What workers say ---------------------------------------------------------------------

    def _on_hello(self, hello: Hello) -> None:
        worker, replaced = self.roster.greet(hello, self._clock())
        for other in replaced:
            self._lost(other, "it came back under a new incarnation")
        self._news = True
        if worker is None:
            return
        self._newest_hello_ns = self._clock()
        log.info("Worker %s is here, for up to %d users", worker.name, hello.concurrency)
        self._record(
            WorkerRecord(
                worker.index, hello.worker_id, hello.host, hello.pid, hello.concurrency,
                hello.version,
            )
        )  # fmt: skip

    def _on_pulse(self, pulse: Pulse) -> None:
        now_ns = self._clock()
        if self.roster.pulse(pulse, now_ns) is None:
            return
        self._watch.heard((now_ns - self._start_ns) / SECOND, pulse.live)

    def _on_ready(self, ready: Ready) -> None:
        worker = self.roster.workers.get(ready.incarnation)
        if worker:
            worker.ready = (ready.run, ready.phase, ready.stopped)

    def _on_took(self, took: Took) -> None:
        if self._dispatcher and took.run == self.settings.run_id:
            self._dispatcher.took(took.incarnation, took.batches, self._clock())

    def _on_results(self, results: Results) -> None:
        worker = self.roster.workers.get(results.incarnation)
        dispatcher = self._dispatcher
        here = (self.settings.run_id, self._phase)
        if dispatcher is None or worker is None or (results.run, results.phase) != here:
            self.refused += 1
            return
        if results.took:
            dispatcher.took(results.incarnation, results.took, self._clock())
        packed = dispatcher.results(results.incarnation, results.packed, self._clock())
        if packed is None:
            return
        if self._recorder and not self.record_error:
            self._keep(self._recorder.append_results, self._phase, worker.index, results.packed)
        if self._observer.wants_results and self._phase is Phase.RUN:
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

    def _on_expired(self, expired: Expired) -> None:
        if self._renewal and expired.token_serial == self.settings.token_serial:
            self._renewal.begin(self._clock())

    def _take_token(self) -> None:
        assert self._renewal is not None
        done = self._renewal.outcome()
        if done is None:
            return
        token, serial, fault = done
        if fault and fault != self._renewal_fault:  # it may come once a second
            self._warn(f"The token could not be renewed: {fault}")
        self._renewal_fault = fault
        # Also after a fault: a new serial lets the waiting operations try again, and fail.
        self.settings = replace(
            self.settings,
            token=token or self.settings.token,
            token_serial=max(serial, self.settings.token_serial + 1),
        )
        self._news = True

    def _on_bye(self, bye: Bye) -> None:
        worker = self.roster.workers.get(bye.incarnation)
        if worker:
            self._part(worker, bye.reason or "it ended", left=True)
        else:
            self.roster.leave(bye.incarnation)  # one that was refused

    def _part(self, worker: Worker, reason: str, *, left: bool = False) -> None:
        self.roster.leave(worker.hello.incarnation)
        # A worker may come and go within one turn of the loop, so it is noted here.
        self._left[worker.name] = None
        self._news = True
        self._lost(worker, reason, left=left)

    def _lost(self, worker: Worker, reason: str, *, left: bool = False) -> None:
        """A worker is gone: account for what it held."""
        jobs = self._dispatcher.gone(worker.hello.incarnation) if self._dispatcher else 0
        if left and not jobs:
            log.info("Worker %s left: %s", worker.name, reason)
            return
        if self._dispatcher:
            self.workers_lost.append(worker.name)
        self._warn(f"Lost worker {worker.name}: {reason}; {jobs} operations were lost with it")


class _Renewal:
    """Fetches a token in a thread of its own, since that may block."""

    def __init__(self, renew: Callable[[], tuple[str, int]]) -> None:
        self._renew = renew
        self._thread: threading.Thread | None = None
        self._outcome: tuple[str, int, str] | None = None
        self._not_before_ns = 0

    def begin(self, now_ns: int) -> None:
        """Fetch a token, unless that is under way or was just done."""
        if self._thread is None and now_ns >= self._not_before_ns:
            self._not_before_ns = now_ns + _RENEWAL_NS
            self._thread = threading.Thread(target=self._fetch, name="ssbench-token", daemon=True)
            self._thread.start()

    def _fetch(self) -> None:
        try:
            self._outcome = (*self._renew(), "")
        except AuthError as error:
            self._outcome = ("", 0, str(error))

    def outcome(self) -> tuple[str, int, str] | None:
        """Token, serial and what went wrong ("" for nothing); None while there is nothing new."""
        if self._thread is None or self._thread.is_alive():
            return None
        outcome, self._outcome = self._outcome, None
        self._thread = None
        return outcome or ("", 0, "the renewal failed")
