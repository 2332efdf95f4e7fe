"""Where stat files are put when the user doesn't say, and logs and profiles, safe against other
users' links.
"""

from __future__ import annotations

import os
import re
import stat
from datetime import datetime
from pathlib import Path

from ssbench.core.errors import StatFileError

_NAME_LIMIT = 120  #: characters of the scenario's name; file names end at 255 bytes


def default_path(
    scenario_name: str,
    users: int,
    operations: int | None,
    run_seconds: float | None,
    now: datetime,
    *,
    parent: Path = Path("/tmp"),  # nosec B108 # a private folder is made there
) -> Path:
    """A path for a new stat file: ``<parent>/ssbench-results/NAME.u4.o613.r-.DATE.stat.gz``.

    Nothing is there yet. The folder is made where it is missing; it is ours and nobody else
    can look into it. Where ``ssbench-results`` is another user's, it is
    ``ssbench-results-<our uid>``.

    :raises StatFileError: where neither folder can be had.
    """
    folder = private_folder(parent, "name a stat file with -s")
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
    return path


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
