"""What a server can do to a request instead of answering it."""

from __future__ import annotations

import socket
import time

from tests.fakes.loopback_http import Behaviour
from tests.fakes.scripted_server import Peer

OK = b"HTTP/1.1 200 OK\r\n"
START = OK + b"Content-Length: 1000\r\n\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
BLOCK = b"x" * 65536
_PAUSE_S = 0.02
_LONGEST_S = 60.0


# How it ends --------------------------------------------------------------------------------


def leave(peer: Peer) -> None:
    """Close the connection."""


def reset(peer: Peer) -> None:
    """Close it with RST; what was said before is to arrive first."""
    time.sleep(_PAUSE_S)
    peer.reset()


def stall(peer: Peer) -> None:
    """Say nothing more, but stay."""
    peer.linger(_LONGEST_S)


def half_close(peer: Peer) -> None:
    """Send a FIN, and go on listening."""
    peer.sock.shutdown(socket.SHUT_WR)
    stall(peer)


def keep(peer: Peer) -> bool:
    """Serve the next request on the same connection."""
    return True


# What is said -------------------------------------------------------------------------------


def saying(*parts: bytes, then: Behaviour = leave, pause_s: float = _PAUSE_S) -> Behaviour:
    """Say it in several segments."""

    def behaviour(peer: Peer) -> object:
        for part in parts:
            peer.say(part)
            time.sleep(pause_s)
        return then(peer)

    return behaviour


def flooding(start: bytes, part: bytes, times: int = 10**9) -> Behaviour:
    """Say the part as often as the client takes it."""

    def behaviour(peer: Peer) -> None:
        peer.say(start)
        for _ in range(times):
            peer.say(part)
        stall(peer)

    return behaviour


def dripping(start: bytes, drop: bytes = b"x", every_s: float = 0.2) -> Behaviour:
    """Say a drop now and then: a network timeout that heeds any byte never comes."""

    def behaviour(peer: Peer) -> None:
        peer.say(start)
        while not peer.is_over(every_s):
            peer.say(drop)

    return behaviour


def reading(count: int, then: Behaviour) -> Behaviour:
    """Take so many bytes of the request's body first."""

    def behaviour(peer: Peer) -> object:
        left = count
        while left > 0 and (data := peer.sock.recv(min(left, 65536))):
            left -= len(data)
        return then(peer)

    return behaviour
