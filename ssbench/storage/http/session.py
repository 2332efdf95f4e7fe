"""HTTP to services (logins, --influx): one deadline, limits, short descriptions of failures.

requests limits only the time between two bytes, and reads a body of any size into memory. A server
that sends very slowly, or without end, would block the master forever: total time and bytes are
limited here.
"""

from __future__ import annotations

import errno
import logging
import socket
import ssl
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http.client import SWITCHING_PROTOCOLS, HTTPException, HTTPResponse
from queue import Empty, SimpleQueue
from typing import Any, TypeVar
from urllib.parse import SplitResult, urljoin, urlsplit
from urllib.request import getproxies_environment

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    InsecureRequestWarning,
    ReadTimeoutError,
)

from ssbench.core.errors import AuthError, outcome_of
from ssbench.storage.http.addresses import without_zone
from ssbench.storage.http.response import BadResponse, decoded
from ssbench.storage.options import HttpSettings, shown_url

T = TypeVar("T")

_REDIRECTS = (301, 302, 303, 307, 308)
#: Methods of logins. At another path, any other could change or delete what is there.
_REPEATED = frozenset({"GET", "HEAD", "POST"})
_MAX_REDIRECTS = 5
MAX_RESPONSE = 8 * 1024 * 1024  #: bytes of a response: a catalog of thousands of endpoints
_VALUES_MAX = 1_000_000  #: of JSON: what a catalog of that size has; 0.1 GB as objects
_PIECE = 65536
_LATE = "the response was not complete in time"
_CONNECT_TIMEOUT = (
    "no connection within --connect-timeout: is the address right, and does a firewall drop packets"
    " on the way?"
)
#: errno -> what to look at.
_HINTS = {
    errno.ECONNREFUSED: ": nothing listens there: is the port right, and does the service run?",
    errno.EHOSTUNREACH: ": is the address right, and is there a route to it?",
    errno.ENETUNREACH: ": is the address right, and is there a route to it?",
}
_NO_NAME = ": is the host's name right, and does this host's DNS know it?"
#: verify_code of OpenSSL -> what is wrong, and what to do.
_UNTRUSTED = "its certificate is not trusted ({}): give its CA with --os-cacert"
_OTHER_NAME = "its certificate is for another host ({}): give the URL with the host's name in it"
_CERTIFICATES = {
    9: "its certificate is not valid yet ({}): is this host's clock right?",
    10: "its certificate has expired ({}): renew it, or set this host's clock if that is wrong",
    62: _OTHER_NAME,
    64: _OTHER_NAME,
}
_READ_TIMEOUT = (
    "no response within --network-timeout: is the service overloaded or stuck? See its logs"
)
#: Reason of OpenSSL -> what to do; others: _TLS_FAILED.
_TLS_FAULTS = {
    "WRONG_VERSION_NUMBER": "the server speaks no TLS there: is it http://, or another port?",
    "RECORD_LAYER_FAILURE": "the server speaks no TLS there: is it http://, or another port?",
}
_TLS_FAILED = "does the server speak TLS at this port?"


class BoundedSession(requests.Session):
    """Sends requests within limits, without proxies and .netrc, as the run itself does.

    :param cacert: path of the CA bundle; "": the system's.
    :param timeouts_s: of connecting, and of a connection that is silent.
    """

    def __init__(
        self, http: HttpSettings, cacert: str = "", timeouts_s: tuple[float, float] = (10.0, 20.0)
    ) -> None:
        super().__init__()
        self.trust_env = False
        # urllib3 logs the content of headers that it can't parse, which may include the token.
        logging.getLogger("urllib3.connection").disabled = True
        self._timeouts_s = timeouts_s
        self.headers["Accept-Encoding"] = "identity"
        if http.insecure:
            # urllib3 would warn for each request; INSECURE_NOTE says it once.
            warnings.filterwarnings("ignore", category=InsecureRequestWarning)
        self.verify = False if http.insecure else cacert or _system_bundle()
        cert = http.cert_path or None
        self.cert = (cert, http.cert_key_path) if cert and http.cert_key_path else cert
        for scheme in ("http://", "https://"):
            self.mount(scheme, BoundedAdapter(sum(timeouts_s)))

    def request(self, method: Any, url: Any, *args: Any, **kwargs: Any) -> requests.Response:
        kwargs = {**kwargs, "timeout": self._timeouts_s, "allow_redirects": False}
        netloc = urlsplit(url).netloc
        if without_zone(netloc) != netloc:
            kwargs["headers"] = {"Host": without_zone(netloc), **(kwargs.get("headers") or {})}
        return super().request(method, url, *args, **kwargs)


class SameHostSession(BoundedSession):
    """Follows redirects to the same host: keystoneauth1 would send user and key to the target of
    any. Only GET, HEAD and POST are followed: any other method returns the redirect itself."""

    def request(self, method: Any, url: Any, *args: Any, **kwargs: Any) -> requests.Response:
        # requests would encode as Latin-1 and reject the rest of Unicode; Swift expects UTF-8.
        headers = kwargs.get("headers") or {}
        kwargs["headers"] = {n: v.encode() if isinstance(v, str) else v for n, v in headers.items()}
        for _ in range(_MAX_REDIRECTS):
            response = super().request(method, url, *args, **kwargs)
            location = response.headers.get("location")
            is_redirect = response.status_code in _REDIRECTS and bool(location)
            if not is_redirect or method.upper() not in _REPEATED:
                return response
            target = urljoin(url, location)
            if not same_host(urlsplit(url), target):
                raise AuthError(
                    f"{url}: redirects to another host ({_host(target)}), where user and key "
                    "are not sent: give that auth URL if it is the right one"
                )
            url = target
        raise AuthError(f"{url}: too many redirects")


def check_not_redirected(response: requests.Response, name: str = "") -> None:
    """:param name: of what was asked for, below the store's URL.
    :raises AuthError: it is a redirect; those of stores are not followed, here or in the run.
    """
    if response.status_code // 100 != 3:
        return
    try:
        target = shown_url(urljoin(response.url, response.headers.get("Location", "")))
    except ValueError:
        target = "what is no URL"
    raise AuthError(
        f"{shown_url(response.url).removesuffix(name)}: redirects to {target.removesuffix(name)}"
        f" ({response.status_code}), and no redirect of a store is followed: give that URL if it is"
        " the store's"
    )


def same_host(here: SplitResult, target: str) -> bool:
    """True for the same scheme, host and port, and for an upgrade from http to https."""
    try:
        there = urlsplit(target)
        ports = [part.port or {"http": 80, "https": 443}.get(part.scheme) for part in (here, there)]
    except ValueError:
        return False
    step_up = (here.scheme, there.scheme, ports) == ("http", "https", [80, 443])
    same = here.scheme == there.scheme and ports[0] == ports[1]
    return here.hostname == there.hostname and (same or step_up)


def _host(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2] if url.isprintable() else "?"


def _within(timeout_s: float, call: Callable[[], T]) -> T:
    """What a call returns or raises. It runs in a thread, which stays behind if it is late: nothing
    can end a resolver that waits.

    :raises TimeoutError: it takes longer.
    """
    result: SimpleQueue[Callable[[], T]] = SimpleQueue()
    threading.Thread(target=lambda: result.put(outcome_of(call)), daemon=True).start()
    try:
        return result.get(timeout=timeout_s)()
    except Empty:
        raise TimeoutError(f"not within {timeout_s:g} s") from None


def _system_bundle() -> str | bool:
    """The system's CA certificates, which the run trusts too; True for those of requests."""
    paths = ssl.get_default_verify_paths()
    return paths.cafile or paths.capath or True


def reason_of(error: BaseException) -> str:
    """Why there was no response, from the innermost of the exceptions that libraries nest."""
    chain = list(_chain(error))
    for e in chain:
        if isinstance(e, requests.ConnectTimeout):
            return _CONNECT_TIMEOUT + _proxies()
        if isinstance(e, requests.Timeout):
            return _READ_TIMEOUT
        if isinstance(e, ssl.SSLCertVerificationError):
            fault = _CERTIFICATES.get(e.verify_code, _UNTRUSTED)
            return fault.format(e.verify_message)
        if isinstance(e, ssl.SSLError):
            reason = getattr(e, "reason", None) or ""
            return f"TLS failed: {_TLS_FAULTS.get(reason) or reason or _TLS_FAILED}"
    for e in reversed(chain):
        if isinstance(e, OSError) and e.strerror:
            is_name = isinstance(e, socket.gaierror)
            hint = _NO_NAME if is_name else _HINTS.get(e.errno or 0, "")
            return e.strerror.lower() + (hint and hint + _proxies())
    return (
        "the connection broke, or the response is not HTTP: is the port right, and should the"
        " URL begin with https:// or http://?"
    )


def _proxies() -> str:
    """A hint if proxies are set, which others use to get there."""
    found = sorted(name for name in getproxies_environment() if name != "no")
    if not found:
        return ""
    names = " and ".join(f"{name}_proxy" for name in found)
    return f" ({names} is set, and ssbench uses no proxy: this host must reach the store itself)"


def _chain(error: BaseException) -> list[BaseException]:
    """The error and its causes, outermost first."""
    found: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in found:
        found.append(current)
        inner = getattr(current, "reason", None) or next(iter(current.args), None)
        nested = current.__cause__ or current.__context__
        current = nested or (inner if isinstance(inner, BaseException) else None)
    return found


class BoundedAdapter(HTTPAdapter):
    """Sends a request and reads the complete response within limits.

    :param timeout_s: from the first connection attempt to the response's last byte.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._sockets = _OpenSockets()
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        pools: dict[str, Any] = {
            "http": partial(_pool, HTTPConnectionPool, partial(_Connection, self._sockets)),
            "https": partial(_pool, HTTPSConnectionPool, partial(_TlsConnection, self._sockets)),
        }
        self.poolmanager.pool_classes_by_scheme = pools

    def send(
        self, request: requests.PreparedRequest, *args: Any, **kwargs: Any
    ) -> requests.Response:
        """Send the request; returns the response with its body read.

        :raises requests.Timeout: the response wasn't complete in time.
        :raises requests.ConnectionError: the connection failed, or the data isn't HTTP.
        :raises AuthError: the body has more than MAX_RESPONSE bytes.
        """
        sockets = self._sockets
        sockets.expired = False
        timer = threading.Timer(self._timeout_s, sockets.shut_down)
        timer.daemon = True
        timer.start()
        try:
            response = super().send(request, *args, **{**kwargs, "stream": True})
            response._content = _read(response)
            # Some of the encodings that a response can name take time by the square of the length.
            response.encoding = "utf-8"
        except (requests.RequestException, HTTPError, HTTPException, OSError) as error:
            self.close()
            if sockets.expired or isinstance(error, TimeoutError | ReadTimeoutError):
                raise requests.Timeout(_LATE) from error
            if isinstance(error, requests.RequestException):
                raise
            raise requests.ConnectionError(error) from error
        finally:
            timer.cancel()
        if sockets.expired:  # http.client accepts truncated headers as complete
            raise requests.Timeout(_LATE)
        return response

    def close(self) -> None:
        self._sockets.close()
        super().close()


class _OpenSockets:
    """Connections, noted down before a handshake can hang; ended from another thread."""

    def __init__(self) -> None:
        self.expired = False
        self._socks: list[socket.socket] = []

    def add(self, sock: socket.socket, replaced: socket.socket | None) -> socket.socket:
        """Note a connection in place of an earlier one; returns what to give as ``replaced``."""
        # A duplicate, since TLS detaches the original. Shutting it down shuts the connection down.
        found = sock.dup()
        self._socks = [*(each for each in self._socks if each is not replaced), found]
        if replaced is not None:
            replaced.close()
        if self.expired:
            self.shut_down()
        return found

    def shut_down(self) -> None:
        self.expired = True
        for sock in self._socks:
            with suppress(OSError):  # the peer may have closed it
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for sock in self._socks:
            sock.close()
        self._socks.clear()


def _read(response: requests.Response) -> bytes:
    """The body. We request no compression; what is compressed nevertheless may be a bomb, so the
    limit also holds for what comes of it."""
    body = bytearray()
    while piece := response.raw.read(_PIECE, decode_content=False):
        body += piece
        if len(body) > MAX_RESPONSE:
            response.close()
            raise AuthError(f"{response.url}: a response of more than {MAX_RESPONSE} bytes")
    try:
        found = decoded(bytes(body), response.headers, MAX_RESPONSE + 1)
    except BadResponse as error:
        raise AuthError(f"{response.url}: {error}") from None
    if len(found) > MAX_RESPONSE:
        raise AuthError(f"{response.url}: a response of more than {MAX_RESPONSE} bytes")
    # Each value but the first follows one of these, which bounds their memory before parsing.
    is_json = found[:64].lstrip()[:1] in (b"{", b"[")
    if is_json and sum(map(found.count, (b",", b":", b"[", b"{"))) > _VALUES_MAX:
        raise AuthError(f"{response.url}: JSON of more than {_VALUES_MAX:,} values")
    return found


class _FinalResponse(HTTPResponse):
    """Skips interim responses (1xx), of which http.client knows only 100."""

    def begin(self) -> None:
        super().begin()
        while 100 < self.status < 200 and self.status != SWITCHING_PROTOCOLS:
            self.headers = self.msg = None  # type: ignore[assignment] # not begun
            super().begin()


class _Connection(HTTPConnection):
    """Connects within its timeout, also where the name's look-up takes longer, and notes its socket
    before a handshake."""

    response_class = _FinalResponse

    def __init__(self, sockets: _OpenSockets, host: str, *args: Any, **kwargs: Any) -> None:
        self._sockets = sockets
        self._noted: socket.socket | None = None
        super().__init__(host.replace("%25", "%"), *args, **kwargs)  # as in parse_storage_url

    def _new_conn(self) -> socket.socket:
        try:
            sock = _within(float(self.timeout or 0), super()._new_conn)
        except TimeoutError as error:
            raise ConnectTimeoutError(self, "no connection in time") from error
        self._noted = self._sockets.add(sock, self._noted)
        return sock


class _TlsConnection(_Connection, HTTPSConnection): ...


def _pool(
    pool: Callable[..., Any], connection: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    """A pool of urllib3 with connections of ours."""
    made = pool(*args, **kwargs)
    made.ConnectionCls = connection
    return made
