"""A worker: hears beats, takes jobs, lets its users do them, sends results.

Beats are state (core.messages.Beat): each is compared with what is, and what differs is changed.
One thread with the event loop does all of this; a second one (pulse) listens and answers.

The fence: a worker whose newest beat is older than half the worker time-out starts nothing more,
drops its queue and comes back under a new incarnation, so that nothing of what the master gives
up on after the whole time-out can run twice. After the whole time-out the master itself is given
up: the worker waits for the next one, or ends.
"""

from __future__ import annotations

import logging
import os
import random
import socket
import time
from collections import deque
from collections.abc import Callable

import gevent
from gevent.event import Event
from gevent.hub import get_hub

from ssbench import __version__
from ssbench.core.clock_sync import ClockSync
from ssbench.core.errors import ExitStatus
from ssbench.core.master_timeout import MasterTimeout
from ssbench.core.membership import Membership, MembershipStatus
from ssbench.core.messages import (
    MAX_NAME_BYTES,
    MAX_TEXT,
    Bye,
    ControlState,
    Expired,
    Hello,
    Message,
)
from ssbench.core.model import Phase
from ssbench.core.settings import StorageSettings
from ssbench.core.text import plural
from ssbench.host.live import HostLive
from ssbench.storage import open_storage
from ssbench.storage.base import Storage
from ssbench.transport.worker_transport import WorkerTransport
from ssbench.worker.crash_handler import CrashHandler
from ssbench.worker.heartbeat import Figures, HeartbeatThread, LiveCounts
from ssbench.worker.host_metrics import HostMetricsSender
from ssbench.worker.job_receiver import JobReceiver
from ssbench.worker.phase_controller import PhaseController
from ssbench.worker.store import WorkerStore
from ssbench.worker.worker_phase import PhaseHooks

log = logging.getLogger(__name__)

_SECOND = 1_000_000_000
_TICK_S = 0.25
_HELLO_S = 1.0
_HELLO_RETRY_S = 0.005  #: after a hello that nobody was there to take: connections take a moment
#: A refused worker keeps asking this long: its namesake may be a dead one that is not yet lost.
_REFUSED_S = 15.0
_NO_MASTER_WARNING_S = 10


class Worker:
    """One worker process.

    :param concurrency: at most so many users.
    :param exit_with_master: end where the master is gone, instead of waiting for the next one.
    :param host: samples this machine; started here. None: nothing is told of it.
    :param on_job: called once a job is taken (``-p`` counts them).
    """

    def __init__(
        self,
        transport: WorkerTransport,
        worker_id: str,
        *,
        concurrency: int = 64,
        retries: int = 10,
        exit_with_master: bool = False,
        clock: Callable[[], int] = time.perf_counter_ns,
        host: HostLive | None = None,
        on_job: Callable[[int], None] | None = None,
        open_driver: Callable[[StorageSettings], Storage] = open_storage,
    ) -> None:
        self.worker_id = worker_id
        self.concurrency = concurrency
        self._transport = transport
        self._clock = clock
        self._membership = Membership(_new_incarnation())
        self._clock_sync = ClockSync()
        self._store = WorkerStore(
            worker_id, open_driver, clock, ask=self._ask_for_token, wanted=self._is_at_work
        )
        self._live = LiveCounts()
        self._host = HostMetricsSender(host)
        self._receiver = JobReceiver(transport, lambda: self._controller.on_jobs_readable())
        self._controller = PhaseController(
            self._phase_hooks(retries, on_job), self._store, self._receiver, self._host,
            stop=lambda why: self.stop(why, ExitStatus.FAILED), begun=self._on_control_state,
        )  # fmt: skip
        self._master_timeout = MasterTimeout(clock())
        self._warned_of_no_master = False
        self._exit_with_master = exit_with_master
        self._dropped = 0  # jobs, since a master last knew us
        self._phase_cut_short = False  # whether that was within a phase
        self._next_hello_ns = 0
        self._unsent: deque[Message] = deque()
        self._tick_ns = clock()
        self._finished = Event()
        self._status = ExitStatus.OK
        self._exit_reason = ""
        self._hub = get_hub()
        self._crash_handler = CrashHandler(self._hub, self._on_crash)
        self._state_arrived = self._hub.loop.async_()
        self._hello_timer = self._hub.loop.timer(0, _HELLO_RETRY_S)  # runs until a beat knows us
        self._heartbeat = HeartbeatThread(
            transport.control(),
            self._figures,
            self._state_arrived.send,
            lambda: self._host.messages(self.incarnation),
        )

    def _phase_hooks(self, retries: int, on_job: Callable[[int], None] | None) -> PhaseHooks:
        return PhaseHooks(
            clock=self._clock,
            clock_sync=self._clock_sync,
            receive=self._transport.receive,
            listen=self._receiver.listen,
            send=self._send,
            renew=self._store.renew,
            on_lease_expired=self._on_lease_expired,
            on_out_of_memory=self._on_out_of_memory,
            on_latencies=self._live.add,
            on_job=on_job,
            retries=retries,
        )

    def __repr__(self) -> str:
        return f"<Worker {self.worker_id} {self._controller}>"

    @property
    def incarnation(self) -> int:
        """Which one the worker goes under; another one after each fence."""
        return self._membership.incarnation

    # Life ---------------------------------------------------------------------------------

    def serve(self) -> ExitStatus:
        """Work until told to quit; gives the exit status."""
        tick = self._hub.loop.timer(_TICK_S, _TICK_S)
        self._state_arrived.start(lambda: gevent.spawn(self._on_control_state))
        tick.start(self._tick)
        self._hello_timer.start(self._say_hello)
        self._host.start()
        self._heartbeat.start()
        try:
            self._finished.wait()
        finally:
            for watcher in (tick, self._hello_timer, self._state_arrived):
                watcher.stop()
                watcher.close()
            self._finish()
        return self._status

    def stop(self, reason: str, status: ExitStatus = ExitStatus.OK) -> None:
        """Start nothing more, let what is in flight end, then leave."""
        if self._exit_reason:
            self._finished.set()  # asked twice: leave at once
            return
        log.info("Ending: %s", reason)
        self._exit_reason, self._status = reason, status
        gevent.spawn(self._drain)

    def _on_out_of_memory(self) -> None:
        """No memory for an operation: those that come would fail, too, and faster than others
        are done elsewhere."""
        self._controller.return_unstarted()
        if not self._exit_reason:
            self.stop(self._crash_handler.reason(MemoryError()), ExitStatus.FAILED)

    def _on_crash(self, reason: str) -> None:
        """Whoever died of it may have been in the midst of anything: leave at once."""
        self._exit_reason, self._status = reason, ExitStatus.FAILED
        log.error("Ending at once: %s", reason)
        self._finished.set()

    def _drain(self) -> None:
        self._controller.return_unstarted()
        self._receiver.close()
        while self._controller.worker_phase and self._controller.worker_phase.users.busy:
            gevent.sleep(0.02)
        self._finished.set()

    def _finish(self) -> None:
        self._controller.leave()
        self._send(Bye(self.incarnation, self._exit_reason[:MAX_TEXT]))
        self._heartbeat.stop()
        self._host.stop()
        self._store.close()
        self._transport.close()

    def _tick(self) -> None:
        if self._heartbeat.fault is not None:
            raise self._heartbeat.fault
        now_ns = self._clock()
        self._tick_ns = now_ns
        while self._unsent and self._transport.send(self._unsent[0]):
            self._unsent.popleft()
        if (
            self._controller.worker_phase
            and now_ns > self._controller.worker_phase.users.lease_expires_ns
        ):
            self._on_lease_expired()
        self._controller.fetch_jobs()
        self._check_master(now_ns)
        self._warn_of_rejection()

    def _check_master(self, now_ns: int) -> None:
        """Notice that there is no master, or no more."""
        silent_ns = self._master_timeout.tick(self._heartbeat.newest, now_ns)
        if self._membership.master and silent_ns > self._clock_sync.timeout_ns:
            self._on_master_lost(f"no word for {self._clock_sync.timeout_ns / _SECOND:g} s")
        elif self._heartbeat.newest is None and silent_ns > _NO_MASTER_WARNING_S * _SECOND:
            self._warn_of_no_master()

    def _warn_of_no_master(self) -> None:
        """Once, where no master was heard at all: it may be a matter of keys or ports."""
        if not self._warned_of_no_master:
            self._warned_of_no_master = True
            log.warning(
                "No word from a master in %d s; going on waiting. Is one running there, can its"
                " three ports be reached, and is its key the same as ours?",
                _NO_MASTER_WARNING_S,
            )

    def _warn_of_rejection(self) -> None:
        """Where we aren't let in, at once: what it takes is known then."""
        rejection = self._transport.rejection()
        if rejection:
            self._warned_of_no_master = True
            log.warning("The master turns this worker away: %s", rejection)

    def _on_master_lost(self, how: str) -> None:
        """The master that knew us is gone: be ready for the next one, or end."""
        if self._membership.known:
            self._rejoin()
        self._membership.master = 0
        cut = bool(self._phase_cut_short or self._dropped)
        dropped = f"dropped {plural(self._dropped, 'job')}, " if self._dropped else ""
        then = "ending" if self._exit_with_master else "waiting for the next one"
        log.log(
            logging.WARNING if cut else logging.INFO, "The master is gone (%s): %s%s",
            how, dropped, then,
        )  # fmt: skip
        if self._exit_with_master and not self._exit_reason:
            self.stop("the master is gone", ExitStatus.FAILED if cut else ExitStatus.OK)

    def _say_hello(self) -> None:
        if self._membership.known:
            self._hello_timer.stop()  # waking the loop so often costs as much as some operations
            return
        now_ns, newest = self._clock(), self._heartbeat.newest
        if not self._membership.must_say_hello(newest[0] if newest else None):
            return
        if now_ns >= self._next_hello_ns and self._transport.send(
            Hello(
                self.incarnation, self._membership.previous, self.worker_id, self.concurrency,
                host_name(), os.getpid(), __version__,
            )
        ):  # fmt: skip
            self._next_hello_ns = now_ns + int(_HELLO_S * _SECOND)

    def _figures(self) -> Figures:
        """For the pulse; called in its thread."""
        worker_phase = self._controller.worker_phase  # read once: it may end meanwhile
        users = worker_phase.users if worker_phase else None
        return Figures(
            self.incarnation,
            max(self._clock() - self._tick_ns, 0),
            users.busy if users else 0,
            users.jobs - users.busy if users else 0,
            self._live.take(),
        )

    def _send(self, message: Message) -> None:
        # In order: results that overtake the word of what was taken would be refused.
        if self._unsent or not self._transport.send(message):
            self._unsent.append(message)

    # Beats --------------------------------------------------------------------------------

    def _on_control_state(self) -> None:
        """Act on the newest beat."""
        if self._heartbeat.newest is None or self._finished.is_set():
            return
        state, arrived_ns = self._heartbeat.newest
        self._clock_sync.update(state, arrived_ns)
        if self._controller.worker_phase:
            self._controller.worker_phase.users.lease_expires_ns = self._clock_sync.lease_expires_ns
        reply = self._membership.status_in(state)
        if reply is MembershipStatus.REFUSED:
            self._on_refused(state.refused[self.incarnation])
        elif not self._exit_reason:
            self._act_on_reply(reply, state)

    def _act_on_reply(self, reply: MembershipStatus, state: ControlState) -> None:
        if reply is MembershipStatus.ACCEPTED:
            self._on_welcome(state)
        elif reply is MembershipStatus.QUIT:
            self.stop("the master says so")
        elif reply is MembershipStatus.DROPPED:
            self._on_lease_expired("The master has given this worker up")
        elif reply is MembershipStatus.REPLACED:
            self._on_master_lost("another one has come")

    def _on_welcome(self, state: ControlState) -> None:
        self._membership.accept(state)
        self._dropped, self._phase_cut_short = 0, False
        if self._exit_with_master and state.is_goodbye:
            cut = self._controller.jobs
            self.stop("the run is over", ExitStatus.FAILED if cut else ExitStatus.OK)
        else:
            self._controller.follow(state, self.incarnation)

    def _on_refused(self, reason: str) -> None:
        lasted_ns = self._membership.refuse(self._clock())
        if lasted_ns is None:
            log.warning("The master refuses this worker: %s", reason)
        elif lasted_ns > _REFUSED_S * _SECOND:
            self.stop(f"refused: {reason}", ExitStatus.FAILED)

    # For the store ------------------------------------------------------------------------

    def _ask_for_token(self, serial: int) -> None:
        self._transport.send(Expired(self.incarnation, serial))

    def _is_at_work(self) -> bool:
        return self._controller.worker_phase is not None and not self._exit_reason

    # The fence ----------------------------------------------------------------------------

    def _on_lease_expired(
        self, why: str = "No word from the master for half the worker time-out"
    ) -> None:
        """Whatever was given to us may have been given up: nothing of it may be started."""
        before = self._dropped
        self._rejoin()
        log.warning("%s: dropped %s, starting anew", why, plural(self._dropped - before, "job"))

    def _rejoin(self) -> None:
        self._phase_cut_short = self._phase_cut_short or self._controller.phase is not Phase.IDLE
        self._dropped += self._controller.leave()
        self._unsent.clear()
        self._membership.renew(_new_incarnation())
        self._say_hello()
        self._hello_timer.again(self._say_hello)


def host_name() -> str:
    """This host's name, as much of it as a hello carries."""
    return socket.gethostname().encode(errors="replace")[:MAX_NAME_BYTES].decode(errors="ignore")


def _new_incarnation() -> int:
    return random.SystemRandom().getrandbits(63)
