"""Containers and objects of a store: listings page by page, and concurrent deletion.

All cleanups share the deletion, with one rule for giving up and counting. A cleanup says what to
delete; ``Deletions`` deletes it, in bulk or singly, and counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import takewhile
from time import perf_counter
from typing import Protocol, TypeVar

from gevent.pool import Pool
from msgspec import Struct

from ssbench.core.errors import AuthError, SsbenchError, StorageError
from ssbench.core.model import ErrorKind
from ssbench.core.naming import has_dot_segment
from ssbench.core.settings import LISTED_MAX
from ssbench.core.text import printable
from ssbench.storage.base import (
    ContainerEntry,
    ListedVersion,
    ObjectEntry,
    OpenUpload,
    UploadAdmin,
    VersionAdmin,
    all_versions,
    check_listed,
    delete_versions,
    out_of_order,
    unless_missing,
)
from ssbench.storage.retrying_client import RetryingClient

#: Maximum entries per listing page, which bounds the memory of a page.
PAGE = 1_000

T = TypeVar("T")


class Named(Protocol):
    """An entry of a listing."""

    @property
    def name(self) -> str:
        """The key that the listing is sorted by."""


Entry = TypeVar("Entry", bound=Named)


def page_size(client: RetryingClient) -> int:
    """Entries per listing page to request from the store."""
    return min(client.limits.listing_limit or PAGE, PAGE)


def list_containers(client: RetryingClient, base: str) -> Iterator[list[ContainerEntry]]:
    """Pages of the account's containers from ``base_`` on. Ends once the client is stopping.

    :raises SsbenchError: as ``pages``; or the account can't be listed.
    """

    def page_after(marker: str) -> list[ContainerEntry]:
        if client.stopping():
            return []
        return client.call(client.storage.list_containers, f"{base}_", marker, page_size(client))

    return pages(page_after, "", client.listed_max, "the containers", client.shown)


def list_objects(
    client: RetryingClient, container: str, prefix: str = "", marker: str = ""
) -> Iterator[list[ObjectEntry]]:
    """Pages of a container's objects whose names begin with the prefix, and are longer. Ends once
    the client is stopping.

    :param marker: only names after it.
    :raises SsbenchError: as ``pages``; or the container can't be listed.
    """

    def page_after(marker: str) -> list[ObjectEntry]:
        if client.stopping():
            return []
        return client.call(client.storage.list_objects, container, marker, page_size(client))

    # No object is named by the prefix alone, and all names with it follow in the listing.
    start, most = marker or prefix, client.listed_max
    for page in pages(page_after, start, most, printable(container), client.shown):
        found = [entry for entry in page if entry.name.startswith(prefix)]
        yield found
        if len(found) < len(page):
            break


def pages(
    page_after: Callable[[str], list[Entry]],
    marker: str = "",
    most: int = LISTED_MAX,
    what: str = "",
    shown: Callable[[str], str] = printable,
) -> Iterator[list[Entry]]:
    """The pages of a listing after the marker, to its end.

    :param page_after: fetches the page after a marker.
    :param most: entries; ``what``: whose they are, for messages.
    :param shown: a name as messages may show it.
    :raises SsbenchError: the names are not in ascending order (Swift sorts by the bytes in
        UTF-8), or there are more: such a listing might never end.
    """
    read = 0
    # A short page may be followed by another (sharded listings): only an empty one is the end.
    while page := page_after(marker):
        names = [marker, *(entry.name for entry in page)]
        if fault := out_of_order(names):
            before, name = map(shown, fault)
            raise SsbenchError(
                f'the store\'s listing is not in order: "{name}" comes after "{before}"'
            )
        marker = names[-1]
        read += len(page)
        check_listed(read, most, what)
        yield page


def for_each(
    client: RetryingClient,
    work: Callable[[T], None],
    items: Iterable[T],
    on_done: Callable[[int], None] = lambda done: None,
) -> None:
    """Call ``work`` for each item, ``client.concurrency`` at a time, until the client is stopping.

    :param on_done: called with the number of items that are done, after each.
    :raises SsbenchError: the first one that ``work`` raises, when none is under way any more: one
        that is cut off would leave a container half made.
    """
    failures: list[Exception] = []

    def attempt(item: T) -> None:
        try:
            if not failures:
                work(item)
        except Exception as error:  # noqa: BLE001 - raised below: gevent prints what leaves a greenlet
            failures.append(error)

    pool, wanted = Pool(client.concurrency), takewhile(lambda _: not client.stopping(), items)
    attempts = pool.imap_unordered(attempt, wanted, maxsize=client.concurrency)
    try:
        for done, _ in enumerate(attempts, start=1):
            if not failures:
                on_done(done)
    finally:
        pool.kill()
    if failures:
        raise failures[0]


#: Names per bulk delete. Swift accepts 10,000, but deletes two at a time within a request: smaller
#: requests stay below our timeouts, and several run concurrently.
BULK_NAMES = 1_000
#: Pauses before each attempt to delete an emptied container: its listing lags behind its objects.
PAUSES_S = (0.0, 0.5, 1.0, 2.0, 4.0)
GIVE_UP_AFTER = 100  #: consecutive failures
EXAMPLES = 5

Work = tuple[str, list[str]]  #: a container, and names of objects in it


class CleanupResult(Struct):
    """What a cleanup has done so far. A failure is an object or container that still exists."""

    containers: int = 0  #: deleted
    objects: int = 0  #: deleted
    absent: int = 0  #: objects that didn't exist: only in a listing, or in the results
    foreign: int = 0  #: objects kept, since HEAD shows that the run didn't upload them
    uploads: int = 0  #: open uploads of objects in parts, aborted
    versions: int = 0  #: of objects, deleted for good; delete markers, too
    failed_containers: int = 0
    failed_objects: int = 0
    left: int = 0  #: containers, or objects of a run, not processed before it ended early
    seconds: float = 0.0
    interrupted: bool = False  #: the user stopped it
    abort_reason: str = ""  #: why it gave up; "": it didn't
    examples: list[str] = []  #: of failures, one line each

    @property
    def ended_early(self) -> bool:
        """Whether it was stopped, or gave up."""
        return self.interrupted or bool(self.abort_reason)

    @property
    def ok(self) -> bool:
        """Whether everything planned was deleted."""
        stayed = self.failed_containers or self.failed_objects or self.foreign or self.left
        return not stayed

    def rate(self, count: int) -> float:
        """``count`` per second of the clean-up."""
        return count / self.seconds if self.seconds > 0 else 0.0


class KeptContainers(Struct):
    """Containers that a clean-up keeps for one reason."""

    count: int = 0
    examples: list[str] = []  #: the first few names

    def add(self, name: str) -> None:
        self.count += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(name)


class CleanupStopped(Exception):
    """Unwinds a greenlet when the cleanup is to end early."""


class Deletions:
    """Deletes objects, with at most ``client.concurrency`` requests in flight.

    Failed deletions raise nothing; they are counted in ``result``. Before each request it checks
    whether the client is stopping; then the cleanup is interrupted.

    :param on_done: called after each processed object and container.
    :param run_id: delete only objects that HEAD shows as uploaded by this run; each Work must
        then have one name. "": delete whatever is named.
    :param dry_run: count only.
    """

    def __init__(
        self,
        client: RetryingClient,
        on_done: Callable[[], None],
        *,
        run_id: str = "",
        dry_run: bool = False,
    ) -> None:
        self.result = CleanupResult()
        self._client = client
        self._storage = client.storage
        self._on_done = on_done
        self._run_id = run_id
        self._dry_run = dry_run
        self._requests = Pool(client.concurrency)
        self._consecutive_failures = 0

    def run(
        self,
        containers: Sequence[str],
        clean: Callable[[str], None],
        rest: Callable[[], Iterable[Work]] = tuple,
    ) -> None:
        """Clean containers concurrently, then delete what ``rest`` names; closes at the end.

        :param clean: what it raises is counted, and ends the clean-up where it must.
        """

        def clean_safely(container: str) -> None:
            # Nothing may leave a greenlet: gevent would print it.
            try:
                clean(container)
            except SsbenchError as error:
                self.fail_container(container, str(error))
                self.record_failure(error)
            except CleanupStopped:
                pass
            except KeyboardInterrupt:
                self.result.interrupted = True

        most = self._client.concurrency
        greenlets = Pool(most)
        started_s = perf_counter()
        try:
            for _ in greenlets.imap_unordered(clean_safely, containers, maxsize=most):
                pass
            self.delete_all(takewhile(lambda _: not self._ending, rest()))
        except KeyboardInterrupt:
            self.result.interrupted = True
        finally:
            greenlets.kill()
            self._requests.kill()
            self.result.seconds = perf_counter() - started_s

    @property
    def bulk(self) -> int:
        """Names per Work."""
        return min(self._client.limits.bulk_delete_max or 1, BULK_NAMES)

    def delete_all(self, work: Iterable[Work]) -> int:
        """Delete the objects, one request per Work; returns the number of failures."""
        most = self._client.concurrency
        requests = self._requests.imap_unordered(self._delete_work, work, maxsize=most)
        return sum(requests)

    def check_mark(self, container: str) -> None:
        """:raises SsbenchError: the container is there, and has no mark of ssbench any more."""
        call, owns = self._client.call, self._storage.owns
        if unless_missing(lambda name: call(owns, name), container) is False:
            raise SsbenchError("its mark of ssbench is gone: another container took its place")

    def abort_uploads(self, container: str, is_ours: Callable[[OpenUpload], bool]) -> None:
        """Abort open uploads of objects in parts, if the store has such."""
        for upload in open_uploads(self._client, container):
            if is_ours(upload):
                self.raise_if_stopping()
                self._abort(container, upload)

    def delete_versions(self, container: str, is_ours: Callable[[ListedVersion], bool]) -> None:
        """Delete versions of objects for good, where a container keeps some."""
        storage, most = self._storage, self._client.listed_max
        if not isinstance(storage, VersionAdmin):
            return

        def is_chosen(version: ListedVersion) -> bool:
            self.raise_if_stopping()
            return is_ours(version)

        if self._dry_run:
            for page in all_versions(partial(storage.list_versions, container), container, most):
                self.result.versions += sum(map(is_chosen, page))
            return

        def count(deleted: int) -> None:
            self.result.versions += deleted

        kept = self._client.call(delete_versions, storage, container, most, is_chosen, count)
        for version, why, _ in kept:
            self._fail_object(container, version.name, f"a version of it stays: {why}")
        self.record_success()

    def _abort(self, container: str, upload: OpenUpload) -> None:
        storage = self._storage
        assert isinstance(storage, UploadAdmin)  # nosec B101 # it listed the upload
        try:
            gone = self._dry_run or self._client.call(storage.abort_upload, container, upload)
        except SsbenchError as error:
            self._fail_object(container, upload.name, f"its upload stays open: {error}")
            self.record_failure(error)
            return
        self.result.uploads += gone
        self.record_success()

    def _delete_work(self, work: Work) -> int:
        container, listed = work
        try:
            self.raise_if_stopping()
            names = [name for name in listed if not has_dot_segment(name)]
            for name in set(listed).difference(names):
                # Its path could be resolved to another. Not a failure of the store.
                why = 'not sent: its name has a segment "." or ".."'
                self._fail_object(container, name, why)
            left = names if len(names) <= 1 else self._delete_bulk(container, names)
            gone = sum(self._delete_object(container, name) for name in left)
            return len(listed) - len(names) + len(left) - gone
        except CleanupStopped:
            return 0
        except KeyboardInterrupt:
            self.result.interrupted = True
            return 0

    def _delete_bulk(self, container: str, names: list[str]) -> list[str]:
        """Returns the remaining names: a store may reject a bulk delete but accept single ones."""
        try:
            failed = self._client.call(self._storage.bulk_delete, container, names)
        except SsbenchError:
            return names
        left = [name for name, _ in failed]
        if not set(left) <= set(names):  # then the response says nothing of ours
            return names
        self.result.objects += len(names) - len(left)
        self.record_success()
        return left

    def _delete_object(self, container: str, name: str) -> bool:
        self.raise_if_stopping()
        try:
            gone = self._delete_checked(container, name)
        except SsbenchError as error:
            self._fail_object(container, name, str(error))
            self.record_failure(error)
            return False
        self.result.objects += gone is True
        self.result.absent += gone is False
        self.result.foreign += gone is None
        self.record_success()
        return gone is not None

    def _delete_checked(self, container: str, name: str) -> bool | None:
        """Delete it. True: deleted; False: it didn't exist; None: kept, not uploaded by the run."""
        if self._run_id:
            try:
                run_id = self._client.call(self._storage.object_run_id, container, name)
            except StorageError as error:
                if error.status != 404:
                    raise
                return False
            if run_id != self._run_id:
                return None
        return self._dry_run or self._client.call(self._storage.delete_object, container, name)

    def record_success(self) -> None:
        """Count a successful request."""
        self._consecutive_failures = 0
        self._on_done()

    def record_failure(self, error: SsbenchError) -> None:
        """Count a failed request. Gives up after many in a row, or without a valid token; not where
        one of several identities has none."""
        self._consecutive_failures += 1
        is_rejected = (
            isinstance(error, StorageError)
            and error.kind is ErrorKind.UNAUTHORIZED
            and not error.identity
        )
        if is_rejected or isinstance(error, AuthError):
            self.result.abort_reason = f"the store refuses our token: {error}"
        elif self._consecutive_failures >= GIVE_UP_AFTER:
            self.result.abort_reason = f"{GIVE_UP_AFTER} failures in a row, the last one: {error}"

    def fail_container(self, name: str, why: str) -> None:
        """Count a container that still exists."""
        self.result.failed_containers += 1
        self._add_example(name, why)

    def _fail_object(self, container: str, name: str, why: str) -> None:
        self.result.failed_objects += 1
        self._add_example(f"{container}/{name}", why)

    def _add_example(self, what: str, why: str) -> None:
        if len(self.result.examples) < EXAMPLES:
            self.result.examples.append(self._client.shown(f"{what}: {why}"))

    def raise_if_stopping(self) -> None:
        """:raises CleanupStopped: the cleanup is to end early."""
        if self._ending:
            raise CleanupStopped

    @property
    def _ending(self) -> bool:
        if self._client.stopping():
            self.result.interrupted = True
        return self.result.ended_early


def open_uploads(client: RetryingClient, container: str) -> Iterator[OpenUpload]:
    """The open uploads of objects in parts in a container; none in a store that has no such.

    :raises SsbenchError: they can't be listed, or the listing might never end.
    """
    storage = client.storage
    after, read = "", 0
    if isinstance(storage, UploadAdmin):
        while page := client.call(storage.open_uploads, container, after):
            read += len(page)
            check_listed(read, client.listed_max, f"open uploads of {printable(container)}")
            yield from page
            if page[-1].name <= after:
                raise SsbenchError("the store's listing of open uploads is not in order")
            after = page[-1].name


def keeping_versions(client: RetryingClient, containers: Sequence[str]) -> list[str]:
    """Those of the containers that keep versions of replaced and deleted objects."""
    storage, found = client.storage, list[str]()
    if not isinstance(storage, VersionAdmin):
        return found
    keeps_versions = storage.keeps_versions

    def ask(container: str) -> None:
        if client.call(keeps_versions, container):
            found.append(container)

    for_each(client, ask, containers)
    return sorted(found)
