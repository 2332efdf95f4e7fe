"""Files that the user names: opening one never waits, and reading one takes bounded memory."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader

from ssbench.core.errors import UsageError
from ssbench.core.text import printable

MOST_BYTES = 4 << 20  #: of a file that is read whole: settings, scenarios, keys, certificates
_NO_FILE = "has to be a regular file, and is "
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
    name = _named(os.fspath(path), option)
    with open_file(path, option) as file:
        try:
            data = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise UsageError(f"{name}: can't be read: {error.strerror}") from error
    if len(data) > MOST_BYTES:
        raise UsageError(f"{name}: has more than {MOST_BYTES >> 20} MiB, which no such file needs")
    return data


def read_text(path: str | os.PathLike[str], option: str = "", errors: str = "strict") -> str:
    """The file's text, as ``read_bytes`` reads it.

    :param errors: as of ``bytes.decode``.
    :raises UsageError: also if it is not UTF-8.
    """
    try:
        return read_bytes(path, option).decode(errors=errors)
    except UnicodeDecodeError:  # its text may show a secret
        raise UsageError(f"{_named(os.fspath(path), option)}: is not UTF-8 text") from None


def _is_descriptor(path: str) -> bool:
    return path == "/dev/stdin" or os.path.dirname(path) in ("/dev/fd", "/proc/self/fd")


def _named(path: str, option: str) -> str:
    return f"{option} {printable(path)}".lstrip()
