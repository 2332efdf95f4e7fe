"""The worker registry: the master's list of workers, their users and their clocks.

A pure state machine: feed it messages and the time, and ask it for the next control state's
content. Times are nanoseconds of the master's monotonic clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from ssbench.core.columns import ResultLayout, layouts
from ssbench.core.messages import Heartbeat, Hello, Ready, in_clock_range
from ssbench.core.model import SECOND_NS, Phase
from ssbench.core.records import ClockRecord
from ssbench.core.text import plural

#: A worker with the same id may replace one whose newest heartbeat is older than this.
SILENT_NS = 3 * SECOND_NS
_STATES_REMEMBERED = 128
#: Bounds of what hellos can make a master store, and send in each control state.
MAX_WORKERS, MAX_NAMES, MAX_REFUSED, MAX_DEPARTED = 2048, 16384, 256, 16384
#: Rate limits of new workers, in all and per id: a burst, then so many per second. A hello above
#: the limit is ignored; the worker repeats it a second later.
_BURST, _BURST_PER_NAME = MAX_WORKERS, 16
_PER_S, _PER_S_PER_NAME = 20, 1
#: Wall clocks that differ by more are worth a warning.
ALARM_NS = SECOND_NS // 10
#: Corrections that differ by less are the same: rows of the time series are 10,000 times longer.
_SAME_NS = SECOND_NS // 10_000


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

    def __post_init__(self) -> None:
        self.layouts = layouts(self.hello.schemas, ResultLayout)

    @property
    def name(self) -> str:
        """``worker-3 (bench-host-02, pid 4711)``."""
        return f"{self.hello.worker_id} ({self.hello.host}, pid {self.hello.pid})"

    @property
    def concurrency(self) -> int:
        """Users that it can run."""
        return 0 if self.leaving else self.hello.concurrency

    @property
    def metrics_only(self) -> bool:
        """Whether it only sends metrics of its host: no run waits for it, or depends on it."""
        return not self.hello.concurrency

    @property
    def uncertainty_ns(self) -> int:
        """Error bound of the offsets: the two directions may take different times."""
        return self.round_trip_ns // 2


class WorkerRegistry:
    """The present workers, by incarnation."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_ns = int(timeout_s * SECOND_NS)
        self.workers: dict[int, WorkerState] = {}
        self.secrets: dict[int, bytes] = {}  #: incarnation -> what its messages are sealed with
        self.refused: dict[int, str] = {}  #: incarnation -> why
        self.users = 0  #: to assign to workers
        self.groups: tuple[int, ...] = ()  #: these users by group; () if there is one group
        self.assigned_users = 0  #: users that are assigned to workers
        self.assigned_groups = [0]  #: the same by group
        self.workers_with_users = 0  #: number of workers with at least one user
        self.draining: frozenset[int] = frozenset()  #: workers without users that still get jobs
        self.closed_socket = False  #: a worker has closed its work socket, which may still get jobs
        self.work_connections = 0  #: that the master's work socket has
        self.load_workers = 0  #: number of workers that can run users
        self.serial = 0  #: of the newest control state
        self._sent_ns: dict[int, int] = {}  # serial -> when that control state was sent
        self._names: dict[str, tuple[int, _Quota]] = {}  # worker id -> index
        self._by_name: dict[str, WorkerState] = {}  # of the present workers
        self._quota = _Quota(_BURST, _PER_S)
        self._departed: dict[int, None] = {}  # incarnations that may not return, newest last
        self._refused_ns: dict[int, int] = {}  # when each of the refused said hello last

    def __repr__(self) -> str:
        return f"<WorkerRegistry {len(self.workers)} workers for {self.users} users>"

    @property
    def concurrency(self) -> int:
        """How many users the present workers can run."""
        return sum(worker.concurrency for worker in self.workers.values())

    @property
    def receiving(self) -> int:
        """How many workers have their work socket open, as far as they have reported."""
        return sum(worker.receiving for worker in self.workers.values())

    def control_state_sent(self, now_ns: int) -> int:
        """A control state is sent now; returns its serial."""
        self.serial += 1
        self._sent_ns[self.serial] = now_ns
        self._sent_ns.pop(self.serial - _STATES_REMEMBERED, None)
        self._expire_refusals(now_ns)
        return self.serial

    def _expire_refusals(self, now_ns: int) -> None:
        """Drop refusals of workers that no longer say hello, which they do once a second: one that
        died sends no bye."""
        for incarnation, hello_ns in list(self._refused_ns.items()):
            if now_ns - hello_ns > max(self.timeout_ns, SILENT_NS):
                del self._refused_ns[incarnation]
                self.refused.pop(incarnation, None)

    def register(self, hello: Hello, now_ns: int) -> tuple[WorkerState | None, list[WorkerState]]:
        """A worker sent a hello.

        Returns the worker if it is new (None: already known, refused or rate-limited) and the
        workers that it replaces: its own previous incarnation, or an unresponsive one of the same
        id. A dropped worker must return as a new incarnation: its jobs are accounted for.
        """
        if hello.incarnation in self.workers or hello.incarnation in self._departed:
            return None, []
        before = self.workers.get(hello.previous)
        if before and before.hello.secret != hello.secret:
            before = None  # another worker's, which control states show to everybody
        namesake = self._by_name.get(hello.worker_id)
        if namesake and namesake is not before and now_ns - namesake.fresh_ns < SILENT_NS:
            taken = f'the worker id "{hello.worker_id}" is taken by {namesake.name}'
            self._refuse(hello, taken, now_ns)
            return None, []
        replaced = list(dict.fromkeys(worker for worker in (before, namesake) if worker))
        reason = "" if replaced else self._why_full(hello)
        if reason:
            self._refuse(hello, reason, now_ns)
            return None, []
        index, quota = self._names.get(hello.worker_id) or (
            len(self._names), _Quota(_BURST_PER_NAME, _PER_S_PER_NAME)
        )  # fmt: skip
        if not (quota.allows(now_ns) and self._quota.allows(now_ns)):
            return None, []
        self._names[hello.worker_id] = index, quota
        for other in replaced:
            self._drop(other)
        self._forget_refusal(hello.incarnation)
        worker = WorkerState(index, hello, fresh_ns=now_ns)
        self.workers[hello.incarnation] = self._by_name[hello.worker_id] = worker
        self.secrets[hello.incarnation] = hello.secret
        self.load_workers += not worker.metrics_only
        self.allocate_users()
        return worker, replaced

    def _why_full(self, hello: Hello) -> str:
        """Why no more workers are accepted; "" if they are."""
        if len(self.workers) >= MAX_WORKERS:
            return f"the master already has {MAX_WORKERS} workers, which is the maximum"
        if hello.worker_id not in self._names and len(self._names) >= MAX_NAMES:
            return f"the master has seen {MAX_NAMES} worker ids, which is the maximum"
        return ""

    def _refuse(self, hello: Hello, reason: str, now_ns: int) -> None:
        """Put the refusal into control states, up to a limit; above it, ignore the hello."""
        if hello.incarnation in self.refused or len(self.refused) < MAX_REFUSED:
            self.refused[hello.incarnation] = reason
            self._refused_ns[hello.incarnation] = now_ns

    def _forget_refusal(self, incarnation: int) -> None:
        self.refused.pop(incarnation, None)
        self._refused_ns.pop(incarnation, None)

    def _drop(self, worker: WorkerState) -> None:
        del self.workers[worker.hello.incarnation]
        del self.secrets[worker.hello.incarnation]
        self.load_workers -= not worker.metrics_only
        if self._by_name.get(worker.hello.worker_id) is worker:
            del self._by_name[worker.hello.worker_id]
        self._departed[worker.hello.incarnation] = None
        if len(self._departed) > MAX_DEPARTED:
            del self._departed[next(iter(self._departed))]

    def heartbeat(self, heartbeat: Heartbeat, now_ns: int, wall_ns: int = 0) -> WorkerState | None:
        """A heartbeat arrived. Returns its worker; None if the worker is unknown, or the heartbeat
        answers no recent control state, or one that was already answered.

        :param wall_ns: the wall clock now; 0: unknown.

        What counts is when the answered control state was sent, not when the heartbeat arrived,
        because it may have waited in a buffer. A worker whose event loop is blocked is not fresh
        either. Clock offsets out of the range of messages stay unknown.
        """
        worker = self.workers.get(heartbeat.incarnation)
        sent_ns = self._sent_ns.get(heartbeat.answered_serial)
        if worker is None or sent_ns is None or heartbeat.answered_serial <= worker.answered_serial:
            return None
        worker.answered_serial = heartbeat.answered_serial
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
        worker = self.workers.get(ready.incarnation)
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

    def leave(self, incarnation: int) -> None:
        """A worker will exit: its users go to others, and it drains like one without users."""
        worker = self.workers.get(incarnation)
        if worker is not None:
            worker.leaving = True
            self.allocate_users()

    def remove(self, incarnation: int, *, closed: bool = False) -> WorkerState | None:
        """Remove a worker that left or was dropped; None if it was not present.

        :param closed: it has closed its work socket.
        """
        self._forget_refusal(incarnation)
        worker = self.workers.get(incarnation)
        if worker is not None:
            self.closed_socket = self.closed_socket or (closed and worker.receiving)
            self._drop(worker)
            self.allocate_users()
        return worker

    def overdue(self, now_ns: int) -> list[WorkerState]:
        """Workers without a heartbeat for the timeout, which are to be dropped."""
        return [w for w in self.workers.values() if now_ns - w.fresh_ns > self.timeout_ns]

    def any_silent(self, now_ns: int) -> bool:
        """Whether a worker may be stopped or cut off: it has sent no heartbeat for three seconds,
        or half of the timeout if that is less."""
        longest_ns = min(SILENT_NS, self.timeout_ns // 2)
        return any(now_ns - worker.fresh_ns > longest_ns for worker in self.workers.values())

    def allocate_users(self) -> None:
        """Split the users over the workers in proportion to their concurrency.

        A job goes to any worker with users, so with groups each of these has users of each group.
        """
        if not self.users and not self.workers_with_users:  # none to assign, and none to take back
            self.assigned_groups = [0] * max(len(self.groups), 1)
            return
        capacities = {i: worker.concurrency for i, worker in self.workers.items()}
        groups = self.groups if self.users else ()
        by_group = split_groups(groups, capacities) if groups else [split(self.users, capacities)]
        for incarnation, worker in self.workers.items():
            shares = tuple(share.get(incarnation, 0) for share in by_group)
            worker.users, worker.groups = sum(shares), shares if groups else ()
        assigned = [sum(share.values()) for share in by_group]
        self.assigned_groups = assigned if self.users else [0] * max(len(self.groups), 1)
        self.assigned_users = sum(assigned)
        self.workers_with_users = sum(1 for worker in self.workers.values() if worker.users)
        self.draining = frozenset(
            [i for i, worker in self.workers.items() if worker.receiving and not worker.users]
        )

    def assignments(self) -> dict[int, tuple[int, int | None]]:
        """Content of the control state: incarnation -> users and clock offset."""
        return {i: (worker.users, worker.offset_ns) for i, worker in self.workers.items()}

    def group_assignments(self) -> dict[int, tuple[int, ...]]:
        """The same: incarnation -> users by group; {} if there is one group."""
        return {i: worker.groups for i, worker in self.workers.items() if worker.groups}

    def all_ready(self, run: str, phase: int, *, stopped: bool = False) -> bool:
        """Whether every worker is connected for the phase (or, with users, stopped in it).

        One without users counts, too: its socket may be open from the phase before.
        """
        here = (run, phase, stopped)
        return all(w.ready == here for w in self._in_phases() if w.users or not stopped)

    def ready_count(self, run: str, phase: int) -> tuple[int, int]:
        """How many workers are connected for the phase, and how many are to be."""
        ready = [worker.ready == (run, phase, False) for worker in self._in_phases()]
        return sum(ready), len(ready)

    def _in_phases(self) -> list[WorkerState]:
        """The workers that take part in phases: not those that are leaving."""
        return [w for w in self.workers.values() if not (w.metrics_only or w.leaving)]


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
    """Distribute each group's users over the same workers, at least one to each.

    So there are no more workers than users in the smallest group; those with the highest
    capacities are taken. Users above the sum of the capacities are not assigned.
    """
    largest = sorted(capacities, key=lambda key: -capacities[key])[: min(groups)]
    left = {key: capacities[key] - len(groups) for key in largest if capacities[key] >= len(groups)}
    shares = []
    for users in groups:
        share = split(max(users - len(left), 0), left)
        shares.append({key: 1 + more for key, more in share.items()})
        left = {key: capacity - share[key] for key, capacity in left.items()}
    return shares


class ClockSkewTracker:
    """Decides when to write a ClockRecord, or to warn, about a worker's clocks.

    A worker converts the phase's start to its own clock once, with the clock offset known to the
    master at that time, and measures the offsets of its results from there. The estimate improves
    with every heartbeat. Whenever it changes, a correction goes to the stat file for the batches
    that follow.

    The error of corrected offsets is at most half of the smallest round trip so far (a millisecond
    or less in a quiet network), because the two directions may take different times. Old round
    trips are weighted 1 % worse per heartbeat, so that drifting clocks are measured again.
    Durations come from one clock and are exact.
    """

    def __init__(self) -> None:
        self._written: dict[int, ClockRecord] = {}  # by worker's index, in the current phase
        self._alarmed: set[str] = set()  # worker ids

    def __repr__(self) -> str:
        return f"<ClockSkewTracker {len(self._written)} workers>"

    def enter(self) -> None:
        """Another phase begins."""
        self._written.clear()

    def record(
        self, worker: WorkerState, run: str, phase: Phase, start_ns: int
    ) -> ClockRecord | None:
        """The record to write before a worker's next batch; None if nothing changed.

        :param start_ns: the phase's start on the master's clock.
        """
        if worker.ready[:2] != (run, phase):
            return None  # its origin is that of another phase
        if worker.origin_ns is None or worker.offset_ns is None:
            return None
        shift_ns = in_clock_range(worker.origin_ns - (start_ns + worker.offset_ns))
        if shift_ns is None:
            return None
        known = self._written.get(worker.index)
        if known is not None and abs(shift_ns - known.shift_ns) < _SAME_NS:
            return None
        record = ClockRecord(
            worker.index, phase, shift_ns, worker.uncertainty_ns, worker.wall_offset_ns
        )
        self._written[worker.index] = record
        return record

    def alarm(self, worker: WorkerState) -> str:
        """A warning about a worker's wall clock, once per worker; otherwise ""."""
        offset_ns = worker.wall_offset_ns
        if offset_ns is None or worker.hello.worker_id in self._alarmed:
            return ""
        if abs(offset_ns) - worker.uncertainty_ns <= ALARM_NS:
            return ""
        self._alarmed.add(worker.hello.worker_id)
        return (
            f"The clock of worker {worker.name} is {_seconds(offset_ns)}"
            f" {'ahead of' if offset_ns > 0 else 'behind'} the master's: the report uses"
            " the master's time; logs of that host differ from it (is NTP running there?)"
        )


def _seconds(span_ns: int) -> str:
    seconds = abs(span_ns) / SECOND_NS
    if seconds >= 120:
        return plural(round(seconds / 60), "minute")
    return f"{seconds:.3g} s"
