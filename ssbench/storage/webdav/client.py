"""WebDAV servers at one or more URLs: authenticated requests, and what data path and admin share.

A request carries what the master issued: nothing, a header of basic authentication, or a digest.
Under digest, each process takes a nonce of its own from each server, and counts the requests of all
its connections under it (RFC 7616, 3.4: nc counts a client's requests with a nonce).

An object's name is its path below the container: slashes separate folders, which are made before
the first upload into them. Multistatus responses (RFC 4918, 13) are untrusted input.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar
from urllib.parse import quote, unquote, urlsplit

from ssbench.core.errors import StorageError, UsageError
from ssbench.core.model import ErrorKind, Timing
from ssbench.core.operations import COPY, POST, row_of
from ssbench.core.settings import Credentials, StorageSettings, typed
from ssbench.core.text import plural, printable
from ssbench.storage.http.addresses import StorageUrl
from ssbench.storage.http.connection import Upload
from ssbench.storage.http.pool import ConnectionPool
from ssbench.storage.http.response import LISTING_MAX, Collector, XmlReader
from ssbench.storage.http.store import HttpClient
from ssbench.storage.options import HttpSettings
from ssbench.storage.webdav.digest import DigestCredentials, DigestSigner, digest_challenge

_STATUSES_MAX = 100  #: of one response
_SLASHES = re.compile("/{2,}")
_STATUS = re.compile(r"HTTP/\S+ ([1-5][0-9]{2})\b")
_SIZE = re.compile(r"[0-9]{1,18}")
_RESPONSE, _COLLECTION = "DAV: response", "DAV: collection"
_HREF, _SIZE_NAME, _STATUS_NAME = "DAV: href", "DAV: getcontentlength", "DAV: status"


def plain_path(quoted: str) -> str:
    """The unquoted path, with one slash where some servers (davrods) give several."""
    path = unquote(quoted)
    return _SLASHES.sub("/", path) if "//" in path else path


#: Takes a member: path (as of ``plain_path``), size in bytes (0 if not stated), whether it is a
#: collection, and the statuses of the resource, or of groups of its properties.
TakeMember = Callable[[str, int, bool, tuple[int, ...]], object]


class Multistatus(XmlReader):
    """A response with members. Only ``finish`` raises.

    :param found: called with each member; may raise ValueError to reject the whole.
    """

    def __init__(self, found: TakeMember, limit: int = LISTING_MAX) -> None:
        super().__init__(
            {_RESPONSE}, {_HREF, _SIZE_NAME, _STATUS_NAME, _COLLECTION}, limit, has_namespaces=True
        )
        self._found = found
        self._path, self._size, self._is_collection = "", 0, False
        self._statuses: tuple[int, ...] = ()

    def finish(self, timing: Timing) -> None:
        """Check, after all data was fed, that it is a whole multistatus.

        :param timing: of the response, for the error.
        :raises StorageError: PROTOCOL: it isn't.
        """
        if not self._is_valid() or self.root != "DAV: multistatus":
            detail = "the store's response is not a valid multistatus of WebDAV"
            raise StorageError(ErrorKind.PROTOCOL, detail, status=timing.status, timing=timing)

    def value(self, name: str, depth: int, text: str) -> None:
        text = text.strip()
        if name == _HREF:
            if depth == 1 and not self._path:
                self._path = plain_path(text if text[:1] == "/" else urlsplit(text).path)
        elif name == _STATUS_NAME:
            status = _STATUS.match(text)
            if status is None or len(self._statuses) >= _STATUSES_MAX:
                raise ValueError("not a status, or too many")
            self._statuses += (int(status[1]),)
        elif name == _COLLECTION:
            self._is_collection = True
        elif text:  # properties that a resource lacks are empty
            if not _SIZE.fullmatch(text):
                raise ValueError("not a size")
            self._size = int(text)

    def take(self, name: str) -> None:
        if not self._path:
            raise ValueError("a response without a path")
        self._found(self._path, self._size, self._is_collection, self._statuses)
        self._path, self._size, self._is_collection = "", 0, False
        self._statuses = ()


#: The object in a collection that says that ssbench made it; it holds the id of that run.
MARKER = ".ssbench"
#: The properties that listings ask for.
PROPFIND = (
    b'<?xml version="1.0" encoding="utf-8"?><propfind xmlns="DAV:"><prop><resourcetype/>'
    b"<getcontentlength/></prop></propfind>"
)
XML_TYPE = "Content-Type: application/xml\r\n"
#: Methods that servers may lack -> by the operation that needs one.
_NEEDED: Mapping[int, str] = {POST: "PROPPATCH", COPY: "COPY"}
_UNSAFE = re.compile(r'[\x00-\x1f"#%*:<>?\\|]')  #: in names
_NONCES = 3  #: that one operation may use, one after another

P = ParamSpec("P")
T = TypeVar("T")


class WebdavSettings(HttpSettings, frozen=True):
    methods: tuple[str, ...] = ()  #: that all servers allow; empty: they don't say


class StaleNonce(StorageError):
    """The server wants the request again under a new nonce, which it sent: no failure yet."""


def under_fresh_nonce(call: Callable[P, T]) -> Callable[P, T]:
    """Repeat a call that raises StaleNonce."""

    @wraps(call)
    def repeated(*args: P.args, **kwargs: P.kwargs) -> T:
        for _ in range(_NONCES - 1):
            try:  # cheaper than suppress()
                return call(*args, **kwargs)
            except StaleNonce:
                continue
        return call(*args, **kwargs)

    return repeated


class Site:
    """One server, and how requests to it are authenticated."""

    def __init__(self, url: StorageUrl) -> None:
        scheme = "https" if url.endpoint.tls else "http"
        self.base = url.base  #: the path of the collection, which ends with a slash
        self.root = f"{scheme}://{url.netloc}{url.base}"  #: the same as a whole URL
        self.plain_headers = f"Host: {url.netloc}\r\nUser-Agent: ssbench\r\n"
        self.headers = self.plain_headers  #: of every request
        self.digest: DigestCredentials | None = None  #: None: requests are not signed
        self.signer: DigestSigner | None = None  #: None: there is no nonce yet

    def authenticate(self, given: Mapping[str, Any]) -> None:
        """Use what the master issued for this server."""
        digest = given.get("digest")
        secret = given.get("basic", "")
        basic = f"Authorization: Basic {secret}\r\n" if secret else ""
        self.headers = self.plain_headers + basic
        self.digest = typed(DigestCredentials, digest) if digest else None
        self.signer = None

    def head(self, method: str, path: str, lines: str) -> bytes:
        """The head of a request, signed now. Without a nonce it is not: the server then sends one.

        :param lines: further header lines.
        """
        signature = b"" if self.signer is None else self.signer.header(method, path)
        head = f"{method} {path} HTTP/1.1\r\n{self.headers}{lines}".encode()
        return b"%s%s\r\n" % (head, signature)

    def renew_nonce(self, used: DigestSigner | None, headers: Mapping[str, str]) -> bool:
        """Take the nonce of a response with status 401; False if it rejects the credentials.

        :param used: the signer of the request.
        """
        challenge = digest_challenge(headers.get("www-authenticate", ""))
        if self.digest is None or challenge is None or not self.digest.answer(challenge):
            return False
        is_replaced = used is not self.signer  # another user took a nonce meanwhile
        if not is_replaced:
            self.signer = DigestSigner(self.digest, challenge, secrets.token_hex(16))
        return is_replaced or used is None or challenge.stale


def check_names(names: Sequence[str], timing: Timing) -> None:
    """:raises StorageError: PROTOCOL: a name is there twice, in whatever order they are."""
    twice = len(names) - len(set(names))
    if twice:
        detail = f"a listing with {plural(twice, 'name')} more than once"
        raise StorageError(ErrorKind.PROTOCOL, detail, status=timing.status, timing=timing)


class WebdavClient(HttpClient):
    """Sends requests. Paths are quoted and relative to the URLs.

    :param seed: of the choice among several URLs.
    :raises UsageError: a URL, certificate or name is invalid, or the run needs what WebDAV lacks.
    """

    no_url = "no URL of a WebDAV collection: give one with --url"

    def __init__(self, settings: StorageSettings, seed: int | None = None) -> None:
        http = typed(WebdavSettings, settings.store)
        _check(settings, http.methods)
        super().__init__(settings, seed, http)
        self._sites = [Site(url) for url in self._urls]
        self._extra = ""  #: header lines of every request
        #: The quoted path of a name, and the name of a path that was unquoted.
        self._path_of: Callable[[str], str] = quote if settings.exact_names else path_of
        self._name_of: Callable[[str], str] = str if settings.exact_names else unquote
        self.set_credentials(settings.newest)

    def set_credentials(self, credentials: Credentials) -> None:
        for site, given in zip(
            self._sites, credentials.payload.get("access") or [{}] * self._url_count, strict=True
        ):
            site.authenticate(given)
        self._serial = credentials.serial

    def _send(
        self,
        method: str,
        path: str,
        deadline_ns: int,
        upload: Upload | None = None,
        collector: Collector | None = None,
        headers: str = "",
        longest: int = 0,
        destination: str = "",
        accepted: Collection[int] = (),
    ) -> Timing:
        """Send a request; the Timing of the response.

        :param headers: further lines, each with its CRLF.
        :param longest: bytes of the longest object that the response may carry.
        :param destination: path of what a COPY makes; "": there is none.
        :param accepted: statuses beside 2xx that are no error.
        :raises StaleNonce: it must be sent again.
        :raises StorageError: any other status, or there was no response.
        """
        url = 0 if self._url_count == 1 else int(self._random() * self._url_count)
        site, pool = self._sites[url], self._pools[url]
        if upload is not None:
            headers += f"Content-Length: {upload.size}\r\n"
        if destination:
            headers += f"Destination: {site.root}{destination}\r\nOverwrite: F\r\n"
        if site.digest is not None and site.signer is None:  # a body would have to be sent twice
            self._take_nonce(site, pool)
        used = site.signer
        head = partial(site.head, method, f"{site.base}{path}", self._extra + headers)
        timing = pool.request(head(), upload, deadline_ns, collector, longest, head)
        if timing.status == 401 and site.renew_nonce(used, pool.shared.error_headers):
            raise StaleNonce(
                ErrorKind.UNAUTHORIZED,
                f"{pool.name}: {method} returned 401 {_NONCES} times, each with a new nonce",
                status=401,
                timing=timing._replace(bytes_moved=0),
            )
        if 200 <= timing.status < 300 or timing.status in accepted:
            return timing
        raise self.status_error(method, timing)

    def _propfind(
        self, path: str, response: Collector, deadline_ns: int, depth: int = 1,
        properties: bytes = PROPFIND,
    ) -> Timing:  # fmt: skip
        """:raises StorageError: as ``_send``; or the response is no multistatus."""
        timing = self._send(
            "PROPFIND", path, deadline_ns, Upload(len(properties), properties), response,
            f"Depth: {depth}\r\n{XML_TYPE}",
        )._replace(bytes_moved=0)  # fmt: skip
        if timing.status != 207:
            raise StorageError(
                ErrorKind.STATUS,
                f"{self._pools[timing.url].name}: PROPFIND returned {timing.status}, not 207",
                status=timing.status,
                timing=timing,
            )
        return timing

    def _members(
        self, path: str, take: Callable[[str, int], object], limit: int = LISTING_MAX
    ) -> Multistatus:
        """A parser of a collection's listing.

        :param path: of the collection, quoted; "" or with a slash at its end.
        :param take: called with name and size of each entry but our marker; names of folders end
            with a slash.
        :param limit: maximum length of the listing in bytes.
        """
        bases = tuple({plain_path(site.base + path) for site in self._sites})

        def take_member(path: str, size: int, is_collection: bool, _: object) -> None:
            for base in bases:
                if path.startswith(base):
                    break
            else:
                if f"{path}/" not in bases:
                    raise ValueError("a path outside of the collection")
                return
            name = path[len(base) :].rstrip("/")
            if "/" in name:
                raise ValueError("more than one level")
            if name and name != MARKER:
                name = self._name_of(name)
                take(f"{name}/" if is_collection else name, size)

        return Multistatus(take_member, limit)

    def _take_nonce(self, site: Site, pool: ConnectionPool) -> None:
        """Ask a server for a nonce. Raises nothing."""
        head = f"PROPPATCH {site.base}{unused_path()} HTTP/1.1\r\n{site.headers}\r\n"
        with suppress(StorageError):
            if pool.request(head.encode()).status == 401:
                site.renew_nonce(None, pool.shared.error_headers)

    def _make_collection(self, path: str, deadline_ns: int) -> Timing:
        """MKCOL; a status of 405 means that it is there.

        Servers may fail if another client makes it at this moment (wsgidav does, with 500). So a
        failure counts if a second request fails, too.
        """
        try:
            return self._send("MKCOL", f"{path}/", deadline_ns, accepted=(405,))
        except StorageError as error:
            if error.status < 500:
                raise
        return self._send("MKCOL", f"{path}/", deadline_ns, accepted=(405,))


def _check(settings: StorageSettings, methods: tuple[str, ...]) -> None:
    """Refuse what the servers lack, and names that no path can have.

    :raises UsageError: says what is wrong.
    """
    if settings.placement:
        raise UsageError("WebDAV has no storage policies")
    for number in {number for size in settings.sizes for number, _ in size.profile}:
        method = _NEEDED.get(number)
        if method and methods and method not in methods:
            raise UsageError(
                f"the server has no {method}, which the operation {row_of(number).name} needs"
            )
    if "/" in settings.container_base or not settings.container_base.strip("."):
        raise UsageError(
            f'container_base "{printable(settings.container_base)}": a collection of WebDAV can\'t'
            " have a slash in its name"
        )
    for size in settings.sizes:
        if {"", ".", ".."} & {*f"{size.name}_".split("/")}:
            raise UsageError(
                f'size class "{printable(size.name)}": a path of WebDAV can\'t have segments that'
                ' are empty, "." or ".."'
            )


def unused_path() -> str:
    """A path without a resource. A PROPPATCH of it changes nothing, and shows how the server
    authenticates writes."""
    return f"{MARKER}-{secrets.token_hex(16)}"


def path_of(name: str) -> str:
    """The quoted path of a name of ours. Characters that file systems or servers treat in ways of
    their own are quoted twice: ``?`` in a Destination header, for one, ends the path for some. An
    unquoted path is unquoted once more to get its name."""
    return quote(_UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", name), safe="/")
