"""The admin of the ``file`` store: containers, listings, deletes."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind
from ssbench.core.naming import run_id_in
from ssbench.core.settings import StorageSettings
from ssbench.core.text import printable
from ssbench.host.files import why_placed
from ssbench.storage.base import (
    ContainerEntry,
    ContainerInfo,
    ListingPages,
    ObjectEntry,
    StoreLimits,
    StoreState,
    delete_each,
    make_marked,
    unless_missing,
)
from ssbench.storage.file.login import FileClient
from ssbench.storage.filetree import ATTRIBUTE, MARKER, Folder, check_part, failing_as, failure

_BULK = 1000  #: names of a bulk delete, which is only a loop: it saves the way between threads


class FileAdmin(FileClient):
    """Implements ``ssbench.storage.base.StoreAdmin``. Deletes only below folders with our marker.

    :raises UsageError: the directory can't be used.
    """

    def __init__(self, settings: StorageSettings, seed: int | None = None) -> None:
        super().__init__(settings)
        self._run_id, self._fsync = settings.run_id, self._own.fsync
        self._pages = ListingPages()

    def close(self) -> None:
        self._pages.close()
        super().close()

    def limits(self) -> StoreLimits:
        with failing_as(self._tree.path):
            longest = os.fpathconf(self._tree.root.fd, "PC_NAME_MAX")
        return StoreLimits(
            max_object_name_length=longest,
            max_container_name_length=longest,
            policies=(),
            bulk_delete_max=_BULK,
        )

    def state(self) -> StoreState:
        with failing_as(self._tree.path):
            found = os.fstatvfs(self._tree.root.fd)
        return StoreState(free_bytes=found.f_bavail * found.f_frsize)

    # Containers

    def owns(self, container: str) -> bool:
        return self._is_marked(self._folder(container))

    def container_info(self, container: str) -> ContainerInfo:
        marked = self.owns(container)
        is_empty = next(self._tree.files(container), None) is None
        return ContainerInfo(None, marked, 0 if is_empty else None)

    def make_container(
        self, container: str, changing: Callable[[], None] | None = None
    ) -> ContainerInfo | None:
        return make_marked(self.container_info, self._make, container, changing)

    def _make(self, container: str, found: ContainerInfo | None) -> ContainerInfo | None:
        with failing_as(container):
            if found is None:
                try:
                    os.mkdir(container, dir_fd=self._tree.root.fd)
                except FileExistsError:  # another client has made it meanwhile
                    return self.make_container(container)
            self._mark(container)
        return None

    def _mark(self, container: str) -> None:
        """Make the marker in a container, unless another master has just made it.

        :raises OSError: it can't be made.
        """
        folder = self._folder(container)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        try:
            fd = os.open(MARKER, flags, 0o666, dir_fd=folder.fd)
        except FileExistsError:
            if self._is_marked(folder):
                return
            raise
        try:
            os.write(fd, f"{self._run_id}\n".encode())
            if self._fsync:
                for each in (fd, folder.fd, self._tree.root.fd):
                    os.fsync(each)
        finally:
            os.close(fd)

    def list_containers(self, prefix: str, marker: str, limit: int) -> list[ContainerEntry]:
        entries: list[ContainerEntry] = []
        for name in self._tree.containers():
            if name > marker and name.startswith(prefix) and len(entries) < limit:
                with suppress(StorageError):  # deleted meanwhile, or not to be read
                    sizes = [size for _, size in self._objects(name, "")]
                    entries.append(ContainerEntry(name, len(sizes), sum(sizes)))
        return entries

    def delete_container(self, container: str) -> bool:
        folder = unless_missing(self._owned, container)
        if folder is None:
            return False
        found = [*self._tree.walk(container)]
        if not all(each.is_folder for each in found):
            raise StorageError(ErrorKind.STATUS, f"{container}: not empty", status=409)
        with failing_as(container):
            for each in reversed(found):  # a folder comes before those in it
                os.rmdir(each.name[:-1].rpartition("/")[2], dir_fd=each.folder.fd)
            self._tree.forget(container)
            # Last of all, and put back if something else is in the folder.
            os.unlink(MARKER, dir_fd=folder.fd)
            try:
                os.rmdir(container, dir_fd=self._tree.root.fd)
            except OSError:
                self._mark(container)
                raise
            if self._fsync:
                os.fsync(self._tree.root.fd)
        return True

    # Objects

    def list_objects(self, container: str, marker: str, limit: int) -> list[ObjectEntry]:
        return self._pages.page(self._objects(container, marker), container, marker, limit)

    def _objects(self, container: str, after: str) -> Iterator[ObjectEntry]:
        for found in self._tree.files(container, after):
            with failing_as(f"{container}/{found.name}"):
                try:
                    size = found.size()
                except FileNotFoundError:
                    continue
            yield ObjectEntry(found.name, size)

    def object_run_id(self, container: str, name: str) -> str | None:
        folder, part = self._tree.locate(container, name)
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
            fd = os.open(part, flags, dir_fd=folder.fd)
            try:
                mark = os.getxattr(fd, ATTRIBUTE).split()
            finally:
                os.close(fd)
        except OSError as error:
            if error.errno == errno.ENODATA:
                return None
            if error.errno == errno.EOPNOTSUPP:  # then only its name has the run's id
                return run_id_in(name)
            raise failure(error, f"{container}/{name}") from error
        return mark[0].decode(errors="replace") if mark else None

    def delete_object(self, container: str, name: str) -> bool:
        folder = self._unlink(container, name)
        if folder is not None and self._fsync:
            with failing_as(f"{container}/{name}"):
                os.fsync(folder.fd)
        return folder is not None

    def bulk_delete(self, container: str, names: Sequence[str]) -> list[tuple[str, int]]:
        """One after another, with a single fsync for each folder: it costs more than a deletion."""
        changed: dict[str, str] = {}  # folder -> a name in it: open folders would take descriptors

        def delete(container: str, name: str) -> None:
            if self._unlink(container, name) is not None:
                changed[name.rpartition("/")[0]] = name

        try:
            return delete_each(delete, container, names)
        finally:
            for name in changed.values() if self._fsync else ():
                with failing_as(f"{container}/{name}"):
                    os.fsync(self._tree.locate(container, name)[0].fd)

    # What they share

    def _folder(self, container: str) -> Folder:
        """Of a container, as it is now."""
        if "/" in container:
            check_part(container, container)
        self._tree.forget(container)
        return self._tree.folder(container)

    def _is_marked(self, folder: Folder) -> bool:
        """Whether our marker is in it. One that another user may have placed there is none: what is
        in the folder may be anybody's."""
        try:
            found = os.stat(MARKER, dir_fd=folder.fd, follow_symlinks=False)
        except OSError:
            return False
        return stat.S_ISREG(found.st_mode) and not why_placed(found, os.fstat(folder.fd))

    def _unlink(self, container: str, name: str) -> Folder | None:
        """Delete a file. Returns the folder that it was in; None if there was no such file."""
        try:
            self._owned(container)
            folder, part = self._tree.locate(container, name)
            with failing_as(f"{container}/{name}"):
                os.unlink(part, dir_fd=folder.fd)
        except StorageError as error:
            if error.status != 404:
                raise
            return None
        return folder

    def _owned(self, container: str) -> Folder:
        """:raises StorageError: our marker is not in it: nothing in it is ours to delete."""
        folder = self._folder(container)
        if not self._is_marked(folder):
            raise StorageError(
                ErrorKind.ACCESS_DENIED,
                f"{printable(container)} has no {MARKER} file, so ssbench may not have created it;"
                " nothing in it was deleted",
                status=403,
            )
        return folder
