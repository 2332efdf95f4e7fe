"""The text report: golden runs, 0.3.9's own figures, and names that control no terminal."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.model import UNCERTAIN_NS, ErrorKind, Phase
from ssbench.core.operations import ENSURE, READ, REMOVE, UPDATE
from ssbench.core.records import MarkRecord, PhaseRecord
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.steps import Step
from ssbench.core.stats.thresholds import Threshold
from ssbench.report import of_run, render_html
from ssbench.report import render as render_report
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
    Sparse,
    Unit,
)
from ssbench.report.series import SeriesSettings, of_series
from ssbench.report.text_layout import cell_text
from tests.golden import legacy
from tests.report import runs
from tests.report.runs import render


@pytest.mark.parametrize("name", ["noop", "real"])
def test_files_of_0_3_9_give_its_own_report(name: str) -> None:
    theirs = (legacy.FOLDER / f"{name}.report.txt").read_text()
    assert render("classic", legacy.stats_of(name)) == theirs


def test_what_was_read_in_a_run_of_0_3_9_is_unknown() -> None:
    stats, threshold = legacy.stats_of("real"), Threshold.parse("throughput > 1B/s")
    assert "MB/s" not in render("text", stats)
    found = runs.as_json(stats, thresholds=[threshold])
    parts = [found["total"], found["operations"]["READ"], found["summary"], *found["seconds"]]
    assert {part.get("moved_bytes", part.get("moved_bytes_per_s")) for part in parts} == {None}
    assert found["operations"]["CREATE"]["moved_bytes"] > 0
    (judged,) = found["thresholds"]
    assert judged["why"] == "files of ssbench 0.3.9 do not record bytes read"


def test_the_first_percentile_is_the_column_and_all_are_in_the_line() -> None:
    text = render("text", runs.stats_of(runs.normal()), (99.95, 75.0))
    assert "std_dev  99.95%-ile\n" in text
    lines = text.splitlines()
    at = next(at for at, line in enumerate(lines) if "percentiles" in line)
    assert lines[at - 1].split() == ["50%", "75%", "95%", "99%", "99.9%", "99.95%"]
    assert lines[at].count(" ms") == 6
    assert (lines[at + 1].split(), lines[at + 2].count(" ms")) == (["max"], 1)


def test_percentile_100_is_the_maximum() -> None:
    text = render("text", runs.stats_of(runs.one_sample()), (100.0,))
    assert "5.000 ms   5.000 ms   5.000 ms   0.000 ms    5.000 ms  (all obj sizes)" in text


def test_it_says_what_is_damaged() -> None:
    damaged = runs.stats_of(runs.normal())
    damaged.run.damage.append("block 3\x1b is damaged")
    assert "\n  block 3\\x1b is damaged\n" in render("text", damaged)


def test_responses_read_late_are_excluded_from_first_byte_figures() -> None:
    late = {"headers_ns": UNCERTAIN_NS, "first_byte_ns": UNCERTAIN_NS}
    rows = [runs.result(n, runs.READ, **(late if n < 4 else {})) for n in range(1, 6)]
    records = [runs.header(), runs.worker(0, "w"), runs.batch(rows)]
    stats = runs.stats_of(records)
    text = render("text", stats)
    assert "First-byte latencies excluded because the response was read late: 3\n" in text
    assert "Header latencies excluded because the response was read late: 3\n" in text
    made = runs.as_json(stats)["operations"]["READ"]
    for name, uncertain in (("headers", 3), ("first_byte", 3), ("last_byte", 0)):
        latency = made[f"{name}_latency"]
        assert (latency["count"], latency["uncertain"]) == (5 - uncertain, uncertain)
    cells = runs.as_csv(stats)
    assert cells["read_first_byte_uncertain"] == cells["total_headers_uncertain"] == "3"


def test_counters_that_are_zero_have_no_line() -> None:
    text = render("text", runs.stats_of([*runs.one_sample(), runs.footer()]))
    for word in ("ERRORS", "Skipped", "Lost", "slow down", "refused", "Warning", "left behind"):
        assert word not in text


def around() -> RunStats:
    """Uploads and removals that failed, and a run that had no operation."""
    upload = runs.failure(1, ENSURE, status=413, detail="Upload exceeds quota.")
    removal = runs.failure(2, REMOVE, status=409, detail="409 Conflict")
    return runs.stats_of(
        [
            runs.header(),
            PhaseRecord(Phase.POPULATE, 1.0, 1),
            runs.batch([upload], Phase.POPULATE),
            PhaseRecord(Phase.CLEANUP, 9.0, 1),
            runs.batch([removal, removal], Phase.CLEANUP),
            runs.footer(left_behind=5, left_unknown=3),
        ]
    )


def test_possibly_orphaned_objects_are_counted_apart() -> None:
    text = render("text", around())
    assert "\nOrphaned objects: 2\n" in text
    assert "\nObjects possibly orphaned (unknown whether they were created or deleted): 3" in (text)


def test_without_any_record_there_is_still_a_report() -> None:
    text = render("text", runs.stats_of([]))
    assert "INCOMPLETE" in text
    assert "Count:     0 (    0 error;     0 retries:    N/A)" in text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0, 0, "  0  B"),
        (4096, 8192, "  4 kB -   8 kB"),
        (999_999, 999_999, "  1 MB"),
        (1, 5 * 10**9, "  1  B -   5 GB"),
        (None, 5, "   N/A -   5  B"),
    ],
)
def test_size_ranges(low: int | None, high: int | None, text: str) -> None:
    sizes = [{"name": "own", "size_min": low, "size_max": high}]
    scenario = {**runs.SCENARIO, "sizes": sizes, "initial_files": {"own": 1}}
    lines = render("text", runs.stats_of([runs.header(scenario=scenario)])).splitlines()
    (line,) = [line for line in lines if line.endswith("  own")]
    assert line == f"100%   % 10  75  15   0      {text:15}  own"


TAKEN = Distribution(2, 0, 0, 5e6, 9e6, 7e6, 2e6, {50.0: 5e6, 99.9: 9e6, 100.0: 9e6}, None)


@pytest.mark.parametrize(
    ("value", "unit", "text", "with_unit"),
    [
        (None, LATENCY, "N/A", "N/A"),
        (True, WORD, "yes", "yes"),
        (False, COUNT, "no", "no"),
        (12_345, COUNT, "12,345", "12,345"),
        (0.25, COUNT, "0.25", "0.25"),
        (12_345, BYTES, "12.3 kB", "12.3 kB"),
        ("a\x1b[2J", WORD, "a\\x1b[2J", "a\\x1b[2J"),
        (12.34, RATE, "12.3", "12.3 operations/s"),
        (5_678_000, THROUGHPUT, "5.68", "5.68 MB/s"),
        (7, PERCENT, "7.00", "7.00 %"),
        (0, LATENCY, "0.000", "0.000 ms"),
        (341, LATENCY, "0.000341", "0.000341 ms"),
        (99_999, LATENCY, "0.099999", "0.099999 ms"),
        (100_000, LATENCY, "0.100", "0.100 ms"),
        (12_345_678, LATENCY, "12.346", "12.346 ms"),
        (Sparse(12_345_678), LATENCY, "~12.346", "~12.346 ms"),
        (0.04, SECONDS, "0.0", "0.0 s"),
        (-0.04, SECONDS, "0.0", "0.0 s"),
        (-0.06, SECONDS, "-0.1", "-0.1 s"),
        (61, WALL_CLOCK, "1970-01-01 00:01:01 UTC", "1970-01-01 00:01:01 UTC"),
        (Actual(12.4, 50, "ms"), WORD, "12.4 ms", "12.4 ms"),
        (Actual(None, 50, "ms"), WORD, "N/A", "N/A"),
        (TAKEN, LATENCY, *["50% 5.000 ms, 99.9% 9.000 ms, max 9.000 ms"] * 2),
    ],
)
def test_a_value_is_shown_in_its_unit(value: Any, unit: Unit, text: str, with_unit: str) -> None:
    column = Column("key", unit, "what it is")
    assert cell_text(value, column) == text
    assert cell_text(value, column, symbol=True) == with_unit


@pytest.mark.parametrize("columns", [60, 80])
def test_on_a_terminal_lines_break_between_words(columns: int) -> None:
    """A word that is longer than a line stays whole; in a file lines are as long as before."""
    records = runs.lasting(30, 20, warmup=3, run_seconds=30)
    records[0] = runs.header(overrides={"name": "x" * 90, "user_count": 4})
    for report in (of_run(RunStats.of(records)), of_run(RunStats.of(runs.normal()))):
        text = render_report(report, "text", columns)
        for line in text.splitlines():
            assert len(line) <= columns or " " not in line.strip(), line
        assert set(render_report(report).split("\nTOTAL")[0].split()) <= set(text.split())
        assert render_report(report, "wide", columns) == render_report(report, "wide")


def test_operations_that_a_run_was_not_to_do_are_left_out() -> None:
    """For people, unless some were done; not with --classic, and not in files of 0.3.9."""
    profile = {"crud_profile": [1, 3, 0, 0]}
    sizes = [{**size, **profile} for size in runs.SCENARIO["sizes"]]  # type: ignore[attr-defined]
    stats = RunStats.of(runs.lasting(12, 20, sizes=sizes))
    page = render_html(of_run(stats))
    for form in ("text", "wide", "markdown"):
        shown = render(form, stats)
        assert ("CREATE" in shown, "UPDATE" in shown, "DELETE" in shown) == (True, False, False)
    assert (">CREATE<" in page, ">UPDATE<" in page) == (True, False)
    assert "\nUPDATE\n" in render("classic", stats)
    assert "UPDATE" in runs.as_json(stats)["operations"]
    done = [runs.result(1, UPDATE), runs.result(2, READ)]
    assert "\nUPDATE\n" in render("text", RunStats.of([runs.header(), runs.batch(done)]))


@pytest.mark.parametrize(
    ("count", "sparse"),
    [(37, ["95", "99", "99.9"]), (999, ["99", "99.9"]), (1000, ["99.9"]), (10_000, [])],
)
def test_a_percentile_with_fewer_than_ten_operations_beyond_it_is_marked(
    count: int, sparse: list[str]
) -> None:
    """In every format, by the same rule; --classic stays as 0.3.9 was."""
    rows = [runs.result(n, READ, last_byte_ns=5 * runs.MS) for n in range(count)]
    records = [runs.header(), PhaseRecord(Phase.RUN, runs.STARTED_AT, 4), runs.batch(rows)]
    stats = RunStats.of([*records, runs.footer()])
    total = runs.as_json(stats)["total"]["last_byte_latency"]
    assert total["sparse_percentiles"] == sparse
    assert runs.as_csv(stats)["total_sparse_pctiles"] == " ".join(sparse)
    legend = "marks a percentile with fewer than ten operations beyond it"
    for form, mark in (("text", "~5.000 ms"), ("wide", "~5.000 ms"), ("markdown", r"\~5.000")):
        shown = render(form, stats)
        assert (mark in shown) is (legend in shown) is bool(sparse), form
    assert "~" not in render("classic", stats)
    (step,) = of_series(
        SeriesSettings("own", "users", (50.0, 95.0, 99.0, 99.9, 100.0)),
        [Step.of(stats, 4, "x.gz", (50.0, 95.0, 99.0, 99.9, 100.0))],
    )[""]["steps"].rows
    assert step["sparse_percentiles"] == sparse
    page = render_html(of_run(stats))
    assert (">~5.000<" in page) is (legend in page) is bool(sparse)


def test_a_time_of_day_is_cut_not_rounded() -> None:
    text = render("text", runs.stats_of([runs.header(started_at=1795168183.999)]))
    assert "Ran 2026-11-20 09:49:43 UTC to N/A" in text


def test_an_unknown_cause_of_errors_is_a_number() -> None:
    rows = [runs.failure(1, READ, error=99)]
    text = render("text", runs.stats_of([runs.header(), runs.batch(rows)]))
    assert "             1  error 99            503     READ: " in text


def test_times_that_no_calendar_has_are_na() -> None:
    text = render("text", runs.stats_of([runs.header(started_at=1e300)]))
    assert "Ran N/A to N/A (N/A)" in text


names = st.text(max_size=30)


@given(names, names, names, names, st.binary(max_size=20))
def test_no_name_controls_the_terminal(
    name: str, size: str, worker_id: str, detail: str, identifier: bytes
) -> None:
    """Invariant: apart from newlines it has no control character."""
    scenario = {**runs.SCENARIO, "name": name, "policy": detail, "sizes": [{"name": size}]}
    row = runs.failure(1, READ, detail=detail, transaction_id=identifier)
    stats = runs.stats_of(
        [
            runs.header(scenario=scenario, overrides={"policy": name}, driver=size),
            runs.worker(0, worker_id),
            runs.batch([row, runs.result(2, READ, transaction_id=identifier)]),
            runs.footer(
                ended="failed", reason=detail, warnings=[detail], workers_lost=[worker_id],
                skipped={name: 1},
            ),
        ]
    )  # fmt: skip
    text = render("text", stats)
    categories = {unicodedata.category(char) for char in text if char != "\n"}
    assert not categories & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    # A newline in a name would forge a line of the report.
    assert text.count("\nTOTAL\n") == 1


def test_a_lost_worker_is_named_once() -> None:
    lost = ["one (h, pid 1)", "two (h, pid 2)"]
    warnings = ["Lost worker one (h, pid 1): no heartbeat for 3 s"]
    text = render("text", runs.stats_of([runs.footer(warnings=warnings, workers_lost=lost)]))
    shown = [line for line in text.splitlines() if "(h, pid" in line]
    assert shown == ["Warning: worker two (h, pid 2) was lost", f"Warning: {warnings[0]}"]


def test_missing_results_are_counted() -> None:
    records = [runs.header(), runs.batch([runs.result(1, READ)])]
    missing = "Sent, but neither in the results nor known to be lost"
    assert f"{missing}: 2" in render("text", runs.stats_of([*records, runs.footer(sent=3)]))
    assert missing not in render("text", runs.stats_of([*records, runs.footer(sent=1)]))


def test_the_manual_names_every_cause_of_an_error() -> None:
    manual = (Path(__file__).parents[2] / "docs/reference/report.rst").read_text()
    causes = re.findall(r"^([a-z][a-z ]+?)  +[A-Z4]", manual, re.MULTILINE)
    assert causes == [kind.label for kind in ErrorKind if kind is not ErrorKind.NONE]


def test_a_run_that_ended_because_it_was_steady_says_so() -> None:
    reason = "the rate was steady at second 31: within 7.5 % for 15 s"
    records = [*runs.normal()[:-1], runs.footer(reason=reason)]
    assert f"\nEnded early: {reason}\n" in render("text", runs.stats_of(records))
    assert "before its time" not in render("text", runs.stats_of(runs.normal()))


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
    records = [runs.header(scenario=scenario), PhaseRecord(Phase.RUN, 0.0, 4), *marks]
    text = render("text", runs.stats_of([*records, runs.batch(rows), footer]))
    manual = (Path(__file__).parents[2] / "docs/reference/report.rst").read_text()
    part = manual.partition("Lines that appear only if not zero\n=")[2].partition("\n====")[0]
    terms = re.findall(r"^(\S.*)\n    \S", part, re.MULTILINE)
    explained = [re.sub(r"[\d.]+", "N", term) for line in terms for term in line.split(", Header")]
    shown = text.partition("\nSkipped")[2].partition("\n\n")[0].count("\n") + 1
    assert len(explained) == shown + 1, "and the warnings"
    for term in explained:
        term = f"Header{term}" if term.startswith(" lat") else term
        assert re.search(f"^{re.escape(term)}", re.sub(r"[\d.]+", "N", text), re.MULTILINE), term
