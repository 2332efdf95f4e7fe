"""Runs held against each other, and against promises."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.e2e.commands import Commands


def test_runs_that_were_kept_are_compared(commands: Commands) -> None:
    path = commands.scenario()
    rates = (100, 100, 120)
    first, same, other = (
        commands.run("-f", path, "--noop", "-q", "--rate", rate, workers=1).fine().results
        for rate in rates
    )

    ended = commands.call("compare", first, same).fine()
    assert "The scenarios are the same.\n" in ended.out
    for block in ("TOTAL", "CREATE", "READ", "UPDATE", "DELETE"):
        assert f"\n{block} " in ended.out

    ended = commands.call("compare", first, other, "--operation", "READ").fine()
    assert ended.out.startswith("THE SCENARIOS DIFFER")
    assert "  rate: 100.0 | 120.0\n" in ended.out
    assert "\nTOTAL " not in ended.out


def test_a_met_threshold_has_status_0_and_a_missed_one_3(commands: Commands) -> None:
    path = commands.scenario()
    kept = ["--threshold", "errors == 0", "--threshold", "p99(READ, tiny) < 60s"]
    ended = commands.run("-f", path, "--noop", *kept, workers=1).fine(0)
    assert ended.out.count("\n  pass  ") == 2
    missed = [*kept, "--threshold", "rate > 1000000000/s"]
    ended = commands.run("-f", path, "--noop", *missed, workers=1).fine(3)
    assert ended.out.count("\n  pass  ") == 2
    assert re.search(r"^  FAIL  rate > 1000000000/s +[0-9.,]+/s$", ended.out, re.M)
    # Results are kept, and can be judged again.
    again = commands.call("report-scenario", "-s", ended.results, *missed).fine(3)
    assert again.out == ended.out
    commands.call("report-scenario", "-s", ended.results, *kept).fine(0)


def test_thresholds_of_a_scenario_in_toml_are_judged_with_each_report(
    commands: Commands, tmp_path: Path
) -> None:
    scenario = tmp_path / "my.toml"
    scenario.write_text(
        """# of mine
name = "T"
operation_count = 50
user_count = 2
crud_profile = [1, 1, 1, 0]
thresholds = ["errors == 0", "rate > 1000000000/s"]
initial_files = {tiny = 10}
[[sizes]]
name = "tiny"
size = "4k"
"""
    )
    run = commands.run(scenario, "--noop", "-R", "--threshold", "max < 10m", workers=1).fine(3)
    assert run.err.count("  pass  ") == 2
    assert "  FAIL  rate > 1000000000/s  " in run.err
    ended = commands.call("report-scenario", "-s", run.results, "--json").fine(3)
    judged = {each["threshold"]: each["passed"] for each in json.loads(ended.out)["thresholds"]}
    assert judged == {"errors == 0": True, "rate > 1000000000/s": False}
    sweep = commands.run(scenario, "--noop", "--sweep", "users=1,2", workers=1).fine(3)
    assert "Thresholds: errors == 0 and rate > 1000000000/s" in sweep.out


def test_verdicts_are_printed_without_a_report(commands: Commands) -> None:
    path = commands.scenario()
    ended = commands.run("-f", path, "--noop", "-R", "--threshold", "rate < 1/s", workers=1).fine(3)
    assert ended.out == ""
    assert "THRESHOLDS\n  FAIL  rate < 1/s  " in ended.err


@pytest.mark.parametrize(
    ("promise", "said"),
    [
        ("p99(tny) < 50ms", 'no size class "tny"; did you mean "tiny"?'),
        ("response_p99 < 50ms", "a closed loop has no due times"),
    ],
)
def test_an_impossible_threshold_is_reported_before_the_run(
    commands: Commands, promise: str, said: str
) -> None:
    ended = commands.call_run("-f", commands.scenario(), "--noop", "--threshold", promise)
    assert said in ended.one_line(2)
    assert not ended.results.exists()
    assert not ended.logs


def test_thresholds_need_kept_results(commands: Commands) -> None:
    words = ["run-scenario", "-f", commands.scenario(), "--noop", "--threshold", "errors == 0"]
    ended = commands.call(*words, "-s", "/dev/null")
    assert "thresholds need results to judge by: /dev/null keeps none" in ended.one_line(2)
