"""Metrics of a host and of a worker or master on it: their names, which carry their units.

A HostRecord has those of one second; a metric that the host does not provide is missing. Metrics of
the host include other processes.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from math import inf, isnan, nan
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from ssbench.core.records import HostRecord

#: Name -> meaning. The columns of --host-stats, in this order, followed by one for each core.
FIGURES: Mapping[str, str] = {
    "interval_s": "length of the time that the other figures are of",
    "cpu_percent": "all cores, in per cent of all",
    "cpu_busiest_core_percent": "the busiest core",
    "process_cpu_percent": "our process, in per cent of one core",
    "loop_cpu_percent": "the thread of its event loop, in per cent of one core",
    "loop_waiting_percent": "time that this thread could have run, but got no core (Linux)",
    "loop_lag_max_s": "how late the event loop got to a timer, at most",
    "loop_lag_mean_s": "the same on average",
    "process_rss_bytes": "memory of our process",
    "memory_total_bytes": "memory of the machine",
    "memory_used_bytes": "memory in use",
    "memory_available_bytes": "memory that can be had without swapping",
    "network_received_bytes_per_s": "all interfaces but loopback",
    "network_sent_bytes_per_s": "all interfaces but loopback",
    "network_busiest_percent": "the fuller direction of the fullest interface, of its speed",
    "loopback_bytes_per_s": "what went over the loopback interface",
    "disk_read_bytes_per_s": "all disks",
    "disk_written_bytes_per_s": "all disks",
    "context_switches_per_s": "all cores",
    "interrupts_per_s": "all cores",
    "tcp_retransmits_per_s": "TCP segments that were sent again",
    "cpu_user_percent": "of all cores: user mode, also of low priority, and guests",
    "cpu_system_percent": "of all cores: the kernel",
    "cpu_idle_percent": "of all cores: idle",
    "cpu_iowait_percent": "of all cores: idle, with a disk request outstanding (Linux)",
    "cpu_hardirq_percent": "of all cores: interrupts (Linux)",
    "cpu_softirq_percent": "of all cores: soft interrupts (Linux)",
    "cpu_steal_percent": "of all cores: taken by the hypervisor (Linux)",
    "memory_buffers_bytes": "metadata of file systems in memory (Linux)",
    "memory_cached_bytes": "files in memory (Linux)",
    "memory_free_bytes": "memory that nothing uses",
    "swap_in_bytes_per_s": "memory read back from swap",
    "swap_out_bytes_per_s": "memory written to swap",
    "store_cpu_percent": "the temporary store that ssbench runs, in per cent of one core",
}
#: dstat's name of a column -> figure, in the order of its options -cmdngy.
DSTAT: Mapping[str, str] = {
    "usr": "cpu_user_percent", "sys": "cpu_system_percent", "idl": "cpu_idle_percent",
    "wai": "cpu_iowait_percent", "hiq": "cpu_hardirq_percent", "siq": "cpu_softirq_percent",
    "stl": "cpu_steal_percent",
    "used": "memory_used_bytes", "buff": "memory_buffers_bytes", "cach": "memory_cached_bytes",
    "free": "memory_free_bytes",
    "read": "disk_read_bytes_per_s", "writ": "disk_written_bytes_per_s",
    "recv": "network_received_bytes_per_s", "send": "network_sent_bytes_per_s",
    "in": "swap_in_bytes_per_s", "out": "swap_out_bytes_per_s",
    "int": "interrupts_per_s", "csw": "context_switches_per_s",
}  # fmt: skip


def core_name(index: int) -> str:
    """The name of one core's figure: ``core_0_percent``."""
    return f"core_{index}_percent"


#: Figures with an upper bound of 100: shares of all cores, of one core, of an interface's speed.
_PER_CENT = frozenset(
    {
        "cpu_percent", "cpu_busiest_core_percent", "loop_cpu_percent", "loop_waiting_percent",
        "network_busiest_percent", "cpu_user_percent", "cpu_system_percent", "cpu_idle_percent",
        "cpu_iowait_percent", "cpu_hardirq_percent", "cpu_softirq_percent", "cpu_steal_percent",
    }
)  # fmt: skip
_OF_MEMORY = (
    "memory_used_bytes", "memory_available_bytes", "memory_buffers_bytes", "memory_cached_bytes",
    "memory_free_bytes",
)  # fmt: skip


def bounded(figures: Mapping[str, float]) -> dict[str, float]:
    """The same figures within their bounds: two clocks that are read one after the other give
    100.00000000000001 % of a core, or -0.1 s."""
    cores = core_count(figures)
    highest: dict[str, float] = dict.fromkeys(_PER_CENT, 100.0)
    highest.update((core_name(index), 100.0) for index in range(cores))
    if cores:
        highest["process_cpu_percent"] = highest["store_cpu_percent"] = 100.0 * cores
    if "memory_total_bytes" in figures:
        highest.update(dict.fromkeys(_OF_MEMORY, max(figures["memory_total_bytes"], 0.0)))
    return {name: min(max(value, 0.0), highest.get(name, inf)) for name, value in figures.items()}


def core_count(figures: Mapping[str, float]) -> int:
    """Number of cores that have figures; 0: unknown."""
    count = 0
    while core_name(count) in figures:
        count += 1
    return count


#: What is said of each host of a run, kept for each second.
OF_HOST = (
    "cpu_percent", "memory_used_percent", "disk_read_bytes_per_s", "disk_written_bytes_per_s",
    "network_received_bytes_per_s", "network_sent_bytes_per_s",
)  # fmt: skip
_SAME_SECOND_S = 0.1  #: by which intervals of one host may overlap
#: What verdicts need, kept for each second of a process.
KEPT = (
    "cpu_percent", "cpu_busiest_core_percent", "process_cpu_percent", "loop_cpu_percent",
    "loop_waiting_percent", "loop_lag_max_s", "loop_lag_mean_s", "memory_available_percent",
    "network_busiest_percent", "cores", "store_cpu_percent",
)  # fmt: skip

Spans = Sequence[tuple[float, float]]  #: parts of a run, from one second to another


class HostSeries:
    """The seconds of one process, or of one host, in the run phase: 48 or 32 bytes each."""

    def __init__(self, names: Sequence[str] = KEPT) -> None:
        self.host = self.boot_id = ""  #: those of its records
        self._middles_s = array("d")
        self._columns = {name: array("f") for name in names}

    def __repr__(self) -> str:
        return f"<HostSeries {self.host} {len(self)} seconds>"

    def __len__(self) -> int:
        return len(self._middles_s)

    def add(self, record: HostRecord) -> None:
        """Keep one second."""
        self.host, self.boot_id = record.host or self.host, record.boot_id or self.boot_id
        figures = bounded(record.figures)
        figures["cores"] = core_count(figures) or nan
        total = figures.get("memory_total_bytes", 0)
        for name in ("available", "used"):
            if total and f"memory_{name}_bytes" in figures:
                figures[f"memory_{name}_percent"] = 100 * figures[f"memory_{name}_bytes"] / total
        self._middles_s.append(record.at_s - figures.get("interval_s", 1.0) / 2)
        for name, column in self._columns.items():
            column.append(figures.get(name, nan))

    def values(self, name: str, spans_s: Spans) -> list[float]:
        """One figure of the seconds with their middle in one of the spans; unknown ones are left
        out."""
        return [value for (value,) in self.rows([name], spans_s) if not isnan(value)]

    def points(self, name: str) -> Iterator[tuple[float, float]]:
        """One figure of all seconds, with the middle of each in seconds from the run's start."""
        return zip(self._middles_s, self._columns[name], strict=True)

    def rows(self, names: Sequence[str], spans_s: Spans) -> Iterator[tuple[float, ...]]:
        """Several figures of each of these seconds; NaN where one is missing."""
        import numpy as np  # only here: master and workers load this module before a run

        columns = [self._columns[name] for name in names]
        middles_s = np.array(self._middles_s)
        within = np.zeros(len(middles_s), bool)
        for low_s, high_s in spans_s:
            within |= (low_s <= middles_s) & (middles_s < high_s)
        yield from compress(zip(*columns, strict=True), within.tolist())


HostKey = tuple[str, str]  #: a host's name, and the boot id of its kernel


class HostSeconds:
    """Selects one record for each second of a host: all processes on it report the same."""

    def __init__(self) -> None:
        self._ends_s: dict[tuple[HostKey, int], float] = {}

    def is_new(self, record: HostRecord) -> bool:
        """Whether the record's interval begins where the newest selected one of its host ends."""
        key = (record.host, record.boot_id), int(record.phase)
        begin_s = record.at_s - record.figures.get("interval_s", 1.0)
        if begin_s < self._ends_s.get(key, -inf) - _SAME_SECOND_S:
            return False
        self._ends_s[key] = record.at_s
        return True


class MeanMax(Struct, frozen=True):
    """Mean and maximum of a figure over the seconds of a run that count."""

    mean: float
    max: float


class HostUse(Struct, frozen=True):
    """What a host did in the run; figures by the names of ``OF_HOST``, without unknown ones."""

    host: str
    role: str  #: ``master, 2 workers``; ``metrics only``
    figures: Mapping[str, MeanMax]
