"""What a wait for bytes waits for."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator

import gevent
import pytest

from ssbench.storage.stream import PlainStream

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="heaps are for Linux alone")

MANY = 100_000_000


@pytest.fixture
def ends() -> Iterator[tuple[PlainStream, socket.socket]]:
    """A stream, and the other side of it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    ours.setblocking(False)
    stream = PlainStream(ours)
    with theirs:
        yield stream, theirs
        stream.close()


def waits_for(stream: PlainStream) -> int:
    """Bytes that must be there before a wait ends."""
    return stream._sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT)


def test_the_first_bytes_are_told_of_at_once_and_others_in_heaps(
    ends: tuple[PlainStream, socket.socket],
) -> None:
    stream, peer = ends
    assert waits_for(stream) == 1
    peer.sendall(b"x")
    assert stream.discard(MANY) == 1
    assert 100_000 < waits_for(stream) < MANY


def test_a_wait_is_never_for_more_than_is_to_come(ends: tuple[PlainStream, socket.socket]) -> None:
    stream, peer = ends
    peer.sendall(bytes(1000))
    assert stream.discard(101_000) == 1000
    assert waits_for(stream) == 100_000
    peer.sendall(bytes(100_000))
    assert stream.discard(100_000) == 100_000
    assert waits_for(stream) == 1, "the next answer may be short"


def test_who_is_in_a_hurry_waits_for_a_byte(ends: tuple[PlainStream, socket.socket]) -> None:
    stream, peer = ends
    peer.sendall(b"x")
    stream.discard(MANY)
    stream.wake_reader()
    assert waits_for(stream) == 1
    peer.sendall(b"x")
    assert stream.discard(MANY) == 1


def test_without_room_for_a_heap_nothing_waits_for_one(
    ends: tuple[PlainStream, socket.socket],
) -> None:
    stream, peer = ends
    stream._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    peer.sendall(b"x")
    stream.discard(MANY)
    assert waits_for(stream) == 1


def say_late(peer: socket.socket, *parts: bytes) -> int:
    """Say it in as many segments, and nobody reads it for a while; gives the number of bytes."""
    for part in parts:
        peer.sendall(part)
        time.sleep(0.002)
    time.sleep(0.003)
    return sum(map(len, parts))


def test_what_was_read_late_is_certain_if_it_came_in_one_segment(
    ends: tuple[PlainStream, socket.socket],
) -> None:
    stream, peer = ends
    buffer = bytearray(99)

    def late(*parts: bytes) -> bool:
        """Whether the time of the first of them is known."""
        count = say_late(peer, *parts)
        assert stream.recv_into(buffer) == count
        came_ns = stream.arrived_ns()
        assert came_ns < 0
        judged_ns = stream.resolve_late(came_ns, count)
        assert abs(judged_ns) == -came_ns
        return judged_ns > 0

    peer.sendall(b"x")
    stream.recv_into(buffer)  # the kernel begins to note a moment after it was asked
    gevent.sleep(0.005)
    assert not late(b"nobody has counted before")
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


def test_a_fin_acknowledges_what_came_before_it(ends: tuple[PlainStream, socket.socket]) -> None:
    stream, peer = ends
    stream.send(b"before")
    peer.recv(9)
    assert not stream.never_acknowledged(6)
    peer.close()
    time.sleep(0.005)
    stream.send(b"in vain")
    assert stream.recv_into(bytearray(9)) == 0
    assert stream.never_acknowledged(7)
    assert not stream.never_acknowledged(8), "not all of what was sent before"
