"""What a run shows while it runs: observers, the state that they are given, and who collects it.

A latency's bucket is the upper part of its IEEE 754 double, with 5 bits of the mantissa, so it is
3 % wide. Reports never use these counts; they use core.stats.histogram.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from math import log
from operator import itemgetter
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from ssbench.core.columns import WIDTHS, unpack_column
from ssbench.core.model import NONE_NS, ErrorKind, Phase, Result, identity_of_group
from ssbench.core.sparse import marked

if TYPE_CHECKING:
    from ssbench.core.records import EventRecord, RunHeader


#: States of workers that need attention, the gravest first.
ATTENTION = ("gone", "silent", "connecting")


class OperationProgress(NamedTuple):
    """Of one operation; the rate and the percentiles are those of successes in the last seconds."""

    done: int  #: successes
    failed: int
    rate: float = 0.0
    p50_s: float | None = None
    p99_s: float | None = None
    lost_races: int = 0  #: conditional writes for which another client was first


class WorkerProgress(NamedTuple):
    """Of one worker."""

    name: str
    #: "connecting", "running", "spare" (no users), "stopped", "silent", "gone" or "metrics only"
    state: str
    users: int
    jobs: int  #: queued or in flight
    cpu_percent: float | None  #: of its process, in per cent of one core; None: unknown


class RunProgress(Struct, frozen=True):
    """The state of a phase."""

    elapsed_s: float  #: since the load began: not while workers connect
    done: int
    total: int | None = None  #: None if the phase ends by time
    errors: int = 0
    rate: float = 0.0  #: operations/s, over the last seconds
    #: Latency percentiles over the last seconds, here and below: of a sample at high rates, and
    #: None if no observer wants counts.
    p50_s: float | None = None
    p99_s: float | None = None
    remaining_s: float | None = None
    workers: int = 0
    users: int = 0
    target_rate: float | None = None  #: target arrival rate in operations/s; None in a closed loop
    late: int = 0  #: operations past their due time that have not started
    rate_missed: bool = False  #: more of an open loop falls due than completes
    #: by the operation's number; {} if no observer wants counts
    operations: Mapping[int, OperationProgress] = {}
    #: ErrorKind -> failed operations; {} if no observer wants it
    errors_by_cause: Mapping[int, int] = {}
    #: HTTP status -> failed operations, of those with ErrorKind.STATUS; {} likewise
    errors_by_status: Mapping[int, int] = {}
    #: Number of an identity, from 0 -> its operations, without latencies; {} likewise, where there
    #: is but one, and outside of the run phase.
    identities: Mapping[int, OperationProgress] = {}
    #: number of an object whose upload takes long -> bytes sent so far
    moving: Mapping[int, int] = {}
    bytes_rate: float = 0.0  #: bytes/s, over the last seconds; 0 if no observer wants counts
    response_p50_s: float | None = None  #: response times of an open loop, over the last seconds
    response_p99_s: float | None = None
    #: operations/s and bytes/s of each of the last seconds, oldest first
    history: Sequence[tuple[float, float]] = ()
    workers_seen: Sequence[WorkerProgress] = ()  #: () if no observer wants counts
    #: Latencies of the successes of the phase so far: (operation, size class) -> bucket of
    #: latency_buckets -> number. At high rates the numbers are those of a sample, in
    #: proportion. {} if no observer wants counts.
    latencies: Mapping[tuple[int, int], Mapping[int, int]] = {}
    #: Response times likewise, of all operations of an open loop.
    responses: Mapping[int, int] = {}

    @property
    def lost_races(self) -> int:
        """Conditional writes for which another client was first; 0 if no observer wants counts."""
        return sum(each.lost_races for each in self.operations.values())


def by_attention(workers: Sequence[WorkerProgress]) -> list[WorkerProgress]:
    """Those that need attention first."""
    ranks = {state: rank for rank, state in enumerate(ATTENTION)}
    return sorted(workers, key=lambda worker: ranks.get(worker.state, len(ranks)))


class Observer:
    """What may watch a run: a progress display, a live page, a program that uses ssbench.

    Ignores everything; subclasses override what they need.

    Called by the master's loop, which waits meanwhile: return within milliseconds, and raise
    nothing. A run may have any number of observers, also none.
    """

    wants_results = False  #: call ``results``
    #: Fill operations, errors by cause, bytes, latencies and workers in ``RunProgress``.
    wants_counts = False

    def describe_run(self, header: RunHeader) -> None:
        """A run begins, with this header of its stat file."""

    def mark(self, event: EventRecord) -> None:
        """Somebody has marked this moment."""

    def start_run(self, number: int, name: str) -> None:
        """A run of a series begins; not called for a single run.

        :param number: from 1.
        :param name: what it differs in from the others, such as ``users 8``.
        """

    def start_phase(self, phase: Phase, total: int | None = None, title: str = "") -> None:
        """A phase begins.

        :param total: operations that it has; None if it ends by time.
        :param title: what to show instead of the phase's usual name.
        """

    def results(self, columns: Sequence[Sequence[int]]) -> None:
        """A batch of results of the run: columns operation, error, first_byte_ns, last_byte_ns."""

    def update(self, progress: RunProgress) -> None:
        """The state of the phase, about twice a second."""

    def wait_for(self, text: str) -> None:
        """What the master waits for; "" when the wait is over. Called many times per second."""

    def info(self, text: str) -> None:
        """A message on the course of the run that is no warning."""

    def message(self, text: str) -> None:
        """Something that the user should know."""

    def end_phase(self) -> None:
        """The phase is over."""


_BITS = 5  #: of the mantissa
_SHIFT = 52 - _BITS
BUCKET_WIDTH = 2.0**-_BITS  #: of a bucket, as a share of its values
_INFINITE = 0x7FF0_0000_0000_0000 >> _SHIFT  #: from here on: infinities, NaN, negatives
_WINDOW_S = 5.0  #: rate and latencies of the display are those of so much time
#: Counting a latency takes 0.3 to 1 us. Above this rate in operations/s, displays show those of
#: a sample: 10,000 in the window, 100 of them above the p99.
SAMPLED_PER_S = 2_000
_HISTORY_S = 120  #: of rates, for a chart
#: Series of latencies: the number of an operation, for its successes, or one of these, which are
#: numbers of no operation.
_FAILED, _RESPONSE = -1, -2
_OPERATION, _CLASS, _ERROR, _STATUS, _BYTES, _DUE, _START, _LAST, _GROUP = (
    1 + Result._fields.index(name)
    for name in (
        "operation", "size_class", "error", "status", "bytes_moved", "due_ns", "start_ns",
        "last_byte_ns", "group",
    )
)  # fmt: skip
_counted_of = itemgetter(0, _OPERATION, _ERROR, _STATUS, _BYTES)


def buckets(values_ns: Sequence[int]) -> Counter[int]:
    """Counts of values in ns, by bucket."""
    return Counter(_buckets_of(values_ns))


def _buckets_of(values_ns: Sequence[int]) -> list[int]:
    doubles = memoryview(array("d", values_ns))
    return [bits >> _SHIFT for bits in doubles.cast("B").cast("Q")]


def latency_buckets(packed: Sequence[Any]) -> Counter[int]:
    """Counts of the latencies of the successes of packed results, by bucket."""
    return buckets(successes(packed, with_sizes=False)[0])


def successes(
    packed: Sequence[Any], *, with_sizes: bool = True
) -> tuple[Sequence[int], Sequence[int]]:
    """Latencies in ns and bytes of the successes of packed results.

    :param with_sizes: False: without the bytes.
    """
    count, errors = packed[0], packed[_ERROR]
    lasts_ns = unpack_column(packed[_LAST], count)
    sizes = unpack_column(packed[_BYTES], count) if with_sizes else lasts_ns
    if errors == 0:
        return lasts_ns, sizes
    rows = zip(lasts_ns, sizes, unpack_column(errors, count), strict=True)
    good = [(last_ns, size) for last_ns, size, error in rows if not error]
    return [last_ns for last_ns, _ in good], [size for _, size in good]


def quantile_s(counts: Mapping[int, int], percent: float) -> float | None:
    """The percentile (0 to 100) in seconds, within 3 %, Sparse if it has few values beyond it; None
    if there are no values."""
    number = sum(counts.values())
    rank = number * percent / 100
    if not rank:
        return None
    seen = 0
    for bucket in sorted(counts):
        seen += counts[bucket]
        if seen >= rank:
            break
    return None if bucket >= _INFINITE else marked(percent, middle_s(bucket), number)


def middle_s(bucket: int) -> float:
    """The middle of a bucket in seconds; 0 for that of 0."""
    middle = (bucket << _SHIFT) + (1 << (_SHIFT - 1))
    (value_ns,) = struct.unpack("=d", struct.pack("=Q", middle))
    return float(value_ns) / 1e9 if bucket else 0.0


def above(counts: Mapping[int, int], limit_s: float) -> int:
    """How many values are certainly above the limit."""
    least = buckets([int(limit_s * 1e9)])
    return sum(count for bucket, count in counts.items() if bucket > max(least))


def _latencies(columns: Sequence[Any]) -> list[tuple[int, int, int]]:
    """Series, size class and bucket of each latency in packed results."""
    count = columns[0]
    lasts_ns, operations, classes, errors = (
        unpack_column(columns[i], count) for i in (_LAST, _OPERATION, _CLASS, _ERROR)
    )
    rows = zip(operations, errors, strict=True)
    series = [_FAILED if error else operation for operation, error in rows]
    found = list(zip(series, classes, _buckets_of(lasts_ns), strict=True))
    if columns[_DUE] != NONE_NS:
        dues_ns, starts_ns = (unpack_column(columns[i], count) for i in (_DUE, _START))
        times = zip(dues_ns, starts_ns, lasts_ns, strict=True)
        response = [max(start + last - due, 0) for due, start, last in times if due != NONE_NS]
        found += [(_RESPONSE, 0, bucket) for bucket in _buckets_of(response)]
    return found


def _in_proportion(total: int, sample: Sequence[tuple[Any, int]]) -> Iterator[tuple[Any, int]]:
    """Whole numbers that are together ``total``, as the sample's numbers are to each other."""
    whole, seen, given = sum(number for _, number in sample), 0, 0
    for key, number in sample:
        seen += number
        upto = total * seen // whole
        yield key, upto - given
        given = upto


class _Mark(NamedTuple):
    """What was done by a time."""

    at_s: float
    done: int
    bytes: int
    operations: Mapping[int, int]  # successes
    identities: Mapping[int, int]  # the same


class ProgressTracker:
    """Collects the data of a phase's display. Times are seconds since the start of the phase.

    :param random: picks the batches of results whose latencies are counted.
    :param moves_bytes: False without a store (``--noop``), whatever the results say.
    :param identities: among which the operations are divided; 0: they are not.
    """

    def __init__(
        self,
        total: int | None,
        run_seconds: float | None,
        random: Random | None = None,
        *,
        moves_bytes: bool = True,
        identities: int = 0,
    ) -> None:
        self._total = total
        self._run_seconds = run_seconds
        self._random = random or Random(0)  # nosec B311 # a sample for displays
        # Of packed results, not yet counted: columns of all, and whole batches of the sample.
        self._batches: list[tuple[int, Any, Any, Any, Any]] = []
        self._sample: list[Sequence[Any]] = []
        self._share = 1.0  # of batches that are in the sample, by the rate so far
        self._skip = 0  # batches until the next one of the sample
        self._left = SAMPLED_PER_S  # latencies that it may have until ``progress`` is called
        self._marks: deque[_Mark] = deque([_Mark(0.0, 0, 0, {}, {})])  # of the last seconds
        self._grouped: list[tuple[int, Any, Any]] = []  # columns, not yet counted
        # By identity: successes and failures.
        self._of_identities = [(0, 0)] * identities
        # Counts of latencies by (series, size class, bucket): of each call of ``progress`` in the
        # last seconds, and of all of these.
        self._latencies: deque[tuple[float, Counter[tuple[int, int, int]]]] = deque()
        self._recent: Counter[tuple[int, int, int]] = Counter()
        # Of all of the phase, likewise; and how many of each series they are.
        self._histograms: defaultdict[tuple[int, int], Counter[int]] = defaultdict(Counter)
        self._in_histograms: Counter[int] = Counter()
        self._outcomes: Counter[tuple[int, int]] = Counter()  # (operation, error) -> number
        self._statuses: Counter[int] = Counter()  # of operations with ErrorKind.STATUS
        self._bytes = 0
        self._moves_bytes = moves_bytes
        self._second = self._marks[0]  # the last one that the history has
        self._history: deque[tuple[float, float]] = deque(maxlen=_HISTORY_S)

    def add_results(self, columns: Sequence[Any]) -> None:
        """Take packed results, which were checked: operations, errors, bytes, latencies.

        They are counted together when they are needed: between two batches a fast worker has
        filled the caches, so counting each at once takes five times as long.
        """
        self._batches.append(_counted_of(columns))
        if self._of_identities:
            groups = columns[_GROUP] if len(columns) > _GROUP else 0  # a column of the default
            self._grouped.append((columns[0], groups, columns[_ERROR]))
        if self._skip:
            self._skip -= 1
        else:
            self._sample.append(columns)
            self._left -= columns[0]
            self._skip = self._draw() if self._left > 0 else sys.maxsize

    def _draw(self) -> int:
        """How many batches to skip: each is in the sample with the same probability, whatever is
        in it and whenever it comes."""
        if self._share >= 1:
            return 0
        return int(log(1 - self._random.random()) / log(1 - self._share))

    def _count(self) -> None:
        """Count what ``add_results`` has gathered."""
        outcomes, statuses = self._outcomes, self._statuses
        # Packed items: operations by their column's base, bytes by typecode.
        succeeded: defaultdict[int, list[bytes]] = defaultdict(list)
        moved: defaultdict[str, list[bytes]] = defaultdict(list)
        for count, operations, errors, codes, sizes in self._batches:
            if self._moves_bytes:
                if type(sizes) is int:
                    self._bytes += sizes * count
                else:
                    self._bytes += sizes[0] * count
                    moved[sizes[1]].append(sizes[2])
            if type(operations) is int and type(errors) is int:
                outcomes[operations, errors] += count
            elif errors == 0 and operations[1] == "B":
                succeeded[operations[0]].append(operations[2])
            else:
                failed = unpack_column(errors, count)
                outcomes.update(zip(unpack_column(operations, count), failed, strict=True))
            if errors != 0:
                rows = zip(unpack_column(errors, count), unpack_column(codes, count), strict=True)
                statuses.update([status for error, status in rows if error == ErrorKind.STATUS])
        self._batches.clear()
        for base, found in succeeded.items():
            items = b"".join(found)
            while items:  # few values, many items: bytes methods take 1 ns per item
                item = items[0]
                outcomes[base + item, 0] += items.count(item)
                items = items.translate(None, bytes([item]))
        for typecode, found in moved.items():
            data = b"".join(found)
            self._bytes += sum(unpack_column([0, typecode, data], len(data) // WIDTHS[typecode]))

    def progress(
        self, at_s: float, done: int, errors: int, workers: int, users: int
    ) -> RunProgress:
        """The state of the phase now; to be called once or twice a second."""
        outcomes = self.by_operation()
        identities = self._by_identity()
        mark = _Mark(
            at_s,
            done,
            self._bytes,
            {each: row[0] for each, row in outcomes.items()},
            {each: row[0] for each, row in identities.items()},
        )
        latest = self._move_window(mark)
        races, causes = self._lost_races_and_errors()
        ended = sum(map(sum, outcomes.values())) + races.total()
        self._add_to_histograms(latest, {**mark.operations, _RESPONSE: ended})
        before = self._marks[0]
        per_s = 1 / (at_s - before.at_s) if at_s > before.at_s else 0.0
        rate = (done - before.done) * per_s
        self._share = SAMPLED_PER_S / max(rate, SAMPLED_PER_S)
        self._skip, self._left = self._draw(), SAMPLED_PER_S
        latencies, whole = self._recent_latencies()
        return RunProgress(
            at_s,
            done,
            self._total,
            errors,
            rate,
            quantile_s(whole, 50),
            quantile_s(whole, 99),
            self._remaining_s(at_s, done, rate),
            workers,
            users,
            operations={
                each: OperationProgress(
                    *row,
                    (row[0] - before.operations.get(each, 0)) * per_s,
                    quantile_s(latencies[each], 50),
                    quantile_s(latencies[each], 99),
                    races[each],
                )
                for each, row in outcomes.items()
            },
            errors_by_cause=causes,
            errors_by_status=dict(self._statuses),
            identities={
                each: OperationProgress(*row, (row[0] - before.identities.get(each, 0)) * per_s)
                for each, row in identities.items()
            },
            bytes_rate=(self._bytes - before.bytes) * per_s,
            response_p50_s=quantile_s(latencies[_RESPONSE], 50),
            response_p99_s=quantile_s(latencies[_RESPONSE], 99),
            history=tuple(self._history),
            latencies={
                key: dict(found) for key, found in self._histograms.items() if key[0] != _RESPONSE
            },
            responses=dict(self._histograms.get((_RESPONSE, 0), {})),
        )

    def _lost_races_and_errors(self) -> tuple[Counter[int], Counter[int]]:
        """Conditional writes that lost, by operation, and errors by cause."""
        races: Counter[int] = Counter()
        causes: Counter[int] = Counter()
        for (operation, error), count in self._outcomes.items():
            if error == ErrorKind.LOST_RACE:
                races[operation] += count
            elif error:
                causes[error] += count
        return races, causes

    def _recent_latencies(self) -> tuple[Mapping[int, Counter[int]], Counter[int]]:
        """The latencies of the window by series, as counts by bucket; and of all operations."""
        latencies: defaultdict[int, Counter[int]] = defaultdict(Counter)
        whole: Counter[int] = Counter()
        for (series, _, bucket), count in self._recent.items():
            latencies[series][bucket] += count
            if series != _RESPONSE:
                whole[bucket] += count
        return latencies, whole

    def _add_to_histograms(
        self, latest: Counter[tuple[int, int, int]], ended: Mapping[int, int]
    ) -> None:
        """Let the latest latencies stand for all operations that ended since the last call."""
        samples: defaultdict[int, list[tuple[tuple[int, int], int]]] = defaultdict(list)
        for (series, size_class, bucket), number in sorted(latest.items()):
            samples[series].append(((size_class, bucket), number))
        for series, sample in samples.items():
            if series == _FAILED:
                continue
            new = ended[series] - self._in_histograms[series]
            self._in_histograms[series] = ended[series]
            for (size_class, bucket), number in _in_proportion(new, sample):
                self._histograms[series, size_class][bucket] += number

    def _move_window(self, mark: _Mark) -> Counter[tuple[int, int, int]]:
        """Add what came since the last call to the window and the history, and drop the oldest;
        returns the latest latencies."""
        begins_s = mark.at_s - _WINDOW_S
        self._marks.append(mark)
        while len(self._marks) > 2 and self._marks[0].at_s < begins_s:
            self._marks.popleft()
        latest = Counter(chain.from_iterable(map(_latencies, self._sample)))
        self._sample.clear()
        self._recent.update(latest)
        self._latencies.append((mark.at_s, latest))
        while self._latencies[0][0] < begins_s:
            self._recent -= self._latencies.popleft()[1]  # leaves out what is 0
        second = self._second
        spent_s = mark.at_s - second.at_s
        if spent_s >= 1:
            done, moved = mark.done - second.done, mark.bytes - second.bytes
            self._history.append((done / spent_s, moved / spent_s))
            self._second = mark
        return latest

    def by_operation(self) -> dict[int, tuple[int, int]]:
        """Number of an operation -> how many succeeded and how many failed; lost races do not
        count."""
        self._count()
        found: dict[int, tuple[int, int]] = {}
        for (operation, error), count in self._outcomes.items():
            done, failed = found.get(operation, (0, 0))
            if not error:
                done += count
            elif error != ErrorKind.LOST_RACE:
                failed += count
            found[operation] = done, failed
        return found

    def _by_identity(self) -> dict[int, tuple[int, int]]:
        """The same by identity."""
        count, found = len(self._of_identities), Counter[tuple[int, int]]()
        for rows, groups, errors in self._grouped:
            found.update(zip(unpack_column(groups, rows), unpack_column(errors, rows), strict=True))
        self._grouped.clear()
        for (group, error), number in found.items():
            done, failed = self._of_identities[identity_of_group(group, count)]
            done += number if not error else 0
            failed += number if error not in (ErrorKind.NONE, ErrorKind.LOST_RACE) else 0
            self._of_identities[identity_of_group(group, count)] = done, failed
        return dict(enumerate(self._of_identities))

    def _remaining_s(self, at_s: float, done: int, rate: float) -> float | None:
        if self._run_seconds is not None:
            return max(self._run_seconds - at_s, 0.0)
        if self._total is None or not rate:
            return None
        return max(self._total - done, 0) / rate
