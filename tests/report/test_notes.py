"""What to keep in mind of a run."""

from __future__ import annotations

import csv
import io
import json

import pytest

from ssbench.core.records import RunFooter, RunHeader
from ssbench.core.stats.run_stats import RunStats
from ssbench.report import render
from ssbench.report.notes import NO_STORE, note_lines, note_rows
from tests.core.stats.test_arrivals import open_run
from tests.core.stats.test_coordinated_omission import stats_of
from tests.report import runs

CLOSED = (
    "Coordinated omission: in a closed loop, users that wait for a response send nothing, so stalls"
    " are under-represented in percentiles; a run with --rate shows them."
)


def test_a_closed_loop_that_met_a_stall_says_what_it_cannot_show() -> None:
    stats = stats_of([20] * 500 + [1000])
    (line,) = note_lines(stats)
    told = "Note: The slowest operation took 1000.000 ms, 99 % of them at most "
    p99, _, rest = line.removeprefix(told).partition(" ms. ")
    assert float(p99) == pytest.approx(20, rel=0.001)
    assert rest == CLOSED
    assert f"\n{line}\n" in render("text", stats)
    (row,) = json.loads(render("json", stats))["notes"]
    assert (row["note"], row["slowest_s"]) == ("closed_loop", 1.0)
    assert row["sentence"] in line


def test_where_the_rate_tells_of_it_only_that_is_said() -> None:
    stats = RunStats.of(runs.lasting(30, lambda second: 0 if second in (9, 10) else 100))
    assert note_lines(stats) == [f"Note: {CLOSED}"]


def test_an_open_loop_that_fell_behind_is_a_warning() -> None:
    stats = open_run(92, 100)
    (line,) = [line for line in note_lines(stats) if line.startswith("WARNING")]
    assert line == (
        "WARNING: the load fell behind its rate: 92.0 of 100 operations/s were started; 80 of 1,000"
        " operations fell due and were never started (too few users, or a store or a load"
        " generator that is too slow)"
    )
    text = render("text", stats)
    assert f"\n{line}\n" in text
    assert (
        "\nLoad: open loop, 100 operations/s due (uniform arrivals); 92.0/s were started\n"
    ) in text
    row = json.loads(render("json", stats))["notes"][0]
    assert (row["note"], row["late"], row["target_per_s"]) == ("behind", 80, 100)
    (line,) = [line for line in note_lines(open_run(50, 100, count=1000)) if "WARN" in line]
    assert "50.0 of 100 operations/s were started; operations began 5 s late on average" in line
    assert not any("WARN" in line for line in note_lines(open_run(100, 100)))


def without_a_store(**footer: object) -> RunStats:
    records = [r for r in runs.normal() if not isinstance(r, RunHeader | RunFooter)]
    return runs.stats_of([runs.header(driver="noop"), *records, runs.footer(**footer)])


def test_without_a_store_nothing_was_moved_and_every_format_says_so() -> None:
    stats = without_a_store(left_behind=9, left_unknown=2)
    text = render("text", stats)
    assert f"\nNote: {NO_STORE}\n" in text
    assert "Throughput: N/A" in text
    for word in ("uploaded", "moved", "MB/s", "left behind"):
        assert word not in text.replace(NO_STORE, "")
    found = json.loads(render("json", stats))
    assert found["run"]["store_involved"] is False
    assert found["notes"][0] == {"note": "no_store", "sentence": NO_STORE}
    moved = [
        found["total"], *found["operations"].values(), *found["phases"].values(),
        *found["total"]["size_classes"].values(),
    ]  # fmt: skip
    for counts in moved:
        assert counts["moved_bytes"] is counts["moved_bytes_per_s"] is None
        assert counts["failed_moved_bytes"] is None
    assert {second["moved_bytes"] for second in found["seconds"]} == {None}
    assert found["run"]["left_behind"] == found["run"]["left_unknown"] == 0
    names, values = csv.reader(io.StringIO(render("csv", stats)))
    row = dict(zip(names, values, strict=True))
    assert row["store_involved"] == "0"
    moved_cells = {v.strip() for k, v in row.items() if k.endswith(("_bytes", "_bytes_per_s"))}
    assert moved_cells == {"N/A"}


def test_with_a_store_nothing_says_otherwise() -> None:
    stats = runs.stats_of(runs.normal())
    assert NO_STORE not in render("text", stats)
    assert json.loads(render("json", stats))["run"]["store_involved"] is True


def test_a_plain_run_has_no_note() -> None:
    assert note_rows(RunStats.of(runs.lasting(30, 100))) == []


def test_a_run_of_which_nothing_counts_says_so() -> None:
    (line,) = note_lines(RunStats.of(runs.lasting(3, 100, warmup=5)))
    assert line == (
        "Note: No results to report: warm-up and cool-down cover the whole run (300 operations)."
    )
    assert note_rows(RunStats.of(runs.no_results())) == []


def test_seconds_that_are_kept_less_finely_are_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    stats = RunStats.of(runs.lasting(30, 100))
    monkeypatch.setattr(type(stats.series), "relative_error", 0.0048)
    (row,) = note_rows(stats)
    assert (row["note"], row["relative_error"]) == ("wide_seconds", 0.0048)
    assert note_lines(stats)[0].startswith(
        "Note: Percentiles of single seconds are accurate to 0.48 %"
    )


def test_a_mix_that_is_not_the_scenarios_is_told_of() -> None:
    run = runs.lasting(10, 100)
    stats = RunStats.of([*run, runs.footer(skipped={"UPDATE": 30, "DELETE": 0})])
    (row,) = note_rows(stats)
    assert row["note"] == "mix"
    assert row["skipped_share"] == pytest.approx(30 / 1030)
    assert note_lines(stats)[0].startswith("Note: 2.9 % of the drawn operations found no object")
    assert note_rows(RunStats.of([*run, runs.footer(skipped={"UPDATE": 15})])) == []
