"""Simulated workers under a real master, no store: what an operation costs either side.

The workers are real ones (benchmarks.scale.crowd), many in one process, with no-op drivers that
count. The master has the client's core, they have the other one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from benchmarks.bench.child import ROOT, CommandError
from benchmarks.bench.cores import CLIENT, TARGET, standing
from benchmarks.bench.ours import free_ports
from benchmarks.scale.crowd import Crowd, Kind
from ssbench.core.operations import READ
from ssbench.transport.sockets import Ports

_LOOK_EVERY_S = 0.02
_PATIENCE_S = 120.0


class Host(NamedTuple):
    """Who works, and on what."""

    workers: int
    users: int
    objects: int
    seconds: float = 2.0


class Look(NamedTuple):
    """How it stood at a moment: counts since the start."""

    operations: int
    master_cpu_s: float
    workers_cpu_s: float


class Cost(NamedTuple):
    """Processor time of an operation, µs."""

    master_us: float
    worker_us: float


def run(host: Host) -> Cost:
    """READs only, for so many seconds.

    :raises CommandError: the master failed.
    """
    ports = Ports(*free_ports())
    kind = Kind(-(-host.users // host.workers), ports)
    with tempfile.TemporaryDirectory(prefix="ssbench-bench-") as folder:
        place = Path(folder)
        with standing(TARGET):
            crowd = Crowd(host.workers, 1, kind, place)
        with crowd:
            looks = _watched(crowd, _command(host, ports, place), place, host.seconds)
    return cost(looks)


def cost(looks: Sequence[Look]) -> Cost:
    """Of the operations between the first look that saw one and the last that saw a new one.

    :raises CommandError: that are too few looks.
    """
    last = max((look.operations for look in looks), default=0)
    busy = [look for look in looks if 0 < look.operations < last]
    if len(busy) < 2:
        raise CommandError(f"{len(busy)} looks at {last} operations: no figure")
    begin, end = busy[0], busy[-1]
    operations = end.operations - begin.operations
    return Cost(
        (end.master_cpu_s - begin.master_cpu_s) / operations * 1e6,
        (end.workers_cpu_s - begin.workers_cpu_s) / operations * 1e6,
    )


def _watched(crowd: Crowd, command: Sequence[str], place: Path, seconds: float) -> list[Look]:
    """Run the master to its end, and look at all on the way."""
    workers = [psutil.Process(pid) for pid in crowd.pids]
    with (place / "master.log").open("w+") as log, standing(CLIENT):
        master = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    looks = []
    watched = psutil.Process(master.pid)
    deadline = time.monotonic() + seconds + _PATIENCE_S
    try:
        while master.poll() is None and time.monotonic() < deadline:
            looks.append(Look(crowd.begun[READ], _cpu_s(watched), sum(map(_cpu_s, workers))))
            time.sleep(_LOOK_EVERY_S)
    finally:
        master.kill()
        status = master.wait()
    if status:
        raise CommandError(f"ssbench-master: status {status}: {(place / 'master.log').read_text()}")
    return looks


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _command(host: Host, ports: Ports, place: Path) -> list[str]:
    scenario = place / "crowd.scenario"
    scenario.write_text(
        json.dumps(
            {
                "name": "crowd",
                "sizes": [{"name": "all", "size_min": 4096, "size_max": 4096}],
                "initial_files": {"all": host.objects},
                "crud_profile": [0, 1, 0, 0],
                "run_seconds": host.seconds,
                "user_count": host.users,
                "container_count": 4,
            }
        )
    )
    words = [
        sys.executable, ROOT / "bin" / "ssbench-master", "-q", "run-scenario", "--noop",
        "-f", scenario, "-s", "/dev/null", "-R", "--progress", "none",
        "--expect-workers", host.workers, "--zmq-work-port", ports.work,
        "--zmq-results-port", ports.results, "--zmq-control-port", ports.control,
    ]  # fmt: skip
    return [str(word) for word in words]
