"""A server that does to each connection what a test says, byte for byte."""

from __future__ import annotations

import re
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from tests.timing import PATIENCE_S

Script = Callable[["Peer"], None]


class Peer:
    """A connection as a script sees it."""

    def __init__(self, sock: socket.socket, gone: threading.Event) -> None:
        self.sock = sock
        self.gone = gone

    def hear(self) -> bytes:
        """A request's head, and of its body what came along; empty where the client left."""
        heard = b""
        while b"\r\n\r\n" not in heard:
            data = self.sock.recv(65536)
            if not data:
                break
            heard += data
        return heard

    def hear_whole(self) -> bytes:
        """The next request with its body; empty where the client left."""
        data = self.hear()
        length = int((re.search(rb"Content-Length: (\d+)", data) or [b"", b"0"])[1])
        while data and len(data) < data.index(b"\r\n\r\n") + 4 + length:
            more = self.sock.recv(1 << 20)
            data = data + more if more else b""
        return data

    def say(self, data: bytes) -> None:
        self.sock.sendall(data)

    def reset(self) -> None:
        """Close with RST, not FIN."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def linger(self, seconds: float = 10) -> None:
        """Do nothing until the test is over."""
        self.gone.wait(seconds)

    def is_over(self, wait_s: float = 0) -> bool:
        """Whether the test is, within so long."""
        return self.gone.wait(wait_s)


class ScriptedServer:
    """A context manager: listens within. The last script serves all further connections."""

    def __init__(self, *scripts: Script, host: str = "127.0.0.1") -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family)
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0
        self.heard: list[bytes] = []
        self._closed = 0
        self._scripts = scripts
        self.gone = threading.Event()
        self._threads = [threading.Thread(target=self._accept)]

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            script = self._scripts[min(self.connections, len(self._scripts) - 1)]
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(sock, script))
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket, script: Script) -> None:
        sock.settimeout(60)
        with sock, suppress(OSError):  # the client may leave first
            script(Peer(sock, self.gone))
        self._closed += 1

    def wait_closed(self, count: int = 1) -> None:
        """Wait until the server has closed so many connections; blocks the thread."""
        deadline = time.monotonic() + PATIENCE_S
        while self._closed < count and time.monotonic() < deadline:
            time.sleep(0.001)
        assert self._closed >= count

    def __enter__(self) -> ScriptedServer:
        self._threads[0].start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.gone.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(90)  # a script that hears nothing has 60 s for it
        # One that goes on would take a core from every test after this one.
        assert not any(thread.is_alive() for thread in self._threads), "a script doesn't end"


def answering(*answers: bytes) -> Script:
    """One answer after another, each to a request; then the connection ends."""

    def script(peer: Peer) -> None:
        for answer in answers:
            if not peer.hear():
                return
            peer.say(answer)

    return script


def ok(body: bytes = b"", *headers: bytes) -> bytes:
    """A whole answer of the usual form."""
    lines = [b"HTTP/1.1 200 OK", b"Content-Length: %d" % len(body), *headers, b"", body]
    return b"\r\n".join(lines)
