"""What the master makes of its workers' clocks: how results are corrected, and who is told.

A worker takes the phase's start for a time of its own clock once, by what the master knew of the
distance of their clocks then, and counts its results' offsets from it. That knowledge gets better
with every beat: the correction for it is put into the stat file whenever it changed, for the
batches that follow.

How wrong corrected offsets are: at most half of the smallest round trip that was seen up to then
(a millisecond or less in a quiet network), the most that a beat and its answer can differ in their
ways. Old round trips fade by 1 % a beat, so that clocks that drift apart are measured anew.
Durations are of one clock, and exact.
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
    """Decides when there is something to write, or to say, of a worker's clocks."""

    def __init__(self) -> None:
        self._written: dict[int, ClockRecord] = {}  # by worker's index, of the present phase
        self._alarmed: set[str] = set()  # worker ids

    def __repr__(self) -> str:
        return f"<ClockSkewTracker {len(self._written)} workers>"

    def enter(self) -> None:
        """Another phase begins."""
        self._written.clear()

    def record(
        self, worker: WorkerState, run: str, phase: Phase, start_ns: int
    ) -> ClockRecord | None:
        """What is to be written of a worker, before its next batch; None for nothing new.

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
        """A warning of a worker's wall clock, the first time that it is due; else ""."""
        offset_ns = worker.wall_offset_ns
        if offset_ns is None or worker.hello.worker_id in self._alarmed:
            return ""
        if abs(offset_ns) - worker.uncertainty_ns <= ALARM_NS:
            return ""
        self._alarmed.add(worker.hello.worker_id)
        return (
            f"The clock of worker {worker.name} is {_seconds(offset_ns)}"
            f" {'ahead of' if offset_ns > 0 else 'behind'} the master's: the report's times are"
            " the master's; logs of that host don't agree with them (is NTP running there?)"
        )


def _seconds(span_ns: int) -> str:
    seconds = abs(span_ns) / SECOND
    if seconds >= 120:
        return plural(round(seconds / 60), "minute")
    return f"{seconds:.3g} s"
