"""RunStats: the sums over a run's records. It computes numbers, and formats nothing.

Memory grows with the number of groups (operation and size class), workers, kinds of error and
seconds of the run, not with the number of operations.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ssbench.core.errors import MessageError, UsageError
from ssbench.core.model import NONE_NS, SECOND_NS, ErrorKind, Group, Phase, Stage
from ssbench.core.operations import CRUD, Body, row_of
from ssbench.core.records import (
    ClockRecord,
    EventRecord,
    HostRecord,
    MarkRecord,
    PhaseRecord,
    ProfileRecord,
    Record,
    ResultBatch,
    RunFooter,
    RunHeader,
    WorkerRecord,
)
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.stats.budget import OTHERS, OTHERS_NAME, Budget
from ssbench.core.stats.headroom import HeadroomVerdict, Hosts, judge
from ssbench.core.stats.histogram import Histogram
from ssbench.core.stats.results import LEFT_OUT, PhaseResults, ResultGroup
from ssbench.core.stats.run_records import RunRecords
from ssbench.core.stats.selection import WHOLE, Chosen, Selection
from ssbench.core.stats.series import Second, TimeSeries
from ssbench.core.stats.tally import (
    Basis,
    Breakdown,
    Counts,
    Errors,
    Source,
    SourceTally,
    Tallies,
    Tally,
    Throughput,
    Verified,
)
from ssbench.core.stats.windows import (
    InTime,
    LastStart,
    Punctuality,
    Span,
    Windows,
    gaps_ns,
)
from ssbench.core.text import plural

if TYPE_CHECKING:
    from typing_extensions import Self

_MOST_NOTES = 10  #: of drivers, on the store
#: Records on which the figures of results do not depend.
_APART = (HostRecord, WorkerRecord, ProfileRecord, RunFooter)
_ENOUGH_ROWS = 1 << 17  #: rows that are counted at a time
_NEVER_STARTED = 0.02  #: share of a stage's or group's operations: then it missed its rate
_SURE = 3.79  #: standard deviations of the number of random arrivals
_LONG_TAIL = 0.05  #: share of the time of the rates; a shorter tail does not distort them


class AfterEnd(NamedTuple):
    """Operations that completed after the load's end, including failed ones."""

    operations: int
    seconds: float  #: until the last of them


class UpToLastStart(NamedTuple):
    """The rate up to the last start, while all users were busy."""

    share_after: float  #: share of the time of the run's rates that follows the last start
    throughput: Throughput


class RunStats:
    """The sums of one run.

    ``add`` takes every record in the order of the stat file; ``of`` does that. Header, footer and
    results may be missing.

    :param end_ns: end of the load, as an offset from the run phase's start. A cool-down needs it in
        advance, because its results precede the mark of the end.
    :param budget: limits what is kept of a file; None: nothing is limited.
    :param chosen: the part of the run that counts.
    """

    def __init__(
        self,
        end_ns: int | None = None,
        *,
        budget: Budget | None = None,
        chosen: Selection = WHOLE,
    ) -> None:
        self._budget = budget or Budget()
        self.chosen = chosen
        self.run = RunRecords(self._budget, chosen)
        self._chosen = Chosen(chosen, self.run.names_of)
        self.breakdown = Breakdown(self._budget)
        self.left_out = 0  #: operations in warm-ups and the cool-down
        self._tallies = Tallies()
        self.errors = Errors(self._budget)  #: of the run phase
        # Of all phases except the run.
        self._phases: defaultdict[Phase, Counts] = defaultdict(Counts)
        self._phase_errors: defaultdict[Phase, Errors] = defaultdict(partial(Errors, self._budget))
        self._requests: Counter[int] = Counter()  # by worker
        self._origins: dict[Phase, int] = {}
        self._end_ns = end_ns
        self._windows = Windows(Scenario.of_header({}), budget=self._budget)
        self._last_start: LastStart | None = None  # of a run whose operations may end it
        self._after_end = 0
        self._last_after_end_ns = 0
        self.series = TimeSeries(self._budget)
        self.clocks: dict[int, ClockRecord] = {}  #: the newest, by worker
        self.hosts = Hosts(self.run, self._budget)
        self._shifts: dict[int, int] = {}  # of the phase, by worker
        self.verified: Verified | None = None  #: None without --verify
        #: What drivers noted of the store, in the order of the results.
        self.store_notes: dict[str, None] = {}
        #: Of an open loop, of all operations that count: from due to start; what was in time for
        #: the load's end; and whether each stage, and each group of users, kept its rate.
        self.lateness = Histogram()
        self.in_time = InTime()
        self.punctuality: defaultdict[int, Punctuality] = defaultdict(Punctuality)
        self.punctuality_of_group: defaultdict[int, Punctuality] = defaultdict(Punctuality)

    @classmethod
    def of(
        cls,
        records: Iterable[Record],
        end_ns: int | None = None,
        budget: Budget | None = None,
        chosen: Selection = WHOLE,
    ) -> Self:
        """The sums of all records of a file.

        Many results are counted at a time, so that small batches cost no more.
        """
        stats = cls(end_ns, budget=budget, chosen=chosen)
        waiting: defaultdict[Phase, list[ResultBatch]] = defaultdict(list)
        rows = 0
        for number, record in enumerate(records):
            if isinstance(record, ResultBatch):
                waiting[record.phase].append(record)
                rows += record.count
                if rows < _ENOUGH_ROWS:
                    continue
            elif isinstance(record, _APART):
                stats.add(record)
                continue
            elif not stats._keeps(record, number, between=rows > 0):
                continue
            for phase, batches in waiting.items():
                stats._add_results(phase, batches)
            waiting.clear()
            rows = 0
            if not isinstance(record, ResultBatch):
                stats.add(record)
        for phase, batches in waiting.items():
            stats._add_results(phase, batches)
        stats.run.left_out += stats._budget.left_out
        return stats

    def _keeps(self, record: Record, number: int, *, between: bool) -> bool:
        """Whether there is room for a record on which the figures of results depend.

        :param between: whether it ends what can be counted at a time.
        """
        what = "clocks of workers"
        if isinstance(record, MarkRecord):
            what = "stages" if record.name == "stage" else "changes of the number of users"
        elif isinstance(record, PhaseRecord):
            what = "starts of phases"
        keeps = self._budget.keeps(what, number)
        return keeps and (not between or self._budget.keeps("records between results", number))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.run.scenario.name!r}: {self.total()!r}>"

    # What comes in

    def add(self, record: Record) -> None:
        if isinstance(record, ResultBatch):
            self._add_results(record.phase, [record])
        elif isinstance(record, PhaseRecord):
            self._origins[record.phase] = _wall_ns(record.started_at)
            self._shifts.clear()
        elif isinstance(record, HostRecord):
            if self._windows.covers(record.at_s):
                self.hosts.add(record)
        elif isinstance(record, ClockRecord):
            self._shifts[record.worker] = record.shift_ns
            if record.phase is Phase.RUN:
                self.clocks[record.worker] = record
        elif not isinstance(record, ResultBatch):
            self.run.add(record)
            if isinstance(record, RunHeader):
                scenario = self.run.scenario
                self._windows = Windows(scenario, self._end_ns, self._budget, self.chosen)
                if scenario.operation_count is not None:
                    self._last_start = LastStart()
                if record.verify:
                    self.verified = self.verified or Verified()
            elif isinstance(record, MarkRecord):
                self._windows.mark(record)

    # What comes out

    @property
    def out_of_range(self) -> int:
        """Successes with a latency or a completion time that is impossible or too long."""
        total = self._tallies.total()
        return self.series.untimed + total.last_byte.histogram.out_of_range

    @property
    def unaccounted(self) -> int | None:
        """Operations that were sent, are not lost, and have no result in the file.

        Negative if there are more results than sent operations. None: it is unknown how many were
        sent, or the results are of a part of the run.
        """
        sent = None if self.chosen else self.run.sent
        here = self.total().operations + self.left_out
        return None if sent is None else sent - here - self.run.lost

    @property
    def operations(self) -> list[int]:
        """Numbers of the CRUD operations, then of others with results; of a part only its own."""
        others = self._tallies.operations - set(CRUD)
        asked = self.chosen.operation_names
        crud = [row for row in CRUD if not asked or row.name in asked]
        return [*crud, *sorted(others)]

    @property
    def stage_count(self) -> int:
        """Number of stages of the load; at least 1."""
        return max(self._tallies.stage_count, len(self.run.stages))

    def stage_seconds(self, index: int) -> float | None:
        """Length of the part of a stage that counts; None: unknown."""
        spans = self.run.spans
        return spans[index].seconds if index < len(spans) else None

    def total(
        self,
        operation: int | None = None,
        size_class: int | None = None,
        stage: int | None = None,
    ) -> Tally:
        """The sum over the groups; None: all. Read-only."""
        total = self._tallies.total(operation, size_class, stage)
        total.has_bytes = self._knows_bytes(operation)
        whole = self._tallies.total()
        total.has_items, total.has_pages = whole.items > 0, whole.pages > 0
        total.has_races = whole.lost_races > 0
        self._set_times(total, stage)
        return total

    def workers(self) -> list[Source]:
        """Those with results, in the order of their indexes."""
        found = []
        for index, tally in sorted(self.breakdown.sums("worker").items()):
            worker = self.run.workers.get(index)
            name = OTHERS_NAME if index == OTHERS else self.run.worker_id(index)
            found.append(Source(name, worker.host if worker else "", self._timed(tally)))
        return found

    def endpoints(self) -> list[Source]:
        """The storage URLs with results, in the order in which they were given; none where the
        store has no URL."""
        return self._sources("url", self.run.endpoint)

    def addresses(self) -> list[Source]:
        """The addresses with results, of names that have several."""
        return self._sources("address", self.run.address)

    def identities(self) -> list[Source]:
        """The identities, also those without a result; none where there was but one, without a
        name."""
        found = {each.name: each for each in self._sources("identity", self.run.identity)}
        chosen = self.chosen.identity_names
        if OTHERS_NAME in found or not self.total().count:
            return [*found.values()]
        for name in self.run.identities:
            if name not in found and (not chosen or name in chosen):
                found[name] = Source(name, "", self._timed(SourceTally()))
        order = {name: at for at, name in enumerate(self.run.identities)}
        return sorted(found.values(), key=lambda each: order.get(each.name, len(order)))

    def _sources(self, column: str, name_of: Callable[[int], str]) -> list[Source]:
        found: dict[str, SourceTally] = {}
        for number, tally in sorted(self.breakdown.sums(column).items()):
            name = OTHERS_NAME if number == OTHERS else name_of(number)
            if name:
                found.setdefault(name, SourceTally()).merge(tally)
        return [Source(name, "", self._timed(tally)) for name, tally in found.items()]

    def groups(self) -> list[Source]:
        """The groups of users with results, each with what was asked of it; none where all users
        are alike."""
        found, scenario = [], self.run.scenario
        for number, tally in sorted(self.breakdown.sums("group").items()):
            own = [
                (at, each)
                for at, stage in enumerate(scenario.load)
                for index, each in enumerate(stage.groups, stage.first_group)
                if index == number
            ]
            if not own:
                continue
            asked = {_asked(group): None for _at, group in own}
            text = " or ".join(asked) if len(asked) < 4 else "as of its stages"
            if self._misses(self.punctuality_of_group.get(number), own):
                text += ", RATE MISSED"
            only = own[0][0] if len(own) == 1 and len(scenario.stages) > 1 else None
            name = scenario.crowds[number].name or "others"
            found.append(Source(name, text, self._timed(tally, only)))
        return found

    def missed_rate(self, stage: int) -> bool:
        """Whether a stage of an open loop missed its rate."""
        load = self.run.scenario.load
        groups = load[stage].groups if stage < len(load) else ()
        own: list[tuple[int, Stage | Group]] = [(stage, group) for group in groups]
        if not own and stage < len(load):
            own = [(stage, load[stage])]
        return self._misses(self.punctuality.get(stage), own)

    def _misses(self, found: Punctuality | None, own: Sequence[tuple[int, Stage | Group]]) -> bool:
        """Whether the loads of these stages missed their rates, by response times or, of few
        operations, by the number that fell due and was never started."""
        if (found and found.missed) or not self.run.late or any(self.chosen.names):
            return bool(found and found.missed)
        expected = 0.0
        for stage, of in own:
            to = of.rate if of.rate_to is None else of.rate_to
            ends = of.rate or 0.0, to or 0.0
            mean = min(ends) if self.run.scenario.warmup_of(stage) else sum(ends) / 2
            expected += mean * (self.stage_seconds(stage) or 0.0)
        is_random = self.run.scenario.arrivals != "uniform"
        chance = _SURE * expected**0.5 if is_random else 2 * len(own)
        started = found.in_time.due if found else 0
        return expected - started > max(chance, _NEVER_STARTED * expected)

    def stages(self) -> list[Source]:
        """The stages of the load with results, where there are several."""
        names = [self.run.scenario.stage_name(at) for at in range(self.stage_count)]
        found = []
        for at, name in enumerate(names) if len(names) > 1 else ():
            total, sums = self.total(stage=at), SourceTally()
            if total.operations:
                sums.merge(total)
                sums.service.merge(total.last_byte.histogram)
                sums.response = total.response.histogram if total.has_due_times else None
                only = name if names.count(name) == 1 else f"{name} ({at + 1})"
                found.append(Source(only, "", self._timed(sums, at)))
        return found

    def _timed(self, tally: SourceTally, stage: int | None = None) -> SourceTally:
        tally.has_bytes = self._knows_bytes(None)
        self._set_times(tally, stage)
        return tally

    def _set_times(self, counts: Counts, stage: int | None = None) -> None:
        """What the rates of a part of the run are divided by, so that those of all parts add up.

        :param stage: to which the part is limited; None: all.
        """
        if stage is None and counts.first_start_ns is not None and counts.last_end_ns is not None:
            origin_ns = self._origin_ns
            counts.left_out_ns = gaps_ns(
                self.run.spans, counts.first_start_ns - origin_ns, counts.last_end_ns - origin_ns
            )
        windows = self.rate_windows
        if windows is not None:
            of = windows if stage is None else windows[stage : stage + 1]
            counts.window_ns = sum(window.high_ns - window.low_ns for window in of)

    @property
    def no_bytes(self) -> str:
        """Why it is unknown how many bytes all operations moved; "" where it is known."""
        if self.run.no_store:
            return "no store was involved (--noop), so nothing was moved"
        unknown = "bytes read" in self.run.unrecorded
        return "files of ssbench 0.3.9 do not record bytes read" if unknown else ""

    def _knows_bytes(self, operation: int | None) -> bool:
        """Whether it is known how many bytes this operation moved; None: all together."""
        if self.run.no_store or operation is None:
            return not self.no_bytes
        sends = row_of(operation, self.run.operations).body is not Body.RECEIVED
        return sends or not self.no_bytes

    @property
    def rate_basis(self) -> Basis:
        """How the rates count operations, and over what time."""
        run = self.run
        if "load" in run.unrecorded:
            return Basis.LEGACY
        planned, sent = run.scenario.operation_count, run.sent
        if sent is None:
            sent = self._tallies.total().operations + self.left_out + run.lost
        ended_with_operations = planned is not None and sent == planned and not self._open_loop
        if run.footer is not None and run.footer.ended == "exhausted":
            ended_with_operations = True
        if ended_with_operations and not self.chosen.in_time:
            return Basis.COMPLETED
        if run.header is None or run.end_ns is None or not run.stages:
            return Basis.UNKNOWN_END
        return Basis.WINDOW if self._open_loop else Basis.SHARE

    @property
    def _open_loop(self) -> bool:
        return any(mark.rate for mark in self.run.stages)

    @property
    def rate_windows(self) -> list[Span] | None:
        """The window of the rates of each stage; None if rates cover the time from the first start
        to the last completion."""
        basis, windows = self.rate_basis, self.run.spans
        if basis not in (Basis.WINDOW, Basis.SHARE):
            return None
        begin_ns, (low_ns, high_ns) = self.run.stages[0].at_ns, windows[0]
        if self.chosen.from_s is not None:
            return windows
        first_ns = self._tallies.total().first_start_ns or 0
        first_ns -= self._origin_ns
        # Due times count from the mark; users begin a little later, when the workers receive it.
        if basis is Basis.SHARE and low_ns == begin_ns < first_ns < high_ns:
            return [Span(first_ns, high_ns), *windows[1:]]
        return windows

    @property
    def after_end(self) -> AfterEnd | None:
        """Operations that completed after the load's end, including warm-up and cool-down.

        None if there are none, if the end is unknown, or if the load ended with its operations.
        """
        end_ns = self.run.end_ns
        if not self._after_end or end_ns is None:
            return None
        if self.rate_basis not in (Basis.WINDOW, Basis.SHARE):
            return None
        return AfterEnd(self._after_end, (self._last_after_end_ns - end_ns) / SECOND_NS)

    @property
    def up_to_last_start(self) -> UpToLastStart | None:
        """The rate up to the last start of a run that ended with its operations.

        None unless what follows is more than 5 % of the time of its rates.
        """
        total, last = self.total(), self._last_start
        if self.rate_basis is not Basis.COMPLETED or last is None or last.at_ns is None:
            return None
        if total.first_start_ns is None or total.last_end_ns is None or not total.seconds:
            return None
        origin_ns = self._origin_ns
        share = (total.last_end_ns - origin_ns - last.at_ns) / SECOND_NS / total.seconds
        if share <= _LONG_TAIL:
            return None
        first_ns = total.first_start_ns - origin_ns
        return UpToLastStart(share, last.until(total.count, total.bytes_moved, first_ns))

    def classes(self, operation: int | None = None) -> list[int]:
        """The size classes that have results (of this operation), in ascending order."""
        return sorted(self._tallies.classes(operation))

    def operation_name(self, operation: int) -> str:
        """``CREATE``; a number without a row, here and in the headers, is ``OPERATION 17``."""
        return OTHERS_NAME if operation == OTHERS else row_of(operation, self.run.operations).name

    def class_name(self, size_class: int) -> str:
        """The name of a size class in the scenario."""
        if size_class == OTHERS:
            return OTHERS_NAME
        sizes = self.run.scenario.sizes
        return sizes[size_class].name if 0 <= size_class < len(sizes) else f"class {size_class}"

    def phase(self, phase: Phase) -> Counts:
        """The counts of a phase other than the run."""
        counts = self._phases[phase]
        counts.has_bytes = not self.run.no_store
        return counts

    def phase_errors(self, phase: Phase) -> Errors:
        """The errors of a phase other than the run."""
        return self._phase_errors[phase]

    @property
    def started_s(self) -> float | None:
        """Wall clock: start of the first operation, else of the run; None: unknown."""
        first_ns = self.total().first_start_ns
        if first_ns is None:
            first_ns = self._origins.get(Phase.RUN)
        if first_ns is not None:
            return first_ns / 1e9
        return self.run.header.started_at if self.run.header else None

    @property
    def ended_s(self) -> float | None:
        """Wall clock: end of the last operation, else of the run; None: unknown."""
        last_ns = self.total().last_end_ns
        if last_ns is None:
            return self.run.footer.ended_at if self.run.footer else None
        return last_ns / 1e9

    @property
    def duration_s(self) -> float | None:
        """From ``started_s`` to ``ended_s``; None if either is unknown."""
        if self.started_s is None or self.ended_s is None:
            return None
        return self.ended_s - self.started_s

    @property
    def whole_run_s(self) -> tuple[float, float] | None:
        """Wall clock: start and end of the run phase, including its parts that do not count.

        None if either is unknown: for a file of 0.3.9, or one without a footer.
        """
        origin_ns, footer = self._origins.get(Phase.RUN), self.run.footer
        if origin_ns is None or footer is None:
            return None
        return origin_ns / SECOND_NS, origin_ns / SECOND_NS + footer.run_seconds

    def requests_per_worker(self) -> dict[str, int]:
        """Completed operations, including failed ones, by worker id; idle workers have 0."""
        found: Counter[str] = Counter()
        for worker in self.run.workers.values():
            if worker.concurrency:
                found[worker.worker_id] += 0
        for index, count in self._requests.items():
            found[self.run.worker_id(index)] += count
        return dict(found)

    @property
    def worker_count(self) -> int:
        """Workers that took part, including idle ones."""
        return len(self.requests_per_worker())

    def completions(self) -> list[int]:
        """Successes that completed in each whole second, without gaps.

        The first second is that of the run's start.
        """
        return self.series.per_second()

    def seconds(self) -> Iterator[Second]:
        """What completed in each second; of a part of the run, in those that it has a part of."""
        return (each for each in self.series.seconds() if self._windows.covers(each.second + 1))

    def verdict(self) -> HeadroomVerdict:
        """Whether the load generator was the bottleneck."""
        own = ErrorKind.LOAD_GENERATOR
        own_failures = sum(each.count for (kind, _), each in self.errors.items() if kind == own)
        gone = self.run.short_of_users and self.run.users_ran == 0
        return judge(self.hosts.processes(of_load=True), own_failures, workers_gone=gone)

    @property
    def _origin_ns(self) -> int:
        """Wall clock: start of the run phase; 0: unknown."""
        return self._origins.get(Phase.RUN, 0)

    @property
    def marked(self) -> list[tuple[float, EventRecord]]:
        """What somebody marked, in its order, with the seconds from the start of the run phase."""
        origin_s = (self._origin_ns or _wall_ns(self.started_s or 0.0)) / SECOND_NS
        events = sorted(self.run.events, key=lambda event: event.at_s)
        return [(event.at_s - origin_s, event) for event in events]

    # How it is counted

    def _add_results(self, phase: Phase, batches: Sequence[ResultBatch]) -> None:
        if self.chosen and phase is not Phase.RUN:
            return  # a part is one of the run phase
        try:
            divided = len(self.run.identities) if phase is Phase.RUN else 0
            results = PhaseResults(batches, self._shifts, divided)
        except MessageError as error:
            if len(batches) == 1:
                self.run.damage.note(f"a record is malformed: {error}")
                return
            middle = len(batches) // 2
            self._add_results(phase, batches[:middle])
            self._add_results(phase, batches[middle:])
            return
        for text in sorted(results.notes):
            if len(self.store_notes) < _MOST_NOTES:
                self.store_notes[text] = None
        origin_ns = self._origins.get(phase, 0)
        if phase is Phase.RUN:
            chosen = self._chosen_of(results) if self.chosen else results
            if chosen is not None:
                self._add_run(chosen, origin_ns)
            return
        for group in results.groups():
            self._count(self._phases[phase], group, origin_ns)
            if group.failed and not group.lost_race:
                self._phase_errors[phase].add(group, origin_ns)

    def _chosen_of(self, results: PhaseResults) -> PhaseResults | None:
        """The results of the part that was chosen; None if there are none."""
        named = self._chosen.rows(results)
        found = results if named is None else results.only(named)
        within = None if found is None else self._windows.overlap(found)
        if found is None or within is None:
            return found
        self.left_out += len(within) - int(np.count_nonzero(within))
        return found.only(within)

    def check_chosen(self, name: str) -> None:
        """Check that operations of the part that was chosen count.

        :param name: of the run, for errors.
        :raises UsageError: a line for each name that does not occur in the run; or why nothing
            counts.
        """
        if not self.chosen:
            return
        if self.chosen.has_times and self.run.header and not self.run.stages:
            raise UsageError(
                f"{name}: does not say when its load began (ssbench 0.3.9, or cut off): leave out "
                "--from, --to and --warmup"
            )
        missing = [f"{name}: {line}" for line in self._chosen.missing()]
        if missing:
            raise UsageError("\n".join(missing))
        if self.total().operations:
            return
        stages, end_ns = self.run.stages, self.run.end_ns
        lasted = ""
        if stages and end_ns is not None:
            lasted = f"; its load lasted {(end_ns - stages[0].at_ns) / SECOND_NS:.1f} s"
        raise UsageError(f"{name}: no operation in this part: {self.chosen.text}{lasted}")

    def _add_run(self, results: PhaseResults, origin_ns: int) -> None:
        """Count results of the run; those of a warm-up only in the time series."""
        for worker, count in results.by_worker().items():
            if worker >= 0:
                self._requests[worker] += count
        late = results.ends_ns > self._windows.load_end_ns
        if late.any():
            self._after_end += int(np.count_nonzero(late))
            self._last_after_end_ns = max(self._last_after_end_ns, int(results.ends_ns.max()))
        stages = self._windows.stages(results)
        groups = list(results.groups(stages, partial(self._budget.fits, "groups")))
        for group in groups:
            kind = group.operation, group.size_class
            if self.verified:
                self.verified.add(group, origin_ns)
            self.series.add(group)
            if not group.failed:
                for stage, sums in self._windows.shares(group):
                    if sums[0]:
                        self._tallies.of(stage, *kind).add_shares(*sums)
            if group.stage == LEFT_OUT:
                self.left_out += len(group)
                continue
            tally = self._tallies.of(group.stage, *kind)
            self._count(tally, group, origin_ns)
            if results.has_due_times:
                self._add_due(group)
            if not group.failed:
                tally.add_latencies(group)
            elif not group.lost_race:
                self.errors.add(group, origin_ns)
        if self.run.identities:
            self.breakdown.count_by("identity")
        for group in results.outcomes(stages):
            self.breakdown.add(group, self._windows.shares, origin_ns)
        if self._last_start:
            self._last_start.add([group for group in groups if group.stage != LEFT_OUT])

    def _add_due(self, group: ResultGroup) -> None:
        """Count what an open loop's operations were due, started and completed."""
        begun = group.column("start_ns") - group.column("renewed_ns")
        times = group.column("awaited_ns"), begun, group.ends_ns
        is_due = times[0] != NONE_NS
        if not is_due.all():
            times = times[0][is_due], times[1][is_due], times[2][is_due]
        if not len(times[0]):
            return
        self.lateness.record_many(np.maximum(times[1] - times[0], 0))
        stage_end_ns, load_end_ns = self._windows.ends_ns(group.stage)
        self.in_time.add(*times, load_end_ns)
        begin_ns = self._windows.begin_ns(group.stage)
        self.punctuality[group.stage].add(*times, begin_ns, stage_end_ns)
        numbers = group.column("group")
        numbers = numbers if is_due.all() else numbers[is_due]
        known = len(self.run.scenario.crowds)
        for number in np.unique(numbers).tolist() if known > 1 else ():
            if 0 <= number < known:
                rows = numbers == number
                self.punctuality_of_group[number].add(
                    times[0][rows], times[1][rows], times[2][rows], begin_ns, stage_end_ns
                )

    def _count(self, counts: Counts, group: ResultGroup, origin_ns: int) -> None:
        timed = not group.failed or "starts of failures" not in self.run.unrecorded
        counts.add(group, origin_ns, timed=timed)


def _asked(group: Group) -> str:
    """``1 to 8 users``, ``8 users, 50/s``."""
    text = plural(group.users, "user")
    if group.users_to is not None:
        text = f"{group.users} to {plural(group.users_to, 'user')}"
    if group.rate:
        to = "" if group.rate_to is None else f" to {group.rate_to:g}"
        text += f", {group.rate:g}{to}/s"
    return text


def _wall_ns(seconds: float) -> int:
    # In two parts, because a float cannot hold 1.8e18 exactly.
    whole = int(seconds // 1)
    return whole * SECOND_NS + round((seconds - whole) * SECOND_NS)
