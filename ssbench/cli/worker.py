"""``ssbench-worker``: one worker process."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import gevent
from gevent import get_hub

from ssbench.cli.console import log_to_stderr, tell
from ssbench.cli.proctitle import show_as_worker
from ssbench.cli.wiring import key_of, ports_of
from ssbench.cli.worker_options import WorkerOptions, worker_options, worker_parser
from ssbench.core.capacity import most_users
from ssbench.core.errors import ExitStatus, SsbenchError, UsageError
from ssbench.host.live import HostLive
from ssbench.host.process import allow_many_connections, host_limits, tune_garbage_collector
from ssbench.storage.registry import open_store
from ssbench.transport.master_address import MasterAddress, read_address
from ssbench.transport.worker_transport import WorkerTransport
from ssbench.worker.worker import Worker, local_settings

if TYPE_CHECKING:
    import cProfile

log = logging.getLogger("ssbench")


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; gives the exit status."""
    namespace = worker_parser().parse_args(arguments)
    level = logging.DEBUG if namespace.verbose else logging.INFO
    log_to_stderr(level, "%(asctime)s %(levelname)s:%(message)s")
    try:
        return int(_run(worker_options(namespace, os.environ)))
    except SsbenchError as error:
        tell(f"ssbench-worker: {error}")
        return int(error.exit_status)


def _run(options: WorkerOptions) -> ExitStatus:
    allow_many_connections()
    concurrency = _possible_users(options)
    worker_id = options.worker_id or f"{socket.gethostname()}-{secrets.token_hex(4)}"
    if options.parent_pipe is not None:
        show_as_worker()
    place = _place(options)
    if place is None:
        log.info("The master exited before it had work")
        return ExitStatus.OK
    host, ports, key = place
    transport = WorkerTransport(host, ports, key)
    counter = _JobProfile(options.profile_count)
    settings = local_settings(
        worker_id,
        concurrency=concurrency,
        retries=options.retries,
        exit_with_master=options.exit_with_master,
    )
    on_jobs = counter.count if options.profile_count else None
    worker = Worker(
        transport,
        settings,
        host=HostLive(),
        on_jobs=on_jobs,
        open_driver=partial(open_store, allowed=options.allowed_drivers),
    )
    if options.parent_pipe is not None:
        gevent.spawn(_end_with_parent, options.parent_pipe, worker)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        gevent.signal_handler(number, worker.stop, signal.Signals(number).name)
    log.info(
        "Worker %s for up to %d users, master expected at %s (ports %d, %d, %d)%s",
        worker_id, concurrency, host,
        ports.work, ports.results, ports.control, "" if key else ", without a key",
    )  # fmt: skip
    tune_garbage_collector()
    status = worker.serve()
    counter.finish()
    return status


def _possible_users(options: WorkerOptions) -> int:
    """As many as -c says, or as this host allows: the master hears of so many, and of no more.

    :raises UsageError: where no user is possible.
    """
    if options.parent_pipe is not None:
        return options.concurrency  # the master has seen to it
    most, why = most_users(host_limits())
    if most is None or options.concurrency <= most:
        return options.concurrency
    if most < 1:
        raise UsageError(f"no user can run on this host: {why}")
    log.warning("This worker can run %d users, not %d: %s", most, options.concurrency, why)
    return most


def _place(options: WorkerOptions) -> MasterAddress | None:
    """Where the master is: from the pipe of a parent, or from the options."""
    if options.parent_pipe is not None:
        return read_address(options.parent_pipe)
    zmq = options.zmq
    return MasterAddress(zmq.address or "127.0.0.1", ports_of(zmq), key_of(zmq))


def _end_with_parent(fd: int, worker: Worker) -> None:
    """The pipe's other end closes when the master ends, however it ends: end at once, too."""
    watcher = get_hub().loop.io(fd, 1)
    get_hub().wait(watcher)
    worker.stop("the master is gone")
    worker.stop("the master is gone")


class _JobProfile:
    """Profiles the worker until so many jobs were taken."""

    def __init__(self, jobs: int | None) -> None:
        self._left = jobs or 0
        self._profile: cProfile.Profile | None = None

    def count(self, jobs: int) -> None:
        """Jobs arrived."""
        if self._profile is None and self._left > 0:
            import cProfile

            self._profile = cProfile.Profile()
            self._profile.enable()
        self._left -= jobs
        if self._left <= 0:
            self.finish()

    def finish(self) -> None:
        """Stop profiling, if that was begun, and say what was found."""
        if self._profile is not None and self._left > -1 << 60:
            self._profile.disable()
            self._left = -1 << 61
            from ssbench.cli import profile

            print(profile.save(self._profile, "worker"), file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
