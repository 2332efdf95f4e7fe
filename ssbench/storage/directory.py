"""Objects whose content is that of real files, in place of synthetic content.

A file is read or sent by one user at a time, from its beginning in each attempt, and is checked for
changes: what is sent must be what was listed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from hashlib import md5
from time import perf_counter_ns

from msgspec import Struct

from ssbench.core.errors import StorageError
from ssbench.core.model import SECOND_NS, ErrorKind, Job, Timing
from ssbench.core.naming import naming_of
from ssbench.core.settings import StorageSettings, typed
from ssbench.core.text import plural, printable
from ssbench.storage.filetree import FileTree

#: Bytes read at a time, to be sent. More cost more cache misses than they save calls.
PIECE = 256 * 1024
#: Bytes of a sendfile call at most: the other users of the worker wait meanwhile.
_SEND = 1 << 20
_READ_AHEAD = 8 << 20  #: bytes that the kernel is asked to read before they are sent
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_MD5_BYTES = 16
#: errno of sendfile that are the file's, not the socket's.
_OF_FILE = (errno.EIO, errno.EINVAL, errno.ESTALE, errno.EOVERFLOW, errno.EISDIR, errno.ENOMEM)
#: A file that takes longer has a progress of its own.
_LONG_NS = SECOND_NS


class FileContents(Struct, frozen=True):
    """``StorageSettings.contents`` of a run on real files; {}: content is synthetic.

    :param path: the folder of the files to send, as workers see it; "": nothing is sent.
    :param prefix: what objects' names have in front of the names of files.
    :param newest_ns: when any of the files was last changed, by its time of change; a file with a
        later one has changed since.
    :param hashes: compute the MD5 of what is sent.
    :param md5: the files' MD5 by the numbers of their objects, each of 16 bytes; zeros: unknown.
    """

    path: str = ""
    prefix: str = ""
    newest_ns: int = 0
    hashes: bool = False
    md5: bytes = b""

    def checksum(self, number: int) -> str:
        """The MD5 of an object's file in hexadecimal; "" if it is not known beforehand."""
        found = self.md5[number * _MD5_BYTES : (number + 1) * _MD5_BYTES]
        return found.hex() if any(found) else ""


def file_contents(settings: StorageSettings) -> FileContents | None:
    """What the settings say of real files; None: content is synthetic."""
    return typed(FileContents, settings.contents) if settings.contents else None


class DirectorySource:
    """Opens the files of a folder, by the objects that have their content.

    :param piece: bytes read at a time.
    :raises UsageError: there is no such folder.
    """

    def __init__(
        self, settings: StorageSettings, contents: FileContents, piece: int = PIECE
    ) -> None:
        self.contents = contents
        self.piece = piece
        #: Files that are being sent, by the numbers of their objects.
        self.open_files: dict[int, SourceFile] = {}
        self._tree = FileTree(contents.path, "the folder of files to send,")
        self._naming = naming_of(settings)
        self._skipped = len(contents.prefix)
        self.buffers: list[memoryview] = []  #: of ``piece`` bytes, which no file uses

    def open(self, job: Job) -> SourceFile:
        """The file of the job's object; close it.

        :raises StorageError: SOURCE_FILE: it is missing or can't be read, or is not the one that
            was listed.
        """
        name = self._naming.object(job.size_class, job.object)[self._skipped :]
        where = f"{self._tree.path}/{name}"
        above, slash, part = name.rpartition("/")
        try:
            folder = self._tree.folder(above) if slash else self._tree.root
            fd = os.open(part, _OPEN, dir_fd=folder.fd)
        except OSError as error:
            raise _fault(where, _reason(error)) from error
        except StorageError as error:
            raise _fault(where, error.detail) from error
        file = SourceFile(self, fd, where, job)
        try:
            file.check_listed(job.size, self.contents.newest_ns)
        except BaseException:
            file.close()
            raise
        return file

    def moving(self) -> dict[int, int]:
        """Bytes sent so far of the files that take long, by number. For any thread."""
        before_ns = perf_counter_ns() - _LONG_NS
        files = list(self.open_files.items())
        return {number: file.sent for number, file in files if file.opened_ns < before_ns}

    def close(self) -> None:
        """Close the folders; open files stay open."""
        self._tree.close()


class SourceFile:
    """An open file. A context manager, which closes it.

    ``pieces`` and ``rewind`` begin an attempt to send it.
    """

    def __init__(self, source: DirectorySource, fd: int, where: str, job: Job) -> None:
        self.size = job.size
        self.sent = 0  #: bytes, in the present attempt
        self.opened_ns = perf_counter_ns()
        self.where = where
        self._source, self._fd, self._number = source, fd, job.object
        self._found = os.fstat(fd)
        self._buffer: memoryview | None = None
        self._hash = md5(usedforsecurity=False) if source.contents.hashes else None
        source.open_files[self._number] = self

    def __enter__(self) -> SourceFile:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; its pieces are not valid any more."""
        self._source.open_files.pop(self._number, None)
        if self._buffer is not None:
            self._source.buffers.append(self._buffer)
            self._buffer = None
        os.close(self._fd)

    def rewind(self) -> None:
        self.sent = 0
        if self._source.contents.hashes:
            self._hash = md5(usedforsecurity=False)

    def pieces(self) -> Iterator[memoryview]:
        """The content from the beginning; each piece is valid until the next one.

        :raises StorageError: SOURCE_FILE: it can't be read, or is shorter than it was.
        """
        self.rewind()
        if self._buffer is None:
            buffers = self._source.buffers
            self._buffer = buffers.pop() if buffers else memoryview(bytearray(self._source.piece))
        while self.sent < self.size:
            try:
                count = os.preadv(self._fd, [self._buffer[: self.size - self.sent]], self.sent)
            except OSError as error:
                raise _fault(self.where, _reason(error), sent=True) from error
            if not count:
                raise self._changed(sent=True)
            piece = self._buffer[:count]
            if self._hash is not None:
                self._hash.update(piece)
            self.sent += count
            yield piece

    def send_to(self, socket_fd: int) -> int:
        """Send the next bytes by sendfile; returns how many.

        :raises BlockingIOError, OSError: of the socket.
        :raises StorageError: SOURCE_FILE: as ``pieces``.
        """
        if self.sent % _READ_AHEAD < _SEND:
            os.posix_fadvise(self._fd, self.sent, 2 * _READ_AHEAD, os.POSIX_FADV_WILLNEED)
        try:
            wanted = min(self.size - self.sent, _SEND)
            count = os.sendfile(socket_fd, self._fd, self.sent, wanted)
        except OSError as error:
            if error.errno not in _OF_FILE:
                raise
            raise _fault(self.where, _reason(error), sent=True) from error
        if not count:
            raise self._changed(sent=True)
        self.sent += count
        return count

    @property
    def checksum(self) -> str:
        """The MD5 in hexadecimal: of what was sent, else the one known beforehand; "": unknown."""
        if self._hash is not None:
            return self._hash.hexdigest()
        return self._source.contents.checksum(self._number)

    def check_listed(self, size: int, newest_ns: int) -> None:
        """:raises StorageError: SOURCE_FILE: it is no file, or not as it was listed."""
        found = self._found
        if not stat.S_ISREG(found.st_mode):
            raise _fault(self.where, "is no longer a regular file")
        if found.st_size != size or found.st_ctime_ns > newest_ns:
            raise self._changed(sent=False)

    def check_unchanged(self, timing: Timing | None = None) -> None:
        """:raises StorageError: SOURCE_FILE: it was changed since it was opened."""
        before, now = self._found, os.fstat(self._fd)
        was = before.st_size, before.st_mtime_ns, before.st_ctime_ns
        if was != (now.st_size, now.st_mtime_ns, now.st_ctime_ns):
            raise self._changed(sent=True, timing=timing)

    def _changed(self, *, sent: bool, timing: Timing | None = None) -> StorageError:
        when = "while it was sent" if sent else "since it was listed"
        size = os.fstat(self._fd).st_size
        how = "" if size == self.size else f" ({plural(size, 'byte')}, not {self.size:,})"
        return _fault(self.where, f"was changed {when}{how}", sent=sent, timing=timing)


def _reason(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "is a symbolic link; links are not followed"
    return error.strerror or type(error).__name__


def _fault(
    where: str, why: str, *, sent: bool = False, timing: Timing | None = None
) -> StorageError:
    text = f"{printable(where)}: {why}"
    status = timing.status if timing else 0
    return StorageError(ErrorKind.SOURCE_FILE, text, status=status, timing=timing, sent=sent)
