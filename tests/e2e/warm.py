"""Commands in processes that are forked from one that has loaded them: a start costs 10 ms of CPU.

A command that is started as a program costs 200 to 450 ms, most of it to import modules. Here a
fork server, one for each process of pytest, imports them once. A command is a fork of it, and a
worker that the command starts on its own host is a fork of the command, so still its child.
Environment, descriptors, signals and the process list are those of a program. What differs is the
start itself: the moments before ``main``, the environment in /proc, memory that is shared.
"""

from __future__ import annotations

import fcntl
import gc
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import pairwise
from multiprocessing import reduction
from pathlib import Path
from typing import IO, NoReturn

from gevent._hub_local import get_hub_if_exists
from setproctitle import getthreadtitle, setproctitle, setthreadtitle

from ssbench.runner.config import WORKER_COMMAND

ROOT = Path(__file__).resolve().parents[2]
#: All but programs and what loads a Swift.
_SSBENCH = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in sorted((ROOT / "ssbench").rglob("*.py"))
    if "embedded" not in path.parts and not path.stem.startswith("__")
]
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload([
    __name__, *_SSBENCH, "tests.e2e.namespaces",
    "encodings.ascii", "keystoneauth1.identity", "swiftclient.authv1",
    "pytest",  # the main module of this process, which each fork imports
])  # fmt: skip
#: Names of threads that a command may have when it starts local workers.
_IDLE = ("ssbench-control", "ssbench-metrics", "ssbench-web")
#: Above those that are passed to a process.
_FREE_FD = 256


class Forked:
    """A command in a forked process.

    Parameters and attributes are those of ``subprocess.Popen`` that tests and LocalWorkers use.

    :param args: the command line of a program in ``bin``, with the interpreter first, or of a local
        worker.
    :param preexec_fn: of a module that is loaded here.
    """

    def __init__(
        self,
        args: Sequence[str],
        *,
        stdout: int | IO[bytes],
        stderr: int | IO[bytes],
        env: Mapping[str, str],
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        cwd: str | Path | None = None,
        pass_fds: Collection[int] = (),
        start_new_session: bool = False,
        preexec_fn: Callable[[], object] | None = None,
    ) -> None:
        self.args = [*args]
        fds = {0: stdin, 1: stdout, 2: stderr, **{fd: fd for fd in pass_fds}}
        sent = {number: _Sent(fd) for number, fd in fds.items() if fd != subprocess.DEVNULL}
        self._process = _FORKS.Process(
            target=_command,
            args=(self.args, sent, {**env}, cwd or os.getcwd(), start_new_session, preexec_fn),
            daemon=True,
        )
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid
        self._status: int | None = None

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def poll(self) -> int | None:
        """The exit status, or the number of the signal, negative; None while it runs."""
        if self._status is None and self._process.exitcode is not None:
            self._status = self._process.exitcode
            self._process.close()  # its pipes, too; multiprocessing keeps them for a while
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it ends; returns the exit status.

        :raises subprocess.TimeoutExpired: it still runs.
        """
        if self._status is None:
            self._process.join(timeout)
        status = self.poll()
        if status is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _Sent:
    """A descriptor that is sent to the new process, where it is an int."""

    def __init__(self, file: int | IO[bytes]) -> None:
        self._fd = file if isinstance(file, int) else file.fileno()

    def __reduce__(self) -> tuple[object, ...]:
        return _received, (reduction.DupFd(self._fd),)


def _received(sent: object) -> int:
    fd: int = sent.detach()  # type: ignore[attr-defined]
    return fd


def _command(
    args: Sequence[str],
    fds: Mapping[int, int],
    environment: Mapping[str, str],
    cwd: str,
    start_new_session: bool,
    preexec_fn: Callable[[], object] | None,
) -> NoReturn:
    """In the new process: run the command."""
    gc.freeze()  # a collection of what was imported would copy all of it: a tenth of a short run
    if start_new_session:
        os.setsid()
    if preexec_fn:
        preexec_fn()
    os.chdir(cwd)
    subprocess.Popen = _Popen  # type: ignore[misc]
    _run(args, {0: os.open(os.devnull, os.O_RDONLY), **fds}, environment)


class _Popen(subprocess.Popen):  # type: ignore[type-arg]
    """Starts a local worker as a fork of this process, and all else as programs.

    A process with busy threads or a hub of gevent can't be forked; its workers are programs, too.
    """

    def _execute_child(  # type: ignore[no-untyped-def]
        self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo,
        creationflags, shell, p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, *more,
    ) -> None:  # fmt: skip
        busy = len(os.listdir("/proc/self/task")) - len(_idle_threads())
        can_fork = busy == 1 and get_hub_if_exists() is None
        if not (_is_local_worker(args) and can_fork):
            super()._execute_child(  # type: ignore[misc]
                args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo,
                creationflags, shell, p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite,
                *more,
            )  # fmt: skip
            return
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            _run(args, {0: p2cread, 1: c2pwrite, 2: errwrite, **{fd: fd for fd in pass_fds}}, env)
        self._child_created = True
        self._close_pipe_fds(  # type: ignore[attr-defined]
            p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite
        )


def _idle_threads() -> list[threading.Thread]:
    """Those that only wait for a client meanwhile: no lock of theirs is held in a fork."""
    return [each for each in threading.enumerate() if each.name in _IDLE]


def _is_local_worker(args: Sequence[str]) -> bool:
    return tuple(args[: len(WORKER_COMMAND)]) == WORKER_COMMAND


def _run(args: Sequence[str], fds: Mapping[int, int], environment: Mapping[str, str]) -> NoReturn:
    """Become what a new program would be, run it, and exit.

    :param fds: the descriptors that stay open: number in the new program -> number here.
    """
    high = {number: fcntl.fcntl(fd, fcntl.F_DUPFD, _FREE_FD) for number, fd in fds.items()}
    for number, fd in high.items():
        os.dup2(fd, number)
    for number, following in pairwise([*sorted(fds), os.sysconf("SC_OPEN_MAX")]):
        os.closerange(number + 1, following)
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace")
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None
    logging.root.handlers.clear()
    sys.path[:] = dict.fromkeys([*environment.get("PYTHONPATH", "").split(":"), *sys.path])
    sys.orig_argv = [*args]
    if _is_local_worker(args):
        sys.argv = ["-c", *args[len(WORKER_COMMAND) :]]
        module, function = "ssbench.cli.worker", "main"
    else:
        sys.argv = [*args[1:]]
        module, function = "ssbench.cli.start", Path(args[1]).name.removeprefix("ssbench-")
    name = getthreadtitle()
    setproctitle(" ".join(args))
    setthreadtitle(name)
    try:
        sys.exit(getattr(import_module(module), function)())
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
    except BaseException:  # noqa: BLE001  # as the interpreter does
        traceback.print_exc()
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as the interpreter does
    with suppress(OSError):
        sys.stdout.flush()
    os._exit(status)
