"""How a worker stands with the masters that it hears of.

A pure machine: feed it beats and ask what they mean for this worker; what is then done is the
worker's. Times are nanoseconds of any monotonic clock.
"""

from __future__ import annotations

from enum import Enum, auto

from ssbench.core.messages import ControlState


class MembershipStatus(Enum):
    """What a beat means for the worker that hears it."""

    UNMENTIONED = auto()  #: it speaks of others
    ACCEPTED = auto()  #: the worker is one of the master's
    REFUSED = auto()  #: the master doesn't want it
    QUIT = auto()  #: it is to end
    DROPPED = auto()  #: the master that knew it knows it no more
    REPLACED = auto()  #: another master has come


class Membership:
    """Under which incarnation the worker goes, and whether a master knows it.

    :param incarnation: the first one.
    """

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self.previous = 0  #: the incarnation before it; 0 for none
        self.known = False  #: whether a beat has named this incarnation
        self.master = 0  #: whose beat that was; 0 once that master is gone
        self._refused_since_ns: int | None = None

    def __repr__(self) -> str:
        return f"<Membership {'known' if self.known else 'unknown'} to {self.master or 'nobody'}>"

    def status_in(self, beat: ControlState) -> MembershipStatus:
        """What it means for us; changes nothing."""
        ours, refused = self.incarnation in beat.workers, self.incarnation in beat.refused
        if beat.quit and (ours or refused):
            # Not before: our way to the master may be open later than its to us, and the bye
            # that names us would be lost.
            return MembershipStatus.QUIT
        if refused:
            return MembershipStatus.REFUSED
        if ours:
            return MembershipStatus.ACCEPTED
        if not self.known:
            return MembershipStatus.UNMENTIONED
        return MembershipStatus.DROPPED if beat.master == self.master else MembershipStatus.REPLACED

    def accept(self, beat: ControlState) -> None:
        """This master knows us."""
        self.known, self.master, self._refused_since_ns = True, beat.master, None

    def refuse(self, now_ns: int) -> int | None:
        """A master doesn't want us; gives for how long by now, None for the first time."""
        if self._refused_since_ns is None:
            self._refused_since_ns = now_ns
            return None
        return now_ns - self._refused_since_ns

    def must_say_hello(self, newest: ControlState | None) -> bool:
        """Whether we have to say who we are, or say it again.

        Not where a master knows us, or is about to. And not where the newest beat is without us
        and hasn't been judged: another incarnation of us comes first then. A new master would take
        the old one for a worker that it has lost.
        """
        return not self.known and (newest is None or self.incarnation not in newest.workers)

    def renew(self, incarnation: int) -> None:
        """Go under another one, which nobody knows."""
        self.previous, self.incarnation = self.incarnation, incarnation
        self.known = False
