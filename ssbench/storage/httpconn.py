"""Timed HTTP/1.1 over kept connections: the hot path of every run.

``Pool.request`` is what an operation costs: a head and perhaps a body go out in one system call,
one wait, one receive, a look at the few headers that matter, and a Timing. All that a well-behaved
server rarely does (an answer in several pieces, chunks, 1xx, an early word during an upload)
leaves that path and goes through the plain code behind it.

Time-outs cost a request nothing: a request sets two fields, and one timer per pool looks at all
connections in flight and shuts those whose time is up, which wakes whoever waits there.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from itertools import chain, islice
from time import perf_counter_ns
from typing import Any, NamedTuple

from gevent import get_hub
from gevent.pool import Pool as GreenletPool

from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind, Timing
from ssbench.storage.httpparse import (
    CHUNKED,
    MAX_HEAD,
    UNTIL_CLOSE,
    BadAnswer,
    ChunkedBody,
    Head,
    fast_head,
    parse_head,
)
from ssbench.storage.stream import Dialler, PlainStream

BUFFER_SIZE = 65536
_IDLE = -1  #: Connection.deadline_ns while nobody uses it
_SWEEP_S = 0.08  #: how late a time-out may come
_ASLEEP_NS = 1_000_000_000  #: a sweep that late means that we slept, not the servers
_MAX_INTERIM = 100  #: 1xx answers to one request
_CONNECT_AT_ONCE = 64
_GATHER = 8  #: pieces of a large body that go out in one system call
_timing = tuple.__new__  # Timing(...) without its detour through keyword arguments


class Upload(NamedTuple):
    """A request's body: its first piece, and what gives the others anew for each attempt."""

    size: int
    first: memoryview | bytes
    rest: Callable[[], Iterator[memoryview]] | None = None


class Collector:
    """Asks for an answer's headers and body, which the hot path doesn't keep.

    :param limit: the longest body that is accepted.
    :param bodiless: the request is HEAD.
    """

    def __init__(self, limit: int, *, bodiless: bool = False) -> None:
        self.bodiless = bodiless
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self._limit = limit

    def add(self, part: memoryview) -> None:
        if len(self.body) + len(part) > self._limit:
            raise BadAnswer(f"an answer of more than {self._limit} bytes")
        self.body += part


class _Ended(Exception):
    """The stream came to its end within an answer."""

    def __init__(self, kind: ErrorKind, where: str) -> None:
        super().__init__(where)
        self.kind = kind


class _Stale(Exception):
    """A kept connection turned out to be closed before any byte of the answer came."""


class Connection:
    """One connection; one request at a time. ``exchange`` is all that it does.

    :param buffer: shared with the pool's other connections: nothing stays in it over a wait.
    """

    __slots__ = (
        "_answered", "_buffer", "_doom", "_early", "_name", "_recv_into", "_send", "_send_parts",
        "_url", "alive", "deadline_ns", "kept", "quiet_ns", "reusable", "stream",
    )  # fmt: skip

    def __init__(self, stream: PlainStream, buffer: bytearray, name: str, url: int) -> None:
        self.stream = stream
        self.deadline_ns = _IDLE
        self.alive = True  #: bytes moved since the last sweep
        self.quiet_ns = 0  #: the sweep that last saw it alive
        self.reusable = True
        self.kept = False  #: it was idle: the server may have closed it meanwhile
        self._send, self._send_parts = stream.send, stream.send_parts
        self._recv_into = stream.recv_into
        self._buffer, self._name, self._url = buffer, name, url
        self._answered = False  #: a byte of the current answer has come
        self._early = bytearray()  #: of an answer, received during the upload
        self._doom: tuple[ErrorKind, str] | None = None

    def exchange(
        self, head: bytes, upload: Upload | None, deadline_ns: int, collector: Collector | None
    ) -> Timing:
        """Send a request and receive its whole answer.

        :raises StorageError: any failure but a status.
        :raises _Stale: where the request may go out again over another connection.
        """
        self.deadline_ns = deadline_ns
        self.alive = True
        self._answered = False
        try:
            if upload is None:
                moved = 0
                if (sent := self._send(head)) != len(head):
                    self._send_rest(head, None, sent)
            else:
                moved = upload.size
                sent = self._send_parts((head, upload.first))
                if sent != len(head) + moved:
                    self._send_rest(head, upload, sent)
            if self._early or collector is not None:
                return self._slow_answer(0, upload, collector)
            count = self._recv_into(self._buffer)
            now = perf_counter_ns()
            answer = fast_head(self._buffer, count)
            if answer is None:
                return self._slow_answer(count, upload, None)
            self._answered = True
            status, length, _, identifier, end = answer
            if count - end == length:
                first = last = now
            else:
                first, last = self._count_body(length, count - end, now, None)
        except (OSError, BadAnswer, _Ended) as error:
            raise self._failure(error) from error
        if upload is None:
            moved = length
        return _timing(Timing, (now, first, last, moved, status, identifier, self._url, 0))

    def doom(self, kind: ErrorKind, why: str) -> None:
        """End the request in flight with this failure, or the connection if there is none."""
        if self._doom is None:
            self._doom = (kind, why)
            self.reusable = False
            self.stream.shut()

    @property
    def doomed(self) -> bool:
        """``doom`` was called."""
        return self._doom is not None

    def close(self) -> None:
        """Free the socket."""
        self.stream.close()

    def _send_rest(self, head: bytes, upload: Upload | None, sent: int) -> None:
        """Send all but the first ``sent`` bytes, unless the server answers before."""
        parts: Iterator[Any] = iter((head,))
        if upload is not None:
            parts = chain((head, upload.first), upload.rest() if upload.rest else ())
        while views := [memoryview(part) for part in islice(parts, _GATHER)]:
            sent = _skip(views, sent)
            if not self._send_views(views):
                self.reusable = False
                return

    def _send_views(self, views: list[memoryview]) -> bool:
        """False where an answer came (or the connection ended) before all was sent."""
        while views:
            try:
                count = self._send_parts(views)
            except BlockingIOError:
                if self.stream.wait_writable() and self._hear_early():
                    return False
            except OSError:
                # The server may have said why before it closed.
                if self._doom is None and self._hear_early() and self._early:
                    return False
                raise
            else:
                self.alive = True
                _skip(views, count)
        return True

    def _hear_early(self) -> bool:
        """Take what the server says during an upload. True where it won't hear the rest."""
        try:
            count = self.stream.recv_now(self._buffer)
        except BlockingIOError:
            return False
        if not count:
            return True
        self._answered = self.alive = True
        self._early += memoryview(self._buffer)[:count]
        while b"\r\n\r\n" in self._early:
            head, _ = parse_head(bytes(self._early))
            if head.status >= 200:
                return True
            del self._early[: head.end]  # 100 Continue, unasked
        if len(self._early) > MAX_HEAD:
            raise BadAnswer(f"headers of more than {MAX_HEAD} bytes")
        return False

    def _slow_answer(
        self, count: int, upload: Upload | None, collector: Collector | None
    ) -> Timing:
        """Read an answer of any form, of which ``count`` bytes are in the buffer already."""
        held = self._early + memoryview(self._buffer)[:count]
        self._early = bytearray()
        if held:
            self._answered = self.alive = True
        head, headers = self._final_head(
            held, bodiless=collector is not None and collector.bodiless
        )
        now = perf_counter_ns()
        self.reusable = self.reusable and head.keep
        body = memoryview(held)[head.end :]
        add = None
        if collector is not None:
            collector.headers, add = headers, collector.add
        received, first, last = self._slow_body(head.length, body, now, add)
        moved = upload.size if upload is not None else received
        return Timing(now, first, last, moved, head.status, head.transaction_id, self._url)

    def _final_head(self, held: bytearray, *, bodiless: bool) -> tuple[Head, dict[str, str]]:
        """Receive into ``held`` until a whole final head stands at its start."""
        for _ in range(_MAX_INTERIM):
            searched = 0
            while (end := held.find(b"\r\n\r\n", searched)) < 0:
                searched = max(len(held) - 3, 0)
                if len(held) > MAX_HEAD:
                    raise BadAnswer(f"headers of more than {MAX_HEAD} bytes")
                count = self._receive(ErrorKind.RESET, "in the headers" if held else "unanswered")
                held += memoryview(self._buffer)[:count]
            if end > MAX_HEAD:
                raise BadAnswer(f"headers of more than {MAX_HEAD} bytes")
            head, headers = parse_head(bytes(held[: end + 4]), bodiless=bodiless)
            if head.status >= 200:
                return head, headers
            del held[: head.end]
        raise BadAnswer(f"more than {_MAX_INTERIM} interim answers")

    def _slow_body(
        self, length: int, got: memoryview, now: int, add: Callable[[memoryview], None] | None
    ) -> tuple[int, int, int]:
        """Receive a body that ``got`` begins: (its bytes, first byte's time, last byte's)."""
        if length == CHUNKED:
            return self._chunked_body(got, now, add)
        if length == UNTIL_CLOSE:
            return self._body_until_close(got, now, add)
        if add is not None:
            add(got[:length])
        first, last = (now, now)
        if len(got) != length:
            first, last = self._count_body(length, len(got), now, add)
        return length, first, last

    def _count_body(
        self, length: int, got: int, now: int, add: Callable[[memoryview], None] | None
    ) -> tuple[int, int]:
        """Receive a body of known length; (time of its first byte, of its last)."""
        left = length - got
        if left < 0:
            raise BadAnswer(f"{-left} bytes more than the announced {length}")
        first = now if got else 0
        discard = self.stream.discard
        while left:
            count = discard(left) if add is None else self._receive_part(left, add)
            now = perf_counter_ns()
            if not count:
                raise _Ended(ErrorKind.TRUNCATED, f"after {length - left} of {length} body bytes")
            self.alive = True
            first = first or now
            left -= count
        return first, now

    def _receive_part(self, left: int, add: Callable[[memoryview], None]) -> int:
        view = memoryview(self._buffer)[:left]
        count = self._recv_into(view)
        add(view[:count])
        return count

    def _chunked_body(
        self, got: memoryview, now: int, add: Callable[[memoryview], None] | None
    ) -> tuple[int, int, int]:
        body = ChunkedBody()
        received, first, last = 0, 0, now
        while True:
            for part in body.feed(got):
                first = first or last
                received += len(part)
                if add is not None:
                    add(part)
            if body.done:
                break
            count = self._receive(ErrorKind.TRUNCATED, f"after {received} bytes of chunks")
            last = perf_counter_ns()
            got = memoryview(self._buffer)[:count]
        if body.rest:
            raise BadAnswer(f"{body.rest} bytes behind the last chunk")
        return received, first or now, last

    def _body_until_close(
        self, got: memoryview, now: int, add: Callable[[memoryview], None] | None
    ) -> tuple[int, int, int]:
        received, first, last = 0, 0, now
        while True:
            if got:
                first = first or last
                received += len(got)
                if add is not None:
                    add(got)
            count = self._recv_into(self._buffer)
            last = perf_counter_ns()
            if not count:
                # Ours or the server's end? Only the latter ends the body.
                if self._doom is not None:
                    raise _Ended(ErrorKind.RESET, "")
                return received, first or now, last
            self.alive = True
            got = memoryview(self._buffer)[:count]

    def _receive(self, kind: ErrorKind, where: str) -> int:
        """Bytes into the buffer; their end is a failure of this kind."""
        count = self._recv_into(self._buffer)
        if not count:
            raise _Ended(kind, where)
        self._answered = self.alive = True
        return count

    def _failure(self, error: Exception) -> Exception:
        """What a failed exchange raises."""
        if self._doom is not None:
            kind, why = self._doom
        elif isinstance(error, BadAnswer):
            kind, why = ErrorKind.PROTOCOL, str(error)
        elif self.kept and not self._answered:
            return _Stale(str(error))
        elif isinstance(error, _Ended):
            kind, why = error.kind, f"connection closed {error}"
        elif isinstance(error, ssl.SSLError):
            kind, why = ErrorKind.TLS, f"TLS failed: {error.reason}"
        else:
            strerror = error.strerror if isinstance(error, OSError) else None
            kind, why = ErrorKind.RESET, (strerror or type(error).__name__).lower()
        return StorageError(kind, f"{self._name}: {why}")

    def __repr__(self) -> str:
        return f"<Connection to {self._name}, {'idle' if self.deadline_ns == _IDLE else 'busy'}>"


def _skip(views: list[memoryview], count: int) -> int:
    """Drop the first ``count`` bytes; gives how many of them were not there."""
    while views and count >= len(views[0]):
        count -= len(views.pop(0))
    if views:
        views[0] = views[0][count:]
        count = 0
    return count


class Pool:
    """The connections to one storage URL: the last one given back is the next one used."""

    def __init__(self, dialler: Dialler, network_timeout_s: float, url: int = 0) -> None:
        self._dialler = dialler
        self._url = url
        self._name = str(dialler.endpoint)
        self._idle: list[Connection] = []
        self._all: set[Connection] = set()
        self._buffer = bytearray(BUFFER_SIZE)
        self._closed = False
        self._network_timeout_s = network_timeout_s
        # ref=False: the sweep alone doesn't keep the hub's loop alive.
        interval = min(_SWEEP_S, network_timeout_s / 4)
        loop: Any = get_hub().loop
        self._timer = loop.timer(interval, interval, ref=False)
        self._sweeping = False
        self._swept_ns = 0

    def request(
        self,
        head: bytes,
        upload: Upload | None = None,
        deadline_ns: int = 0,
        collector: Collector | None = None,
    ) -> Timing:
        """The Timing of the answer, whatever its status.

        :raises StorageError: where no whole answer came.
        """
        connection = self._idle.pop() if self._idle else self._open(deadline_ns)
        if not self._sweeping:
            self._start_sweeping()
        try:
            timing = connection.exchange(head, upload, deadline_ns, collector)
        except _Stale:
            self._drop(connection)
            return self._request_anew(head, upload, deadline_ns, collector)
        except BaseException:  # a killed greenlet's connection is in the middle of an answer
            self._drop(connection)
            raise
        self._give_back(connection)
        return timing

    def connect(self, count: int) -> None:
        """Open connections until ``count`` are there; gives up quietly on those that fail."""
        failures: list[StorageError] = []
        openers = GreenletPool(_CONNECT_AT_ONCE)
        for _ in range(count - len(self._all)):
            openers.spawn(self._open_idle, failures)
        openers.join()

    def close(self) -> None:
        """Close all; requests in flight fail with RESET."""
        self._closed = True
        for connection in self._idle:
            self._all.discard(connection)
            connection.close()
        self._idle.clear()
        for connection in self._all:
            connection.doom(ErrorKind.RESET, "closed by us")
        self._timer.stop()
        self._timer.close()
        self._sweeping = True  # never again

    def _request_anew(
        self,
        head: bytes,
        upload: Upload | None,
        deadline_ns: int,
        collector: Collector | None,
    ) -> Timing:
        """Once more over a fresh connection, in place of a kept one that was closed."""
        connection = self._open(deadline_ns)
        try:
            timing = connection.exchange(head, upload, deadline_ns, collector)
        except BaseException:
            self._drop(connection)
            raise
        self._give_back(connection)
        return timing._replace(reconnects=1)

    def _give_back(self, connection: Connection) -> None:
        connection.deadline_ns = _IDLE
        connection.kept = True
        if connection.reusable:
            self._idle.append(connection)
        else:
            self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        self._all.discard(connection)
        connection.close()

    def _open(self, deadline_ns: int) -> Connection:
        stream = None if self._closed else self._dialler.open(deadline_ns)
        if stream is None or self._closed:
            if stream is not None:
                stream.close()
            raise StorageError(ErrorKind.RESET, f"{self._name}: closed by us", sent=False)
        connection = Connection(stream, self._buffer, self._name, self._url)
        self._all.add(connection)
        return connection

    def _open_idle(self, failures: list[StorageError]) -> None:
        if failures:  # one time-out is enough to wait for
            return
        try:
            self._give_back(self._open(0))
        except StorageError as error:
            # The first operation meets the same failure, and tells of it.
            failures.append(error)

    def _start_sweeping(self) -> None:
        self._sweeping = True
        self._swept_ns = perf_counter_ns()
        self._timer.start(self._sweep)

    def _sweep(self) -> None:
        """Doom what is over its deadline or silent for too long; stop when nothing is in flight."""
        now = perf_counter_ns()
        slept = now - self._swept_ns > _ASLEEP_NS
        self._swept_ns = now
        limit_ns = int(self._network_timeout_s * 1e9)
        busy = False
        for connection in self._all:
            deadline_ns = connection.deadline_ns
            if deadline_ns == _IDLE or connection.doomed:
                continue
            busy = True
            if 0 < deadline_ns < now:
                connection.doom(ErrorKind.OPERATION_TIMEOUT, "operation took too long")
            elif connection.alive or slept:
                connection.alive = False
                connection.quiet_ns = now
            elif now - connection.quiet_ns > limit_ns:
                connection.doom(
                    ErrorKind.NETWORK_TIMEOUT, f"silent for {self._network_timeout_s:g} s"
                )
        if not busy:
            self._timer.stop()
            self._sweeping = False

    def __repr__(self) -> str:
        return f"<Pool to {self._name}, {len(self._all)} open, {len(self._idle)} idle>"
