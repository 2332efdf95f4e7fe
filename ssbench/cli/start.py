"""Entry points of the commands: their first and last moments, and signals.

The first signal ends a run gracefully, the second at once. A third one does not even wait until
files are closed and workers have ended. A start is different: what it has begun is undone within
moments, and further signals must not interrupt that.

This module loads nothing: the commands need it first. A command takes a quarter of a second to
load, and until then Ctrl-C would be a traceback with a status of Python's own.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from contextlib import suppress
from time import monotonic

TYPE_CHECKING = False  # that of typing takes longer to load than all the rest here
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from ssbench.runner.stop import Stop

    Handler = Callable[[int, FrameType | None], object]

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Time that a start has, after the first signal, to undo what it began. An embedded Swift alone
#: has five seconds to end by itself.
STARTUP_GRACE_S = 10.0
OK, INTERRUPTED = 0, 5  #: of ExitStatus, which is not loaded yet


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
    # Where our parent ignores it, so do we, and the system forgets how our own children ended: the
    # status of each would be 0.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
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


def handle_signals(handler: Handler) -> dict[int, object]:
    """Install a handler of ``wanted_signals``; returns the previous ones."""
    return {number: signal.signal(number, handler) for number in wanted_signals()}


def wanted_signals() -> list[signal.Signals]:
    """The signals to handle. A hang-up that is ignored stays so: nohup's users want none."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [number for number in SIGNALS if number != signal.SIGHUP or not ignored]


class ExitHandler:
    """The handler while there is nothing to undo: prints a line and exits.

    It raises nothing: a module that is being loaded may print an exception, or swallow it.
    """

    def __init__(self, program: str, status: int) -> None:
        self.second: Handler = exit_with(status)  #: for further signals: prints nothing
        self._program = program
        self._status = status

    def __call__(self, number: int, frame: FrameType | None) -> None:
        handle_signals(self.second)
        line = f"{self._program}: interrupted by {signal.Signals(number).name}\n"
        with suppress(OSError):  # stderr is closed
            os.write(2, line.encode())
        os._exit(self._status)


def exit_with(status: int) -> Handler:
    return lambda number, frame: os._exit(status)


class Signals:
    """A context manager in which signals call a Stop.

    :param hold: before a master listens to the Stop, the first signal only calls it, so that
        nothing is interrupted while it is being made; the runner checks the Stop between steps.
        Without ``hold`` such a signal raises KeyboardInterrupt at any moment.
    """

    def __init__(self, stop: Stop, *, hold: bool = False) -> None:
        self._stop = stop
        self._hold = hold
        self._held_since_s: float | None = None
        self._before: dict[int, object] = {}

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        stop = self._stop
        if self._held_since_s is not None and not stop.graceful:
            if monotonic() - self._held_since_s > STARTUP_GRACE_S:
                os._exit(INTERRUPTED)
            return
        if stop.raised:
            os._exit(INTERRUPTED)
        again = stop.requested
        reason = f"interrupted by {signal.Signals(number).name}"
        if self._hold and not stop.graceful:
            self._held_since_s = monotonic()
            stop(reason)
            return
        if not again:
            stop(reason)
        if again or not stop.graceful:
            stop.end()

    def __enter__(self) -> Signals:
        self._before = handle_signals(self._on_signal)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            if self._stop.raised:  # it was reported, and cleaning up must not be interrupted
                handler = getattr(handler, "second", handler)
            signal.signal(number, handler)  # type: ignore[arg-type]
