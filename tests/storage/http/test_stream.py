"""Byte streams: plain TCP, and TLS between two ends of one process."""

from __future__ import annotations

import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import perf_counter_ns

import gevent
import pytest

from ssbench.storage.http.stream import CIPHERTEXT_SIZE, PlainStream, TlsStream
from tests.servers.certificates import Certificates
from tests.timing import PATIENCE_S

MANY = 100_000_000


@pytest.fixture
def ends() -> Iterator[tuple[PlainStream, socket.socket]]:
    """A stream and its peer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    ours.setblocking(False)
    stream = PlainStream(ours)
    with theirs:
        yield stream, theirs
        stream.close()


def low_water(stream: PlainStream) -> int:
    """Bytes that must be readable before a wait ends."""
    descriptor = int(repr(stream).strip("<>").split()[-1])  # over TLS ``descriptor`` is None
    with socket.socket(fileno=os.dup(descriptor)) as same:
        return same.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT)


def test_wake_reader_ends_bulk_waits(ends: tuple[PlainStream, socket.socket]) -> None:
    stream, peer = ends
    peer.sendall(b"x")
    stream.discard(MANY)
    stream.wake_reader()
    assert low_water(stream) == 1
    peer.sendall(b"x")
    assert stream.discard(MANY) == 1


def test_a_small_receive_buffer_disables_bulk_waits(
    ends: tuple[PlainStream, socket.socket],
) -> None:
    stream, peer = ends
    with socket.socket(fileno=os.dup(stream.descriptor or 0)) as same:
        same.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    peer.sendall(b"x")
    stream.discard(MANY)
    assert low_water(stream) == 1


def send_and_wait(peer: socket.socket, *parts: bytes) -> int:
    """Send each part as a segment, and leave them unread for a while; returns the byte count."""
    for part in parts:
        peer.sendall(part)
        time.sleep(0.002)
    time.sleep(0.003)
    return sum(map(len, parts))


def await_timestamps(stream: PlainStream, peer: socket.socket) -> None:
    """The kernel enables timestamps with a delay: until then, reads have their own time."""
    until_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < until_s:
        stream.recv_into(bytearray(send_and_wait(peer, b"x")))
        if stream.arrived_ns() < 0:  # it came before it was read
            return
    pytest.fail("no timestamps")


def test_a_late_read_of_one_segment_has_a_certain_time(
    ends: tuple[PlainStream, socket.socket],
) -> None:
    stream, peer = ends
    buffer = bytearray(99)

    def late(*parts: bytes) -> bool:
        """Send and read late; whether the first byte's time is known."""
        count = send_and_wait(peer, *parts)
        assert stream.recv_into(buffer) == count
        at_ns = stream.arrived_ns()
        assert at_ns < 0
        resolved_ns = stream.resolve_late(at_ns, count)
        assert abs(resolved_ns) == -at_ns
        return resolved_ns > 0

    await_timestamps(stream, peer)
    assert not late(b"not counted before")
    assert late(b"one")
    assert not late(b"one", b"two", b"three")
    assert late(b"one again")
    peer.sendall(b"x")
    stream.recv_into(buffer)
    assert not late(b"one of two since")
    peer.sendall(b"x")
    stream.recv_into(buffer)
    stream.count_segments()
    assert late(b"one since")
    time.sleep(0.001)
    assert stream.resolve_late(-perf_counter_ns(), 0) < 0, "it came after the loop woke"


def test_pieces_that_came_while_the_loop_was_busy_have_no_certain_beginning(
    ends: tuple[PlainStream, socket.socket],
) -> None:
    """The last piece may be as new as that of a loop that waited: only its time is known."""
    stream, peer = ends
    await_timestamps(stream, peer)
    buffer = bytearray(99)

    def is_certain(*parts: bytes) -> bool:
        gevent.sleep(0)  # the loop wakes, and is then busy
        count = send_and_wait(peer, *parts[:-1]) + peer.send(parts[-1])
        assert stream.recv_into(buffer) == count
        at_ns = stream.arrived_ns()
        beginning_ns = stream.beginning_ns(at_ns, count)
        assert abs(beginning_ns) == abs(at_ns)
        return beginning_ns > 0

    stream.count_segments()
    assert not is_certain(b"one", b"two")
    assert is_certain(b"one alone")


# --- TLS

Server = Callable[[ssl.SSLSocket], None]


@contextmanager
def served(certificates: Certificates, serve: Server) -> Iterator[TlsStream]:
    """A stream after its handshake with a server in a thread."""
    inner = certificates.server_context()
    outer = ssl.create_default_context(cafile=str(certificates.authority))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()

    def run() -> None:
        theirs.settimeout(60)
        with (
            suppress(OSError),  # the client may leave first
            theirs,
            inner.wrap_socket(theirs, server_side=True) as tls,
        ):
            serve(tls)

    thread = threading.Thread(target=run)
    thread.start()
    ours.setblocking(False)
    stream = TlsStream(ours, outer, "127.0.0.1", memoryview(bytearray(CIPHERTEXT_SIZE)))
    try:
        with gevent.Timeout(60):
            stream.handshake()
            yield stream
    finally:
        stream.close()
        thread.join(60)


def received(tls: ssl.SSLSocket, count: int) -> bytes:
    """Receive at least ``count`` bytes from the client.

    :raises ConnectionError: it closed the connection before.
    """
    data = b""
    while len(data) < count:
        more = tls.recv(65536)
        if not more:
            raise ConnectionError("the client has left")
        data += more
    return data


def test_unsent_records_are_sent_before_the_wait_for_a_response(
    certificates: Certificates,
) -> None:
    sent, full = 0, threading.Event()

    def serve(tls: ssl.SSLSocket) -> None:
        tls.sendall(b"hello")
        full.wait(60)
        tls.sendall(b"%d" % len(received(tls, sent)))

    block, buffer = bytes(100_000), bytearray(100)
    with served(certificates, serve) as stream:
        stream.recv_into(buffer)  # with it, the session tickets
        with suppress(BlockingIOError):  # when the send buffer is full
            while True:
                sent += stream.send_parts([block[:1000], block[1000:]])
        with pytest.raises(BlockingIOError):
            stream.send(block)
        full.set()
        assert buffer[: stream.recv_into(buffer)] == b"%d" % sent


def test_a_send_fills_the_send_buffer(certificates: Certificates) -> None:
    blocks = [bytes(100_000)] * 100

    def serve(tls: ssl.SSLSocket) -> None:
        while tls.recv(65536):
            pass

    with served(certificates, serve) as stream:
        taken = 10_000_000
        while not stream._unsent:  # which may begin with the last record of a call
            assert taken == 10_000_000
            taken = stream.send_parts(blocks)


def test_discard_drops_all_received_records_at_once(certificates: Certificates) -> None:
    size = 5_000_000

    def serve(tls: ssl.SSLSocket) -> None:
        tls.sendall(bytes(size) + b"end")

    with served(certificates, serve) as stream:
        left, turns = size, 0
        while left:
            left -= stream.discard(left)
            turns += 1
        buffer = bytearray(10)
        assert buffer[: stream.recv_into(buffer)] == b"end"
        assert turns < size / 16384, "not record by record"


def test_recv_now_does_not_wait(certificates: Certificates) -> None:
    def serve(tls: ssl.SSLSocket) -> None:
        received(tls, 1)
        tls.sendall(b"data")
        received(tls, 1)

    buffer = bytearray(10)
    with served(certificates, serve) as stream:
        with pytest.raises(BlockingIOError):
            stream.recv_now(buffer)
        stream.send(b"x")
        count = 0
        while not count:
            stream.wait_readable()
            with suppress(BlockingIOError):  # session tickets may come first
                count = stream.recv_now(buffer)
        assert buffer[:count] == b"data"
        stream.send(b"x")


def test_a_stream_ends_with_or_without_close_notify(certificates: Certificates) -> None:
    def close_notify(tls: ssl.SSLSocket) -> None:
        tls.unwrap()

    for serve in (close_notify, ssl.SSLSocket.close):
        with served(certificates, serve) as stream:
            assert stream.recv_into(bytearray(10)) == 0
            assert stream.recv_now(bytearray(10)) == 0


def test_a_failure_after_sent_records_is_a_partial_send(certificates: Certificates) -> None:
    """An error would mean that nothing was sent; the next send raises it."""
    with served(certificates, lambda tls: None) as stream:
        left = [1]

        def sent_through(records: bytes) -> None:
            if not left:
                raise BrokenPipeError
            left.pop()

        stream._send_records = sent_through  # type: ignore[method-assign]
        assert stream.send_parts([bytes(300_000)] * 3) == 300_000
        with pytest.raises(BrokenPipeError):
            stream.send_parts([bytes(300_000)])
