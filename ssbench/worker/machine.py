"""The decisions of a worker: a state machine without sockets, event loop or clock.

The shell (worker.py) feeds it with messages and times. It answers with messages to the master, in
``outbox``, and with actions on sockets, store and users, in ``actions``; the shell carries both
out. Users (user_pool.py) take jobs from ``HeldJobs`` and append what they completed: the machine
sees messages, never single operations.

The life of a worker::

              hello                  control state lists it         run and phase, users
    unknown ─────────▶ hello sent ──────────────────▶ idle ──────────────────────▶ connecting
       ▲                                               ▲                                │ ready
       │ lease expired, dropped, another master        │ another phase                  ▼
       └───────────────────────────────────────────────┴───────────────────────────  working

The lease: a worker whose newest control state is older than half the worker timeout starts nothing
more, drops its queue and returns under a new incarnation. So no job that the master gives up, after
the whole timeout, can run a second time. After the whole timeout the worker gives up the master:
it waits for the next one, or exits.

Times are nanoseconds of the worker's monotonic clock, unless a message says otherwise.
"""

from __future__ import annotations

import logging
import random
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from ssbench.core.columns import SCHEMA_NUMBERS, JobLayout, layout, layouts
from ssbench.core.cpu_profile import CpuProfile
from ssbench.core.dispatch.result_bounds import ResultBounds
from ssbench.core.errors import ExitStatus, MessageError
from ssbench.core.hiding import Secrets
from ssbench.core.messages import (
    MAX_NUMBERS,
    MAX_RESULT_BYTES,
    MAX_TEXT,
    Ack,
    Addresses,
    Bye,
    ControlState,
    Expired,
    Hello,
    Jobs,
    Leaving,
    Message,
    Network,
    NetworkCheck,
    NetworkResult,
    Profiled,
    Ready,
    Results,
    Returned,
    decode,
    pack,
)
from ssbench.core.model import SECOND_NS, Phase
from ssbench.core.settings import Credentials, StorageSettings, WorkerSettings, newest_credentials
from ssbench.core.text import plural, said
from ssbench.transport.authenticator import RejectedMessages
from ssbench.worker.held_jobs import Completed, HeldJobs, pack_possible

log = logging.getLogger(__name__)

_DELAYS = 64  #: newest control states that the offset is taken from; clocks drift over days
_HELLO_NS = SECOND_NS  #: between two hellos
#: A worker takes a new incarnation if control states have not listed it for this long: the master
#: listed it and dropped it again while no control state arrived. The time counts from the first of
#: a master's control states, not from the hello: one that checks the store first reads it late.
_UNANSWERED_NS = 5 * SECOND_NS
#: A refused worker repeats its hello this long: the worker of the same id may be dead, and not yet
#: lost.
_REFUSED_NS = 15 * SECOND_NS
NO_MASTER_WARNING_S = 10
#: How long a worker of one master waits for it: that of a cluster's job may be pulling its image.
_NO_MASTER_S = 600
#: A worker that exits waits at most this long until the master sends it no more jobs.
_LEAVING_NS = 2 * SECOND_NS
#: An operation with rejected credentials asks the master for new ones once a second, and waits for
#: them at most this long.
_ASK_NS, _RENEWAL_NS = SECOND_NS, 60 * SECOND_NS
#: Longest pauses of the shell between two ticks: until the hello is sent (connecting takes a
#: moment), while there is no master to take it, while the worker waits for its last operations
#: before it exits, and at all other times.
_HELLO_PAUSE_S, _ALONE_PAUSE_S, _DRAIN_PAUSE_S, TICK_S = 0.005, 0.05, 0.02, 0.25
#: Freed when memory runs out: an orderly exit needs some. More than malloc keeps for itself.
_RESERVE_BYTES = 1 << 20


class ClockSync:
    """A worker's estimate of the master's clock, and until when it may start operations."""

    def __init__(self) -> None:
        self.delay_ns = 0  #: worker's clock minus master's, plus the shortest transit time
        #: Half the worker timeout after the newest control state was sent.
        self.lease_expires_ns = 0
        self.timeout_ns = 10 * SECOND_NS  #: the worker timeout
        self._master = 0
        self._delays_ns: deque[int] = deque(maxlen=_DELAYS)  # arrival minus the master's clock

    def update(self, control_state: ControlState, arrived_ns: int) -> None:
        """A control state arrived. A new master has another clock: earlier samples are dropped."""
        if control_state.master != self._master:
            self._master = control_state.master
            self._delays_ns.clear()
        self._delays_ns.append(arrived_ns - control_state.master_ns)
        self.delay_ns = min(self._delays_ns)
        self.timeout_ns = int(control_state.timeout_s * SECOND_NS)
        self.lease_expires_ns = control_state.master_ns + self.delay_ns + self.timeout_ns // 2

    def is_stale(self, sent_ns: int, now_ns: int) -> bool:
        """Whether a message sent at ``sent_ns`` (master's clock) is older than half the timeout."""
        return now_ns - (sent_ns + self.delay_ns) > self.timeout_ns // 2


class WorkerPhase(Struct, eq=False):
    """A phase of a run, as one incarnation of a worker takes part in it."""

    incarnation: int
    state: ControlState  #: that it began with: the run, the store's settings, the time limits
    origin_ns: int  #: the phase's start on the worker's clock
    held: HeldJobs
    connected: int = 0  #: users for whom the store has connections
    wanted: int = 0  #: users by the newest control state; their connections may not be there yet
    groups: Sequence[int] = ()  #: these by group
    receiving: bool = False  #: the work socket is open
    ready: bool = False  #: the store is connected
    ending: bool = False  #: the master has no more jobs
    stopping: bool = False  #: start nothing more
    stopped_serial: int = 0  #: of the newest control state that said so; earlier ones say nothing
    #: The next stage may begin; this worker is not yet connected for its users.
    resuming: bool = False
    connecting: int = 0  #: users for whom connections are being made
    bounds: ResultBounds | None = None  #: of its results; from the first of them
    #: Of the store, which its results number, and which grows; how many of them the master knows.
    addresses: Sequence[str] = ()
    addresses_told: int = 0
    run: str = ""
    phase: Phase = Phase.IDLE

    def __post_init__(self) -> None:
        self.run, self.phase = self.state.run, Phase(self.state.phase)

    def __repr__(self) -> str:
        return f"<WorkerPhase {self.phase.name} {self.held}>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:  # the settings have credentials
        return [("phase", self.phase), ("held", self.held)]


class OpenJobs(NamedTuple):
    """Open the work socket, if it is closed; the length of its pipe is changed in any case."""

    pipe: int  #: messages that may wait in it


class CloseJobs(NamedTuple):
    """Close the work socket. First receive what is in it, as long as ``wants_jobs`` is true; send
    the outbox only after that."""


class Connect(NamedTuple):
    """Open the store if needed, connect it for this many users, then call ``connected``."""

    phase: WorkerPhase
    users: int


class Resize(NamedTuple):
    """``held.users`` has changed."""

    phase: WorkerPhase


class EndPhase(NamedTuple):
    """End the users; results of operations in flight are discarded."""


class CheckNetwork(NamedTuple):
    """Measure a connection, then call ``network_checked``."""

    check: NetworkCheck


class SetCredentials(NamedTuple):
    """Use these credentials, if they are newer than the store's."""

    credentials: Credentials


Action = OpenJobs | CloseJobs | Connect | Resize | EndPhase | SetCredentials | CheckNetwork


class WorkerMachine:
    """One worker. See the module's docstring.

    :param chance: draws incarnations.
    """

    def __init__(self, settings: WorkerSettings, chance: random.Random, now_ns: int) -> None:
        self.outbox: deque[Message] = deque()  #: to the master, in this order
        self.actions: deque[Action] = deque()  #: for the shell, in this order
        self.phase: WorkerPhase | None = None
        self.status: ExitStatus | None = None  #: not None: exit now
        self.ticked_ns = now_ns
        self.settings = settings
        self._chance = chance
        self._now_ns = now_ns  # the newest time that was given
        #: 64 random bits, minus one; new each time that the worker loses its lease.
        self.incarnation = chance.getrandbits(63)
        self._previous = 0  # the incarnation before it; 0 for none
        self._known = False  # a control state has listed this incarnation
        self._master = 0  # the newest that listed one; 0: it is gone
        self._refused_since_ns: int | None = None
        self._clock_sync = ClockSync()
        self._state: ControlState | None = None  # the newest that listed this worker
        self._joined: tuple[str, int] = ("", Phase.IDLE)  # run and phase
        self._layouts: Sequence[JobLayout | None] = ()  # of the schemas of its jobs
        self._rejected = RejectedMessages("work")
        self._unacked: list[int] = []  # batches
        self._to_return: list[int] = []  # numbers of jobs that arrived and will not be started
        self._stop_reported = False
        self._serial = 0  # of the newest credentials
        self._secrets = Secrets()  # in them
        self._credentials_ns = 0  # when they came
        self._rejected_identities: Collection[int] = ()  # as of Credentials
        self._next_ask_ns = 0
        self._checked = (0, 0)  # the newest check of the network: master and number
        self._next_hello_ns = 0
        #: The master (0: none) whose control states do not list this incarnation, and since when.
        self._unlisted = (0, 0)
        self._silent_ns = 0  # since the newest control state, see ``tick``
        self._heard_any = False
        self._warned_of_no_master = False
        self._dropped = 0  # jobs, since a master last listed this worker
        self._cut_short = False  # a phase, since then
        self._exit: tuple[str, ExitStatus] | None = None
        self._leaving_until_ns = 0  # it waits for the end of its jobs
        self._reserve: bytearray | None = bytearray(_RESERVE_BYTES)

    def __repr__(self) -> str:
        master = (self._known and self._master) or "no master"
        return f"<WorkerMachine {self.settings.worker_id} known to {master} {self.phase}>"

    @property
    def in_phase(self) -> bool:
        """Whether a run has a phase for this worker."""
        return self._joined[1] != Phase.IDLE

    @property
    def pause_s(self) -> float:
        """When the next ``tick`` is due, at the latest."""
        if self._exit:
            return _DRAIN_PAUSE_S
        if not self.settings.concurrency or self._known:
            return TICK_S
        # Waking so often costs 4 % of a core: only for a second from the start, or from a master's
        # last control state.
        return _HELLO_PAUSE_S if self._silent_ns < SECOND_NS else _ALONE_PAUSE_S

    def receive_control_state(self, state: ControlState, arrived_ns: int, now_ns: int) -> None:
        """A control state arrived. Only the newest one counts, each is complete."""
        self._now_ns = now_ns
        self._silent_ns, self._heard_any = 0, True
        self._clock_sync.update(state, arrived_ns)
        if self.phase:
            self.phase.held.lease_expires_ns = self._clock_sync.lease_expires_ns
        listed, refused = self.incarnation in state.workers, self.incarnation in state.refused
        quits = state.quit and (listed or refused)
        if refused and not quits:
            self._on_refused(said(state.refused[self.incarnation]), now_ns)
        elif self._exit:
            if listed and not quits:
                if state.stopping or (state.run, state.phase) != self._joined:
                    self._leaving_until_ns = 0  # no more jobs come
                self._close_if_drained(state)
        elif quits:
            # Only once the master knows us: the channel to the master may connect later than the
            # one from it, and our bye would be lost.
            self._begin_exit("the master says so")
        elif listed:
            self._on_accepted(state, now_ns)
        elif self._known and state.master == self._master:
            self._drop_all("The master has dropped this worker")
        elif self._known:
            self._on_master_lost("another one has started")
        elif self._unlisted[0] != state.master:
            self._unlisted = state.master, now_ns
        elif now_ns - self._unlisted[1] > _UNANSWERED_NS:
            self._rejoin()

    def _on_refused(self, reason: str, now_ns: int) -> None:
        if self._refused_since_ns is None:
            self._refused_since_ns = now_ns
            log.warning("The master refuses this worker: %s", reason)
        elif now_ns - self._refused_since_ns > _REFUSED_NS:
            self._begin_exit(f"refused: {reason}", ExitStatus.FAILED)

    def _on_accepted(self, state: ControlState, now_ns: int) -> None:
        if state.master != self._master:
            self._serial = 0  # each master counts its own credentials
        self._known, self._master, self._refused_since_ns = True, state.master, None
        users = state.workers[self.incarnation][0]
        if max(users, sum(state.groups.get(self.incarnation, ()))) > self.settings.concurrency:
            self._begin_exit(
                f"the master gave it {plural(users, 'user')}; it runs"
                f" {self.settings.concurrency} at most (-c)",
                ExitStatus.FAILED,
            )
            return
        self._dropped, self._cut_short = 0, False
        if self.settings.exit_with_master and state.is_goodbye:
            cut = self.phase is not None and self.phase.held.total
            self._begin_exit("the run is over", ExitStatus.FAILED if cut else ExitStatus.OK)
            return
        self._state = state
        if (state.run, state.phase) != self._joined:
            self._change_phase(state)
        newest = newest_credentials(state.settings)
        if newest is not None and newest.serial > self._serial:
            self._serial, self._credentials_ns = newest.serial, now_ns
            self._secrets = Secrets(newest.payload, self._secrets)
            self._rejected_identities = frozenset(newest.rejected)
            self.actions.append(SetCredentials(newest))
        self._follow(state)
        check = state.network
        is_ours = check is not None and check.incarnation == self.incarnation
        if check and is_ours and self._checked != (state.master, check.number):
            self._checked = state.master, check.number
            self.actions.append(CheckNetwork(check))

    def _change_phase(self, state: ControlState) -> None:
        self._end_phase()
        self._joined = state.run, state.phase
        self._layouts = layouts(state.job_schemas, JobLayout)
        if not (self.in_phase and self.settings.concurrency):
            return  # the next run needs its socket: jobs sent while one closes are lost
        users, offset_ns = state.workers[self.incarnation]
        if offset_ns is None:
            offset_ns = self._clock_sync.delay_ns
        self.phase = WorkerPhase(
            self.incarnation, state, state.start_ns + offset_ns,
            HeldJobs(self._clock_sync.lease_expires_ns, len(self._groups(state))),
        )  # fmt: skip
        self._stop_reported = False
        # Before the store's connections take the descriptors that there are. A worker without
        # users must receive no jobs: its socket may be open from the phase before.
        self._receive(self.phase, users > 0, state.pipe)
        self.actions.append(Connect(self.phase, users))

    def _receive(self, phase: WorkerPhase, on: bool, pipe: int) -> None:
        phase.receiving = on
        self.actions.append(OpenJobs(pipe) if on else CloseJobs())

    def _follow(self, state: ControlState) -> None:
        """Apply a control state of the present phase, once the store is connected."""
        phase = self.phase
        if phase is None or not phase.ready:
            return
        groups = self._groups(state)
        users = sum(groups)
        phase.held.share = users / max(sum(each for each, _ in state.workers.values()), 1)
        self._close_if_drained(state)
        if state.stopping:
            phase.stopping, phase.stopped_serial = True, max(state.serial, phase.stopped_serial)
        elif phase.stopping and state.serial > phase.stopped_serial:
            phase.stopping, phase.resuming = False, True
        if users and not phase.receiving:
            self._receive(phase, True, state.pipe)
            self._send_ready(phase)
        if users != phase.wanted or groups != phase.groups:
            phase.wanted, phase.groups = users, groups
            if users <= phase.connected:
                self._resize(phase, users)
            elif users > phase.connecting:
                # later: no latency may include the making of a connection
                phase.connecting = users
                self.actions.append(Connect(phase, users))
        phase.ending = state.ending
        self._end_pause(phase)
        if self.returns_jobs:
            keep = not self._starts_nothing(phase)
            self._return(phase.held.remove_unstarted(keep_for_idle=keep))
        if phase.stopping and not self._stop_reported:
            self._stop_reported = True
            self.report()
            self._send_ready(phase)

    def _end_pause(self, phase: WorkerPhase) -> None:
        """Report that the next stage may begin, if this worker has the connections for it."""
        if phase.resuming and phase.wanted <= phase.connected and not phase.stopping:
            phase.resuming = self._stop_reported = False
            self._send_ready(phase)

    def _close_if_drained(self, state: ControlState) -> None:
        """Close the work socket if this worker has no users, and no jobs are on their way."""
        phase = self.phase
        if phase and phase.receiving and state.closing and not sum(self._groups(state)):
            self._receive(phase, False, state.pipe)
            self._send_ready(phase)

    def connected(self, phase: WorkerPhase, users: int) -> None:
        """The store is connected for this many users of this phase."""
        if phase is not self.phase:
            return  # the master has changed the phase meanwhile
        phase.connected = max(users, phase.connected)
        if phase.ready:
            # Meanwhile a ramp may want more users than these; those of groups follow together.
            if phase.wanted <= phase.connected or len(phase.held.queues) == 1:
                self._resize(phase, min(phase.wanted, phase.connected))
            if phase.wanted > phase.connected:
                phase.connecting = phase.wanted
                self.actions.append(Connect(phase, phase.wanted))
            self._end_pause(phase)
            return
        phase.ready = True
        name = phase.phase.name.lower()
        log.info("%s of run %s with %s", name, phase.run, plural(users, "user"))
        self._send_ready(phase)
        if self._state is not None:
            newest = newest_credentials(self._state.settings)
            if newest is not None:
                self.actions.append(SetCredentials(newest))
            self._follow(self._state)

    def network_checked(
        self, check: NetworkCheck, result: NetworkResult | None, fault: str = ""
    ) -> None:
        """A connection was measured, or ``fault`` says why not."""
        answer = Network(check.incarnation, check.number, result, fault[:MAX_TEXT])
        self.outbox.append(answer)

    def _groups(self, state: ControlState) -> Sequence[int]:
        """This worker's users by group."""
        groups = state.groups.get(self.incarnation)
        return groups or [state.workers[self.incarnation][0]]

    def _resize(self, phase: WorkerPhase, users: int) -> None:
        groups = [*self._groups(self._state)] if self._state else [users]
        if len(groups) == 1:
            groups = [users]
        others = len(phase.held.queues) - 1
        phase.held.users = groups if len(groups) == 1 + others else [users] + [0] * others
        self.actions.append(Resize(phase))

    def _send_ready(self, phase: WorkerPhase) -> None:
        ready = Ready(
            phase.incarnation, phase.run, phase.phase, self._stop_reported, phase.origin_ns,
            phase.receiving,
        )  # fmt: skip
        self.outbox.append(ready)

    @property
    def returns_jobs(self) -> bool:
        """Whether messages with jobs must be read at once, because most jobs go back."""
        phase = self.phase
        return phase is not None and (phase.ending or self._starts_nothing(phase))

    def _starts_nothing(self, phase: WorkerPhase) -> bool:
        """Whether all jobs go back."""
        return phase.stopping or not phase.wanted or self._exit is not None

    @property
    def wants_jobs(self) -> bool:
        """Whether to receive another message with jobs now."""
        phase = self.phase
        if phase is None or not phase.ready:
            return False
        return phase.held.wants_more or self.returns_jobs

    def receive_jobs(self, data: bytes, now_ns: int) -> int:
        """A message arrived on the work socket; returns how many of its jobs will be started.

        After the last message of a burst, and before any of the jobs starts, ``acknowledge`` must
        be called: the master gives jobs that are not acknowledged to other workers.
        """
        self._now_ns = now_ns
        phase = self.phase
        assert phase is not None  # nosec B101 # wants_jobs
        try:
            message = decode(data)
            if not isinstance(message, Jobs):
                raise MessageError(f"a {type(message).__name__} on the work port")
            jobs = layout(self._layouts, message.schema).decode(message.packed)
        except MessageError as error:
            self._rejected.add(error)
            return 0
        if message.run != phase.run:
            # They go back under that run's id: this run has other jobs of the same numbers.
            self.outbox.append(Ack(phase.incarnation, message.run, [message.batch]))
            for numbers in _in_parts([job.number for job in jobs]):
                self.outbox.append(Returned(phase.incarnation, message.run, numbers))
            return 0
        self._unacked.append(message.batch)
        stale = self._clock_sync.is_stale(message.sent_ns, now_ns)
        known = jobs[0].group < len(phase.held.queues)
        other = message.phase != phase.phase
        if other or stale or not known or self._starts_nothing(phase):
            self._to_return += [job.number for job in jobs]
            return 0
        if phase.ending:
            idle = phase.held.idle_users
            self._to_return += [job.number for job in jobs[idle:]]
            jobs = jobs[:idle]
        phase.held.add(jobs)
        return len(jobs)

    def acknowledge(self) -> None:
        """Acknowledge the batches that arrived, and return the jobs that will not be started.

        Results take the acknowledgement along if there are any.
        """
        if self.phase and self.phase.ready and self._starts_nothing(self.phase):
            self._to_return += self.phase.held.remove_unstarted()  # users put some back
        if self._unacked:
            self.report()
        for batches in _in_parts(self._unacked):
            self.outbox.append(Ack(self.incarnation, self._joined[0], batches))
        self._unacked = []
        if self._to_return:
            numbers, self._to_return = self._to_return, []
            self._return(numbers)

    def report(self, now_ns: int = 0) -> None:
        """Report the completed operations, if there are any.

        :param now_ns: 0: the time of the newest message.
        """
        self._now_ns = now_ns or self._now_ns
        phase = self.phase
        if phase is None or not phase.held.finished:
            return
        finished = phase.held.finished[:]
        phase.held.finished.clear()
        phase.held.reported += len(finished)
        if len(phase.addresses) > phase.addresses_told:
            phase.addresses_told = len(phase.addresses)
            told = Addresses(phase.incarnation, phase.run, phase.phase, tuple(phase.addresses))
            self.outbox.append(told)
        acked, self._unacked = self._unacked[:MAX_NUMBERS], self._unacked[MAX_NUMBERS:]
        for packed, schema in self._pack_results(phase, finished):
            self.outbox.append(
                Results(phase.incarnation, phase.run, phase.phase, acked, packed, schema)
            )
            acked = []

    def _pack_results(
        self, phase: WorkerPhase, finished: list[Completed]
    ) -> Iterator[tuple[bytes, int]]:
        """The results and their schema's number, in as many parts as it takes for each to fit into
        a message."""
        if phase.bounds is None:
            settings = StorageSettings.from_map(phase.state.settings)
            phase.bounds = ResultBounds(settings.sizes, settings.url_count)
            phase.bounds.begin(phase.origin_ns)
        columns = pack_possible(
            finished, phase.origin_ns, self._secrets, phase.bounds, self._now_ns
        )
        packed = pack(columns)
        if len(packed) <= MAX_RESULT_BYTES or len(finished) == 1:
            yield packed, SCHEMA_NUMBERS[len(columns)]
            return
        half = len(finished) // 2
        yield from self._pack_results(phase, finished[:half])
        yield from self._pack_results(phase, finished[half:])

    def _return(self, numbers: list[int]) -> None:
        for some in _in_parts(numbers):
            self.outbox.append(Returned(self.incarnation, self._joined[0], some))

    def report_profile(self, phase: WorkerPhase, profile: CpuProfile) -> None:
        """Report where this process spent CPU time in a phase, which is over."""
        self.outbox.append(Profiled(phase.incarnation, phase.run, *profile))

    def credentials_renewed(
        self, began_ns: int, waits_since_ns: int, now_ns: int, identity: int = 0
    ) -> bool | None:
        """Whether credentials newer than an attempt that began at ``began_ns`` have arrived.

        None: not yet; the master is asked. False: give up. The only identity's are asked for also
        where there are no others yet: the user may give some in the run. For one of several that
        would log all of them in, again and again.
        """
        is_rejected = identity in self._rejected_identities
        if self._credentials_ns > began_ns or (is_rejected and identity):
            return not is_rejected
        if now_ns - waits_since_ns > _RENEWAL_NS or self.phase is None or self._exit:
            return False
        if now_ns >= self._next_ask_ns:
            self._next_ask_ns = now_ns + _ASK_NS
            self.outbox.append(Expired(self.incarnation, self._serial))
        return False if is_rejected else None

    def tick(self, now_ns: int) -> None:
        """Time has passed. To be called after at most ``pause_s``."""
        # A worker that was stopped itself (SIGSTOP, a suspended host) could not receive, and its
        # buffers may hold control states: at most one second of such a gap counts.
        self._silent_ns += min(now_ns - self.ticked_ns, SECOND_NS)
        self.ticked_ns = self._now_ns = now_ns
        phase = self.phase
        if phase and phase.ready and now_ns > phase.held.lease_expires_ns:
            self.expire_lease()
        if self._master and self._silent_ns > self._clock_sync.timeout_ns:
            timeout_s = self._clock_sync.timeout_ns / SECOND_NS
            self._on_master_lost(f"nothing received from it for {timeout_s:g} s")
        elif (
            not (self._heard_any or self._warned_of_no_master)
            and self._silent_ns > NO_MASTER_WARNING_S * SECOND_NS
        ):
            self._warned_of_no_master = True
            log.warning(
                "Nothing received from a master for %d s; still waiting. Is one running, are its"
                " three ports reachable, and does it have the same key?",
                NO_MASTER_WARNING_S,
            )
        if (
            self.settings.exit_with_master
            and not (self._heard_any or self._exit)
            and self._silent_ns > _NO_MASTER_S * SECOND_NS
        ):
            self._begin_exit(
                f"nothing received from a master for {_NO_MASTER_S} s", ExitStatus.FAILED
            )
        phase = self.phase
        waits = phase is not None and phase.receiving and now_ns < self._leaving_until_ns
        if self._exit and not (waits or (phase and phase.held.busy)):
            self.status = self.status if self.status is not None else self._exit[1]

    def rejected_by_master(self, reason: str) -> None:
        """The transport knows why the master does not accept connections of this worker."""
        self._warned_of_no_master = True
        log.warning("The master rejects this worker: %s", reason)

    def hello(self, now_ns: int) -> Hello | None:
        """The hello to send now; ``hello_sent`` must follow if the transport took it."""
        if self._known:
            return None
        # What the master did not take belongs to an earlier incarnation: no use to the next one.
        self.outbox.clear()
        if now_ns < self._next_hello_ns or self.status is not None:
            return None
        own = self.settings
        return Hello(
            self.incarnation, self._previous, own.worker_id, own.concurrency, own.host,
            own.pid, own.version, cores=own.cores,
        )  # fmt: skip

    def hello_sent(self, now_ns: int) -> None:
        """The hello is out; it is repeated until a control state lists or refuses the worker."""
        self._next_hello_ns = now_ns + _HELLO_NS

    def expire_lease(self) -> None:
        """The master may give up the jobs that are here: start none of them, and get no more."""
        self._drop_all("Nothing received from the master for half the worker timeout")
        self.actions.append(CloseJobs())

    def _drop_all(self, why: str) -> None:
        before = self._dropped
        self._rejoin()
        log.warning("%s: dropped %s, joining again", why, plural(self._dropped - before, "job"))

    def _on_master_lost(self, how: str) -> None:
        if self._known:
            self._rejoin()
        self.actions.append(CloseJobs())
        self._master = 0
        cut = bool(self._cut_short or self._dropped)
        dropped = f"dropped {plural(self._dropped, 'job')}, " if self._dropped else ""
        then = "exiting" if self.settings.exit_with_master else "waiting for the next one"
        log.log(
            logging.WARNING if cut else logging.INFO, "The master is gone (%s): %s%s",
            how, dropped, then,
        )  # fmt: skip
        if self.settings.exit_with_master and not self._exit:
            self._begin_exit("the master is gone", ExitStatus.FAILED if cut else ExitStatus.OK)

    def _rejoin(self) -> None:
        """Leave the phase and continue as a new incarnation."""
        self._cut_short = self._cut_short or self.in_phase
        self._dropped += self._leave()
        self._previous, self.incarnation = self.incarnation, self._chance.getrandbits(63)
        self._known = False
        self._unlisted = 0, 0

    def _leave(self) -> int:
        """Return what was not started, and end the phase; returns how many jobs were here."""
        jobs = self.phase.held.total if self.phase else 0
        if self.phase:
            self._return(self.phase.held.remove_unstarted())
        self._end_phase()
        self._joined = "", Phase.IDLE
        return jobs

    def _end_phase(self) -> None:
        if self.phase:
            self.report()
            for queue in self.phase.held.queues:
                queue.clear()
            self.phase.held.delayed.clear()
            self._unacked, self._to_return = [], []
            self.phase = None
            self.actions.append(EndPhase())

    def stop(self, reason: str, status: ExitStatus = ExitStatus.OK) -> None:
        """Start nothing more, and exit when the operations in flight have ended and no more jobs
        come: jobs that are sent to a socket that closes are lost until the worker timeout.

        The second call exits at once.
        """
        phase = self.phase
        receives = phase is not None and phase.ready and phase.receiving and not phase.stopping
        leaves = receives and not self._exit
        if leaves:
            self._leaving_until_ns = self.ticked_ns + _LEAVING_NS
            self.outbox.append(Leaving(self.incarnation))
        self._begin_exit(reason, status, closes=not leaves)

    def _begin_exit(
        self, reason: str, status: ExitStatus = ExitStatus.OK, *, closes: bool = True
    ) -> None:
        if self._exit:
            self.status = self._exit[1]
            return
        log.info("Exiting: %s", reason)
        self._exit = reason, status
        if self.phase:
            self._return(self.phase.held.remove_unstarted())
        if closes:
            self.actions.append(CloseJobs())

    def out_of_memory(self) -> None:
        """There was no memory for an operation: the next ones would fail as well, and faster than
        other workers complete them."""
        self._reserve = None
        if self.phase:
            self._return(self.phase.held.remove_unstarted())
        if not self._exit:
            self._begin_exit("out of memory", ExitStatus.FAILED)

    def crash(self, error: BaseException) -> None:
        """An uncaught error in the event loop: exit at once."""
        self._reserve = None
        memory = isinstance(error, MemoryError)
        reason = "out of memory" if memory else f"crashed: {type(error).__name__}: {error}"
        self._exit = reason, ExitStatus.FAILED
        self.status = ExitStatus.FAILED
        log.error("Exiting at once: %s", reason)

    def close(self) -> None:
        """The last messages; none may be fed after it."""
        self._leave()
        self.actions.append(CloseJobs())
        reason = self._exit[0] if self._exit else ""
        self.outbox.append(Bye(self.incarnation, reason[:MAX_TEXT]))


def _in_parts(numbers: list[int]) -> Iterator[list[int]]:
    """As many lists as it takes for each to fit into a message."""
    for at in range(0, len(numbers), MAX_NUMBERS):
        yield numbers[at : at + MAX_NUMBERS]
