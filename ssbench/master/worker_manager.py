"""The master's workers: which are present, and the control state that they get.

A pure state machine: fed with messages and times, it returns which workers joined or left, and the
control state when one is due. It knows nothing of jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec.structs import replace

from ssbench.core.dispatch.worker_registry import MAX_NAMES, WorkerRegistry, WorkerState
from ssbench.core.errors import NoWorkersError
from ssbench.core.messages import Bye, ControlState, Expired, Hello, Leaving, NetworkCheck
from ssbench.core.model import SECOND_NS, Phase, WorkerExit
from ssbench.core.peers import Limits
from ssbench.core.settings import Credentials, StorageSettings
from ssbench.core.text import first_of

if TYPE_CHECKING:
    from ssbench.transport.master_transport import MasterTransport

_STATE_INTERVAL_NS = SECOND_NS
#: Between control states at first, while a new worker has answered none: subscribing takes a
#: moment, and what is sent before is lost.
_FIRST_GAP_NS = SECOND_NS // 200
#: Between the exit of a local worker's process and its loss: its last messages are read first.
_LAST_MESSAGES_NS = SECOND_NS // 4
#: Control states per worker timeout, at least: workers stop after half of it without one.
_STATES_PER_TIMEOUT = 8
#: Without --workers or --expect-workers: no new worker for this long means that all have joined.
ALL_JOINED_NS = 2 * SECOND_NS
#: Where the command is only about the workers that are there, so long for the first of them: on a
#: busy host, those that waited for a master need more than two seconds to connect anew.
FIRST_JOINED_NS = 6 * SECOND_NS
_MAX_OFFERS, _MAX_REFUSALS = 5, 3  #: in an error message


class WorkerJoined(NamedTuple):
    """A new worker."""

    worker: WorkerState


class WorkerLeft(NamedTuple):
    """A worker left or was dropped; the jobs that it held have to be accounted for."""

    worker: WorkerState
    reason: str
    said_bye: bool


Event = WorkerJoined | WorkerLeft


class Children(Protocol):
    """Worker processes that were started for the master: LocalWorkers, SshWorkers."""

    def exits(self) -> list[WorkerExit]:
        """The processes that ended since the last call."""

    def all_gone(self) -> bool:
        """Whether all of them have ended, and no other worker can join."""


class WorkerManager:
    """See the module's docstring. The caller sets the phase, ``start_ns`` and the flags, which are
    content of the control state; ``state_changed`` makes the next one due at once.

    :param master_id: 64 random bits; another number is another master.
    :param pipe: messages with jobs that may wait at a worker.
    :param control_port: named when a worker answers no control state.
    """

    def __init__(
        self,
        settings: StorageSettings,
        limits: Limits,
        *,
        master_id: int,
        pipe: int,
        control_port: int,
    ) -> None:
        self.registry = WorkerRegistry(limits.worker_timeout_s)
        self.settings = settings
        self.phase = Phase.IDLE
        self.start_ns = 0  #: of the phase
        self.think_s = (0.0, 0.0)  #: as of PhasePlan
        self.profile = False  #: workers are to sample where they spend CPU time
        #: As in ControlState.
        self.ending = self.stopping = self.closing = self.quit = False
        self.state_changed = True
        self.warnings: list[str] = []  #: for the user; the caller removes them
        self.newest_hello_ns = 0
        self.departed: dict[str, None] = {}  #: names of workers that left or were dropped, in order
        self.children_ended = 0  #: local worker processes
        self.children_gone = False  #: all of them, and no other worker can join
        self.renewal_wanted = False  #: the store rejected the present credentials
        self.network: NetworkCheck | None = None  #: content of the control state
        self._id = master_id
        self._pipe = pipe
        self._control_port = control_port
        self._limits = limits
        self._renewal_fault = ""
        self._exits: list[tuple[int, WorkerExit]] = []  # when they count
        self._interval_ns = min(_STATE_INTERVAL_NS, self.registry.timeout_ns // _STATES_PER_TIMEOUT)
        self._next_state_ns = 0
        self._alone_since_ns = 0

    def __repr__(self) -> str:
        return f"<WorkerManager {self.phase.name} {self.registry}>"

    # Phases and users --------------------------------------------------------------------------

    def enter(
        self, phase: Phase, think_s: tuple[float, float] = (0.0, 0.0), *, profile: bool = False
    ) -> None:
        """Another phase, or IDLE, from the next control state on."""
        self.phase, self.think_s, self.profile = phase, think_s, profile
        self.ending = self.stopping = self.closing = False
        self.state_changed = True

    def allocate_users(self, users: int) -> None:
        """Run so many users from the next control state on, as far as workers can."""
        self.registry.users = users
        self.registry.allocate_users()
        self.state_changed = True

    def ready(self, *, stopped: bool = False) -> bool:
        """Whether all workers are connected for the phase (or those with users stopped in it)."""
        return self.registry.all_ready(self.settings.run_id, self.phase, stopped=stopped)

    def expect_workers(self, now_ns: int) -> None:
        """``no_workers_left`` counts from now on; or since the last worker left."""
        if self.registry.load_workers or not self._alone_since_ns:
            self._alone_since_ns = now_ns

    def no_workers_left(self, now_ns: int) -> bool:
        """Whether there is no worker, and none joined within ``worker_wait_s``. That time may have
        begun in an earlier phase. To be asked again and again."""
        if self.registry.load_workers:
            self._alone_since_ns = now_ns
            return False
        if self.none_can_join:
            return True
        alone_ns = now_ns - self._alone_since_ns
        return bool(self._alone_since_ns) and alone_ns > self._limits.worker_wait_s * SECOND_NS

    @property
    def none_can_join(self) -> bool:
        """Whether no worker will ever join: all local ones have ended, and only they could."""
        return self.children_gone and not self._exits

    # Messages and time -------------------------------------------------------------------------

    def receive(self, message: Hello | Bye | Leaving | Expired, now_ns: int) -> list[Event]:
        """A worker introduces itself (or repeats it), exits, will exit, or has credentials that
        the store rejects; returns who joined or left."""
        if isinstance(message, Hello):
            return self._on_hello(message, now_ns)
        if isinstance(message, Bye):
            return self._on_bye(message)
        if isinstance(message, Leaving):
            self.registry.leave(message.incarnation)
            self.state_changed = True
        elif (
            message.incarnation in self.registry.workers
            and message.token_serial == self.settings.newest.serial
        ):
            self.renewal_wanted = True
        return []

    def _on_hello(self, hello: Hello, now_ns: int) -> list[Event]:
        worker, replaced = self.registry.register(hello, now_ns)
        reason = "it came back under a new incarnation"
        events: list[Event] = [WorkerLeft(other, reason, False) for other in replaced]
        self.state_changed = True
        if worker is not None:
            self.newest_hello_ns = now_ns
            events.append(WorkerJoined(worker))
        return events

    def _on_bye(self, bye: Bye) -> list[Event]:
        worker = self.registry.workers.get(bye.incarnation)
        if worker:
            return [self._remove(worker, bye.reason or "it ended", said_bye=True)]
        self.registry.remove(bye.incarnation)  # one that was refused
        return []

    def _remove(self, worker: WorkerState, reason: str, *, said_bye: bool = False) -> WorkerLeft:
        self.registry.remove(worker.hello.incarnation, closed=said_bye)
        # A worker may join and leave within one poll, so it is noted here.
        if len(self.departed) < MAX_NAMES:
            self.departed[worker.name] = None
        self.state_changed = True
        return WorkerLeft(worker, reason, said_bye)

    def children_exited(self, exits: Iterable[WorkerExit], now_ns: int) -> None:
        """Processes of local workers have ended; ``tick`` gives them up a little later."""
        self._exits += [(now_ns + _LAST_MESSAGES_NS, exit_) for exit_ in exits]

    def tick(self, now_ns: int) -> Iterator[Event]:
        """Time has passed: gives the workers that are dropped."""
        while self._exits and now_ns >= self._exits[0][0]:
            _, ended = self._exits.pop(0)
            self.children_ended += 1
            yield from self._drop_child(ended)
        for worker in self.registry.overdue(now_ns):
            reason = f"no heartbeat for {self._limits.worker_timeout_s:g} s"
            if not worker.answered_serial:
                reason += f" (can it reach port {self._control_port}, --zmq-control-port?)"
            yield self._remove(worker, reason)

    def _drop_child(self, ended: WorkerExit) -> Iterator[Event]:
        for worker in list(self.registry.workers.values()):
            if (worker.hello.worker_id, worker.hello.pid) == (ended.worker_id, ended.pid):
                yield self._remove(worker, ended.reason)
                return
        if not any(name.startswith(f"{ended.worker_id} (") for name in self.departed):
            self.warnings.append(
                f"Worker {ended.worker_id} (pid {ended.pid}) ended before it joined: {ended.reason}"
            )

    # The control state -------------------------------------------------------------------------

    def wait_s(self, now_ns: int) -> float:
        """How long until the next control state is due, at most."""
        return 0.0 if self.state_changed else max(self._next_state_ns - now_ns, 0) / SECOND_NS

    def control_state(self, now_ns: int) -> ControlState | None:
        """The control state to send now; None if none is due."""
        if not self.state_changed and now_ns < self._next_state_ns:
            return None
        self.state_changed = False
        self._next_state_ns = now_ns + self._gap_ns(now_ns)
        running, in_run = self.phase is not Phase.IDLE, self.phase is Phase.RUN
        return ControlState(
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
            # For the run's own operations: initial objects may be of any size.
            float(self._limits.operation_timeout_s or 0) if in_run else 0.0,
            self._pipe,
            self.ending,
            self.stopping,
            self.quit,
            *self.think_s,
            self.registry.group_assignments(),
            closing=self.closing,
            profile=self.profile,
            network=self.network,
        )

    def _gap_ns(self, now_ns: int) -> int:
        """Until the next control state: doubled each time while a worker has answered none."""
        if all(worker.answered_serial for worker in self.registry.workers.values()):
            return self._interval_ns
        return min(max(now_ns - self.newest_hello_ns, _FIRST_GAP_NS), self._interval_ns)

    # Credentials -------------------------------------------------------------------------------

    def renewed(self, outcome: Credentials | str, wall_ns: int) -> None:
        """The credentials were renewed, or not: a text says why. ``wall_ns``: now, since 1970."""
        self.renewal_wanted = False
        newest = self.settings.newest
        if isinstance(outcome, Credentials):
            # Earlier ones that the store still accepts stay: drivers may need both.
            is_valid = newest.expires_at is not None and newest.expires_at * SECOND_NS > wall_ns
            new = replace(outcome, serial=max(outcome.serial, newest.serial + 1))
            credentials = (newest, new) if is_valid else (new,)
            self._renewal_fault = ""
        else:
            if outcome != self._renewal_fault:  # it may occur once a second
                self.warnings.append(f"The token could not be renewed: {outcome}")
            self._renewal_fault = outcome
            # A new serial lets the waiting operations try again, and fail.
            credentials = (replace(newest, serial=newest.serial + 1),)
        self.settings = replace(self.settings, credentials=credentials)
        self.state_changed = True


class WorkerWait:
    """The wait for workers at the start of a run.

    :param users: that the run needs.
    :param expected: so many workers; None: as many as can run the users.
    """

    def __init__(
        self,
        manager: WorkerManager,
        transport: MasterTransport,
        limits: Limits,
        users: int,
        expected: int | None,
    ) -> None:
        self._manager = manager
        self._transport = transport
        self._limits = limits
        self._users = users
        self._expected = expected

    def __repr__(self) -> str:
        return f"<WorkerWait for {self._expected or 'any'} workers, {self._manager.registry}>"

    def complete(self, now_ns: int) -> bool:
        """Whether all expected workers have joined, or none can join any more."""
        manager, registry = self._manager, self._manager.registry
        if manager.none_can_join:
            return True
        if self._expected:
            return registry.load_workers >= max(self._expected - manager.children_ended, 1)
        all_joined = now_ns - manager.newest_hello_ns > ALL_JOINED_NS
        return all_joined and registry.concurrency >= self._users

    def progress(self, left_ns: int) -> str:
        """A line for the user: which workers have joined, and how long the wait lasts at most."""
        registry = self._manager.registry
        joined = registry.load_workers
        left = f"{left_ns // SECOND_NS} s left"
        if self._expected:
            if joined and self._limits.fewer_workers_ok:
                left += f", then the run starts with {joined}"
            return f"Waiting for workers: {joined} of {self._expected} ({left})"
        if not joined:
            return f"Waiting for workers: none so far ({left})"
        users = f"{min(registry.concurrency, self._users)} of {self._users} users"
        return f"Waiting for workers: {joined} so far, for {users} ({left})"

    def shortcomings(self) -> list[str]:
        """Warnings if fewer workers or users are available than wanted.

        :raises NoWorkersError: if no worker joined; or fewer than expected, unless
            ``fewer_workers_ok``.
        """
        registry, expected = self._manager.registry, self._expected
        refused = "; ".join(islice(registry.refused.values(), _MAX_REFUSALS))
        because = f" ({refused})" if refused else ""
        joined, wait_s = registry.load_workers, self._limits.worker_wait_s
        if not joined:
            raise NoWorkersError(self._why_none(because))
        found = []
        if expected and joined < expected:
            if not self._limits.fewer_workers_ok:
                raise NoWorkersError(
                    f"only {joined} of {expected} workers joined within {wait_s:g} s{because};"
                    " the run was not started (--fewer-workers-ok runs with fewer)"
                )
            found.append(
                f"Only {joined} of {expected} workers joined{because}; continuing with {joined}"
            )
        if registry.concurrency < self._users:
            found.append(
                f"The workers can run only {registry.concurrency} of {self._users} users"
                f" ({self._offers()}); continuing with {registry.concurrency} (ssbench-worker -c"
                " sets how many one offers; its log says if its host allows no more)"
            )
        return found

    def _why_none(self, because: str) -> str:
        if self._manager.none_can_join:
            return "all workers that the run started have ended, and no other can join"
        address = self._transport
        work, results, control = address.ports
        advice = ", open these ports in the firewalls on the way, or give --workers N"
        if address.is_loopback:
            key = "make a key (ssbench-master make-key) for --zmq-key-file, or "
            if address.has_key and not address.has_key_of_host:
                key = ""
            advice = (
                f", or give --workers N. {address.ip} can be reached from this host only: for"
                f" workers on other hosts {key}bind another address with --zmq-bind-ip"
            )
        return (
            f"no worker joined within {self._limits.worker_wait_s:g} s at ports {work}, {results}"
            f" and {control} of {address.ip}{because}; start ssbench-worker processes"
            f" {address.key_hint}{advice}"
        )

    def _offers(self) -> str:
        """How many users each worker offers, the lowest numbers first."""
        workers = self._manager.registry.workers.values()
        offers = sorted((w.concurrency, w.name) for w in workers if not w.metrics_only)
        return first_of([f"{name}: {users}" for users, name in offers], _MAX_OFFERS)
