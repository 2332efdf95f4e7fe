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
_UNHEARD_S = 0.005  #: after a hello that nobody was there to take: connections take a moment
#: A refused worker keeps asking this long: its namesake may be a dead one that is not yet lost.
_REFUSED_S = 15.0
_SILENCE_S = 10


class Worker:
    """One worker process.

    :param concurrency: at most so many users.
    :param exit_with_master: end where the master is gone, instead of waiting for the next one.
    :param host: samples this machine; started here. None: nothing is told of it.
    :param on_job: called once a job is taken (``-p`` counts them).
    """

    def __init__(
        self,
        wire: WorkerTransport,
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
        self._wire = wire
        self._clock = clock
        self._standing = Membership(_new_incarnation())
        self._beats = ClockSync()
        self._store = WorkerStore(
            worker_id, open_driver, clock, ask=self._ask_for_token, wanted=self._is_at_work
        )
        self._live = LiveCounts()
        self._host = HostMetricsSender(host)
        self._port = JobReceiver(wire, lambda: self._duty.hear_of_jobs())
        self._duty = PhaseController(
            self._ties(retries, on_job), self._store, self._port, self._host,
            stop=lambda why: self.stop(why, ExitStatus.FAILED), begun=self._hear,
        )  # fmt: skip
        self._silence = MasterTimeout(clock())
        self._told_of_silence = False
        self._exit_with_master = exit_with_master
        self._dropped = 0  # jobs, since a master last knew us
        self._cut = False  # whether that was within a phase
        self._next_hello_ns = 0
        self._unsent: deque[Message] = deque()
        self._tick_ns = clock()
        self._over = Event()
        self._status = ExitStatus.OK
        self._last_words = ""
        self._hub = get_hub()
        self._breakdown = CrashHandler(self._hub, self._break_down)
        self._notice = self._hub.loop.async_()
        self._greeting = self._hub.loop.timer(0, _UNHEARD_S)  # runs until a beat knows us
        self._pulse = HeartbeatThread(
            wire.control(),
            self._figures,
            self._notice.send,
            lambda: self._host.messages(self.incarnation),
        )

    def _ties(self, retries: int, on_job: Callable[[int], None] | None) -> PhaseHooks:
        return PhaseHooks(
            clock=self._clock,
            beats=self._beats,
            receive=self._wire.receive,
            listen=self._port.listen,
            send=self._send,
            renew=self._store.renew,
            on_fence=self._fence,
            on_exhausted=self._be_exhausted,
            on_latencies=self._live.add,
            on_job=on_job,
            retries=retries,
        )

    def __repr__(self) -> str:
        return f"<Worker {self.worker_id} {self._duty}>"

    @property
    def incarnation(self) -> int:
        """Which one the worker goes under; another one after each fence."""
        return self._standing.incarnation

    # Life ---------------------------------------------------------------------------------

    def serve(self) -> ExitStatus:
        """Work until told to quit; gives the exit status."""
        tick = self._hub.loop.timer(_TICK_S, _TICK_S)
        self._notice.start(lambda: gevent.spawn(self._hear))
        tick.start(self._tick)
        self._greeting.start(self._say_hello)
        self._host.start()
        self._pulse.start()
        try:
            self._over.wait()
        finally:
            for watcher in (tick, self._greeting, self._notice):
                watcher.stop()
                watcher.close()
            self._finish()
        return self._status

    def stop(self, reason: str, status: ExitStatus = ExitStatus.OK) -> None:
        """Start nothing more, let what is in flight end, then leave."""
        if self._last_words:
            self._over.set()  # asked twice: leave at once
            return
        log.info("Ending: %s", reason)
        self._last_words, self._status = reason, status
        gevent.spawn(self._drain)

    def _be_exhausted(self) -> None:
        """No memory for an operation: those that come would fail, too, and faster than others
        are done elsewhere."""
        self._duty.give_all_back()
        if not self._last_words:
            self.stop(self._breakdown.reason(MemoryError()), ExitStatus.FAILED)

    def _break_down(self, reason: str) -> None:
        """Whoever died of it may have been in the midst of anything: leave at once."""
        self._last_words, self._status = reason, ExitStatus.FAILED
        log.error("Ending at once: %s", reason)
        self._over.set()

    def _drain(self) -> None:
        self._duty.give_all_back()
        self._port.close()
        while self._duty.stint and self._duty.stint.users.busy:
            gevent.sleep(0.02)
        self._over.set()

    def _finish(self) -> None:
        self._duty.leave()
        self._send(Bye(self.incarnation, self._last_words[:MAX_TEXT]))
        self._pulse.stop()
        self._host.stop()
        self._store.close()
        self._wire.close()

    def _tick(self) -> None:
        if self._pulse.fault is not None:
            raise self._pulse.fault
        now_ns = self._clock()
        self._tick_ns = now_ns
        while self._unsent and self._wire.send(self._unsent[0]):
            self._unsent.popleft()
        if self._duty.stint and now_ns > self._duty.stint.users.lease_expires_ns:
            self._fence()
        self._duty.fetch_jobs()
        self._listen(now_ns)
        self._tell_refusal()

    def _listen(self, now_ns: int) -> None:
        """Notice that there is no master, or no more."""
        silent_ns = self._silence.tick(self._pulse.newest, now_ns)
        if self._standing.master and silent_ns > self._beats.timeout_ns:
            self._lose_master(f"no word for {self._beats.timeout_ns / _SECOND:g} s")
        elif self._pulse.newest is None and silent_ns > _SILENCE_S * _SECOND:
            self._tell_silence()

    def _tell_silence(self) -> None:
        """Once, where no master was heard at all: it may be a matter of keys or ports."""
        if not self._told_of_silence:
            self._told_of_silence = True
            log.warning(
                "No word from a master in %d s; going on waiting. Is one running there, can its"
                " three ports be reached, and is its key the same as ours?",
                _SILENCE_S,
            )

    def _tell_refusal(self) -> None:
        """Where we aren't let in, at once: what it takes is known then."""
        refusal = self._wire.refusal()
        if refusal:
            self._told_of_silence = True
            log.warning("The master turns this worker away: %s", refusal)

    def _lose_master(self, how: str) -> None:
        """The master that knew us is gone: be ready for the next one, or end."""
        if self._standing.known:
            self._start_anew()
        self._standing.master = 0
        cut = bool(self._cut or self._dropped)
        dropped = f"dropped {plural(self._dropped, 'job')}, " if self._dropped else ""
        then = "ending" if self._exit_with_master else "waiting for the next one"
        log.log(
            logging.WARNING if cut else logging.INFO, "The master is gone (%s): %s%s",
            how, dropped, then,
        )  # fmt: skip
        if self._exit_with_master and not self._last_words:
            self.stop("the master is gone", ExitStatus.FAILED if cut else ExitStatus.OK)

    def _say_hello(self) -> None:
        if self._standing.known:
            self._greeting.stop()  # a loop that is woken so often costs as much as some operations
            return
        now_ns, newest = self._clock(), self._pulse.newest
        if not self._standing.must_say_hello(newest[0] if newest else None):
            return
        if now_ns >= self._next_hello_ns and self._wire.send(
            Hello(
                self.incarnation, self._standing.previous, self.worker_id, self.concurrency,
                host_name(), os.getpid(), __version__,
            )
        ):  # fmt: skip
            self._next_hello_ns = now_ns + int(_HELLO_S * _SECOND)

    def _figures(self) -> Figures:
        """For the pulse; called in its thread."""
        stint = self._duty.stint  # read once: it may end meanwhile
        users = stint.users if stint else None
        return Figures(
            self.incarnation,
            max(self._clock() - self._tick_ns, 0),
            users.busy if users else 0,
            users.jobs - users.busy if users else 0,
            self._live.take(),
        )

    def _send(self, message: Message) -> None:
        # In order: results that overtake the word of what was taken would be refused.
        if self._unsent or not self._wire.send(message):
            self._unsent.append(message)

    # Beats --------------------------------------------------------------------------------

    def _hear(self) -> None:
        """Act on the newest beat."""
        if self._pulse.newest is None or self._over.is_set():
            return
        beat, arrived_ns = self._pulse.newest
        self._beats.update(beat, arrived_ns)
        if self._duty.stint:
            self._duty.stint.users.lease_expires_ns = self._beats.lease_expires_ns
        word = self._standing.status_in(beat)
        if word is MembershipStatus.REFUSED:
            self._be_refused(beat.refused[self.incarnation])
        elif not self._last_words:
            self._act(word, beat)

    def _act(self, word: MembershipStatus, beat: ControlState) -> None:
        if word is MembershipStatus.ACCEPTED:
            self._be_welcome(beat)
        elif word is MembershipStatus.QUIT:
            self.stop("the master says so")
        elif word is MembershipStatus.DROPPED:
            self._fence("The master has given this worker up")
        elif word is MembershipStatus.REPLACED:
            self._lose_master("another one has come")

    def _be_welcome(self, beat: ControlState) -> None:
        self._standing.accept(beat)
        self._dropped, self._cut = 0, False
        if self._exit_with_master and beat.is_goodbye:
            cut = self._duty.jobs
            self.stop("the run is over", ExitStatus.FAILED if cut else ExitStatus.OK)
        else:
            self._duty.follow(beat, self.incarnation)

    def _be_refused(self, reason: str) -> None:
        lasted_ns = self._standing.refuse(self._clock())
        if lasted_ns is None:
            log.warning("The master refuses this worker: %s", reason)
        elif lasted_ns > _REFUSED_S * _SECOND:
            self.stop(f"refused: {reason}", ExitStatus.FAILED)

    # For the store ------------------------------------------------------------------------

    def _ask_for_token(self, serial: int) -> None:
        self._wire.send(Expired(self.incarnation, serial))

    def _is_at_work(self) -> bool:
        return self._duty.stint is not None and not self._last_words

    # The fence ----------------------------------------------------------------------------

    def _fence(self, why: str = "No word from the master for half the worker time-out") -> None:
        """Whatever was given to us may have been given up: nothing of it may be started."""
        before = self._dropped
        self._start_anew()
        log.warning("%s: dropped %s, starting anew", why, plural(self._dropped - before, "job"))

    def _start_anew(self) -> None:
        self._cut = self._cut or self._duty.phase is not Phase.IDLE
        self._dropped += self._duty.leave()
        self._unsent.clear()
        self._standing.renew(_new_incarnation())
        self._say_hello()
        self._greeting.again(self._say_hello)


def host_name() -> str:
    """This host's name, as much of it as a hello carries."""
    return socket.gethostname().encode(errors="replace")[:MAX_NAME_BYTES].decode(errors="ignore")


def _new_incarnation() -> int:
    return random.SystemRandom().getrandbits(63)
