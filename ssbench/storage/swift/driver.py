"""The data path of the driver for OpenStack Swift: operations on objects, large ones included.

A large object is segments that a manifest joins, static (SLO) or dynamic (DLO). The segments of an
object are in its container, named ``<object>_<version>_<index>``. So the names follow from the
object's, whatever became of its upload, and cleanup finds them. No two versions share a segment,
and no two objects: a copy has segments of its own. A reader of the earlier version never gets bytes
of the next one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from functools import partial
from time import perf_counter_ns
from typing import TypeVar
from urllib.parse import quote, unquote

from ssbench.core import operations
from ssbench.core.content import content_mark, version_of_copy
from ssbench.core.errors import StorageError, UsageError
from ssbench.core.hiding import Secrets
from ssbench.core.model import ErrorKind, Job, LargeObject, Timing
from ssbench.core.naming import (
    CONTENT_HEADER,
    POST_HEADER,
    RUN_HEADER,
    SEGMENT_SUFFIX,
    SEGMENTS_HEADER,
    VERSION_HEADER,
    naming_of,
    segment_name,
)
from ssbench.core.settings import Credentials, StorageSettings, typed
from ssbench.core.text import printable
from ssbench.storage.base import Action, Listed, Page, out_of_order
from ssbench.storage.http.connection import Upload
from ssbench.storage.http.response import HEAD_ONLY, Collector
from ssbench.storage.http.store import (
    HttpClient,
    ObjectsInParts,
    PartTiming,
    VersionedStorage,
    is_initial,
    store_is_changed,
    with_parts,
    written_after,
)
from ssbench.storage.options import HttpSettings
from ssbench.storage.swift.bodies import BulkResult, NameCounter, bulk_error, bulk_result

_BULK_DELETE = "?bulk-delete"  #: of a POST to the account; the body has a name a line
_BULK_HEADERS = "Content-Type: text/plain\r\nAccept: application/json\r\n"
_TRANS_ID_EXTRA_MAX = 32  #: characters that Swift appends to its transaction ids

Client = TypeVar("Client", bound="SwiftClient")


class SwiftClient(HttpClient):
    """Sends requests. Paths are quoted and relative to the account.

    :param seed: of the choice among several storage URLs.
    :raises UsageError: a storage URL, token or certificate is invalid.
    """

    no_url = "no storage URL: authenticate, or give one with -S"

    def __init__(self, settings: StorageSettings, seed: int | None = None) -> None:
        super().__init__(settings, seed, typed(HttpSettings, settings.store))
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
            for site in self._urls
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
        base = self._urls[url].base
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
        self,
        path: str,
        size: int,
        deadline_ns: int,
        segments: str = "",
        found: Collector | None = None,
    ) -> tuple[Timing, bool]:
        """HEAD; and whether it shows an unmodified initial object of this size.

        :param segments: as of ``is_initial``.
        :param found: gets the response.
        """
        if found is None:
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


def _upload_headers(settings: StorageSettings) -> str:
    headers = "Content-Type: application/octet-stream\r\n"
    if settings.run_id:
        headers += f"{RUN_HEADER}: {quote(settings.run_id, safe='')}\r\n"
    if settings.delete_after_s is not None:
        headers += f"X-Delete-After: {settings.delete_after_s}\r\n"
    if mark := content_mark(settings):
        headers += f"{CONTENT_HEADER}: {mark}\r\n"
    return headers


#: Names in the listing of an object's segments: as many as one version can have, by the six digits
#: of their index.
_LISTED_MAX = 1_000_000
_EMPTY = Upload(0, b"")
_quoted = partial(quote, safe="")


class SwiftStorage(SwiftClient, VersionedStorage):
    """Implements ``ssbench.storage.base.ObjectStore``.

    :param seed: of the choice among several storage URLs.
    :raises UsageError: a storage URL, token or certificate is invalid.
    """

    version_header, version_key = "x-object-version-id", "version-id"

    def __init__(self, settings: StorageSettings, seed: int | None = None) -> None:
        super().__init__(settings, seed)
        self._paths = naming_of(settings, _quoted)
        self._path = self._paths.path
        self.actions = self._make_actions()

    def _actions(self) -> dict[int, Action]:
        whole, large = super()._actions(), self._settings.large_object
        return {**whole, **SegmentedObjects(self, large, whole).actions} if large else whole

    def _read(
        self,
        job: Job,
        deadline_ns: int,
        body: Collector | None = None,
        lines: str = "",
        query: str = "",
    ) -> Timing:
        url = 0 if self._url_count == 1 else int(self._random() * self._url_count)
        timing = self._pools[url].request(
            f"GET {self._urls[url].base}{self._path(job)}{query}{self._suffixes[url]}{lines}\r\n"
            .encode(),
            None, deadline_ns, body, self._longest[job.size_class],
        )  # fmt: skip
        if 200 <= timing.status < 300:
            return timing
        raise self.status_error("GET", timing)

    def _read_version(self, job: Job, deadline_ns: int, body: Collector | None = None) -> Timing:
        return self._read(job, deadline_ns, body, query=f"?{self.version_query(job)}")

    def _delete_version(self, job: Job, deadline_ns: int) -> Timing:
        path = f"{self._path(job)}?{self.version_query(job)}"
        return self.request("DELETE", path, None, deadline_ns)._replace(bytes_moved=0)

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
        upload = upload or self._upload(job)
        if self._begin_sum is not None:
            lines += self.sum_lines(upload)
        timing = self._pools[url].request(
            f"PUT {self._urls[url].base}{self._path(job)}{self._upload_suffixes[url]}"
            f"{version}{lines}Content-Length: {job.size}\r\n\r\n".encode(),
            upload,
            deadline_ns,
            response,
        )
        if 200 <= timing.status < 300:
            return timing
        raise self.status_error("PUT", timing)

    def _remove(self, job: Job, deadline_ns: int) -> Timing:
        timing = self.request("DELETE", self._path(job), None, deadline_ns, missing_ok=True)
        return timing._replace(bytes_moved=0)  # an error page is no object data

    def _head(self, job: Job, deadline_ns: int) -> Timing:
        return self.request("HEAD", self._path(job), HEAD_ONLY, deadline_ns)

    def _post(self, job: Job, deadline_ns: int) -> Timing:
        """Set new metadata. POST replaces everything, expiry too: it repeats upload headers."""
        version = f"{VERSION_HEADER}: {job.version}\r\n" if job.version else ""
        timing = self.request(
            "POST", self._path(job), None, deadline_ns, f"{version}{POST_HEADER}: {job.number}\r\n",
            _EMPTY, is_upload=True,
        )  # fmt: skip
        return timing._replace(bytes_moved=0)

    def _page(self, listed: Listed, deadline_ns: int, after: bytes | None = None) -> Page:
        """The empty page is the last: a short one may be followed by another (sharded listings)."""
        names = NameCounter(
            listed.prefix.encode(), listed.limit, after or b"", listed.wanted.encode()
        )
        query = f"{_quoted(listed.container)}?format=plain&limit={listed.limit}"
        query += f"&prefix={_quoted(listed.prefix)}" if listed.prefix else ""
        query += f"&delimiter={_quoted(listed.delimiter)}" if listed.delimiter else ""
        query += f"&marker={_quoted(after)}" if after else ""
        timing = self.request("GET", query, names, deadline_ns)
        timing = timing._replace(bytes_moved=0, items=names.count)
        names.check(timing)
        return Page(timing, names.last if names.count else None, names.has_wanted)

    def _copy(self, job: Job, deadline_ns: int) -> Timing:
        """Copy on the server. Metadata is that of an upload: nothing of the source's is kept."""
        response, copy = Collector(), job._replace(object=job.others[0])
        timing = self.request(
            "PUT", self._path(copy), response, deadline_ns,
            f"X-Copy-From: /{self._path(job)}\r\nX-Fresh-Metadata: true\r\n", _EMPTY,
            is_upload=True,
        )._replace(bytes_moved=0)  # fmt: skip
        if self._settings.verify:
            self._check_write(job, copy, deadline_ns, response, timing)
        return timing

    def _bulk_delete(self, job: Job, deadline_ns: int) -> Timing:
        paths = [self._path(job._replace(object=each)) for each in (job.object, *job.others)]
        return self.delete_paths(paths, deadline_ns)

    def _probe(self, job: Job, deadline_ns: int) -> tuple[Timing, bool]:
        found = Collector(bodiless=True)
        timing, is_initial = self.probe(self._path(job), job.size, deadline_ns, found=found)
        return self.with_version(timing, found), is_initial


class SegmentedObjects(ObjectsInParts):
    """Actions for objects above a size. Each passes smaller objects on.

    :param whole: the actions for objects that are stored as one.
    """

    def __init__(
        self,
        driver: SwiftStorage,
        large: LargeObject,
        whole: Mapping[int, Action],
    ) -> None:
        super().__init__(driver, large, whole)
        self._client = driver
        self._static = large.kind != "dlo"
        self._layout = f"{'slo' if self._static else 'dlo'} {large.segment}"
        self._write_update = self._routed(operations.UPDATE, self._write)
        self.actions = {
            operations.CREATE: self._routed(operations.CREATE, self._write),
            operations.UPDATE: self._update,
            operations.DELETE: self._routed(
                operations.DELETE, self._delete_slo if self._static else self._delete_dlo
            ),
            operations.POST: self._routed(operations.POST, self._post),
            operations.COPY: self._routed(operations.COPY, self._copy),
            operations.BULK_DELETE: self._bulk_delete,
            operations.ENSURE: self._routed(operations.ENSURE, self._ensure),
            operations.REMOVE: self._remove,
        }

    # Operations

    def _update(self, job: Job, deadline_ns: int) -> Timing:
        return self._replace(self._write_update, job, deadline_ns)

    def _ensure(self, job: Job, deadline_ns: int) -> Timing:
        if self._settings.delete_after_s is None:
            probe, is_initial = self._client.probe(
                self._path(job), job.size, deadline_ns, self._layout
            )
            if is_initial:
                return probe._replace(status=200, bytes_moved=0)
            return self._replace(partial(written_after, probe, self._write), job, deadline_ns)
        return self._replace(self._write, job, deadline_ns)

    def _post(self, job: Job, deadline_ns: int) -> Timing:
        """POST of the manifest: it replaces all metadata, so it repeats the manifest's. Segments
        have no metadata of interest, but an expiry of their own, which must not come first."""
        names = self._names(job) if self._settings.delete_after_s is not None else ()
        segments = self._all(
            lambda path: self._client.upload("POST", path, _EMPTY, deadline_ns)[0],
            self._paths(job, names),
        )
        headers = f"{self._manifest_headers(job)}{POST_HEADER}: {job.number}\r\n"
        timing, _ = self._client.upload("POST", self._path(job), _EMPTY, deadline_ns, headers)
        return timing._replace(reconnects=_reconnects(timing, *segments))

    def _copy(self, job: Job, deadline_ns: int) -> Timing:
        """Copy each segment on the server, and make a manifest of the copies."""
        name = self._bodies.naming.object(job.size_class, job.others[0])
        version = 0
        if self._settings.verify:
            version = version_of_copy(self._name(job).encode(), job.version, name.encode())
        copy = job._replace(object=job.others[0], version=version)
        return self._write(copy, deadline_ns, source=job)

    def _delete_slo(self, job: Job, deadline_ns: int) -> Timing:
        """One request deletes manifest and segments; it tells of failures inside a 200."""
        response = Collector()
        path = f"{self._path(job)}?multipart-manifest=delete"
        timing = self._client.request(
            "DELETE", path, response, deadline_ns, "Accept: application/json\r\n"
        )
        timing = timing._replace(bytes_moved=0)
        try:
            result = bulk_result(bytes(response.body))
        except StorageError as error:
            error.timing, error.partly_done = timing, True
            raise
        if result.failures:
            name, status = result.failures[0]
            failure = StorageError(
                ErrorKind.STATUS, f"{name}: {status}", status=status, timing=timing
            )
            failure.partly_done = True
            raise failure
        if not result.deleted:
            raise StorageError(
                ErrorKind.STATUS, "the object is not there", status=404, timing=timing
            )
        return timing

    def _delete_dlo(self, job: Job, deadline_ns: int) -> Timing:
        """First the manifest, then each segment, also where an earlier attempt began with it."""
        timing = self._whole[operations.REMOVE](job, deadline_ns)
        with store_is_changed():
            done = self._delete_all(self._paths(job, self._names(job)), deadline_ns)
        if all(each.status == 404 for each in (timing, *done)):
            raise StorageError(
                ErrorKind.STATUS, "the object is not there", status=404, timing=timing
            )
        last_ns = max(abs(each.last_byte_ns) for each in (timing, *done))
        status = min(each.status for each in (timing, *done))
        return timing._replace(
            status=status, last_byte_ns=last_ns, reconnects=_reconnects(timing, *done)
        )

    def _bulk_delete(self, job: Job, deadline_ns: int) -> Timing:
        """Segments first, as many with each request as there are objects; then the objects.

        The job does not tell versions and sizes of the other objects: listings name the segments.
        What is left of an object is unknown (status 0) if a part of it could not be deleted.
        """
        whole = self._whole[job.operation]
        if not self._may_have_parts(job.size_class):
            return whole(job, deadline_ns)
        jobs = [job._replace(object=each) for each in (job.object, *job.others)]
        listed = self._all(lambda each: self._segments(each, deadline_ns), jobs)
        owned = [
            (path, each.object)
            for each, (names, _) in zip(jobs, listed, strict=True)
            for path in self._paths(each, names)
        ]
        rounds = [owned[at : at + len(jobs)] for at in range(0, len(owned), len(jobs))]
        rounds.append([(self._path(each), each.object) for each in jobs])
        failed: dict[int, StorageError] = {}
        reconnects = sum(count for _, count in listed)
        with store_is_changed():
            for pairs in rounds:
                left = [(path, number) for path, number in pairs if number not in failed]
                if not left:
                    continue
                try:
                    timing = self._client.delete_paths([path for path, _ in left], deadline_ns)
                except StorageError as error:
                    if error.timing is None or not error.timing.statuses:
                        raise
                    timing = error.timing
                    for (_, number), status in zip(left, timing.statuses, strict=True):
                        if status // 100 != 2:
                            failed[number] = error
                reconnects += timing.reconnects
            timing = timing._replace(reconnects=reconnects)
            if failed:
                first = next(iter(failed.values()))
                statuses = tuple(0 if each.object in failed else 200 for each in jobs)
                timing = timing._replace(items=statuses.count(200), statuses=statuses)
                raise StorageError(first.kind, first.detail, status=first.status, timing=timing)
        return timing

    def _remove(self, job: Job, deadline_ns: int) -> Timing:
        """What an upload may have left, whether it was completed or not."""
        timing = self._whole[job.operation](job, deadline_ns)
        return self._delete_segments(job, timing, deadline_ns)

    # Uploads

    def _replace(self, write: Action, job: Job, deadline_ns: int) -> Timing:
        """Its time ends when the new version is there; then the earlier segments are deleted."""
        timing = write(job, deadline_ns)
        return self._delete_segments(job, timing, deadline_ns, self._names(job))

    def _write(self, job: Job, deadline_ns: int, source: Job | None = None) -> Timing:
        """Upload the job's object.

        :param source: copy this object's segments instead.
        """
        container = self._bodies.naming.container(job.size_class, job.object)
        names = self._names(job)
        paths = self._paths(job, names)
        sources = self._paths(source, self._names(source)) if source else []

        def put_segment(index: int) -> tuple[PartTiming, str, str]:
            start_ns = perf_counter_ns()
            content = self._part(source or job, index)
            if sources:
                headers = f"X-Copy-From: /{sources[index]}\r\nX-Fresh-Metadata: true\r\n"
                timing, etag = self._client.upload(
                    "PUT", paths[index], _EMPTY, deadline_ns, headers
                )
            else:
                timing, etag = self._client.upload(
                    "PUT", paths[index], content, deadline_ns, self._client.sum_lines(content)
                )
            mismatch = self._mismatch(names[index], content, {"etag": etag})
            return PartTiming(start_ns, timing), etag, mismatch

        path, body = self._path(job), b""
        with store_is_changed():
            parts = self._all(put_segment, range(len(names)))
            if self._static:
                path += "?multipart-manifest=put"
                last = job.size - (len(names) - 1) * self._large.segment
                sizes = [self._large.segment] * (len(names) - 1) + [last]
                body = json.dumps([
                    {"path": f"/{container}/{name}", "etag": etag, "size_bytes": size}
                    for name, (_, etag, _), size in zip(names, parts, sizes, strict=True)
                ]).encode()  # fmt: skip
            headers = self._manifest_headers(job)
            timing, _ = self._client.upload(
                "PUT", path, Upload(len(body), body), deadline_ns, headers
            )
        segments = [part for part, _, _ in parts]
        reconnects = _reconnects(timing, *(each.timing for each in segments))
        timing = timing._replace(bytes_moved=0 if source else job.size, reconnects=reconnects)
        timing = with_parts(timing, segments)
        mismatch = next((found for _, _, found in parts if found), "")
        self._check_written(source or job, job, deadline_ns, mismatch, timing)
        return timing

    def _manifest_headers(self, job: Job) -> str:
        """The header lines of a manifest, beside those of all uploads."""
        headers = f"{VERSION_HEADER}: {job.version}\r\n" if job.version else ""
        headers += f"{SEGMENTS_HEADER}: {self._layout}\r\n"
        if not self._static:
            prefix = segment_name(self._path(job), job.version, 0).removesuffix("000000")
            headers += f"X-Object-Manifest: {prefix}\r\n"
        return headers

    # Segments

    def _delete_segments(
        self, job: Job, timing: Timing, deadline_ns: int, kept: Iterable[str] = ()
    ) -> Timing:
        """Delete the object's segments of any version, if its class has large objects.

        :param timing: of the operation so far; returned with all reconnects.
        """
        if not self._may_have_parts(job.size_class):
            return timing
        with store_is_changed():
            names, reconnects = self._segments(job, deadline_ns)
            others = set(names).difference(kept)
            done = self._delete_all(self._paths(job, sorted(others)), deadline_ns)
        return timing._replace(reconnects=reconnects + _reconnects(timing, *done))

    def _segments(self, job: Job, deadline_ns: int) -> tuple[list[str], int]:
        """The object's segments that its container lists, of any version; and the reconnects."""
        name = self._name(job)
        is_segment = re.compile(re.escape(name) + SEGMENT_SUFFIX).fullmatch
        container = self._bodies.naming.container(job.size_class, job.object)
        found: list[str] = []
        marker, count, reconnects = "", 0, 0
        while True:
            names, timing = self._page(container, name + "_", marker, deadline_ns)
            reconnects += timing.reconnects
            if not names:
                return found, reconnects
            count += len(names)
            if count > _LISTED_MAX:
                raise StorageError(
                    ErrorKind.PROTOCOL, f"a listing of more than {_LISTED_MAX:,} segments"
                )
            found += filter(is_segment, names)
            marker = names[-1]

    def _page(
        self, container: str, prefix: str, marker: str, deadline_ns: int
    ) -> tuple[list[str], Timing]:
        """A page of a container's listing.

        :raises StorageError: PROTOCOL: the names don't ascend from the marker, so that the listing
            might never end.
        """
        page = Collector()
        query = f"format=plain&prefix={_quoted(prefix)}&marker={_quoted(marker)}"
        timing = self._client.request("GET", f"{_quoted(container)}?{query}", page, deadline_ns)
        try:
            text = page.body.decode()
        except UnicodeDecodeError as error:
            raise StorageError(ErrorKind.PROTOCOL, "a listing that is no UTF-8") from error
        # Not splitlines(): it also splits at characters that names may have.
        names = text.removesuffix("\n").split("\n") if text else []
        if fault := out_of_order([marker, *names]):
            before, name = map(printable, fault)
            raise StorageError(
                ErrorKind.PROTOCOL,
                f'a listing that is not in order: "{name}" comes after "{before}"',
            )
        return names, timing

    def _delete_all(self, paths: Iterable[str], deadline_ns: int) -> list[Timing]:
        """Delete segments; a missing one is no failure."""

        def delete(path: str) -> Timing:
            request = self._client.request
            return request("DELETE", path, Collector(), deadline_ns, missing_ok=True)

        return self._all(delete, paths)

    # Names

    def _name(self, job: Job) -> str:
        return self._bodies.naming.object(job.size_class, job.object)

    def _names(self, job: Job) -> list[str]:
        """The names of its segments; none if it is stored as one."""
        name, count = self._name(job), self._large.count(job.size)
        return [segment_name(name, job.version, index) for index in range(count)]

    def _path(self, job: Job) -> str:
        return self._paths(job, [self._name(job)])[0]

    def _paths(self, job: Job, names: Iterable[str]) -> list[str]:
        """``container/name``, quoted, of names in the container of the job's object."""
        container = _quoted(self._bodies.naming.container(job.size_class, job.object))
        return [f"{container}/{_quoted(name)}" for name in names]


def _reconnects(*timings: Timing) -> int:
    return sum(each.reconnects for each in timings)
