"""Core and priority of each process.

Other processes of a busy machine would distort the figures. As root, server and client get a
real-time priority.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple


class Place(NamedTuple):
    """Index of a usable core, and a real-time priority."""

    core: int
    priority: int


SERVER = Place(-1, 30)
CLIENT = Place(0, 20)
MASTER_PLACE = Place(0, 10)  #: what it does can wait for the client, on a core that they share


def is_ranked() -> bool:
    """Whether this process may have a real-time priority."""
    with placed(CLIENT):
        return os.sched_getscheduler(0) == os.SCHED_RR


@contextmanager
def placed(place: Place) -> Iterator[None]:
    """Give processes started in the block this core and, where permitted, priority."""
    allowed = os.sched_getaffinity(0)
    policy, parameter = os.sched_getscheduler(0), os.sched_getparam(0)
    os.sched_setaffinity(0, {sorted(allowed)[place.core]})
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(place.priority))
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
        os.sched_setscheduler(0, policy, parameter)
