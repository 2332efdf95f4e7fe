"""``--web``: a run as a page that updates itself, and the small web server of it and of ``browse``.

The master's loop only stores what it shows; the server's threads read it.

Requests must carry the token, which the printed URL has and then a cookie: another user of this
host can connect, too. And they must name this host in their Host header: a page of another site,
whose name was made to lead here, reads nothing. One that posts here blindly has another Origin.
"""

from __future__ import annotations

import errno
import hmac
import json
import re
import secrets
import socket
import socketserver
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from io import BufferedIOBase
from ipaddress import ip_address
from socketserver import BaseRequestHandler
from threading import BoundedSemaphore, Condition, Thread
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qs

from msgspec.structs import replace

from ssbench.core.errors import SsbenchError
from ssbench.core.live import by_attention
from ssbench.core.model import Phase
from ssbench.core.text import printable
from ssbench.live.watch import (
    LiveState,
    Sink,
    figures,
    identity_rows,
    operation_rows,
    state_map,
)
from ssbench.runner.stop import Stop

_PORT = re.compile(r":\d+$")  #: of a Host header
_MAX_CONNECTIONS, _MAX_STREAMS = 64, 16  #: each has a thread; streams are those of events
SOCKET_TIMEOUT_S = 10.0  #: of a client that sends nothing, or does not take a piece
_PIECE = 16384  #: bytes
_MAX_HEAD = 65537  #: bytes of a request's lines; http.server reads each up to there

Query = Mapping[str, Sequence[str]]


class Page(NamedTuple):
    """HTML to answer a request with."""

    text: str
    scripts: str = "'none'"  #: which may run: a source of script-src in a Content-Security-Policy
    status: int = 200


class WebSite(Protocol):
    """What a server serves; called by its threads."""

    def get(self, path: str, query: Query) -> Page | Iterator[str] | None:
        """A page; or data of server-sent events, "" for a sign of life; None: there is neither."""

    def post(self, path: str, query: Query) -> bool:
        """Do what a button is for; False: there is no such button, or it does nothing now."""


class WebServer:
    """Serves a site until it is closed.

    :param address: IP address and port; 0 for any that is free.
    :raises SsbenchError: the address can't be listened on.
    """

    def __init__(self, address: tuple[str, int], site: WebSite) -> None:
        ip, port = ip_address(address[0]), address[1]
        is_local = ip.is_loopback
        name = f"[{ip}]" if ip.version == 6 else str(ip)
        try:
            self._server = _Server((str(ip), port), self)
        except OSError as error:
            hint = "name another port, or none for a free one"
            if error.errno == errno.EADDRNOTAVAIL:
                hint = "name an address of this host"
            raise SsbenchError(
                f"--web {name}:{port}: can't listen there: {error.strerror}; {hint}"
            ) from error
        self.site = site
        self.streams = BoundedSemaphore(_MAX_STREAMS)
        self.token = secrets.token_urlsafe(16)
        #: None: any IP address, and this host's name in any domain.
        self._names = {name, "localhost"} if is_local else None
        shown = socket.gethostname() if ip.is_unspecified else name
        port = self._server.server_address[1]
        self.cookie = f"ssbench-{port}"  # browsers send cookies of a host to all of its ports
        self.url = f"http://{shown}:{port}/?token={self.token}"
        Thread(target=self._server.serve_forever, name="ssbench-web", daemon=True).start()

    def __repr__(self) -> str:
        return f"<WebServer {self._server.server_address}>"  # not the token

    def close(self) -> None:
        """Stop serving. The site ends its streams of events."""
        self._server.shutdown()
        self._server.server_close()

    def allows(self, host: str, token: str) -> bool:
        """Whether a request with this Host header and token may be answered."""
        name = _PORT.sub("", host.lower())  # any: a port may be forwarded
        if self._names is not None:
            known = name in self._names
        else:
            known = _is_ip(name) or name.partition(".")[0] == _short_name()
        return known and hmac.compare_digest(token.encode(), self.token.encode())


class BoundedServer(ThreadingHTTPServer):
    """A thread for each connection; what is beyond ``_MAX_CONNECTIONS`` is closed at once."""

    request_queue_size = _MAX_CONNECTIONS  #: with 5, a browser's connections may wait for seconds

    def __init__(self, address: tuple[str, int], handler: type[BaseRequestHandler]) -> None:
        self._connections = BoundedSemaphore(_MAX_CONNECTIONS)
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)  # HTTPServer's looks up the host's name

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._connections.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.release()

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exc_info()[1], OSError):  # that is a client which went away
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class QuietHandler(BaseHTTPRequestHandler):
    """Requests are not logged: those for a page have its token."""

    server_version, sys_version = "ssbench", ""
    timeout = SOCKET_TIMEOUT_S

    def setup(self) -> None:
        super().setup()
        self.rfile = _Head(self.rfile)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing, also for a client that is given up."""

    def send_body(self, data: bytes) -> None:
        """In pieces: a socket's time limit is for all that one call sends, whatever its size."""
        for at in range(0, len(data), _PIECE):
            self.wfile.write(data[at : at + _PIECE])


class _Head(BufferedIOBase):
    """The lines of a request, one for each connection. http.server limits each line and their
    number, and so would keep 6.5 MB of a client that nobody knows."""

    def __init__(self, file: BufferedIOBase) -> None:
        self._file, self._left = file, _MAX_HEAD

    def readline(self, size: int | None = -1, /) -> bytes:
        """:raises HTTPException: the lines are too long together; http.server answers with 431."""
        if not self._left:
            raise HTTPException("too long")
        line = self._file.readline(self._left)
        self._left -= len(line)
        return line

    def close(self) -> None:
        self._file.close()
        super().close()


class _Server(BoundedServer):
    def __init__(self, address: tuple[str, int], web: WebServer) -> None:
        self.web = web
        super().__init__(address, _Handler)


class _Handler(QuietHandler):
    server: _Server

    def do_GET(self) -> None:
        path, query = self._target()
        if not self._is_allowed(query):
            return
        found = self.server.web.site.get(path, query)
        if found is None:
            self.send_error(404)
        elif isinstance(found, Page):
            self._send(found)
        else:
            self._stream(found)

    def do_POST(self) -> None:
        path, query = self._target()
        if not self._is_allowed(query):
            return
        if self.headers.get("Origin") != f"http://{self.headers.get('Host')}":
            self.send_error(403, "Not from this page")
        elif self.server.web.site.post(path, query):
            self.send_response(204)
            self.end_headers()
        else:
            self.send_error(404)

    def _target(self) -> tuple[str, Query]:
        path, _, query = self.path.partition("?")
        return path, parse_qs(query)

    def _is_allowed(self, query: Query) -> bool:
        web = self.server.web
        self._given = query.get("token", [""])[-1]
        cookies = dict(
            pair.strip().partition("=")[::2] for pair in self.headers.get("Cookie", "").split(";")
        )
        token = self._given or cookies.get(web.cookie, "")
        allowed = web.allows(self.headers.get("Host", ""), token)
        if not allowed:
            self.send_error(403, "Wrong host or token")
        return allowed

    def _send(self, page: Page) -> None:
        data = page.text.encode()
        self.send_response(page.status)
        self._common_headers("text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.send_header(
            "Content-Security-Policy",
            f"default-src 'none'; script-src {page.scripts}; style-src 'unsafe-inline'; img-src"
            " data: blob:; connect-src 'self'; form-action 'self'; frame-ancestors 'none';"
            " base-uri 'none'",
        )
        self.end_headers()
        self.send_body(data)

    def _common_headers(self, kind: str) -> None:
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")  # the address has the token
        self.send_header("X-Content-Type-Options", "nosniff")
        if self._given:
            cookie = f"{self.server.web.cookie}={self._given}"
            self.send_header("Set-Cookie", f"{cookie}; Path=/; HttpOnly; SameSite=Strict")

    def _stream(self, events: Iterator[str]) -> None:
        streams = self.server.web.streams
        if not streams.acquire(blocking=False):
            self.send_error(503, "Too many pages are open")
            return
        try:
            self.send_response(200)
            self._common_headers("text/event-stream")
            self.end_headers()
            for data in events:
                self.wfile.write(f"data: {data}\n\n".encode() if data else b": ping\n\n")
        finally:
            streams.release()


def _is_ip(name: str) -> bool:
    try:
        ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _short_name() -> str:
    return socket.gethostname().lower().partition(".")[0]


_MESSAGES_KEPT = 100
_PING_S = 5.0  #: an idle stream says something, so that a closed one is noticed
_MAX_WORKERS_SENT = 200
STOPPED = "stopped on the web page"  #: a reason of Stop


class LivePage(Sink):
    """Serves what it is told.

    :param address: IP address and port; 0 for any that is free.
    :param stop: called with a reason when the button is pressed, if nothing stops the run already.
    :raises SsbenchError: the address can't be listened on.
    """

    at_once = True

    def __init__(self, address: tuple[str, int], stop: Stop) -> None:
        self._stop = stop
        self._live = LiveState()
        self._of_run: LiveState | None = None  # the newest of a run phase
        self._summary: list[tuple[str, str]] = []
        self._messages: deque[str] = deque(maxlen=_MESSAGES_KEPT)
        self.report = ""  #: the page of ``finish``
        self._ended = self._closed = False
        self._serial = 0
        self._changed = Condition()
        self._server = WebServer(address, self)
        self.url = self._server.url

    def __repr__(self) -> str:
        return f"<LivePage {self._server!r}>"

    def show(self, state: LiveState) -> None:
        if state.title:
            self._live = state
        else:  # between two phases the figures of the last one stay
            self._live = replace(self._live, waiting=state.waiting)
        if state.phase is Phase.RUN and state.progress is not None:
            self._of_run = state
        self._publish()

    def message(self, text: str, *, info: bool = False) -> None:
        self._messages.extend(printable(line) for line in text.splitlines())

    def _publish(self) -> None:
        with self._changed:
            self._serial += 1
            self._changed.notify_all()

    def finish(self, report: str, summary: Iterable[tuple[str, str]] = ()) -> None:
        """The run is over: serve its report, a page, from now on; "" if there is none.

        The page ends with the figures of the run, not with those of its clean-up.

        :param summary: topic and text of the report's last lines.
        """
        self.report, self._ended = report, True
        self._summary = [(printable(topic), printable(text)) for topic, text in summary]
        self._live = self._of_run or self._live
        self._publish()

    def stop_serving(self) -> None:
        """And end the event streams. Not ``close``: the report is shown after the run."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._server.close()

    def get(self, path: str, query: Query) -> Page | Iterator[str] | None:
        if path == "/":
            nonce = secrets.token_urlsafe(12)
            page = resources.files("ssbench.live").joinpath("page.html").read_text("utf-8")
            return Page(page.replace("@NONCE@", nonce), f"'nonce-{nonce}'")
        if path == "/report" and self.report:
            return Page(self.report, "'unsafe-inline'")
        return self.states() if path == "/events" else None

    def post(self, path: str, query: Query) -> bool:
        """Mark this moment; or end the run gracefully. A second request to end would end it at
        once: there is none."""
        if path == "/mark":
            return not self._stop.mark(query.get("text", [""])[-1], "page")
        if path != "/stop":
            return False
        with self._changed:
            if not self._stop.requested:
                self._stop(STOPPED)
        self._publish()
        return True

    def states(self) -> Iterator[str]:
        """The state now, and whenever it has changed, as JSON; "" if nothing came for a while."""
        serial = -1
        while not self._closed:
            with self._changed:
                if self._serial == serial and not self._closed:
                    self._changed.wait(_PING_S)
                is_new, serial = self._serial > serial, self._serial
            yield json.dumps(self._state()) if is_new else ""

    def _state(self) -> dict[str, Any]:
        live, progress = self._live, self._live.progress
        state: dict[str, Any] = {
            "title": printable(live.title),
            "waiting": printable(live.waiting),
            "messages": list(self._messages),
            "stopping": self._stop.requested,
            "ended": self._ended,
            "report": bool(self.report),
            "summary": self._summary,
        }
        if progress is not None:
            workers = by_attention(progress.workers_seen)[:_MAX_WORKERS_SENT]
            state["progress"] = {
                **state_map(live),
                "figures": [*figures(progress)],
                "rows": operation_rows(progress),
                "identity_rows": [[*map(printable, row)] for row in identity_rows(live)],
                "workers_seen": [
                    {**worker._asdict(), "name": printable(worker.name)} for worker in workers
                ],
            }
        return state
