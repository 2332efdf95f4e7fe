"""A small Swift whose answers are well formed, and not true.

Lies take turns: the first READ meets the first lie that can be told of its object, and so on;
every second READ (and upload) is answered well. Each lie that was told is counted.
"""

from __future__ import annotations

import ssl
import threading
from collections import Counter, defaultdict
from collections.abc import Sequence

from tests.fakes.http_server import FakeSwift, Query, etag_of
from tests.fakes.loopback_http import Answer, Request

#: About READs. ``PUT_ETAG`` is told of uploads, but for the first of an object.
OTHER, SHORT, LONG, FIRST_BIT, LAST_BIT, ORDER, ETAG, OLD = LIES = (
    "another object's content",
    "truncated",
    "longer",
    "first bit flipped",
    "last bit flipped",
    "halves in the wrong order",
    "lying ETag",
    "old version",
)
PUT_ETAG = "lying ETag of an upload"
_WRONG_MD5 = "0" * 32


class LyingSwift(FakeSwift):
    """A context manager: listens within.

    :param lies: of LIES and PUT_ETAG, in the order of their turns.
    """

    def __init__(self, lies: Sequence[str] = LIES, context: ssl.SSLContext | None = None) -> None:
        super().__init__(context=context)
        self.told: Counter[str] = Counter()
        self._lies = [lie for lie in lies if lie != PUT_ETAG]
        self._of_uploads = PUT_ETAG in lies
        self._history: defaultdict[str, list[bytes]] = defaultdict(list)
        self._reads = self._uploads = 0
        self._telling = threading.Lock()

    def PUT_object(self, request: Request, query: Query, container: str, name: str) -> Answer:
        answer = super().PUT_object(request, query, container, name)
        etag = self._keep(f"{container}/{name}", request.body)
        return answer._replace(headers={"Etag": etag}) if answer.status == 201 else answer

    def GET_object(self, request: Request, query: Query, container: str, name: str) -> Answer:
        answer = super().GET_object(request, query, container, name)
        if request.method != "GET" or answer.status != 200:
            return answer
        body, etag = self._read(f"{container}/{name}", answer.body)
        return answer._replace(headers={**answer.headers, "Etag": etag}, body=body)

    HEAD_object = GET_object

    def _keep(self, place: str, body: bytes) -> str:
        """An upload came; gives the ETag to be answered."""
        with self._telling:
            self._history[place].append(body)
            if self._of_uploads and len(self._history[place]) > 1:
                self._uploads += 1
                if self._uploads % 2:
                    self.told[PUT_ETAG] += 1
                    return _WRONG_MD5
        return etag_of(body)

    def _read(self, place: str, body: bytes) -> tuple[bytes, str]:
        """Body and ETag for a READ."""
        with self._telling:
            self._reads += 1
            lie = self._lies[0] if self._lies and self._reads % 2 else ""
            said = self._said(lie, place, body) if lie else None
            if said is None:
                return body, etag_of(body)
            self._lies.append(self._lies.pop(0))
            self.told[lie] += 1
            return said

    def _said(self, lie: str, place: str, body: bytes) -> tuple[bytes, str] | None:
        """None where it can't be told of this object."""
        half = len(body) // 2
        if lie == ETAG:
            return body, _WRONG_MD5
        if lie == OTHER:
            others = [all_[-1] for name, all_ in self._history.items() if name != place]
            told = next((other for other in others if len(other) == len(body)), None)
        elif lie == OLD:
            told = self._history[place][0] if len(self._history[place]) > 1 else None
        else:
            told = {
                SHORT: body[:-1],
                LONG: body + b"\0",
                FIRST_BIT: bytes([body[0] ^ 0x80]) + body[1:],
                LAST_BIT: body[:-1] + bytes([body[-1] ^ 1]),
                ORDER: body[half:] + body[:half],
            }[lie]
        return None if told is None else (told, etag_of(told))
