"""A small Swift that behaves, but for the requests that a test wants broken.

Behaviours take turns: the first request that is to be broken meets the first one, and so on, round
and round; ``None`` among them is a request with a good response. They are counted, so that a test
knows how many failures a report must show.
"""

from __future__ import annotations

import re
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

from ssbench.core.naming import VERSION_HEADER
from tests.fakes.http_server import ACCOUNT, FakeSwift
from tests.fakes.loopback_http import Behaviour

Strikes = Callable[[BaseHTTPRequestHandler], bool]

_OBJECT = re.compile(rf"{ACCOUNT}/[^/?]+/([^/?]+)")
_INITIAL = re.compile(r"[a-z]+_\d+")


def of_the_run(*verbs: str) -> Strikes:
    """Requests for objects, but for the uploads of the initial ones."""

    def strikes(request: BaseHTTPRequestHandler) -> bool:
        found = _OBJECT.fullmatch(request.path)
        if found is None or request.command not in verbs:
            return False
        initial = _INITIAL.fullmatch(found[1]) and VERSION_HEADER not in request.headers
        return request.command != "PUT" or not initial

    return strikes


READS = of_the_run("GET")


def of_objects(*verbs: str) -> Strikes:
    """Requests for objects, the initial ones included."""
    return lambda request: request.command in verbs and _OBJECT.fullmatch(request.path) is not None


def of_containers(*verbs: str) -> Strikes:
    """Requests for containers, and for listings of the account."""
    return lambda request: (
        request.command in verbs
        and request.path.startswith(ACCOUNT)
        and _OBJECT.match(request.path) is None
    )


def of_path(path: str) -> Strikes:
    return lambda request: urlsplit(request.path).path == path


class HostileSwift(FakeSwift):
    """A context manager: listens within.

    :param behaviours: by name, in the order of their turns; ``None`` is to behave.
    :param strikes: which requests are to be broken.
    """

    def __init__(
        self,
        behaviours: Mapping[str, Behaviour | None],
        strikes: Strikes = READS,
        context: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(context=context)
        self.armed = True
        self.struck: Counter[str] = Counter()
        self._behaviours = list(behaviours.items())
        self._strikes = strikes
        self._turn = 0
        self._lock = threading.Lock()
        # So that an upload of some megabytes doesn't fit into buffers.
        self._server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)

    @property
    def strikes_in_all(self) -> int:
        return sum(self.struck.values())

    def broken(self, request: BaseHTTPRequestHandler) -> Behaviour | None:
        if not (self.armed and self._behaviours and self._strikes(request)):
            return None
        with self._lock:
            name, behaviour = self._behaviours[self._turn % len(self._behaviours)]
            self._turn += 1
            if behaviour is not None:
                self.struck[name] += 1
            return behaviour
