"""The files of a folder: their names and sizes, and their MD5."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from hashlib import md5

from msgspec import Struct

from ssbench.core.errors import UsageError
from ssbench.core.text import printable
from ssbench.runner.stop import Stop
from ssbench.storage.filetree import MARKER

_COUNT_EVERY_S = 0.5
_PIECE = 1 << 20  #: bytes of a file that are hashed at a time


class FileList(Struct, frozen=True):
    """The regular files of a folder, with the folders in it, in the order of their names."""

    folder: str
    names: list[str]  #: relative to the folder
    sizes: list[int]  #: bytes
    newest_ns: int  #: the latest time of change of any of them
    skipped_links: int = 0
    skipped_others: int = 0  #: devices, pipes, sockets


def list_files(folder: str, limit: int | None = None) -> FileList:
    """The files of a folder. No symbolic link in it is followed.

    :raises UsageError: the folder or one in it can't be read, a name is not UTF-8, or there is no
        file.
    """
    found: list[tuple[str, int, int]] = []
    links = others = 0
    folders = [""]
    while folders:
        prefix = folders.pop()
        path = os.path.join(folder, prefix.rstrip("/")) if prefix else folder
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    name = f"{prefix}{entry.name}"
                    if entry.is_symlink():
                        links += 1
                    elif entry.is_dir(follow_symlinks=False):
                        folders.append(f"{name}/")
                    elif not entry.is_file(follow_symlinks=False):
                        others += 1
                    elif entry.name != MARKER:
                        status = entry.stat(follow_symlinks=False)
                        found.append((name, status.st_size, status.st_ctime_ns))
        except FileNotFoundError as error:
            if not prefix:
                raise UsageError(f"{printable(folder)}: {error.strerror}") from error
            # A file or folder that is deleted meanwhile is left out.
        except OSError as error:
            raise UsageError(f"{printable(path)}: {error.strerror}") from error
    found.sort()
    found = found[:limit]
    for name, _, _ in found:
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise UsageError(
                f"{printable(os.path.join(folder, name))}: the name is not UTF-8, as names of"
                " objects are; rename it"
            ) from error
    if not found:
        raise UsageError(f"{printable(folder)}: has no files")
    names, sizes, changed_ns = map(list, zip(*found, strict=True))
    return FileList(folder, names, sizes, max(changed_ns), links, others)


def compute_md5(
    paths: Sequence[str], threads: int, count: Callable[[int, int], None], stop: Stop
) -> tuple[bytes, float]:
    """The MD5 of files, 16 bytes each, and the seconds that it took. Zeros for those that can't be
    read: sending them will say why.

    :param count: called with the number that is done, and that of all, at least each half second.
    :raises KeyboardInterrupt: it was stopped.
    """
    began_s = time.monotonic()
    digests: list[bytes] = []
    with ThreadPoolExecutor(threads) as pool:
        for future in [pool.submit(_md5_of, path, stop) for path in paths]:
            while wait([future], timeout=_COUNT_EVERY_S).not_done:
                count(len(digests), len(paths))
            if stop.requested:
                pool.shutdown(cancel_futures=True)
                stop.end()
            digests.append(future.result())
            count(len(digests), len(paths))
    return b"".join(digests), time.monotonic() - began_s


def _md5_of(path: str, stop: Stop) -> bytes:
    digest = md5(usedforsecurity=False)
    try:
        with open(path, "rb", buffering=0, opener=_open) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return bytes(digest.digest_size)
            while (piece := file.read(_PIECE)) and not stop.requested:
                digest.update(piece)
    except OSError:
        return bytes(digest.digest_size)
    return digest.digest()


def _open(path: str, flags: int) -> int:
    """No link is followed, and no pipe waited for."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
