"""A Swift account at one or more storage URLs: authenticated requests."""

from __future__ import annotations

import random
from collections.abc import Sequence
from copy import copy
from urllib.parse import quote, unquote

from ssbench.core.errors import StorageError, UsageError
from ssbench.core.model import Timing
from ssbench.core.naming import LETTERS_HEADER, RUN_HEADER
from ssbench.core.settings import Credentials, StorageSettings, typed
from ssbench.storage.httpbody import Collector
from ssbench.storage.httpconn import Upload
from ssbench.storage.httpstore import RESPONSE_MAX, AccountClient
from ssbench.storage.options import HttpSettings
from ssbench.storage.sites import open_pools, parse_storage_url
from ssbench.storage.swiftparse import bulk_error, bulk_result

BULK_DELETE = "?bulk-delete"  #: of a POST to the account; the body has a name a line
BULK_HEADERS = "Content-Type: text/plain\r\nAccept: application/json\r\n"
_TRANS_ID_EXTRA_MAX = 32  #: characters that Swift appends to its transaction ids


class Account:
    """Sends requests. Paths are quoted and relative to the account.

    Pools and header suffixes are public, to save the driver's operations a call.
    ``set_credentials`` updates the lists of header suffixes in place: callers may keep references.

    :param seed: of the choice among several storage URLs.
    :raises UsageError: a storage URL, token or certificate is invalid.
    """

    def __init__(self, settings: StorageSettings, seed: int | None = None) -> None:
        http = typed(HttpSettings, settings.store)
        if not http.urls:
            raise UsageError("no storage URL: authenticate, or give one with -S")
        self.sites = [parse_storage_url(url) for url in http.urls]
        self.pools = open_pools(http, settings, self.sites)
        self.random = random.Random(seed).random  # nosec B311 # picks storage URLs
        #: Per storage URL: the end of the request line, and headers.
        self.header_suffixes: list[str] = []
        self.upload_header_suffixes: list[str] = []  #: the same for uploads
        self.serial = 0  #: of the token
        self._extra = ""  # header lines of every request
        self._views: list[Account] = []  # with further header lines
        self._token = ""  # nosec B105 # none yet
        self._settings = settings
        self.set_credentials(settings.newest)

    def __repr__(self) -> str:
        return f"<Account {self.pools!r}>"

    def set_credentials(self, credentials: Credentials) -> None:
        """Use this token for all further requests.

        :raises UsageError: the token can't be sent in a header.
        """
        token = str(credentials.payload.get("token", ""))
        if not (token.isascii() and token.isprintable()):
            raise UsageError("the token has characters that can't be sent in a header")
        for account in (self, *self._views):
            account._use(token, credentials.serial)

    def with_headers(self, lines: str) -> Account:
        """The same account, with further header lines in every request."""
        view = copy(self)
        view._extra = lines
        view.header_suffixes, view.upload_header_suffixes = [], []
        view._use(self._token, self.serial)
        self._views.append(view)
        return view

    def _use(self, token: str, serial: int) -> None:
        self.serial, self._token = serial, token
        who = [name for name in (self._settings.run_id, self._settings.worker_id) if name]
        extra = quote("-".join(who), safe="")[:_TRANS_ID_EXTRA_MAX]
        self.header_suffixes[:] = [
            f" HTTP/1.1\r\nHost: {site.netloc}\r\nUser-Agent: ssbench\r\nX-Auth-Token: {token}\r\n"
            f"X-Trans-Id-Extra: {extra}\r\n{self._extra}"
            for site in self.sites
        ]
        uploads = _upload_headers(self._settings)
        self.upload_header_suffixes[:] = [tail + uploads for tail in self.header_suffixes]

    def connect(self, count: int) -> None:
        """Open up to ``count`` connections to each storage URL; raises nothing."""
        for pool in self.pools:
            pool.connect(count)

    def close(self) -> None:
        """Close all connections."""
        for pool in self.pools:
            pool.close()

    def request(
        self,
        method: str,
        path: str,
        collector: Collector,
        deadline_ns: int,
        headers: str = "",
        body: bytes | None = None,
    ) -> Timing:
        """Send a request; the collector gets the response, whatever its status."""
        url = 0 if len(self.pools) == 1 else int(self.random() * len(self.pools))
        upload = None
        if body is not None:
            headers += f"Content-Length: {len(body)}\r\n"
            upload = Upload(len(body), body)
        base = self.sites[url].base
        if path.startswith("?"):
            base = base.rstrip("/")
        head = f"{method} {base}{path}{self.header_suffixes[url]}{headers}\r\n".encode()
        return self.pools[url].request(head, upload, deadline_ns, collector)

    def bulk_delete(self, paths: Sequence[str], deadline_ns: int) -> Timing:
        """Delete many objects by one request; ``Timing.items`` counts those that were there.

        :raises StorageError: not all were deleted. Its timing has their statuses, unless the
            request failed as a whole.
        """
        response = Collector(RESPONSE_MAX)
        timing = self.request(
            "POST", BULK_DELETE, response, deadline_ns, BULK_HEADERS, "\n".join(paths).encode()
        )
        timing = timing._replace(bytes_moved=0)
        if not 200 <= timing.status < 300:
            raise self.status_error("POST", timing)
        try:
            result = bulk_result(bytes(response.body))
        except StorageError as error:
            error.timing = timing
            raise
        if not result.failures and result.deleted + result.not_found == len(paths):
            return timing._replace(items=result.deleted)
        raise bulk_error(result, [unquote(path) for path in paths], timing)

    def status_error(self, method: str, timing: Timing) -> StorageError:
        """The error for an unsuccessful response. Call it before any other wait."""
        return self.pools[timing.url].status_error(method, timing, self._token)


class SwiftClient(AccountClient[Account]):
    """Opened with the settings of a store and the seed of the choice among its URLs."""

    def __init__(self, settings: StorageSettings, seed: int | None = None) -> None:
        super().__init__(Account(settings, seed))


def _upload_headers(settings: StorageSettings) -> str:
    headers = "Content-Type: application/octet-stream\r\n"
    if settings.run_id:
        headers += f"{RUN_HEADER}: {quote(settings.run_id, safe='')}\r\n"
    if settings.delete_after_s is not None:
        headers += f"X-Delete-After: {settings.delete_after_s}\r\n"
    if settings.compressible:
        headers += f"{LETTERS_HEADER}: yes\r\n"
    return headers
