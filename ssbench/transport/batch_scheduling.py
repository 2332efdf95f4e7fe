"""Threads that give way to others where all cores are busy. Linux knows of such; elsewhere none do.

ZeroMQ's own thread is woken for nearly every message. Taking the core of the very thread that is
sending some, or working off others, it would carry one at a time. As a batch thread it waits until
that one pauses, or another core is free, and finds several: a third less processor time for no-op
operations on two busy cores (docs/performance.md).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

HAS_BATCH = hasattr(os, "SCHED_BATCH")


@contextmanager
def batch_scheduling() -> Iterator[None]:
    """Threads that begin within give way all their life; this one does, within.

    A thread has the policy of the one that began it. libzmq has an option for the same, and aborts
    the process where the system doesn't allow it.
    """
    # Whoever runs us under another policy has reasons.
    if not HAS_BATCH or os.sched_getscheduler(0) != os.SCHED_OTHER:
        yield
        return
    with suppress(OSError):  # not allowed here: it is only slower
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    try:
        yield
    finally:
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
