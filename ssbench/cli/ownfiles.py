"""Files of a command's own beside its results: logs of local workers, profiles."""

from __future__ import annotations

import tempfile
from pathlib import Path

from ssbench.host.ownfolder import private_folder


def new_file(prefix: str, suffix: str) -> tuple[int, str]:
    """A new file that only its owner can read, in a folder closed to others: descriptor, path.

    :raises StatFileError: where there can't be such a folder.
    """
    folder = private_folder(Path(tempfile.gettempdir()), "set TMPDIR to a folder of your own")
    return tempfile.mkstemp(prefix=prefix, suffix=suffix, dir=folder)
