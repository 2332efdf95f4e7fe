"""The bodies of answers: in what forms they come, and how long they may be."""

from __future__ import annotations

from collections.abc import Callable

from ssbench.core.model import ErrorKind
from ssbench.storage.httpparse import CHUNKED, UNTIL_CLOSE, BadResponse, ChunkedBody
from ssbench.storage.stream import PlainStream

MAX_ERROR_BODY = 1024 * 1024  #: bytes that the body of any answer may have: an error's page, say


class Collector:
    """Asks for an answer's headers and body, which the hot path doesn't keep.

    :param limit: the longest body that is accepted.
    :param bodiless: the request is HEAD.
    """

    def __init__(self, limit: int, *, bodiless: bool = False) -> None:
        self.bodiless = bodiless
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.limit = limit

    def add(self, part: memoryview) -> None:
        if len(self.body) + len(part) > self.limit:
            raise BodyTooLong(f"a body of more than {self.limit} bytes")
        self.body += part


class StreamingCollector(Collector):
    """As Collector, but hands the body over as it arrives, and keeps nothing of it."""

    def __init__(self, limit: int, feed: Callable[[memoryview], None]) -> None:
        super().__init__(limit)
        self._feed = feed
        self._passed = 0

    def add(self, part: memoryview) -> None:
        self._passed += len(part)
        if self._passed > self.limit:
            raise BodyTooLong(f"a body of more than {self.limit} bytes")
        self._feed(part)


class BodyPrefix:
    """Keeps what a body begins with, and hands the body on.

    :param add: what takes it; None where nobody does.
    """

    _LIMIT = 1024  #: bytes

    def __init__(self, add: Callable[[memoryview], None] | None) -> None:
        self.body = bytearray()
        self._add = add

    def add(self, part: memoryview) -> None:
        self.body += part[: self._LIMIT - len(self.body)]
        if self._add is not None:
            self._add(part)


class BodyTooLong(BadResponse):
    """More body than the request can bring."""


class ConnectionClosed(Exception):
    """The stream came to its end within an answer."""

    def __init__(self, kind: ErrorKind, where: str) -> None:
        super().__init__(where)
        self.kind = kind


class BodyReader:
    """What a connection does with the body of an answer.

    ``longest`` is everywhere the longest object that the answer may bring, in bytes; 0 where it is
    to bring none: then its bytes are no sign of life, and it must be whole within a time-out.
    """

    __slots__ = (
        "_abort_cause",
        "_arrived_ns",
        "_buffer",
        "_recv_into",
        "_response_started",
        "alive",
        "stream",
    )

    def __init__(self, stream: PlainStream, buffer: bytearray) -> None:
        self.stream = stream
        self.alive = True  #: bytes moved since the last sweep
        self._recv_into, self._arrived_ns = stream.recv_into, stream.arrived_ns
        self._buffer = buffer
        self._response_started = False  #: a byte of the current answer has come
        self._abort_cause: tuple[ErrorKind, str] | None = None

    def _slow_body(
        self,
        length: int,
        got: memoryview,
        now: int,
        add: Callable[[memoryview], None] | None,
        longest: int,
    ) -> tuple[int, int, int]:
        """Receive a body that ``got`` begins: (its bytes, first byte's time, last byte's).

        :param now: when ``got`` came; negative where a part of it may have come long before. So is
            the time of the first byte given, and not that of the last one.
        """
        if length == CHUNKED:
            return self._chunked_body(got, now, add, longest)
        if length == UNTIL_CLOSE:
            return self._body_until_close(got, now, add, longest)
        if add is not None:
            add(got[:length])
        first, last = now, abs(now)
        if len(got) != length:
            first, last = self._count_body(length, len(got), now, add, longest)
        return length, first, last

    def _count_body(
        self,
        length: int,
        got: int,
        now: int,
        add: Callable[[memoryview], None] | None,
        longest: int,
    ) -> tuple[int, int]:
        """Receive a body of known length; (time of its first byte, of its last)."""
        _check_length(length, longest)
        left = length - got
        if left < 0:
            raise BadResponse(f"{-left} bytes more than the announced {length}")
        first = now if got else 0
        discard = self.stream.discard
        while left:
            count = discard(left) if add is None else self._recv_into(self._view(left))
            now = self._arrived_ns()
            if not count:
                raise ConnectionClosed(
                    ErrorKind.TRUNCATED, f"after {length - left} of {length} body bytes"
                )
            if add is not None:
                add(self._view(count))
            if longest:
                self.alive = True
            if not first:
                first = now if now >= 0 else self.stream.resolve_late(now, count)
            left -= count
        return first, abs(now)

    def _view(self, count: int) -> memoryview:
        return memoryview(self._buffer)[:count]

    def _chunked_body(
        self,
        got: memoryview,
        now: int,
        add: Callable[[memoryview], None] | None,
        longest: int,
    ) -> tuple[int, int, int]:
        body = ChunkedBody()
        received, first, last = 0, 0, now
        while True:
            for part in body.feed(got):
                first = first or last
                received += len(part)
                _check_length(received, longest)
                if add is not None:
                    add(part)
            if body.done:
                break
            count = self._receive(ErrorKind.TRUNCATED, f"after {received} bytes of chunks")
            if longest:
                self.alive = True
            last = self._arrived_ns()
            got = memoryview(self._buffer)[:count]
        if body.rest:
            raise BadResponse(f"{body.rest} bytes behind the last chunk")
        return received, first or now, abs(last)

    def _body_until_close(
        self,
        got: memoryview,
        now: int,
        add: Callable[[memoryview], None] | None,
        longest: int,
    ) -> tuple[int, int, int]:
        received, first, last = 0, 0, now
        while True:
            if got:
                first = first or last
                received += len(got)
                _check_length(received, longest)
                if add is not None:
                    add(got)
            count = self._recv_into(self._buffer)
            last = self._arrived_ns()
            if not count:
                # Ours or the server's end? Only the latter ends the body.
                if self._abort_cause is not None:
                    raise ConnectionClosed(ErrorKind.RESET, "")
                return received, first or now, abs(last)
            if longest:
                self.alive = True
            got = memoryview(self._buffer)[:count]

    def _receive(self, kind: ErrorKind, where: str) -> int:
        """Bytes into the buffer; their end is a failure of this kind."""
        count = self._recv_into(self._buffer)
        if not count:
            raise ConnectionClosed(kind, where)
        self._on_first_byte()
        return count

    def _on_first_byte(self) -> None:
        """Bytes of an answer are there; the first ones show that the server lives."""
        if not self._response_started:
            self._response_started = self.alive = True


def _check_length(length: int, longest: int) -> None:
    """Refuse a body that is longer than any object that it can be, and than an error's page."""
    most = max(longest, MAX_ERROR_BODY)
    if length > most:
        raise BodyTooLong(f"a body of more than {most} bytes")
