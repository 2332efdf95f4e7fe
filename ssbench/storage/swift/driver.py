"""The hot half of the driver for OpenStack Swift: operations on objects."""

from __future__ import annotations

from functools import partial
from typing import Any
from urllib.parse import quote

from ssbench.core.model import Job, Timing
from ssbench.core.naming import POST_HEADER, VERSION_HEADER, naming_of
from ssbench.core.settings import StorageSettings
from ssbench.storage.base import Action
from ssbench.storage.http.connection import Upload
from ssbench.storage.http.response import HEAD_ONLY, Collector
from ssbench.storage.http.store import HttpStorage
from ssbench.storage.swift.bodies import NameCounter
from ssbench.storage.swift.client import SwiftClient
from ssbench.storage.swift.large import SegmentedObjects


class SwiftStorage(SwiftClient, HttpStorage):
    """Implements ``ssbench.storage.base.ObjectStore``.

    :param seed: of the choice among several storage URLs.
    :raises UsageError: a storage URL, token or certificate is invalid.
    """

    def __init__(self, settings: StorageSettings, seed: int | None = None) -> None:
        super().__init__(settings, seed)
        self._paths = naming_of(settings, partial(quote, safe=""))
        self._path = self._paths.path
        self.actions = self._make_actions()

    def _actions(self) -> dict[int, Action]:
        whole, large = super()._actions(), self._settings.large_object
        return (
            {**whole, **SegmentedObjects(self, self._bodies, large, whole).actions}
            if large
            else whole
        )

    # --- Hot path: operations on objects

    def _read(
        self, job: Job, deadline_ns: int, body: Collector | None = None, lines: str = ""
    ) -> Timing:
        url = 0 if self._url_count == 1 else int(self._random() * self._url_count)
        timing = self._pools[url].request(
            f"GET {self._sites[url].base}{self._path(job)}{self._suffixes[url]}{lines}\r\n"
            .encode(),
            None, deadline_ns, body, self._longest[job.size_class],
        )  # fmt: skip
        if 200 <= timing.status < 300:
            return timing
        raise self.status_error("GET", timing)

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
        raise self.status_error("PUT", timing)

    def _remove(self, job: Job, deadline_ns: int) -> Timing:
        url = 0 if self._url_count == 1 else int(self._random() * self._url_count)
        timing = self._pools[url].request(
            f"DELETE {self._sites[url].base}{self._path(job)}{self._suffixes[url]}\r\n".encode(),
            None,
            deadline_ns,
        )
        timing = timing._replace(bytes_moved=0)  # an error page is no object data
        if 200 <= timing.status < 300 or timing.status == 404:
            return timing
        raise self.status_error("DELETE", timing)

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
        raise self.status_error("HEAD", timing)

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
        raise self.status_error("POST", timing)

    # --- Hot path: operations on containers, several objects, parts of objects

    def _list(self, job: Job, deadline_ns: int) -> Timing:
        arguments: tuple[Any, ...] = job.arguments
        prefix, limit, delimiter = arguments
        names = NameCounter(prefix, limit)
        query = f"?format=plain&limit={limit}"
        query += f"&prefix={quote(prefix, safe='')}" if prefix else ""
        query += f"&delimiter={quote(delimiter, safe='')}" if delimiter else ""
        path = self._paths.containers[job.object] + query
        timing = self.request("GET", path, names, deadline_ns)
        timing = timing._replace(bytes_moved=0, items=names.count)
        names.check(timing)
        return timing

    def _copy(self, job: Job, deadline_ns: int) -> Timing:
        """Copy on the server. Metadata is that of an upload: nothing of the source's is kept."""
        response = Collector()
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
            raise self.status_error("PUT", timing)
        if self._settings.verify:
            self._check_write(
                job, job._replace(object=job.others[0]), deadline_ns, response, timing
            )
        return timing

    def _bulk_delete(self, job: Job, deadline_ns: int) -> Timing:
        paths = [self._path(job._replace(object=each)) for each in (job.object, *job.others)]
        return self.delete_paths(paths, deadline_ns)

    def _probe(self, job: Job, deadline_ns: int) -> tuple[Timing, bool]:
        return self.probe(self._path(job), job.size, deadline_ns)
