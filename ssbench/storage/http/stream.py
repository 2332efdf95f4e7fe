"""Byte streams for gevent's hub: plain TCP, and TLS over TCP.

A plain non-blocking socket with one watcher for the connection's life costs a third of what
``gevent.socket`` costs per request. This module knows neither HTTP nor timeouts: the connection
pool's sweep calls ``shut``, which ends any wait.

Receive timestamps say when bytes arrived, not when we read them. When the event loop wakes, it
handles the responses of several connections one after another, while more arrive. The last response
has waited for as long as all the others took: with 64 users, 0.1 to 3 ms, which is time of the load
generator and not of the store. Another thread or the garbage collector can delay the loop further.
So we let the kernel timestamp each packet (socket(7), SO_TIMESTAMPNS). Without a kernel timestamp,
the time at which the loop woke is used. The timestamp is that of the last segment that a receive
call returned. A late read may return several segments; how long before the last one the first
arrived is then unknown.
"""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from mmap import mmap
from struct import Struct
from time import perf_counter_ns, time_ns
from typing import Any
from weakref import WeakKeyDictionary

from gevent import get_hub, getcurrent

READ, WRITE = 1, 2
#: With this flag, TCP on Linux discards bytes instead of copying them (tcp(7)).
_DISCARD_FLAG = socket.MSG_TRUNC
#: Never written to: takes address space, no memory.
_DISCARD_BUFFER = memoryview(mmap(-1, 16 * 1024 * 1024))
#: Bytes of a long body to wait for at a time. Discarding a MiB takes 10 µs; a wake-up for each of
#: its segments takes ten times as long, and the server's core pays for the wake-ups.
_BULK = 512 * 1024
_SMALL = 32 * 1024  #: up to this size, setting the low-water mark costs more than it saves
_U64, _TWO_U64 = Struct("=Q"), Struct("=QQ")
#: Offsets in struct tcp_info (linux/tcp.h): tcpi_bytes_acked; tcpi_bytes_sent, tcpi_bytes_retrans.
_BYTES_ACKED_AT, _BYTES_SENT_AT, _TCP_INFO_SIZE = 120, 200, 216
_U32 = Struct("=I")
_ADVMSS_AT, _DATA_SEGS_IN_AT = 84, 152  #: tcpi_advmss; tcpi_data_segs_in
_TCP_TIMESTAMP = 12  #: bytes that TCP's timestamp option takes of each segment
CIPHERTEXT_SIZE = 256 * 1024  #: bytes of the buffer that a stream must be given
_SEND_SIZE = 256 * 1024  #: bytes of encrypted records to collect before sending them
_RECORD = 16384 + 512  #: bytes of the longest record, including overhead (RFC 8446, 5.2)
_TLS_DISCARD_BUFFER = memoryview(bytearray(65536))  #: receives discarded plaintext

# Receive timestamps
_SO_TIMESTAMPNS = 35  #: Python has no constant for it
_TIMESPEC = Struct("ll")
_unpack = _TIMESPEC.unpack
ANCILLARY_SIZE = socket.CMSG_SPACE(_TIMESPEC.size)  #: recvmsg's ``ancbufsize``

#: Two clocks read in succession count as simultaneous if that took no longer than this (0.2 µs is
#: usual). Otherwise the process was preempted in between, possibly for milliseconds.
_CLOCK_PAIR_NS = 20_000
#: What an undelayed loop finds when it wakes arrived at most this long before.
_LATE_NS = 1_000_000
#: What arrived this long after the wake-up is not what the loop woke for.
_AFTER_WAKE_NS = 200_000
#: Of a response in pieces, how far apart the pieces of one read may have arrived unnoticed: while
#: the loop was busy with others. The last piece may be new whenever the loop comes back.
_BUSY_NS = 400_000
_TRIES = 5

AncillaryData = list[tuple[int, int, bytes]]  #: recvmsg's ``ancdata``


class PlainStream:
    """A connected TCP socket. One greenlet at a time may use it."""

    #: The dial.Address that it goes to.
    address: Any = None

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._hub = get_hub()
        loop: Any = self._hub.loop
        self._readable = loop.io(sock.fileno(), READ)
        self._writable: Any = None
        self._low_water = 1  #: bytes that must be readable before a wait ends (SO_RCVLOWAT)
        self._max_low_water = _BULK
        self._segments = -1  #: received segments at the last count; -1: never counted
        #: send(bytes) and send_parts([bytes-like, ...]) return the number of bytes accepted: as
        #: many as fit into the send buffer. They raise BlockingIOError if it is full.
        self.send: Callable[[Any], int] = sock.send
        self.send_parts: Callable[[Sequence[Any]], int] = sock.sendmsg
        self._recvmsg_into: Callable[..., tuple[int, AncillaryData, int, Any]] = sock.recvmsg_into
        with suppress(OSError):  # an old kernel
            sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self._timestamps = hub_timestamps()
        #: Arrival time of the bytes received last, negated if the first of them may have arrived
        #: long before. Call it before the next wait.
        self.arrived_ns: Callable[[], int] = self._timestamps.now

    @property
    def descriptor(self) -> int | None:
        """The socket that bytes of a file can be sent to as they are; None: they can't."""
        return self._sock.fileno()

    def recv_into(self, buffer: Any) -> int:
        """Wait for bytes, then receive what is there; returns 0 at the end of the stream."""
        while True:
            # Wait first: a response is hardly ever there already.
            self.wait_readable()
            try:
                count, self._timestamps.ancillary, _, _ = self._recvmsg_into(
                    (buffer,), ANCILLARY_SIZE
                )
            except BlockingIOError:
                continue  # woken for nothing
            return count

    def discard(self, count: int) -> int:
        """Wait for bytes, then discard at most ``count`` of them; returns 0 at the end.

        The next wait is then for many of the remaining bytes at once; ``wake_reader`` ends it.
        """
        room = (_DISCARD_BUFFER[:count],)
        while True:
            self.wait_readable()
            try:
                dropped, self._timestamps.ancillary, _, _ = self._recvmsg_into(
                    room, ANCILLARY_SIZE, _DISCARD_FLAG
                )
            except BlockingIOError:
                continue  # woken for nothing
            # After, not before: so the first bytes of a body are timed when they arrive, and
            # after the last ones the low-water mark is as the next response needs it.
            self._set_next_wait(count - dropped)
            return dropped

    def wake_reader(self) -> None:
        """Wake a waiting reader for any available byte, below the low-water mark too."""
        if self._low_water != 1:
            self._set_low_water(1)

    def wait_readable(self) -> None:
        """Wait until bytes (or the end of the stream) can be received."""
        watcher, hub = self._readable, self._hub
        watcher.start(getcurrent().switch, watcher)
        try:
            while hub.switch() is not watcher:
                pass  # a wake-up for something else
        finally:
            # On every exit, so that a killed greenlet is not woken later.
            watcher.stop()

    def wait_writable(self) -> bool:
        """Wait until the send buffer has space. True if bytes (or the end) can be received."""
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
        """Receive without waiting.

        :raises BlockingIOError: there is nothing to receive.
        """
        return self._sock.recv_into(buffer)

    def beginning_ns(self, at_ns: int, count: int) -> int:
        """When the first of ``count`` bytes of a response in pieces arrived.

        :param at_ns: as returned by ``arrived_ns``.
        :return: the time, negated if it is uncertain.
        """
        if at_ns >= 0 and not self._timestamps.was_busy_before(at_ns):
            return at_ns
        return self.resolve_late(-abs(at_ns), count)

    def resolve_late(self, late_ns: int, count: int) -> int:
        """Decide whether the first of ``count`` bytes that were read late arrived with the last.

        They did if they arrived in as few segments as they fit into. Counting segments costs a
        system call, so this is known only if the previous bytes were read late, too, or if
        ``count_segments`` was called since.

        :param late_ns: negative, as returned by ``arrived_ns``.
        :return: ``late_ns``, or its absolute value if the time is certain.
        """
        info = self._tcp_info()
        if info is None or self._timestamps.came_after_wake(-late_ns):
            return late_ns
        before = self._segments
        (self._segments,) = _U32.unpack_from(info, _DATA_SEGS_IN_AT)
        (largest,) = _U32.unpack_from(info, _ADVMSS_AT)
        fewest = -(-count // max(largest - _TCP_TIMESTAMP, 1))
        return -late_ns if before >= 0 and self._segments - before <= fewest else late_ns

    def count_segments(self) -> None:
        """Record the number of segments received so far, for the next ``resolve_late``."""
        info = self._tcp_info()
        if info is not None:
            (self._segments,) = _U32.unpack_from(info, _DATA_SEGS_IN_AT)

    def never_acknowledged(self, count: int) -> bool:
        """Whether none of the last ``count`` sent bytes was acknowledged.

        After the peer's FIN, this means that it closed the connection before any of them arrived:
        a FIN acknowledges everything received before it. (A RST doesn't.) Linux counts bytes sent,
        retransmitted and acknowledged, and keeps the counts of closed connections (struct tcp_info
        of tcp(7); the SYN counts as one byte). False if unknown.
        """
        info = self._tcp_info()
        if info is None:
            return False
        (acknowledged,) = _U64.unpack_from(info, _BYTES_ACKED_AT)
        sent, sent_again = _TWO_U64.unpack_from(info, _BYTES_SENT_AT)
        return bool(0 < count <= sent - sent_again + 1 - acknowledged)

    def _tcp_info(self) -> bytes | None:
        """Linux's struct tcp_info; None: not available."""
        try:
            info = self._sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_SIZE)
        except OSError:
            return None
        return info if len(info) == _TCP_INFO_SIZE else None  # before 4.19 it is shorter

    def shut(self) -> None:
        """Shut the socket down: a waiting greenlet wakes and finds the end of the stream."""
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError as error:
            if error.errno != errno.ENOTCONN:  # the peer has closed it already
                raise

    def close(self) -> None:
        """Close the socket. No greenlet may be waiting for it."""
        for watcher in (self._readable, self._writable):
            if watcher is not None:
                watcher.stop()
                watcher.close()
        self._sock.close()

    def _set_next_wait(self, left: int) -> None:
        """Let the next wait end after ``left`` bytes, at most a bulk; after 1 if they are few."""
        mark = min(left, self._max_low_water) if left > _SMALL else 1
        if mark != self._low_water:
            self._set_low_water(mark)

    def _set_low_water(self, mark: int) -> None:
        sock = self._sock
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, mark)
        # Before 4.18, Linux did not grow the receive buffer: the wait would never end.
        if mark > sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF):
            self._max_low_water = mark = 1
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, mark)
        self._low_water = mark

    def __repr__(self) -> str:
        return f"<{type(self).__name__} fd {self._sock.fileno()}>"


class TlsStream(PlainStream):
    """A PlainStream over TLS. Call ``handshake`` before anything else.

    OpenSSL works on two memory buffers, and we do the socket I/O, as without TLS. So one system
    call receives everything available (OpenSSL itself makes two for each record of 16 KiB), one
    sends several records, we wait before we read, and we get the kernel's receive timestamps.
    ``ssl.SSLSocket`` costs a fifth more.

    :param host: the name that the certificate must match, if the context checks that.
    :param ciphertext: CIPHERTEXT_SIZE bytes, shared by the streams of a hub.
    :raises ValueError: the host can't be in a certificate.
    """

    def __init__(
        self, sock: socket.socket, context: ssl.SSLContext, host: str, ciphertext: memoryview
    ) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        #: read(count, buffer) -> count
        self._read: Callable[[int, Any], int] = self._tls.read  # type: ignore[assignment] # typeshed
        super().__init__(sock)
        self._ciphertext = ciphertext
        self._unsent = b""  #: records that did not fit into the send buffer
        self._ancillary: AncillaryData = []  #: timestamp of what is in ``_incoming``
        self.send = self._send
        self.send_parts = self._send_parts

    @property
    def descriptor(self) -> int | None:
        return None

    def handshake(self) -> None:
        """Perform the handshake, and verify the server's certificate.

        :raises OSError: including ssl.SSLError.
        """
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
                self._fetch()
            except ssl.SSLError:
                with suppress(OSError):
                    self._flush()  # send the alert that tells the server why
                raise
            else:
                return self._flush()

    def recv_into(self, buffer: Any) -> int:
        if self._unsent or self._outgoing.pending:
            self._flush()
        # OpenSSL may hold bytes that are no longer in the socket. If it holds none, reading
        # before waiting would cost an exception.
        if not (self._incoming.pending or self._tls.pending()):
            self._fetch()
        while True:
            try:
                count = self._read(len(buffer), buffer)
            except ssl.SSLWantReadError:  # part of a record, or no data: a session ticket
                self._flush()
                self._fetch()
            except ssl.SSLEOFError:  # closed without close_notify, as many servers do
                return 0
            else:
                self._timestamps.ancillary = self._ancillary  # another stream may have replaced it
                return count

    def discard(self, count: int) -> int:
        dropped = self.recv_into(_TLS_DISCARD_BUFFER[:count])
        # Also discard what was received with it: the timestamp is that of the last byte, so it
        # holds for these bytes, too.
        while 0 < dropped < count and self._incoming.pending:
            try:
                dropped += self._read(
                    min(count - dropped, len(_TLS_DISCARD_BUFFER)), _TLS_DISCARD_BUFFER
                )
            except (ssl.SSLWantReadError, ssl.SSLEOFError):
                break
        # A partly received record yields more bytes than are still missing: subtract one record.
        self._set_next_wait(count - dropped - _RECORD)
        return dropped

    def recv_now(self, buffer: Any) -> int:
        try:
            return self._read(len(buffer), buffer)
        except ssl.SSLWantReadError:
            self._receive_records()
        except ssl.SSLEOFError:
            return 0
        try:
            return self._read(len(buffer), buffer)
        except ssl.SSLWantReadError as error:
            raise BlockingIOError from error
        except ssl.SSLEOFError:
            return 0

    def _send(self, data: Any) -> int:
        return self._send_parts((data,))

    def _send_parts(self, parts: Sequence[Any]) -> int:
        if self._unsent:
            self._send_records(self._unsent)
            if self._unsent:
                raise BlockingIOError
        taken = sent_through = 0
        try:
            for part in parts:
                view = memoryview(part)
                while view:
                    count = self._tls.write(view)  # one record
                    taken += count
                    view = view[count:]
                    if self._outgoing.pending >= _SEND_SIZE:
                        self._send_records(self._outgoing.read())
                        sent_through = taken
                        if self._unsent:
                            return taken
            if self._outgoing.pending:
                self._send_records(self._outgoing.read())
        except OSError:
            if not sent_through:
                raise
            # An error would mean that nothing was sent; the next call raises it.
            return sent_through
        return taken

    def _send_records(self, records: bytes) -> None:
        """Send records; what does not fit into the send buffer stays in ``_unsent``."""
        try:
            sent = self._sock.send(records)
        except BlockingIOError:
            sent = 0
        self._unsent = records[sent:] if sent < len(records) else b""

    def _flush(self) -> None:
        """Send unsent records, and those that OpenSSL produced by itself.

        Waits for space in the send buffer, but stops waiting once bytes arrive: the server may
        have stopped reading.
        """
        if self._outgoing.pending:
            self._unsent += self._outgoing.read()
        while self._unsent:
            self._send_records(self._unsent)
            if self._unsent and self.wait_writable():
                return

    def _fetch(self) -> None:
        """Wait for bytes (or the end of the stream), then receive them."""
        while True:
            self.wait_readable()
            try:
                return self._receive_records()
            except BlockingIOError:
                continue  # woken for nothing

    def _receive_records(self) -> None:
        count, self._ancillary, _, _ = self._recvmsg_into((self._ciphertext,), ANCILLARY_SIZE)
        if count:
            self._incoming.write(self._ciphertext[:count])
        else:
            self._incoming.write_eof()


def _wake(events: int, woken: list[int], greenlet: Any) -> None:
    woken.append(events)
    greenlet.switch()


class RxTimestamps:
    """Arrival times of the bytes that one hub's greenlets receive.

    Set ``ancillary`` after a receive call, and call ``now`` before the next wait.
    """

    __slots__ = (
        "_before_ns",
        "_polled_ns",
        "_timely_since_ns",
        "_wall_offset_ns",
        "_woken_ns",
        "ancillary",
        "watchers",
    )

    def __init__(self) -> None:
        self.ancillary: AncillaryData = []
        self.watchers: Sequence[Any] = ()  #: of the loop, kept alive by this reference
        self._woken_ns = 0
        self._polled_ns = 0  #: when the loop last looked for events
        self._timely_since_ns = 0  #: what arrived between this and the wake-up was read in time
        self._wall_offset_ns = _wall_offset()  #: wall clock minus perf_counter_ns
        self.wake()

    def wake(self) -> None:
        """Record that the loop returned from waiting for events."""
        self._before_ns = before_ns = self._woken_ns
        self._woken_ns = now_ns = perf_counter_ns()
        certain_ns = now_ns - _LATE_NS
        self._timely_since_ns = certain_ns if certain_ns > before_ns else before_ns
        wall_ns = time_ns()
        if perf_counter_ns() - now_ns < _CLOCK_PAIR_NS:
            self._wall_offset_ns = wall_ns - now_ns  # else the previous offset is more accurate

    def poll(self) -> None:
        """Record that the loop has handled its events, and looks for new ones."""
        self._polled_ns = perf_counter_ns()

    def was_busy_before(self, at_ns: int) -> bool:
        """Whether bytes may have arrived long before those of this time, which were read now,
        because the loop handled other events since the wake-up before."""
        return min(self._polled_ns, at_ns) - self._before_ns > _BUSY_NS

    def came_after_wake(self, at_ns: int) -> bool:
        """Whether bytes of this time arrived after those that the loop woke for."""
        return at_ns - self._woken_ns > _AFTER_WAKE_NS

    def now(self) -> int:
        """The perf_counter_ns time at which the last of the bytes arrived.

        Negated if they were read late, so that the first of them may have arrived long before.
        Kernel timestamps are of the wall clock, which may be set. But what arrived before the
        previous wake-up was reported then, which bounds the error.
        """
        ancillary = self.ancillary
        if not ancillary:
            return self._woken_ns
        seconds, ns = _unpack(ancillary[0][2])
        at_ns: int = seconds * 1_000_000_000 + ns - self._wall_offset_ns
        if self._timely_since_ns <= at_ns <= self._woken_ns:
            return at_ns
        at_ns = max(min(at_ns, perf_counter_ns()), self._before_ns)
        return at_ns if -_LATE_NS <= at_ns - self._woken_ns <= _AFTER_WAKE_NS else -at_ns


def _wall_offset() -> int:
    """Wall clock minus perf_counter_ns; of several attempts, the least delayed one."""
    tries = []
    for _ in range(_TRIES):
        before_ns = perf_counter_ns()
        wall_ns = time_ns()
        tries.append((perf_counter_ns() - before_ns, wall_ns - before_ns))
    return min(tries)[1]


class _ReadTime(RxTimestamps):
    """For libuv, which reports events before our wake-up callback runs."""

    def now(self) -> int:
        return perf_counter_ns()


_BY_HUB: WeakKeyDictionary[Any, RxTimestamps] = WeakKeyDictionary()


def hub_timestamps() -> RxTimestamps:
    """The instance of the current hub. Callers must wait for the loop before each receive call."""
    hub: Any = get_hub()
    found = _BY_HUB.get(hub)
    if found is None:
        loop = hub.loop
        is_libev = type(loop).__module__.startswith("gevent.libev")
        found = _BY_HUB[hub] = RxTimestamps() if is_libev else _ReadTime()
        if is_libev:
            # The first of all callbacks of a wake-up, and the last one before a wait.
            found.watchers = (
                loop.check(ref=False, priority=loop.MAXPRI),
                loop.prepare(ref=False, priority=loop.MINPRI),
            )
            for watcher, call in zip(found.watchers, (found.wake, found.poll), strict=True):
                watcher.start(call)
    return found
