"""A stint: what one worker does in one phase. Jobs come in, its users do them, results go out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ssbench.core.clock_sync import ClockSync
from ssbench.core.columns import unpack_jobs
from ssbench.core.completed import Completed, latencies_ns, pack_completed
from ssbench.core.errors import MessageError
from ssbench.core.messages import (
    Ack,
    ControlState,
    Jobs,
    Message,
    Ready,
    Results,
    Returned,
    decode,
    pack,
)
from ssbench.core.model import Job, Phase
from ssbench.storage.base import Storage
from ssbench.transport.rejected_messages import RejectedMessages
from ssbench.worker.user_pool import UserPool


@dataclass(frozen=True, slots=True)
class PhaseHooks:
    """What every stint has from its worker.

    :param receive: the next message of the work port; None for none now.
    :param listen: whether it is to be told (``hear``) that there are some.
    :param send: to the master, in order, sooner or later.
    :param on_latencies: called with those of finished operations where the beats want them.
    :param on_job: called with how many jobs were taken.
    """

    clock: Callable[[], int]
    clock_sync: ClockSync
    receive: Callable[[], bytes | None]
    listen: Callable[[bool], None]
    send: Callable[[Message], None]
    renew: Callable[[int], bool]  #: as Users'
    on_lease_expired: Callable[[], None]  #: as Users'
    on_out_of_memory: Callable[[], None]  #: as Users'
    on_latencies: Callable[[list[int]], None]
    on_job: Callable[[int], None] | None = None
    retries: int = 10
    rejected: RejectedMessages = field(default_factory=lambda: RejectedMessages("work"))


class WorkerPhase:
    """One phase under one incarnation; it begins without users, and with none of the flags.

    :param beat: the one that began the phase.
    :param connected: users for whom the storage has connections.
    :param origin_ns: the phase's start on our clock.
    """

    def __init__(
        self,
        hooks: PhaseHooks,
        storage: Storage,
        state: ControlState,
        incarnation: int,
        origin_ns: int,
        connected: int = 0,
    ) -> None:
        self.incarnation = incarnation
        self.origin_ns = origin_ns
        self.run, self.phase = state.run, Phase(state.phase)
        self.storage = storage
        self.connected = connected
        self.wanted = 0  #: users that the newest beat speaks of; connections may still be made
        self._hooks = hooks
        self._live = self._ending = self._stopping = False  # as in Beat
        self._stop_reported = False
        self._unacked: list[int] = []  # batches that the master hasn't been told of
        self.users = UserPool(
            storage,
            hooks.clock,
            origin_ns=origin_ns,
            retries=hooks.retries,
            operation_timeout_s=state.operation_timeout_s,
            think_s=(state.think_min_s, state.think_max_s),
            on_low=self.fetch_jobs,
            on_rows=self._report,
            on_lease_expired=hooks.on_lease_expired,
            on_out_of_memory=hooks.on_out_of_memory,
            renew=hooks.renew,
        )

    def __repr__(self) -> str:
        return f"<WorkerPhase {self.phase.name} {self.users}>"

    def follow(self, state: ControlState) -> None:
        """Become what a beat of this phase says, but for the number of users."""
        self._live, self._ending = state.live, state.ending
        self._stopping = self._stopping or state.stopping
        if self._stopping or self._ending:
            self._return(self.users.remove_unstarted(keep_for_idle=not self._stopping))
        self.fetch_jobs()
        if self._stopping and not self._stop_reported:
            self._stop_reported = True
            self.users.flush()
            self._hooks.send(self.ready(stopped=True))

    def ready(self, *, stopped: bool) -> Ready:
        """What the master is told when it begins, and when it has stopped."""
        return Ready(self.incarnation, self.run, self.phase, stopped, self.origin_ns)

    def return_unstarted(self) -> None:
        """Give back what hasn't been started."""
        self._return(self.users.remove_unstarted())

    # Jobs in ------------------------------------------------------------------------------

    def on_readable(self) -> None:
        """Messages are there. They are left until the queue runs out, or until the users' next
        look at them: a few large exchanges with the master cost less than many small ones. And
        nobody tells of them until then: the loop would do nothing else, and never sleep."""
        if self._stopping or self._ending or self.users.low:
            self.fetch_jobs()
        else:
            self._hooks.listen(False)

    def fetch_jobs(self) -> None:
        """Take jobs as far as they are wanted. The socket's descriptor tells of new messages
        only once, so this is also called whenever the queue runs out, and now and then."""
        users, receive = self.users, self._hooks.receive
        accepted: list[int] = []
        refused: list[int] = []
        while self._stopping or self._ending or users.wants_more:
            data = receive()
            if data is None:
                self._hooks.listen(True)
                break
            self._accept(data, accepted, refused)
        if accepted:
            # Before any of it is started: what nobody is known to hold is given to others in time.
            # Completed rows take the word along.
            self._unacked += accepted
            users.flush()
            self._send_ack()
        if refused:
            self._return(refused)

    def _accept(self, data: bytes, accepted: list[int], refused: list[int]) -> None:
        try:
            message, jobs = _read(data)
        except MessageError as error:
            self._hooks.rejected.tell(error)
            return
        if message.run != self.run:
            # It goes back under that run's name: numbers of another run's mean nothing here.
            self._hooks.send(Ack(self.incarnation, message.run, [message.batch]))
            self._hooks.send(Returned(self.incarnation, message.run, [job.number for job in jobs]))
            return
        accepted.append(message.batch)
        stale = self._hooks.clock_sync.is_stale(message.sent_ns, self._hooks.clock())
        if message.phase != self.phase or self._stopping or stale:
            refused.extend([job.number for job in jobs])
            return
        if self._ending:
            free = self.users.free
            refused.extend([job.number for job in jobs[free:]])
            jobs = jobs[:free]
        self.users.add(jobs)
        if self._hooks.on_job:
            self._hooks.on_job(len(jobs))

    def _return(self, numbers: list[int]) -> None:
        if numbers:
            self._hooks.send(Returned(self.incarnation, self.run, numbers))

    def _send_ack(self) -> None:
        if self._unacked:
            self._hooks.send(Ack(self.incarnation, self.run, self._unacked))
            self._unacked = []

    # Results out --------------------------------------------------------------------------

    def _report(self, finished: list[Completed]) -> None:
        packed = pack_completed(finished, self.origin_ns)
        if self._live:
            self._hooks.on_latencies(latencies_ns(finished))
        accepted, self._unacked = self._unacked, []
        self._hooks.send(Results(self.incarnation, self.run, self.phase, accepted, pack(packed)))


def _read(data: bytes) -> tuple[Jobs, list[Job]]:
    message = decode(data)
    if not isinstance(message, Jobs):
        raise MessageError(f"a {type(message).__name__} on the work port")
    return message, unpack_jobs(message.packed)
