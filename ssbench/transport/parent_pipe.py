"""The lines between workers and their parent, the process that started them.

The parent writes one line to their pipe, a JSON object: where the master is, the key, if there is
one, and the files and directories that the run names::

    {"host": "127.0.0.1", "ports": [13579, 13580, 13581], "key": "ssbench-key-1 ...", "paths": []}

A group of workers (``ssbench-worker --processes --parent-pipe``) writes lines to its parent, one
JSON object each::

    ssbench-worker {"release": "1.0.0", "clock": 1763800000.5, "master": "192.0.2.7",
                    "workers": {"bench-01-0": 4711}}
    ssbench-worker {"exit": ["bench-01-0", 4711, "it was killed by SIGKILL", -9]}

The first of these comes once, before any other. What else is in the stream is not ours, such as the
output of a login shell.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from json import dumps
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec
from msgspec import json

from ssbench.core import boundary
from ssbench.core.errors import MessageError, UsageError
from ssbench.core.model import WorkerExit
from ssbench.core.text import printable
from ssbench.transport.key import CurveKey
from ssbench.transport.sockets import Ports

if TYPE_CHECKING:
    from ssbench.transport.master_transport import MasterTransport

_SOURCE = "the parent's pipe"
#: Addresses that stand for all interfaces -> one that reaches them from the same host.
_EVERYWHERE = "0.0.0.0"  # nosec B104 # nothing is bound here
_LOOPBACK_OF = {_EVERYWHERE: "127.0.0.1", "::": "::1"}
_MARK = "ssbench-worker "
_MOST = 4096  #: workers of a group


class MasterAddress(NamedTuple):
    host: str
    ports: Ports
    key: CurveKey | None
    paths: Sequence[str] = ()  #: that the workers may use (storage.registry.Permissions)

    def to_line(self) -> str:
        """The line, with the newline."""
        key = self.key.to_text() if self.key else ""
        return f"{dumps({**self._asdict(), 'key': key})}\n"


def address_line(
    transport: MasterTransport,
    host: str | None = None,
    paths: Sequence[str] = (),
) -> str:
    """The line for workers.

    :param host: the master's address as they see it; None: workers on this host.
    """
    host = host or _LOOPBACK_OF.get(transport.ip, transport.ip)
    return MasterAddress(host, transport.ports, transport.key, paths).to_line()


def read_address(fd: int) -> MasterAddress | None:
    """Wait for the line; None if the pipe was closed without one.

    :raises UsageError: the line is malformed; the message does not repeat it, as it may hold a key.
    """
    with os.fdopen(os.dup(fd), encoding="ascii", errors="replace") as pipe:
        line = pipe.readline()
    if not line:
        return None
    try:
        found = boundary.typed(json.decode, line, _SOURCE, type=_Address)
    except MessageError:
        raise UsageError(f"{_SOURCE}: no address of a master") from None
    key = CurveKey.from_text(found.key, _SOURCE) if found.key else None
    return MasterAddress(found.host, Ports(*found.ports), key, found.paths)


_Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]


class _Address(msgspec.Struct):
    host: str
    ports: tuple[_Port, _Port, _Port]
    key: str
    paths: tuple[str, ...]


class GroupStarted(NamedTuple):
    """The workers were started, and wait for the master's address."""

    release: str  #: of ssbench
    clock_s: float  #: wall clock of that host, seconds since 1970
    master: str  #: IP address that the connection came from, as that host sees it; "": unknown
    workers: Mapping[str, int]  #: name -> process id


def to_line(report: GroupStarted | WorkerExit) -> str:
    """The line, without a newline."""
    if isinstance(report, WorkerExit):
        return _MARK + dumps({"exit": report})
    names = ("release", "clock", "master", "workers")
    return _MARK + dumps(dict(zip(names, report, strict=True)))


def from_line(line: str) -> GroupStarted | WorkerExit | None:
    """The inverse of ``to_line``, with printable texts; None if the line is something else."""
    if not line.startswith(_MARK):
        return None
    try:
        found: _Report = boundary.typed(json.decode, line[len(_MARK) :], _MARK, type=_Report)
    except MessageError:
        return None
    if found.exit:
        name, pid, reason, status = found.exit
        return WorkerExit(printable(name), pid, printable(reason), status)
    workers = {printable(name): pid for name, pid in found.workers.items()}
    started = GroupStarted(printable(found.release), found.clock, printable(found.master), workers)
    return started if workers else None


class _Report(msgspec.Struct):
    release: str = ""
    clock: float = 0.0
    master: str = ""
    workers: Annotated[dict[str, int], msgspec.Meta(max_length=_MOST)] = {}
    exit: tuple[str, int, str, int] | None = None
