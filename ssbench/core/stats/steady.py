"""Whether a run was steady enough to quote an average of it, and whether it may end early.

``check`` looks at the seconds of a run, similar to pyperf's ``check``, and returns findings as
numbers; ``report.notes`` puts them into words.

A run ends early when its rate has been steady for long enough, or when it misses a threshold.
Seconds count from the start of the load, by the master's clock. An operation ends when the master
receives its result. A watch of thresholds sees less than a report: latencies are service times
within 3 % (core.live). So it errs towards going on: a latency must miss its limit by
more than these 3 %.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from itertools import combinations, groupby, pairwise
from math import ceil, log, sqrt
from statistics import fmean, median, pvariance, variance
from typing import Any, NamedTuple

from msgspec import Struct

from ssbench.core.live import (
    BUCKET_WIDTH,
    ProgressTracker,
    above,
    buckets,
    latency_buckets,
    quantile_s,
    successes,
)
from ssbench.core.model import SECOND_NS
from ssbench.core.stats.thresholds import Threshold, percent_of
from ssbench.core.text import plural

ENOUGH_SECONDS = 10
MAX_DRIFT = 0.05  #: of the median, over the whole run
MAX_SPREAD = 0.10  #: standard deviation over the mean; pyperf's bound
NEAR_ZERO = 0.10  #: of the median: a second with no more is stalled
SEVERAL = 5  #: operations: fewer to expect are too few for chi-squared (Cochran 1954)
MAX_BETWEEN = 0.90  #: of the variance that two levels explain; 0.64 for a bell, 0.75 for a ramp

_MOST_POINTS = 40  # the test for a trend is quadratic
_TREND_Z = 2.58  # 1 % two-sided
_CHANCE = 0.01  # of a stall by chance in a run


class TooShort(Struct, frozen=True):
    """Too few whole seconds, or windows of several, to find anything but stalls."""

    seconds: int
    wanted: int = ENOUGH_SECONDS  #: seconds
    window_s: int = 1  #: longer than a second where operations are, or where they are few
    few: bool = False  #: windows are as long as it takes to complete several operations


class Incomplete(Struct, frozen=True):
    """Results are missing, so that a second with few of them tells nothing."""

    damage: tuple[str, ...]


class Stalled(Struct, frozen=True):
    """Seconds in which almost nothing completed."""

    stalled: int
    seconds: int
    longest: int  #: in a row
    first: int  #: number of the first such second


class Drifted(Struct, frozen=True):
    """The rate rose or fell during the run."""

    what: str  #: "operations" or "bytes"
    change: float  #: over all seconds, as a share of the median; negative: it fell


class TwoLevels(Struct, frozen=True):
    """The rate jumped between a low and a high level."""

    what: str
    low: float  #: mean of the low seconds, per second
    high: float
    low_seconds: int
    seconds: int


class Unsteady(Struct, frozen=True):
    """The seconds differ too widely to quote their average."""

    what: str
    spread: float  #: standard deviation over mean, without the random variation of counts
    low: float  #: of all seconds
    high: float


SteadinessFinding = TooShort | Incomplete | Stalled | Drifted | TwoLevels | Unsteady


def check(
    counts: Sequence[float],
    bytes_moved: Sequence[float] = (),
    *,
    zero_s: int = 0,
    window_s: int = 1,
) -> list[SteadinessFinding]:
    """Reasons not to quote an average; empty if the run was steady.

    The first and the last second are partial, and are ignored. A finding on bytes is reported only
    if there is none of its kind on operations. An operation that is longer than a window says
    nothing of what happened within it, and fewer than several in a window tell nothing of the rate.

    :param counts: successes of each second.
    :param bytes_moved: by these, in each second.
    :param zero_s: the number of the first whole second.
    :param window_s: seconds that are judged together, as long as a usual operation.
    """
    few = window_s == 1 and (several_s := _several(counts[1:-1])) > 1
    if few:
        window_s = several_s
    whole = _windows(counts, window_s)
    stalled, running = _stalls(whole, zero_s, window_s)
    if any(counts) and whole and not any(whole):
        all_s = len(whole) * window_s
        stalled = Stalled(all_s, all_s, all_s, zero_s)
    found: list[SteadinessFinding] = [stalled] if stalled else []
    if len(whole) < ENOUGH_SECONDS:
        seconds_wanted = ENOUGH_SECONDS * window_s
        return [TooShort(max(0, len(counts) - 2), seconds_wanted, window_s, few), *found]
    for what, values in (("operations", whole), ("bytes", _windows(bytes_moved, window_s))):
        if any(values) and any(whole):
            # Random completions vary by the square root of their number, and so do bytes.
            chance = len(whole) / sum(whole)
            more = _judged(what, [values[at] for at in running], chance, window_s)
            known = {type(each) for each in found}
            found += [each for each in more if type(each) not in known]
    return found


def _several(counts: Sequence[float]) -> int:
    """How many seconds it takes to complete several operations; 1 if none complete."""
    done = sum(counts)
    return ceil(SEVERAL * len(counts) / done) if done else 1


def _windows(values: Sequence[float], window_s: int) -> list[float]:
    """The sums over each window of whole seconds."""
    whole = values[1:-1]
    last = len(whole) - window_s + 1
    return [sum(whole[at : at + window_s]) for at in range(0, last, window_s)]


def _stalls(
    counts: Sequence[float], zero_s: int, window_s: int
) -> tuple[Stalled | None, list[int]]:
    """The stalls, and the windows outside of them."""
    seconds = range(len(counts))
    if not any(counts):
        return None, list(seconds)
    level = max(median(counts), fmean(counts))
    # Chernoff's bound: a Poisson count with this mean is at most NEAR_ZERO of it, in one second.
    surprise = level * (1 - NEAR_ZERO + NEAR_ZERO * log(NEAR_ZERO))
    enough = log(len(counts) / _CHANCE) / surprise
    runs = [
        list(those)
        for low, those in groupby(seconds, lambda second: counts[second] <= NEAR_ZERO * level)
        if low
    ]
    stalls = [those for those in runs if len(those) >= enough]
    if not stalls:
        return None, list(seconds)
    inside = {second for those in stalls for second in those}
    longest_s = window_s * max(map(len, stalls))
    first = zero_s + window_s * stalls[0][0]
    found = Stalled(window_s * len(inside), window_s * len(counts), longest_s, first)
    return found, [second for second in seconds if second not in inside]


def _judged(
    what: str, values: Sequence[float], chance: float, window_s: int
) -> list[SteadinessFinding]:
    """Drift, and the spread that remains without chance and drift.

    :param chance: the expected variance, as a share of the squared mean.
    """
    if len(values) < ENOUGH_SECONDS or not any(values):
        return []
    found: list[SteadinessFinding] = []
    change = trend(values)
    if abs(change) > MAX_DRIFT:
        found.append(Drifted(what, change))
        step = change * median(values) / len(values)
        middle = (len(values) - 1) / 2
        values = [value - step * (at - middle) for at, value in enumerate(values)]
    variance = pvariance(values) / fmean(values) ** 2
    spread = sqrt(max(0.0, variance - chance))
    if spread > MAX_SPREAD and variance > chance * _by_chance(len(values)):
        per_s = [value / window_s for value in values]
        found.append(_two_levels(what, per_s) or Unsteady(what, spread, min(per_s), max(per_s)))
    return found


def _by_chance(many: int) -> float:
    """The ratio of a sample's variance to the true one that is exceeded with 0.5 %: a quantile of
    chi-squared, by Wilson and Hilferty (1931)."""
    part = 2 / (9 * (many - 1))
    return float((1 - part + _TREND_Z * sqrt(part)) ** 3)


def trend(values: Sequence[float]) -> float:
    """The change over all values as a share of their median; 0 if it may be chance.

    The Theil-Sen slope of at most 40 means of neighbours, with the Mann-Kendall test at 1 %
    (two-sided). The variance of the test is increased by the autocorrelation of the values without
    that slope (Yue and Wang 2004), else noise that lasts for seconds would count as a trend.
    """
    width = -(-len(values) // _MOST_POINTS)
    points = [fmean(values[at : at + width]) for at in range(0, len(values) - width + 1, width)]
    many = len(points)
    pairs = list(combinations(enumerate(points), 2))
    score = sum((b > a) - (b < a) for (_i, a), (_j, b) in pairs)
    slope = median((b - a) / (j - i) for (i, a), (j, b) in pairs)
    raw = autocorrelation([point - slope * at for at, point in enumerate(points)])
    # Corrected for the bias of a short series.
    lasting = 0.0 if raw is None else min(0.9, max(0.0, (many * raw + 2) / (many - 4)))
    variance = many * (many - 1) * (2 * many + 5) / 18 * (1 + lasting) / (1 - lasting)
    level = median(values)
    if not level or abs(score) - 1 < _TREND_Z * sqrt(variance):
        return 0.0
    return slope * many / level


def autocorrelation(values: Sequence[float]) -> float | None:
    """The correlation of neighbours; None if all values are the same."""
    mean = fmean(values)
    rest = [value - mean for value in values]
    total = sum(value * value for value in rest)
    return sum(a * b for a, b in pairwise(rest)) / total if total else None


def _two_levels(what: str, values: Sequence[float]) -> TwoLevels | None:
    """The best split into low and high (Otsu), if it explains nearly all of the variance."""
    rising = sorted(values)
    many, total = len(rising), sum(rising)
    fewest = max(3, many // 10)
    below = sum(rising[:fewest])
    best, at = 0.0, 0
    for cut in range(fewest, many - fewest + 1):
        gap = (total - below) / (many - cut) - below / cut
        between = cut * (many - cut) / many**2 * gap * gap
        if between > best:
            best, at = between, cut
        if cut < many:
            below += rising[cut]
    if best < MAX_BETWEEN * pvariance(rising):
        return None
    return TwoLevels(what, fmean(rising[:at]), fmean(rising[at:]), at, many)


_PARTS = 5  #: of a half of the run; their differences show its error
_SURE = 1.86  #: Student's quantile of 95 % for two halves
#: What ThresholdWatch can watch, for messages.
WATCHED = (
    "errors and rate, also of one operation, and percentiles of all operations (p99, service_p99)"
)


class SteadyStateDetector:
    """Tells when a run has been steady for long enough to end it.

    All seconds since the warm-up are judged or, where these are not steady, their later half: so a
    ramp, or a single stall, only delays the end. They are steady if

    - a report would call them so: ``check`` of operations and bytes, each by the share of
      its time in each second, and by windows as long as a usual operation; and
    - the rates of their two halves, of ``window_s`` or more each, differ by at most ``tolerance``
      (as a fraction), with the error of both at 95 %. So the fewer operations a second, and the
      noisier they are, the longer it takes to tell.

    :param warmup_s: seconds at the start that do not count, as in the statistics.
    :param no_bytes: nothing is moved, so only operations count.
    """

    def __init__(
        self,
        *,
        window_s: int = 15,
        tolerance: float = 0.075,
        warmup_s: float = 0.0,
        no_bytes: bool = False,
    ) -> None:
        if window_s < 1 or not 0 < tolerance < 1:
            raise ValueError("a window of 1 s or more, and a tolerance between 0 and 1")
        self.window_s = window_s
        self.tolerance = tolerance
        self._since_s = math.ceil(warmup_s)
        self._no_bytes = no_bytes
        self._begin_ns = 0
        self._second = 0  # of the last call
        # By second:
        self._counts: defaultdict[int, float] = defaultdict(float)  # successes
        self._moved: defaultdict[int, float] = defaultdict(float)  # bytes
        self._latencies: Counter[int] = Counter()  # buckets

    def __repr__(self) -> str:
        return f"<SteadyStateDetector in second {self._second}>"

    def begin(self, now_ns: int) -> None:
        """The load begins; once."""
        self._begin_ns = now_ns

    def add_results(self, now_ns: int, columns: Sequence[Any]) -> None:
        """Packed results, which were checked, and arrive now."""
        self.add(now_ns, *successes(columns))

    def add(self, now_ns: int, lasts_ns: Sequence[int], sizes: Sequence[int]) -> None:
        """Operations that succeed now.

        :param lasts_ns: how long they took; ``sizes``: their bytes.
        """
        end_ns = now_ns - self._begin_ns
        second, into_ns = divmod(end_ns, SECOND_NS)
        longer = [each for each in zip(lasts_ns, sizes, strict=True) if each[0] > into_ns]
        self._latencies.update(buckets(lasts_ns))
        self._counts[second] += len(lasts_ns) - len(longer)
        self._moved[second] += sum(sizes) - sum(size for _, size in longer)
        for last_ns, size in longer:
            start_ns = end_ns - last_ns
            for at in range(start_ns // SECOND_NS, second + 1):
                low_ns, high_ns = max(start_ns, at * SECOND_NS), (at + 1) * SECOND_NS
                share = (min(end_ns, high_ns) - low_ns) / last_ns
                self._counts[at] += share
                self._moved[at] += share * size

    def reason_to_end(self, now_ns: int) -> str:
        """Why the run may end; "" if it may not."""
        second = (now_ns - self._begin_ns) // SECOND_NS
        if second == self._second:
            return ""
        self._second = second
        within = f"no stall, drift or jump, and halves within {100 * self.tolerance:g} %"
        if self._steady(self._since_s, second):
            return f"the rate was steady at second {second}: {within}"
        later_s = second - (second - self._since_s) // 2
        if self._steady(later_s, second):
            return (
                f"the rate was steady from second {later_s} to {second}: {within}; earlier it was"
                " not, and the figures include that"
            )
        return ""

    def _steady(self, since_s: int, now_s: int) -> bool:
        usual_s, long_s = (quantile_s(self._latencies, each) or 0.0 for each in (50, 99))
        usual = max(1, math.ceil(usual_s))
        # Operations that are in flight will add their shares to the last seconds.
        seconds = range(since_s, now_s - int(long_s))
        counts = [self._counts[second] for second in seconds]
        moved = () if self._no_bytes else [self._moved[second] for second in seconds]
        half = len(counts) // 2
        if half < max(self.window_s, _PARTS * usual) or not any(counts):
            return False
        halves = counts[:half], counts[-half:]
        cuts = [part * half // _PARTS for part in range(_PARTS + 1)]
        means = [[fmean(each[a:b]) for a, b in pairwise(cuts)] for each in halves]
        error = math.sqrt(sum(variance(parts) for parts in means) / _PARTS)
        apart = abs(fmean(halves[1]) - fmean(halves[0])) + _SURE * error
        return apart <= self.tolerance * fmean(counts) and not check(counts, moved, window_s=usual)


class _Snapshot(NamedTuple):
    at_ns: int
    operations: Mapping[int, tuple[int, int]]  #: number -> succeeded, failed, so far
    latencies: Mapping[int, int]  #: of the second before, as core.live.latency_buckets


def can_watch(threshold: Threshold) -> bool:
    """Whether a running run can be held against the threshold."""
    if threshold.size_class is not None or threshold.operator == "==":
        return False
    if percent_of(threshold.metric) is not None:
        return threshold.operation is None and threshold.metric.startswith(("p", "service_p"))
    return threshold.metric in ("errors", "rate")


class ThresholdWatch:
    """Says when a run misses a threshold over a window, or can no longer meet it.

    - Over the last ``window_s`` whole seconds after the warm-up: a share of errors, a rate, or a
      percentile misses its limit.
    - For good: the number of errors exceeds its limit; in a run of ``total`` operations so many
      failed, or were slower than a percentile's limit, that the rest can't make up for it.

    :param thresholds: those that it can't watch are ignored.
    """

    def __init__(
        self,
        thresholds: Sequence[Threshold],
        window_s: int,
        *,
        total: int | None = None,
        warmup_s: float = 0.0,
    ) -> None:
        self.missed = ""  #: why the run was to end; "" if it wasn't
        self._thresholds = [each for each in thresholds if can_watch(each)]
        self._timed = any(percent_of(each.metric) is not None for each in self._thresholds)
        self._window_s = window_s
        self._total = total
        self._warmup_s = math.ceil(warmup_s)
        self._begin_ns = 0
        self._second = 0  # that was looked at last
        self._snapshots: deque[_Snapshot] = deque(maxlen=window_s + 1)
        self._first: _Snapshot | None = None  # at the end of the warm-up
        self._latest: Counter[int] = Counter()  # latencies since the last snapshot
        self._latencies: Counter[int] = Counter()  # since the warm-up

    def __repr__(self) -> str:
        return f"<ThresholdWatch of {plural(len(self._thresholds), 'threshold')} {self.missed}>"

    def begin(self, now_ns: int) -> None:
        """The load begins; once."""
        self._begin_ns = now_ns

    def add_results(self, columns: Sequence[Any]) -> None:
        """Packed results, which were checked."""
        if self._timed:
            self._latest.update(latency_buckets(columns))

    def reason_to_end(self, now_ns: int, tracker: ProgressTracker) -> str:
        """Why the run is to end, "" while it isn't. To be called several times a second.

        :param tracker: has counted all results by now.
        """
        second = (now_ns - self._begin_ns) // SECOND_NS
        if self.missed or second <= self._second:
            return self.missed
        self._second = second
        latest, self._latest = self._latest, Counter()
        if second < self._warmup_s:
            return ""
        snapshot = _Snapshot(now_ns, tracker.by_operation(), latest)
        if self._first is None:
            self._first = snapshot._replace(latencies={})
            if not self._warmup_s:
                self._first = _Snapshot(self._begin_ns, {}, {})
        if second > self._warmup_s or not self._warmup_s:
            self._latencies.update(latest)
        self._snapshots.append(snapshot)
        for threshold in self._thresholds:
            why = self._lost_for_good(threshold) or self._missed_in_window(threshold)
            if why:
                self.missed = f"threshold {threshold} {why}"
                break
        return self.missed

    def _lost_for_good(self, threshold: Threshold) -> str:
        assert self._first is not None  # nosec B101 # for the type checker
        _, failed = _counts(self._first, self._snapshots[-1], threshold)
        is_most = threshold.operator in ("<", "<=")
        if threshold.metric == "errors" and threshold.unit == "":
            lost = is_most and not threshold.allows(failed)
            return f"can no longer be met: {plural(failed, 'error')}" if lost else ""
        if self._total is None or not is_most:
            return ""
        before = sum(map(sum, self._first.operations.values()))
        whole = self._total - before  # operations that count
        if threshold.metric == "errors" and whole > 0 and threshold.operation is None:
            if not threshold.allows(100 * failed / whole):
                return f"can no longer be met: {plural(failed, 'error')} of {whole:,} operations"
            return ""
        percent = percent_of(threshold.metric)
        if percent is not None:
            slow = above(self._latencies, float(threshold.limit) / 1e9)
            if slow > whole * (100 - percent) / 100:
                return f"can no longer be met: {slow:,} of {whole:,} operations were slower"
        return ""

    def _missed_in_window(self, threshold: Threshold) -> str:
        if len(self._snapshots) <= self._window_s:
            return ""
        first, last = self._snapshots[0], self._snapshots[-1]
        done, failed = _counts(first, last, threshold)
        over = f"over the last {self._window_s} s"
        if threshold.metric == "rate":
            rate = done * SECOND_NS / (last.at_ns - first.at_ns)
            return "" if threshold.allows(rate) else f"missed: {rate:,.1f}/s {over}"
        if threshold.metric == "errors":
            if threshold.unit == "" or not done + failed:
                return ""
            share = 100 * failed / (done + failed)
            return "" if threshold.allows(share) else f"missed: {share:.3g} % {over}"
        recent: Counter[int] = Counter()
        for snapshot in list(self._snapshots)[1:]:
            recent.update(snapshot.latencies)
        found_s = quantile_s(recent, percent_of(threshold.metric) or 0.0)
        if found_s is None:
            return ""
        low, high = (found_s * 1e9 * (1 + sign * BUCKET_WIDTH) for sign in (-1, 1))
        if threshold.allows(low) or threshold.allows(high):
            return ""
        return f"missed: about {found_s * 1000:.3g} ms {over}"


def _counts(first: _Snapshot, last: _Snapshot, threshold: Threshold) -> tuple[int, int]:
    """Operations that succeeded and failed between two snapshots."""
    operation = threshold.operation
    numbers = last.operations if operation is None else [int(operation)]
    done = failed = 0
    for number in numbers:
        before, now = (each.operations.get(number, (0, 0)) for each in (first, last))
        done += now[0] - before[0]
        failed += now[1] - before[1]
    return done, failed
