"""The driver for OpenStack Swift, over our own HTTP client."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from urllib.parse import quote, unquote

from ssbench.core import operations
from ssbench.core.content import Content
from ssbench.core.errors import StorageError, UsageError
from ssbench.core.model import ErrorKind, Job, SizeClass, Timing
from ssbench.core.naming import (
    LETTERS_HEADER,
    MARKER_HEADER,
    POST_HEADER,
    RUN_HEADER,
    VERSION_HEADER,
    Naming,
    has_dot_segment,
)
from ssbench.core.settings import StorageSettings
from ssbench.core.text import printable
from ssbench.storage.base import (
    Action,
    ContainerEntry,
    ContainerInfo,
    ObjectEntry,
    StoreLimits,
)
from ssbench.storage.httpbody import HEAD_ONLY, Collector
from ssbench.storage.httpconn import Upload
from ssbench.storage.swiftaccount import RESPONSE_MAX, Account
from ssbench.storage.swiftparse import (
    Listing,
    bulk_failures,
    container_entry,
    container_info,
    object_entry,
    store_limits,
)
from ssbench.storage.verify import Verifier

#: Minimum size in bytes of a body's pieces. The kernel accepts megabytes per call, and evicts
#: Python's memory from the cache with each copy: few pieces save a sixth of a long upload's cost.
_PIECE = 1024 * 1024


class SwiftStorage:
    """Implements ``ssbench.storage.base.Storage``.

    :param seed: of the choice among several storage URLs.
    :raises UsageError: a storage URL, token or certificate is invalid.
    """

    def __init__(self, settings: StorageSettings, seed: int | None = None) -> None:
        if settings.policy and not settings.policy.isprintable():
            raise UsageError(f"policy {settings.policy!r} can't be sent in a header")
        self._settings = settings
        self._naming = Naming(
            settings.sizes,
            settings.run_id,
            settings.container_base,
            settings.container_count,
            settings.policy,
        )
        self._paths = _quoted_naming(settings)
        piece = max(settings.block_size, _PIECE)
        self._content = Content(piece, compressible=settings.compressible)
        self._needs_content = settings.verify or any(map(_is_written, settings.sizes))
        self._longest = [size.size_max for size in settings.sizes]
        self._account = account = Account(settings, seed)
        # Copied from the account to save attribute lookups per operation.
        self._pools, self._sites = account.pools, account.sites
        self._suffixes, self._upload_suffixes = (
            account.header_suffixes,
            account.upload_header_suffixes,
        )
        self._random, self._url_count = account.random, len(account.pools)
        self._verifier = Verifier(settings, self._naming, self._content)
        # Separate methods, so that runs without --verify pay nothing for it.
        read: Action = self._read
        write: Action = self._write
        if settings.verify:
            read, write = self._read_verified, self._write_verified
        self.actions: Mapping[int, Action] = {
            operations.CREATE: write,
            operations.READ: read,
            operations.UPDATE: write,
            operations.DELETE: self._delete,
            operations.HEAD: self._head,
            operations.POST: self._post,
            operations.ENSURE: self._ensure,
            operations.REMOVE: self._remove,
        }

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

    def _write_verified(self, job: Job, deadline_ns: int) -> Timing:
        response = Collector(RESPONSE_MAX)
        timing = self._write(job, deadline_ns, response)
        self._verifier.check_write(job, response, timing)
        return timing

    def _write(self, job: Job, deadline_ns: int, response: Collector | None = None) -> Timing:
        url = 0 if self._url_count == 1 else int(self._random() * self._url_count)
        version = f"{VERSION_HEADER}: {job.version}\r\n" if job.version else ""
        timing = self._pools[url].request(
            f"PUT {self._sites[url].base}{self._path(job)}{self._upload_suffixes[url]}"
            f"{version}Content-Length: {job.size}\r\n\r\n".encode(),
            self._upload(job),
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
            if _is_initial(collector.headers, job.size, self._settings.compressible):
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

    def _upload(self, job: Job) -> Upload:
        content = self._content
        name = self._naming.object(job.size_class, job.object).encode()
        if job.size <= content.block_size:
            return Upload(job.size, content.piece(name, job.version, job.size))

        def rest() -> Iterator[memoryview]:
            return islice(content.pieces(name, job.version, job.size), 1, None)

        first = content.piece(name, job.version, content.block_size)
        return Upload(job.size, first, rest)

    # --- Cold path: administrative requests

    def connect(self, count: int) -> None:
        if self._needs_content:
            self._content.prepare()
        self._account.connect(count)

    def set_token(self, token: str, serial: int) -> None:
        self._account.set_token(token, serial)

    @property
    def token_serial(self) -> int:
        return self._account.serial

    def limits(self) -> StoreLimits:
        info = self._account.info()
        return StoreLimits() if info is None else store_limits(info)

    def container_info(self, container: str) -> ContainerInfo:
        collector = Collector(RESPONSE_MAX, bodiless=True)
        self._account.request_checked("HEAD", _quoted(container), collector)
        return container_info(collector.headers)

    def make_container(
        self, container: str, changing: Callable[[], None] | None = None
    ) -> ContainerInfo | None:
        # HEAD first: a PUT would add our marker to a container that isn't ours.
        try:
            found = self.container_info(container)
        except StorageError as error:
            if error.status != 404:
                raise
            return self._put_container(container, changing)
        policy = self._settings.policy
        if policy and found.policy and found.policy.lower() != policy.lower():
            raise StorageError(
                ErrorKind.STATUS,
                f"container {container!r} is there under policy {found.policy!r}, not {policy!r}",
                status=409,
            )
        if not found.marked and found.object_count == 0:
            self._put_container(container, changing)
        return found

    def _put_container(
        self, container: str, changing: Callable[[], None] | None
    ) -> ContainerInfo | None:
        """Create or mark it; returns its metadata if somebody else created it meanwhile."""
        if changing is not None:
            changing()
        policy = self._settings.policy
        headers = f"{MARKER_HEADER}: {quote(self._settings.run_id) or 'yes'}\r\n"
        if policy is not None:
            headers += f"X-Storage-Policy: {policy}\r\n"
        path = _quoted(container)
        timing = self._account.request_checked("PUT", path, Collector(RESPONSE_MAX), headers, b"")
        if timing.status == 202:
            return self.container_info(container)
        return None

    def list_containers(self, prefix: str, marker: str, limit: int) -> list[ContainerEntry]:
        query = f"prefix={quote(prefix, safe='')}&{_page(marker, limit)}"
        listing = Listing(container_entry, limit)
        self._account.listing(f"?{query}", listing.feed)
        return listing.entries()

    def list_objects(self, container: str, marker: str, limit: int) -> list[ObjectEntry]:
        listing = Listing(object_entry, limit)
        path = f"{_quoted(container)}?{_page(marker, limit)}"
        self._account.listing(path, listing.feed)
        return listing.entries()

    def object_run_id(self, container: str, name: str) -> str | None:
        collector = Collector(RESPONSE_MAX, bodiless=True)
        self._account.request_checked("HEAD", f"{_quoted(container)}/{_quoted(name)}", collector)
        run = collector.headers.get(RUN_HEADER.lower())
        return None if run is None else unquote(run)

    def delete_object(self, container: str, name: str) -> bool:
        return self._account.delete(f"{_quoted(container)}/{_quoted(name)}")

    def bulk_delete(self, container: str, names: Sequence[str]) -> list[tuple[str, int]]:
        prefix = _quoted(container)
        body = "".join(f"{prefix}/{_quoted(name)}\n" for name in names).encode()
        return bulk_failures(self._account.bulk_delete(body), container)

    def delete_container(self, container: str) -> bool:
        return self._account.delete(_quoted(container))

    def close(self) -> None:
        self._account.close()

    def __repr__(self) -> str:
        return f"<SwiftStorage {self._account!r}>"


def _is_initial(headers: Mapping[str, str], size: int, compressible: bool) -> bool:
    """Whether a response to HEAD shows an unmodified initial object of this size."""
    changed = "x-delete-at" in headers or VERSION_HEADER.lower() in headers
    other = (LETTERS_HEADER.lower() in headers) is not compressible
    return headers.get("content-length") == str(size) and not (changed or other)


def _is_written(size: SizeClass) -> bool:
    """Whether a run may upload objects of this class besides its initial ones."""
    return any(operations.row_of(each).body is operations.Body.SENT for each, _ in size.profile)


def _quoted_naming(settings: StorageSettings) -> Naming:
    """A Naming that gives names quoted for a URL path.

    Numbers and underscores need no quoting, so a name made of quoted parts is the quoted name,
    and no request has to quote.
    """
    sizes = [replace(size, name=quote(size.name, safe="")) for size in settings.sizes]
    return Naming(
        sizes,
        quote(settings.run_id, safe=""),
        quote(settings.container_base, safe=""),
        settings.container_count,
        quote(settings.policy, safe="") if settings.policy else None,
    )


def _quoted(name: str) -> str:
    """Quote an arbitrary name for a URL path.

    :raises StorageError: the name has a dot segment, which a server could resolve.
    """
    if has_dot_segment(name):
        raise StorageError(
            ErrorKind.PROTOCOL,
            f'not sent: "{printable(name)}" has a segment "." or "..", and might be taken for'
            " another path",
            sent=False,
        )
    return quote(name, safe="")


def _page(marker: str, limit: int) -> str:
    return f"format=json&limit={limit}&marker={quote(marker, safe='')}"
