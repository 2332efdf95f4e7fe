"""Descriptors that this process has open."""

from __future__ import annotations

import os
from contextlib import suppress


def open_descriptors() -> set[tuple[int, str]]:
    """Each with what it is of. Between two calls, garbage of earlier tests may close its own, so a
    test compares with ``<=``."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # that of the listing itself
            found.add((int(number), os.readlink(f"/proc/self/fd/{number}")))
    return found
