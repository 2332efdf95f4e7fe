"""Requests between Swift servers of one process, without sockets.

A server of Swift opens a connection to another one for each request of a client. Where both are in
one process, formatting, sending and parsing headers would be a third of the time of a small
request. So here it calls the other's WSGI application.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode

import eventlet.wsgi
from eventlet.event import Event
from eventlet.queue import LightQueue
from swift.common import bufferedhttp

App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

#: So many pieces of a body may wait for a server; then their sender waits.
MAX_PIECES = 4


def connect_directly(apps: Mapping[int, App]) -> None:
    """From now on, Swift's connections to these ports are calls of their applications."""
    connect_by_socket = bufferedhttp.http_connect_raw

    def connect(
        ip: str, port: int | str, method: str, path: str,
        headers: Mapping[str, object] | None = None, query_string: str | None = None,
        ssl: bool = False,
    ) -> Any:  # fmt: skip
        if app := apps.get(int(port)):
            env = environment(method, path, query_string or "", headers or {}, ip, str(port))
            return DirectConnection(app, env)
        return connect_by_socket(ip, port, method, path, headers, query_string, ssl)

    bufferedhttp.http_connect_raw = connect


def environment(
    method: str, path: str, query: str, headers: Mapping[str, object], ip: str, port: str
) -> dict[str, Any]:
    """The WSGI environment that eventlet makes of such a request, without its input."""
    env: dict[str, Any] = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "RAW_PATH_INFO": path,
        "PATH_INFO": unquote(path, encoding="latin1"),
        # Swift does the same, for the sake of its quoting.
        "QUERY_STRING": urlencode(
            parse_qsl(query, keep_blank_values=True, encoding="latin1"), encoding="latin1"
        ),
        "SERVER_NAME": ip,
        "SERVER_PORT": port,
        "SERVER_PROTOCOL": "HTTP/1.0",
        "REMOTE_ADDR": ip,
        "CONTENT_TYPE": "",
        "HTTP_HOST": f"{ip}:{port}",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for name, value in headers.items():
        key = name.upper().replace("-", "_")
        if key not in ("CONTENT_TYPE", "CONTENT_LENGTH"):
            key = f"HTTP_{key}"
        env[key] = str(value).strip(" \t\r\n")
    return env


class DirectConnection:
    """One request, with those methods of Swift's BufferedHTTPConnection that Swift uses.

    A request with a body runs in a greenlet of its own, so that its sender can go on. Any other
    runs in the greenlet that waits for the response.
    """

    def __init__(self, app: App, env: dict[str, Any]) -> None:
        self._app = app
        self._env = env
        self._input = env["wsgi.input"] = Input(env)
        self._running = eventlet.spawn(run, app, env, self._input) if self._input.has_body else None

    def send(self, data: bytes) -> None:
        """Send a piece of the body, in the request's transfer encoding."""
        # A server that has responded needs no more of it.
        if data and self._running is not None and not self._running.dead:
            self._input.pieces.put(bytes(data))

    def getexpect(self) -> Response:
        """Wait for the response, or for "100 Continue" if the request expects that."""
        if self._running is None:
            return self.getresponse()
        response: Response = self._input.continued.wait()
        return response

    def getresponse(self) -> Response:
        if self._running is None:
            return call(self._app, self._env)
        response: Response = self._running.wait()
        return response

    def close(self) -> None:
        """End the body, whether it was complete or not."""
        self._input.pieces.resize(None)
        self._input.pieces.put(b"")

    __del__ = close


def run(app: App, env: dict[str, Any], body: Input) -> Response:
    """Call the application in a greenlet of its own."""
    response = call(app, env)
    if not body.continued.ready():
        body.continued.send(response)
    body.pieces.resize(None)  # a sender that waits may go on
    return response


def call(app: App, env: dict[str, Any]) -> Response:
    started: list[tuple[str, list[tuple[str, str]]]] = []
    body = app(env, lambda status, headers, *_: started.append((status, headers)))
    return Response(*started[0], body)


class Input(eventlet.wsgi.Input):  # type: ignore[misc]
    """The body of a request for its server: eventlet's, which decodes chunks, on no socket."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.pieces = LightQueue(MAX_PIECES)
        #: The response, or "100 Continue", where that is expected.
        self.continued = Event()
        expects = env.get("HTTP_EXPECT", "").lower() == "100-continue"
        super().__init__(
            io.BufferedReader(Pieces(iter(self.pieces.get, b""))),
            env.get("CONTENT_LENGTH") or "0",
            sock=None,
            wfile=self.continued if expects else None,
            chunked_input=env.get("HTTP_TRANSFER_ENCODING", "").lower() == "chunked",
        )

    @property
    def has_body(self) -> bool:
        return bool(self.chunked_input or self.content_length)

    def send_hundred_continue_response(self) -> None:
        """The server begins to read."""
        self.continued.send(Response("100 Continue", self.hundred_continue_headers or [], []))


class Response(io.BufferedReader):
    """A file of the body, with those methods of an HTTPResponse that Swift uses."""

    def __init__(self, status: str, headers: list[tuple[str, str]], body: Iterable[bytes]) -> None:
        super().__init__(Pieces(body))
        code, _, self.reason = status.partition(" ")
        self.status = int(code)
        self._headers = headers
        self._values = {name.lower(): value for name, value in headers}

    def getheaders(self) -> list[tuple[str, str]]:
        return self._headers

    def getheader(self, name: str, default: Any = None) -> Any:
        return self._values.get(name.lower(), default)

    def nuke_from_orbit(self) -> None:
        self.close()


class Pieces(io.RawIOBase):
    """A file that reads as these pieces; closing it closes them, if they can be closed."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces
        self._next = iter(pieces).__next__
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            while not self._rest:
                self._rest = memoryview(self._next())
        except StopIteration:
            return 0
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size

    def close(self) -> None:
        if not self.closed:
            super().close()
            close = getattr(self._pieces, "close", None)
            if close:
                close()
