"""Reports as Markdown: golden files, and names from outside that are never markup."""

from __future__ import annotations

import re

import pytest

from ssbench.report import render, render_html
from ssbench.report.series import SeriesSettings, of_series
from tests.report import runs
from tests.report.test_html import HOSTILE, REPORTS
from tests.report.test_series import step


@pytest.mark.parametrize("name", REPORTS)
def test_each_table_has_as_many_cells_in_each_line(name: str) -> None:
    text = render(REPORTS[name](), "markdown")
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert tables
    for table in tables:
        lines = table.splitlines()
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1
        assert re.fullmatch(r"\|(-+:?\|)+", lines[1])


def test_of_a_long_table_the_first_rows_are_shown_and_the_others_counted() -> None:
    settings = SeriesSettings("own", "users", (50.0, 99.9, 100.0))
    report = of_series(settings, [step(load) for load in range(1, 3004)])
    text = render(report, "markdown")
    assert text.endswith("\n\n1,003 more rows are left out; `--json` has them.\n")
    assert "\n| 2,000 | " in text
    assert "\n| 2001 | " not in text
    assert "and 1003 more rows (--json has all)" in render_html(report, "plotly.js")


def test_names_from_outside_are_not_markup() -> None:
    name = f"# {HOSTILE} | *a* _b_ [c](d) `e`\n- f\x1b"
    stats = runs.stats_of([runs.header(scenario={**runs.SCENARIO, "name": name})])
    title = runs.render("markdown", stats).splitlines()[0]
    unescaped = re.sub(r"\\\\.", "", title.removeprefix("# "))
    assert not set("*_[]`<>|#&$") & set(re.sub(r"\\.", "", unescaped))
    assert "\x1b" not in title
