"""A threaded HTTP server on loopback for the fakes of authentication services."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from tests.ports import QUEUE_SIZE


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

    @classmethod
    def of(cls, status: int, value: object, **headers: str) -> Answer:
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        body = json.dumps(value).encode()
        return cls(status, {"Content-Type": "application/json", **named}, body)


class _Server(ThreadingHTTPServer):
    request_queue_size = QUEUE_SIZE


class LoopbackServer:
    """Calls ``answer`` for each request, and keeps the requests in ``seen``.

    A context manager: listens within, is gone afterwards. With ``tls`` it speaks https.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.seen: list[Request] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # a response in one segment: the second would wait 40 ms for an ACK

            def do_GET(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                request = Request(self.command, self.path, self.headers, self.rfile.read(length))
                fake.seen.append(request)
                answer = fake.answer(request)
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(answer.body)

            do_HEAD = do_POST = do_PUT = do_DELETE = do_GET
            do_PROPFIND = do_PROPPATCH = do_MKCOL = do_OPTIONS = do_GET

            def handle(self) -> None:
                with suppress(OSError):  # a client that goes away is no matter to a fake
                    super().handle()

            def log_message(self, *args: object) -> None:
                pass

        self._server = _Server(("127.0.0.1", 0), Handler)
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self._server.server_port}"

    def answer(self, request: Request) -> Answer:
        return Answer(404)

    def __enter__(self) -> Any:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
