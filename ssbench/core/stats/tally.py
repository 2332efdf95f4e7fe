"""Sums over operations that merge in any order: counts, times, latencies, errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeVar

from ssbench.core.model import UNCERTAIN_NS
from ssbench.core.stats.durations import Durations
from ssbench.core.stats.histogram import Histogram

#: Columns of results that are added up as they are, failed operations included.
COUNTERS = ("retries", "not_found_retries", "rate_limited", "reconnects", "renewals")
#: Columns of durations that get a histogram.
LATENCIES = ("headers", "first_byte", "last_byte")
#: Shares of operations are whole numbers of 1 / SHARE, so that sums don't depend on their order.
SHARE_BITS = 40
SHARE = 1 << SHARE_BITS


class Basis(Enum):
    """What a run's rates are counted by, and over what time; the values are those of JSON."""

    DUE = "due"  #: open loop: the successes that were due in the window
    SHARE = "share"  #: closed loop: each success by the share of its time in the window
    COMPLETED = "completed"  #: ended with its operations: first start to last completion
    UNKNOWN_END = "unknown_end"  #: the same, because nothing tells when the load ended
    LEGACY = "0.3.9"  #: the same, as ssbench 0.3.9 did


class Throughput(NamedTuple):
    """What rates are made of: operations and bytes, and the time that they are divided by."""

    operations: float  #: successes, or the sum of their shares
    moved_bytes: float
    seconds: float | None  #: None without a result, or where it is 0

    @property
    def rate_per_s(self) -> float | None:
        """Operations a second; None for no time."""
        return self.operations / self.seconds if self.seconds else None

    @property
    def bytes_per_s(self) -> float | None:
        """Bytes a second; None for no time."""
        return self.moved_bytes / self.seconds if self.seconds else None


class Latency:
    """A histogram, and the transaction id of the slowest operation in it."""

    __slots__ = ("histogram", "uncertain", "worst")

    def __init__(self) -> None:
        self.histogram = Histogram()
        self.uncertain = 0  #: durations that aren't known, and in no figure
        #: (nanoseconds, transaction id), None before the first. Of equals the greater id, so
        #: that the order of adding doesn't matter.
        self.worst: tuple[int, bytes] | None = None

    def __repr__(self) -> str:
        return f"<Latency {self.histogram!r}, worst {self.worst}>"

    def add(self, durations: Durations, ids: Sequence[bytes]) -> None:
        """Record the durations. NONE_NS is passed over, UNCERTAIN_NS counted as such; what is
        below that is out of range.

        :param ids: a transaction id for each value; next to none are asked for.
        """
        slowest = durations.most
        if durations.least <= UNCERTAIN_NS:
            self.uncertain += durations.values_ns.count(UNCERTAIN_NS)
            impossible = sum(value < UNCERTAIN_NS for value in durations.values_ns)
            self.histogram.out_of_range += impossible
        if slowest < 0:
            return
        if self.worst is None or slowest >= self.worst[0]:
            found = (slowest, _id_of(slowest, durations.values_ns, ids))
            self.worst = max(self.worst or found, found)
        there = durations.not_below(0)
        if there:
            self.histogram.record_all(there)

    def merge(self, other: Latency) -> None:
        """Add ``other``, which stays as it is."""
        self.histogram.merge(other.histogram)
        self.uncertain += other.uncertain
        if other.worst is not None:
            self.worst = max(self.worst or other.worst, other.worst)


def _id_of(slowest: int, values_ns: Sequence[int], ids: Sequence[bytes]) -> bytes:
    if values_ns.count(slowest) == 1:
        return ids[values_ns.index(slowest)]
    return max(ids[at] for at, value in enumerate(values_ns) if value == slowest)


class Counts:
    """Operations counted: successes, errors, what it took, bytes, and the time they span.

    ``count`` has the successes only. Times are wall-clock nanoseconds since 1970.
    """

    def __init__(self) -> None:
        self.count = 0
        self.errors = 0
        self.retries = 0
        self.not_found_retries = 0
        self.rate_limited = 0
        self.reconnects = 0
        self.renewals = 0
        self.bytes_moved = 0  #: by successes
        self.failed_bytes = 0  #: by failed operations
        self.has_bytes = True  #: False where no store was involved: these two mean nothing then
        self.first_start_ns: int | None = None
        self.last_end_ns: int | None = None
        self.left_out_ns = 0  #: of the time between: warm-ups of later stages
        self.shares = 0  #: of successes in the window of the rates, in units of 1 / SHARE
        self.byte_shares = 0  #: of the bytes that they moved, in the same units
        #: Length of the window that these are of, in ns; None: rates are over ``seconds``. Set on
        #: sums of a run's tallies, and not merged.
        self.window_ns: int | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.count} done, {self.errors} errors>"

    def span(self, first_start_ns: int, last_end_ns: int) -> None:
        """Widen the time spanned."""
        if self.first_start_ns is None or first_start_ns < self.first_start_ns:
            self.first_start_ns = first_start_ns
        if self.last_end_ns is None or last_end_ns > self.last_end_ns:
            self.last_end_ns = last_end_ns

    def merge(self, other: Counts) -> None:
        """Add ``other``, which stays as it is."""
        for name in (
            "count",
            "errors",
            "bytes_moved",
            "failed_bytes",
            "shares",
            "byte_shares",
            *COUNTERS,
        ):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        if other.first_start_ns is not None and other.last_end_ns is not None:
            self.span(other.first_start_ns, other.last_end_ns)

    @property
    def operations(self) -> int:
        """Finished, failed or not."""
        return self.count + self.errors

    @property
    def seconds(self) -> float | None:
        """From the first start to the last end, without what is left out between; None without a
        result, or where it is 0."""
        if self.first_start_ns is None or self.last_end_ns is None:
            return None
        span_ns = self.last_end_ns - self.first_start_ns - self.left_out_ns
        return span_ns / 1e9 if span_ns > 0 else None

    @property
    def over_span(self) -> Throughput:
        """Successes over ``seconds``, whatever of that is after the load's end."""
        return Throughput(self.count, self.bytes_moved, self.seconds)

    @property
    def throughput(self) -> Throughput:
        """What every report's rates are: over the window, where there is one."""
        if self.window_ns is None:
            return self.over_span
        seconds = self.window_ns / 1e9 if self.window_ns > 0 else None
        return Throughput(self.shares / SHARE, self.byte_shares / SHARE, seconds)

    @property
    def rate_per_s(self) -> float | None:
        """Successes a second, as ``throughput`` counts them."""
        return self.throughput.rate_per_s

    @property
    def bytes_per_s(self) -> float | None:
        """Bytes a second that successes moved, as ``throughput``; None without a store."""
        return self.throughput.bytes_per_s if self.has_bytes else None

    @property
    def moved_bytes(self) -> int | None:
        """By successes; None where no store was involved."""
        return self.bytes_moved if self.has_bytes else None

    @property
    def failed_moved_bytes(self) -> int | None:
        """By failed operations; None where no store was involved."""
        return self.failed_bytes if self.has_bytes else None

    @property
    def retry_percent(self) -> float | None:
        """All retries over the successes; None without a success."""
        return 100.0 * self.retries / self.count if self.count else None


class Tally(Counts):
    """Counts, and the latencies of the successes."""

    def __init__(self) -> None:
        super().__init__()
        self.headers = Latency()
        self.first_byte = Latency()
        self.last_byte = Latency()  #: the service time: from start to last byte
        self.response = Latency()  #: from due to last byte; empty in a closed loop

    def merge(self, other: Counts) -> None:
        """Add ``other``, which stays as it is."""
        super().merge(other)
        if isinstance(other, Tally):
            for name in (*LATENCIES, "response"):
                getattr(self, name).merge(getattr(other, name))


@dataclass(frozen=True, slots=True, order=True)
class ErrorExample:
    """One failed operation to look up in the store's logs; the earliest is the example."""

    at_ns: int  #: its end, or start where that is unknown; wall clock
    operation: int
    detail: str
    transaction_id: bytes


@dataclass(frozen=True, slots=True)
class ErrorTally:
    """How often one kind of error with one status came."""

    count: int
    example: ErrorExample

    def plus(self, other: ErrorTally) -> ErrorTally:
        """Both together."""
        return ErrorTally(self.count + other.count, min(self.example, other.example))


Summed = TypeVar("Summed", bound=Counts)


def merged(into: Summed, parts: Sequence[Counts]) -> Summed:
    """``into`` with all of ``parts`` added."""
    for part in parts:
        into.merge(part)
    return into
