"""What may watch a run: a progress display, a live page, a program that uses ssbench."""

from __future__ import annotations

from collections.abc import Sequence

from ssbench.core.live import RunProgress
from ssbench.core.model import Phase


class Observer:
    """Ignores everything; subclasses override what they need.

    Called by the master's loop, which waits meanwhile: return within milliseconds, and raise
    nothing. A run may have any number of observers, also none.
    """

    wants_results = False  #: call ``results``
    #: Fill operations, errors by cause, bytes, latencies and workers in ``RunProgress``.
    wants_counts = False

    def start_run(self, number: int, name: str) -> None:
        """A run of a series begins; not called for a single run.

        :param number: from 1.
        :param name: what it differs in from the others, such as ``users 8``.
        """

    def start_phase(self, phase: Phase, total: int | None = None, title: str = "") -> None:
        """A phase begins.

        :param total: operations that it has; None if it ends by time.
        :param title: what to show instead of the phase's usual name.
        """

    def results(self, columns: Sequence[Sequence[int]]) -> None:
        """A batch of results of the run: columns operation, error, first_byte_ns, last_byte_ns."""

    def update(self, progress: RunProgress) -> None:
        """The state of the phase, about twice a second."""

    def wait_for(self, text: str) -> None:
        """What the master waits for; "" when the wait is over. Called many times per second."""

    def info(self, text: str) -> None:
        """A message on the course of the run that is no warning."""

    def message(self, text: str) -> None:
        """Something that the user should know."""

    def end_phase(self) -> None:
        """The phase is over."""
