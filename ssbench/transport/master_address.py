"""The line that a process writes to the pipe of workers that it started: where the master is, and
the key.

    127.0.0.1 13579 13580 13581 ssbench-key-1 ...

Without encryption there is no key.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from ssbench.core.errors import UsageError
from ssbench.transport.key import CurveKey
from ssbench.transport.sockets import Ports

if TYPE_CHECKING:
    from ssbench.transport.master_transport import MasterTransport

_SOURCE = "the parent's pipe"
#: Addresses that stand for all interfaces -> one that reaches them from the same host.
_EVERYWHERE = "0.0.0.0"  # nosec B104 # nothing is bound here
_LOOPBACK_OF = {_EVERYWHERE: "127.0.0.1", "::": "::1"}


class MasterAddress(NamedTuple):
    """Host, ports and key of a master."""

    host: str
    ports: Ports
    key: CurveKey | None

    def to_line(self) -> str:
        """The line, with the newline."""
        key = self.key.to_text() if self.key else "\n"
        return " ".join([self.host, *map(str, self.ports), key])


def address_line(transport: MasterTransport, key: CurveKey | None, host: str | None = None) -> str:
    """The line for workers.

    :param host: the master's address as they see it; None: workers on this host.
    """
    host = host or _LOOPBACK_OF.get(transport.ip, transport.ip)
    return MasterAddress(host, transport.ports, key).to_line()


def read_address(fd: int) -> MasterAddress | None:
    """Wait for the line; None if the pipe was closed without one.

    :raises UsageError: the line is malformed; the message does not repeat it, as it may hold a key.
    """
    with os.fdopen(os.dup(fd), encoding="ascii", errors="replace") as pipe:
        line = pipe.readline()
    if not line:
        return None
    words = line.split(maxsplit=4)
    if len(words) < 4 or not all(word.isdecimal() for word in words[1:4]):
        raise UsageError(f"{_SOURCE}: no host and three ports")
    work, results, control = map(int, words[1:4])
    key = CurveKey.from_text(words[4], _SOURCE) if len(words) > 4 else None
    return MasterAddress(words[0], Ports(work, results, control), key)
