"""Whether a run was steady enough to quote an average of it.

``check`` looks at the seconds of a run, similar to pyperf's ``check``, and returns findings as
numbers; ``report.notes`` puts them into words.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, groupby, pairwise
from math import log, sqrt
from statistics import fmean, median, pvariance

from msgspec import Struct

ENOUGH_SECONDS = 10
MAX_DRIFT = 0.05  #: of the median, over the whole run
MAX_SPREAD = 0.10  #: standard deviation over the mean; pyperf's bound
NEAR_ZERO = 0.10  #: of the median: a second with no more is stalled
MAX_BETWEEN = 0.90  #: of the variance that two levels explain; 0.64 for a bell, 0.75 for a ramp

_MOST_POINTS = 40  # the test for a trend is quadratic
_TREND_Z = 2.58  # 1 % two-sided
_CHANCE = 0.01  # of a stall by chance in a run


class TooShort(Struct, frozen=True):
    """Too few whole seconds, or windows of several, to find anything but stalls."""

    seconds: int
    wanted: int = ENOUGH_SECONDS  #: seconds
    window_s: int = 1  #: longer than a second where operations are


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
    nothing of what happened within it.

    :param counts: successes of each second.
    :param bytes_moved: by these, in each second.
    :param zero_s: the number of the first whole second.
    :param window_s: seconds that are judged together, as long as a usual operation.
    """
    whole = _windows(counts, window_s)
    stalled, running = _stalls(whole, zero_s, window_s)
    if any(counts) and whole and not any(whole):
        all_s = len(whole) * window_s
        stalled = Stalled(all_s, all_s, all_s, zero_s)
    found: list[SteadinessFinding] = [stalled] if stalled else []
    if len(whole) < ENOUGH_SECONDS:
        seconds_wanted = ENOUGH_SECONDS * window_s
        return [TooShort(max(0, len(counts) - 2), seconds_wanted, window_s), *found]
    for what, values in (("operations", whole), ("bytes", _windows(bytes_moved, window_s))):
        if any(values) and any(whole):
            # Random completions vary by the square root of their number, and so do bytes.
            chance = len(whole) / sum(whole)
            more = _judged(what, [values[at] for at in running], chance, window_s)
            known = {type(each) for each in found}
            found += [each for each in more if type(each) not in known]
    return found


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
