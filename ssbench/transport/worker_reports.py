"""The lines that a group of workers (``ssbench-worker --processes --parent-pipe``) writes to its
parent, one JSON object each::

    ssbench-worker {"release": "1.0.0", "clock": 1763800000.5, "master": "192.0.2.7",
                    "workers": {"bench-01-0": 4711}}
    ssbench-worker {"exit": ["bench-01-0", 4711, "it was killed by SIGKILL", -9]}

The first line comes once, before any other. What else is in the stream is not ours, such as the
output of a login shell.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from ssbench.core.model import WorkerExit
from ssbench.core.text import printable

_MARK = "ssbench-worker "
_MOST = 4096  #: workers of a group


class GroupStarted(NamedTuple):
    """The workers were started, and wait for the master's address."""

    release: str  #: of ssbench
    clock_s: float  #: wall clock of that host, seconds since 1970
    master: str  #: IP address that the connection came from, as that host sees it; "": unknown
    workers: Mapping[str, int]  #: name -> process id


def to_line(report: GroupStarted | WorkerExit) -> str:
    """The line, without a newline."""
    if isinstance(report, WorkerExit):
        return _MARK + json.dumps({"exit": report})
    names = ("release", "clock", "master", "workers")
    return _MARK + json.dumps(dict(zip(names, report, strict=True)))


def from_line(line: str) -> GroupStarted | WorkerExit | None:
    """The inverse of ``to_line``, with printable texts; None if the line is something else."""
    if not line.startswith(_MARK):
        return None
    try:
        found = json.loads(line[len(_MARK) :])
        if "exit" in found:
            name, pid, reason, status = found["exit"]
            return WorkerExit(printable(name), int(pid), printable(reason), int(status))
        workers = {printable(name): int(pid) for name, pid in found["workers"].items()}
        started = GroupStarted(
            printable(found["release"]), float(found["clock"]), printable(found["master"]), workers
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return started if 0 < len(workers) <= _MOST else None
