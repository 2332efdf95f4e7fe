"""The first and the last moments of the commands, where nobody else cares for signals.

A command takes a quarter of a second to load and a moment to take leave. Python's own way with
Ctrl-C would then be a traceback and a status of its own, with SIGTERM no word at all. So the first
thing that happens is that signals are cared for; what that needs is all that this module loads.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from contextlib import suppress

TYPE_CHECKING = False  # that of typing takes longer to load than all the rest here
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    Handler = Callable[[int, FrameType | None], object]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_OK, _INTERRUPTED = 0, 5  #: of ExitStatus, which isn't loaded yet


def master() -> int:
    """``ssbench-master``; gives the exit status."""
    return _run("ssbench-master", "ssbench.cli.master", _INTERRUPTED)


def worker() -> int:
    """``ssbench-worker``; gives the exit status. One that is told to end is fine."""
    return _run("ssbench-worker", "ssbench.cli.worker", _OK)


class ExitHandler:
    """The handler while there is nothing to be put in order: a line, and out.

    It raises nothing: what is being loaded may print an exception, or swallow it.
    """

    def __init__(self, program: str, status: int) -> None:
        self.second: Handler = lambda number, frame: os._exit(status)  #: without the line
        self._program = program
        self._status = status

    def __call__(self, number: int, frame: FrameType | None) -> None:
        _handle(self.second)
        line = f"{self._program}: interrupted by {signal.Signals(number).name}\n"
        with suppress(OSError):  # nobody reads it
            os.write(2, line.encode())
        os._exit(self._status)


def _run(program: str, module: str, interrupted: int) -> int:
    """Load the module and call its ``main``, which cares for signals once there is need to."""
    leave = ExitHandler(program, interrupted)
    _handle(leave)
    ended: list[int] = []
    atexit.register(_exit_now, ended)  # the first to be registered is the last to be called
    from importlib import import_module

    # Before all that takes time to load: a secret is in the process list until then.
    import_module("ssbench.cli.proctitle").hide_secrets()
    status: int = import_module(module).main()
    _handle(_exit_with(_gravest(status, interrupted)))
    ended.append(status)
    return status


def _gravest(*statuses: int) -> int:
    from ssbench.core.errors import ExitStatus, gravest

    return int(gravest([ExitStatus(status) for status in statuses]))


def _exit_now(ended: list[int]) -> None:
    """Python would forget our handlers before it is gone, and a Ctrl-C would be its status."""
    if ended:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # nobody reads it any more
                stream.flush()
        os._exit(ended[0])


def _handle(handler: Handler) -> None:
    for number in _SIGNALS:
        # nohup's users want no hang-up.
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _exit_with(status: int) -> Handler:
    return lambda number, frame: os._exit(status)
