"""A small Swift that takes its time: each worker's requests last as long as a test says.

So a worker's rate is a matter of the clock, and no noise of the machine decides a test.
"""

from __future__ import annotations

import heapq
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

ACCOUNT = "/v1/AUTH_test"
_STATUSES = {"PUT": 201, "DELETE": 204, "POST": 204}


def reads_of(size: int) -> dict[str, Any]:
    """Keys of a scenario whose READs expect objects of that size."""
    return {
        "crud_profile": [0, 1, 0, 0],
        "sizes": [{"name": "tiny", "size_min": size, "size_max": size}],
    }


class PacedSwift(ThreadingHTTPServer):
    """Has every object that is asked for, of ``size`` bytes; keeps none.

    :param delay_s: for each request for an object.
    :param slow: worker id -> its requests' delay instead.
    :param closes: each connection after its first answer.
    :param refuses: to give an object away, by 403.
    :param slots: at most so many requests for objects are worked on at once; others wait in turn.
    """

    daemon_threads = True
    request_queue_size = 256

    def __init__(
        self,
        size: int,
        delay_s: float,
        slow: Mapping[str, float] | None = None,
        *,
        closes: bool = False,
        refuses: bool = False,
        slots: int | None = None,
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}{ACCOUNT}"
        self.body = b"x" * size
        self.delay_s = delay_s
        self.slow = dict(slow or {})
        self.closes = closes
        self.refuses = refuses
        self.numbers = count()
        self._free = [time.monotonic()] * (slots or 0)
        self._lock = threading.Lock()

    @contextmanager
    def listening(self) -> Iterator[PacedSwift]:
        """Answer within the block."""
        thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield self
        finally:
            self.shutdown()
            thread.join()
            self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client may leave when it likes

    def work(self, extra: str) -> None:
        """Take the time of a request, and its wait for a slot."""
        delay_s = self.delay_of(extra)
        now = time.monotonic()
        if self._free:
            with self._lock:
                # From when the slot is free, not from when a thread of ours wakes up: so the slots
                # together do exactly so many requests a second, however noisy the machine is.
                until = max(heapq.heappop(self._free), now) + delay_s
                heapq.heappush(self._free, until)
            delay_s = until - now
        time.sleep(delay_s)

    def delay_of(self, extra: str) -> float:
        """By what a worker appends to its transaction ids: the run's id and its own."""
        return self.slow.get(extra.partition("-")[2], self.delay_s)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: PacedSwift

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        extra = self.headers.get("X-Trans-Id-Extra") or ""
        is_object = self.path.count("/") > ACCOUNT.count("/") + 1
        if is_object:
            self.server.work(extra)
        body = self.server.body if is_object else b"[]"
        if self.path == "/info":
            body = json.dumps({"swift": {}}).encode()
        status = _STATUSES.get(self.command, 200)
        if not is_object and self.command == "HEAD":
            status = 404
        if is_object and self.command == "GET" and self.server.refuses:
            status = 403
        self.send_response_only(status)
        self.send_header("X-Trans-Id", f"tx{next(self.server.numbers):021x}-0123456789{extra}")
        sends_body = self.command in ("GET", "HEAD")
        self.send_header("Content-Length", str(len(body) if sends_body else 0))
        if self.server.closes:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)
        self.wfile.flush()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer

    def log_message(self, *about: object) -> None:
        """Says nothing."""
