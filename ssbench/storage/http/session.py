"""HTTP to services (logins, --influx), by requests: one deadline, limits, short descriptions of
failures.

requests limits only the time between two bytes, and reads a body of any size into memory. A server
that sends very slowly, or without end, would block the master forever. So what it sends goes
through the connections of the run, which limit total time and bytes.
"""

from __future__ import annotations

import errno
import socket
import ssl
import threading
from collections.abc import Callable
from functools import cached_property
from http.client import responses
from queue import SimpleQueue
from time import perf_counter_ns
from typing import Any, TypeVar
from urllib.parse import SplitResult, urljoin, urlsplit
from urllib.request import getproxies_environment

import requests
from gevent import get_hub
from requests.adapters import BaseAdapter

from ssbench.core.errors import AuthError, StorageError, outcome_of
from ssbench.core.model import ErrorKind, Timing
from ssbench.storage.http.addresses import Dialler, Endpoint, endpoint_of, without_zone
from ssbench.storage.http.connection import Upload
from ssbench.storage.http.pool import ConnectionPool
from ssbench.storage.http.response import BadResponse, BodyTooLong, Collector, decoded
from ssbench.storage.options import HttpSettings, client_context, shown_url

T = TypeVar("T")

_REDIRECTS = (301, 302, 303, 307, 308)
#: Methods of logins. At another path, any other could change or delete what is there.
_REPEATED = frozenset({"GET", "HEAD", "POST"})
_MAX_REDIRECTS = 5
MAX_RESPONSE = 8 * 1024 * 1024  #: bytes of a response: a catalog of thousands of endpoints
_TOO_LONG = f"{{}}: a response of more than {MAX_RESPONSE} bytes"
_VALUES_MAX = 1_000_000  #: of JSON: what a catalog of that size has; 0.1 GB as objects
_FAILURES = {
    ErrorKind.CONNECT_TIMEOUT: requests.ConnectTimeout,
    ErrorKind.NETWORK_TIMEOUT: requests.ReadTimeout,
    ErrorKind.OPERATION_TIMEOUT: requests.ReadTimeout,
}
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

    :param timeouts_s: of connecting, and of a connection that is silent.
    """

    def __init__(self, http: HttpSettings, timeouts_s: tuple[float, float] = (10.0, 20.0)) -> None:
        super().__init__()
        self.trust_env = False
        self.headers["Accept-Encoding"] = "identity"
        for scheme in ("http://", "https://"):
            self.mount(scheme, BoundedAdapter(http, timeouts_s))

    def get_redirect_target(self, resp: requests.Response) -> None:
        """requests follows none, and raises nothing for a Location that is no URL."""


class SameHostSession(BoundedSession):
    """Follows redirects to the same host: keystoneauth1 would send user and key to the target of
    any. Only GET, HEAD and POST are followed: any other method returns the redirect itself."""

    def request(self, method: Any, url: Any, *args: Any, **kwargs: Any) -> requests.Response:
        # requests would encode as Latin-1 and reject the rest of Unicode; Swift expects UTF-8.
        headers = kwargs.get("headers") or {}
        kwargs["headers"] = {n: v.encode() if isinstance(v, str) else v for n, v in headers.items()}
        return super().request(method, url, *args, **kwargs)

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        url = str(request.url)
        for _ in range(_MAX_REDIRECTS):
            response = super().send(request, **kwargs)
            location = response.headers.get("location")
            is_redirect = response.status_code in _REDIRECTS and bool(location)
            if not is_redirect or request.method not in _REPEATED:
                return response
            here, request = urlsplit(url), request.copy()
            try:  # as it is sent: http://a\@b/ goes to a, though b is its host for urlsplit
                request.prepare_url(urljoin(url, location), None)
                target = str(request.url)
            except ValueError:
                target = ""
            if not same_host(here, target):
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
    netloc = urlsplit(url).netloc.rpartition("@")[2]
    return netloc if netloc and netloc.isprintable() else "?"


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


class BoundedAdapter(BaseAdapter):
    """Sends each request over a connection of its own, and reads the complete response.

    :param timeouts_s: of connecting, and of a connection that is silent; together, of all.
    """

    def __init__(self, http: HttpSettings, timeouts_s: tuple[float, float] = (10.0, 20.0)) -> None:
        super().__init__()
        self._http, self._timeouts_s = http, timeouts_s

    def send(
        self, request: requests.PreparedRequest, *args: Any, **kwargs: Any
    ) -> requests.Response:
        """Send the request; returns the response with its body read.

        :raises requests.Timeout: the response wasn't complete in time.
        :raises requests.ConnectionError: the connection failed, or the data isn't HTTP.
        :raises AuthError: the body has more than MAX_RESPONSE bytes, or can't be decoded.
        """
        url, parts = str(request.url), urlsplit(str(request.url))
        body: Any = request.body or b""
        fields = {"Host": without_zone(parts.netloc.rpartition("@")[2]), **request.headers}
        lines = [f"{request.method} {request.path_url} HTTP/1.1".encode()]
        lines += [b"%b: %b" % (_bytes(name), _bytes(value)) for name, value in fields.items()]
        upload = Upload(len(body), _bytes(body)) if body else None
        response = _Body(request.method == "HEAD")
        try:
            timing = self.exchange(
                endpoint_of(parts), b"\r\n".join([*lines, b"", b""]), upload, response
            )
        except StorageError as error:
            if error.kind is ErrorKind.OVERLONG:
                raise AuthError(_TOO_LONG.format(url)) from error
            raise _FAILURES.get(error.kind, requests.ConnectionError)(error) from error
        found = requests.Response()
        found.request, found.url, found.status_code = request, url, timing.status
        found.reason = responses.get(timing.status, "")
        found.headers.update(response.headers)
        found._content = _content(url, response)
        # Some of the encodings that a response can name take time by the square of the length.
        found.encoding = "utf-8"
        return found

    def exchange(
        self, endpoint: Endpoint, head: bytes, upload: Upload | None, response: Collector
    ) -> Timing:
        """:raises StorageError: there was no complete response."""
        connect_s, network_s = self._timeouts_s

        def exchange() -> Timing:
            context = self._context if endpoint.tls else None
            pool = ConnectionPool(
                Dialler(endpoint, connect_s, context), network_s, keep_alive=False
            )
            try:
                deadline_ns = perf_counter_ns() + int((connect_s + network_s) * 1e9)
                return pool.request(head, upload, deadline_ns, response)
            finally:
                pool.close()

        return _in_own_hub(exchange)

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return client_context(self._http)

    def close(self) -> None:
        """Nothing is open between two requests."""


class _Body(Collector):
    """A body as it arrives: it is decoded once it is complete."""

    def __init__(self, bodiless: bool) -> None:
        super().__init__(MAX_RESPONSE, bodiless=bodiless)

    def add(self, part: memoryview) -> None:
        self.body += part
        if len(self.body) > self.limit:
            raise BodyTooLong(f"a body of more than {self.limit} bytes")


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def _in_own_hub(call: Callable[[], T]) -> T:
    """What a call returns or raises. It runs in a thread with a hub of its own, which stays behind
    where a resolver is late: nothing can end one that waits."""
    result: SimpleQueue[Callable[[], T]] = SimpleQueue()

    def run() -> None:
        result.put(outcome_of(call))
        get_hub().destroy(destroy_loop=True)

    threading.Thread(target=run, daemon=True).start()
    return result.get()()


def _content(url: str, response: Collector) -> bytes:
    """The body. We request no compression; what is compressed nevertheless may be a bomb, so the
    limit also holds for what comes of it."""
    try:
        found = decoded(bytes(response.body), response.headers, MAX_RESPONSE + 1)
    except BadResponse as error:
        raise AuthError(f"{url}: {error}") from None
    if len(found) > MAX_RESPONSE:
        raise AuthError(_TOO_LONG.format(url))
    # Each value but the first follows one of these, which bounds their memory before parsing.
    is_json = found.lstrip()[:1] in (b"{", b"[")
    if is_json and sum(map(found.count, (b",", b":", b"[", b"{"))) > _VALUES_MAX:
        raise AuthError(f"{url}: JSON of more than {_VALUES_MAX:,} values")
    return found
