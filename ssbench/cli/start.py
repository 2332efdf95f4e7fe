"""The first and the last moments of the commands, where nobody else cares for signals.

A command takes half a second to load and a moment to take leave. Python's own way with Ctrl-C
would then be a traceback and a status of its own, with SIGTERM no word at all. This module itself
loads next to nothing.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from types import FrameType

from ssbench.core.errors import ExitStatus, gravest

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Handler = Callable[[int, FrameType | None], object]


def master() -> int:
    """``ssbench-master``; gives the exit status."""
    return _run("ssbench-master", "ssbench.cli.master", ExitStatus.INTERRUPTED)


def worker() -> int:
    """``ssbench-worker``; gives the exit status. One that is told to end is fine."""
    return _run("ssbench-worker", "ssbench.cli.worker", ExitStatus.OK)


class First:
    """The handler of the first signal: it unwinds what runs.

    :param second: the handler from then on.
    """

    def __init__(self, second: Handler) -> None:
        self.second = second

    def __call__(self, number: int, frame: FrameType | None) -> None:
        _handle(self.second)
        raise KeyboardInterrupt(f"interrupted by {signal.Signals(number).name}")


def _run(program: str, module: str, interrupted: ExitStatus) -> int:
    """Load the module and call its ``main``; the first signal unwinds it, the next leaves."""
    ended: list[ExitStatus] = []
    atexit.register(_leave_for_good, ended)  # the first to be registered is the last to be called
    _handle(First(_leave_with(interrupted)))
    try:
        # Before all that takes time to load: a secret is in the process list until then.
        import_module("ssbench.cli.proctitle").hide_secrets()
        status = ExitStatus(import_module(module).main())
    except KeyboardInterrupt as error:
        print(f"{program}: {error}", file=sys.stderr)
        status = interrupted
    _handle(_leave_with(gravest([status, interrupted])))
    ended.append(status)
    return int(status)


def _leave_for_good(ended: list[ExitStatus]) -> None:
    """Python would forget our handlers before it is gone, and a Ctrl-C would be its status."""
    if ended:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # nobody reads it any more
                stream.flush()
        os._exit(int(ended[0]))


def _handle(handler: Handler) -> None:
    for number in _SIGNALS:
        # nohup's users want no hang-up.
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _leave_with(status: ExitStatus) -> Handler:
    return lambda number, frame: os._exit(int(status))
