"""The master's workers: which are present, their users and clocks, and the control state that they
get.

A pure state machine: fed with messages and times, it returns which workers joined or left, and the
control state when one is due. It knows nothing of jobs. Times are nanoseconds of the master's
monotonic clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from ssbench.core.columns import ResultLayout, layouts
from ssbench.core.errors import RejectedError, SsbenchError
from ssbench.core.messages import (
    Bye,
    ControlState,
    Expired,
    Heartbeat,
    Hello,
    Leaving,
    NetworkCheck,
    Ready,
    in_clock_range,
)
from ssbench.core.model import SECOND_NS, Phase, WorkerExit
from ssbench.core.settings import MAX_WORKERS, Credentials, Limits, StorageSettings
from ssbench.core.text import first_of, plural, printable, said

#: A worker with the same id may replace one whose newest heartbeat is older than this.
SILENT_NS = 3 * SECOND_NS
_STATES_REMEMBERED = 128
_STATE_INTERVAL_NS = SECOND_NS
#: Between control states at first, while a new worker has answered none: subscribing takes a
#: moment, and what is sent before is lost.
_FIRST_GAP_NS = SECOND_NS // 200
#: Between the exit of a local worker's process and its loss: its last messages are read first.
_LAST_MESSAGES_NS = SECOND_NS // 4
#: Between any two of them, for each worker that they name: whatever changes how often, they take a
#: small share of the master and of the workers. (Each costs both about 1 µs.)
_GAP_PER_WORKER_NS = 20_000
#: Control states per worker timeout, at least: workers stop after half of it without one.
_STATES_PER_TIMEOUT = 8
#: Bounds of what hellos can make a master store, and send in each control state.
MAX_NAMES, MAX_REFUSED, MAX_DEPARTED = 16384, 256, 16384
#: Rate limits of new workers, in all and per id: a burst, then the rate per second. A hello above
#: the limit is ignored; the worker repeats it a second later.
_BURST, _BURST_PER_NAME = MAX_WORKERS, 16
_PER_S, _PER_S_PER_NAME = 20, 1
#: All that a worker sends is paid from one account: a message costs 1, and 1 for each so many
#: bytes; a batch or job that it names costs 1. What was sent to any worker earns as much: 1 for a
#: job; for a control state, its heartbeat; for a batch 1, its acknowledgement, and a message each
#: of its results and of what is returned. A second earns the rest, for metrics (those of 1,000
#: cores cost 100).
BYTES_OF_MESSAGE = 256
EARNED_BY_BATCH = 4
_EARNED_PER_S = 256
#: What a worker has when it joins, as an earlier incarnation left batches and jobs; and at most: it
#: may return all jobs of 100,000 users.
_EARNED_BEFORE, _MOST_SAVED = 4096, 1 << 18


class _Quota(Struct, eq=False):
    """A token bucket."""

    most: int
    per_s: int
    left: float = 0.0
    at_ns: int | None = None

    def allows(self, now_ns: int) -> bool:
        """Whether one more is allowed now; counts it."""
        earned = self.most if self.at_ns is None else (now_ns - self.at_ns) * self.per_s / SECOND_NS
        self.left, self.at_ns = min(self.left + earned, self.most), now_ns
        if self.left < 1:
            return False
        self.left -= 1
        return True


class WorkerState(Struct, eq=False):
    """One incarnation of a worker and its state."""

    index: int  #: its number in the stat file
    hello: Hello
    fresh_ns: int  #: when the newest control state that it answered was sent
    users: int = 0  #: assigned to it
    groups: tuple[int, ...] = ()  #: these users by group; () if there is one group
    offset_ns: int | None = None  #: its clock minus the master's
    round_trip_ns: int = 0  #: the smallest so far; the offset comes from it
    wall_offset_ns: int | None = None  #: its wall clock minus the master's; None: unknown
    origin_ns: int | None = None  #: the phase's start on its clock, by its estimate
    answered_serial: int = 0  #: serial of the newest control state that it answered
    #: the newest Ready: run, phase, and whether it has stopped there
    ready: tuple[str, int, bool] = ("", 0, False)
    receiving: bool = False  #: its work socket is open, by the newest Ready
    leaving: bool = False  #: it will exit, and must get no more jobs
    jobs: int = 0  #: jobs queued or in flight, by its newest heartbeat
    empty_since_ns: int | None = None  #: since when its heartbeats report no jobs
    cpu_percent: float | None = None  #: of its process, in per cent of one core; None: unknown
    #: of each schema of its results; None: can't be used
    layouts: Sequence[ResultLayout | None] = ()
    spent: float = 0  #: for what it sent, from what all could spend when it joined

    def __post_init__(self) -> None:
        self.layouts = layouts(self.hello.schemas, ResultLayout)

    @property
    def name(self) -> str:
        """``worker-3 (bench-host-02, pid 4711)``."""
        return f"{self.hello.worker_id} ({self.hello.host}, pid {self.hello.pid})"

    @property
    def concurrency(self) -> int:
        """Users that it can run. None before it has answered a control state: who only says hello
        takes no users from others."""
        return self.hello.concurrency if self.answered_serial and not self.leaving else 0

    @property
    def metrics_only(self) -> bool:
        """Whether it only sends metrics of its host: no run waits for it, or depends on it."""
        return not self.hello.concurrency

    @property
    def takes_load(self) -> bool:
        """Whether a run can wait for it, and depend on it."""
        return bool(self.answered_serial) and not self.metrics_only

    @property
    def uncertainty_ns(self) -> int:
        """Error bound of the offsets: the two directions may take different times."""
        return self.round_trip_ns // 2


class WorkerJoined(NamedTuple):
    """A new worker."""

    worker: WorkerState


class WorkerLeft(NamedTuple):
    """A worker left or was dropped; the jobs that it held have to be accounted for."""

    worker: WorkerState
    reason: str
    said_bye: bool


Event = WorkerJoined | WorkerLeft


class Workers:
    """The present workers. The caller sets the phase, ``start_ns`` and the flags, which are content
    of the control state; ``state_changed`` makes the next one due at once.

    :param master_id: 64 random bits; another number is another master.
    :param pipe: messages with jobs that may wait at a worker.
    :param control_port: named when a worker answers no control state.
    """

    def __init__(
        self,
        settings: StorageSettings | None = None,
        limits: Limits | None = None,
        *,
        master_id: int = 0,
        pipe: int = 1,
        control_port: int = 0,
    ) -> None:
        self.settings = settings or StorageSettings()
        self.limits = limits = limits or Limits()
        self.timeout_ns = int(limits.worker_timeout_s * SECOND_NS)
        self.present: dict[int, WorkerState] = {}  #: by incarnation
        self.secrets: dict[int, bytes] = {}  #: incarnation -> what its messages are sealed with
        self.refused: dict[int, str] = {}  #: incarnation -> why
        self.departed: dict[str, None] = {}  #: names of workers that left or were dropped, in order
        self.warnings: list[str] = []  #: for the user; the caller removes them
        self.newest_hello_ns = 0
        self.children_ended = 0  #: local worker processes
        self.children_gone = False  #: all of them, and no other worker can join
        self.renewal_wanted = False  #: the store rejected the present credentials
        # Users:
        self.users = 0  #: to assign to workers
        self.groups: tuple[int, ...] = ()  #: these users by group; () if there is one group
        self.assigned_users = 0  #: users that are assigned to workers
        self.assigned_groups = [0]  #: the same by group
        self.workers_with_users = 0  #: number of workers with at least one user
        self.earned = 0.0  #: by all workers: what each of them may have spent
        self.load_workers = 0  #: number of workers that can run users
        self.draining: frozenset[int] = frozenset()  #: workers without users that still get jobs
        self.closed_socket = False  #: a worker has closed its work socket, which may still get jobs
        self.work_connections = 0  #: that the master's work socket has
        # Content of the control state:
        self.phase = Phase.IDLE
        self.start_ns = 0  #: of the phase
        self.ending = self.stopping = self.closing = self.quit = False
        self.network: NetworkCheck | None = None
        self.state_changed = True
        self._id, self._pipe, self._control_port = master_id, pipe, control_port
        self._think_s, self._profile = (0.0, 0.0), False
        self._serial = 0  # of the newest control state
        self._sent_ns: dict[int, int] = {}  # serial -> when that control state was sent
        self._interval_ns = min(_STATE_INTERVAL_NS, self.timeout_ns // _STATES_PER_TIMEOUT)
        self._next_state_ns = 0
        self._changed_state_ns = 0  # not before, even where something has changed
        self._names: dict[str, tuple[int, _Quota]] = {}  # worker id -> index
        self._by_name: dict[str, WorkerState] = {}  # of the present workers
        self._quota = _Quota(_BURST, _PER_S)
        self._gone: dict[int, None] = {}  # incarnations that may not return, newest last
        self._refused_ns: dict[int, int] = {}  # when each of the refused said hello last
        self._renewal_fault = ""
        self._exits: list[tuple[int, WorkerExit]] = []  # when they count
        self._alone_since_ns = 0
        self._earned_ns: int | None = None  # until when time has earned

    def __repr__(self) -> str:
        return f"<Workers {self.phase.name} {len(self.present)} for {self.users} users>"

    @property
    def concurrency(self) -> int:
        """How many users the present workers can run."""
        return sum(worker.concurrency for worker in self.present.values())

    @property
    def receiving(self) -> int:
        """How many workers have their work socket open, as far as they have reported."""
        return sum(worker.receiving for worker in self.present.values())

    def enter(
        self, phase: Phase, think_s: tuple[float, float] = (0.0, 0.0), *, profile: bool = False
    ) -> None:
        """Another phase, or IDLE, from the next control state on.

        :param think_s: pause of a user after each operation: the shortest and the longest.
        :param profile: workers are to sample where they spend CPU time.
        """
        self.phase, self._think_s, self._profile = phase, think_s, profile
        self.ending = self.stopping = self.closing = False
        self.state_changed = True

    def allocate_users(self, users: int | None = None) -> None:
        """Split the users over the workers in proportion to their concurrency; from the next
        control state on.

        :param users: from now on; None: as before.

        A job goes to any worker with users, so with groups each of these has users of each group.
        """
        self.users = self.users if users is None else users
        self.state_changed = True
        if not self.users and not self.workers_with_users:  # none to assign, and none to take back
            self.assigned_groups = [0] * max(len(self.groups), 1)
            return
        capacities = {i: worker.concurrency for i, worker in self.present.items()}
        groups = self.groups if self.users else ()
        by_group = split_groups(groups, capacities) if groups else [split(self.users, capacities)]
        for incarnation, worker in self.present.items():
            shares = tuple(share.get(incarnation, 0) for share in by_group)
            worker.users, worker.groups = sum(shares), shares if groups else ()
        assigned = [sum(share.values()) for share in by_group]
        self.assigned_groups = assigned if self.users else [0] * max(len(self.groups), 1)
        self.assigned_users = sum(assigned)
        self.workers_with_users = sum(1 for worker in self.present.values() if worker.users)
        self.draining = frozenset(
            [i for i, worker in self.present.items() if worker.receiving and not worker.users]
        )

    def ready(self, *, stopped: bool = False) -> bool:
        """Whether every worker is connected for the phase (or, with users, stopped in it).

        One without users counts, too: its socket may be open from the phase before.
        """
        here = self.settings.run_id, self.phase, stopped
        return all(w.ready == here for w in self._in_phases() if w.users or not stopped)

    def ready_count(self) -> tuple[int, int]:
        """How many workers are connected for the phase, and how many are to be."""
        here = self.settings.run_id, self.phase, False
        ready = [worker.ready == here for worker in self._in_phases()]
        return sum(ready), len(ready)

    def _in_phases(self) -> list[WorkerState]:
        """The workers that take part in phases: not those that have answered no control state, or
        are leaving."""
        workers = self.present.values()
        return [w for w in workers if w.answered_serial and not (w.metrics_only or w.leaving)]

    def expect_workers(self, now_ns: int) -> None:
        """``no_workers_left`` counts from now on; or since the last worker left."""
        if self.load_workers or not self._alone_since_ns:
            self._alone_since_ns = now_ns

    def no_workers_left(self, now_ns: int) -> bool:
        """Whether there is no worker, and none joined within ``worker_wait_s``. That time may have
        begun in an earlier phase. Poll this regularly."""
        if self.load_workers:
            self._alone_since_ns = now_ns
            return False
        if self.none_can_join:
            return True
        alone_ns = now_ns - self._alone_since_ns
        return bool(self._alone_since_ns) and alone_ns > self.limits.worker_wait_s * SECOND_NS

    @property
    def none_can_join(self) -> bool:
        """Whether no worker will ever join: all local ones have ended, and only they could."""
        return self.children_gone and not self._exits

    def any_silent(self, now_ns: int) -> bool:
        """Whether a worker may be stopped or cut off: it has sent no heartbeat for three seconds,
        or half of the timeout if that is less."""
        longest_ns = min(SILENT_NS, self.timeout_ns // 2)
        return any(now_ns - worker.fresh_ns > longest_ns for worker in self.present.values())

    def receive(self, message: Hello | Bye | Leaving | Expired, now_ns: int) -> list[Event]:
        """A worker introduces itself (or repeats it), exits, will exit, or has credentials that
        the store rejects; returns who joined or left."""
        if isinstance(message, Hello):
            return self._on_hello(message, now_ns)
        worker = self.present.get(message.incarnation)
        if isinstance(message, Bye):
            self._forget_refusal(message.incarnation)
            reason = said(message.reason) or "it ended"
            return [self._remove(worker, reason, said_bye=True)] if worker else []
        if isinstance(message, Leaving):
            # Its users go to others, and it drains like one without users.
            if worker and not worker.leaving:
                worker.leaving = True
                self.allocate_users()
        elif worker and message.token_serial == self.settings.newest.serial:
            self.renewal_wanted = True
        return []

    def _on_hello(self, hello: Hello, now_ns: int) -> list[Event]:
        """A worker joins, unless it is known, refused or rate-limited. It replaces its own previous
        incarnation, or an unresponsive worker of the same id. A dropped worker must return as a new
        incarnation: its jobs are accounted for.
        """
        if hello.incarnation in self.present or hello.incarnation in self._gone:
            return []
        before = self.present.get(hello.previous)
        if before and before.hello.secret != hello.secret:
            before = None  # another worker's, which control states show to everybody
        namesake = self._by_name.get(hello.worker_id)
        if namesake and namesake is not before and now_ns - namesake.fresh_ns < SILENT_NS:
            taken = f'the worker id "{hello.worker_id}" is taken by {namesake.name}'
            self._refuse(hello, taken, now_ns)
            return []
        replaced = list(dict.fromkeys(worker for worker in (before, namesake) if worker))
        reason = "" if replaced else self._why_full(hello)
        if reason:
            self._refuse(hello, reason, now_ns)
            return []
        index, quota = self._names.get(hello.worker_id) or (
            len(self._names), _Quota(_BURST_PER_NAME, _PER_S_PER_NAME)
        )  # fmt: skip
        # One that was here does not wait for newcomers, of which there may be a flood.
        if not (quota.allows(now_ns) and (before or self._quota.allows(now_ns))):
            return []
        self._names[hello.worker_id] = index, quota
        for other in replaced:
            self._drop(other)
        self._forget_refusal(hello.incarnation)
        spent = self.earned - _EARNED_BEFORE
        worker = WorkerState(index, hello, fresh_ns=now_ns, spent=spent)
        self.present[hello.incarnation] = self._by_name[hello.worker_id] = worker
        self.secrets[hello.incarnation] = hello.secret
        self.newest_hello_ns = now_ns
        self.state_changed = True
        if any(other.answered_serial for other in replaced):
            self.allocate_users()
        reason = "it came back under a new incarnation"
        return [*(WorkerLeft(other, reason, False) for other in replaced), WorkerJoined(worker)]

    def _why_full(self, hello: Hello) -> str:
        """Why no more workers are accepted; "" if they are."""
        if len(self.present) >= MAX_WORKERS:
            return f"the master already has {MAX_WORKERS} workers, which is the maximum"
        if hello.worker_id not in self._names and len(self._names) >= MAX_NAMES:
            return f"the master has seen {MAX_NAMES} worker ids, which is the maximum"
        return ""

    def _refuse(self, hello: Hello, reason: str, now_ns: int) -> None:
        """Put the refusal into control states, up to a limit; above it, ignore the hello."""
        if hello.incarnation in self.refused or len(self.refused) < MAX_REFUSED:
            self.state_changed = self.state_changed or hello.incarnation not in self.refused
            self.refused[hello.incarnation] = reason
            self._refused_ns[hello.incarnation] = now_ns

    def _forget_refusal(self, incarnation: int) -> None:
        self.refused.pop(incarnation, None)
        self._refused_ns.pop(incarnation, None)

    def _expire_refusals(self, now_ns: int) -> None:
        """Drop refusals of workers that no longer say hello, which they do once a second: one that
        died sends no bye."""
        for incarnation, hello_ns in list(self._refused_ns.items()):
            if now_ns - hello_ns > max(self.timeout_ns, SILENT_NS):
                del self._refused_ns[incarnation]
                self.refused.pop(incarnation, None)

    def _drop(self, worker: WorkerState) -> None:
        del self.present[worker.hello.incarnation]
        del self.secrets[worker.hello.incarnation]
        self.load_workers -= worker.takes_load
        if self._by_name.get(worker.hello.worker_id) is worker:
            del self._by_name[worker.hello.worker_id]
        self._gone[worker.hello.incarnation] = None
        if len(self._gone) > MAX_DEPARTED:
            del self._gone[next(iter(self._gone))]

    def _remove(self, worker: WorkerState, reason: str, *, said_bye: bool = False) -> WorkerLeft:
        self.closed_socket = self.closed_socket or (said_bye and worker.receiving)
        self._forget_refusal(worker.hello.incarnation)
        self._drop(worker)
        if worker.answered_serial:
            self.allocate_users()
        # A worker may join and leave within one poll, so it is noted here.
        if len(self.departed) < MAX_NAMES:
            self.departed[worker.name] = None
        return WorkerLeft(worker, reason, said_bye)

    def heartbeat(self, heartbeat: Heartbeat, now_ns: int, wall_ns: int = 0) -> WorkerState | None:
        """A heartbeat arrived. Returns its worker; None if the worker is unknown, or the heartbeat
        answers no recent control state, or one that was already answered.

        :param wall_ns: the wall clock now; 0: unknown.

        What counts is when the answered control state was sent, not when the heartbeat arrived,
        because it may have waited in a buffer. A worker whose event loop is blocked is not fresh
        either. Clock offsets out of the range of messages stay unknown.
        """
        worker = self.present.get(heartbeat.incarnation)
        sent_ns = self._sent_ns.get(heartbeat.answered_serial)
        if worker is None or sent_ns is None or heartbeat.answered_serial <= worker.answered_serial:
            return None
        is_first, worker.answered_serial = not worker.answered_serial, heartbeat.answered_serial
        if is_first:
            self.load_workers += worker.takes_load
            self.allocate_users()
        worker.jobs = heartbeat.queued + heartbeat.busy
        if worker.jobs:
            worker.empty_since_ns = None
        elif worker.empty_since_ns is None:
            worker.empty_since_ns = now_ns
        if heartbeat.hub_idle_ns < self.timeout_ns:
            worker.fresh_ns = max(worker.fresh_ns, sent_ns)
        round_trip_ns = max(now_ns - sent_ns - max(heartbeat.hold_ns, 0), 0)
        # Clocks drift: old round trips lose weight.
        worker.round_trip_ns += worker.round_trip_ns // 100 + 1
        if worker.offset_ns is None or round_trip_ns < worker.round_trip_ns:
            worker.round_trip_ns = round_trip_ns
            worker.offset_ns = in_clock_range(heartbeat.worker_ns - (now_ns - round_trip_ns // 2))
        if heartbeat.wall_ns and wall_ns and worker.offset_ns is not None:
            # Each side knows the exact difference of its two clocks, so this is as accurate as the
            # offset of the monotonic ones, and shows at once when a wall clock is set.
            apart_ns = (heartbeat.wall_ns - heartbeat.worker_ns) - (wall_ns - now_ns)
            worker.wall_offset_ns = in_clock_range(apart_ns + worker.offset_ns)
        return worker

    def receive_ready(self, ready: Ready) -> WorkerState | None:
        """A worker is connected, has stopped, or has opened or closed its work socket. Returns it;
        None if it is unknown."""
        worker = self.present.get(ready.incarnation)
        if worker is None:
            return None
        if worker.ready[:2] != (ready.run, ready.phase):
            worker.origin_ns = ready.origin_ns  # once: no phase begins twice
        worker.ready = (ready.run, ready.phase, ready.stopped)
        self.closed_socket = self.closed_socket or (worker.receiving and not ready.receiving)
        worker.receiving = ready.receiving
        drains = {ready.incarnation} if ready.receiving and not worker.users else ()
        self.draining = self.draining.difference([ready.incarnation]).union(drains)
        return worker

    def charge(self, incarnation: int, cost: int) -> bool:
        """Whether a worker may send this, which then counts as spent; False for one that is not
        present. ``tick`` drops one that has spent more than it may."""
        worker = self.present.get(incarnation)
        if worker is None:
            return False
        worker.spent = max(worker.spent, self.earned - _MOST_SAVED) + cost
        return worker.spent <= self.earned

    def children_exited(self, exits: Iterable[WorkerExit], now_ns: int) -> None:
        """Processes of local workers have ended; ``tick`` gives them up a little later."""
        self._exits += [(now_ns + _LAST_MESSAGES_NS, exit_) for exit_ in exits]

    def tick(self, now_ns: int) -> Iterator[Event]:
        """Time has passed: gives the workers that are dropped."""
        while self._exits and now_ns >= self._exits[0][0]:
            _, ended = self._exits.pop(0)
            self.children_ended += 1
            yield from self._drop_child(ended)
        since_ns = now_ns if self._earned_ns is None else self._earned_ns
        self.earned += (now_ns - since_ns) * _EARNED_PER_S / SECOND_NS
        self._earned_ns = now_ns
        for worker in [w for w in self.present.values() if w.spent > self.earned]:
            yield self._remove(worker, "it sent more messages, batches and jobs than it was due")
        overdue = [w for w in self.present.values() if now_ns - w.fresh_ns > self.timeout_ns]
        for worker in overdue:
            reason = f"no heartbeat for {self.limits.worker_timeout_s:g} s"
            if not worker.answered_serial:
                reason += f" (can it reach port {self._control_port}, --zmq-control-port?)"
            yield self._remove(worker, reason)

    def _drop_child(self, ended: WorkerExit) -> Iterator[Event]:
        for worker in list(self.present.values()):
            if (worker.hello.worker_id, worker.hello.pid) == (ended.worker_id, ended.pid):
                yield self._remove(worker, ended.reason)
                return
        if not any(name.startswith(f"{ended.worker_id} (") for name in self.departed):
            self.warnings.append(
                f"Worker {ended.worker_id} (pid {ended.pid}) ended before it joined: {ended.reason}"
            )

    def wait_s(self, now_ns: int) -> float:
        """How long until the next control state is due, at most."""
        due_ns = self._changed_state_ns if self.state_changed else self._next_state_ns
        return max(due_ns - now_ns, 0) / SECOND_NS

    def control_state(self, now_ns: int, *, at_once: bool = False) -> ControlState | None:
        """The control state to send now; None if none is due, unless it is wanted at once."""
        if not at_once and self.wait_s(now_ns):
            return None
        self.state_changed = False
        named = len(self.present) + len(self.refused)
        self._changed_state_ns = now_ns + named * _GAP_PER_WORKER_NS
        self._next_state_ns = max(now_ns + self._gap_ns(now_ns), self._changed_state_ns)
        self._serial += 1
        self.earned += 1
        self._sent_ns[self._serial] = now_ns
        self._sent_ns.pop(self._serial - _STATES_REMEMBERED, None)
        self._expire_refusals(now_ns)
        running, in_run = self.phase is not Phase.IDLE, self.phase is Phase.RUN
        return ControlState(
            self._id,
            self._serial,
            now_ns,
            self.settings.run_id if running else "",
            self.phase,
            self.start_ns,
            {i: (worker.users, worker.offset_ns) for i, worker in self.present.items()},
            dict(self.refused),
            self.settings.to_map() if running else {},
            float(self.limits.worker_timeout_s),
            # For the run's own operations: initial objects may be of any size.
            float(self.limits.operation_timeout_s or 0) if in_run else 0.0,
            self._pipe,
            self.ending,
            self.stopping,
            self.quit,
            *self._think_s,
            {i: worker.groups for i, worker in self.present.items() if worker.groups},
            closing=self.closing,
            profile=self._profile,
            network=self.network,
        )

    def _gap_ns(self, now_ns: int) -> int:
        """Until the next control state: doubled each time while a worker has answered none."""
        if all(worker.answered_serial for worker in self.present.values()):
            return self._interval_ns
        return min(max(now_ns - self.newest_hello_ns, _FIRST_GAP_NS), self._interval_ns)

    def renewed(self, outcome: Credentials | SsbenchError, wall_ns: int) -> None:
        """The credentials were renewed, or not. ``wall_ns``: now, since 1970."""
        self.renewal_wanted = False
        newest = self.settings.newest
        names = [name for name, _ in self.settings.store.get("identities", ())]
        if isinstance(outcome, Credentials):
            # Earlier ones that the store still accepts stay: drivers may need both.
            is_valid = newest.expires_at is not None and newest.expires_at * SECOND_NS > wall_ns
            new = replace(outcome, serial=max(outcome.serial, newest.serial + 1))
            credentials = (newest, new) if is_valid else (new,)
            self._renewal_fault = ""
        else:
            fault, rejected = str(outcome), newest.rejected
            if isinstance(outcome, RejectedError):
                rejected = tuple(range(1, len(names) + 1)) or (0,)
                fault += "; there are no other credentials, so operations fail at once"
            if fault != self._renewal_fault:  # it may occur once a second
                self.warnings.append(f"The credentials could not be renewed: {fault}")
            self._renewal_fault = fault
            # A new serial lets the waiting operations try again, and fail.
            credentials = (replace(newest, serial=newest.serial + 1, rejected=rejected),)
        new_ones = set(credentials[-1].rejected) - set(newest.rejected)
        rejected_names = [name for at, name in enumerate(names, 1) if at in new_ones]
        if rejected_names:
            self.warnings.append(
                f"The store rejects the credentials of"
                f" {plural(len(rejected_names), 'identity')}; there are no other credentials, so"
                f" operations fail at once: {printable(first_of(rejected_names, 10))}"
            )
        self.settings = replace(self.settings, credentials=credentials)
        self.state_changed = True


def split(users: int, capacities: Mapping[int, int]) -> dict[int, int]:
    """Distribute ``users`` in proportion to the capacities, none above its capacity.

    By largest remainder, so that equal workers differ by at most one. Users above the sum of the
    capacities are not assigned.
    """
    total = sum(capacities.values())
    users = min(users, total)
    if not users:
        return dict.fromkeys(capacities, 0)
    shares = {key: users * capacity // total for key, capacity in capacities.items()}
    left = users - sum(shares.values())
    for key in sorted(capacities, key=lambda key: -(users * capacities[key] % total))[:left]:
        shares[key] += 1
    return shares


def split_groups(groups: Sequence[int], capacities: Mapping[int, int]) -> list[dict[int, int]]:
    """Distribute each group's users over the same workers, at least one to each; groups without
    users have none.

    So there are no more workers than users in the smallest group; those with the highest
    capacities are taken. Users above the sum of the capacities are not assigned.
    """
    used = [users for users in groups if users]
    largest = sorted(capacities, key=lambda key: -capacities[key])[: min(used, default=0)]
    left = {key: capacities[key] - len(used) for key in largest if capacities[key] >= len(used)}
    shares = list[dict[int, int]]()
    for users in groups:
        if not users:
            shares.append({})
            continue
        share = split(max(users - len(left), 0), left)
        shares.append({key: 1 + more for key, more in share.items()})
        left = {key: capacity - share[key] for key, capacity in left.items()}
    return shares
