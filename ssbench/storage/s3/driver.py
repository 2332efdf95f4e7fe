"""The hot half of the driver for S3: operations on objects."""

from __future__ import annotations

from base64 import b64encode
from copy import copy
from functools import partial
from typing import Any
from urllib.parse import quote

from ssbench.core.errors import StorageError, UsageError
from ssbench.core.model import ErrorKind, Job, Timing
from ssbench.core.naming import naming_of
from ssbench.core.settings import StorageSettings
from ssbench.core.text import plural, printable
from ssbench.storage.base import Action
from ssbench.storage.http.connection import Upload
from ssbench.storage.http.pool import UnsignedRequest
from ssbench.storage.http.response import HEAD_ONLY, Collector
from ssbench.storage.http.store import HttpStorage, is_initial
from ssbench.storage.s3.bodies import (
    POST,
    VERSION,
    ItemCounter,
    Xml,
    listing_query,
    neutral,
    upload_metadata,
)
from ssbench.storage.s3.client import Place, S3Client
from ssbench.storage.s3.large import MultipartObjects


class S3Storage(S3Client, HttpStorage):
    """Implements ``ssbench.storage.base.ObjectStore``.

    :param seed: of the choice among several endpoints.
    :raises UsageError: an endpoint, a bucket, the credentials or a certificate is invalid.
    """

    def __init__(self, settings: StorageSettings, seed: int | None = None) -> None:
        if settings.delete_after_s is not None:
            raise UsageError("S3 has no delete_after: objects can't be given an expiry")
        super().__init__(settings, seed)
        # SigV4 quotes everything in a key but slashes.
        self._object = naming_of(settings, partial(quote, safe="/")).object
        self._container = self._bodies.naming.container
        #: By endpoint: container -> where it is.
        self._places: list[dict[str, Place]] = [
            {name: self.place(name, url) for name in self._bodies.naming.containers}
            for url in range(self._url_count)
        ]
        #: Signed header lines of uploads, beside those of all requests.
        self._metadata = upload_metadata(settings)
        self._signed = ""  #: further signed header lines of all requests
        self.actions = self._make_actions()

    def _with_headers(self, lines: str) -> S3Storage:
        """S3 wants header lines of its own signed."""
        view = copy(self)
        for line in lines.splitlines(True):
            if line.lower().startswith("x-amz-"):
                view._signed += line
            else:
                view._agent += line
        view._places = [
            {name: at._replace(headers=at.headers + view._signed) for name, at in places.items()}
            for places in self._places
        ]
        return view

    def _actions(self) -> dict[int, Action]:
        whole, large = super()._actions(), self._settings.large_object
        if large is None:
            return whole
        return {**whole, **MultipartObjects(self, self._bodies, large, whole, self._signed).actions}

    # --- Hot path: operations on objects

    def _read(
        self, job: Job, deadline_ns: int, body: Collector | None = None, lines: str = ""
    ) -> Timing:
        url = 0 if self._url_count == 1 else int(self._random() * self._url_count)
        size_class, number = job.size_class, job.object
        place = self._places[url][self._container(size_class, number)]
        timing = self._pools[url].request_signed(
            UnsignedRequest(
                "GET", place.path + self._object(size_class, number), "", place.headers, None,
                self._agent + lines if lines else self._agent,
            ),
            None, deadline_ns, body, self._longest[size_class],
        )  # fmt: skip
        if 200 <= timing.status < 300:
            return timing
        raise self.status_error("GET", timing)

    def _check_read(self, job: Job, body: Collector, timing: Timing) -> None:
        body.headers = neutral(body.headers)
        super()._check_read(job, body, timing)

    def checksum_lines(self, checksum: str) -> str:
        return f"content-md5: {b64encode(bytes.fromhex(checksum)).decode()}\r\n"

    def _write(
        self,
        job: Job,
        deadline_ns: int,
        response: Collector | None = None,
        upload: Upload | None = None,
        lines: str = "",
    ) -> Timing:
        url = 0 if self._url_count == 1 else int(self._random() * self._url_count)
        size_class, number = job.size_class, job.object
        place = self._places[url][self._container(size_class, number)]
        version = f"{VERSION}: {job.version}\r\n" if job.version else ""
        upload = upload or self._upload(job)
        timing = self._pools[url].request_signed(
            UnsignedRequest(
                "PUT", place.path + self._object(size_class, number), "",
                f"{place.headers}{lines}{self._metadata}{version}", self._payload_hash(upload),
                f"{self._agent}Content-Length: {job.size}\r\n",
            ),
            upload, deadline_ns, response,
        )  # fmt: skip
        if 200 <= timing.status < 300:
            return timing
        raise self.status_error("PUT", timing)

    def _remove(self, job: Job, deadline_ns: int) -> Timing:
        """S3 answers 204 whether or not the object exists; 404 if the bucket is gone."""
        return self._bodiless("DELETE", job, deadline_ns)

    def _head(self, job: Job, deadline_ns: int) -> Timing:
        timing = self._bodiless("HEAD", job, deadline_ns, HEAD_ONLY)
        if timing.status == 404:
            raise self.status_error("HEAD", timing)
        return timing

    def _bodiless(
        self, method: str, job: Job, deadline_ns: int, response: Collector | None = None
    ) -> Timing:
        """A request without a body, whose response has no object data; 404 is no error."""
        url = 0 if self._url_count == 1 else int(self._random() * self._url_count)
        size_class, number = job.size_class, job.object
        place = self._places[url][self._container(size_class, number)]
        timing = self._pools[url].request_signed(
            UnsignedRequest(
                method, place.path + self._object(size_class, number), "", place.headers, None,
                self._agent,
            ),
            None, deadline_ns, response,
        )  # fmt: skip
        if 200 <= timing.status < 300 or timing.status == 404:
            return timing._replace(bytes_moved=0)
        raise self.status_error(method, timing)

    def _post(self, job: Job, deadline_ns: int) -> Timing:
        """Set new metadata: S3's way is a copy onto itself, which replaces all of it."""
        version = f"{VERSION}: {job.version}\r\n" if job.version else ""
        more = f"{version}{POST}: {job.number}\r\n"
        return self._copy_to(job.object, job, deadline_ns, more)[0]

    # --- Hot path: operations on containers, several objects, parts of objects

    def _list(self, job: Job, deadline_ns: int) -> Timing:
        arguments: tuple[Any, ...] = job.arguments
        prefix, limit, delimiter = arguments
        url = 0 if self._url_count == 1 else int(self._random() * self._url_count)
        place = self._places[url][self._bodies.naming.containers[job.object]]
        begin = place.prefix + prefix.decode()
        query = listing_query(begin, limit, delimiter=delimiter.decode())
        counter = ItemCounter(begin, place.prefix, limit)
        timing = self.request(
            "GET", place, place.bucket_path, query, "", counter, deadline_ns=deadline_ns, url=url
        )
        timing = timing._replace(bytes_moved=0)
        counter.check(timing)
        return timing._replace(items=counter.items)

    def _copy(self, job: Job, deadline_ns: int) -> Timing:
        timing, headers = self._copy_to(job.others[0], job, deadline_ns)
        if self._settings.verify:
            response = Collector(0)
            response.headers = headers
            self._check_write(
                job, job._replace(object=job.others[0]), deadline_ns, response, timing
            )
        return timing

    def _copy_to(
        self, target: int, job: Job, deadline_ns: int, more: str = ""
    ) -> tuple[Timing, dict[str, str]]:
        """Copy the job's object to one of its size class, within the store. Nothing of the source's
        metadata is kept.

        :param more: signed header lines.
        :returns: also the headers of the response, with the ETag of the copy.
        """
        url = 0 if self._url_count == 1 else int(self._random() * self._url_count)
        size_class, number = job.size_class, job.object
        source = self._places[url][self._container(size_class, number)]
        place = self._places[url][self._container(size_class, target)]
        headers = (
            f"x-amz-copy-source: {source.source}{self._object(size_class, number)}\r\n"
            f"x-amz-metadata-directive: REPLACE\r\n{self._metadata}{more}"
        )
        copied = Xml(1, self.signer.token)
        timing = self.request(
            "PUT", place, place.path + self._object(size_class, target), "", headers, copied, b"",
            deadline_ns=deadline_ns, url=url,
        )  # fmt: skip
        timing = timing._replace(bytes_moved=0)
        copied.check("CopyObjectResult", timing)
        return timing, {**copied.headers, "etag": copied.values.get("ETag", "")}

    def _bulk_delete(self, job: Job, deadline_ns: int) -> Timing:
        """Delete many objects: a request for each of their buckets, one after another."""
        url = 0 if self._url_count == 1 else int(self._random() * self._url_count)
        size_class, naming = job.size_class, self._bodies.naming
        buckets: dict[str, dict[str, int]] = {}  # of a bucket one container, key -> number
        for number in (job.object, *job.others):
            container = naming.container(size_class, number)
            key = self._places[url][container].prefix + naming.object(size_class, number)
            container = naming.containers[0] if self._own.bucket else container
            buckets.setdefault(container, {})[key] = number
        statuses = dict.fromkeys((job.object, *job.others), 0)  # 0: not known
        reconnects, failed = 0, ""
        try:
            for container, keys in buckets.items():
                place = self._places[url][container]
                timing, failures = self.delete_keys(place, [*keys], url, deadline_ns)
                reconnects += timing.reconnects
                for key, number in keys.items():
                    statuses[number] = failures.get(key, 204)
                    if key in failures and not failed:
                        failed = f"{container}: {printable(key)}: {failures[key]}"
        except StorageError as error:
            error.reconnects += reconnects
            if error.timing is not None and any(statuses.values()):
                error.timing = error.timing._replace(statuses=(*statuses.values(),))
            raise
        gone = sum(status == 204 for status in statuses.values())
        timing = timing._replace(items=gone, reconnects=reconnects)
        if not failed:
            return timing
        raise StorageError(
            ErrorKind.STATUS,
            f"bulk delete of {plural(len(statuses), 'object')}: {len(statuses) - gone} failed;"
            f" {failed}",
            status=next(status for status in statuses.values() if status != 204),
            timing=timing._replace(statuses=(*statuses.values(),)),
        )

    def _probe(self, job: Job, deadline_ns: int) -> tuple[Timing, bool]:
        found = Collector(bodiless=True)
        timing = self._bodiless("HEAD", job, deadline_ns, found)
        return timing, timing.status != 404 and is_initial(
            neutral(found.headers), job.size, self._settings.compressible
        )
