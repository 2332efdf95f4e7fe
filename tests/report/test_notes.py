"""The sentences of a report: notes on a run, and its steadiness."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssbench.core.records import RunFooter, RunHeader
from ssbench.core.stats.run_stats import RunStats
from tests.core.stats.test_findings import closed_run, open_run
from tests.report import runs
from tests.report.runs import render

NO_STORE = (
    "No store was involved (--noop): rates and latencies are what ssbench itself can do, and no"
    " object was uploaded, read or deleted."
)
CLOSED = (
    "Coordinated omission: in a closed loop, users that wait for a response send nothing, so stalls"
    " are under-represented in percentiles; a run with --rate shows them."
)


def note_lines(stats: RunStats) -> list[str]:
    """The lines of the text report that stand for the notes of its JSON."""
    text = render("text", stats).splitlines()
    sentences = [row["sentence"] for row in note_rows(stats)]
    return [line for line in text if line.partition(": ")[2] in sentences]


def note_rows(stats: RunStats) -> Any:
    return runs.as_json(stats)["notes"]


def test_a_closed_loop_with_a_stall_has_a_note_on_coordinated_omission() -> None:
    stats = closed_run([20] * 500 + [1000])
    (line,) = note_lines(stats)
    shown = "Note: The slowest operation took 1.000 s, 99 % of them at most "
    p99, _, rest = line.removeprefix(shown).partition(" ms. ")
    assert float(p99) == pytest.approx(20, rel=0.001)
    assert rest == CLOSED
    assert f"\n{line}\n" in render("text", stats)
    (row,) = runs.as_json(stats)["notes"]
    assert (row["note"], row["slowest_s"]) == ("closed_loop", 1.0)
    assert row["sentence"] in line


def test_the_note_is_short_if_seconds_show_the_stall() -> None:
    stats = RunStats.of(runs.lasting(30, lambda second: 0 if second in (9, 10) else 100))
    assert note_lines(stats) == [f"Note: {CLOSED}"]


def test_an_open_loop_that_fell_behind_has_a_warning() -> None:
    stats = open_run(92, 100)
    (line,) = [line for line in note_lines(stats) if line.startswith("WARNING")]
    assert line == (
        "WARNING: the load missed its rate: 92.0 of 100 operations/s; 920 of 1,000 operations that"
        " were due were complete at the end, 80 were never started (a store or a load generator"
        " that is too slow, or too few users)"
    )
    text = render("text", stats)
    assert f"\n{line}\n" in text
    assert (
        "\nLoad: open loop, 100 operations/s due (uniform arrivals); 92.0/s were started, and 920"
        " of 1,000 that were due completed, by its end\n"
    ) in text
    row = runs.as_json(stats)["notes"][0]
    assert (row["note"], row["late"], row["target_per_s"]) == ("behind", 80, 100)
    (line,) = [line for line in note_lines(open_run(50, 100, count=1000)) if "WARN" in line]
    assert "50.0 of 100 operations/s; 500 of 1,000 operations that were due were complete" in line
    assert not any("WARN" in line for line in note_lines(open_run(100, 100)))


def without_a_store(**footer: object) -> RunStats:
    records = [r for r in runs.normal() if not isinstance(r, RunHeader | RunFooter)]
    return runs.stats_of([runs.header(driver="noop"), *records, runs.footer(**footer)])


def test_without_a_store_no_format_has_bytes() -> None:
    stats = without_a_store(left_behind=9, left_unknown=2)
    text = render("text", stats).partition("\nHOSTS")[0]
    assert f"\nNote: {NO_STORE}\n" in text
    assert "Throughput: N/A" in text
    for word in ("uploaded", "moved", "MB/s", "left behind"):
        assert word not in text.replace(NO_STORE, "")
    found = runs.as_json(stats)
    assert found["run"]["store_involved"] is False
    assert found["notes"][0]["sentence"] == NO_STORE
    moved = [
        found["total"], *found["operations"].values(), *found["phases"].values(),
        *found["total"]["size_classes"].values(),
    ]  # fmt: skip
    for counts in moved:
        assert counts["moved_bytes"] is counts["moved_bytes_per_s"] is None
        assert counts["failed_moved_bytes"] is None
    assert {second["moved_bytes"] for second in found["seconds"]} == {None}
    assert found["run"]["left_behind"] == found["run"]["left_unknown"] == 0
    row = runs.as_csv(stats)
    assert row["store_involved"] == "0"
    moved_cells = {v.strip() for k, v in row.items() if k.endswith(("_bytes", "_bytes_per_s"))}
    assert moved_cells == {"N/A"}


def test_a_plain_run_has_no_note() -> None:
    assert note_rows(RunStats.of(runs.lasting(30, 100))) == []


@pytest.mark.parametrize(
    ("seconds", "rate", "count"), [(3, 100, "300 operations"), (1, 1, "1 operation")]
)
def test_a_run_within_its_warm_up_has_a_note(seconds: int, rate: int, count: str) -> None:
    (line,) = note_lines(RunStats.of(runs.lasting(seconds, rate, warmup=5)))
    assert line == (
        f"Note: No results to report: warm-up and cool-down cover the whole run ({count})."
    )
    assert note_rows(RunStats.of(runs.no_results())) == []


def test_less_accurate_seconds_have_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    stats = RunStats.of(runs.lasting(30, 100))
    monkeypatch.setattr(type(stats.series), "relative_error", 0.0048)
    (row,) = note_rows(stats)
    assert (row["note"], row["relative_error"]) == ("wide_seconds", 0.0048)
    assert note_lines(stats)[0].startswith(
        "Note: Percentiles of single seconds are accurate to 0.48 %"
    )


def test_a_mix_that_differs_from_the_scenario_has_a_note() -> None:
    run = runs.lasting(10, 100)
    stats = RunStats.of([*run, runs.footer(skipped={"UPDATE": 30, "DELETE": 0})])
    (row,) = note_rows(stats)
    assert row["note"] == "mix"
    assert row["skipped_share"] == pytest.approx(30 / 1030)
    assert note_lines(stats)[0].startswith("Note: 2.9 % of the drawn operations found no object")
    assert note_rows(RunStats.of([*run, runs.footer(skipped={"UPDATE": 15})])) == []


# Steadiness


def lasting(*args: object, **options: object) -> RunStats:
    return RunStats.of(runs.lasting(*args, **options))  # type: ignore[arg-type]


def steady_rows(stats: RunStats) -> Any:
    return runs.as_json(stats)["steadiness"]


def steady_lines(stats: RunStats) -> list[str]:
    """What the text report says of it: a block of lines that are no notes on the run."""
    lines = render("text", stats).splitlines()
    notes = note_lines(stats)
    found = [line for line in lines if line.startswith(("Note: ", "Warning: ", "("))]
    return [line for line in found if line not in notes]


def drifting(second: int) -> int:
    return 50 + 3 * second


def test_a_steady_run_has_no_line() -> None:
    stats = lasting(20, 50)
    assert steady_lines(stats) == []
    assert "Warning" not in render("text", stats)
    assert runs.as_json(stats)["steadiness"] == []


def test_a_drift_is_in_every_report() -> None:
    stats = lasting(30, drifting)
    (line,) = steady_lines(stats)
    assert line.startswith("Warning: The rate of operations rose by ")
    assert f"\n\n{line}\n" in render("text", stats)
    (row,) = runs.as_json(stats)["steadiness"]
    assert row["finding"] == "drifted"
    assert row["sentence"] in line
    assert row["change"] > 0.5


@given(st.lists(st.integers(0, 60), max_size=30))
@settings(max_examples=25, deadline=None)
def test_each_finding_is_a_sentence(counts: list[int]) -> None:
    """Invariant: whatever completed in a second, each finding has a plain sentence."""
    for row in steady_rows(lasting(len(counts), lambda second: counts[second])):
        assert row["sentence"].endswith(".")
        assert row["sentence"].isprintable()


def test_stages_with_the_same_finding_share_a_line() -> None:
    (line,) = steady_lines(lasting(40, 9, begins=(0, 4, 8)))
    assert line.startswith("Note: Stages 1, 2: Too short to tell")
    stats = lasting(40, lambda second: 9 if second < 20 else second, begins=(0, 20))
    (line,) = steady_lines(stats)
    assert line.startswith("Warning: Stage 2: The rate of operations rose")
    assert [row["stage"] for row in steady_rows(stats)] == [2]


def test_there_are_two_lines_at_most() -> None:
    def wild(second: int) -> int:
        stage, at = divmod(second, 20)
        return (10 + 2 * at) * (stage + 1) + stage * at

    stats = lasting(80, wild, begins=(0, 20, 40, 60))
    lines = steady_lines(stats)
    assert len(steady_rows(stats)) == 4
    assert len(lines) == 3
    assert lines[2] == "(2 more findings of this kind: --json has all)"
