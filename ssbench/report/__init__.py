"""Reports: RunStats to text, by name of the format."""

from __future__ import annotations

from collections.abc import Callable

from ssbench.core.stats.run_stats import RunStats
from ssbench.report.as_csv import render_csv
from ssbench.report.as_json import render_json
from ssbench.report.as_text import render_text
from ssbench.report.options import ReportOptions

__all__ = ["FORMATS", "ReportOptions", "render"]

#: Name -> function. To add a format, write the function and add its row.
FORMATS: dict[str, Callable[[RunStats, ReportOptions], str]] = {
    "text": render_text,
    "csv": render_csv,
    "json": render_json,
}


def render(name: str, stats: RunStats, options: ReportOptions | None = None) -> str:
    """The report in that format, ending with a newline.

    :raises KeyError: where FORMATS has no such name.
    """
    return FORMATS[name](stats, options or ReportOptions())
