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
from ssbench.core.stats.compare import ComparedOperation, Comparison, comparison
from ssbench.core.stats.intervals import ChangeVerdict, ComparedFigure, Measure, compare
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.series import Second
from tests.core.stats.synthetic import seconds_of
from tests.fakes.batches import result_rows
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


def test_too_little_data_is_reported() -> None:
    rng = random.Random(4)
    rows = rows_of(seconds_of(rng, 9), seconds_of(rng, 60, rate=2000))
    assert rows[RATE].changes[0].verdict is UNKNOWN
    rows = rows_of(*(seconds_of(rng, 60, samples=10, slower=by) for by in (1, 3)))
    assert rows[P50].changes[0].verdict is REAL
    assert rows[P99].changes[0].verdict is UNKNOWN  # hangs on 6 values


def header(scenario: dict[str, Any] | None = None, **changes: Any) -> RunHeader:
    return runs.header(scenario={**runs.SCENARIO, **(scenario or {})}, **changes)


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


def test_a_rate_without_completions_is_none() -> None:
    found = compared(open_loop(0.01), open_loop(40.0))
    row = found.sections[0].rows[0]
    assert row.measure == RATE
    slow = row.estimates[1]
    assert (slow.value, slow.low, slow.high) == (0, 0, 0)
    (change,) = row.changes
    assert change.ratio == 0


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
    assert compared(*both, operations=("put", "CREATE")).sections == [every.sections[1]]
    assert every.change("rate(CREATE)") == every.sections[1].rows[0].changes[0]
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


@pytest.mark.parametrize("seconds", [20, 4])
def test_a_run_with_missing_users_gives_no_verdict(seconds: int) -> None:
    records = runs.lasting(seconds, 60, seed=2)
    at = next(at for at, record in enumerate(records) if isinstance(record, MarkRecord))
    short = [*records[: at + 1], MarkRecord(10**9, "users", users=3), *records[at + 1 :]]
    found = compared(runs.lasting(seconds, 50), short)
    for section in found.sections:
        assert set(verdicts(section).values()) == {ChangeVerdict.NOT_JUDGED}
