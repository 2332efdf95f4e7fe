"""Byte streams for gevent's hub: plain TCP and TLS, and how they are opened.

A plain non-blocking socket and one watcher kept for the connection's life cost a third of what
``gevent.socket`` does per request. Nothing here knows HTTP, and nothing here has a time-out of
its own but opening: ``shut`` ends whatever a greenlet waits for, and a sweeper calls it.
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
import sys
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from mmap import mmap
from time import perf_counter_ns
from typing import Any, NamedTuple

from gevent import Timeout, get_hub, getcurrent, sleep

from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind
from ssbench.core.outcome import outcome_of
from ssbench.storage.arrival import NOTES_SIZE, Notes, arrivals, ask_for_notes

READ, WRITE = 1, 2
#: Linux's TCP drops what it "receives" with this flag, and writes nothing (tcp(7)).
_DROP = socket.MSG_TRUNC if sys.platform == "linux" else 0
#: So this is address space, not memory.
_ABYSS = memoryview(mmap(-1, 16 * 1024 * 1024))
_UNWAITED_MAX = 64  #: pieces in a row over TLS, of 16 KiB at most


class Endpoint(NamedTuple):
    """Where a storage URL leads."""

    host: str
    port: int
    tls: bool

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class PlainStream:
    """A connected TCP socket. One greenlet at a time may use it."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._hub = get_hub()
        loop: Any = self._hub.loop
        self._readable = loop.io(sock.fileno(), READ)
        self._writable: Any = None
        #: send(bytes) and send_parts([bytes-like, ...]) give the number of bytes taken,
        #: and raise BlockingIOError where the socket takes none.
        self.send: Callable[[Any], int] = sock.send
        self.send_parts: Callable[[Sequence[Any]], int] = sock.sendmsg
        self._recv_into: Callable[..., int] = sock.recv_into
        self._recv_noted: Callable[..., tuple[int, Notes, int, Any]] = sock.recvmsg_into
        ask_for_notes(sock)
        self._arrivals = arrivals()
        #: When the bytes were there that were received last; to be asked before the next wait.
        self.arrived_ns: Callable[[], int] = self._arrivals.now

    def recv_into(self, buffer: Any) -> int:
        """Wait for bytes, then take what is there; 0 at the end of the stream."""
        while True:
            # Wait first: an answer is hardly ever there before it was waited for.
            self.wait_readable()
            try:
                count, self._arrivals.notes, _, _ = self._recv_noted((buffer,), NOTES_SIZE)
            except BlockingIOError:
                continue  # woken for nothing
            return count

    def discard(self, count: int) -> int:
        """Wait for bytes, then drop at most ``count`` of them unseen; 0 at the end."""
        room = (_ABYSS[:count],)
        while True:
            self.wait_readable()
            try:
                count, self._arrivals.notes, _, _ = self._recv_noted(room, NOTES_SIZE, _DROP)
            except BlockingIOError:
                continue  # woken for nothing
            return count

    def wait_readable(self) -> None:
        """Wait for bytes to receive, or the stream's end."""
        watcher, hub = self._readable, self._hub
        watcher.start(getcurrent().switch, watcher)
        try:
            while hub.switch() is not watcher:
                pass  # another's wake-up, not ours
        finally:
            # On every way out, so that a killed greenlet is not woken later.
            watcher.stop()

    def wait_writable(self) -> bool:
        """Wait until there is room to send. True where bytes (or the end) came in before."""
        if self._writable is None:
            self._writable = self._hub.loop.io(self._sock.fileno(), READ | WRITE)
        woken: list[int] = []
        self._writable.start(_wake, woken, getcurrent(), pass_events=True)
        try:
            while not woken:
                self._hub.switch()
        finally:
            self._writable.stop()
        return bool(woken[0] & READ)

    def recv_now(self, buffer: Any) -> int:
        """Take what is there without waiting; BlockingIOError where there is nothing."""
        return self._recv_into(buffer)

    def shut(self) -> None:
        """End the stream under whoever waits for it: it is woken and finds the end."""
        try:
            socket.socket.shutdown(self._sock, socket.SHUT_RDWR)
        except OSError as error:
            if error.errno != errno.ENOTCONN:  # the other side has gone already
                raise

    def close(self) -> None:
        """Free the socket. Nobody may be waiting for it."""
        for watcher in (self._readable, self._writable):
            if watcher is not None:
                watcher.stop()
                watcher.close()
        self._sock.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} fd {self._sock.fileno()}>"


def _wake(events: int, woken: list[int], greenlet: Any) -> None:
    woken.append(events)
    greenlet.switch()


class TlsStream(PlainStream):
    """The same over TLS. The handshake is done by ``handshake``."""

    def __init__(self, sock: ssl.SSLSocket) -> None:
        super().__init__(sock)
        self._tls = sock
        self._unwaited = 0  #: pieces received since the hub was last heard
        self.send = self._send
        self.send_parts = self._send_parts
        self.arrived_ns = perf_counter_ns  # it may have read without waiting

    def handshake(self) -> None:
        """Shake hands and check the server's certificate.

        :raises OSError: ssl.SSLError among others.
        """
        while True:
            try:
                return self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self.wait_readable()
            except ssl.SSLWantWriteError:
                self.wait_writable()

    def recv_into(self, buffer: Any) -> int:
        # OpenSSL may hold bytes that the socket no longer shows: read first, wait after. But a
        # server that is faster than we are would never let the others in, nor time-outs.
        self._unwaited += 1
        if self._unwaited > _UNWAITED_MAX:
            self._unwaited = 0
            sleep(0)
        while True:
            try:
                return self._recv_into(buffer)
            except ssl.SSLWantReadError:
                self._unwaited = 0
                self.wait_readable()
            except ssl.SSLWantWriteError:
                self.wait_writable()
            except ssl.SSLEOFError:  # closed without a farewell, as many servers do
                return 0

    def discard(self, count: int) -> int:
        scratch = _scratch()
        return self.recv_into(scratch[: min(count, len(scratch))])

    def recv_now(self, buffer: Any) -> int:
        try:
            return self._recv_into(buffer)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
            raise BlockingIOError from error
        except ssl.SSLEOFError:
            return 0

    def _send(self, data: Any) -> int:
        try:
            return self._tls.send(data)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
            raise BlockingIOError from error

    def _send_parts(self, parts: Sequence[Any]) -> int:
        # TLS has no gathering send: the first part that isn't empty goes out alone.
        return self._send(next((part for part in parts if len(part)), b""))


_SCRATCH: list[memoryview] = []


def _scratch() -> memoryview:
    """Room for bytes that nobody reads; made once, when first needed."""
    if not _SCRATCH:
        _SCRATCH.append(memoryview(bytearray(65536)))
    return _SCRATCH[0]


class Dialler:
    """Opens streams to one endpoint within the connect time-out."""

    def __init__(
        self, endpoint: Endpoint, timeout_s: float, context: ssl.SSLContext | None = None
    ) -> None:
        self.endpoint = endpoint
        self._timeout_s = timeout_s
        self._context = context
        self._addresses: list[tuple[Any, ...]] = []

    def open(self, deadline_ns: int = 0) -> PlainStream:
        """A connected stream, TLS included.

        :raises StorageError: CONNECT, CONNECT_TIMEOUT, NAME_LOOKUP, TLS, or OPERATION_TIMEOUT
            where the deadline comes before the connect time-out; nothing was sent.
        """
        limit_s, late = self._timeout_s, ErrorKind.CONNECT_TIMEOUT
        if deadline_ns:
            left_s = max((deadline_ns - perf_counter_ns()) / 1e9, 0.001)
            if left_s < limit_s:
                limit_s, late = left_s, ErrorKind.OPERATION_TIMEOUT
        timeout = Timeout(limit_s)
        try:
            with timeout:
                return self._open()
        except Timeout as error:
            if error is not timeout:
                raise
            raise self._failure(late, f"no connection within {limit_s:g} s") from error
        finally:
            del timeout  # see _open

    def _open(self) -> PlainStream:
        """Try the addresses in turn; the last one's failure is the one that counts."""
        if not self._addresses:
            self._addresses = self._look_up()
        failure: OSError | None = None
        for family, address in self._addresses:
            try:
                return self._secure(_connect(family, address))
            except OSError as error:
                failure = error
        # The name may lead elsewhere by the next try.
        self._addresses = []
        try:
            raise self._failure(ErrorKind.CONNECT, _cause(failure)) from failure
        finally:
            # It knows this frame, and this frame it: kept until the collector comes by, which is
            # seldom. At a store that is down that is megabytes in a minute.
            del failure

    def _look_up(self) -> list[tuple[Any, ...]]:
        host, port, _ = self.endpoint
        try:
            ip_address(host)
        except ValueError:
            return self._look_up_name(host, port)
        if "%" in host:  # the zone's number is the resolver's to find
            return self._look_up_name(host, port)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return [(family, (host, port))]

    def _look_up_name(self, host: str, port: int) -> list[tuple[Any, ...]]:
        """The name's addresses, IPv4 first. The resolver blocks: it works in a thread."""
        try:
            looked_up = get_hub().threadpool.apply(
                outcome_of, (socket.getaddrinfo, host, port, 0, socket.SOCK_STREAM)
            )
            found = looked_up()
        except (OSError, UnicodeError) as error:
            raise self._failure(ErrorKind.NAME_LOOKUP, _cause(error)) from error
        return sorted(
            ((entry[0], entry[4]) for entry in found),
            key=lambda pair: pair[0] != socket.AF_INET,
        )

    def _secure(self, sock: socket.socket) -> PlainStream:
        if self._context is None:
            return PlainStream(sock)
        try:
            wrapped = self._context.wrap_socket(
                sock, server_hostname=self.endpoint.host, do_handshake_on_connect=False
            )
        except BaseException:
            sock.close()
            raise
        stream = TlsStream(wrapped)
        try:
            stream.handshake()
        except OSError as error:
            stream.close()
            raise self._failure(ErrorKind.TLS, _cause(error)) from error
        except BaseException:  # killed or out of time: leave no descriptor behind
            stream.close()
            raise
        return stream

    def _failure(self, kind: ErrorKind, cause: str) -> StorageError:
        return StorageError(kind, f"{self.endpoint}: {cause}", sent=False)


def _connect(family: int, address: Any) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        # Without this, a small upload in two segments waits 40 ms for a delayed acknowledgement.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        status = sock.connect_ex(address)
        if status == errno.EINPROGRESS:
            _wait_connected(sock)
            status = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if status:
            raise OSError(status, os.strerror(status))
    except BaseException:
        sock.close()
        raise
    return sock


def _wait_connected(sock: socket.socket) -> None:
    hub = get_hub()
    watcher = hub.loop.io(sock.fileno(), WRITE)
    try:
        hub.wait(watcher)
    finally:
        watcher.close()


def _cause(error: BaseException | None) -> str:
    """One line for a failure: the system's or OpenSSL's own words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or type(error).__name__}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return " ".join(str(error).split()) or type(error).__name__
