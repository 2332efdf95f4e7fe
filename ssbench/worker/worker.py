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
from typing import Any

import gevent
from gevent.event import Event
from gevent.hub import get_hub

from ssbench import __version__
from ssbench.core.beatclock import BeatClock
from ssbench.core.errors import ExitStatus, SsbenchError
from ssbench.core.messages import MAX_TEXT, Beat, Bye, Expired, Hello, Message
from ssbench.core.model import Phase
from ssbench.core.settings import StorageSettings
from ssbench.core.silence import Silence
from ssbench.core.text import plural
from ssbench.host.live import HostLive
from ssbench.storage import open_storage
from ssbench.storage.base import Storage
from ssbench.wire.ports import WireError
from ssbench.wire.workerwire import WorkerWire
from ssbench.worker.breakdown import Breakdown
from ssbench.worker.hostwatch import HostWatch
from ssbench.worker.pulse import Figures, LiveCounts, PulseThread
from ssbench.worker.stint import Stint, Ties
from ssbench.worker.store import WorkerStore

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
        wire: WorkerWire,
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
        self.incarnation = _new_incarnation()
        self._previous = 0
        self._wire = wire
        self._clock = clock
        self._run, self._phase = "", Phase.IDLE
        self._stint: Stint | None = None  # once the store is connected for the phase
        self._beats = BeatClock()
        self._store = WorkerStore(
            worker_id, open_driver, clock, ask=self._ask_for_token, wanted=self._is_at_work
        )
        self._live = LiveCounts()
        self._ties = self._tie(retries, on_job)
        self._refused_since_ns = 0
        self._known = False  # whether a beat has named this incarnation
        self._master = 0  # whose beat that was; 0 once that master is gone
        self._silence = Silence(clock())
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
        self._breakdown = Breakdown(self._hub, self._break_down)
        self._notice = self._hub.loop.async_()
        self._greeting = self._hub.loop.timer(0, _UNHEARD_S)  # runs until a beat knows us
        self._watcher: Any = None  # of the work port, while it is open
        self._listening = False  # whether it is started
        self._host = HostWatch(host)
        self._pulse = PulseThread(
            wire.control(),
            self._figures,
            self._notice.send,
            lambda: self._host.messages(self.incarnation),
        )

    def _tie(self, retries: int, on_job: Callable[[int], None] | None) -> Ties:
        return Ties(
            clock=self._clock,
            beats=self._beats,
            receive=self._wire.receive,
            listen=self._listen_for_jobs,
            send=self._send,
            renew=self._store.renew,
            on_fence=self._fence,
            on_exhausted=self._be_exhausted,
            on_latencies=self._live.add,
            on_job=on_job,
            retries=retries,
        )

    def __repr__(self) -> str:
        return f"<Worker {self.worker_id} {self._phase.name} {self._stint}>"

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
        if self._stint:
            self._stint.give_all_back()
        if not self._last_words:
            self.stop(self._breakdown.reason(MemoryError()), ExitStatus.FAILED)

    def _break_down(self, reason: str) -> None:
        """Whoever died of it may have been in the midst of anything: leave at once."""
        self._last_words, self._status = reason, ExitStatus.FAILED
        log.error("Ending at once: %s", reason)
        self._over.set()

    def _drain(self) -> None:
        if self._stint:
            self._stint.give_all_back()
            self._close_work()
            while self._stint and self._stint.users.busy:
                gevent.sleep(0.02)
        self._over.set()

    def _finish(self) -> None:
        if self._stint:
            self._stint.give_all_back()
            self._stint.users.close()
        self._send(Bye(self.incarnation, self._last_words[:MAX_TEXT]))
        self._pulse.stop()
        self._host.stop()
        self._close_work()
        self._store.close()
        self._wire.close()

    def _tick(self) -> None:
        if self._pulse.fault is not None:
            raise self._pulse.fault
        now_ns = self._clock()
        self._tick_ns = now_ns
        while self._unsent and self._wire.send(self._unsent[0]):
            self._unsent.popleft()
        if self._stint and now_ns > self._stint.users.fence_ns:
            self._fence()
        self._pump()
        self._listen(now_ns)
        self._tell_refusal()

    def _listen(self, now_ns: int) -> None:
        """Notice that there is no master, or no more."""
        silent_ns = self._silence.tick(self._pulse.newest, now_ns)
        if self._master and silent_ns > self._beats.timeout_ns:
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
        if self._known:
            self._start_anew()
        self._master = 0
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
        if self._known:
            self._greeting.stop()  # a loop that is woken so often costs as much as some operations
            return
        beat = self._pulse.newest[0] if self._pulse.newest else None
        if beat is not None and self.incarnation in beat.workers:
            # A beat without us, that ``_hear`` hasn't got to, makes another incarnation of us
            # first: a new master would take the old one for a worker that it has lost.
            return
        now_ns = self._clock()
        if now_ns >= self._next_hello_ns and self._wire.send(
            Hello(
                self.incarnation, self._previous, self.worker_id, self.concurrency,
                socket.gethostname(), os.getpid(), __version__,
            )
        ):  # fmt: skip
            self._next_hello_ns = now_ns + int(_HELLO_S * _SECOND)

    def _figures(self) -> Figures:
        """For the pulse; called in its thread."""
        stint = self._stint  # read once: it may end meanwhile
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
        self._beats.hear(beat, arrived_ns)
        if self._stint:
            self._stint.users.fence_ns = self._beats.fence_ns
        if beat.quit and (self.incarnation in beat.workers or self.incarnation in beat.refused):
            # Not before: our way to the master may be open later than its to us, and the bye
            # that names us would be lost.
            if not self._last_words:
                self.stop("the master says so")
        elif self.incarnation in beat.refused:
            self._be_refused(beat.refused[self.incarnation])
        elif self.incarnation in beat.workers and not self._last_words:
            self._refused_since_ns = self._dropped = 0
            self._known, self._master, self._cut = True, beat.master, False
            if self._exit_with_master and beat.is_goodbye:
                cut = self._stint is not None and self._stint.users.jobs
                self.stop("the run is over", ExitStatus.FAILED if cut else ExitStatus.OK)
            else:
                self._follow(beat)
        elif self._known and not self._last_words:
            self._be_unknown(beat)

    def _be_unknown(self, beat: Beat) -> None:
        if beat.master == self._master:
            self._fence("The master has given this worker up")
        else:
            self._lose_master("another one has come")

    def _be_refused(self, reason: str) -> None:
        now_ns = self._clock()
        if not self._refused_since_ns:
            self._refused_since_ns = now_ns
            log.warning("The master refuses this worker: %s", reason)
        elif now_ns - self._refused_since_ns > _REFUSED_S * _SECOND:
            self.stop(f"refused: {reason}", ExitStatus.FAILED)

    def _follow(self, beat: Beat) -> None:
        """Become what the beat says."""
        if (beat.run, beat.phase) != (self._run, self._phase):
            self._change_phase(beat)
        self._store.take_token(beat.settings)
        if self._stint is None:
            return
        users = beat.workers[self.incarnation][0]
        if users != self._stint.wanted:
            self._stint.wanted = users
            if users:
                self._open_work(beat.pipe)
            else:
                self._close_work()
            if users <= self._stint.connected:
                self._stint.users.resize(users)
            else:
                gevent.spawn(self._grow, self._stint, users)
        self._stint.follow(beat)

    def _grow(self, stint: Stint, users: int) -> None:
        """Be more users, once their connections are there: no latency shall have the making."""
        stint.storage.connect(users)
        stint.connected = users
        if stint is self._stint and stint.wanted == users:
            stint.users.resize(users)
            stint.pump()

    def _change_phase(self, beat: Beat) -> None:
        self._end_stint()
        self._run, self._phase = beat.run, Phase(beat.phase)
        self._host.follow(self._phase)
        if self._phase is Phase.IDLE or not beat.run:
            self._close_work()
            return
        offset_ns = beat.workers[self.incarnation][1]
        if offset_ns is None:
            offset_ns = self._beats.delay_ns
        gevent.spawn(self._begin, beat, beat.start_ns + offset_ns)

    def _begin(self, beat: Beat, origin_ns: int) -> None:
        try:
            self._connect_and_report(beat, origin_ns)
        except WireError as error:
            self.stop(f"can't begin: {error}", ExitStatus.FAILED)
        except (SsbenchError, TypeError, ValueError, KeyError) as error:
            self.stop(f"the storage settings can't be used: {error}", ExitStatus.FAILED)
        except Exception as error:
            # Whatever it was (no descriptors left, say): the run must not wait for us.
            log.exception("The phase can't be begun")
            self.stop(f"can't begin: {type(error).__name__}: {error}", ExitStatus.FAILED)

    def _connect_and_report(self, beat: Beat, origin_ns: int) -> None:
        """Open the store, connect, and report for work."""
        here = (self._run, self._phase, self.incarnation)
        share = beat.workers[self.incarnation][0]
        if share:
            self._open_work(beat.pipe)  # before the store's connections take what there is
        else:
            self._close_work()  # open from the phase before: jobs would come that nobody here does
        storage = self._store.open(beat.settings)
        storage.connect(share)
        if here != (self._run, self._phase, self.incarnation):
            return  # the master has gone on meanwhile
        log.info("%s of run %s with %d users", self._phase.name.lower(), self._run, share)
        self._stint = Stint(self._ties, storage, beat, self.incarnation, origin_ns, share)
        self._send(self._stint.ready(stopped=False))
        self._hear()  # the newest beat: shares, the fence, or all may have changed since

    def _end_stint(self) -> None:
        if self._stint:
            self._stint.users.close()
            self._stint = None

    # The work port ------------------------------------------------------------------------

    def _open_work(self, pipe: int) -> None:
        if self._watcher is None:
            self._watcher = self._hub.loop.io(self._wire.open_work(pipe), 1)
            self._listen_for_jobs(True)

    def _close_work(self) -> None:
        if self._watcher is not None:
            self._listen_for_jobs(False)
            self._watcher.close()
            self._watcher = None
        self._wire.close_work()

    def _listen_for_jobs(self, on: bool) -> None:
        """The descriptor shows that there are messages until all have been read."""
        if self._watcher is None or on == self._listening:
            return
        self._listening = on
        if on:
            self._watcher.start(self._hear_of_jobs)
        else:
            self._watcher.stop()

    def _hear_of_jobs(self) -> None:
        if self._stint:
            self._stint.hear()
        else:
            self._listen_for_jobs(False)

    def _pump(self) -> None:
        if self._stint:
            self._stint.pump()

    # For the store ------------------------------------------------------------------------

    def _ask_for_token(self, serial: int) -> None:
        self._wire.send(Expired(self.incarnation, serial))

    def _is_at_work(self) -> bool:
        return self._stint is not None and not self._last_words

    # The fence ----------------------------------------------------------------------------

    def _fence(self, why: str = "No word from the master for half the worker time-out") -> None:
        """Whatever was given to us may have been given up: nothing of it may be started."""
        before = self._dropped
        self._start_anew()
        log.warning("%s: dropped %s, starting anew", why, plural(self._dropped - before, "job"))

    def _start_anew(self) -> None:
        if self._stint:
            self._dropped += self._stint.users.jobs
            # Where the master has not given us up yet, others do what we haven't started.
            self._stint.give_all_back()
        self._cut = self._cut or self._phase is not Phase.IDLE
        self._end_stint()
        self._close_work()
        self._unsent.clear()
        self._run, self._phase = "", Phase.IDLE
        self._host.follow(self._phase)
        self._known = False
        self._previous, self.incarnation = self.incarnation, _new_incarnation()
        self._say_hello()
        self._greeting.again(self._say_hello)


def _new_incarnation() -> int:
    return random.SystemRandom().getrandbits(63)
