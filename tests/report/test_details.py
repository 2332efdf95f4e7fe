"""What only pages show: merged seconds, figures of each worker and URL, and metrics of hosts."""

from __future__ import annotations

from math import isclose, nan

import pytest

from ssbench.core.model import Phase
from ssbench.core.operations import READ
from ssbench.core.records import MASTER, MarkRecord, PhaseRecord, Record
from ssbench.core.stats.run_stats import RunStats
from ssbench.report import of_run
from ssbench.report.model import Report, Row, Series
from tests.report import runs
from tests.report.runs import MS, SECOND


def detailed(*records: Record, seconds: int = 1) -> Report:
    """:param seconds: that the load lasts."""
    start = [PhaseRecord(Phase.RUN, runs.STARTED_AT, 4), MarkRecord(0, "stage", 0, 4)]
    end = [MarkRecord(seconds * SECOND, "end", 0, 4), runs.footer()]
    return of_run(RunStats.of([runs.header(), *start, *records, *end], in_detail=True))


def rows_of(report: Report, key: str) -> list[Row]:
    (series,) = report[key].series
    return list(series.rows)


def test_a_long_run_has_points_of_several_seconds() -> None:
    """Rates are per second of a point; latencies of its seconds are merged, not averaged."""
    rows = []
    for second in range(1201):
        for n in range(1 + second % 3):
            took_ns = (90 if second % 3 == 1 else 10) * MS
            start_ns = second * SECOND + n * 100 * MS
            rows.append(runs.result(len(rows) + 1, READ, start_ns=start_ns, last_byte_ns=took_ns))
        if second < 4:
            rows.append(runs.failure(len(rows) + 1, READ, start_ns=second * SECOND))
    report = detailed(runs.worker(0, "alpha"), runs.batch(rows), seconds=1201)
    points = rows_of(report, "over_time")
    assert [row["at_s"] for row in points] == list(range(0, 1201, 3))
    assert [row["operations_per_s"] for row in points] == [*[2.0] * 400, None]
    assert [row["errors_per_s"] for row in points[:3]] == [1, 1 / 3, 0]
    assert points[0]["moved_bytes_per_s"] == 2 * 5000
    assert isclose(points[0]["service_p50_s"], 10 * MS, rel_tol=0.01)
    assert isclose(points[0]["service_p99_s"], 90 * MS, rel_tol=0.01)
    errors = rows_of(report, "errors_over_time")
    assert [row["at_s"] for row in errors] == list(range(0, 1201, 3))
    assert [row["status 503"] for row in errors[:3]] == [1, 1 / 3, 0]


def test_causes_of_equal_counts_have_one_order() -> None:
    failures = [runs.failure(status, READ, status=status) for status in (404, 503)]
    causes = [
        list(rows_of(detailed(runs.worker(0, "alpha"), runs.batch(rows)), "errors_over_time")[0])
        for rows in (failures, failures[::-1])
    ]
    assert causes == [["at_s", "status 404", "status 503"]] * 2


def test_workers_and_urls_have_a_row_each() -> None:
    report = detailed(
        runs.worker(0, "alpha"),
        runs.batch([runs.result(1, READ, url=1), runs.failure(2, READ, url=1)]),
        runs.batch([runs.result(3, READ, last_byte_ns=9 * MS)], worker_index=7),
    )
    found = {
        key: [
            (row["name"], row["count"], row["errors"], row["moved_bytes"], round(row["max"], -4))
            for row in report[key].tables[0].rows
        ]
        for key in ("by_worker", "by_url")
    }
    assert found == {
        "by_worker": [("alpha (bench-01)", 1, 1, 5000, 5 * MS), ("#7", 1, 0, 5000, 9 * MS)],
        "by_url": [("storage URL 1", 1, 0, 5000, 9 * MS), ("storage URL 2", 1, 1, 5000, 5 * MS)],
    }


def host_lines(*records: Record) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Title of a chart of hosts -> name of a line -> its points."""

    def points(series: Series, key: str) -> list[tuple[float, float]]:
        return [(row["at_s"], row[key]) for row in series.rows if key in row]

    found = detailed(*records)["host_metrics"].series
    return {each.title: {y.title: points(each, y.key) for y in each.y} for each in found}


def test_metrics_of_hosts_have_lines_where_they_are_known() -> None:
    received = "network_received_bytes_per_s"
    network = host_lines(
        runs.host(0, 0, **{received: 1e6}),
        runs.host(0, 1, **{received: nan}),
        runs.host(0, 2, **{received: 3e6}),
    )["Network of the hosts"]
    assert network == {"bench-01 received": [(0.5, 1e6), (2.5, 3e6)]}


def test_long_metrics_are_averaged_to_600_points() -> None:
    hosts = [runs.host(0, second, cpu_percent=10.0 + second % 2) for second in range(1201)]
    (points,) = host_lines(*hosts)["CPU of the hosts, all cores"].values()
    assert len(points) == 401
    assert points[0] == (0.5, pytest.approx(31 / 3))
    assert points[-1] == (1200.5, 10)


def test_of_many_processes_the_busiest_have_a_line() -> None:
    workers = [runs.worker(index, f"w{index:02}") for index in range(20)]
    hosts = [runs.host(index, 0, loop_cpu_percent=10.0 + index) for index in range(20)]
    lines = host_lines(*workers, *hosts, runs.host(MASTER, 0, loop_cpu_percent=99.0))
    expected = ["master", *(f"w{index:02}" for index in range(19, 8, -1))]
    assert list(lines["CPU of each process's event loop"]) == expected
    assert list(lines["Time that each event loop waited for a core"]) == expected
