"""Steps: runs of one scenario that differ in their load, and what is told of each."""

from __future__ import annotations

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
    generator: Headroom = Headroom.UNKNOWN  #: how much room the load generator had
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
        """What whoever asked for the operations felt: from due where they were due, else from
        start."""
        due = any(value is not None for value in self.response.values())
        return self.response if due else self.service


def _quantiles(histogram: Histogram, percentiles: Sequence[float]) -> dict[float, float | None]:
    found = histogram.quantiles(percentiles)
    return dict(zip(percentiles, found, strict=True))
