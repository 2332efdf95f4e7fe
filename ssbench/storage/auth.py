"""Authentication: credentials -> token and storage URL, through keystoneauth1 for all versions.

The calls block: make them outside the gevent hub. The password is sent only to the auth URL's own
host. No exception, note or repr contains the password or the token.
"""

from __future__ import annotations

import importlib
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from keystoneauth1 import exceptions as ks
from keystoneauth1.session import Session

from ssbench.core.credentials import Credentials, Login, check_http_url, plan_login
from ssbench.core.errors import AuthError, UsageError
from ssbench.storage.authhttp import SameHostSession, keystone_session, reason_of

#: Login.method -> keystoneauth1 plugin, imported on use.
PLUGINS = {
    "v1password": "swiftclient.authv1:PasswordPlugin",
    "v2password": "keystoneauth1.identity.v2:Password",
    "v2token": "keystoneauth1.identity.v2:Token",
    "v3password": "keystoneauth1.identity.v3:Password",
    "v3token": "keystoneauth1.identity.v3:Token",
    "v3applicationcredential": "keystoneauth1.identity.v3:ApplicationCredential",
}

INSECURE_NOTE = (
    "--insecure: certificates are not verified, so anyone between ssbench and the store "
    "can read the password and the token"
)


UNUSED_TOKEN_NOTE = (  # nosec B105 # a message, not a token
    "the token that was given (-T or OS_AUTH_TOKEN) is not used, since there is no storage URL "
    "(-S) to use it at: logging in with user and key"
)


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The result of a login. The repr leaves out the token."""

    token: str = field(repr=False)
    storage_url: str


class Authenticator:
    """Logs in, and renews the token. Thread-safe.

    :raises UsageError: the credentials are missing, incomplete or invalid; nothing was sent.
    """

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._login = plan_login(credentials)
        self._cached: Authenticated | None = None
        self._lock = threading.Lock()
        #: Messages to show to the user once.
        self.notes: list[str] = [INSECURE_NOTE] if credentials.insecure else []
        is_unused = credentials.os_auth_token and not credentials.os_storage_url
        if is_unused and self._login and not self._login.method.endswith("token"):
            self.notes.append(UNUSED_TOKEN_NOTE)
        #: Text of the CA bundle that --os-cacert names, "" for the system's CA certificates.
        self.cacert_pem = read_text(credentials.os_cacert, "--os-cacert")
        read_text(credentials.os_cert, "--os-cert")
        read_text(credentials.os_key, "--os-key")
        if credentials.os_storage_url:
            check_http_url(credentials.os_storage_url, "storage URL")

    def __repr__(self) -> str:
        how = f"{self._login.method} at {self._login.url}" if self._login else "with a given token"
        return f"<Authenticator {how}>"

    def authenticate(self) -> Authenticated:
        """The token and storage URL; only the first call sends requests.

        A token and storage URL that the user gave are used without a login, after one request that
        checks whether the store accepts the token.

        :raises AuthError: one line with the URL and the reason. Also if the store rejects a given
            token: ssbench doesn't silently replace it by a login.
        """
        with self._lock:
            if self._cached is None:
                c = self._credentials
                if c.os_auth_token and c.os_storage_url:
                    token = _checked_token(c.os_auth_token)
                    _check_token_accepted(token, c)
                    self._cached = Authenticated(token, c.os_storage_url)
                else:
                    self._cached = self._log_in()
            return self._cached

    def renew(self) -> Authenticated:
        """Fetch a new token from the server, even if the current one looks valid.

        :raises AuthError: as ``authenticate``; also without user and key to log in with.
        """
        with self._lock:
            self._cached = self._log_in()
            return self._cached

    def _log_in(self) -> Authenticated:
        login = self._login
        if login is None:
            raise AuthError(
                "the store rejected the given token, and there are no credentials to get "
                "another one: give a user and a key, or a new token"
            )
        with SameHostSession(self._credentials) as http:
            access = _get_access(login, keystone_session(self._credentials, http))
        try:
            token = _checked_token(access.auth_token)
            # With a given storage URL, the catalog needs no object store.
            url = self._credentials.os_storage_url
            if not url:
                url = check_http_url(_storage_url(login, access, self._credentials), "storage URL")
                _check_encrypted(login, url, self._credentials)
            return Authenticated(token, check_http_url(url, "storage URL"))
        except UsageError as e:
            raise AuthError(f"{login.url}: {e}") from e
        except (LookupError, TypeError, ValueError, AttributeError):
            raise AuthError(f"{login.url}: {_NOT_AN_AUTH_RESPONSE}") from None


def read_text(path: str, option: str) -> str:
    """The file's text; "" if the path is empty.

    :raises UsageError: names the option and the reason.
    """
    if not path:
        return ""
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as e:
        reason = e.strerror if isinstance(e, OSError) else "not a text (PEM) file"
        raise UsageError(f"{option} {path}: {reason}") from e


# --- Requests


def _get_access(login: Login, session: Session) -> Any:
    """keystoneauth1's AccessInfo, of any version.

    :raises AuthError: one line, without a cause: libraries quote headers in their messages.
    """
    module, _, name = PLUGINS[login.method].partition(":")
    plugin = getattr(importlib.import_module(module), name)(auth_url=login.url, **login.arguments)
    try:
        return plugin.get_access(session)
    except ks.ClientException as e:
        raise AuthError(f"{login.url}: {_describe_error(e, login)}") from None
    except (OSError, LookupError, TypeError, ValueError, AttributeError) as e:
        reason = reason_of(e) if isinstance(e, OSError) else _NOT_AN_AUTH_RESPONSE
        raise AuthError(f"{login.url}: {reason}") from None


def _check_token_accepted(token: str, credentials: Credentials) -> None:
    """Check that the store accepts a token that the user gave.

    Ignores all other failures: the run's own requests meet them too, and are retried.

    :raises AuthError: the store responds with 401.
    """
    url = credentials.os_storage_url
    try:
        with SameHostSession(credentials) as http:
            session = keystone_session(credentials, http)
            response = session.request(
                url,
                "HEAD",
                headers={"X-Auth-Token": token},
                authenticated=False,
                raise_exc=False,
                log=False,
            )
    except (ks.ClientException, OSError, LookupError, TypeError, ValueError, AuthError):
        return
    if response.status_code == 401:
        raise AuthError(
            f"{url}: the store refuses the token that was given (-T or OS_AUTH_TOKEN) (401): give a"
            " fresh one, or none and a user and key to log in with"
        )


def _check_encrypted(login: Login, storage_url: str, credentials: Credentials) -> None:
    """:raises AuthError: a login by https gave a storage URL to which the token goes in clear."""
    schemes = urlsplit(login.url).scheme, urlsplit(storage_url).scheme
    if schemes == ("https", "http") and not credentials.insecure:
        raise AuthError(
            f"{login.url}: gives a storage URL without TLS ({storage_url}), to which the token"
            " would be sent in clear: give the right storage URL with -S, or accept it with"
            " --insecure"
        )


# --- Responses


_NOT_AN_AUTH_RESPONSE = "the answer is not one of an authentication service: is the URL right?"

_REJECTED = {
    "v2token": "token refused",
    "v3token": "token refused",
    "v3applicationcredential": "application credential refused",
}

#: (version of the method, status) -> what it most likely means.
_STATUSES = {
    ("v1", 404): "no such page: is the URL right (tempauth has /auth/v1.0)? "
    "For Keystone give --auth-version 3",
    ("v2", 404): "no such page: does this Keystone speak v3? Try --auth-version 3",
    ("v3", 404): "no such page: is this Keystone's URL, and does it speak v3?",
    ("v2", 405): "that is no Keystone: for tempauth or swauth give --auth-version 1",
    ("v3", 405): "that is no Keystone: for tempauth or swauth give --auth-version 1",
    ("v2", 400): "Keystone finds the request malformed: check user and tenant",
    ("v3", 400): "Keystone finds the request malformed: check user, project and domains",
}


def _describe_error(error: ks.ClientException, login: Login) -> str:
    """A phrase for the error, from its type and status only (its text may hold secrets)."""
    if isinstance(error, ks.MissingAuthMethods):
        return "Keystone requires a second factor, which ssbench doesn't support"
    if isinstance(error, ks.ConnectionError):
        return reason_of(error)
    response = getattr(error, "response", None)
    status = getattr(error, "http_status", 0) or getattr(response, "status_code", 0)
    if not status or 200 <= status < 300:
        return _NOT_AN_AUTH_RESPONSE
    if status in (401, 403):
        return f"{_REJECTED.get(login.method, 'user or key refused')} ({status})"
    known = _STATUSES.get((login.method[:2], status))
    return f"{known} ({status})" if known else f"answered {status}"


def _checked_token(token: object) -> str:
    """Check that the token can be sent as a header value.

    :raises AuthError: the token is empty or has characters that a header can't hold.
    """
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
        raise AuthError("the token is empty or holds characters that no token has")
    return token


def _storage_url(login: Login, access: Any, credentials: Credentials) -> str:
    """The object store's endpoint in the service catalog.

    :raises AuthError: there is none; the message lists what the catalog has.
    """
    if login.method == "v1password":
        return str(access.service_catalog.storage_url)
    c = credentials
    found = access.service_catalog.get_endpoints_data(
        service_type=c.os_service_type,
        interface=c.os_endpoint_type,
        region_name=c.os_region_name or None,
    )
    urls = [endpoint.url for endpoints in found.values() for endpoint in endpoints]
    if urls:
        return str(urls[0])
    where = f" in region {c.os_region_name}" if c.os_region_name else ""
    raise AuthError(
        f"{login.url}: no {c.os_endpoint_type} endpoint for {c.os_service_type}{where}; "
        f"{_describe_catalog(access, c.os_service_type)}"
    )


def _describe_catalog(access: Any, service_type: str) -> str:
    """What the catalog has, without characters that could control a terminal."""
    catalog = access.service_catalog.get_endpoints_data()
    if not catalog:
        return "the catalog is empty: has the user a role in the project?"
    offered = {
        f"{str(e.interface).removesuffix('URL')} in {e.region_name}"
        for e in catalog.get(service_type, ())
    }
    text = ", ".join(sorted(offered)) if offered else f"only {', '.join(sorted(catalog))}"
    return "the catalog has " + "".join(c if c.isprintable() else "?" for c in text)
