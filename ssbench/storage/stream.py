"""A byte stream for gevent's hub: plain TCP.

A plain non-blocking socket and one watcher kept for the connection's life cost a third of what
``gevent.socket`` does per request. Nothing here knows HTTP, and nothing here has a time-out:
``shut`` ends whatever a greenlet waits for, and a sweeper calls it.
"""

from __future__ import annotations

import errno
import socket
import sys
from collections.abc import Callable, Sequence
from mmap import mmap
from struct import Struct
from typing import Any

from gevent import get_hub, getcurrent

from ssbench.storage.rx_timestamps import (
    ANCILLARY_SIZE,
    AncillaryData,
    enable_timestamps,
    hub_timestamps,
)

READ, WRITE = 1, 2
_LINUX = sys.platform == "linux"
#: Linux's TCP drops what it "receives" with this flag, and writes nothing (tcp(7)).
_DISCARD_FLAG = socket.MSG_TRUNC if _LINUX else 0
#: So this is address space, not memory.
_DISCARD_BUFFER = memoryview(mmap(-1, 16 * 1024 * 1024))
#: Bytes of a long body that are worth a wake-up. Dropping a MiB takes 10 µs; being woken for each
#: segment of it takes ten times as long, and the server's core has to do the waking.
_BULK = 512 * 1024 if _LINUX else 1
_SMALL = 32 * 1024  #: for so few, setting the mark costs more than it saves
_U64, _TWO_U64 = Struct("=Q"), Struct("=QQ")
#: Of struct tcp_info in linux/tcp.h: tcpi_bytes_acked; tcpi_bytes_sent and tcpi_bytes_retrans.
_BYTES_ACKED_AT, _BYTES_SENT_AT, _TCP_INFO_SIZE = 120, 200, 216
_U32 = Struct("=I")
_ADVMSS_AT, _DATA_SEGS_IN_AT = 84, 152  #: tcpi_advmss; tcpi_data_segs_in
_TCP_TIMESTAMP = 12  #: bytes of each segment that TCP's own time stamps take


class PlainStream:
    """A connected TCP socket. One greenlet at a time may use it."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._hub = get_hub()
        loop: Any = self._hub.loop
        self._readable = loop.io(sock.fileno(), READ)
        self._writable: Any = None
        self._low_water = 1  #: bytes that must be there before a wait for them ends (SO_RCVLOWAT)
        self._max_low_water = _BULK
        self._segments = -1  #: that had come when they were last asked for
        #: send(bytes) and send_parts([bytes-like, ...]) give the number of bytes taken: all that
        #: there is room for. They raise BlockingIOError where there is none.
        self.send: Callable[[Any], int] = sock.send
        self.send_parts: Callable[[Sequence[Any]], int] = sock.sendmsg
        self._recvmsg_into: Callable[..., tuple[int, AncillaryData, int, Any]] = sock.recvmsg_into
        enable_timestamps(sock)
        self._timestamps = hub_timestamps()
        #: When the bytes were there that were received last, negative where the first of them may
        #: have been there long before; to be asked before the next wait.
        self.arrived_ns: Callable[[], int] = self._timestamps.now

    def recv_into(self, buffer: Any) -> int:
        """Wait for bytes, then take what is there; 0 at the end of the stream."""
        while True:
            # Wait first: an answer is hardly ever there before it was waited for.
            self.wait_readable()
            try:
                count, self._timestamps.ancillary, _, _ = self._recvmsg_into(
                    (buffer,), ANCILLARY_SIZE
                )
            except BlockingIOError:
                continue  # woken for nothing
            return count

    def discard(self, count: int) -> int:
        """Wait for bytes, then drop at most ``count`` of them unseen; 0 at the end.

        What is left of the ``count`` is then waited for in heaps; ``hurry`` ends that.
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
            # After, not before: the first bytes of a body are to be told of when they come, and
            # when none are left, the mark is where the next answer needs it.
            self._set_next_wait(count - dropped)
            return dropped

    def wake_reader(self) -> None:
        """Wake whoever waits for any byte that is there, though fewer came than are waited for."""
        if self._low_water != 1:
            self._set_low_water(1)

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
        return self._sock.recv_into(buffer)

    def resolve_late(self, late_ns: int, count: int) -> int:
        """Decide on the time of ``count`` bytes that were read late: whether the first of them are
        from the same time as the last.

        They are if they came in as few segments as they fit in. It costs a system call to ask how
        many came in all; so it can be said only where the bytes before these were read late, too,
        or where ``count_segments`` was called since.

        :param late_ns: negative, as ``arrived_ns`` gave it.
        :return: the same, or positive where it is certain.
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
        """Know how many segments came so far, for the next time that bytes are read late."""
        info = self._tcp_info()
        if info is not None:
            (self._segments,) = _U32.unpack_from(info, _DATA_SEGS_IN_AT)

    def never_acknowledged(self, count: int) -> bool:
        """Whether none of the ``count`` bytes that were sent last was acknowledged.

        Once the other side's end of the stream has been received, that says that it was closed
        before any of them got there: a FIN acknowledges all that came before it. (A reset doesn't.)
        Linux counts bytes sent, sent again and acknowledged, and keeps that for connections that
        are gone (struct tcp_info of tcp(7); the SYN counts as one). False where it isn't known.
        """
        info = self._tcp_info()
        if info is None:
            return False
        (acknowledged,) = _U64.unpack_from(info, _BYTES_ACKED_AT)
        sent, sent_again = _TWO_U64.unpack_from(info, _BYTES_SENT_AT)
        return bool(0 < count <= sent - sent_again + 1 - acknowledged)

    def _tcp_info(self) -> bytes | None:
        """Linux's struct tcp_info; None where it isn't to be had."""
        if not _LINUX:
            return None
        try:
            info = self._sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_SIZE)
        except OSError:
            return None
        return info if len(info) == _TCP_INFO_SIZE else None  # before 4.19 it is shorter

    def shut(self) -> None:
        """End the stream under whoever waits for it: it is woken and finds the end."""
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
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

    def _set_next_wait(self, left: int) -> None:
        """Let the next wait be for so many bytes, if they are many, or for a heap of them."""
        mark = min(left, self._max_low_water) if left > _SMALL else 1
        if mark != self._low_water:
            self._set_low_water(mark)

    def _set_low_water(self, mark: int) -> None:
        sock = self._sock
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, mark)
        # Before 4.18, Linux made no room for so many, and they would never be there.
        if mark > sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF):
            self._max_low_water = mark = 1
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, mark)
        self._low_water = mark

    def __repr__(self) -> str:
        return f"<{type(self).__name__} fd {self._sock.fileno()}>"


def _wake(events: int, woken: list[int], greenlet: Any) -> None:
    woken.append(events)
    greenlet.switch()
