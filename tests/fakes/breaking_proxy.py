"""A proxy before any store that speaks HTTP, which breaks what a test says.

The store behind it is a real one, so a fault is the only thing that is not.
"""

from __future__ import annotations

import http.client
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from hashlib import md5
from http.server import BaseHTTPRequestHandler
from typing import NamedTuple

from tests.fakes.loopback_http import Answer, Behaviour, LoopbackServer, Request

_INITIAL = re.compile(r"[a-z]+_\d+")
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


class BreakingProxy(LoopbackServer):
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
        super().__init__()
        self.struck: Counter[str] = Counter()
        self._spared = spared
        self._store_port = port
        self._faults = list(faults.items())
        self._verb = verb
        self._turn = 0
        self._lock = threading.Lock()
        self._here = threading.local()  # of a connection: a thread serves it

    def _fault_for(self, method: str, path: str) -> Behaviour | Lie | None:
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

    def broken(self, request: BaseHTTPRequestHandler) -> Behaviour | None:
        fault = self._fault_for(request.command, request.path)
        self._here.lie = fault if isinstance(fault, Lie) else None
        return fault if not isinstance(fault, Lie) else None

    def answer(self, request: Request) -> Answer:
        response = self._ask(request)
        if self._here.lie is not None:
            response = self._here.lie.change(response)
        headers = {k: v for k, v in response.headers.items() if k.lower() not in _HOP}
        if request.method == "HEAD":
            headers["Content-Length"] = response.headers.get("Content-Length", "0")
        return Answer(response.status, headers, response.body, response.reason)

    def _ask(self, request: Request) -> Response:
        with closing(http.client.HTTPConnection("127.0.0.1", self._store_port)) as store:
            store.putrequest(request.method, request.path, True, True)
            for name, value in request.headers.items():
                if name.lower() != "expect":
                    store.putheader(name, value)
            store.endheaders(request.body)
            found = store.getresponse()
            headers = dict(found.headers.items())
            return Response(found.status, headers, found.read(), str(request.headers))
