"""HTTP for logins: requests to one host only, and short descriptions of failures."""

from __future__ import annotations

import logging
import ssl
import warnings
from typing import Any
from urllib.parse import SplitResult, urljoin, urlsplit

import requests
from keystoneauth1.session import Session
from urllib3.exceptions import InsecureRequestWarning

from ssbench.core.credentials import Credentials
from ssbench.core.errors import AuthError
from ssbench.storage.authbounds import BoundedAdapter

_REDIRECTS = (301, 302, 303, 307, 308)
_MAX_REDIRECTS = 5
_CONNECT_TIMEOUT = "no connection within --connect-timeout"
_READ_TIMEOUT = "no answer within --network-timeout"


class SameHostSession(requests.Session):
    """Sends requests without proxies, and follows redirects to the same host only.

    keystoneauth1 would send user and key to the target of any redirect. Proxy variables and
    .netrc are ignored, as in the run itself.
    """

    def __init__(self, credentials: Credentials) -> None:
        super().__init__()
        self.trust_env = False
        # urllib3 logs the content of headers that it can't parse, which may include the token.
        logging.getLogger("urllib3.connection").setLevel(logging.CRITICAL)
        self._timeouts = (credentials.connect_timeout_s, credentials.network_timeout_s)
        self.headers["Accept-Encoding"] = "identity"
        for scheme in ("http://", "https://"):
            self.mount(scheme, BoundedAdapter(sum(self._timeouts)))

    def request(self, method: Any, url: Any, *args: Any, **kwargs: Any) -> requests.Response:
        kwargs["timeout"] = self._timeouts
        kwargs["allow_redirects"] = False
        # requests would encode as Latin-1 and reject the rest of Unicode; Swift expects UTF-8.
        headers = kwargs.get("headers") or {}
        kwargs["headers"] = {n: v.encode() if isinstance(v, str) else v for n, v in headers.items()}
        for _ in range(_MAX_REDIRECTS):
            response = super().request(method, url, *args, **kwargs)
            location = response.headers.get("location")
            if response.status_code not in _REDIRECTS or not location:
                return response
            target = urljoin(url, location)
            if not _same_host(urlsplit(url), target):
                raise AuthError(
                    f"{url}: redirects to another host ({_host(target)}), where user and key "
                    "are not sent: give that auth URL if it is the right one"
                )
            url = target
        raise AuthError(f"{url}: redirects without end")


def _same_host(here: SplitResult, target: str) -> bool:
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


def keystone_session(credentials: Credentials, http: requests.Session) -> Session:
    c = credentials
    if c.insecure:
        # urllib3 would warn for each request; INSECURE_NOTE says it once.
        warnings.filterwarnings("ignore", category=InsecureRequestWarning)
    cert = (c.os_cert, c.os_key) if c.os_cert and c.os_key else c.os_cert or None
    return Session(
        session=http,
        verify=False if c.insecure else c.os_cacert or _system_bundle(),
        cert=cert,
        redirect=False,
        app_name="ssbench",
    )


def _system_bundle() -> str | bool:
    """The system's CA certificates, which the run trusts too; True for those of requests."""
    paths = ssl.get_default_verify_paths()
    return paths.cafile or paths.capath or True


def reason_of(error: BaseException) -> str:
    """Why there was no response, from the innermost of the exceptions that libraries nest."""
    chain = list(_chain(error))
    for e in chain:
        if isinstance(e, requests.ConnectTimeout):
            return _CONNECT_TIMEOUT
        if isinstance(e, requests.Timeout):
            return _READ_TIMEOUT
        if isinstance(e, ssl.SSLCertVerificationError):
            why = e.verify_message
            return f"its certificate is not trusted ({why}): give its CA with --os-cacert"
        if isinstance(e, ssl.SSLError):
            return f"TLS failed: {getattr(e, 'reason', None) or 'does the server use TLS?'}"
    for e in reversed(chain):
        if isinstance(e, OSError) and e.strerror:
            return e.strerror.lower()
    return "the connection broke, or what came is not HTTP"


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
