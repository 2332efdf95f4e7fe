"""The summary that ends each report, and the widths of the text."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ssbench.core.model import ErrorKind
from ssbench.core.operations import DELETE, READ
from ssbench.core.records import MarkRecord, Record
from ssbench.core.stats.compare import comparison
from ssbench.core.stats.headroom import (
    Bottleneck,
    Cause,
    Headroom,
    HeadroomVerdict,
    HostLoad,
    ProcessId,
    Shortage,
)
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.steps import Search, Step
from ssbench.core.stats.thresholds import Threshold, ThresholdResult
from ssbench.report import Report, of_run, render
from ssbench.report.comparison import of_comparison
from ssbench.report.series import SeriesSettings, of_series
from tests.report import runs
from tests.report.runs import SECOND
from tests.report.test_load_generator import judged

PATH = "/tmp/ssbench-results/Small_test_scenario.u4.o1000.r10.2026-11-22_145034.stat.gz"


def summary(report: Report) -> dict[str, str]:
    """Topic -> text."""
    return {row["topic"]: row["text"] for row in report["summary"].tables[0].rows}


def of_records(records: list[Record], *thresholds: str) -> dict[str, str]:
    judged = [Threshold.parse(text) for text in thresholds]
    return summary(of_run(runs.stats_of(records), thresholds=judged, stats_file=PATH))


def steps(*users: int, path: str = "x/a.stat.gz") -> list[Step]:
    stats = runs.stats_of(runs.lasting(3, 9))
    return [Step.of(stats, n, path, (50.0, 95.0, 99.0, 99.9, 100.0)) for n in users]


def test_a_run_is_summed_up_in_eight_lines() -> None:
    assert of_records(runs.normal(), "errors < 50%", "p99(READ) < 1ms") == {
        "Throughput": "90.3 operations/s, 0.42 MB/s",
        "Latency": "p50 4.951 ms, p99 ~34.169 ms, worst 45.755 ms (service time)",
        "Steadiness": "unknown: run for 12 s or more to tell",
        "Failures": "20 of 200 operations (10 %): 10 status 503 and 1 more cause; 3 lost",
        "Bottleneck": "the load generator: worker alpha used 98 % of a core",
        "Run": "4 users on 2 workers, 2.0 s: Small test scenario",
        "Thresholds": "missed 1 of 2: p99(READ) < 1ms",
        "Results": PATH,
    }


def test_it_ends_the_text_and_a_long_path_has_its_own_line() -> None:
    report = of_run(runs.stats_of(runs.normal()), stats_file=PATH)
    text = render(report, "text")
    kept = "Kept        until a reboot empties /tmp; --results-dir sets another folder"
    assert text.endswith(f": Small test scenario\n{kept}\n{PATH}\n")
    short = of_run(runs.stats_of(runs.normal()), stats_file="a.stat.gz")
    assert render(short, "wide").endswith("\nResults     a.stat.gz\n")
    assert PATH not in render(report, "classic")


def test_missing_users_are_named() -> None:
    marks = [MarkRecord(0, "stage", 0, 50), MarkRecord(0, "users", 0, 2)]
    records = [*runs.normal()[:5], *marks, *runs.normal()[7:]]
    assert of_records(records)["Run"].startswith("2 of 50 users on 2 workers, ")


@pytest.mark.parametrize(
    ("stages", "throughput", "text"),
    [
        ([(4, None), (4, None)], "20.0 operations/s,", "4 users in 2 stages on 1 worker, "),
        ([(4, None), (9, None)], "20.0 operations/s,", "4 to 9 users in 2 stages on 1 worker, "),
        (
            [(4, 20.0), (4, 20.0)],
            "20.0 operations/s (20 due, 100 % in time),",
            "4 users in 2 stages on 1 worker, ",
        ),
        (
            [(9, 12.5), (4, 20.0)],
            "20.0 operations/s (20 due, 100 % in time),",
            "4 to 9 users in 2 stages on 1 worker, ",
        ),
    ],
)
def test_stages_are_named_with_their_users(
    stages: list[tuple[int, float | None]], throughput: str, text: str
) -> None:
    is_open = stages[0][1] is not None
    (first, *others) = runs.lasting(20, 20, due=is_open, begins=(0, 10))
    users = iter(stages)
    records = [
        MarkRecord(each.at_ns, "stage", each.stage, *next(users))
        if isinstance(each, MarkRecord) and each.name == "stage"
        else each
        for each in others
    ]
    found = of_records([first, *records])
    assert found["Run"].startswith(text)
    assert found["Throughput"].startswith(throughput)
    assert found["Latency"].endswith("(response time)" if is_open else "(service time)")


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (50, "steady: no stall, drift or jump of the rate"),
        (lambda second: 0 if second in (7, 8) else 50, "stalled in 1 of 19 s (longest 1 s)"),
        (lambda second: 50 + 5 * second, "operations/s rose by 96 % during the run"),
        (lambda second: 40 if second % 8 < 4 else 90, "operations had two levels: 42/s and 88/s"),
    ],
)
def test_steadiness(rate: object, text: str) -> None:
    assert of_records(runs.lasting(20, rate))["Steadiness"].startswith(text)  # type: ignore[arg-type]


def test_where_it_cannot_tell_steadiness_says_why() -> None:
    def stalling(second: int) -> int:
        return 0 if second in (7, 8) else 50

    for records in (runs.lasting(20, stalling)[:-1], runs.lasting(20, 0)[:-1]):
        stats = runs.stats_of(records)
        stats.run.add_damage("block 3: wrong checksum")
        found = summary(of_run(stats))
        assert found["Steadiness"] == "unknown: results are missing from the stat file"
    found = of_records(runs.lasting(16, 1, slower=1000))
    assert found["Steadiness"] == "unknown: operations take about 6 s; run for 62 s or more to tell"


@pytest.mark.parametrize(
    ("scenario", "begins", "what", "needed"),
    [
        ({"warmup": 3, "cooldown": 1.5}, (0,), "run", "17 s"),
        ({"stages": [{"warmup": 3}]}, (0,), "run", "15 s"),
        (
            {"warmup": 1, "cooldown": 2, "stages": [{}, {"warmup": 3}, {}]},
            (0, 5, 10),
            "run each stage",
            "17 s",
        ),
    ],
)
def test_the_length_that_a_run_needs_includes_its_warm_up(
    scenario: dict[str, Any], begins: tuple[int, ...], what: str, needed: str
) -> None:
    records = runs.lasting(12, 50, begins=begins, **scenario)
    assert of_records(records)["Steadiness"] == f"unknown: {what} for {needed} or more to tell"
    text = render(of_run(runs.stats_of(records)), "text")
    assert set(re.findall(r"completed\): run for (\d+ s) or more", text)) == {needed}


def test_a_run_without_a_success_has_no_latency_and_no_steadiness() -> None:
    found = of_records(runs.all_errors())
    assert found["Failures"] == "20 of 20 operations (100 %): 20 status 503"
    assert found["Latency"] == "none: no operation succeeded"
    assert found["Steadiness"] == "unknown: no operation succeeded"
    assert found["Run"].endswith(", failed: Small test scenario")


def test_a_status_is_named_only_where_it_is_the_cause() -> None:
    rows = [runs.failure(1, READ), runs.failure(2, READ),
            runs.failure(3, READ, error=ErrorKind.CORRUPT, status=200)]  # fmt: skip
    found = of_records([runs.header(), runs.worker(0, "alpha"), runs.batch(rows), runs.footer()])
    assert found["Failures"] == "3 of 3 operations (100 %): 2 status 503, 1 corrupt"


def test_a_run_without_a_store_measures_ssbench_itself() -> None:
    found = of_records([runs.header(driver="noop"), *runs.normal()[1:]])
    assert found["Throughput"] == "88.2 operations/s"
    assert found["Bottleneck"] == "ssbench itself: no store was involved (--noop)"


def test_notes_series_and_comparisons_name_the_same_bottleneck_as_the_run() -> None:
    hosts = [runs.host(0, second) for second in range(12)]
    for driver, words in (
        ("noop", "ssbench itself"),
        ("swift", "the store or the number of users"),
    ):
        records = [runs.header(driver=driver), *runs.lasting(12, 50)[1:]]
        stats = runs.stats_of([*records[:-2], *hosts, *records[-2:]])
        steps = [Step.of(stats, 4, "x/a.stat.gz", (50.0, 99.0, 100.0))]
        series = of_series(SeriesSettings("own", "users", (50.0, 99.0, 100.0)), steps)
        compared = of_comparison(comparison([("a", stats), ("b", stats)], seed=1))
        for report in (of_run(stats), series, compared):
            assert summary(report)["Bottleneck"].startswith(words)
        cleared = "The load generator was not the bottleneck" in render(of_run(stats), "text")
        assert cleared == (driver == "swift")


@pytest.mark.parametrize(
    ("users", "bottleneck", "verdict"),
    [
        (0, "the load generator: all its workers were gone", "limit"),
        (2, "the store or the number of users; ssbench used 34 % of a core", "room"),
    ],
)
def test_the_loss_of_all_workers_is_the_load_generators_limit(
    users: int, bottleneck: str, verdict: str
) -> None:
    records = runs.lasting(12, 50)
    changes = [MarkRecord(9 * SECOND, "users", 0, users), *(runs.host(0, at) for at in range(12))]
    stats = runs.stats_of([*records[:-2], *changes, *records[-2:]])
    report = of_run(stats)
    assert summary(report)["Bottleneck"] == bottleneck
    found = json.loads(render(report, "json"))["load_generator"]
    assert found["verdict"] == verdict
    text = render(report, "text")
    gone = "The load generator was the bottleneck: all its workers were gone before the run's end"
    assert (gone in text) == (users == 0)
    assert ("The load generator was not the bottleneck" in text) == (users > 0)


def test_limits_of_the_scenario_itself_are_named() -> None:
    hosts = [runs.host(0, second) for second in range(12)]
    for changes, text in (
        ({}, "the store or the number of users; ssbench used 34 % of a core"),
        ({"think_time": 1}, "the store, the think time or the number of users; ssbench used"),
    ):
        records = runs.lasting(12, 50, **changes)
        found = of_records([*records[:-2], *hosts, *records[-2:]])
        assert found["Bottleneck"].startswith(text)


WORKER, MASTER = ProcessId("w2", "bench-02"), ProcessId("", "bench-01")
TAKEN = HostLoad("bench-01", 92.4, 89.0, 12.0)


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        (
            HeadroomVerdict(Headroom.NONE, (Shortage(WORKER, Cause.CORE, 98.2, 41, 60),)),
            "the load generator: worker w2 used 98 % of a core",
        ),
        (
            HeadroomVerdict(Headroom.AT_TIMES, (Shortage(MASTER, Cause.CORE, 98.2, 6, 60),)),
            "the load generator at times: the master used 98 % of a core",
        ),
        (
            HeadroomVerdict(Headroom.NONE, (Shortage(WORKER, Cause.CORES, 12.3, 41, 60),)),
            "the load generator: others used its cores (it waited 12 %)",
        ),
        (
            HeadroomVerdict(Headroom.NONE, (Shortage(MASTER, Cause.LATE, 0.03, 41, 60),)),
            "the load generator: the master ran its timers late",
        ),
        (
            HeadroomVerdict(Headroom.NONE, (Shortage(WORKER, Cause.NETWORK, 95.1, 41, 60),)),
            "the load generator: the network of host bench-02 was 95 % full",
        ),
        (
            HeadroomVerdict(Headroom.NONE, (Shortage(MASTER, Cause.MEMORY, 2.53, 41, 60),)),
            "the load generator: host bench-01 had 2.5 % of its memory left",
        ),
        (
            HeadroomVerdict(Headroom.NONE, own_failures=44),
            "the load generator: out of descriptors, ports or memory",
        ),
        (
            HeadroomVerdict(Headroom.ENOUGH, (), MASTER, 7.3, hosts=(TAKEN,)),
            "other processes used 89 % of bench-01; ssbench used 7 % of a core",
        ),
        (
            HeadroomVerdict(Headroom.ENOUGH),
            "the store or the number of users; ssbench had cores left",
        ),
        (HeadroomVerdict(Headroom.UNKNOWN), "unknown: no metrics of the load generator's hosts"),
    ],
)
def test_whose_limit_it_was_is_told_with_the_reason(verdict: HeadroomVerdict, text: str) -> None:
    assert summary(of_run(judged(verdict)))["Bottleneck"] == text


@pytest.mark.parametrize(
    ("late", "text"),
    [
        (0, "none: the store kept up with the rate; ssbench used 34 % of a core"),
        (900, "the store, or too few users; ssbench used 34 % of a core"),
    ],
)
def test_an_open_loop_is_limited_by_its_rate_or_by_the_store(late: int, text: str) -> None:
    begin, *rest, _footer = runs.lasting(20, 50, due=True)
    stage = MarkRecord(SECOND // 5, "stage", 0, 4, 50 if not late else 95)
    rest = [stage if isinstance(each, MarkRecord) and not each.stage and each.name == "stage"
            else each for each in rest]  # fmt: skip
    hosts = [runs.host(0, second) for second in range(12)]
    found = of_records([begin, *rest[:-1], *hosts, rest[-1], runs.footer(late=late)])
    assert found["Bottleneck"] == text
    assert found["Failures"] == (
        "none of 1,000 operations" + (f"; {late} never started" if late else "")
    )


@pytest.mark.parametrize(
    ("errors", "of", "share"),
    [(1, 20_000, "below 0.01"), (1, 1000, "0.10"), (99, 1000, "9.90"), (101, 1000, "10"),
     (1, 1, "100")],
)  # fmt: skip
def test_the_share_of_failures_has_digits_that_tell_something(
    errors: int, of: int, share: str
) -> None:
    made = replace(steps(1)[0], operations=of - errors, errors=errors, causes={(1, 503): errors})
    found = summary(of_series(SeriesSettings("own", "users", (50.0, 99.0, 100.0)), [made]))
    operations = f"{of:,} operation{'s' * (of > 1)}"
    assert found["Failures"] == f"{errors:,} of {operations} ({share} %): {errors} status 503"


names = st.text(max_size=200)


@given(names, names, names, names)
def test_it_has_eight_lines_of_80_columns(name: str, worker: str, policy: str, path: str) -> None:
    """Invariant: for any names; only a path may be longer, on a line of its own."""
    scenario = {**runs.SCENARIO, "name": name, "policy": policy}
    records = [runs.header(scenario=scenario), runs.worker(0, worker), *runs.normal()[3:]]
    thresholds = [Threshold.parse(f"p{n}(READ) < 1us") for n in range(1, 30)]
    made = of_run(RunStats.of(records), thresholds=thresholds, stats_file=path)
    *lines, last = render(made, "text").partition("\nThroughput  ")[2].splitlines()
    assert len(lines) == 7
    assert all(len(line) <= 80 for line in lines[1:])
    assert len(lines[0]) <= 68
    assert last.endswith(summary(made)["Results"])


def test_first_byte_rows_are_left_out_where_no_response_has_a_body() -> None:
    rows = [runs.result(1, READ), runs.result(2, DELETE)]
    text = render(of_run(runs.stats_of([runs.header(), runs.batch(rows)])), "text")
    blocks = {block.partition("\n")[0]: block for block in text.split("\n\n")}
    assert "First-byte" in blocks["TOTAL"]
    assert "First-byte" in blocks["READ"]
    assert "First-byte" not in blocks["DELETE"]
    assert "Last-byte" in blocks["DELETE"]


def tables(text: str) -> list[str]:
    """All lines but those of prose, which a terminal may wrap."""
    prose = ("Worker count", "Rates: ", "Note: ", "Warning: ", "Other processes", "Distribution",
             "Worker ", "Run ", "  Note: ")  # fmt: skip
    return [line for line in text.splitlines() if not line.startswith(prose)]


def test_tables_fit_100_columns_unless_they_may_be_wide() -> None:
    stats = runs.stats_of(runs.lasting(14, 50, due=True, begins=(0, 6), rate=50))
    percentiles = (95.0, 10.0, 20.0, 30.0, 97.5, 99.99)
    run = of_run(stats, percentiles, [Threshold.parse("p99(READ) < 50ms")])
    slos = tuple(Threshold.parse(text) for text in ("p99(READ) < 50ms", "errors < 1%"))
    settings = SeriesSettings("own", "users", (50.0, 95.0, 99.0, 99.9, 100.0), slos)
    made = [replace(step, operations=1_234_567) for step in steps(1, 1000)]
    compared = of_comparison(comparison([("a", stats), ("b", stats)], seed=1))
    for report in (run, of_series(settings, made), compared):
        assert max(map(len, tables(render(report, "text")))) <= 100
        assert max(map(len, tables(render(report, "wide")))) > 100


def test_columns_that_do_not_fit_follow_below() -> None:
    percentiles = tuple(float(percent) for percent in range(10, 50, 5))
    text = render(of_run(runs.stats_of(runs.normal()), percentiles), "text")
    lines = [line for line in text.splitlines() if line.startswith("       Last-byte percentiles:")]
    assert len(lines) == 3 * 5, "three lines in each block"


def test_a_sweep_is_summed_up_by_its_best_step() -> None:
    first, second, third = steps(1, 20, 40)
    made = [
        replace(first, rate_per_s=100.0, errors=2, causes={(1, 503): 2}),
        replace(second, rate_per_s=900.0, bytes_per_s=5e6, steady=True),
        replace(third, rate_per_s=800.0, bottleneck=Bottleneck.GENERATOR, steady=False),
    ]
    found = summary(of_series(SeriesSettings("own", "users", (50.0, 99.0, 100.0)), made))
    assert found["Throughput"] == "900.0 operations/s, 5.00 MB/s, with 20 users"
    assert found["Steadiness"] == "not steady in 1 of 3 steps: 40 users"
    assert found["Failures"] == "2 of 83 operations (2.41 %): 2 status 503"
    assert found["Bottleneck"] == "the load generator in 1 of 3 steps: 40 users"
    assert found["Run"] == "3 steps, 1 to 40 users: own"
    assert found["Results"] == "x/ (1 stat file)"


SLO = Threshold.parse("p99 < 50ms")


def kept(is_kept: bool) -> tuple[ThresholdResult, ...]:
    return (ThresholdResult(SLO, 40e6 if is_kept else 60e6, passed=is_kept),)


@pytest.mark.parametrize(
    ("changes", "topic", "text"),
    [
        ([{"steady": True}] * 3, "Steadiness", "all steps steady"),
        (
            [{"steady": True}, {"steady": None}, {"steady": None}],
            "Steadiness", "unknown in 2 of 3 steps: too short to tell",
        ),
        (
            [{"steady": False}, {"steady": None}, {"steady": False}],
            "Steadiness", "not steady in 2 of 3 steps: 1, 4 users",
        ),
        ([{"lost": 3}, {"late": 7}, {"lost": 1}], "Failures",
         "none of 81 operations; 4 lost, 7 never started"),
        (
            [{"errors": 2, "causes": {(1, 503): 2}}, {},
             {"errors": 3, "causes": {(1, 503): 2, (3, 0): 1}}],
            "Failures", "5 of 86 operations (5.81 %): 4 status 503, 1 connect timeout",
        ),
        ([{"bottleneck": Bottleneck.UNKNOWN}, {"bottleneck": Bottleneck.RATE},
          {"bottleneck": Bottleneck.UNKNOWN}],
         "Bottleneck", "unknown in 2 of 3 steps: no metrics of the hosts"),
        ([{"bottleneck": Bottleneck.CLOSED_LOOP}] * 3,
         "Bottleneck", "the store or the number of users; never the load generator"),
        ([{"bottleneck": Bottleneck.RATE}] * 3,
         "Bottleneck", "none: the store kept up with the rate"),
        ([{}, {"bottleneck": Bottleneck.OTHERS}, {"bottleneck": Bottleneck.BEHIND}],
         "Bottleneck", "other processes in 1 of 3 steps: 2 users"),
        ([{}, {"users_asked": 2, "users_ran": 1}, {}],
         "Run", "3 steps, 1 to 4 users, 1 not counted (users missing): own"),
        ([{"path": "x/b.stat.gz"}, {}, {}], "Results", "x/ (2 stat files)"),
        ([{"path": "b.stat.gz"}] * 3, "Results", "./ (1 stat file)"),
        (
            [{"verdicts": kept(True)}, {"verdicts": kept(True)}, {"verdicts": kept(False)}],
            "Thresholds", "met in 2 of 3 steps: 1, 2 users",
        ),
        ([{"verdicts": kept(False)}] * 3, "Thresholds", "met in 0 of 3 steps"),
        ([{"verdicts": kept(False)}] * 3, "Throughput", "no step met the thresholds"),
        ([{"verdicts": kept(False)}] * 3, "Latency", "no step met the thresholds"),
    ],
)  # fmt: skip
def test_a_sweep_says_in_which_steps(changes: list[dict[str, Any]], topic: str, text: str) -> None:
    """Of 1, 2 and 4 users, with 27 operations each."""
    made = [replace(step, **each) for step, each in zip(steps(1, 2, 4), changes, strict=True)]
    slos = (SLO,) if "verdicts" in changes[0] else ()
    report = of_series(SeriesSettings("own", "users", (50.0, 99.0, 100.0), slos), made)
    assert summary(report)[topic] == text


def test_a_search_says_what_it_found() -> None:
    search = Search(1, 100)
    search.record(1, kept=True)
    search.record(2, kept=False)
    settings = SeriesSettings("own", "users", (50.0, 99.0, 100.0), (SLO,), search)
    early = summary(of_series(settings, steps(1, 2), complete=False))
    assert early["Limit"] == "1 user met p99 < 50ms, missed with 2, ended early"
    found = summary(of_series(settings, steps(1, 2)))
    assert found["Limit"] == "1 user met p99 < 50ms, missed with 2"
    assert len(found) == 8
    none = Search(1, 1)
    none.record(1, kept=False)
    found = summary(of_series(replace(settings, search=none), steps(1)))
    assert found["Throughput"] == "no step met the thresholds"
    assert found["Limit"] == "no load met p99 < 50ms, missed with 1"


def test_a_comparison_is_summed_up_by_its_changes() -> None:
    named = [("a", runs.stats_of(runs.lasting(14, 50))), ("b", runs.stats_of(runs.lasting(14, 60)))]
    found = summary(of_comparison(comparison(named, seed=1)))
    assert found["Throughput"] == "operations/s +20.0%, MB/s +20.0%: more than noise"
    assert found["Latency"].startswith("service p50 ")
    assert found["Steadiness"] == "steady, in each run"
    assert found["Failures"] == "run 1: none of 700 operations, run 2: none of 840 operations"
    assert found["Run"] == "2 runs, same settings: Small test scenario"
    assert found["Results"] == "a, b"


@pytest.mark.parametrize(
    "records",
    [runs.all_errors(), runs.no_results(), runs.lasting(3, 9, warmup=9), runs.lasting(14, 0)],
    ids=["errors", "empty", "all warm-up", "idle"],
)
def test_every_report_calls_the_rate_of_a_run_without_a_success_unknown(
    records: list[Record],
) -> None:
    stats = runs.stats_of(records)
    own = json.loads(render(of_run(stats, stats_file=PATH), "json"))["summary"]
    assert own["steady"] is None
    assert {"topic": "Steadiness", "text": "unknown: no operation succeeded"} in own["lines"]
    other = runs.stats_of(runs.lasting(14, 50))
    report = of_comparison(comparison([("a", other), ("b", stats)], seed=1))
    assert [run["steady"] for run in json.loads(render(report, "json"))["runs"]] == [True, None]
    assert summary(report)["Steadiness"] == "run 1: steady, run 2: unknown"
    assert "run 2: unknown" in render(report, "html")
    step = Step.of(stats, 4, "x/a.stat.gz", (50.0, 99.0, 100.0))
    series = of_series(SeriesSettings("own", "users", (50.0, 99.0, 100.0)), [step])
    assert summary(series)["Steadiness"] == (
        "unknown in 1 of 1 steps: too short, or no operation succeeded"
    )


def test_of_three_runs_each_change_has_the_number_of_its_run() -> None:
    named = [
        (f"{at}", runs.stats_of(runs.lasting(14, rate, slower=slower)))
        for at, rate, slower in ((1, 50, 1.0), (2, 60, 2.0), (3, 50, 1.0))
    ]
    found = summary(of_comparison(comparison(named, seed=1)))
    assert found["Throughput"] == "run 2: operations/s +20.0%: more than noise and 1 more run"
    assert found["Latency"].startswith("run 2: service p99 +")
    assert found["Failures"] == "run 1: none of 700 operations and 2 more runs"
    assert found["Run"] == "3 runs, same settings: Small test scenario"
    reads = summary(of_comparison(comparison(named, seed=1, operations=("READ",))))
    assert reads["Failures"] == "see the operations"
    assert reads["Throughput"] == "run 2: not compared, run 3: not compared"


def test_a_comparison_names_failures_first_and_what_is_unusual() -> None:
    named = [
        ("a", runs.stats_of(runs.lasting(14, 50))),
        ("b", runs.stats_of([*runs.lasting(14, 50)[:-1], runs.footer(ended="interrupted")])),
        ("c", runs.stats_of(runs.all_errors())),
    ]
    found = summary(of_comparison(comparison(named, seed=1)))
    assert found["Failures"].startswith("run 3: ")
    assert "(100 %)" in found["Failures"]
    assert "run 2 interrupted" in found["Run"]


def test_changes_beside_each_other_are_all_factors_or_all_percent() -> None:
    named = [
        (f"{rate}", runs.stats_of(runs.lasting(14, rate, slower=slower)))
        for rate, slower in ((20, 1.0), (130, 1.2))
    ]
    text = render(of_comparison(comparison(named, seed=1)), "text")
    (_before, table) = text.split("TOTAL", 1)
    lines = [line for line in table.split("Errors")[0].splitlines()[1:] if line]
    assert len(lines) == 7
    assert all("x " in line and "%" not in line for line in lines)


def test_a_closed_and_an_open_loop_are_compared_by_service_time() -> None:
    due = runs.stats_of(runs.lasting(14, 60, due=True, rate=60))
    named = [("a", runs.stats_of(runs.lasting(14, 50))), ("b", due)]
    report = of_comparison(comparison(named, seed=1))
    assert summary(report)["Latency"].startswith("service p50 ")
    assert "against run 1: response time" not in render(report, "text")


def test_a_comparison_says_what_ratio_it_saw_in_too_little_data() -> None:
    named = [("a", runs.stats_of(runs.lasting(3, 50))), ("b", runs.stats_of(runs.lasting(3, 60)))]
    text = render(of_comparison(comparison(named, seed=1)), "text")
    assert "20.0% more operations/s (ratio 1.2): too little data to tell." in text
    assert "\nThroughput  operations/s +20.0%, MB/s +20.0%: too little data\n" in text
