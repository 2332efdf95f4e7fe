"""A crowd of real workers in few processes, whose no-op drivers count what they are asked to do."""

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

_PATIENCE_S = 30.0


class Books(NamedTuple):
    """What the drivers of one process write down, in memory that outlives the process."""

    begun: ctypes.Array[ctypes.c_uint64]  #: by operation
    memory_mb: ctypes.Array[ctypes.c_double]  #: the highest, before the workers and since


class _CountingStorage(NoopStorage):
    """What a server's log is to a real run: every operation that was begun, counted once.

    :param pause_s: how long an operation takes.
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


class Kind(NamedTuple):
    """What each worker of a crowd is like."""

    concurrency: int  #: how many users it may be
    ports: Ports
    key: CurveKey | None = None
    pause_s: float = 0.0  #: how long an operation takes


class Crowd:
    """Workers in processes of their own. A context manager; leaving it ends the processes.

    :param place: a folder for what the workers log.
    """

    def __init__(self, workers: int, processes: int, kind: Kind, place: Path) -> None:
        self._logs = [place / f"workers-{number}.log" for number in range(processes)]
        self._names = [[f"worker-{index:04}" for index in range(number, workers, processes)]
                       for number in range(processes)]  # fmt: skip
        # Forked: 256 fresh interpreters would take two minutes of a small machine.
        fork = multiprocessing.get_context("fork")
        self._books: list[Books] = []
        self._ends: list[Connection] = []
        self._processes: list[BaseProcess] = []
        for names, log in zip(self._names, self._logs, strict=True):
            theirs, ours = fork.Pipe(duplex=False)
            books = Books(fork.RawArray("Q", max(OPERATIONS) + 1), fork.RawArray("d", 2))
            self._ends.append(ours)
            self._books.append(books)
            process = fork.Process(
                target=_be_workers,
                args=(names, kind, log, books, theirs, tuple(self._ends)),
                daemon=True,
            )
            process.start()
            theirs.close()
            self._processes.append(process)

    @property
    def pids(self) -> list[int]:
        """Of its processes."""
        return [process.pid for process in self._processes if process.pid is not None]

    @property
    def begun(self) -> Counter[Operation]:
        """Operations that the drivers were asked for, by those killed too."""
        return Counter(
            {op: sum(books.begun[op] for books in self._books) for op in OPERATIONS.values()}
        )

    @property
    def worker_mb(self) -> float:
        """Memory that a worker adds to its process, where that is the most."""
        return max(
            (books.memory_mb[1] - books.memory_mb[0]) / len(names)
            for names, books in zip(self._names, self._books, strict=True)
        )

    def kill(self, count: int) -> int:
        """End so many processes at once (SIGKILL); gives how many workers those were."""
        for process in self._processes[:count]:
            process.kill()
        return sum(map(len, self._names[:count]))

    def words(self) -> list[str]:
        """What the workers warned of."""
        return [line for log in self._logs for line in log.read_text().splitlines()]

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *exc: object) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join(_PATIENCE_S)


def _be_workers(
    names: list[str],
    kind: Kind,
    log: Path,
    books: Books,
    pipe: Connection,
    not_ours: tuple[Connection, ...],
) -> None:
    """The life of one process of the crowd; ends when the pipe does."""
    for end in not_ours:
        end.close()  # or no sibling would see its own pipe end
    logging.basicConfig(filename=log, level=logging.WARNING, format="%(asctime)s %(message)s")
    allow_many_connections()
    books.memory_mb[0] = _peak_mb()
    workers = [
        Worker(
            WorkerTransport("127.0.0.1", kind.ports, kind.key),
            local_settings(name, concurrency=kind.concurrency),
            open_driver=lambda said: _CountingStorage(said, books.begun, kind.pause_s),
        )
        for name in names
    ]
    for worker in workers:
        gevent.spawn(worker.serve)
    tune_garbage_collector()
    gevent.spawn(_write_memory_down, books)
    get_hub().wait(get_hub().loop.io(pipe.fileno(), 1))
    os._exit(0)


def _write_memory_down(books: Books) -> None:
    while True:
        books.memory_mb[1] = _peak_mb()
        gevent.sleep(0.5)


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
