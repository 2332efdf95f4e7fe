"""Deleting objects, many at once: one rule for all clean-ups of when to give up, and how to count.

A clean-up says what to delete; ``Deletions`` does it, bulk or singly, and keeps the account.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from gevent.pool import Pool

from ssbench.core.errors import AuthError, SsbenchError, StorageError
from ssbench.core.naming import has_dot_segment
from ssbench.core.text import printable
from ssbench.storage.base import ObjectEntry, Storage, StoreLimits
from ssbench.storage.retrying_client import RetryingClient

#: Lines of a listing to ask for, at most: what a page takes in memory is bounded by it.
PAGE = 1_000
#: Names in one bulk delete. Swift takes 10,000, but deletes them two at a time within the one
#: request: smaller ones keep it below our time-outs, and several run at once.
BULK_NAMES = 1_000
GIVE_UP_AFTER = 100  #: failures in a row: a store that refuses everything isn't asked for more
EXAMPLES = 5

Work = tuple[str, list[str]]  #: a container, and names of objects in it


@dataclass(slots=True)
class CleanupResult:
    """What a clean-up did, so far. A failure is an object or a container that is still there."""

    containers: int = 0  #: deleted
    objects: int = 0  #: deleted
    absent: int = 0  #: objects that were not there, and only listed or remembered
    foreign: int = 0  #: objects that stay: a HEAD doesn't show them as the run's
    failed_containers: int = 0
    failed_objects: int = 0
    left: int = 0  #: containers, or objects of a run, that it didn't come to before it ended
    seconds: float = 0.0
    interrupted: bool = False  #: by the user
    abort_reason: str = ""  #: why it ended early by itself
    examples: list[str] = field(default_factory=list)  #: of failures, one line each

    @property
    def ok(self) -> bool:
        """Everything that was planned is gone."""
        stayed = self.failed_containers or self.failed_objects or self.foreign or self.left
        return not stayed

    def rate(self, count: int) -> float:
        """``count`` per second of the clean-up."""
        return count / self.seconds if self.seconds > 0 else 0.0


def page_size(limits: StoreLimits) -> int:
    """Lines of a listing to ask this store for."""
    return min(limits.listing_limit or PAGE, PAGE)


class CleanupStopped(Exception):
    """Unwinds a greenlet once the clean-up is to end early."""


class Deletions:
    """Deletes objects, at most ``concurrency`` requests of its own in flight.

    Never raises for what the store does to objects: failures are counted in ``result``.

    :param stopping: asked before each request; once true, the clean-up is interrupted.
    :param on_done: called after each object and container that is dealt with.
    :param run_id: delete only what a HEAD shows as uploaded by this run; "": whatever is named.
        Pieces of work are then of one name each.
    :param dry_run: count, and delete nothing.
    """

    def __init__(
        self,
        storage: Storage,
        client: RetryingClient,
        concurrency: int,
        stopping: Callable[[], bool],
        on_done: Callable[[], None],
        *,
        run_id: str = "",
        dry_run: bool = False,
    ) -> None:
        self.result = CleanupResult()
        self.page = PAGE  #: lines of a listing to ask for
        self.bulk = 1  #: names to put into one piece of work
        self._storage = storage
        self._client = client
        self._concurrency = concurrency
        self._stopping = stopping
        self._on_done = on_done
        self._run_id = run_id
        self._dry_run = dry_run
        self._requests = Pool(concurrency)
        self._consecutive_failures = 0

    def fetch_limits(self) -> None:
        """Learn how long listings and bulk deletes may be."""
        try:
            limits = self._client.call(self._storage.limits)
        except SsbenchError:
            return  # the deletes will say what is wrong, and may work without
        self.page = page_size(limits)
        if limits.bulk_delete_max:
            self.bulk = min(limits.bulk_delete_max, BULK_NAMES)

    def close(self) -> None:
        """End what is in flight."""
        self._requests.kill()

    def listed(self, container: str, marker: str = "") -> Iterator[list[ObjectEntry]]:
        """Pages of a container's objects behind the marker.

        :raises SsbenchError: where it can't be listed.
        :raises Ended: once the clean-up is to end early.
        """

        def page_after(marker: str) -> list[ObjectEntry]:
            self.raise_if_stopping()
            return self._client.call(self._storage.list_objects, container, marker, self.page)

        return pages(page_after, marker)

    def delete_all(self, work: Iterable[Work]) -> int:
        """Delete them all, a request for each piece of work; gives how many wouldn't go."""
        requests = self._requests.imap_unordered(self._delete_work, work, maxsize=self._concurrency)
        return sum(requests)

    def _delete_work(self, work: Work) -> int:
        container, listed = work
        try:
            self.raise_if_stopping()
            names = [name for name in listed if not has_dot_segment(name)]
            for name in set(listed).difference(names):
                self._record_unsent(container, name)
            left = names if len(names) <= 1 else self._delete_bulk(container, names)
            gone = sum(self._delete_object(container, name) for name in left)
            return len(listed) - len(names) + len(left) - gone
        except CleanupStopped:
            return 0
        except KeyboardInterrupt:
            self.result.interrupted = True
            return 0

    def _delete_bulk(self, container: str, names: list[str]) -> list[str]:
        """The names that are left: a store that refuses a bulk delete may take single ones."""
        try:
            failed = self._client.call(self._storage.bulk_delete, container, names)
        except SsbenchError:
            return names
        left = [name for name, _ in failed]
        self.result.objects += len(names) - len(left)
        self.record_success()
        return left

    def _delete_object(self, container: str, name: str) -> bool:
        self.raise_if_stopping()
        try:
            gone = self._delete_checked(container, name)
        except SsbenchError as error:
            self.result.failed_objects += 1
            self.add_example(f"{container}/{name}", str(error))
            self.record_failure(error)
            return False
        self.result.objects += gone is True
        self.result.absent += gone is False
        self.result.foreign += gone is None
        self.record_success()
        return gone is not None

    def _delete_checked(self, container: str, name: str) -> bool | None:
        """Delete it: True where it went, False where it wasn't there, None where it is to stay."""
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

    def _record_unsent(self, container: str, name: str) -> None:
        """Count an object whose path might be taken for another's. No failure of the store's."""
        self.result.failed_objects += 1
        self.add_example(f"{container}/{name}", 'not sent: its name has a segment "." or ".."')

    # The account --------------------------------------------------------------------------

    def record_success(self) -> None:
        """A request did what it should."""
        self._consecutive_failures = 0
        self._on_done()

    def record_failure(self, error: SsbenchError) -> None:
        """A request didn't; after a long row of these, or without a token, all ends."""
        self._consecutive_failures += 1
        if isinstance(error, AuthError) or getattr(error, "status", 0) == 401:
            self.result.abort_reason = f"the store refuses our token: {error}"
        elif self._consecutive_failures >= GIVE_UP_AFTER:
            self.result.abort_reason = f"{GIVE_UP_AFTER} failures in a row, the last one: {error}"

    def add_example(self, what: str, why: str) -> None:
        """Keep a failure as an example, if there is room."""
        if len(self.result.examples) < EXAMPLES:
            self.result.examples.append(printable(f"{what}: {why}"))

    def raise_if_stopping(self) -> None:
        """:raises Ended: once the clean-up is to end early."""
        if self._stopping():
            self.result.interrupted = True
        if self.result.interrupted or self.result.abort_reason:
            raise CleanupStopped


class Named(Protocol):
    """A line of a listing."""

    @property
    def name(self) -> str:
        """What the listing is sorted by."""


Entry = TypeVar("Entry", bound=Named)


def pages(page_after: Callable[[str], list[Entry]], marker: str = "") -> Iterator[list[Entry]]:
    """The pages of a listing behind the marker, to its end.

    :param page_after: asks for the page behind a marker.
    :raises SsbenchError: where names don't sort after the marker and after one another, as those
        of Swift do (by their bytes in UTF-8): such a listing might never end.
    """
    # A short page may have another behind it (sharded listings): only an empty one is the end.
    while page := page_after(marker):
        for entry in page:
            if entry.name <= marker:
                raise SsbenchError(
                    f'the store\'s listing is not in order: "{printable(entry.name)}" comes after'
                    f' "{printable(marker)}"'
                )
            marker = entry.name
        yield page
