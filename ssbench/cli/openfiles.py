"""How many files, connections and users this process and its host allow.

Read without psutil, which takes longer to load than workers may wait to be started.
"""

from __future__ import annotations

import re
import resource
from contextlib import suppress
from pathlib import Path

from ssbench.core.capacity import HostLimits

_PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_MEMORY = Path("/proc/meminfo")


def allow_many_connections() -> None:
    """Open files up to the hard limit: a worker's users each keep a connection to the store,
    and the master has four to each worker, and a pipe to each that is its own.

    The soft limit is 1,024 on most systems, for programs that use select(); ours don't.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # systems that refuse their own "unlimited"
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def host_limits(port_range: Path = _PORT_RANGE, memory: Path = _MEMORY) -> HostLimits:
    """What this host, and this process's soft limit of open files, allow at the moment."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return HostLimits(
        descriptors=None if soft == resource.RLIM_INFINITY else soft,
        ports=_local_ports(port_range),
        memory_bytes=_available_memory(memory),
    )


def _local_ports(port_range: Path) -> int | None:
    """How many Linux takes for outgoing connections; None where nobody tells."""
    try:
        first, last = map(int, port_range.read_text().split())
    except (OSError, ValueError):
        return None
    return max(last - first + 1, 0)


def _available_memory(memory: Path) -> int | None:
    """Bytes that can be had without swapping; None where nobody tells."""
    try:
        found = re.search(r"^MemAvailable: +([0-9]+) kB$", memory.read_text(), re.MULTILINE)
    except OSError:
        return None
    return None if found is None else int(found[1]) * 1024
