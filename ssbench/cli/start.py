"""The first and the last moments of the commands, where nobody else cares for signals.

A command takes half a second to load and a moment to take leave. Python's own way with Ctrl-C
would then be a traceback and a status of its own, with SIGTERM no word at all. This module itself
loads next to nothing.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from types import FrameType

from ssbench.core.errors import ExitStatus, gravest

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_Handler = Callable[[int, FrameType | None], object]


def master() -> int:
    """``ssbench-master``; gives the exit status."""
    return _run("ssbench-master", "ssbench.cli.master", ExitStatus.INTERRUPTED)


def worker() -> int:
    """``ssbench-worker``; gives the exit status. One that is told to end is fine."""
    return _run("ssbench-worker", "ssbench.cli.worker", ExitStatus.OK)


def _run(program: str, module: str, interrupted: ExitStatus) -> int:
    """Load the module and call its ``main``; the first signal unwinds it, the next leaves."""

    def on_first(number: int, frame: FrameType | None) -> None:
        _handle(_leave_with(interrupted))
        raise KeyboardInterrupt(f"interrupted by {signal.Signals(number).name}")

    _handle(on_first)
    try:
        status = ExitStatus(import_module(module).main())
    except KeyboardInterrupt as error:
        print(f"{program}: {error}", file=sys.stderr)
        status = interrupted
    _handle(_leave_with(gravest([status, interrupted])))
    return int(status)


def _handle(handler: _Handler) -> None:
    for number in _SIGNALS:
        # nohup's users want no hang-up.
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _leave_with(status: ExitStatus) -> _Handler:
    return lambda number, frame: os._exit(int(status))
