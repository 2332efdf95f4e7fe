"""The data path of the driver for S3: operations on objects, large ones included.

A large object is a multipart upload. An upload that is neither completed nor aborted stays open,
and keeps its parts, without being listed among the objects. So one that fails is aborted at once.
Clean-up finds those of a killed worker by the key of their object.
"""

from __future__ import annotations

import time
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from time import perf_counter_ns
from typing import NamedTuple
from urllib.parse import quote

from msgspec.structs import replace

from ssbench.core import operations
from ssbench.core.errors import StorageError, UsageError
from ssbench.core.model import ErrorKind, Job, LargeObject, ObjectLock, Timing
from ssbench.core.naming import naming_of
from ssbench.core.settings import StorageSettings
from ssbench.core.text import plural, printable
from ssbench.storage.base import Action, Listed, OpenUpload, Page
from ssbench.storage.http.connection import Upload
from ssbench.storage.http.response import HEAD_ONLY, Collector, HeaderCollector
from ssbench.storage.http.store import (
    ObjectsInParts,
    PartTiming,
    VersionedStorage,
    is_initial,
    store_is_changed,
    with_parts,
    written_after,
)
from ssbench.storage.s3.bodies import (
    HEADERS,
    POST,
    SEGMENTS,
    TAGS_MAX,
    VERSION,
    ItemCounter,
    NextPage,
    Xml,
    complete_request,
    foreign_tag,
    listing_query,
    malformed,
    neutral,
    tagging_request,
    tags_of,
    upload_metadata,
)
from ssbench.storage.s3.client import (
    CHECKSUM_WANTED,
    ENCRYPTED_HEADER,
    Place,
    S3Client,
    SummedUpload,
    content_md5,
    multipart_checksum_lines,
    stated_checksum,
)

#: How the signed header lines begin that every request about an upload has. The others belong to
#: the object (its storage class, say), and to the request that opens the upload.
_OF_ALL_REQUESTS = (
    "x-amz-copy-source-", "x-amz-expected-bucket-owner:", "x-amz-request-payer:",
    "x-amz-server-side-encryption-customer-",
)  # fmt: skip
#: Uploads to abort later, at most: those of one worker while the store rejects every request.
_OPEN_MAX = 10_000


class S3Storage(S3Client, VersionedStorage):
    """Implements ``ssbench.storage.base.ObjectStore``.

    :param seed: of the choice among several endpoints.
    :raises UsageError: an endpoint, a bucket, the credentials or a certificate is invalid.
    """

    headers_mark = HEADERS
    version_header, version_key = "x-amz-version-id", "versionId"

    def __init__(self, settings: StorageSettings, seed: int | None = None) -> None:
        if settings.delete_after_s is not None:
            raise UsageError("S3 has no delete_after: objects can't be given an expiry")
        if settings.checksum not in ("none", "md5"):
            lines = dict(settings.headers)
            lines[operations.READ] = lines.get(operations.READ, "") + CHECKSUM_WANTED
            settings = replace(settings, headers=(*lines.items(),))
        super().__init__(settings, seed)
        # SigV4 quotes everything in a key but slashes.
        self._object = naming_of(settings, partial(quote, safe="/")).object
        self._container = self._bodies.naming.container
        #: By endpoint: container -> where it is.
        self._places: list[dict[str, Place]] = [
            {name: self.place(name, url) for name in self._bodies.naming.containers}
            for url in range(self._url_count)
        ]
        self._checks_encryption = bool(self.encryption)  #: until an upload has shown it
        #: Signed header lines of uploads, beside those of all requests.
        self._metadata = upload_metadata(settings)
        self._signed = self._of_uploads = ""  #: further signed header lines: of all requests
        self.actions = self._make_actions()

    def _with_headers(self, lines: str, uploads: str) -> S3Storage:
        """S3 wants header lines of its own signed."""
        view = copy(self)
        view._of_uploads = uploads
        view._metadata += uploads
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
        return {**whole, **MultipartObjects(self, large, whole).actions}

    def _read(
        self,
        job: Job,
        deadline_ns: int,
        body: Collector | None = None,
        lines: str = "",
        query: str = "",
    ) -> Timing:
        url = 0 if self._url_count == 1 else int(self._random() * self._url_count)
        size_class, number = job.size_class, job.object
        place = self._places[url][self._container(size_class, number)]
        head = partial(
            self.signed_head, "GET", place.path + self._object(size_class, number), query,
            place.headers + self.encryption, None, self._agent + lines if lines else self._agent,
        )  # fmt: skip
        timing = self._pools[url].request(
            head(), None, deadline_ns, body, self._longest[size_class], head
        )
        if 200 <= timing.status < 300:
            return timing
        raise self.status_error("GET", timing)

    def _read_version(self, job: Job, deadline_ns: int, body: Collector | None = None) -> Timing:
        return self._read(job, deadline_ns, body, query=self.version_query(job))

    def _delete_version(self, job: Job, deadline_ns: int) -> Timing:
        """As of any deletion, S3 answers 204 whether or not the version exists."""
        timing = self._bodiless("DELETE", job, deadline_ns, query=self.version_query(job))
        if timing.status == 404:
            raise self.status_error("DELETE", timing)
        return timing

    def _write_checked(self, job: Job, deadline_ns: int, *, lines: str = "") -> Timing:
        """Also of one that is locked."""
        lock = self._settings.object_lock
        more = _lock_lines(lock) if lock else ""
        return super()._write_checked(job, deadline_ns, lines=lines + more)

    def _check_read(self, job: Job, body: Collector, timing: Timing) -> None:
        body.headers = neutral(body.headers)
        super()._check_read(job, body, timing)

    def summed(self, upload: Upload) -> SummedUpload:
        """The upload with a checksum of the settings' kind."""
        assert self._begin_sum is not None  # nosec B101 # for the type checker
        settings = self._settings
        return SummedUpload(
            upload, settings.checksum, self._begin_sum, self._payload_hash,
            in_trailer=settings.checksum_in == "trailer",
        )  # fmt: skip

    def stated_checksum(self, headers: Mapping[str, str]) -> bytes | None:
        return stated_checksum(self._settings.checksum, headers)

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
        if self._checks_encryption:
            response = response or HeaderCollector()
        if self._begin_sum is None:
            payload_hash = self._payload_hash(upload)
        else:
            summed = self.summed(upload)
            upload, payload_hash, lines = summed.upload, summed.payload_hash, lines + summed.lines
        head = partial(
            self.signed_head, "PUT", place.path + self._object(size_class, number), "",
            f"{place.headers}{lines}{self._metadata}{version}{self.encryption}",
            payload_hash, f"{self._agent}Content-Length: {upload.size}\r\n",
        )  # fmt: skip
        timing = self._pools[url].request(head(), upload, deadline_ns, response, 0, head)
        if 200 <= timing.status < 300:
            if upload.size != job.size:  # in another coding
                timing = timing._replace(bytes_moved=job.size)
            if self._checks_encryption and response:
                check_encrypted(response.headers, timing)
                self._checks_encryption = False
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

    def _update_if_match(self, job: Job, deadline_ns: int) -> Timing:
        """Its time is that of both requests."""
        found = Collector(bodiless=True)
        probe = self._bodiless("HEAD", job, deadline_ns, found)
        if probe.status == 404:
            raise self.status_error("HEAD", probe)
        etag = found.headers.get("etag")
        if not etag:
            raise malformed("an ETag in a response to HEAD", probe)
        write = partial(
            self._write_if, condition=f"If-Match: {etag}\r\n", unmet='If-Match: "none"\r\n'
        )
        return written_after(probe, write, job, deadline_ns)

    def _bodiless(
        self,
        method: str,
        job: Job,
        deadline_ns: int,
        response: Collector | None = None,
        query: str = "",
    ) -> Timing:
        """A request without a body, whose response has no object data; 404 is no error."""
        url = self.any_url()
        place = self._places[url][self._container(job.size_class, job.object)]
        path = place.path + self._object(job.size_class, job.object)
        headers = self.encryption if method == "HEAD" else ""
        timing = self.request(
            method, place, path, query, headers, response, deadline_ns=deadline_ns, url=url,
            missing_ok=True,
        )  # fmt: skip
        return timing._replace(bytes_moved=0)

    def _post(self, job: Job, deadline_ns: int) -> Timing:
        """Set new metadata: S3's way is a copy onto itself, which replaces all of it."""
        version = f"{VERSION}: {job.version}\r\n" if job.version else ""
        more = f"{version}{POST}: {job.number}\r\n"
        return self._copy_to(job.object, job, deadline_ns, more)[0]

    def _page(self, listed: Listed, deadline_ns: int, at: NextPage | None = None) -> Page:
        url = self.any_url()
        place = self._places[url][listed.container]
        begin = place.prefix + listed.prefix
        query = listing_query(
            begin, listed.limit, token=at.token if at else "", delimiter=listed.delimiter
        )
        wanted = place.prefix + listed.wanted if listed.wanted else ""
        counter = ItemCounter(begin, place.prefix, listed.limit, at, wanted)
        timing = self.request(
            "GET", place, place.bucket_path, query, "", counter, deadline_ns=deadline_ns, url=url
        )
        timing = timing._replace(bytes_moved=0)
        counter.check(timing)
        timing = timing._replace(items=counter.items)
        return Page(timing, counter.next_page(), counter.has_wanted)

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
        url = self.any_url()
        size_class, number = job.size_class, job.object
        source = self._places[url][self._container(size_class, number)]
        place = self._places[url][self._container(size_class, target)]
        headers = (
            f"x-amz-copy-source: {source.source}{self._object(size_class, number)}\r\n"
            "x-amz-metadata-directive: REPLACE\r\nx-amz-tagging-directive: REPLACE\r\n"
            f"{self._metadata}{more}"
            f"{self.encryption}{self.of_source}"
        )
        copied = Xml(1)
        timing = self.request(
            "PUT", place, place.path + self._object(size_class, target), "", headers, copied, b"",
            deadline_ns=deadline_ns, url=url,
        )  # fmt: skip
        timing = timing._replace(bytes_moved=0)
        copied.check("CopyObjectResult", timing)
        return timing, {**copied.headers, "etag": copied.values.get("ETag", "")}

    def _put_tags(self, job: Job, deadline_ns: int) -> Timing:
        count, length = map(int, job.arguments)
        tags = tags_of(self._name(job), count, length)
        timing = self._tagging("PUT", job, deadline_ns, Collector(), tagging_request(tags))
        if self._settings.verify:
            _, found = self._tags(job, deadline_ns)
            if found != tags:
                raise self._wrong_tags(job, f"{len(found)} tags that were not set", timing)
        return timing

    def _get_tags(self, job: Job, deadline_ns: int) -> Timing:
        timing, found = self._tags(job, deadline_ns)
        if self._settings.verify and (wrong := foreign_tag(self._name(job), found)):
            raise self._wrong_tags(job, f"a tag {wrong}", timing)
        return timing._replace(items=len(found))

    def _tags(self, job: Job, deadline_ns: int) -> tuple[Timing, dict[str, str]]:
        response = Xml(TAGS_MAX)
        timing = self._tagging("GET", job, deadline_ns, response)
        tags = response.check("Tagging", timing).of("Tag")
        return timing, {tag.get("Key", ""): tag.get("Value", "") for tag in tags}

    def _tagging(
        self,
        method: str,
        job: Job,
        deadline_ns: int,
        response: Collector,
        body: bytes | None = None,
    ) -> Timing:
        url = self.any_url()
        place = self._places[url][self._container(job.size_class, job.object)]
        path = place.path + self._object(job.size_class, job.object)
        lines = content_md5(body) if body else ""
        timing = self.request(
            method, place, path, "tagging=", lines, response, body, deadline_ns=deadline_ns, url=url
        )
        return timing._replace(bytes_moved=0)

    def _name(self, job: Job) -> str:
        return self._bodies.naming.object(job.size_class, job.object)

    def _wrong_tags(self, job: Job, what: str, timing: Timing) -> StorageError:
        where = self._bodies.naming.path(job)
        return StorageError(
            ErrorKind.CORRUPT, f"{where}: the store has {what}", status=timing.status, timing=timing
        )

    def _bulk_delete(self, job: Job, deadline_ns: int) -> Timing:
        """Delete many objects: a request for each of their buckets, one after another."""
        url = self.any_url()
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
        timing = probed(lambda: self._bodiless("HEAD", job, deadline_ns, found))
        timing = self.with_version(timing, found)
        return timing, self.is_initial(timing, found, job)

    def is_initial(self, probe: Timing, found: Collector, job: Job, layout: str = "") -> bool:
        """Whether a response to HEAD shows the job's object as it was made.

        :param layout: of its parts; "": it has none.
        """
        encrypted = (ENCRYPTED_HEADER in found.headers) == bool(self.encryption)
        headers = neutral(found.headers)
        return (
            probe.status == 200
            and encrypted
            and is_initial(headers, job.size, self._settings, layout)
        )


def probed(head: Callable[[], Timing]) -> Timing:
    """The response to the HEAD of an initial object, also if it is 400 or 403: so it is for one
    that is encrypted with another key (SSE-C), which is created again. If the reason is another,
    the PUT shows it: a response to HEAD can't say.

    :raises StorageError: any other failure.
    """
    try:
        return head()
    except StorageError as error:
        if error.status not in (400, 403) or error.timing is None:
            raise
        return error.timing


def check_encrypted(headers: Mapping[str, str], timing: Timing) -> None:
    """:param headers: of the response to an upload with the user's key.
    :raises StorageError: PROTOCOL: the store has ignored the key."""
    if ENCRYPTED_HEADER not in headers:
        raise StorageError(
            ErrorKind.PROTOCOL,
            "the store has not encrypted the object with the given key (SSE-C): its response has no"
            f" {ENCRYPTED_HEADER}",
            status=timing.status,
            timing=timing,
        )


class Part(NamedTuple):
    """A part that was uploaded or copied."""

    measured: PartTiming
    etag: str
    checksum: str  #: in XML; "": none
    mismatch: str  #: of the ETag; "": none


class MultipartObjects(ObjectsInParts):
    """Actions for objects above a size. Each passes smaller objects on.

    :param whole: the actions for objects that are stored as one.
    """

    def __init__(
        self,
        driver: S3Storage,
        large: LargeObject,
        whole: Mapping[int, Action],
    ) -> None:
        super().__init__(driver, large, whole)
        settings, signed = self._settings, driver._signed + driver.encryption
        self._client = driver
        self._object = naming_of(settings, partial(quote, safe="/")).object
        self._signed = signed
        self._signed_of_all = "".join(
            line for line in (signed + driver._of_uploads).splitlines(True)
            if line.lower().startswith(_OF_ALL_REQUESTS)
        )  # fmt: skip
        self._layout = f"multipart {large.segment}"
        self._metadata = f"{driver._metadata}{SEGMENTS}: {self._layout}\r\n"
        self._begin_lines = multipart_checksum_lines(settings.checksum)
        self._abort_timeout_ns = int(settings.network_timeout_s * 1e9)
        #: Uploads that could not be aborted, by job and id.
        self._open: deque[tuple[Job, str]] = deque(maxlen=_OPEN_MAX)
        self.actions = {
            operations.CREATE: self._routed(operations.CREATE, self._write),
            operations.UPDATE: self._routed(operations.UPDATE, self._write),
            operations.POST: self._routed(operations.POST, self._post),
            operations.COPY: self._routed(operations.COPY, self._copy),
            operations.ENSURE: self._routed(operations.ENSURE, self._ensure),
            operations.REMOVE: self._remove,
        }

    # Operations

    def _ensure(self, job: Job, deadline_ns: int) -> Timing:
        found = Collector(bodiless=True)
        key = self._client.encryption
        probe = probed(
            lambda: self._request("HEAD", job, "", deadline_ns, found, key, missing_ok=True)
        )
        if self._client.is_initial(probe, found, job, self._layout):
            return probe._replace(status=200, bytes_moved=0)
        return written_after(probe, self._write, job, deadline_ns)

    def _post(self, job: Job, deadline_ns: int) -> Timing:
        """Set new metadata: a copy onto itself."""
        return self._write(job, deadline_ns, job, f"{POST}: {job.number}\r\n")

    def _copy(self, job: Job, deadline_ns: int) -> Timing:
        """Copy each part on the server. As of any copy, no metadata of the source's is kept."""
        copy = job._replace(object=job.others[0], version=0)
        return self._write(copy, deadline_ns, job)

    def _remove(self, job: Job, deadline_ns: int) -> Timing:
        """Also abort the uploads of the object that are open."""
        timing = self._whole[job.operation](job, deadline_ns)
        if self._may_have_parts(job.size_class):
            container, name = self._place(job)
            with store_is_changed():
                for upload in self._client.open_uploads(container, "", name, deadline_ns):
                    if upload.name == name:
                        self._client.abort_upload(container, upload, "", deadline_ns)
        return timing

    # Uploads

    def _write(
        self, job: Job, deadline_ns: int, source: Job | None = None, more: str = ""
    ) -> Timing:
        """Upload the job's object.

        :param source: copy this object's content instead, part by part.
        :param more: signed header lines.
        """
        version = f"{VERSION}: {job.version}\r\n" if job.version else ""
        response = Xml(1)
        headers = f"{self._signed}{self._metadata}{version}{more}"
        if source is None:  # the checksums of a copy are the store's own business
            headers += self._begin_lines
        begun = self._request("POST", job, "uploads=", deadline_ns, response, headers, b"")
        if self._client.encryption:
            check_encrypted(response.headers, begun)
        # The other root is that of rclone 1.76.
        root = "InitiateMultipartUploadResult"
        found = response.check(root, begun, "InitiateMultipartUpload")
        upload_id = found.values.get("UploadId")
        if not upload_id:
            raise malformed("an upload with an id", begun)

        def put_part(index: int) -> Part:
            return self._put_part(job, upload_id, index, deadline_ns, source)

        try:
            parts = self._all(put_part, range(self._large.count(job.size)))
            timing = self._complete(job, upload_id, parts, deadline_ns)
        except StorageError as error:
            error.partly_done = not self._abort(job, upload_id)
            error.reconnects += begun.reconnects
            raise
        if self._open:
            self._abort(*self._open.popleft())
        requests = begun, timing, *(part.measured.timing for part in parts)
        reconnects = sum(each.reconnects for each in requests)
        moved = job.size if source is None else 0
        timing = timing._replace(bytes_moved=moved, reconnects=reconnects)
        timing = with_parts(timing, [part.measured for part in parts])
        mismatch = next((part.mismatch for part in parts if part.mismatch), "")
        self._check_written(source or job, job, deadline_ns, mismatch, timing)
        return timing

    def _put_part(
        self, job: Job, upload_id: str, index: int, deadline_ns: int, source: Job | None
    ) -> Part:
        """Upload a part, or copy it from another object."""
        start_ns = perf_counter_ns()
        content = self._part(source or job, index)
        query = f"partNumber={index + 1}&uploadId={quote(upload_id, safe='')}"
        copied, summed = Xml(1), None
        if source is None:
            response, lines, body = Collector(), self._signed_of_all, content
            if self._client._begin_sum is not None:
                summed = self._client.summed(content)
                lines, body = lines + summed.lines, summed.upload
        else:
            response = copied
            lines = f"{self._signed_of_all}{self._client.of_source}"
            lines += f"x-amz-copy-source: {self._source(source)}\r\n"
            if job.size > self._large.segment:  # Amazon's S3 takes no range of a small object
                start = index * self._large.segment
                lines += f"x-amz-copy-source-range: bytes={start}-{start + content.size - 1}\r\n"
            body = Upload(0, b"")
        timing = self._request(
            "PUT", job, query, deadline_ns, response, lines, body,
            payload_hash=summed.payload_hash if summed else None,
        )  # fmt: skip
        etag = response.headers.get("etag", "")
        if source is not None:
            etag = copied.check("CopyPartResult", timing).values.get("ETag", "")
        if not etag:
            raise malformed("a part with an ETag", timing)
        headers = {**response.headers, "etag": etag}
        mismatch = self._mismatch(f"part {index + 1}", content, headers)
        return Part(PartTiming(start_ns, timing), etag, summed.element if summed else "", mismatch)

    def _complete(
        self, job: Job, upload_id: str, parts: Sequence[Part], deadline_ns: int
    ) -> Timing:
        """Make an object of the parts. A response with status 200 can be an error."""
        response = Xml(1)
        timing = self._request(
            "POST", job, f"uploadId={quote(upload_id, safe='')}", deadline_ns,
            response, self._signed_of_all,
            complete_request((part.etag, part.checksum) for part in parts),
        )  # fmt: skip
        response.check("CompleteMultipartUploadResult", timing)
        return self._client.with_version(timing, response)

    def _abort(self, job: Job, upload_id: str) -> bool:
        """Abort an upload. One that can't be aborted now is tried again after a later upload."""
        container, name = self._place(job)
        upload = OpenUpload(name, upload_id)
        try:
            deadline_ns = perf_counter_ns() + self._abort_timeout_ns
            self._client.abort_upload(container, upload, self._signed_of_all, deadline_ns)
        except StorageError:
            self._open.append((job, upload_id))
            return False
        return True

    # Requests

    def _place(self, job: Job) -> tuple[str, str]:
        naming, size_class, number = self._bodies.naming, job.size_class, job.object
        return naming.container(size_class, number), naming.object(size_class, number)

    def _source(self, job: Job) -> str:
        container, _ = self._place(job)
        return self._client.place(container).source + self._object(job.size_class, job.object)

    def _request(
        self,
        method: str,
        job: Job,
        query: str,
        deadline_ns: int,
        collector: Collector,
        headers: str = "",
        body: Upload | bytes | None = None,
        *,
        payload_hash: str | None = None,
        missing_ok: bool = False,
    ) -> Timing:
        """A request for the job's object; the arguments are those of ``S3Client.request``."""
        url = self._client.any_url()
        place = self._client.place(self._place(job)[0], url)
        path = place.path + self._object(job.size_class, job.object)
        return self._client.request(
            method, place, path, query, headers, collector, body, payload_hash=payload_hash,
            deadline_ns=deadline_ns, url=url, missing_ok=missing_ok,
        )  # fmt: skip


def _lock_lines(lock: ObjectLock) -> str:
    """The header lines of an upload that is locked from now on."""
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + lock.seconds))
    return (
        f"x-amz-object-lock-mode: {lock.mode.upper()}\r\n"
        f"x-amz-object-lock-retain-until-date: {until}\r\n"
    )
