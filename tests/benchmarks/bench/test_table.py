"""What the table says, and what its exit status claims."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.bench import table
from benchmarks.bench.figure import Figure, at_least, at_most, not_run

FINE = Figure("GET, cpu", "µs", [12.2, 11.5, 12.8], "wrk", [8.0], at_most(2.0))
SLOW = Figure("GET, rate", "/s", [65702.0], "Locust", [13177.0], at_least(8.0))
ABSENT = not_run("GET, cpu", "wrk", at_most(2.0), "not run: apt-get install wrk")
NICE_TO_HAVE = not_run("GET, rate", "nectar", at_least(1.0), "not run: none", optional=True)


def test_a_line_has_medians_spread_ratio_and_bound() -> None:
    assert table.line("small", FINE, None) == (
        "| small: GET, cpu | 12.2 µs (11.5 to 12.8) | wrk | 8 µs | 1.52 | <= 2 |  |"
    )


def test_a_line_has_its_context() -> None:
    assert table.line("small", replace(FINE, note="wrk: 6.7"), None).endswith("| wrk: 6.7 |")


def test_a_line_points_out_what_is_missed_or_worse_than_recorded() -> None:
    assert "| 4.99 | >= 8 | **MISSED** |" in table.line("small", SLOW, None)
    assert "worse than the recorded 1.3 |" in table.line("small", FINE, 1.3)
    assert "worse" not in table.line("small", FINE, 1.4)
    assert "apt-get install wrk" in table.line("small", ABSENT, 1.0)


@pytest.mark.parametrize(
    ("figures", "status"),
    [
        ([FINE], 0),
        ([FINE, NICE_TO_HAVE], 0),
        ([FINE, SLOW, ABSENT], table.MISSED),
        ([FINE, ABSENT], table.INCOMPLETE),
        ([NICE_TO_HAVE], table.INCOMPLETE),
        ([], table.INCOMPLETE),
    ],
)
def test_success_needs_all_rows_measured_within_bounds(figures: list[Figure], status: int) -> None:
    assert table.status(figures) == status


def test_the_summary_names_missed_rows() -> None:
    measured = [("small", figure) for figure in (FINE, SLOW, ABSENT, NICE_TO_HAVE)]
    lines = list(table.ending(measured, {"small: GET, cpu (wrk)": 1.0}))
    assert lines == [
        "MISSED: small: GET, rate (Locust): 4.99, wanted >= 8",
        "NOT MEASURED, so no success: small: GET, cpu (wrk): not run: apt-get install wrk",
        "not measured: small: GET, rate (nectar): not run: none",
        "WORSE: small: GET, cpu (wrk): 1.52, by 52% worse than the recorded 1",
    ]


def test_ratios_are_recorded_by_name_and_reference() -> None:
    assert table.ratios([("small", FINE), ("small", ABSENT)]) == {"small: GET, cpu (wrk)": 1.525}
