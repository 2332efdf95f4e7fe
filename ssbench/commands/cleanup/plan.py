"""Deletes the benchmark's containers with all their objects, and nothing else.

``core.naming.why_not_ours`` decides which containers these are. ``plan`` finds them, ``count``
counts their objects, ``delete`` deletes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from ssbench.core.errors import SsbenchError, StorageError
from ssbench.core.model import ErrorKind
from ssbench.core.naming import LeftAlone, may_be_object, why_not_ours
from ssbench.runner.deletions import PAUSES_S, CleanupResult, Deletions, KeptContainers
from ssbench.runner.listings import PAGE, for_each, list_containers, list_objects, page_size
from ssbench.storage.base import ContainerEntry, unless_missing
from ssbench.storage.retrying_client import RetryingClient

#: Limits on the objects counted by listing, per container and in total. Beyond these, a count is
#: a lower bound.
COUNTED = 10_000
COUNTED_IN_ALL = 200_000


class CleanupPlan(Struct, frozen=True):
    """The containers in the account that match the base name."""

    #: The containers to delete, in the listing's order, with the account's counts.
    entries: list[ContainerEntry] = []
    #: Containers whose names start with the base, but that are not ours to delete.
    kept: dict[LeftAlone, KeptContainers] = {}


def plan(
    client: RetryingClient,
    base: str,
    policy: str | None = None,
    show: Callable[[str], None] = lambda text: None,
    *,
    unmarked: bool = False,
) -> CleanupPlan:
    """Find the containers to delete.

    :param show: called with what is done, after each page.
    :param policy, unmarked: as in ``core.naming.why_not_ours``.
    :raises SsbenchError: the account can't be listed.
    """
    storage = client.storage
    limits = client.call(storage.limits)
    policies = limits.policies or ()
    reasons: dict[str, LeftAlone | None] = {}

    def classify(name: str) -> None:
        def marked() -> bool:
            return client.call(storage.owns, name)

        try:
            reason = why_not_ours(name, base, policy, policies, marked, unmarked=unmarked)
        except StorageError as error:
            if error.status != 404:  # 404: deleted meanwhile
                raise
        else:
            reasons[name] = reason

    planned, read = CleanupPlan(), 0
    for page in list_containers(client, base, page_size(limits)):
        read += len(page)
        show(f"Listing the containers: {read:,} so far")
        reasons.clear()
        for_each(client, classify, [e.name for e in page if e.name.startswith(f"{base}_")])
        for entry in page:
            reason = reasons.get(entry.name)
            if reason is not None:
                planned.kept.setdefault(reason, KeptContainers()).add(
                    client.secrets.masked(entry.name)
                )
            elif entry.name in reasons:
                planned.entries.append(entry)
    show("")
    return planned


class ContainerCount(Struct, frozen=True):
    """The contents of a container, counted by its own listing."""

    entry: ContainerEntry  #: from the account's listing
    objects: int
    bytes_used: int
    complete: bool  #: False: the counts are lower bounds


def count(
    client: RetryingClient,
    entries: Sequence[ContainerEntry],
) -> list[ContainerCount]:
    """Count the containers' objects by listing them, up to a limit.

    The account's own counts lag behind, by minutes on a busy cluster. Counts are incomplete once
    the client is stopping.
    """
    limit = page_size(client.call(client.storage.limits)) if entries else PAGE
    counts = {entry.name: ContainerCount(entry, 0, 0, complete=False) for entry in entries}
    left = COUNTED_IN_ALL

    def count_one(entry: ContainerEntry) -> None:
        nonlocal left
        objects = size = 0
        complete = False
        try:
            for page in list_objects(client, entry.name, limit):
                objects += len(page)
                size += sum(found.size for found in page)
                left -= len(page)
                if objects >= COUNTED or (left <= 0 and len(page) >= limit):
                    break
            else:
                complete = not client.stopping()
        except SsbenchError as error:
            # 404: deleted meanwhile. Deleting will report any other error.
            complete = getattr(error, "status", 0) == 404
        counts[entry.name] = ContainerCount(entry, objects, size, complete)

    for_each(client, count_one, entries)
    return [*counts.values()]


def delete(
    client: RetryingClient,
    entries: Sequence[ContainerEntry],
    progress: Callable[[int, int], None] = lambda done, total: None,
    *,
    unmarked: bool = False,
) -> CleanupResult:
    """Delete containers and all their objects, at most ``concurrency`` requests in flight.

    Before each page of objects it looks at the container's mark again: another client may have
    replaced the container meanwhile.

    Never raises errors of the store: failures are counted. It ends early, and returns what was
    done so far, on KeyboardInterrupt, once the client is stopping, if the token can't be renewed,
    and after many consecutive failures.

    :param progress: called with the number of deleted objects and containers, and their total.
    :param unmarked: no mark is needed.
    """
    return _Deletion(client, progress, unmarked=unmarked).run(entries)


class _Deletion:
    """One cleanup: a greenlet per container, and one shared pool for the object requests."""

    def __init__(
        self, client: RetryingClient, progress: Callable[[int, int], None], *, unmarked: bool
    ) -> None:
        self._client = client
        self._unmarked = unmarked
        self._progress = progress
        self._deletions = Deletions(client, self._report)
        self._result = self._deletions.result
        self._planned = 0  #: objects and containers, by the account's listing
        self._found = 0  #: objects and containers, by the containers' listings so far

    def run(self, entries: Sequence[ContainerEntry]) -> CleanupResult:
        self._planned = sum(entry.object_count for entry in entries) + len(entries)
        self._found = len(entries)
        self._deletions.run([entry.name for entry in entries], self._delete_container)
        result = self._result
        result.left = len(entries) - result.containers - result.failed_containers
        return result

    def _delete_container(self, name: str) -> None:
        for pause_s in PAUSES_S:
            if pause_s:
                self._client.sleep(pause_s)
            if self._empty(name, first=not pause_s):
                why = "it is not empty: not all of its objects could be deleted"
                break
            refusal = self._delete_if_empty(name)
            if not refusal:
                return
            why = (
                "it is still not empty: does it keep versions, or is another client writing to it?"
                f" ({refusal})"
            )
        self._deletions.fail_container(name, why)

    def _empty(self, container: str, *, first: bool) -> int:
        """Try to delete each listed object once, and to abort open uploads of objects that may be
        ssbench's; returns the number of failures."""
        failed = 0
        self._deletions.raise_if_stopping()
        try:
            for page in list_objects(self._client, container, self._deletions.page):
                self._found += len(page) if first else 0
                names = [entry.name for entry in page]
                self._check_mark(container)
                chunk = self._deletions.bulk if first else 1
                work = [(container, names[i : i + chunk]) for i in range(0, len(names), chunk)]
                failed += self._deletions.delete_all(work)
                self._deletions.raise_if_stopping()
            if first:
                self._check_mark(container)
                self._abort_uploads(container)
        except StorageError as error:
            if error.status != 404:  # 404: another client deleted the container meanwhile
                raise
        return failed

    def _check_mark(self, container: str) -> None:
        """:raises SsbenchError: the container is there, and has no mark of ssbench any more."""
        if self._unmarked:
            return
        call, owns = self._client.call, self._client.storage.owns
        marked = unless_missing(lambda name: call(owns, name), container)
        if marked is False:
            raise SsbenchError("its mark of ssbench is gone: another container took its place")

    def _abort_uploads(self, container: str) -> None:
        try:
            self._deletions.abort_uploads(container, lambda each: may_be_object(each.name))
        except StorageError as error:
            # A store without such a listing, or keys without the permission: then the deletion of
            # the container shows whether anything is left.
            if error.kind is not ErrorKind.STATUS:
                raise

    def _delete_if_empty(self, name: str) -> str:
        """Why the store refuses, since there are objects; "": it is deleted."""
        self._deletions.raise_if_stopping()
        try:
            self._check_mark(name)
            self._client.call(self._client.storage.delete_container, name)
        except StorageError as error:
            if error.status != 409:
                raise
            return error.detail
        self._result.containers += 1
        self._deletions.record_success()
        return ""

    def _report(self) -> None:
        done = self._result.objects + self._result.containers
        # The account's counts lag behind those of its containers.
        self._progress(done, max(self._planned, self._found, done))
