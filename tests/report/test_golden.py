"""Recorded and small runs, series and comparisons in each format: what users see stays so.

The files of format 1 were written by the last commit before format 2: runs without a store and
against the embedded Swift, and copies of them that are damaged or cut off. Text, CSV and JSON of
these are held by tests/statfile/test_golden.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from html import unescape
from pathlib import Path

import pytest
from msgspec.structs import replace

from ssbench.core.stats.compare import comparison
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.steps import Search, Step
from ssbench.core.stats.thresholds import Threshold
from ssbench.report import Report, of_run, render, render_html
from ssbench.report.comparison import of_comparison
from ssbench.report.model import Section
from ssbench.report.series import SeriesSettings, of_series
from ssbench.runner.results import read_stats
from tests.golden import compare
from tests.report import runs
from tests.report.test_html import REPORTS as OTHERS
from tests.report.test_text import around

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
    **{
        f"small/{name}": cache(lambda make=make: of_run(runs.stats_of(make())))
        for name, make in runs.RUNS.items()
    },
    "small/around": cache(lambda: of_run(around(), (99.99,))),
    **{f"small/{name}": OTHERS[name] for name in ("run", "series", "comparison")},
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
        ("comparison", "junit"),
        ("small/comparison", "junit"),
    }
    return [
        (name, form)
        for name in REPORTS
        for form in FORMATS
        if not {(name, form), (name.partition("/")[0], form)} & held
    ]


@pytest.mark.parametrize(("name", "form"), cases())
def test_a_report_stays_as_it_was(name: str, form: str) -> None:
    compare.check(f"formats/{name}.{FORMATS[form]}", rendered(REPORTS[name](), form))


#: Facts that say how others are shown, or that stand in a note as well.
NOT_SHOWN = {
    "receives", "excludes", "short", "of_scenario",  # how, or under which heading
    "concurrency", "retry_percent",  # pages: users, and retries beside successes
    "whole_seconds",  # of a run that is too short for intervals
    "phase", "run_started_at_s", "run_ended_at_s",  # text: where a part of the run counts
}  # fmt: skip
#: CSV of a series or a comparison has a line for each row of one table.
OF_FACTS = ("format-1/healthy", "format-1/open_loop", "format-1/stages")


def changed(value: object) -> object:
    """Another value of the same kind, of another length in any unit; None: no such value."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return type(value)(value * 3 + 70_000_000)
    return f"{value}X" if isinstance(value, str) else None


def with_another_value(report: Report) -> Iterator[tuple[str, str, Report]]:
    """(fact or cell, its formats, the report in which this alone is different)."""
    for at, section in enumerate(report.sections):

        def put(section: Section, at: int = at) -> Report:
            sections = [*report.sections]
            sections[at] = section
            return replace(report, sections=sections)

        for number, fact in enumerate(section.facts):
            if (other := changed(fact.value)) is not None:
                facts = [*section.facts]
                facts[number] = replace(fact, value=other)
                formats = " ".join(
                    each for each in fact.column.formats.split() if each in section.formats
                )
                yield fact.column.key, formats, put(replace(section, facts=facts))
        for number, table in enumerate(section.tables):
            row = table.rows[0] if table.rows else {}
            for column in table.columns:
                if (other := changed(row.get(column.key))) is not None:
                    tables = [*section.tables]
                    tables[number] = replace(
                        table, rows=[{**row, column.key: other}, *table.rows[1:]]
                    )
                    formats = " ".join(
                        each
                        for each in column.formats.split()
                        if each in table.formats and each in section.formats
                    )
                    yield column.key, formats, put(replace(section, tables=tables))


@pytest.mark.parametrize("name", [*OF_FACTS, "series", "comparison"])
def test_each_fact_of_the_model_appears_in_each_of_its_formats(name: str) -> None:
    report = REPORTS[name]()
    forms = {"text": ("wide", "markdown", "html"), "json": ("json",)}
    if name in OF_FACTS:
        forms["csv"] = ("csv",)
    before = {form: rendered(report, form) for group in forms.values() for form in group}
    missing = [
        (key, form)
        for key, formats, other in with_another_value(report)
        for kind in formats.split()
        for form in forms.get(kind, ())
        if key not in NOT_SHOWN and rendered(other, form) == before[form]
    ]
    assert missing == []
