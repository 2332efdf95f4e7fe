"""Keep-alive connections to one storage URL, and the timeouts of all requests on them.

Timeouts cost a request almost nothing: it sets two fields, and one timer per pool periodically
checks all connections in use. It shuts down those that timed out, which wakes the waiting greenlet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

from gevent import get_hub
from gevent.pool import Pool as GreenletPool

from ssbench.core.errors import StorageError
from ssbench.core.model import SECOND_NS, ErrorKind, Timing
from ssbench.core.settings import StorageSettings
from ssbench.storage.http.addresses import Dialler, Remarks, StorageUrl
from ssbench.storage.http.connection import IDLE, Connection, Disconnected, EndpointState, Upload
from ssbench.storage.http.response import Collector, error_line
from ssbench.storage.options import HttpSettings, client_context, shown_url

_SWEEP_S = 0.08  #: interval of the timeout checks: the error of a timeout
_SUSPENDED_NS = SECOND_NS  #: a sweep this late means that our process was suspended
#: Servers close idle connections after seconds. One that was idle for less is taken to have been
#: closed while it served the request.
_LONG_IDLE_NS = SECOND_NS
_CONNECT_AT_ONCE = 64


class ConnectionPool:
    """The connections to one storage URL, reused in LIFO order; where its name has several
    addresses, spread over these: each request goes to the one with the fewest connections in use.

    :param url: the storage URL's index, for Timing.
    :param keep_alive: False: a connection for each request.
    """

    def __init__(
        self,
        dialler: Dialler,
        network_timeout_s: float,
        url: int = 0,
        *,
        keep_alive: bool = True,
    ) -> None:
        self.dialler = dialler
        self.name = str(dialler.endpoint)  #: for messages
        self.shared = EndpointState(self.name, url, keep_alive, dialler.remarks)
        self._idle: list[Connection] = []  # none where there are several addresses
        self._all: set[Connection] = set()
        self._closed = False
        self._network_timeout_s = network_timeout_s
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
        signed: Callable[[], bytes] | None = None,
    ) -> Timing:
        """Send a request; returns the Timing of the response, whatever its status.

        A request without any response byte is sent again over a new connection if the kept one
        was closed while idle: if that is certain, or it had been idle for at least a second. The
        same holds if the server had sent 408 (Request Timeout) before it received the request.

        :param longest: bytes of the longest object that the response may carry.
        :param signed: gives the head of a second attempt, signed again; None: the same.
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
        head = head if signed is None else signed()
        return self._request_anew(head, upload, deadline_ns, collector, longest)

    def status_error(self, method: str, timing: Timing) -> StorageError:
        """The error for an unsuccessful response; of kind UNAUTHORIZED if its status is 401.

        Call it before any other wait.
        """
        line = error_line(self.shared.error_body)
        return StorageError(
            ErrorKind.UNAUTHORIZED if timing.status == 401 else ErrorKind.STATUS,
            f"{self.name}: {method} returned {self.status_text(timing.status)}"
            f"{': ' if line else ''}{line}",
            status=timing.status,
            timing=timing._replace(bytes_moved=0),
        )

    def status_text(self, status: int) -> str:
        """The status of the last response, and where it redirects to."""
        target = self.shared.error_headers.get("location", "")
        is_redirect = status // 100 == 3 and target
        return f"{status}, a redirect to {shown_url(target)}" if is_redirect else str(status)

    @property
    def in_use(self) -> int:
        """Connections that serve a request, or are being opened."""
        return sum(each.in_use for each in self.dialler.addresses) - len(self._idle)

    def connect(self, count: int) -> None:
        """Open connections until there are ``count``; stops silently at the first failure."""
        if not self.shared.keep_alive:
            return
        failures: list[str] = []
        openers = GreenletPool(_CONNECT_AT_ONCE)
        if count > len(self._all) and not self._all:
            self._open_idle(failures)  # from then on the addresses are known
        # As many to each as it can have in use while all of them answer.
        addresses = len(self.dialler.addresses) or 1
        for _ in range(-(-count // addresses) * addresses - len(self._all)):
            openers.spawn(self._open_idle, failures)
        openers.join()

    def close(self) -> None:
        """Close all connections; requests in flight fail with RESET."""
        self._closed = True
        self.dialler.close()
        for connection in [each for each in self._all if each.deadline_ns == IDLE]:
            self._drop(connection)
        self._idle.clear()
        for address in self.dialler.addresses:
            address.idle.clear()
        for connection in self._all:
            connection.abort(ErrorKind.RESET, "closed by us")
        self._timer.stop()
        self._timer.close()
        self._sweeping = True  # never again

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
        if len(self.dialler.addresses) > 1:
            address = self.dialler.least_busy()
            if address.idle and not address.left_out:
                self.dialler.use(address)
                return address.idle.pop()  # type: ignore[no-any-return]
        return self._open(deadline_ns)

    def _open(self, deadline_ns: int) -> Connection:
        try:
            stream = None if self._closed else self.dialler.open(deadline_ns)
        except StorageError as error:
            error.url = self.shared.url
            raise
        if stream is None or self._closed:
            if stream is not None:
                stream.close()
            raise StorageError(
                ErrorKind.RESET, f"{self.name}: closed by us", sent=False, url=self.shared.url
            )
        connection = Connection(stream, self.shared)
        self._all.add(connection)
        addresses = self.dialler.addresses
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
) -> list[ConnectionPool]:
    """One connection pool per storage URL; they share one TLS context."""
    numbered: list[str] = []
    remarks = Remarks()
    context = client_context(http) if any(site.endpoint.tls for site in sites) else None
    return [
        ConnectionPool(
            Dialler(
                site.endpoint,
                settings.connect_timeout_s,
                context if site.endpoint.tls else None,
                settings.source_addresses,
                numbered,
                remarks,
            ),
            settings.network_timeout_s,
            index,
            keep_alive=settings.keep_alive,
        )
        for index, site in enumerate(sites)
    ]
