"""Worker processes on this host, which end with the process that started them.

A run starts its own before the master is loaded, because both take long; ``ssbench-worker
--processes`` starts several. Each worker waits at a pipe for the master's address and key; the key
is never on a command line or in the environment. The process that started it keeps the other end of
the pipe open: when it ends, in whatever way, the worker ends too.
"""

from __future__ import annotations

import os
import signal
import subprocess  # nosec B404 # runs the command that the caller gives
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import takewhile
from typing import TYPE_CHECKING

from ssbench.core.errors import UsageError
from ssbench.core.model import WorkerExit
from ssbench.core.text import plural, printable
from ssbench.host.files import numbered_log
from ssbench.host.process import (
    HostLimits,
    allow_many_connections,
    check_memory,
    check_source_addresses,
    child_environment,
    host_limits,
    memory_warning,
    most_users,
    shortage,
)
from ssbench.storage.options import StoreOptions
from ssbench.storage.registry import secret_variables, url_count

if TYPE_CHECKING:
    from ssbench.core.model import Group
    from ssbench.runner.config import RunConfig

_STDERR = 2
_GRACE_S = 5.0  #: for all workers together
#: Of the log of a worker that ended: bytes that are read, lines and characters that are shown.
_TAIL_BYTES, _TAIL_LINES, _TAIL_SHOWN = 16_384, 3, 600


def start_local_workers(
    config: RunConfig,
    stack: ExitStack,
    most_users: int,
    least_users: int | None = None,
    groups: Sequence[Group] = (),
) -> LocalWorkers | None:
    """Start ``config.workers`` processes for ``most_users`` in all; they end with the stack.

    :param least_users: users that must be possible; None: ``most_users``.
    :param groups: of users: no more workers take part than the smallest has users.
    :returns: None if the configuration wants no local workers.
    :raises UsageError: this host can't run so many users, or workers.
    """
    if not config.workers:
        return None
    allow_many_connections()
    each = config.users_each(most_users, groups)
    each, warnings = users_per_worker(config, each, most_users, least_users or most_users)
    arguments, hidden = worker_options(config, each)
    check_source_addresses(config.source_addresses or ())
    for address in config.source_addresses or ():
        arguments += ["--source-address", address]
    names = [f"local-{index}-{os.getpid()}" for index in range(config.workers)]
    options = dict.fromkeys(names, arguments)
    return stack.enter_context(
        LocalWorkers(options, config.worker_command, warnings=warnings, hidden=hidden)
    )


def worker_options(config: RunConfig, users: int) -> tuple[list[str], Collection[str]]:
    """Options of each worker that a run starts, and environment variables to hide from it.

    :param users: the most that it offers to run.
    """
    arguments = ["--concurrency", str(users), "--retries", str(config.retries)]
    store = config.store or StoreOptions()
    module, is_outside, _ = store.driver.partition(":")
    if is_outside:
        arguments += ["--allow-driver", module]
    return arguments, secret_variables(store)


def users_per_worker(
    config: RunConfig, each: int, all_users: int, least_users: int
) -> tuple[int, list[str]]:
    """Users of each worker that ``config.workers`` processes on this host run, and warnings.

    :param each: users that a worker is to run.
    :raises UsageError: this host can't run ``least_users``, or so many workers.
    """
    found, workers = host_limits(), config.workers or 1
    if config.is_noop:  # its users have no connections
        found = HostLimits(memory_bytes=found.memory_bytes)
    check_memory(found, workers)
    targets = url_count(config.store) if config.store else 1
    targets *= len(config.source_addresses or (None,))
    # The users of workers on other hosts are unknown here: each worker is given its share.
    others = max(config.expect_workers or 0, config.least_started) - workers
    here = -(-least_users * workers // (workers + others))
    why = shortage(found, here, workers, targets)
    if why:
        raise UsageError(f"{why}; use more workers or hosts, or raise the limit")
    warnings = []
    memory = memory_warning(found, here, workers)
    if memory:
        warnings.append(memory)
    most, reason = most_users(found, targets)
    if most is not None and most < each and all_users > least_users:
        warnings.append(f"A worker on this host can run at most {plural(most, 'user')}: {reason}")
    return (each if most is None else min(each, most)), warnings


class LocalWorkers:
    """A context manager: the processes start when it is entered, and end when it is left.

    :param options: of each worker, by its name.
    :param command: starts a worker; its options follow.
    :param log_files: each logs to a file; False: to our standard error.
    :param warnings: for the user, once there is a run.
    :param hidden: environment variables that workers must not see.
    """

    def __init__(
        self,
        options: Mapping[str, Sequence[str]],
        command: Sequence[str],
        *,
        log_files: bool = True,
        warnings: Sequence[str] = (),
        hidden: Collection[str] = (),
    ) -> None:
        self.warnings = warnings
        self.logs: list[str] = []  #: paths, if there are files
        #: No other worker can join: the key was made for these only.
        self.exclusive = False
        self._names = [*options]
        self._command = command
        self._arguments = {name: [*given, name] for name, given in options.items()}
        self._log_files = log_files
        # SPT_NOENV: setproctitle must leave the environment readable.
        self._environment = {**child_environment(hidden), "SPT_NOENV": "1"}
        self._begun = False
        self._processes: list[subprocess.Popen[bytes]] = []
        self._pipes: list[int] = []
        self._log_fds: list[int] = []
        self._next_log = 0
        self._reported: set[int] = set()  # pids that ``exits`` has given

    def __enter__(self) -> LocalWorkers:
        try:
            for name in self._names:
                self._start(name)
        except BaseException:
            self.end()
            raise
        return self

    def _start(self, name: str) -> None:
        log_fd = self._open_log() if self._log_files else _STDERR
        # Each resource is recorded as soon as it exists, so that ``end`` frees it in any case.
        read_fd, write_fd = os.pipe()
        self._pipes.append(write_fd)
        os.set_inheritable(read_fd, True)
        try:
            process = subprocess.Popen(  # nosec B603 # no shell; no argument is a user's text
                [*self._command, "--parent-pipe", str(read_fd), *self._arguments[name]],
                stdin=subprocess.DEVNULL,
                stdout=log_fd,
                stderr=log_fd,
                pass_fds=(read_fd,),
                env=self._environment,
                start_new_session=True,  # a Ctrl-C on the terminal is for the parent only
            )
        finally:
            os.close(read_fd)
        self._processes.append(process)

    def _open_log(self) -> int:
        fd, path, self._next_log = numbered_log("ssbench-worker-local", self._next_log)
        self._next_log += 1
        self.logs.append(path)
        self._log_fds.append(fd)  # kept open, so that no other run takes the log meanwhile
        return fd

    @property
    def pids(self) -> dict[str, int]:
        """Name of a worker -> process id."""
        return {
            name: process.pid for name, process in zip(self._names, self._processes, strict=True)
        }

    def send_address(self, line: str) -> None:
        """Send each the master's address, a line of ``transport.parent_pipe``."""
        for fd in self._pipes:
            with suppress(BrokenPipeError):  # it died; ``exits`` reports it
                os.write(fd, line.encode("ascii"))

    @property
    def commands(self) -> list[str]:
        """How each was started, for the user."""
        return [" ".join(["ssbench-worker ...", *each]) for each in self._arguments.values()]

    def begin(self) -> None:
        """There is a run: from now on they end gracefully, and their logs stay."""
        self._begun = True

    def exits(self) -> list[WorkerExit]:
        """Those that have ended since the last call."""
        found = []
        for index, process in enumerate(self._processes):
            if process.pid not in self._reported and process.poll() is not None:
                self._reported.add(process.pid)
                reason = _status_text(process.returncode)
                if self._log_files:
                    reason += f"; {_log_text(self.logs[index])}"
                name = self._names[index]
                found.append(WorkerExit(name, process.pid, reason, process.returncode))
        return found

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to each that has not ended."""
        for process in self._processes:
            process.send_signal(number)

    def cpu_times(self) -> dict[int, tuple[float, float]]:
        """Seconds of user and system time so far of each that runs, by process id."""
        import psutil  # loads slowly, and few runs need it here

        found = {}
        for process in self._processes:
            with suppress(psutil.Error):
                times = psutil.Process(process.pid).cpu_times()
                found[process.pid] = (times.user, times.system)
        return found

    def all_gone(self) -> bool:
        """Whether all of them have ended, and no other worker can join."""
        return self.exclusive and len(self._reported) == len(self._names)

    def end(self) -> None:
        """End them: gracefully after a run; else at once, and delete their logs."""
        for fd in self._pipes:
            os.close(fd)
        self._pipes.clear()
        deadline_s = time.monotonic() + (_GRACE_S if self._begun else 0)
        for process in self._processes:
            try:
                process.wait(max(deadline_s - time.monotonic(), 0))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if not self._begun:
            for path in self.logs:
                with suppress(FileNotFoundError):
                    os.unlink(path)
        for fd in self._log_fds:
            os.close(fd)
        self._log_fds.clear()

    def __exit__(self, *exc: object) -> None:
        self.end()


def _status_text(returncode: int) -> str:
    """``it was killed by SIGKILL``, ``it exited with status 1``."""
    if returncode >= 0:
        return f"it exited with status {returncode}"
    try:
        return f"it was killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"it was killed by signal {-returncode}"


def _log_text(path: str) -> str:
    """The last lines of a log, as part of a line; of a crash, why, not the stacks that follow."""
    try:
        with open(path, "rb") as log:
            log.seek(max(os.path.getsize(path) - _TAIL_BYTES, 0))
            lines = log.read(_TAIL_BYTES).decode("utf-8", "replace").split("\n")
    except OSError as error:
        return f"its log {path} can't be read: {error.strerror}"
    crashes = [at for at, line in enumerate(lines) if line.startswith("Fatal Python error: ")]
    if crashes:
        lines = [*takewhile(str.strip, lines[crashes[-1] :])]
    shown = [printable(line.strip()) for line in lines if line.strip()][-_TAIL_LINES:]
    if not shown:
        return f"its log {path} is empty"
    return f"its log {path} ends: {' | '.join(shown)[-_TAIL_SHOWN:]}"
