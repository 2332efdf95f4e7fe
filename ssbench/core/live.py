"""Data of the progress display: the state of a phase, and coarse latency counts.

The counts are cheap to make and small in a heartbeat. A bucket is the upper part of the value's
IEEE 754 double, with 5 bits of the mantissa, so it is 3 % wide. Reports never use these counts;
they use core.stats.histogram.
"""

from __future__ import annotations

import struct
from array import array
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ssbench.core.columns import unpack_column
from ssbench.core.model import Result

_SHIFT = 52 - 5
BUCKET_WIDTH = 1 / 32  #: of a bucket, as a share of its values
_INFINITE = 0x7FF0_0000_0000_0000 >> _SHIFT  #: from here on: infinities, NaN, negatives
_WINDOW_S = 5.0  #: rate and latencies of the display are those of so much time
#: Counts that arrive within this time are merged: 256 workers send 256 maps per second.
_GRAIN_S = 0.25
_OPERATION = 1 + Result._fields.index("operation")
_ERROR = 1 + Result._fields.index("error")


@dataclass(frozen=True, slots=True)
class RunProgress:
    """The state of a phase."""

    elapsed_s: float  #: since the load began: not while workers connect
    done: int
    total: int | None = None  #: None if the phase ends by time
    errors: int = 0
    rate: float = 0.0  #: operations/s, over the last seconds
    p50_s: float | None = None  #: latency percentiles over the last seconds
    p99_s: float | None = None
    remaining_s: float | None = None
    workers: int = 0
    users: int = 0
    target_rate: float | None = None  #: target arrival rate in operations/s; None in a closed loop
    late: int = 0  #: operations past their due time that have not started
    #: number of an operation -> how many succeeded and how many failed; {} if no observer wants it
    operations: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    #: ErrorKind -> failed operations; {} if no observer wants it
    errors_by_cause: Mapping[int, int] = field(default_factory=dict)
    #: ``buckets`` of the latencies over the last seconds; {} if no observer wants them
    latencies: Mapping[int, int] = field(default_factory=dict)
    #: number of an object whose upload takes long -> bytes sent so far
    moving: Mapping[int, int] = field(default_factory=dict)


def buckets(values_ns: Sequence[int]) -> Counter[int]:
    """Counts of values in ns, by bucket."""
    bits = memoryview(array("d", values_ns)).cast("B").cast("Q")
    return Counter([item >> _SHIFT for item in bits])


def quantile_s(counts: Mapping[int, int], percent: float) -> float | None:
    """The percentile (0 to 100) in seconds, within 3 %; None if there are no values."""
    rank = sum(counts.values()) * percent / 100
    if not rank:
        return None
    seen = 0
    for bucket in sorted(counts):
        seen += counts[bucket]
        if seen >= rank:
            break
    if bucket >= _INFINITE:
        return None
    middle = (bucket << _SHIFT) + (1 << (_SHIFT - 1))
    (value_ns,) = struct.unpack("=d", struct.pack("=Q", middle))
    return float(value_ns) / 1e9


def above(counts: Mapping[int, int], limit_s: float) -> int:
    """How many values are certainly above the limit."""
    least = buckets([int(limit_s * 1e9)])
    return sum(count for bucket, count in counts.items() if bucket > max(least))


class ProgressTracker:
    """Collects the data of a phase's display. Times are seconds since the start of the phase."""

    def __init__(self, total: int | None, run_seconds: float | None) -> None:
        self._total = total
        self._run_seconds = run_seconds
        self._done: deque[tuple[float, int]] = deque([(0.0, 0)])
        self._latencies: deque[tuple[float, Counter[int]]] = deque()
        self._outcomes: Counter[tuple[int, int]] = Counter()  # (operation, error) -> number

    def add_latencies(self, at_s: float, counts: Mapping[int, int]) -> None:
        """Add the latency counts of a heartbeat."""
        if not counts:
            return
        if not self._latencies or at_s - self._latencies[-1][0] > _GRAIN_S:
            self._latencies.append((at_s, Counter()))
        self._latencies[-1][1].update(counts)

    def add_results(self, columns: Sequence[Any]) -> None:
        """Count packed results, which were checked, by operation and error."""
        count, operations, errors = columns[0], columns[_OPERATION], columns[_ERROR]
        if type(operations) is int and type(errors) is int:
            self._outcomes[operations, errors] += count
        else:
            pairs = zip(unpack_column(operations, count), unpack_column(errors, count), strict=True)
            self._outcomes.update(pairs)

    def progress(
        self, at_s: float, done: int, errors: int, workers: int, users: int
    ) -> RunProgress:
        """The state of the phase now."""
        self._done.append((at_s, done))
        while len(self._done) > 2 and self._done[0][0] < at_s - _WINDOW_S:
            self._done.popleft()
        while self._latencies and self._latencies[0][0] < at_s - _WINDOW_S:
            self._latencies.popleft()
        (from_s, before), (to_s, after) = self._done[0], self._done[-1]
        rate = (after - before) / (to_s - from_s) if to_s > from_s else 0.0
        recent: Counter[int] = Counter()
        for _, counts in self._latencies:
            recent.update(counts)
        return RunProgress(
            at_s,
            done,
            self._total,
            errors,
            rate,
            quantile_s(recent, 50),
            quantile_s(recent, 99),
            self._remaining_s(at_s, done, rate),
            workers,
            users,
            operations=self.by_operation(),
            errors_by_cause=self._by_cause(),
            latencies=recent,
        )

    def by_operation(self) -> dict[int, tuple[int, int]]:
        """Number of an operation -> how many succeeded and how many failed."""
        found: dict[int, tuple[int, int]] = {}
        for (operation, error), count in self._outcomes.items():
            done, failed = found.get(operation, (0, 0))
            found[operation] = (done, failed + count) if error else (done + count, failed)
        return found

    def _by_cause(self) -> dict[int, int]:
        found: Counter[int] = Counter()
        for (_, error), count in self._outcomes.items():
            if error:
                found[error] += count
        return dict(found)

    def _remaining_s(self, at_s: float, done: int, rate: float) -> float | None:
        if self._run_seconds is not None:
            return max(self._run_seconds - at_s, 0.0)
        if self._total is None or not rate:
            return None
        return max(self._total - done, 0) / rate
