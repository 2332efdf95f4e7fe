"""A run by whole seconds: operations, bytes, errors, latencies, how many were in flight.

An operation belongs to the second in which it completed. Memory follows the seconds and the
operation types, never the number of operations. How widely a second's latencies are spread costs
memory, too, up to a limit: beyond it all seconds' buckets become wider (``relative_error``).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ssbench.core.stats.batches import Part
from ssbench.core.stats.buckets import MOST_BITS, Buckets, merged, relative_error

SECOND_NS = 1_000_000_000
#: Completions later than this after the run's start (115 days) can't be true: they are counted
#: apart, so that a damaged file can't ask for a row for each second up to them.
MAX_SECONDS = 10_000_000
#: Latencies that may wait to be put into buckets, over all seconds (8 MB). Results come nearly in
#: the order of time, so few seconds get more after that.
_MAX_WAITING = 1_000_000
#: Buckets of all seconds, some 72 MB, or 144 where each has thousands of values. An hour of 4,000
#: operations a second with latencies from one millisecond to fifty fills a third of them.
_MAX_BUCKETS = 24_000_000

_Columns = list[Any]  # sequences of equal length


@dataclass(frozen=True, slots=True)
class Second:
    """What completed within one second; ``count``, bytes and latencies are of the successes."""

    second: int  #: from the start of the run
    count: int
    errors: int
    bytes_moved: int
    in_flight: int  #: started and not completed when the second ended; lost ones never are
    service: Buckets  #: from start to last byte
    response: Buckets  #: from due to last byte; empty in a closed loop


class _Cell:
    """The sums of one second, operation type and run."""

    __slots__ = ("_response", "bytes_moved", "count", "errors", "flushed", "service", "started")

    def __init__(self) -> None:
        self.started = 0
        self.count = 0
        self.errors = 0
        self.bytes_moved = 0
        self.service = Buckets()
        self._response: Buckets | None = None  # of a closed loop there is none
        self.flushed = True

    @property
    def response(self) -> Buckets:
        return self._response or _NO_LATENCIES

    @property
    def size(self) -> int:
        return self.service.size + self.response.size

    def add_responses(self, responses_ns: array[float]) -> None:
        if self._response is None:
            self._response = Buckets()
        self._response.add(responses_ns)

    def flush(self) -> None:
        self.service.flush()
        self.response.flush()
        self.flushed = True

    def coarsen(self, bits: int) -> None:
        self.service.coarsen(bits)
        if self._response:
            self._response.coarsen(bits)

    def merge(self, other: _Cell) -> None:
        self.started += other.started
        self.count += other.count
        self.errors += other.errors
        self.bytes_moved += other.bytes_moved
        self.service.merge(other.service)
        if other._response:
            if self._response is None:
                self._response = Buckets()
            self._response.merge(other._response)
        self.flush()


class TimeSeries:
    """The seconds of a run, merged without cutting anybody's seconds anew.

    Two runs that began at different fractions of a second keep their own seconds until they are
    read side by side; so the order of merges doesn't matter.
    """

    def __init__(self) -> None:
        self.untimed = 0  #: successes at times that can't be true: in no second
        #: By (wall clock of the origin, operation type), then by second.
        self._cells: defaultdict[tuple[int, int], dict[int, _Cell]] = defaultdict(dict)
        self._unflushed: list[_Cell] = []
        self._waiting = 0  # latencies
        self._buckets = 0  # of all that is flushed
        self._bits = 0  # by which they are thinned

    def __repr__(self) -> str:
        seconds = sum(map(len, self._cells.values()))
        return f"<Series {seconds} seconds of {len(self._cells)} kinds, {self.untimed} untimed>"

    def add(self, part: Part, origin_ns: int) -> None:
        """Count the rows of a part.

        :param origin_ns: wall clock; the seconds count from it.
        """
        ends, starts, *rest = self._in_order(_columns(part), failed=part.failed)
        cells = self._cells[origin_ns, part.group[0]]
        for second, rows in _runs(starts):
            _cell(cells, second).started += rows.stop - rows.start
        for second, rows in _runs(ends):
            cell = _cell(cells, second)
            if part.failed:
                cell.errors += rows.stop - rows.start
            else:
                self._add_successes(cell, rows, *rest)

    @property
    def relative_error(self) -> float:
        """Of the seconds' quantiles, at most."""
        return relative_error(self._bits)

    def merge(self, other: TimeSeries) -> None:
        """Add ``other``, which stays as it is."""
        other._flush()
        self._flush()
        self.untimed += other.untimed
        for key, cells in other._cells.items():
            mine = self._cells[key]
            for second, cell in cells.items():
                _cell(mine, second).merge(cell)
        self._coarsen(max(self._bits, other._bits))

    @property
    def operations(self) -> list[int]:
        """The operation types that have results."""
        return sorted({operation for _origin, operation in self._cells})

    def seconds(self, operation: int | None = None) -> Iterator[Second]:
        """Each second without a gap, from the earliest origin to the last completion of any type.

        Seconds count from the whole second of the earliest run's start.

        :param operation: only of that type; None stands for all.
        """
        every = self._cells_by_second(None)
        if not every:
            return
        found = every if operation is None else self._cells_by_second(operation)
        in_flight = 0
        nothing: list[_Cell] = []
        for second in _span(min(0, *every), max(every)):
            cells = found.get(second, nothing)
            count = sum(cell.count for cell in cells)
            errors = sum(cell.errors for cell in cells)
            in_flight += sum(cell.started for cell in cells) - count - errors
            yield Second(
                second,
                count,
                errors,
                sum(cell.bytes_moved for cell in cells),
                in_flight,
                _merged_buckets([cell.service for cell in cells]),
                _merged_buckets([cell.response for cell in cells]),
            )

    @property
    def span(self) -> range:
        """The seconds that ``seconds`` gives."""
        every = self._cells_by_second(None)
        return range(min(0, *every), max(every) + 1)[: MAX_SECONDS + 1] if every else range(0)

    def totals(self, seconds: range) -> tuple[list[int], list[int]]:
        """Successes of each of these seconds, and the bytes that they moved."""
        found = self._cells_by_second(None)
        nothing: list[_Cell] = []
        cells = [found.get(second, nothing) for second in seconds]
        counts = [sum(cell.count for cell in each) for each in cells]
        return counts, [sum(cell.bytes_moved for cell in each) for each in cells]

    def per_second(self, *, from_first: bool = False) -> list[int]:
        """Successes in each second from the earliest origin to the last success.

        :param from_first: begin at the first success instead.
        """
        found: Counter[int] = Counter()
        for second, cells in self._cells_by_second(None).items():
            found[second] = sum(cell.count for cell in cells)
        found = +found
        if not found:
            return []
        first = min(found) if from_first else min(0, *found)
        return [found[second] for second in _span(first, max(found))]

    def _cells_by_second(self, operation: int | None) -> dict[int, list[_Cell]]:
        """The cells of each second, all runs by the seconds of the one that began first."""
        found: defaultdict[int, list[_Cell]] = defaultdict(list)
        zero = min((origin for origin, _operation in self._cells), default=0)
        for (origin, of_operation), cells in self._cells.items():
            if operation in (None, of_operation):
                shift = (origin - zero) // SECOND_NS
                for second, cell in cells.items():
                    found[shift + second].append(cell)
        return found

    def _in_order(self, columns: _Columns, *, failed: bool) -> _Columns:
        """The rows by their ends, and for itself the column of starts, both rising.

        Those whose times can't be true are counted, and missing.
        """
        ends, starts = map(sorted, columns[:2])
        limit = MAX_SECONDS * SECOND_NS
        if min(ends[0], starts[0]) < -limit or max(ends[-1], starts[-1]) > limit:
            rows = [
                row
                for row, (end, start) in enumerate(zip(*columns[:2], strict=True))
                if abs(end) <= limit and abs(start) <= limit
            ]
            if not failed:
                self.untimed += len(ends) - len(rows)
            columns = _picked(columns, rows)
            ends, starts = map(sorted, columns[:2])
        if ends != columns[0]:  # as a worker's results come, they are in order nearly always
            rows = sorted(range(len(ends)), key=columns[0].__getitem__)
            columns = _picked(columns, rows)
        return [ends, starts, *columns[2:]]

    def _add_successes(
        self,
        cell: _Cell,
        rows: slice,
        lasts: array[float],
        moved: Sequence[int],
        responses: array[float] | None = None,
    ) -> None:
        count = rows.stop - rows.start
        cell.count += count
        cell.bytes_moved += sum(moved[rows])
        cell.service.add(lasts[rows])
        if responses:
            cell.add_responses(responses[rows])
        if cell.flushed:
            cell.flushed = False
            self._unflushed.append(cell)
        self._waiting += 2 * count if responses else count
        if self._waiting > _MAX_WAITING:
            self._flush()

    def _flush(self) -> None:
        for cell in self._unflushed:
            before = cell.size
            cell.flush()
            if self._bits:
                cell.coarsen(self._bits)
            self._buckets += cell.size - before
        self._unflushed.clear()
        self._waiting = 0
        if self._buckets > _MAX_BUCKETS and self._bits < MOST_BITS:
            self._coarsen(self._bits + 1)

    def _coarsen(self, bits: int) -> None:
        """Have buckets of that width, or as much wider as memory asks for."""
        every = [cell for cells in self._cells.values() for cell in cells.values()]
        while True:
            bits = min(bits, MOST_BITS)
            if bits:
                for cell in every:
                    cell.coarsen(bits)
            self._bits, self._buckets = bits, sum(cell.size for cell in every)
            if self._buckets <= _MAX_BUCKETS or bits == MOST_BITS:
                return
            bits += 1


_NO_LATENCIES = Buckets()  # nobody adds to it


def _cell(cells: dict[int, _Cell], second: int) -> _Cell:
    found = cells.get(second)
    if found is None:
        found = cells[second] = _Cell()
    return found


def _columns(part: Part) -> _Columns:
    """When its rows ended and began; of successes what is counted of each, too."""
    times: _Columns = [part.ends_ns, part.column("start_ns")]
    if part.failed:
        return times
    lasts = part.durations("last_byte_ns").doubles
    responses = [part.responses.doubles] if part.responses else []
    return [*times, lasts, part.column("bytes_moved"), *responses]


def _runs(rising_ns: Sequence[int]) -> list[tuple[int, slice]]:
    """(second, the rows whose times are in it), of times in rising order."""
    if not rising_ns:
        return []
    last = rising_ns[-1] // SECOND_NS
    found = []
    begin, second = 0, rising_ns[0] // SECOND_NS
    while second < last:
        end = bisect_left(rising_ns, (second + 1) * SECOND_NS, begin)
        found.append((second, slice(begin, end)))
        begin, second = end, rising_ns[end] // SECOND_NS
    found.append((last, slice(begin, len(rising_ns))))
    return found


def _picked(columns: _Columns, rows: Sequence[int]) -> _Columns:
    return [
        array("d", [column[row] for row in rows])
        if isinstance(column, array) and column.typecode == "d"
        else [column[row] for row in rows]
        for column in columns
    ]


def _span(first: int, last: int) -> Iterator[int]:
    return islice(range(first, last + 1), MAX_SECONDS + 1)


def _merged_buckets(parts: Sequence[Buckets]) -> Buckets:
    return parts[0] if len(parts) == 1 else merged(parts)
