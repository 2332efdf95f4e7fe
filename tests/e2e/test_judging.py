"""Runs held against each other, and against promises."""

from __future__ import annotations

import json
from pathlib import Path

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


def test_thresholds_need_kept_results(commands: Commands) -> None:
    words = ["run-scenario", "-f", commands.scenario(), "--noop", "--threshold", "errors == 0"]
    ended = commands.call(*words, "-s", "/dev/null")
    assert "thresholds need results to judge by: /dev/null keeps none" in ended.one_line(2)
