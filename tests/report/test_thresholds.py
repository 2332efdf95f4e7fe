"""Thresholds in the reports."""

from __future__ import annotations

from decimal import Decimal

import pytest

from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.thresholds import Threshold
from ssbench.report import of_run, threshold_lines
from tests.report import runs
from tests.report.runs import render


def lines(*texts: str, records: list[runs.Record] | None = None) -> list[str]:
    thresholds = [Threshold.parse(text) for text in texts]
    stats = RunStats.of(records or runs.normal())
    return list(threshold_lines(of_run(stats, thresholds=thresholds)))


def line(text: str, records: list[runs.Record] | None = None) -> list[str]:
    """Word, threshold and finding."""
    return lines(text, records=records)[1].split("  ")[1:]


def test_each_threshold_has_its_verdict_and_value() -> None:
    assert lines("errors < 5%", "errors <= 20", "p99(READ) < 50ms") == [
        "THRESHOLDS",
        "  FAIL  errors < 5%       10 %",
        "  pass  errors <= 20      20",
        "  pass  p99(READ) < 50ms  28.529 ms (service time, fewer than ten operations beyond it)",
    ]


def test_thresholds_end_the_text_report() -> None:
    stats, thresholds = RunStats.of(runs.normal()), [Threshold.parse("errors == 0")]
    text = render("text", stats, thresholds=thresholds)
    assert "\n\nTHRESHOLDS\n  FAIL  errors == 0  20\n\nThroughput  " in text
    assert text.endswith("\nThresholds  missed 1 of 1: errors == 0\n")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("p50(DELETE) < 1s", "no sample to judge by"),
        ("rate > 1/s", "no operation to judge by"),
        ("response_p99 < 1s", "no sample to judge by"),
    ],
)
def test_a_threshold_without_data_fails_with_a_reason(text: str, reason: str) -> None:
    assert line(text, runs.no_results())[::2] == ["FAIL", reason]


def test_it_says_which_latency_was_judged() -> None:
    assert line("max < 9s", runs.lasting(3, 9, due=True))[2].endswith("(response time)")
    assert line("service_max < 9s", runs.lasting(3, 9, due=True))[2].endswith("(service time)")
    assert line("first_byte_p50 < 9s")[2].endswith("(to the first byte)")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        # All take 5 ms.
        ("mean < 5ms", "5 ms"), ("mean < 5000.0001us", "5,000 us"), ("p50 < 5.0000001ms", "5 ms"),
        ("mean < 0.005s", "0.005 s"), ("mean < 1m", "5 ms"),
    ],
)  # fmt: skip
def test_values_are_in_the_thresholds_own_unit_unless_they_are_far_smaller(
    text: str, shown: str
) -> None:
    assert line(text, runs.one_sample())[2].startswith(f"{shown} (")


def test_small_values_have_no_exponent() -> None:
    rows = [runs.result(1, runs.READ, last_byte_ns=10_185, headers_ns=1, bytes_moved=1)]
    records = [runs.header(), runs.PhaseRecord(runs.Phase.RUN, 0, 1), runs.batch(rows)]
    assert line("max < 1s", records)[2] == "10.185 us (service time)"
    rows[0] = rows[0]._replace(last_byte_ns=20)
    assert line("max < 1s", [*records[:2], runs.batch(rows)])[2] == "0.02 us (service time)"
    rows = [runs.result(n, runs.READ, start_ns=n * 10**14) for n in (0, 1)]
    rare = [*records[:2], runs.batch(rows)]
    assert line("rate > 1/s", rare)[2] == "0.00002/s"
    assert line("throughput > 1GB/s", rare)[2] == "0.1 B/s"
    assert line("throughput > 1GiB/s", rare)[2] == "0.1 B/s"


def test_a_value_looks_like_its_limit_only_if_equal() -> None:
    # 1.234567 ms is 1.23457 to six digits.
    rows = [runs.result(1, runs.READ, last_byte_ns=1_234_567, headers_ns=1)]
    records = [runs.header(), runs.PhaseRecord(runs.Phase.RUN, 0, 1), runs.batch(rows)]
    assert line("max < 1.23457ms", records)[2] == "1.234567 ms (service time)"
    assert line("max < 1.234567ms", records)[2] == "1.234567 ms (service time)"


def test_a_value_is_printed_on_its_side_of_the_limit() -> None:
    rows = [runs.result(1, runs.READ, last_byte_ns=25_684_359, headers_ns=1)]
    records = [runs.header(), runs.PhaseRecord(runs.Phase.RUN, 0, 1), runs.batch(rows)]
    assert line("max < 25.684360ms", records)[1:] == [
        "max < 25.684360ms",
        "25.684 ms (service time)",
    ]
    assert line("max > 25.684358ms", records)[2] == "25.6844 ms (service time)"


def test_large_values_have_no_exponent() -> None:
    rows = [runs.result(n, runs.READ, bytes_moved=10**12) for n in (1, 2)]
    records = [runs.header(), runs.PhaseRecord(runs.Phase.RUN, 0, 1), runs.batch(rows)]
    assert line("throughput > 1B/s", records)[2] == "133,330,000,000,000 B/s"


def test_a_borderline_verdict_is_marked() -> None:
    stats = RunStats.of(runs.normal())
    (row,) = runs.as_json(stats, thresholds=[Threshold.parse("p99 < 1s")])["thresholds"]
    actual = row["actual"]
    near = Decimal(actual * 1.0001).quantize(Decimal("1e-9"))
    assert "closer to the limit than the percentile's accuracy" in line(f"p99 < {near}s")[2]


def test_json_has_all_of_it() -> None:
    thresholds = [Threshold.parse("errors < 5%"), Threshold.parse("p9(DELETE) < 1s")]
    found = runs.as_json(RunStats.of(runs.all_errors()), thresholds=thresholds)["thresholds"]
    assert found[0] == {
        "threshold": "errors < 5%",
        "passed": False,
        "actual": 100.0,
        "limit": 5.0,
        "unit": "%",
        "latency": None,
        "borderline": False,
        "sparse": False,
        "why": None,
    }
    assert found[1]["why"] == "no sample to judge by"
    assert found[1]["actual"] is None


def test_csv_has_three_columns_for_each() -> None:
    thresholds = [Threshold.parse("errors < 5%"), Threshold.parse("errors <= 20")]
    cells = runs.as_csv(RunStats.of(runs.normal()), thresholds=thresholds)
    assert dict(list(cells.items())[-6:]) == {
        "threshold_1": "errors < 5%", "threshold_1_passed": "0", "threshold_1_actual": "10.0",
        "threshold_2": "errors <= 20", "threshold_2_passed": "1", "threshold_2_actual": "20.0",
    }  # fmt: skip


def test_size_classes_are_escaped() -> None:
    (found,) = lines('errors("a\\u001b[1m") < 5%')[1:]
    assert "\x1b" not in found
