"""The master: a plain loop that drives its state machines over the transport.

It sends what is due, receives, and feeds ``Workers`` and ``PhaseMachine`` with messages and
times; once a second it broadcasts the control state.
"""

from __future__ import annotations

import logging
import os
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from msgspec.structs import replace

from ssbench import __version__
from ssbench.core.columns import unpack_column
from ssbench.core.dispatch.workers import (
    BYTES_OF_MESSAGE,
    Event,
    WorkerJoined,
    WorkerLeft,
    Workers,
    WorkerState,
)
from ssbench.core.errors import RejectedError, SsbenchError
from ssbench.core.live import Observer
from ssbench.core.messages import (
    Ack,
    Addresses,
    Bye,
    Expired,
    Heartbeat,
    Hello,
    Host,
    Leaving,
    Message,
    Network,
    NetworkCheck,
    Profiled,
    Ready,
    Results,
    Returned,
)
from ssbench.core.model import SECOND_NS, Phase, Result, WorkerExit
from ssbench.core.records import MASTER, AddressRecord, EventRecord, ProfileRecord, WorkerRecord
from ssbench.core.settings import Credentials, Limits, StorageSettings
from ssbench.core.text import plural, printable, said
from ssbench.host.live import HostLive
from ssbench.host.sampler import StackSampler
from ssbench.master.phase_machine import WAIT_S, PhaseMachine, PhaseOutcome, PhasePlan, PhaseState
from ssbench.master.recorder import HostMetricsRecorder, Recorder, SafeRecorder
from ssbench.master.worker_wait import ALL_JOINED_NS, FIRST_JOINED_NS, WorkerWait
from ssbench.transport.master_transport import MasterTransport

log = logging.getLogger(__name__)

_TICK_NS = SECOND_NS // 20
_SHOW_NS = SECOND_NS // 2
_MAX_RELEASES = 16  #: workers of another release that are named in warnings
_WORKERS_NAMED = 1000  #: at most, in warnings of a run and among its lost workers
PROFILES_NS = 5 * SECOND_NS  #: wait for the profiles of workers, at most
_POLL_NS = 999_999  #: polls take whole milliseconds
_SHOWN_COLUMNS = [1 + Result._fields.index(name) for name in
          ("operation", "error", "first_byte_ns", "last_byte_ns")]  # fmt: skip

_NAMED = {Ack: "batches", Returned: "numbers"}  #: batches or jobs that a message names


def random_numbers() -> Iterator[int]:
    """Numbers of 63 bits that nobody can guess, without end: a system call gives many."""
    while True:
        for number in struct.unpack("64Q", os.urandom(512)):
            yield number >> 1


class Children(Protocol):
    """Worker processes that were started for the master: LocalWorkers, SshWorkers."""

    def exits(self) -> list[WorkerExit]:
        """The processes that ended since the last call."""

    def all_gone(self) -> bool:
        """Whether all of them have ended, and no other worker can join."""


class Master:
    """Runs phases with the workers that join.

    :param observers: those that watch the run; they are called in this order.
    :param recorder: of the first run; ``begin_run`` gives that of each later one.
    :param renew: gives new credentials; called in a thread of its own before the present ones
        expire, or when the store rejects them. May raise AuthError.
    :param warn: called with what the user must know; None: the observers' ``message``.
    :param host: samples the master's machine, and is running.
    :param children: workers that were started for it; one that exits is given up at once.
    :param profile: sample where this process and the workers spend CPU time in a run phase, and
        record it; this process only if it runs the phase in its main thread.
    :param marks: gives what somebody marked since its last call.
    """

    def __init__(
        self,
        transport: MasterTransport,
        observers: Sequence[Observer],
        settings: StorageSettings,
        limits: Limits,
        *,
        recorder: Recorder | None = None,
        renew: Callable[[], Credentials] | None = None,
        warn: Callable[[str], None] | None = None,
        host: HostLive | None = None,
        children: Sequence[Children] = (),
        profile: bool = False,
        marks: Callable[[], Iterable[EventRecord]] = tuple,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self.workers_lost: list[str] = []
        self._transport = transport
        self._observers = observers
        self._displays = [observer for observer in observers if observer.wants_results]
        self._warn = warn or self._message
        self.recorder = SafeRecorder(recorder, self._warn)
        self._clock = clock
        self._children = children
        self._renewal = Renewal(renew, settings.newest, time.time()) if renew else None
        self.workers = Workers(
            settings,
            limits,
            master_id=next(random_numbers()),
            pipe=transport.pipe,
            control_port=transport.ports.control,
        )
        self._hosts = HostMetricsRecorder(host, self.recorder.write, self._warn_of_worker)
        self._phase: PhaseMachine | None = None
        self._profile = profile
        self._marks = marks
        self._profiled: set[int] = set()  # indexes of workers, in this run
        self._addresses: dict[tuple[int, Phase], tuple[str, ...]] = {}  # as in records, of this run
        self._needs_workers = False  # from when all have joined until they are released
        self._lost_between_runs: list[str] = []  # workers, since the last run's end
        self._other_releases: set[tuple[str, str, str]] = set()  # warned of: id, host, release
        self._rejected = 0  # messages of this run
        self._rejected_before = 0  # messages that the transport rejected before this run
        self._worker_warnings = 0
        self._interrupted = self._reported_interrupt = ""
        self._abort = False
        self._next_tick_ns = self._next_show_ns = 0
        self._next_number = 1  # of a job
        self._batch_numbers = random_numbers()
        self._network: Network | None = None  # the answer to the present check
        self._on = self._handlers()

    def _handlers(self) -> Mapping[type[Message], Callable[[Any, int], object]]:
        """What takes each type of message, with the time at which it was read."""
        return {
            Hello: self._on_worker_message,
            Heartbeat: self._on_heartbeat,
            Ready: self._on_ready,
            Host: self._on_host,
            Profiled: self._on_profiled,
            Addresses: self._on_addresses,
            Ack: self._on_phase_message,
            Results: self._on_results,
            Returned: self._on_phase_message,
            Expired: self._on_worker_message,
            Network: self._on_network,
            Leaving: self._on_worker_message,
            Bye: self._on_worker_message,
        }

    def __repr__(self) -> str:
        return f"<Master {self.workers.phase.name} {self.workers} {self._phase}>"

    @property
    def settings(self) -> StorageSettings:
        """What the workers open the store with; its credentials may have been renewed."""
        return self.workers.settings

    @property
    def rejected(self) -> int:
        """How many messages of this run were stale, malformed or impossible."""
        return self._rejected + self._transport.rejected - self._rejected_before

    def interrupt(self, reason: str) -> None:
        """Stop the present phase and every later one but the clean-up; from a signal handler.

        A second call ends the run at once: the next poll raises KeyboardInterrupt.
        """
        self._abort = bool(self._interrupted)
        self._interrupted = reason

    def begin_run(self, settings: StorageSettings, recorder: Recorder | None) -> None:
        """Begin another run with the workers that are here, and count from 0.

        :param settings: of the run; its credentials are ignored, as they may have been renewed.
        """
        credentials = self.workers.settings.credentials
        self.workers.settings = replace(settings, credentials=credentials)
        self.recorder.begin(recorder)
        self.workers_lost, self._lost_between_runs = self._lost_between_runs, []
        self._worker_warnings = 0
        self._profiled.clear()
        self._addresses.clear()
        self._rejected = 0
        self._rejected_before = self._transport.rejected
        for worker in self.workers.present.values():
            self._record_worker(worker)

    def keep_workers(self, until: Callable[[], bool]) -> None:
        """Keep the workers between two runs: they drop out if they receive nothing."""
        before = len(self.workers_lost)
        while not until():
            self._poll(WAIT_S)
        self._lost_between_runs += self.workers_lost[before:]
        del self.workers_lost[before:]

    def keep_workers_once(self) -> None:
        """Non-blocking ``keep_workers``; call it at least every 100 ms."""
        self._poll(0.0)

    def add_children(self, children: Children) -> None:
        """Watch workers that were started after this master."""
        self._children = (*self._children, children)

    def finds_worker(self) -> bool:
        """Whether a worker is there: one that waits for a master joins within seconds."""
        deadline_ns = self._clock() + FIRST_JOINED_NS
        while not self._interrupted and not self.workers.load_workers:
            left_ns = deadline_ns - self._clock()
            if left_ns <= 0:
                break
            self._show_wait(f"Looking for workers ({left_ns // SECOND_NS + 1} s left)")
            self._poll(WAIT_S)
        self._show_wait("")
        return bool(self.workers.load_workers)

    def wait_for_workers(self, users: int, expected: int | None) -> None:
        """Wait for this number of workers; without a number, for workers that can run all users.

        :raises NoWorkersError: if none, or fewer than expected, joined in time.
        """
        wait = WorkerWait(self.workers, self._transport, users, expected)
        deadline_ns = self._clock() + int(self.workers.limits.worker_wait_s * SECOND_NS)
        self.workers.allocate_users(users)
        while not self._interrupted:
            now_ns = self._clock()
            if now_ns >= deadline_ns or wait.complete(now_ns):
                break
            self._show_wait(wait.progress(deadline_ns - now_ns))
            self._poll(WAIT_S)
        self._show_wait("")
        if not self._interrupted:
            for line in wait.shortcomings():
                self._warn(line)
            self._needs_workers = True

    def run_phase(self, plan: PhasePlan) -> PhaseOutcome:
        """Run a phase; returns when its last result has arrived, or it was stopped."""
        profile = plan.phase is Phase.RUN and self._profile
        self.workers.enter(plan.phase, plan.think_s, profile=profile)
        counts = any(observer.wants_counts for observer in self._observers)
        machine = PhaseMachine(
            plan, self.workers, self._batch_numbers, next_number=self._next_number, counts=counts
        )
        self._phase = machine
        for observer in self._observers:
            observer.start_phase(plan.phase, plan.workload.total)
        sampler = StackSampler()
        try:
            sampled = profile and sampler.start()
            now_ns = self._next_tick_ns = self._clock()
            machine.announce(now_ns, time.time())
            self._write_records(machine)  # they come before those of its workers
            self._hosts.enter(self.settings.run_id, plan.phase, now_ns)
            while machine.state is PhaseState.CONNECTING:
                self._poll(WAIT_S)
                self._show_wait(machine.waiting_for)
            self._show_wait("")
            while machine.state is not PhaseState.OVER:
                self._poll(WAIT_S)
        finally:
            own = sampler.stop()
            self._end_phase(machine)
        if sampled:
            self.recorder.write(ProfileRecord(MASTER, *own))
        if profile:
            self._wait_for_profiles()
        return machine.outcome()

    def _wait_for_profiles(self) -> None:
        """The run phase is over: wait until all workers that are here have reported theirs."""
        deadline_ns = self._clock() + PROFILES_NS
        while self._clock() < deadline_ns:
            workers = self.workers.present.values()
            if all(w.metrics_only or w.index in self._profiled for w in workers):
                break
            self._poll(WAIT_S)

    def _end_phase(self, machine: PhaseMachine) -> None:
        self._show(self._clock())
        self._show_wait("")
        machine.close()
        self._check_machines()
        self._hosts.leave()
        for observer in self._observers:
            observer.end_phase()
        self._next_number = machine.dispatcher.next_number
        self._rejected += machine.dispatcher.counts.rejected
        self._phase = None
        self.workers.enter(Phase.IDLE)

    def release_workers(self) -> None:
        """The run is over: tell the workers to wait for the next one."""
        self._needs_workers = False
        self.workers.allocate_users(0)
        self.workers.ending = True
        state = self.workers.control_state(self._clock(), at_once=True)
        if state:
            self._transport.send_control_state(state)
        self._warn_of_rejected_peers(last=True)

    def kill_workers(self, timeout_s: float) -> tuple[list[str], list[str]]:
        """Make all reachable workers exit; returns the names of those that left, and of those
        that are still here."""
        self.workers.quit = True
        left = self.workers.departed
        left.clear()
        deadline_ns = self._clock() + int(timeout_s * SECOND_NS)
        quiet_since_ns = self._clock()
        while self._clock() < deadline_ns and not self._interrupted:
            before = len(left)
            self._poll(WAIT_S)
            quiet_ns = ALL_JOINED_NS if left else FIRST_JOINED_NS
            if self.workers.present or len(left) > before:
                quiet_since_ns = self._clock()
            elif self._clock() - quiet_since_ns > quiet_ns:
                break
        self._warn_of_rejected_peers(last=True)
        return list(left), [worker.name for worker in self.workers.present.values()]

    def gather_workers(self, expected: int | None) -> None:
        """Wait for this number of workers of any kind, at most ``worker_wait_s``; without a number,
        until no more join."""
        deadline_ns = self._clock() + int(self.workers.limits.worker_wait_s * SECOND_NS)
        quiet_since_ns = self._clock()
        while self._clock() < deadline_ns and not self._interrupted:
            joined = len(self.workers.present)
            if expected is not None and joined + self.workers.children_ended >= expected:
                break
            self._poll(WAIT_S)
            if len(self.workers.present) != joined:
                quiet_since_ns = self._clock()
            elif expected is None and self._clock() - quiet_since_ns > ALL_JOINED_NS:
                break

    def check_network(self, check: NetworkCheck, timeout_s: float) -> Network:
        """Make a worker measure a connection; returns its answer, or why there is none."""
        workers = self.workers
        workers.network, workers.state_changed, self._network = check, True, None
        deadline_ns = self._clock() + int(timeout_s * SECOND_NS)
        while self._network is None:
            if check.incarnation not in self.workers.present:
                fault = "the worker is gone"
            elif self._clock() >= deadline_ns:
                fault = f"no response of the worker within {timeout_s:.0f} s"
            else:
                self._poll(WAIT_S)
                continue
            self._network = Network(check.incarnation, check.number, None, fault)
        workers.network = None
        return self._network

    def _poll(self, wait_s: float) -> None:
        """Send what is due, receive for up to ``wait_s``, and tick.

        :raises KeyboardInterrupt: after a second interrupt.
        """
        if self._abort:
            raise KeyboardInterrupt(self._interrupted)
        workers, phase = self.workers, self._phase
        now_ns = self._clock()
        unsent = False
        if phase:
            if workers.closed_socket:
                workers.work_connections = self._transport.work_connections
            phase.step(now_ns)
            if phase.records:
                self._write_records(phase)  # a stage's mark comes before the results after it
            if phase.state is PhaseState.OVER:
                return
            wait_s = min(wait_s, phase.wait_s(now_ns))
            outbox, send = phase.outbox, self._transport.send_jobs
            while outbox and send(outbox[0]):  # as far as workers take them
                outbox.popleft()
            unsent = bool(outbox)
        state = workers.control_state(now_ns)
        if state:
            self._transport.send_control_state(state)
        # So that a tick is late only if the loop is, or by the millisecond of a poll.
        tick_s = (self._next_tick_ns - self._clock() + _POLL_NS) / SECOND_NS
        wait_s = min(wait_s, tick_s, workers.wait_s(now_ns))
        messages = self._transport.receive(wait_s, workers.secrets, or_writable=unsent)
        for message, size_bytes in messages:
            handler = self._on.get(type(message))
            if handler is None:
                self._rejected += 1
            elif self._admits(message, size_bytes):
                handler(message, self._clock())
        if self._interrupted != self._reported_interrupt:
            self._report_interrupt()
        now_ns = self._clock()
        if now_ns >= self._next_tick_ns:
            self._tick(now_ns)
        self._check_machines()

    def _admits(self, message: Any, size_bytes: int) -> bool:
        """Whether a worker may send this: it is present and can pay, or comes or goes.

        It pays for the message, the batches and jobs that it names, and its size; for that of
        results only if they are rejected.
        """
        kind, sender = type(message), message.incarnation
        if kind is Results:
            cost = 1 + len(message.acked)
        else:
            named = getattr(message, _NAMED[kind]) if kind in _NAMED else ()
            cost = 1 + len(named) + size_bytes // BYTES_OF_MESSAGE
        if self.workers.charge(sender, cost):
            return True
        stale = sender not in self.workers.present
        self._rejected += not stale or kind is Results
        return stale and kind in (Hello, Bye)

    def _write_records(self, phase: PhaseMachine) -> None:
        for record in phase.records:
            self.recorder.write(record)
        phase.records.clear()

    def _check_machines(self) -> None:
        """Show the machines' warnings, and abort the phase if the run must end."""
        phase, workers = self._phase, self.workers
        for machine in (workers, phase):
            if machine and machine.warnings:
                for line in machine.warnings:
                    self._warn(line)
                machine.warnings.clear()
        if phase and workers.phase is not Phase.CLEANUP:
            if self._interrupted:
                phase.abort("interrupted", self._interrupted)
            elif self.recorder.error:
                phase.abort("failed", str(self.recorder.error))

    def _report_interrupt(self) -> None:
        """Not in the signal's handler: it may have come in the middle of another line."""
        reason = self._reported_interrupt = self._interrupted
        if self.workers.phase is Phase.CLEANUP:
            self._message(f"{reason}: the clean-up continues; a second signal ends it at once")
        elif self._phase:
            self._message(
                f"{reason}: waiting for operations in flight, at most"
                f" {self.workers.limits.drain_timeout_s:g} s; a second signal ends it at once"
            )

    def _tick(self, now_ns: int) -> None:
        self._hosts.late(now_ns - self._next_tick_ns)
        self._hosts.tick()
        self._next_tick_ns = now_ns + _TICK_NS
        workers = self.workers
        for children in self._children:
            workers.children_exited(children.exits(), now_ns)
        workers.children_gone = bool(self._children) and all(
            children.all_gone() for children in self._children
        )
        self._handle(list(workers.tick(now_ns)))
        self._renew(now_ns)
        self._warn_of_rejected_peers()
        if self._phase:
            self._phase.tick(now_ns)
        for event in self._marks():
            self.recorder.write(event)
            for observer in self._observers:
                observer.mark(event)
        self.recorder.tick(now_ns / SECOND_NS)
        if now_ns >= self._next_show_ns:
            self._show(now_ns)

    def _renew(self, now_ns: int) -> None:
        if self._renewal:
            wall_ns = time.time_ns()
            if self.workers.renewal_wanted:
                self._renewal.begin(now_ns)
            self._renewal.begin_if_due(now_ns, wall_ns)
            outcome = self._renewal.outcome(self.settings.newest, wall_ns / SECOND_NS)
            if outcome is not None:
                self.workers.renewed(outcome, wall_ns)

    def _show(self, now_ns: int) -> None:
        self._next_show_ns = now_ns + _SHOW_NS
        if self._phase:
            progress = self._phase.progress(now_ns)
            for observer in self._observers:
                observer.update(progress)
            self._show_wait(self._phase.waiting_for)

    def _show_wait(self, text: str) -> None:
        for observer in self._observers:
            observer.wait_for(text)

    def _show_results(self, packed: Sequence[Any]) -> None:
        columns = [unpack_column(packed[i], packed[0]) for i in _SHOWN_COLUMNS]
        for observer in self._displays:
            observer.results(columns)

    def _message(self, text: str) -> None:
        for observer in self._observers:
            observer.message(text)

    def _on_results(self, results: Results, now_ns: int) -> None:
        phase = self._phase
        if phase is None:
            self._rejected += 1
        columns = phase.receive_results(results, now_ns) if phase else None
        if columns is None:
            self.workers.charge(results.incarnation, len(results.packed) // BYTES_OF_MESSAGE)
        else:
            worker = self.workers.present[results.incarnation]
            schema = worker.hello.schemas[results.schema]
            self.recorder.append_results(self.workers.phase, worker.index, schema, results.packed)
            if self._displays and self.workers.phase is Phase.RUN:
                self._show_results(columns)

    def _on_phase_message(self, message: Ack | Returned, now_ns: int) -> None:
        if self._phase:
            self._phase.receive(message, now_ns)

    def _on_worker_message(self, message: Hello | Bye | Leaving | Expired, now_ns: int) -> None:
        self._handle(self.workers.receive(message, now_ns))

    def _on_heartbeat(self, heartbeat: Heartbeat, now_ns: int) -> None:
        worker = self.workers.heartbeat(heartbeat, now_ns, time.time_ns())
        if worker:
            self._hosts.check_clock(worker)
            if self._phase:
                self._phase.receive_heartbeat(heartbeat)

    def _on_ready(self, ready: Ready, now_ns: int) -> None:
        worker = self.workers.receive_ready(ready)
        if worker:
            self._hosts.check_clock(worker)

    def _on_host(self, host: Host, now_ns: int) -> None:
        worker = self.workers.present.get(host.incarnation)
        if worker:  # not one that was dropped
            self._hosts.on_host(worker, host, now_ns)

    def _on_profiled(self, profiled: Profiled, now_ns: int) -> None:
        worker = self.workers.present.get(profiled.incarnation)
        known = profiled.run == self.settings.run_id and self._profile
        if worker and known and worker.index not in self._profiled:
            self._profiled.add(worker.index)
            _, _, stacks, samples, overhead_ns = profiled
            self.recorder.write(ProfileRecord(worker.index, stacks, samples, overhead_ns))

    def _on_addresses(self, told: Addresses, now_ns: int) -> None:
        worker, phase = self.workers.present.get(told.incarnation), self.workers.phase
        if worker and told.run == self.settings.run_id and phase == told.phase:
            names = tuple(said(name) for name in told.names)
            known = self._addresses.get((worker.index, phase), ())
            if len(names) > len(known) and names[: len(known)] == known:
                self._addresses[worker.index, phase] = names
                self.recorder.write(AddressRecord(worker.index, phase, names))

    def _on_network(self, answer: Network, now_ns: int) -> None:
        check = self.workers.network
        if check and (answer.incarnation, answer.number) == (check.incarnation, check.number):
            self._network = answer._replace(fault=said(answer.fault))

    def _handle(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, WorkerJoined):
                self._on_joined(event.worker)
            else:
                self._on_left(event)

    def _on_joined(self, worker: WorkerState) -> None:
        users = plural(worker.hello.concurrency, "user")
        log.info("Worker %s joined, for up to %s", worker.name, users)
        self._record_worker(worker)
        self._check_release(worker)

    def _on_left(self, event: WorkerLeft) -> None:
        """Account for the jobs that a worker held."""
        name, phase = event.worker.name, self._phase
        metrics_only = event.worker.metrics_only
        reason = event.reason if event.said_bye and not metrics_only else ""
        jobs = phase.worker_left(event.worker.hello.incarnation, reason) if phase else 0
        needed = self._needs_workers or phase is not None
        if metrics_only and not jobs:
            report = self._warn_of_worker if needed else log.info
            report(f"No more metrics from worker {name}: {event.reason}")
            return
        # Its users are missing from now on, whatever ended it. One that only said hello had none.
        if needed and event.worker.answered_serial:
            self._note_loss(name)
        if event.said_bye and not jobs:
            report = self._warn_of_worker if needed else log.info
            report(f"Worker {name} left before the end: {event.reason}")
            return
        self._warn_of_worker(
            f"Lost worker {name}: {event.reason}; lost with it: {plural(jobs, 'operation')}"
        )
        if phase and not self.workers.load_workers and not self.workers.none_can_join:
            wait_s = self.workers.limits.worker_wait_s
            self._message(f"No worker is left; waiting up to {wait_s:g} s for another")

    def _note_loss(self, name: str) -> None:
        if len(self.workers_lost) < _WORKERS_NAMED:
            self.workers_lost.append(name)
        elif len(self.workers_lost) == _WORKERS_NAMED:
            self.workers_lost.append("and more")

    def _check_release(self, worker: WorkerState) -> None:
        """Warn of a worker of another release of ssbench, once."""
        hello = worker.hello
        release = (hello.worker_id, hello.host, hello.version)
        known = self._other_releases
        if hello.version == __version__ or release in known or len(known) >= _MAX_RELEASES:
            return
        known.add(release)
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

    def _warn_of_rejected_peers(self, *, last: bool = False) -> None:
        """Warn of peers without the right key; ``last``: no later call follows."""
        for line in self._transport.rejected_peers(last=last):
            self._warn(line)

    def _warn_of_worker(self, line: str) -> None:
        """Warn of a worker, for a limited number of workers."""
        self._worker_warnings += 1
        if self._worker_warnings > _WORKERS_NAMED:
            return
        if self._worker_warnings == _WORKERS_NAMED:
            line += "; further such warnings about workers are left out"
        self._warn(line)


#: At most one in this time for a worker that asks. The time doubles with each that follows the last
#: one within a minute: tokens live longer, but a worker can say what it likes.
_RENEWAL_NS, _LONGEST_PAUSE_NS, _CALM_NS = SECOND_NS, 30 * SECOND_NS, 60 * SECOND_NS
#: Credentials are renewed a tenth of their lifetime before they expire, but at most this long.
_EARLY_S = 60.0
_EARLY_PART = 10


class Renewal:
    """Renews credentials when a worker asks for it, and before they expire.

    :param credentials: those in use.
    :param now: Unix time.
    """

    def __init__(
        self, renew: Callable[[], Credentials], credentials: Credentials, now: float
    ) -> None:
        self._renew = renew
        self._thread: threading.Thread | None = None
        self._outcome: Credentials | SsbenchError | None = None
        self._began_ns: int | None = None  # the newest that a worker asked for
        self._pause_ns = 0  # until the next of these
        self._due_at = _due_at(credentials, None, now)

    def begin(self, now_ns: int) -> None:
        """A worker asks: renew, unless that is in progress, or was done too often of late."""
        since_ns = _CALM_NS if self._began_ns is None else now_ns - self._began_ns
        if self._thread is None and since_ns >= self._pause_ns:
            calm = since_ns >= _CALM_NS
            self._pause_ns = _RENEWAL_NS if calm else min(2 * self._pause_ns, _LONGEST_PAUSE_NS)
            self._began_ns = now_ns
            self._start()

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._fetch, name="ssbench-renewal", daemon=True)
        self._thread.start()

    def begin_if_due(self, now_ns: int, wall_ns: int) -> None:
        """Renew if the credentials are about to expire."""
        if self._due_at is not None and wall_ns >= self._due_at * SECOND_NS:
            self._due_at = None
            if self._thread is None:
                self._start()

    def _fetch(self) -> None:
        try:
            self._outcome = self._renew()
        except SsbenchError as error:
            self._outcome = error

    def outcome(self, previous: Credentials, now: float) -> Credentials | SsbenchError | None:
        """The new credentials, or why there are none; None while there is nothing new.

        :param previous: those in use.
        :param now: Unix time.
        """
        if self._thread is None or self._thread.is_alive():
            return None
        outcome, self._outcome, self._thread = self._outcome, None, None
        if isinstance(outcome, Credentials):
            # After an early renewal with the same expiry, the planned one is still to come.
            planned = self._due_at if outcome.expires_at == previous.expires_at else None
            self._due_at = _due_at(outcome, previous, now) or planned
        elif not isinstance(outcome, RejectedError):  # the operations that wait are to fail soon
            self._pause_ns = _RENEWAL_NS
        return outcome or SsbenchError("the renewal failed")


def _due_at(new: Credentials, previous: Credentials | None, now: float) -> float | None:
    """When to renew these, Unix time; None: when the store rejects them.

    That is so if the expiry is unknown, past (clocks differ), or no later than the previous one
    (tempauth issues the same token until it has expired).
    """
    if new.expires_at is None or new.expires_at <= now:
        return None
    if previous and previous.expires_at is not None and new.expires_at <= previous.expires_at + 1:
        return None
    return new.expires_at - min(_EARLY_S, (new.expires_at - now) / _EARLY_PART)
