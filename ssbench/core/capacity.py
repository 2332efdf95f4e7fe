"""How many users a host can run, by file descriptors, local ports and memory.

``host.process.host_limits`` measures the limits. A user keeps one connection to the store.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Descriptors of a worker besides its users' connections; 25 were counted.
WORKER_DESCRIPTORS = 28
#: 37 to 46 MB were measured for the process (Python 3.11, x86-64), and 10 kB for each user; the
#: rest is for the kernel's socket buffers.
WORKER_MEMORY_BYTES = 50_000_000
USER_MEMORY_BYTES = 40_000


@dataclass(frozen=True, slots=True)
class HostLimits:
    """What a host allows; None: unknown or unlimited."""

    descriptors: int | None = None  #: that a process may have open
    ports: int | None = None  #: local ports, for the connections to one address and port
    memory_bytes: int | None = None  #: available without swapping


def most_users(limits: HostLimits, targets: int = 1, workers: int = 1) -> tuple[int | None, str]:
    """The most users that one worker can run, and the reason.

    :param targets: storage URLs: each has all the local ports.
    :param workers: that share the host's local ports evenly.
    :returns: (None, "") if no limit is known; 0 or less: no worker can run.
    """
    bounds = []
    if limits.descriptors is not None:
        users = limits.descriptors - WORKER_DESCRIPTORS
        why = (
            f"a process may open {limits.descriptors:,} files (ulimit -Hn), and a worker needs"
            f" {WORKER_DESCRIPTORS} and one for each user"
        )
        bounds.append((users, why))
    if limits.ports is not None:
        why = (
            f"there are {limits.ports:,} local ports for the connections to a storage URL"
            " (net.ipv4.ip_local_port_range)"
        )
        if workers > 1:
            why += f", which {workers:,} workers share"
        bounds.append((limits.ports * targets // workers, why))
    return min(bounds, default=(None, ""))


def shortage(limits: HostLimits, users: int, workers: int, targets: int = 1) -> str:
    """Why one host can't run so many users in so many workers; "" if it can."""
    each = -(-users // workers)
    most, why = most_users(limits, targets)
    if most is not None and each > most:
        return (
            f"{users:,} users in {_workers(workers)} ({each:,} each) are too many for this host:"
            f" {why}"
        )
    if limits.ports is not None and users > limits.ports * targets:
        why = most_users(HostLimits(ports=limits.ports))[1]
        return f"{users:,} users are too many for this host: {why}"
    return ""


def memory_warning(limits: HostLimits, users: int, workers: int) -> str:
    """A warning if so many users take more memory than is available; else ""."""
    needed = workers * WORKER_MEMORY_BYTES + users * USER_MEMORY_BYTES
    if limits.memory_bytes is None or needed <= limits.memory_bytes:
        return ""
    return (
        f"{users:,} users in {_workers(workers)} take about {needed / 1e6:,.0f} MB of memory, and"
        f" {limits.memory_bytes / 1e6:,.0f} MB can be had on this host"
    )


def _workers(count: int) -> str:
    return "one worker" if count == 1 else f"{count:,} workers"
