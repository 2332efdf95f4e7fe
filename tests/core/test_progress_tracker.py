"""Figures of the last seconds."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.columns import pack_results
from ssbench.core.live import (
    SAMPLED_PER_S,
    OperationProgress,
    ProgressTracker,
    buckets,
    middle_s,
    quantile_s,
)
from ssbench.core.model import NONE_NS, RESULT_NUMBERS, ErrorKind, Result
from ssbench.core.operations import CREATE, READ
from ssbench.core.text import latency_text

BLANK = Result(*[0] * RESULT_NUMBERS)._replace(due_ns=NONE_NS, bytes_moved=1000)
MS = 1_000_000


def test_the_rate_covers_the_last_seconds() -> None:
    tracker = ProgressTracker(10_000, None)
    for second in range(1, 11):
        tracker.progress(second, 100 * second, 0, 2, 8)
    for second in range(11, 21):
        shown = tracker.progress(second, 1000 + 10 * (second - 10), 3, 2, 8)
    assert shown.rate == pytest.approx(10, rel=0.01)
    assert (shown.done, shown.total, shown.errors) == (1100, 10_000, 3)
    assert (shown.workers, shown.users) == (2, 8)
    assert shown.remaining_s == pytest.approx(890)


def test_a_first_figure_has_a_rate_and_a_run_by_time_knows_when_it_ends() -> None:
    shown = ProgressTracker(100, None).progress(0.0, 0, 0, 1, 1)
    assert (shown.rate, shown.remaining_s, shown.p50_s, shown.p99_s) == (0, None, None, None)
    tracker = ProgressTracker(None, 60.0)
    shown = tracker.progress(0.5, 50, 0, 1, 1)
    assert (shown.rate, shown.remaining_s) == (100, 59.5)
    assert tracker.progress(61.0, 0, 0, 1, 1).remaining_s == 0


def test_results_of_several_identities_are_counted_by_identity() -> None:
    """Also of one without a result, and in batches without the column of groups."""
    tracker = ProgressTracker(None, None, identities=3)
    rows = [(0, 0), (1, 0), (3, ErrorKind.RESET), (4, 0), (1, ErrorKind.LOST_RACE)]
    blank = Result(*[0] * RESULT_NUMBERS)
    for _ in range(2):
        results = [blank._replace(group=group, error=error) for group, error in rows]
        tracker.add_results(pack_results(results))
    tracker.add_results(pack_results([blank] * 2)[: RESULT_NUMBERS + 1])
    shown = tracker.progress(2.0, 8, 2, 1, 1)
    assert shown.identities == {
        0: OperationProgress(4, 2, 2.0),
        1: OperationProgress(4, 0, 2.0),
        2: OperationProgress(0, 0),
    }
    assert ProgressTracker(None, None).progress(1.0, 0, 0, 1, 1).identities == {}


def test_results_are_counted_by_operation_and_by_cause() -> None:
    tracker = ProgressTracker(None, None)
    rows = [(READ, 0), (READ, ErrorKind.RESET), (CREATE, 0), (READ, ErrorKind.TLS),
            (CREATE, ErrorKind.LOST_RACE)]  # fmt: skip
    blank = Result(*[0] * RESULT_NUMBERS)
    for batch in (rows, rows[:1] * 3):
        results = [blank._replace(operation=int(operation), error=e) for operation, e in batch]
        tracker.add_results(pack_results(results))
    shown = tracker.progress(1.0, 7, 2, 1, 1)
    assert {number: row[:2] for number, row in shown.operations.items()} == {
        READ: (4, 2),
        CREATE: (1, 0),
    }
    assert shown.errors_by_cause == {ErrorKind.RESET: 1, ErrorKind.TLS: 1}


rows = st.tuples(st.sampled_from([0, 1, 2, 200, 300]), st.sampled_from([0, 0, 0, 1, 2]),
                 st.sampled_from([0, 1000, 1200, 70_000, 2**40]))  # fmt: skip


@given(st.lists(st.lists(rows, min_size=1, max_size=5), max_size=8))
def test_every_result_counts(batches: list[list[tuple[int, int, int]]]) -> None:
    """Invariant: however results are packed, none is counted twice or left out."""
    tracker = ProgressTracker(None, None)
    outcomes: Counter[tuple[int, bool]] = Counter()
    for batch in batches:
        tracker.add_results(
            pack_results(
                [BLANK._replace(operation=o, error=e, bytes_moved=size) for o, e, size in batch]
            )
        )
        outcomes.update((operation, error > 0) for operation, error, _ in batch)
    shown = tracker.progress(2.0, outcomes.total(), 0, 1, 1)
    found = {number: row[:2] for number, row in shown.operations.items()}
    assert found == {o: (outcomes[o, False], outcomes[o, True]) for o, _ in outcomes}
    assert shown.bytes_rate == sum(size for batch in batches for *_, size in batch) / 2


def reads(latency_ms: int, count: int = 1) -> list[Any]:
    row = BLANK._replace(operation=int(READ), last_byte_ns=latency_ms * MS)
    return pack_results([row] * count)


def test_at_high_rates_latencies_are_those_of_a_sample() -> None:
    tracker = ProgressTracker(None, None)
    tracker.progress(1.0, 100 * SAMPLED_PER_S, 0, 2, 2)
    for batch in range(10_000):
        tracker.add_results(reads(100 if batch % 20 == 0 else 10, 8))
    shown = tracker.progress(1.1, 100 * SAMPLED_PER_S + 80_000, 0, 2, 2)
    assert shown.operations[READ].done == 80_000
    assert shown.p50_s == pytest.approx(0.01, rel=0.03)
    assert shown.p99_s == pytest.approx(0.1, rel=0.03)


def test_before_the_rate_is_known_no_more_latencies_than_a_sample_are_counted() -> None:
    tracker = ProgressTracker(None, None)
    for latency_ms in (10, 9000):
        tracker.add_results(reads(latency_ms, SAMPLED_PER_S))
    shown = tracker.progress(0.1, 2 * SAMPLED_PER_S, 0, 2, 2)
    assert shown.operations[READ].done == 2 * SAMPLED_PER_S
    assert shown.p99_s == pytest.approx(0.01, rel=0.03)


@pytest.mark.parametrize(
    ("percent", "count", "is_marked"),
    [(99, 999, True), (99, 1000, False), (50, 19, True), (50, 20, False)],
)
def test_a_percentile_with_fewer_than_ten_values_beyond_it_is_marked(
    percent: float, count: int, is_marked: bool
) -> None:
    shown = latency_text(quantile_s(buckets([12_345_678] * count), percent))
    assert shown.startswith("~") is is_marked


class Never(Random):
    def random(self) -> float:
        return 0.9999


def test_batches_that_are_not_in_the_sample_are_counted_all_the_same() -> None:
    tracker = ProgressTracker(None, None, Never())
    tracker.add_results(reads(10))
    tracker.progress(1.0, 100 * SAMPLED_PER_S, 0, 2, 2)
    tracker.add_results(reads(9000, 8))
    shown = tracker.progress(1.1, 100 * SAMPLED_PER_S, 0, 2, 2)
    assert shown.operations[READ].done == 9
    assert shown.p99_s == pytest.approx(0.01, rel=0.03)


def test_memory_is_bounded() -> None:
    tracker = ProgressTracker(None, None)
    tracemalloc.start()
    try:
        for tick in range(1200):
            if tick == 600:
                before, _ = tracemalloc.get_traced_memory()
            tracker.add_results(reads(tick % 7 + 1))
            tracker.progress(tick / 4, tick, 0, 1, 1)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 10_000


def test_response_times_count_from_when_an_operation_was_due() -> None:
    rows = [
        BLANK._replace(operation=int(READ), due_ns=due, start_ns=1000 * MS, last_byte_ns=10 * MS)
        for due in (10 * MS, 30 * MS, 2000 * MS, NONE_NS)
    ]
    tracker = ProgressTracker(None, None)
    tracker.add_results(pack_results(rows))
    shown = tracker.progress(1.0, 4, 0, 1, 1)
    assert shown.p99_s == pytest.approx(0.01, rel=0.03)
    assert shown.response_p50_s == pytest.approx(0.98, rel=0.04)
    assert shown.response_p99_s == pytest.approx(1.0, rel=0.04)


def test_histograms_have_all_successes_of_the_phase_in_the_proportion_of_a_sample() -> None:
    """By operation and size class; far above the rate at which all are looked at."""
    tracker = ProgressTracker(None, None)
    slow = BLANK._replace(operation=int(READ), size_class=1, last_byte_ns=64 * MS)
    batch = pack_results(
        [BLANK._replace(operation=int(READ), last_byte_ns=2 * MS)] * 75
        + [slow] * 25
        + [BLANK._replace(operation=int(CREATE), error=int(ErrorKind.RESET), last_byte_ns=9)] * 10
    )
    done = 0
    for second in range(1, 11):
        for _ in range(100):
            tracker.add_results(batch)
        done += 110 * 100
        shown = tracker.progress(second, done, done // 11, 1, 1)
    found = {
        key: {round(middle_s(bucket), 3): number for bucket, number in counts.items()}
        for key, counts in shown.latencies.items()
    }
    assert found == {(READ, 0): {0.002: 75_000}, (READ, 1): {0.064: 25_000}}
    assert shown.responses == {}


def test_the_histogram_of_response_times_has_all_operations() -> None:
    tracker = ProgressTracker(None, None)
    late = BLANK._replace(due_ns=0, start_ns=30 * MS, last_byte_ns=2 * MS)
    tracker.add_results(pack_results([late, late._replace(error=int(ErrorKind.RESET))]))
    shown = tracker.progress(1.0, 2, 1, 1, 1)
    ((bucket, number),) = shown.responses.items()
    assert (round(middle_s(bucket), 3), number) == (0.032, 2)


# Coarse latencies: 3 % wide, mergeable, and harmless whoever sent them


latencies = st.lists(st.integers(1, 10**13), min_size=1, max_size=200)


@given(latencies, st.sampled_from([50, 95, 99, 100]))
def test_quantiles_are_within_three_percent(values_ns: list[int], percent: float) -> None:
    """Invariant: the value found is within 3 % of the one of that rank."""
    exact = sorted(values_ns)[-(-len(values_ns) * percent // 100) - 1] / 1e9
    found = quantile_s(buckets(values_ns), percent)
    assert found == pytest.approx(exact, rel=0.03)


naturals = st.integers(0, 2**64 - 1)


@given(st.dictionaries(naturals, naturals, max_size=5))
def test_malformed_counts_give_a_latency_or_none(counts: dict[int, int]) -> None:
    """Invariant: whatever the counts are, the quantile is a finite number from 0 on, or None."""
    found = quantile_s(counts, 99)
    assert found is None or 0 <= found < float("inf")
    for bits in (0x7FF0 << 48, 0x7FF8 << 48, 0xFFF0 << 48, 0xC000 << 48):
        assert quantile_s({bits >> 47: 1}, 50) is None, "infinite, or negative"
