"""ssbench's own commands: a master and its workers, one as a rule, all on the client's core.

What each took of the processor is that of the run phase alone, looked up from outside: no start,
no login, no uploads, no report.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from benchmarks.bench.child import ROOT, CommandError
from benchmarks.bench.cores import CLIENT, pinned
from benchmarks.bench.viewers import Viewers
from benchmarks.scale.watch import Watcher
from ssbench import statfile
from ssbench.core.model import Phase
from ssbench.core.records import PhaseRecord, ResultBatch, RunFooter

GET, PUT = (0, 1, 0, 0), (0, 0, 1, 0)  #: profiles; a PUT replaces an initial object
#: The key of master and workers that were started by hand. The references encrypt nothing, and the
#: recorded figures are without.
NO_KEY = ("--zmq-key-file", "none")
#: Often enough for runs of two seconds. The runner isn't on the client's core, so it costs nothing
#: that is measured.
_LOOK_EVERY_S = 0.02
_TIMEOUT_S = 60.0
#: Store -> options of the master, but for the URL that ends them.
_ACCESS: dict[str, Sequence[object]] = {
    "swift": ("-T", "token", "-S"),
    "s3": ("--storage", "s3", "--s3-access-key", "bench", "--s3-secret-key", "s3cret",
           "--s3-endpoint"),
    "webdav": ("--storage", "webdav", "--url"),
    "file": ("--storage", "file", "--path"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Load:
    """What a run does."""

    url: str
    profile: tuple[int, int, int, int]
    size: int
    users: int
    seconds: float
    objects: int = 200
    workers: int = 1
    options: Sequence[object] = field(default=())  #: more of them, for the master
    store: str = "swift"  #: a key of _ACCESS
    watched: bool = False  #: by Viewers


class Ours(NamedTuple):
    """What became of it; processor time and rate of the run phase."""

    operations: int
    seconds: float
    worker_cpu_s: float  #: of all workers
    master_cpu_s: float
    worker_mb: float  #: the most that was resident of one

    @property
    def worker_us(self) -> float:
        """Processor time of the worker an operation, µs."""
        return self.worker_cpu_s / self.operations * 1e6

    @property
    def master_us(self) -> float:
        """The master's."""
        return self.master_cpu_s / self.operations * 1e6

    @property
    def per_s(self) -> float:
        """Operations a second."""
        return self.operations / self.seconds


def run(load: Load) -> Ours:
    """Run it once.

    :raises CommandError: a command failed, or an operation did, or had to be repeated.
    """
    with tempfile.TemporaryDirectory(prefix="ssbench-bench-") as folder:
        stats = Path(folder) / "bench.stat.gz"
        ports = port_options()
        with ExitStack() as started:
            users = -(-load.users // load.workers)
            workers = [started.enter_context(_worker(users, ports)) for _ in range(load.workers)]
            master_watch = _master(load, Path(folder), stats, ports)
        done = _read(stats)
    return Ours(
        done.operations,
        done.seconds,
        sum(watch.cpu_between(done.start, done.end) for watch in workers),
        master_watch.cpu_between(done.start, done.end),
        max(sample.memory_mb for watch in workers for sample in watch.samples),
    )


@contextmanager
def _worker(users: int, ports: Sequence[object]) -> Iterator[Watcher]:
    """One that ends with its master, watched."""
    command = [ROOT / "bin" / "ssbench-worker", "--exit-with-master", "-c", users, *ports, *NO_KEY]
    with pinned(CLIENT):
        worker = _start(command, subprocess.DEVNULL)
    try:
        with _watching(worker.pid) as watch:
            yield watch
            worker.wait(_TIMEOUT_S)
    finally:
        worker.kill()
        worker.wait()


def _master(load: Load, folder: Path, stats: Path, ports: Sequence[object]) -> Watcher:
    """Run it to its end; gives what was seen of it."""
    scenario = folder / "bench.scenario"
    scenario.write_text(json.dumps(_scenario(load)))
    # With its report: the master must still be there to be looked at when the run is over.
    viewers = Viewers() if load.watched else None
    shown = ["--progress", "live", "--web", viewers.address] if viewers else ["--progress", "none"]
    command = [
        ROOT / "bin" / "ssbench-master", *([] if viewers else ["-q"]), "run-scenario",
        "-f", scenario, "-s", stats, *shown, "--expect-workers", load.workers,
        *_ACCESS[load.store], load.url, *ports, *NO_KEY, *load.options,
    ]  # fmt: skip
    with (folder / "master.log").open("w+") as log:
        with pinned(CLIENT):  # not what looks on: threads inherit the core
            master = _start(command, log.fileno(), viewers.terminal if viewers else None)
        try:
            if viewers:
                viewers.watch(master)
            with _watching(master.pid) as watch:
                status = master.wait(load.seconds + _TIMEOUT_S)
        finally:
            master.kill()
            master.wait()
        if status:
            log.seek(0)
            raise CommandError(f"ssbench-master: status {status}: {log.read()}")
    lacking = viewers.lacking() if viewers else ""
    if lacking:
        raise CommandError(f"ssbench-master showed too little on: {lacking}")
    return watch


def _scenario(load: Load) -> dict[str, object]:
    return {
        "name": "bench",
        "sizes": [{"name": "all", "size_min": load.size, "size_max": load.size}],
        "initial_files": {"all": load.objects},
        "crud_profile": load.profile,
        "run_seconds": load.seconds,
        "user_count": load.users,
        "container_count": 4,
    }


def _start(
    command: Sequence[object], log: int, terminal: int | None = None
) -> subprocess.Popen[bytes]:
    words = [sys.executable, *map(str, command)]
    errors = log if terminal is None else terminal
    return subprocess.Popen(words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=errors)


@contextmanager
def _watching(pid: int) -> Iterator[Watcher]:
    watch = Watcher(pid, _LOOK_EVERY_S)
    watch.start()
    try:
        yield watch
    finally:
        watch.stop()


class _Done(NamedTuple):
    operations: int
    start: float  #: of the run phase, wall clock
    end: float
    seconds: float


def _read(stats: Path) -> _Done:
    """The run phase of a stat file.

    :raises CommandError: an operation failed, was lost, or had to be repeated.
    """
    operations = faults = 0
    start = end = seconds = 0.0
    with statfile.read(stats) as records:
        for record in records:
            if isinstance(record, ResultBatch) and record.phase is Phase.RUN:
                operations += record.count
                faults += sum(map(bool, record.column("error"))) + sum(record.column("retries"))
            elif isinstance(record, PhaseRecord):
                if record.phase is Phase.RUN:
                    start = record.started_at
                elif start:
                    end = end or record.started_at
            elif isinstance(record, RunFooter):
                seconds, faults = record.run_seconds, faults + record.lost
    if faults or not operations:
        raise CommandError(f"{faults} faults in {operations} operations: no figure")
    return _Done(operations, start, end or start + seconds, seconds)


def port_options() -> list[object]:
    """For master and worker: three ports that nobody listens on."""
    ports = free_ports()
    options = ("--zmq-work-port", "--zmq-results-port", "--zmq-control-port")
    return [word for pair in zip(options, ports, strict=True) for word in pair]


def free_ports() -> list[int]:
    """Three that nobody listens on: work, results, control."""
    with ExitStack() as opened:
        socks = [opened.enter_context(socket.socket()) for _ in range(3)]
        for sock in socks:
            sock.bind(("127.0.0.1", 0))
        return [sock.getsockname()[1] for sock in socks]
