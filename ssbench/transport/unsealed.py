"""What each connection may send that no present worker has sealed.

A worker pays for what it sends from its own account. Who has none, as it has not joined or was
dropped, pays from that of its connection, and is disconnected once that is overdrawn.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from math import inf

import zmq
from msgspec import Struct

#: A message costs as much as 4 kB of it (4 µs), and one of 256 bytes less. A hello also claims a
#: worker's place.
BYTES_PER_UNIT, UNITS_PER_MESSAGE, UNITS_PER_HELLO = 256, 16, 256
#: At most, and at first: two of the longest messages, or 16 hellos; and earned each second.
_MOST_SAVED, _EARNED_PER_S = 4352, 1024
#: Connections that are remembered: twice as many as there can be workers.
_MOST_CONNECTIONS = 4096


class _Connection(Struct, eq=False):
    at_s: float  #: until when time has earned
    left: float = _MOST_SAVED
    #: its socket, once it is overdrawn, until it is disconnected; and what it has sent since
    sock: socket.socket | None = None
    ignored: int = 0


class UnsealedMessages:
    """The accounts of the results port's connections.

    :param queued: messages of a connection that ZeroMQ holds, at most.
    :param disconnected: told the address of each peer that was disconnected.
    """

    def __init__(self, queued: int, disconnected: Callable[[str], None]) -> None:
        self._queued = queued
        self._disconnected = disconnected
        # By the authenticator's number, the oldest first.
        self._connections: dict[str, _Connection] = {}

    def __repr__(self) -> str:
        return f"<UnsealedMessages of {len(self._connections)} connections>"

    def pays(self, frame: zmq.Frame, units: int, now_s: float) -> bool:
        """Whether the connection of this message can pay for it, which then is done.

        :param units: below 0: it gets them back, as a present worker has sealed the message.
        """
        name = str(frame.get("User-Id"))
        connection = self._connections.get(name)
        if connection is None:
            connection = self._connections[name] = _Connection(now_s)
            if len(self._connections) > _MOST_CONNECTIONS:
                self._forget(next(iter(self._connections)))
        earned = (now_s - connection.at_s) * _EARNED_PER_S
        connection.left = min(connection.left + earned, _MOST_SAVED)
        connection.at_s = now_s
        if units <= connection.left:
            connection.left -= units
            return True
        if connection.sock is None:
            # ZeroMQ may have closed the connection, and its descriptor may be another one's.
            with suppress(OSError):
                connection.sock = socket.socket(fileno=os.dup(int(frame.get("__fd"))))
            connection.ignored = 0
        elif connection.ignored > self._queued:
            # It has sent a message after that, so the descriptor was its own.
            self._disconnect(connection.sock)
            connection.left = -inf  # of what ZeroMQ still has of it, nothing is looked at
        connection.ignored += 1
        return False

    def _disconnect(self, sock: socket.socket) -> None:
        with suppress(OSError):
            address = str(sock.getpeername()[0])
            sock.shutdown(socket.SHUT_RDWR)
            self._disconnected(address)
        sock.close()

    def _forget(self, name: str) -> None:
        sock = self._connections.pop(name).sock
        if sock:
            sock.close()

    def close(self) -> None:
        """Close what is held of connections that are not disconnected yet."""
        for name in list(self._connections):
            self._forget(name)
