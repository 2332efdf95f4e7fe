"""What the table says of figures and their bounds, and what its exit status claims."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.bench import table
from benchmarks.bench.figure import Bound, Figure, Verdict, at_least, at_most, below, not_run

FINE = Figure("GET, cpu", "µs", [12.2, 11.5, 12.8], "wrk", [8.0], at_most(2.0))
SLOW = Figure("GET, rate", "/s", [65702.0], "Locust", [13177.0], at_least(8.0))
ABSENT = not_run("GET, cpu", "wrk", at_most(2.0), "not run: apt-get install wrk")
NICE_TO_HAVE = not_run("GET, rate", "nectar", at_least(1.0), "not run: none", optional=True)


def test_the_ratio_is_of_the_medians() -> None:
    figure = Figure("cpu", "µs", [3.0, 90.0, 4.0], "wrk", [2.0, 1.0, 9.0], at_most(2.0))
    assert (figure.ratio, figure.verdict) == (2.0, Verdict.KEPT)
    memory = below("memory", "MB", [99.0, 98.0, 100.0], 100)
    assert (memory.theirs, memory.ratio, memory.verdict) == ([100], 0.99, Verdict.KEPT)


@pytest.mark.parametrize(
    ("bound", "ratio", "verdict"),
    [
        (at_most(2.0), 2.001, Verdict.MISSED),
        (at_most(2.0), 0.1, Verdict.KEPT),
        (at_least(2.0), 2.0, Verdict.KEPT),
        (at_least(2.0), 1.999, Verdict.MISSED),
    ],
)
def test_a_bound_has_a_direction(bound: Bound, ratio: float, verdict: Verdict) -> None:
    assert Figure("cpu", "µs", [ratio], "wrk", [1.0], bound).verdict is verdict
    by = 0.5 if bound.at_most else -1 / 3
    assert bound.worse_by(1.5, before=1.0) == pytest.approx(by)


@pytest.mark.parametrize(
    ("figure", "before", "line"),
    [
        (FINE, None, "| small: GET, cpu | 12.2 µs (11.5 to 12.8) | wrk | 8 µs | 1.52 | <= 2 |  |"),
        (replace(FINE, note="wrk: 6.7"), None, "| 1.52 | <= 2 | wrk: 6.7 |"),
        (SLOW, None, "| 4.99 | >= 8 | **MISSED** |"),
        (FINE, 1.3, "worse than the recorded 1.3 |"),
        (FINE, 1.4, "| 1.52 | <= 2 |  |"),
        (ABSENT, 1.0, "apt-get install wrk |"),
    ],
)
def test_a_line_has_medians_ratio_bound_and_what_is_to_be_said(
    figure: Figure, before: float | None, line: str
) -> None:
    assert table.line("small", figure, before).endswith(line)


@pytest.mark.parametrize(
    ("figures", "status"),
    [
        ([FINE, NICE_TO_HAVE], 0),
        ([FINE, SLOW, ABSENT], table.MISSED),
        ([FINE, ABSENT], table.INCOMPLETE),
        ([NICE_TO_HAVE], table.INCOMPLETE),
        ([], table.INCOMPLETE),
    ],
)
def test_success_needs_all_rows_measured_within_bounds(figures: list[Figure], status: int) -> None:
    assert table.status(figures) == status


def test_the_summary_names_missed_rows_and_ratios_are_recorded() -> None:
    measured = [("small", figure) for figure in (FINE, SLOW, ABSENT, NICE_TO_HAVE)]
    lines = list(table.ending(measured, {"small: GET, cpu (wrk)": 1.0}))
    assert lines == [
        "MISSED: small: GET, rate (Locust): 4.99, wanted >= 8",
        "NOT MEASURED, so no success: small: GET, cpu (wrk): not run: apt-get install wrk",
        "not measured: small: GET, rate (nectar): not run: none",
        "WORSE: small: GET, cpu (wrk): 1.52, by 52% worse than the recorded 1",
    ]
    assert table.ratios([("small", FINE), ("small", ABSENT)]) == {"small: GET, cpu (wrk)": 1.525}
