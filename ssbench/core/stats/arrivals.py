"""An open loop's target: whether what fell due was also started, and in time.

An open loop whose store, users or machine can't keep up with its rate measures something else
than was asked for. Where ``run_seconds`` ends the load, what wasn't started by then is counted
(``late``). Where ``operation_count`` does, everything is started in the end, but ever later.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from ssbench.core.stats.run_records import RunRecords
from ssbench.core.stats.run_stats import RunStats

#: Of all that fell due: with less, a burst at the very end is as good an explanation.
LATE_SHARE = 0.001
#: Of the time that the rate takes for all operations: so late the last ones began, at least.
LAG_SHARE = 0.05
LEAST_LAG_S = 0.1  #: and no less than this


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What an open loop should have done, and what it did."""

    target_per_s: float  #: operations that fell due, a second of the load
    started_per_s: float  #: those of them that were started, as far as that is known
    late: int  #: fell due and were never started
    due: int  #: fell due until the load's end
    mean_lag_s: float  #: from due to start, on average

    @property
    def behind(self) -> bool:
        """Whether the load fell behind its rate."""
        if self.late > LATE_SHARE * self.due:
            return True
        # Of a load that falls behind steadily, the last ones begin twice as late as the average.
        lag_s = 2 * self.mean_lag_s
        return lag_s > max(LEAST_LAG_S, LAG_SHARE * self.due / self.target_per_s)


def arrivals(stats: RunStats) -> Arrivals | None:
    """Of an open loop; None for a closed one, without an operation, and where the results end
    before their footer, which tells what wasn't started."""
    run, total = stats.run, stats.total()
    target_per_s = target_rate(run)
    started = run.sent or total.operations + stats.left_out + run.lost
    if target_per_s is None or not started or not run.footers.keys() >= run.headers.keys():
        return None
    responses, services = total.response.histogram, total.last_byte.histogram
    lag_ns = max((responses.mean or 0) - (services.mean or 0), 0)
    due = started + run.late
    started_per_s = target_per_s * started / due
    if not run.late:  # everything was started: in more time than it should have taken
        lag_s = 2 * lag_ns / 1e9
        started_per_s = due / (due / target_per_s + lag_s)
    return Arrivals(target_per_s, started_per_s, run.late, due, lag_ns / 1e9)


def target_rate(run: RunRecords) -> float | None:
    """Operations a second that fell due, on average over the load; None in a closed loop."""
    stages, end_ns = run.stages, run.end_ns
    if not stages or not all(mark.rate for mark in stages):
        return None
    if len(stages) == 1 or end_ns is None:
        return stages[-1].rate
    begins_ns = [*(mark.at_ns for mark in stages), end_ns]
    lengths = [max(after - before, 0) for before, after in pairwise(begins_ns)]
    due = sum((mark.rate or 0) * length for mark, length in zip(stages, lengths, strict=True))
    return due / sum(lengths) if sum(lengths) else stages[-1].rate
