"""What an aborted run left behind, by its stat file and the listings; and deleting that, no more.

The results tell which objects the run created and did not delete; those of its last moments may
be missing, so the run's containers are asked for names with its id as well. Either way an object
is the run's own only by its exact name and place (core.naming): initial objects, other runs' and
whatever else lies there stay.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import gevent
from gevent.pool import Pool

from ssbench.core.errors import SsbenchError, StorageError
from ssbench.core.model import Operation
from ssbench.core.naming import Naming
from ssbench.core.records import ResultBatch
from ssbench.core.scenario.scenario import Scenario
from ssbench.storage.base import ObjectEntry, Storage
from ssbench.storage.errands import Errands, Renew
from ssbench.upkeep.deletions import CleanupResult, Deletions, Ended, Work, page_size, pages

#: Names that wait for others of their container, to make up a bulk delete.
WAITING_NAMES = 100_000

_KNOWN, _GONE, _LISTED = 1, 2, 4  # of an object: the results saw it; saw it go; a listing has it
_PAGE_BITS = 10
_HIGHEST = (1 << 32) - 1
_SEEN = {Operation.CREATE: _KNOWN, Operation.READ: _KNOWN, Operation.UPDATE: _KNOWN,
         Operation.DELETE: _GONE, Operation.REMOVE: _GONE}  # fmt: skip
#: Columns of results that say what became of an object.
_TELLING = ("operation", "size_class", "object", "error", "unknown")


class Leftovers:
    """The objects that a run may have left: one byte for each number up to the highest.

    In pages, so that a number out of a damaged file costs a page and not the memory below it.
    """

    def __init__(self, scenario: Scenario, run_id: str) -> None:
        self.run_id = run_id
        self.naming = Naming(
            scenario.sizes, run_id, scenario.container_base, scenario.container_count,
            scenario.policy,
        )  # fmt: skip
        self.classes = len(scenario.sizes)
        self._initial = [size.initial_files for size in scenario.sizes]
        self._pages: list[dict[int, bytearray]] = [{} for _ in scenario.sizes]

    def __repr__(self) -> str:
        return f"<Leftovers of {self.run_id}: {sum(1 for _ in self)}>"

    def add(self, batch: ResultBatch) -> None:
        """Take in results of any phase."""
        for operation, size_class, number, error, unknown in zip(
            *map(batch.column, _TELLING), strict=True
        ):
            # A mutation without a known outcome may have happened, but for one that deletes.
            mark = _SEEN.get(operation, 0) if not error else _KNOWN if unknown else 0
            if mark:
                self._mark(size_class, number, mark)

    def add_listed(self, size_class: int, container: str, name: str) -> None:
        """A listing has this name; any but that of an object which the run makes is passed over."""
        number = self.naming.created_number(size_class, name)
        if number is not None and self.naming.container(size_class, number) == container:
            self._mark(size_class, number, _LISTED)

    def _mark(self, size_class: int, number: int, mark: int) -> None:
        if not 0 <= size_class < self.classes:
            return
        if not self._initial[size_class] <= number <= _HIGHEST:
            return
        pages, index = self._pages[size_class], number >> _PAGE_BITS
        page = pages.get(index)
        if page is None:
            page = pages[index] = bytearray(1 << _PAGE_BITS)
        page[number & ((1 << _PAGE_BITS) - 1)] |= mark

    def __iter__(self) -> Iterator[tuple[int, int, bool]]:
        """Size class, number, and whether it was listed, of each that is to be deleted."""
        for size_class, marked in enumerate(self._pages):
            for index in sorted(marked):
                for at, marks in enumerate(marked[index], index << _PAGE_BITS):
                    if marks & _LISTED or marks & (_KNOWN | _GONE) == _KNOWN:
                        yield size_class, at, bool(marks & _LISTED)


@dataclass(slots=True)
class Found:
    """What there is to delete."""

    listed: int = 0
    remembered: int = 0  #: objects that only the results know of
    containers: int = 0  #: of the run's, how many there are

    @property
    def total(self) -> int:
        """All of them."""
        return self.listed + self.remembered


def find(
    storage: Storage,
    left: Leftovers,
    concurrency: int = 10,
    *,
    retries: int = 5,
    renew: Renew | None = None,
    stopping: Callable[[], bool] = lambda: False,
    sleep: Callable[[float], object] = gevent.sleep,
) -> Found:
    """Look through the run's containers, and mark in ``left`` what they list.

    :param stopping: once true, no more containers are looked at.
    :raises SsbenchError: where a container can't be listed.
    """
    errands = Errands(
        storage, concurrency, retries=retries, renew=renew, stopping=stopping, sleep=sleep
    )
    limit = page_size(errands.call(storage.limits))

    def look(container: str) -> bool | SsbenchError:
        # Handed back, not raised: gevent prints what leaves a greenlet.
        try:
            return stopping() or _look_into(storage, errands, left, container, limit)
        except SsbenchError as error:
            return error

    found = Found()
    pool = Pool(concurrency)
    try:
        for outcome in pool.imap_unordered(look, left.naming.containers, maxsize=concurrency):
            if isinstance(outcome, SsbenchError):
                raise outcome
            found.containers += outcome
    finally:
        pool.kill()
    for _, _, listed in left:
        found.listed += listed
        found.remembered += not listed
    return found


def _look_into(
    storage: Storage, errands: Errands, left: Leftovers, container: str, limit: int
) -> bool:
    """Mark what a container lists; False where there is no such container."""
    try:
        for size_class in range(left.classes):
            # The prefix itself is nobody's name, and all names with it come right behind it.
            prefix = left.naming.created_prefix(size_class)

            def page_after(marker: str) -> list[ObjectEntry]:
                return errands.call(storage.list_objects, container, marker, limit)

            for page in pages(page_after, prefix):
                ours = [entry.name for entry in page if entry.name.startswith(prefix)]
                for name in ours:
                    left.add_listed(size_class, container, name)
                if len(ours) < len(page):
                    break
    except StorageError as error:
        if error.status != 404:
            raise
        return False
    return True


def delete(
    storage: Storage,
    left: Leftovers,
    found: Found,
    concurrency: int = 10,
    progress: Callable[[int, int], None] = lambda done, total: None,
    *,
    retries: int = 5,
    renew: Renew | None = None,
    stopping: Callable[[], bool] = lambda: False,
    sleep: Callable[[float], object] = gevent.sleep,
    clock: Callable[[], float] = time.perf_counter,
) -> CleanupResult:
    """Delete what was found. Ends, and fails, as ``cleanup.delete`` does.

    :param progress: called with objects done with, and how many there are.
    """
    errands = Errands(
        storage, concurrency, retries=retries, renew=renew, stopping=stopping, sleep=sleep
    )

    def on_deleted() -> None:
        progress(deletions.result.objects + deletions.result.absent, found.total)

    deletions = Deletions(storage, errands, concurrency, stopping, on_deleted)
    result = deletions.result
    started_s = clock()
    try:
        deletions.ask_limits()
        deletions.objects(_until_ended(deletions, _work(left, deletions.bulk)))
    except KeyboardInterrupt:
        result.interrupted = True
    finally:
        deletions.close()
    result.left = found.total - result.objects - result.absent - result.failed_objects
    result.seconds = clock() - started_s
    return result


def _until_ended(deletions: Deletions, work: Iterator[Work]) -> Iterator[Work]:
    for piece in work:
        try:
            deletions.check_end()
        except Ended:
            return
        yield piece


def _work(left: Leftovers, bulk: int) -> Iterator[Work]:
    """Pieces of work: listed objects in bulk, where the store has that. Those that only the
    results know of are often gone, which a bulk delete doesn't tell apart: singly.
    """
    containers: Sequence[str] = left.naming.containers
    most = min(bulk, max(WAITING_NAMES // len(containers), 1))
    waiting: dict[str, list[str]] = defaultdict(list)
    for size_class, number, listed in left:
        container = left.naming.container(size_class, number)
        name = left.naming.object(size_class, number)
        if not listed:
            yield container, [name]
            continue
        waiting[container].append(name)
        if len(waiting[container]) >= most:
            yield container, waiting.pop(container)
    yield from waiting.items()
