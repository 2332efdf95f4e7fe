"""``ssbench-worker``: one worker process, or a group of them.

With ``--parent-pipe``, as over ssh, a group reports to the process at the other end of standard
output, in lines of ``transport.parent_pipe``.
"""

from __future__ import annotations

import argparse
import logging
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

import gevent
from gevent import get_hub
from msgspec.structs import replace

from ssbench import __version__
from ssbench.cli.console import (
    check_output,
    log_to_stderr,
    prepare_streams,
    say,
    tell,
    tell_profile,
    write_output,
)
from ssbench.cli.proctitle import show_as_worker
from ssbench.cli.site import SiteDefaults, describe, located
from ssbench.cli.start import handle_signals, wanted_signals
from ssbench.cli.worker_options import WORKER, WORKER_TABLE, worker_id, worker_parser
from ssbench.core.errors import ExitStatus, SsbenchError, UsageError, gravest
from ssbench.core.model import WorkerExit
from ssbench.core.settings import TransportConfig
from ssbench.core.text import plural
from ssbench.host.live import HostLive
from ssbench.host.process import (
    allow_many_connections,
    check_memory,
    check_source_addresses,
    host_limits,
    memory_warning,
    most_users,
    tune_garbage_collector,
)
from ssbench.host.sampler import StackSampler
from ssbench.storage.registry import Permissions, open_store
from ssbench.transport.key import channel_key, load_key
from ssbench.transport.parent_pipe import GroupStarted, MasterAddress, read_address, to_line
from ssbench.transport.sockets import Ports
from ssbench.transport.worker_transport import WorkerTransport
from ssbench.worker.worker import Worker, local_settings

if TYPE_CHECKING:
    from ssbench.core.settings import StorageSettings
    from ssbench.runner.local_workers import LocalWorkers
    from ssbench.storage.base import ObjectStore

log = logging.getLogger("ssbench")


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    prepare_streams()
    words = sys.argv[1:] if arguments is None else arguments
    try:
        # Workers that a master starts get from it all that they need.
        is_child = any(word.startswith("--parent-pipe") for word in words)
        is_help = not {"-h", "--help", "--help-all", "--version"}.isdisjoint(words)
        site = SiteDefaults() if is_child or is_help else SiteDefaults.read(os.environ)
        site.check({WORKER_TABLE: WORKER}, WORKER_TABLE)
        namespace = worker_parser(site.values(WORKER_TABLE, WORKER)).parse_args(words)
        if namespace.show_config:
            for line in describe(namespace, WORKER, os.environ):
                say(line)
            check_output()
            return int(ExitStatus.OK)
        level = logging.DEBUG if namespace.verbose else logging.INFO
        # Several may log to one stream.
        name = "" if namespace.parent_pipe is None else f"{namespace.worker_id} ".replace("%", "%%")
        log_to_stderr(level, f"%(asctime)s {name}%(levelname)s:%(message)s")
        try:
            return int(_run(namespace))
        except SsbenchError as error:
            error.args = (located(str(error), namespace, os.environ),)
            raise
    except SsbenchError as error:
        tell(f"ssbench-worker: {error}")
        return int(error.exit_status)


def _run(ns: argparse.Namespace) -> ExitStatus:
    """Do what the options say: listen for check-network, or run a group of workers, or one."""
    if ns.processes is not None and (ns.network_server is not None or ns.metrics_only):
        raise UsageError("--processes is for workers with users: leave out the other option")
    if ns.network_server is not None:
        return _serve_network(ns)
    allow_many_connections()
    check_source_addresses(ns.source_addresses or ())
    concurrency = 0 if ns.metrics_only else _possible_users(ns)
    worker_id = ns.worker_id or f"{socket.gethostname()}-{os.urandom(4).hex()}"
    address = None
    if ns.parent_pipe is None:
        key = channel_key(ns.key_file, ns.address, partial(log.warning, "%s"))
        address = MasterAddress(ns.address, Ports(*_ports(ns)), key)
        if key is None and not ns.allowed_hosts:
            log.warning(
                "Without a key, whoever listens at ports %d, %d and %d of %s can make this worker"
                " send any request to any host: use --zmq-key-file or --allow-host",
                *address.ports, ns.address,
            )  # fmt: skip
    if ns.processes is not None:
        return run_group(ns, worker_id, concurrency, address)
    if address is None:
        show_as_worker()
        address = read_address(ns.parent_pipe)
    if address is None:
        log.info("The master exited before it had work")
        return ExitStatus.OK
    return _run_worker(ns, worker_id, concurrency, address)


def _run_worker(
    ns: argparse.Namespace, worker_id: str, concurrency: int, address: MasterAddress
) -> ExitStatus:
    """Run a worker in this process, until a signal, or the end of what started it."""
    host, ports, key, _ = address
    transport = WorkerTransport(host, ports, key)
    counter = _JobProfile(ns.profile_count or 0)
    settings = local_settings(
        worker_id, concurrency=concurrency, retries=ns.retries, exit_with_master=ns.exit_with_master
    )
    permitted = _permissions(ns, address)
    worker = Worker(
        transport,
        settings,
        host=HostLive(),
        on_jobs=counter.count if ns.profile_count else None,
        open_driver=partial(_open_store, permitted, tuple(ns.source_addresses or ())),
        permitted=permitted,
    )
    if ns.parent_pipe is not None:
        gevent.spawn(_end_with_parent, ns.parent_pipe, worker)
    for number in wanted_signals():
        gevent.signal_handler(number, worker.stop, number.name)
    what = f"for up to {plural(concurrency, 'user')}" if concurrency else "for metrics only"
    log.info(
        "Worker %s %s, master expected at %s (ports %d, %d, %d)%s",
        worker_id, what, host, ports.work, ports.results, ports.control,
        "" if key else ", without a key",
    )  # fmt: skip
    tune_garbage_collector()
    with ExitStack() as stack:
        if ns.metrics_address:
            from ssbench.live.metrics import WorkerMetrics, metrics_server  # few workers need it

            url = stack.enter_context(metrics_server(ns.metrics_address, WorkerMetrics(worker)))
            log.info("Metrics for Prometheus: %s", url)
        status = worker.serve()
    counter.finish()
    return status


def _ports(ns: argparse.Namespace) -> tuple[int, int, int]:
    """:raises UsageError: equal ports."""
    master = TransportConfig(None, ns.work_port, ns.results_port, ns.control_port)
    return master.work_port, master.results_port, master.control_port


def _serve_network(ns: argparse.Namespace) -> ExitStatus:
    """Listen for check-network until it ends, or a signal comes."""
    from ssbench.transport.network import NetworkListener  # few workers need it

    key = load_key(ns.key_file)
    ip, port = ns.network_server
    with NetworkListener(ip or None, port, key, "--network-server") as listener:
        handle_signals(lambda *_: listener.close())
        log.info(
            "Listening at %s, port %d%s, for ssbench-master check-network",
            listener.ip, listener.port, "" if key else ", without a key",
        )  # fmt: skip
        if listener.is_open:
            log.warning(
                "Anyone who can reach this port can use it; use --zmq-key-file to reject others"
            )
        listener.serve()
    return ExitStatus.OK


def _permissions(ns: argparse.Namespace, address: MasterAddress) -> Permissions:
    paths = map(os.path.abspath, ns.allowed_paths or ())
    return Permissions(ns.allowed_drivers or (), (*paths, *address.paths), ns.allowed_hosts)


def _open_store(
    permitted: Permissions, sources: tuple[str, ...], settings: StorageSettings
) -> ObjectStore:
    return open_store(replace(settings, source_addresses=sources), permitted=permitted)


def _possible_users(ns: argparse.Namespace) -> int:
    """As many as -c says, or as this host allows.

    :raises UsageError: not even one is possible, or not so many workers.
    """
    wanted: int = ns.concurrency
    if ns.parent_pipe is not None and ns.processes is None:
        return wanted  # the process that started this one has checked it
    limits, workers = host_limits(), ns.processes or 1
    most, why = most_users(limits, len(ns.source_addresses or (None,)), workers)
    if workers > 1:
        check_memory(limits, workers)
        memory = memory_warning(limits, wanted * workers, workers)
        if memory:
            log.warning("%s", memory)
    if most is None or wanted <= most:
        return wanted
    if most < 1:
        raise UsageError(f"no user can run on this host: {why}")
    log.warning("This worker can run %d users, not %d: %s", most, wanted, why)
    return most


def _end_with_parent(fd: int, worker: Worker) -> None:
    """End at once when the process that started this one closes its end of the pipe, also by a
    crash."""
    watcher = get_hub().loop.io(fd, 1)
    get_hub().wait(watcher)
    for _ in range(2):
        worker.stop("the process that started it has ended")


class _JobProfile:
    """Profiles the worker until it was sent this many jobs."""

    def __init__(self, jobs: int) -> None:
        self._left = jobs
        self._sampler: StackSampler | None = None  # while it runs

    def count(self, jobs: int) -> None:
        if self._left > 0 and self._sampler is None:
            self._sampler = StackSampler()
            self._sampler.start()
        self._left -= jobs
        if self._left <= 0:
            self.finish()

    def finish(self) -> None:
        """Stop profiling, if it was started, and print the hottest functions."""
        if self._sampler is not None:
            profile = self._sampler.stop()
            self._sampler = None
            tell_profile(profile, "worker")


log = logging.getLogger("ssbench")

_POLL_MS = 100
_MAX_PORT = 65_535


def run_group(
    ns: argparse.Namespace, name: str, users: int, address: MasterAddress | None
) -> ExitStatus:
    """Run ``ns.processes`` workers, named NAME-0 and so on; returns when all have ended.

    None is started again.

    :param users: the most that one can run.
    :param address: None: it is to be read from ``ns.parent_pipe``, whose end ends the workers.
    :returns: the gravest status of a worker that failed; WORKERS_LOST for one that a signal killed.
    :raises UsageError: the names become too long, or there are too few ports for metrics.
    """
    from ssbench.runner.config import WORKER_COMMAND  # a single worker loads no runner
    from ssbench.runner.local_workers import LocalWorkers

    names = [f"{name}-{index}" for index in range(ns.processes)]
    worker_id(names[-1])
    arguments = ["--concurrency", str(users), "--retries", str(ns.retries)]
    for source in ns.source_addresses or ():
        arguments += ["--source-address", source]
    for option, values in (
        ("--allow-driver", ns.allowed_drivers),
        ("--allow-path", ns.allowed_paths),
        ("--allow-host", ns.allowed_hosts),
    ):
        arguments += [word for value in values or () for word in (option, value)]
    if ns.profile_count:
        arguments += ["--profile-count", str(ns.profile_count)]
    if ns.exit_with_master:
        arguments.append("--exit-with-master")
    if ns.verbose:
        arguments.append("--verbose")
    options = dict.fromkeys(names, arguments)
    if ns.metrics_address:
        host, port = ns.metrics_address
        last = port + len(names) - 1
        if last > _MAX_PORT:
            raise UsageError(f"--metrics-port {port}: the workers need the ports up to {last}")
        for index, each in enumerate(names):
            options[each] = [*arguments, "--metrics-port", f"[{host}]:{port + index}"]
    with LocalWorkers(options, WORKER_COMMAND, log_files=False) as workers:
        return _Group(workers, len(names), ns.parent_pipe).serve(address)


class _Group:
    """Waits for signals, for the end of the parent, and for the ends of the workers.

    :param parent: descriptor of the pipe from the process that started this one, if any did.
    """

    def __init__(self, workers: LocalWorkers, count: int, parent: int | None) -> None:
        self._workers = workers
        self._left = self._count = count
        self._parent = parent
        self._poller = select.poll()
        if parent is not None:
            self._poller.register(parent, select.POLLIN)
        self._signals: list[str] = []
        self._forwarded = False
        self._failed: list[WorkerExit] = []

    def serve(self, address: MasterAddress | None) -> ExitStatus:
        handle_signals(self._on_signal)
        pids = self._workers.pids
        log.info(
            "Started %s (%s)", plural(len(pids), "worker"),
            ", ".join(f"{name}: pid {pid}" for name, pid in pids.items()),
        )  # fmt: skip
        seen_from = os.environ.get("SSH_CONNECTION", "").partition(" ")[0]
        self._report(GroupStarted(__version__, time.time(), seen_from, pids))
        while address is None and not self._ended():
            if self._poller.poll(_POLL_MS):
                address = read_address(self._parent or 0)
                if address is None:
                    log.info("The master exited before it had work")
                    return ExitStatus.OK
        if address is not None:
            self._workers.begin()
            self._workers.send_address(address.to_line())
        while not self._ended():
            if self._poller.poll(_POLL_MS):
                log.info("The process that started the workers has ended: ending them")
                return self._status()
        return self._status()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signals.append(signal.Signals(number).name)

    def _ended(self) -> bool:
        """Whether all workers have ended, or are to be ended at once; forwards the first signal."""
        for gone in self._workers.exits():
            self._left -= 1
            self._note(gone)
        if self._signals and not self._forwarded:
            self._forwarded = True
            log.info("%s: ending the workers; a second signal ends them at once", self._signals[0])
            # Not SIGINT, which is a traceback while a worker is being loaded.
            self._workers.signal(signal.SIGTERM)
        return self._left == 0 or len(self._signals) > 1

    def _note(self, gone: WorkerExit) -> None:
        self._report(gone)
        told = (0, -signal.SIGTERM) if self._forwarded else (0,)
        if gone.status not in told:
            self._failed.append(gone)
        log.log(
            logging.INFO if gone.status in told else logging.WARNING,
            "Worker %s (pid %d) has ended: %s; %d of %d are left",
            gone.worker_id, gone.pid, gone.reason, self._left, self._count,
        )  # fmt: skip

    def _report(self, report: GroupStarted | WorkerExit) -> None:
        if self._parent is not None:
            write_output([f"{to_line(report)}\n"])  # if it is gone, the pipe says so, too

    def _status(self) -> ExitStatus:
        if not self._failed:
            return ExitStatus.OK
        found = {_exit_status(gone.status): gone for gone in reversed(self._failed)}
        status = gravest([*found])
        worst, count = found[status], f"{len(self._failed)} of {plural(self._count, 'worker')}"
        tell(
            f"ssbench-worker: {count} failed; {worst.worker_id} (pid {worst.pid}):"
            f" {worst.reason} (exit status {int(status)})"
        )
        return status


def _exit_status(status: int) -> ExitStatus:
    """Of the group, for one worker's."""
    if status < 0:
        return ExitStatus.WORKERS_LOST
    return ExitStatus(status) if status in [*ExitStatus] else ExitStatus.FAILED


if __name__ == "__main__":
    sys.exit(main())
