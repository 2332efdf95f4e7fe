"""Figures of the last seconds."""

from __future__ import annotations

import pytest

from ssbench.core.columns import pack_results
from ssbench.core.live import ProgressTracker, buckets
from ssbench.core.model import RESULT_NUMBERS, ErrorKind, Result
from ssbench.core.operations import CREATE, READ


def test_the_rate_covers_the_last_seconds() -> None:
    watch = ProgressTracker(10_000, None)
    for second in range(1, 11):
        watch.progress(second, 100 * second, 0, 2, 8)
    for second in range(11, 21):
        shown = watch.progress(second, 1000 + 10 * (second - 10), 3, 2, 8)
    assert shown.rate == pytest.approx(10, rel=0.01)
    assert (shown.done, shown.total, shown.errors) == (1100, 10_000, 3)
    assert (shown.workers, shown.users) == (2, 8)
    assert shown.remaining_s == pytest.approx(890)


def test_the_first_figure_has_a_rate() -> None:
    assert ProgressTracker(None, None).progress(0.5, 50, 0, 1, 1).rate == 100


def test_at_the_start_no_rate_is_known() -> None:
    shown = ProgressTracker(100, None).progress(0.0, 0, 0, 1, 1)
    assert (shown.rate, shown.remaining_s, shown.p50_s, shown.p99_s) == (0, None, None, None)


def test_a_run_by_time_knows_when_it_ends() -> None:
    watch = ProgressTracker(None, 60.0)
    assert watch.progress(45.0, 0, 0, 1, 1).remaining_s == 15
    assert watch.progress(61.0, 0, 0, 1, 1).remaining_s == 0


def test_latencies_of_all_workers_count_for_some_seconds() -> None:
    watch = ProgressTracker(None, None)
    watch.add_latencies(1.0, buckets([1_000_000] * 99))
    watch.add_latencies(1.5, buckets([1_000_000_000] * 99))
    watch.add_latencies(1.5, {})
    shown = watch.progress(2.0, 1, 0, 2, 2)
    assert shown.p50_s == pytest.approx(0.001, rel=0.03)
    assert shown.p99_s == pytest.approx(1.0, rel=0.03)
    later = watch.progress(6.2, 1, 0, 2, 2)
    assert later.p50_s == pytest.approx(1.0, rel=0.03)
    assert watch.progress(7.0, 1, 0, 2, 2).p50_s is None


def test_memory_is_bounded() -> None:
    watch = ProgressTracker(None, None)
    for tick in range(10_000):
        watch.add_latencies(tick / 4, {4000: 1})
        watch.progress(tick / 4, tick, 0, 1, 1)
    assert len(watch._done) < 30
    assert len(watch._latencies) < 30


def test_memory_does_not_grow_with_the_workers() -> None:
    watch = ProgressTracker(None, None)
    for worker in range(256):
        watch.add_latencies(1.0 + worker / 10_000, {4000 + worker % 2: 1})
    assert len(watch._latencies) == 1
    assert sum(watch._latencies[0][1].values()) == 256


def test_results_are_counted_by_operation_and_by_cause() -> None:
    tracker = ProgressTracker(None, None)
    rows = [(READ, 0), (READ, ErrorKind.RESET), (CREATE, 0), (READ, ErrorKind.TLS)]
    blank = Result(*[0] * RESULT_NUMBERS)
    for batch in (rows, rows[:1] * 3):
        results = [blank._replace(operation=int(operation), error=e) for operation, e in batch]
        tracker.add_results(pack_results(results))
    shown = tracker.progress(1.0, 7, 2, 1, 1)
    assert shown.operations == {READ: (4, 2), CREATE: (1, 0)}
    assert shown.errors_by_cause == {ErrorKind.RESET: 1, ErrorKind.TLS: 1}
