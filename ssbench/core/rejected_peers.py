"""Who knocked without the right key: what ZeroMQ tells of connections, understood, and in lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

NO_KEY = "without a key; workers need the master's --zmq-key-file"
OTHER_KEY = "with another key; workers need the master's --zmq-key-file"
UNEXPECTED_KEY = "with a key, of which this master has none; give it the same --zmq-key-file"
OTHER_PROTOCOL = "whose protocol isn't that of ssbench"
CLOSED_EARLY = "who hung up before keys were compared; both sides need the same key file, or none"
UNEXPECTED_DATA = "who sent more than a worker ever says there"
CLOSED = "hung up"
#: A friend may be killed in the middle of a handshake, but not so often in a row.
MAX_CLOSED_EARLY = 4
_MOST_TOLD = 10  #: addresses, in a line each
MAX_COUNTED = 1000
_PATIENCE_S = 1.5  #: a stranger whose address was missed is likely to knock again


class RejectedPeer(NamedTuple):
    """Somebody who didn't get in."""

    address: str  #: "" where it couldn't be had
    port: int
    why: str


class PendingPeers:
    """What ZeroMQ tells of the connections at one port, understood.

    It names a connection by its descriptor when it comes and when it goes, but not when a
    handshake fails (the same connection goes next), or succeeds (any of those present may be it).

    :param friends: addresses that somebody with the right key came from; grows meanwhile.
    :param locked: whether it takes a key to come in.
    """

    def __init__(self, friends: set[str], *, locked: bool) -> None:
        self.port = 0
        self._friends = friends
        self._locked = locked
        self._here: dict[int, str] = {}  # descriptor -> address
        self._outside: set[int] = set()  # of these, those that are certainly not in
        self._cut: set[int] = set()  # of those here, too
        self._why = ""
        self._hung_up: Counter[str] = Counter()  # since somebody was let in

    def __repr__(self) -> str:
        return f"<PendingPeers {self.port}, {len(self._outside)} of {len(self._here)} outside>"

    def connected(self, fd: int, address: str) -> None:
        """A connection, whose handshake is to come."""
        self._here[fd] = address
        self._cut.discard(fd)
        self._outside.add(fd)

    def connections(self) -> list[int]:
        """Descriptors of the connections that are here, without those that were cut off."""
        return [fd for fd in self._here if fd not in self._cut]

    def cut_off(self, fd: int) -> RejectedPeer:
        """A connection was ended for what it sent; that it is gone may be told later, or never."""
        self._cut.add(fd)
        return RejectedPeer(self._here[fd], self.port, UNEXPECTED_DATA)

    def handshake_succeeded(self) -> None:
        """One of the connections has the right key."""
        self._outside.clear()
        self._hung_up.clear()

    def handshake_failed(self, why: str) -> None:
        """A handshake failed; whose, is told next."""
        self._why = why

    def disconnected(self, fd: int) -> RejectedPeer | None:
        """A connection is no more; a stranger's, where that is certain."""
        why, self._why = self._why, ""
        was_outside = fd in self._outside
        self._outside.discard(fd)
        self._cut.discard(fd)
        address = self._here.pop(fd, "")
        if why == CLOSED:
            return RejectedPeer(address, self.port, CLOSED_EARLY) if self._is_odd(address) else None
        if not (why or was_outside):
            return None
        return RejectedPeer(address, self.port, why or OTHER_PROTOCOL)

    def _is_odd(self, address: str) -> bool:
        """Whether one that hung up is certainly no worker of ours, that was killed just then.

        Which side sees first that the keys don't fit, and hangs up, is left to chance.
        """
        self._hung_up[address] += 1
        often = self._hung_up[address] >= MAX_CLOSED_EARLY
        if len(self._hung_up) > MAX_COUNTED:
            self._hung_up.clear()
        may_be_friend = address in self._friends if address else bool(self._friends)
        return often or (self._locked and not may_be_friend)


class RejectedPeers:
    """Makes lines of strangers: one for each address, a few at most, however often they knock."""

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._nameless: RejectedPeer | None = None
        self._nameless_s = 0.0

    def lines(self, seen: Iterable[RejectedPeer], now_s: float, *, last: bool = False) -> list[str]:
        """What is to be told of those just seen.

        :param last: there will be no later call.
        """
        found = []
        for stranger in seen:
            if stranger.address:
                found += self._tell(stranger)
            elif self._nameless is None:
                self._nameless, self._nameless_s = stranger, now_s
        late = last or now_s - self._nameless_s > _PATIENCE_S
        if self._nameless and late and not self._told:
            found += self._tell(self._nameless)
        return found

    def _tell(self, stranger: RejectedPeer) -> list[str]:
        if stranger.address in self._told or len(self._told) > _MOST_TOLD:
            return []
        self._told.add(stranger.address)
        if len(self._told) > _MOST_TOLD:
            return [f"Strangers knock from more than {_MOST_TOLD} addresses; no more are named"]
        who = stranger.address or "an address that couldn't be had"
        return [f"Turned away from port {stranger.port}: someone at {who} {stranger.why}"]
