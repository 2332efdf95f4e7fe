"""Many real workers in few processes, with no-op drivers that count their calls."""

from __future__ import annotations

import ctypes
import logging
import multiprocessing
import os
import resource
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple

import gevent
from gevent.hub import get_hub

from ssbench.core.model import Job, Timing
from ssbench.core.operations import OPERATIONS, Operation
from ssbench.core.settings import StorageSettings
from ssbench.host.process import allow_many_connections, tune_garbage_collector
from ssbench.storage.noop import NoopStorage
from ssbench.transport.key import CurveKey
from ssbench.transport.sockets import Ports
from ssbench.transport.worker_transport import WorkerTransport
from ssbench.worker.worker import Worker, local_settings

_TIMEOUT_S = 30.0


class Counters(NamedTuple):
    """Counters of one process, in shared memory, so that they outlive it."""

    begun: ctypes.Array[ctypes.c_uint64]  #: operations, by number
    memory_mb: ctypes.Array[ctypes.c_double]  #: peak, before the workers started and since


class _CountingStorage(NoopStorage):
    """Counts every operation that starts, like the log of a real store.

    :param pause_s: seconds that an operation takes.
    """

    def __init__(
        self, settings: StorageSettings, begun: ctypes.Array[ctypes.c_uint64], pause_s: float
    ) -> None:
        super().__init__(settings)
        plain = self.actions
        self.actions = {
            operation: _counted(plain[operation], begun, pause_s) for operation in plain
        }


def _counted(
    action: Callable[[Job, int], Timing], begun: ctypes.Array[ctypes.c_uint64], pause_s: float
) -> Callable[[Job, int], Timing]:
    def counted(job: Job, deadline_ns: int) -> Timing:
        begun[job.operation] += 1
        if pause_s:
            gevent.sleep(pause_s)
        return action(job, deadline_ns)

    return counted


class WorkerSettings(NamedTuple):
    """Settings of each worker."""

    concurrency: int  #: most users
    ports: Ports
    key: CurveKey | None = None
    pause_s: float = 0.0  #: seconds that an operation takes


class SimulatedWorkers:
    """Starts the processes. A context manager; leaving it kills them.

    :param place: folder for the workers' logs.
    """

    def __init__(self, workers: int, processes: int, settings: WorkerSettings, place: Path) -> None:
        self._logs = [place / f"workers-{number}.log" for number in range(processes)]
        self._names = [[f"worker-{index:04}" for index in range(number, workers, processes)]
                       for number in range(processes)]  # fmt: skip
        # Forked: starting 256 interpreters would take two minutes.
        fork = multiprocessing.get_context("fork")
        self._counters: list[Counters] = []
        self._ends: list[Connection] = []
        self._processes: list[BaseProcess] = []
        for names, log in zip(self._names, self._logs, strict=True):
            theirs, ours = fork.Pipe(duplex=False)
            counters = Counters(fork.RawArray("Q", max(OPERATIONS) + 1), fork.RawArray("d", 2))
            self._ends.append(ours)
            self._counters.append(counters)
            process = fork.Process(
                target=_run_workers,
                args=(names, settings, log, counters, theirs, tuple(self._ends)),
                daemon=True,
            )
            process.start()
            theirs.close()
            self._processes.append(process)

    @property
    def pids(self) -> list[int]:
        """Process ids."""
        return [process.pid for process in self._processes if process.pid is not None]

    @property
    def begun(self) -> Counter[Operation]:
        """Operations that started, in killed processes too."""
        return Counter(
            {
                op: sum(counters.begun[op] for counters in self._counters)
                for op in OPERATIONS.values()
            }
        )

    @property
    def worker_mb(self) -> float:
        """Largest memory in MB that a worker adds to its process."""
        return max(
            (counters.memory_mb[1] - counters.memory_mb[0]) / len(names)
            for names, counters in zip(self._names, self._counters, strict=True)
        )

    def kill(self, count: int) -> int:
        """Kill so many processes (SIGKILL); returns the number of their workers."""
        for process in self._processes[:count]:
            process.kill()
        return sum(map(len, self._names[:count]))

    def warnings(self) -> list[str]:
        """Lines of the workers' logs, from level WARNING."""
        return [line for log in self._logs for line in log.read_text().splitlines()]

    def __enter__(self) -> SimulatedWorkers:
        return self

    def __exit__(self, *exc: object) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join(_TIMEOUT_S)


def _run_workers(
    names: list[str],
    settings: WorkerSettings,
    log: Path,
    counters: Counters,
    pipe: Connection,
    others: tuple[Connection, ...],
) -> None:
    """Run workers in this process until the pipe is closed."""
    for end in others:
        end.close()  # otherwise the pipes of other processes would stay open
    logging.basicConfig(filename=log, level=logging.WARNING, format="%(asctime)s %(message)s")
    allow_many_connections()
    counters.memory_mb[0] = _peak_mb()
    workers = [
        Worker(
            WorkerTransport("127.0.0.1", settings.ports, settings.key),
            local_settings(name, concurrency=settings.concurrency),
            open_driver=lambda given: _CountingStorage(given, counters.begun, settings.pause_s),
        )
        for name in names
    ]
    for worker in workers:
        gevent.spawn(worker.serve)
    tune_garbage_collector()
    gevent.spawn(_record_memory, counters)
    get_hub().wait(get_hub().loop.io(pipe.fileno(), 1))
    os._exit(0)


def _record_memory(counters: Counters) -> None:
    while True:
        counters.memory_mb[1] = _peak_mb()
        gevent.sleep(0.5)


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
