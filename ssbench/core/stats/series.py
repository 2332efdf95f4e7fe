"""A run by whole seconds: operations, bytes, errors, latencies, how many were in flight.

An operation belongs to the second in which it completed. Memory follows the seconds and the
operation types, never the number of operations. How widely a second's latencies are spread costs
memory, too, up to a limit: beyond it all seconds' buckets become wider (``relative_error``).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import astuple

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
from ssbench.core.stats.results import Ints, ResultGroup, exact_sums

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


class _Cell(Struct):
    """The sums of one second."""

    started: int = 0
    count: int = 0
    errors: int = 0
    lost_races: int = 0
    bytes_moved: int = 0


class _Flow(Struct):
    """What successes that began in an earlier second change where they are counted by the share of
    their time in each second."""

    count: float = 0.0
    bytes_moved: float = 0.0
    rising: float = 0.0  #: more operations from this second on
    rising_bytes: float = 0.0


class _Lane:
    """The seconds of one operation type of one run."""

    def __init__(self) -> None:
        self.cells: defaultdict[int, _Cell] = defaultdict(_Cell)
        self.flows: defaultdict[int, _Flow] = defaultdict(_Flow)
        self.service = _Latencies()
        self.response = _Latencies()


class TimeSeries:
    """The seconds of a run; of several runs, each run's own.

    Two runs that began at different fractions of a second keep their own seconds until they are
    read side by side.
    """

    def __init__(self, budget: Budget | None = None) -> None:
        self._budget = budget or Budget()
        self.untimed = 0  #: successes at times that can't be true: in no second
        #: By (wall clock of the origin, operation type).
        self._lanes: defaultdict[tuple[int, int], _Lane] = defaultdict(_Lane)
        self._zero = 0  # the first origin
        self._span: range | None = None  # until something is added
        self._flows: tuple[list[float], list[float]] | None = None  # of the span, likewise
        self._waiting = 0  # latencies
        self._bits = 0  # by which buckets are coarser
        self._united = True  # whether each lane's latencies are in one block

    def __repr__(self) -> str:
        seconds = sum(len(lane.cells) for lane in self._lanes.values())
        return f"<TimeSeries {seconds} seconds of {len(self._lanes)} kinds, {self.untimed} untimed>"

    def add(self, group: ResultGroup, origin_ns: int) -> None:
        """Count the rows of a group.

        :param origin_ns: wall clock; the seconds count from it.
        """
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
        ends, starts = (times.astype(np.int64) // SECOND_NS for times in columns[:2])
        key = origin_ns, group.operation
        if not self._budget.fits("operations over time", key):
            key = origin_ns, OTHERS
        self._span = self._flows = None
        self._zero = min(self._zero, origin_ns) if self._lanes else origin_ns
        lane = self._lanes[key]
        for second, count in _counted(starts):
            lane.cells[second].started += count
        if group.failed:
            for second, count in _counted(ends):
                if group.lost_race:
                    lane.cells[second].lost_races += count
                else:
                    lane.cells[second].errors += count
            return
        moved, *latencies = columns[2:]
        for second, count, size in _counted_with(ends, moved):
            cell = lane.cells[second]
            cell.count += count
            cell.bytes_moved += size
        longer = ends > starts
        if longer.any():
            _spread(lane.flows, *(column[longer] for column in columns[:3]))
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
        return sorted({operation for _origin, operation in self._lanes})

    def seconds(self, operation: int | None = None) -> Iterator[Second]:
        """Each second without a gap, from the earliest origin to the last completion of any type.

        Seconds count from the whole second of the earliest run's start.

        :param operation: only of that type; None stands for all.
        """
        self._unite()
        cells: defaultdict[int, list[tuple[_Lane, int]]] = defaultdict(list)
        for shift, of, lane in self._shifted():
            if operation in (None, of):
                for own in lane.cells:
                    cells[shift + own].append((lane, own))
        in_flight = 0
        for second in self.span:
            found = cells.get(second)
            if found is None:  # most, where each operation of a long run is asked for
                yield Second(second, 0, 0, 0, in_flight, _NOTHING, _NOTHING)
                continue
            sums = _Cell(
                *map(sum, zip(*(astuple(lane.cells[own]) for lane, own in found), strict=True))
            )
            in_flight += sums.started - sums.count - sums.errors - sums.lost_races
            yield Second(
                second,
                sums.count,
                sums.errors,
                sums.bytes_moved,
                in_flight,
                Buckets.merged([part for lane, own in found for part in lane.service.parts(own)]),
                Buckets.merged([part for lane, own in found for part in lane.response.parts(own)]),
            )

    @property
    def span(self) -> range:
        """The seconds that ``seconds`` gives."""
        if self._span is None:
            ends = [
                shift + end
                for shift, _operation, lane in self._shifted()
                for end in (min(lane.cells), max(lane.cells))
            ]
            self._span = range(min(0, *ends), max(ends) + 1) if ends else range(0)
        return self._span[: self._most_seconds + 1]

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
        seconds = self.span
        counts, moved, rises, byte_rises = np.zeros((4, len(seconds)))
        for shift, _operation, lane in self._shifted():
            for second, cell in lane.cells.items():
                at = shift + second - seconds.start
                if at < len(seconds):
                    counts[at] += cell.count
                    moved[at] += cell.bytes_moved
            for second, flow in lane.flows.items():
                at = shift + second - seconds.start
                if at < len(seconds):
                    counts[at] += flow.count
                    moved[at] += flow.bytes_moved
                    rises[at] += flow.rising
                    byte_rises[at] += flow.rising_bytes
        flows = (np.maximum(0, counts + rises.cumsum()), np.maximum(0, moved + byte_rises.cumsum()))
        count, size = (np.round(each, 6).tolist() for each in flows)  # sums of floats are not exact
        return count, size

    def per_second(self) -> list[int]:
        """Successes in each second from the earliest origin to the last success."""
        found: Counter[int] = Counter()
        for shift, _operation, lane in self._shifted():
            for second, cell in lane.cells.items():
                found[shift + second] += cell.count
        found = +found
        if not found:
            return []
        first = min(0, *found)
        return [found[at] for at in islice(range(first, max(found) + 1), self._most_seconds + 1)]

    @property
    def _most_seconds(self) -> int:
        return int(min(MAX_SECONDS, self._budget.seconds))

    def _shifted(self) -> Iterator[tuple[int, int, _Lane]]:
        """(what its seconds are later than those of the first run, operation type, lane)."""
        for (origin, operation), lane in self._lanes.items():
            yield (origin - self._zero) // SECOND_NS, operation, lane

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


def _spread(flows: defaultdict[int, _Flow], ends_ns: Ints, starts_ns: Ints, moved: Ints) -> None:
    """Move successes from the seconds in which they ended to all in which they ran."""
    took_ns = (ends_ns - starts_ns).astype(np.float64)
    ends, starts = (times.astype(np.int64) // SECOND_NS for times in (ends_ns, starts_ns))
    first = ((starts + 1) * SECOND_NS - starts_ns).astype(np.float64) / took_ns
    last = (ends_ns - ends * SECOND_NS).astype(np.float64) / took_ns
    sizes = moved.astype(np.float64)
    for seconds, shares, rising in (
        (starts, first, False),
        (ends, last - 1, False),
        (starts + 1, SECOND_NS / took_ns, True),
        (ends, -SECOND_NS / took_ns, True),
    ):
        names, places = _placed(seconds)
        counts, sums = np.bincount(places, shares), np.bincount(places, shares * sizes)
        for at in np.flatnonzero(np.bincount(places)).tolist():
            flow = flows[names[at]]
            if rising:
                flow.rising += float(counts[at])
                flow.rising_bytes += float(sums[at])
            else:
                flow.count += float(counts[at])
                flow.bytes_moved += float(sums[at])


def _counted(seconds: Ints) -> Iterator[tuple[int, int]]:
    """(second, rows in it), rising."""
    names, places = _placed(seconds)
    counts = np.bincount(places)
    for at in np.flatnonzero(counts).tolist():
        yield names[at], int(counts[at])


def _counted_with(seconds: Ints, values: Ints) -> Iterator[tuple[int, int, int]]:
    """(second, rows in it, the sum of their values), rising."""
    names, places = _placed(seconds)
    counts, sums = np.bincount(places), exact_sums(values, places)
    for at in np.flatnonzero(counts).tolist():
        yield names[at], int(counts[at]), sums[at]


def _placed(seconds: Ints) -> tuple[Sequence[int], Ints]:
    """Seconds, rising, and the place of each row's among them."""
    first, last = int(seconds.min()), int(seconds.max())
    if last - first < 1024 + 4 * len(seconds):
        return range(first, last + 1), seconds - first
    distinct, places = np.unique(seconds, return_inverse=True)
    return distinct.tolist(), places
