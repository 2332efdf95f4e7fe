"""Rates: what they are divided by, and which operations count by what share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.model import Phase, Result
from ssbench.core.operations import READ
from ssbench.core.records import MarkRecord, PhaseRecord, Record
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.stats.budget import Budget
from ssbench.core.stats.findings import arrivals
from ssbench.core.stats.results import PhaseResults
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.steps import Step
from ssbench.core.stats.tally import SHARE, Basis
from ssbench.core.stats.thresholds import Threshold
from ssbench.core.stats.windows import LastStart, Windows
from ssbench.report.run import of_run
from tests.report import runs
from tests.report.runs import render

MS, SECOND = runs.MS, runs.SECOND
SIZE = 1_000_000


def row(start_s: float, seconds: float, *, due: bool = False, **changes: Any) -> Result:
    start_ns = round(start_s * SECOND)
    given = {
        "start_ns": start_ns, "last_byte_ns": round(seconds * SECOND), "bytes_moved": SIZE,
        **({"due_ns": start_ns} if due else {}), "operation": READ, **changes,
    }  # fmt: skip
    return runs.result(1, given.pop("operation"), **given)


def users(many: int, seconds: float, until_s: float, *, offset_s: float = 0.0) -> list[Result]:
    """Users who begin their operations, one after the other, up to that time."""
    count = -int(-(until_s - offset_s) // seconds)
    return [row(offset_s + n * seconds, seconds) for n in range(count) for _user in range(many)]


def due_at(rate: float, seconds: float, took_s: float) -> list[Result]:
    return [row(n / rate, took_s, due=True) for n in range(round(rate * seconds))]


def records(
    rows: Sequence[Result],
    *,
    end_s: float | None,
    begins_s: Sequence[float] = (0.0,),
    rate: float | None = None,
    ended: str = "complete",
    mark_last: bool = False,
    **scenario: Any,
) -> list[Record]:
    """A run's; those of its results that came after the load's end stand behind its mark.

    :param rate: of an open loop.
    """
    given = {**runs.SCENARIO, "operation_count": None, **scenario}
    marks = [
        MarkRecord(round(at * SECOND), "stage", index, 8, rate) for index, at in enumerate(begins_s)
    ]
    end = [] if end_s is None else [MarkRecord(round(end_s * SECOND), "end", 0, 8, rate)]
    edge_ns = (1 << 62) if end_s is None or mark_last else round(end_s * SECOND)
    before = [row for row in rows if row.start_ns + row.last_byte_ns <= edge_ns]
    behind = [row for row in rows if row.start_ns + row.last_byte_ns > edge_ns]
    return [
        runs.header(scenario=given),
        PhaseRecord(Phase.RUN, runs.STARTED_AT, 8),
        *marks,
        *([runs.batch(before)] if before else []),
        *end,
        *([runs.batch(behind)] if behind else []),
        runs.footer(ended=ended, sent=len(rows)),
    ]


def stats(rows: Sequence[Result], *, end_ns: int | None = None, **given: Any) -> RunStats:
    return RunStats.of(records(rows, **given), end_ns)


# Open loops -----------------------------------------------------------------------------------


def test_an_open_loop_has_the_rate_that_completed_in_the_window() -> None:
    given = {"end_s": 10, "rate": 100.0, "run_seconds": 10, "warmup": 2}
    found = stats(due_at(100, 10, 0.5), **given)
    total = found.total()
    assert found.rate_basis is Basis.WINDOW
    assert total.rate_per_s == 100.0
    assert total.bytes_per_s == 100.0 * SIZE
    assert total.over_span.rate_per_s == pytest.approx(800 / 8.49)
    assert found.after_end == (49, pytest.approx(0.49))
    assert Threshold.parse("rate > 97/s").judge(found).passed
    assert Threshold.parse("throughput >= 100MB/s").judge(found).passed
    step = Step.of(found, 100, "x", (99.0,))
    assert (step.rate_per_s, step.seconds, step.rate_missed) == (100.0, 8.0, False)
    without = stats(due_at(100, 10, 0.5), end_s=10, rate=100.0, run_seconds=10)
    assert without.total().rate_per_s == 95.0, "the first half second had no completion"


def test_a_stage_and_a_group_of_few_operations_miss_their_rates_by_what_was_never_started() -> None:
    """Five operations of a second each, of fifty that were to fall due."""
    rows = [row(n, 0.9, due=True) for n in range(5)]
    group = {"users": 1, "rate": 10, "operations": {"read": 1}}
    stages = [{"name": "slow", "seconds": 5, "groups": {"one": group}}]
    given = runs.SCENARIO | {"operation_count": None, "crud_profile": None, "stages": stages}
    found = RunStats.of(
        [
            runs.header(scenario={k: v for k, v in given.items() if v is not None}),
            PhaseRecord(Phase.RUN, runs.STARTED_AT, 1),
            MarkRecord(0, "stage", 0, 1, 10.0),
            runs.batch(rows),
            MarkRecord(5 * SECOND, "end", 0, 1, 10.0),
            runs.footer(sent=5, late=45),
        ]
    )
    assert found.missed_rate(0)
    seen = arrivals(found)
    assert seen is not None
    assert seen.missed_stages == (0,)


def test_a_stage_of_which_nothing_was_started_misses_its_rate() -> None:
    """Behind the queue of the stage before: its operations fell due, and none began."""
    stages = [{"name": "rush", "seconds": 5, "rate": 100}, {"name": "few", "seconds": 2, "rate": 3}]
    given = {key: value for key, value in runs.SCENARIO.items() if key != "operation_count"}
    found = RunStats.of(
        [
            runs.header(scenario=given | {"stages": stages}),
            PhaseRecord(Phase.RUN, runs.STARTED_AT, 1),
            MarkRecord(0, "stage", 0, 1, 100.0),
            runs.batch(served(100, 5, 50)[:350]),
            MarkRecord(5 * SECOND, "stage", 1, 1, 3.0),
            MarkRecord(7 * SECOND, "end", 1, 1, 3.0),
            runs.footer(sent=350, late=156),
        ]
    )
    assert (found.missed_rate(0), found.missed_rate(1)) == (True, True)
    seen = arrivals(found)
    assert seen is not None
    assert seen.missed_stages == (0, 1)
    few = of_run(found)["stages"].tables[0].rows[1]
    assert (few["due"], few["due_completed"], few["rate_missed"]) == (0, 0, True)


def served(rate: float, seconds: float, per_s: float = 200) -> list[Result]:
    """Of a store that completes so many a second, one after the other, whatever falls due."""
    rows, free_s = list[Result](), 0.0
    for n in range(round(rate * seconds)):
        free_s = max(free_s, n / rate + 0.0001) + 1 / per_s
        rows.append(row(n / rate, free_s - n / rate, due=True))
    return rows


@pytest.mark.parametrize("by_count", [False, True])
def test_an_overloaded_open_loop_has_the_rate_of_the_store_and_missed_its_own(
    by_count: bool,
) -> None:
    how = {"operation_count": 2000} if by_count else {"run_seconds": 4}
    found = stats(served(500, 4), end_s=4, rate=500.0, **how)
    assert found.rate_basis is Basis.WINDOW
    assert found.total().rate_per_s == pytest.approx(200, abs=0.5)
    assert not Threshold.parse("rate > 485/s").judge(found).passed
    seen = arrivals(found)
    assert seen is not None
    assert (seen.due, seen.completed, seen.late, seen.missed) == (2000, 799, 0, True)
    assert (seen.due_per_s, seen.started_per_s) == (500, 500)
    assert not Step.of(found, 500, "x", (99.0,)).kept
    text = render("text", found)
    assert "199.8 operations/s (RATE MISSED: 500 due, 40 % in time), 199.75 MB/s" in text
    assert "WARNING: the load missed its rate: 199.8 of 500 operations/s" in text
    kept = arrivals(stats(served(190, 4), end_s=4, rate=190.0, **how))
    assert kept is not None
    assert not kept.missed


def test_a_hang_at_the_end_misses_the_rate_and_a_stall_before_it_does_not() -> None:
    def found(hung_s: float, until_s: float) -> bool:
        rows = [
            row(n / 100, max(until_s - n / 100, 0.01) if n / 100 > hung_s else 0.01, due=True)
            for n in range(1000)
        ]
        seen = arrivals(stats(rows, end_s=10, rate=100.0, run_seconds=10))
        return seen is not None and seen.missed

    assert found(7, 40)
    assert not found(4, 5)
    assert not found(9.5, 10.5), "a few at the very end"


@pytest.mark.parametrize("seed", range(10))
def test_a_busy_queue_is_not_called_overloaded(seed: int) -> None:
    """M/M/1 at 90 % of its rate, of Poisson arrivals: its queue grows and shrinks by chance."""
    rng, rows, due_s, free_s = Random(seed), list[Result](), 0.0, 0.0
    while (due_s := due_s + rng.expovariate(180)) < 4:
        free_s = max(free_s, due_s) + rng.expovariate(200)
        rows.append(row(due_s, free_s - due_s, due=True))
    seen = arrivals(stats(rows, end_s=4, rate=180.0, run_seconds=4))
    assert seen is not None
    assert not seen.missed


def test_a_few_very_slow_answers_do_not_change_the_rate() -> None:
    rows = due_at(2400, 4, 0.005)
    for number in range(4):
        rows[9500 + number] = row(9500 / 2400, 7.0, due=True)
    found = stats(rows, end_s=4, rate=2400.0, run_seconds=4)
    assert found.total().rate_per_s == pytest.approx(2400, rel=0.002)
    assert found.after_end is not None
    assert found.after_end.seconds == pytest.approx(9500 / 2400 + 7 - 4)
    seen = arrivals(found)
    assert seen is not None
    assert not seen.missed


def test_what_completed_after_an_early_end_counts_in_no_rate() -> None:
    rows = due_at(100, 5.2, 0.1)
    found = stats(rows, end_s=5, rate=100.0, run_seconds=10, ended="interrupted")
    assert found.total().count == 520
    assert found.total().rate_per_s == pytest.approx(98.2)


# Closed loops ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mark_last", [False, True])
def test_users_whose_operations_are_long_count_by_their_shares(mark_last: bool) -> None:
    rows = users(8, 7.0, 10.0)
    found = stats(rows, end_s=10, run_seconds=10, mark_last=mark_last)
    assert found.rate_basis is Basis.SHARE
    assert found.total().count == 16
    assert found.total().rate_per_s == pytest.approx(8 / 7)
    assert found.total().bytes_per_s == pytest.approx(8 / 7 * SIZE)
    assert found.after_end == (8, 4.0)
    assert "8 operations completed in the 4.0 s after the load ended" in render("text", found)


@pytest.mark.parametrize("took_s", [0.07, 0.9, 3.0])
def test_a_warm_up_does_not_lower_the_rate_of_a_closed_loop(took_s: float) -> None:
    given = {"end_s": 10, "run_seconds": 10, "warmup": 2, "cooldown": 1}
    found = stats(users(4, took_s, 10), end_ns=10 * SECOND, **given)
    assert found.total().rate_per_s == pytest.approx(4 / took_s)
    assert found.total().throughput.seconds == 7.0


def test_an_operation_of_two_stages_is_in_the_rates_of_both() -> None:
    rows = [row(0, 4), row(4, 4), row(8, 4)]
    found = stats(rows, end_s=10, begins_s=(0, 5), run_seconds=10)
    first, second = (found.total(stage=stage) for stage in (0, 1))
    assert (first.count, second.count) == (2, 1)
    assert (first.rate_per_s, second.rate_per_s) == (0.25, 0.25)
    assert found.total().rate_per_s == 0.25
    assert found.total().throughput.seconds == 10.0


# How runs end ---------------------------------------------------------------------------------


def test_a_run_by_count_states_its_span_and_the_rate_before_the_tail() -> None:
    found = stats(users(8, 7.0, 10.0), end_s=14, operation_count=16)
    assert found.rate_basis is Basis.COMPLETED
    assert found.total().rate_per_s == pytest.approx(16 / 14)
    before = found.up_to_last_start
    assert before is not None
    assert before.share_after == 0.5
    assert before.throughput.rate_per_s == pytest.approx(8 / 7)
    assert found.after_end is None
    text = render("text", found)
    line = "Rates: over 14.000 s, from the first start to the last completion"
    assert f"{line}; each operation over its own time\n" in text
    assert "Note: 50 % of the time" in text
    assert "1.1 operations/s (1.14 MB/s)" in text


@pytest.mark.parametrize(("last_s", "noted"), [(0.5, False), (0.51, True)])
def test_an_end_of_more_than_five_percent_is_noted(last_s: float, noted: bool) -> None:
    rows = [row(0, 10 - last_s), row(10 - last_s, last_s)]
    found = stats(rows, end_s=10, operation_count=2)
    assert (found.up_to_last_start is not None) is noted


@pytest.mark.parametrize(
    ("sent", "lost", "planned", "basis"),
    [
        (16, 0, 16, Basis.COMPLETED),
        (17, 0, 17, Basis.COMPLETED),  # a result is missing
        (15, 0, 16, Basis.SHARE),
        (None, 0, 16, Basis.COMPLETED),
        (None, 1, 17, Basis.COMPLETED),
        (None, 1, 16, Basis.SHARE),
        (None, 0, 17, Basis.SHARE),
    ],
)
def test_a_run_by_count_completes_once_all_operations_are_sent(
    sent: int | None, lost: int, planned: int, basis: Basis
) -> None:
    """Where a file does not say how many were sent: all results, and those that were lost."""
    for warmup in (0, 1):  # operations that do not count are sent, too
        run = records(users(4, 0.5, 2.0), end_s=2, operation_count=planned, warmup=warmup)
        found = RunStats.of([*run[:-1], runs.footer(sent=sent, lost=lost)])
        assert found.rate_basis is basis
        assert found.left_out == 8 * warmup


def test_malformed_times_neither_break_a_rate_nor_fill_memory() -> None:
    last = LastStart()
    rows = PhaseResults([runs.batch([row(0, 1 << 30) for _ in range(1000)])], {})
    for _ in range(100):
        last.add(list(rows.groups()))
    assert last.at_ns == 0
    assert "65536 rows" in repr(last)


def test_rows_that_cross_more_edges_than_there_is_time_for_count_where_they_began() -> None:
    budget = Budget(lambda: 0)
    windows = Windows(Scenario.of_header({}), budget=budget)
    for index in range(5):
        windows.mark(MarkRecord(index * SECOND, "stage", index))
    rows = [row(0, 5)] * 100
    (group,) = PhaseResults([runs.batch(rows)], {}).groups()
    assert [stage for stage, _ in windows.shares(group)] == [0, 1, 2, 3, 4]
    budget.works(500_000)
    assert [stage for stage, _ in windows.shares(group)] == [0]


# Properties -----------------------------------------------------------------------------------

extents = st.tuples(st.integers(-(10**9), 2 * 10**10), st.integers(0, 10**10), st.booleans())


def counted(rows: Iterable[Result], begins_ns: Sequence[int]) -> list[int]:
    """What adjacent stages have of these, together."""
    windows = Windows(Scenario.of_header({}))
    for index, at_ns in enumerate(begins_ns):
        windows.mark(MarkRecord(at_ns, "stage", index))
    groups = PhaseResults([runs.batch(list(rows))], {}).groups()
    shares = [found for group in groups for found in windows.shares(group)]
    return [sum(parts) for parts in zip(*(of_stage for _stage, of_stage in shares), strict=True)]


@given(
    st.lists(extents, min_size=1, max_size=20),
    st.lists(st.integers(-(10**9), 3 * 10**10), min_size=1, max_size=6, unique=True),
)
def test_shares_of_adjacent_windows_add_up_to_the_count(
    rows: list[tuple[int, int, bool]], begins_ns: list[int]
) -> None:
    """Invariant: nothing is counted twice, and nothing is lost, wherever windows meet."""
    made = [
        row(start / SECOND, took / SECOND, due=due and start >= 0, items=3)
        for start, took, due in rows
    ]
    found = counted(made, sorted(begins_ns))
    assert found == [len(made) * each * SHARE for each in (1, SIZE, 3, 0)]
