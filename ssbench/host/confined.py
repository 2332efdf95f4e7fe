"""A call in a process of its own, with limits of time, memory and result.

For libraries that read what others send without a limit. A thread can be abandoned, but not ended,
and what it takes is ours.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import subprocess  # nosec B404 # our own interpreter with our own module
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

#: Imports what this process would, and nothing that the current directory may hold.
_START = (
    "import sys; sys.path[:] = sys.argv.pop(1).split(':');"
    " from ssbench.host.confined import answer; answer(*sys.argv[1:])"
)
_RESULT_MAX = 65536  #: bytes
_END = b"\n"  #: of a complete result
_LOOKS_S = 1.0  #: after its parent
_GRACE_S = 1.0  #: for a prompt to restore the terminal


def call_confined(
    place: str, argument: str, environ: Mapping[str, str], within_s: float, memory_bytes: int
) -> bytes:
    """What a function returns in a child, which ends with the call and with this process.

    It has our terminal and standard input, so it can ask the user; Ctrl-C is for both. Programs
    that it starts have no limit of memory. Systems other than Linux may not enforce that limit.

    :param place: ``package.module:function``, from text to bytes.
    :param argument: ASCII; others can read it in the process list.
    :param memory_bytes: of data (RLIMIT_DATA).
    :raises TimeoutError: it took longer; it was ended, with the programs that it started.
    :raises ChildProcessError: it ended without a result, or with one of more than 64 KiB.
    """
    deadline_s = time.monotonic() + within_s
    limits = (str(os.getpid()), str(memory_bytes))
    process = subprocess.Popen(  # nosec B603 # no shell
        # -W ignore: warnings of libraries are not for the user.
        [sys.executable, "-W", "ignore", "-c", _START, ":".join(filter(None, sys.path)), *limits,
         place, argument],
        stdout=subprocess.PIPE,
        env=environ,
    )  # fmt: skip
    assert process.stdout is not None  # nosec B101 # for the type checker
    with process.stdout as pipe:
        try:
            result = _read(pipe.fileno(), deadline_s)
        except BaseException:
            _end(process)
            raise
        process.kill()
        process.wait()
    if not result.endswith(_END) or len(result) > _RESULT_MAX:
        raise ChildProcessError(f"{place} ended without a result")
    return result


def _read(fd: int, deadline_s: float) -> bytes:
    """All that comes until its end, or a little more than may come.

    :raises TimeoutError: it has not ended by then.
    """
    poll, result = select.poll(), b""
    poll.register(fd, select.POLLIN)
    while len(result) <= _RESULT_MAX:
        if not poll.poll(max(deadline_s - time.monotonic(), 0) * 1000):
            raise TimeoutError
        piece = os.read(fd, _RESULT_MAX)
        if not piece:
            break
        result += piece
    return result


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process that is late, and what it started."""
    import psutil  # loads slowly, and few are late

    child = psutil.Process(process.pid)
    started: list[psutil.Process] = []
    with suppress(psutil.Error):
        started += child.children(recursive=True)
    process.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE_S)
    with suppress(psutil.Error):
        child.suspend()  # it starts nothing more
        started += child.children(recursive=True)
    for each in [child, *started]:
        with suppress(psutil.Error):
            each.kill()
    process.wait()


# In the child


def answer(parent: str, memory: str, place: str, argument: str) -> NoReturn:
    """Write the result of the call to standard output."""
    out, null = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    for each in (1, 2):  # what Python prints as it dies of a response is not for the user
        os.dup2(null, each)
    try:
        _end_with(int(parent))
        _limit_memory(int(memory))
        module, _, name = place.partition(":")
        result = getattr(import_module(module), name)(argument) + _END
        while result:
            result = result[os.write(out, result) :]
    finally:  # also with an exception: no result says it, and a traceback may show a secret
        os._exit(0)


def _end_with(parent: int) -> None:
    """Look from now on whether the parent lives, without a thread, which a fork could not take
    along."""

    def look(number: int, frame: object) -> None:
        if os.getppid() != parent:
            os._exit(1)

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, _LOOKS_S, _LOOKS_S)


def _limit_memory(memory_bytes: int) -> None:
    """Limit the data of this process, but not of programs that it starts: those are the user's, and
    some reserve more than they use."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    bounds = [memory_bytes, *(each for each in before if each != resource.RLIM_INFINITY)]
    with suppress(OSError, ValueError):  # a system may not have this limit
        resource.setrlimit(resource.RLIMIT_DATA, (min(bounds), before[1]))

    class Popen(subprocess.Popen[Any]):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            def unlimited() -> None:
                resource.setrlimit(resource.RLIMIT_DATA, before)

            super().__init__(*args, **{**kwargs, "preexec_fn": unlimited})

    # botocore has no parameter for it, and this process is for nothing else.
    subprocess.Popen = Popen  # type: ignore[misc]
