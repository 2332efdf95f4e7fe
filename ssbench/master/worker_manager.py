"""The crew: who works, as the master's loop talks with them.

It says the beat when one is due, hears what workers say of themselves, and keeps the roster and
the token by it. What they say of jobs, and who came or is gone, it passes on in the order of its
arrival: nobody here knows what a job is.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from ssbench.core.dispatch.worker_registry import MAX_NAMES, SECOND, WorkerRegistry, WorkerState
from ssbench.core.messages import Bye, ControlState, Expired, Heartbeat, Hello, Message, Ready
from ssbench.core.model import Phase, WorkerExit
from ssbench.core.settings import Credentials, StorageSettings
from ssbench.master.phases import Limits
from ssbench.master.renewal import Renewal
from ssbench.transport.master_transport import MasterTransport

_STATE_INTERVAL_NS = SECOND
#: Between beats at first, where one who came hasn't answered any: subscribing takes a moment, and
#: what is said before isn't heard.
_FIRST_GAP_NS = SECOND // 200
#: Between the exit of a worker process of our own and its loss: what it sent last is read first.
_LAST_MESSAGES_NS = SECOND // 4
#: Beats within a worker time-out, at least: workers stop where half of it brought none.
_STATES_PER_TIMEOUT = 8


class WorkerJoined(NamedTuple):
    """A worker that is new here."""

    worker: WorkerState


class WorkerLeft(NamedTuple):
    """A worker that is here no more; what it held has to be accounted for."""

    worker: WorkerState
    reason: str
    left: bool  #: by its own word


Event = WorkerJoined | WorkerLeft | Message


class Children(Protocol):
    """The worker processes that the master started itself: cli.local_workers."""

    def exits(self) -> list[WorkerExit]:
        """Those that have ended since the last call."""

    def hopeless(self) -> bool:
        """Whether all of them have ended, and nobody else can join."""


class WorkerManager:
    """Says how things stand, and hears who is there.

    The phase, ``start_ns``, the flags and ``news`` are for the caller to set: they are what the
    beats say, and ``news`` makes one due at once.

    :param renew: as Master's; None where there are no credentials to renew.
    :param warn: called with what the user must know.
    :param children: worker processes of our own, which are given up as soon as they have ended.
    """

    def __init__(
        self,
        transport: MasterTransport,
        settings: StorageSettings,
        limits: Limits,
        *,
        renew: Callable[[], Credentials] | None,
        warn: Callable[[str], None],
        clock: Callable[[], int],
        children: Children | None = None,
        wall_clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.registry = WorkerRegistry(limits.worker_timeout_s)
        self.settings = settings
        self.phase = Phase.IDLE
        self.start_ns = 0  #: of the phase
        self.live = False  #: pulses are to tell of latencies
        self.ending = self.stopping = self.quit = False  #: as in Beat
        self.state_changed = True
        self.newest_hello_ns = 0  #: when the last one came
        self.departed: dict[str, None] = {}  #: names of those that left or were given up, in order
        self.children_ended = 0  #: of the worker processes of our own
        self._id = random.SystemRandom().getrandbits(63)
        self._transport = transport
        self._limits = limits
        self._renewal = Renewal(renew, settings.newest, wall_clock() / SECOND) if renew else None
        self._renewal_fault = ""
        self._warn = warn
        self._clock = clock
        self._children = children
        self._exits: list[tuple[int, WorkerExit]] = []  # when they count, and who has ended
        self._wall_clock = wall_clock
        self._interval_ns = min(_STATE_INTERVAL_NS, self.registry.timeout_ns // _STATES_PER_TIMEOUT)
        self._gap_ns = self._interval_ns
        self._next_state_ns = 0
        self._alone_since_ns = 0
        self._on: Mapping[type, Callable[[Any], Iterable[Event]]] = {
            Hello: self._on_hello,
            Heartbeat: self._on_heartbeat,
            Ready: self._on_ready,
            Expired: self._on_expired,
            Bye: self._on_bye,
        }

    def __repr__(self) -> str:
        return f"<WorkerManager {self.phase.name} {self.registry}>"

    # What one does with it ----------------------------------------------------------------

    def enter(self, phase: Phase, *, live: bool = False) -> None:
        """Another phase, or IDLE, from the next beat on."""
        self.phase, self.live = phase, live
        self.ending = self.stopping = False
        self.state_changed = True

    def allocate_users(self, users: int) -> None:
        """Be so many users from the next beat on, as far as there are workers for them."""
        self.registry.users = users
        self.registry.allocate_users()
        self.state_changed = True

    def ready(self, *, stopped: bool = False) -> bool:
        """Whether all who have users are connected for the phase (or have stopped in it)."""
        return self.registry.all_ready(self.settings.run_id, self.phase, stopped=stopped)

    def expect(self, now_ns: int) -> None:
        """Wait for workers from now on, in ``deserted``; or else since they left."""
        if self.registry.workers or not self._alone_since_ns:
            self._alone_since_ns = now_ns

    def no_workers_left(self, now_ns: int) -> bool:
        """Whether nobody is here, and those who left have been waited for; in a former phase, too.
        To be asked again and again."""
        if self.registry.workers:
            self._alone_since_ns = now_ns
            return False
        if self.hopeless:
            return True
        alone_ns = now_ns - self._alone_since_ns
        return bool(self._alone_since_ns) and alone_ns > self._limits.worker_wait_s * SECOND

    @property
    def hopeless(self) -> bool:
        """Whether no worker will ever join: those of our own have ended, and only they could."""
        return self._children is not None and self._children.hopeless() and not self._exits

    def poll(self, wait_s: float, *, or_writable: bool = False) -> Iterator[Event]:
        """A beat if one is due, then whatever arrives within the wait.

        Gives who came, who is gone, what those who are here say of themselves, and all that isn't
        for the crew, those that nobody should have sent included.

        :param or_room: don't wait where a worker has room for jobs.
        """
        if self.state_changed or self._clock() >= self._next_state_ns:
            self.send_control_state()
        wait_s = min(wait_s, self._gap_ns / SECOND)
        for message in self._transport.receive(wait_s, or_writable=or_writable):
            handler = self._on.get(type(message))
            if handler is None:
                yield message
            else:
                yield from handler(message)

    def tick(self, now_ns: int) -> Iterator[Event]:
        """Time passes: whose process has ended, who has been silent for too long, and whether
        new credentials are here."""
        yield from self._check_children(now_ns)
        for worker in self.registry.overdue(now_ns):
            reason = f"no sign of life for {self._limits.worker_timeout_s:g} s"
            if not worker.answered_serial:
                port = self._transport.ports.control
                reason += f" (can it reach port {port}, --zmq-control-port?)"
            yield self._remove(worker, reason, left=False)
        self._take_credentials(now_ns)
        self.warn_of_rejected_peers()

    def _check_children(self, now_ns: int) -> Iterator[Event]:
        """Give up those of our own whose process has ended."""
        if self._children is None:
            return
        self._exits += [(now_ns + _LAST_MESSAGES_NS, exit_) for exit_ in self._children.exits()]
        while self._exits and now_ns >= self._exits[0][0]:
            _, ended = self._exits.pop(0)
            self.children_ended += 1
            for worker in list(self.registry.workers.values()):
                if (worker.hello.worker_id, worker.hello.pid) == (ended.worker_id, ended.pid):
                    yield self._remove(worker, ended.reason, left=False)
                    break
            else:
                if not any(name.startswith(f"{ended.worker_id} (") for name in self.departed):
                    self._warn(
                        f"Worker {ended.worker_id} (pid {ended.pid}) ended before it joined:"
                        f" {ended.reason}"
                    )

    def warn_of_rejected_peers(self, *, last: bool = False) -> None:
        """Warn of those who came without the right key.

        :param last: nobody will ask again.
        """
        for line in self._transport.rejected_peers(last=last):
            self._warn(line)

    def send_control_state(self) -> None:
        """Say now how things stand."""
        now_ns = self._clock()
        self.state_changed = False
        self._gap_ns = self._gap(now_ns)
        self._next_state_ns = now_ns + self._gap_ns
        running = self.phase is not Phase.IDLE
        self._transport.send_control_state(
            ControlState(
                self._id,
                self.registry.control_state_sent(now_ns),
                now_ns,
                self.settings.run_id if running else "",
                self.phase,
                self.start_ns,
                self.registry.assignments(),
                dict(self.registry.refused),
                self.settings.to_map() if running else {},
                float(self._limits.worker_timeout_s),
                # Of the run's own operations: initial objects may be as large as they like.
                float(self._limits.operation_timeout_s) if self.phase is Phase.RUN else 0.0,
                self._transport.pipe,
                self.live,
                self.ending,
                self.stopping,
                self.quit,
                *(self._limits.think_s if self.phase is Phase.RUN else (0.0, 0.0)),
            )
        )

    def _gap(self, now_ns: int) -> int:
        """How long until the next beat: twice as long each time, while somebody is unheard of."""
        if all(worker.answered_serial for worker in self.registry.workers.values()):
            return self._interval_ns
        return min(max(now_ns - self.newest_hello_ns, _FIRST_GAP_NS), self._interval_ns)

    # What workers say of themselves -------------------------------------------------------

    def _on_hello(self, hello: Hello) -> Iterator[Event]:
        worker, replaced = self.registry.register(hello, self._clock())
        for other in replaced:
            yield WorkerLeft(other, "it came back under a new incarnation", left=False)
        self.state_changed = True
        if worker is not None:
            self.newest_hello_ns = self._clock()
            yield WorkerJoined(worker)

    def _on_heartbeat(self, heartbeat: Heartbeat) -> Iterable[Event]:
        worker = self.registry.heartbeat(heartbeat, self._clock(), self._wall_clock())
        return () if worker is None else (heartbeat,)

    def _on_ready(self, ready: Ready) -> Iterable[Event]:
        worker = self.registry.workers.get(ready.incarnation)
        if worker is None:
            return ()
        if worker.ready[:2] != (ready.run, ready.phase):
            worker.origin_ns = ready.origin_ns  # once: nobody's phase begins twice
        worker.ready = (ready.run, ready.phase, ready.stopped)
        return (ready,)

    def _on_bye(self, bye: Bye) -> Iterable[Event]:
        worker = self.registry.workers.get(bye.incarnation)
        if worker:
            return (self._remove(worker, bye.reason or "it ended", left=True),)
        self.registry.remove(bye.incarnation)  # one that was refused
        return ()

    def _remove(self, worker: WorkerState, reason: str, *, left: bool) -> WorkerLeft:
        self.registry.remove(worker.hello.incarnation)
        # A worker may come and go within one turn of the loop, so it is noted here.
        if len(self.departed) < MAX_NAMES:
            self.departed[worker.name] = None
        self.state_changed = True
        return WorkerLeft(worker, reason, left)

    # The credentials ----------------------------------------------------------------------

    def _on_expired(self, expired: Expired) -> Iterable[Event]:
        if self._renewal and expired.token_serial == self.settings.newest.serial:
            self._renewal.begin(self._clock())
        return ()

    def _take_credentials(self, now_ns: int) -> None:
        """Renew credentials that are about to expire, and broadcast what a renewal brought."""
        if self._renewal is None:
            return
        wall_ns, newest = self._wall_clock(), self.settings.newest
        self._renewal.begin_if_due(now_ns, wall_ns)
        outcome = self._renewal.outcome(newest, wall_ns / SECOND)
        if outcome is None:
            return
        if isinstance(outcome, Credentials):
            # Earlier ones that the store still accepts stay: drivers may need both.
            is_valid = newest.expires_at is not None and newest.expires_at * SECOND > wall_ns
            renewed = replace(outcome, serial=max(outcome.serial, newest.serial + 1))
            credentials = (newest, renewed) if is_valid else (renewed,)
            self._renewal_fault = ""
        else:
            if outcome != self._renewal_fault:  # it may come once a second
                self._warn(f"The token could not be renewed: {outcome}")
            self._renewal_fault = outcome
            # A new serial lets the waiting operations try again, and fail.
            credentials = (replace(newest, serial=newest.serial + 1),)
        self.settings = replace(self.settings, credentials=credentials)
        self.state_changed = True
