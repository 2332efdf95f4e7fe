"""Where an embedded Swift keeps its files, and what becomes of those that were left behind."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path

from ssbench.core.errors import SsbenchError

PREFIX = "ssbench-swift-"

#: /var/tmp too: on many systems /tmp is a small tmpfs.
PLACES = ("/tmp", "/var/tmp")  # nosec B108 # mkdtemp makes a private folder there


def make_workdir(parent: str | None = None) -> Path:
    """A new private directory, named after this process, on the place with the most room.

    What dead processes of this user left on the same places is removed first.

    :param parent: the place to use; None for $TMPDIR, or else the roomiest of PLACES.
    :raises SsbenchError: where none can be written, or holds the attributes that Swift needs.
    """
    places = candidates(parent)
    for place in places:
        remove_stale(place)
    faults = []
    for place in sorted(places, key=free_bytes, reverse=True):
        try:
            top = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=place))
        except OSError as e:
            faults.append(f"{place}: {e.strerror}")
            continue
        if holds_attributes(top):
            return top
        shutil.rmtree(top, ignore_errors=True)
        faults.append(f"{place}: this file system has no user attributes (xattr)")
    raise SsbenchError(
        f"no directory for the embedded Swift ({'; '.join(faults)}); "
        "set TMPDIR to one on ext4, xfs or btrfs"
    )


def candidates(parent: str | None) -> list[str]:
    chosen = parent or os.environ.get("TMPDIR")
    return [chosen] if chosen else [place for place in PLACES if os.path.isdir(place)]


def free_bytes(place: str) -> int:
    """Bytes that this user may still write at a place; 0 where it can't be asked."""
    try:
        found = os.statvfs(place)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize


def holds_attributes(directory: Path) -> bool:
    """Can files here carry user attributes? Swift keeps an object's metadata in them."""
    probe = directory / "probe"
    try:
        probe.touch()
        os.setxattr(probe, "user.swift.metadata", b"x")
    except OSError:
        return False
    finally:
        probe.unlink(missing_ok=True)
    return True


def remove_stale(place: str) -> None:
    """Remove our own directories at a place whose process is gone."""
    for path in sorted(Path(place).glob(f"{PREFIX}*")):
        if is_ours(path) and not is_running(owner_pid(path.name)):
            shutil.rmtree(path, ignore_errors=True)


def is_ours(path: Path) -> bool:
    # lstat: a link that another user put there is none of our directories.
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def owner_pid(name: str) -> int | None:
    """The process that a directory is named after; None where the name isn't one of ours."""
    digits = name.removeprefix(PREFIX).partition("-")[0]
    return int(digits) if digits.isascii() and digits.isdigit() else None


def is_running(pid: int | None) -> bool:
    """Whether the process exists; True for None, so that what we don't know is left alone."""
    if pid is None:
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def remove(top: str, tries: Iterable[int] = range(5)) -> None:
    """Remove the tree, though a dying server may still be adding to it."""
    for _ in tries:
        shutil.rmtree(top, ignore_errors=True)
        if not os.path.lexists(top):
            return
