"""A timed HTTP/1.1 connection: the hot path of every run.

``Connection.request`` is what an operation costs: one system call that sends the head and any
body, one wait, one receive, one parse of the response's head, and a Timing. Whatever a well-behaved
server rarely sends (a response in several pieces, chunks, 1xx, a response during an upload) leaves
this fast path for the general code behind it.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import chain, islice
from time import perf_counter_ns
from typing import Any, NamedTuple, Protocol

from gevent import Timeout

from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind, Timing
from ssbench.core.text import plural, printable, shortened
from ssbench.storage.http.addresses import Remarks
from ssbench.storage.http.response import (
    CHUNKED,
    HEAD_ONLY,
    MAX_HEAD,
    BadResponse,
    BodyPrefix,
    BodyTooLong,
    ChunkedBody,
    Collector,
    Head,
    HeadPatternCache,
    RangeCollector,
    body_coding,
    check_length,
    decoded,
    parse_head,
)
from ssbench.storage.http.stream import PlainStream

BUFFER_SIZE = 65536
IDLE = -1  #: Connection.deadline_ns of an idle connection
_MAX_INTERIM = 100  #: 1xx responses to one request
CONTINUE_S = 1.0  #: how long an upload waits for 100 Continue
NO_CONTINUE = (
    f"the store sent no 100 Continue: uploads waited {CONTINUE_S:g} s for it before they sent the"
    " content, and their latencies include that (expect_continue)"
)
#: A response that is older than its request by more than this answers another one: the kernel's
#: times are of another clock, which is known to within this.
_CLOCK_ERROR_NS = 20_000
_PIECES_PER_SEND = 16  #: pieces of a large body sent by one system call
_timing = tuple.__new__  # Timing(...) without the cost of keyword arguments


class SendableFile(Protocol):
    """A file whose bytes the kernel can send."""

    size: int
    sent: int  #: bytes, in the present attempt

    def rewind(self) -> None:
        """Begin an attempt."""

    def send_to(self, socket_fd: int) -> int:
        """Send the next bytes, without waiting; returns how many."""


class Upload(NamedTuple):
    """A request's body: its first piece, and a factory of the others (called per attempt).

    :param expects: the request says ``Expect: 100-continue``; then ``rest`` is the whole body.
    :param one_by_one: a piece of ``rest`` is valid until the next one.
    :param file: has the same bytes as ``rest``, which is the whole body.
    """

    size: int
    first: memoryview | bytes
    rest: Callable[[], Iterator[memoryview]] | None = None
    expects: bool = False
    one_by_one: bool = False
    file: SendableFile | None = None


class Disconnected(StorageError):
    """The connection was closed before any byte of a response arrived.

    :param never_received: certainly, the server closed it before it received the request.
    """

    def __init__(self, detail: str, url: int, address: int, *, never_received: bool) -> None:
        super().__init__(ErrorKind.DISCONNECTED, detail, url=url, address=address)
        self.never_received = never_received


class ConnectionClosed(Exception):
    """The peer closed the connection before the response was complete."""

    def __init__(self, kind: ErrorKind, where: str) -> None:
        super().__init__(where)
        self.kind = kind


class EndpointState:
    """State shared by the connections to one storage URL.

    :param name: of the endpoint, for error messages.
    :param url: the storage URL's index, for Timing.
    :param keep_alive: False: a connection serves one request.
    :param remarks: gets NO_CONTINUE.
    """

    def __init__(
        self, name: str, url: int, keep_alive: bool, remarks: Remarks | None = None
    ) -> None:
        self.keep_alive = keep_alive
        self.name = name
        self.url = url
        self.buffer = bytearray(BUFFER_SIZE)  #: receive buffer; empty whenever a greenlet waits
        self.head_patterns = HeadPatternCache()
        self.bodiless_patterns = HeadPatternCache(bodiless=True)
        self.range_patterns = HeadPatternCache()
        #: Headers and first bytes of the body of the last response with a status of 300 or above.
        #: Valid for the caller of that request until its next wait.
        self.error_headers: Mapping[str, str] = {}
        self.error_body = b""
        self.remarks = remarks or Remarks()
        self.coding = ""  #: Content-Encoding that objects came with, which no request asks for

    def patterns_of(self, collector: Collector | None) -> HeadPatternCache | None:
        """The patterns of the heads that may come with a collector; None: such heads have none."""
        if collector is None:
            return self.head_patterns
        if collector is HEAD_ONLY:
            return self.bodiless_patterns
        return self.range_patterns if isinstance(collector, RangeCollector) else None


class Connection:
    """One connection; serves one request at a time."""

    __slots__ = (
        "_abort_cause", "_any_sent", "_arrived_ns", "_broken", "_buffer", "_early", "_in_head",
        "_interim", "_name", "_read_head", "_received", "_recv_into", "_response_started", "_send",
        "_send_parts", "_shared", "_to", "_url", "address", "alive", "deadline_ns", "idle",
        "idle_ns", "last", "last_active_ns", "reusable", "stream",
    )  # fmt: skip

    def __init__(self, stream: PlainStream, shared: EndpointState) -> None:
        self.stream = stream
        self.address = stream.address  #: the Address that it goes to; None: not known
        self._to = stream.address.number if stream.address is not None else 0
        #: Where it waits for its next request; set by the pool.
        self.idle: list[Connection] = []
        self.deadline_ns = IDLE
        self.alive = True  #: bytes were transferred since the last sweep
        self.last_active_ns = 0  #: time of the last sweep that saw it active
        self.reusable = shared.keep_alive
        #: Timing of the previous response; of status 0: it was opened then, before its first
        #: request; None: that is at once. The connection has been idle since then, and the server
        #: may have closed it.
        self.last: Timing | None = None
        self.idle_ns = 0  #: time of the last sweep that saw it idle
        self._shared = shared
        self._name, self._url, self._buffer = shared.name, shared.url, shared.buffer
        self._read_head = shared.head_patterns.read
        self._send, self._send_parts = stream.send, stream.send_parts
        self._recv_into, self._arrived_ns = stream.recv_into, stream.arrived_ns
        self._any_sent = True  #: the kernel accepted a byte of the request in flight
        self._response_started = False  #: received a byte of the current response
        #: Head of the response whose body is being received, and when it came; None: there is none.
        self._broken: tuple[Head, int] | None = None
        self._received = 0  #: bytes of a body that broke off
        self._in_head = False  #: reading the head of a response that arrived in pieces
        self._early = bytearray()  #: response bytes received during the upload
        self._interim = 0  #: 1xx responses during the upload
        self._abort_cause: tuple[ErrorKind, str] | None = None

    def request(
        self,
        head: bytes,
        upload: Upload | None,
        deadline_ns: int,
        collector: Collector | None,
        longest: int = 0,
    ) -> Timing:
        """Send a request and receive its complete response, whatever its status.

        :param longest: bytes of the longest object that the response may carry; 0: none. Then
            body bytes do not reset the idle timeout: the response must be complete within the
            network timeout after its first byte.
        :raises StorageError: any failure; Disconnected if no byte of a response arrived.
        """
        self.deadline_ns = deadline_ns
        self.alive = True
        self._response_started = False
        sent_ns = perf_counter_ns()
        try:
            moved = 0 if upload is None else upload.size
            try:
                if upload is None:
                    sent = self._send(head)
                elif upload.rest is None:
                    sent = self._send_parts((head, upload.first))
                else:
                    sent = 0  # long: sent piece by piece in _send_rest
                    if self.last is not None:
                        self._check_open()
            except OSError:
                sent = 0  # _send_rest tries again and handles the error
            if sent != len(head) + moved:
                self._send_rest(head, upload, sent)
            read_head = self._read_head
            if self._early or collector is not None:
                if not self._early and collector is HEAD_ONLY:
                    read_head = self._shared.bodiless_patterns.read
                elif not self._early and isinstance(collector, RangeCollector):
                    collector.patterns = self._shared.range_patterns
                    read_head, longest = collector.read_head, collector.limit
                else:
                    now, size = perf_counter_ns(), len(head) + moved
                    return self._slow_response(0, now, sent_ns, size, upload, collector, longest)
            count = self._recv_into(self._buffer)
            now = self._arrived_ns()
            if now < sent_ns and abs(now) < sent_ns - _CLOCK_ERROR_NS and count:
                self._check_early(self._buffer[:count])
            response = read_head(self._buffer, count)
            if response is None:
                return self._slow_response(
                    count, now, sent_ns, len(head) + moved, upload, collector, longest
                )
            self._response_started = True
            status, length, _, identifier, end = response
            if count - end == length:
                first = last = now
                if now < 0:
                    first = now = self.stream.resolve_late(now, count)
                    last = abs(now)
            else:
                now = self.stream.beginning_ns(now, count)
                self._broken = response, now
                first, last = self._count_body(length, count - end, now, None, longest)
                self._broken = None
                self.stream.count_segments()  # a body this long took more than one receive
        except (OSError, BadResponse, ConnectionClosed) as error:
            raise self._failure(error, len(head), upload.size if upload else 0) from error
        if upload is None:
            moved = length
        fields = (
            now, first, last, moved, status, identifier, self._url, 0, 0, (), 0, self._to, (), b"",
            b"",
        )  # fmt: skip
        return _timing(Timing, fields)

    def abort(self, kind: ErrorKind, why: str) -> None:
        """Fail the request in flight with this error, and shut the connection down."""
        if self._abort_cause is None:
            self._abort_cause = (kind, why)
            self.reusable = False
            self.stream.shut()

    @property
    def aborted(self) -> bool:
        return self._abort_cause is not None

    @property
    def stall_reason(self) -> str:
        """How the error of a network timeout begins."""
        return (
            "headers unfinished after" if self._in_head and self._response_started else "silent for"
        )

    def close(self) -> None:
        self.stream.close()

    def _send_rest(self, head: bytes, upload: Upload | None, sent: int) -> None:
        """Send all but the first ``sent`` bytes, unless the server responds first."""
        self._interim = 0
        self._any_sent = sent > 0
        parts: Iterator[Any] = iter((head,))
        if upload is not None and (upload.expects or upload.file):
            is_wanted = self._send_views([memoryview(head)]) and (
                not upload.expects or self._await_continue()
            )
            if not is_wanted:
                self.reusable = False
                return
            descriptor = self.stream.descriptor
            if upload.file and descriptor is not None:
                self.reusable = self._send_file(upload.file, descriptor) and self.reusable
                return
            parts = upload.rest() if upload.rest else iter(())
        elif upload is not None:
            parts = chain((head, upload.first), upload.rest() if upload.rest else ())
        per_send = 1 if upload is not None and upload.one_by_one else _PIECES_PER_SEND
        while views := [memoryview(part) for part in islice(parts, per_send)]:
            sent = _skip(views, sent)
            if not self._send_views(views):
                self.reusable = False
                return

    def _send_file(self, file: SendableFile, descriptor: int) -> bool:
        """As _send_views."""
        file.rewind()
        while file.sent < file.size:
            try:
                file.send_to(descriptor)
                self.alive = self._any_sent = True
            except BlockingIOError:
                pass
            except OSError:
                if self._is_answered():
                    return False
                raise
            # Other users have their turn, even if the send buffer is not full.
            if file.sent < file.size and self.stream.wait_writable() and self._read_early():
                return False
        return True

    def _is_answered(self) -> bool:
        """Whether the server sent a response before it closed the connection."""
        return self._abort_cause is None and self._read_early() and bool(self._early)

    def _send_views(self, views: list[memoryview]) -> bool:
        """False: a response (or the end of the stream) arrived before everything was sent."""
        while views:
            try:
                _skip(views, self._send_parts(views))
                self.alive = self._any_sent = True
            except BlockingIOError:
                pass
            except OSError:
                if self._is_answered():
                    return False
                raise
            # The socket's send buffer is full: wait before the next attempt.
            if views and self.stream.wait_writable() and self._read_early():
                return False
        return True

    def _await_continue(self) -> bool:
        """Wait for 100 Continue, for a second at most, as a server may not know it (RFC 9110,
        10.1.1). False: a final response, or the end of the stream, came instead."""
        with Timeout(CONTINUE_S, False):
            while True:
                if self._read_early():
                    return False
                if self._interim:
                    return True
                self.stream.wait_readable()
        self._shared.remarks.say(NO_CONTINUE)
        return True

    def _check_open(self) -> None:
        """Before a long upload, check that the server hasn't closed the kept connection, and has
        sent nothing.

        Later, this couldn't be told from an upload that the server cut off.
        """
        self._any_sent = False
        if self._read_early() or self._early:
            self._check_early(self._early)

    def _check_early(self, received: bytearray) -> None:
        """A response was there before its request, or the connection had ended by then.

        :raises Disconnected: it had, or a 408 says that it was idle for too long.
        :raises BadResponse: the response answers another request. On a connection that has had
            none, it is the refusal of a proxy that is full.
        """
        if not received or bytes(received[9:12]) == b"408":
            raise self._closed_idle()
        answered = self.last is not None and self.last.status
        if answered or bytes(received[9:10]) not in (b"4", b"5"):
            raise BadResponse("a response that was there before its request")

    def _closed_idle(self) -> Disconnected:
        detail = f"{self._name}: connection closed before the request"
        return Disconnected(detail, self._url, self._to, never_received=True)

    def _on_first_byte(self) -> None:
        """Note that response bytes arrived. Only the first ones reset the idle timeout."""
        if not self._response_started:
            self._response_started = self.alive = True

    def _read_early(self) -> bool:
        """Receive early response bytes. True if the server won't read the rest of the upload."""
        try:
            count = self.stream.recv_now(self._buffer)
        except BlockingIOError:
            return False
        if not count:
            return True
        self._on_first_byte()
        self._early += memoryview(self._buffer)[:count]
        while b"\r\n\r\n" in self._early:
            head, _ = parse_head(bytes(self._early))
            if head.status >= 200:
                return True
            del self._early[: head.end]  # an unrequested 100 Continue
            self._interim += 1
            if self._interim > _MAX_INTERIM:
                raise BadResponse(f"more than {_MAX_INTERIM} interim responses")
        if len(self._early) > MAX_HEAD:
            raise BadResponse(f"headers of more than {MAX_HEAD} bytes")
        return False

    def _slow_response(
        self,
        count: int,
        now: int,
        sent_ns: int,
        request_length: int,
        upload: Upload | None,
        collector: Collector | None,
        longest: int,
    ) -> Timing:
        """Read a response of any form; ``count`` bytes of it arrived at ``now``.

        :param sent_ns: when the request was sent.
        :param request_length: bytes of the request, including its body.
        """
        held = self._early + memoryview(self._buffer)[:count]
        self._early = bytearray()
        if held:
            self._on_first_byte()
        bodiless = collector is not None and collector.bodiless
        head, headers, now = self._final_head(held, now, sent_ns, bodiless=bodiless)
        if (
            head.status == 408
            and self.last is not None
            and (not self._any_sent or self.stream.never_acknowledged(request_length))
        ):
            # It came before the request, and is no response to it (RFC 9112, 9.2): proxies send it
            # when they close a connection that was idle for long.
            raise self._closed_idle()
        self._broken, self._received = (head, now), 0
        self.reusable = self.reusable and head.keep
        body = memoryview(held)[head.end :]
        add = None
        if longest and head.status < 300 and (coding := body_coding(headers)) != "identity":
            self._shared.coding = shortened(printable(coding), 40)
        if collector is not None and collector is not HEAD_ONLY:
            collector.headers, longest = headers, collector.limit
            add = None if collector.discards else collector.add
        fails = head.status >= 300
        if fails:
            beginning = BodyPrefix(add)
            add = beginning.add
        received = head.length
        if received < 0:
            chunks = ChunkedBody() if received == CHUNKED else None
            received, first, last = self._unsized_body(chunks, body, now, add, longest)
        else:
            first, last = now, abs(now)
            if add is not None:
                add(body[:received])
            if len(body) != received:
                first, last = self._count_body(received, len(body), now, add, longest)
        if fails:
            # Don't learn its pattern: error responses must come through here, for error_body.
            self._shared.error_headers = headers
            self._shared.error_body = bytes(beginning.body)
            with suppress(BadResponse):
                self._shared.error_body = decoded(self._shared.error_body, headers, MAX_HEAD)
        elif patterns := self._shared.patterns_of(collector):
            patterns.learn(bytes(held[: head.end]))
        self._broken = None
        moved = upload.size if upload is not None else received
        fields = now, first, last, moved, head.status, head.transaction_id, self._url
        return Timing(*fields, address=self._to)

    def _final_head(
        self, held: bytearray, now: int, sent_ns: int, *, bodiless: bool
    ) -> tuple[Head, dict[str, str], int]:
        """Receive into ``held`` until it starts with a complete final head.

        Returns the head, the headers by lower-case name, and the time of its last byte. Only the
        first piece resets the idle timeout: the head must be complete within a network timeout.
        """
        self._in_head = True
        for _ in range(_MAX_INTERIM):
            searched = 0
            while (end := held.find(b"\r\n\r\n", searched)) < 0:
                searched = max(len(held) - 3, 0)
                if len(held) > MAX_HEAD:
                    raise BadResponse(f"headers of more than {MAX_HEAD} bytes")
                count = self._recv_into(self._buffer)
                now = self._arrived_ns()
                if not count:
                    where = "in the headers" if held else "unanswered"
                    raise ConnectionClosed(ErrorKind.RESET, where)
                if abs(now) < sent_ns - _CLOCK_ERROR_NS:
                    self._check_early(held + self._buffer[:count])
                self._on_first_byte()
                if now < 0:
                    now = self.stream.resolve_late(now, count)
                held += memoryview(self._buffer)[:count]
            if end > MAX_HEAD:
                raise BadResponse(f"headers of more than {MAX_HEAD} bytes")
            head, headers = parse_head(bytes(held[: end + 4]), bodiless=bodiless)
            if head.status >= 200:
                self._in_head = False
                return head, headers, now
            del held[: head.end]
        raise BadResponse(f"more than {_MAX_INTERIM} interim responses")

    def _count_body(
        self,
        length: int,
        got: int,
        now: int,
        add: Callable[[memoryview], None] | None,
        longest: int,
    ) -> tuple[int, int]:
        """Receive a body of known length; returns the times of its first and last byte.

        :param got: bytes of it that are already here.
        :param now: when they arrived; negative if some of them may have arrived long before. The
            returned time of the first byte has the same sign convention; that of the last byte is
            always positive.
        """
        self._received = got
        check_length(length, longest)
        left = length - got
        if left < 0:
            raise BadResponse(f"{-left} bytes more than the announced {length}")
        first = now if got else 0
        discard, view = self.stream.discard, memoryview(self._buffer)
        try:
            while left:
                count = discard(left) if add is None else self._recv_into(view[:left])
                now = self._arrived_ns()
                if not count:
                    raise ConnectionClosed(
                        ErrorKind.TRUNCATED, f"after {length - left} of {length} body bytes"
                    )
                if add is not None:
                    add(view[:count])
                if longest:
                    self.alive = True
                if not first:
                    first = self.stream.beginning_ns(now, count)
                left -= count
        except (OSError, ConnectionClosed):
            self._received = length - left
            raise
        return first, abs(now)

    def _unsized_body(
        self,
        chunks: ChunkedBody | None,
        got: memoryview,
        now: int,
        add: Callable[[memoryview], None] | None,
        longest: int,
    ) -> tuple[int, int, int]:
        """Receive a body whose length the head doesn't tell; returns its length and two times.

        :param chunks: parses chunked coding; None: the body ends with the connection.
        :param got: the part that is already here; ``now`` and the times are as in _count_body.
        """
        received, first, last = 0, 0, now
        while True:
            parts = [part for part in ((got,) if chunks is None else chunks.feed(got)) if part]
            for part in parts:
                first = first or last
                received += len(part)
                check_length(received, longest)
                self._received = received
            if add is not None and parts:
                # At once: one by one, chunks of 64 bytes take their parser a hundred times as long.
                add(parts[0] if len(parts) == 1 else memoryview(b"".join(parts)))
            if chunks is not None and chunks.done:
                break
            count = self._recv_into(self._buffer)
            last = self._arrived_ns()
            if not count:
                # Only the server's close ends a body without framing; our own abort is a failure.
                if chunks is not None or self._abort_cause is not None:
                    raise ConnectionClosed(ErrorKind.TRUNCATED, f"after {received} body bytes")
                break
            if longest:
                self.alive = True
            got = memoryview(self._buffer)[:count]
        if chunks is not None and chunks.rest:
            raise BadResponse(f"{plural(chunks.rest, 'byte')} behind the last chunk")
        return received, first or now, abs(last)

    def _failure(self, error: Exception, head_length: int, uploaded: int) -> StorageError:
        """The StorageError of a failed request.

        :param head_length: bytes of the request without its body; ``uploaded``: those of its body.
        """
        if self._abort_cause is not None:
            kind, why = self._abort_cause
        elif isinstance(error, BadResponse):
            kind, why = ErrorKind.PROTOCOL, str(error)
            if isinstance(error, BodyTooLong):
                kind = ErrorKind.OVERLONG
        elif isinstance(error, ConnectionClosed):
            kind, why = error.kind, f"connection closed {error}"
        elif isinstance(error, ssl.SSLError):
            kind, why = ErrorKind.TLS, f"TLS failed: {error.reason}"
        else:
            strerror = error.strerror if isinstance(error, OSError) else None
            kind, why = ErrorKind.RESET, (strerror or type(error).__name__).lower()
        detail = f"{self._name}: {why}"
        if kind is ErrorKind.RESET and not self._response_started and self._abort_cause is None:
            ended = isinstance(error, ConnectionClosed)  # by a FIN, not by a RST
            never_received = not self._any_sent or (
                ended and self.stream.never_acknowledged(head_length + uploaded)
            )
            return Disconnected(detail, self._url, self._to, never_received=never_received)
        timing = self._timing_of_broken(uploaded)
        return StorageError(kind, detail, timing=timing, url=self._url, address=self._to)

    def _timing_of_broken(self, uploaded: int) -> Timing | None:
        """What there was of a response that broke in its body; None: not even a head.

        :param uploaded: bytes of the request's body.
        """
        if self._broken is None:
            return None
        (head, at_ns), self._broken = self._broken, None
        moved = uploaded or (self._received if head.status < 300 else 0)
        now_ns = perf_counter_ns()
        fields = at_ns, now_ns, now_ns, moved, head.status, head.transaction_id, self._url
        return Timing(*fields, address=self._to)

    def __repr__(self) -> str:
        return f"<Connection to {self._name}, {'idle' if self.deadline_ns == IDLE else 'busy'}>"


def _skip(views: list[memoryview], count: int) -> int:
    """Drop the first ``count`` bytes; returns how many more than the views hold were asked for."""
    while views and count >= len(views[0]):
        count -= len(views.pop(0))
    if views:
        views[0] = views[0][count:]
        count = 0
    return count
