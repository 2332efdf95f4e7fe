"""Large objects of OpenStack Swift: segments that a manifest joins, static (SLO) or dynamic (DLO).

The segments of an object are in its container, named ``<object>_<version>_<index>``. So the names
follow from the object's, whatever became of its upload, and cleanup finds them. No two versions
share a segment: a reader of the earlier version never gets bytes of the next one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from hashlib import md5
from typing import TypeVar
from urllib.parse import quote

from gevent.pool import Pool

from ssbench.core import operations
from ssbench.core.bodycheck import claimed_md5
from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind, Job, LargeObject, Timing
from ssbench.core.naming import SEGMENT_SUFFIX, SEGMENTS_HEADER, VERSION_HEADER, segment_name
from ssbench.core.settings import StorageSettings
from ssbench.core.text import printable
from ssbench.storage.base import Action
from ssbench.storage.httpbody import Collector
from ssbench.storage.httpconn import Upload
from ssbench.storage.httpstore import RESPONSE_MAX, ObjectBodies
from ssbench.storage.swiftaccount import Account
from ssbench.storage.swiftparse import bulk_result, is_initial

#: Names in the listing of an object's segments: as many as one version can have, by the six digits
#: of their index.
_LISTED_MAX = 1_000_000
_quoted = partial(quote, safe="")
Item = TypeVar("Item")
Result = TypeVar("Result")


class LargeObjects:
    """Actions for objects above a size. Each passes smaller objects on.

    :param whole: the actions for objects that are stored as one.
    """

    def __init__(
        self,
        account: Account,
        bodies: ObjectBodies,
        settings: StorageSettings,
        large: LargeObject,
        whole: Mapping[int, Action],
    ) -> None:
        self._account = account
        self._bodies = bodies
        self._settings = settings
        self._large = large
        self._whole = whole
        self._static = large.kind != "dlo"
        self._layout = f"{'slo' if self._static else 'dlo'} {large.segment}"
        self.actions: Mapping[int, Action] = {
            operations.CREATE: self._create,
            operations.UPDATE: self._update,
            operations.DELETE: self._delete_slo if self._static else self._delete_dlo,
            operations.ENSURE: self._ensure,
            operations.REMOVE: self._remove,
        }

    # Operations

    def _create(self, job: Job, deadline_ns: int) -> Timing:
        if not self._large.count(job.size):
            return self._whole[job.operation](job, deadline_ns)
        return self._write(job, deadline_ns)

    def _update(self, job: Job, deadline_ns: int) -> Timing:
        """Its time ends when the new version is there; then the earlier segments are deleted."""
        timing = self._create(job, deadline_ns)
        self._tidy(job, deadline_ns)
        return timing

    def _ensure(self, job: Job, deadline_ns: int) -> Timing:
        if not self._large.count(job.size):
            return self._whole[job.operation](job, deadline_ns)
        if self._settings.delete_after_s is None:
            head = Collector(RESPONSE_MAX, bodiless=True)
            timing = self._account.request("HEAD", self._path(job), head, deadline_ns)
            if timing.status // 100 != 2 and timing.status != 404:
                raise self._account.status_error("HEAD", timing)
            compressible = self._settings.compressible
            if timing.status != 404 and is_initial(
                head.headers, job.size, compressible, self._layout
            ):
                return timing._replace(status=200, bytes_moved=0)
        return self._update(job, deadline_ns)

    def _delete_slo(self, job: Job, deadline_ns: int) -> Timing:
        """One request deletes manifest and segments; it tells of failures inside a 200."""
        if not self._large.count(job.size):
            return self._whole[job.operation](job, deadline_ns)
        response = Collector(RESPONSE_MAX)
        path = f"{self._path(job)}?multipart-manifest=delete"
        timing = self._account.request(
            "DELETE", path, response, deadline_ns, "Accept: application/json\r\n"
        )
        timing = timing._replace(bytes_moved=0)
        if not 200 <= timing.status < 300:
            raise self._account.status_error("DELETE", timing)
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
        count = self._large.count(job.size)
        if not count:
            return self._whole[job.operation](job, deadline_ns)
        timing = self._whole[operations.REMOVE](job, deadline_ns)
        names = [segment_name(self._name(job), job.version, index) for index in range(count)]
        done = self._delete_all(job, names, deadline_ns)
        if all(each.status == 404 for each in (timing, *done)):
            raise StorageError(
                ErrorKind.STATUS, "the object is not there", status=404, timing=timing
            )
        last_ns = max(abs(each.last_byte_ns) for each in (timing, *done))
        status = min(each.status for each in (timing, *done))
        return timing._replace(status=status, last_byte_ns=last_ns)

    def _remove(self, job: Job, deadline_ns: int) -> Timing:
        """What an upload may have left, whether it was completed or not."""
        timing = self._whole[job.operation](job, deadline_ns)
        if self._large.count(self._bodies.longest[job.size_class]):
            self._delete_all(job, self._segments(job, deadline_ns), deadline_ns)
        return timing

    # Uploads

    def _write(self, job: Job, deadline_ns: int) -> Timing:
        large, name = self._large, self._name(job)
        container = self._bodies.naming.container(job.size_class, job.object)
        count = large.count(job.size)

        def put_segment(index: int) -> tuple[Timing, str]:
            start = index * large.segment
            upload = self._bodies.part(job, start, min(large.segment, job.size - start))
            place = f"{container}/{segment_name(name, job.version, index)}"
            return self._put(_quoted_path(place), upload, deadline_ns, check=place)

        parts = self._all(put_segment, range(count))
        version = f"{VERSION_HEADER}: {job.version}\r\n" if job.version else ""
        headers = f"{version}{SEGMENTS_HEADER}: {self._layout}\r\n"
        path, body = self._path(job), b""
        if self._static:
            path += "?multipart-manifest=put"
            body = json.dumps([
                {
                    "path": f"/{container}/{segment_name(name, job.version, index)}",
                    "etag": etag,
                    "size_bytes": min(large.segment, job.size - index * large.segment),
                }
                for index, (_, etag) in enumerate(parts)
            ]).encode()  # fmt: skip
        else:
            prefix = segment_name(name, job.version, 0).removesuffix("000000")
            headers += f"X-Object-Manifest: {_quoted(container)}/{_quoted(prefix)}\r\n"
        try:
            timing, _ = self._put(path, Upload(len(body), body), deadline_ns, headers)
        except StorageError as error:
            error.partly_done = True
            raise
        reconnects = timing.reconnects + sum(part.reconnects for part, _ in parts)
        return timing._replace(bytes_moved=job.size, reconnects=reconnects)

    def _put(
        self, path: str, upload: Upload, deadline_ns: int, headers: str = "", check: str = ""
    ) -> tuple[Timing, str]:
        """PUT; returns the ETag as well.

        :param check: under --verify, the ETag must be the body's MD5; the name for errors.
        """
        account = self._account
        url = 0 if len(account.pools) == 1 else int(account.random() * len(account.pools))
        head = (
            f"PUT {account.sites[url].base}{path}{account.upload_header_suffixes[url]}{headers}"
            f"Content-Length: {upload.size}\r\n\r\n"
        )
        response = Collector(RESPONSE_MAX)
        timing = account.pools[url].request(head.encode(), upload, deadline_ns, response)
        if not 200 <= timing.status < 300:
            raise account.status_error("PUT", timing)
        etag = claimed_md5(response.headers) or ""
        if check and self._settings.verify:
            digest = md5(upload.first, usedforsecurity=False)
            for piece in upload.rest() if upload.rest else ():
                digest.update(piece)
            if etag != digest.hexdigest():
                wrong = f"{check}: the ETag is {etag}, and the MD5 of what was sent"
                raise StorageError(
                    ErrorKind.CORRUPT, f"{wrong} {digest.hexdigest()}",
                    status=timing.status, timing=timing,
                )  # fmt: skip
        return timing, etag

    # Segments

    def _tidy(self, job: Job, deadline_ns: int) -> None:
        """Delete segments of other versions, if the class has large objects."""
        if self._large.count(self._bodies.longest[job.size_class]):
            name, count = self._name(job), self._large.count(job.size)
            kept = {segment_name(name, job.version, index) for index in range(count)}
            others = [each for each in self._segments(job, deadline_ns) if each not in kept]
            self._delete_all(job, others, deadline_ns)

    def _segments(self, job: Job, deadline_ns: int) -> list[str]:
        """The names of the object's segments that its container lists, of any version."""
        name = self._name(job)
        is_segment = re.compile(re.escape(name) + SEGMENT_SUFFIX).fullmatch
        container = self._bodies.naming.container(job.size_class, job.object)
        found: list[str] = []
        marker, count = "", 0
        try:
            while names := self._page(container, name + "_", marker, deadline_ns):
                count += len(names)
                if count > _LISTED_MAX:
                    raise StorageError(
                        ErrorKind.PROTOCOL, f"a listing of more than {_LISTED_MAX:,} segments"
                    )
                found += filter(is_segment, names)
                marker = names[-1]
        except StorageError as error:
            error.partly_done = True
            raise
        return found

    def _page(self, container: str, prefix: str, marker: str, deadline_ns: int) -> list[str]:
        """A page of a container's listing.

        :raises StorageError: PROTOCOL: the names don't ascend from the marker, so that the listing
            might never end.
        """
        page = Collector(RESPONSE_MAX)
        query = f"format=plain&prefix={_quoted(prefix)}&marker={_quoted(marker)}"
        timing = self._account.request("GET", f"{_quoted(container)}?{query}", page, deadline_ns)
        if not 200 <= timing.status < 300:
            raise self._account.status_error("GET", timing)
        try:
            text = page.body.decode()
        except UnicodeDecodeError as error:
            raise StorageError(ErrorKind.PROTOCOL, "a listing that is no UTF-8") from error
        # Not splitlines(): it also splits at characters that names may have.
        names = text.removesuffix("\n").split("\n") if text else []
        for name in names:
            if name <= marker:
                raise StorageError(
                    ErrorKind.PROTOCOL,
                    f'a listing that is not in order: "{printable(name)}" comes after'
                    f' "{printable(marker)}"',
                )
            marker = name
        return names

    def _delete_all(self, job: Job, names: Iterable[str], deadline_ns: int) -> list[Timing]:
        """Delete segments; a missing one is no failure."""
        container = self._bodies.naming.container(job.size_class, job.object)

        def delete(name: str) -> Timing:
            response = Collector(RESPONSE_MAX)
            path = _quoted_path(f"{container}/{name}")
            timing = self._account.request("DELETE", path, response, deadline_ns)
            if timing.status // 100 != 2 and timing.status != 404:
                raise self._account.status_error("DELETE", timing)
            return timing

        return self._all(delete, names)

    def _all(self, request: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """The results of requests, ``parallel`` at once, in order.

        :raises StorageError: the first failure, when none is in flight any more. The store may
            have been changed.
        """
        failures: list[StorageError] = []

        def attempt(item: Item) -> Result | None:
            # Returned, not raised: gevent prints exceptions that leave a greenlet.
            try:
                return request(item)
            except StorageError as error:
                failures.append(error)
                return None

        def wanted() -> Iterable[Item]:
            for item in items:
                if failures:
                    return
                yield item

        pool = Pool(self._large.parallel)
        results = list(pool.imap(attempt, wanted(), maxsize=self._large.parallel))
        if failures:
            failures[0].partly_done = True
            raise failures[0]
        return [each for each in results if each is not None]

    # Names

    def _name(self, job: Job) -> str:
        return self._bodies.naming.object(job.size_class, job.object)

    def _path(self, job: Job) -> str:
        container = self._bodies.naming.container(job.size_class, job.object)
        return _quoted_path(f"{container}/{self._name(job)}")


def _quoted_path(place: str) -> str:
    """``container/object`` for a URL."""
    container, _, name = place.partition("/")
    return f"{_quoted(container)}/{_quoted(name)}"
