"""What may watch a run: a progress display, a live page, a program that uses ssbench."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ssbench.core.live import RunProgress
from ssbench.core.model import Phase


class Observer(Protocol):
    """Called by the master's loop, which waits meanwhile: return within milliseconds, and raise
    nothing. A run may have any number of observers, also none."""

    wants_results: bool  #: call ``results``
    #: Operations, errors by cause, bytes, latencies and workers in ``RunProgress`` are filled.
    wants_counts: bool

    def start_phase(self, phase: Phase, total: int | None = None, title: str = "") -> None:
        """A phase begins.

        :param total: operations that it has; None if it ends by time.
        :param title: what to show instead of the phase's usual name.
        """

    def results(self, columns: Sequence[Sequence[int]]) -> None:
        """A batch of results of the run: columns operation, error, first_byte_ns, last_byte_ns."""

    def update(self, progress: RunProgress) -> None:
        """The state of the phase, several times a second."""

    def wait_for(self, text: str) -> None:
        """What the master waits for; "" when the wait is over. Called many times per second."""

    def info(self, text: str) -> None:
        """A message on the course of the run that is no warning."""

    def message(self, text: str) -> None:
        """Something that the user should know."""

    def end_phase(self) -> None:
        """The phase is over."""


class SilentObserver:
    """An Observer that does nothing: a base for those that need some of its methods."""

    wants_results = wants_counts = False

    def start_phase(self, phase: Phase, total: int | None = None, title: str = "") -> None:
        pass

    def results(self, columns: Sequence[Sequence[int]]) -> None:
        pass

    def update(self, progress: RunProgress) -> None:
        pass

    def wait_for(self, text: str) -> None:
        pass

    def info(self, text: str) -> None:
        pass

    def message(self, text: str) -> None:
        pass

    def end_phase(self) -> None:
        pass
