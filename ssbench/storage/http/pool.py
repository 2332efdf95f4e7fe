"""Keep-alive connections to one storage URL, and the timeouts of all requests on them.

Timeouts cost a request almost nothing: it sets two fields, and one timer per pool periodically
checks all connections in use. It shuts down those that timed out, which wakes the waiting greenlet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter_ns, time
from typing import Any, NamedTuple

from gevent import get_hub
from gevent.pool import Pool as GreenletPool

from ssbench.core.errors import StorageError
from ssbench.core.model import SECOND_NS, ErrorKind, Timing
from ssbench.core.settings import StorageSettings
from ssbench.storage.http.addresses import Dialler, StorageUrl
from ssbench.storage.http.connection import IDLE, Connection, Disconnected, EndpointState, Upload
from ssbench.storage.http.response import Collector, error_line
from ssbench.storage.options import HttpSettings, client_context, shown_url

_SWEEP_S = 0.08  #: interval of the timeout checks: the error of a timeout
_SUSPENDED_NS = SECOND_NS  #: a sweep this late means that our process was suspended
#: Servers close idle connections after seconds. One that was idle for less is taken to have been
#: closed while it served the request.
_LONG_IDLE_NS = SECOND_NS
_CONNECT_AT_ONCE = 64


#: ``sign(method, path, query, headers, payload hash or None, wall time)`` returns further header
#: lines, each with its CRLF. Called for each attempt, immediately before it is sent. ``headers``
#: is the str that the driver passed to ``request_signed``.
Sign = Callable[[str, str, str, str, str | None, float], bytes]


class UnsignedRequest(NamedTuple):
    """What ``Sign`` signs."""

    method: str
    path: str  #: quoted
    query: str  #: without "?"; "" for none
    headers: str  #: lines, each with its CRLF; at least Host
    payload_hash: str | None = None
    unsigned_headers: str = ""  #: further lines, which ``Sign`` doesn't get


def no_signature(*_: object) -> bytes:
    """The default of ``sign``: no further header lines."""
    return b""


class ConnectionPool:
    """The connections to one storage URL, reused in LIFO order; where its name has several
    addresses, spread over these: each request goes to the one with the fewest connections in use.

    :param url: the storage URL's index, for Timing.
    :param keep_alive: False: a connection for each request.
    :param sign: signs what ``request_signed`` sends. ``request`` costs the same with and without.
    """

    def __init__(
        self,
        dialler: Dialler,
        network_timeout_s: float,
        url: int = 0,
        *,
        keep_alive: bool = True,
        sign: Sign = no_signature,
    ) -> None:
        self._dialler = dialler
        self.name = str(dialler.endpoint)  #: for messages
        self._shared = EndpointState(self.name, url, keep_alive)
        self._idle: list[Connection] = []  # none where there are several addresses
        self._all: set[Connection] = set()
        self._closed = False
        self._network_timeout_s = network_timeout_s
        self._sign = sign
        # ref=False: the timer alone doesn't keep the hub's loop alive.
        interval = min(_SWEEP_S, network_timeout_s / 4)
        loop: Any = get_hub().loop
        self._timer = loop.timer(interval, interval, ref=False)
        self._sweeping = False
        self._last_sweep_ns = 0
        #: Start of the current series of sweeps; nothing was in flight just before.
        self._in_use_ns = 0

    def request(
        self,
        head: bytes,
        upload: Upload | None = None,
        deadline_ns: int = 0,
        collector: Collector | None = None,
        longest: int = 0,
        unsigned: UnsignedRequest | None = None,
    ) -> Timing:
        """Send a request; returns the Timing of the response, whatever its status.

        A request without any response byte is sent again over a new connection if the kept one
        was closed while idle: if that is certain, or it had been idle for at least a second. The
        same holds if the server had sent 408 (Request Timeout) before it received the request.

        :param longest: bytes of the longest object that the response may carry.
        :param unsigned: if given, a second attempt is signed again; ``head`` is of the first one.
        :raises StorageError: there was no complete response.
        """
        connection = self._idle.pop() if self._idle else self._next(deadline_ns)
        if not self._sweeping:
            self._start_sweeping()
        try:
            timing = connection.request(head, upload, deadline_ns, collector, longest)
        except Disconnected as error:
            self._drop(connection)
            if not self._was_closed_idle(connection, error):
                raise
        except BaseException:  # a killed greenlet leaves the connection in the middle of a response
            self._drop(connection)
            raise
        else:
            self._release(connection, timing)
            return timing
        if unsigned is not None:
            head = self._signed_head(unsigned)
        return self._request_anew(head, upload, deadline_ns, collector, longest)

    def request_signed(
        self,
        unsigned: UnsignedRequest,
        upload: Upload | None = None,
        deadline_ns: int = 0,
        collector: Collector | None = None,
        longest: int = 0,
    ) -> Timing:
        """As ``request``, with the header lines that ``sign`` gives for each attempt."""
        head = self._signed_head(unsigned)
        return self.request(head, upload, deadline_ns, collector, longest, unsigned)

    def status_error(self, method: str, timing: Timing) -> StorageError:
        """The error for an unsuccessful response; of kind UNAUTHORIZED if its status is 401.

        Call it before any other wait.
        """
        line = error_line(self._shared.error_body)
        return StorageError(
            ErrorKind.UNAUTHORIZED if timing.status == 401 else ErrorKind.STATUS,
            f"{self.name}: {method} returned {self.status_text(timing.status)}"
            f"{': ' if line else ''}{line}",
            status=timing.status,
            timing=timing._replace(bytes_moved=0),
        )

    def status_text(self, status: int) -> str:
        """The status of the last response, and where it redirects to."""
        target = self._shared.error_headers.get("location", "")
        is_redirect = status // 100 == 3 and target
        return f"{status}, a redirect to {shown_url(target)}" if is_redirect else str(status)

    @property
    def lacks_continue(self) -> bool:
        """Whether an upload waited in vain for 100 Continue."""
        return self._shared.lacks_continue

    @property
    def notes(self) -> list[str]:
        """Lines on addresses that were left out, for the report; taken from here."""
        return self._dialler.notes

    @property
    def numbers(self) -> Mapping[str, int]:
        """Address -> its number in a Timing, in ascending order; of all pools of the store."""
        return self._dialler.numbers

    @property
    def in_use(self) -> int:
        """Connections that serve a request, or are being opened."""
        return sum(each.in_use for each in self._dialler.addresses) - len(self._idle)

    @property
    def refuses(self) -> bool:
        """Whether no connection could be opened the last time."""
        return self._dialler.fails

    @property
    def may_have_several(self) -> bool:
        """Whether its host is a name, which may have several addresses."""
        return self._dialler.has_name

    @property
    def error_response(self) -> tuple[Mapping[str, str], bytes]:
        """Headers (names in lower case) and first KiB of the body of the last response with a
        status of 300 or above. Valid until the next wait after its request."""
        return self._shared.error_headers, self._shared.error_body

    def connect(self, count: int) -> None:
        """Open connections until there are ``count``; stops silently at the first failure."""
        if not self._shared.keep_alive:
            return
        failures: list[str] = []
        openers = GreenletPool(_CONNECT_AT_ONCE)
        if count > len(self._all) and not self._all:
            self._open_idle(failures)  # from then on the addresses are known
        # As many to each as it can have in use while all of them answer.
        addresses = len(self._dialler.addresses) or 1
        for _ in range(-(-count // addresses) * addresses - len(self._all)):
            openers.spawn(self._open_idle, failures)
        openers.join()

    def close(self) -> None:
        """Close all connections; requests in flight fail with RESET."""
        self._closed = True
        self._dialler.close()
        for connection in [each for each in self._all if each.deadline_ns == IDLE]:
            self._drop(connection)
        self._idle.clear()
        for address in self._dialler.addresses:
            address.idle.clear()
        for connection in self._all:
            connection.abort(ErrorKind.RESET, "closed by us")
        self._timer.stop()
        self._timer.close()
        self._sweeping = True  # never again

    def _signed_head(self, unsigned: UnsignedRequest) -> bytes:
        method, path, query, headers, payload_hash, others = unsigned
        target = f"{path}?{query}" if query else path
        signature = self._sign(method, path, query, headers, payload_hash, time())
        head = f"{method} {target} HTTP/1.1\r\n{headers}{others}".encode()
        return b"%s%s\r\n" % (head, signature)

    def _request_anew(
        self,
        head: bytes,
        upload: Upload | None,
        deadline_ns: int,
        collector: Collector | None,
        longest: int,
    ) -> Timing:
        """Send the request again over a new connection, after the kept one was closed."""
        try:
            connection = self._open(deadline_ns)
            if not self._sweeping:  # nothing was in flight while it was opened
                self._start_sweeping()
            try:
                timing = connection.request(head, upload, deadline_ns, collector, longest)
            except BaseException:
                self._drop(connection)
                raise
        except StorageError as error:
            error.sent = True  # over the closed connection, where the server may have received it
            error.reconnects = 1
            raise
        self._release(connection, timing)
        return timing._replace(reconnects=1)

    def _was_closed_idle(self, connection: Connection, error: Disconnected) -> bool:
        """Whether the connection was closed while idle, rather than because of the request.

        The start of a request isn't recorded, since that costs time and few requests fail. It is at
        or after the last sweep that saw the connection idle, and the start of the current series of
        sweeps. So this gives a lower bound of the idle time.
        """
        if connection.last is None:
            return False
        idle_ns = max(connection.idle_ns, self._in_use_ns) - connection.last.last_byte_ns
        return idle_ns >= _LONG_IDLE_NS or error.never_received

    def _release(self, connection: Connection, timing: Timing) -> None:
        connection.deadline_ns = IDLE
        connection.last = timing
        if connection.reusable:
            connection.idle.append(connection)
        else:
            self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        self._all.discard(connection)
        if connection.address is not None:
            connection.address.open -= 1
        connection.close()

    def _next(self, deadline_ns: int) -> Connection:
        """A kept connection to the least busy of several addresses, or a new one."""
        if len(self._dialler.addresses) > 1:
            address = self._dialler.least_busy()
            if address.idle and not address.left_out:
                self._dialler.use(address)
                return address.idle.pop()  # type: ignore[no-any-return]
        return self._open(deadline_ns)

    def _open(self, deadline_ns: int) -> Connection:
        try:
            stream = None if self._closed else self._dialler.open(deadline_ns)
        except StorageError as error:
            error.url = self._shared.url
            raise
        if stream is None or self._closed:
            if stream is not None:
                stream.close()
            raise StorageError(
                ErrorKind.RESET, f"{self.name}: closed by us", sent=False, url=self._shared.url
            )
        connection = Connection(stream, self._shared)
        self._all.add(connection)
        addresses = self._dialler.addresses
        connection.idle = connection.address.idle if len(addresses) > 1 else self._idle
        for address in addresses if len(addresses) > 1 else ():
            while address.left_out and address.idle:  # their server has gone, too
                self._drop(address.idle.pop())
        return connection

    def _open_idle(self, failures: list[str]) -> None:
        if failures:  # wait for one timeout at most
            return
        try:
            connection = self._open(0)
            now = perf_counter_ns()
            self._release(connection, Timing(now, now, now, 0, 0))
        except StorageError as error:
            # The first operation meets the same failure and reports it.
            failures.append(error.detail)

    def _start_sweeping(self) -> None:
        self._sweeping = True
        self._last_sweep_ns = self._in_use_ns = perf_counter_ns()
        self._timer.start(self._sweep)

    def _sweep(self) -> None:
        """Abort requests past their deadline or idle for too long; stop if nothing is in flight."""
        now = perf_counter_ns()
        suspended = now - self._last_sweep_ns > _SUSPENDED_NS
        self._last_sweep_ns = now
        limit_ns = int(self._network_timeout_s * 1e9)
        busy = False
        for connection in self._all:
            deadline_ns = connection.deadline_ns
            if deadline_ns == IDLE:
                connection.idle_ns = now
                continue
            if connection.aborted:
                continue
            busy = True
            if 0 < deadline_ns < now:
                connection.abort(ErrorKind.OPERATION_TIMEOUT, "operation took too long")
            elif connection.alive or suspended:
                connection.alive = False
                connection.last_active_ns = now
            elif now - connection.last_active_ns > limit_ns:
                connection.abort(
                    ErrorKind.NETWORK_TIMEOUT,
                    f"{connection.stall_reason} {self._network_timeout_s:g} s",
                )
            else:
                connection.stream.wake_reader()  # a few bytes reset the idle timeout, too
        if not busy:
            self._timer.stop()
            self._sweeping = False

    def __repr__(self) -> str:
        return f"<ConnectionPool to {self.name}, {len(self._all)} open, {len(self._idle)} idle>"


def open_pools(
    http: HttpSettings,
    settings: StorageSettings,
    sites: Sequence[StorageUrl],
    signs: Sequence[Sign] = (),
) -> list[ConnectionPool]:
    """One connection pool per storage URL; they share one TLS context.

    :param signs: one per storage URL; empty: requests are not signed.
    """
    numbers: dict[str, int] = {}
    context = client_context(http) if any(site.endpoint.tls for site in sites) else None
    return [
        ConnectionPool(
            Dialler(
                site.endpoint,
                settings.connect_timeout_s,
                context if site.endpoint.tls else None,
                settings.source_addresses,
                numbers,
            ),
            settings.network_timeout_s,
            index,
            keep_alive=settings.keep_alive,
            sign=signs[index] if signs else no_signature,
        )
        for index, site in enumerate(sites)
    ]
