"""A worker's membership: its incarnation, and whether a master lists it.

A pure state machine: feed it control states and ask what they mean for this worker. The worker
acts on the result. Times are nanoseconds of any monotonic clock.
"""

from __future__ import annotations

from enum import Enum, auto

from ssbench.core.messages import ControlState


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
        return f"<Membership {'known' if self.known else 'unknown'} to {self.master or 'nobody'}>"

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

    def must_say_hello(self, newest: ControlState | None) -> bool:
        """Whether to send a hello, again if need be.

        False once a master lists this incarnation, also in ``newest``, which the worker may not
        have acted on yet.
        """
        return not self.known and (newest is None or self.incarnation not in newest.workers)

    def renew(self, incarnation: int) -> None:
        """Take a new incarnation, which no master knows."""
        self.previous, self.incarnation = self.incarnation, incarnation
        self.known = False
