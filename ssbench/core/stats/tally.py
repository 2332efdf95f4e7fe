"""Sums over operations: counts, times, latencies, errors; by operation, size class and stage, and
by where they came from."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from ssbench.core.model import SECOND_NS, UNCERTAIN_NS, ErrorKind
from ssbench.core.operations import Body, row_of
from ssbench.core.part_times import weights
from ssbench.core.stats.budget import OTHERS, Budget
from ssbench.core.stats.histogram import Histogram
from ssbench.core.stats.results import LEFT_OUT, Ints, ResultGroup, exact_sum
from ssbench.core.stats.series import MAX_SECONDS

#: Columns of results that are added up as they are, failed operations included.
COUNTERS = ("retries", "not_found_retries", "rate_limited", "reconnects", "renewals")
#: Attributes of Counts that add up.
_SUMS = (
    "count", "errors", "lost_races", "bytes_moved", "failed_bytes", "items", "shares",
    "byte_shares", "item_shares", "pages", "page_shares", *COUNTERS,
)  # fmt: skip
#: Columns of durations that get a histogram.
LATENCIES = ("headers", "first_byte", "last_byte")
#: Shares of operations are whole numbers of 1 / SHARE, so that sums don't depend on their order.
SHARE_BITS = 40
SHARE = 1 << SHARE_BITS
_HIGHEST_STATUS = 999


class Basis(Enum):
    """How the rates of a run count operations, and over what time; the values are those of JSON."""

    WINDOW = "window"  #: open loop: successes that completed in the window
    SHARE = "share"  #: closed loop: each success by the share of its time in the window
    #: All planned operations of a closed loop: from the first start to the last completion.
    COMPLETED = "completed"
    UNKNOWN_END = "unknown_end"  #: the same, because it is unknown when the load ended
    LEGACY = "0.3.9"  #: the same, as ssbench 0.3.9 did


class Throughput(NamedTuple):
    """Operations and bytes, and the time that rates divide them by."""

    operations: float  #: successes, or the sum of their shares
    moved_bytes: float
    seconds: float | None  #: None without a result, or if it is 0
    items: float = 0  #: entries listed, or objects handled
    pages: float = 0  #: of whole listings

    @property
    def rate_per_s(self) -> float | None:
        """Operations a second; None for no time."""
        return self.operations / self.seconds if self.seconds else None

    @property
    def bytes_per_s(self) -> float | None:
        """Bytes a second; None for no time."""
        return self.moved_bytes / self.seconds if self.seconds else None

    @property
    def items_per_s(self) -> float | None:
        """Items a second; None for no time."""
        return self.items / self.seconds if self.seconds else None

    @property
    def pages_per_s(self) -> float | None:
        """Pages a second; None for no time."""
        return self.pages / self.seconds if self.seconds else None


class Latency(Struct):
    """A histogram, and the transaction id of the slowest operation in it."""

    histogram: Histogram = field(default_factory=Histogram)
    uncertain: int = 0  #: durations that are unknown, and in no figure
    #: (nanoseconds, transaction id); None before the first. Of equal ones the greater id, so that
    #: the order does not matter.
    worst: tuple[int, bytes] | None = None

    def add(self, durations_ns: Ints, group: ResultGroup) -> None:
        """Record a duration for each row of a group.

        NONE_NS is ignored, UNCERTAIN_NS is counted as such, lower values are out of range.
        """
        least, slowest = int(durations_ns.min()), int(durations_ns.max())
        if least <= UNCERTAIN_NS:
            self.uncertain += int(np.count_nonzero(durations_ns == UNCERTAIN_NS))
            impossible = int(np.count_nonzero(durations_ns < UNCERTAIN_NS))
            self.histogram.out_of_range += impossible
        if slowest < 0:
            return
        if self.worst is None or slowest >= self.worst[0]:
            ids = group.ids(np.flatnonzero(durations_ns == slowest))
            found = (slowest, max(ids))
            self.worst = max(self.worst or found, found)
        self.histogram.record_many(durations_ns if least >= 0 else durations_ns[durations_ns >= 0])

    def merge(self, other: Latency) -> None:
        """Add ``other``, which stays as it is."""
        self.histogram.merge(other.histogram)
        self.uncertain += other.uncertain
        if other.worst is not None:
            self.worst = max(self.worst or other.worst, other.worst)


class SlowestPart(NamedTuple):
    """The part of an object that took longest; of equal ones the greatest."""

    took_us: int
    transaction_id: bytes
    url: int
    operation: int
    size_class: int
    object: int
    part: int  #: its index
    size: int  #: bytes that the operation moved


class PartTimes(Struct):
    """How long the parts of objects took."""

    histogram: Histogram = field(default_factory=Histogram)
    slowest: SlowestPart | None = None

    def add(self, group: ResultGroup) -> None:
        """Record the parts of a group of successes."""
        for each in group.parts():
            self.histogram.record_many(np.repeat(each.times_us, weights(each.parts)) * 1000)
            found = SlowestPart(
                each.times_us[-1], each.slowest_id, each.url, group.operation, group.size_class,
                each.object, each.slowest, each.size,
            )  # fmt: skip
            self.slowest = max(self.slowest or found, found)

    def merge(self, other: PartTimes) -> None:
        """Add ``other``, which stays as it is."""
        self.histogram.merge(other.histogram)
        if other.slowest is not None:
            self.slowest = max(self.slowest or other.slowest, other.slowest)


class Counts(Struct):
    """Sums over operations: successes, errors, retries, bytes, and the time that they span.

    Times are wall-clock nanoseconds since 1970.
    """

    count: int = 0  #: successes
    errors: int = 0
    lost_races: int = 0  #: conditional writes for which another client was first: no errors
    retries: int = 0  #: but for those after a 404
    not_found_retries: int = 0
    rate_limited: int = 0  #: responses that asked to slow down
    reconnects: int = 0  #: idle connections found closed and replaced
    renewals: int = 0  #: operations restarted with a new token
    bytes_moved: int = 0  #: by successes
    failed_bytes: int = 0  #: by failed operations
    items: int = 0  #: entries that successes listed, or objects that they handled
    has_bytes: bool = True  #: False if the bytes are not known, or there was no store
    pages: int = 0  #: of the whole listings among the successes
    has_items: bool = False  #: True if any operation of the run has items
    has_pages: bool = False  #: the same of pages
    has_races: bool = False  #: the same of lost races
    first_start_ns: int | None = None
    last_end_ns: int | None = None
    left_out_ns: int = 0  #: excluded time in between: warm-ups of later stages
    shares: int = 0  #: of successes in the window of the rates, in units of 1 / SHARE
    byte_shares: int = 0  #: of the bytes that they moved, in the same units
    item_shares: int = 0  #: of their items, in the same units
    page_shares: int = 0  #: of their pages, in the same units
    #: Length of that window in ns; None: rates are over ``seconds``. Set on sums of a run's
    #: tallies, and not merged.
    window_ns: int | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.count} done, {self.errors} errors>"

    def add(self, group: ResultGroup, origin_ns: int, *, timed: bool = True) -> None:
        """Count the rows of a group.

        :param origin_ns: wall clock; offsets count from it.
        :param timed: False: leave the time spanned as it is.
        """
        if group.failed:
            if group.lost_race:
                self.lost_races += len(group)
            else:
                self.errors += len(group)
            self.failed_bytes += group.bytes_moved
        else:
            self.count += len(group)
            self.bytes_moved += group.bytes_moved
        for name in COUNTERS if group.failed else (*COUNTERS, "items", "pages"):
            setattr(self, name, getattr(self, name) + exact_sum(group.column(name)))
        if timed:
            first_ns, last_ns = int(group.column("start_ns").min()), int(group.ends_ns.max())
            self.span(origin_ns + first_ns, origin_ns + last_ns)

    def add_shares(self, operations: int, moved_bytes: int, items: int, pages: int) -> None:
        """Add what successes count for in the window of the rates, in units of 1 / SHARE."""
        self.shares += operations
        self.byte_shares += moved_bytes
        self.item_shares += items
        self.page_shares += pages

    def span(self, first_start_ns: int, last_end_ns: int) -> None:
        """Widen the time spanned."""
        if self.first_start_ns is None or first_start_ns < self.first_start_ns:
            self.first_start_ns = first_start_ns
        if self.last_end_ns is None or last_end_ns > self.last_end_ns:
            self.last_end_ns = last_end_ns

    def merge(self, other: Counts) -> None:
        """Add ``other``, which stays as it is."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        if other.first_start_ns is not None and other.last_end_ns is not None:
            self.span(other.first_start_ns, other.last_end_ns)

    @property
    def operations(self) -> int:
        """Completed operations, including failed ones."""
        return self.count + self.errors + self.lost_races

    @property
    def seconds(self) -> float | None:
        """From the first start to the last end, without what is excluded in between; None without a
        result, or if it is 0."""
        if self.first_start_ns is None or self.last_end_ns is None:
            return None
        span_ns = self.last_end_ns - self.first_start_ns - self.left_out_ns
        return span_ns / 1e9 if span_ns > 0 else None

    @property
    def over_span(self) -> Throughput:
        """Successes over ``seconds``, including those after the load's end."""
        return Throughput(self.count, self.bytes_moved, self.seconds, self.items, self.pages)

    @property
    def throughput(self) -> Throughput:
        """The rates of reports: over the window, if there is one."""
        if self.window_ns is None:
            return self.over_span
        seconds = self.window_ns / 1e9 if self.window_ns > 0 else None
        shares = (self.shares, self.byte_shares, self.item_shares, self.page_shares)
        operations, moved_bytes, items, pages = (share / SHARE for share in shares)
        return Throughput(operations, moved_bytes, seconds, items, pages)

    @property
    def rate_per_s(self) -> float | None:
        """Successes per second, as ``throughput`` counts them."""
        return self.throughput.rate_per_s

    @property
    def bytes_per_s(self) -> float | None:
        """Bytes per second that successes moved, as ``throughput``; None unless ``has_bytes``."""
        return self.throughput.bytes_per_s if self.has_bytes else None

    @property
    def moved_bytes(self) -> int | None:
        """Bytes moved by successes; None unless ``has_bytes``."""
        return self.bytes_moved if self.has_bytes else None

    @property
    def failed_moved_bytes(self) -> int | None:
        """Bytes moved by failed operations; None unless ``has_bytes``."""
        return self.failed_bytes if self.has_bytes else None

    @property
    def retry_percent(self) -> float | None:
        """All retries in percent of the successes; None without a success."""
        return 100.0 * self.retries / self.count if self.count else None


class Tally(Counts):
    """Counts, and the latencies of the successes."""

    headers: Latency = field(default_factory=Latency)
    first_byte: Latency = field(default_factory=Latency)
    last_byte: Latency = field(default_factory=Latency)  #: service time: from start to last byte
    #: From due to last byte; empty in a closed loop.
    response: Latency = field(default_factory=Latency)
    parts: PartTimes = field(default_factory=PartTimes)  #: of objects that were moved in parts

    @property
    def has_due_times(self) -> bool:
        """Whether response times are known, by which it is judged; otherwise by service times."""
        return bool(self.response.histogram.count)

    def add_latencies(self, group: ResultGroup) -> None:
        """Record the latencies of a group of successes."""
        for name in LATENCIES:
            getattr(self, name).add(group.column(f"{name}_ns"), group)
        if group.responses_ns is not None:
            self.response.add(group.responses_ns, group)
        self.parts.add(group)

    def merge(self, other: Counts) -> None:
        """Add ``other``, which stays as it is."""
        super().merge(other)
        if isinstance(other, Tally):
            for name in (*LATENCIES, "response", "parts"):
                getattr(self, name).merge(getattr(other, name))


class ErrorExample(Struct, frozen=True, order=True):
    """One failed operation to look up in the store's logs; the earliest is the example."""

    at_ns: int  #: its end, or its start if the end is unknown; wall clock
    operation: int
    detail: str
    transaction_id: bytes


class ErrorTally(Struct, frozen=True):
    """How often an error with one status occurred."""

    count: int
    example: ErrorExample

    def plus(self, other: ErrorTally) -> ErrorTally:
        """Both together."""
        return ErrorTally(self.count + other.count, min(self.example, other.example))


class Errors(dict[tuple[int, int], ErrorTally]):
    """How often each error occurred, by (ErrorKind, status)."""

    def __init__(self, budget: Budget | None = None) -> None:
        super().__init__()
        self._budget = budget or Budget()

    def add(self, group: ResultGroup, origin_ns: int) -> None:
        """Count a group of failures; offsets count from ``origin_ns`` of the wall clock."""
        statuses, kinds = possible_statuses(group), group.column("error")
        order = np.lexsort((statuses, kinds))
        changes = np.diff(kinds[order]).astype(bool) | np.diff(statuses[order]).astype(bool)
        for rows in np.split(order, np.flatnonzero(changes) + 1):
            key = int(kinds[rows[0]]), int(statuses[rows[0]])
            if not self._budget.fits("causes of errors", key):
                key = OTHERS, 0
            more = ErrorTally(len(rows), _earliest(group, rows, origin_ns))
            self[key] = self[key].plus(more) if key in self else more


def possible_statuses(group: ResultGroup) -> Ints:
    """The HTTP status of each row of a group; 0 for impossible ones, each of which would be another
    row of a report."""
    statuses = group.column("status")
    return np.where((statuses >= 0) & (statuses <= _HIGHEST_STATUS), statuses, 0)


def _earliest(group: ResultGroup, rows: npt.NDArray[np.int64], origin_ns: int) -> ErrorExample:
    """The example of some rows of a group, at least one."""
    ends_ns = group.ends_ns[rows]
    first_ns = ends_ns.min()
    rows = rows[ends_ns == first_ns]
    texts = zip(group.details(rows), group.ids(rows), strict=True)
    return ErrorExample(origin_ns + int(first_ns), group.operation, *min(texts))


class Verified(Struct):
    """What --verify found, including warm-up and cool-down."""

    reads: int = 0  #: operations whose received body was checked, correct or not
    bytes_read: int = 0
    corrupt: int = 0  #: READs, and uploads with a wrong ETag
    stale: int = 0
    example: ErrorExample | None = None  #: the earliest corrupt one

    def add(self, group: ResultGroup, origin_ns: int) -> None:
        """Count some rows; offsets count from ``origin_ns`` of the wall clock."""
        received = row_of(group.operation).body is Body.RECEIVED
        if not group.failed:
            if received:
                self.reads += len(group)
                self.bytes_read += group.bytes_moved
            return
        kinds = group.column("error")
        corrupt, stale = kinds == ErrorKind.CORRUPT, kinds == ErrorKind.STALE
        self.corrupt += int(np.count_nonzero(corrupt))
        self.stale += int(np.count_nonzero(stale))
        if received:
            moved = group.column("bytes_moved")[corrupt | stale]
            self.reads += len(moved)
            self.bytes_read += exact_sum(moved)
        if corrupt.any():
            found = _earliest(group, np.flatnonzero(corrupt), origin_ns)
            self.example = min(self.example or found, found)


#: Operation, size class and stage; None: all.
_Asked = tuple[int | None, int | None, int | None]


class Tallies:
    """A tally for each operation and size class of each stage."""

    def __init__(self) -> None:
        self._stages: defaultdict[int, dict[tuple[int, int], Tally]] = defaultdict(dict)
        self._classes: defaultdict[int, set[int]] = defaultdict(set)  # by operation
        # Caches of sums, which a report asks for often, and of their parts; adding clears them.
        self._totals: dict[_Asked, Tally] = {}
        self._parts: defaultdict[_Asked, list[Tally]] = defaultdict(list)

    def __repr__(self) -> str:
        return f"<Tallies of {self.stage_count} stages>"

    @property
    def stage_count(self) -> int:
        """Number of stages up to the last one with results; at least 1."""
        return max(self._stages, default=0) + 1

    def of(self, stage: int, operation: int, size_class: int) -> Tally:
        """The tally to add to."""
        self._totals.clear()
        self._parts.clear()
        self._classes[operation].add(size_class)
        return self._stages[stage].setdefault((operation, size_class), Tally())

    @property
    def operations(self) -> set[int]:
        """Those that have results."""
        return set(self._classes)

    def classes(self, operation: int | None) -> set[int]:
        """The size classes that have results of this operation; None: of any."""
        if operation is None:
            return set().union(*self._classes.values())
        return self._classes.get(operation, set())

    def total(
        self,
        operation: int | None = None,
        size_class: int | None = None,
        stage: int | None = None,
    ) -> Tally:
        """The sum; None: all. The same object until something is added."""
        asked = operation, size_class, stage
        if not self._parts:
            for number, tallies in self._stages.items():
                for (of_operation, of_class), tally in tallies.items():
                    for key in product((None, of_operation), (None, of_class), (None, number)):
                        self._parts[key].append(tally)
        if asked not in self._totals:
            total = self._totals[asked] = Tally()
            for part in self._parts.get(asked, ()):
                total.merge(part)
        return self._totals[asked]


class SourceTally(Counts):
    """Counts of one worker, endpoint or address."""

    #: Of successes, from start to last byte.
    service: Histogram = field(default_factory=Histogram)
    response: Histogram | None = None  #: the same from due; None in a closed loop

    def merge(self, other: Counts) -> None:
        """Add ``other``, which stays as it is."""
        super().merge(other)
        if isinstance(other, SourceTally):
            self.service.merge(other.service)
            if other.response is not None:
                self.response = self.response or Histogram()
                self.response.merge(other.response)


class Source(NamedTuple):
    """A worker, endpoint or address, or a group of users."""

    name: str
    where: str  #: a worker's host, a group's users and rate; else ""
    tally: SourceTally


#: What results count for the rates, as of ``Windows.shares``.
Shares = Callable[[ResultGroup], Iterable[tuple[int, Sequence[int]]]]


class Breakdown:
    """The results by worker, endpoint, address and group of users, and errors by second.
    Results that do not count add their shares to the rates' windows alone.

    Nearly all runs have one endpoint: while there is one, its sums are those of all workers.
    """

    def __init__(self, budget: Budget | None = None) -> None:
        self._budget = budget or Budget()
        #: By column of results: number of the worker or endpoint -> its sums.
        self._sums: dict[str, dict[int, SourceTally]] = {
            column: {} for column in ("worker", "url", "address", "group")
        }
        self._only: dict[str, int] = {}  # the only one so far, whose sums are not kept
        #: (ErrorKind, HTTP status, second of its end from the run's start) -> failures.
        self.errors: Counter[tuple[int, int, int]] = Counter()

    def __repr__(self) -> str:
        return f"<Breakdown of {len(self._sums['worker'])} workers>"

    def count_by(self, column: str) -> None:
        """Count also by this column of results, from now on."""
        self._sums.setdefault(column, {})

    def sums(self, column: str) -> dict[int, SourceTally]:
        """By number; those of one that is OTHERS stand for all others."""
        if column in self._only:
            return {self._only[column]: self._of_all()}
        return self._sums.get(column, {})

    def _of_all(self) -> SourceTally:
        total = SourceTally()
        for tally in self._sums["worker"].values():
            total.merge(tally)
        return total

    def add(self, group: ResultGroup, shares: Shares, origin_ns: int) -> None:
        """Count results that are all failures or all successes, and all count or do not.

        :param shares: gives what successes count for the rates.
        :param origin_ns: wall clock; offsets count from it.
        """
        # Workers last: until then their sums are those of all results before these.
        for column in reversed(self._sums):
            numbers = group.column(column)
            own, _ = np.unique(numbers, return_counts=True)  # without counts it loads numpy.ma
            if column != "worker" and self._is_only(column, own.tolist()):
                continue
            fits = [self._budget.fits("sources", (column, each)) for each in own.tolist()]
            numbers = np.where(np.isin(numbers, own[fits]), numbers, OTHERS)
            order = np.argsort(numbers, kind="stable")
            for rows in np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1):
                tally = self._sums[column].setdefault(int(numbers[rows[0]]), SourceTally())
                _count(tally, group.part(rows), shares, origin_ns)
        if group.failed and not group.lost_race and group.stage != LEFT_OUT:
            seconds = group.ends_ns // SECOND_NS
            possible = (seconds >= 0) & (seconds < min(MAX_SECONDS, self._budget.seconds))
            columns = (group.column("error"), possible_statuses(group), seconds)
            self.errors.update(zip(*(each[possible].tolist() for each in columns), strict=True))

    def _is_only(self, column: str, numbers: Sequence[int]) -> bool:
        """Whether all results so far, these included, have one number in a column."""
        if self._sums[column]:
            return False
        only = self._only.setdefault(column, numbers[0])
        if numbers == [only]:
            return True
        self._sums[column][only] = self._of_all()
        del self._only[column]
        self._budget.fits("sources", (column, only))
        return False


def _count(tally: SourceTally, part: ResultGroup, shares: Shares, origin_ns: int) -> None:
    if not part.failed:
        for _stage, sums in shares(part):
            tally.add_shares(*sums)
    if part.stage == LEFT_OUT:
        return
    tally.add(part, origin_ns)
    durations_ns = part.column("last_byte_ns")
    known = durations_ns[durations_ns >= 0]
    if len(known) and not part.failed:
        tally.service.record_many(known)
    if part.responses_ns is not None and not part.failed:
        due = part.responses_ns[part.responses_ns >= 0]
        if len(due):
            tally.response = tally.response or Histogram()
            tally.response.record_many(due)
