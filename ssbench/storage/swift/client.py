"""A Swift account at one or more storage URLs: authenticated requests."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TypeVar
from urllib.parse import quote, unquote

from ssbench.core.content import content_mark
from ssbench.core.errors import StorageError, UsageError
from ssbench.core.hiding import Secrets
from ssbench.core.model import Timing
from ssbench.core.naming import CONTENT_HEADER, RUN_HEADER
from ssbench.core.settings import Credentials, StorageSettings, typed
from ssbench.storage.http.addresses import open_pools, parse_storage_url
from ssbench.storage.http.connection import Upload
from ssbench.storage.http.response import Collector
from ssbench.storage.http.store import HttpClient, is_initial
from ssbench.storage.options import HttpSettings
from ssbench.storage.swift.bodies import BulkResult, bulk_error, bulk_result

_BULK_DELETE = "?bulk-delete"  #: of a POST to the account; the body has a name a line
_BULK_HEADERS = "Content-Type: text/plain\r\nAccept: application/json\r\n"
_TRANS_ID_EXTRA_MAX = 32  #: characters that Swift appends to its transaction ids

Client = TypeVar("Client", bound="SwiftClient")


class SwiftClient(HttpClient):
    """Sends requests. Paths are quoted and relative to the account.

    :param seed: of the choice among several storage URLs.
    :raises UsageError: a storage URL, token or certificate is invalid.
    """

    def __init__(self, settings: StorageSettings, seed: int | None = None) -> None:
        http = typed(HttpSettings, settings.store)
        if not http.urls:
            raise UsageError("no storage URL: authenticate, or give one with -S")
        self._sites = [parse_storage_url(url) for url in http.urls]
        super().__init__(settings, seed, open_pools(http, settings, self._sites))
        #: Per storage URL: the end of the request line, and headers.
        self._suffixes: list[str] = []
        self._upload_suffixes: list[str] = []  #: the same for uploads
        self._extra = self._extra_of_uploads = ""  # header lines of every request, and of uploads
        self._views: list[SwiftClient] = []  # with further header lines
        self._token = ""  # nosec B105 # none yet
        self.set_credentials(settings.newest)

    def set_credentials(self, credentials: Credentials) -> None:
        """Use this token for all further requests.

        :raises UsageError: the token can't be sent in a header.
        """
        token = str(credentials.payload.get("token", ""))
        if not (token.isascii() and token.isprintable()):
            raise UsageError("the token has characters that can't be sent in a header")
        for client in (self, *self._views):
            client._use(token, credentials.serial)

    def _with_headers(self: Client, lines: str, uploads: str) -> Client:
        view = copy(self)
        view._extra, view._extra_of_uploads = lines, uploads
        view._use(self._token, self._serial)
        self._views.append(view)
        return view

    def _use(self, token: str, serial: int) -> None:
        self._serial, self._token = serial, token
        self._secrets = Secrets({"token": token})
        who = [name for name in (self._settings.run_id, self._settings.worker_id) if name]
        extra = quote("-".join(who), safe="")[:_TRANS_ID_EXTRA_MAX]
        self._suffixes = [
            f" HTTP/1.1\r\nHost: {site.netloc}\r\nUser-Agent: ssbench\r\nX-Auth-Token: {token}\r\n"
            f"X-Trans-Id-Extra: {extra}\r\n{self._extra}"
            for site in self._sites
        ]
        uploads = _upload_headers(self._settings) + self._extra_of_uploads
        self._upload_suffixes = [suffix + uploads for suffix in self._suffixes]

    def request(
        self,
        method: str,
        path: str,
        collector: Collector | None = None,
        deadline_ns: int | None = None,
        headers: str = "",
        body: Upload | bytes | None = None,
        *,
        is_upload: bool = False,
        missing_ok: bool = False,
    ) -> Timing:
        """Send a request; the collector gets the response.

        :param deadline_ns: None: that of an administrative request.
        :param is_upload: with the header lines of an upload.
        :param missing_ok: a status of 404 is no error.
        :raises StorageError: the status is not 2xx, or there was no response.
        """
        url = 0 if self._url_count == 1 else self.any_url()
        if deadline_ns is None:
            deadline_ns = self._admin_deadline_ns()
        if body is not None:
            body = Upload(len(body), body) if isinstance(body, bytes) else body
            headers += f"Content-Length: {body.size}\r\n"
        base = self._sites[url].base
        if path[0] == "?":
            base = base.rstrip("/")
        suffix = (self._upload_suffixes if is_upload else self._suffixes)[url]
        timing = self._pools[url].request(
            f"{method} {base}{path}{suffix}{headers}\r\n".encode(), body, deadline_ns, collector
        )
        if 200 <= timing.status < 300 or (missing_ok and timing.status == 404):
            return timing
        raise self.status_error(method, timing)

    def upload(
        self, method: str, path: str, upload: Upload, deadline_ns: int, headers: str = ""
    ) -> tuple[Timing, str]:
        """As ``request``, with the header lines of an upload; returns the ETag as well."""
        response = Collector()
        timing = self.request(method, path, response, deadline_ns, headers, upload, is_upload=True)
        return timing, response.headers.get("etag", "").strip('"')

    def probe(
        self, path: str, size: int, deadline_ns: int, segments: str = ""
    ) -> tuple[Timing, bool]:
        """HEAD; and whether it shows an unmodified initial object of this size.

        :param segments: as of ``is_initial``.
        """
        found = Collector(bodiless=True)
        timing = self.request("HEAD", path, found, deadline_ns, missing_ok=True)
        is_there = timing.status != 404
        return timing, is_there and is_initial(found.headers, size, self._settings, segments)

    def bulk(
        self, paths: Sequence[str], deadline_ns: int | None = None
    ) -> tuple[Timing, BulkResult]:
        """Delete many objects by one request.

        :raises StorageError: the request failed as a whole, or its response is invalid.
        """
        response, names = Collector(), "\n".join(paths).encode()
        timing = self.request("POST", _BULK_DELETE, response, deadline_ns, _BULK_HEADERS, names)
        timing = timing._replace(bytes_moved=0)
        try:
            return timing, bulk_result(bytes(response.body))
        except StorageError as error:
            error.timing = timing
            raise

    def delete_paths(self, paths: Sequence[str], deadline_ns: int) -> Timing:
        """As ``bulk``; ``Timing.items`` counts those that were there.

        :raises StorageError: not all were deleted. Its timing has their statuses, unless the
            request failed as a whole.
        """
        timing, result = self.bulk(paths, deadline_ns)
        if not result.failures and result.deleted + result.not_found == len(paths):
            return timing._replace(items=result.deleted)
        raise bulk_error(result, [unquote(path) for path in paths], timing)

    def status_error(self, method: str, timing: Timing) -> StorageError:
        return self._pools[timing.url].status_error(method, timing)


def _upload_headers(settings: StorageSettings) -> str:
    headers = "Content-Type: application/octet-stream\r\n"
    if settings.run_id:
        headers += f"{RUN_HEADER}: {quote(settings.run_id, safe='')}\r\n"
    if settings.delete_after_s is not None:
        headers += f"X-Delete-After: {settings.delete_after_s}\r\n"
    if mark := content_mark(settings):
        headers += f"{CONTENT_HEADER}: {mark}\r\n"
    return headers
