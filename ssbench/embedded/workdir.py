"""The directory of an embedded Swift, and removal of those that killed processes left."""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from pathlib import Path

from ssbench.core.errors import SsbenchError

PREFIX = "ssbench-swift-"

#: /var/tmp too: on many systems /tmp is a small tmpfs.
PLACES = ("/tmp", "/var/tmp")  # nosec B108 # mkdtemp makes a private folder there


def make_workdir(parent: str | None = None) -> Path:
    """Make a private directory, named after this process, where most space is free.

    First removes directories of this user's dead processes from the same places.

    :param parent: the place to use; None: $TMPDIR, or else one of PLACES.
    :raises SsbenchError: no place is writable and supports the xattrs that Swift needs.
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
    """Bytes that this user can still write at a place; 0 if unknown."""
    try:
        found = os.statvfs(place)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize


def holds_attributes(directory: Path) -> bool:
    """Whether files here can have user xattrs, in which Swift stores an object's metadata."""
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
    """Remove our directories whose process has ended."""
    for path in sorted(Path(place).glob(f"{PREFIX}*")):
        pid = owner_pid(path.name)
        if pid and is_ours(path) and not is_running(pid):
            shutil.rmtree(path, ignore_errors=True)


def is_ours(path: Path) -> bool:
    # lstat: a symbolic link, perhaps of another user, is not one of our directories.
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def owner_pid(name: str) -> int | None:
    """The process in a directory's name; None if the name isn't one of ours."""
    found = re.match(f"{PREFIX}([0-9]{{1,9}})-", name)
    return int(found[1]) if found else None


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        pass
    return True


def remove(top: str) -> None:
    """Remove the tree, even while an ending server still writes into it."""
    for _ in range(5):
        shutil.rmtree(top, ignore_errors=True)
        if not os.path.lexists(top):
            return
