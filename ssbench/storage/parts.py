"""Objects in parts: what Swift's large objects and S3's multipart uploads share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import md5
from typing import TypeVar

from gevent.pool import Pool

from ssbench.core.bodycheck import claimed_md5
from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind, Job, LargeObject, Timing
from ssbench.storage.base import Action
from ssbench.storage.httpconn import Upload
from ssbench.storage.httpstore import ObjectBodies

Item = TypeVar("Item")
Result = TypeVar("Result")


class ObjectsInParts:
    """Base of a driver's actions for objects above a size.

    :param whole: the driver's actions for objects that are stored as one.
    """

    #: Those for objects in parts. Where there is none, that of ``whole`` does for these, too.
    actions: Mapping[int, Action]

    def __init__(
        self,
        bodies: ObjectBodies,
        large: LargeObject,
        whole: Mapping[int, Action],
    ) -> None:
        self._bodies = bodies
        self._settings = bodies.settings
        self._large = large
        self._whole = whole

    def _routed(self, operation: int, in_parts: Action) -> Action:
        """An action for all objects: by the size of the job's."""
        whole, count = self._whole[operation], self._large.count

        def act(job: Job, deadline_ns: int) -> Timing:
            return (in_parts if count(job.size) else whole)(job, deadline_ns)

        return act

    def _may_have_parts(self, size_class: int) -> bool:
        """Whether the class has objects in parts."""
        return self._large.count(self._bodies.longest[size_class]) > 0

    def _part(self, job: Job, index: int) -> Upload:
        """The content of a part."""
        start = index * self._large.segment
        return self._bodies.part(job, start, min(self._large.segment, job.size - start))

    def _check_part(
        self, place: str, content: Upload, headers: Mapping[str, str], timing: Timing
    ) -> None:
        """Under --verify, check that a part's ETag, if it is an MD5, is that of its content.

        :param place: names the part in the error.
        :param headers: of the response, names in lower case.
        :raises StorageError: CORRUPT.
        """
        claimed = claimed_md5(headers)
        if not self._settings.verify or claimed is None:
            return
        digest = md5(content.first, usedforsecurity=False)
        for piece in content.rest() if content.rest else ():
            digest.update(piece)
        if claimed != digest.hexdigest():
            said = f"{place}: the ETag is {claimed}, and the MD5 of what was sent "
            said += digest.hexdigest()
            raise StorageError(ErrorKind.CORRUPT, said, status=timing.status, timing=timing)

    def _all(self, request: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """The results of requests, ``parallel`` at once, in order.

        :raises StorageError: the first failure, when none is in flight any more.
        """
        failures: list[StorageError] = []

        def attempt(item: Item) -> Result | None:
            try:
                return None if failures else request(item)
            except StorageError as error:
                failures.append(error)  # gevent would print one that leaves a greenlet
                return None

        pool = Pool(self._large.parallel)
        try:
            results = list(pool.imap(attempt, items, maxsize=self._large.parallel))
        finally:
            pool.kill()
        if failures:
            raise failures[0]
        return [each for each in results if each is not None]


@contextmanager
def store_is_changed() -> Iterator[None]:
    """Says of each failure within that the operation has changed the store."""
    try:
        yield
    except StorageError as error:
        error.partly_done = True
        raise
