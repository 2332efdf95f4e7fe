"""A relay before a server: it passes connections on, misbehaves, or is shut."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress

from tests.fakes.loopback_http import Behaviour
from tests.fakes.scripted_server import Peer
from tests.ports import held_port


class Gate:
    """A context manager: listens within, and passes everything on to ``port`` of loopback.

    After ``strike``, each new connection meets a behaviour, in turn, instead of the server.
    """

    def __init__(self, port: int, behaviours: Mapping[str, Behaviour | None] | None = None) -> None:
        self.struck: Counter[str] = Counter()
        self._target = port
        self._behaviours = list((behaviours or {}).items())
        self._turn: int | None = None
        self._lock = threading.Lock()
        self._gone = threading.Event()
        self._open: set[socket.socket] = set()
        self._passing = threading.Event()
        self._passing.set()
        self._passed_at_most: int | None = None
        self.held = 0  #: responses that are held back
        self.port = held_port()  # nobody else gets it while the door is shut
        self._listener = socket.create_server(("127.0.0.1", self.port))

    def strike(self) -> None:
        """Behaviours from now on, after the end of every connection that there is."""
        self._turn = 0
        self._end_connections()

    def hold(self, after: int = 0) -> None:
        """Hold back responses, once so many pieces of them have passed: whoever asks then waits,
        until the end of the connection."""
        self.held = 0
        self._passed_at_most = after
        self._passing.clear()

    def shut(self) -> None:
        """As a server that was killed: connections are reset, new ones refused."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._end_connections()
        self._passed_at_most = None
        self._passing.set()

    def reopen(self) -> None:
        """Listen again, on the same port."""
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._accepting()

    def __enter__(self) -> Gate:
        self._accepting()
        return self

    def __exit__(self, *exc: object) -> None:
        self._gone.set()
        with suppress(OSError):
            self.shut()

    def _accepting(self) -> None:
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        behaviour = self._behaviour()
        with sock, suppress(OSError):
            if behaviour is not None:
                behaviour(Peer(sock, self._gone))
                return
            with socket.create_connection(("127.0.0.1", self._target)) as inner:
                self._keep(sock, inner)
                back = threading.Thread(
                    target=_pump, args=(inner, sock, self._await_turn), daemon=True
                )
                back.start()
                _pump(sock, inner)
                back.join()

    def _await_turn(self) -> None:
        """Return when a piece of a response may pass."""
        with self._lock:
            if self._passed_at_most is None:
                return
            self._passed_at_most -= 1
            if self._passed_at_most >= 0:
                return
            self.held += 1
        self._passing.wait()

    def _behaviour(self) -> Behaviour | None:
        with self._lock:
            if self._turn is None or not self._behaviours:
                return None
            name, behaviour = self._behaviours[self._turn % len(self._behaviours)]
            self._turn += 1
            if behaviour is not None:
                self.struck[name] += 1
            return behaviour

    def _keep(self, *socks: socket.socket) -> None:
        with self._lock:
            self._open.update(socks)

    def _end_connections(self) -> None:
        with self._lock:
            for sock in self._open:
                with suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
            self._open.clear()


def _pump(
    source: socket.socket, target: socket.socket, before: Callable[[], None] = lambda: None
) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            before()
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
