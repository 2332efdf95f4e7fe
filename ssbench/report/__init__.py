"""Reports: statistics to a Report, and a Report to text, CSV, JSON and more.

``of_run`` builds a Report of a run, ``render`` shows it. ``series.of_series`` and
``comparison.of_comparison`` are not loaded here: most processes report on single runs.
"""

from __future__ import annotations

import csv
from importlib import import_module

from ssbench.report.as_classic import threshold_lines
from ssbench.report.as_csv import (
    dstat_head,
    dstat_rows,
    host_columns,
    host_rows,
    hosts_of,
    series_csv,
)
from ssbench.report.as_text import series_head, series_row
from ssbench.report.load_generator import collapsed_stacks
from ssbench.report.model import Report, all_percentiles
from ssbench.report.operations import (
    ALL_COLUMNS,
    operation_json,
    operation_rows,
    operations,
    over_time_rows,
    write_parquet,
)
from ssbench.report.run import of_run

__all__ = [
    "ALL_COLUMNS",
    "FORMATS",
    "Report",
    "all_percentiles",
    "collapsed_stacks",
    "dstat_head",
    "dstat_rows",
    "host_columns",
    "host_rows",
    "hosts_of",
    "of_run",
    "operation_json",
    "operation_rows",
    "operations",
    "over_time_rows",
    "plotly_script",
    "render",
    "render_html",
    "rps_csv",
    "series_head",
    "series_row",
    "threshold_lines",
    "time_series_csv",
    "write_parquet",
]

#: Name -> place of the renderer, which is loaded when it is used. To add a format, write the
#: function and add its row.
FORMATS = {
    "text": "as_text:render_text",
    "wide": "as_text:render_wide",
    "classic": "as_text:render_classic",
    "csv": "as_csv:render_csv",
    "json": "as_data:render_json",
    "junit": "as_data:render_junit",
    "markdown": "as_text:render_markdown",
    "html": "as_html:render_page",
}


def render(report: Report, form: str = "text", columns: int | None = None) -> str:
    """The report in that format, ending with a newline.

    :param columns: of the terminal that shows it: lines of "text" break between words.
    :raises KeyError: where FORMATS has no such name.
    """
    module, _, function = FORMATS[form].partition(":")
    renderer = getattr(import_module(f"ssbench.report.{module}"), function)
    text: str = renderer(report, columns) if form == "text" else renderer(report)
    return text


def render_html(report: Report, script_url: str | None = None) -> str:
    """The report as a page.

    :param script_url: of plotly's script, relative to the page; None: it is part of the page.
    """
    from ssbench.report.as_html import render_page  # loads jinja2

    return render_page(report, script_url)


def plotly_script() -> str | None:
    """The script that draws the charts of pages; None where plotly is not installed."""
    from ssbench.report import as_html

    return as_html.plotly_script()


def rps_csv(report: Report) -> str:
    """A run's requests-per-second histogram: successes completed in each second, as in ssbench
    0.3.9."""
    return series_csv(report, "completions_per_s", csv.QUOTE_NONNUMERIC)


def time_series_csv(report: Report) -> str:
    """A run by seconds."""
    return series_csv(report, "seconds")
