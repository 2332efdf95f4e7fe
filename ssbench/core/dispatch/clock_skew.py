"""Clock skew between master and workers: correction of results, and warnings.

A worker converts the phase's start to its own clock once, with the clock offset known to the
master at that time, and measures the offsets of its results from there. The estimate improves with
every heartbeat. Whenever it changes, a correction is written to the stat file for the batches that
follow.

The error of corrected offsets is at most half of the smallest round trip so far (a millisecond or
less in a quiet network), because the two directions may take different times. Old round trips
are weighted 1 % worse per heartbeat, so that drifting clocks are measured again. Durations come
from one clock and are exact.
"""

from __future__ import annotations

from ssbench.core.dispatch.worker_registry import SECOND, WorkerState
from ssbench.core.messages import in_clock_range
from ssbench.core.model import Phase
from ssbench.core.records import ClockRecord
from ssbench.core.text import plural

#: Wall clocks that differ by more are worth a warning.
ALARM_NS = SECOND // 10
#: Corrections that differ by less are the same: rows of the time series are 10,000 times longer.
_SAME_NS = SECOND // 10_000


class ClockSkewTracker:
    """Decides when to write a ClockRecord, or to warn, about a worker's clocks."""

    def __init__(self) -> None:
        self._written: dict[int, ClockRecord] = {}  # by worker's index, in the current phase
        self._alarmed: set[str] = set()  # worker ids

    def __repr__(self) -> str:
        return f"<ClockSkewTracker {len(self._written)} workers>"

    def enter(self) -> None:
        """Another phase begins."""
        self._written.clear()

    def record(
        self, worker: WorkerState, run: str, phase: Phase, start_ns: int
    ) -> ClockRecord | None:
        """The record to write before a worker's next batch; None if nothing changed.

        :param start_ns: the phase's start on the master's clock.
        """
        if worker.ready[:2] != (run, phase):
            return None  # its origin is that of another phase
        if worker.origin_ns is None or worker.offset_ns is None:
            return None
        shift_ns = in_clock_range(worker.origin_ns - (start_ns + worker.offset_ns))
        if shift_ns is None:
            return None
        known = self._written.get(worker.index)
        if known is not None and abs(shift_ns - known.shift_ns) < _SAME_NS:
            return None
        record = ClockRecord(
            worker.index, phase, shift_ns, worker.uncertainty_ns, worker.wall_offset_ns
        )
        self._written[worker.index] = record
        return record

    def alarm(self, worker: WorkerState) -> str:
        """A warning about a worker's wall clock, once per worker; otherwise ""."""
        offset_ns = worker.wall_offset_ns
        if offset_ns is None or worker.hello.worker_id in self._alarmed:
            return ""
        if abs(offset_ns) - worker.uncertainty_ns <= ALARM_NS:
            return ""
        self._alarmed.add(worker.hello.worker_id)
        return (
            f"The clock of worker {worker.name} is {_seconds(offset_ns)}"
            f" {'ahead of' if offset_ns > 0 else 'behind'} the master's: the report uses"
            " the master's time; logs of that host differ from it (is NTP running there?)"
        )


def _seconds(span_ns: int) -> str:
    seconds = abs(span_ns) / SECOND
    if seconds >= 120:
        return plural(round(seconds / 60), "minute")
    return f"{seconds:.3g} s"
