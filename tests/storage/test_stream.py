"""What a wait for bytes waits for."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator

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
    stream.hurry()
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
