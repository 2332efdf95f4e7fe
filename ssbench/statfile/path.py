"""Names of stat files: the default path of a new one, and the file that a name means."""

from __future__ import annotations

import os
import re
from datetime import datetime
from pathlib import Path

from ssbench.core.errors import StatFileError
from ssbench.host.private_files import private_folder

_NAME_LIMIT = 120  #: characters of the scenario's name; file names have at most 255 bytes
PACKED = ".gz"


def existing_path(path: str) -> str:
    """The file to read if the user names this one: with or without ``.gz``, as it exists.

    The very name comes first; it is also the result if neither exists.
    """
    if path == "-" or os.path.lexists(path):
        return path
    other = path[: -len(PACKED)] if path.lower().endswith(PACKED) else path + PACKED
    return other if os.path.isfile(other) else path


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
    """
    if results_dir is None:
        folder = private_folder(parent, "name a stat file with -s")
    else:
        folder = Path(results_dir).expanduser()
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise StatFileError(
                f"--results-dir {folder}: can't be made: {error.strerror}"
            ) from error
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
