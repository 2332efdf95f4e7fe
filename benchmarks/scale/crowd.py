"""A crowd of real workers in few processes, whose no-op drivers count what they are asked to do."""

from __future__ import annotations

import logging
import multiprocessing
import os
import resource
from collections import Counter
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple

import gevent
from gevent.hub import get_hub

from ssbench.cli.wiring import allow_many_connections, calm_collector
from ssbench.core.model import Job, Timing
from ssbench.core.settings import StorageSettings
from ssbench.storage.noop import NoopStorage
from ssbench.wire import Ports, WorkerWire
from ssbench.worker import Worker

_PATIENCE_S = 30.0


class Told(NamedTuple):
    """What the crowd did, by its own account: the other side of the master's books."""

    operations: Mapping[int, int]  #: Operation -> how often the drivers were asked for it
    worker_mb: float  #: memory that a worker takes, its process' share included


class _CountingStorage(NoopStorage):
    """What a server's log is to a real run: every operation that was begun, counted once."""

    def __init__(self, settings: StorageSettings, begun: Counter[int]) -> None:
        super().__init__(settings)
        plain = self.actions
        self.actions = {operation: _counted(plain[operation], begun) for operation in plain}


def _counted(action: Callable[[Job, int], Timing], begun: Counter[int]) -> Callable[..., Timing]:
    def counted(job: Job, deadline_ns: int) -> Timing:
        begun[job.operation] += 1
        return action(job, deadline_ns)

    return counted


class Crowd:
    """Workers in processes of their own. A context manager; leaving it ends the processes.

    :param concurrency: how many users each worker may be.
    :param place: a folder for what the workers log.
    """

    def __init__(
        self, workers: int, processes: int, concurrency: int, ports: Ports, place: Path
    ) -> None:
        self.logs = [place / f"workers-{number}.log" for number in range(processes)]
        self._ends: list[Connection] = []
        self._processes: list[BaseProcess] = []
        # Forked: 256 fresh interpreters would take two minutes of a small machine.
        fork = multiprocessing.get_context("fork")
        for number, log in enumerate(self.logs):
            ours, theirs = fork.Pipe()
            self._ends.append(ours)
            names = [f"worker-{index:04}" for index in range(number, workers, processes)]
            process = fork.Process(
                target=_be_workers,
                args=(names, concurrency, ports, log, theirs, tuple(self._ends)),
                daemon=True,
            )
            process.start()
            theirs.close()
            self._processes.append(process)

    def ask(self) -> Told:
        """What was done so far.

        :raises RuntimeError: where a process of the crowd doesn't answer.
        """
        operations: Counter[int] = Counter()
        memory_mb: list[float] = []
        for number, end in enumerate(self._ends):
            try:
                end.send(None)
                if not end.poll(_PATIENCE_S):
                    raise TimeoutError
                counted, worker_mb = end.recv()
            except (OSError, EOFError) as error:
                raise RuntimeError(f"workers died: see {self.logs[number]}") from error
            operations.update(counted)
            memory_mb.append(worker_mb)
        return Told(operations, max(memory_mb))

    def words(self) -> list[str]:
        """What the workers warned of."""
        return [line for log in self.logs for line in log.read_text().splitlines()]

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *exc: object) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join(_PATIENCE_S)


def _be_workers(
    names: list[str],
    concurrency: int,
    ports: Ports,
    log: Path,
    asked: Connection,
    not_ours: tuple[Connection, ...],
) -> None:
    """The life of one process of the crowd; ends when the pipe does."""
    for end in not_ours:
        end.close()  # or no sibling would see its own pipe end
    logging.basicConfig(filename=log, level=logging.WARNING, format="%(asctime)s %(message)s")
    allow_many_connections()
    begun: Counter[int] = Counter()
    before = _peak_mb()
    workers = [
        Worker(
            WorkerWire("127.0.0.1", ports, None),
            name,
            concurrency=concurrency,
            open_driver=lambda settings: _CountingStorage(settings, begun),
        )
        for name in names
    ]
    for worker in workers:
        gevent.spawn(worker.serve)
    calm_collector()
    watcher = get_hub().loop.io(asked.fileno(), 1)
    while True:
        get_hub().wait(watcher)
        try:
            asked.recv()
        except EOFError:
            os._exit(0)
        asked.send((dict(begun), (_peak_mb() - before) / len(workers)))


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
