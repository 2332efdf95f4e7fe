"""``ssbench-master compare``: stat files in, runs side by side out."""

from __future__ import annotations

from ssbench.cli.report_options import CompareOptions
from ssbench.cli.reporting import read_stats, write
from ssbench.core.stats.comparison import comparison
from ssbench.report.as_comparison import render_comparison
from ssbench.report.comparison_json import render_comparison_json


def compare(options: CompareOptions) -> None:
    """Print how the runs of some stat files differ.

    :raises StatFileError: where one of them is none.
    """
    named = [(path, read_stats(path)) for path in options.stats_files]
    found = comparison(
        named, seed=options.seed, operations=options.operations, percents=options.percentiles
    )
    render = render_comparison_json if options.json else render_comparison
    write(render(found), None)
