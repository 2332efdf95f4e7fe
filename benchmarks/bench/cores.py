"""Cores: the client runs on the first, the target and the benchmark itself on the second.

Master and worker share the client's core, so that a reference has as much as both.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_ALLOWED = sorted(os.sched_getaffinity(0))
CLIENT, TARGET = _ALLOWED[0], _ALLOWED[-1]


@contextmanager
def pinned(*cores: int) -> Iterator[None]:
    """Pin this thread, and processes that it starts in the block, to these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def enough() -> bool:
    """Whether client and target have a core each."""
    return CLIENT != TARGET
