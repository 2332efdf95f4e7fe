"""What watches a run: one observer, which keeps the state, and sinks, which show it.

The master's loop calls it; there is no thread of its own. A sink is one class: what it needs of
``Sink``, and a line in ``commands/base.py`` that adds it to the ``Watch``. ``LiveJson`` is the
shortest.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from ssbench.core.errors import SsbenchError
from ssbench.core.live import Observer, OperationProgress, RunProgress
from ssbench.core.model import ErrorKind, Phase, error_label
from ssbench.core.operations import OPERATIONS, row_of
from ssbench.core.text import due_text, latency_text, plural
from ssbench.host.files import OutputFile

if TYPE_CHECKING:
    from ssbench.core.records import EventRecord, RunHeader

#: Titles of phases for people. IDLE: containers are made before the workers have jobs.
TITLES: Mapping[Phase, str] = {
    Phase.IDLE: "Making containers",
    Phase.POPULATE: "Uploading initial objects",
    Phase.RUN: "Benchmark run",
    Phase.CLEANUP: "Deleting objects",
}
#: Their names for programs.
PHASES = {phase: phase.name.lower() for phase in Phase} | {Phase.IDLE: "containers"}
_EVERY_S = 1.0  #: between two states that a sink shows
_MARKS_SHOWN = 100
_IDENTITIES_SHOWN = 50  #: of up to 1000
_CAUSES_SHOWN = 4  #: of errors; a line has no space for more


class Totals(NamedTuple):
    """Operations of phases; replaced and never changed, since other threads read them."""

    outcomes: Counter[tuple[str, str, str]] = Counter()  #: phase, operation, result -> number
    errors: Counter[tuple[str, str]] = Counter()  #: phase, cause -> number
    statuses: Counter[tuple[str, str]] = Counter()  #: phase, HTTP status -> number
    #: phase, operation, size class -> bucket of core.live -> number of successes
    latencies: Mapping[tuple[str, str, str], Mapping[int, int]] = {}
    responses: Mapping[str, Mapping[int, int]] = {}  #: phase -> bucket -> number
    identities: Counter[tuple[str, str, str]] = Counter()  #: phase, identity, result -> number

    def plus(
        self,
        phase: Phase,
        progress: RunProgress | None,
        size_classes: Sequence[str] = (),
        identities: Sequence[str] = (),
    ) -> Totals:
        """With a phase's.

        :param size_classes: their names.
        :param identities: likewise.
        """
        if progress is None:
            return self
        name, outcomes, errors = PHASES[phase], Counter(self.outcomes), Counter(self.errors)
        statuses = Counter(self.statuses)
        for number, each in progress.operations.items():
            outcomes[name, row_of(number).name, "success"] += each.done
            outcomes[name, row_of(number).name, "failure"] += each.failed
            if each.lost_races:
                outcomes[name, row_of(number).name, "lost_race"] += each.lost_races
        for kind, count in progress.errors_by_cause.items():
            errors[name, error_label(kind)] += count
        for status, count in progress.errors_by_status.items():
            statuses[name, str(status)] += count
        latencies, responses = dict(self.latencies), dict(self.responses)
        for (number, size_class), found in progress.latencies.items():
            known = 0 <= size_class < len(size_classes)
            key = name, row_of(number).name, size_classes[size_class] if known else ""
            latencies[key] = Counter(latencies.get(key, {})) + Counter(found)
        if progress.responses:
            responses[name] = Counter(responses.get(name, {})) + Counter(progress.responses)
        by_identity = Counter(self.identities)
        for identity, each in _named(progress, identities):
            by_identity[name, identity, "success"] += each.done
            by_identity[name, identity, "failure"] += each.failed
        return Totals(outcomes, errors, statuses, latencies, responses, by_identity)


def _named(
    progress: RunProgress, identities: Sequence[str]
) -> Iterator[tuple[str, OperationProgress]]:
    """Names and operations of the identities."""
    for number, each in progress.identities.items():
        yield identities[number] if number < len(identities) else f"identity {number + 1}", each


class LiveState(Struct, frozen=True):
    """What there is to see of a run; replaced and never changed, since other threads read it."""

    phase: Phase = Phase.IDLE
    title: str = ""  #: of the phase and, in a series, the run; "": no phase
    progress: RunProgress | None = None  #: None: the phase has only begun, or is over
    over: bool = False  #: the phase has ended
    phases: int = 0  #: that have begun
    run: tuple[int, str] | None = None  #: number and name, of a run of a series
    waiting: str = ""  #: what the master waits for; "": nothing
    waits_since_s: float = 0.0  #: by the clock of ``now_s``
    before: Totals = Totals()  #: of the phases that are over
    header: RunHeader | None = None  #: of the run
    marks: tuple[EventRecord, ...] = ()  #: of the run; the newest
    now_s: float = 0.0  #: monotonic
    time_s: float = 0.0  #: since 1970

    @property
    def totals(self) -> Totals:
        """Of all phases so far, of all runs of a series."""
        return self.before.plus(self.phase, self.progress, self.size_classes, self.identities)

    @property
    def size_classes(self) -> list[str]:
        """Their names."""
        return [each["name"] for each in self.header.scenario["sizes"]] if self.header else []

    @property
    def identities(self) -> list[str]:
        """Their names; []: there is but one."""
        return [*self.header.store.get("identities", ())] if self.header else []

    @property
    def waited_s(self) -> float:
        return self.now_s - self.waits_since_s if self.waiting else 0.0


class Sink:
    """Shows the state of a run somewhere. Ignores everything; subclasses override what they need.

    Called as observers are: return within milliseconds, and raise nothing.
    """

    wants_results = False  #: as of Observer
    wants_counts = True
    at_once = False  #: call ``show`` also when a phase begins, and when a wait is over

    def show(self, state: LiveState) -> None:
        """The state now: once a second, and when a phase is over."""

    def results(self, columns: Sequence[Sequence[int]]) -> None:
        """As of Observer."""

    def message(self, text: str, *, info: bool = False) -> None:
        """Something that the user should know; ``info``: on the course of the run, no warning."""

    def close(self) -> None:
        """Nothing more will be shown."""


class Watch(Observer):
    """The observer: keeps ``state``, and calls each sink when it is time. Closes them at exit.

    :param clock: monotonic, seconds.
    :param wall_clock: seconds since 1970.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.state = LiveState()
        self.titles = TITLES
        self._clock, self._wall_clock = clock, wall_clock
        self._sinks: dict[Sink, float] = {}  # when each is due

    def __repr__(self) -> str:
        return f"<Watch {', '.join(type(sink).__name__ for sink in self._sinks)}>"

    def add(self, sink: Sink) -> None:
        self._sinks[sink] = 0.0
        self.wants_results = self.wants_results or sink.wants_results
        self.wants_counts = self.wants_counts or sink.wants_counts

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *exc: object) -> None:
        with ExitStack() as stack:
            for sink in self._sinks:
                stack.callback(sink.close)
            self.end_phase()

    def describe_run(self, header: RunHeader) -> None:
        self._set(header=header, marks=())

    def mark(self, event: EventRecord) -> None:
        self._set(marks=(*self.state.marks[-_MARKS_SHOWN + 1 :], event))
        self.info(f"Mark by {event.who}: {event.text}" if event.who else f"Mark: {event.text}")

    def start_run(self, number: int, name: str) -> None:
        self._set(run=(number, name))

    def start_phase(self, phase: Phase, total: int | None = None, title: str = "") -> None:
        self.end_phase()
        title, run = title or self.titles[phase], self.state.run
        if run is not None:
            title += f" ({run[0]}: {run[1]})"
        self._set(phase=phase, title=title, phases=self.state.phases + 1)
        for sink in self._sinks:
            self._sinks[sink] = self.state.now_s + (0 if sink.at_once else _EVERY_S)
        self._show_at_once()

    def update(self, progress: RunProgress) -> None:
        self._set(progress=progress)
        self._show_due()

    def wait_for(self, text: str) -> None:
        if text:
            since_s = self.state.waits_since_s if self.state.waiting else self._clock()
            self._set(waiting=text, waits_since_s=since_s)
            self._show_due()
        elif self.state.waiting:
            self._set(waiting="")
            self._show_at_once()

    def end_phase(self) -> None:
        if not self.state.title:
            return
        self._set(over=True)
        for sink in self._sinks:
            sink.show(self.state)
        self._set(phase=Phase.IDLE, title="", progress=None, over=False, before=self.state.totals)

    def results(self, columns: Sequence[Sequence[int]]) -> None:
        for sink in self._sinks:
            sink.results(columns)

    def message(self, text: str) -> None:
        for sink in self._sinks:
            sink.message(text)

    def info(self, text: str) -> None:
        for sink in self._sinks:
            sink.message(text, info=True)

    def _set(self, **changes: Any) -> None:
        times = {"now_s": self._clock(), "time_s": self._wall_clock()}
        self.state = replace(self.state, **times, **changes)

    def _show_at_once(self) -> None:
        for sink in self._sinks:
            if sink.at_once:
                sink.show(self.state)

    def _show_due(self) -> None:
        """Call the sinks whose time has come. It counts from when it was due: updates are 0.5 s
        apart."""
        now_s = self.state.now_s
        for sink, due_s in self._sinks.items():
            if now_s >= due_s:
                next_s = due_s + _EVERY_S
                self._sinks[sink] = next_s if next_s > now_s else now_s + _EVERY_S
                sink.show(self.state)


def state_map(state: LiveState) -> dict[str, Any]:
    """The state of a phase as JSON values, by the names that docs/reference/programs explains."""
    progress, (run, run_name) = state.progress, state.run or (None, None)
    assert progress is not None  # nosec B101 # for the type checker
    return {
        "run": run,
        "run_name": run_name,
        "time_s": round(state.time_s, 3),
        "phase": PHASES[state.phase],
        "over": state.over,
        "elapsed_s": round(progress.elapsed_s, 3),
        "remaining_s": None if state.over else _rounded(progress.remaining_s),
        "done": progress.done,
        "total": progress.total,
        "errors": progress.errors,
        "lost_races": progress.lost_races,
        "operations_per_s": round(progress.rate, 3),
        "due_per_s": progress.target_rate,
        "bytes_per_s": round(progress.bytes_rate, 3),
        "p50_s": _rounded(progress.p50_s),
        "p99_s": _rounded(progress.p99_s),
        "response_p50_s": _rounded(progress.response_p50_s),
        "response_p99_s": _rounded(progress.response_p99_s),
        "workers": progress.workers,
        "users": progress.users,
        "late": progress.late,
        "rate_missed": progress.rate_missed,
        "operations": {
            row_of(number).name: {
                "count": each.done,
                "errors": each.failed,
                "lost_races": each.lost_races,
                "operations_per_s": round(each.rate, 3),
                "p50_s": _rounded(each.p50_s),
                "p99_s": _rounded(each.p99_s),
            }
            for number, each in sorted(progress.operations.items())
        },
        "errors_by_cause": {
            error_label(kind): count for kind, count in sorted(progress.errors_by_cause.items())
        },
        "errors_by_status": {
            str(status): count for status, count in sorted(progress.errors_by_status.items())
        },
        "identities": {
            name: {
                "count": each.done,
                "errors": each.failed,
                "operations_per_s": round(each.rate, 3),
            }
            for name, each in _named(progress, state.identities)
        },
        "workers_by_state": workers_by_state(progress),
        "marks": [{"time_s": e.at_s, "text": e.text, "who": e.who} for e in state.marks],
    }


def workers_by_state(progress: RunProgress) -> dict[str, int]:
    return dict(Counter(each.state for each in progress.workers_seen))


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 9)


class LiveJson(Sink):
    """Writes to a file or a named pipe, and never waits for its reader: a line that a full pipe
    does not take is dropped, and ``dropped`` of the next says so. Where nothing more can be
    written, the run goes on, and a message at its end says why.

    :param tell: called with that message.
    :raises SsbenchError: the file can't be opened; a named pipe needs a reader.
    """

    def __init__(self, path: str, tell: Callable[[str], None]) -> None:
        self._path, self._tell = path, tell
        try:
            self._file = OutputFile(path, os.O_TRUNC | os.O_NONBLOCK, 0o600)
        except OSError as error:
            raise SsbenchError(f"--live-json {path}: can't be written: {error.strerror}") from error
        self._rest = b""  # of a line that was written in part
        self._dropped = 0
        self._fault: OSError | None = None

    def show(self, state: LiveState) -> None:
        if self._fault is not None or state.progress is None:
            return
        try:
            if self._rest:
                self._rest = self._rest[os.write(self._file.descriptor, self._rest) :]
            if self._rest:
                self._dropped += 1
                return
            values = {**state_map(state), "dropped": self._dropped}
            line = f"{json.dumps(values)}\n".encode("ascii")
            self._rest = line[os.write(self._file.descriptor, line) :]
        except BlockingIOError:
            self._dropped += 1
        except OSError as error:
            self._fault = error

    def close(self) -> None:
        self._file.close()
        if self._fault and not isinstance(self._fault, BrokenPipeError):  # the reader has ended
            self._tell(f"--live-json {self._path}: is incomplete: {self._fault.strerror}")


class Figure(NamedTuple):
    """A figure of a phase in words."""

    label: str
    text: str
    level: str = ""  #: "warning" or "error"
    history: Sequence[float] = ()  #: for a chart: a value of each of the last seconds


def figures(progress: RunProgress) -> Iterator[Figure]:
    """What displays show of a phase."""
    done = f"{progress.done:,}" + (f" of {progress.total:,}" if progress.total else "")
    rates = [rate for rate, _ in progress.history]
    yield Figure("Operations", f"{done}, {rate_text(progress)}", "", rates)
    moved = [per_s for _, per_s in progress.history]
    if any(moved) or progress.bytes_rate:
        yield Figure("Data", f"{progress.bytes_rate / 1e6:,.1f} MB/s", "", moved)
    if progress.p50_s is not None:
        yield Figure("Latency", ", ".join(latencies(progress.p50_s, progress.p99_s)))
    if progress.target_rate is not None:
        backlog = f"{plural(progress.late, 'operation')} due and not started"
        backlog += "; RATE MISSED" if progress.rate_missed else ""
        yield Figure("Backlog", backlog, "warning" if progress.late or progress.rate_missed else "")
        if progress.response_p50_s is not None:
            response = latencies(progress.response_p50_s, progress.response_p99_s)
            yield Figure("Response", ", ".join(response))
    if progress.lost_races:
        share = 100 * progress.lost_races / max(progress.done, 1)
        yield Figure("Lost races", f"{progress.lost_races:,} ({share:.2g} %)")
    if progress.errors:
        share = 100 * progress.errors / max(progress.done, 1)
        causes = ", ".join(error_causes(progress))
        errors = f"{progress.errors:,} ({share:.2g} %)" + (f": {causes}" if causes else "")
        yield Figure("Errors", errors, "error")


def operation_rows(progress: RunProgress) -> list[tuple[str, ...]]:
    """A table of operations, with the heads of its columns; [] if there are none. "0" in the last
    column: no errors."""
    timed = ("p50", "p99") if progress.p50_s is not None else ()
    raced = ("lost races",) if progress.lost_races else ()
    rows: list[tuple[str, ...]] = []
    for number, row in sorted(progress.operations.items()):
        share = 100 * row.failed / max(row.done + row.failed + row.lost_races, 1)
        errors = f"{row.failed:,} ({share:.2g} %)" if row.failed else "0"
        times = [latency_text(each) for each in (row.p50_s, row.p99_s) if timed]
        races = [f"{row.lost_races:,}" for _ in raced]
        name = OPERATIONS[number].name if number in OPERATIONS else f"operation {number}"
        rows.append((name, f"{row.done:,}", f"{row.rate:,.0f}", *times, *races, errors))
    return [("operation", "done", "per s", *timed, *raced, "errors"), *rows] if rows else []


def identity_rows(state: LiveState) -> list[tuple[str, ...]]:
    """A table of identities, with the heads of its columns; [] if there is but one. First those
    with most errors, then the slowest; "0" in the last column: no errors."""
    assert state.progress is not None  # nosec B101 # for the type checker
    rows = sorted(
        _named(state.progress, state.identities),
        key=lambda row: (-row[1].failed, row[1].rate, row[1].done),
    )
    more = len(rows) - _IDENTITIES_SHOWN
    shown = [
        (name, f"{each.done:,}", f"{each.rate:,.0f}", f"{each.failed:,}")
        for name, each in rows[:_IDENTITIES_SHOWN]
    ]
    left_out = [(f"and {more:,} more", "", "", "0")] if more > 0 else []
    return [("identity", "done", "per s", "errors"), *shown, *left_out] if rows else []


def error_causes(progress: RunProgress) -> list[str]:
    """``10 network timeout``, ``2 status 503``: the most frequent causes first."""
    causes = {
        error_label(kind): count
        for kind, count in progress.errors_by_cause.items()
        if kind != ErrorKind.STATUS
    }
    causes |= {f"status {code}": count for code, count in progress.errors_by_status.items()}
    ordered = sorted(causes.items(), key=lambda item: -item[1])
    shown = [f"{count:,} {label}" for label, count in ordered[:_CAUSES_SHOWN]]
    others = sum(count for _, count in ordered[_CAUSES_SHOWN:])
    return [*shown, f"{others:,} of other causes"] if others else shown


def rate_text(progress: RunProgress) -> str:
    """``118/s``; in an open loop ``118/s of 120/s due``, in a ramp ``118/s of 117.3/s due``."""
    rate = progress.target_rate
    target = "" if rate is None else f" of {due_text(rate)}/s due"
    return f"{progress.rate:,.0f}/s{target}"


def latencies(p50_s: float | None, p99_s: float | None) -> list[str]:
    """``p50 1.2 ms``, ``p99 3.4 ms``."""
    return [f"p50 {latency_text(p50_s)}", f"p99 {latency_text(p99_s)}"]
