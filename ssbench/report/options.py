"""What a user can ask of a report."""

from __future__ import annotations

from dataclasses import dataclass

from ssbench.core.stats.thresholds import Threshold

#: In every report, whatever else is asked for.
USUAL_PERCENTILES = (50.0, 95.0, 99.0, 99.9, 100.0)


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """:param percentiles: each above 0 and at most 100; the first is the column of the table.
    :param thresholds: what is judged at the end.

    :raises ValueError: for no percentile, or one that is out of range.
    """

    percentiles: tuple[float, ...] = (95.0,)
    thresholds: tuple[Threshold, ...] = ()

    def __post_init__(self) -> None:
        if not self.percentiles:
            raise ValueError("no percentile: give at least one above 0 and at most 100")
        for percent in self.percentiles:
            if not 0 < percent <= 100:
                raise ValueError(f"percentile {percent:g}: it must be above 0 and at most 100")

    @property
    def all_percentiles(self) -> tuple[float, ...]:
        """Those asked for and the usual ones, rising."""
        return tuple(sorted({*USUAL_PERCENTILES, *self.percentiles}))


def percent_text(percent: float) -> str:
    """``95``, ``99.9``: as a user writes it."""
    return str(int(percent)) if percent == int(percent) else repr(float(percent))
