"""Recorded runs, and a series and a comparison of them, in each format: what users see stays so.

The files of format 1 were written by the last commit before format 2: runs without a store and
against the embedded Swift, and copies of them that are damaged or cut off. Text, CSV and JSON of
these are held by tests/statfile/test_golden.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from html import unescape
from pathlib import Path

import pytest

from ssbench.core.stats.compare import comparison
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.steps import Search, Step
from ssbench.core.stats.thresholds import Threshold
from ssbench.report import Report, of_run, render, render_html
from ssbench.report.comparison import of_comparison
from ssbench.report.series import SeriesSettings, of_series
from ssbench.runner.results import read_stats
from tests.golden import compare

FILES = {
    path.relative_to(compare.FOLDER).as_posix().removesuffix(".stat.gz"): path
    for folder in ("format-1", "ssbench-0.3.9")
    for path in sorted((compare.FOLDER / folder).glob("*.stat.gz"))
}
#: What 0.3.9 itself printed of its files is held by tests/report/test_text.py and test_csv.py.
FORMATS = {
    "text": "txt", "wide": "wide.txt", "classic": "classic.txt", "csv": "csv", "json": "json",
    "markdown": "md", "html": "html.txt", "junit": "xml",
}  # fmt: skip
SLO = (Threshold.parse("p99 < 50ms"), Threshold.parse("errors < 1%"))
PERCENTILES = (50.0, 95.0, 99.0, 99.9, 100.0)


@cache
def stats_of(path: Path) -> RunStats:
    return read_stats(str(path), warn=lambda _line: None, in_detail=True)


def run(name: str) -> Report:
    file = FILES[name]
    return of_run(stats_of(file), (95.0, 99.0), SLO, stats_file=file.name)


def series() -> Report:
    """A search with a step that was cut off, and one without a store."""
    search = Search(1, 100)
    loads = {1: "small", 2: "gold", 4: "cut", 3: "healthy"}
    for load in loads:
        search.record(load, kept=load < 4)
    steps = [
        Step.of(stats_of(FILES[f"format-1/{name}"]), load, f"{name}.gz", PERCENTILES, SLO)
        for load, name in loads.items()
    ]
    return of_series(SeriesSettings("recorded", "users", PERCENTILES, SLO, search), steps)


def compared() -> Report:
    names = ("gold", "silver", "open_loop", "damaged")
    named = [(f"{name}.gz", stats_of(FILES[f"format-1/{name}"])) for name in names]
    return of_comparison(comparison(named, seed=1))


REPORTS: dict[str, Callable[[], Report]] = {
    **{name: cache(lambda name=name: run(name)) for name in FILES},
    "series": cache(series),
    "comparison": cache(compared),
}


def rendered(report: Report, form: str) -> str:
    if form != "html":
        return render(report, form)
    page = render_html(report, "plotly.js").partition("<body>")[2]
    page = re.sub(r"(?s)<(script|style|svg)\b.*?</\1>", "", page)
    page = re.sub(r"</t[dh]>\s*", " | ", page)
    lines = unescape(re.sub(r"<[^>]*>", " ", page)).splitlines()
    return "\n".join(" ".join(line.split()) for line in lines if line.strip()) + "\n"


def cases() -> list[tuple[str, str]]:
    held = {("format-1", form) for form in ("text", "csv", "json")} | {
        ("ssbench-0.3.9", "json"),
        ("comparison", "junit"),
    }
    return [
        (name, form)
        for name in REPORTS
        for form in FORMATS
        if (name.partition("/")[0], form) not in held
    ]


@pytest.mark.parametrize(("name", "form"), cases())
def test_a_report_stays_as_it_was(name: str, form: str) -> None:
    compare.check(f"formats/{name}.{FORMATS[form]}", rendered(REPORTS[name](), form))
