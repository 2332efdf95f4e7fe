"""This host: facts for the header of a stat file, and metrics since the sample before, by psutil.

psutil may block while disks or network file systems hang, so it never runs on an event loop; and it
loads slowly, so a worker imports this module only in the thread that samples.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from ssbench import __version__
from ssbench.core.model import SECOND_NS
from ssbench.core.stats.host_metrics import bounded, core_name
from ssbench.host.process import usable_cores

#: Packages that influence results.
_PACKAGES = ("gevent", "greenlet", "zmq", "msgpack", "swiftclient", "keystoneauth1", "psutil")
#: What sampling may raise, for example in a sandbox without /proc.
FAULTS = (psutil.Error, OSError, RuntimeError, NotImplementedError)
_LOOPBACK = ("lo", "lo0")
_SNMP = Path("/proc/net/snmp")
_BITS_OF_MB = 1e6 / 8
#: psutil's names of what a core does, and of what was swapped -> figure.
_MODES = {
    "user": "cpu_user_percent", "system": "cpu_system_percent", "idle": "cpu_idle_percent",
    "iowait": "cpu_iowait_percent", "irq": "cpu_hardirq_percent",
    "softirq": "cpu_softirq_percent", "steal": "cpu_steal_percent",
}  # fmt: skip
_SWAP = {"sin": "swap_in_bytes_per_s", "sout": "swap_out_bytes_per_s"}


def facts() -> dict[str, Any]:
    """What influences the results of this host, without what is unknown, and without secrets.

    Keys: hostname, system, kernel, machine, cpu_model, cpu_count, cpus_usable, memory_bytes,
    load_average (of 1, 5 and 15 minutes), python.
    """
    found = {
        "hostname": platform.node(),
        "system": platform.system(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu_model": cpu_model(),
        "cpu_count": os.cpu_count(),
        "cpus_usable": usable_cores(),
        "memory_bytes": psutil.virtual_memory().total,
        "load_average": _load_average(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }
    return {key: value for key, value in found.items() if value}


def versions() -> dict[str, str]:
    """Versions of ssbench, Python, and those of the packages that this process has loaded."""
    found = {"ssbench": __version__, "python": platform.python_version()}
    for name in _PACKAGES:  # not by importlib.metadata: a twentieth of the CPU of a short run
        version = getattr(sys.modules.get(name), "__version__", None)
        if isinstance(version, str):
            found[name] = version
    return found


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The model as Linux reports it; on other systems, from the platform module."""
    try:
        text = cpuinfo.read_text(errors="replace")
    except OSError:
        return platform.processor()
    models = [line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line]
    return models[0] if models else platform.processor()


def _load_average() -> list[float] | None:
    try:
        return list(os.getloadavg())
    except OSError:
        return None


class HostSampler:
    """Computes metrics of the time since its previous sample, or since it was created.

    :param loop_thread: ``threading.get_ident()`` of the event loop's thread.
    :param native_id: ``threading.get_native_id()`` of the same.
    :param store_pids: processes of a temporary store that ssbench runs.
    """

    def __init__(
        self,
        loop_thread: int,
        native_id: int,
        store_pids: Sequence[int] = (),
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._clock = clock
        self._store = [psutil.Process(pid) for pid in store_pids if psutil.pid_exists(pid)]
        self._process = psutil.Process()
        self._loop_clock = time.pthread_getcpuclockid(loop_thread)
        self._loop_schedule = Path(f"/proc/self/task/{native_id}/schedstat")
        self._speeds = _interface_speeds()
        self._before_ns = clock()
        self._before = self._counters()

    def sample(self) -> dict[str, float]:
        """Metrics by the names of core.stats.host_metrics; unavailable ones are missing."""
        now_ns, now = self._clock(), self._counters()
        seconds = max(now_ns - self._before_ns, 1) / SECOND_NS
        before, self._before = self._before, now
        self._before_ns = now_ns
        figures = {"interval_s": seconds}
        figures.update(_cpu(before.pop("cores"), now["cores"]))
        swapped = before.pop("swap")
        for name in ("sin", "sout"):
            moved = max(getattr(now["swap"], name) - getattr(swapped, name), 0)
            figures[_SWAP[name]] = moved / seconds
        figures.update(network_figures(before.pop("nics"), now["nics"], self._speeds, seconds))
        for name, value in before.items():
            if value is not None and now[name] is not None:
                factor = 100 if name.endswith("_percent") else 1
                figures[name] = max(now[name] - value, 0) * factor / seconds
        figures.update(self._memory())
        return bounded(figures)

    def _counters(self) -> dict[str, Any]:
        """Counters, which only grow; None: unavailable."""
        stats, disk = psutil.cpu_stats(), disk_counters()
        process = self._process.cpu_times()
        return {
            "cores": psutil.cpu_times(percpu=True),
            "nics": psutil.net_io_counters(pernic=True, nowrap=False),
            "swap": psutil.swap_memory(),
            "process_cpu_percent": process.user + process.system,
            "store_cpu_percent": self._store_seconds(),
            "loop_cpu_percent": time.clock_gettime(self._loop_clock),
            "loop_waiting_percent": waited_seconds(self._loop_schedule),
            "disk_read_bytes_per_s": disk.read_bytes if disk else None,
            "disk_written_bytes_per_s": disk.write_bytes if disk else None,
            "context_switches_per_s": stats.ctx_switches,
            "interrupts_per_s": stats.interrupts,
            "tcp_retransmits_per_s": tcp_retransmits(),
        }

    def _store_seconds(self) -> float | None:
        """CPU time of the processes of a temporary store; None without one, or if one has ended."""
        try:
            times = [process.cpu_times() for process in self._store]
        except psutil.Error:
            return None
        return sum(each.user + each.system for each in times) if times else None

    def _memory(self) -> dict[str, float]:
        memory = psutil.virtual_memory()._asdict()
        parts = ("total", "used", "available", "buffers", "cached", "free")
        found = {f"memory_{part}_bytes": memory[part] for part in parts if part in memory}
        return {"process_rss_bytes": self._process.memory_info().rss, **found}


def disk_counters() -> Any:
    """Counters of all disks; None without disks, or in a form that psutil does not know."""
    try:
        return psutil.disk_io_counters(nowrap=False)
    except (*FAULTS, ValueError):
        return None


def waited_seconds(schedstat: Path) -> float | None:
    """Seconds that a runnable thread waited for a core; None if unknown."""
    try:
        return int(schedstat.read_text().split()[1]) / SECOND_NS
    except (OSError, ValueError, IndexError):
        return None


def tcp_retransmits(snmp: Path = _SNMP) -> int | None:
    """TCP segments retransmitted since the host started; None if unknown."""
    try:
        lines = [line.split() for line in snmp.read_text().splitlines() if line.startswith("Tcp:")]
        return int(dict(zip(*lines, strict=True))["RetransSegs"])
    except (OSError, TypeError, ValueError, KeyError):
        return None


def _interface_speeds() -> dict[str, float]:
    """Speed in bytes/s of the interfaces that report one (virtual ones seldom do)."""
    found = psutil.net_if_stats()
    return {name: nic.speed * _BITS_OF_MB for name, nic in found.items() if 0 < nic.speed < 65535}


def _cpu(before: Any, now: Any) -> dict[str, float]:
    shares = [busy_percent(*pair) for pair in zip(before, now, strict=False)]
    if not shares:
        return {}
    return {
        "cpu_percent": sum(shares) / len(shares),
        "cpu_busiest_core_percent": max(shares),
        **_modes(before, now),
        **{core_name(index): share for index, share in enumerate(shares)},
    }


def _modes(before: Any, now: Any) -> dict[str, float]:
    """What all cores did, in per cent of their time."""
    spent = {
        name: sum(
            max(getattr(b, name) - getattr(a, name), 0) for a, b in zip(before, now, strict=False)
        )
        for name in now[0]._fields
        if not name.startswith("guest")  # which user and nice include
    }
    spent["user"] += spent.pop("nice", 0.0)
    total = sum(spent.values())
    return {_MODES[name]: 100 * spent[name] / total for name in _MODES if name in spent and total}


def busy_percent(before: Any, now: Any) -> float:
    """Share of time that a core was not idle. Time stolen by a hypervisor counts as busy."""
    spent = {name: max(getattr(now, name) - getattr(before, name), 0) for name in now._fields}
    total = sum(spent.values()) - spent.get("guest", 0) - spent.get("guest_nice", 0)
    idle = spent["idle"] + spent.get("iowait", 0)
    return 100 * max(total - idle, 0) / total if total > 0 else 0.0


def network_figures(
    before: Any, now: Any, speeds: Mapping[str, float], seconds: float
) -> dict[str, float]:
    received = sent = loopback = 0.0
    fullest = None
    for name in before.keys() & now.keys():
        in_per_s = max(now[name].bytes_recv - before[name].bytes_recv, 0) / seconds
        out_per_s = max(now[name].bytes_sent - before[name].bytes_sent, 0) / seconds
        if name in _LOOPBACK:
            loopback += out_per_s
            continue
        received, sent = received + in_per_s, sent + out_per_s
        if name in speeds:
            fullest = max(fullest or 0.0, 100 * max(in_per_s, out_per_s) / speeds[name])
    figures = {
        "network_received_bytes_per_s": received,
        "network_sent_bytes_per_s": sent,
        "loopback_bytes_per_s": loopback,
    }
    return figures if fullest is None else {**figures, "network_busiest_percent": fullest}
