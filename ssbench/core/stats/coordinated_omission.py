"""What a closed loop leaves out, and whether there was anything to be left out.

While the store stalls, the users of a closed loop wait for it and ask nothing: what clients would
have asked meanwhile is in no figure. Where no operation took long this doesn't matter.
"""

from __future__ import annotations

from dataclasses import dataclass

from ssbench.core.stats.counted_seconds import steadiness
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.steady import Stalled

LONG_NS = 100_000_000  #: an operation that takes less stalls nobody
TIMES = 10  #: over the 99th percentile: then no usual percentile tells of it


@dataclass(frozen=True, slots=True)
class Omission:
    """A closed loop in which the store seems to have stalled."""

    slowest_ns: float
    p99_ns: float
    hidden: bool  #: the slowest operations are far beyond the 99th percentile


def omission(stats: RunStats) -> Omission | None:
    """What speaks for it; None in an open loop, and where nothing does."""
    if stats.run.legacy or any(mark.rate for mark in stats.run.stages):
        return None
    p99_ns, slowest_ns = stats.total().last_byte.histogram.quantiles([99, 100])
    if p99_ns is None or slowest_ns is None:
        return None
    hidden = slowest_ns >= max(LONG_NS, TIMES * p99_ns)
    if not hidden and not any(isinstance(noted.finding, Stalled) for noted in steadiness(stats)):
        return None
    return Omission(slowest_ns, p99_ns, hidden)
