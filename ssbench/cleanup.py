"""Deleting the benchmark's containers with all that is in them, and nothing else.

A container is ours by its exact name alone (``matching``), whoever made it and however: those of
ssbench 0.3.9 carry no marker header. ``plan`` finds them, ``delete`` deletes what was planned.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import gevent
from gevent.pool import Pool

from ssbench.core.errors import AuthError, SsbenchError, StorageError
from ssbench.core.text import printable
from ssbench.storage.base import ContainerEntry, Storage
from ssbench.storage.errands import Errands, Renew

ANY_POLICY = "*"
PAGE = 10_000  #: lines of a listing to ask for, where the store doesn't say its own limit
#: Names in one bulk delete. Swift takes 10,000, but deletes them two at a time within the one
#: request: smaller ones keep it below our time-outs, and several run at once.
BULK_NAMES = 1_000
#: A container's listing lags behind its objects: what to wait before looking again.
PAUSES_S = (0.0, 0.5, 1.0, 2.0, 4.0)
GIVE_UP_AFTER = 100  #: failures in a row: a store that refuses everything isn't asked for more
EXAMPLES = 5


def matching(name: str, base: str, policy: str | None = None) -> bool:
    """Whether a container's name is one that ssbench makes for this base and policy.

    Base, underscore, six digits (seven and more only from 1,000,000), then ``_`` and the policy
    where one is given. Policy ``*`` is any suffix or none; None is none.
    """
    return _pattern(base, policy or "").fullmatch(name) is not None


@lru_cache(maxsize=16)
def _pattern(base: str, policy: str) -> re.Pattern[str]:
    if policy == ANY_POLICY:
        suffix = "(?:_.+)?"
    else:
        suffix = re.escape(f"_{policy}") if policy else ""
    number = "(?:[0-9]{6}|[1-9][0-9]{6,})"
    return re.compile(f"{re.escape(base)}_{number}{suffix}", re.DOTALL)


def plan(
    storage: Storage,
    base: str,
    policy: str | None = None,
    *,
    retries: int = 5,
    renew: Renew | None = None,
    sleep: Callable[[float], object] = gevent.sleep,
) -> list[ContainerEntry]:
    """The containers to delete, in the listing's order, with what the listing says they hold.

    :raises StorageError: where the account can't be listed.
    """
    errands = Errands(storage, retries=retries, renew=renew, sleep=sleep)
    limit = errands.call(storage.limits).listing_limit or PAGE
    found: list[ContainerEntry] = []
    marker = ""
    # A short page may have another behind it (sharded listings): only an empty one is the end.
    while page := errands.call(storage.list_containers, f"{base}_", marker, limit):
        found += [entry for entry in page if matching(entry.name, base, policy)]
        marker = _advanced(marker, page[-1].name)
    return found


def _advanced(marker: str, last: str) -> str:
    if last == marker:
        raise SsbenchError(f'the store lists nothing behind "{printable(marker)}" but itself')
    return last


@dataclass(slots=True)
class CleanupResult:
    """What a clean-up did, so far. A failure is an object or a container that is still there."""

    containers: int = 0  #: deleted
    objects: int = 0  #: deleted
    failed_containers: int = 0
    failed_objects: int = 0
    left: int = 0  #: containers not finished because it ended early
    seconds: float = 0.0
    interrupted: bool = False  #: by the user
    given_up: str = ""  #: why it ended early by itself
    examples: list[str] = field(default_factory=list)  #: of failures, one line each

    @property
    def ok(self) -> bool:
        """Everything that was planned is gone."""
        return not (self.failed_containers or self.failed_objects or self.left)

    def rate(self, count: int) -> float:
        """``count`` per second of the clean-up."""
        return count / self.seconds if self.seconds > 0 else 0.0


def delete(
    storage: Storage,
    entries: Sequence[ContainerEntry],
    concurrency: int = 10,
    progress: Callable[[int, int], None] = lambda done, total: None,
    *,
    retries: int = 5,
    renew: Renew | None = None,
    stopping: Callable[[], bool] = lambda: False,
    sleep: Callable[[float], object] = gevent.sleep,
    clock: Callable[[], float] = time.perf_counter,
) -> CleanupResult:
    """Delete containers and all their objects, at most ``concurrency`` requests in flight.

    Never raises for what the store does: failures are counted. Ctrl-C, ``stopping()`` once
    true, a token that can't be renewed, and a long row of failures end it early, with what was
    done so far.

    :param progress: called with objects and containers gone, and how many there are in all.
    """
    errands = Errands(
        storage, concurrency, retries=retries, renew=renew, stopping=stopping, sleep=sleep
    )
    run = _Deletion(storage, errands, concurrency, progress, stopping, sleep)
    return run.run(entries, clock)


class _Ended(Exception):
    """Unwinds a greenlet once the clean-up is to end early."""


class _Deletion:
    """One clean-up: a greenlet per container, one shared pool for the requests about objects."""

    def __init__(
        self,
        storage: Storage,
        errands: Errands,
        concurrency: int,
        progress: Callable[[int, int], None],
        stopping: Callable[[], bool],
        sleep: Callable[[float], object],
    ) -> None:
        self._storage = storage
        self._errands = errands
        self._progress = progress
        self._stopping = stopping
        self._sleep = sleep
        self._containers = Pool(concurrency)
        self._requests = Pool(concurrency)
        self._result = CleanupResult()
        self._planned = 0  #: objects and containers, as the account's listing has it
        self._found = 0  #: objects and containers, as the containers' listings have it so far
        self._page = PAGE
        self._bulk: int | None = None
        self._failed_in_a_row = 0

    def run(self, entries: Sequence[ContainerEntry], clock: Callable[[], float]) -> CleanupResult:
        started = clock()
        self._planned = sum(entry.object_count for entry in entries) + len(entries)
        self._found = len(entries)
        try:
            self._ask_limits()
            for _ in self._containers.imap_unordered(
                self._delete_container, [entry.name for entry in entries]
            ):
                pass
        except KeyboardInterrupt:
            self._result.interrupted = True
        finally:
            self._containers.kill()
            self._requests.kill()
        result = self._result
        result.left = len(entries) - result.containers - result.failed_containers
        result.seconds = clock() - started
        return result

    def _ask_limits(self) -> None:
        try:
            limits = self._errands.call(self._storage.limits)
        except SsbenchError:
            return  # the deletes will say what is wrong, and may work without
        self._page = limits.listing_limit or PAGE
        if limits.bulk_delete_max:
            self._bulk = min(limits.bulk_delete_max, BULK_NAMES)

    def _delete_container(self, name: str) -> None:
        try:
            for pause_s in PAUSES_S:
                if pause_s:
                    self._sleep(pause_s)
                if self._empty(name, first=not pause_s):
                    return self._failed_container(name, "some of its objects could not be deleted")
                if self._container_gone(name):
                    return None
            self._failed_container(name, "it is still not empty: is somebody writing to it?")
        except SsbenchError as error:
            self._failed_container(name, str(error))
            self._count_failure(error)
        except _Ended:
            pass
        except KeyboardInterrupt:
            self._result.interrupted = True  # not to leave the greenlet: gevent would print it

    def _empty(self, container: str, *, first: bool) -> int:
        """Delete every object that is listed, once; gives how many wouldn't go."""
        failed = 0
        try:
            for names in self._listed(container):
                self._found += len(names) if first else 0
                chunk = self._bulk if first and self._bulk else 1
                work = [(container, names[i : i + chunk]) for i in range(0, len(names), chunk)]
                failed += sum(self._requests.imap_unordered(self._delete_objects, work))
                self._check_end()
        except StorageError as error:
            if error.status != 404:  # 404: somebody else deleted the container meanwhile
                raise
        return failed

    def _listed(self, container: str) -> Iterator[list[str]]:
        marker = ""
        while True:
            self._check_end()
            page = self._errands.call(self._storage.list_objects, container, marker, self._page)
            if not page:
                return
            yield page
            marker = _advanced(marker, page[-1])

    def _delete_objects(self, work: tuple[str, list[str]]) -> int:
        container, names = work
        try:
            self._check_end()
            left = names if len(names) == 1 else self._delete_bulk(container, names)
            return sum(not self._delete_object(container, name) for name in left)
        except _Ended:
            return 0
        except KeyboardInterrupt:
            self._result.interrupted = True
            return 0

    def _delete_bulk(self, container: str, names: list[str]) -> list[str]:
        """The names that are left: a store that refuses a bulk delete may take single ones."""
        try:
            failed = self._errands.call(self._storage.bulk_delete, container, names)
        except SsbenchError:
            return names
        left = [name for name, _ in failed]
        self._deleted(len(names) - len(left))
        return left

    def _delete_object(self, container: str, name: str) -> bool:
        self._check_end()
        try:
            gone = self._errands.call(self._storage.delete_object, container, name)
        except SsbenchError as error:
            self._result.failed_objects += 1
            self._example(f"{container}/{name}", str(error))
            self._count_failure(error)
            return False
        self._deleted(int(gone))  # not gone: it was absent, and is only still listed
        return True

    def _container_gone(self, name: str) -> bool:
        self._check_end()
        try:
            self._errands.call(self._storage.delete_container, name)
        except StorageError as error:
            if error.status != 409:
                raise
            return False
        self._result.containers += 1
        self._report()
        return True

    def _failed_container(self, name: str, why: str) -> None:
        self._result.failed_containers += 1
        self._example(name, why)

    def _count_failure(self, error: SsbenchError) -> None:
        self._failed_in_a_row += 1
        if isinstance(error, AuthError) or getattr(error, "status", 0) == 401:
            self._result.given_up = f"the store refuses our token: {error}"
        elif self._failed_in_a_row >= GIVE_UP_AFTER:
            self._result.given_up = f"{GIVE_UP_AFTER} failures in a row, the last one: {error}"

    def _example(self, what: str, why: str) -> None:
        if len(self._result.examples) < EXAMPLES:
            self._result.examples.append(printable(f"{what}: {why}"))

    def _deleted(self, objects: int) -> None:
        self._result.objects += objects
        self._report()

    def _report(self) -> None:
        self._failed_in_a_row = 0
        done = self._result.objects + self._result.containers
        # The account's counts lag behind those of its containers.
        self._progress(done, max(self._planned, self._found, done))

    def _check_end(self) -> None:
        if self._stopping():
            self._result.interrupted = True
        if self._result.interrupted or self._result.given_up:
            raise _Ended
