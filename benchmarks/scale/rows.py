"""One row of the table: a workers, a master, and whether every operation is accounted for."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from benchmarks.scale.simulated import SimulatedWorkers, WorkerSettings
from benchmarks.scale.watch import Watcher
from ssbench import statfile
from ssbench.core.errors import ExitStatus, StatFileError
from ssbench.core.model import Phase
from ssbench.core.operations import CRUD, ENSURE
from ssbench.core.records import PhaseRecord, Record, RunFooter
from ssbench.core.stats.run_stats import RunStats
from ssbench.transport.key import CurveKey
from ssbench.transport.sockets import Ports

ROOT = Path(__file__).resolve().parents[2]
_MASTER = ROOT / "bin" / "ssbench-master"
#: What most systems let a process open, unless it asks for more.
_USUAL_FILES = 1024


@dataclass(frozen=True, slots=True)
class Row:
    """What is run."""

    workers: int
    users: int
    operations: int
    objects: int = 100  #: initial ones, uploaded before the run
    batch_size: int = 0  #: 0: the master's default
    profile: tuple[int, int, int, int] = (1, 6, 2, 1)
    processes: int = 8  #: that the workers share
    pause_s: float = 0.0  #: how long an operation takes; 0: no time at all
    keyed: bool = False  #: with a key file: all traffic encrypted
    killed: int = 0  #: processes of workers killed when a quarter of the operations has begun
    memory_mb: float = 0.0  #: the master's bound; 0: none
    timeout_s: float = 900.0


class Window(NamedTuple):
    """A part of the master's life: gather, a phase, or the report at its end."""

    seconds: float
    memory_mb: float  #: the most that was seen
    cpu_s: float


@dataclass(slots=True)
class Outcome:
    """What became of it."""

    row: Row
    status: int = 0
    sent: int = 0
    done: int = 0
    failed: int = 0
    lost: int = 0
    begun: int = 0  #: operations of the run, by the drivers' own account
    ensured: int = 0  #: initial objects, by the drivers' own account
    seconds: float = 0.0  #: of the run phase
    peak_mb: float = 0.0
    worker_mb: float = 0.0
    files: int = 0  #: the most that the master had open
    stretches: dict[str, Window] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)  #: what master and workers said

    @property
    def faults(self) -> list[str]:
        """What is not as it has to be."""
        row, ended = self.row, self.done + self.failed
        want = ExitStatus.WORKERS_LOST if row.killed else ExitStatus.OK
        checks = [
            (self.status == want, f"exit status {self.status}, not {want:d}"),
            (not self.lost or row.killed, f"{self.lost} operations lost"),
            (not self.failed, f"{self.failed} operations failed"),
            (self.sent == row.operations, f"{self.sent} operations sent, not {row.operations}"),
            (
                self.sent == ended + self.lost,
                f"{self.sent} sent, but {self.done} done, {self.failed} failed, {self.lost} lost",
            ),
            (
                # What a killed worker held, or had only just read, it may have begun or not.
                self.begun == ended or (row.killed and self.begun > ended),
                f"{self.begun} operations begun by the drivers, {ended} with a result,"
                f" {self.lost} lost",
            ),
            (
                self.ensured == row.objects,
                f"{self.ensured} initial objects asked for, not {row.objects}",
            ),
            (
                not row.memory_mb or self.peak_mb < row.memory_mb,
                f"the master took {self.peak_mb:.0f} MB of memory, not below {row.memory_mb:g}",
            ),
        ]
        return [fault for fine, fault in checks if not fine]


def run(row: Row, place: Path) -> Outcome:
    """Run it; what it leaves behind goes to ``place``."""
    outcome = Outcome(row)
    ports, key = _free_ports(), None
    if row.keyed:
        key = CurveKey.generate()
        key.save(str(place / "key"))
    settings = WorkerSettings(-(-row.users // row.workers), ports, key, row.pause_s)
    with _usual_limits(), SimulatedWorkers(row.workers, row.processes, settings, place) as workers:
        began = time.time()
        watcher = _watch_master(row, ports, place, workers, outcome)
        ended = time.time()
        outcome.words += workers.warnings()
    try:
        stats, marks = _read(place)
    except StatFileError as error:
        outcome.words.append(str(error))
        stats, marks = RunStats(), []
    _account(outcome, workers, stats)
    _measure(outcome, watcher, [("gather", began), *marks, ("", ended)])
    return outcome


def _watch_master(
    row: Row, ports: Ports, place: Path, workers: SimulatedWorkers, outcome: Outcome
) -> Watcher:
    """Run the master to its end; gives what was seen of it."""
    with (place / "report.txt").open("wb") as out, (place / "master.log").open("wb") as err:
        master = subprocess.Popen(
            _command(row, ports, place), stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=ROOT
        )
        watcher = Watcher(master.pid)
        watcher.start()
        try:
            if row.killed:
                _kill_some(row, workers)
            _, status, used = _wait(master, row.timeout_s)
        finally:
            watcher.stop()
    outcome.status = os.waitstatus_to_exitcode(status)
    outcome.peak_mb = used.ru_maxrss * 1024 / 1e6
    outcome.words += (place / "master.log").read_text().splitlines()
    return watcher


def _kill_some(row: Row, workers: SimulatedWorkers) -> None:
    """A quarter into the run."""
    deadline = time.monotonic() + row.timeout_s
    while _operations(workers) < row.operations / 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    workers.kill(row.killed)


def _operations(workers: SimulatedWorkers) -> int:
    """Those of the run that its drivers have begun."""
    begun = workers.begun
    return sum(begun[operation] for operation in CRUD)


def _wait(
    master: subprocess.Popen[bytes], timeout_s: float
) -> tuple[int, int, resource.struct_rusage]:
    """As os.wait4, which alone tells the highest memory; late is killed."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = os.wait4(master.pid, os.WNOHANG)
        if found[0]:
            master.returncode = os.waitstatus_to_exitcode(found[1])
            return found
        if time.monotonic() > deadline:
            master.kill()
            deadline = float("inf")
        time.sleep(0.02)


def _command(row: Row, ports: Ports, place: Path) -> list[str]:
    scenario = {
        "name": "scale",
        "sizes": [{"name": "tiny", "size_min": 1000, "size_max": 16000}],
        "initial_files": {"tiny": row.objects},
        "crud_profile": row.profile,
        "operation_count": row.operations,
        "user_count": row.users,
        "container_count": 10,
    }
    (place / "scale.scenario").write_text(json.dumps(scenario))
    words: list[object] = [
        sys.executable, _MASTER, "-q", "run-scenario", "-f", place / "scale.scenario", "--noop",
        "--expect-workers", row.workers, "--worker-wait", 120, "-s", place / "scale.stat.gz",
        "--zmq-work-port", ports.work, "--zmq-results-port", ports.results,
        "--zmq-control-port", ports.control,
    ]  # fmt: skip
    words += ["--batch-size", row.batch_size] if row.batch_size else []
    words += ["--zmq-key-file", place / "key" if row.keyed else "none"]
    words += ["--zmq-bind-ip", "127.0.0.1"]
    return [*map(str, words)]


def _read(place: Path) -> tuple[RunStats, list[tuple[str, float]]]:
    """What the stat file says became of the operations, and when the master did what."""
    marks: list[tuple[str, float]] = []
    with statfile.read(str(place / "scale.stat.gz")) as reader:
        stats = RunStats.of(_noted(reader, marks))
        stats.run.damage += reader.damage
    return stats, marks


def _noted(records: Iterable[Record], marks: list[tuple[str, float]]) -> Iterator[Record]:
    """The same records; the times of phases are written down on the way."""
    for record in records:
        if isinstance(record, PhaseRecord):
            marks.append((Phase(record.phase).name.lower(), record.started_at))
        elif isinstance(record, RunFooter):
            marks.append(("report", record.ended_at))
        yield record


def _account(outcome: Outcome, workers: SimulatedWorkers, stats: RunStats) -> None:
    """Put the books of both sides beside each other."""
    total = stats.total()
    outcome.done, outcome.failed = total.count, total.errors
    outcome.sent, outcome.lost = stats.run.sent or 0, stats.run.lost
    outcome.begun = _operations(workers)
    outcome.ensured = workers.begun[ENSURE]
    outcome.worker_mb = workers.worker_mb
    if stats.run.footer:
        outcome.seconds = stats.run.footer.run_seconds
    outcome.words += stats.run.damage


def _measure(outcome: Outcome, watcher: Watcher, marks: Sequence[tuple[str, float]]) -> None:
    """What the master took for each stretch of its life."""
    outcome.files = max((sample.files for sample in watcher.samples), default=0)
    for (name, start), (_, end) in pairwise(marks):
        seen = watcher.between(start, end)
        most_mb = max((sample.memory_mb for sample in seen), default=0.0)
        cpu_s = seen[-1].cpu_s - seen[0].cpu_s if seen else 0.0
        outcome.stretches[name] = Window(end - start, most_mb, cpu_s)


def _free_ports() -> Ports:
    with contextlib.ExitStack() as opened:
        found = []
        for _ in range(3):
            sock = opened.enter_context(socket.socket())
            sock.bind(("127.0.0.1", 0))
            found.append(int(sock.getsockname()[1]))
    return Ports(*found)


@contextlib.contextmanager
def _usual_limits() -> Iterator[None]:
    """Whatever this shell allows: what is started here begins with what is usual elsewhere."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(_USUAL_FILES, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
