"""Whether an average may be quoted, in words."""

from __future__ import annotations

import json

from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.steady import Drifted, Stalled, TooShort, TwoLevels, Unsteady
from ssbench.report import render
from ssbench.report import steady_text as module
from ssbench.report.steady_text import steady_lines, steady_rows
from tests.golden import legacy
from tests.report import runs


def stats_of(*args: object, **options: object) -> RunStats:
    return RunStats.of(runs.lasting(*args, **options))  # type: ignore[arg-type]


def drifting(second: int) -> int:
    return 50 + 3 * second


def test_a_steady_run_has_no_line() -> None:
    stats = stats_of(20, 50)
    assert steady_lines(stats) == []
    assert "Warning" not in render("text", stats)
    assert json.loads(render("json", stats))["steadiness"] == []


def test_a_drift_is_in_every_report() -> None:
    stats = stats_of(30, drifting)
    (line,) = steady_lines(stats)
    assert line.startswith("Warning: The rate of operations rose by ")
    assert f"\n\n{line}\n" in render("text", stats)
    (row,) = json.loads(render("json", stats))["steadiness"]
    assert row["finding"] == "drifted"
    assert row["sentence"] in line
    assert row["change"] > 0.5


def test_a_short_run_is_only_noted() -> None:
    assert steady_lines(stats_of(3, drifting)) == [
        "Note: Only 2 whole seconds: too short to tell whether the rate was steady; run for 12 s "
        "or more."
    ]


def test_stages_with_the_same_to_say_share_a_line() -> None:
    (line,) = steady_lines(stats_of(40, 9, begins=(0, 4, 8)))
    assert line.startswith("Note: Stages 1, 2: Only 3 whole seconds: too short")
    stats = stats_of(40, lambda second: 9 if second < 20 else second, begins=(0, 20))
    (line,) = steady_lines(stats)
    assert line.startswith("Warning: Stage 2: The rate of operations rose")
    assert [row["stage"] for row in steady_rows(stats)] == [2]


def test_there_are_two_lines_at_most() -> None:
    def wild(second: int) -> int:
        stage, at = divmod(second, 20)
        return (10 + 2 * at) * (stage + 1) + stage * at

    stats = stats_of(80, wild, begins=(0, 20, 40, 60))
    lines = steady_lines(stats)
    assert len(steady_rows(stats)) == 4
    assert len(lines) == 3
    assert lines[2] == "(2 findings more of the kind: --json has all)"


def test_reports_of_0_3_9_are_not_told_that_they_are_short() -> None:
    stats = legacy.stats_of("noop")
    assert steady_lines(stats) == []
    assert [row["finding"] for row in steady_rows(stats)] == ["too_short"]


def test_every_finding_has_a_name_of_its_own() -> None:
    kinds = (TooShort, Stalled, Drifted, TwoLevels, Unsteady)
    assert set(module.NAMES) == set(kinds)
    assert len(set(module.NAMES.values())) == len(kinds)
