"""A threaded HTTP server on loopback, which all fakes of services and stores are made of."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from tests.fakes.scripted_server import Peer
from tests.ports import QUEUE_SIZE

#: What is done to a request whose head has been read. True: the connection goes on.
Behaviour = Callable[[Peer], object]
_LONGEST_S = 60


class Request(NamedTuple):
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str] = {}
    body: bytes = b""
    reason: str | None = None  #: None: the usual one of the status

    @classmethod
    def of(cls, status: int, value: object, **headers: str) -> Answer:
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        body = json.dumps(value).encode()
        return cls(status, {"Content-Type": "application/json", **named}, body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = QUEUE_SIZE

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client may leave when it likes


class LoopbackServer:
    """Calls ``answer`` for each request, and keeps the requests in ``seen``.

    A context manager: listens within, is gone afterwards. With ``tls`` it speaks https.

    :param answers: what ``answer`` gives, one after another; the last one for ever.
    """

    def __init__(self, *answers: Answer, tls: ssl.SSLContext | None = None) -> None:
        self.seen: list[Request] = []
        self.gone = threading.Event()
        self._answers = list(answers)
        self._server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"fake": self}))
        if tls:
            self._server.socket = tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.005,))
        self.port = self._server.server_port
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}"

    def broken(self, request: BaseHTTPRequestHandler) -> Behaviour | None:
        """What a request meets whose head has been read; None: the answer."""
        return None

    def answer(self, request: Request) -> Answer:
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    def __enter__(self) -> Any:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.gone.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # a response in one segment: the second would wait 40 ms for an ACK
    fake: LoopbackServer

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except OSError:  # the client leaves when it has had enough
            self.close_connection = True

    def serve(self) -> None:
        behaviour = self.fake.broken(self)
        if behaviour is not None:
            self.connection.settimeout(_LONGEST_S)
            self.close_connection = behaviour(Peer(self.connection, self.fake.gone)) is not True
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = Request(self.command, self.path, self.headers, body)
        self.fake.seen.append(request)
        answer = self.fake.answer(request)
        own = {"Date": self.date_time_string(), "Content-Length": str(len(answer.body))}
        headers = {**own, **answer.headers}
        self.send_response_only(answer.status, answer.reason)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)
        self.wfile.flush()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = serve
    do_PROPFIND = do_PROPPATCH = do_MKCOL = do_OPTIONS = do_COPY = do_MOVE = serve

    def log_message(self, *args: object) -> None:
        pass
