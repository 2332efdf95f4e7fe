"""The admin of the driver for S3: containers, listings, limits, deletes.

A container is a bucket, or a prefix of one bucket. Its mark is an object in it, which listings here
leave out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from heapq import nsmallest
from time import time
from urllib.parse import quote, unquote

from ssbench.core.errors import StorageError, UsageError
from ssbench.core.model import ErrorKind
from ssbench.core.retry import RETRIED_STATUSES
from ssbench.core.settings import StorageSettings
from ssbench.core.text import printable
from ssbench.storage.base import (
    ContainerEntry,
    ContainerInfo,
    Kept,
    ListedVersion,
    ObjectEntry,
    StoreLimits,
    StoreState,
    VersionMarker,
    VersionPage,
    all_versions,
    check_listed,
    delete_all_versions,
    make_marked,
    unless_missing,
)
from ssbench.storage.http.addresses import quoted_name
from ssbench.storage.http.response import Collector, seconds_ahead
from ssbench.storage.s3.bodies import (
    MARK,
    NAMESPACE,
    RUN_HEADER,
    Xml,
    check_buckets,
    check_listing,
    container_of,
    delete_request,
    is_truncated,
    listing_query,
    malformed,
    name_in,
    size_of,
    status_of,
    upload_metadata,
)
from ssbench.storage.s3.client import Place, S3Client, content_md5

_PAGE = 1000  #: entries of a listing page, and names of a multi-delete: S3's maximum
_BUCKETS_MAX = 100_000  #: in one response; S3 does not page them unless asked
_OBJECT_MAX = 5 * 1024**3  #: bytes of one PUT, or of a part
_PART_MIN = 5 * 1024**2  #: bytes of a part that is not the last
_PARTS_MAX = 10_000
_KEY_MAX = 1024  #: bytes
_BUCKET_NAME_MAX = 63


class S3Admin(S3Client):
    """Implements ``StoreAdmin``, ``UploadAdmin`` and ``VersionAdmin`` of ``ssbench.storage.base``.

    :raises UsageError: an endpoint, a bucket, the credentials or a certificate is invalid; or a
        storage policy is asked for.
    """

    def __init__(self, settings: StorageSettings, seed: int | None = None) -> None:
        if settings.placement:
            raise UsageError(f'S3 has no storage policies: leave out "{settings.placement}"')
        super().__init__(settings, seed)
        self._has_listed = False  #: a listing of objects was understood
        self._bucket_versioned: bool | None = None  #: that of the user; None: not yet asked

    def limits(self) -> StoreLimits:
        return StoreLimits(
            max_object_size=_OBJECT_MAX,
            max_object_name_length=_KEY_MAX,
            max_container_name_length=None if self._own.bucket else _BUCKET_NAME_MAX,
            listing_limit=_PAGE,
            policies=(),
            large_objects={"multipart": _PARTS_MAX},
            min_part_size=_PART_MIN,
            bulk_delete_max=_PAGE,
        )

    def state(self) -> StoreState:
        place, collector = self.place(None), Collector(bodiless=True)
        with suppress(StorageError):  # a refusal has the store's time, too
            self.request("HEAD", place, place.bucket_path, collector=collector)
        return StoreState(None, seconds_ahead(collector.headers, time()))

    def owns(self, container: str) -> bool:
        return self.container_info(container).marked

    def container_info(self, container: str) -> ContainerInfo:
        place = self.place(container)
        found, is_whole = self._page(place, "", 2)
        names = [entry.name for entry in found]
        marked = MARK in names or (
            bool(names or not self._own.bucket) and self._is_there("HEAD", place, place.path + MARK)
        )
        count = len([name for name in names if name != MARK]) if is_whole else None
        if not marked and count == 0 and self._has_uploads(container):
            count = None  # another client is at work here
        elif self._own.bucket and not names:
            raise StorageError(ErrorKind.STATUS, f"there is no {place.path}", status=404)
        return ContainerInfo(policy=None, marked=marked, object_count=count)

    def make_container(
        self, container: str, changing: Callable[[], None] | None = None
    ) -> ContainerInfo | None:
        if self._own.bucket:  # that of the user: nothing is put into one that does not fit
            self._prepare(container, False, changing)
            return make_marked(self._info_of_prefix, self._make, container, changing, self)
        found = make_marked(self.container_info, self._make, container, changing, self)
        is_ours = found is None or found.marked or found.object_count == 0
        self._prepare(container, is_ours, changing)
        return found

    def _prepare(self, container: str, may: bool, changing: Callable[[], None] | None) -> None:
        """Turn on versions and locks as far as the settings ask for them.

        :param may: it is for us to do that.
        """
        if self._settings.versioning and (status := self._versioning(container)) != "Enabled":
            self._keep_versions(container, status, may, changing)
        if self._settings.object_lock is not None:
            self._allow_locks(container, may, changing)

    def _info_of_prefix(self, container: str) -> ContainerInfo:
        """As ``container_info``, of the user's bucket: a prefix is there, and not empty, also where
        it has only versions of deleted objects, which have to stay."""
        try:
            return self.container_info(container)
        except StorageError as error:
            if error.status != 404:
                raise
            if self._bucket_versioned is None:
                self._bucket_versioned = self.keeps_versions(container)
            if not (self._bucket_versioned and self.list_versions(container, None).versions):
                raise
        return ContainerInfo(policy=None, marked=False, object_count=None)

    def _keep_versions(
        self, container: str, status: str, may: bool, changing: Callable[[], None] | None
    ) -> None:
        """Turn versions on, if it is for us to do that.

        :raises StorageError: the bucket, or the store, keeps none.
        """
        place = self.place(container)
        if not may:
            raise StorageError(
                ErrorKind.STATUS,
                f"versioning of bucket {place.bucket_path[1:]} is"
                f" {printable(status).lower() or 'off'}, and not ours to change: turn it on, or"
                " leave out versioning",
            )
        if changing is not None:
            changing()
        body = f'<VersioningConfiguration xmlns="{NAMESPACE}"><Status>Enabled</Status>'
        self._configure(place, "versioning=", f"{body}</VersioningConfiguration>", "versions")
        if self._versioning(container) != "Enabled":
            raise StorageError(
                ErrorKind.STATUS,
                f"the store keeps no versions of objects in bucket {place.bucket_path[1:]}",
            )

    def _allow_locks(self, container: str, may: bool, changing: Callable[[], None] | None) -> None:
        """Allow locks on objects, as ``_keep_versions`` turns versions on.

        :raises StorageError: the bucket, or the store, has none.
        """
        place = self.place(container)
        with suppress(StorageError):
            found = self._xml(place, place.bucket_path, "object-lock=", 1)
            if found.values.get("ObjectLockEnabled") == "Enabled":
                return
        if not may:
            raise StorageError(
                ErrorKind.STATUS,
                f"bucket {place.bucket_path[1:]} has no object lock, and is not ours to change:"
                " enable object lock in it, or leave out object_lock",
            )
        if changing is not None:
            changing()
        body = f'<ObjectLockConfiguration xmlns="{NAMESPACE}"><ObjectLockEnabled>Enabled'
        body += "</ObjectLockEnabled></ObjectLockConfiguration>"
        self._configure(place, "object-lock=", body, "locks")

    def _configure(self, place: Place, query: str, body: str, what: str) -> None:
        data = body.encode()
        try:
            self.request("PUT", place, place.bucket_path, query, content_md5(data), body=data)
        except StorageError as error:
            if error.kind is ErrorKind.STATUS:
                key = query.rstrip("=").replace("-", "_")
                error.detail = (
                    f"the store has no {what} of objects: leave out {key} ({error.detail})"
                )
            raise

    def _make(self, container: str, found: ContainerInfo | None) -> None:
        place = self.place(container)
        is_new = found is None and not self._own.bucket and self._make_bucket(place)
        try:
            self._put_mark(place)
        except StorageError as error:
            if is_new and self._own.bucket_owner and error.status == 403:
                with suppress(StorageError):  # clean-up would leave it alone, without the mark
                    self._is_there("DELETE", _of_any_owner(place), place.bucket_path)
            raise
        if not self._has_listed:
            self._check_listing(container)

    def _check_listing(self, container: str) -> None:
        """Check once that a new container can be listed: otherwise all would stay behind.

        :raises StorageError: its listing is not one that ssbench understands.
        """
        place = self.place(container)
        try:
            self._page(place, "", 1)
        except StorageError as error:
            if error.kind is not ErrorKind.PROTOCOL:
                return
            with suppress(StorageError):
                self._is_there("DELETE", place, place.path + MARK)
                if not self._own.bucket:
                    self._is_there("DELETE", place, place.bucket_path)
            raise

    def _make_bucket(self, place: Place) -> bool:
        """Whether it is new; another master may make it at the same moment."""
        region = self.signer.region
        body = b""
        if region not in ("", "us-east-1"):  # that is the default, and may not be named
            constraint = f"<LocationConstraint>{region}</LocationConstraint>"
            body = f"<CreateBucketConfiguration>{constraint}</CreateBucketConfiguration>".encode()
        # It belongs to nobody yet; and Amazon's CreateBucket has no expected owner.
        try:
            self.request("PUT", _of_any_owner(place), place.bucket_path, body=body)
        except StorageError as error:
            if error.status != 409:
                raise
            if not self._is_there("HEAD", place, place.bucket_path):
                raise StorageError(ErrorKind.STATUS, error.detail) from error
            return False
        return True

    def _put_mark(self, place: Place) -> None:
        headers = upload_metadata(self._settings)
        self.request("PUT", place, place.path + MARK, headers=headers, body=b"")

    def list_containers(self, prefix: str, marker: str, limit: int) -> list[ContainerEntry]:
        # All of them each time: S3 orders prefixes and buckets otherwise than we their containers.
        names = self._prefixes(prefix) if self._own.bucket else self._buckets()
        found = (name for name in names if name.startswith(prefix) and name > marker)
        return [ContainerEntry(name, 0, 0) for name in nsmallest(limit, found)]

    def _buckets(self) -> list[str]:
        place = self.place(None)
        listing = check_buckets(self._xml(place, place.bucket_path, "", _BUCKETS_MAX))
        buckets = [record.get("Name", "") for record in listing.of("Bucket")]
        if self._settings.exact_names:
            return buckets
        return [name for name in map(container_of, buckets) if name is not None]

    def _prefixes(self, prefix: str) -> Iterator[str]:
        """The containers of the one bucket that begin with this."""
        place = self.place(None)
        read, most = 0, self._settings.listed_max
        tokens: set[int] = set()  #: of the pages so far, as hashes
        token = ""  # nosec B105 # of the first page
        while True:
            listing = self._list(place, prefix, "", _PAGE, token=token, delimiter="/")
            read += _PAGE  # whatever it holds, it cost a request
            check_listed(read, max(most, _PAGE), printable(self._own.bucket))
            for record in listing.of("CommonPrefixes"):
                name = name_in(listing, record.get("Prefix", ""))
                if not name.startswith(prefix):
                    raise malformed("a listing of the prefix that was requested")
                yield name.removesuffix("/")
            token = listing.values.get("NextContinuationToken", "")
            if not is_truncated(listing) or not token:
                return
            if hash(token) in tokens:
                raise malformed("a listing that advances")
            tokens.add(hash(token))

    def list_objects(self, container: str, marker: str, limit: int) -> list[ObjectEntry]:
        place = self.place(container)
        while True:
            page, is_whole = self._page(place, marker, min(limit, _PAGE))
            entries = [entry for entry in page if entry.name != MARK]
            if entries or is_whole:
                return entries
            if marker >= MARK:
                raise malformed("a listing that advances")
            marker = MARK  # the page had nothing else

    def _page(self, place: Place, marker: str, limit: int) -> tuple[list[ObjectEntry], bool]:
        """One page of a container, its mark included, and whether nothing follows it."""
        after = place.prefix + marker if marker else ""
        listing = self._list(place, place.prefix, after, limit)
        entries = []
        for record in listing.of("Contents"):
            key = name_in(listing, record.get("Key", ""))
            if not key.startswith(place.prefix):
                raise malformed("a listing of the prefix that was requested")
            name = key.removeprefix(place.prefix)
            if name:  # a key that is the prefix itself is a folder of some other client
                entries.append(ObjectEntry(name, size_of(record)))
        return entries, not is_truncated(listing)

    def _list(
        self,
        place: Place,
        prefix: str,
        after: str,
        limit: int,
        *,
        token: str = "",
        delimiter: str = "",
    ) -> Xml:
        query = listing_query(prefix, limit, after=after, token=token, delimiter=delimiter)
        listing = check_listing(self._xml(place, place.bucket_path, query, limit))
        self._has_listed = True
        return listing

    def object_run_id(self, container: str, name: str) -> str | None:
        place = self.place(container)
        collector = Collector(bodiless=True)
        path = place.path + quoted_name(name, "/")
        self.request("HEAD", place, path, headers=self.encryption, collector=collector)
        run = collector.headers.get(RUN_HEADER)
        return None if run is None else unquote(run)

    def delete_object(self, container: str, name: str) -> bool:
        """As in the protocol; but S3 does not report whether the object existed."""
        place = self.place(container)
        return self._is_there("DELETE", place, place.path + quoted_name(name, "/"))

    def bulk_delete(self, container: str, names: Sequence[str]) -> list[tuple[str, int]]:
        place = self.place(container)
        keys = [place.prefix + name for name in names]
        _, failures = self.delete_keys(place, keys)
        return [(key.removeprefix(place.prefix), status) for key, status in failures.items()]

    def delete_container(self, container: str) -> bool:
        place = self.place(container)
        found = unless_missing(self.container_info, container)
        if found is None:
            return False
        if found.object_count != 0 or self._has_uploads(container):
            raise StorageError(ErrorKind.STATUS, f"{place.path} is not empty", status=409)
        if self._own.bucket and found.marked and self.keeps_versions(container):
            # Where objects can be locked, versitygw 1.8 does not delete the only version of an
            # object that is older than the bucket's versioning.
            self._put_mark(place)
            self._delete_versions(container)
            return True
        if found.marked:
            self._is_there("DELETE", place, place.path + MARK)
        if self._own.bucket:
            return True
        try:
            return self._is_there("DELETE", place, place.bucket_path)
        except StorageError as error:
            if not found.marked:
                raise
            self._put_mark(place)  # or no cleanup would take it for ours any more
            if error.status != 409 or not self.keeps_versions(container):
                raise
        self._delete_versions(container)
        return self._is_there("DELETE", place, place.bucket_path)

    def keeps_versions(self, container: str) -> bool:
        return self._versioning(container) != ""

    def _versioning(self, container: str) -> str:
        """Enabled, Suspended (its bucket keeps earlier versions only) or "" (never had any)."""
        place = self.place(container)
        try:
            return self._xml(place, place.bucket_path, "versioning=", 1).values.get("Status", "")
        except StorageError:
            return ""

    def _delete_versions(self, container: str) -> None:
        """Delete all versions and delete markers of a container that is ours, those of its mark
        last: until then it stays ours.

        :raises StorageError: the store keeps some.
        """
        place, most = self.place(container), self._settings.listed_max
        delete_all_versions(self, container, most)
        for page in all_versions(partial(self._versions, place, MARK), container, most):
            of_mark = [each for each in page if each.name == MARK]
            for _, why, is_busy in self.delete_versions(container, of_mark):
                detail = f"{place.path} keeps its mark: {why}"
                raise StorageError(ErrorKind.STATUS, detail, status=503 if is_busy else 0)

    def list_versions(self, container: str, at: VersionMarker | None) -> VersionPage:
        found, after = self._versions(self.place(container), "", at)
        return VersionPage([each for each in found if each.name != MARK], after)

    def _versions(self, place: Place, prefix: str, at: VersionMarker | None) -> VersionPage:
        """A page of the versions and delete markers of what begins with a prefix."""
        query, marker = "encoding-type=url", ""
        if at is not None:
            key, version = (quote(each, safe="") for each in at)
            query += f"&key-marker={key}"
            marker = f"&version-id-marker={version}" if version else ""
        query += f"&max-keys={_PAGE}&prefix={quote(place.prefix + prefix, safe='')}{marker}"
        listing = self._xml(place, place.bucket_path, f"{query}&versions=", _PAGE)
        found = []
        for kind, record in listing.check("ListVersionsResult").records:
            if kind not in ("Version", "DeleteMarker"):
                continue
            key = name_in(listing, record.get("Key", ""))
            if not key.startswith(place.prefix + prefix):
                raise malformed("a listing of the prefix that was requested")
            name, version = key.removeprefix(place.prefix), record.get("VersionId", "")
            if not version:  # a deletion without one would be of the object
                raise malformed("an id of each version")
            is_newest = record.get("IsLatest", "").lower() == "true"
            found.append(ListedVersion(name, version, is_newest, kind == "DeleteMarker"))
        found.sort(key=lambda each: (each.name, not each.is_newest))  # some list markers behind all
        if not is_truncated(listing):
            return VersionPage(found, None)
        after = (
            name_in(listing, listing.values.get("NextKeyMarker", "")),
            listing.values.get("NextVersionIdMarker", ""),
        )
        if after == at or after[0] < (at or ("",))[0] or not after[0]:
            raise malformed("a listing that advances")
        return VersionPage(found, after)

    def delete_versions(self, container: str, versions: Sequence[ListedVersion]) -> list[Kept]:
        place, kept = self.place(container), list[Kept]()
        for at in range(0, len(versions), _PAGE):
            some = {(place.prefix + each.name, each.id): each for each in versions[at : at + _PAGE]}
            body = delete_request(*zip(*some, strict=True))
            response = Xml(len(some))
            timing = self.request(
                "POST", place, place.bucket_path, "delete=", content_md5(body), response, body
            )
            for record in response.check("DeleteResult", timing).of("Error"):
                key, version = record.get("Key", ""), record.get("VersionId", "")
                code = record.get("Code", "")
                if code in ("NoSuchKey", "NoSuchVersion"):
                    continue
                if not version:  # Swift does not say of which version an error is
                    version = next((id_ for name, id_ in some if name == key), "")
                left = some.pop((key, version), None)
                if left is None:
                    raise malformed("errors of the versions that were requested", timing)
                if status_of(code) in RETRIED_STATUSES:
                    kept.append(Kept(left, printable(code), is_busy=True))
                else:
                    why = f"{printable(code)}{self._lock_of(place, key, version)}"
                    kept.append(Kept(left, why))
        return kept

    def _lock_of(self, place: Place, key: str, version: str) -> str:
        """Until when a version is locked, as text; "" if the store doesn't say so."""
        query = f"&versionId={quote(version, safe='')}"
        with suppress(StorageError):
            path = place.path + quoted_name(key.removeprefix(place.prefix), "/")
            found = self._xml(place, path, f"retention={query}", 1).values
            if until := found.get("RetainUntilDate", ""):
                return f": locked ({printable(found.get('Mode', ''))}) until {printable(until)}"
        with suppress(StorageError):
            path = place.path + quoted_name(key.removeprefix(place.prefix), "/")
            found = self._xml(place, path, f"legal-hold={query}", 1).values
            if found.get("Status") == "ON":
                return ": locked by a legal hold"
        return ""

    def _has_uploads(self, container: str) -> bool:
        """Whether uploads are open; False if the store has no such listing, or refuses it."""
        try:
            return bool(self.open_uploads(container, ""))
        except StorageError as error:
            if error.kind is ErrorKind.STATUS and (error.status // 100 == 4 or error.status == 501):
                return False
            raise

    def _is_there(self, method: str, place: Place, path: str) -> bool:
        """False if the response was 404, else True."""
        collector = Collector(bodiless=method == "HEAD")
        timing = self.request(method, place, path, collector=collector, missing_ok=True)
        return timing.status != 404

    def _xml(self, place: Place, path: str, query: str, limit: int) -> Xml:
        response = Xml(limit)
        self.request("GET", place, path, query, collector=response)
        return response


def _of_any_owner(place: Place) -> Place:
    """The same place, without the account that its bucket must belong to."""
    return place._replace(headers=place.headers.splitlines(True)[0])
