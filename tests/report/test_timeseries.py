"""The run by seconds."""

from __future__ import annotations

import csv
import io

from ssbench.core.operations import READ
from ssbench.core.stats.run_stats import RunStats
from ssbench.report.timeseries import render_series, series_rows
from tests.report import runs

SECOND = 1_000_000_000


def of(*rows: object) -> RunStats:
    return runs.stats_of([runs.header(), runs.batch(list(rows))])  # type: ignore[arg-type]


def test_a_row_for_each_second_and_none_left_out() -> None:
    first = runs.result(1, READ, start_ns=0, last_byte_ns=SECOND // 4, bytes_moved=10)
    long = runs.result(2, READ, start_ns=0, last_byte_ns=2 * SECOND + 5, due_ns=0)
    failed = runs.failure(3, READ, start_ns=2 * SECOND, last_byte_ns=7)
    rows = series_rows(of(first, long, failed))
    assert [row["second"] for row in rows] == [1, 2, 3]
    assert [row["operations"] for row in rows] == [1, 0, 1]
    assert [row["errors"] for row in rows] == [0, 0, 1]
    assert [row["in_flight"] for row in rows] == [1, 1, 0]
    assert rows[0]["moved_bytes"] == 10
    assert rows[1]["service_p50_s"] is None
    assert abs(rows[2]["response_p99_s"] - 2) < 0.003
    assert rows[0]["response_p99_s"] is None


def test_csv_has_the_same() -> None:
    stats = of(runs.result(1, READ, start_ns=0, last_byte_ns=SECOND // 4))
    (row,) = csv.DictReader(io.StringIO(render_series(stats)))
    assert (row["second"], row["operations"], row["in_flight"]) == ("1", "1", "0")
    assert abs(float(row["service_p50_s"]) - 0.25) < 0.00025
    assert row["response_p50_s"] == ""


def test_without_results_there_are_names_only() -> None:
    full = render_series(of(runs.result(1, READ)))
    assert render_series(runs.stats_of([])) == full.splitlines()[0] + "\n"
