"""Ctrl-C and its kin: the first one ends a run in good order, the second at once.

A third one doesn't even wait until files are closed and workers have ended. A start is another
matter: what it has begun is put away within moments, and nothing may come between.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from time import monotonic, sleep
from types import FrameType
from typing import TypeVar

from ssbench.core.errors import ExitStatus
from ssbench.core.outcome import outcome_of

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: How long after the first signal a start has to put away what it began, come what may. An embedded
#: Swift alone has five seconds to end by itself.
STARTUP_GRACE_S = 10.0
_POLL_INTERVAL_S = 0.05

T = TypeVar("T")


class Interrupts:
    """A context manager that turns signals into a word to whoever listens.

    :param hold: until somebody listens, signals are only noted: nothing is torn apart while it is
        made, and what was made can be put away again. ``check`` raises KeyboardInterrupt after
        one. Otherwise a signal raises it at any moment while nobody listens.
    """

    def __init__(self, *, hold: bool = False) -> None:
        self.reason = ""  #: of the first signal; "" while there was none
        self._hold = hold
        self._held_s: float | None = None  #: when the first came, where it was noted only
        self._listener: Callable[[str], None] | None = None
        self._raised = False
        self._before: dict[int, object] = {}

    @property
    def received(self) -> bool:
        """Whether there was a signal."""
        return bool(self.reason)

    def listen(self, listener: Callable[[str], None]) -> None:
        """From now on the first signal calls ``listener(reason)``; one that was noted, at once."""
        _quiet_hub()
        self._listener = listener
        if self._held_s is not None:
            self._held_s = None
            listener(self.reason)

    def check(self) -> None:
        """:raises KeyboardInterrupt: where a signal was noted."""
        if self._held_s is not None:
            self.end()

    def end(self) -> None:
        """After a signal: end as if nobody had listened.

        :raises KeyboardInterrupt: always.
        """
        self._raised = True
        raise KeyboardInterrupt(self.reason)

    def sleep(self, seconds: float) -> None:
        """Sleep, but for no moment longer than a noted signal lets one. Raises as ``check``."""
        sleep(seconds)
        self.check()

    def run_interruptible(
        self, work: Callable[[], T], waiting: Callable[[], None] = lambda: None
    ) -> T:
        """What the work gives, or raises, in a thread; it is left to itself where a signal comes.

        :param waiting: called again and again meanwhile.
        :raises KeyboardInterrupt: then.
        """
        from threading import Event, Thread

        outcomes: list[Callable[[], T]] = []
        done = Event()

        def run() -> None:
            outcomes.append(outcome_of(work))
            done.set()

        Thread(target=run, daemon=True).start()
        while not done.wait(_POLL_INTERVAL_S):
            self.check()
            waiting()
        return outcomes[0]()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._held_s is not None:
            if monotonic() - self._held_s > STARTUP_GRACE_S:
                os._exit(int(ExitStatus.INTERRUPTED))
            return
        again = self.received
        self.reason = f"interrupted by {signal.Signals(number).name}"
        if self._raised:
            os._exit(int(ExitStatus.INTERRUPTED))
        if self._hold and self._listener is None:
            self._held_s = monotonic()
            return
        if self._listener is None or again:
            self._raised = True
            raise KeyboardInterrupt(self.reason)
        self._listener(self.reason)

    def __enter__(self) -> Interrupts:
        if not self._hold:
            _quiet_hub()
        for number in SIGNALS:
            # nohup's users want no hang-up.
            if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            if self._raised:  # it is told already, and what unwinds is not to be unwound again
                handler = getattr(handler, "second", handler)
            signal.signal(number, handler)  # type: ignore[arg-type]


def _quiet_hub() -> None:
    """KeyboardInterrupt reaches whoever waits; a traceback on the way there helps nobody."""
    from gevent import get_hub  # which takes long to load

    hub = get_hub()
    if KeyboardInterrupt not in hub.NOT_ERROR:
        hub.NOT_ERROR = (*hub.NOT_ERROR, KeyboardInterrupt)
