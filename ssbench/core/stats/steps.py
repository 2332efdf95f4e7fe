"""Series: runs of one scenario that differ in their load, and the search for its limit."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ssbench.core.stats.headroom import Headroom

if TYPE_CHECKING:
    from ssbench.core.stats.histogram import Histogram
    from ssbench.core.stats.run_stats import RunStats
    from ssbench.core.stats.thresholds import Threshold, ThresholdResult


#: What a series of runs can be over -> the scenario's key.
OVER: Mapping[str, str] = {"users": "user_count", "rate": "rate"}


@dataclass(frozen=True, slots=True)
class Sweep:
    """The loads of a series, in the order in which they are run."""

    over: str  #: a key of OVER
    loads: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One run, as a row of a table. Latencies are nanoseconds, None where there was none.

    A run with fewer users than asked for isn't the load that its row is for: it has counts, but no
    rate, no latencies and no verdicts.
    """

    load: float
    path: str  #: of its stat file
    ended: str  #: as RunRecords.ending
    seconds: float | None  #: that the rates are divided by
    operations: int  #: successes
    errors: int
    lost: int
    late: int
    rate_per_s: float | None
    bytes_per_s: float | None
    service: Mapping[float, float | None]  #: percentile -> from start to last byte
    response: Mapping[float, float | None]  #: from due to last byte; None each in a closed loop
    verdicts: tuple[ThresholdResult, ...]
    generator: Headroom = Headroom.UNKNOWN  #: whether the load generator could have done more
    users_asked: int | None = None  #: of the stage that ran the fewest of them; None: not known
    users_ran: int | None = None  #: the fewest that ran at any time
    no_store: bool = False  #: ``--noop``

    @classmethod
    def of(
        cls,
        stats: RunStats,
        load: float,
        path: str,
        percentiles: Sequence[float],
        thresholds: Sequence[Threshold] = (),
    ) -> Step:
        """What a run's statistics say.

        :param percentiles: 100 is the maximum.
        """
        total, run = stats.total(), stats.run
        short = run.short_of_users
        fewest = min(run.stage_users, key=lambda users: users.least, default=None)
        histograms = (total.last_byte.histogram, total.response.histogram)
        service, response = (
            dict.fromkeys(percentiles) if short else _quantiles(histogram, percentiles)
            for histogram in histograms
        )
        return cls(
            load=load,
            path=path,
            ended=stats.run.ending,
            seconds=total.throughput.seconds,
            operations=total.count,
            errors=total.errors,
            lost=stats.run.lost,
            late=stats.run.late,
            rate_per_s=None if short else total.rate_per_s,
            bytes_per_s=None if short else total.bytes_per_s,
            service=service,
            response=response,
            verdicts=() if short else tuple(threshold.judge(stats) for threshold in thresholds),
            generator=stats.verdict().headroom,
            users_asked=fewest.asked if fewest else None,
            users_ran=fewest.least if fewest else None,
            no_store=run.no_store,
        )

    @property
    def short_of_users(self) -> bool:
        """Whether fewer users ran than were asked for: the step not counted."""
        asked, ran = self.users_asked, self.users_ran
        return asked is not None and ran is not None and ran < asked

    @property
    def kept(self) -> bool:
        """Whether the run was what was asked for, came to its end, did something, and missed no
        threshold."""
        fine = self.ended in ("complete", "exhausted") and self.operations > 0
        fine = fine and not self.short_of_users
        return fine and all(verdict.passed for verdict in self.verdicts)

    @property
    def missed(self) -> list[Threshold]:
        """The thresholds that weren't kept."""
        return [verdict.threshold for verdict in self.verdicts if not verdict.passed]

    @property
    def latencies(self) -> Mapping[float, float | None]:
        """What clients would have seen: from due where operations were due, else from start."""
        due = any(value is not None for value in self.response.values())
        return self.response if due else self.service


def _quantiles(histogram: Histogram, percentiles: Sequence[float]) -> dict[float, float | None]:
    found = histogram.quantiles(percentiles)
    return dict(zip(percentiles, found, strict=True))


class Search:
    """Finds ``kept``, the highest load that meets the SLO, and ``broken``, the lowest above it that
    doesn't: doubling, then bisection.

    Ask ``next`` for the load to try and ``record`` the outcome, until ``next`` is None. On its way
    the search believes each step, since most loads are far from the limit. At its end it tries the
    two loads again that it would answer with; where that contradicts, the majority counts, and the
    search goes on from there.

    The two are a step apart at the end: for whole loads by 1, or, where that is more, by
    ``precision`` (a share of ``kept``). ``kept`` is None where even the least load misses the
    SLO, ``broken`` where even the most meets it.

    :param first: the load that is tried first, and doubled.
    :param most: no load above it is tried.
    :param least: none below it either.
    :param whole: users are, rates needn't be.
    :param confirm: how often the two loads are tried again; one on which tries differ, until a
        majority of twice that and one is certain.
    """

    def __init__(
        self,
        first: float,
        most: float,
        *,
        least: float = 1,
        whole: bool = True,
        precision: float = 0.05,
        confirm: int = 0,
    ) -> None:
        if not 0 < least <= most or precision <= 0:
            raise ValueError("a least load above 0, a most not below it, a precision above 0")
        self.kept: float | None = None
        self.broken: float | None = None
        self._confirm = confirm
        self._kept_of: Counter[float] = Counter()  # how often a load has met the SLO
        self._tries: Counter[float] = Counter()
        self._whole = whole
        self.bound_by = ""  #: what lowered the most that is tried; "": nothing
        self._least, self._most = self._rounded(least), self._rounded(most)
        self._first = self._rounded(min(max(first, least), most))
        self._precision = precision

    def __repr__(self) -> str:
        return f"<Search kept {self.kept}, broken {self.broken}, next {self.next}>"

    def record(self, load: float, *, kept: bool) -> None:
        """A step with this load was made.

        :raises ValueError: where it isn't the one that was asked for.
        """
        if load != self.next:
            raise ValueError(f"load {load:g} was not asked for, by {self!r}")
        self._tries[load] += 1
        self._kept_of[load] += kept
        leaning = {load: 2 * self._kept_of[load] - self._tries[load] for load in self._tries}
        self.broken = min((load for load in leaning if leaning[load] < 0), default=None)
        most = self.broken or math.inf
        good = (load for load in leaning if leaning[load] > 0 and load < most)
        self.kept = max(good, default=None)

    def tries(self, load: float) -> tuple[int, int]:
        """How often a load has met the SLO, and in how many steps."""
        return self._kept_of[load], self._tries[load]

    @property
    def most(self) -> float:
        """No load above it is tried."""
        return self._most

    def limit(self, most: float, bound_by: str = "workers") -> None:
        """Lower the most that is tried.

        :param bound_by: what doesn't allow more.
        """
        most = self._rounded(max(most, self._least))
        if most < self._most:
            self._most, self.bound_by = most, bound_by
            self._first = min(self._first, most)

    @property
    def next(self) -> float | None:
        """The load to try; None where the search is over."""
        undecided = (
            load for load, tries in self._tries.items() if tries == 2 * self._kept_of[load]
        )
        found = next((load for load in undecided if load <= self._most), None) or self._new()
        return self._unconfirmed() if found is None else found

    def _unconfirmed(self) -> float | None:
        """Of the two loads at the limit one that isn't certain, and can still be tried."""
        for load in (self.broken, self.kept):
            if load is not None and load <= self._most:
                kept, tries = self.tries(load)
                if max(kept, tries - kept) <= self._confirm:
                    return load
        return None

    def _new(self) -> float | None:
        """A load between those that are known; None where there is none left."""
        if self.broken is None:
            return self._upwards()
        if self.kept is None:
            return self._downwards(self.broken)
        gap = self.broken - self.kept
        if gap <= max(self._precision * self.kept, 1 if self._whole else 0):
            return None
        return self._rounded(self.kept + gap / 2)

    def _upwards(self) -> float | None:
        if self.kept is None:
            return self._first
        return min(2 * self.kept, self._most) if self.kept < self._most else None

    def _downwards(self, broken: float) -> float | None:
        """No load has met the SLO yet: halve, down to the least."""
        return max(self._rounded(broken / 2), self._least) if broken > self._least else None

    def _rounded(self, load: float) -> float:
        """Rates to three digits, as one would ask for them, where that is fine enough."""
        if self._whole:
            return int(load)
        if self.kept is None and self.broken is None:
            return load
        rounded = float(f"{load:.3g}")
        low, high = self.kept or 0, self.broken or math.inf
        return rounded if low < rounded < high else load
