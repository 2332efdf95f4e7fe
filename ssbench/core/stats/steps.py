"""Series: runs of one scenario that differ in their load, and the search for its limit."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ssbench.core.records import RunHeader
from ssbench.core.stats.headroom import Bottleneck, Headroom

if TYPE_CHECKING:
    from ssbench.core.stats.histogram import Histogram
    from ssbench.core.stats.run_stats import RunStats
    from ssbench.core.stats.tally import Counts
    from ssbench.core.stats.thresholds import Threshold, ThresholdResult


_NEAR = 0.25  #: between the highest load that met the SLO and the lowest that missed it


def seed_of_step(seed: int, number: int) -> int:
    """The seed of a step of a search, so that each has other arrivals and operations.

    :param seed: of the search: that of its first step.
    :param number: of the step, from 0.
    """
    return Random(f"{seed}/{number}").getrandbits(32) if number else seed  # nosec B311


class SweepLoads(Struct, frozen=True):
    """The loads of a series, in the order in which they are run."""

    over: str  #: "users" or "rate"
    loads: tuple[float, ...]


class Step(Struct, frozen=True):
    """One run, as a row of a table. Latencies are in nanoseconds; None: no such latency.

    A run that was short of users has counts, but no rate, latencies and verdicts.
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
    response: Mapping[float, float | None]  #: from due to last byte; all None in a closed loop
    verdicts: tuple[ThresholdResult, ...]
    generator: Headroom = Headroom.UNKNOWN  #: whether the load generator could have done more
    bottleneck: Bottleneck = Bottleneck.UNKNOWN
    users_asked: int | None = None  #: of the stage that ran the fewest users; None: unknown
    users_ran: int | None = None  #: the fewest that ran at any time
    no_store: bool = False  #: ``--noop``
    steady: bool | None = None  #: whether an average can be quoted; None: unknown
    rate_missed: bool | None = None  #: None: not an open loop
    #: (ErrorKind, HTTP status) -> failures.
    causes: Mapping[tuple[int, int], int] = {}
    header: RunHeader | None = None  #: None: the file has none
    counts: Counts | None = None  #: all sums over its operations

    def __repr__(self) -> str:
        rate = "no rate" if self.rate_per_s is None else f"{self.rate_per_s:.1f}/s"
        return f"<Step {self.load:g}: {self.operations:,} done, {rate}; {self.path}>"

    @classmethod
    def of(
        cls,
        stats: RunStats,
        load: float,
        path: str,
        percentiles: Sequence[float],
        thresholds: Sequence[Threshold] = (),
    ) -> Step:
        """The row of a run.

        :param percentiles: 100 is the maximum.
        """
        from ssbench.core.stats.findings import arrivals, bottleneck, steady  # loads numpy
        from ssbench.core.stats.tally import Counts

        total, run, verdict = stats.total(), stats.run, stats.verdict()
        counts = Counts()  # without the latencies, as a series has many steps
        counts.merge(total)
        open_loop = arrivals(stats)
        short = run.short_of_users
        fewest = min(run.stage_users, key=lambda users: users.least, default=None)
        if fewest and not short:  # a ramp begins with fewer than it asks for at its end
            fewest = replace(fewest, ran=((0.0, fewest.asked),))
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
            generator=verdict.headroom,
            bottleneck=bottleneck(stats, verdict),
            users_asked=fewest.asked if fewest else None,
            users_ran=fewest.least if fewest else None,
            no_store=run.no_store,
            steady=steady(stats),
            rate_missed=open_loop.missed if open_loop else None,
            causes={cause: tally.count for cause, tally in sorted(stats.errors.items())},
            header=run.header,
            counts=counts,
        )

    @property
    def short_of_users(self) -> bool:
        """Whether fewer users ran than were asked for: the step does not count."""
        asked, ran = self.users_asked, self.users_ran
        return asked is not None and ran is not None and ran < asked

    @property
    def kept(self) -> bool:
        """Whether the run reached its end with all users and results, kept its rate, and met all
        thresholds."""
        fine = self.ended in ("complete", "exhausted") and self.operations > 0
        fine = fine and not self.short_of_users and not self.rate_missed
        return fine and all(verdict.passed for verdict in self.verdicts)

    @property
    def missed(self) -> list[Threshold]:
        return [verdict.threshold for verdict in self.verdicts if not verdict.passed]

    @property
    def latencies(self) -> Mapping[float, float | None]:
        """Response times in an open loop, else service times."""
        due = any(value is not None for value in self.response.values())
        return self.response if due else self.service


def _quantiles(histogram: Histogram, percentiles: Sequence[float]) -> dict[float, float | None]:
    found = histogram.quantiles(percentiles)
    return dict(zip(percentiles, found, strict=True))


class Search:
    """Finds ``kept``, the highest load that meets the SLO, and ``broken``, the lowest load above it
    that misses it, by doubling and bisection.

    ``next`` gives the load to try and ``record`` takes the outcome, until ``next`` is None. At
    first the search trusts each step, because most loads are far from the limit. At the end it
    repeats the two loads of its answer; if outcomes differ, the majority counts, and it continues.

    At the end the two differ by at most ``precision`` (as a fraction of ``kept``) or, for whole
    loads, by 1. ``kept`` is None if the lowest load misses the SLO, ``broken`` if the highest meets
    it.

    :param first: the first load to try, then doubled.
    :param most, least: the highest and the lowest load to try.
    :param whole: loads are whole numbers, as users are.
    :param confirm: how often the two loads are repeated; if outcomes differ, until the majority of
        ``2 * confirm + 1`` tries is certain.
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
        self.bound_by = ""  #: what lowered the highest load to try; "": nothing
        self._least, self._most = self._rounded(least), self._rounded(most)
        self._first = self._rounded(min(max(first, least), most))
        self._precision = precision

    def __repr__(self) -> str:
        return f"<Search kept {self.kept}, broken {self.broken}, next {self.next}>"

    def record(self, load: float, *, kept: bool) -> None:
        """Record the outcome of a step.

        :raises ValueError: it is not the load that was asked for.
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
        """How often a load met the SLO, and how often it was tried."""
        return self._kept_of[load], self._tries[load]

    @property
    def interval(self) -> tuple[float | None, float | None]:
        """Between which loads the limit lies by all tries: at the lower one, and at each below it,
        every try met the SLO; at the higher one, and at each above it, none did. None: no load."""
        low, high = None, None
        for load in sorted(self._tries):
            if self._kept_of[load] < self._tries[load]:
                break
            low = load
        for load in sorted(self._tries, reverse=True):
            if self._kept_of[load]:
                break
            high = load
        return low, high

    @property
    def is_near(self) -> bool:
        """Whether the next step is near the limit, where chance decides in short ones."""
        if self._tries[self.next or 0]:
            return True
        if self.kept is None or self.broken is None:
            return False
        return self.broken - self.kept <= max(_NEAR * self.kept, 1)

    @property
    def most(self) -> float:
        """The highest load to try."""
        return self._most

    def limit(self, most: float) -> None:
        """Lower the highest load to try: the workers allow no more."""
        most = self._rounded(max(most, self._least))
        if most < self._most:
            self._most, self.bound_by = most, "workers"
            self._first = min(self._first, most)

    @property
    def next(self) -> float | None:
        """The load to try; None: the search is over."""
        undecided = (
            load for load, tries in self._tries.items() if tries == 2 * self._kept_of[load]
        )
        found = next((load for load in undecided if load <= self._most), None) or self._new()
        return self._unconfirmed() if found is None else found

    def _unconfirmed(self) -> float | None:
        """One of the two loads at the limit that is not certain and can still be tried."""
        for load in (self.broken, self.kept):
            if load is not None and load <= self._most:
                kept, tries = self.tries(load)
                if max(kept, tries - kept) <= self._confirm:
                    return load
        return None

    def _new(self) -> float | None:
        """A load between the known ones; None if there is none left."""
        if self.broken is None:
            if self.kept is None:
                return self._first
            return min(2 * self.kept, self._most) if self.kept < self._most else None
        if self.kept is None:  # no load has met the SLO yet: halve, down to the lowest
            lower = max(self._rounded(self.broken / 2), self._least)
            return lower if self.broken > self._least else None
        gap = self.broken - self.kept
        if gap <= max(self._precision * self.kept, 1 if self._whole else 0):
            return None
        return self._rounded(self.kept + gap / 2)

    def _rounded(self, load: float) -> float:
        """Rates are rounded to three digits if that is precise enough."""
        if self._whole:
            return int(load)
        if self.kept is None and self.broken is None:
            return load
        rounded = float(f"{load:.3g}")
        low, high = self.kept or 0, self.broken or math.inf
        return rounded if low < rounded < high else load
