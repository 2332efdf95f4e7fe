"""A run by whole seconds: operations, bytes, errors, latencies, how many were in flight.

An operation belongs to the second in which it completed. The sums are a table of a row for each
second, as results are added by the thousand. Memory follows the seconds and the
operation types, never the number of operations. How widely a second's latencies are spread costs
memory, too, up to a limit: beyond it all seconds' buckets become wider (``relative_error``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ssbench.core.model import SECOND_NS
from ssbench.core.stats.budget import OTHERS, Budget
from ssbench.core.stats.histogram import (
    MAX_NS,
    MOST_BITS,
    Buckets,
    coarser,
    relative_error,
    second_keys,
    summed,
)
from ssbench.core.stats.results import Ints, ResultGroup

#: Completions later than this after the run's start (115 days) can't be true: they are counted
#: apart, so that a damaged file can't ask for a row for each second up to them.
MAX_SECONDS = 10_000_000
_MAX_WAITING = 1_000_000  #: latencies not yet counted, over all seconds (8 MB)
#: Buckets of all seconds, some 72 MB, or 144 where a bucket has more than 255 values. An hour of
#: 4,000 operations/s with latencies from one millisecond to fifty fills a third of them.
_MAX_BUCKETS = 24_000_000
_KEY_BITS = 16


class Second(Struct, frozen=True):
    """What completed within one second; ``count``, bytes and latencies are of the successes."""

    second: int  #: from the start of the run
    count: int
    errors: int
    bytes_moved: int
    in_flight: int  #: started and not completed when the second ended; lost ones never are
    service: Buckets  #: from start to last byte
    response: Buckets  #: from due to last byte; empty in a closed loop


_NOTHING = Buckets.merged([])


class _Latencies:
    """Latency counts of many seconds, in blocks of buckets sorted by second.

    Results come nearly in the order of time, so few seconds are in more than one block.
    """

    def __init__(self) -> None:
        self._waiting: list[Ints] = []  # codes: the second, and in its lower 16 bits the key
        self.waiting = 0
        #: (seconds, where each begins, keys, counts) of each block.
        self._blocks: list[tuple[Ints, Ints, npt.NDArray[Any], npt.NDArray[Any]]] = []

    @property
    def size(self) -> int:
        """Buckets of all blocks."""
        return sum(len(keys) for _seconds, _begins, keys, _counts in self._blocks)

    def add(self, seconds: Ints, values_ns: Ints) -> None:
        """Count durations; those below 0 and above one hour are passed over."""
        within = (values_ns >= 0) & (values_ns <= MAX_NS)
        if not within.all():
            seconds, values_ns = seconds[within], values_ns[within]
        codes = (seconds.astype(np.int64) << _KEY_BITS) | second_keys(values_ns)
        self._waiting.append(codes)
        self.waiting += len(codes)

    def flush(self, bits: int) -> None:
        """Count what waits, in buckets made coarser by this many bits."""
        if not self.waiting:
            return
        codes = _coarser(np.concatenate(self._waiting), bits)
        self._waiting, self.waiting = [], 0
        codes.sort()
        begins = np.flatnonzero(np.diff(codes, prepend=codes[0] - 1))
        self._keep(codes[begins], np.diff(begins, append=len(codes)))

    def _keep(self, codes: Ints, counts: Ints) -> None:
        seconds = codes >> _KEY_BITS
        begins = np.flatnonzero(np.diff(seconds, prepend=seconds[0] - 1))
        small = np.uint8 if int(counts.max()) < 256 else np.uint32
        keys = (codes & ((1 << _KEY_BITS) - 1)).astype(np.uint16)
        self._blocks.append((seconds[begins], begins, keys, counts.astype(small)))

    def unite(self, bits: int) -> None:
        """Make one block of all, in buckets made coarser by this many bits."""
        if not self._blocks:
            return
        pieces = [
            (np.repeat(seconds, np.diff(begins, append=len(keys))) << _KEY_BITS) | keys
            for seconds, begins, keys, _counts in self._blocks
        ]
        counts = np.concatenate([block[3] for block in self._blocks]).astype(np.int64)
        codes = _coarser(np.concatenate(pieces), bits)
        self._blocks = []
        self._keep(*summed(codes, counts))

    def parts(self, second: int) -> list[Buckets]:
        """What is counted of a second, by block."""
        found = []
        for seconds, begins, keys, counts in self._blocks:
            at = int(seconds.searchsorted(second))
            if at < len(seconds) and seconds[at] == second:
                these = slice(begins[at], begins[at + 1] if at + 1 < len(begins) else None)
                found.append(Buckets(keys[these], counts[these]))
        return found


def _coarser(codes: Ints, bits: int) -> Ints:
    if not bits:
        return codes
    keys = codes & ((1 << _KEY_BITS) - 1)
    wider: Ints = codes - keys + coarser(keys, bits)
    return wider


#: Columns of a lane's rows. A success that began in an earlier second is moved to all seconds in
#: which it ran by its share of each: FLOW is what a second has more or less of it, RISING how much
#: more each second has from this one on.
_STARTED, _COUNT, _ERRORS, _RACES, _BYTES, _FLOW, _FLOW_BYTES, _RISING, _RISING_BYTES = range(9)
_COLUMNS = 9
_MOST_ROWS = 4096  #: that wait to be summed

Rows = tuple[Ints, npt.NDArray[np.float64]]  #: seconds, rising; the columns of each
_NO_ROWS = (np.zeros(0, np.int64), np.zeros((0, _COLUMNS)))


def _summed(blocks: Sequence[Rows]) -> Rows:
    """A row for each second. Sums of whole numbers are exact up to 2**53: 9 PB in a second."""
    if len(blocks) < 2:
        return blocks[0] if blocks else _NO_ROWS
    seconds, sums = (np.concatenate(each) for each in zip(*blocks, strict=True))
    order = np.argsort(seconds, kind="stable")
    seconds = seconds[order]
    begins = np.flatnonzero(np.diff(seconds, prepend=seconds[:1] - 1))
    return seconds[begins], np.add.reduceat(sums[order], begins)


class _Lane:
    """The seconds of one operation type."""

    def __init__(self) -> None:
        self._blocks: list[Rows] = []
        self._waiting = 0  # rows of all blocks but the first
        self.service = _Latencies()
        self.response = _Latencies()

    def add(self, rows: Rows) -> None:
        self._blocks.append(rows)
        self._waiting += len(rows[0])
        if self._waiting > _MOST_ROWS + len(self._blocks[0][0]):
            self.rows()

    def rows(self) -> Rows:
        found = _summed(self._blocks)
        self._blocks, self._waiting = [found], 0
        return found


class TimeSeries:
    """The seconds of a run."""

    def __init__(self, budget: Budget | None = None) -> None:
        self._budget = budget or Budget()
        self.untimed = 0  #: successes at times that can't be true: in no second
        self._lanes: defaultdict[int, _Lane] = defaultdict(_Lane)  # by operation type
        self._whole: Rows | None = None  # of all lanes, until something is added
        self._flows: tuple[list[float], list[float]] | None = None  # of the span, likewise
        self._waiting = 0  # latencies
        self._bits = 0  # by which buckets are coarser
        self._united = True  # whether each lane's latencies are in one block

    def __repr__(self) -> str:
        return f"<TimeSeries of {len(self._lanes)} operation types, {self.untimed} untimed>"

    def add(self, group: ResultGroup) -> None:
        """Count the rows of a group."""
        columns = [group.ends_ns, group.column("start_ns")]
        if not group.failed:
            columns += [group.column("bytes_moved"), group.column("last_byte_ns")]
            if group.responses_ns is not None:
                columns.append(group.responses_ns)
        limit = self._most_seconds * SECOND_NS
        if any(int(times.min()) < -limit or int(times.max()) > limit for times in columns[:2]):
            possible = (abs(columns[0]) <= limit) & (abs(columns[1]) <= limit)
            if not group.failed:
                self.untimed += int(np.count_nonzero(~possible))
            columns = [column[possible] for column in columns]
            if not len(columns[0]):
                return
        fits = self._budget.fits("operations over time", group.operation)
        lane = self._lanes[group.operation if fits else OTHERS]
        self._whole = self._flows = None
        ends_ns, starts_ns = (times.astype(np.int64) for times in columns[:2])
        ends = ends_ns // SECOND_NS
        if group.failed:
            lane.add(_rows(starts_ns, ends_ns, _RACES if group.lost_race else _ERRORS))
            return
        moved, *latencies = columns[2:]
        lane.add(_rows(starts_ns, ends_ns, _COUNT, moved.astype(np.float64)))
        for counts, values_ns in zip((lane.service, lane.response), latencies, strict=False):
            counts.add(ends, values_ns)
            self._waiting += len(ends)
        if self._waiting > _MAX_WAITING:
            self._flush()

    @property
    def relative_error(self) -> float:
        """Of the seconds' quantiles, at most."""
        self._unite()
        return relative_error(self._bits)

    @property
    def operations(self) -> list[int]:
        """The operation types that have results."""
        return sorted(self._lanes)

    def seconds(self, operation: int | None = None) -> Iterator[Second]:
        """Each second without a gap, from the run's start to the last completion of any type.

        :param operation: only of that type; None stands for all.
        """
        self._unite()
        lanes = [lane for of, lane in self._lanes.items() if operation in (None, of)]
        known, sums = self._rows if operation is None else _summed([each.rows() for each in lanes])
        rows = dict(zip(known.tolist(), sums[:, : _BYTES + 1].tolist(), strict=True))
        in_flight = 0
        for second in self.span:
            if second not in rows:  # most, where each operation of a long run is asked for
                yield Second(second, 0, 0, 0, in_flight, _NOTHING, _NOTHING)
                continue
            started, count, errors, races, moved = map(int, rows[second])
            in_flight += started - count - errors - races
            yield Second(
                second,
                count,
                errors,
                moved,
                in_flight,
                Buckets.merged([part for lane in lanes for part in lane.service.parts(second)]),
                Buckets.merged([part for lane in lanes for part in lane.response.parts(second)]),
            )

    @property
    def span(self) -> range:
        """The seconds that ``seconds`` gives."""
        seconds = self._rows[0]
        found = range(min(0, seconds[0]), seconds[-1] + 1) if len(seconds) else range(0)
        return found[: self._most_seconds + 1]

    @property
    def _rows(self) -> Rows:
        """Of all operation types together."""
        if self._whole is None:
            self._whole = _summed([lane.rows() for lane in self._lanes.values()])
        return self._whole

    def flows(self, seconds: range) -> tuple[list[float], list[float]]:
        """Successes, each by the share of its time in each of these seconds; and their bytes.

        :param seconds: none before those of ``span``.

        So operations that last for seconds, and end together, do not look like bursts.
        """
        if self._flows is None:
            self._flows = self._all_flows()
        begin = seconds.start - self.span.start
        count, size = (each[begin : begin + len(seconds)] for each in self._flows)
        nothing = [0.0] * (len(seconds) - len(count))
        return count + nothing, size + nothing

    def _all_flows(self) -> tuple[list[float], list[float]]:
        span, (seconds, sums) = self.span, self._rows
        within = seconds < span.stop
        flows = np.zeros((len(span), _COLUMNS))
        flows[seconds[within] - span.start] = sums[within]
        count, size = (
            np.maximum(0, flows[:, own] + flows[:, more] + flows[:, rising].cumsum())
            for own, more, rising in (
                (_COUNT, _FLOW, _RISING), (_BYTES, _FLOW_BYTES, _RISING_BYTES),
            )
        )  # fmt: skip
        # Sums of floats are not exact.
        return np.round(count, 6).tolist(), np.round(size, 6).tolist()

    def per_second(self) -> list[int]:
        """Successes in each second from the run's start to the last success."""
        seconds, sums = self._rows
        done = sums[:, _COUNT] > 0
        found = dict(zip(seconds[done].tolist(), sums[done, _COUNT].tolist(), strict=True))
        span = range(min([0, *found]), max(found, default=-1) + 1)
        return [int(found.get(second, 0)) for second in span[: self._most_seconds + 1]]

    @property
    def _most_seconds(self) -> int:
        return int(min(MAX_SECONDS, self._budget.seconds))

    def _latencies(self) -> list[_Latencies]:
        return [each for lane in self._lanes.values() for each in (lane.service, lane.response)]

    def _flush(self) -> None:
        if not self._waiting:
            return
        for latencies in self._latencies():
            latencies.flush(self._bits)
        self._waiting, self._united = 0, False
        # Blocks have buckets in common: only uniting them shows how many there are.
        if sum(each.size for each in self._latencies()) > 1.5 * _MAX_BUCKETS:
            self._unite()

    def _unite(self) -> None:
        """Have each lane's buckets in one block, and as wide as memory asks for."""
        self._flush()
        while not self._united:
            for latencies in self._latencies():
                latencies.unite(self._bits)
            size = sum(latencies.size for latencies in self._latencies())
            self._united = size <= _MAX_BUCKETS or self._bits == MOST_BITS
            self._bits += not self._united


def _rows(
    starts_ns: Ints, ends_ns: Ints, outcome: int, moved: npt.NDArray[np.float64] | None = None
) -> Rows:
    """The rows of operations of one outcome.

    :param moved: bytes of successes.
    """
    starts, ends = starts_ns // SECOND_NS, ends_ns // SECOND_NS
    # Nothing ends before it starts.
    first, last = int(starts.min()), int(ends.max())
    if last - first < 1024 + 4 * len(ends):
        seconds, froms, tos = np.arange(first, last + 1), starts - first, ends - first
    else:
        seconds = np.unique(np.concatenate([starts, ends, starts + 1]))
        froms, tos = seconds.searchsorted(starts), seconds.searchsorted(ends)
    many = len(seconds)
    sums = np.zeros((many, _COLUMNS))
    sums[:, _STARTED] = np.bincount(froms, minlength=many)
    sums[:, outcome] = np.bincount(tos, minlength=many)
    if moved is not None:
        sums[:, _BYTES] = np.bincount(tos, moved, many)
        longer = np.flatnonzero(tos > froms)
        if len(longer):
            _spread(
                sums, froms[longer], tos[longer], starts_ns[longer], ends_ns[longer], moved[longer]
            )
    used = sums.any(axis=1)
    return seconds[used], sums[used]


def _spread(
    sums: npt.NDArray[np.float64],
    froms: Ints,
    tos: Ints,
    starts_ns: Ints,
    ends_ns: Ints,
    moved: npt.NDArray[np.float64],
) -> None:
    """Move successes from the seconds in which they ended to all in which they ran.

    :param froms, tos: the rows of these seconds; the second after ``froms`` has the next one.
    """
    took_ns = (ends_ns - starts_ns).astype(np.float64)
    first = (SECOND_NS - starts_ns % SECOND_NS).astype(np.float64) / took_ns
    last = (ends_ns % SECOND_NS).astype(np.float64) / took_ns
    for places, shares, column in (
        (froms, first, _FLOW),
        (tos, last - 1, _FLOW),
        (froms + 1, SECOND_NS / took_ns, _RISING),
        (tos, -SECOND_NS / took_ns, _RISING),
    ):
        sums[:, column] += np.bincount(places, shares, len(sums))
        sums[:, column + 1] += np.bincount(places, shares * moved, len(sums))
