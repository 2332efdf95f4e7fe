"""Facts about this host and its software, for the header of a stat file. No secrets."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

import psutil

from ssbench import __version__
from ssbench.host.process import usable_cores

#: Packages that influence results.
_PACKAGES = ("gevent", "greenlet", "zmq", "msgpack", "swiftclient", "keystoneauth1", "psutil")


def facts() -> dict[str, Any]:
    """What influences the results of this host, without what is unknown.

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
