"""A worker process: the I/O around its state machine.

One loop in one greenlet feeds the machine with control states and times, and carries out what it
answers. User greenlets run operations. A second thread answers control states, whatever the event
loop does: a heartbeat says how long ago the loop last ran, so that the master can tell a blocked
worker from a dead one.
"""

from __future__ import annotations

import logging
import os
import random
import socket
import threading
from collections.abc import Callable, Mapping
from itertools import islice
from time import perf_counter_ns, time_ns
from typing import Any, NamedTuple

import gevent
from gevent.event import Event
from gevent.hub import get_hub

from ssbench import __version__
from ssbench.core.errors import ExitStatus, SsbenchError, UsageError, outcome_of
from ssbench.core.messages import MAX_MOVING, MAX_NAME, ControlState, Heartbeat, Host, NetworkCheck
from ssbench.core.model import Phase
from ssbench.core.settings import StorageSettings, WorkerSettings
from ssbench.host.live import LAG_INTERVAL_S, HostLive
from ssbench.host.process import usable_cores
from ssbench.host.sampler import StackSampler
from ssbench.storage.base import ObjectStore
from ssbench.storage.registry import Permissions, open_store
from ssbench.transport.sockets import TransportError
from ssbench.transport.worker_transport import Control, WorkerTransport
from ssbench.worker.machine import (
    CheckNetwork,
    CloseJobs,
    Connect,
    EndPhase,
    OpenJobs,
    Resize,
    SetCredentials,
    WorkerMachine,
    WorkerPhase,
)
from ssbench.worker.thread_users import ThreadUserPool
from ssbench.worker.user_pool import JobChannel, UserPool, WorkerStore

_POLL_S = 0.25


log = logging.getLogger(__name__)


class WorkerLoad(NamedTuple):
    """The present load of a worker; figures read in another thread may not fit each other."""

    phase: Phase = Phase.IDLE  #: IDLE: none
    users: int = 0
    busy: int = 0  #: operations in flight
    queued: int = 0  #: jobs that are not in flight
    ended: int = 0  #: operations of the phase that were reported


class Worker:
    """One worker process.

    :param host: samples this machine; started here. None: no metrics are sent.
    :param on_jobs: called with the number of jobs whenever some arrived.
    :param permitted: what the master may make it connect to.
    """

    def __init__(
        self,
        transport: WorkerTransport,
        settings: WorkerSettings,
        *,
        host: HostLive | None = None,
        on_jobs: Callable[[int], None] | None = None,
        open_driver: Callable[[StorageSettings], ObjectStore] = open_store,
        permitted: Permissions | None = None,
    ) -> None:
        self._permitted = permitted or Permissions()
        self._transport = transport
        self._host = host
        self._machine = WorkerMachine(settings, random.SystemRandom(), perf_counter_ns())
        self._channel = JobChannel(self._machine, transport, perf_counter_ns, on_jobs)
        self._store = WorkerStore(self._machine, self._channel, open_driver)
        self._pool: UserPool | None = None
        self._sampled: tuple[WorkerPhase, StackSampler] | None = None  # of a phase with a profile
        self._newest: tuple[ControlState, int] | None = None  # that the machine has
        self._wake = Event()
        self._hub = get_hub()
        self._print_error = self._hub.handle_error
        self._hub.handle_error = self._on_error
        self._state_arrived = self._hub.loop.async_()
        self._lag_timer = self._hub.loop.timer(LAG_INTERVAL_S, LAG_INTERVAL_S)
        self._heartbeat = HeartbeatThread(
            transport.control(), self._machine, host, self._state_arrived.send
        )

    def __repr__(self) -> str:
        return f"<Worker {self._machine}>"

    @property
    def worker_id(self) -> str:
        return self._machine.settings.worker_id

    def load(self) -> WorkerLoad:
        """Its present load; may be called in any thread."""
        phase = self._machine.phase  # read once: it may end meanwhile
        if phase is None:
            return WorkerLoad()
        held = phase.held
        queued = held.queued + len(held.delayed)
        return WorkerLoad(phase.phase, sum(held.users), held.busy, queued, held.reported)

    def host_figures(self) -> Mapping[str, float]:
        """The newest metrics of this host and process, by the names of core.stats.host_metrics;
        may be called in any thread."""
        return self._host.newest if self._host else {}

    def serve(self) -> ExitStatus:
        """Work until told to exit; returns the exit status."""
        machine = self._machine
        self._state_arrived.start(self._wake.set)
        if self._host:
            self._host.start()
            if self._machine.settings.concurrency:  # else its event loop has nothing to do
                self._lag_timer.start(self._host.lag.ran)
        self._heartbeat.start()
        try:
            while machine.status is None:
                try:
                    self._step()
                except Exception as error:  # noqa: BLE001 - _on_error prints it
                    self._on_error(self, type(error), error, error.__traceback__)
                if machine.status is None:
                    self._wake.wait(machine.pause_s)
                    self._wake.clear()
        finally:
            self._close()
        return machine.status

    def stop(self, reason: str, status: ExitStatus = ExitStatus.OK) -> None:
        """Start nothing more, and exit when the operations in flight have ended. The second call
        exits at once."""
        self._machine.stop(reason, status)
        self._wake.set()

    def _step(self) -> None:
        """Feed the machine with what is new, and carry out its answer."""
        machine, now_ns = self._machine, perf_counter_ns()
        if self._heartbeat.fault is not None:
            raise self._heartbeat.fault
        newest = self._heartbeat.newest
        if newest is not None and newest is not self._newest:
            self._newest = newest
            machine.receive_control_state(*newest, now_ns)
        machine.tick(now_ns)
        self._act()
        if self._pool:
            self._pool.fetch_jobs()
        self._channel.flush()
        hello = machine.hello(now_ns)
        if hello and self._transport.send(hello._replace(secret=self._transport.secret)):
            machine.hello_sent(now_ns)
        rejection = self._transport.rejection()
        if rejection:
            machine.rejected_by_master(rejection)

    def _act(self) -> None:
        """Carry out the machine's actions."""
        machine = self._machine
        while machine.actions:
            action = machine.actions.popleft()
            if isinstance(action, OpenJobs):
                self._open_jobs(action.pipe)
            elif isinstance(action, CloseJobs):
                self._channel.close()
            elif isinstance(action, Connect):
                gevent.spawn(self._connect, action)
            elif isinstance(action, Resize):
                if self._pool:
                    self._pool.resize()
            elif isinstance(action, EndPhase):
                self._end_phase()
            elif isinstance(action, SetCredentials):
                self._store.set_credentials(action.credentials)
            elif isinstance(action, CheckNetwork):
                gevent.spawn(self._check_network, action.check)
        if self._host:
            self._host.wanted = machine.in_phase

    def _open_jobs(self, pipe: int) -> None:
        try:
            self._channel.open(pipe)
        except TransportError as error:
            self._machine.stop(f"cannot start: {error}", ExitStatus.FAILED)

    def _connect(self, action: Connect) -> None:
        """Connect the store for a phase, or for more users in it; in a greenlet of its own."""
        machine, phase = self._machine, action.phase
        if phase is not machine.phase:
            return
        try:
            storage = self._store.open(phase.state.settings)
            self._heartbeat.moving = getattr(storage, "moving", dict)
            phase.addresses = getattr(storage, "addresses", ())
            if storage.concurrency == "threads":
                self._hub.threadpool.apply(outcome_of, (storage.connect, action.users))()
            else:
                storage.connect(action.users)
        except Exception as error:  # noqa: BLE001 - any: the run must not wait for this worker
            fault = _connect_fault(error)
            if phase is machine.phase:  # else the next one connects again
                machine.stop(fault, ExitStatus.FAILED)
        else:
            if phase is machine.phase and not phase.ready:
                kind = ThreadUserPool if storage.concurrency == "threads" else UserPool
                self._pool = kind(machine, phase, storage, self._channel, self._store, self._wake)
                sampler = StackSampler()
                if phase.state.profile and sampler.start():
                    self._sampled = phase, sampler
                elif phase.state.profile:
                    # Nothing, and at once: the master would wait for it at the end.
                    machine.report_profile(phase, sampler.stop())
            machine.connected(phase, action.users)
        self._act()
        if self._pool:
            self._pool.fetch_jobs()
        self._wake.set()

    def _check_network(self, check: NetworkCheck) -> None:
        """Measure a connection in a thread; in a greenlet of its own."""
        from ssbench.transport.network import NetworkError  # few runs need it

        work = self._transport.check_network
        try:
            if check.host:  # else it is the master's
                self._permitted.check_host(check.host)
            result = self._hub.threadpool.apply(outcome_of, (work, check))()
        except (NetworkError, UsageError) as error:
            self._machine.network_checked(check, None, str(error))
        else:
            self._machine.network_checked(check, result)
        self._wake.set()

    def _end_phase(self) -> None:
        if self._pool:
            self._pool.close()
            self._pool = None
        self._end_profile()

    def _end_profile(self) -> None:
        if self._sampled:
            phase, sampler = self._sampled
            self._sampled = None
            self._machine.report_profile(phase, sampler.stop())

    def _on_error(self, context: object, kind: type[BaseException], error: Any, tb: Any) -> None:
        """An error that nothing caught ends the worker: it may have been in the middle of
        anything. By itself gevent would print it and go on. As Hub.handle_error; must not raise.
        """
        if issubclass(kind, Exception):
            self._machine.crash(error if isinstance(error, kind) else kind(error))
            self._wake.set()
        if not issubclass(kind, MemoryError):  # whose traceback says nothing more
            self._print_error(context, kind, error, tb)

    def _close(self) -> None:
        machine = self._machine
        self._lag_timer.close()
        self._state_arrived.close()
        self._end_profile()
        machine.close()
        self._act()
        self._channel.flush()
        self._heartbeat.stop()
        if self._host:
            self._host.stop()
        self._store.close()
        self._transport.close()


class HeartbeatThread(threading.Thread):
    """Answers each control state with a heartbeat, and keeps the newest one.

    :param machine: only attributes that are safe to read in another thread are used.
    :param host: metrics of this host, sent once a second; None: no metrics.
    :param notify: called in this thread after each new control state.
    """

    def __init__(
        self,
        control: Control,
        machine: WorkerMachine,
        host: HostLive | None,
        notify: Callable[[], None],
    ) -> None:
        super().__init__(name="ssbench-heartbeat", daemon=True)
        self.newest: tuple[ControlState, int] | None = None  #: with its arrival by the clock
        self.fault: Exception | None = None  #: what ended the thread
        #: Bytes sent so far of the objects that take long; set by the event loop's thread.
        self.moving: Callable[[], Mapping[int, int]] = dict
        self._control = control
        self._machine = machine
        self._host = host
        self._notify = notify
        self._stopping = threading.Event()

    def run(self) -> None:
        """Until ``stop``, or until there is a ``fault``."""
        try:
            while not self._stopping.is_set():
                message = self._control.receive(_POLL_S)
                if isinstance(message, ControlState):
                    self.newest = (message, perf_counter_ns())
                    self._notify()
                    self._control.send(self._heartbeat(*self.newest))
                for sample in self._host.take() if self._host else ():
                    at = sample.at_ns, sample.boot_id, sample.figures
                    self._control.send(Host(self._machine.incarnation, *at))
        except Exception as error:  # noqa: BLE001 - the event loop's thread raises it
            self.fault = error
        self._control.close()

    def _heartbeat(self, state: ControlState, arrived_ns: int) -> Heartbeat:
        machine = self._machine
        phase = machine.phase  # read once: it may end meanwhile
        busy = phase.held.busy if phase else 0
        queued = max(phase.held.total - busy, 0) if phase else 0
        now_ns = perf_counter_ns()
        return Heartbeat(
            machine.incarnation, state.serial, now_ns, now_ns - arrived_ns,
            max(now_ns - machine.ticked_ns, 0), busy, queued, time_ns(),
            dict(islice(self.moving().items(), MAX_MOVING)),
        )  # fmt: skip

    def stop(self) -> None:
        """End the thread, and close its sockets."""
        self._stopping.set()
        self.join()


def _connect_fault(error: Exception) -> str:
    if isinstance(error, (SsbenchError, TypeError, ValueError, KeyError)):
        return f"the storage settings can't be used: {error}"
    log.error("The phase can't be begun", exc_info=error)
    return f"cannot start: {type(error).__name__}: {error}"


def local_settings(worker_id: str, **options: Any) -> WorkerSettings:
    """Settings of a worker in this process."""
    host = socket.gethostname().encode(errors="replace")[:MAX_NAME].decode(errors="ignore")
    return WorkerSettings(
        worker_id, host=host, pid=os.getpid(), version=__version__, cores=usable_cores(),
        **options,
    )  # fmt: skip
