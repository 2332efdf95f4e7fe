"""Rejected peers and messages, and their lines in the log.

Peers are connections without the right key, by ZeroMQ's socket events. Messages are malformed, or
of another protocol; any peer may send any number of them.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import socket
import struct
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable
from contextlib import suppress
from itertools import count
from typing import NamedTuple

import zmq
from zmq.utils import z85

from ssbench import __version__
from ssbench.core.errors import MessageError, ProtocolError
from ssbench.core.messages import PROTOCOL
from ssbench.transport.key import CurveKey

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
        # Bytes of the messages that were read, by descriptor; and at the connection's beginning.
        self._read: dict[int, int] = {}
        self._read_before: dict[int, int] = {}
        self._why = ""
        self._closed_early: Counter[str] = Counter()  # since the last handshake

    def __repr__(self) -> str:
        return f"<PendingPeers {self.port}, {len(self._pending)} of {len(self._open)} pending>"

    def connected(self, fd: int, address: str) -> None:
        """A connection was opened; its handshake follows."""
        self._open[fd] = address
        self._read_before[fd] = self._read.get(fd, 0)
        self._shut.discard(fd)
        self._pending.add(fd)

    def connections(self) -> list[int]:
        """Descriptors of the open connections, without those that were shut down."""
        return [fd for fd in self._open if fd not in self._shut]

    @property
    def count(self) -> int:
        """How many ``connections`` there are; may be read in any thread."""
        return len(self._open) - len(self._shut)

    def read(self, fd: int, size_bytes: int) -> None:
        """A message of the connection was read. For one thread, which may be another."""
        self._read[fd] = self._read.get(fd, 0) + size_bytes + _MOST_FRAMING_BYTES

    def bytes_read(self, fd: int) -> int:
        """Of the connection, with the framing."""
        return self._read.get(fd, 0) - self._read_before.get(fd, 0)

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


_ZAP = "inproc://zeromq.zap.01"  #: ZeroMQ asks at this address
_EVENTS = (
    zmq.EVENT_ACCEPTED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_MONITOR_STOPPED
)

_RETRY_S = 1.0
#: Limit on what a peer may send to a port on which the master never reads messages: a handshake
#: (700 bytes with a key) and one subscription, of which each byte takes 50 to 100 bytes that ZeroMQ
#: never frees.
MAX_PEER_BYTES = 8192
#: Limit on what a peer has sent and the master has not read, where it reads messages. ZeroMQ keeps
#: the parts of a message, whose number has no limit, until the last one is here.
MAX_UNREAD_BYTES = 64 << 20
_MOST_FRAMING_BYTES = 42  #: of a message, with a key: length, nonce, authentication
#: Between checks of how much was sent; longer where they would take more than this share.
_LISTEN_MS, _MOST_CHECKING = 100, 1 / 50
_TCP_INFO_BYTES, _BYTES_RECEIVED = 192, struct.Struct("=128xQ")  # of Linux' struct tcp_info


class ZapAuthenticator:
    """Authenticates the peers of the master's sockets, in a thread of its own.

    :param key: None: no key is required; workers with a key are rejected.
    """

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], key: CurveKey | None) -> None:
        self._context = context
        self._key = key
        self._client = z85.decode(key.client_public) if key else b""
        self._watched: list[zmq.Socket[bytes]] = []
        self._monitors: dict[zmq.Socket[bytes], PendingPeers] = {}  # in the same order
        self._unread: dict[PendingPeers, int] = {}  # the most that may be, by port
        self._admitted: set[str] = set()
        self._numbers = count(1)  # of connections
        self._seen: deque[RejectedPeer] = deque(maxlen=MAX_COUNTED)
        self._rejected = RejectedPeers()
        self._thread = threading.Thread(target=self._run, name="ssbench-authenticator", daemon=True)
        self._zap = context.socket(zmq.REP)
        self._zap.setsockopt(zmq.LINGER, 0)
        self._zap.bind(_ZAP)

    def __repr__(self) -> str:
        return f"<ZapAuthenticator of {len(self._monitors)} ports>"

    def lock(self, sock: zmq.Socket[bytes], most_unread_bytes: int) -> PendingPeers:
        """To be called before a socket is bound: it accepts only peers with the key, if there is
        one. Returns what is known of its connections.

        :param most_unread_bytes: a peer that has sent more, beside the messages that were read, is
            disconnected.

        Without a key, too, ZeroMQ must ask: else it takes any client, a browser too, for a peer of
        its first protocol version, and jobs would be sent there.
        """
        number = len(self._watched)
        if self._key:
            sock.setsockopt(zmq.CURVE_SERVER, 1)
            sock.setsockopt(zmq.CURVE_PUBLICKEY, self._key.server_public.encode())
            sock.setsockopt(zmq.CURVE_SECRETKEY, self._key.server_secret.encode())
        sock.setsockopt_string(zmq.ZAP_DOMAIN, str(number))
        # Without this, clients are accepted if the authenticator does not run.
        sock.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
        pending = PendingPeers(self._admitted, locked=self._key is not None)
        self._monitors[_open_monitor(self._context, sock)] = pending
        self._unread[pending] = most_unread_bytes
        self._watched.append(sock)
        return pending

    def begin(self, ports: Iterable[int]) -> None:
        """Accept peers, once all sockets are bound to these ports, in the order of ``lock``."""
        for pending, port in zip(self._monitors.values(), ports, strict=True):
            pending.port = port
        self._thread.start()

    def rejected_peers(self, *, last: bool = False) -> list[str]:
        """New warnings about rejected peers."""
        seen = [self._seen.popleft() for _ in range(len(self._seen))]
        return self._rejected.lines(seen, time.monotonic(), last=last)

    def close(self) -> None:
        """Accept no more peers. To be called before the sockets are closed."""
        for sock in self._watched:
            sock.disable_monitor()
        if self._thread.ident is not None:
            self._thread.join()  # it ends with the monitors
        for monitor in self._monitors:
            monitor.close(0)
        self._zap.close(0)

    def _run(self) -> None:
        poller = zmq.Poller()
        for sock in (*self._monitors, self._zap):
            poller.register(sock, zmq.POLLIN)
        open_monitors, next_look_s = len(self._monitors), 0.0
        while open_monitors:
            events = poller.poll(_LISTEN_MS)
            now_s = time.monotonic()
            if now_s >= next_look_s:
                self._disconnect_talkative()
                took_s = time.monotonic() - now_s
                next_look_s = now_s + max(_LISTEN_MS / 1000, took_s / _MOST_CHECKING)
            for sock, _ in events:
                if sock is self._zap:
                    self._answer_zap(sock)
                elif not self._on_events(sock, self._monitors[sock]):
                    poller.unregister(sock)
                    open_monitors -= 1

    def _answer_zap(self, zap: zmq.Socket[bytes]) -> None:
        """Accept or reject a client, which has proved that the key is its own."""
        version, request, domain, address, _identity, mechanism, *keys = zap.recv_multipart()
        expected = (b"CURVE", [self._client]) if self._key else (b"NULL", [])
        known = (mechanism, keys) == expected
        status, text = (b"200", b"OK") if known else (b"400", b"not this key")
        # Its messages carry this number as their User-Id.
        number = str(next(self._numbers)).encode()
        zap.send_multipart([version, request, status, text, number, b""])
        ip = _canonical_ip(address.decode("ascii", "replace"))
        if known and self._key:
            self._admitted.add(ip)
        elif not known:
            port = list(self._monitors.values())[int(domain)].port
            self._seen.append(RejectedPeer(ip, port, OTHER_KEY))

    def _disconnect_talkative(self) -> None:
        for pending, most_unread_bytes in self._unread.items():
            for fd in pending.connections():
                if _shut_down(fd, pending.port, pending.bytes_read(fd) + most_unread_bytes):
                    self.reject(pending.shut_down(fd))

    def reject(self, peer: RejectedPeer) -> None:
        """A peer was disconnected; may be called in any thread."""
        self._seen.append(peer)

    def _on_events(self, monitor: zmq.Socket[bytes], pending: PendingPeers) -> bool:
        """Act on a monitor's events; False once it has stopped."""
        events = deque(_waiting_events(monitor))
        while events:
            event, value = events.popleft()
            if event == zmq.EVENT_ACCEPTED:
                address = _address_of(value)
                # ZeroMQ announces the end of a connection before it closes the descriptor. If
                # the end is announced by now, another connection may already have the descriptor.
                events += _waiting_events(monitor)
                closed = (zmq.EVENT_DISCONNECTED, value) in events
                pending.connected(value, "" if closed else address)
            elif event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                pending.handshake_succeeded()
            elif event == zmq.EVENT_DISCONNECTED:
                rejected = pending.disconnected(value)
                if rejected:
                    self._seen.append(rejected)
            elif event == zmq.EVENT_MONITOR_STOPPED:
                return False
            else:
                why = _reason(event, value, has_key=self._key is not None)
                pending.handshake_failed(why)
        return True


class ConnectionMonitor:
    """A worker's connection to one of the master's ports. For the thread that owns the socket.

    ZeroMQ does not reconnect after keys did not match. The next master may have the right key, so
    this does.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        sock: zmq.Socket[bytes],
        endpoint: str,
        *,
        has_key: bool,
    ) -> None:
        self._sock = sock
        self._endpoint = endpoint
        self._has_key = has_key
        self._monitor = _open_monitor(context, sock)
        self._closed_early = 0
        self._why = ""
        self._reported = False
        self._retry_s: float | None = None
        sock.connect(endpoint)

    def poll(self, now_s: float) -> None:
        """Read the connection's events, and reconnect if it is due. To be called often: events
        pile up."""
        for event, value in _waiting_events(self._monitor):
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._why, self._closed_early, self._reported = "", 0, False
            elif event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL:
                self._closed_early += 1
            elif event & (zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_AUTH):
                self._why = _reason(event, value, has_key=self._has_key)
                self._retry_s = now_s + _RETRY_S
        if self._retry_s is not None and now_s >= self._retry_s:
            self._retry_s = None
            with suppress(zmq.ZMQError):  # it has forgotten the address already
                self._sock.disconnect(self._endpoint)
            self._sock.connect(self._endpoint)

    def rejection(self) -> str:
        """Why the master rejects this worker, once; "" if there is nothing new."""
        if self._closed_early >= MAX_CLOSED_EARLY:
            self._why = self._why or CLOSED
        if not self._why or self._reported:
            return ""
        self._reported = True
        # A master that closes first does not say why; nor does a relay that can't reach it.
        closed = self._why == CLOSED
        or_none = ", or it has none" if closed and self._has_key else ""
        or_away = (
            ", or what is between them (a tunnel, a proxy) does not reach it" if closed else ""
        )
        if not self._has_key:
            what = "it has a key, this worker has none"
        elif self._why == NO_KEY:
            what = "this worker has a key, the master has none"
        else:
            what = f"its key is another one{or_none}"
        return f"{what}{or_away}: give both the same --zmq-key-file"

    def close(self) -> None:
        """To be called before the socket is closed."""
        self._sock.disable_monitor()
        self._monitor.close(0)


def _open_monitor(
    context: zmq.Context[zmq.Socket[bytes]], sock: zmq.Socket[bytes]
) -> zmq.Socket[bytes]:
    """A socket that receives the events of another one.

    ZeroMQ's own thread writes to it, and would block if the pipe were full: so the pipe has no
    limit, and must be read as long as the monitor is on.
    """
    address = f"inproc://ssbench-monitor-{sock.fileno()}-{id(sock)}"
    sock.monitor(address, _EVENTS)
    monitor = context.socket(zmq.PAIR)
    monitor.setsockopt(zmq.RCVHWM, 0)
    monitor.setsockopt(zmq.LINGER, 0)
    monitor.connect(address)
    return monitor


def _waiting_events(monitor: zmq.Socket[bytes]) -> list[tuple[int, int]]:
    """The events that can be read now, each with its value."""
    events = []
    while monitor.poll(0):
        event, value = struct.unpack("=Hi", monitor.recv_multipart()[0])
        events.append((event, value))
    return events


def _reason(event: int, value: int, *, has_key: bool) -> str:
    """Why a handshake failed, by an event on the side that has a key, or none."""
    if event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL:
        return CLOSED
    if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
        return OTHER_KEY
    if value == zmq.PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH:
        return NO_KEY if has_key else UNEXPECTED_KEY
    return OTHER_KEY if value == zmq.PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC else OTHER_PROTOCOL


def _address_of(fd: int) -> str:
    """The address of the peer of ZeroMQ's connection; "" if that is closed already."""
    with suppress(OSError), socket.socket(fileno=os.dup(fd)) as sock:
        return _canonical_ip(str(sock.getpeername()[0]))
    return ""


def _shut_down(fd: int, port: int, most_bytes: int) -> bool:
    """Shut down ZeroMQ's connection if its peer sent too much; returns whether it did.

    The descriptor may be another connection's by now.
    """
    with suppress(OSError):
        sock = socket.socket(fileno=fd)
        try:
            info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
            too_much = (
                _BYTES_RECEIVED.unpack_from(info.ljust(_TCP_INFO_BYTES, b"\0"))[0] > most_bytes
            )
            if too_much and sock.getsockname()[1] == port:
                sock.shutdown(socket.SHUT_RDWR)
                return True
        finally:
            sock.detach()
    return False


def _canonical_ip(address: str) -> str:
    """``::ffff:10.0.0.7``, as an IPv6 socket has it, is ``10.0.0.7``."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return ""
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found)
