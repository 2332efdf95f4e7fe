"""Where each process stands: its core, and its rank before all others of the machine.

Other processes of a busy machine would be measured along with ssbench. Who may (root) has the
server and the client come before them; who may not gets the figures of the machine as it is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple


class Place(NamedTuple):
    """A core, counted among those that we may use, and a real-time priority."""

    core: int
    priority: int


SERVER = Place(-1, 30)
CLIENT = Place(0, 20)
MASTER_PLACE = Place(0, 10)  #: what it does can wait for the client, on a core that they share


def is_ranked() -> bool:
    """Whether this process may come before others."""
    with placed(CLIENT):
        return os.sched_getscheduler(0) == os.SCHED_RR


@contextmanager
def placed(place: Place) -> Iterator[None]:
    """What is started within the block stands there, as far as that is allowed."""
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
