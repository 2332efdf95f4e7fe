"""Runs side by side, for people and for programs."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ssbench.core.records import HostRecord
from ssbench.core.stats.compare import Comparison, comparison
from ssbench.core.stats.run_stats import RunStats
from ssbench.report import render
from ssbench.report.comparison import of_comparison
from tests.golden import legacy
from tests.report import runs


def compared(
    *records: list[runs.Record],
    operations: tuple[str | None, ...] = (),
    names: tuple[str, ...] = (),
) -> Comparison:
    stats = [RunStats.of(each) for each in records]
    names = names or tuple(f"{chr(97 + at)}.stat.gz" for at in range(len(records)))
    return comparison(list(zip(names, stats, strict=True)), seed=1, operations=operations)


def text_of(*records: list[runs.Record], operations: tuple[str | None, ...] = (None,)) -> str:
    return render_comparison(compared(*records, operations=operations))


def render_comparison(found: Comparison, form: str = "text") -> str:
    return render(of_comparison(found), form)


def test_scenarios_that_differ_come_first_and_seeds_after_them() -> None:
    lines = text_of(runs.lasting(12, 20), runs.lasting(12, 20, seed=2, user_count=9)).splitlines()
    assert lines[:4] == [
        "THE SCENARIOS DIFFER, which may explain differences in the figures:",
        "  user_count: 4 | 9",
        "Other differences:",
        "  seed: 1 | 2",
    ]
    same = text_of(runs.lasting(12, 20), runs.lasting(12, 20))
    assert same.startswith("The scenarios are the same.\n\nRun 1: a.stat.gz\n")


def test_only_the_first_differing_settings_are_listed() -> None:
    keys = {f"key_{n}": n for n in range(30)}
    text = text_of(runs.lasting(12, 20), runs.lasting(12, 20, long="x" * 99, **keys))
    assert text.count(" | ") == 20
    assert "  and 11 more (--json has all)\n" in text
    assert "x" * 50 not in text


def test_what_moves_no_bytes_has_no_throughput() -> None:
    both = runs.lasting(12, 20), runs.lasting(12, 20, seed=2)
    assert "MB/s" in text_of(*both, operations=("READ",))
    assert "MB/s" not in text_of(*both, operations=("DELETE",))


def test_files_of_0_3_9_are_compared_as_far_as_they_can_be() -> None:
    named = [(name, legacy.stats_of(name)) for name in ("noop", "real")]
    text = render_comparison(comparison(named, seed=1))
    assert (
        "\nNo throughput is compared: no store was involved (--noop), so nothing was moved.\n"
        in text
    )
    assert text.count("too little data to tell") > 20


names = st.text(max_size=20)


@settings(max_examples=30)
@given(names, names, names)
def test_no_name_controls_the_terminal(path: str, name: str, key: str) -> None:
    """Invariant: apart from newlines it has no control character."""
    scenario = {**runs.SCENARIO, "name": name, key: name}
    records: list[runs.Record] = [runs.header(scenario=scenario, driver=name)]
    found = compared(records, runs.one_sample(), names=(path, name))
    text = render_comparison(found)
    categories = {unicodedata.category(char) for char in text if char != "\n"}
    assert not categories & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert text.count("\nTOTAL ") == 1


def test_large_changes_are_factors() -> None:
    text = text_of(
        *(
            runs.lasting(20, rate, seed=seed, slower=slower, operation_count=None, run_seconds=20)
            for rate, seed, slower in ((10, 1, 1), (120, 2, 7))
        )
    )
    assert "Run 2 against run 1: 12.0 times the operations/s: more than noise." in text
    assert " times the service time p" in text
    (line,) = (line for line in text.splitlines() if line.startswith("Operations/s"))
    assert " x 12.0 " in line
    assert line.endswith(" x 11.9 to x 12.1  better: more than noise")


def busy(records: list[runs.Record], cpu_percent: float) -> list[runs.Record]:
    """The same run on a machine of one core that was so busy, by others for the most part."""
    figures = {
        "cpu_percent": cpu_percent, "core_0_percent": cpu_percent, "process_cpu_percent": 5.0,
        "loop_cpu_percent": 5.0, "loop_waiting_percent": 20.0, "interval_s": 1.0,
    }  # fmt: skip
    seconds = [HostRecord(0, at_s, figures, host="bench-01") for at_s in range(2, 12)]
    return [*records[:-1], *seconds, records[-1]]


def test_other_processes_on_the_cores_are_named_beside_the_verdict() -> None:
    base, other = runs.lasting(20, 50), busy(runs.lasting(20, 60, seed=2), 97.0)
    lines = text_of(base, other).splitlines()
    shown = lines.index(
        "Warning: Other processes used the cores in run 2, which may explain a difference."
    )
    assert lines[shown - 1].startswith("Run 2 against run 1")
    assert any(
        line.startswith("  Warning: Other processes used 92 % of all cores of bench-01")
        for line in lines
    )
    both = text_of(busy(base, 97.0), other)
    assert "Other processes used the cores in runs 1 and 2, which may explain" in both
    assert "Other processes" not in text_of(base, busy(runs.lasting(20, 60, seed=2), 40.0))


# For programs


def report(*records: list[runs.Record], operations: tuple[str | None, ...] = ()) -> Any:
    named = [(f"{at}.gz", RunStats.of(each)) for at, each in enumerate(records)]
    found = comparison(named, seed=7, operations=operations, percents=(50.0, 99.9))
    return json.loads(render_comparison(found, "json"))


def test_only_selected_operations_are_compared() -> None:
    both = runs.lasting(12, 20), runs.lasting(12, 20, seed=2)
    found = report(*both, operations=("READ",))
    assert found["total"] is None
    assert list(found["operations"]) == ["READ"]


def test_unknown_figures_are_null() -> None:
    found = report(runs.no_results(), runs.one_sample())
    rate = found["total"]["figures"]["operations_per_s"]
    assert rate["runs"][0] == {"value": None, "low": None, "high": None, "sparse": False}
    (change,) = rate["changes_against_first"]
    assert change == {
        "ratio": None, "low": None, "high": None, "verdict": "unknown", "other_work": False,
    }  # fmt: skip


def test_scenarios_that_json_cannot_hold() -> None:
    weird = {**runs.SCENARIO, "nan": float("nan"), "sizes": [b"\xff"]}
    found = report([runs.header(scenario=weird)], runs.no_results())
    values = {each["key"]: each["values"] for each in found["differing_settings"]}
    assert values["nan"] == [None, None]


def test_other_processes_on_the_hosts_are_marked_in_json() -> None:
    def change(found: Any) -> Any:
        return found["total"]["figures"]["operations_per_s"]["changes_against_first"][0]

    quiet = runs.lasting(20, 50)
    found = report(quiet, busy(runs.lasting(20, 60, seed=2), 97.0))
    assert change(found)["other_work"]
    hosts = [run["hosts"] for run in found["runs"]]
    assert [[host["taken_by_others"] for host in each] for each in hosts] == [[], [True]]
    assert not change(report(quiet, quiet))["other_work"]


def test_each_file_names_its_operations() -> None:
    """A row of a driver that this process does not have."""
    scrub = {"number": 99, "name": "SCRUB", "effect": "none"}
    plain = runs.lasting(12, 20)
    records = [runs.header(operations=[scrub]), runs.batch([runs.result(1, 99)])]
    found = report(plain, records, operations=())
    assert list(found["operations"]) == ["CREATE", "READ", "SCRUB"]
    stats = RunStats.of(records)
    assert "\nSCRUB\n       Count:     1 " in runs.render("text", stats)
    assert runs.as_json(stats)["operations"]["SCRUB"]["count"] == 1
    assert runs.as_csv(stats)["scrub_count"] == "1"
