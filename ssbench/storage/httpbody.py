"""Reading response bodies: framing, and limits on their length."""

from __future__ import annotations

from collections.abc import Callable

from ssbench.core.model import ErrorKind
from ssbench.storage.httpparse import CHUNKED, UNTIL_CLOSE, BadResponse, ChunkedBody
from ssbench.storage.stream import PlainStream

MAX_ERROR_BODY = 1024 * 1024  #: bytes; any response may have a body this long (an error page, say)


class Collector:
    """Keeps a response's headers and body, which the hot path discards.

    :param limit: maximum length of the body in bytes.
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


#: For a request by HEAD whose response headers are not needed: takes the fast path.
HEAD_ONLY = Collector(0, bodiless=True)


class StreamingCollector(Collector):
    """A Collector that passes the body on as it arrives, and keeps none of it."""

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
    """Keeps the first bytes of a body, and passes the body on.

    :param add: receives each part; None: nobody does.
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
    """The body is longer than the response to this request can be."""


class ConnectionClosed(Exception):
    """The peer closed the connection before the response was complete."""

    def __init__(self, kind: ErrorKind, where: str) -> None:
        super().__init__(where)
        self.kind = kind


class BodyReader:
    """The part of a connection that reads response bodies.

    ``longest`` is the length in bytes of the longest object that the response may carry. 0 means
    no object: then body bytes do not reset the idle timeout, and the response must be complete
    within one network timeout.
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
        self.alive = True  #: bytes were transferred since the last sweep
        self._recv_into, self._arrived_ns = stream.recv_into, stream.arrived_ns
        self._buffer = buffer
        self._response_started = False  #: received a byte of the current response
        self._abort_cause: tuple[ErrorKind, str] | None = None

    def _slow_body(
        self,
        length: int,
        got: memoryview,
        now: int,
        add: Callable[[memoryview], None] | None,
        longest: int,
    ) -> tuple[int, int, int]:
        """Receive a body; returns (length, time of the first byte, time of the last byte).

        :param got: the part of the body that is already here.
        :param now: when ``got`` arrived; negative if a part of it may have arrived long before.
            The returned time of the first byte has the same sign convention; that of the last
            byte is always positive.
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
        """Receive a body of known length; returns (time of its first byte, of its last)."""
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
                # Only the server's close ends the body; our own abort is a failure.
                if self._abort_cause is not None:
                    raise ConnectionClosed(ErrorKind.RESET, "")
                return received, first or now, abs(last)
            if longest:
                self.alive = True
            got = memoryview(self._buffer)[:count]

    def _receive(self, kind: ErrorKind, where: str) -> int:
        """Receive into the buffer; the end of the stream is a failure of this kind."""
        count = self._recv_into(self._buffer)
        if not count:
            raise ConnectionClosed(kind, where)
        self._on_first_byte()
        return count

    def _on_first_byte(self) -> None:
        """Note that response bytes arrived. Only the first ones reset the idle timeout."""
        if not self._response_started:
            self._response_started = self.alive = True


def _check_length(length: int, longest: int) -> None:
    """Reject a body that is longer than the longest possible object and any error page."""
    most = max(longest, MAX_ERROR_BODY)
    if length > most:
        raise BodyTooLong(f"a body of more than {most} bytes")
