"""RunStats: what a run's records add up to."""

from __future__ import annotations

import math
import random
from itertools import chain, product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ssbench.core.model import NONE_NS, SECOND_NS, ErrorKind, Phase, Result
from ssbench.core.operations import CREATE, ENSURE, READ, REMOVE, UPDATE, Operation
from ssbench.core.records import (
    MASTER,
    ClockRecord,
    MarkRecord,
    PhaseRecord,
    Record,
    ResultBatch,
)
from ssbench.core.stats.headroom import Headroom, ProcessId
from ssbench.core.stats.run_records import RunRecords
from ssbench.core.stats.run_stats import RunStats
from tests.report import runs
from tests.report.runs import render
from tests.statfile.samples import result

MS = 1_000_000


def test_errors_of_other_phases_are_kept_apart_and_merge() -> None:
    def failures(detail: str, ended_s: int) -> ResultBatch:
        row = runs.failure(1, ENSURE, detail=detail, status=413, start_ns=ended_s * SECOND_NS)
        return runs.batch([row, row], Phase.POPULATE)

    gone = runs.failure(2, REMOVE, detail="why")
    stats = runs.stats_of([
        runs.header(),
        PhaseRecord(Phase.POPULATE, 7.0, 1),
        failures("the later", 2),
        failures("earlier", 1),
        PhaseRecord(Phase.CLEANUP, 20.0, 1),
        runs.batch([gone, gone], Phase.CLEANUP),
    ])  # fmt: skip
    assert stats.errors == {}
    (found,) = stats.phase_errors(Phase.POPULATE).items()
    assert found[0] == (ErrorKind.STATUS, 413)
    assert (found[1].count, found[1].example.detail) == (4, "earlier")
    assert stats.phase_errors(Phase.CLEANUP)[ErrorKind.STATUS, 503].count == 2
    assert stats.phase_errors(Phase.IDLE) == {}


@pytest.mark.parametrize(("sent", "unaccounted"), [(5, 0), (7, 2), (4, -1), (None, None)])
def test_operations_sent_are_compared_with_results(
    sent: int | None, unaccounted: int | None
) -> None:
    rows = [runs.result(1, READ), runs.failure(2, READ)]
    stats = runs.stats_of([runs.header(), runs.batch(rows), runs.footer(sent=sent, lost=3)])
    assert stats.unaccounted == unaccounted


def test_only_the_measured_part_of_the_run_phase_is_judged() -> None:
    full = runs.host(0, 0, loop_cpu_percent=99.0)
    cleanup = replace(full, phase=Phase.CLEANUP)
    assert runs.stats_of([runs.header(), cleanup]).verdict().headroom is Headroom.UNKNOWN
    records = [*of_load([MarkRecord(0, "stage")], warmup=1.0), full, runs.host(0, 1)]
    assert runs.stats_of(records).verdict().headroom is Headroom.ENOUGH


def with_a_store_host(run_id: str) -> RunStats:
    """A run of one worker, and one for metrics only on a busy host of the store."""
    busy = {"loop_cpu_percent": 99.0, "memory_used_bytes": 4e9}
    store = [replace(runs.host(1, at, **busy), host="store", boot_id="s") for at in (0, 1)]
    metrics = replace(runs.worker(1, "metrics"), host="store", concurrency=0)
    seconds = [runs.host(MASTER, 0), runs.host(0, 0), *store]
    begin = PhaseRecord(Phase.RUN, runs.STARTED_AT, 4)
    records = [runs.header(run_id=run_id), runs.worker(0, "w"), metrics, begin, *seconds]
    return runs.stats_of([*records, runs.footer()])


def test_a_worker_for_metrics_only_is_no_part_of_the_load_generator() -> None:
    stats = with_a_store_host("one")
    assert stats.verdict().headroom is Headroom.ENOUGH
    assert stats.verdict().busiest in (ProcessId("", "bench-01"), ProcessId("w", "bench-01"))
    assert (stats.worker_count, stats.requests_per_worker()) == (1, {"w": 0})


def test_clock_corrections_apply_to_later_times_and_not_to_durations() -> None:
    batch = runs.batch([runs.result(1, READ, start_ns=900 * MS, due_ns=890 * MS)])
    other = replace(batch, worker=1)
    frame = [runs.header(), PhaseRecord(Phase.RUN, runs.STARTED_AT, 4)]
    late = ClockRecord(0, Phase.RUN, 200 * MS, MS)
    plain = runs.stats_of([*frame, batch, batch, other])
    corrected = runs.stats_of([*frame, batch, late, batch, other])
    assert plain.completions() == [3]
    assert corrected.completions() == [2, 1]
    early = runs.stats_of([*frame, replace(late, shift_ns=-200 * MS), batch, other])
    for stats in (plain, corrected, early):  # each is the difference of two times by one clock
        assert stats.total().last_byte.histogram.max == 5 * MS
        assert stats.total().response.histogram.max == 15 * MS
        assert stats.total().response.histogram.min == 15 * MS
        assert stats.lateness.max == 10 * MS
        assert stats.in_time.longest_ns == 15 * MS
    assert corrected.clocks == {0: late}
    # The next phase's origin is another.
    again = runs.stats_of([*frame, late, *frame[1:], batch])
    assert again.completions() == [1]


parts_of_a_run = st.lists(st.integers(0, 3), min_size=200, max_size=200)
ROWS = runs.some_rows(200, 7)
FRAME: list[Record] = [
    runs.header(), runs.worker(0, "a"), PhaseRecord(Phase.RUN, runs.STARTED_AT, 4),
]  # fmt: skip


@pytest.fixture(scope="module")
def whole_report() -> str:
    """Of all ROWS in one batch."""
    return render("json", runs.stats_of([*FRAME, runs.batch(ROWS), runs.footer()]))


@settings(max_examples=30)
@given(parts_of_a_run, st.randoms(use_true_random=False))
def test_batches_in_any_order_are_the_whole(
    whole_report: str, parts: list[int], rng: random.Random
) -> None:
    """Invariant: however results are cut into batches, the report is the same."""
    shares = [[row for row, at in zip(ROWS, parts, strict=True) if at == part] for part in range(4)]
    rng.shuffle(shares)
    batches = [runs.batch(share) for share in shares if share]
    records = [*FRAME, *batches, runs.footer()]
    assert render("json", runs.stats_of(records)) == whole_report
    single = RunStats()
    for record in records:
        single.add(record)
    assert render("json", single) == whole_report


@given(
    st.lists(
        st.lists(st.integers(-(2**63), 2**64 - 1), min_size=19, max_size=19), min_size=1, max_size=8
    )
)
@example([[2**63 - 1] * 19, [2**63] * 19])  # near each other, and not of one type
def test_any_numbers_are_accepted(rows: list[list[int]]) -> None:
    """Invariant: whatever the columns hold, each row is counted once and a report is made."""
    batches = [
        runs.batch([runs.result(1, READ)._replace(**dict(zip(Result._fields, row, strict=False)))])
        for row in rows
    ]
    stats = RunStats.of([runs.header(), *batches])
    assert stats.total().operations == len(rows)
    assert render("text", stats)
    for source in ("worker", "url"):
        sums = stats.breakdown.sums(source).values()
        assert sum(each.count + each.errors for each in sums) == len(rows)
        assert sum(each.bytes_moved for each in sums) == stats.total().bytes_moved


# Stages, warm-up and cool-down ------------------------------------------------------------


def of_load(marks: list[MarkRecord], *batches: ResultBatch, **load: object) -> list[Record]:
    scenario = {**runs.SCENARIO, **load}
    return [runs.header(scenario=scenario), PhaseRecord(Phase.RUN, 0.0, 4), *marks, *batches]


def at(*starts_s: float, operation: Operation = READ) -> ResultBatch:
    return runs.batch(
        [runs.result(n, operation, start_ns=round(s * 1e9)) for n, s in enumerate(starts_s)]
    )


def test_ramps_are_in_the_series_but_in_no_figure() -> None:
    marks = [MarkRecord(10**9, "stage"), MarkRecord(11 * 10**9, "end")]
    records = of_load(marks, at(1.5, 3, 4, 9, 9.5, 10.5), warmup=2, cooldown=1.5)
    records.append(runs.footer(sent=7, lost=1))
    without_end = RunStats.of(records)
    assert (without_end.total().count, without_end.left_out) == (5, 1)
    stats = RunStats.of(records, end_ns=without_end.run.end_ns)
    assert (stats.total().count, stats.left_out) == (3, 3)
    assert stats.unaccounted == 0
    assert sum(stats.completions()) == 6


@pytest.mark.parametrize("warmup", ["long", -1, 1e308, float("nan"), None, [3]])
def test_an_invalid_warm_up_excludes_nothing(warmup: object) -> None:
    stats = RunStats.of(of_load([MarkRecord(0, "stage")], at(1, 2), warmup=warmup))
    assert (stats.total().count, stats.left_out) == (2, 0)


def rows_of(operations: list[int], classes: list[int]) -> st.SearchStrategy[Result]:
    return st.builds(
        result,
        st.integers(1, 400),
        operation=st.sampled_from(operations),
        size_class=st.sampled_from(classes),
        due_ns=st.sampled_from([NONE_NS, NONE_NS, 0, 2**33]),
        start_ns=st.one_of(st.integers(0, 10**10), st.sampled_from([-5, 2**62])),
        headers_ns=st.sampled_from([NONE_NS, 7 * MS]),
        first_byte_ns=st.sampled_from([NONE_NS, 0, 8 * MS]),
        last_byte_ns=st.one_of(st.integers(0, 10**9), st.just(NONE_NS)),
        bytes_moved=st.integers(0, 2**33),
        retries=st.sampled_from([0, 0, 3]),
        error=st.sampled_from([0, 0, 0, 1, 6]),
        status=st.sampled_from([200, 503, 10_000]),
        transaction_id=st.sampled_from([b"", b"tx1", b"tx%021x-%010x" % (1, 2), b"tx%032x" % 3]),
        detail=st.sampled_from(["", "no room"]),
    )


def batches_of(rows: st.SearchStrategy[Result]) -> st.SearchStrategy[list[list[Result]]]:
    return st.lists(st.lists(rows, min_size=1, max_size=6), min_size=1, max_size=8)


batches_of_all_sorts = st.one_of(
    batches_of(rows_of([0, 1, 1, 3], [0, 8])),
    batches_of(rows_of([1], [0])),
    batches_of(rows_of([300, 301], [70_000, 0])),
    batches_of(rows_of([0, 9], [15, 16])),
)


@settings(max_examples=60)
@given(batches_of_all_sorts, st.sampled_from([0, 777]))
def test_joined_columns_give_the_same_report_as_single_rows(
    batches: list[list[Result]], shift_ns: int
) -> None:
    """Invariant: however results are put together, taken apart and kept waiting, every figure is
    that of each row alone."""
    before: list[Record] = [
        runs.header(verify=True),
        PhaseRecord(Phase.RUN, 10.0, 4),
        ClockRecord(0, Phase.RUN, shift_ns, 10),
        MarkRecord(5, "stage", users=4),
        MarkRecord(2 * 10**9, "stage", stage=1, users=8),
    ]
    slow = runs.stats_of(before)
    fast = runs.stats_of([*before, *map(runs.batch, batches)])
    for row in chain.from_iterable(batches):
        slow.add(runs.batch([row]))
    assert render("json", fast) == render("json", slow)
    assert list(fast.series.seconds()) == list(slow.series.seconds())
    for group in product(slow.operations, slow.classes()):
        one, other = fast.total(*group), slow.total(*group)
        assert one.last_byte.histogram == other.last_byte.histogram
        assert one.response.worst == other.response.worst


# By worker and storage URL, and errors by second

PHASE = PhaseRecord(runs.Phase.RUN, runs.STARTED_AT, 4)


STORE = {"urls": ["http://one/v1/a", "http://two/v1/a"]}


def two_workers(run_id: str = "5e1f") -> list[Record]:
    """Of two workers, each with two URLs; of the second one all READs fail."""
    first = [runs.result(n, READ, url=n % 2, last_byte_ns=n * runs.MS) for n in range(1, 11)]
    second = [runs.failure(n, READ, url=n % 2, start_ns=n * runs.SECOND) for n in range(3)]
    second += [runs.result(20, CREATE, url=1)]
    return [
        runs.header(run_id=run_id, store=STORE), runs.worker(0, "a"), runs.worker(1, "b"), PHASE,
        runs.batch(first), runs.batch(second, worker_index=1), runs.footer(),
    ]  # fmt: skip


def test_each_worker_and_each_endpoint_has_its_own_sums() -> None:
    stats = RunStats.of(two_workers())
    counts = [
        (each.name, each.where, each.tally.count, each.tally.errors)
        for each in (*stats.workers(), *stats.endpoints())
    ]
    assert counts == [
        ("a", "bench-01", 10, 0), ("b", "bench-01", 1, 3),
        ("http://one/v1/a", "", 5, 2), ("http://two/v1/a", "", 6, 1),
    ]  # fmt: skip
    assert stats.endpoints()[0].tally.service.max == 10 * runs.MS
    assert stats.workers()[0].tally.bytes_moved == 50_000


def test_the_sums_of_one_endpoint_are_those_of_the_run() -> None:
    """Also where a second one has results only later."""
    early = [runs.result(n, READ) for n in range(1, 5)]
    late = [runs.failure(9, READ, url=1), runs.result(10, READ, url=1)]
    first = [runs.header(store=STORE), PHASE, runs.batch(early)]
    (only,) = RunStats.of(first).endpoints()
    assert (only.name, only.tally.count) == ("http://one/v1/a", 4)
    stats = RunStats()
    for record in (*first, runs.batch(late)):  # one by one
        stats.add(record)
    assert [(e.name, e.tally.count, e.tally.errors) for e in stats.endpoints()] == [
        ("http://one/v1/a", 4, 0), ("http://two/v1/a", 1, 1),
    ]  # fmt: skip


# Headers, footers and workers


def run_of(*records: object) -> RunRecords:
    found = RunRecords()
    for record in records:
        found.add(record)  # type: ignore[arg-type]
    return found


def test_the_measured_part_lies_between_the_marks_without_ramps() -> None:
    stages = [{"seconds": 7.5, "users": 1}, {"seconds": 11, "users": 2, "warmup": 3}]
    scenario = {**runs.SCENARIO, "warmup": 5, "cooldown": 2, "stages": stages}
    found = run_of(
        runs.header(scenario=scenario),
        MarkRecord(1_500_000_000, "stage"),
        MarkRecord(9_000_000_000, "stage", 1),
        MarkRecord(20_000_000_000, "end", 1),
    )
    assert found.spans_s == [(6.5, 9.0), (12.0, 18.0)]
    assert [span.seconds for span in found.spans] == [2.5, 6.0]
    assert runs.stats_of([runs.header()]).run.spans_s == [(0.0, math.inf)]


def test_users_that_ran_and_users_requested_are_reported() -> None:
    second = 1_000_000_000
    run = run_of(
        runs.header(),
        MarkRecord(second, "stage", 0, 64),
        MarkRecord(second, "users", 0, 4),
        MarkRecord(9 * second, "stage", 1, 8),
        MarkRecord(12 * second, "users", 1, 2),
        MarkRecord(13 * second, "users", 1, 8),
        MarkRecord(20 * second, "stage", 2, 5),
        MarkRecord(30 * second, "end", 2, 5),
    )
    first, second_stage, third = run.stage_users
    assert (first.asked, first.ran, first.least, first.short) == (64, ((1.0, 4),), 4, True)
    assert second_stage.ran == ((9.0, 8), (12.0, 2), (13.0, 8))
    assert (second_stage.least, second_stage.short) == (2, True)
    assert (third.ran, third.short) == (((20.0, 5),), False)
    assert (run.users_ran, run.short_of_users) == (2, True)


# Runs with --verify


def wrong(number: int, kind: ErrorKind, operation: Operation = READ) -> Result:
    return runs.failure(
        number, operation, status=200, error=kind, detail=f"c/o{number}: wrong", bytes_moved=4000
    )


CHECKED = [
    runs.result(1, READ),
    runs.result(2, UPDATE),
    wrong(3, ErrorKind.STALE),
    wrong(5, ErrorKind.CORRUPT),
    wrong(4, ErrorKind.CORRUPT),
    wrong(6, ErrorKind.CORRUPT, UPDATE),
    runs.failure(7, READ),
]


def verified_stats(rows: list[Result], **changes: object) -> RunStats:
    started = PhaseRecord(Phase.RUN, runs.STARTED_AT, 4)
    header = runs.header(**{"verify": True, **changes})
    return runs.stats_of([header, started, runs.batch(rows), runs.footer()])


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        (
            CHECKED,
            "\nVerified: 4 reads, 17.0 kB; 3 corrupt, 1 stale\n  First corrupt: READ: c/o4: wr",
        ),
        (CHECKED[:2], "Verified: 1 read, 5.0 kB; 0 corrupt, 0 stale\n"),
    ],
)
def test_the_header_of_the_report_shows_the_verification(rows: list[Result], wanted: str) -> None:
    assert wanted in render("text", verified_stats(rows)).partition("% Ops")[0]
