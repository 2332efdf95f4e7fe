"""The folders below the ``file`` store's directory. No name and no symbolic link leads out of it.

Each folder is opened by its single name within the descriptor of its parent, and each file within
that of its folder, never following a symbolic link. So it does not matter what is in a name, or
what others put into the directory meanwhile. (openat2 with RESOLVE_BENEATH does the same in one
call, but Python has no openat2, and a kept descriptor is quicker still.)
"""

from __future__ import annotations

import errno
import mmap
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from operator import attrgetter
from time import perf_counter_ns
from typing import NamedTuple

from ssbench.core.errors import StorageError, UsageError
from ssbench.core.model import ErrorKind, Timing
from ssbench.core.text import printable
from ssbench.host.files import why_placed

#: A file in each folder that is a container of ours, and in the directory itself where workers on
#: other hosts need it. No object has this name.
MARKER = ".ssbench"
#: Extended attribute of each object: run id, version, and "letters" if it is of one letter.
ATTRIBUTE = "user.ssbench"
#: Folders that a tree keeps open.
_MOST_OPEN = 512
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
#: Bytes at the end of the directory's marker in which a session is looked for.
_NEWEST_SESSIONS = 65536
#: Where nothing says how O_DIRECT must be aligned: the largest block of usual disks, in bytes.
_USUAL_BLOCK = 4096

_STATUS, _DENIED = ErrorKind.STATUS, ErrorKind.ACCESS_DENIED
#: errno -> kind, equivalent HTTP status, and a hint.
_FAILURES = {
    errno.ENOENT: (_STATUS, 404, ""),
    errno.ENOTEMPTY: (_STATUS, 409, ""),
    errno.EEXIST: (_STATUS, 409, ""),
    errno.EBUSY: (_STATUS, 409, ""),
    errno.EISDIR: (_STATUS, 409, "a folder has the object's name"),
    errno.ENOTDIR: (
        _STATUS,
        409,
        "something else is where a folder should be; no link is followed",
    ),
    errno.ENAMETOOLONG: (_STATUS, 414, ""),
    errno.EFBIG: (_STATUS, 413, ""),
    errno.EOPNOTSUPP: (_STATUS, 501, "this file system can't do that"),
    errno.EXDEV: (_STATUS, 501, "source and copy are on different file systems"),
    errno.EACCES: (_DENIED, 403, ""),
    errno.EPERM: (_DENIED, 403, ""),
    errno.EROFS: (_DENIED, 403, ""),
    errno.ELOOP: (_DENIED, 403, "a symbolic link has the object's name; none is followed"),
    errno.ENXIO: (_DENIED, 403, "something that is no file has the object's name"),
    errno.ESPIPE: (_DENIED, 403, "something that is no file has the object's name"),
    errno.ENOSPC: (ErrorKind.NO_SPACE, 507, ""),
    errno.EDQUOT: (ErrorKind.NO_SPACE, 507, ""),
    errno.ETIMEDOUT: (ErrorKind.NETWORK_TIMEOUT, 0, ""),
    errno.EMFILE: (ErrorKind.LOAD_GENERATOR, 0, "raise this host's ulimit -n, or use fewer users"),
    errno.ENFILE: (ErrorKind.LOAD_GENERATOR, 0, ""),
    errno.ENOMEM: (ErrorKind.LOAD_GENERATOR, 0, ""),
}


def failure(error: OSError, where: str, *, sent: bool = True) -> StorageError:
    """The StorageError of a failed system call; one that is not listed above is ``IO``.

    :param where: what the call was about.
    """
    kind, status, hint = _FAILURES.get(error.errno or 0, (ErrorKind.IO, 500, ""))
    text = f"{printable(where)}: {error.strerror}" + (f" ({hint})" if hint else "")
    now = perf_counter_ns()
    timing = Timing(now, now, now, 0, status) if status else None
    return StorageError(kind, text, status=status, timing=timing, sent=sent and status != 404)


@contextmanager
def failing_as(where: str) -> Iterator[None]:
    """Raises the OSErrors of the calls within as StorageErrors: see ``failure``."""
    try:
        yield
    except OSError as error:
        raise failure(error, where) from error


class Folder:
    """An open folder. It closes with its last user, so no call meets another file's descriptor."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __repr__(self) -> str:
        return f"<Folder {self.fd}>"

    def __del__(self) -> None:
        os.close(self.fd)


class Found(NamedTuple):
    """Something in a container."""

    name: str  #: as of an object; that of a folder ends with a slash
    folder: Folder  #: which it is in
    is_file: bool
    is_folder: bool

    def size(self) -> int:
        """Bytes of a file.

        :raises OSError: it is gone.
        """
        part = self.name.rpartition("/")[2]
        return os.stat(part, dir_fd=self.folder.fd, follow_symlinks=False).st_size


class FileTree:
    """The folders below ``path``. Its methods may be called in any thread.

    :param title: of the path, in the message of the error.
    :raises UsageError: there is no such directory, or it can't be opened.
    """

    def __init__(self, path: str, title: str = "--path") -> None:
        try:
            # Only here a link is followed: the user names this directory.
            self.root = Folder(os.open(path, os.O_RDONLY | os.O_DIRECTORY))
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            hint = "; make it first" if isinstance(error, FileNotFoundError) else ""
            raise UsageError(f"{title} {printable(path)}: {reason}{hint}") from error
        self.path = path
        self._open: dict[str, Folder] = {}

    def __repr__(self) -> str:
        return f"<FileTree {self.path}>"

    def close(self) -> None:
        """Close the folders; those in use close with their last user."""
        self._open.clear()

    def folder(self, path: str, *, make: bool = False) -> Folder:
        """The folder at ``container`` or ``container/part/part``.

        :param make: make missing folders below the container.
        :raises StorageError: there is none, or the path is not allowed.
        """
        found = self._open.get(path)
        if found is not None:
            return found
        open_path = path
        while open_path and not found:
            open_path = open_path.rpartition("/")[0]
            found = self._open.get(open_path)
        found = found or self.root
        for part in path[len(open_path) + bool(open_path) :].split("/"):
            check_part(path, part)
            try:
                found = self._enter(found, part, make=make and found is not self.root)
            except OSError as error:
                raise failure(error, path, sent=False) from error
            open_path = f"{open_path}/{part}" if open_path else part
            if len(self._open) >= _MOST_OPEN:
                self._open.clear()
            self._open[open_path] = found
        return found

    @staticmethod
    def _enter(parent: Folder, part: str, *, make: bool) -> Folder:
        try:
            return Folder(os.open(part, _FOLDER, dir_fd=parent.fd))
        except FileNotFoundError:
            if not make:
                raise
        with suppress(FileExistsError):
            os.mkdir(part, dir_fd=parent.fd)
        return Folder(os.open(part, _FOLDER, dir_fd=parent.fd))

    def locate(self, container: str, name: str, *, make: bool = False) -> tuple[Folder, str]:
        """The folder of an object, and the file's name in it.

        :raises StorageError: as ``folder``.
        """
        above, slash, part = name.rpartition("/")
        if part[:1] in ("", "."):
            check_part(name, part)
        return self.folder(f"{container}/{above}" if slash else container, make=make), part

    def forget(self, container: str) -> None:
        """Open a container's folders again: they may have been deleted."""
        for path in [*self._open]:
            if path == container or path.startswith(f"{container}/"):
                self._open.pop(path, None)

    def containers(self) -> list[str]:
        """The names of the folders in the directory, in ascending order.

        :raises StorageError: it can't be read.
        """
        with failing_as(self.path):
            return sorted(found.name[:-1] for found in _scan(self.root, "") if found.is_folder)

    def files(self, container: str, after: str = "", prefix: str = "") -> Iterator[Found]:
        """The objects after ``after`` that begin with a prefix, in ascending order of their names.

        Links, pipes and devices are none.

        :raises StorageError: a folder can't be read.
        """
        for found in self.walk(container, after, prefix):
            if found.is_file and found.name > after and found.name.startswith(prefix):
                yield found

    def walk(self, container: str, after: str = "", prefix: str = "") -> Iterator[Found]:
        """All that is in a container but markers, in ascending order. No link is followed.

        :param after, prefix: folders without names after this one, or with this prefix, are left
            out.
        :raises StorageError: there is no such container, or a folder can't be read.
        """
        # No recursion: other programs can make folders of any depth.
        levels = [self._level(container, "")]
        while levels:
            found = next(levels[-1], None)
            if found is None:
                levels.pop()
                continue
            name = found.name
            if not found.is_folder:
                yield found
            elif (name > after or after.startswith(name)) and (
                name.startswith(prefix) or prefix.startswith(name)
            ):
                yield found
                try:
                    levels.append(self._level(container, name))
                except StorageError as error:
                    if error.status != 404:  # 404: deleted since its parent was read
                        raise

    def _level(self, container: str, prefix: str) -> Iterator[Found]:
        path = f"{container}/{prefix}".rstrip("/")
        with failing_as(path):
            return iter(sorted(_scan(self.folder(path), prefix), key=attrgetter("name")))

    # Proof that a worker on another host sees the same directory

    def announce(self, session: str) -> None:
        """Add a session's id to the directory's marker.

        :raises OSError: it can't be written, or another user may have placed it there.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
        fd = os.open(MARKER, flags, 0o666, dir_fd=self.root.fd)
        try:
            if why := why_placed(os.fstat(fd), os.fstat(self.root.fd)):
                raise PermissionError(errno.EACCES, f"{MARKER}: {why}")
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            os.write(fd, f"{stamp} {session}\n".encode())
            os.fsync(fd)
        finally:
            os.close(fd)

    def has_session(self, session: str) -> bool:
        """Whether the directory's marker has a session's id."""
        try:
            fd = os.open(MARKER, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self.root.fd)
            with open(fd, "rb") as marker:
                marker.seek(max(0, os.fstat(fd).st_size - _NEWEST_SESSIONS))
                newest = marker.read(2 * _NEWEST_SESSIONS)
        except OSError:  # also a FIFO, in which nothing has a place
            return False
        return any(line.split()[-1:] == [session.encode()] for line in newest.splitlines())

    # What the file system can do

    def has_attributes(self) -> bool:
        """Whether its files have extended attributes of users."""
        try:
            os.getxattr(self.root.fd, ATTRIBUTE)
        except OSError as error:
            return error.errno != errno.EOPNOTSUPP
        return True

    def file_system(self) -> str:
        """Its type, such as ``ext4``; "" if it is not known."""
        device = os.fstat(self.root.fd).st_dev
        wanted = f"{os.major(device)}:{os.minor(device)}"
        with suppress(OSError), open("/proc/self/mountinfo") as mounts:
            for line in mounts:
                fields = line.split()
                if fields[2] == wanted:
                    return fields[fields.index("-") + 1]
        return ""

    def direct_alignment(self) -> int:
        """What offsets and lengths must be multiples of with O_DIRECT, in bytes.

        By statx (Linux 6.1), else the disk's logical block size, else 4096.

        :raises UsageError: this file system has no O_DIRECT.
        """
        try:
            fd = os.open(".", os.O_RDWR | os.O_TMPFILE | os.O_DIRECT, 0o600, dir_fd=self.root.fd)
        except OSError as error:
            if error.errno == errno.EINVAL:
                raise UsageError(
                    f"--direct: {self.path} ({self.file_system() or 'this file system'}) has no"
                    " O_DIRECT: leave out --direct"
                ) from error
            return _USUAL_BLOCK  # it can't be tried: no permission, or no unnamed files
        try:
            return _statx_alignment(fd) or _logical_block(os.fstat(fd).st_dev) or _USUAL_BLOCK
        finally:
            os.close(fd)


def _scan(folder: Folder, prefix: str) -> list[Found]:
    # A descriptor of its own: scandir moves the position in it.
    fd = os.open(".", _FOLDER, dir_fd=folder.fd)
    try:
        with os.scandir(fd) as entries:
            return [
                Found(f"{prefix}{each.name}/", folder, is_file=False, is_folder=True)
                if each.is_dir(follow_symlinks=False)
                else Found(
                    f"{prefix}{each.name}",
                    folder,
                    is_file=each.is_file(follow_symlinks=False),
                    is_folder=False,
                )
                for each in entries
                if each.name != MARKER
            ]
    finally:
        os.close(fd)


def check_part(name: str, part: str) -> None:
    """Check a folder's or file's own name, which is a part of ``name``.

    :raises StorageError: nothing can have that name.
    """
    if part in ("", ".", "..", MARKER) or "\0" in part or "/" in part:
        raise StorageError(
            ErrorKind.PROTOCOL,
            f'not tried: "{printable(name)}" has a part "{printable(part)}", which no file or'
            " folder of ours can have as its name",
            sent=False,
        )


class ThreadBuffer(threading.local):
    """A buffer for each thread that uses it, in whole pages, as O_DIRECT wants it.

    :param size: bytes.
    :raises UsageError: there is not enough memory.
    """

    def __init__(self, size: int) -> None:
        try:
            self.whole = memoryview(mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        except (OSError, OverflowError):
            raise UsageError(f"--io-buffer {size}: not enough memory for such a buffer") from None


def drop_all_caches() -> None:
    """Write what is dirty, and drop the whole page cache of this host.

    :raises UsageError: only root may.
    """
    os.sync()
    try:
        with open("/proc/sys/vm/drop_caches", "w") as file:
            file.write("3\n")
    except OSError as error:
        raise UsageError(
            f"--page-cache drop-all: /proc/sys/vm/drop_caches: {error.strerror}: only root may drop"
            " the caches of a whole host"
        ) from error


# struct statx of linux/stat.h
_STATX_BYTES, _STATX_MASK, _STATX_OFFSET_ALIGN = 256, 0, 0x9C
_AT_EMPTY_PATH, _STATX_DIOALIGN = 0x1000, 0x2000


def _statx_alignment(fd: int) -> int:
    """0: this kernel, C library or file system does not say it."""
    import ctypes  # slow to load, and every command loads this module

    statx = getattr(ctypes.CDLL(None, use_errno=True), "statx", None)
    answer = (ctypes.c_uint32 * (_STATX_BYTES // 4))()
    if statx is None or statx(fd, b"", _AT_EMPTY_PATH, _STATX_DIOALIGN, ctypes.byref(answer)):
        return 0
    known = answer[_STATX_MASK // 4] & _STATX_DIOALIGN
    return answer[_STATX_OFFSET_ALIGN // 4] if known else 0


def _logical_block(device: int) -> int:
    """Of a disk or a partition of one; 0: it is neither."""
    base = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"
    for queue in (f"{base}/queue", f"{base}/../queue"):
        with suppress(OSError, ValueError), open(f"{queue}/logical_block_size") as file:
            return int(file.read())
    return 0
