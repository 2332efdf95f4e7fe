"""Files of a command's own beside its results: logs of local workers, profiles."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import tempfile
from pathlib import Path

from ssbench.core.errors import StatFileError
from ssbench.host.private_files import private_folder

_MOST_NUMBERS = 10_000


def numbered_file(stem: str, suffix: str, first: int) -> tuple[int, str, int]:
    """``STEM-0.log``, emptied, or the first number from ``first`` on that no one else uses.

    It is ours as long as its descriptor, or a copy of it in another process, is open: a second
    command takes other numbers meanwhile, and a later one takes these again.

    :returns: descriptor, path, number.
    :raises StatFileError: where there can't be such a folder or file.
    """
    folder = _folder()
    for number in range(first, first + _MOST_NUMBERS):
        path = str(folder / f"{stem}-{number}{suffix}")
        fd = _take(path)
        if fd is not None:
            return fd, path, number
    raise StatFileError(f"{folder}: all files {stem}-{first}{suffix} and on are in use")


def new_file(prefix: str, suffix: str) -> tuple[int, str]:
    """A new file that only its owner can read, in a folder closed to others: descriptor, path.

    :raises StatFileError: where there can't be such a folder.
    """
    return tempfile.mkstemp(prefix=prefix, suffix=suffix, dir=_folder())


def _folder() -> Path:
    return private_folder(Path(tempfile.gettempdir()), "set TMPDIR to a folder of your own")


def _take(path: str) -> int | None:
    """The file's descriptor, locked; None where it isn't to be had."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_APPEND | os.O_CLOEXEC
    try:
        fd = os.open(path, flags, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.EACCES):
            return None  # a link, a folder, a pipe, another user's
        raise StatFileError(f"{path}: can't be written: {error.strerror}") from error
    if _lock(fd) and _is_there(fd, path):
        os.fchmod(fd, 0o600)
        os.ftruncate(fd, 0)
        return fd
    os.close(fd)
    return None


def _lock(fd: int) -> bool:
    """False where another process holds the file; True also where there are no locks."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some network file systems
        return True
    return True


def _is_there(fd: int, path: str) -> bool:
    """Whether the path is still this regular file: who held it may have deleted it since."""
    facts = os.fstat(fd)
    try:
        return stat.S_ISREG(facts.st_mode) and os.path.samestat(facts, os.stat(path))
    except FileNotFoundError:
        return False
