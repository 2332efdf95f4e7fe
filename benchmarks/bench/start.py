"""Seconds from the start of ssbench-master to the first no-op operation, beside Python's imports.

The first operation is the earliest of the run phase in the stat file: the phase's start by the
wall clock plus the operation's offset. One initial object is uploaded before.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bench.child import ROOT
from benchmarks.bench.cores import CLIENT, TARGET, pinned
from benchmarks.bench.figure import Figure, at_most
from benchmarks.bench.ours import port_options
from ssbench import statfile
from ssbench.core.model import Phase
from ssbench.core.records import PhaseRecord, ResultBatch

_SCENARIO = {
    "name": "start",
    "sizes": [{"name": "tiny", "size_min": 100, "size_max": 100}],
    "initial_files": {"tiny": 1},
    "operation_count": 10,
    "crud_profile": [1, 0, 0, 0],
    "user_count": 1,
}
_REFERENCE = "import gevent, zmq"
_TIMES = 5.0
_SAMPLES_A_ROUND = 3


def run(rounds: int) -> Iterator[Figure]:
    """The row's figure. Master and worker use both cores."""
    ours, theirs = [], []
    with tempfile.TemporaryDirectory(prefix="ssbench-start-") as folder, pinned(CLIENT, TARGET):
        for _ in range(_SAMPLES_A_ROUND * rounds):
            ours.append(_until_first_operation_s(Path(folder)))
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", _REFERENCE], check=True)
            theirs.append(time.perf_counter() - began)
    yield Figure(
        "start to first operation, no-op, one local worker", "s", ours,
        f"python -c '{_REFERENCE}'", theirs, at_most(_TIMES),
    )  # fmt: skip


def _until_first_operation_s(folder: Path) -> float:
    scenario, results = folder / "start.scenario", folder / "start.stat.gz"
    scenario.write_text(json.dumps(_SCENARIO))
    ports = map(str, port_options())
    command = [
        sys.executable, "-m", "ssbench.cli.master", "run-scenario", "-f", str(scenario),
        "--noop", "--workers", "1", "-s", str(results), "--force", "-q", "-R",
        *ports,
    ]  # fmt: skip
    began = time.time()
    subprocess.run(command, cwd=ROOT, check=True, timeout=60)
    return first_operation_at(results) - began


def first_operation_at(path: Path) -> float:
    """Wall-clock time of the start of the run phase's first operation."""
    started_at = 0.0
    starts_ns: list[int] = []
    with statfile.read(path) as run_records:
        for record in run_records:
            if isinstance(record, PhaseRecord) and record.phase is Phase.RUN:
                started_at = record.started_at
            elif isinstance(record, ResultBatch) and record.phase is Phase.RUN:
                starts_ns.append(min(record.column("start_ns")))
    return started_at + min(starts_ns) / 1e9
