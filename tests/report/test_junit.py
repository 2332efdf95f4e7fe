"""Thresholds as test cases, as CI systems read them."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from msgspec.structs import replace

from ssbench.core.stats.thresholds import Threshold
from ssbench.report import of_run, render
from ssbench.report.series import SeriesSettings, of_series
from tests.report import runs
from tests.report.test_html import HOSTILE, REPORTS, of_records
from tests.report.test_series import step


def suites(name: str) -> list[ET.Element]:
    return list(ET.fromstring(render(REPORTS[name](), "junit")))


def cases(suite: ET.Element) -> dict[str, list[str]]:
    """The tags inside of each test case, by its name."""
    return {case.attrib["name"]: [each.tag for each in case] for case in suite.iter("testcase")}


def test_a_threshold_is_a_test_case_beside_that_of_the_run() -> None:
    stats = runs.stats_of(runs.normal())
    judged = [Threshold.parse(text) for text in ("errors < 100%", "p50(READ) < 1us")]
    (suite,) = ET.fromstring(render(of_run(stats, thresholds=judged), "junit"))
    assert cases(suite) == {
        "the run is complete": [],
        "errors < 100%": ["system-out"],
        "p50(READ) < 1us": ["failure"],
    }
    counts = {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "3", "failures": "1", "errors": "0", "skipped": "0"}
    assert suite.get("timestamp") == "2026-11-20T09:49:43"
    store = of_run(stats)["store"]["line"]
    assert store
    assert [each.attrib for each in suite.iter("property")] == [{"name": "store", "value": store}]
    failure = suite.find(".//failure")
    assert failure is not None
    assert failure.attrib["message"].startswith("p50(READ) < 1us: ")
    assert failure.attrib["message"].endswith("us (service time)")


def test_a_run_without_results_is_an_error() -> None:
    (suite,) = suites("no results")
    assert suite.get("errors") == "1"
    assert cases(suite) == {"the run is complete": ["error"]}


def test_a_run_that_is_cut_off_is_an_error_that_says_what_is_missing() -> None:
    stats = runs.stats_of(runs.normal())
    stats.run.damage.append("block 3\x1b is damaged")
    (suite,) = ET.fromstring(render(of_run(stats), "junit"))
    error = suite.find(".//error")
    assert error is not None
    assert error.attrib["message"] == "the run is cut off"
    assert "block 3\\x1b is damaged" in (error.text or "")


def test_each_step_of_a_series_is_a_suite() -> None:
    found = suites("series")
    assert [suite.get("name") for suite in found] == [f"own users={n}" for n in (1, 2, 4, 3)]
    assert {tuple(cases(suite)) for suite in found} == {("the run is complete", "p99 < 50ms")}


def test_a_step_that_did_not_run_as_asked_is_an_error() -> None:
    ran = step()
    some = [ran, replace(ran, ended="interrupted"), replace(ran, users_asked=8, users_ran=7)]
    report = of_series(SeriesSettings("own", "users", (50.0, 100.0)), some)
    found = [suite.find(".//error") for suite in ET.fromstring(render(report, "junit"))]
    assert [None if error is None else error.get("message") for error in found] == [
        None, "the run is interrupted", "only 7 users ran",
    ]  # fmt: skip


def test_names_from_outside_are_text() -> None:
    records = runs.normal()
    records[0] = runs.header(scenario={**runs.SCENARIO, "name": f"{HOSTILE}\x00\ud800"})
    (suite,) = ET.fromstring(render(of_records(records, "errors < 1%"), "junit"))
    assert suite.attrib["name"] == f"{HOSTILE}\\x00\\ud800"


def test_a_comparison_has_no_test_cases() -> None:
    with pytest.raises(ValueError, match="a comparison has no test cases"):
        render(REPORTS["comparison"](), "junit")
