"""A Swift account at one or more storage URLs: authenticated requests."""

from __future__ import annotations

import random
from collections.abc import Callable
from time import perf_counter_ns
from urllib.parse import quote

from ssbench.core.errors import StorageError, UsageError
from ssbench.core.model import Timing
from ssbench.core.naming import LETTERS_HEADER, RUN_HEADER
from ssbench.core.settings import StorageSettings
from ssbench.storage.httpbody import Collector, StreamingCollector
from ssbench.storage.httpconn import Upload
from ssbench.storage.storage_url import open_pools, parse_storage_url

RESPONSE_MAX = 8 * 1024 * 1024  #: bytes of a response body that is kept
_LISTING_MAX = 64 * 1024 * 1024  #: bytes of a listing page; parsed as it arrives
_TRANS_ID_EXTRA_MAX = 32  #: characters that Swift appends to its transaction ids
#: Deadline of an administrative request, in network timeouts: a bulk delete takes minutes, and
#: sends blanks meanwhile.
_ADMIN_TIMEOUTS = 15


class Account:
    """Sends requests. Paths are quoted and relative to the account.

    Pools and header suffixes are public, to save the driver's operations a call. ``set_token``
    updates the lists of header suffixes in place, so that callers may keep references.

    :param seed: of the choice among several storage URLs.
    :raises UsageError: a storage URL, token or certificate is invalid.
    """

    def __init__(self, settings: StorageSettings, seed: int | None = None) -> None:
        if not settings.storage_urls:
            raise UsageError("no storage URL: authenticate, or give one with -S")
        self.sites = [parse_storage_url(url) for url in settings.storage_urls]
        self.pools = open_pools(settings, self.sites)
        self.random = random.Random(seed).random  # nosec B311 # picks storage URLs
        self.header_suffixes: list[
            str
        ] = []  #: per storage URL: the end of the request line, and headers
        self.upload_header_suffixes: list[str] = []  #: the same for uploads
        self.serial = 0  #: of the token
        self._token = ""  # nosec B105 # none yet
        self._settings = settings
        self._admin_timeout_ns = int(_ADMIN_TIMEOUTS * settings.network_timeout_s * 1e9)
        self.set_token(settings.token, settings.token_serial)

    def __repr__(self) -> str:
        return f"<Account {self.pools!r}>"

    def set_token(self, token: str, serial: int) -> None:
        """Use this token for all further requests.

        :raises UsageError: the token can't be sent in a header.
        """
        if not (token.isascii() and token.isprintable()):
            raise UsageError("the token has characters that can't be sent in a header")
        self.serial = serial
        self._token = token
        who = [name for name in (self._settings.run_id, self._settings.worker_id) if name]
        extra = quote("-".join(who), safe="")[:_TRANS_ID_EXTRA_MAX]
        self.header_suffixes[:] = [
            f" HTTP/1.1\r\nHost: {site.netloc}\r\nUser-Agent: ssbench\r\nX-Auth-Token: {token}\r\n"
            f"X-Trans-Id-Extra: {extra}\r\n"
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

    # Requests -----------------------------------------------------------------------------

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

    def status_error(self, method: str, timing: Timing) -> StorageError:
        """The error for an unsuccessful response. Call it before any other wait."""
        return self.pools[timing.url].status_error(method, timing, self._token)

    # Administrative requests, with a long deadline -----------------------------------------

    def request_checked(
        self,
        method: str,
        path: str,
        collector: Collector,
        headers: str = "",
        body: bytes | None = None,
    ) -> Timing:
        """Send a request and check its status.

        :raises StorageError: the status is not 2xx, or there was no response.
        """
        timing = self.request(method, path, collector, self._admin_deadline_ns(), headers, body)
        if timing.status // 100 != 2:
            raise self.status_error(method, timing)
        return timing

    def listing(self, path: str, feed: Callable[[memoryview], None]) -> None:
        """GET a listing and pass its body to ``feed`` as it arrives, an error page too.

        :raises StorageError: the request fails.
        """
        self.request_checked("GET", path, StreamingCollector(_LISTING_MAX, feed))

    def bulk_delete(self, lines: bytes) -> bytes:
        """Delete the objects that the lines name; returns the body of the response."""
        collector = Collector(RESPONSE_MAX)
        headers = "Content-Type: text/plain\r\nAccept: application/json\r\n"
        self.request_checked("POST", "?bulk-delete", collector, headers, lines)
        return bytes(collector.body)

    def delete(self, path: str) -> bool:
        """DELETE; returns False if there was nothing to delete."""
        try:
            self.request_checked("DELETE", path, Collector(RESPONSE_MAX))
        except StorageError as error:
            if error.status != 404:
                raise
            return False
        return True

    def info(self) -> bytes | None:
        """The body of /info, requested without a token; None if there is none."""
        collector = Collector(RESPONSE_MAX)
        netloc = self.sites[0].netloc
        head = f"GET /info HTTP/1.1\r\nHost: {netloc}\r\nUser-Agent: ssbench\r\n\r\n"
        timing = self.pools[0].request(head.encode(), None, self._admin_deadline_ns(), collector)
        return bytes(collector.body) if timing.status == 200 else None

    def _admin_deadline_ns(self) -> int:
        return perf_counter_ns() + self._admin_timeout_ns


def _upload_headers(settings: StorageSettings) -> str:
    headers = "Content-Type: application/octet-stream\r\n"
    if settings.run_id:
        headers += f"{RUN_HEADER}: {quote(settings.run_id, safe='')}\r\n"
    if settings.delete_after_s is not None:
        headers += f"X-Delete-After: {settings.delete_after_s}\r\n"
    if settings.compressible:
        headers += f"{LETTERS_HEADER}: yes\r\n"
    return headers
