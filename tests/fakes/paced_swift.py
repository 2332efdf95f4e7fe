"""A small Swift that takes its time: each worker's requests last as long as a test says.

So a worker's rate is a matter of the clock, and no noise of the machine decides a test.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Mapping
from itertools import count
from typing import Any

from tests.fakes.loopback_http import Answer, LoopbackServer, Request

ACCOUNT = "/v1/AUTH_test"
_STATUSES = {"PUT": 201, "DELETE": 204, "POST": 204}


def reads_of(size: int) -> dict[str, Any]:
    """Keys of a scenario whose READs expect objects of that size."""
    return {
        "crud_profile": [0, 1, 0, 0],
        "sizes": [{"name": "tiny", "size_min": size, "size_max": size}],
    }


class PacedSwift(LoopbackServer):
    """Has every object that is asked for, of ``size`` bytes; keeps none.

    :param delay_s: for each request for an object.
    :param slow: worker id -> its requests' delay instead.
    :param closes: each connection after its first answer.
    :param refuses: to give an object away, by 403.
    :param slots: at most so many requests for objects are worked on at once; others wait in turn.
    """

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
        super().__init__()
        self.url += ACCOUNT
        self.body = b"x" * size
        self.delay_s = delay_s
        self.slow = dict(slow or {})
        self.closes = closes
        self.refuses = refuses
        self._numbers = count()
        self._free = [time.monotonic()] * (slots or 0)
        self._lock = threading.Lock()

    def answer(self, request: Request) -> Answer:
        extra = request.headers.get("X-Trans-Id-Extra") or ""
        is_object = request.path.count("/") > ACCOUNT.count("/") + 1
        if is_object:
            self.work(extra)
        status = _STATUSES.get(request.method, 200)
        if not is_object and request.method == "HEAD":
            status = 404
        if is_object and request.method == "GET" and self.refuses:
            status = 403
        headers = {"X-Trans-Id": f"tx{next(self._numbers):021x}-0123456789{extra}"}
        if self.closes:
            headers["Connection"] = "close"
        body = b""
        if request.method in ("GET", "HEAD"):
            body = self.body if is_object else b"{}" if request.path == "/info" else b"[]"
        return Answer(status, headers, body)

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
