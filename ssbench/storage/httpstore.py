"""What the drivers that speak HTTP share: their account, and objects as request bodies."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Generic, Literal, Protocol, TypeVar

from ssbench.core import operations
from ssbench.core.bodycheck import claimed_md5
from ssbench.core.content import source_of
from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind, Job, SizeClass, Timing
from ssbench.core.naming import naming_of
from ssbench.core.settings import Credentials, StorageSettings
from ssbench.storage.base import Action
from ssbench.storage.directory import PIECE, DirectorySource, file_contents
from ssbench.storage.httpbody import Collector, HeaderCollector
from ssbench.storage.httpconn import Upload
from ssbench.storage.verify import ClaimedMd5, ContentVerifier, FileVerifier, Verifier

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
    operations.READ: "_read_verified",
    operations.RANGE_READ: "_range_read_verified",
}


class Driver(Protocol):
    """What the operations on real files need of a driver."""

    _bodies: ObjectBodies

    def checksum_lines(self, checksum: str) -> str:
        """Header lines by which the store refuses an upload of another MD5."""

    def _write(
        self,
        job: Job,
        deadline_ns: int,
        response: Collector | None = None,
        upload: Upload | None = None,
        lines: str = "",
    ) -> Timing:
        """
        :param upload: None: the made-up content of the job's object.
        :param lines: further header lines.
        """


def actions_of(driver: Driver, settings: StorageSettings) -> dict[int, Action]:
    """The bound methods of a driver."""
    methods = {**METHODS, **(_VERIFIED if settings.verify else {})}
    actions: dict[int, Action] = {
        operation: getattr(driver, name)
        for operation, name in methods.items()
        if hasattr(driver, name)
    }
    if settings.verify:
        actions[operations.CREATE] = actions[operations.UPDATE] = _verified_write(driver)
    if driver._bodies.files is not None:
        actions[operations.CREATE] = FileUploads(driver, driver._bodies.files).create
    return actions


def _verified_write(driver: Driver) -> Action:
    verifier, write = driver._bodies.verifier, driver._write

    def act(job: Job, deadline_ns: int) -> Timing:
        response = Collector(RESPONSE_MAX)
        timing = write(job, deadline_ns, response)
        verifier.check_write(job, response, timing)
        return timing

    return act


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
    """Names and content of the run's objects, and checks of what the store returns.

    :param claimed_md5: gives the MD5 that a response says its object has; None: it says none.
    """

    def __init__(self, settings: StorageSettings, claimed_md5: ClaimedMd5 = claimed_md5) -> None:
        self.claimed_md5 = claimed_md5
        self.naming = naming_of(settings)
        self.content = source_of(settings, _PIECE)
        contents = file_contents(settings)
        #: Real files to send; None: contents are made up, or nothing is sent.
        self.files = DirectorySource(settings, contents) if contents and contents.path else None
        self.verifier: ContentVerifier = (
            FileVerifier(settings, self.naming, contents)
            if contents
            else Verifier(settings, self.naming, self.content, claimed_md5)
        )
        #: Bytes of the longest object of each size class.
        self.longest = [size.size_max for size in settings.sizes]
        self.expects = settings.expect_continue
        #: ``upload(job)``: the content of the job's object.
        self.upload = self._expecting_upload if settings.expect_continue else self._upload
        self._is_needed = not contents and (
            settings.verify or any(map(_is_written, settings.sizes))
        )

    def moving(self) -> dict[int, int]:
        """As of DirectorySource; empty where contents are made up."""
        return self.files.moving() if self.files else {}

    def prepare(self) -> None:
        """Make the content, if the run needs it."""
        if self._is_needed:
            self.content.prepare()

    def part(self, job: Job, start: int, size: int) -> Upload:
        """A part of the content of the job's object, from an offset on."""
        name = self.naming.object(job.size_class, job.object).encode()
        pieces = partial(self.content.pieces, name, job.version, size, start)
        if self.expects and job.operation != operations.ENSURE:
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


class FileUploads:
    """CREATE with the content of real files, by whatever way the checksum and the stream allow."""

    def __init__(self, driver: Driver, files: DirectorySource) -> None:
        self._driver, self._files = driver, files
        self._hashes = files.contents.hashes
        self._checks = self._hashes or bool(files.contents.md5)

    def create(self, job: Job, deadline_ns: int) -> Timing:
        """Upload a file. Reading it is part of the operation's time, comparing checksums is not.

        :raises StorageError: SOURCE_FILE, or CORRUPT: the store has another MD5.
        """
        driver = self._driver
        with self._files.open(job) as file:
            known = "" if self._hashes else file.checksum
            lines = driver.checksum_lines(known) if known else ""
            response = HeaderCollector(RESPONSE_MAX) if self._checks else None
            expects = driver._bodies.expects
            if job.size <= PIECE and not expects:
                upload = Upload(job.size, next(file.pieces(), b""))
            else:
                sendable = None if self._hashes else file
                upload = Upload(job.size, b"", file.pieces, expects, True, sendable)
            try:
                timing = driver._write(job, deadline_ns, response, upload, lines)
            except StorageError as error:
                if error.timing is not None:
                    file.check_unchanged(error.timing)
                if known and is_wrong_checksum(error):
                    error.kind = ErrorKind.CORRUPT
                    error.detail = f"{file.where}: the store received another MD5 than {known}"
                raise
            file.check_unchanged(timing)
            stored = driver._bodies.claimed_md5(response.headers) if response else None
            if stored is None:
                return timing
            if stored == file.checksum:
                return timing._replace(items=1)
            text = (
                f"{file.where}: the store's MD5 is {stored}, and that of the file {file.checksum}"
            )
            raise StorageError(ErrorKind.CORRUPT, text, status=timing.status, timing=timing)


def is_wrong_checksum(error: StorageError) -> bool:
    """Whether the store refused an upload because of its checksum: Swift by 422, S3 by a code."""
    return error.status == 422 or (error.status == 400 and "BadDigest" in error.detail)


def _is_written(size: SizeClass) -> bool:
    """Whether a run may upload objects of this class besides its initial ones."""
    return any(operations.row_of(each).body is operations.Body.SENT for each, _ in size.profile)
