"""``--html`` and ``--junit``: files with a report beside the printed one."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from ssbench.cli.console import tell, write_result
from ssbench.core.errors import SsbenchError, UsageError

if TYPE_CHECKING:
    from ssbench.report.model import Report

_SCRIPT = "plotly.min.js"
#: Options of commands that run: files that are made of the stat file.
_OF_RESULTS = ("csv", "csv_over_time", "html", "junit")


def check_run_files(ns: argparse.Namespace) -> None:
    """:raises UsageError: no results are kept that a file could be made of."""
    path = ns.stats_file
    if path and os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        for name in _OF_RESULTS:
            if getattr(ns, name, None):
                option = f"--{name.replace('_', '-')}"
                raise UsageError(f"{option} needs stored results: {path} keeps none")


def junit_file(ns: argparse.Namespace) -> str | None:
    """The file of --junit, which commands without thresholds do not have."""
    return getattr(ns, "junit", None)


def write_report_files(ns: argparse.Namespace, made: Report) -> None:
    """Write the files of --html, --html-assets and --junit, where they are given.

    :raises SsbenchError: one of them can't be written.
    """
    from ssbench import report  # loads slowly

    path = junit_file(ns)
    if path:
        write_result([report.render(made, "junit")], path)
    if not ns.html:
        return
    script_url = None
    if ns.html_assets:
        script = report.plotly_script()
        if script is None:
            tell("--html-assets: plotly is not installed: install ssbench[html] for charts")
        else:
            try:
                os.makedirs(ns.html_assets, exist_ok=True)
            except OSError as error:
                raise SsbenchError(f"--html-assets {ns.html_assets}: {error.strerror}") from error
            path = os.path.join(ns.html_assets, _SCRIPT)
            write_result([script], path)
            script_url = os.path.relpath(path, os.path.dirname(ns.html) or ".")
    write_result([report.render_html(made, script_url)], ns.html)
    if ns.html != "-" and not getattr(ns, "quiet", False):
        tell(f"INFO:Report as a page: {os.path.abspath(ns.html)}")
