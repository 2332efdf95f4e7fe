"""Runs side by side."""

from __future__ import annotations

import random
from typing import Any

import pytest
from msgspec.structs import replace

from ssbench.core.errors import UsageError
from ssbench.core.model import Phase, Result
from ssbench.core.operations import READ
from ssbench.core.records import MarkRecord, PhaseRecord, Record, ResultBatch, RunHeader
from ssbench.core.stats.compare import (
    ChangeVerdict,
    ComparedFigure,
    ComparedOperation,
    Comparison,
    Measure,
    SettingDifference,
    compare,
    comparison,
    differing_settings,
)
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.series import Second
from tests.core.stats.synthetic import MEDIAN_NS, seconds_of
from tests.fakes.batches import result_rows
from tests.golden import legacy
from tests.report import runs

NOISE, REAL, UNKNOWN = ChangeVerdict.NOISE, ChangeVerdict.REAL, ChangeVerdict.UNKNOWN
RATE, THROUGHPUT = Measure("rate"), Measure("throughput")
P50, P99 = Measure("service", 50.0), Measure("service", 99.0)


def rows_of(*sides: list[Second], **options: Any) -> dict[Measure, ComparedFigure]:
    options = {"resamples": 200, "percents": (50.0, 99.0), **options}
    return {row.measure: row for row in compare(sides, random.Random(1), **options)}


def test_equal_runs_differ_by_noise_only() -> None:
    """At 99 %, of 25 pairs with four measures each, hardly any is called different."""
    rng = random.Random(4)
    real = 0
    for _ in range(25):
        sides = [seconds_of(rng, 60, lasting=0.3, samples=30) for _side in range(2)]
        rows = rows_of(*sides)
        assert {row.changes[0].verdict for row in rows.values()} <= {NOISE, REAL}
        real += sum(row.changes[0].verdict is REAL for row in rows.values())
    assert real <= 5


def test_a_difference_of_a_tenth_is_significant() -> None:
    rng = random.Random(4)
    base = seconds_of(rng, 60, samples=300)
    rows = rows_of(base, seconds_of(rng, 60, rate=1100, slower=0.9, samples=300))
    for measure, ratio in ((RATE, 1.1), (THROUGHPUT, 1.1), (P50, 0.9), (P99, 0.9)):
        (change,) = rows[measure].changes
        assert change.verdict is REAL
        assert change.low is not None
        assert change.high is not None
        assert change.low < ratio < change.high
        assert change.ratio == pytest.approx(ratio, rel=0.06)


def test_figures_have_their_intervals() -> None:
    rng = random.Random(4)
    rows = rows_of(*(seconds_of(rng, 30, rate=rate, samples=50) for rate in (500, 500, 800)))
    for rate, estimate in zip((500, 500, 800), rows[RATE].estimates, strict=True):
        assert estimate.value == pytest.approx(rate, rel=0.04)
        assert estimate.low is not None
        assert estimate.high is not None
        assert estimate.low <= estimate.value <= estimate.high
    assert rows[P50].estimates[0].value == pytest.approx(MEDIAN_NS, rel=0.1)
    assert [change.verdict for change in rows[RATE].changes] == [NOISE, REAL]


def test_an_irrelevant_change_counts_as_noise() -> None:
    rng = random.Random(4)
    like = [seconds_of(rng, 60, rate=rate, spread=0, samples=20) for rate in (1000, 1001)]
    (change,) = rows_of(*like)[RATE].changes
    assert change.low == change.high == pytest.approx(1.001)
    assert change.verdict is NOISE


def test_too_little_data_is_reported() -> None:
    rng = random.Random(4)
    rows = rows_of(seconds_of(rng, 9), seconds_of(rng, 60, rate=2000))
    assert rows[RATE].changes[0].verdict is UNKNOWN
    rows = rows_of(*(seconds_of(rng, 60, samples=10, slower=by) for by in (1, 3)))
    assert rows[P50].changes[0].verdict is REAL
    assert rows[P99].changes[0].verdict is UNKNOWN  # hangs on 6 values


def test_runs_without_a_success_can_be_compared() -> None:
    nothing = seconds_of(random.Random(4), 30, rate=0)
    rows = rows_of(nothing, seconds_of(random.Random(4), 30), [])
    assert rows[RATE].estimates[0].value == 0
    assert [change.verdict for change in rows[RATE].changes] == [UNKNOWN, UNKNOWN]
    assert rows[P50].estimates[0].value is rows[P50].estimates[2].value is None
    assert {row.measure for row in compare([[], []], random.Random(1))} == {
        RATE, THROUGHPUT,
    }  # fmt: skip


def test_the_same_seed_gives_the_same_intervals() -> None:
    sides = [seconds_of(random.Random(n), 20, samples=20) for n in range(2)]
    assert rows_of(*sides) == rows_of(*sides)


def header(scenario: dict[str, Any] | None = None, **changes: Any) -> RunHeader:
    return runs.header(scenario={**runs.SCENARIO, **(scenario or {})}, **changes)


def test_differing_settings_are_named_scenarios_first() -> None:
    sizes: Any = [dict(size) for size in runs.SCENARIO["sizes"]]  # type: ignore[attr-defined]
    sizes[1]["size_max"] = 50000
    sizes.append({"name": "big"})
    a = header(seed=1, versions={"python": "3.11"})
    b = header(
        {"sizes": sizes, "crud_profile": [1, 2, 3, 4], "seed": 5},
        seed=5,
        driver="noop",
        versions={"python": "3.12", "zmq": "4"},
        ssbench_version="2",
    )
    assert differing_settings([a, b]) == [
        SettingDifference("sizes[1].size_max", (40000, 50000), of_scenario=True),
        SettingDifference("crud_profile", ([10, 75, 15, 0], [1, 2, 3, 4]), of_scenario=True),
        SettingDifference("sizes[2].name", (None, "big"), of_scenario=True),
        SettingDifference("driver", ("swift", "noop"), of_scenario=False),
        SettingDifference("ssbench_version", ("1.0.0", "2"), of_scenario=False),
        SettingDifference("versions.python", ("3.11", "3.12"), of_scenario=False),
        SettingDifference("seed", (1, 5), of_scenario=False),
        SettingDifference("versions.zmq", (None, "4"), of_scenario=False),
    ]


def test_equal_settings_give_no_differences() -> None:
    assert differing_settings([header(), header(), header()]) == differing_settings([]) == []


def test_deeply_nested_scenarios_are_compared_as_a_whole() -> None:
    deep: Any = 1
    for _ in range(400):
        deep = {"x": deep}
    (found,) = differing_settings([header({"deep": deep}), header({"deep": {"x": 2}})])[:1]
    assert found.key.startswith("deep.x")


def compared(*records: list[Record], operations: tuple[str | None, ...] = ()) -> Comparison:
    named = [(f"{at}.gz", RunStats.of(each)) for at, each in enumerate(records)]
    return comparison(named, seed=3, operations=operations, percents=(50.0,))


def open_loop(took_s: float, seconds: int = 30) -> list[Record]:
    """A run of 100 operations a second that fall due, each of which takes so long."""
    rows = [
        runs.result(n, READ, due_ns=due, start_ns=due, last_byte_ns=round(took_s * runs.SECOND))
        for n in range(1, seconds * 100 + 1)
        for due in [(n - 1) * 10 * runs.MS]
    ]
    given = {"operation_count": None, "run_seconds": seconds, "warmup": 6}
    scenario = {**runs.SCENARIO, **given}
    return [
        runs.header(scenario=scenario),
        PhaseRecord(Phase.RUN, runs.STARTED_AT, 4),
        MarkRecord(0, "stage", 0, 4, 100.0),
        runs.batch(rows),
        MarkRecord(seconds * runs.SECOND, "end", 0, 4, 100.0),
        runs.footer(sent=len(rows)),
    ]


def verdicts(section: ComparedOperation, run: int = 0) -> dict[Measure, ChangeVerdict]:
    return {row.measure: row.changes[run].verdict for row in section.rows}


def test_a_fifth_more_is_significant_and_the_same_is_not() -> None:
    found = compared(
        runs.lasting(20, 50), runs.lasting(20, 50, seed=2), runs.lasting(20, 60, seed=3)
    )
    total = found.sections[0]
    assert total.operation is None
    assert [row.measure for row in total.rows] == [RATE, THROUGHPUT, P50]
    assert verdicts(total)[RATE] is ChangeVerdict.NOISE
    assert verdicts(total, 1)[RATE] is ChangeVerdict.REAL
    assert [each.value for each in total.rows[0].estimates] == pytest.approx([50, 50, 60], rel=0.01)


def test_an_open_loop_of_slow_answers_has_the_rate_of_its_report() -> None:
    found = compared(open_loop(0.01), open_loop(5.0))
    rate, throughput, *_latencies = found.sections[0].rows
    for row, of in ((rate, 100), (throughput, 500_000)):
        for estimate, run in zip(row.estimates, found.runs, strict=True):
            total = run.stats.total()
            reported = total.rate_per_s if row is rate else total.bytes_per_s
            assert estimate.value == reported == pytest.approx(of)
            assert estimate.low is not None
            assert estimate.high is not None
            assert estimate.low <= of * 1.000001
            assert estimate.high >= of / 1.000001
        (change,) = row.changes
        assert change.ratio == pytest.approx(1)
        assert change.verdict is ChangeVerdict.NOISE


def test_a_closed_loop_has_the_rate_of_its_report() -> None:
    found = compared(runs.lasting(20, 50, warmup=3), runs.lasting(20, 60, seed=2))
    for section in found.sections:
        for at, run in enumerate(found.runs):
            total = run.stats.total(run.number_of(section.operation))
            values = [row.estimates[at].value for row in section.rows[:2]]
            assert values == [total.rate_per_s, total.bytes_per_s]


def test_a_rate_without_completions_is_none() -> None:
    found = compared(open_loop(0.01), open_loop(40.0))
    row = found.sections[0].rows[0]
    assert row.measure == RATE
    slow = row.estimates[1]
    assert (slow.value, slow.low, slow.high) == (0, 0, 0)
    (change,) = row.changes
    assert change.ratio == 0


def test_warm_up_is_not_compared() -> None:
    def slow_at_first(second: int) -> int:
        return 5 if second < 10 else 50

    found = compared(runs.lasting(30, 50), runs.lasting(30, slow_at_first, warmup=11))
    assert verdicts(found.sections[0])[RATE] is ChangeVerdict.NOISE
    assert [run.seconds for run in found.runs] == [29, 18]
    assert [each.key for each in found.differing_settings] == ["warmup"]


def test_there_is_a_section_for_each_operation_or_those_asked_for() -> None:
    both = runs.lasting(12, 20), runs.lasting(12, 20, seed=2)
    every = compared(*both)
    assert [section.operation for section in every.sections] == [None, "CREATE", "READ"]
    (reads,) = compared(*both, operations=("get",)).sections
    assert reads == every.sections[2]
    (deletes,) = compared(*both, operations=("DELETE",)).sections
    assert deletes.rows[0].estimates[0].value == 0
    assert set(verdicts(deletes).values()) == {ChangeVerdict.UNKNOWN}
    assert compared(*both, operations=("read", "GET", "READ")).sections == [reads]
    with pytest.raises(
        UsageError, match=r"operation 'rread': none of the runs .* of CREATE, READ$"
    ):
        compared(*both, operations=("rread",))


def test_operations_are_paired_by_their_name_where_two_drivers_number_them_differently() -> None:
    def peeks(number: int, *, seed: int) -> list[Record]:
        def rows(row: Result) -> Result:
            return row._replace(operation=number) if row.operation == READ else row

        table = [{"number": number, "name": "PEEK", "effect": "none"}]
        return [
            replace(each, operations=table)
            if isinstance(each, RunHeader)
            else runs.batch(list(map(rows, result_rows(each))))
            if isinstance(each, ResultBatch)
            else each
            for each in runs.lasting(12, 20, seed=seed)
        ]

    # In the first run 1001 is PEEK; the second has it as 1002, and the third has none.
    found = compared(peeks(1001, seed=1), peeks(1002, seed=2), runs.lasting(12, 20))
    assert [section.operation for section in found.sections] == [None, "CREATE", "READ", "PEEK"]
    first, second, third = found.sections[3].rows[0].estimates
    assert first.value == pytest.approx(second.value, rel=0.3)
    assert third.value == 0


def test_figures_of_a_short_run_are_those_of_its_report() -> None:
    found = compared(runs.lasting(20, 50), runs.lasting(4, 50, seed=2))
    assert [run.short for run in found.runs] == [False, True]
    long, short = found.sections[0].rows[0].estimates
    assert long.low is not None
    assert (short.value, short.low) == (found.runs[1].stats.total().rate_per_s, None)
    assert set(verdicts(found.sections[0]).values()) == {ChangeVerdict.UNKNOWN}
    change = found.sections[0].rows[0].changes[0]
    assert change.ratio == pytest.approx(short.value / long.value)  # type: ignore[operator]
    assert found.sections[0].rows[2].estimates[1].value is not None


def test_response_times_are_compared_where_any_run_has_them() -> None:
    found = compared(runs.lasting(12, 20), runs.lasting(12, 20, seed=2, due=True))
    row = found.sections[0].rows[-1]
    assert row.measure == Measure("response", 50.0)
    assert row.estimates[0].value is None
    assert row.estimates[1].value is not None
    assert row.changes[0].verdict is ChangeVerdict.UNKNOWN


def test_files_of_0_3_9_have_no_throughput() -> None:
    named = [(name, legacy.stats_of(name)) for name in ("noop", "real")]
    found = comparison(named, seed=1)
    assert found.no_bytes == "no store was involved (--noop), so nothing was moved"
    assert THROUGHPUT not in {row.measure for section in found.sections for row in section.rows}
    assert found.sections[0].rows[0].estimates[0].value
    assert [each.key for each in found.differing_settings if each.of_scenario][:1] == ["user_count"]


def test_empty_runs_can_be_compared() -> None:
    found = compared([], runs.no_results(), runs.all_errors())
    assert found.sections[0].operation is None
    assert all(
        change.verdict is ChangeVerdict.UNKNOWN
        for section in found.sections for row in section.rows for change in row.changes
    )  # fmt: skip


@pytest.mark.parametrize("seconds", [20, 4])
def test_a_run_with_missing_users_gives_no_verdict(seconds: int) -> None:
    records = runs.lasting(seconds, 60, seed=2)
    at = next(at for at, record in enumerate(records) if isinstance(record, MarkRecord))
    short = [*records[: at + 1], MarkRecord(10**9, "users", users=3), *records[at + 1 :]]
    found = compared(runs.lasting(seconds, 50), short)
    for section in found.sections:
        assert set(verdicts(section).values()) == {ChangeVerdict.NOT_JUDGED}
