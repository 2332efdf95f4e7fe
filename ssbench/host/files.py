"""Files that the user names, and private files of ours.

Opening a file that the user names never waits, and reading one takes bounded memory. The folder and
files for stat files, logs and profiles are safe against other users' links.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import suppress
from io import BufferedReader
from pathlib import Path

from ssbench.core.errors import StatFileError, UsageError
from ssbench.core.text import printable

MOST_BYTES = 4 << 20  #: of a file that is read whole: settings, scenarios, keys, certificates
_MOST_NUMBERS = 10_000  #: of files of one name
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_PLACED = "another user has placed it there"
_LINKED = "it has another name (a hard link), and another user may have made this one"
_MOST_LINKS = 40  #: that lead from one to the next, as in Linux
_NO_FILE = "has to be a regular file, and is "
_ANYTHING = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = _ANYTHING | os.O_DIRECTORY
_KINDS = {
    stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO", stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device", stat.S_IFSOCK: "a socket",
}  # fmt: skip
_REASONS = {
    errno.ENXIO: f"{_NO_FILE}a socket or a device",
    errno.ELOOP: "is a symbolic link; name the file itself",
}


def open_file(
    path: str | os.PathLike[str], option: str = "", *, follow: bool = True
) -> BufferedReader:
    """Open a regular file, /dev/null, or the pipe that a shell makes of ``<(...)``.

    :param option: which names the file, for the message.
    :param follow: also open what a symbolic link leads to.
    :raises UsageError: it can't be opened, or is a FIFO, a device, a folder or a socket.
    """
    text = os.fspath(path)
    try:
        # Non-blocking: opening a FIFO without a writer would wait.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        fd = os.open(text, flags if follow else flags | os.O_NOFOLLOW)
        found = os.fstat(fd)
        kind = stat.S_IFMT(found.st_mode)
        if (
            kind == stat.S_IFREG
            or (kind == stat.S_IFIFO and _is_descriptor(text))
            or os.path.samestat(found, os.stat(os.devnull))
        ):
            os.set_blocking(fd, True)
            return open(fd, "rb")
        os.close(fd)
        reason = _NO_FILE + _KINDS.get(kind, "none")
    except OSError as error:
        reason = _REASONS.get(error.errno or 0, f"can't be read: {error.strerror}")
    except ValueError:
        reason = "can't be read: no file can have such a name"
    raise UsageError(f"{_named(text, option)}: {reason}")


def read_bytes(path: str | os.PathLike[str], option: str = "") -> bytes:
    """The whole file, as ``open_file`` opens it.

    :raises UsageError: also if it can't be read, or has more than MOST_BYTES.
    """
    return read_with_mode(path, option)[0]


def read_with_mode(path: str | os.PathLike[str], option: str = "") -> tuple[bytes, int]:
    """As ``read_bytes``, and the permissions of the file; 0 for a pipe.

    :raises UsageError: as ``read_bytes``.
    """
    name = _named(os.fspath(path), option)
    with open_file(path, option) as file:
        found = os.fstat(file.fileno()).st_mode
        mode = stat.S_IMODE(found) if stat.S_ISREG(found) else 0
        try:
            data = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise UsageError(f"{name}: can't be read: {error.strerror}") from error
    if len(data) > MOST_BYTES:
        raise UsageError(f"{name}: has more than {MOST_BYTES >> 20} MiB, which no such file needs")
    return data, mode


def read_text(path: str | os.PathLike[str], option: str = "", errors: str = "strict") -> str:
    """The file's text, as ``read_bytes`` reads it.

    :param errors: as of ``bytes.decode``.
    :raises UsageError: also if it is not UTF-8.
    """
    try:
        return read_bytes(path, option).decode(errors=errors)
    except UnicodeDecodeError:  # its text may show a secret
        raise UsageError(f"{_named(os.fspath(path), option)}: is not UTF-8 text") from None


def read_found(path: str | os.PathLike[str]) -> str:
    """As ``read_text``, of a file that was looked for, as in the working directory, and not named.

    :raises UsageError: also as ``check_found``: it would say where to send a password.
    """
    check_found(path)
    return read_text(path)


def check_found(path: str | os.PathLike[str]) -> None:
    """:raises UsageError: another user has placed this file in a folder for everybody."""
    with suppress(OSError):  # reading it will say so
        is_shared = _is_for_everybody(os.stat(os.path.dirname(path) or "."))
        if is_shared and _is_of_others(os.lstat(path)):
            raise UsageError(f"{_named(os.fspath(path), '')}: {_PLACED}: work in another folder")


def why_placed(found: os.stat_result, folder: os.stat_result) -> str:
    """Why what is in a folder must not be taken for a file of ours, as an output or a mark: another
    user may have placed it there; "": it may be.

    A link of theirs could lead to a file of ours anywhere, and in a folder for everybody they have
    no reason to keep a file or FIFO for us. Where others may create files, one of ours with several
    names may be a hard link of theirs to it. Linux has these rules, too (``fs.protected_symlinks``,
    ``_fifos``, ``_regular`` and ``_hardlinks``), but not on every host, nor for each way to open a
    file.
    """
    if _is_of_others(found) and (stat.S_ISLNK(found.st_mode) or _is_shared(folder)):
        return _PLACED
    others_create = folder.st_mode & _OTHERS_WRITE or _is_of_others(folder)
    is_linked = stat.S_ISREG(found.st_mode) and found.st_nlink > 1
    return _LINKED if is_linked and others_create else ""


def _is_of_others(facts: os.stat_result) -> bool:
    return facts.st_uid not in (os.geteuid(), 0)


def _is_shared(folder: os.stat_result) -> bool:
    return bool(folder.st_mode & stat.S_ISVTX and folder.st_mode & _OTHERS_WRITE)


def _is_for_everybody(folder: os.stat_result) -> bool:
    """Also one in which everybody may delete and replace what is of others."""
    return bool(folder.st_mode & stat.S_IWOTH) or _is_shared(folder)


class Place:
    """Where a file is, or will be: its folder, which stays open, and its name there. Close it.

    Neither the folder nor a part of the way to it can be replaced meanwhile, and no link on that
    way is followed that another user has placed where everybody may create files.

    :raises OSError: there is no such folder, or such a link is on the way to it.
    """

    def __init__(self, path: str) -> None:
        above, name = os.path.split(path)
        self._name = name or "."
        self.folder = _open_folder(above or ".")

    def open(self, flags: int, mode: int = 0o600) -> int:
        """As ``os.open``; a link is not followed."""
        flags |= os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(self._name, flags, mode, dir_fd=self.folder)

    def why_placed(self, found: os.stat_result) -> str:
        """As the function, of what is there."""
        return why_placed(found, os.fstat(self.folder))

    def remove(self, descriptor: int) -> None:
        """Remove the file if it is still the one that is open here."""
        with suppress(OSError):  # already gone, or stays: both are harmless
            there = os.stat(self._name, dir_fd=self.folder, follow_symlinks=False)
            if os.path.samestat(there, os.fstat(descriptor)):
                os.unlink(self._name, dir_fd=self.folder)

    def close(self) -> None:
        if self.folder >= 0:
            os.close(self.folder)
        self.folder = -1


def open_found(found: int, flags: int) -> int:
    """Open what a descriptor (O_PATH) is of: its name may be another file's by now."""
    return os.open(f"/proc/self/fd/{found}", flags | os.O_CLOEXEC)


def _open_folder(path: str) -> int:
    found = os.open(".", _FOLDER)
    parts, links = _parts(path), 0
    try:
        while parts:
            part = parts.pop() or "."
            try:
                inner = os.open(part, _FOLDER, dir_fd=found)
            except NotADirectoryError:
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
                parts += _parts(_target(part, found))
            else:
                os.close(found)
                found = inner
    except BaseException:
        os.close(found)
        raise
    return found


def _parts(path: str) -> list[str]:
    """Of a path, the last one first."""
    first, *rest = path.split("/")
    return [*reversed(rest), first or "/"]


def _target(name: str, folder: int) -> str:
    """Where a link leads.

    :raises OSError: it is none, or another user has placed it in a folder for everybody.
    """
    link = os.open(name, _ANYTHING, dir_fd=folder)
    try:
        facts = os.fstat(link)
        if not stat.S_ISLNK(facts.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if _is_of_others(facts) and _is_for_everybody(os.fstat(folder)):
            raise PermissionError(errno.EACCES, f"another user has placed the link {name} there")
        return os.readlink("", dir_fd=link)
    finally:
        os.close(link)


class OutputFile:
    """A file that the user names, open for writing; close it.

    Where others may create files (/tmp), another user could place a link there, to a file of ours,
    a FIFO, which would make us wait, or a file to change it later: see ``why_placed``.

    :param flags: of ``os.open``, beside those of writing and creating.
    :param mode: of a new file, less the umask.
    :raises OSError: it can't be opened, or another user has placed it there.
    """

    def __init__(self, path: str, flags: int = 0, mode: int = 0o666) -> None:
        flags |= os.O_WRONLY | os.O_CLOEXEC
        self.descriptor = -1
        self._place: Place | None = None
        self._is_new = False
        for _ in range(_MOST_LINKS):
            if _is_descriptor(path) or path in ("/dev/stdout", "/dev/stderr"):
                self.descriptor = os.open(path, flags)
                return
            self._place = Place(path)
            try:
                target = self._open(self._place, flags, mode)
            except BaseException:
                self.close()
                raise
            if target is None:
                return
            self.close()
            path = os.path.join(os.path.dirname(path), target)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))

    def _open(self, place: Place, flags: int, mode: int) -> str | None:
        """None, or where the link leads that is there in place of a file."""
        with suppress(FileExistsError):
            self.descriptor = place.open(flags | os.O_CREAT | os.O_EXCL, mode)
            self._is_new = True
            return None
        found = place.open(os.O_PATH)
        try:
            facts = os.fstat(found)
            if why := place.why_placed(facts):
                raise PermissionError(errno.EACCES, why)
            if stat.S_ISLNK(facts.st_mode):
                return os.readlink("", dir_fd=found)
            self.descriptor = open_found(found, flags)
        finally:
            os.close(found)
        return None

    def discard(self) -> None:
        """Delete the file if it was new, and is still the one that was made."""
        if self._is_new and self._place:
            self._place.remove(self.descriptor)

    def close(self) -> None:
        if self._place:
            self._place.close()
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor = -1


def _is_descriptor(path: str) -> bool:
    folder = os.path.dirname(path)
    is_of_process = folder.startswith("/proc/") and folder.endswith("/fd")
    return path == "/dev/stdin" or folder == "/dev/fd" or is_of_process


def _named(path: str, option: str) -> str:
    return f"{option} {printable(path)}".lstrip()


def private_folder(parent: Path, instead: str) -> Path:
    """``ssbench-results`` in the parent, or one with our uid: ours, and closed to all others.

    :param instead: what the user can do if neither is available.
    :raises StatFileError: neither is.
    """
    shared = parent / "ssbench-results"
    own = parent / f"ssbench-results-{os.geteuid()}"
    if _fault(shared) is None:
        return shared
    fault = _fault(own)
    if fault is not None:
        raise StatFileError(f"{own}: {fault}; {instead}")
    return own


def _fault(folder: Path) -> str | None:
    """Make the folder, or check it; what is wrong with it, None for nothing."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        pass
    except OSError as error:
        return f"can't be made: {error.strerror}"
    try:
        found = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        return f"is no folder that can be trusted: {error.strerror}"
    try:
        facts = os.fstat(found)
        if facts.st_uid != os.geteuid():
            return "belongs to another user"
        if stat.S_IMODE(facts.st_mode) != 0o700:  # 0.3.9 left it open to all
            os.fchmod(found, 0o700)
    except OSError as error:
        return f"can't be made private: {error.strerror}"
    finally:
        os.close(found)
    return None


def numbered_log(stem: str, first: int) -> tuple[int, str, int]:
    """``STEM-0.log``, emptied, or the first number from ``first`` on that is not in use.

    The file stays in use while its descriptor, or a copy in another process, is open.

    :returns: descriptor, path, number.
    :raises StatFileError: the folder or the file can't be made.
    """
    folder = _folder()
    for number in range(first, first + _MOST_NUMBERS):
        path = str(folder / f"{stem}-{number}.log")
        fd = _take(path)
        if fd is not None:
            return fd, path, number
    raise StatFileError(f"{folder}: all files {stem}-{first}.log and on are in use")


def new_file(prefix: str, suffix: str) -> tuple[int, str]:
    """A new file that only its owner can read, in a folder closed to others: descriptor, path.

    :raises StatFileError: the folder or the file can't be made.
    """
    from tempfile import mkstemp  # loads random, which no help needs

    folder = _folder()
    try:
        return mkstemp(prefix=prefix, suffix=suffix, dir=folder)
    except OSError as error:
        raise StatFileError(f"{folder}: can't be written: {error.strerror}") from error


def _folder() -> Path:
    from tempfile import gettempdir  # as above

    return private_folder(Path(gettempdir()), "set TMPDIR to a folder of your own")


def _take(path: str) -> int | None:
    """The file's descriptor, locked; None if another process or user has it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_APPEND | os.O_CLOEXEC
    try:
        fd = os.open(path, flags, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.EACCES):
            return None  # a link, a folder, a pipe, another user's
        raise StatFileError(f"{path}: can't be written: {error.strerror}") from error
    if lock(fd) and _is_there(fd, path):
        os.fchmod(fd, 0o600)
        os.ftruncate(fd, 0)
        return fd
    os.close(fd)
    return None


def lock(fd: int) -> bool:
    """Lock an open file for this process. False if another one holds it; True also on file systems
    without locks."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some network file systems
        return True
    return True


def _is_there(fd: int, path: str) -> bool:
    """Whether the path is still this regular file: its last holder may have deleted it."""
    facts = os.fstat(fd)
    try:
        return stat.S_ISREG(facts.st_mode) and os.path.samestat(facts, os.stat(path))
    except FileNotFoundError:
        return False
