"""The CSV report: two lines, 0.3.9's columns first."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest

from ssbench.report import ReportOptions, render
from tests.golden import compare, legacy
from tests.report import runs


def parsed(text: str) -> dict[str, str]:
    names, values = csv.reader(io.StringIO(text))
    assert len(names) == len(set(names)), "a column's name comes twice"
    return dict(zip(names, values, strict=True))


@pytest.mark.parametrize("name", runs.RUNS)
def test_it_is_as_it_was_read_once(name: str) -> None:
    compare.check(f"{name}.report.csv", render("csv", runs.stats_of(runs.RUNS[name]())))


@pytest.mark.parametrize("name", ["noop", "real"])
def test_the_columns_of_0_3_9_come_first_to_the_byte(name: str) -> None:
    stats = legacy.stats_of(name)
    theirs = (legacy.FOLDER / f"{name}.report.csv").read_text().splitlines()[0]
    assert render("csv", stats).splitlines()[0].startswith(theirs + ",")


@pytest.mark.parametrize("name", ["noop", "real"])
def test_files_of_0_3_9_give_its_own_values(name: str) -> None:
    stats = legacy.stats_of(name)
    ours = parsed(render("csv", stats))
    theirs = parsed((legacy.FOLDER / f"{name}.report.csv").read_text())
    for column, value in theirs.items():
        if column.endswith("_pctile") and "N/A" not in value:
            assert float(ours[column]) == pytest.approx(float(value), rel=0.001), column
        elif column.endswith("_per_s") or column == "duration":
            # 0.3.9 subtracts times of day in floats, we whole nanoseconds.
            assert float(ours[column]) == pytest.approx(float(value), rel=1e-8), column
        else:
            assert ours[column] == value, column


def test_a_fractional_percentile_names_its_column() -> None:
    text = render("csv", runs.stats_of(runs.normal()), ReportOptions((99.9, 75.0)))
    row = parsed(text)
    assert float(row["total_last_all_99.9_pctile"]) > float(row["total_last_all_75_pctile"])
    assert "total_last_tiny_99.9_pctile" in row


def test_a_name_with_a_newline_or_a_percent_sign_stays_in_its_cell() -> None:
    sizes = [{"name": "100%s\nsize", "size_min": 1, "size_max": 1}]
    records = runs.one_sample()
    records[0] = runs.header(scenario={**runs.SCENARIO, "name": "a\nb", "sizes": sizes})
    text = render("csv", runs.stats_of(records))
    assert text.count("\n") == 2
    assert parsed(text)["scenario_name"] == "a\\nb"
    assert "read_last_100%s\\nsize_min" in parsed(text)


def test_our_columns_are_in_the_documentation() -> None:
    manual = (Path(__file__).parents[2] / "docs" / "report.rst").read_text()
    names = list(parsed(render("csv", runs.stats_of(runs.normal()))))
    for name in names[names.index("run_id") :]:
        bare = re.sub("^(total|create|read|update|delete|populate|cleanup)_", "_", name)
        bare = re.sub(r"_[\d.]+_pctile", "_P_pctile", bare)
        assert f"``{bare}``" in manual, name
