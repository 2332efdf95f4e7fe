"""Workers that the master starts on its own host (``--workers``), and that end with it.

They are started before the master has anything for them, as both take long to load. Each then
waits at a pipe to be told where the master is, and the key, which is never on a command line or in
the environment. The master keeps the pipe's other end open: when it is gone, however it ended, the
pipe closes and the worker ends.
"""

from __future__ import annotations

import os
import signal
import subprocess  # nosec B404 # our own interpreter with our own options
import sys
from collections.abc import Collection
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from ssbench.core import capacity
from ssbench.core.errors import UsageError
from ssbench.core.model import WorkerExit
from ssbench.core.text import printable
from ssbench.host.private_files import numbered_file
from ssbench.host.process import allow_many_connections, child_environment, host_limits
from ssbench.storage.registry import secret_variables, url_count

if TYPE_CHECKING:
    from ssbench.cli.run_config import RunOptions

_GRACE_S = 5.0
#: Of the log of a worker that ended: so many bytes are read, and so many lines shown.
_TAIL_BYTES, _TAIL_LINES, _TAIL_SHOWN = 4096, 3, 600


def start_local_workers(
    options: RunOptions, stack: ExitStack, most_users: int, least_users: int | None = None
) -> LocalWorkers | None:
    """Those of ``--workers``, enough for so many users, until the stack ends; None for none.

    :param least_users: so many must be possible; None: all of them.
    :raises UsageError: where this host can't run so many.
    """
    if not options.workers:
        return None
    allow_many_connections()
    each = -(-most_users // options.workers)
    warnings: list[str] = []
    if not options.noop:  # no user of which has a connection
        each, warnings = _within_limits(options, each, most_users, least_users or most_users)
    module, is_outside, _ = options.store.driver.partition(":") if options.store else ("", "", "")
    found = LocalWorkers(
        options.workers,
        concurrency=each,
        retries=options.retries,
        verbose=options.verbose,
        allowed_driver=module if is_outside else "",
        hidden=secret_variables(options.store) if options.store else (),
    )
    found.warnings = warnings
    return stack.enter_context(found)


def _within_limits(
    options: RunOptions, each: int, most_users: int, least_users: int
) -> tuple[int, list[str]]:
    """How many users each worker can be, and what the user is to be warned of."""
    found, workers = host_limits(), options.workers or 1
    targets = url_count(options.store) if options.store else 1
    # Users of other hosts' workers aren't known here: with these, each worker has its share.
    others = max((options.expect_workers or 0) - workers, 0)
    here = -(-least_users * workers // (workers + others))
    why = capacity.shortage(found, here, workers, targets)
    if why:
        raise UsageError(f"{why}; use more workers or hosts, or raise the limit")
    warnings = []
    memory = capacity.memory_warning(found, here, workers)
    if memory:
        warnings.append(memory)
    most, reason = capacity.most_users(found, targets)
    if most is not None and most < each and most_users > least_users:
        warnings.append(f"A worker on this host can run at most {most:,} users: {reason}")
    return (each if most is None else min(each, most)), warnings


class LocalWorkers:
    """A context manager around the processes.

    :param concurrency: users of each.
    :param allowed_driver: module of a storage driver outside of the package; "": none.
    :param hidden: environment variables with secrets of the store.
    """

    def __init__(
        self,
        count: int,
        *,
        concurrency: int,
        retries: int,
        verbose: bool = False,
        allowed_driver: str = "",
        hidden: Collection[str] = (),
    ) -> None:
        self.concurrency = concurrency
        self.warnings: list[str] = []  #: for the first run's user
        self.logs: list[str] = []
        self._log_fds: list[int] = []
        self._next_log = 0
        #: Nobody else can join: the key was made for these workers only.
        self.exclusive = False
        self._names: list[str] = []
        self._told: set[int] = set()  # pids that ``exits`` has given
        self._begun = False
        self._processes: list[subprocess.Popen[bytes]] = []
        self._pipes: list[int] = []
        self._options = [
            "--concurrency", str(concurrency),
            "--retries", str(retries),
            *(["--allow-driver", allowed_driver] if allowed_driver else []),
            *(["--verbose"] if verbose else []),
        ]  # fmt: skip
        self._count = count
        self._hidden = hidden

    def __enter__(self) -> LocalWorkers:
        try:
            for index in range(self._count):
                self._start(index)
        except BaseException:
            self.end()
            raise
        return self

    def _start(self, index: int) -> None:
        # Noted at once: whatever comes between, ``end`` knows of it.
        log_fd, log_path, self._next_log = numbered_file(
            "ssbench-worker-local", ".log", self._next_log
        )
        self._next_log += 1
        self.logs.append(log_path)
        self._log_fds.append(log_fd)  # kept open: the log is nobody else's while we may show it
        read_fd, write_fd = os.pipe()
        self._pipes.append(write_fd)
        os.set_inheritable(read_fd, True)
        name = f"local-{index}-{os.getpid()}"
        self._names.append(name)
        command = [
            sys.executable, "-m", "ssbench.cli.worker",
            "--parent-pipe", str(read_fd), *self._options, name,
        ]  # fmt: skip
        try:
            process = subprocess.Popen(  # nosec B603 # no shell, and nothing of a user's in it
                command,
                stdin=subprocess.DEVNULL,
                stdout=log_fd,
                stderr=log_fd,
                pass_fds=(read_fd,),
                # SPT_NOENV: setproctitle must leave the environment readable.
                env={**child_environment(self._hidden), "SPT_NOENV": "1"},
                # Ctrl-C on the terminal is for the master: it lets its workers finish.
                start_new_session=True,
            )
        finally:
            os.close(read_fd)
        self._processes.append(process)

    def tell(self, word: str) -> None:
        """Say the line of ``parent_pipe`` to each: they seek the master."""
        for fd in self._pipes:
            with suppress(BrokenPipeError):  # one that died; who waits for it says so
                os.write(fd, word.encode("ascii"))

    @property
    def commands(self) -> list[str]:
        """How each was started, as far as it tells users anything."""
        return [" ".join(["ssbench-worker ...", *self._options, name]) for name in self._names]

    def begin(self) -> None:
        """There is a run for them: from now on they end in good order, and their logs stay."""
        self._begun = True

    def exits(self) -> list[WorkerExit]:
        """Those that have ended since the last call."""
        found = []
        for name, path, process in zip(self._names, self.logs, self._processes, strict=True):
            if process.pid not in self._told and process.poll() is not None:
                self._told.add(process.pid)
                reason = f"{_status_text(process.returncode)}; {_log_text(path)}"
                found.append(WorkerExit(name, process.pid, reason))
        return found

    def all_gone(self) -> bool:
        """Whether all of them have ended, and nobody else can join."""
        return self.exclusive and len(self._told) == self._count

    def ended(self) -> list[tuple[str, int]]:
        """Log and exit status of those that have ended."""
        return [
            (path, process.returncode)
            for path, process in zip(self.logs, self._processes, strict=True)
            if process.poll() is not None
        ]

    def end(self) -> None:
        """End them: in good order, or at once, with their logs, where there was no run for them."""
        for fd in self._pipes:
            os.close(fd)
        self._pipes.clear()
        for process in self._processes:
            if not self._begun:
                process.kill()
            try:
                process.wait(_GRACE_S)
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
    """The last lines of a log, as part of a line."""
    try:
        with open(path, "rb") as log:
            log.seek(max(os.path.getsize(path) - _TAIL_BYTES, 0))
            lines = log.read(_TAIL_BYTES).decode("utf-8", "replace").split("\n")
    except OSError as error:
        return f"its log {path} can't be read: {error.strerror}"
    shown = [printable(line.strip()) for line in lines if line.strip()][-_TAIL_LINES:]
    if not shown:
        return f"its log {path} is empty"
    return f"its log {path} ends: {' | '.join(shown)[-_TAIL_SHOWN:]}"
