"""What control states mean for a worker: its membership, the master's clock, and its lease.

Pure state machines. Times are nanoseconds of the worker's monotonic clock, except in messages:
those are of the master's clock.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto

from ssbench.core.messages import ControlState
from ssbench.core.model import SECOND_NS

_DELAYS = 64  #: newest control states that the offset is taken from; clocks drift over days


class MembershipStatus(Enum):
    """What a control state means for the worker that received it."""

    UNMENTIONED = auto()  #: the master does not know the worker yet
    ACCEPTED = auto()  #: the master lists the worker
    REFUSED = auto()  #: the master refuses the worker
    QUIT = auto()  #: the worker must exit
    DROPPED = auto()  #: the master that listed the worker no longer does
    REPLACED = auto()  #: another master has taken over


class Membership:
    """The worker's incarnation, and whether a master lists it.

    :param incarnation: the first one.
    """

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self.previous = 0  #: the incarnation before it; 0 for none
        self.known = False  #: whether a control state has listed this incarnation
        self.master = 0  #: the master that sent it; 0 for none
        self._refused_since_ns: int | None = None

    def __repr__(self) -> str:
        return (
            f"<Membership {'known' if self.known else 'unknown'} to {self.master or 'no master'}>"
        )

    def status_in(self, control_state: ControlState) -> MembershipStatus:
        """What a control state means for this worker; changes nothing."""
        listed = self.incarnation in control_state.workers
        refused = self.incarnation in control_state.refused
        if control_state.quit and (listed or refused):
            # Only once the master knows us: the channel to the master may connect later than the
            # one from it, and our bye would be lost.
            return MembershipStatus.QUIT
        if refused:
            return MembershipStatus.REFUSED
        if listed:
            return MembershipStatus.ACCEPTED
        if not self.known:
            return MembershipStatus.UNMENTIONED
        same_master = control_state.master == self.master
        return MembershipStatus.DROPPED if same_master else MembershipStatus.REPLACED

    def accept(self, control_state: ControlState) -> None:
        """The sender lists this worker."""
        self.known, self.master, self._refused_since_ns = True, control_state.master, None

    def refuse(self, now_ns: int) -> int | None:
        """A master refuses this worker. Returns for how many ns already, None the first time."""
        if self._refused_since_ns is None:
            self._refused_since_ns = now_ns
            return None
        return now_ns - self._refused_since_ns

    def renew(self, incarnation: int) -> None:
        """Take a new incarnation, which no master knows."""
        self.previous, self.incarnation = self.incarnation, incarnation
        self.known = False


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
