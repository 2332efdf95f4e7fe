"""A proxy before any store that speaks HTTP, which breaks what a test says.

The store behind it is a real one, so a fault is the only thing that is not.
"""

from __future__ import annotations

import http.client
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from tests.fakes.hostile_swift import Behaviour
from tests.fakes.scripted_server import Peer
from tests.ports import QUEUE_SIZE

_INITIAL = re.compile(r"[a-z]+_\d+")
_LONGEST_S = 60.0
#: Of one connection only, or set anew.
_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}


class Response(NamedTuple):
    """What the store responds."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    asked: str = ""  #: all header lines of the request
    reason: str | None = None  #: None: the usual one of the status


class Lie(NamedTuple):
    """A fault that changes the store's response, which stays well formed."""

    change: Callable[[Response], Response]


def with_etag(response: Response, etag: str) -> Response:
    """The response with another ETag."""
    others = {name: text for name, text in response.headers.items() if name.lower() != "etag"}
    return response._replace(headers={**others, "ETag": f'"{etag}"'})


def with_body(response: Response, body: bytes) -> Response:
    """The response with another body, and the ETag that fits it."""
    return with_etag(response, md5(body).hexdigest())._replace(body=body)


class BreakingProxy:
    """A context manager: listens within.

    :param port: of the store, on loopback.
    :param faults: by name; the requests that are to be broken meet them in turn, round and round.
        None: the store responds.
    :param verb: breaks requests of this method for objects; of PUT, those that the run creates.
    :param spared: so many of them pass first: the store's driver populates by them.
    """

    def __init__(
        self,
        port: int,
        faults: Mapping[str, Behaviour | Lie | None],
        verb: str = "GET",
        spared: int = 0,
    ) -> None:
        self.struck: Counter[str] = Counter()
        self._spared = spared
        self._store_port = port
        self._faults = list(faults.items())
        self._verb = verb
        self._turn = 0
        self._lock = threading.Lock()
        self.gone = threading.Event()
        handler = type("Handler", (_Handler,), {"proxy": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self._server.handle_error = lambda *peer: None  # type: ignore[method-assign] # it left
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self.port = self._server.server_port

    def fault_for(self, method: str, path: str) -> Behaviour | Lie | None:
        """What this request meets."""
        path, _, query = path.partition("?")
        name = path.rpartition("/")[2]
        if method != self._verb or query or not name.startswith("tiny_"):
            return None
        if method == "PUT" and _INITIAL.fullmatch(name):
            return None
        with self._lock:
            if self._spared:
                self._spared -= 1
                return None
            fault_name, fault = self._faults[self._turn % len(self._faults)]
            self._turn += 1
            if fault is not None:
                self.struck[fault_name] += 1
            return fault

    def __enter__(self) -> BreakingProxy:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.gone.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    request_queue_size = QUEUE_SIZE


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    proxy: BreakingProxy

    def setup(self) -> None:
        super().setup()
        self._store = http.client.HTTPConnection("127.0.0.1", self.proxy._store_port)

    def finish(self) -> None:
        self._store.close()
        with suppress(OSError):
            super().finish()

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except OSError:  # the client leaves when it has had enough
            self.close_connection = True

    def log_message(self, *args: object) -> None:
        pass

    def _pass_on(self) -> None:
        fault = self.proxy.fault_for(self.command, self.path)
        if fault is not None and not isinstance(fault, Lie):
            self.connection.settimeout(_LONGEST_S)
            self.close_connection = fault(Peer(self.connection, self.proxy.gone)) is not True
            return
        response = self._ask()
        if isinstance(fault, Lie):
            response = fault.change(response)
        self.send_response_only(response.status, response.reason)
        for name, value in response.headers.items():
            if name.lower() not in _HOP:
                self.send_header(name, value)
        length = len(response.body)
        if self.command == "HEAD":
            length = int(response.headers.get("Content-Length", 0))
        if response.status not in (204, 304):
            self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(response.body)

    def _ask(self) -> Response:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._store.putrequest(self.command, self.path, True, True)
        for name, value in self.headers.items():
            if name.lower() != "expect":
                self._store.putheader(name, value)
        self._store.endheaders(body)
        with self._store.getresponse() as found:
            return Response(
                found.status, dict(found.headers.items()), found.read(), str(self.headers)
            )

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass_on
    do_PROPFIND = do_PROPPATCH = do_MKCOL = do_OPTIONS = do_COPY = do_MOVE = _pass_on
