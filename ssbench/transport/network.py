"""Throughput and round trip of a TCP connection: a listening side, and the side that measures.

A plain TCP protocol and not messages over ZeroMQ: jobs and results travel through buffers that are
kept small on purpose, so they would show those, and not the network. One request per connection::

    listener: ssbench-network 1 NONCE       the nonce is "-" without a key
    client:   MODE BYTES SECONDS NONCE MAC  BYTES 0: as many as SECONDS allow; MAC "-" without a key
    listener: ok MAC                        or: error TEXT

Both MACs need the key file's secrets; what follows is not encrypted, and has no content:

- ``echo``: the listener returns each byte, until the client closes.
- ``send``: the client sends a body, the listener answers with the intervals in which it arrived.
- ``receive``: the listener sends a body.
- ``end``: the listener ends.

A body is bytes of 128 and above, then a line of JSON (ASCII): the round trips that the sender's TCP
measured, one a second. What counts is what arrives, not what a socket's buffer takes.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
import math
import os
import re
import secrets
import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple, TypeVar

import msgspec

from ssbench.core.errors import SsbenchError
from ssbench.core.messages import (
    MAX_INTERVALS,
    NetworkInterval,
    NetworkResult,
    Number,
)
from ssbench.core.text import printable
from ssbench.transport.key import CurveKey
from ssbench.transport.sockets import TransportError, bind_address, resolve

log = logging.getLogger(__name__)

T = TypeVar("T")

_VERSION = "ssbench-network 1"
_MAX_LINE, _MAX_REPORT = 512, 1 << 19  #: bytes of a line, and of one of JSON
HANDSHAKE_S, IDLE_S = 10.0, 10.0  #: for the lines before the data; without any data
MAX_CONNECTIONS = 16  #: of a listener, at a time
MAX_SECONDS, MAX_BYTES = 3600, 1 << 40  #: of a transfer
UNUSED_S = 600.0  #: a listener ends after this time without a connection
_ACCEPT_S = 0.2
_MAX_LOGGED = 100  #: connections that failed
_CHUNK, _UNSENT = 1 << 18, 1 << 20
_PINGS, _PING_S, _FEWEST_PINGS = 100, 1.0, 3  #: at most this many, this long, but at least these
_MODES = ("echo", "send", "receive", "end")
_OF_BODY = bytes(range(128, 256)) * 2
_ASCII = re.compile(rb"[\x00-\x7f]")
_RTT = struct.Struct("=68xI")  #: tcpi_rtt in Linux' struct tcp_info, in microseconds
_REPORT = msgspec.json.Decoder(list[Number | None])
_INTERVALS = msgspec.json.Decoder(list[NetworkInterval])


class NetworkError(SsbenchError):
    """A connection could not be measured; the text says why."""


class MeasureRequest(NamedTuple):
    """What a client asks a listener for."""

    mode: str
    size_bytes: int
    seconds: float

    @property
    def limit_s(self) -> float:
        """When the sender of a body stops."""
        return MAX_SECONDS if self.size_bytes else min(self.seconds, MAX_SECONDS)


class NetworkListener:
    """Serves requests, each in a thread of its own. A context manager.

    :param ip: None: all interfaces with a key, loopback without one.
    :raises TransportError: the port is not available.
    """

    def __init__(self, ip: str | None, port: int, key: CurveKey | None, option: str) -> None:
        self.ip = bind_address(ip, has_key=key is not None)
        self._key = key
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []
        self._rejected = 0
        try:
            family = socket.AF_INET6 if ":" in self.ip else socket.AF_INET
            both = self.ip == "::" and socket.has_dualstack_ipv6()  # as ZeroMQ's sockets
            self._socket = socket.create_server((self.ip, port), family=family, dualstack_ipv6=both)
        except OSError as error:
            raise TransportError(
                f"{self.ip}, port {port}: can't listen there: {os.strerror(error.errno or 0)}"
                f" ({option})"
            ) from error
        self._socket.settimeout(_ACCEPT_S)
        self.port: int = self._socket.getsockname()[1]

    def __repr__(self) -> str:
        return f"<NetworkListener {self.ip} {self.port}>"

    @property
    def is_open(self) -> bool:
        """Whether other hosts can connect without a key."""
        return self._key is None and not ipaddress.ip_address(self.ip).is_loopback

    def serve(self, unused_s: float = UNUSED_S) -> None:
        """Serve until a client ends it, or for ``unused_s`` without a connection; or ``close``."""
        used_s = time.monotonic()
        while not self._ended.is_set() and time.monotonic() - used_s < unused_s:
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            if self._threads:
                used_s = time.monotonic()
            try:
                connection, peer = self._socket.accept()
            except TimeoutError:
                continue
            except OSError:  # closed by us, or none is left, or the peer has given up
                self._ended.wait(_ACCEPT_S)
                continue
            used_s = time.monotonic()
            if len(self._threads) >= MAX_CONNECTIONS:
                connection.close()
                continue
            thread = threading.Thread(target=self._serve, args=(connection, peer[0]), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket, peer: str) -> None:
        with connection:
            try:
                self._answer(connection)
            except (OSError, ValueError, NetworkError) as error:
                self._rejected += 1
                if self._rejected <= _MAX_LOGGED:
                    log.warning("A connection from %s failed: %s", peer, error)

    def _answer(self, connection: socket.socket) -> None:
        nonce = secrets.token_hex(16) if self._key else "-"
        deadline_s = time.monotonic() + HANDSHAKE_S
        _send_line(connection, f"{_VERSION} {nonce}")
        line = _read_line(connection, deadline_s)
        text, _, mac = line.rpartition(" ")
        try:
            request, client_nonce = _parse(text)
            self._check(mac, nonce, text)
        except (ValueError, NetworkError) as error:
            _send_line(connection, f"error {error}")
            raise
        _send_line(connection, f"ok {_mac(self._key, 'listener', client_nonce, text)}")
        if request.mode == "echo":
            _echo(connection)
        elif request.mode == "send":
            intervals, _round_trips = receive_body(connection, request)
            connection.sendall(msgspec.json.encode(intervals) + b"\n")
        elif request.mode == "receive":
            _send_body(connection, request)
        else:
            self._ended.set()

    def _check(self, mac: str, nonce: str, text: str) -> None:
        """:raises NetworkError: the client does not have the key."""
        expected = _mac(self._key, "client", nonce, text)
        if not hmac.compare_digest(mac.encode(), expected.encode()):
            raise NetworkError(
                "the key is another one, or only one side has one: --zmq-key-file must name the"
                " same key file"
            )

    def close(self) -> None:
        """End ``serve``; transfers that go on end with the process, or by their limits."""
        self._ended.set()
        self._socket.close()

    def __enter__(self) -> NetworkListener:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _parse(text: str) -> tuple[MeasureRequest, str]:
    """Request and nonce of a client's line.

    :raises ValueError: it is not valid.
    """
    words = text.split(" ")
    if len(words) == 4 and words[0] in _MODES:
        with suppress(ValueError):
            request = MeasureRequest(words[0], int(words[1]), float(words[2]))
            if 0 <= request.size_bytes <= MAX_BYTES and 0 <= request.seconds <= MAX_SECONDS:
                return request, words[3]
    raise ValueError("not a valid request")


def measure(
    address: tuple[str, int],
    key: CurveKey | None,
    *,
    seconds: float,
    size_bytes: int = 0,
    connect_timeout_s: float = 10.0,
) -> NetworkResult:
    """Round trip, then throughput there, then back.

    :param seconds: of each direction.
    :param size_bytes: to send in each direction instead; 0: no such limit.
    :raises NetworkError: the listener can't be reached, rejects us, or a connection broke.
    """
    with _open(address, key, MeasureRequest("echo", 0, 0.0), connect_timeout_s) as connection:
        round_trips_s = _ping(connection)
    request = MeasureRequest("send", size_bytes, seconds)
    with _open(address, key, request, connect_timeout_s) as connection:
        tcp_s = _send_body(connection, request)
        line = _read_report(connection, b"", time.monotonic() + 3 * IDLE_S)
        sent = _with_round_trips(_decoded(_INTERVALS, line), tcp_s)
    request = MeasureRequest("receive", size_bytes, seconds)
    with _open(address, key, request, connect_timeout_s) as connection:
        received = _with_round_trips(*receive_body(connection, request))
    return NetworkResult(round_trips_s, sent, received)


def end(address: tuple[str, int], key: CurveKey | None, connect_timeout_s: float) -> None:
    """Make a listener end.

    :raises NetworkError: as ``measure``.
    """
    with _open(address, key, MeasureRequest("end", 0, 0.0), connect_timeout_s):
        pass


@contextmanager
def _open(
    address: tuple[str, int],
    key: CurveKey | None,
    request: MeasureRequest,
    connect_timeout_s: float,
) -> Iterator[socket.socket]:
    """A connection whose request was accepted. Translates errors, also of what uses it."""
    host, port = address
    try:
        with socket.create_connection((resolve(host), port), connect_timeout_s) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _request(connection, key, request)
            yield connection
    except TransportError as error:  # of the name
        raise NetworkError(str(error)) from error
    except (OSError, NetworkError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        if isinstance(error, TimeoutError):
            why = "no response in time"
        raise NetworkError(f"{host}, port {port}: {why or type(error).__name__}") from error


def _request(connection: socket.socket, key: CurveKey | None, request: MeasureRequest) -> None:
    deadline_s = time.monotonic() + HANDSHAKE_S
    greeting, _, nonce = _read_line(connection, deadline_s).rpartition(" ")
    if greeting != _VERSION:
        raise NetworkError("this is no listening side of ssbench check-network, or another release")
    if (nonce == "-") != (key is None):
        raise NetworkError(
            "it has a key, this side has none: give it the same --zmq-key-file"
            if key is None
            else "this side has a key (--zmq-key-file), it has none"
        )
    own = secrets.token_hex(16)
    text = f"{request.mode} {request.size_bytes} {request.seconds!r} {own}"
    _send_line(connection, f"{text} {_mac(key, 'client', nonce, text)}")
    word, _, rest = _read_line(connection, deadline_s).partition(" ")
    if word != "ok":
        raise NetworkError(f"it rejects the request: {printable(rest)}")
    if not hmac.compare_digest(rest.encode(), _mac(key, "listener", own, text).encode()):
        raise NetworkError("its key is another one: --zmq-key-file must name the same key file")


def _with_round_trips(
    intervals: Sequence[NetworkInterval], round_trips_s: Sequence[float | None]
) -> list[NetworkInterval]:
    """The receiver's intervals with what the sender's TCP measured in each."""
    known = [*round_trips_s, *[None] * len(intervals)]
    return [each._replace(round_trip_s=known[index]) for index, each in enumerate(intervals)]


def _echo(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(IDLE_S)
    for _ in range(_PINGS):
        data = connection.recv(1)
        if not data:
            return
        connection.sendall(data)


def _ping(connection: socket.socket) -> list[float]:
    connection.settimeout(IDLE_S)
    found: list[float] = []
    started_s = time.perf_counter()
    while len(found) < _PINGS:
        sent_s = time.perf_counter()
        if sent_s - started_s > _PING_S and len(found) >= _FEWEST_PINGS:
            break
        connection.sendall(b"x")
        if not connection.recv(1):
            raise NetworkError("the connection was closed")
        found.append(time.perf_counter() - sent_s)
    return found


def _send_body(connection: socket.socket, request: MeasureRequest) -> list[float | None]:
    """Send a body; returns the round trips of its last line."""
    connection.settimeout(IDLE_S)
    # Or megabytes may wait here when the time is over.
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT)
    # Random, so that no device on the way compresses it.
    block = memoryview(os.urandom(_CHUNK).translate(_OF_BODY))
    left = request.size_bytes or MAX_BYTES
    round_trips_s: list[float | None] = []
    started_s = time.monotonic()
    while left:
        left -= connection.send(block[:left])
        spent_s = time.monotonic() - started_s
        if spent_s >= len(round_trips_s) + 1:
            round_trips_s.append(_round_trip_s(connection))
        if spent_s >= request.limit_s:
            break
    round_trips_s.append(_round_trip_s(connection))
    connection.sendall(msgspec.json.encode(round_trips_s) + b"\n")
    return round_trips_s


def receive_body(
    connection: socket.socket, request: MeasureRequest
) -> tuple[list[NetworkInterval], list[float | None]]:
    """Receive a body: what arrived in each second, and the round trips of its last line.

    :raises NetworkError: it never ends, is longer than requested, or is not valid.
    """
    buffer = bytearray(_CHUNK)
    intervals: list[NetworkInterval] = []
    began_s = time.monotonic()
    deadline_s = began_s + request.limit_s + 3 * IDLE_S
    left = request.size_bytes or MAX_BYTES
    count = size = 0
    while True:
        _set_timeout(connection, deadline_s, IDLE_S)
        size = connection.recv_into(buffer)
        now_s = time.monotonic()
        while now_s >= began_s + 1 and len(intervals) < MAX_INTERVALS:
            intervals.append(NetworkInterval(1.0, count))
            began_s, count = began_s + 1, 0
        if not size:
            raise NetworkError("the connection was closed before the transfer was complete")
        found = _ASCII.search(buffer, 0, size) if buffer[size - 1] < 128 else None
        at = found.start() if found else size
        left -= at
        if left < 0:
            raise NetworkError("more arrived than was requested")
        if found:
            break
        count += size
    intervals.append(NetworkInterval(now_s - began_s, count + at))
    line = _read_report(connection, bytes(buffer[at:size]), deadline_s)
    return intervals, _decoded(_REPORT, line)


def _round_trip_s(connection: socket.socket) -> float | None:
    """The smoothed round trip of the kernel's TCP; None if it has none."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RTT.size)
    return _RTT.unpack(info)[0] / 1e6 if len(info) == _RTT.size else None


def _decoded(decoder: msgspec.json.Decoder[list[T]], line: bytes) -> list[T]:
    try:
        found = decoder.decode(line)
    except msgspec.MsgspecError as error:
        raise NetworkError(f"a report that is not valid: {error}") from error
    if len(found) > MAX_INTERVALS:
        raise NetworkError("a report that is too long")
    return found


def _mac(key: CurveKey | None, side: str, nonce: str, text: str) -> str:
    """Proof that this side has the key; "-" without one."""
    if key is None:
        return "-"
    secret = f"{key.server_secret}{key.client_secret}".encode()
    return hmac.digest(secret, f"{_VERSION} {side} {nonce} {text}".encode(), "sha256").hex()


def _send_line(connection: socket.socket, text: str) -> None:
    connection.sendall(text.encode() + b"\n")


def _read_line(connection: socket.socket, deadline_s: float) -> str:
    return _read(connection, b"", deadline_s, _MAX_LINE).decode("ascii", "replace")


def _read_report(connection: socket.socket, start: bytes, deadline_s: float) -> bytes:
    return _read(connection, start, deadline_s, _MAX_REPORT)


def _read(connection: socket.socket, data: bytes, deadline_s: float, most: int) -> bytes:
    """A line without its end; ``data`` is its beginning.

    :raises NetworkError: the line is too long, or the connection was closed.
    """
    while not data.endswith(b"\n"):
        if len(data) > most:
            raise NetworkError("a line that is too long")
        _set_timeout(connection, deadline_s)
        # Byte by byte before the data, which must stay in the socket.
        more = connection.recv(1 if most == _MAX_LINE else 4096)
        if not more:
            raise NetworkError("the connection was closed")
        data += more
    return data[:-1]


def _set_timeout(connection: socket.socket, deadline_s: float, most_s: float = math.inf) -> None:
    """Of the next call. A peer that sends a little all the time meets no timeout, so time that is
    over is an error here.

    :raises TimeoutError: the deadline has passed.
    """
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("not complete in time")
    connection.settimeout(min(left_s, most_s))
