"""``--web``: a run as a page that updates itself, with a button that stops it.

A server in threads of its own: the master's loop only stores what it shows. Requests must carry
the token, if there is one, and name this host in their Host header: a page of another site, whose
name was made to lead here, reads nothing. One that posts here blindly has another Origin.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
import socket
import socketserver
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import fields
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from ipaddress import ip_address
from threading import BoundedSemaphore, Condition, Thread
from typing import Any
from urllib.parse import parse_qs

from ssbench.cli.progress import TITLES, error_causes
from ssbench.core.errors import SsbenchError
from ssbench.core.live import RunProgress, by_attention
from ssbench.core.model import Phase
from ssbench.core.observer import SilentObserver
from ssbench.core.operations import OPERATIONS
from ssbench.core.text import printable
from ssbench.runner.stop import Stop

_REFRESH_S = 0.5
_PORT = re.compile(r":\d+$")  #: of a Host header
_MESSAGES_KEPT = 100
_MAX_CONNECTIONS, _MAX_READERS = 64, 16  #: each has a thread; readers are open event streams
_SOCKET_TIMEOUT_S = 10.0  #: of a client that reads, or sends, nothing
_PING_S = 5.0  #: an idle stream says something, so that a closed one is noticed
_MAX_WORKERS_SENT = 200
STOPPED = "stopped on the web page"  #: a reason of Stop
#: Of RunProgress: what the page does not show, or in another form.
_NOT_SENT = ("moving", "errors_by_cause", "errors_by_status")


class LivePage(SilentObserver):
    """An observer that serves what it is told.

    :param address: IP address and port; 0 for any that is free.
    :param stop: called with a reason when the button is pressed, if nothing stops the run already.
    :raises SsbenchError: the address can't be listened on.
    """

    wants_counts = True

    def __init__(self, address: tuple[str, int], stop: Stop) -> None:
        ip, port = ip_address(address[0]), address[1]
        is_local = ip.is_loopback
        self._token = "" if is_local else secrets.token_urlsafe(16)
        self._stop = stop
        self._title = self._wait = ""
        self._latest: RunProgress | None = None
        self._messages: deque[str] = deque(maxlen=_MESSAGES_KEPT)
        self._report = ""
        self._ended = self._closed = False
        self._serial = 0
        self._due_s = 0.0
        self._changed = Condition()
        self.readers = BoundedSemaphore(_MAX_READERS)
        name = f"[{ip}]" if ip.version == 6 else str(ip)
        try:
            self._server = _Server((str(ip), port), self)
        except OSError as error:
            raise SsbenchError(f"--web {name}:{port}: can't listen: {error.strerror}") from error
        #: None: any IP address, and this host's name in any domain; these need the token.
        self._names = {name, "localhost"} if is_local else None
        shown = socket.gethostname() if ip.is_unspecified else name
        self.url = f"http://{shown}:{self._server.server_address[1]}/"
        if self._token:
            self.url += f"?token={self._token}"
        Thread(target=self._server.serve_forever, name="ssbench-web", daemon=True).start()

    def __repr__(self) -> str:
        return f"<LivePage {self._server.server_address}>"  # not the token

    # An observer: called by the master's loop ----------------------------------------------------

    def start_phase(self, phase: Phase, total: int | None = None, title: str = "") -> None:
        self._title, self._latest = title or TITLES[phase], None

    def update(self, progress: RunProgress) -> None:
        self._latest = progress
        self._publish()

    def wait_for(self, text: str) -> None:
        if text != self._wait:
            self._wait = text
            self._publish()

    def info(self, text: str) -> None:
        self.message(text)

    def message(self, text: str) -> None:
        self._messages.extend(printable(line) for line in text.splitlines())

    def _publish(self, *, at_once: bool = False) -> None:
        now_s = time.monotonic()
        if at_once or now_s >= self._due_s:
            self._due_s = now_s + _REFRESH_S
            with self._changed:
                self._serial += 1
                self._changed.notify_all()

    def finish(self, report: str) -> None:
        """The run is over: serve its report, a page, from now on; "" if there is none."""
        self._report, self._ended = report, True
        self._publish(at_once=True)

    def close(self) -> None:
        """Stop serving, and end the event streams."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._server.shutdown()
        self._server.server_close()

    # The server: called by threads of requests ---------------------------------------------------

    def allows(self, host: str, token: str) -> bool:
        """Whether a request with this Host header and token may be answered."""
        name = _PORT.sub("", host.lower())  # any: a port may be forwarded
        if self._names is not None:
            known = name in self._names
        else:
            known = _is_ip(name) or name.partition(".")[0] == _short_name()
        return known and hmac.compare_digest(token.encode(), self._token.encode())

    def request_stop(self) -> None:
        """End the run gracefully. A second request would end it at once: there is none."""
        with self._changed:
            if not self._stop.requested:
                self._stop(STOPPED)
        self._publish(at_once=True)

    @property
    def report(self) -> str:
        return self._report

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
        state: dict[str, Any] = {
            "title": printable(self._title),
            "waiting": printable(self._wait),
            "messages": list(self._messages),
            "stopping": self._stop.requested,
            "ended": self._ended,
            "report": bool(self._report),
        }
        latest = self._latest
        if latest is not None:
            found = {
                each.name: getattr(latest, each.name)
                for each in fields(latest)
                if each.name not in _NOT_SENT
            }
            found["operations"] = [
                {"name": OPERATIONS[n].name if n in OPERATIONS else str(n), **row._asdict()}
                for n, row in sorted(latest.operations.items())
            ]
            workers = by_attention(latest.workers_seen)
            found["workers_seen"] = [
                {**worker._asdict(), "name": printable(worker.name)}
                for worker in workers[:_MAX_WORKERS_SENT]
            ]
            state["progress"] = {**found, "causes": error_causes(latest)}
        return state


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], page: LivePage) -> None:
        self.page = page
        self._connections = BoundedSemaphore(_MAX_CONNECTIONS)
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, _Handler)

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


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version, sys_version = "ssbench", ""
    timeout = _SOCKET_TIMEOUT_S

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not logged: they have the token."""

    def do_GET(self) -> None:
        path = self._allowed_path()
        if path == "/":
            nonce = secrets.token_urlsafe(12)
            page = resources.files("ssbench.cli").joinpath("live_page.html").read_text("utf-8")
            self._send(page.replace("@NONCE@", nonce), f"'nonce-{nonce}'")
        elif path == "/report" and self.server.page.report:
            self._send(self.server.page.report, "'unsafe-inline'")
        elif path == "/events":
            self._stream()
        elif path is not None:
            self.send_error(404)

    def do_POST(self) -> None:
        path = self._allowed_path()
        if path is None:
            return
        if path != "/stop":
            self.send_error(404)
        elif self.headers.get("Origin") != f"http://{self.headers.get('Host')}":
            self.send_error(403, "Not from this page")
        else:
            self.server.page.request_stop()
            self.send_response(204)
            self.end_headers()

    def _allowed_path(self) -> str | None:
        """The path; None: the request was rejected."""
        path, _, query = self.path.partition("?")
        token = parse_qs(query).get("token", [""])[-1]
        if self.server.page.allows(self.headers.get("Host", ""), token):
            return path
        self.send_error(403, "Wrong host or token")
        return None

    def _send(self, page: str, scripts: str) -> None:
        data = page.encode()
        self.send_response(200)
        self._common_headers("text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.send_header(
            "Content-Security-Policy",
            f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline';"
            " img-src data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'",
        )
        self.end_headers()
        self.wfile.write(data)

    def _common_headers(self, kind: str) -> None:
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")  # the address has the token
        self.send_header("X-Content-Type-Options", "nosniff")

    def _stream(self) -> None:
        page = self.server.page
        if not page.readers.acquire(blocking=False):
            self.send_error(503, "Too many pages are open")
            return
        try:
            self.send_response(200)
            self._common_headers("text/event-stream")
            self.end_headers()
            for state in page.states():
                self.wfile.write(f"data: {state}\n\n".encode() if state else b": ping\n\n")
        finally:
            page.readers.release()


def _is_ip(name: str) -> bool:
    try:
        ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _short_name() -> str:
    return socket.gethostname().lower().partition(".")[0]
