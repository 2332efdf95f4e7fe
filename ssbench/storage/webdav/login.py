"""The credentials provider of WebDAV: finds out how each server authenticates, in the master.

The master answers the first challenge, since HA1 depends on its realm and algorithm. Workers get
HA1, or the header of basic authentication, never the password; both are as good as the password.
"""

from __future__ import annotations

import os
import secrets
import threading
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import requests
from msgspec.structs import asdict

from ssbench.core.errors import AuthError, StorageError, UsageError
from ssbench.core.hiding import Secrets
from ssbench.core.model import Timing
from ssbench.core.settings import Credentials
from ssbench.core.text import printable
from ssbench.host.files import read_text
from ssbench.storage.base import Access
from ssbench.storage.http.session import SameHostSession, check_not_redirected, reason_of
from ssbench.storage.options import (
    INSECURE_NOTE,
    StoreOptions,
    http_settings,
    is_confidential,
    option_values,
    scheme_notes,
)
from ssbench.storage.webdav.client import (
    PROPFIND,
    Multistatus,
    WebdavSettings,
    plain_path,
    unused_path,
)
from ssbench.storage.webdav.digest import (
    DigestSigner,
    digest_challenge,
    digest_credentials,
    parse_challenges,
)
from ssbench.storage.webdav.options import OPTIONS

#: What workers get for one server (as Site.authenticate takes it), and the methods it allows.
ServerAccess = tuple[dict[str, Any], frozenset[str]]

_REFUSALS = {
    401: "the server rejected the user or password",
    403: "this user may not read the collection",
    404: "there is no such collection: make it, or correct --url",
}

_SHOWN = 200  #: characters of a path


class WebdavLogin:
    """Implements ``ssbench.storage.base.CredentialsProvider``. Thread-safe.

    :raises UsageError: the options are incomplete or invalid; nothing was sent.
    """

    def __init__(self, options: StoreOptions) -> None:
        values = option_values(OPTIONS, options)
        urls = [f"{url.rstrip('/')}/" for url in values.get("urls", ())]
        if not urls:
            raise UsageError("--storage webdav: give the URL of a collection with --url")
        self._http = http_settings(urls, values)
        self._users = [user_of(url, values, options.environ) for url in urls]
        self._secrets = Secrets({"basic": [_basic(*each) for each in self._users]})
        self._session = partial(SameHostSession, self._http, options.timeouts_s)
        notes = [INSECURE_NOTE] if self._http.insecure else []
        self.notes = [*scheme_notes(values["urls"]), *notes]
        self.where = urls[0]
        self._serials = count(1)
        self._lock = threading.Lock()
        self._is_public = False  #: no server asks for a user

    def __repr__(self) -> str:
        return f"<WebdavLogin at {self.where}>"

    def log_in(self) -> Access:
        with self._lock, self._secrets.hidden():
            found = self._probe()
            self._is_public = not any(issued for issued, _ in found)
            settings = WebdavSettings(**asdict(self._http), methods=_allowed(found))
            return Access(asdict(settings), self._credentials(found), not self._is_public)

    def renew(self) -> Credentials:
        with self._lock, self._secrets.hidden():
            found = self._probe()
            if self._is_public and any(issued for issued, _ in found):
                # Whether workers may have credentials was decided at the login.
                raise AuthError(f"{self.where}: asks for a user now, and did not at first")
            return self._credentials(found)

    def _credentials(self, found: Sequence[ServerAccess]) -> Credentials:
        issued = [issued for issued, _ in found]
        return Credentials(next(self._serials), None, {"access": issued})

    def _probe(self) -> list[ServerAccess]:
        with self._session() as http:
            return [
                _probe_server(http, url, *user)
                for url, user in zip(self._http.urls, self._users, strict=True)
            ]


def _probe_server(http: requests.Session, url: str, user: str, password: str) -> ServerAccess:
    """Find out how a server authenticates writes, and check that it accepts the user.

    :raises AuthError: it rejects us, or is not a collection of WebDAV.
    :raises UsageError: the password would be sent in clear.
    """
    issued: dict[str, Any] = {}
    signer: DigestSigner | None = None
    headers: dict[str, str] = {}
    # PROPPATCH: servers with public reads demand a user for it, and it can't delete anything.
    response = _ask(http, "PROPPATCH", url, {}, name=unused_path())
    if response.status_code == 401:
        offered = response.headers.get("WWW-Authenticate", "")
        if not user:
            raise AuthError(
                f"{url}: asks for user and password (401): set WEBDAV_USER and WEBDAV_PASSWORD, or"
                " put them into .netrc"
            )
        challenge = digest_challenge(offered)
        if challenge is not None:
            credentials = digest_credentials(challenge, user, password)
            signer = DigestSigner(credentials, challenge, secrets.token_hex(16))
            issued["digest"] = asdict(credentials)
        elif any(each.scheme == "basic" for each in parse_challenges(offered)):
            if not is_confidential(url):
                raise UsageError(
                    f"{url}: asks for basic authentication, which would send the password in clear:"
                    " give an https URL, or let the server ask for digest"
                )
            issued["basic"] = _basic(user, password)
            headers["Authorization"] = f"Basic {issued['basic']}"
        else:
            raise AuthError(
                f"{url}: offers no authentication that ssbench knows: basic, or digest with MD5 or"
                " SHA-256 and qop=auth"
            )
    response = _ask(
        http, "PROPFIND", url, {**headers, "Depth": "0", "Content-Type": "application/xml"}, signer
    )
    status = response.status_code
    if status != 207:
        reason = _REFUSALS.get(status, f"PROPFIND returned {status}: is it a WebDAV collection?")
        raise AuthError(f"{url}: {reason}{f' ({status})' * (status in _REFUSALS)}")
    _check_path(url, response.content)
    allow = _ask(http, "OPTIONS", url, headers, signer).headers.get("Allow", "")
    return issued, frozenset(method.strip().upper() for method in allow.split(",") if method)


def _basic(user: str, password: str) -> str:
    return b64encode(f"{user}:{password}".encode()).decode()


def _ask(
    http: requests.Session,
    method: str,
    url: str,
    headers: dict[str, str],
    signer: DigestSigner | None = None,
    name: str = "",
) -> requests.Response:
    """Send a request.

    :param name: of something in the collection; "": the collection itself.
    :raises AuthError: there is no response, or a redirect, which is never followed.
    """
    if signer is not None:
        target = requests.Request(method, url).prepare().path_url
        _, _, value = signer.header(method, target).decode().strip().partition(": ")
        headers = {**headers, "Authorization": value}
    body = PROPFIND if method == "PROPFIND" else None
    try:
        response = http.request(method, f"{url}{name}", headers=headers, data=body)
    except (requests.RequestException, OSError, ValueError) as error:
        raise AuthError(f"{url}: {reason_of(error)}") from None
    check_not_redirected(response, name)
    return response


def _check_path(url: str, body: bytes) -> None:
    """Check that the response to a PROPFIND names the collection as the URL does: listings could
    not be read otherwise, and what a run creates would stay.

    :raises AuthError: it doesn't.
    """
    paths: list[str] = []
    response = Multistatus(lambda path, *_: paths.append(path.rstrip("/")))
    response.feed(body)
    try:
        response.finish(Timing(0, 0, 0, 0, 207))
    except StorageError as error:
        raise AuthError(f"{url}: {error.detail}: is it a WebDAV collection?") from None
    asked = plain_path(urlsplit(url).path).rstrip("/")
    if asked not in paths:
        named = printable(f"{paths[0]}/"[:_SHOWN]) if paths else "nothing"
        raise AuthError(
            f"{url}: PROPFIND of {asked}/ returned {named}: something in between, such as a proxy,"
            " changes paths, so no listing would match and nothing could be cleaned up: give the"
            " URL under which the server itself knows the collection"
        )


def _allowed(found: Sequence[ServerAccess]) -> tuple[str, ...]:
    """The methods that all servers allow; empty if one doesn't say."""
    stated = [methods for _, methods in found]
    return tuple(sorted(frozenset.intersection(*stated))) if all(stated) else ()


def user_of(url: str, values: Mapping[str, Any], environ: Mapping[str, str]) -> tuple[str, str]:
    """User and password for a server; "" where there are none.

    :param values: of ``OPTIONS``.
    :raises UsageError: one is missing, or the file can't be read. The message shows no secret.
    """
    user, password = values.get("webdav_user", ""), values.get("webdav_password", "")
    if password and not user:
        raise UsageError("there is a password, and no user: give --webdav-user (WEBDAV_USER)")
    if not password:
        user, password = _from_netrc(urlsplit(url).hostname or "", user, values, environ)
    if user and not password:
        raise UsageError(
            "there is a user, and no password: set WEBDAV_PASSWORD, or put it into .netrc"
        )
    if not (user.isprintable() and password.isprintable()):
        raise UsageError("user or password contains control characters")
    return user, password


def _from_netrc(
    host: str, user: str, values: Mapping[str, Any], environ: Mapping[str, str]
) -> tuple[str, str]:
    import netrc  # few runs need it

    given = values.get("netrc", "")
    if not given and not environ.get("HOME"):
        return user, ""
    path = given or f"{environ['HOME']}/.netrc"
    if not given and not os.path.exists(path):
        return user, ""
    read_text(path, "--netrc" if given else "")
    try:
        found = netrc.netrc(path).authenticators(host)
    except netrc.NetrcParseError as error:  # its text may show a password
        raise UsageError(f"{path}: line {error.lineno} is not valid") from None
    if found is None or (user and found[0] != user):
        return user, ""
    return found[0] or user, found[2] or ""
