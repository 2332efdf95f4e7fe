"""Ctrl-C and its kin: the first one ends a run in good order, the second at once.

A third one doesn't even wait until files are closed and workers have ended.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType

from gevent import get_hub

from ssbench.core.errors import ExitStatus

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """A context manager that turns signals into a word to whoever listens.

    While nobody listens a signal raises KeyboardInterrupt, as it would without this.
    """

    def __init__(self) -> None:
        self.reason = ""  #: of the first signal; "" while there was none
        self._listener: Callable[[str], None] | None = None
        self._raised = False
        self._before: dict[int, object] = {}

    @property
    def came(self) -> bool:
        """Whether there was a signal."""
        return bool(self.reason)

    def listen(self, listener: Callable[[str], None]) -> None:
        """From now on the first signal calls ``listener(reason)`` instead of raising."""
        self._listener = listener

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        again = self.came
        self.reason = f"interrupted by {signal.Signals(number).name}"
        if self._raised:
            os._exit(int(ExitStatus.INTERRUPTED))
        if self._listener is None or again:
            self._raised = True
            raise KeyboardInterrupt(self.reason)
        self._listener(self.reason)

    def __enter__(self) -> Interrupts:
        hub = get_hub()
        if KeyboardInterrupt not in hub.NOT_ERROR:
            # It reaches whoever waits all the same; a traceback on the way there helps nobody.
            hub.NOT_ERROR = (*hub.NOT_ERROR, KeyboardInterrupt)
        for number in SIGNALS:
            # nohup's users want no hang-up.
            if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            if self._raised:  # what unwinds is not to be unwound again
                handler = getattr(handler, "second", handler)
            signal.signal(number, handler)  # type: ignore[arg-type]
