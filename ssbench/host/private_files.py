"""The folder for stat files, logs and profiles, safe against other users' links."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ssbench.core.errors import StatFileError


def private_folder(parent: Path, instead: str) -> Path:
    """``ssbench-results`` in the parent, or one with our uid: ours, and closed to all others.

    :param instead: what the user can do where neither can be had.
    :raises StatFileError: then.
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
