"""Limits of this process and its host, and how many users they allow; the garbage collector; the
environment of child processes.

Read without psutil, which takes long to load.
"""

from __future__ import annotations

import gc
import os
import re
import resource
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from msgspec import Struct

import ssbench
from ssbench.core.errors import UsageError
from ssbench.core.text import plural

_PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_MEMORY = Path("/proc/meminfo")
_OWN_CGROUP, _CGROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
#: Prefixes of variables of other tools, and of ours, that may hold credentials; also those that no
#: option of ours reads.
_CREDENTIALS = ("ST_", "OS_", "SSBENCH_", "AWS_")
#: Descriptors of a worker besides its users' connections; 25 were counted.
WORKER_DESCRIPTORS = 28
#: 37 to 46 MB were measured for the process (Python 3.11, x86-64), and 10 kB for each user; the
#: rest is for the kernel's socket buffers.
WORKER_MEMORY_BYTES = 50_000_000
#: Of an idle worker alone: 18 MB were measured that it shares with no other process.
_IDLE_WORKER_MEMORY_BYTES = 15_000_000
USER_MEMORY_BYTES = 40_000


def allow_many_connections() -> None:
    """Raise the limit of open files to the hard limit.

    Each user of a worker keeps a connection to the store; the master has four to each worker, and
    a pipe to each local one. The soft limit is 1,024 on most systems, for programs that use
    select(); ssbench uses poll and epoll.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # some systems reject their own "unlimited"
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def check_source_addresses(addresses: Collection[str]) -> None:
    """:raises UsageError: this host does not have one of the IP addresses."""
    if not addresses:
        return
    import socket  # few runs have such addresses

    for address in addresses:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.bind((address, 0))
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise UsageError(f"--source-address {address}: {reason} on this host") from error


def host_limits(port_range: Path = _PORT_RANGE, memory: Path = _MEMORY) -> HostLimits:
    """The limits of this host, and the soft limit of open files of this process."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return HostLimits(
        descriptors=None if soft == resource.RLIM_INFINITY else soft,
        ports=_local_ports(port_range),
        memory_bytes=_available_memory(memory),
    )


def usable_cores(own: Path = _OWN_CGROUP, root: Path = _CGROUPS) -> int:
    """CPU cores that this process may use, at least 1.

    By its affinity, and by the CPU quotas of its control group (version 2) and those above, such as
    a container's limit or ``CPUQuota=`` of systemd. A quota of 2.5 cores counts as 2.
    """
    cores = len(os.sched_getaffinity(0))
    with suppress(OSError, ValueError):
        found = re.search(r"^0::/(.*)$", own.read_text(), re.MULTILINE)
        group = root / (found[1] if found else "")
        for folder in [group, *group.parents]:
            with suppress(OSError):
                quota, period = (folder / "cpu.max").read_text().split()
                if quota != "max":
                    cores = min(cores, int(quota) // int(period))
            if folder == root:
                break
    return max(cores, 1)


def _local_ports(port_range: Path) -> int | None:
    """Local ports for outgoing connections; None if the system does not say."""
    try:
        first, last = map(int, port_range.read_text().split())
    except (OSError, ValueError):
        return None
    return max(last - first + 1, 0)


def _available_memory(memory: Path) -> int | None:
    """Bytes available without swapping; None if the system does not say."""
    try:
        found = re.search(r"^MemAvailable: +([0-9]+) kB$", memory.read_text(), re.MULTILINE)
    except OSError:
        return None
    return None if found is None else int(found[1]) * 1024


def tune_garbage_collector() -> Callable[[], None]:
    """Avoid collector pauses in hot paths, which allocate much and make no cycles.

    Young objects are collected 70 times less often, old ones hardly ever.

    :returns: restores what was before.
    """
    before = gc.get_threshold()
    gc.set_threshold(50_000, 20, 100)
    return lambda: gc.set_threshold(*before)


def child_environment(hidden: Collection[str]) -> dict[str, str]:
    """Our environment for a child: without credentials, and able to import this very ssbench.

    :param hidden: further variables to leave out: the stores' own.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_CREDENTIALS) and name not in hidden
    }
    home = str(Path(ssbench.__file__).resolve().parent.parent)
    path = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = f"{home}{os.pathsep}{path}" if path else home
    return environment


class HostLimits(Struct, frozen=True):
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
            f"{plural(users, 'user')} in {plural(workers, 'worker')} ({each:,} each) are too many"
            f" for this host: {why}"
        )
    if limits.ports is not None and users > limits.ports * targets:
        why = most_users(HostLimits(ports=limits.ports))[1]
        return f"{plural(users, 'user')} are too many for this host: {why}"
    return ""


def check_memory(limits: HostLimits, workers: int) -> None:
    """:raises UsageError: not even idle workers, so many, fit the host's memory."""
    needed = workers * _IDLE_WORKER_MEMORY_BYTES
    if limits.memory_bytes is not None and needed > limits.memory_bytes:
        raise UsageError(
            f"{plural(workers, 'worker')} take at least {needed / 1e6:,.0f} MB of memory, and"
            f" {limits.memory_bytes / 1e6:,.0f} MB can be had on this host: use fewer"
        )


def memory_warning(limits: HostLimits, users: int, workers: int) -> str:
    """A warning if so many users take more memory than is available; else ""."""
    needed = workers * WORKER_MEMORY_BYTES + users * USER_MEMORY_BYTES
    if limits.memory_bytes is None or needed <= limits.memory_bytes:
        return ""
    return (
        f"{plural(users, 'user')} in {plural(workers, 'worker')} take about {needed / 1e6:,.0f} MB"
        f" of memory, and {limits.memory_bytes / 1e6:,.0f} MB can be had on this host"
    )


def discard(stream: TextIO) -> None:
    """Drop what is buffered for a stream, which would fail again, and spoil the status, at exit."""
    with suppress(OSError, ValueError):  # no descriptor is left, or the stream has none
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
