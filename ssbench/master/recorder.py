"""What is recorded of a run: results, until that fails, metrics of hosts, and clocks of workers."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Protocol

from ssbench.core.columns import Schema
from ssbench.core.dispatch.workers import WorkerState
from ssbench.core.errors import MessageError, StatFileError
from ssbench.core.messages import Host, in_clock_range
from ssbench.core.model import SECOND_NS, Phase
from ssbench.core.records import MASTER, ClockRecord, HostRecord, Record
from ssbench.core.text import plural
from ssbench.host.live import HostLive, Sample

#: A worker reports each second once. Reports may be this much closer together, or ahead of the
#: master's clock.
_LEAST_GAP_S, _AHEAD_S = 0.5, 60.0
#: Wall clocks that differ by more are worth a warning.
ALARM_NS = SECOND_NS // 10
#: Clock corrections that differ by less count as equal: the time series has a row per second.
_SAME_NS = SECOND_NS // 10_000


class Recorder(Protocol):
    """Writes records and results: statfile.StatFileWriter."""

    def write(self, record: Record) -> None:
        """Write a record."""

    def append_results(self, phase: Phase, worker: int, schema: Schema, packed: bytes) -> None:
        """Write packed results."""

    def tick(self, now_s: float) -> None:
        """To be called some times a second."""


class SafeRecorder:
    """A Recorder around another one, or around none. After an error of that one nothing more is
    written: ``error`` says why, and the phase must end. A record that can't be encoded is left out.

    :param warn: called with the error, and with the first record that is left out.
    """

    def __init__(self, recorder: Recorder | None, warn: Callable[[str], None]) -> None:
        self._recorder = recorder
        self._warn = warn
        self.error: StatFileError | None = None
        self.left_out = 0  #: records that could not be encoded

    def __repr__(self) -> str:
        return f"<SafeRecorder {self._recorder} {self.error or ''}>"

    def begin(self, recorder: Recorder | None) -> None:
        """Record another run."""
        self._recorder, self.error, self.left_out = recorder, None, 0

    def write(self, record: Record) -> None:
        if self._recorder and not self.error:
            self._try(self._recorder.write, record)

    def append_results(self, phase: Phase, worker: int, schema: Schema, packed: bytes) -> None:
        if self._recorder and not self.error:
            self._try(self._recorder.append_results, phase, worker, schema, packed)

    def tick(self, now_s: float) -> None:
        """To be called some times a second."""
        if self._recorder and not self.error:
            self._try(self._recorder.tick, now_s)

    def _try(self, write: Callable[..., None], *args: object) -> None:
        try:
            write(*args)
        except MessageError as error:
            self.left_out += 1
            if self.left_out == 1:
                self._warn(f"The stat file lacks {error}; further ones are not reported")
        except StatFileError as error:
            self.error = error
            self._warn(str(error))


class HostMetricsRecorder:
    """Turns what is known of a phase's hosts and clocks into records.

    A worker converts the phase's start to its own clock once, with the clock offset known to the
    master at that time, and measures the offsets of its results from there. The estimate improves
    with every heartbeat. Whenever it changes, a correction goes to the stat file for the batches
    that follow.

    The error of corrected offsets is at most half of the smallest round trip so far (a millisecond
    or less in a quiet network), because the two directions may take different times. Old round
    trips are weighted 1 % worse per heartbeat, so that drifting clocks are measured again.
    Durations come from one clock and are exact.

    :param live: samples the master's own machine, and is running; None: it has no metrics.
    :param record: called with each record.
    :param warn: called with each warning.
    """

    def __init__(
        self,
        live: HostLive | None,
        record: Callable[[Record], None],
        warn: Callable[[str], None],
    ) -> None:
        self._live = live
        self._record = record
        self._warn = warn
        self._clocks: dict[int, ClockRecord] = {}  # by worker's index, of the present phase
        self._alarmed: set[str] = set()  # worker ids
        self._run, self._phase, self._start_ns = "", Phase.IDLE, 0
        self._newest_s: dict[int, float] = {}  # by worker's index, of the present phase
        self._host = platform.node()

    def __repr__(self) -> str:
        return f"<HostMetricsRecorder {self._phase.name} {len(self._clocks)} workers>"

    def enter(self, run: str, phase: Phase, start_ns: int) -> None:
        """A phase begins."""
        self._run, self._phase, self._start_ns = run, phase, start_ns
        self._clocks.clear()
        self._newest_s.clear()
        self._want(True)

    def leave(self) -> None:
        """The phase is over."""
        self.tick()
        self._phase = Phase.IDLE
        self._want(False)

    def _want(self, wanted: bool) -> None:
        if self._live:
            self._live.wanted = wanted

    def late(self, late_ns: int) -> None:
        """The master's loop ran a timer so late; it counts only within phases."""
        if self._live and self._phase is not Phase.IDLE:
            self._live.lag.add(late_ns)

    def tick(self) -> None:
        """Record the master's own metrics since the last call."""
        for sample in self._live.take() if self._live else ():
            self._record_sample(MASTER, self._host, sample)

    def on_host(self, worker: WorkerState, host: Host, now_ns: int) -> None:
        """Record a second of a worker's host. Seconds that it has reported already, and future
        ones, are ignored, so that the file grows by at most a record per second."""
        worker.cpu_percent = host.figures.get("process_cpu_percent")
        if worker.offset_ns is None:
            return
        at_s = (host.at_ns - worker.offset_ns - self._start_ns) / SECOND_NS
        newest_s = self._newest_s.get(worker.index, -1.0)
        if newest_s + _LEAST_GAP_S <= at_s <= (now_ns - self._start_ns) / SECOND_NS + _AHEAD_S:
            self._newest_s[worker.index] = at_s
            sample = Sample(host.at_ns - worker.offset_ns, host.boot_id, host.figures)
            self._record_sample(worker.index, worker.hello.host, sample)

    def check_clock(self, worker: WorkerState) -> None:
        """A worker's clocks were measured: record a change, before its next results, and warn."""
        if self._phase is not Phase.IDLE:
            self._record_clock(worker)
        offset_ns, name = worker.wall_offset_ns, worker.hello.worker_id
        if offset_ns is None or name in self._alarmed:
            return
        if abs(offset_ns) - worker.uncertainty_ns > ALARM_NS:
            self._alarmed.add(name)
            self._warn(
                f"The clock of worker {worker.name} is {_seconds(offset_ns)}"
                f" {'ahead of' if offset_ns > 0 else 'behind'} the master's: the report uses"
                " the master's time; logs of that host differ from it (is NTP running there?)"
            )

    def _record_clock(self, worker: WorkerState) -> None:
        if worker.ready[:2] != (self._run, self._phase):
            return  # its origin is that of another phase
        if worker.origin_ns is None or worker.offset_ns is None:
            return
        shift_ns = in_clock_range(worker.origin_ns - (self._start_ns + worker.offset_ns))
        known = self._clocks.get(worker.index)
        if shift_ns is None or (known and abs(shift_ns - known.shift_ns) < _SAME_NS):
            return
        record = self._clocks[worker.index] = ClockRecord(
            worker.index, self._phase, shift_ns, worker.uncertainty_ns, worker.wall_offset_ns
        )
        self._record(record)

    def _record_sample(self, index: int, host: str, sample: Sample) -> None:
        at_s = (sample.at_ns - self._start_ns) / SECOND_NS
        # An earlier one is a late report of the phase before.
        if self._phase is not Phase.IDLE and at_s >= 0:
            self._record(HostRecord(index, at_s, sample.figures, self._phase, host, sample.boot_id))


def _seconds(span_ns: int) -> str:
    seconds = abs(span_ns) / SECOND_NS
    if seconds >= 120:
        return plural(round(seconds / 60), "minute")
    return f"{seconds:.3g} s"
