"""Large objects of S3: multipart uploads.

An upload that is neither completed nor aborted stays open, and keeps its parts, without being
listed among the objects. So one that fails is aborted at once. Clean-up finds those of a killed
worker by the key of their object.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING
from urllib.parse import quote

from ssbench.core import operations
from ssbench.core.errors import StorageError
from ssbench.core.model import Job, LargeObject, Timing
from ssbench.core.naming import naming_of
from ssbench.storage.base import Action, OpenUpload
from ssbench.storage.http.connection import Upload
from ssbench.storage.http.response import Collector
from ssbench.storage.http.store import (
    ObjectBodies,
    ObjectsInParts,
    is_initial,
    store_is_changed,
    written_after,
)
from ssbench.storage.s3.bodies import (
    POST,
    SEGMENTS,
    VERSION,
    Xml,
    complete_request,
    malformed,
    neutral,
    upload_metadata,
)

if TYPE_CHECKING:
    from ssbench.storage.s3.client import S3Client

#: How the signed header lines begin that every request about an upload has. The others belong to
#: the object (its storage class, say), and to the request that opens the upload.
_OF_ALL_REQUESTS = (
    "x-amz-copy-source-", "x-amz-expected-bucket-owner:", "x-amz-request-payer:",
    "x-amz-server-side-encryption-customer-",
)  # fmt: skip
#: Uploads to abort later, at most: those of one worker while the store rejects every request.
_OPEN_MAX = 10_000


class MultipartObjects(ObjectsInParts):
    """Actions for objects above a size. Each passes smaller objects on.

    :param whole: the actions for objects that are stored as one.
    :param signed: further signed header lines of all requests.
    """

    def __init__(
        self,
        client: S3Client,
        bodies: ObjectBodies,
        large: LargeObject,
        whole: Mapping[int, Action],
        signed: str = "",
    ) -> None:
        super().__init__(bodies, large, whole)
        settings, self._client = bodies.settings, client
        self._object = naming_of(settings, partial(quote, safe="/")).object
        self._signed = signed
        self._signed_of_all = "".join(
            line for line in signed.splitlines(True) if line.lower().startswith(_OF_ALL_REQUESTS)
        )
        self._layout = f"multipart {large.segment}"
        self._metadata = f"{upload_metadata(settings)}{SEGMENTS}: {self._layout}\r\n"
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
        probe = self._request("HEAD", job, "", deadline_ns, found, missing_ok=True)
        headers, compressible = neutral(found.headers), self._settings.compressible
        if probe.status != 404 and is_initial(headers, job.size, compressible, self._layout):
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
        response = Xml(1, self._client.signer.token)
        headers = f"{self._signed}{self._metadata}{version}{more}"
        begun = self._request("POST", job, "uploads=", deadline_ns, response, headers, b"")
        upload_id = response.check("InitiateMultipartUploadResult", begun).values.get("UploadId")
        if not upload_id:
            raise malformed("an upload with an id", begun)

        def put_part(index: int) -> tuple[Timing, str]:
            return self._put_part(job, upload_id, index, deadline_ns, source)

        try:
            parts = self._all(put_part, range(self._large.count(job.size)))
            timing = self._complete(job, upload_id, [etag for _, etag in parts], deadline_ns)
        except StorageError as error:
            error.partly_done = not self._abort(job, upload_id)
            error.reconnects += begun.reconnects
            raise
        if self._open:
            self._abort(*self._open.popleft())
        requests = begun, timing, *(part for part, _ in parts)
        reconnects = sum(each.reconnects for each in requests)
        moved = job.size if source is None else 0
        return timing._replace(bytes_moved=moved, reconnects=reconnects)

    def _put_part(
        self, job: Job, upload_id: str, index: int, deadline_ns: int, source: Job | None
    ) -> tuple[Timing, str]:
        """Upload a part, or copy it from another object; returns its ETag as well."""
        content = self._part(source or job, index)
        query = f"partNumber={index + 1}&uploadId={quote(upload_id, safe='')}"
        copied = Xml(1, self._client.signer.token)
        if source is None:
            response, lines, body = Collector(), self._signed_of_all, content
        else:
            response = copied
            lines = f"{self._signed_of_all}x-amz-copy-source: {self._source(source)}\r\n"
            if job.size > self._large.segment:  # Amazon's S3 takes no range of a small object
                start = index * self._large.segment
                lines += f"x-amz-copy-source-range: bytes={start}-{start + content.size - 1}\r\n"
            body = Upload(0, b"")
        timing = self._request("PUT", job, query, deadline_ns, response, lines, body)
        etag = response.headers.get("etag", "")
        if source is not None:
            etag = copied.check("CopyPartResult", timing).values.get("ETag", "")
        if not etag:
            raise malformed("a part with an ETag", timing)
        container, name = self._place(job)
        headers = {**response.headers, "etag": etag}
        self._check_part(f"{container}/{name}, part {index + 1}", content, headers, timing)
        return timing, etag

    def _complete(self, job: Job, upload_id: str, etags: list[str], deadline_ns: int) -> Timing:
        """Make an object of the parts. A response with status 200 can be an error."""
        response = Xml(1, self._client.signer.token)
        timing = self._request(
            "POST", job, f"uploadId={quote(upload_id, safe='')}", deadline_ns,
            response, self._signed_of_all, complete_request(etags),
        )  # fmt: skip
        response.check("CompleteMultipartUploadResult", timing)
        return timing

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
        missing_ok: bool = False,
    ) -> Timing:
        """A request for the job's object; the arguments are those of ``S3Client.request``."""
        url = self._client.any_url()
        place = self._client.place(self._place(job)[0], url)
        path = place.path + self._object(job.size_class, job.object)
        return self._client.request(
            method, place, path, query, headers, collector, body, deadline_ns=deadline_ns, url=url,
            missing_ok=missing_ok,
        )  # fmt: skip
