"""``browse``: a folder of stat files as a page, with their reports."""

from __future__ import annotations

import argparse
import os
import secrets
from functools import cache
from importlib import resources
from threading import Thread
from time import sleep
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from jinja2 import Environment, StrictUndefined

from ssbench import report
from ssbench.cli.signals import Signals
from ssbench.commands.browse.folder import ResultsFolder, StatFile
from ssbench.core.errors import ExitStatus, SsbenchError, UsageError
from ssbench.core.text import latency_text, printable
from ssbench.live.console import tell
from ssbench.live.web_server import Page, Query, WebServer
from ssbench.report import Report
from ssbench.report.model import time_text
from ssbench.runner.stop import Stop

_REPORT_SCRIPTS = "'unsafe-inline'"  #: a report's own, which are part of it


def browse(ns: argparse.Namespace) -> ExitStatus:
    """Serve the page until a signal.

    :raises UsageError: there is no such folder.
    :raises SsbenchError: the address can't be listened on.
    """
    site = BrowseSite(ResultsFolder(ns.folder))
    stop = Stop()
    with Signals(stop, hold=True):
        server = WebServer(ns.web, site)
        try:
            tell(f"{ns.folder} is shown at {server.url} until Ctrl-C")
            while not stop.requested:
                sleep(0.1)
        finally:
            server.close()
    return ExitStatus.OK


class BrowseSite:
    """The list at ``/``, a report at ``/report?name=FILE``, a comparison at
    ``/compare?name=FILE&name=FILE``."""

    def __init__(self, folder: ResultsFolder) -> None:
        self._folder = folder

    def get(self, path: str, query: Query) -> Page | None:
        names = [os.fsdecode(unquote_to_bytes(key)) for key in query.get("name", [])]
        try:
            if path == "/":
                return self._list()
            if path == "/report" and len(names) == 1:
                return _shown(self._folder.report(names[0]))
            if path == "/compare":
                return _shown(self._folder.compare(names))
        except SsbenchError as error:
            status = 404 if isinstance(error, UsageError) else 500
            return Page(_template().render(fault=printable(str(error))), status=status)
        return None

    def post(self, path: str) -> bool:
        """There is no button that does anything."""
        return False

    def _list(self) -> Page:
        files = self._folder.files()
        is_reading = not all(each.is_known for each in files)
        if is_reading:
            Thread(target=self._folder.read_all, name="ssbench-browse", daemon=True).start()
        nonce = secrets.token_urlsafe(12)
        return Page(
            _template().render(
                fault="",
                nonce=nonce,
                folder=printable(self._folder.path),
                rows=[_row(each) for each in files],
                sort=[_sort_values(each) for each in files],
                is_reading=is_reading,
            ),
            f"'nonce-{nonce}'",
        )


def _shown(made: Report) -> Page:
    return Page(report.render_html(made), _REPORT_SCRIPTS)


def _row(file: StatFile) -> dict[str, Any]:
    """A file's cells; names and texts are escaped by the template."""
    figures = file.figures or {}
    moved = figures.get("moved_bytes_per_s")
    rate = figures.get("operations_per_s")
    return {
        "key": quote(os.fsencode(file.name), safe=""),  # names may have any bytes
        "shown": printable(file.name),
        "date": time_text(figures.get("started_at_s") or file.modified_s),
        "scenario": printable(figures.get("scenario", "")),
        "users": "" if figures.get("users_ran") is None else figures["users_ran"],
        "operations": figures.get("operations"),
        "errors": figures.get("errors"),
        "rate": "" if rate is None else f"{rate:,.1f}",
        "moved": "" if moved is None else f"{moved / 1e6:,.2f}",
        "p50": latency_text(figures["p50_s"]) if figures else "",
        "p99": latency_text(figures["p99_s"]) if figures else "",
        "fault": printable(file.fault),
        "is_known": file.is_known,
        "has_report": bool(figures),
    }


def _sort_values(file: StatFile) -> list[str | float | None]:
    """What the columns are sorted by."""
    figures = file.figures or {}
    started_s = figures.get("started_at_s") or file.modified_s
    numbers = ("users_ran", "operations", "errors", "operations_per_s", "moved_bytes_per_s",
               "p50_s", "p99_s")  # fmt: skip
    return [
        started_s,
        printable(figures.get("scenario", "")),
        *(figures.get(name) for name in numbers),
        printable(file.name),
    ]


@cache
def _template() -> Any:
    text = resources.files("ssbench.commands.browse").joinpath("page.html.j2").read_text("utf-8")
    return Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True).from_string(
        text
    )
