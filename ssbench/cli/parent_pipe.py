"""What a master tells the workers that it starts, over a pipe: where it is, and the key, in a line.

    127.0.0.1 13579 13580 13581 ssbench-key-1 ...

The key is missing where the traffic isn't encrypted.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from ssbench.core.errors import UsageError
from ssbench.transport.key import CurveKey
from ssbench.transport.master_transport import MasterTransport
from ssbench.transport.ports import Ports

_SOURCE = "the parent's pipe"
#: Where one finds a master on the same host that listens to all interfaces.
_EVERYWHERE = "0.0.0.0"  # nosec B104 # nothing is bound here
_LOOPBACK_OF = {_EVERYWHERE: "127.0.0.1", "::": "::1"}


class MasterAddress(NamedTuple):
    """Where a master is, and what opens its doors."""

    host: str
    ports: Ports
    key: CurveKey | None


def address_line(transport: MasterTransport, key: CurveKey | None) -> str:
    """The line for workers on the transport's own host."""
    ports = transport.ports
    host = _LOOPBACK_OF.get(transport.ip, transport.ip)
    key_text = key.to_text() if key else "\n"
    return f"{host} {ports.work} {ports.results} {ports.control} {key_text}"


def read_address(fd: int) -> MasterAddress | None:
    """Wait for the line; None where the pipe was closed without one.

    :raises UsageError: where it is none; the message doesn't repeat what may be a key.
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
