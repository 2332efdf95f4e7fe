"""Entry points of the commands: their first and last moments, in which signals are handled too."""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import suppress

from ssbench.cli.signals import INTERRUPTED, OK, ExitHandler, exit_with, handle_signals


def master() -> int:
    """``ssbench-master``; returns the exit status."""
    # Statistics need no threads for linear algebra, which make numpy slower to load.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    return _run("ssbench-master", "ssbench.cli.master", INTERRUPTED)


def worker() -> int:
    """``ssbench-worker``; returns the exit status, which is 0 when a signal ends it."""
    return _run("ssbench-worker", "ssbench.cli.worker", OK)


def _run(program: str, module: str, interrupted: int) -> int:
    """Load the module and call its ``main``, which handles signals while there is a run."""
    handle_signals(ExitHandler(program, interrupted))
    ended: list[int] = []
    atexit.register(_exit_now, ended)  # the first to be registered is the last to be called
    from importlib import import_module

    # Before anything that takes long to load: until then a secret is in the process list.
    import_module("ssbench.cli.proctitle").hide_secrets()
    status: int = import_module(module).main()
    handle_signals(exit_with(_gravest(status, interrupted)))
    ended.append(status)
    return status


def _gravest(*statuses: int) -> int:
    from ssbench.core.errors import ExitStatus, gravest

    return int(gravest([ExitStatus(status) for status in statuses]))


def _exit_now(ended: list[int]) -> None:
    """Exit at once: while Python shuts down, it has its own handlers and status for Ctrl-C."""
    if ended:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # closed
                stream.flush()
        os._exit(ended[0])
