"""A relay before a server: passes connections on, from far away or not at all, or misbehaves."""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from tests.fakes.loopback_http import Behaviour
from tests.fakes.scripted_server import Peer
from tests.ports import held_port

#: When they came, and what; b"": the end.
Pieces = queue.SimpleQueue[tuple[float, bytes]]
Spoils = Callable[[bytes], Sequence[bytes]]


class Relay:
    """A context manager: listens within, and passes everything on to ``port`` of loopback.

    After ``strike``, each new connection meets a behaviour, in turn, instead of the server.

    :param listener: a listening socket, of whatever network namespace; None: one on loopback.
    :param delay_s: of each byte in each direction: half of the round trip of a long distance. What
        is on its way is not limited.
    :param spoils: gives what is passed on instead of a piece that the client sent; b"" breaks the
        connection.
    """

    def __init__(
        self,
        port: int,
        behaviours: Mapping[str, Behaviour | None] | None = None,
        *,
        listener: socket.socket | None = None,
        delay_s: float = 0.0,
        spoils: Spoils | None = None,
    ) -> None:
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
        self._delay_s, self._spoils = delay_s, spoils
        self._threads: list[threading.Thread] = []
        # Nobody else gets the port while the door is shut.
        self._listener = listener or socket.create_server(("127.0.0.1", held_port()))
        self.port: int = self._listener.getsockname()[1]

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
        with suppress(OSError):  # it is shut already
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._end_connections()
        self._passed_at_most = None
        self._passing.set()

    def reopen(self) -> None:
        """Listen again, on the same port."""
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._start(self._accept, self._listener)

    def __enter__(self) -> Relay:
        self._start(self._accept, self._listener)
        return self

    def __exit__(self, *exc: object) -> None:
        self._gone.set()
        self.shut()
        for thread in self._threads:
            thread.join()

    def _start(self, call: object, *args: object) -> threading.Thread:
        thread = threading.Thread(target=call, args=args)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()
        return thread

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                self._start(self._serve, listener.accept()[0])

    def _serve(self, sock: socket.socket) -> None:
        behaviour = self._behaviour()
        with sock, suppress(OSError):
            self._keep(sock)
            if behaviour is not None:
                behaviour(Peer(sock, self._gone))
                return
            time.sleep(self._delay_s)  # of the handshake
            with socket.create_connection(("127.0.0.1", self._target)) as inner:
                self._keep(inner)
                answers = self._start(self._pass_on, inner, sock, True)
                self._pass_on(sock, inner, False)
                answers.join()

    def _keep(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._open.add(sock)
        if self._gone.is_set():
            _shut(sock)

    def _pass_on(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
        pieces: Pieces = queue.SimpleQueue()
        giving = self._start(self._give, pieces, sink) if self._delay_s else None
        with suppress(OSError):
            while data := source.recv(65536):
                if is_answer:
                    self._await_turn()
                if giving:
                    pieces.put((time.monotonic(), data))
                    continue
                given = self._spoils(data) if self._spoils and not is_answer else [data]
                for piece in given:
                    sink.sendall(piece)
                if b"" in given:
                    _shut(source)
                    break
        if giving:
            pieces.put((time.monotonic(), b""))
            giving.join()
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def _give(self, pieces: Pieces, sink: socket.socket) -> None:
        with suppress(OSError):
            while True:
                came_s, data = pieces.get()
                time.sleep(max(came_s + self._delay_s - time.monotonic(), 0.0))
                if not data:
                    return
                sink.sendall(data)

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

    def _end_connections(self) -> None:
        with self._lock:
            for sock in self._open:
                _shut(sock)
            self._open.clear()


def refused() -> int:
    """Attempts to connect that failed on this host until now, those of anybody."""
    with open("/proc/net/snmp") as file:
        names, values = (line.split() for line in file if line.startswith("Tcp:"))
    return int(values[names.index("AttemptFails")])


def _shut(sock: socket.socket) -> None:
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
