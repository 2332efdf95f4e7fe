"""Who stands on which core: the client on the first, what serves and what looks on on the second.

Master and worker of a run are the client together, so that a reference has no less than they.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_ALLOWED = sorted(os.sched_getaffinity(0))
CLIENT, TARGET = _ALLOWED[0], _ALLOWED[-1]


@contextmanager
def standing(*cores: int) -> Iterator[None]:
    """What is started within the block, by this thread, runs on these cores only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def enough() -> bool:
    """Whether there are two."""
    return CLIENT != TARGET
