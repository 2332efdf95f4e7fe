"""CPU time of an operation in a real master and in simulated workers, without a store.

The workers (benchmarks.scale.simulated) share one process and count the calls of their no-op
drivers. The master runs on the client's core, they on the other one.
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
from benchmarks.bench.cores import CLIENT, TARGET, pinned
from benchmarks.bench.ours import NO_KEY, free_ports
from benchmarks.scale.simulated import SimulatedWorkers, WorkerSettings
from ssbench.core.operations import READ
from ssbench.transport.sockets import Ports

_SAMPLE_EVERY_S = 0.02
_TIMEOUT_S = 120.0


class Setup(NamedTuple):
    workers: int
    users: int
    objects: int
    seconds: float = 2.0


class Sample(NamedTuple):
    """Counts since the start."""

    operations: int
    master_cpu_s: float
    workers_cpu_s: float


class Cost(NamedTuple):
    """CPU time per operation in µs."""

    master_us: float
    worker_us: float


def run(setup: Setup) -> Cost:
    """Run READs for the setup's seconds.

    :raises CommandError: the master failed.
    """
    ports = Ports(*free_ports())
    settings = WorkerSettings(-(-setup.users // setup.workers), ports)
    with tempfile.TemporaryDirectory(prefix="ssbench-bench-") as folder:
        place = Path(folder)
        with pinned(TARGET):
            workers = SimulatedWorkers(setup.workers, 1, settings, place)
        with workers:
            samples = _watched(workers, _command(setup, ports, place), place, setup.seconds)
    return cost(samples)


def cost(samples: Sequence[Sample]) -> Cost:
    """The cost of the operations between the first sample with any and the last with new ones.

    :raises CommandError: there are fewer than two such samples.
    """
    last = max((sample.operations for sample in samples), default=0)
    busy = [sample for sample in samples if 0 < sample.operations < last]
    if len(busy) < 2:
        raise CommandError(f"only {len(busy)} samples during {last} operations")
    begin, end = busy[0], busy[-1]
    operations = end.operations - begin.operations
    return Cost(
        (end.master_cpu_s - begin.master_cpu_s) / operations * 1e6,
        (end.workers_cpu_s - begin.workers_cpu_s) / operations * 1e6,
    )


def _watched(
    workers: SimulatedWorkers, command: Sequence[str], place: Path, seconds: float
) -> list[Sample]:
    """Run the master to its end; returns samples taken meanwhile."""
    processes = [psutil.Process(pid) for pid in workers.pids]
    with (place / "master.log").open("w+") as log, pinned(CLIENT):
        master = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    samples = []
    watched = psutil.Process(master.pid)
    deadline = time.monotonic() + seconds + _TIMEOUT_S
    try:
        while master.poll() is None and time.monotonic() < deadline:
            samples.append(
                Sample(workers.begun[READ], _cpu_s(watched), sum(map(_cpu_s, processes)))
            )
            time.sleep(_SAMPLE_EVERY_S)
    finally:
        master.kill()
        status = master.wait()
    if status:
        raise CommandError(f"ssbench-master: status {status}: {(place / 'master.log').read_text()}")
    return samples


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _command(setup: Setup, ports: Ports, place: Path) -> list[str]:
    scenario = place / "bench.scenario"
    scenario.write_text(
        json.dumps(
            {
                "name": "bench",
                "sizes": [{"name": "all", "size_min": 4096, "size_max": 4096}],
                "initial_files": {"all": setup.objects},
                "crud_profile": [0, 1, 0, 0],
                "run_seconds": setup.seconds,
                "user_count": setup.users,
                "container_count": 4,
            }
        )
    )
    words = [
        sys.executable, ROOT / "bin" / "ssbench-master", "-q", "run-scenario", "--noop",
        "-f", scenario, "-s", "/dev/null", "-R", "--progress", "none",
        "--expect-workers", setup.workers, "--zmq-work-port", ports.work,
        "--zmq-results-port", ports.results, "--zmq-control-port", ports.control, *NO_KEY,
    ]  # fmt: skip
    return [str(word) for word in words]
