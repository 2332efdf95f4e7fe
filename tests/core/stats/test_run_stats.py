"""RunStats: what a run's records add up to."""

from __future__ import annotations

import math
import random
from itertools import chain, product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ssbench.core.model import NONE_NS, ErrorKind, Phase, Result
from ssbench.core.operations import CREATE, ENSURE, READ, REMOVE, UPDATE, Operation
from ssbench.core.records import (
    MASTER,
    ClockRecord,
    HostRecord,
    MarkRecord,
    PhaseRecord,
    Record,
    ResultBatch,
)
from ssbench.core.stats.headroom import Headroom, ProcessId
from ssbench.core.stats.host_metrics import MeanMax
from ssbench.core.stats.run_records import RunRecords
from ssbench.core.stats.run_stats import Breakdown, RunStats
from ssbench.core.stats.tally import Verified
from tests.report import runs
from tests.report.runs import render
from tests.statfile.samples import result

MS = 1_000_000


def test_successes_and_errors_are_counted_apart() -> None:
    rows = [runs.result(1, READ, retries=1), runs.failure(2, READ)]
    total = runs.stats_of([runs.batch(rows)]).total()
    assert (total.count, total.errors, total.retries) == (1, 1, 3)
    assert total.last_byte.histogram.count == 1
    assert total.retry_percent == 300.0


def test_the_groups_add_up_to_the_totals() -> None:
    stats = runs.stats_of(runs.normal())
    whole = stats.total()
    assert whole.count == sum(stats.total(o).count for o in stats.operations) == 180
    assert whole.count == sum(stats.total(None, c).count for c in stats.classes())
    rows = runs.some_rows(200, 7)
    moved = sum(row.bytes_moved for row in rows if not row.error)
    assert whole.bytes_moved == moved
    assert whole.last_byte.histogram.max == max(r.last_byte_ns for r in rows if not r.error)


def test_first_byte_is_of_those_that_receive_a_body() -> None:
    stats = runs.stats_of(runs.normal())
    assert stats.total(CREATE).first_byte.histogram.count == 0
    reads = stats.total(READ)
    assert reads.first_byte.histogram.count == reads.count
    assert reads.headers.histogram.count == reads.count


def test_the_slowest_operation_is_known_by_its_transaction() -> None:
    rows = [runs.result(n, READ, last_byte_ns=n * MS) for n in (3, 9, 5)]
    latency = runs.stats_of([runs.batch(rows)]).total().last_byte
    assert latency.worst == (9 * MS, rows[1].transaction_id)


def test_response_times_are_of_operations_that_were_due() -> None:
    rows = [
        runs.result(1, READ, due_ns=0, start_ns=20 * MS),
        runs.result(2, READ),
        runs.failure(3, READ, due_ns=0),
    ]
    total = runs.stats_of([runs.batch(rows), runs.batch(rows)]).total()
    assert (total.response.histogram.count, total.response.histogram.max) == (2, 25 * MS)
    assert total.response.worst == (25 * MS, rows[0].transaction_id)
    assert total.last_byte.histogram.max == 5 * MS


def test_a_runs_seconds_have_its_failures_and_what_was_in_flight() -> None:
    rows = [
        runs.result(1, READ, start_ns=0, last_byte_ns=1500 * MS),
        runs.failure(2, CREATE, start_ns=0, last_byte_ns=500 * MS),
    ]
    seconds = list(runs.stats_of([runs.batch(rows)]).series.seconds())
    assert [(s.count, s.errors, s.in_flight) for s in seconds] == [(0, 1, 1), (1, 0, 0)]


def test_each_blocks_rate_is_over_its_own_span() -> None:
    rows = [
        runs.result(1, READ, start_ns=0, last_byte_ns=500 * MS),
        runs.result(2, CREATE, start_ns=1000 * MS, last_byte_ns=1000 * MS),
    ]
    stats = runs.stats_of([runs.header(), PhaseRecord(Phase.RUN, 10.0, 1), runs.batch(rows)])
    assert stats.total(READ).rate_per_s == 2.0
    assert stats.total(CREATE).rate_per_s == 1.0
    assert stats.total().rate_per_s == 1.0
    assert stats.total(CREATE).bytes_per_s == 5000.0
    assert (stats.started_s, stats.ended_s, stats.duration_s) == (10.0, 12.0, 2.0)


def test_populate_and_cleanup_are_excluded_from_the_figures() -> None:
    stats = runs.stats_of(runs.normal())
    assert stats.phase(Phase.POPULATE).count == 110
    assert stats.phase(Phase.CLEANUP).count == 30
    assert stats.total().operations == 200
    assert set(stats.operations) == {0, 1, 2, 3}


def test_errors_by_kind_keep_the_earliest_as_their_example() -> None:
    late = runs.failure(9, READ, detail="late")
    early = runs.failure(2, CREATE, detail="early")
    other = runs.failure(3, READ, error=ErrorKind.RESET, status=0, detail="reset")
    errors = runs.stats_of([runs.batch([late, early, other])]).errors
    assert set(errors) == {(ErrorKind.STATUS, 503), (ErrorKind.RESET, 0)}
    found = errors[ErrorKind.STATUS, 503]
    assert (found.count, found.example.detail) == (2, "early")
    assert found.example.operation == CREATE


def test_errors_of_other_phases_are_kept_apart_and_merge() -> None:
    def run(run_id: str, detail: str) -> list[Record]:
        row = runs.failure(1, ENSURE, detail=detail, status=413)
        gone = runs.failure(2, REMOVE, detail="why")
        return [
            runs.header(run_id=run_id),
            PhaseRecord(Phase.POPULATE, float(len(detail)), 1),
            runs.batch([row, row], Phase.POPULATE),
            PhaseRecord(Phase.CLEANUP, 20.0, 1),
            runs.batch([gone], Phase.CLEANUP),
        ]

    stats = runs.stats_of([*run("1", "the later"), *run("2", "earlier")])
    assert stats.errors == {}
    (found,) = stats.phase_errors(Phase.POPULATE).items()
    assert found[0] == (ErrorKind.STATUS, 413)
    assert (found[1].count, found[1].example.detail) == (4, "earlier")
    assert stats.phase_errors(Phase.CLEANUP)[ErrorKind.STATUS, 503].count == 2
    assert stats.phase_errors(Phase.IDLE) == {}


def test_invalid_statuses_share_a_row() -> None:
    rows = [runs.failure(n, READ, status=10_000 + n) for n in range(5)]
    assert set(runs.stats_of([runs.batch(rows)]).errors) == {(ErrorKind.STATUS, 0)}


def test_idle_workers_count_among_the_workers() -> None:
    records = [runs.header(), runs.worker(0, "a"), runs.worker(1, "b")]
    stats = runs.stats_of([*records, runs.batch([runs.result(1, READ)])])
    assert stats.requests_per_worker() == {"a": 1, "b": 0}


def test_a_worker_without_its_record_is_named_by_its_number() -> None:
    stats = runs.stats_of([runs.batch([runs.result(1, READ)], worker_index=7)])
    assert stats.requests_per_worker() == {"#7": 1}


def test_values_out_of_range_are_counted() -> None:
    hour = 3600 * 1000 * MS
    rows = [
        runs.result(1, READ, last_byte_ns=hour + 1),
        runs.result(2, READ, start_ns=1 << 62),
        runs.result(3, READ),
    ]
    stats = runs.stats_of([runs.batch(rows)])
    assert stats.out_of_range == 2
    assert len(stats.completions()) == 3601


@pytest.mark.parametrize(("sent", "unaccounted"), [(5, 0), (7, 2), (4, -1), (None, None)])
def test_operations_sent_are_compared_with_results(
    sent: int | None, unaccounted: int | None
) -> None:
    rows = [runs.result(1, READ), runs.failure(2, READ)]
    stats = runs.stats_of([runs.header(), runs.batch(rows), runs.footer(sent=sent, lost=3)])
    assert stats.unaccounted == unaccounted


def test_a_later_versions_operation_is_shown_by_number() -> None:
    row = runs.result(1, READ)._replace(operation=17, size_class=99)
    stats = runs.stats_of([runs.header(), runs.batch([row])])
    assert stats.operations == [0, 1, 2, 3, 17]
    assert RunStats().operation_name(17) == "OPERATION 17"
    assert stats.class_name(99) == "class 99"


def test_host_figures_make_a_verdict_and_no_operation() -> None:
    stats = runs.stats_of([HostRecord(-1, 0.0, {"cpu": 1.0})])
    assert stats.total().operations == 0
    assert stats.verdict().headroom is Headroom.UNKNOWN
    busy = runs.stats_of(runs.normal()).verdict()
    assert busy.headroom is Headroom.NONE
    assert busy.findings[0].who == ProcessId("alpha", "bench-01")


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


def test_what_each_host_did_is_known_once_for_all_its_processes() -> None:
    stats = with_a_store_host("one")
    bench, store = stats.hosts.use()
    assert [(use.host, use.role) for use in (bench, store)] == [
        ("bench-01", "master, 1 worker"),
        ("store", "metrics only"),
    ]
    assert bench.figures == {"cpu_percent": MeanMax(60.0, 60.0)}
    assert store.figures["memory_used_percent"] == MeanMax(50.0, 50.0)


def test_two_runs_have_one_verdict() -> None:
    records: list[Record] = []
    for run_id, percent in (("one", 20.0), ("two", 99.0)):
        records += [
            runs.header(run_id=run_id),
            runs.worker(0, f"worker of {run_id}"),
            runs.host(0, 0, loop_cpu_percent=percent),
        ]
    found = runs.stats_of(records).verdict().findings
    assert [f.who.worker_id for f in found] == ["worker of two"]


def test_clock_corrections_apply_to_later_times_and_not_to_durations() -> None:
    batch = runs.batch([runs.result(1, READ, start_ns=900 * MS, due_ns=890 * MS)])
    other = replace(batch, worker=1)
    frame = [runs.header(), PhaseRecord(Phase.RUN, runs.STARTED_AT, 4)]
    late = ClockRecord(0, Phase.RUN, 200 * MS, MS)
    plain = runs.stats_of([*frame, batch, batch, other])
    corrected = runs.stats_of([*frame, batch, late, batch, other])
    assert plain.completions() == [3]
    assert corrected.completions() == [2, 1]
    for stats in (plain, corrected):
        assert stats.total().last_byte.histogram.max == 5 * MS
    assert plain.total().response.histogram.max == 15 * MS
    assert corrected.total().response.histogram.max == 215 * MS, "its worker began so late"
    assert corrected.clocks == {("5e1f", 0): late}
    # The next phase's origin is another.
    again = runs.stats_of([*frame, late, *frame[1:], batch])
    assert again.completions() == [1]


def test_a_failure_of_0_3_9_has_no_time() -> None:
    header = runs.header(run_id="", ssbench_version="0.3.9")
    row = runs.failure(1, READ, start_ns=0, headers_ns=NONE_NS, last_byte_ns=NONE_NS, retries=5)
    stats = runs.stats_of(
        [header, PhaseRecord(Phase.RUN, 100.0, 1), runs.batch([row], worker_index=-1)]
    )
    total = stats.total()
    assert (total.count, total.errors, total.retries, total.seconds) == (0, 1, 5, None)
    assert stats.completions() == []


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


def test_two_runs_are_aligned_by_wall_clock() -> None:
    records: list[Record] = []
    for run_id, started in (("one", 100.5), ("two", 103.25)):
        records += [
            runs.header(run_id=run_id, started_at=started),
            runs.worker(0, f"worker of {run_id}"),
            PhaseRecord(Phase.RUN, started, 1),
            runs.batch([runs.result(0, READ)]),
            runs.footer(lost=1),
        ]
    merged = runs.stats_of(records)
    assert merged.completions() == [1, 0, 1]
    assert merged.requests_per_worker() == {"worker of one": 1, "worker of two": 1}
    assert merged.run.lost == 2
    assert merged.duration_s == pytest.approx(2.755)


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
    stats = RunStats.of([runs.header(), *batches], in_detail=True)
    assert stats.total().operations == len(rows)
    assert render("text", stats)
    assert stats.breakdown is not None
    for source in ("worker", "url"):
        sums = [each for key, each in stats.breakdown.sources.items() if key[0] == source]
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


def test_stages_are_counted_separately_and_in_total() -> None:
    marks = [MarkRecord(0, "stage", 0, 4), MarkRecord(10 * 10**9, "stage", 1, 8)]
    one = RunStats.of(of_load(marks, at(1, 2, 11), at(12, 13, operation=CREATE)))
    assert one.stage_count == 2
    assert [one.total(stage=stage).count for stage in (0, 1)] == [2, 3]
    assert one.total().count == 5
    assert one.total(CREATE, stage=0).count == 0
    assert one.total().seconds == pytest.approx(12, abs=0.1)


def test_a_run_without_stages_has_one() -> None:
    stats = RunStats.of(of_load([], at(1, 2)))
    assert stats.stage_count == 1
    assert stats.total(stage=0).count == stats.total().count == 2


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


def two_workers(run_id: str = "5e1f") -> list[Record]:
    """Of two workers, each with two URLs; of the second one all READs fail."""
    first = [runs.result(n, READ, url=n % 2, last_byte_ns=n * runs.MS) for n in range(1, 11)]
    second = [runs.failure(n, READ, url=n % 2, start_ns=n * runs.SECOND) for n in range(3)]
    second += [runs.result(20, CREATE, url=1)]
    return [
        runs.header(run_id=run_id), runs.worker(0, "a"), runs.worker(1, "b"), PHASE,
        runs.batch(first), runs.batch(second, worker_index=1), runs.footer(),
    ]  # fmt: skip


def breakdown_of(made: list[Record]) -> Breakdown:
    found = RunStats.of(made, in_detail=True).breakdown
    assert found is not None
    return found


def test_it_is_counted_only_where_it_is_asked_for() -> None:
    assert RunStats.of(two_workers()).breakdown is None


def test_each_worker_and_each_url_has_its_own_sums() -> None:
    found = breakdown_of(two_workers()).sources
    counts = {key[::2]: (tally.count, tally.errors) for key, tally in found.items()}
    assert counts == {
        ("worker", 0): (10, 0), ("worker", 1): (1, 3), ("url", 0): (5, 2), ("url", 1): (6, 1),
    }  # fmt: skip
    assert found["url", "5e1f", 0].service.max == 10 * runs.MS
    assert found["worker", "5e1f", 0].bytes_moved == 50_000


def test_errors_are_counted_by_cause_in_the_second_of_their_end() -> None:
    assert breakdown_of(two_workers()).errors == {
        (ErrorKind.STATUS, 503, 0): 1, (ErrorKind.STATUS, 503, 1): 1, (ErrorKind.STATUS, 503, 2): 1,
    }  # fmt: skip


def test_what_does_not_count_is_in_no_sum() -> None:
    stats = RunStats.of(runs.lasting(10, 20, warmup=5, run_seconds=10), in_detail=True)
    assert stats.breakdown is not None
    counted = {
        source: sum(
            tally.count for key, tally in stats.breakdown.sources.items() if key[0] == source
        )
        for source in ("worker", "url")
    }
    assert 0 < counted["worker"] == counted["url"] == stats.total().count < 200


def test_merged_runs_keep_their_workers_apart() -> None:
    one = RunStats.of([*two_workers("1"), *two_workers("2")], in_detail=True)
    assert one.breakdown is not None
    tallies = one.breakdown.sources
    assert {key[1] for key in tallies} == {"1", "2"}
    assert sum(tally.count for key, tally in tallies.items() if key[0] == "worker") == 22
    assert sum(one.breakdown.errors.values()) == 6


# Headers, footers and workers


def run_of(*records: object) -> RunRecords:
    found = RunRecords()
    for record in records:
        found.add(record)  # type: ignore[arg-type]
    return found


def test_without_a_footer_it_was_cut_off() -> None:
    assert run_of(runs.header()).ending == "cut off"
    assert run_of(runs.header(), runs.footer(ended="interrupted")).ending == "interrupted"
    assert run_of().ending == "cut off"


def test_a_damaged_file_is_not_complete_whatever_its_footer_says() -> None:
    run = run_of(runs.header(), runs.footer())
    run.damage.append("block 3 is damaged")
    assert (run.complete, run.ending) == (False, "cut off")


def test_0_3_9_is_known_by_its_version() -> None:
    assert "load" in run_of(runs.header(run_id="", ssbench_version="0.3.9")).unrecorded
    assert not run_of(runs.header()).unrecorded


def test_footers_of_several_runs_add_up() -> None:
    one = run_of(
        runs.header(run_id="1"), runs.footer(lost=2, skipped={"READ": 1}, warnings=["a"]),
        runs.header(run_id="2"), runs.footer(late=3, skipped={"READ": 4}, left_behind=1),
    )  # fmt: skip
    assert (one.lost, one.late, one.left_behind, one.refused) == (2, 3, 1, 0)
    assert one.skipped == {"READ": 5}
    assert one.warnings == ["a"]


def test_the_number_sent_is_known_if_each_run_records_it() -> None:
    records = [runs.header(run_id="1"), runs.footer(sent=5)]
    assert run_of(*records).sent == 5
    records += [runs.header(run_id="2"), runs.footer(sent=2)]
    assert run_of(*records).sent == 7
    records += [runs.header(run_id="3"), runs.footer()]
    assert run_of(*records).sent is None
    assert run_of(runs.header()).sent is None


def test_one_of_two_cut_off_is_incomplete() -> None:
    one = run_of(runs.header(run_id="1"), runs.footer(), runs.header(run_id="2"))
    assert not one.complete


def test_the_measured_part_lies_between_the_marks_without_ramps() -> None:
    stages = [{"seconds": 7.5, "users": 1}, {"seconds": 11, "users": 2, "warmup": 3}]
    scenario = {**runs.SCENARIO, "warmup": 5, "cooldown": 2, "stages": stages}
    found = run_of(
        runs.header(scenario=scenario),
        MarkRecord(1_500_000_000, "stage"),
        MarkRecord(9_000_000_000, "stage", 1),
        MarkRecord(20_000_000_000, "end", 1),
    )
    assert found.spans_s("5e1f") == [(6.5, 9.0), (12.0, 18.0)]
    assert [span.seconds for span in found.spans] == [2.5, 6.0]
    assert found.spans_s("another") == [(0.0, math.inf)]


def test_a_run_that_ended_in_its_warm_up_has_no_measured_part() -> None:
    scenario = {**runs.SCENARIO, "warmup": 5}
    marks = MarkRecord(0, "stage"), MarkRecord(3_000_000_000, "end")
    assert run_of(runs.header(scenario=scenario), *marks).spans_s("5e1f") == []


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


def test_users_are_unknown_without_records() -> None:
    assert run_of(runs.header()).users_ran is None
    assert not run_of(runs.header()).short_of_users


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


def sums(verified: Verified | None) -> tuple[int, int, int, int, str]:
    assert verified is not None
    assert verified.example is not None
    v = verified
    return v.reads, v.bytes_read, v.corrupt, v.stale, verified.example.detail


def test_checked_and_corrupt_operations_are_counted() -> None:
    # A 503 brings no body that could be checked.
    assert sums(verified_stats(CHECKED).verified) == (4, 17_000, 3, 1, "c/o4: wrong")


def test_the_warm_up_is_verified_too() -> None:
    scenario = {**runs.SCENARIO, "warmup": 0.045}
    stats = verified_stats(CHECKED, scenario=scenario)
    assert sums(stats.verified) == (4, 17_000, 3, 1, "c/o4: wrong")


def test_an_unverified_run_has_no_verification_figures() -> None:
    assert verified_stats(CHECKED, verify=False).verified is None
    assert "Verified" not in render("text", verified_stats(CHECKED, verify=False))


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        (
            CHECKED,
            "\nVerified: 4 READs, 17.0 kB; 3 corrupt, 1 stale\n  First corrupt: READ: c/o4: wr",
        ),
        (CHECKED[:2], "Verified: 1 READs, 5.0 kB; 0 corrupt, 0 stale\n"),
    ],
)
def test_the_header_of_the_report_shows_the_verification(rows: list[Result], wanted: str) -> None:
    assert wanted in render("text", verified_stats(rows)).partition("% Ops")[0]
