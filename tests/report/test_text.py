"""Text, Markdown, CSV and JUnit: 0.3.9's own figures, widths, and names from outside."""

from __future__ import annotations

import re
import unicodedata
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssbench.core.model import UNCERTAIN_NS, ErrorKind
from ssbench.core.operations import READ
from ssbench.core.records import MarkRecord, PhaseRecord
from ssbench.core.sparse import Sparse
from ssbench.core.stats.thresholds import Threshold
from ssbench.report import render, render_html
from ssbench.report.model import (
    BYTES,
    COUNT,
    LATENCY,
    PERCENT,
    RATE,
    SECONDS,
    THROUGHPUT,
    WALL_CLOCK,
    WORD,
    Actual,
    Column,
    Distribution,
    Unit,
    change_text,
)
from ssbench.report.run import of_run
from ssbench.report.tables import cell_text
from tests.golden import legacy
from tests.report import cases, runs
from tests.report.reports import MORE, REPORTS, named

MANUAL = (Path(__file__).parents[2] / "docs/reference/report.rst").read_text()


@pytest.mark.parametrize("name", ["noop", "real"])
def test_files_of_0_3_9_give_its_own_report(name: str) -> None:
    theirs = (legacy.FOLDER / f"{name}.report.txt").read_text()
    assert runs.render("classic", legacy.stats_of(name)) == theirs


TAKEN = Distribution(2, 0, 0, 5e6, 9e6, 7e6, 2e6, {50.0: 5e6, 99.9: 9e6, 100.0: 9e6}, None)


@pytest.mark.parametrize(
    ("value", "unit", "text", "symbol"),
    [
        (None, LATENCY, "N/A", ""),
        (True, WORD, "yes", ""),
        (False, COUNT, "no", ""),
        (12_345, COUNT, "12,345", ""),
        (0.25, COUNT, "0.25", ""),
        (12_345, BYTES, "12.3 kB", ""),
        ("a\x1b[2J", WORD, "a\\x1b[2J", ""),
        (12.34, RATE, "12.3", " operations/s"),
        (5_678_000, THROUGHPUT, "5.68", " MB/s"),
        (7, PERCENT, "7.00", " %"),
        (0, LATENCY, "0.000", " ms"),
        (341, LATENCY, "0.000341", " ms"),
        (99_999, LATENCY, "0.099999", " ms"),
        (100_000, LATENCY, "0.100", " ms"),
        (Sparse(12_345_678), LATENCY, "~12.346", " ms"),
        (-0.04, SECONDS, "0.0", " s"),
        (-0.06, SECONDS, "-0.1", " s"),
        (61, WALL_CLOCK, "1970-01-01 00:01:01 UTC", ""),
        (Actual(12.4, 50, "ms"), WORD, "12.4 ms", ""),
        (Actual(None, 50, "ms"), WORD, "N/A", ""),
        (TAKEN, LATENCY, "50% 5.000 ms, 99.9% 9.000 ms, max 9.000 ms", ""),
    ],
)
def test_a_value_is_shown_in_its_unit(value: Any, unit: Unit, text: str, symbol: str) -> None:
    column = Column("key", unit)
    assert cell_text(value, column) == text
    assert cell_text(value, column, symbol=True) == text + symbol


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(None, "N/A"), (0.99996, "+0.0%"), (0.9994, "-0.1%"), (4.999, "+399.9%"), (5, "x 5.0")],
)
def test_a_change_is_a_per_cent_or_a_factor(ratio: float | None, text: str) -> None:
    assert change_text(ratio) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(2_348.31, "x 2,348.3"), (1, "x 1.0"), (0.704, "x 0.7"), (0.0031, "x 0.0031")],
)
def test_a_factor_is_never_rounded_to_nothing(ratio: float, text: str) -> None:
    assert change_text(ratio, factor=True) == text


@pytest.mark.parametrize(
    ("count", "sparse"),
    [(37, ["95", "99", "99.9"]), (999, ["99", "99.9"]), (1000, ["99.9"]), (10_000, [])],
)
def test_a_percentile_with_fewer_than_ten_operations_beyond_it_is_marked(
    count: int, sparse: list[str]
) -> None:
    """In every format, by the same rule; --classic stays as 0.3.9 was."""
    rows = [runs.result(n, READ) for n in range(count)]
    stats = runs.stats_of([runs.header(), runs.batch(rows), runs.footer()])
    total = runs.as_json(stats)["total"]["last_byte_latency"]
    assert total["sparse_percentiles"] == sparse
    assert runs.as_csv(stats)["total_sparse_pctiles"] == " ".join(sparse)
    legend = "marks a percentile with fewer than ten operations beyond it"
    for form, mark in (("text", "~5.000 ms"), ("markdown", r"\~5.000"), ("html", ">~5.000<")):
        shown = runs.render(form, stats)
        assert (mark in shown) is (legend in shown) is bool(sparse), form
    assert "~" not in runs.render("classic", stats)


# Widths


@pytest.mark.parametrize("columns", [60, 80])
def test_on_a_terminal_lines_break_between_words(columns: int) -> None:
    """A word that is longer than a line stays whole; in a file lines are as long as before."""
    records = runs.lasting(30, 20, warmup=3, run_seconds=30)
    records[0] = runs.header(overrides={"name": "x" * 90, "user_count": 4})
    for report in (of_run(runs.stats_of(records)), REPORTS["small/normal"]()):
        text = render(report, "text", columns)
        for line in text.splitlines():
            assert len(line) <= columns or " " not in line.strip(), line
        assert set(render(report).split("\nTOTAL")[0].split()) <= set(text.split())
        assert render(report, "wide", columns) == render(report, "wide")


def tables(text: str) -> list[str]:
    """All lines but those of prose, which a terminal may wrap."""
    prose = ("Worker count", "Rates: ", "Note: ", "Warning: ", "Other processes", "Distribution",
             "Worker ", "Run ", "  Note: ")  # fmt: skip
    return [line for line in text.splitlines() if not line.startswith(prose)]


def test_tables_fit_100_columns_unless_they_may_be_wide() -> None:
    """Columns of percentiles that do not fit follow below."""
    stats = runs.stats_of(runs.lasting(14, 50, due=True, begins=(0, 6), rate=50))
    percentiles = (95.0, 10.0, 20.0, 30.0, 97.5, 99.99)
    run = of_run(stats, percentiles, [Threshold.parse("p99(READ) < 50ms")])
    slos = tuple(map(Threshold.parse, ("p99(READ) < 50ms", "errors < 1%")))
    series = cases.series(cases.step(1000, operations=1_234_567), thresholds=slos)
    for report in (run, series, cases.OF_COMPARISONS["alike"]()):
        assert max(map(len, tables(render(report, "text")))) <= 100
        assert max(map(len, tables(render(report, "wide")))) > 100


def test_of_a_long_table_the_first_rows_are_shown_and_the_others_counted() -> None:
    report = cases.series(*map(cases.step, range(1, 2004)))
    text = render(report, "markdown")
    assert text.endswith("\n\n3 more rows are left out; `--json` has them.\n")
    assert "\n| 2,000 | " in text
    assert "\n| 2001 | " not in text
    assert "and 3 more rows (--json has all)" in render_html(report, "plotly.js")


# Names from outside

names = st.text(max_size=40)
_CONTROLS = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@settings(max_examples=40)
@given(names)
def test_no_name_controls_the_terminal(name: str) -> None:
    """Invariant: apart from newlines, which no name adds, no format has a control character."""
    for report in named(name):
        for form in ("text", "classic", "markdown", "csv"):
            text = render(report, form)
            assert not {unicodedata.category(char) for char in text if char != "\n"} & _CONTROLS
        assert render(report, "text").count("\nTOTAL") == (report.kind != "series")
        if report.kind != "comparison":
            ET.fromstring(render(report, "junit"))


@settings(max_examples=40)
@given(names, names, names, names)
def test_a_summary_has_eight_topics_in_lines_of_80_columns(
    name: str, worker: str, policy: str, path: str
) -> None:
    """Invariant: for any names; only a path may be longer, on a line of its own."""
    scenario = {**runs.SCENARIO, "name": name, "policy": policy}
    records = [runs.header(scenario=scenario), runs.worker(0, worker), *runs.normal()[3:]]
    thresholds = [Threshold.parse(f"p{n}(READ) < 1us") for n in range(1, 30)]
    made = of_run(runs.stats_of(records), thresholds=thresholds, stats_file=path)
    *lines, _last = render(made, "text").partition("\nThroughput  ")[2].splitlines()
    topics = ["Latency", "Steadiness", "Failures", "Bottleneck", "Run", "Thresholds"]
    assert [word for line in lines[1:] if (word := line[:12].strip())][: len(topics)] == topics
    assert all(len(line) <= 80 for line in lines[1:])
    assert len(lines[0]) <= 68


def test_no_figure_of_a_summary_is_cut() -> None:
    records = [*runs.normal()[:-1], runs.footer(lost=123_456_789_012, late=123_456_789_013)]
    text = render(of_run(runs.stats_of(records)), "text").partition("\nFailures  ")[2]
    words = " ".join(text.partition("\nBottleneck")[0].split())
    assert words.endswith("; 123,456,789,012 lost, 123,456,789,013 never started")


def test_what_is_no_complete_run_is_an_error_in_junit() -> None:
    for report, errors in (
        (REPORTS["small/no_results"](), ["the run is interrupted"]),
        (cases.OF_RUNS["a closed loop"]["damaged"](), ["the run is damaged"]),
        (cases.OF_SERIES["odd steps"](),
         ["the run is failed", "the run is interrupted", "only 4 users ran"]),
        (MORE["rates"](), [None, None]),
    ):  # fmt: skip
        found = [suite.find(".//error") for suite in ET.fromstring(render(report, "junit"))]
        assert [None if each is None else each.get("message") for each in found] == errors
    with pytest.raises(ValueError, match="a comparison has no test cases"):
        render(REPORTS["comparison"](), "junit")


# The manual


def test_the_manual_names_every_cause_of_an_error() -> None:
    causes = re.findall(r"^([a-z][a-z ]+?)  +[A-Z4]", MANUAL, re.MULTILINE)
    assert causes == [kind.label for kind in ErrorKind if kind is not ErrorKind.NONE]


def test_the_manual_explains_every_line_that_appears_only_if_not_zero() -> None:
    everything = {
        "not_found_retries": 1, "rate_limited": 1, "reconnects": 1, "renewals": 1,
        "headers_ns": UNCERTAIN_NS, "first_byte_ns": UNCERTAIN_NS,
    }  # fmt: skip
    rows = [
        runs.result(1, READ, **everything),
        runs.result(2, READ, last_byte_ns=2 * runs.SECOND),
        runs.result(3, READ, last_byte_ns=2 * 3600 * runs.SECOND),
    ]
    marks = [MarkRecord(0, "stage", 0, 4), MarkRecord(runs.SECOND, "end", 0, 4)]
    footer = runs.footer(
        sent=99, lost=1, late=1, refused=1, skipped={"READ": 1}, left_behind=2, left_unknown=1,
        warnings=["slow"],
    )  # fmt: skip
    scenario = {**runs.SCENARIO, "operation_count": None, "run_seconds": 1}
    records = [runs.header(scenario=scenario), PhaseRecord(runs.Phase.RUN, 0.0, 4), *marks]
    text = runs.render("text", runs.stats_of([*records, runs.batch(rows), footer]))
    part = MANUAL.partition("Lines that appear only if not zero\n=")[2].partition("\n====")[0]
    terms = re.findall(r"^(\S.*)\n    \S", part, re.MULTILINE)
    explained = [re.sub(r"[\d.]+", "N", term) for line in terms for term in line.split(", Header")]
    shown = text.partition("\nSkipped")[2].partition("\n\n")[0].count("\n") + 1
    assert len(explained) == shown + 1, "and the warnings"
    for term in explained:
        term = f"Header{term}" if term.startswith(" lat") else term
        assert re.search(f"^{re.escape(term)}", re.sub(r"[\d.]+", "N", text), re.MULTILINE), term
