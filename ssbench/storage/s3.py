"""The hot half of the driver for S3: operations on objects."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Collection, Mapping
from copy import copy
from functools import partial
from typing import Any
from urllib.parse import quote

from ssbench.core import operations
from ssbench.core.errors import StorageError, UsageError
from ssbench.core.model import ErrorKind, Job, Timing
from ssbench.core.naming import naming_of
from ssbench.core.settings import StorageSettings
from ssbench.core.text import printable
from ssbench.storage.base import Action
from ssbench.storage.httpbody import (
    HEAD_ONLY,
    Collector,
    RangeCollector,
    StreamingCollector,
    check_range,
)
from ssbench.storage.httpconn import Upload
from ssbench.storage.httppool import UnsignedRequest
from ssbench.storage.httpstore import (
    LISTING_MAX,
    METHODS,
    RESPONSE_MAX,
    ObjectBodies,
    actions_of,
)
from ssbench.storage.s3account import (
    META,
    NEUTRAL,
    POST,
    VERSION,
    Place,
    S3Client,
    is_initial,
    listing_query,
    upload_metadata,
)
from ssbench.storage.s3large import LargeObjects
from ssbench.storage.s3parse import ItemCounter, Xml


class S3Storage(S3Client):
    """Implements ``ssbench.storage.base.ObjectStore``.

    :param seed: of the choice among several endpoints.
    :raises UsageError: an endpoint, a bucket, the credentials or a certificate is invalid.
    """

    operations: Collection[int] = METHODS.keys()

    def __init__(self, settings: StorageSettings, seed: int | None = None) -> None:
        if settings.delete_after_s is not None:
            raise UsageError("S3 has no delete_after: objects can't be given an expiry")
        super().__init__(settings, seed)
        account = self._account
        self._bodies = ObjectBodies(settings)
        self._upload, self._longest = self._bodies.upload, self._bodies.longest
        # SigV4 quotes everything in a key but slashes.
        self._object = naming_of(settings, partial(quote, safe="/")).object
        self._container = self._bodies.naming.container
        self._pools, self._agent = account.pools, account.agent
        self._payload_hash = account.payload_hash
        self._random, self._url_count = account.random, len(account.pools)
        #: By endpoint: container -> where it is.
        self._places: list[dict[str, Place]] = [
            {name: account.place(name, url) for name in self._bodies.naming.containers}
            for url in range(self._url_count)
        ]
        #: Signed header lines of uploads, beside those of all requests.
        self._metadata = upload_metadata(settings)
        self._signed = ""  #: further signed header lines of all requests
        self._verifier = self._bodies.verifier
        self._settings = settings
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

    def _with_headers(self, lines: str) -> S3Storage:
        """The same driver, with further header lines in every request. S3 wants those of its own
        signed."""
        view = copy(self)
        signed = "".join(
            each for each in lines.splitlines(True) if each.lower().startswith("x-amz-")
        )
        others = "".join(each for each in lines.splitlines(True) if each not in signed)
        view._account = self._account.with_headers(others)
        view._agent = view._account.agent
        view._places = [
            {name: at._replace(headers=at.headers + signed) for name, at in places.items()}
            for places in self._places
        ]
        view._signed = signed
        return view

    def _actions(self) -> dict[int, Action]:
        settings, whole = self._settings, actions_of(self, self._settings)
        if settings.large_object is None:
            return whole
        large = LargeObjects(
            self._account, self._bodies, settings, settings.large_object, whole, self._signed
        )
        return {**whole, **large.actions}

    def connect(self, count: int) -> None:
        self._bodies.prepare()
        self._account.connect(count * self._connections)

    # --- Hot path: operations on objects

    def _read(
        self, job: Job, deadline_ns: int, body: Collector | None = None, unsigned: str = ""
    ) -> Timing:
        url = 0 if self._url_count == 1 else int(self._random() * self._url_count)
        size_class, number = job.size_class, job.object
        place = self._places[url][self._container(size_class, number)]
        timing = self._pools[url].request_signed(
            UnsignedRequest(
                "GET", place.path + self._object(size_class, number), "", place.headers, None,
                unsigned or self._agent,
            ),
            None, deadline_ns, body, self._longest[size_class],
        )  # fmt: skip
        if 200 <= timing.status < 300:
            return timing
        raise self._account.status_error("GET", timing)

    def _read_verified(self, job: Job, deadline_ns: int) -> Timing:
        body = self._verifier.read_collector(job)
        timing = self._read(job, deadline_ns, body)
        self._verify(job, body, timing)
        return timing

    def _verify(self, job: Job, body: Collector, timing: Timing) -> None:
        body.headers = {name.replace(META, NEUTRAL): text for name, text in body.headers.items()}
        self._verifier.check_read(job, body, timing)

    def moving(self) -> dict[int, int]:
        return self._bodies.moving()

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
        raise self._account.status_error("PUT", timing)

    def _delete(self, job: Job, deadline_ns: int) -> Timing:
        """DELETE. S3 answers 204 whether or not the object exists."""
        timing = self._bodiless("DELETE", job, deadline_ns)
        if timing.status == 404:  # the bucket is gone, or a store that does tell
            if job.operation == operations.REMOVE:
                return timing
            raise self._account.status_error("DELETE", timing)
        return timing

    _remove = _delete

    def _head(self, job: Job, deadline_ns: int) -> Timing:
        timing = self._bodiless("HEAD", job, deadline_ns, HEAD_ONLY)
        if timing.status == 404:
            raise self._account.status_error("HEAD", timing)
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
        raise self._account.status_error(method, timing)

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
        query = listing_query(place.prefix + prefix.decode(), limit, delimiter=delimiter.decode())
        counter = ItemCounter()
        timing = self._account.request(
            "GET", url, place.bucket_path, query, place.headers,
            StreamingCollector(LISTING_MAX, counter.feed), deadline_ns,
        )  # fmt: skip
        timing = timing._replace(bytes_moved=0)
        if not 200 <= timing.status < 300:
            raise self._account.status_error("GET", timing)
        counter.check(limit, timing)
        return timing._replace(items=counter.items)

    def _copy(self, job: Job, deadline_ns: int) -> Timing:
        timing, headers = self._copy_to(job.others[0], job, deadline_ns)
        if self._settings.verify:
            response = Collector(0)
            response.headers = headers
            self._verifier.check_write(job, response, timing)
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
            f"{place.headers}x-amz-copy-source: {source.source}"
            f"{self._object(size_class, number)}\r\nx-amz-metadata-directive: REPLACE\r\n"
            f"{self._metadata}{more}"
        )
        copied = Xml(1, self._account.signer.token)
        response = StreamingCollector(RESPONSE_MAX, copied.feed)
        timing = self._account.request(
            "PUT", url, place.path + self._object(size_class, target), "", headers, response,
            deadline_ns, b"",
        )  # fmt: skip
        timing = timing._replace(bytes_moved=0)
        if not 200 <= timing.status < 300:
            raise self._account.status_error("PUT", timing)
        copied.check("CopyObjectResult", timing)
        return timing, {**response.headers, "etag": copied.values.get("ETag", "")}

    def _range_read(self, job: Job, deadline_ns: int) -> Timing:
        return self._read_range(job, deadline_ns, RangeCollector(self._longest[job.size_class]))

    def _range_read_verified(self, job: Job, deadline_ns: int) -> Timing:
        body = self._verifier.read_collector(job, *map(int, job.arguments))
        timing = self._read_range(job, deadline_ns, body)
        self._verify(job, body, timing)
        return timing

    def _read_range(self, job: Job, deadline_ns: int, body: Collector) -> Timing:
        offset, length = map(int, job.arguments)
        lines = f"{self._agent}Range: bytes={offset}-{offset + length - 1}\r\n"
        timing = self._read(job, deadline_ns, body, lines)
        check_range(body.headers, timing, offset, length)
        return timing

    def _bulk_delete(self, job: Job, deadline_ns: int) -> Timing:
        """Delete many objects: a request for each of their buckets, one after another."""
        url = 0 if self._url_count == 1 else int(self._random() * self._url_count)
        size_class, naming = job.size_class, self._bodies.naming
        buckets: dict[str, dict[str, int]] = {}  # of a bucket one container, key -> number
        for number in (job.object, *job.others):
            container = naming.container(size_class, number)
            key = self._places[url][container].prefix + naming.object(size_class, number)
            container = naming.containers[0] if self._account.own.bucket else container
            buckets.setdefault(container, {})[key] = number
        statuses = dict.fromkeys((job.object, *job.others), 0)  # 0: not known
        failed = ""
        try:
            for container, keys in buckets.items():
                place = self._places[url][container]
                timing, failures = self._account.delete_keys(url, place, [*keys], deadline_ns)
                for key, number in keys.items():
                    statuses[number] = failures.get(key, 204)
                    if key in failures and not failed:
                        failed = f"{container}: {printable(key)}: {failures[key]}"
        except StorageError as error:
            if error.timing is not None and any(statuses.values()):
                error.timing = error.timing._replace(statuses=(*statuses.values(),))
            raise
        gone = sum(status == 204 for status in statuses.values())
        if not failed:
            return timing._replace(items=gone)
        raise StorageError(
            ErrorKind.STATUS,
            f"bulk delete of {len(statuses)} objects: {len(statuses) - gone} failed; {failed}",
            status=next(status for status in statuses.values() if status != 204),
            timing=timing._replace(items=gone, statuses=(*statuses.values(),)),
        )

    def _ensure(self, job: Job, deadline_ns: int) -> Timing:
        # HEAD first: initial objects survive runs, so a second run uploads only what an earlier one
        # updated.
        found = Collector(RESPONSE_MAX, bodiless=True)
        head = self._bodiless("HEAD", job, deadline_ns, found)
        if head.status != 404 and is_initial(found.headers, job.size, self._settings.compressible):
            return head._replace(status=200)
        try:
            timing = self._write(job, deadline_ns)
        except StorageError as error:
            error.reconnects += head.reconnects
            raise
        return timing._replace(reconnects=timing.reconnects + head.reconnects)
