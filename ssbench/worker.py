"""A worker: hears beats, takes jobs, lets its users do them, sends results.

Beats are state (core.messages.Beat): each is compared with what is, and what differs is changed.
One thread with the event loop does all of this; a second one (pulse) listens and answers.

The fence: a worker whose newest beat is older than half the worker time-out starts nothing more,
drops its queue and comes back under a new incarnation, so that nothing of what the master gives
up on after the whole time-out can run twice.
"""

from __future__ import annotations

import logging
import os
import random
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import gevent
from gevent.event import Event
from gevent.hub import get_hub

from ssbench import __version__
from ssbench.core import live
from ssbench.core.columns import pack_results, unpack_jobs
from ssbench.core.errors import ExitStatus, MessageError, SsbenchError
from ssbench.core.messages import (
    MAX_TEXT,
    Beat,
    Bye,
    Expired,
    Hello,
    Jobs,
    Message,
    Ready,
    Results,
    Returned,
    Took,
    decode,
    pack,
)
from ssbench.core.model import Phase, Result
from ssbench.core.settings import StorageSettings
from ssbench.pulse import Figures, PulseThread
from ssbench.storage import open_storage
from ssbench.storage.base import Storage
from ssbench.users import Row, Users
from ssbench.wire import WorkerWire

log = logging.getLogger(__name__)

_SECOND = 1_000_000_000
_TICK_S = 0.25
_HELLO_S = 1.0
_UNHEARD_S = 0.05  #: after a hello that nobody was there to take: connections take a moment
#: A refused worker keeps asking this long: its namesake may be a dead one that is not yet lost.
_REFUSED_S = 15.0
_RENEWAL_S = 60.0
_WORTH_SENDING = 8  #: rows, when nothing else presses
_DELAYS = 64  #: beats that the distance of the clocks is judged by; clocks drift over days
_LAST_BYTE = Result._fields.index("last_byte_ns")


class Worker:
    """One worker process.

    :param concurrency: at most so many users.
    :param on_job: called once a job is taken (``-p`` counts them).
    """

    def __init__(
        self,
        wire: WorkerWire,
        worker_id: str,
        *,
        concurrency: int = 64,
        retries: int = 10,
        clock: Callable[[], int] = time.perf_counter_ns,
        on_job: Callable[[int], None] | None = None,
        open_driver: Callable[[StorageSettings], Storage] = open_storage,
    ) -> None:
        self.worker_id = worker_id
        self.concurrency = concurrency
        self.incarnation = _new_incarnation()
        self._previous = 0
        self._wire = wire
        self._retries = retries
        self._clock = clock
        self._on_job = on_job
        self._open_driver = open_driver
        self._storage: Storage | None = None
        self._settings = StorageSettings()
        self._users: Users | None = None
        self._run, self._phase = "", Phase.IDLE
        self._connected = False
        self._ending = self._stopping = False
        self._stop_reported = False
        self._master = 0
        self._delays_ns: deque[int] = deque(maxlen=_DELAYS)  # of beats: arrival - master's clock
        self._delay_ns = 0  # our clock minus the master's, the fastest beat's way included
        self._offset_ns = 0
        self._timeout_ns = 10 * _SECOND
        self._refused_since_ns = 0
        self._known = False  # whether a beat has named this incarnation
        self._next_hello_ns = 0
        self._took: list[int] = []  # batches that the master hasn't been told of
        self._unsent: deque[Message] = deque()
        self._tick_ns = clock()
        self._live_wanted = False
        self._live: Counter[int] = Counter()
        self._live_lock = threading.Lock()
        self._token_came = Event()
        self._token_ns = 0  # when the last one came by beat
        self._over = Event()
        self._status = ExitStatus.OK
        self._last_words = ""
        self._hub = get_hub()
        self._notice = self._hub.loop.async_()
        self._watcher: object | None = None
        self._pulse = PulseThread(wire.control(), self._figures, self._notice.send)

    def __repr__(self) -> str:
        return f"<Worker {self.worker_id} {self._phase.name} {self._users}>"

    # Life ---------------------------------------------------------------------------------

    def serve(self) -> ExitStatus:
        """Work until told to quit; gives the exit status."""
        tick = self._hub.loop.timer(_TICK_S, _TICK_S)
        hello = self._hub.loop.timer(0, _UNHEARD_S)
        self._notice.start(lambda: gevent.spawn(self._hear))
        tick.start(self._tick)
        hello.start(self._say_hello)
        self._pulse.start()
        try:
            self._over.wait()
        finally:
            for watcher in (tick, hello, self._notice):
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

    def _drain(self) -> None:
        if self._users:
            self._give_back(self._users.take_back())
            self._drop_work()
            while self._users and self._users.busy:
                gevent.sleep(0.02)
        self._over.set()

    def _finish(self) -> None:
        if self._users:
            self._users.close()
        self._send(Bye(self.incarnation, self._last_words[:MAX_TEXT]))
        self._pulse.stop()
        self._drop_work()
        if self._storage:
            self._storage.close()
        self._wire.close()

    def _tick(self) -> None:
        now_ns = self._clock()
        self._tick_ns = now_ns
        while self._unsent and self._wire.send(self._unsent[0]):
            self._unsent.popleft()
        if self._users and now_ns > self._users.fence_ns:
            self._fence()
        self._pump()

    def _say_hello(self) -> None:
        beat = self._pulse.newest[0] if self._pulse.newest else None
        if beat is not None and self.incarnation in beat.workers:
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
        users = self._users
        with self._live_lock:
            counts, self._live = self._live, Counter()
        return Figures(
            self.incarnation,
            max(self._clock() - self._tick_ns, 0),
            users.busy if users else 0,
            users.jobs - users.busy if users else 0,
            dict(counts),
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
        self._adjust_clock(beat, arrived_ns)
        if beat.quit and (self.incarnation in beat.workers or self.incarnation in beat.refused):
            # Not before: our way to the master may be open later than its to us, and the bye
            # that names us would be lost.
            if not self._last_words:
                self.stop("the master says so")
        elif self.incarnation in beat.refused:
            self._be_refused(beat.refused[self.incarnation])
        elif self.incarnation in beat.workers and not self._last_words:
            self._refused_since_ns = 0
            self._known = True
            self._follow(beat)
        elif self._known and not self._last_words:
            self._fence("The master has given this worker up")

    def _adjust_clock(self, beat: Beat, arrived_ns: int) -> None:
        if beat.master != self._master:
            self._master = beat.master
            self._delays_ns.clear()
        self._delays_ns.append(arrived_ns - beat.master_ns)
        self._delay_ns = min(self._delays_ns)
        self._timeout_ns = int(beat.timeout_s * _SECOND)
        if self._users:
            self._users.fence_ns = beat.master_ns + self._delay_ns + self._timeout_ns // 2

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
        self._take_token(beat)
        self._live_wanted, self._ending = beat.live, beat.ending
        if self._users is None:
            return
        users = beat.workers[self.incarnation][0]
        if users != self._users.count:
            self._users.resize(users)
            self._open_work(users, beat.pipe)
        if beat.stopping and not self._stopping:
            self._stopping = True
        if self._stopping or self._ending:
            self._give_back(self._users.take_back(but_for_free=not self._stopping))
        self._pump()
        if self._stopping and not self._stop_reported:
            self._stop_reported = True
            self._users.flush()
            self._send(Ready(self.incarnation, self._run, self._phase, True))

    def _change_phase(self, beat: Beat) -> None:
        if self._users:
            self._users.close()
            self._users = None
        self._run, self._phase = beat.run, Phase(beat.phase)
        self._ending = self._stopping = self._stop_reported = self._connected = False
        if self._phase is Phase.IDLE or not beat.run:
            self._drop_work()
            return
        offset_ns = beat.workers[self.incarnation][1]
        self._offset_ns = self._delay_ns if offset_ns is None else offset_ns
        gevent.spawn(self._begin, beat)

    def _begin(self, beat: Beat) -> None:
        """Open the store, connect, and report for work."""
        here = (self._run, self._phase, self.incarnation)
        share = beat.workers[self.incarnation][0]
        try:
            storage = self._open_storage(beat)
        except (SsbenchError, TypeError, ValueError, KeyError) as error:
            self.stop(f"the storage settings can't be used: {error}", ExitStatus.FAILED)
            return
        storage.connect(share)
        if here != (self._run, self._phase, self.incarnation):
            return  # the master has gone on meanwhile
        log.info("%s of run %s with %d users", self._phase.name.lower(), self._run, share)
        self._users = Users(
            storage,
            self._clock,
            origin_ns=beat.start_ns + self._offset_ns,
            retries=self._retries,
            operation_timeout_s=beat.operation_timeout_s,
            on_low=self._pump_and_flush,
            on_rows=partial(self._report, self.incarnation),
            on_fence=self._fence,
            renew=self._renew_token,
        )
        self._connected = True
        self._send(Ready(self.incarnation, self._run, self._phase, False))
        self._hear()  # the newest beat: shares, the fence, or all may have changed since

    def _open_storage(self, beat: Beat) -> Storage:
        settings = StorageSettings.from_map(beat.settings)
        if self._storage is None or settings.run_id != self._settings.run_id:
            if self._storage is not None:
                self._storage.close()
            self._storage = self._open_driver(replace(settings, worker_id=self.worker_id))
            self._settings = settings
        return self._storage

    # The token ----------------------------------------------------------------------------

    def _take_token(self, beat: Beat) -> None:
        serial = beat.settings.get("token_serial", 0)
        if self._storage and isinstance(serial, int) and serial > self._storage.token_serial:
            self._storage.set_token(str(beat.settings.get("token", "")), serial)
            self._token_ns = self._clock()
            self._token_came.set()

    def _renew_token(self, began_ns: int) -> bool:
        """Wait for a token newer than an attempt that began then, and ask for it."""
        deadline_ns = self._clock() + int(_RENEWAL_S * _SECOND)
        while self._storage and self._token_ns <= began_ns:
            if self._clock() > deadline_ns or self._users is None or self._last_words:
                return False
            self._wire.send(Expired(self.incarnation, self._storage.token_serial))
            self._token_came.clear()
            self._token_came.wait(_HELLO_S)
        return self._storage is not None

    # Jobs in ------------------------------------------------------------------------------

    def _open_work(self, users: int, pipe: int) -> None:
        if users and self._watcher is None:
            watcher = self._hub.loop.io(self._wire.open_work(pipe), 1)
            watcher.start(self._pump)
            self._watcher = watcher
        elif not users:
            self._drop_work()

    def _drop_work(self) -> None:
        if self._watcher is not None:
            self._watcher.stop()  # type: ignore[attr-defined]
            self._watcher.close()  # type: ignore[attr-defined]
            self._watcher = None
        self._wire.close_work()

    def _pump_and_flush(self) -> None:
        self._pump()
        if self._users:
            self._users.flush(_WORTH_SENDING)

    def _pump(self) -> None:
        """Take jobs as far as they are wanted. The socket's descriptor tells of new messages
        only once, so this is also called whenever the queue runs low, and at each tick."""
        users = self._users
        if users is None:
            return
        took: list[int] = []
        refused: list[int] = []
        while self._watcher is not None and (
            self._stopping or self._ending or len(users.queue) < users.count
        ):
            data = self._wire.receive()
            if data is None:
                break
            self._accept(data, users, took, refused)
        if took:
            # Before any of it is started: what nobody is known to hold is given to others in time.
            # Finished rows take the word along.
            self._took += took
            users.flush()
            self._tell_taken()
        if refused:
            self._give_back(refused)

    def _accept(self, data: bytes, users: Users, took: list[int], refused: list[int]) -> None:
        try:
            message = decode(data)
            if not isinstance(message, Jobs):
                raise MessageError(f"a {type(message).__name__} on the work port")
            jobs = unpack_jobs(message.packed)
        except MessageError as error:
            log.warning("Refused a message on the work port: %s", error)
            return
        if message.run != self._run:
            # It goes back under that run's name: numbers of another run's mean nothing here.
            self._send(Took(self.incarnation, message.run, [message.batch]))
            self._send(Returned(self.incarnation, message.run, [job.number for job in jobs]))
            return
        took.append(message.batch)
        age_ns = self._clock() - (message.sent_ns + self._delay_ns)
        past = message.phase != self._phase
        if past or self._stopping or age_ns > self._timeout_ns // 2:
            refused.extend([job.number for job in jobs])
            return
        if self._ending:
            free = users.free
            refused.extend([job.number for job in jobs[free:]])
            jobs = jobs[:free]
        users.add(jobs)
        if self._on_job:
            self._on_job(len(jobs))

    def _give_back(self, numbers: list[int]) -> None:
        if numbers:
            self._send(Returned(self.incarnation, self._run, numbers))

    def _tell_taken(self) -> None:
        if self._took:
            self._send(Took(self.incarnation, self._run, self._took))
            self._took = []

    # Results out --------------------------------------------------------------------------

    def _report(self, incarnation: int, rows: list[Row]) -> None:
        packed = pack_results(rows)
        if self._live_wanted:
            counts = live.buckets([row[_LAST_BYTE] for row in rows])
            with self._live_lock:
                self._live.update(counts)
        took, self._took = self._took, []
        self._send(Results(incarnation, self._run, self._phase, took, pack(packed)))

    # The fence ----------------------------------------------------------------------------

    def _fence(self, why: str = "No beat for half the worker time-out") -> None:
        """Whatever was given to us may have been given up: nothing of it may be started."""
        log.warning("%s: dropping jobs, starting anew", why)
        if self._users:
            self._users.close()
            self._users = None
        self._drop_work()
        self._unsent.clear()
        self._took.clear()
        self._run, self._phase = "", Phase.IDLE
        self._known = False
        self._previous, self.incarnation = self.incarnation, _new_incarnation()
        self._say_hello()


def _new_incarnation() -> int:
    return random.SystemRandom().getrandbits(63)
