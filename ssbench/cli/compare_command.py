"""``ssbench-master compare``: stat files in, runs side by side out."""

from __future__ import annotations

from ssbench import report
from ssbench.cli.report_options import CompareOptions
from ssbench.cli.reporting import read_stats, write
from ssbench.core.stats.compare import comparison


def compare(options: CompareOptions) -> None:
    """Print how the runs of some stat files differ.

    :raises StatFileError: where one of them is none.
    """
    named = [(path, read_stats(path)) for path in options.stats_files]
    found = comparison(
        named, seed=options.seed, operations=options.operations, percents=options.percentiles
    )
    write(report.render(report.of_comparison(found), "json" if options.json else "text"), None)
