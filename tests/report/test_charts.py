"""The charts of pages: which figures are drawn, along which axes, and what is marked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pytest
from msgspec.structs import replace

from ssbench.core.model import Phase
from ssbench.core.operations import CREATE, READ
from ssbench.core.records import MarkRecord, PhaseRecord, Record
from ssbench.core.stats.compare import comparison
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.steps import Search
from ssbench.core.stats.thresholds import Threshold, ThresholdResult
from ssbench.report import Report, of_run
from ssbench.report.charts import Chart, Mark, charts_of
from ssbench.report.comparison import of_comparison
from ssbench.report.series import SeriesSettings, of_series
from tests.report import runs
from tests.report.runs import MS, SECOND
from tests.report.test_series import step

Points = list[tuple[float, float | None]]


def exact(*marks: MarkRecord, **changes: object) -> list[Record]:
    """10, 20 and 30 successes of 10, 20 and 30 ms in the first three seconds, 1 MB each; a failure
    in the second one; and one that takes from the third to the fourth."""
    rows = [
        runs.result(
            100 * second + n, READ if n % 2 else CREATE, start_ns=second * SECOND + 10 * n * MS,
            last_byte_ns=(1 + second) * 10 * MS, bytes_moved=10**6,
        )
        for second in range(3)
        for n in range(10 * (second + 1))
    ]  # fmt: skip
    rows.append(runs.failure(991, READ, start_ns=SECOND))
    rows.append(runs.result(992, READ, start_ns=5 * SECOND // 2, last_byte_ns=SECOND))
    return [
        runs.header(scenario={**runs.SCENARIO, **changes}),
        runs.worker(0, "alpha"),
        PhaseRecord(Phase.RUN, runs.STARTED_AT, 4),
        *(marks or (MarkRecord(0, "stage", 0, 4), MarkRecord(4 * SECOND, "end", 0, 4))),
        runs.batch(rows),
        runs.host(0, 0, disk_read_bytes_per_s=2e6),
        runs.host(0, 1, cpu_percent=70.0),
        runs.footer(),
    ]


def charts(report: Report) -> dict[str, Chart]:
    return {chart.title: chart for chart in charts_of(report)}


@cache
def of_exact() -> dict[str, Chart]:
    return of_records(exact())


def of_records(records: Sequence[Record]) -> dict[str, Chart]:
    return charts(of_run(RunStats.of(records, in_detail=True)))


def points(chart: Chart) -> dict[str, Points]:
    """Name of a line -> its points."""
    return {line.name: list(zip(line.x, line.y, strict=True)) for line in chart.lines}


@pytest.mark.parametrize(
    ("title", "unit", "lines"),
    [
        (
            "Throughput", "operations/s",
            {
                "operations/s": [(0, 10), (1, 20), (2, 30), (3, None)],
                "errors/s": [(0, 0), (1, 1), (2, 0), (3, None)],
            },
        ),
        ("Data moved", "MB/s", {"MB/s": [(0, 10), (1, 20), (2, 30), (3, None)]}),
        (
            "Latency", "ms",
            {
                "service time p50": [(0, 10), (1, 20), (2, 30), (3, None)],
                "service time p99": [(0, 10), (1, 20), (2, 30), (3, None)],
            },
        ),
        ("Errors by cause", "errors/s", {"status 503": [(0, 0), (1, 1), (2, 0), (3, None)]}),
        ("Operations in flight", "operations", {"in flight": [(0, 0), (1, 0), (2, 1), (3, None)]}),
        ("CPU of the hosts, all cores", "%", {"bench-01": [(0.5, 60), (1.5, 70)]}),
        ("Disks of the hosts", "MB/s", {"bench-01 read": [(0.5, 2)]}),
        ("CPU of each process's event loop", "%", {"alpha": [(0.5, 34), (1.5, 34)]}),
        ("Time that each event loop waited for a core", "%", {"alpha": [(0.5, 0.5), (1.5, 0.5)]}),
    ],
)  # fmt: skip
def test_a_run_is_drawn_by_seconds(title: str, unit: str, lines: dict[str, Points]) -> None:
    """The last second is no whole one: nothing is drawn of it, no drop and no jump."""
    chart = of_exact()[title]
    assert (chart.x_title, chart.y_title) == ("seconds since the start", unit)
    assert chart.kind == ("stack" if title == "Errors by cause" else "line")
    assert chart.y_log is (title == "Latency")
    assert [line.name for line in chart.lines] == list(lines)
    for name, found in points(chart).items():
        for (x, y), (wanted_x, wanted_y) in zip(found, lines[name], strict=True):
            assert x == wanted_x
            assert y == (wanted_y if wanted_y is None else pytest.approx(wanted_y, rel=0.001))
    assert Mark("end", 4, None, "end of the load") in chart.marks


def test_what_a_run_has_none_of_is_not_drawn() -> None:
    found = of_records(runs.lasting(12, 50))
    assert [line.name for line in found["Throughput"].lines] == ["operations/s"]
    missing = {"Errors by cause", "CPU of the hosts, all cores", "Throughput by worker"}
    assert not missing & found.keys()
    assert charts(of_run(RunStats.of(exact()))) == {}, "it was not read in detail"


def test_size_classes_are_drawn_where_there_are_several() -> None:
    names = [f"{what} by size class" for what in ("Latency distribution", "Throughput", "Latency")]
    assert not {*names} & of_exact().keys()
    several = of_records(runs.normal())
    distribution, rates, latencies = (several[name] for name in names)
    assert [line.name for line in distribution.lines] == ["tiny", "small"]
    assert [name for _at, name in rates.ticks] == ["tiny", "small"]
    assert (rates.kind, latencies.y_title) == ("bars", "service time, ms")


def test_a_distribution_ends_where_too_few_operations_tell_it() -> None:
    chart = of_exact()["Latency distribution by operation"]
    assert (chart.x_title, chart.y_title, chart.y_log) == ("percentile", "service time, ms", True)
    names = ["0", "50", "90", "99", "99.9", "99.99"]
    assert chart.ticks == list(zip([0, 0.30103, 1, 2, 3, 4], names, strict=True))
    create, read = (
        [(x, y) for x, y in each if y is not None] for each in points(chart).values()
    )  # of 30 and 31 operations: ten of them are beyond the last point
    assert create[0] == (0.05, pytest.approx(10, rel=0.001))
    assert create[-1] == (0.45, pytest.approx(30, rel=0.001))
    assert read[-1] == (0.45, pytest.approx(30, rel=0.001))
    assert {x for x, _y in create} == {round(0.05 * at, 6) for at in range(1, 10)}


@pytest.mark.parametrize(
    ("changes", "marks", "shown"),
    [
        (
            {},
            [(0, "stage", 4, None), (2, "stage", 8, None), (4, "end", 8, None)],
            [
                Mark("stage", 0, None, "stage 1: 4 users"),
                Mark("stage", 2, None, "stage 2: 8 users"),
                Mark("end", 4, None, "end of the load"),
            ],
        ),
        (
            {},
            [(0, "stage", 4, 2.5), (2, "stage", 8, 20.0), (4, "end", 8, 20.0)],
            [
                Mark("stage", 0, None, "stage 1: 2.5 operations/s"),
                Mark("stage", 2, None, "stage 2: 20 operations/s"),
                Mark("end", 4, None, "end of the load"),
            ],
        ),
        (
            {"warmup": 1, "cooldown": 0.5},
            [(0, "stage", 4, None), (0, "users", 3, None), (4, "end", 4, None)],
            [
                Mark("excluded", 0, 1, "warm-up, not counted"),
                Mark("excluded", 3.5, 4, "cool-down, not counted"),
                Mark("fault", 0, None, "only 3 of 4 users"),
                Mark("end", 4, None, "end of the load"),
            ],
        ),
    ],
    ids=["stages of users", "stages of rates", "warm-up, cool-down, missing users"],
)
def test_stages_and_what_does_not_count_are_marked(
    changes: dict[str, object],
    marks: list[tuple[int, str, int, float | None]],
    shown: list[Mark],
) -> None:
    stage, records = -1, []
    for at_s, name, users, rate in marks:
        stage += name == "stage"
        records.append(MarkRecord(at_s * SECOND, name, stage, users, rate))
    assert of_records(exact(*records, **changes))["Throughput"].marks == shown


def shared(workers: int) -> dict[str, Chart]:
    """Each worker has twice as many operations as the one before, of as many ms, in 4 s, from
    two storage URLs in turn."""
    load = MarkRecord(0, "stage", 0, 4), MarkRecord(4 * SECOND, "end", 0, 4)
    batches, number = [], 0
    for worker in range(workers):
        rows = []
        for _ in range(2 << worker):
            rows.append(runs.result(number, READ, url=number % 2, start_ns=number * MS,
                                    last_byte_ns=(2 << worker) * MS))  # fmt: skip
            number += 1
        batches.append(runs.batch(rows, worker_index=worker))
    named = [runs.worker(worker, f"{worker}-of-several-workers") for worker in range(workers)]
    begin = PhaseRecord(Phase.RUN, runs.STARTED_AT, 4)
    return of_records([runs.header(), *named, begin, load[0], *batches, load[1], runs.footer()])


def test_workers_and_urls_have_bars_where_there_are_several() -> None:
    found = shared(2)
    rates, latencies = found["Throughput by worker"], found["Latency by worker"]
    assert (rates.kind, rates.x_title, rates.y_title) == ("bars", "worker", "operations/s")
    assert points(rates) == {"operations/s": [(0, 0.5), (1, 1)]}
    assert rates.lines[0].labels == [f"{n}-of-several-workers (bench-01)" for n in range(2)]
    assert rates.ticks == [(0, "0-of-several-workers"), (1, "1-of-several-workers")], "cut"
    assert (rates.note, latencies.y_title) == ("", "service time, ms")
    for name, line in points(latencies).items():
        assert name in ("service time p50", "service time p99")
        assert [y for _x, y in line] == [pytest.approx(2, rel=0.01), pytest.approx(4, rel=0.01)]
    assert points(found["Throughput by storage URL"]) == {"operations/s": [(0, 0.75), (1, 0.75)]}
    alone = shared(1)
    assert "Throughput by worker" not in alone
    assert "Throughput by storage URL" in alone


def test_bars_count_operations_as_the_rate_of_the_run_does() -> None:
    """Of 3 s each in a window of 7 s: what ends after it counts by its share."""
    batches = [
        runs.batch([
            runs.result(n, READ, start_ns=n * 3 * SECOND, last_byte_ns=3 * SECOND, url=n % 2)
            for n in range(3)
        ], worker_index=worker)
        for worker in range(2)
    ]  # fmt: skip
    begin, end = MarkRecord(0, "stage", 0, 2), MarkRecord(7 * SECOND, "end", 0, 2)
    scenario = {**runs.SCENARIO, "operation_count": None}
    phase = PhaseRecord(Phase.RUN, runs.STARTED_AT, 2)
    records = [runs.header(scenario=scenario), phase, begin, end, *batches, runs.footer()]
    report = of_run(RunStats.of(records, in_detail=True))
    assert report["total"]["requests_per_s"] == pytest.approx(2 / 3)
    for part, rates in (("worker", [1 / 3, 1 / 3]), ("storage URL", [(2 + 2 / 3) / 7, 2 / 7])):
        (line,) = charts(report)[f"Throughput by {part}"].lines
        assert line.y == pytest.approx(rates, rel=1e-5)


@pytest.mark.parametrize(
    ("workers", "numbers"), [(4, None), (5, [1, 2, 3, 4, 5]), (11, [1, 3, 5, 7, 9, 11])]
)
def test_many_bars_are_numbered(workers: int, numbers: list[int] | None) -> None:
    chart = shared(workers)["Latency by worker"]
    if numbers is None:
        assert len(chart.ticks) == workers
        assert chart.ticks[0][1].startswith("0-of")
    else:
        assert chart.ticks == [(number - 1, str(number)) for number in numbers]
        assert chart.note == "In the order of the table by worker below."


# A series and a comparison


def of_steps(over: str, *loads: float, best: float | None = None) -> dict[str, Chart]:
    """A load of n has 10 n operations/s, a p50 of n ms and a p99 of 2 n ms. The last step lacks
    users."""
    search = None
    if best is not None:
        search = Search(best, 100)
        search.record(best, kept=True)
        search.record(2 * best, kept=False)
    steps = []
    for load in loads:
        latencies = {50.0: load * MS, 99.0: 2 * load * MS, 100.0: 9 * load * MS}
        kind = "service" if over == "users" else "response"
        both = {"service": latencies, "response": dict.fromkeys(latencies), kind: latencies}
        steps.append(replace(step(load), rate_per_s=10.0 * load, **both))
    steps.append(replace(steps[0], load=99, users_asked=99, users_ran=4))
    settings = SeriesSettings("own", over, (50.0, 99.0, 100.0), (), search)
    return charts(of_series(settings, steps))


@pytest.mark.parametrize(
    ("over", "unit", "first", "kind"),
    [
        ("users", "users", "1 user", "service time"),
        ("rate", "operations/s due", "1 operations/s due", "response time"),
    ],
)
def test_the_steps_of_a_series_are_points_in_the_order_of_their_loads(
    over: str, unit: str, first: str, kind: str
) -> None:
    against, rates, latencies = of_steps(over, 8, 1, 4).values()
    assert points(rates) == {"operations/s": [(1, 10), (4, 40), (8, 80)]}
    assert (rates.x_title, rates.y_title) == (unit, "operations/s")
    assert points(latencies) == {
        f"{kind} p50": [(1, 1), (4, 4), (8, 8)],
        f"{kind} p99": [(1, 2), (4, 8), (8, 16)],
    }
    assert (latencies.x_title, latencies.y_title) == (unit, f"{kind}, ms")
    assert points(against)[f"{kind} p99"] == [(10, 2), (40, 8), (80, 16)]
    assert (against.x_title, against.y_title) == ("operations/s", f"{kind}, ms")
    for chart, is_log in ((against, True), (rates, False), (latencies, True)):
        assert (chart.kind, chart.y_log, chart.marks) == ("points", is_log, [])
        assert chart.lines[0].labels == [first, f"4 {unit}", f"8 {unit}"]


def test_a_series_without_a_step_that_counts_has_no_charts() -> None:
    settings = SeriesSettings("own", "users", (50.0, 99.9, 100.0))
    assert charts(of_series(settings, [replace(step(9), users_asked=9, users_ran=4)])) == {}


def test_the_highest_load_that_met_the_slo_is_marked() -> None:
    against, rates, latencies = of_steps("users", 8, 2, 4, best=4).values()
    assert against.marks == [Mark("limit", 40, None, "4 users: highest load that met the SLO")]
    for chart in (rates, latencies):
        assert chart.marks == [Mark("limit", 4, None, "highest load that met the SLO: 4 users")]


def test_runs_are_compared_over_time_and_by_distribution() -> None:
    stats = [RunStats.of(runs.lasting(14, 50, slower=slower)) for slower in (1.0, 2.0)]
    named = [(f"{at}.gz", each) for at, each in enumerate(stats)]
    found = charts(of_comparison(comparison(named, seed=1)))
    rates, latencies = found.values()
    assert rates.title == "Throughput by run"
    for line in rates.lines:
        assert (line.x[0], line.x[-1]) == (0, 13)
        assert line.y == pytest.approx([50] * 14, rel=0.05), "none is drawn of a partial second"
    assert latencies.title == "Latency distribution by run, all operations"
    for chart in found.values():
        assert [line.name for line in chart.lines] == ["run 1", "run 2"]
    (first, second), *_ = zip(*(line.y for line in latencies.lines), strict=True)
    assert second == pytest.approx(2 * first, rel=0.01)


def test_a_load_that_was_run_more_than_once_is_one_point_of_the_line() -> None:
    """The median; the single runs stand beside it. The SLO is a line across."""
    slo = Threshold.parse("p99 < 50ms")
    found = []
    for load, rate in ((1, 10.0), (2, 20.0), (2, 26.0), (2, 22.0)):
        judged = (ThresholdResult(slo, 40 * MS, passed=True),)
        values = {50.0: rate * MS, 99.0: 2 * rate * MS, 100.0: 3 * rate * MS}
        more = {"service": values, "response": dict.fromkeys(values), "verdicts": judged}
        found.append(replace(step(load), rate_per_s=rate, **more))
    settings = SeriesSettings("own", "users", (50.0, 99.0, 100.0), (slo,))
    against, rates, latencies = charts(of_series(settings, found)).values()
    assert points(rates) == {
        "operations/s": [(1, 10), (2, 22)],
        "operations/s, single runs": [(2, 20), (2, 26), (2, 22)],
    }
    assert points(against) == {
        "service time p50": [(10, 10), (22, 22)],
        "service time p99": [(10, 20), (22, 44)],
        "SLO p99 < 50ms": [(10, 50), (22, 50)],
    }
    assert [line.texts for line in against.lines] == [[], ["1", "2"], ()], "not only on hover"
    assert points(latencies)["SLO p99 < 50ms"] == [(1, 50), (2, 50)]
    assert [line.form for line in latencies.lines] == ["", "points", "", "points", "limit"]


def test_a_closed_and_an_open_loop_are_drawn_by_service_time() -> None:
    due = RunStats.of(runs.lasting(14, 50, due=True, rate=50))
    for other, kind in ((RunStats.of(runs.lasting(14, 50)), "service"), (due, "response")):
        found = charts(of_comparison(comparison([("a", due), ("b", other)], seed=1)))
        chart = found["Latency distribution by run, all operations"]
        assert chart.y_title == f"{kind} time, ms"
        assert all(None not in line.y[:3] for line in chart.lines)
