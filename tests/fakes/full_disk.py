"""A disk without space."""

from __future__ import annotations

import errno
import os
import stat

import pytest


def fill_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on this process can write to no regular file."""
    really = os.write

    def write(file: int, data: bytes) -> int:
        if stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return really(file, data)

    monkeypatch.setattr(os, "write", write)
