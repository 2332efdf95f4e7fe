"""How many files, and connections, this process may have open."""

from __future__ import annotations

import resource
from contextlib import suppress


def allow_many_connections() -> None:
    """Open files up to the hard limit: a worker's users each keep a connection to the store,
    and the master has four to each worker, and a pipe to each that is its own.

    The soft limit is 1,024 on most systems, for programs that use select(); ours don't.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # systems that refuse their own "unlimited"
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
