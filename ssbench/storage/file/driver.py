"""The data path of the ``file`` store: operations on the files of a directory, by threads.

An object is a file below the folder of its container; a slash in its name makes a folder. Each
operation opens and closes its file. Its status is the one that an object store would return.

Content is never replaced in place: a new file takes the old one's name once it is complete. So a
reader finds one of the two, whole, and a crash leaves the old one. CREATE writes under the final
name, which nothing reads yet; what a crash leaves of it carries the run's id and is too short.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from itertools import count, islice
from secrets import token_hex
from time import perf_counter_ns
from typing import cast

from msgspec.structs import replace

from ssbench.core import operations as ops
from ssbench.core.content import content_mark, source_of
from ssbench.core.errors import StorageError, UsageError
from ssbench.core.model import ErrorKind, Job, Timing
from ssbench.core.naming import naming_of
from ssbench.core.settings import StorageSettings
from ssbench.core.text import plural
from ssbench.storage.base import Action, Listed, Page, all_pages, listed_of, methods_of
from ssbench.storage.directory import DirectorySource, file_contents
from ssbench.storage.file.login import FileClient
from ssbench.storage.filetree import (
    ATTRIBUTE,
    Folder,
    ThreadBuffer,
    drop_all_caches,
    failure,
)
from ssbench.storage.http.verify import verifier_of

# O_NONBLOCK: opening a pipe in place of an object must not wait for its other end.
_SAFE = os.O_NOFOLLOW | os.O_NONBLOCK
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
_POST_ATTRIBUTE = f"{ATTRIBUTE}.post"
_COPY_STEP = 1 << 28  #: bytes between two looks at the deadline
_OVERLONG = 1 << 20  #: a file may be this much longer than its class allows, as over HTTP


class FileStorage(FileClient):
    """Implements ``ssbench.storage.base.ObjectStore``.

    :raises UsageError: the directory can't be used, or is not the master's, or the run needs
        something that this store does not support.
    """

    operations: Collection[int]

    def __init__(self, settings: StorageSettings, seed: int | None = None) -> None:
        super().__init__(settings)
        own, self._settings = self._own, settings
        self._naming = naming_of(settings)
        self._where = self._naming.path
        self._content = source_of(replace(settings, block_size=own.io_buffer))
        #: Real files; None: content is synthetic.
        self._contents = contents = file_contents(settings)
        self._verifier = verifier_of(settings, self._naming, self._content, contents)
        self._files = (
            DirectorySource(settings, contents, own.io_buffer)
            if contents and contents.path
            else None
        )
        self._most = [size.size_max + _OVERLONG for size in settings.sizes]
        if own.session and not self._tree.has_session(own.session):
            raise UsageError(
                f"{own.path} is not the directory that the master uses: mount the same file system"
                " on this host"
            )
        self._has_attributes = self._tree.has_attributes()
        self._buffer = ThreadBuffer(own.io_buffer)
        #: Offsets and lengths are multiples of it.
        self._block = self._tree.direct_alignment() if own.direct else 1
        direct = os.O_DIRECT if own.direct else 0
        self._read_flags, self._new_flags = os.O_RDONLY | _SAFE | direct, _NEW | direct
        self._drops = own.page_cache != "keep" and not own.direct
        self._fsync = own.fsync
        # Of files that take another's name when they are complete.
        self._new_prefix, self._new_number = f".ssbench-{token_hex(4)}-", count()
        self._closed = False
        methods = methods_of(FileStorage)
        self._verifies = settings.verify
        if settings.verify:
            methods[ops.READ] = methods[ops.RANGE_READ] = "_read_verified"
        self.actions: Mapping[int, Action] = {
            row: getattr(self, name) for row, name in methods.items()
        }

    def moving(self) -> dict[int, int]:
        return self._files.moving() if self._files else {}

    def connect(self, count: int) -> None:
        if self._contents is None:
            self._content.prepare()
        if self._own.page_cache == "drop-all":
            drop_all_caches()

    def close(self) -> None:
        self._closed = True
        super().close()
        if self._files:
            self._files.close()

    # Reading

    def _read_verified(self, job: Job, deadline_ns: int) -> Timing:
        body = self._verifier.read_collector(job, *_range_of(job))
        timing = self._read(job, deadline_ns, None if body.discards else body.add)
        self._verifier.check_read(job, body, timing)
        return timing

    def _read(
        self, job: Job, deadline_ns: int, take: Callable[[memoryview], None] | None = None
    ) -> Timing:
        """Read a file to its end, or the range that the job names.

        :param take: called with each part, which is valid until it returns.
        """
        folder, name = self._locate(job)
        offset, wanted = _range_of(job)
        # Of a whole file one byte more than there should be, so that one call finds its end.
        least = wanted or (job.size + 1 if job.size >= 0 else len(self._buffer.whole))
        whole, block = self._buffer.whole, self._block
        skip = offset % block
        length = min(len(whole), -(-(skip + least) // block) * block)
        parts = [whole[:length]]
        position, done, first_ns = offset - skip, 0, 0
        try:
            fd = os.open(name, self._read_flags, dir_fd=folder.fd)
            opened_ns = perf_counter_ns()
            try:
                if self._drops:
                    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                while True:
                    received = os.preadv(fd, parts, position)
                    last_ns = perf_counter_ns()
                    first_ns = first_ns or last_ns
                    end = received if wanted is None else min(received, skip + wanted - done)
                    if take and end > skip:
                        take(whole[skip:end])
                    done += max(end - skip, 0)
                    if received < length or done == wanted or done > self._most[job.size_class]:
                        break
                    position, skip = position + received, 0
                    self._check_time(job, deadline_ns)
                if not done and job.size:
                    _check_regular(os.fstat(fd))
            finally:
                os.close(fd)
        except OSError as error:
            raise self._failure(error, job) from error
        timing = Timing(
            opened_ns, first_ns if done else opened_ns, last_ns, done, 206 if job.arguments else 200
        )
        fault = None
        if wanted is not None and done < wanted:
            fault = (
                ErrorKind.TRUNCATED,
                f"{done:,} of {plural(wanted, 'byte')} from offset {offset} on",
            )
        elif done > self._most[job.size_class]:
            fault = ErrorKind.OVERLONG, f"{plural(done, 'byte')} and more"
        if fault:
            text = f"{self._where(job)}: {fault[1]}"
            raise StorageError(fault[0], text, status=timing.status, timing=timing)
        return timing

    _range_read = _read

    # Writing

    def _write(self, job: Job, deadline_ns: int) -> Timing:
        return self._put(job, deadline_ns, is_new=job.operation == ops.CREATE)

    def _ensure(self, job: Job, deadline_ns: int) -> Timing:
        folder, name = self._locate(job, make=True)
        size, mark = -1, b""
        # Where this fails, writing the file says what is wrong.
        with suppress(OSError):
            fd = os.open(name, os.O_RDONLY | _SAFE, dir_fd=folder.fd)
            try:
                size = os.fstat(fd).st_size
                mark = os.getxattr(fd, ATTRIBUTE)
            finally:
                os.close(fd)
        if size == job.size and mark.split()[1:] == self._mark(0).split()[1:]:
            return _now(200)
        return self._put(job, deadline_ns, is_new=size < 0)

    def _copy(self, job: Job, deadline_ns: int) -> Timing:
        """copy_file_range: no content passes the process; some file systems share the blocks."""
        folder, name = self._locate(job)
        copy, copy_name = self._locate(job._replace(object=job.others[0]), make=True)
        try:
            source = os.open(name, os.O_RDONLY | _SAFE, dir_fd=folder.fd)
        except OSError as error:
            raise self._failure(error, job, sent=False) from error

        def fill(fd: int) -> None:
            if self._block > 1:
                _end_direct(fd)
            while os.copy_file_range(source, fd, _COPY_STEP):
                self._check_time(job, deadline_ns)

        try:
            return self._make_file(job, copy, copy_name, fill, is_new=True)
        finally:
            os.close(source)

    def _put(self, job: Job, deadline_ns: int, *, is_new: bool) -> Timing:
        if self._files is not None:
            with self._files.open(job) as file:
                timing = self._write_pieces(job, deadline_ns, file.pieces(), is_new=is_new)
                file.check_unchanged(timing)
            return timing
        content = self._naming.object(job.size_class, job.object).encode()
        pieces = self._content.pieces(content, job.version, job.size)
        return self._write_pieces(job, deadline_ns, pieces, is_new=is_new)

    def _write_pieces(
        self, job: Job, deadline_ns: int, pieces: Iterator[memoryview], *, is_new: bool
    ) -> Timing:
        folder, name = self._locate(job, make=True)

        def fill(fd: int) -> None:
            for piece in pieces:
                self._send(fd, piece)
                self._check_time(job, deadline_ns)

        timing = self._make_file(job, folder, name, fill, is_new=is_new)
        return timing._replace(bytes_moved=job.size)

    def _make_file(
        self, job: Job, folder: Folder, name: str, fill: Callable[[int], None], *, is_new: bool
    ) -> Timing:
        """Make a file with our mark and what ``fill`` writes to its descriptor.

        :param is_new: write it under its own name, unless something has that name.
        """
        fd, target = -1, name
        try:
            if is_new:
                with suppress(FileExistsError):  # of a failed attempt, or another client's
                    fd = os.open(name, self._new_flags, 0o666, dir_fd=folder.fd)
            if fd < 0:
                target = f"{self._new_prefix}{next(self._new_number)}"
                fd = os.open(target, self._new_flags, 0o666, dir_fd=folder.fd)
        except OSError as error:
            raise self._failure(error, job, sent=False) from error
        opened_ns = perf_counter_ns()
        try:
            try:
                if self._has_attributes:
                    os.setxattr(fd, ATTRIBUTE, self._mark(job.version))
                fill(fd)
                if self._fsync:
                    os.fsync(fd)
            finally:
                os.close(fd)
            if target != name:
                os.rename(target, name, src_dir_fd=folder.fd, dst_dir_fd=folder.fd)
            if self._fsync:
                os.fsync(folder.fd)
        except BaseException as error:
            with suppress(OSError):
                os.unlink(target, dir_fd=folder.fd)
            if isinstance(error, OSError):
                raise self._failure(error, job) from error
            raise
        return Timing(opened_ns, opened_ns, perf_counter_ns(), 0, 201)

    def _send(self, fd: int, piece: memoryview) -> None:
        """Write all of a piece; only the last of a file may not be a multiple of the block."""
        if self._block > 1:
            whole = len(piece) - len(piece) % self._block
            aligned = self._buffer.whole[:whole]
            aligned[:] = piece[:whole]
            _write_all(fd, aligned)
            piece = piece[whole:]
            if piece:
                _end_direct(fd)
        _write_all(fd, piece)

    def _mark(self, version: int) -> bytes:
        mark = content_mark(self._settings).replace("yes", "letters")
        return f"{self._settings.run_id or '-'} {version}{mark and ' '}{mark}".encode()

    # Without content

    def _head(self, job: Job, deadline_ns: int) -> Timing:
        folder, name = self._locate(job)
        try:
            _check_regular(os.stat(name, dir_fd=folder.fd, follow_symlinks=False))
        except OSError as error:
            raise self._failure(error, job) from error
        return _now(200)

    def _post(self, job: Job, deadline_ns: int) -> Timing:
        folder, name = self._locate(job)
        try:
            # For writing, which no folder can be opened for.
            fd = os.open(name, os.O_WRONLY | _SAFE, dir_fd=folder.fd)
            try:
                os.setxattr(fd, _POST_ATTRIBUTE, str(job.number).encode())
                if self._fsync:
                    os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise self._failure(error, job) from error
        return _now(202)

    def _delete(self, job: Job, deadline_ns: int) -> Timing:
        folder, name = self._locate(job)
        try:
            os.unlink(name, dir_fd=folder.fd)
            if self._fsync:
                os.fsync(folder.fd)
        except OSError as error:
            raise self._failure(error, job) from error
        return _now(204)

    def _remove(self, job: Job, deadline_ns: int) -> Timing:
        try:
            return self._delete(job, deadline_ns)
        except StorageError as error:
            if error.status == 404 and error.timing:
                return error.timing
            raise

    def _bulk_delete(self, job: Job, deadline_ns: int) -> Timing:
        """Unlink one after another."""
        statuses: list[int] = []
        first = None
        for number in (job.object, *job.others):
            try:
                statuses.append(self._remove(job._replace(object=number), deadline_ns).status)
            except StorageError as error:
                first = first or error
                statuses.append(error.status)
        timing = _now(200)._replace(items=statuses.count(204))
        if first:
            timing = timing._replace(statuses=tuple(statuses))
            raise StorageError(first.kind, first.detail, status=first.status, timing=timing)
        return timing

    def _list(self, job: Job, deadline_ns: int) -> Timing:
        listed = listed_of(job, self._naming)
        items = sum(1 for _ in islice(self._entries(listed), listed.limit))
        return _now(200)._replace(items=items)

    def _list_all(self, job: Job, deadline_ns: int) -> Timing:
        """One pass over all entries, in pages of ``list_limit``."""
        listed = listed_of(job, self._naming)
        entries = self._entries(listed)

        def page(number: int | None) -> Page:
            names = [*islice(entries, listed.limit)]
            timing = _now(200)._replace(items=len(names))
            self._check_time(job, deadline_ns)
            is_last = len(names) < listed.limit
            return Page(timing, None if is_last else (number or 0) + 1, listed.wanted in names)

        return all_pages(page, listed.wanted if self._verifies else "")

    def _entries(self, listed: Listed) -> Iterator[str]:
        prefix, delimiter, group = listed.prefix, listed.delimiter, ""
        for found in self._tree.files(listed.container, prefix=prefix):
            if group and found.name.startswith(group):
                continue
            at = found.name.find(delimiter, len(prefix)) if delimiter else -1
            group = found.name[: at + len(delimiter)] if at >= 0 else ""
            yield group or found.name

    # What operations share

    def _locate(self, job: Job, *, make: bool = False) -> tuple[Folder, str]:
        if self._closed:
            raise StorageError(ErrorKind.RESET, "closed by us", sent=False)
        naming, size_class, number = self._naming, job.size_class, job.object
        container, name = naming.container(size_class, number), naming.object(size_class, number)
        return self._tree.locate(container, name, make=make)

    def _check_time(self, job: Job, deadline_ns: int) -> None:
        if deadline_ns and perf_counter_ns() > deadline_ns:
            text = f"{self._where(job)}: not done in time"
            raise StorageError(ErrorKind.OPERATION_TIMEOUT, text)
        if self._closed:
            raise StorageError(ErrorKind.RESET, "closed by us")

    def _failure(self, error: OSError, job: Job, *, sent: bool = True) -> StorageError:
        if error.errno in (errno.ENOENT, errno.ESTALE):  # its folder may have been created again
            self._tree.forget(self._naming.container(job.size_class, job.object))
        return failure(error, self._where(job), sent=sent)


FileStorage.operations = methods_of(FileStorage).keys()


def _range_of(job: Job) -> tuple[int, int | None]:
    """Offset and length of a RANGE_READ; of any other, the whole."""
    return cast("tuple[int, int]", job.arguments) if job.arguments else (0, None)


def _now(status: int) -> Timing:
    now = perf_counter_ns()
    return Timing(now, now, now, 0, status)


def _check_regular(found: os.stat_result) -> None:
    """:raises OSError: ENXIO, as for opening a pipe: it is no file."""
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))


def _end_direct(fd: int) -> None:
    """Write through the page cache from here on."""
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_DIRECT)


def _write_all(fd: int, piece: memoryview) -> None:
    while piece:
        piece = piece[os.write(fd, piece) :]
