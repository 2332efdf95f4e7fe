"""The credentials provider of Swift: logs in through keystoneauth1, for all versions.

The calls block: make them outside the gevent hub. The password is sent only to the auth URL's own
host. No exception, note or repr contains the password or the token.
"""

from __future__ import annotations

import importlib
import threading
from itertools import count
from typing import Any
from urllib.parse import urlsplit

from keystoneauth1 import exceptions as ks
from keystoneauth1.session import Session
from msgspec.structs import asdict, replace

from ssbench.core.errors import AuthError, RejectedError, UsageError
from ssbench.core.hiding import Secrets
from ssbench.core.option import with_scheme
from ssbench.core.settings import Credentials
from ssbench.core.text import shortened
from ssbench.storage.base import Access
from ssbench.storage.http.session import SameHostSession, reason_of
from ssbench.storage.options import (
    INSECURE_NOTE,
    StoreOptions,
    check_http_url,
    http_settings,
    scheme_notes,
)
from ssbench.storage.swift.options import Login, LoginOptions, login_options, plan_login

#: Login.method -> keystoneauth1 plugin, imported on use.
PLUGINS = {
    "v1password": "swiftclient.authv1:PasswordPlugin",
    "v2password": "keystoneauth1.identity.v2:Password",
    "v2token": "keystoneauth1.identity.v2:Token",
    "v3password": "keystoneauth1.identity.v3:Password",
    "v3token": "keystoneauth1.identity.v3:Token",
    "v3applicationcredential": "keystoneauth1.identity.v3:ApplicationCredential",
}

#: What keystoneauth1 raises for a response that is none of Keystone's; RecursionError: deep JSON.
_MALFORMED = (LookupError, TypeError, ValueError, AttributeError, RecursionError)

_NO_WORD = 12  #: characters of a secret
_CATALOG_SHOWN = 1000  #: characters of what a catalog has

#: In a storage URL of clouds.yaml: the ID of the project.
_PROJECT = "%(project_id)s"
UNUSED_TOKEN_NOTE = (  # nosec B105 # a message, not a token
    "the token that was given (-T or OS_AUTH_TOKEN) is not used, since there is no storage URL "
    "(-S) to use it at: logging in with user and key"
)


def provider(options: StoreOptions) -> Authenticator:
    return Authenticator(login_options(options), options.timeouts_s)


class Authenticator:
    """Implements ``ssbench.storage.base.CredentialsProvider``. Thread-safe.

    :raises UsageError: the credentials are missing, incomplete or invalid; nothing was sent.
    """

    def __init__(
        self,
        options: LoginOptions,
        timeouts_s: tuple[float, float] = StoreOptions().timeouts_s,
    ) -> None:
        self._timeouts_s = timeouts_s
        options = replace(
            options,
            auth=with_scheme(options.auth, sends_password=True),
            os_auth_url=with_scheme(options.os_auth_url, sends_password=True),
            os_storage_url=with_scheme(options.os_storage_url),
        )
        self._options = options
        self._login = plan_login(options)
        self._access: Access | None = None
        self._serials = count(1)
        self._lock = threading.Lock()
        #: Messages to show to the user once.
        urls = options.auth, options.os_auth_url, options.os_storage_url, *options.storage_urls
        self.notes: list[str] = [*options.notes, *scheme_notes(urls)]
        self.notes += [INSECURE_NOTE] if options.insecure else []
        is_unused = options.os_auth_token and not options.os_storage_url
        if is_unused and self._login and not self._login.method.endswith("token"):
            self.notes.append(UNUSED_TOKEN_NOTE)
        self._http = http_settings(options.storage_urls, asdict(options))
        self._secrets = Secrets({name: getattr(options, name) for name in options.HIDDEN})
        if options.os_storage_url:
            check_http_url(options.os_storage_url, "storage URL")
        self.where = options.auth or options.os_auth_url or options.os_storage_url

    def __repr__(self) -> str:
        how = f"{self._login.method} at {self._login.url}" if self._login else "with a given token"
        return f"<Authenticator {how}>"

    def log_in(self) -> Access:
        """The storage URL and the token; only the first call sends requests.

        A token and storage URL that the user gave are used without a login, after one request that
        checks whether the store accepts the token.

        :raises AuthError: one line with the URL and the reason. Also if the store rejects a given
            token: ssbench doesn't silently replace it by a login.
        """
        with self._lock, self._secrets.hidden():
            if self._access is None:
                options = self._options
                if options.os_auth_token and _PROJECT not in (options.os_storage_url or _PROJECT):
                    token = _checked_token(options.os_auth_token)
                    self._check_accepted(token)
                    self._access = self._access_with(token, options.os_storage_url, None)
                else:
                    self._access = self._log_in()
            return self._access

    def renew(self) -> Credentials:
        """Fetch a new token from the server, even if the current one looks valid.

        :raises AuthError: as ``log_in``; also without user and key to log in with.
        """
        with self._lock, self._secrets.hidden():
            self._access = self._log_in()
            return self._access.credentials

    def _log_in(self) -> Access:
        login = self._login
        if login is None:
            raise RejectedError(
                "the store rejected the given token, and there are no credentials to get "
                "another one: give a user and a key, or a new token"
            )
        with self._session() as http:
            access = _get_access(
                login,
                Session(session=http, redirect=False, app_name="ssbench"),
            )
        try:
            token = _checked_token(access.auth_token)
            # With a given storage URL, the catalog needs no object store.
            url, region = self._options.os_storage_url, self._options.os_region_name
            if _PROJECT in url:
                url = url.replace(_PROJECT, str(access.project_id))
            elif not url:
                url, region = _storage_url(login, access, self._options)
                check_http_url(url, "storage URL")
                _check_encrypted(login, url, self._options)
            self._check_public(login, token, url, region)
            return self._access_with(token, url, _expiry(access), region)
        except UsageError as e:
            raise AuthError(f"{login.url}: {e}") from e
        except _MALFORMED:
            raise AuthError(f"{login.url}: {_NOT_AN_AUTH_RESPONSE}") from None

    def _check_public(self, login: Login, token: str, *texts: str) -> None:
        """:raises AuthError: a text that reports show repeats a secret."""
        secrets = [token, *(getattr(self._options, name) for name in self._options.HIDDEN)]
        # A shorter one may be part of a host's name by chance.
        if any(len(each) >= _NO_WORD and each in text for each in secrets for text in texts):
            raise AuthError(
                f"{login.url}: the storage URL or the region repeats the key or the token, and"
                " reports would show it"
            )

    def _access_with(
        self, token: str, url: str, expires_at: float | None, region: str = ""
    ) -> Access:
        settings = replace(self._http, urls=self._http.urls or (url,))
        return Access(
            {**asdict(settings), "region": region},
            Credentials(next(self._serials), expires_at, {"token": token}),
        )

    def _check_accepted(self, token: str) -> None:
        """Check that the store accepts a token that the user gave.

        Ignores all other failures: the run's own requests meet them too, and are retried.

        :raises AuthError: the store responds with 401.
        """
        url = self._options.os_storage_url
        try:
            with self._session() as http:
                response = http.request("HEAD", url, headers={"X-Auth-Token": token})
        except (OSError, LookupError, TypeError, ValueError, AuthError):
            return
        if response.status_code == 401:
            raise AuthError(
                f"{url}: the store refuses the token that was given (-T or OS_AUTH_TOKEN) (401):"
                " give a fresh one, or none and a user and key to log in with"
            )

    def _session(self) -> SameHostSession:
        return SameHostSession(self._http, self._timeouts_s)


def _get_access(login: Login, session: Session) -> Any:
    """keystoneauth1's AccessInfo, of any version.

    :raises AuthError: one line, without a cause: libraries quote headers in their messages.
    """
    module, _, name = PLUGINS[login.method].partition(":")
    plugin = getattr(importlib.import_module(module), name)(auth_url=login.url, **login.arguments)
    try:
        return plugin.get_access(session)
    except (ks.Unauthorized, ks.Forbidden) as e:
        raise RejectedError(f"{login.url}: {_describe_error(e, login)}") from None
    except ks.ClientException as e:
        raise AuthError(f"{login.url}: {_describe_error(e, login)}") from None
    except (OSError, *_MALFORMED) as e:
        reason = reason_of(e) if isinstance(e, OSError) else _NOT_AN_AUTH_RESPONSE
        raise AuthError(f"{login.url}: {reason}") from None


def _check_encrypted(login: Login, storage_url: str, options: LoginOptions) -> None:
    """:raises AuthError: a login by https gave a storage URL to which the token goes in clear."""
    schemes = urlsplit(login.url).scheme, urlsplit(storage_url).scheme
    if schemes == ("https", "http") and not options.insecure:
        raise AuthError(
            f"{login.url}: gives a storage URL without TLS ({storage_url}), to which the token"
            " would be sent in clear: give the right storage URL with -S, or accept it with"
            " --insecure"
        )


_NOT_AN_AUTH_RESPONSE = "the response is not one of an authentication service: is the URL right?"

_REJECTED = {
    "v2token": "token refused",
    "v3token": "token refused",
    "v3applicationcredential": "application credential refused",
}

#: Version of the method -> what to look at if user and key are refused.
_CHECK = {
    "v1": "is the user ACCOUNT:USER, and the key right? For Keystone give --auth-version 3",
    "v2": "check user, password and tenant, and whether this Keystone speaks v3",
    "v3": "check user and password, and the domains of user and project",
}

#: (version of the method, status) -> what it most likely means.
_STATUSES = {
    ("v1", 404): "no such page: is the URL right (tempauth has /auth/v1.0)? "
    "For Keystone give --auth-version 3",
    ("v2", 404): "no such page: does this Keystone speak v3? Try --auth-version 3",
    ("v3", 404): "no such page: is this Keystone's URL, and does it speak v3?",
    ("v2", 405): "this is not Keystone: for tempauth or swauth give --auth-version 1",
    ("v3", 405): "this is not Keystone: for tempauth or swauth give --auth-version 1",
    ("v1", 412): "no such page: is the URL right (tempauth has /auth/v1.0)?",
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
        rejected = _REJECTED.get(login.method)
        if rejected:
            return f"{rejected} ({status})"
        return f"user or key refused ({status}): {_CHECK[login.method[:2]]}"
    known = _STATUSES.get((login.method[:2], status))
    if known:
        return f"{known} ({status})"
    failed = ": the service has failed, or is overloaded: see its logs" if status >= 500 else ""
    return f"returned {status}{failed}"


def _expiry(access: Any) -> float | None:
    """When the token expires, Unix time; None: the service doesn't say, or nothing usable."""
    try:
        return float(access.expires.timestamp())
    except (AttributeError, LookupError, TypeError, ValueError, OverflowError, OSError):
        return None


def _checked_token(token: object) -> str:
    """Check that the token can be sent as a header value.

    :raises AuthError: the token is empty or has characters that a header can't hold.
    """
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
        raise AuthError("the token is empty or holds characters that no token has")
    return token


def _storage_url(login: Login, access: Any, options: LoginOptions) -> tuple[str, str]:
    """The object store's endpoint in the service catalog, and its region; "": it names none.

    :raises AuthError: there is none; the message lists what the catalog has.
    """
    if login.method == "v1password":
        return str(access.service_catalog.storage_url), ""
    c = options
    found = access.service_catalog.get_endpoints_data(
        service_type=c.os_service_type,
        interface=c.os_endpoint_type.split(","),
        region_name=c.os_region_name or None,
        service_name=c.os_service_name or None,
    )
    fitting = [endpoint for endpoints in found.values() for endpoint in endpoints]
    if fitting:
        return str(fitting[0].url), str(fitting[0].region_name or "")
    where = f" in region {c.os_region_name} (--os-region-name)" if c.os_region_name else ""
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
    shown = shortened("".join(c if c.isprintable() else "?" for c in text), _CATALOG_SHOWN)
    return f"the catalog has {shown}"
