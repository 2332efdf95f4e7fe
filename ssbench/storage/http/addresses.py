"""Where a store that speaks HTTP is: storage URLs, and connections to the hosts that they name.

Name lookup, connect and TLS handshake are all within the connect timeout.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import ssl
from collections.abc import Iterable, Iterator, Sequence
from ipaddress import ip_address
from itertools import cycle
from time import perf_counter_ns
from typing import Any, NamedTuple
from urllib.parse import SplitResult, quote, urlsplit

from gevent import Greenlet, Timeout, get_hub, sleep, spawn

from ssbench.core.errors import StorageError, UsageError, outcome_of
from ssbench.core.model import ErrorKind
from ssbench.core.naming import has_dot_segment
from ssbench.core.text import printable
from ssbench.storage.base import number_of
from ssbench.storage.http.stream import CIPHERTEXT_SIZE, WRITE, PlainStream, TlsStream

_PORTS = {"http": 80, "https": 443}
#: The zone of an IPv6 address: it names an interface of our host, so it isn't sent.
_ZONE = re.compile(r"%[^\]]*(?=\])")
_NO_PORT = 24  #: choose the local port when connecting, not when binding (ip(7))
MOST_REMARKS = 100  #: lines of a driver
RETRY_S = 1.0  #: between attempts to connect to an address that was left out
#: Errors of our own host, not of the store: no descriptors, local ports or memory left.
_LOCAL_SHORTAGES = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOBUFS, errno.ENOMEM}
)


class Endpoint(NamedTuple):
    """Host, port and scheme of a storage URL."""

    host: str
    port: int
    tls: bool

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class StorageUrl(NamedTuple):
    """The parts of a storage URL."""

    endpoint: Endpoint
    netloc: str  #: for the Host header
    base: str  #: ``/v1/AUTH_test/``


def parse_storage_url(url: str) -> StorageUrl:
    """Parse a storage URL.

    :raises UsageError: the URL is invalid, or contains a user or password.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"storage URL {url!r}: {error}") from error
    if "@" in parts.netloc:
        raise UsageError(f"storage URL of {host}: it must not contain a user or password")
    if parts.scheme not in _PORTS or not host:
        raise UsageError(f"storage URL {url!r}: expected the form https://host:port/v1/AUTH_name")
    path = quote(parts.path.rstrip("/"), safe="/%:~")
    return StorageUrl(
        endpoint_of(parts),
        without_zone(parts.netloc),
        f"{path}/",
    )


def endpoint_of(parts: SplitResult) -> Endpoint:
    """Of an http or https URL with a host."""
    # RFC 6874 writes fe80::1%eth0 as fe80::1%25eth0 in a URL.
    host = (parts.hostname or "").replace("%25", "%")
    return Endpoint(host, parts.port or _PORTS[parts.scheme], parts.scheme == "https")


def without_zone(netloc: str) -> str:
    """As it is sent."""
    return _ZONE.sub("", netloc)


def quoted_name(name: str, safe: str = "") -> str:
    """Quote an arbitrary name for a URL path.

    :param safe: characters that stay as they are.
    :raises StorageError: the name has a dot segment, which a server could resolve; or it is empty:
        the path would be that of what holds it.
    """
    if not name:
        raise StorageError(ErrorKind.PROTOCOL, "not sent: an empty name", sent=False)
    if has_dot_segment(name):
        raise StorageError(
            ErrorKind.PROTOCOL,
            f'not sent: "{printable(name)}" has a segment "." or "..", and might be taken for'
            " another path",
            sent=False,
        )
    return quote(name, safe=safe)


class Address:
    """One address of an endpoint's name."""

    def __init__(self, family: int, place: tuple[Any, ...]) -> None:
        self.family, self.place = family, place
        self.number = 0  #: for Timing; 0: the only one of its name
        self.name = str(Endpoint(place[0], place[1], False))  #: for messages
        self.open = 0  #: connections, those that are being opened included
        self.idle: list[Any] = []  #: of these: connections that serve no request
        self.left_out = False  #: connecting failed; it is tried again in the background

    @property
    def in_use(self) -> int:
        return self.open - len(self.idle)

    def __repr__(self) -> str:
        return f"<Address {self.name}, {self.open} open{', left out' * self.left_out}>"


class Remarks:
    """What a driver says of the store beside its results, for the report: each line once, as long
    as these are few: lines name addresses, which may be others at each lookup of a name."""

    def __init__(self) -> None:
        self.lines: list[str] = []  #: which no operation has taken yet
        self._said: set[str] = set()

    def say(self, line: str) -> None:
        if line not in self._said and len(self._said) < MOST_REMARKS:
            self._said.add(line)
            self.lines.append(line)


class Dialler:
    """Opens streams to one endpoint within the connect timeout.

    Where its name has several addresses, each stream goes to the one with the fewest connections in
    use. An address that can't be connected to is left out, until connecting to it succeeds again.

    :param sources: IP addresses of this host to connect from, in turn; (): the system chooses.
    :param numbered: names of addresses in the order of their numbers, from 1; those of names that
        have several are added. Diallers of one store share it.
    :param remarks: gets what became of addresses of a name that has several.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        timeout_s: float,
        context: ssl.SSLContext | None = None,
        sources: Sequence[str] = (),
        numbered: list[str] | None = None,
        remarks: Remarks | None = None,
    ) -> None:
        self.numbered = [] if numbered is None else numbered
        self._sources: Iterator[str | None] = cycle(sources or (None,))
        self.endpoint = endpoint
        self._timeout_s = timeout_s
        self._context = context
        # Receive buffer shared by all TLS streams; empty whenever a greenlet waits.
        self._ciphertext = memoryview(bytearray(CIPHERTEXT_SIZE if context else 0))
        self.addresses: list[Address] = []  #: as they were looked up; []: not yet, or none answered
        self.fails = False  #: no address connected, the last time
        self._last = 0  # index of the address that was used last
        self._retrying: dict[Address, Greenlet] = {}
        self.remarks = remarks or Remarks()

    def least_busy(self) -> Address:
        """The address for the next request: of those with the fewest connections in use the one
        whose turn it is. There must be one."""
        count = len(self.addresses)
        turns = [(self._last + at) % count for at in range(1, count + 1)]
        known = [at for at in turns if not self.addresses[at].left_out] or turns
        return self.addresses[min(known, key=lambda at: self.addresses[at].in_use)]

    def use(self, address: Address) -> None:
        """Its turn is over."""
        if address in self.addresses:
            self._last = self.addresses.index(address)

    def close(self) -> None:
        """Try no address again."""
        for greenlet in self._retrying.values():
            greenlet.kill(block=False)
        self._retrying.clear()

    def open(self, deadline_ns: int = 0) -> PlainStream:
        """Connect, including the TLS handshake.

        :raises StorageError: CONNECT, CONNECT_TIMEOUT, NAME_LOOKUP, TLS, LOAD_GENERATOR if our
            own host has no resources left to connect with, or OPERATION_TIMEOUT if the deadline
            is before the connect timeout; no request was sent.
        """
        limit_s, timeout_kind = self._timeout_s, ErrorKind.CONNECT_TIMEOUT
        if deadline_ns:
            left_s = max((deadline_ns - perf_counter_ns()) / 1e9, 0.001)
            if left_s < limit_s:
                limit_s, timeout_kind = left_s, ErrorKind.OPERATION_TIMEOUT
        timeout = Timeout(limit_s)
        tried: list[int] = []
        try:
            with timeout:
                return self._open(limit_s, tried)
        except Timeout as error:
            if error is not timeout:
                raise
            failure = self._failure(timeout_kind, f"no connection within {limit_s:g} s")
            failure.address = tried[-1] if tried else 0
            raise failure from error
        except StorageError as failure:
            failure.address = tried[-1] if tried else 0
            raise
        finally:
            del timeout  # see _open

    def _open(self, limit_s: float, tried: list[int]) -> PlainStream:
        """Try the addresses, the least busy one first; those that were left out only if no other
        connects. Raises the last one's failure; a local shortage only if every address failed with
        one.

        :param limit_s: while there are further addresses, one has half of what is left of this.
        :param tried: gets the number of each, in turn.
        """
        if not self.addresses:
            self.addresses = self._numbered(self.look_up())
        failure: OSError | StorageError | None = None
        first = self.least_busy()
        order = [first, *(each for each in self.addresses if each is not first)]
        order.sort(key=lambda each: each.left_out)
        source = next(self._sources)
        for more, address in zip(range(len(order) - 1, -1, -1), order, strict=True):
            limit_s /= 2
            tried.append(address.number)
            slow = Timeout(limit_s if more else None, TimeoutError("no connection in time"))
            try:
                with slow:
                    return self._connected(address, source)
            except (OSError, StorageError) as error:
                if failure is None or not _is_local_shortage(error):
                    failure = error
                if more or len(order) > 1:
                    self._leave_out(address, error)
            finally:
                del slow
        # Look the name up again next time: it may resolve differently.
        self.fails = True
        self.close()
        self.addresses = []
        try:
            if isinstance(failure, StorageError):  # it says more than the cause
                raise failure
            is_local = _is_local_shortage(failure)
            kind = ErrorKind.LOAD_GENERATOR if is_local else ErrorKind.CONNECT
            raise self._failure(kind, _cause(failure)) from failure
        finally:
            # Break the cycle between exception and frame: the garbage collector runs rarely, and
            # with a store that is down such cycles grow by megabytes per minute.
            del failure

    def _numbered(self, places: Iterable[tuple[Any, ...]]) -> list[Address]:
        found = [Address(*place) for place in dict.fromkeys(places)]
        for address in found if len(found) > 1 else ():
            address.number = number_of(address.name, self.numbered)
        return found

    def _connected(self, address: Address, source: str | None) -> PlainStream:
        address.open += 1
        self.use(address)
        try:
            stream = self._start_tls(_connect(address.family, address.place, source))
        except BaseException:
            address.open -= 1
            raise
        stream.address = address
        self.fails = False
        return stream

    def _leave_out(self, address: Address, error: OSError | StorageError) -> None:
        if address.left_out or _is_local_shortage(error):
            return
        address.left_out = True
        self._retrying[address] = spawn(self._try_again, address)
        if not _is_this_host(self.endpoint.host):  # whose server may well listen on one of two
            cause = error.detail if isinstance(error, StorageError) else _cause(error)
            self.remarks.say(
                f"{address.name}, an address of {self.endpoint.host}: {cause}: it was left out, and"
                f" tried again each {RETRY_S:g} s"
            )

    def _try_again(self, address: Address) -> None:
        """Connect to it until that succeeds; in its own greenlet, so that no operation waits."""
        while address.left_out:
            sleep(RETRY_S)
            try:
                with Timeout(self._timeout_s, TimeoutError()):
                    self._connected(address, next(self._sources)).close()
            except (OSError, StorageError):
                continue
            address.open -= 1
            address.left_out = False
        self._retrying.pop(address, None)
        if not _is_this_host(self.endpoint.host):
            self.remarks.say(
                f"{address.name}, an address of {self.endpoint.host}: it answers again"
            )

    @property
    def has_name(self) -> bool:
        """Whether the host must be looked up."""
        try:
            ip_address(self.endpoint.host)
        except ValueError:
            return True
        return "%" in self.endpoint.host  # only the resolver can map the zone to its number

    def look_up(self) -> list[tuple[Any, ...]]:
        host, port, _ = self.endpoint
        if self.has_name:
            return self._look_up_name(host, port)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return [(family, (host, port))]

    def _look_up_name(self, host: str, port: int) -> list[tuple[Any, ...]]:
        """The name's addresses, IPv4 first. The resolver blocks, so it runs in a thread."""
        try:
            looked_up = get_hub().threadpool.apply(
                outcome_of,
                # Without addresses of an IP version that this host does not have.
                (socket.getaddrinfo, host, port, 0, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG),
            )
            found = looked_up()
        except (OSError, UnicodeError) as error:
            is_local = _is_local_shortage(error)
            kind = ErrorKind.LOAD_GENERATOR if is_local else ErrorKind.NAME_LOOKUP
            raise self._failure(kind, _cause(error)) from error
        return sorted(
            ((entry[0], entry[4]) for entry in found),
            key=lambda pair: pair[0] != socket.AF_INET,
        )

    def _start_tls(self, sock: socket.socket) -> PlainStream:
        if self._context is None:
            return PlainStream(sock)
        try:
            stream = TlsStream(sock, self._context, self.endpoint.host, self._ciphertext)
        except BaseException:
            sock.close()
            raise
        try:
            stream.handshake()
        except OSError as error:
            stream.close()
            cause = _cause(error)
            if not isinstance(error, ssl.SSLError):  # SSL errors name TLS in their own text
                cause = f"TLS failed: {cause}"
            raise self._failure(ErrorKind.TLS, cause) from error
        except BaseException:  # killed or timed out: leak no descriptor
            stream.close()
            raise
        return stream

    def _failure(self, kind: ErrorKind, cause: str) -> StorageError:
        return StorageError(kind, f"{self.endpoint}: {cause}", sent=False)


def _connect(family: int, address: Any, source: str | None) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        # Without this, a small upload in two segments waits 40 ms for a delayed acknowledgement.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if source is not None:
            _bind(sock, source)
        status = sock.connect_ex(address)
        if status == errno.EINPROGRESS:
            _wait_connected(sock)
            status = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if status:
            raise OSError(status, os.strerror(status))
    except BaseException:
        sock.close()
        raise
    return sock


def _bind(sock: socket.socket, source: str) -> None:
    """Let a socket connect from this address of the host.

    :raises OSError: no local port is left, or the endpoint is of the other IP version.
    """
    # Two connections to different places may then share a port.
    sock.setsockopt(socket.IPPROTO_IP, _NO_PORT, 1)
    try:
        sock.bind((source, 0))
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(error.errno, f"source address {source}: {reason}") from error


def _wait_connected(sock: socket.socket) -> None:
    hub = get_hub()
    watcher = hub.loop.io(sock.fileno(), WRITE)
    try:
        hub.wait(watcher)
    finally:
        watcher.close()


def _is_this_host(name: str) -> bool:
    """RFC 6761."""
    return name.lower().rstrip(".").rpartition(".")[2] == "localhost"


def _is_local_shortage(error: BaseException | None) -> bool:
    return isinstance(error, OSError) and error.errno in _LOCAL_SHORTAGES


def _cause(error: BaseException | None) -> str:
    """One line for a failure, from the text of the system or OpenSSL."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or type(error).__name__}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return " ".join(str(error).split()) or type(error).__name__
