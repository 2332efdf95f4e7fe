"""What the drivers that speak HTTP share: their account, and objects as request bodies."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Generic, Literal, Protocol, TypeVar

from ssbench.core import operations
from ssbench.core.content import source_of
from ssbench.core.model import Job, SizeClass
from ssbench.core.naming import naming_of
from ssbench.core.settings import Credentials, StorageSettings
from ssbench.storage.base import Action
from ssbench.storage.httpconn import Upload
from ssbench.storage.verify import Verifier

RESPONSE_MAX = 8 * 1024 * 1024  #: bytes of a response body that is kept
LISTING_MAX = 64 * 1024 * 1024  #: bytes of a listing page; parsed as it arrives
#: Deadline of an administrative request, in network timeouts: a bulk delete takes minutes, and
#: sends blanks meanwhile.
ADMIN_TIMEOUTS = 15
#: Minimum size in bytes of a body's pieces. The kernel accepts megabytes per call, and evicts
#: Python's memory from the cache with each copy: few pieces save a sixth of a long upload's cost.
_PIECE = 1024 * 1024

#: Operation -> name of the method of a driver that supports it.
METHODS = {
    operations.CREATE: "_write",
    operations.READ: "_read",
    operations.UPDATE: "_write",
    operations.DELETE: "_delete",
    operations.HEAD: "_head",
    operations.POST: "_post",
    operations.LIST: "_list",
    operations.COPY: "_copy",
    operations.RANGE_READ: "_range_read",
    operations.BULK_DELETE: "_bulk_delete",
    operations.ENSURE: "_ensure",
    operations.REMOVE: "_remove",
}
#: Separate methods, so that runs without --verify pay nothing for it.
_VERIFIED = {
    operations.CREATE: "_write_verified",
    operations.READ: "_read_verified",
    operations.UPDATE: "_write_verified",
    operations.RANGE_READ: "_range_read_verified",
}


def actions_of(driver: object, settings: StorageSettings) -> dict[int, Action]:
    """The bound methods of a driver."""
    methods = {**METHODS, **(_VERIFIED if settings.verify else {})}
    return {
        operation: getattr(driver, name)
        for operation, name in methods.items()
        if hasattr(driver, name)
    }


class _Account(Protocol):
    @property
    def serial(self) -> int: ...

    def set_credentials(self, credentials: Credentials) -> None: ...

    def close(self) -> None: ...


_AnyAccount = TypeVar("_AnyAccount", bound=_Account)


class AccountClient(Generic[_AnyAccount]):
    """What both halves of a driver do with their account."""

    concurrency: Literal["greenlets", "threads"] = "greenlets"

    def __init__(self, account: _AnyAccount) -> None:
        self._account = account

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._account!r}>"

    def set_credentials(self, credentials: Credentials) -> None:
        self._account.set_credentials(credentials)

    @property
    def credentials_serial(self) -> int:
        return self._account.serial

    def close(self) -> None:
        self._account.close()


class ObjectBodies:
    """Names and content of the run's objects, and checks of what the store returns."""

    def __init__(self, settings: StorageSettings) -> None:
        self.naming = naming_of(settings)
        self.content = source_of(settings, _PIECE)
        self.verifier = Verifier(settings, self.naming, self.content)
        #: Bytes of the longest object of each size class.
        self.longest = [size.size_max for size in settings.sizes]
        self._expects = settings.expect_continue
        #: ``upload(job)``: the content of the job's object.
        self.upload = self._expecting_upload if settings.expect_continue else self._upload
        self._is_needed = settings.verify or any(map(_is_written, settings.sizes))

    def prepare(self) -> None:
        """Make the content, if the run needs it."""
        if self._is_needed:
            self.content.prepare()

    def part(self, job: Job, start: int, size: int) -> Upload:
        """A part of the content of the job's object, from an offset on."""
        name = self.naming.object(job.size_class, job.object).encode()
        pieces = partial(self.content.pieces, name, job.version, size, start)
        if self._expects and job.operation != operations.ENSURE:
            return Upload(size, b"", pieces, expects=True)
        if size <= self.content.block_size:
            return Upload(size, next(pieces(), b""))
        return Upload(size, next(pieces()), lambda: islice(pieces(), 1, None))

    def _upload(self, job: Job) -> Upload:
        content = self.content
        name = self.naming.object(job.size_class, job.object).encode()
        if job.size <= content.block_size:
            return Upload(job.size, content.piece(name, job.version, job.size))

        def rest() -> Iterator[memoryview]:
            return islice(content.pieces(name, job.version, job.size), 1, None)

        first = content.piece(name, job.version, content.block_size)
        return Upload(job.size, first, rest)

    def _expecting_upload(self, job: Job) -> Upload:
        if job.operation == operations.ENSURE:  # has no header lines of the scenario
            return self._upload(job)
        name = self.naming.object(job.size_class, job.object).encode()
        pieces = partial(self.content.pieces, name, job.version, job.size)
        return Upload(job.size, b"", pieces, expects=True)


def _is_written(size: SizeClass) -> bool:
    """Whether a run may upload objects of this class besides its initial ones."""
    return any(operations.row_of(each).body is operations.Body.SENT for each, _ in size.profile)
