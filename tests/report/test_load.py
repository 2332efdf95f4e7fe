"""What the text report says of the load."""

from __future__ import annotations

import pytest

from ssbench.core.model import Phase
from ssbench.core.operations import READ
from ssbench.core.records import MarkRecord, PhaseRecord, Record
from ssbench.core.stats.run_stats import RunStats
from tests.report import runs
from tests.report.runs import SECOND, render


def report(records: list[Record], end_ns: int | None = None) -> list[str]:
    return render("text", RunStats.of(records, end_ns)).splitlines()


def run(
    marks: list[MarkRecord], starts_s: list[float], *, due: bool, **load: object
) -> list[Record]:
    rows = [
        runs.result(
            number, READ, start_ns=round(start * SECOND) + SECOND // 2, bytes_moved=10**6,
            last_byte_ns=SECOND // 10, **({"due_ns": round(start * SECOND)} if due else {}),
        )
        for number, start in enumerate(starts_s)
    ]  # fmt: skip
    header = runs.header(scenario={**runs.SCENARIO, **load})
    return [header, PhaseRecord(Phase.RUN, 0.0, 4), *marks, runs.batch(rows)]


CLOSED = [MarkRecord(0, "stage", 0, 8, None), MarkRecord(30 * SECOND, "end", 0, 8, None)]
OPEN = [
    MarkRecord(0, "stage", 0, 8, 50.0),
    MarkRecord(10 * SECOND, "stage", 1, 8, 400.0),
    MarkRecord(30 * SECOND, "end", 1, 8, 400.0),
]


def test_an_open_loop_has_both_times_under_their_names() -> None:
    lines = report(run(OPEN[:1] + OPEN[2:], [1, 2, 3], due=True, arrivals="poisson"))
    assert "Load: open loop, 50 operations/s due (poisson arrivals)" in lines
    service = next(line for line in lines if "Service time (from start)" in line)
    response = next(line for line in lines if "Response time (from due)" in line)
    assert service.endswith(" ~100.000 ms")
    assert response.endswith(" ~600.000 ms")
    assert not any("Last-byte percentiles" in line for line in lines)


def test_an_open_loop_says_how_late_operations_began() -> None:
    stats = RunStats.of(run(OPEN[:1] + OPEN[2:], [1, 2, 3], due=True))
    lines = render("text", stats).splitlines()
    late = "Lateness (from due to start): 50% 500.000 ms, 99% 500.000 ms, worst 500.000 ms"
    assert late in lines
    found = runs.as_json(stats)["run"]
    assert (found["lateness_p50_s"], found["lateness_max_s"]) == (0.5, 0.5)


def test_lateness_counts_from_the_first_start_where_credentials_were_renewed() -> None:
    *records, _batch = run(OPEN[:1] + OPEN[2:], [1], due=True)
    restarted = runs.result(
        0, READ, due_ns=SECOND, start_ns=SECOND + SECOND // 2, renewed_ns=SECOND * 2 // 5,
        last_byte_ns=SECOND // 10, renewals=1,
    )  # fmt: skip
    stats = RunStats.of([*records, runs.batch([restarted])])
    assert stats.lateness.quantiles([100]) == [pytest.approx(SECOND // 10, rel=0.01)]
    lines = render("text", stats).splitlines()
    response = next(line for line in lines if "Response time (from due)" in line)
    assert response.endswith(" ~600.000 ms")


def test_a_closed_loop_has_no_lateness() -> None:
    stats = RunStats.of(run(CLOSED, [1, 2, 3], due=False))
    assert "Lateness" not in render("text", stats)
    assert "lateness_p50_s" not in runs.as_json(stats)["run"]


def test_stages_have_a_line_each_with_their_own_figures() -> None:
    lines = report(run(OPEN, [1, 2, 12, 13, 14, 15], due=True))
    at = lines.index("STAGES (latencies: response time)")
    first, second = (line.split() for line in lines[at + 2 : at + 4])
    assert first[:8] == ["1", "10.0", "8", "50", "2", "0", "0.2", "0.20"]
    assert second[:8] == ["2", "20.0", "8", "400", "4", "0", "0.2", "0.20"]
    assert "600.000 ms" in lines[at + 2]


def test_closed_stages_with_think_time() -> None:
    marks = [MarkRecord(0, "stage", 0, 2), MarkRecord(10 * SECOND, "stage", 1, 9)]
    lines = report(run(marks, [1, 12], due=False, think_time=[0.1, 2]))
    load = next(line for line in lines if line.startswith("Load: closed loop"))
    assert load.endswith("after a think time of 0.1 to 2 s")
    at = lines.index("STAGES (latencies: service time)")
    assert lines[at + 2].split()[2:4] == ["2", "-"]
    assert lines[at + 3].split()[1] == "0.1", "unknown when it ended: the span"


@pytest.mark.parametrize(
    ("load", "shown"),
    [
        ({"list_limit": 100, "bulk_count": 10}, "Operations: list_limit 100, bulk_count 10"),
        (
            {"bandwidth": 61440, "headers": {"X-A": "\x1b"}},
            r"Requests: bandwidth 61440, headers {'X-A': '\x1b'}",
        ),
        (
            {"large_object": {"segment_size": 1024, "kind": "dlo"}},
            "Large objects: segment_size 1024, kind dlo",
        ),
        (
            {"think_time": [1.5, 1.5]},
            "Load: closed loop: each user starts an operation when its previous one has completed,"
            " after a think time of 1.5 s",
        ),
        ({"list_prefix": "", "bulk_count": None, "large_object": None}, None),
    ],
)
def test_settings_of_requests_have_a_line_each(load: dict[str, object], shown: str | None) -> None:
    lines = report(run([], [1, 2], due=False, **load))
    topics = ("Load: ", "Operations: ", "Requests: ", "Large objects: ")
    assert [line for line in lines if line.startswith(topics)] == ([shown] if shown else [])


def test_the_header_has_the_whole_run_and_how_much_of_it_counts() -> None:
    given = run([OPEN[0], OPEN[2]], [1, 2, 9, 28], due=True, warmup=5, cooldown=3)
    assert "Counted 1970-01-01 00:00:09 UTC to 1970-01-01 00:00:28 UTC (19s)" in report(given)[2]
    whole = report([*given, runs.footer(run_seconds=30.5)])[2]
    assert (
        "Ran 1970-01-01 00:00:00 UTC to 1970-01-01 00:00:30 UTC (30s), 19s of it counted" in whole
    )
    lines = report(given, 30 * SECOND)
    assert any(line.startswith("       Count:     1 ") for line in lines)
    plain = report(run(OPEN, [1, 9], due=True))[2]
    assert "Ran 1970-01-01 00:00:01 UTC to 1970-01-01 00:00:09 UTC (8s)" in plain
    assert "counted" not in plain


@pytest.mark.parametrize(
    ("load", "shown"),
    [
        ({"warmup": 5}, "Excluded: the first 5 s (4 operations)"),
        (
            {"warmup": 5, "cooldown": 3},
            "Excluded: the first 5 s and the last 3 s (6 operations)",
        ),
        (
            {"warmup": 1.5, "cooldown": 2, "stages": [{}, {"warmup": 3}]},
            "Excluded: the first 1.5 s, the last 2 s and the first 3 s of stage 2 (4 operations)",
        ),
        (
            {"stages": [{"warmup": 3}, {"warmup": 3}]},
            "Excluded: the first 3 s of each stage (3 operations)",
        ),
    ],
)
def test_excluded_times_are_named(load: dict[str, object], shown: str) -> None:
    lines = report(run(OPEN, [1, 2, 3.5, 12, 28.5, 29, 4], due=True, **load), 30 * SECOND)
    (line,) = (line for line in lines if line.startswith("Excluded"))
    assert line == f"{shown}; the figures below do not include them"


def test_warm_ups_of_stages_are_excluded_from_stages_and_total() -> None:
    given = run(OPEN, [1, 2, 12, 14, 15], due=True, stages=[{}, {"warmup": 3}])
    lines = report(given)
    at = lines.index("STAGES (latencies: response time)")
    assert [line.split()[1:5:3] for line in lines[at + 2 : at + 4]] == [
        ["10.0", "2"],
        ["17.0", "2"],
    ]
    # 10 s and 17 s.
    at = next(at for at, line in enumerate(lines) if line.startswith("       Count:     4 "))
    assert lines[at + 1] == "       Average requests per second: 0.1  Throughput: 0.15 MB/s"
    assert (
        "Rates: over 27.000 s, from the start of the load to the end of the load, without the"
        " warm-ups in between; successes count when they complete"
    ) in lines


@pytest.mark.parametrize(
    ("load", "shown"),
    [
        ({}, "Rates: over 30.000 s, from the start of the load to the end of the load"),
        (
            {"warmup": 5, "cooldown": 3},
            "Rates: over 22.000 s, from the end of the warm-up to the start of the cool-down",
        ),
    ],
)
def test_the_header_says_what_rates_are_divided_by(load: dict[str, object], shown: str) -> None:
    lines = report(run([OPEN[0], OPEN[2]], [1, 2, 9, 26], due=True, **load), 30 * SECOND)
    (line,) = (line for line in lines if line.startswith("Rates"))
    assert line == f"{shown}; successes count when they complete"


def test_rates_of_a_closed_loop_begin_with_its_first_operation() -> None:
    """Workers hear of the load a little later than it begins."""
    for load, begin in (
        ({}, "29.500 s, from the first start"),
        ({"warmup": 5}, "25.000 s, from the end of the warm-up"),
    ):
        lines = report(run(CLOSED, [0, 1, 2, 9, 26], due=False, **load))
        (line,) = (line for line in lines if line.startswith("Rates"))
        assert line == (
            f"Rates: over {begin} to the end of the load; a success that is only partly within"
            " that time counts by that part"
        )


@pytest.mark.parametrize(
    ("after_ms", "shown"), [(1500, "1.5 s"), (999, "999 ms"), (10, "10 ms"), (9.94, "9.9 ms")]
)
def test_it_says_how_long_after_the_load_operations_completed(after_ms: float, shown: str) -> None:
    last_ns = SECOND + round(after_ms * runs.MS)
    row = runs.result(1, READ, start_ns=29 * SECOND, last_byte_ns=last_ns)
    lines = report([runs.header(), PhaseRecord(Phase.RUN, 0.0, 4), *CLOSED, runs.batch([row])])
    assert f"1 operation completed in the {shown} after the load ended" in lines


def test_a_plain_run_has_no_such_lines() -> None:
    text = "\n".join(report(run([], [1, 2], due=False)))
    for word in ("Load:", "Left out", "STAGES", "Response time"):
        assert word not in text


def test_missing_users_are_in_the_header() -> None:
    marks = [OPEN[0], MarkRecord(0, "users", 0, 4), OPEN[2]]
    lines = report(run(marks, [1, 2], due=True))
    assert any("Concurrency: 4 of 8  Ran " in line for line in lines)
    shown = (
        "FEWER USERS THAN REQUESTED: 4 of 8 users ran; the figures below do not describe 8 users"
    )
    assert shown in lines
    assert lines.index(shown) < lines.index("TOTAL")
    assert not any("FEWER USERS" in line for line in report(run(OPEN, [1, 2], due=True)))


def test_users_lost_during_a_stage_are_named_with_the_second() -> None:
    marks = [
        OPEN[0],
        OPEN[1],
        *(MarkRecord((12 + at) * SECOND, "users", 1, 3 + at) for at in range(7)),
        OPEN[2],
    ]
    lines = report(run(marks, [1, 2], due=True))
    (shown,) = [line for line in lines if line.startswith("FEWER USERS THAN REQUESTED")]
    assert "in stage 2 8 of 8 users ran at first, 3 from second 12.0, 4 from second 13.0" in shown
    assert (
        ", and 2 more changes (--json has all); the figures below do not describe 8 users" in shown
    )
    at = lines.index("STAGES (latencies: response time)")
    assert "3 to 9 of 8" in lines[at + 3]
