"""Deleting the benchmark's containers with all that is in them, and nothing else.

A container is ours by its exact name alone (``matching``), whoever made it and however: those of
ssbench 0.3.9 carry no marker header. ``plan`` finds them, ``delete`` deletes what was planned.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from functools import lru_cache

import gevent
from gevent.pool import Pool

from ssbench.core.errors import SsbenchError, StorageError
from ssbench.storage.base import ContainerEntry, Storage
from ssbench.storage.errands import Errands, Renew
from ssbench.upkeep.deletions import PAGE, CleanupResult, Deletions, Ended, advanced

ANY_POLICY = "*"
#: A container's listing lags behind its objects: what to wait before looking again.
PAUSES_S = (0.0, 0.5, 1.0, 2.0, 4.0)


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
        marker = advanced(marker, page[-1].name)
    return found


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
        self._sleep = sleep
        self._containers = Pool(concurrency)
        self._deletions = Deletions(storage, errands, concurrency, stopping, self._report)
        self._result = self._deletions.result
        self._planned = 0  #: objects and containers, as the account's listing has it
        self._found = 0  #: objects and containers, as the containers' listings have it so far

    def run(self, entries: Sequence[ContainerEntry], clock: Callable[[], float]) -> CleanupResult:
        started = clock()
        self._planned = sum(entry.object_count for entry in entries) + len(entries)
        self._found = len(entries)
        try:
            self._deletions.ask_limits()
            for _ in self._containers.imap_unordered(
                self._delete_container, [entry.name for entry in entries]
            ):
                pass
        except KeyboardInterrupt:
            self._result.interrupted = True
        finally:
            self._containers.kill()
            self._deletions.close()
        result = self._result
        result.left = len(entries) - result.containers - result.failed_containers
        result.seconds = clock() - started
        return result

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
            self._deletions.failed(error)
        except Ended:
            pass
        except KeyboardInterrupt:
            self._result.interrupted = True  # not to leave the greenlet: gevent would print it

    def _empty(self, container: str, *, first: bool) -> int:
        """Delete every object that is listed, once; gives how many wouldn't go."""
        failed = 0
        try:
            for names in self._deletions.listed(container):
                self._found += len(names) if first else 0
                chunk = self._deletions.bulk if first else 1
                work = [(container, names[i : i + chunk]) for i in range(0, len(names), chunk)]
                failed += self._deletions.objects(work)
                self._deletions.check_end()
        except StorageError as error:
            if error.status != 404:  # 404: somebody else deleted the container meanwhile
                raise
        return failed

    def _container_gone(self, name: str) -> bool:
        self._deletions.check_end()
        try:
            self._errands.call(self._storage.delete_container, name)
        except StorageError as error:
            if error.status != 409:
                raise
            return False
        self._result.containers += 1
        self._deletions.succeeded()
        return True

    def _failed_container(self, name: str, why: str) -> None:
        self._result.failed_containers += 1
        self._deletions.example(name, why)

    def _report(self) -> None:
        done = self._result.objects + self._result.containers
        # The account's counts lag behind those of its containers.
        self._progress(done, max(self._planned, self._found, done))
