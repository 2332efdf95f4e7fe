"""What ssbench 0.3.9 wrote: two runs' stat files, and its own reports of them."""

from __future__ import annotations

from pathlib import Path

from ssbench import statfile
from ssbench.core.stats.run_stats import RunStats

FOLDER = Path(__file__).parent / "ssbench-0.3.9"


def stats_of(name: str) -> RunStats:
    """The figures of ``name.stat.gz``."""
    with statfile.read(FOLDER / f"{name}.stat.gz") as records:
        return RunStats.of(records)
