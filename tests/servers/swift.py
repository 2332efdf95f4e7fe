"""Options of the Swifts of the tests."""

from __future__ import annotations

import shutil
from functools import cache
from typing import Any

from ssbench.core.errors import SsbenchError
from ssbench.embedded import SwiftOptions
from ssbench.embedded.plan import make_workdir

MEMORY = "/dev/shm"


def swift_options(**options: Any) -> SwiftOptions:
    """Those given; files are in memory where possible, because each change of a disk is awaited.

    The tests of ``ssbench.embedded`` use its own choice of a directory.
    """
    return SwiftOptions(**{"directory": directory_in_memory(), **options})


@cache
def directory_in_memory() -> str | None:
    """None where the kernel's memory file system has no xattrs (before Linux 6.6)."""
    try:
        shutil.rmtree(make_workdir(MEMORY))
    except SsbenchError:
        return None
    return MEMORY
