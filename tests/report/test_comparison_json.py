"""Runs side by side, for programs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ssbench.core.operations import READ
from ssbench.core.stats.comparison import comparison
from ssbench.core.stats.run_stats import RunStats
from ssbench.report.comparison_json import render_comparison_json
from tests.report import runs
from tests.report.test_as_comparison import busy


def report(*records: list[runs.Record], operations: tuple[int | None, ...] = ()) -> Any:
    named = [(f"{at}.gz", RunStats.of(each)) for at, each in enumerate(records)]
    return json.loads(
        render_comparison_json(
            comparison(named, seed=7, operations=operations, percents=(50.0, 99.9))
        )
    )


def test_a_program_finds_what_it_looks_for() -> None:
    found = report(runs.lasting(15, 50), runs.lasting(15, 60, seed=2, user_count=8))
    assert (found["schema_version"], found["confidence"], found["seed"]) == (1, 0.99, 7)
    assert [run["file"] for run in found["runs"]] == ["0.gz", "1.gz"]
    assert [run["whole_seconds"] for run in found["runs"]] == [14, 14]
    assert found["differing_settings"] == [
        {"key": "user_count", "of_scenario": True, "values": [4, 8]},
        {"key": "seed", "of_scenario": False, "values": [1, 2]},
    ]
    assert list(found["operations"]) == ["CREATE", "READ"]
    rate = found["total"]["figures"]["operations_per_s"]
    assert rate["runs"][0]["low"] <= rate["runs"][0]["value"] <= rate["runs"][0]["high"]
    (change,) = rate["changes_against_first"]
    assert change["verdict"] == "real"
    assert change["ratio"] == pytest.approx(1.2, rel=0.02)
    # 5.4 ms is the median of the runs' latencies.
    assert 0.003 < found["total"]["figures"]["service_p50_s"]["runs"][0]["value"] < 0.008
    assert "service_p99.9_s" in found["total"]["figures"]
    assert found["total"]["operations"] == [750, 900]
    assert found["total"]["errors"] == [0, 0]


def test_only_what_was_asked_for_is_there() -> None:
    both = runs.lasting(12, 20), runs.lasting(12, 20, seed=2)
    found = report(*both, operations=(READ,))
    assert found["total"] is None
    assert list(found["operations"]) == ["READ"]


def test_what_is_not_known_is_null() -> None:
    found = report(runs.no_results(), runs.one_sample())
    rate = found["total"]["figures"]["operations_per_s"]
    assert rate["runs"][0] == {"value": None, "low": None, "high": None}
    (change,) = rate["changes_against_first"]
    assert change == {
        "ratio": None, "low": None, "high": None, "verdict": "unknown", "other_work": False,
    }  # fmt: skip


def test_it_is_json_even_of_scenarios_that_are_not() -> None:
    weird = {**runs.SCENARIO, "nan": float("nan"), "sizes": [b"\xff"]}
    found = report([runs.header(scenario=weird)], runs.no_results())
    values = {each["key"]: each["values"] for each in found["differing_settings"]}
    assert values["nan"] == [None, None]


def test_other_work_on_the_hosts_stands_beside_the_verdicts() -> None:
    def change(found: Any) -> Any:
        return found["total"]["figures"]["operations_per_s"]["changes_against_first"][0]

    quiet = runs.lasting(20, 50)
    found = report(quiet, busy(runs.lasting(20, 60, seed=2), 97.0))
    assert change(found)["other_work"]
    hosts = [run["hosts"] for run in found["runs"]]
    assert [[host["taken_by_others"] for host in each] for each in hosts] == [[], [True]]
    assert not change(report(quiet, quiet))["other_work"]
