"""The file of a run's results: its path, and what may be written or overwritten there."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from contextlib import suppress
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from ssbench.core.errors import StatFileError, UsageError
from ssbench.host.files import lock, private_folder
from ssbench.statfile.blocks import begins_a_block
from ssbench.statfile.reader import StatFileReader

_ELSEWHERE = "name another place with -s"
_HINTS = {
    errno.ENOSPC: f"; free space, or {_ELSEWHERE}",
    errno.EDQUOT: f"; free space, or {_ELSEWHERE}",
    errno.ENOENT: f"; make the folder, or {_ELSEWHERE}",
    **dict.fromkeys((errno.EACCES, errno.EROFS, errno.ENOTDIR, errno.EISDIR), f"; {_ELSEWHERE}"),
}
_LOOK = 1 << 20  #: bytes of an existing file that show whether it is a stat file
_NAME_LIMIT = 120  #: characters of the scenario's name; file names have at most 255 bytes


class ResultFile(NamedTuple):
    """An open file that results can be written to."""

    descriptor: int
    is_new: bool  #: there was no such file before
    readable: bool  #: it can be read again: False for /dev/null or a pipe


def default_path(
    scenario_name: str,
    users: int,
    operations: int | None,
    run_seconds: float | None,
    now: datetime,
    *,
    results_dir: str | None = None,
    parent: Path = Path("/tmp"),  # nosec B108 # a private folder is made there
) -> Path:
    """A path for a new stat file: ``<parent>/ssbench-results/NAME.u4.o613.r-.DATE.stat.gz``.

    No such file exists yet. The folder is made if it is missing; only we can read it. If
    ``ssbench-results`` is another user's, it is ``ssbench-results-<our uid>``.

    :param results_dir: the folder instead; it is made if only it is missing.
    :raises StatFileError: if there can be no folder.
    :raises UsageError: if there can be none at ``results_dir``, or no file in it.
    """
    if results_dir is None:
        folder = private_folder(parent, "name a stat file with -s")
    else:
        try:
            folder = Path(results_dir).expanduser()
        except RuntimeError as error:
            raise UsageError(f"--results-dir {results_dir}: there is no such home") from error
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            cause = "no folder" if isinstance(error, FileExistsError) else error.strerror
            raise UsageError(f"--results-dir {folder}: can't be used: {cause}") from error
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", scenario_name)[:_NAME_LIMIT]
    name = re.sub(r"^\.", "_", name) or "_"
    seconds = "-" if run_seconds is None else f"{run_seconds:g}"
    count = "-" if operations is None else str(operations)
    stem = f"{name}.u{users}.o{count}.r{seconds}.{now:%Y-%m-%d.%H%M%S}"
    path = folder / f"{stem}.stat.gz"
    again = 1
    while os.path.lexists(path):  # a second run of the same second
        again += 1
        path = folder / f"{stem}.{again}.stat.gz"
    if results_dir is not None:
        check_new(str(path), overwrite=False)
    return path


def open_results(path: str, *, overwrite: bool) -> ResultFile:
    """Open a file for results, readable by its owner only. Devices and pipes are written to.

    :param overwrite: also replace an empty file or a stat file of the same user; any other existing
        file is refused.
    :raises UsageError: if there is a file of that name, or a link.
    :raises StatFileError: path and cause, in one line.
    """
    try:
        return ResultFile(_open_new(path), True, True)
    except FileExistsError:
        pass
    except OSError as error:
        raise StatFileError(not_written(path, error)) from error
    mode = _mode_of(path)
    if _is_sink(mode):
        return ResultFile(_open_sink(path), False, False)
    if stat.S_ISREG(mode) and not overwrite:
        raise UsageError(f"{path}: is there already; --force overwrites it")
    return ResultFile(_open_again(path), False, True)


def check_new(path: str, *, overwrite: bool) -> None:
    """Check that ``open_results`` can open a file, and leave everything as it is.

    :raises UsageError: it can't.
    """
    if _is_sink(_mode_of(path)):  # closing a pipe would end its reader
        return
    try:
        opened = open_results(path, overwrite=overwrite)
        if opened.is_new:
            remove(path)
        os.close(opened.descriptor)
    except StatFileError as error:
        raise UsageError(str(error)) from error
    except OSError as error:  # network file systems may report one at the close
        raise UsageError(not_written(path, error)) from error


def remove(path: str) -> None:
    """Remove a file that has nothing in it."""
    with suppress(OSError):  # already gone, or stays: both are harmless
        os.unlink(path)


def is_being_written(path: str | os.PathLike[str]) -> bool:
    """Whether a run is writing to this file, according to its lock."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False  # opening it for reading reports the error
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # some network file systems have no locks
        return False
    finally:
        os.close(file)
    return False


def not_written(path: str, error: OSError, kept: str = "") -> str:
    """Why a file can't be written; ``kept`` says what there is of it."""
    hint = _HINTS.get(error.errno or 0, "")
    return f"{path}: can't be written: {error.strerror}{kept}{hint}"


def _open_new(path: str) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(path, flags, 0o600)
    lock(file)
    return file


def _mode_of(path: str) -> int:
    """What is there.

    :raises UsageError: for a link, whose owner could choose where we write.
    """
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return 0  # gone again; opening it will say so
    if stat.S_ISLNK(mode):
        raise UsageError(f"{path}: is a link, which isn't followed; name the file itself")
    return mode


def _is_sink(mode: int) -> bool:
    """Whether it is a device like /dev/null, or a pipe, with nothing in it to be lost."""
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


def _open_sink(path: str) -> int:
    # NONBLOCK: a pipe without a reader fails at once.
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        file = os.open(path, flags)
    except OSError as error:
        raise StatFileError(not_written(path, error)) from error
    if not _is_sink(os.fstat(file).st_mode):  # replaced since the check
        os.close(file)
        raise StatFileError(f"{path}: isn't overwritten: it is no device any more")
    os.set_blocking(file, True)
    return file


def _open_again(path: str) -> int:
    """Open an existing file, only if it is ours, and empty or a stat file."""
    # NONBLOCK: opening a pipe would wait for its other end.
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        file = os.open(path, flags)
    except OSError as error:
        raise StatFileError(
            f"{path}: can't be overwritten: {error.strerror}; {_ELSEWHERE}"
        ) from error
    try:
        fault = _why_not_replace(file)
        if fault is None:
            os.fchmod(file, 0o600)
    except OSError as error:
        fault = error.strerror or "unknown error"
    if fault is not None:
        os.close(file)
        raise StatFileError(f"{path}: isn't overwritten: {fault}")
    return file


def _why_not_replace(file: int) -> str | None:
    facts = os.fstat(file)
    if not stat.S_ISREG(facts.st_mode):
        return "it is no regular file"
    if facts.st_uid != os.geteuid():
        return "it belongs to another user"
    if not lock(file):
        return "another run is writing to it"
    start = os.pread(file, _LOOK, 0)
    if not start or begins_a_block(start):
        return None
    try:
        StatFileReader(BytesIO(start), "")
    except StatFileError:
        return "it is no stat file"
    return None
