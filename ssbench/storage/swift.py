"""The hot half of the driver for OpenStack Swift: operations on objects."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import copy
from functools import partial
from typing import Any
from urllib.parse import quote

from ssbench.core.errors import StorageError
from ssbench.core.model import Job, Timing
from ssbench.core.naming import POST_HEADER, VERSION_HEADER, naming_of
from ssbench.core.settings import StorageSettings
from ssbench.storage.base import Action
from ssbench.storage.httpbody import (
    HEAD_ONLY,
    Collector,
    RangeCollector,
    StreamingCollector,
    check_range,
)
from ssbench.storage.httpconn import Upload
from ssbench.storage.httpstore import (
    LISTING_MAX,
    METHODS,
    RESPONSE_MAX,
    ObjectBodies,
    actions_of,
)
from ssbench.storage.swiftaccount import SwiftClient
from ssbench.storage.swiftlarge import LargeObjects
from ssbench.storage.swiftparse import NameCounter, is_initial


class SwiftStorage(SwiftClient):
    """Implements ``ssbench.storage.base.ObjectStore``.

    :param seed: of the choice among several storage URLs.
    :raises UsageError: a storage URL, token or certificate is invalid.
    """

    operations: Collection[int] = METHODS.keys()

    def __init__(self, settings: StorageSettings, seed: int | None = None) -> None:
        self._settings = settings
        self._bodies = ObjectBodies(settings)
        self._upload = self._bodies.upload
        self._paths = naming_of(settings, partial(quote, safe=""))
        self._longest = self._bodies.longest
        super().__init__(settings, seed)
        account = self._account
        # Copied from the account to save attribute lookups per operation.
        self._pools, self._sites = account.pools, account.sites
        self._suffixes, self._upload_suffixes = (
            account.header_suffixes,
            account.upload_header_suffixes,
        )
        self._random, self._url_count = account.random, len(account.pools)
        self._verifier = self._bodies.verifier
        large = settings.large_object
        self._connections = large.parallel if large else 1  #: per user
        self.actions: Mapping[int, Action] = {
            **self._actions(),
            **{
                operation: self._with_headers(lines)._actions()[operation]
                for operation, lines in settings.headers
                if operation in METHODS
            },
        }

    def _with_headers(self, lines: str) -> SwiftStorage:
        """The same driver, with further header lines in every request: no request pays for them
        where there are none."""
        view = copy(self)
        view._account = account = self._account.with_headers(lines)
        view._suffixes, view._upload_suffixes = (
            account.header_suffixes,
            account.upload_header_suffixes,
        )
        return view

    def _actions(self) -> dict[int, Action]:
        settings, whole = self._settings, actions_of(self, self._settings)
        if settings.large_object is None:
            return whole
        large = LargeObjects(self._account, self._bodies, settings, settings.large_object, whole)
        return {**whole, **large.actions}

    # --- Hot path: operations on objects

    def _read(self, job: Job, deadline_ns: int) -> Timing:
        url = 0 if self._url_count == 1 else int(self._random() * self._url_count)
        timing = self._pools[url].request(
            f"GET {self._sites[url].base}{self._path(job)}{self._suffixes[url]}\r\n".encode(),
            None,
            deadline_ns,
            None,
            self._longest[job.size_class],
        )
        if 200 <= timing.status < 300:
            return timing
        raise self._account.status_error("GET", timing)

    def _read_verified(self, job: Job, deadline_ns: int) -> Timing:
        body = self._verifier.read_collector(job)
        timing = self._account.request("GET", self._path(job), body, deadline_ns)
        if not 200 <= timing.status < 300:
            raise self._account.status_error("GET", timing)
        self._verifier.check_read(job, body, timing)
        return timing

    def moving(self) -> dict[int, int]:
        return self._bodies.moving()

    def checksum_lines(self, checksum: str) -> str:
        return f"ETag: {checksum}\r\n"

    def _write(
        self,
        job: Job,
        deadline_ns: int,
        response: Collector | None = None,
        upload: Upload | None = None,
        lines: str = "",
    ) -> Timing:
        url = 0 if self._url_count == 1 else int(self._random() * self._url_count)
        version = f"{VERSION_HEADER}: {job.version}\r\n" if job.version else ""
        timing = self._pools[url].request(
            f"PUT {self._sites[url].base}{self._path(job)}{self._upload_suffixes[url]}"
            f"{version}{lines}Content-Length: {job.size}\r\n\r\n".encode(),
            upload or self._upload(job),
            deadline_ns,
            response,
        )
        if 200 <= timing.status < 300:
            return timing
        raise self._account.status_error("PUT", timing)

    def _delete(self, job: Job, deadline_ns: int) -> Timing:
        timing = self._remove(job, deadline_ns)
        if timing.status != 404:
            return timing
        raise self._account.status_error("DELETE", timing)

    def _remove(self, job: Job, deadline_ns: int) -> Timing:
        """DELETE; a missing object counts as success."""
        url = 0 if self._url_count == 1 else int(self._random() * self._url_count)
        timing = self._pools[url].request(
            f"DELETE {self._sites[url].base}{self._path(job)}{self._suffixes[url]}\r\n".encode(),
            None,
            deadline_ns,
        )
        timing = timing._replace(bytes_moved=0)  # an error page is no object data
        if 200 <= timing.status < 300 or timing.status == 404:
            return timing
        raise self._account.status_error("DELETE", timing)

    def _head(self, job: Job, deadline_ns: int) -> Timing:
        url = 0 if self._url_count == 1 else int(self._random() * self._url_count)
        timing = self._pools[url].request(
            f"HEAD {self._sites[url].base}{self._path(job)}{self._suffixes[url]}\r\n".encode(),
            None,
            deadline_ns,
            HEAD_ONLY,
        )
        if 200 <= timing.status < 300:
            return timing
        raise self._account.status_error("HEAD", timing)

    def _post(self, job: Job, deadline_ns: int) -> Timing:
        """Set new metadata. POST replaces everything, expiry too: it repeats upload headers."""
        url = 0 if self._url_count == 1 else int(self._random() * self._url_count)
        version = f"{VERSION_HEADER}: {job.version}\r\n" if job.version else ""
        timing = self._pools[url].request(
            f"POST {self._sites[url].base}{self._path(job)}{self._upload_suffixes[url]}"
            f"{version}{POST_HEADER}: {job.number}\r\nContent-Length: 0\r\n\r\n".encode(),
            None,
            deadline_ns,
        )
        timing = timing._replace(bytes_moved=0)
        if 200 <= timing.status < 300:
            return timing
        raise self._account.status_error("POST", timing)

    # --- Hot path: operations on containers, several objects, parts of objects

    def _list(self, job: Job, deadline_ns: int) -> Timing:
        arguments: tuple[Any, ...] = job.arguments
        prefix, limit, delimiter = arguments
        names = NameCounter(prefix, limit)
        body = StreamingCollector(LISTING_MAX, names.feed)
        query = f"?format=plain&limit={limit}"
        query += f"&prefix={quote(prefix, safe='')}" if prefix else ""
        query += f"&delimiter={quote(delimiter, safe='')}" if delimiter else ""
        path = self._paths.containers[job.object] + query
        timing = self._account.request("GET", path, body, deadline_ns)
        timing = timing._replace(bytes_moved=0, items=names.count)
        if not 200 <= timing.status < 300:
            raise self._account.status_error("GET", timing._replace(items=0))
        names.check(body.headers, timing)
        return timing

    def _copy(self, job: Job, deadline_ns: int) -> Timing:
        """Copy on the server. Metadata is that of an upload: nothing of the source's is kept."""
        response = Collector(RESPONSE_MAX)
        copy = self._path(job._replace(object=job.others[0]))
        url = 0 if self._url_count == 1 else int(self._random() * self._url_count)
        timing = self._pools[url].request(
            f"PUT {self._sites[url].base}{copy}{self._upload_suffixes[url]}X-Copy-From: /"
            f"{self._path(job)}\r\nX-Fresh-Metadata: true\r\nContent-Length: 0\r\n\r\n".encode(),
            None,
            deadline_ns,
            response,
        )
        timing = timing._replace(bytes_moved=0)
        if not 200 <= timing.status < 300:
            raise self._account.status_error("PUT", timing)
        if self._settings.verify:
            self._verifier.check_write(job, response, timing)
        return timing

    def _range_read(self, job: Job, deadline_ns: int) -> Timing:
        body = RangeCollector(self._longest[job.size_class])
        return self._read_range(job, deadline_ns, body)

    def _range_read_verified(self, job: Job, deadline_ns: int) -> Timing:
        body = self._verifier.read_collector(job, *map(int, job.arguments))
        timing = self._read_range(job, deadline_ns, body)
        self._verifier.check_read(job, body, timing)
        return timing

    def _read_range(self, job: Job, deadline_ns: int, body: Collector) -> Timing:
        offset, length = map(int, job.arguments)
        headers = f"Range: bytes={offset}-{offset + length - 1}\r\n"
        timing = self._account.request("GET", self._path(job), body, deadline_ns, headers)
        if not 200 <= timing.status < 300:
            raise self._account.status_error("GET", timing)
        check_range(body.headers, timing, offset, length)
        return timing

    def _bulk_delete(self, job: Job, deadline_ns: int) -> Timing:
        paths = [self._path(job._replace(object=each)) for each in (job.object, *job.others)]
        return self._account.bulk_delete(paths, deadline_ns)

    def _ensure(self, job: Job, deadline_ns: int) -> Timing:
        # HEAD first: initial objects survive runs, so a second run uploads only what an earlier one
        # updated. Objects with an expiry are uploaded again: they might expire during the run.
        if self._settings.delete_after_s is not None:
            return self._write(job, deadline_ns)
        collector = Collector(RESPONSE_MAX, bodiless=True)
        head = self._account.request("HEAD", self._path(job), collector, deadline_ns)
        if head.status != 404:
            if head.status // 100 != 2:
                raise self._account.status_error("HEAD", head)
            if is_initial(collector.headers, job.size, self._settings.compressible):
                return head._replace(status=200, bytes_moved=0)
        try:
            timing = self._write(job, deadline_ns)
        except StorageError as error:
            error.reconnects += head.reconnects
            raise
        return timing._replace(reconnects=timing.reconnects + head.reconnects)

    def _path(self, job: Job) -> str:
        """``container/object``, quoted."""
        paths = self._paths
        size_class, number = job.size_class, job.object
        return f"{paths.container(size_class, number)}/{paths.object(size_class, number)}"

    # --- Connections

    def connect(self, count: int) -> None:
        self._bodies.prepare()
        self._account.connect(count * self._connections)
