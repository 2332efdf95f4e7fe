"""``ssbench-worker --processes``: starts workers on this host, and waits until they have ended.

With ``--parent-pipe``, as over ssh, the group reports to the process at the other end of standard
output, in lines of ``transport.parent_pipe``.
"""

from __future__ import annotations

import argparse
import logging
import os
import select
import signal
import time
from types import FrameType

from ssbench import __version__
from ssbench.cli.console import tell, write_output
from ssbench.cli.signals import handle_signals
from ssbench.cli.worker_options import worker_id
from ssbench.core.errors import ExitStatus, UsageError, gravest
from ssbench.core.model import WorkerExit
from ssbench.core.text import plural
from ssbench.runner.config import WORKER_COMMAND
from ssbench.runner.local_workers import LocalWorkers
from ssbench.transport.parent_pipe import GroupStarted, MasterAddress, read_address, to_line

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
