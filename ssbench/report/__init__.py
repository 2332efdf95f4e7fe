"""Reports: statistics to a Report, and a Report to text, CSV, JSON and more.

``run.of_run``, ``series.of_series`` and ``comparison.of_comparison`` build a Report, ``render``
shows it. Nothing is loaded before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ssbench.report.model import Report

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
