"""Content from the files of a folder, in place of made-up bytes (``StorageSettings.contents``)."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ssbench.core.content import Extent
from ssbench.core.settings import StorageSettings
from ssbench.storage.filetree import FileTree, ThreadBuffer, failure


class DirectorySource:
    """An ObjectSource: an object has the content of the file of its name.

    Files are read anew for each object, by as many threads as there are. What it raises for a file
    that is missing or can't be read is a StorageError of the operation.

    :param settings: ``contents`` has ``path`` and ``folder``, which is one in it.
    :param block_size: bytes of the longest piece.
    :raises UsageError: there is no such folder.
    """

    def __init__(self, settings: StorageSettings, block_size: int) -> None:
        self.block_size = block_size
        self._tree = FileTree(str(settings.contents["path"]))
        self._folder = str(settings.contents["folder"])
        self._buffer = ThreadBuffer(block_size)

    def prepare(self) -> None:
        """Nothing is to be made before."""

    def size(self, name: bytes, version: int) -> int | None:
        fd = self._open(name)
        try:
            return os.fstat(fd).st_size
        finally:
            os.close(fd)

    def piece(self, name: bytes, version: int, size: int) -> memoryview:
        return next(self.pieces(name, version, size), memoryview(b""))

    def pieces(self, name: bytes, version: int, size: int) -> Iterator[memoryview]:
        """The content, in the thread's buffer: each piece is valid until the next one.

        :param size: ignored: all of the file is read.
        """
        fd = self._open(name)
        whole = self._buffer.whole
        try:
            position = 0
            while received := os.preadv(fd, [whole], position):
                yield whole[:received]
                position += received
        except OSError as error:
            raise failure(error, self._where(name), sent=False) from error
        finally:
            os.close(fd)

    def checksum(self, name: bytes, version: int, size: int) -> str | None:
        return None

    def extent(self, name: bytes, version: int, size: int) -> Extent | None:
        return None

    def _open(self, name: bytes) -> int:
        folder, part = self._tree.locate(self._folder, os.fsdecode(name))
        try:
            return os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder.fd)
        except OSError as error:
            raise failure(error, self._where(name), sent=False) from error

    def _where(self, name: bytes) -> str:
        return f"{self._tree.path}/{self._folder}/{os.fsdecode(name)}"
