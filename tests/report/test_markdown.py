"""Reports as Markdown: golden files, and names from outside that are never markup."""

from __future__ import annotations

import re

import pytest

from ssbench.report import render
from tests.golden import compare
from tests.report import runs
from tests.report.test_html import HOSTILE, REPORTS


@pytest.mark.parametrize("name", runs.RUNS)
def test_output_equals_the_golden_file(name: str) -> None:
    compare.check(f"{name}.report.md", runs.render("markdown", runs.stats_of(runs.RUNS[name]())))


@pytest.mark.parametrize("name", REPORTS)
def test_each_table_has_as_many_cells_in_each_line(name: str) -> None:
    text = render(REPORTS[name](), "markdown")
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert tables
    for table in tables:
        lines = table.splitlines()
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1
        assert re.fullmatch(r"\|(-+:?\|)+", lines[1])


def test_names_from_outside_are_not_markup() -> None:
    name = f"# {HOSTILE} | *a* _b_ [c](d) `e`\n- f\x1b"
    stats = runs.stats_of([runs.header(scenario={**runs.SCENARIO, "name": name})])
    title = runs.render("markdown", stats).splitlines()[0]
    unescaped = re.sub(r"\\\\.", "", title.removeprefix("# "))
    assert not set("*_[]`<>|#&$") & set(re.sub(r"\\.", "", unescaped))
    assert "\x1b" not in title
