"""The JSON report: everything, with units in the names."""

from __future__ import annotations

from typing import Any

import pytest

from ssbench.core.model import Phase
from ssbench.core.records import ClockRecord
from tests.golden import compare, legacy
from tests.report import runs
from tests.report.runs import render
from tests.report.test_text import around


def report(records: Any, *percentiles: float) -> Any:
    return runs.as_json(runs.stats_of(records), *percentiles)


@pytest.mark.parametrize("name", runs.RUNS)
def test_output_equals_the_golden_file(name: str) -> None:
    compare.check(f"{name}.report.json", render("json", runs.stats_of(runs.RUNS[name]())))


@pytest.mark.parametrize("name", ["noop", "real"])
def test_files_of_0_3_9_give_the_golden_output(name: str) -> None:
    stats = legacy.stats_of(name)
    compare.check(f"legacy_{name}.report.json", render("json", stats))


def test_errors_around_the_run_have_lists_of_their_own() -> None:
    found = runs.as_json(around())
    assert found["errors"] == []
    (upload,) = found["phase_errors"]["POPULATE"]
    assert (upload["kind"], upload["status"], upload["count"]) == ("status", 413, 1)
    assert upload["example"]["operation"] == "ENSURE"
    assert [row["count"] for row in found["phase_errors"]["CLEANUP"]] == [2]
    assert (found["run"]["left_behind"], found["run"]["left_unknown"]) == (2, 3)


def test_clocks_of_workers_are_in_seconds() -> None:
    first, second = (
        ClockRecord(0, Phase.RUN, -2_500_000, 150_000, 12_000_000),
        ClockRecord(7, Phase.RUN, 4_000, 1_000, None),
    )
    found = report([*runs.normal()[:6], first, second, runs.footer()])["clocks"]
    assert found == [
        {
            "worker_id": "alpha", "host": "bench-01", "corrected_by_s": -0.0025,
            "uncertainty_s": 0.00015, "wall_clock_ahead_s": 0.012,
        },
        {
            "worker_id": "#7", "host": None, "corrected_by_s": 0.000004,
            "uncertainty_s": 0.000001, "wall_clock_ahead_s": None,
        },
    ]  # fmt: skip


def test_a_scenario_that_json_cannot_hold() -> None:
    weird = {"name": "x", "user_count": float("inf"), "sizes": [b"\xff"], "nan": float("nan")}
    found = report([runs.header(scenario=weird, scenario_given=weird)])
    assert found["run"]["scenario"]["nan"] is None
