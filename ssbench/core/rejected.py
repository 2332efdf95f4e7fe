"""Rejected peers and messages, and their lines in the log.

Peers are connections without the right key, by ZeroMQ's socket events. Messages are malformed, or
of another protocol; any peer may send any number of them.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from ssbench import __version__
from ssbench.core.errors import MessageError, ProtocolError
from ssbench.core.messages import PROTOCOL

log = logging.getLogger(__name__)

MAX_LOGGED = 5  #: per port; a flood must fill neither the screen nor the disk
MAX_WORKERS = 16  #: workers of another protocol that are named

NO_KEY = "it has no key; give it and the master the same --zmq-key-file"
OTHER_KEY = "it has another key; give it and the master the same --zmq-key-file"
UNEXPECTED_KEY = "it has a key, this master has none; give both the same --zmq-key-file"
OTHER_PROTOCOL = "its protocol is not that of ssbench"
CLOSED_EARLY = "it closed during the handshake; both sides need the same key file, or none"
UNEXPECTED_DATA = "it sent more than any worker does at this port"
CLOSED = "closed"
#: Consecutive connections closed during the handshake. Fewer can be workers that were killed then.
MAX_CLOSED_EARLY = 4
_MAX_LOGGED = 10  #: addresses that are logged, one line each
MAX_COUNTED = 1000
_WAIT_FOR_ADDRESS_S = 1.5  #: a peer whose address is unknown is likely to connect again


class RejectedPeer(NamedTuple):
    """A connection that was rejected."""

    address: str  #: "" if unknown
    port: int
    why: str


class PendingPeers:
    """The connections at one port whose handshake is pending, from ZeroMQ's socket events.

    An event has the connection's descriptor when the connection opens and closes, but not when
    its handshake fails (the next one to close is the same connection) or succeeds (it may be any
    of the open ones).

    :param trusted: addresses from which a peer had the right key; grows meanwhile.
    :param locked: whether a key is required.
    """

    def __init__(self, trusted: set[str], *, locked: bool) -> None:
        self.port = 0
        self._trusted = trusted
        self._locked = locked
        self._open: dict[int, str] = {}  # descriptor -> address
        self._pending: set[int] = set()  # open, and certainly without a completed handshake
        self._shut: set[int] = set()  # open, and already shut down for unexpected data
        self._why = ""
        self._closed_early: Counter[str] = Counter()  # since the last handshake

    def __repr__(self) -> str:
        return f"<PendingPeers {self.port}, {len(self._pending)} of {len(self._open)} pending>"

    def connected(self, fd: int, address: str) -> None:
        """A connection was opened; its handshake follows."""
        self._open[fd] = address
        self._shut.discard(fd)
        self._pending.add(fd)

    def connections(self) -> list[int]:
        """Descriptors of the open connections, without those that were shut down."""
        return [fd for fd in self._open if fd not in self._shut]

    @property
    def count(self) -> int:
        """How many ``connections`` there are; may be read in any thread."""
        return len(self._open) - len(self._shut)

    def shut_down(self, fd: int) -> RejectedPeer:
        """A connection was shut down for unexpected data; its close event may never come."""
        self._shut.add(fd)
        return RejectedPeer(self._open[fd], self.port, UNEXPECTED_DATA)

    def handshake_succeeded(self) -> None:
        """A connection has the right key."""
        self._pending.clear()
        self._closed_early.clear()

    def handshake_failed(self, why: str) -> None:
        """A handshake failed; the next close event is of that connection."""
        self._why = why

    def disconnected(self, fd: int) -> RejectedPeer | None:
        """A connection was closed. Returns the rejected peer if it certainly was one."""
        why, self._why = self._why, ""
        was_pending = fd in self._pending
        self._pending.discard(fd)
        self._shut.discard(fd)
        address = self._open.pop(fd, "")
        if why == CLOSED:
            suspicious = self._is_suspicious(address)
            return RejectedPeer(address, self.port, CLOSED_EARLY) if suspicious else None
        if not (why or was_pending):
            return None
        return RejectedPeer(address, self.port, why or OTHER_PROTOCOL)

    def _is_suspicious(self, address: str) -> bool:
        """Whether a peer that closed early was certainly not a worker that was killed just then.

        If keys differ, either side may notice first and close.
        """
        self._closed_early[address] += 1
        often = self._closed_early[address] >= MAX_CLOSED_EARLY
        if len(self._closed_early) > MAX_COUNTED:
            self._closed_early.clear()
        may_be_trusted = address in self._trusted if address else bool(self._trusted)
        return often or (self._locked and not may_be_trusted)


class RejectedPeers:
    """Log lines for rejected peers: one per address, for a limited number of addresses."""

    def __init__(self) -> None:
        self._logged: set[str] = set()
        self._unknown: RejectedPeer | None = None
        self._unknown_s = 0.0

    def lines(self, seen: Iterable[RejectedPeer], now_s: float, *, last: bool = False) -> list[str]:
        """New lines for these peers.

        :param last: no further call follows.
        """
        found = []
        for peer in seen:
            if peer.address:
                found += self._line(peer)
            elif self._unknown is None:
                self._unknown, self._unknown_s = peer, now_s
        late = last or now_s - self._unknown_s > _WAIT_FOR_ADDRESS_S
        if self._unknown and late and not self._logged:
            found += self._line(self._unknown)
        return found

    def _line(self, peer: RejectedPeer) -> list[str]:
        if peer.address in self._logged or len(self._logged) > _MAX_LOGGED:
            return []
        self._logged.add(peer.address)
        if len(self._logged) > _MAX_LOGGED:
            return [f"Rejected peers at more than {_MAX_LOGGED} addresses; no more are named"]
        address = peer.address or "an unknown address"
        return [f"Rejected a peer at {address}, port {peer.port}: {peer.why}"]


class RejectedMessages:
    """Counts the rejected messages of one port, and logs the first few of them."""

    def __init__(self, port: str) -> None:
        self._port = port
        self.count = 0
        self._logged = 0
        self._other_protocol = False  # a message of one was logged
        self._workers: set[str] = set()  # of another protocol, and named
        self._lines: list[str] = []

    def add(self, error: MessageError) -> None:
        """One more message was rejected."""
        self.count += 1
        if isinstance(error, ProtocolError):
            if error.sender:
                self._name(error)
                return
            if self._other_protocol:
                return  # probably of the same peer
            self._other_protocol = True
        if self._logged >= MAX_LOGGED:
            return
        self._logged += 1
        last = "; further ones are only counted" if self._logged == MAX_LOGGED else ""
        log.warning("Rejected a message on the %s port: %s%s", self._port, error, last)

    def _name(self, error: ProtocolError) -> None:
        """One line per worker of another protocol, which repeats its hello."""
        self._other_protocol = True
        if error.sender in self._workers or len(self._workers) >= MAX_WORKERS:
            return
        self._workers.add(error.sender)
        last = len(self._workers) == MAX_WORKERS
        self._lines.append(
            f"Worker {error.sender} can't join: its ssbench {error.release} speaks protocol"
            f" {error.protocol}, this ssbench {__version__} protocol {PROTOCOL}; install the same"
            f" release on every host{'; further ones are not named' if last else ''}"
        )

    def workers(self) -> list[str]:
        """New lines about workers of another protocol."""
        lines, self._lines = self._lines, []
        return lines

    def __repr__(self) -> str:
        return f"<RejectedMessages of the {self._port} port: {self.count}>"
