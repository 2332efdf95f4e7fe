"""Passes TCP connections on to a port of this host: for listeners of another network namespace."""

from __future__ import annotations

import queue
import socket
import threading
import time
from contextlib import suppress
from typing import Any

#: When they came, and what; b"": the end.
Pieces = queue.SimpleQueue[tuple[float, bytes]]


class Relay:
    """A context manager: passes on within.

    :param listener: a listening socket, of whatever network namespace.
    :param port: on this host's loopback.
    :param cut_after: bytes of the server's after which a connection breaks; 0: it never does.
    :param delay_s: of each byte in each direction: half of the round trip of a long distance. What
        is on its way is not limited.
    """

    def __init__(
        self, listener: socket.socket, port: int, cut_after: int = 0, delay_s: float = 0.0
    ) -> None:
        self.port = listener.getsockname()[1]
        self._listener = listener
        self._to = ("127.0.0.1", port)
        self._cut_after = cut_after
        self._delay_s = delay_s
        self._opened: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> Relay:
        self._threads[0].start()
        return self

    def __exit__(self, *exc: object) -> None:
        _shut(self._listener)
        self._threads[0].join()
        for sock in self._opened:
            _shut(sock)
        for thread in self._threads[1:]:
            thread.join()
        for sock in self._opened:
            sock.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._opened.append(client)
                time.sleep(self._delay_s)  # of the handshake
                server = socket.create_connection(self._to)
                self._opened.append(server)
                for pair in ((client, server, 0), (server, client, self._cut_after)):
                    work: list[tuple[Any, Any]] = [(_pass_on, pair)]
                    if self._delay_s:
                        pieces: Pieces = queue.SimpleQueue()
                        work = [
                            (_take, (pair[0], pieces)),
                            (_give, (pieces, pair[1], self._delay_s)),
                        ]
                    for target, arguments in work:
                        thread = threading.Thread(target=target, args=arguments)
                        thread.start()
                        self._threads.append(thread)


def _pass_on(source: socket.socket, sink: socket.socket, cut_after: int) -> None:
    sink.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    passed = 0
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
            passed += len(data)
            if 0 < cut_after <= passed:
                _shut(source)
                break
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


def _take(source: socket.socket, pieces: Pieces) -> None:
    data = b"?"
    while data:
        try:
            data = source.recv(65536)
        except OSError:
            data = b""
        pieces.put((time.monotonic(), data))


def _give(pieces: Pieces, sink: socket.socket, delay_s: float) -> None:
    sink.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with suppress(OSError):
        while True:
            came_s, data = pieces.get()
            time.sleep(max(came_s + delay_s - time.monotonic(), 0.0))
            if not data:
                sink.shutdown(socket.SHUT_WR)
                return
            sink.sendall(data)


def _shut(sock: socket.socket) -> None:
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
