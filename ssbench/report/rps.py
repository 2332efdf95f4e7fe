"""The requests-per-second histogram: a CSV file with a row for each whole second."""

from __future__ import annotations

from ssbench.core.stats.run_stats import RunStats

HEADER = '"Seconds Since Start","Requests Completed"\n'


def render_rps(stats: RunStats) -> str:
    """The header, then ``second,requests`` from second 1 on, seconds without a request included.

    Failed operations aren't in it.
    """
    rows = enumerate(stats.completions(), 1)
    return HEADER + "".join(f"{second},{count}\n" for second, count in rows)
