"""A run by whole seconds."""

from __future__ import annotations

import random
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssbench.core.model import SECOND_NS, Result
from ssbench.core.operations import CREATE, READ
from ssbench.core.stats import series as module
from ssbench.core.stats.results import PhaseResults
from ssbench.core.stats.series import MAX_SECONDS, TimeSeries
from tests.report import runs

S, MS = SECOND_NS, 1_000_000


def read(start_s: float, last_s: float, **changes: object) -> Result:
    times = {"start_ns": round(start_s * S), "last_byte_ns": round(last_s * S)}
    return runs.result(1, READ, **times, **changes)


def series_of(*rows: Result, series: TimeSeries | None = None) -> TimeSeries:
    series = TimeSeries() if series is None else series
    for group in PhaseResults([runs.batch(rows)], {}).groups():
        series.add(group)
    return series


def test_operations_in_flight_are_counted_each_second() -> None:
    failed = runs.failure(9, CREATE, start_ns=S // 2, last_byte_ns=3 * S)
    series = series_of(read(0, 2.5), read(0.5, 0.1), read(1, 1.2), failed)
    assert [s.in_flight for s in series.seconds()] == [2, 3, 1, 0]
    assert [s.in_flight for s in series.seconds(CREATE)] == [1, 1, 1, 0]
    assert series.operations == [CREATE, READ]
    assert [s.count for s in series.seconds(READ)] == [1, 0, 2, 0]  # to the end of the CREATE


def test_seconds_of_failures_alone_are_no_seconds_of_successes() -> None:
    failed = [runs.failure(n, READ, start_ns=n * S, last_byte_ns=0) for n in (0, 5)]
    assert series_of(*failed).per_second() == []


def test_impossible_times_are_counted_apart() -> None:
    late = (MAX_SECONDS + 1) * S
    rows = [read(0, 0), *(runs.result(1, READ, start_ns=at) for at in (late, -(1 << 63)))]
    series = series_of(*rows, runs.failure(2, READ, start_ns=late))
    assert series.untimed == 2
    assert series.per_second() == [1]
    assert [s.in_flight for s in series.seconds()] == [0]


rows = st.builds(
    read,
    st.floats(0, 6),
    st.floats(0, 6),
    due_ns=st.sampled_from([-1, 0]),
    bytes_moved=st.integers(0, 9),
    error=st.sampled_from([0, 0, 1]),
)


@settings(max_examples=50)
@given(st.lists(rows, max_size=30), st.randoms(use_true_random=False))
def test_rows_in_any_order_are_the_whole(some: list[Result], rng: random.Random) -> None:
    """Invariant: cut and ordered in any way, the seconds are the same, nothing is lost."""
    whole = series_of(*some) if some else TimeSeries()
    single = TimeSeries()
    for row in rng.sample(some, len(some)):
        series_of(row, series=single)
    assert list(single.seconds()) == list(whole.seconds())
    assert sum(s.count + s.errors for s in whole.seconds()) == len(some)


def test_latencies_that_wait_to_be_counted_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many results of few seconds come, only the last of them are kept one by one."""
    monkeypatch.setattr(module, "_MAX_WAITING", 5_000)
    (group,) = PhaseResults([runs.batch([read(0.5, 0.001)] * 1000)], {}).groups()
    series = TimeSeries()
    series.add(group)
    tracemalloc.start()
    try:
        for _ in range(200):
            series.add(group)
        held, _peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 400_000  # 200,000 latencies of 8 bytes would be 1.6 MB
    assert next(series.seconds()).service.count == 201_000


def test_memory_of_a_long_run_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_WAITING", 50)
    monkeypatch.setattr(module, "_MAX_BUCKETS", 100)
    rows = [read(second + n / 30, 0.001 * 2**n) for second in range(10) for n in range(9)]
    rows += [read(second, (1000 + 7 * n) / 1e6) for second in range(10) for n in range(20)]
    whole = TimeSeries()
    for half in (rows[::2], rows[1::2]):
        series_of(*half, series=whole)
        assert sum(len(second.service.keys) for second in whole.seconds()) <= 100
    assert 2**-10 < whole.relative_error < 1
    assert [s.count for s in whole.seconds()] == [29] * 10
    for second in whole.seconds():
        of_it = [0.001 * 2**n for n in range(9)] + [(1000 + 7 * n) / 1e6 for n in range(20)]
        (found,) = second.service.quantiles((50,))
        assert found == pytest.approx(sorted(of_it)[14] * S, rel=whole.relative_error)


def test_flows_count_an_operation_by_its_share_in_each_second() -> None:
    series = series_of(read(0.1, 0.1), read(0.9, 1.2), read(0.5, 4), read(7, 1))
    assert series.span == range(9)
    counts, moved = series.flows(series.span)
    shares = [1 + 0.1 / 1.2 + 0.5 / 4, 1 / 1.2 + 1 / 4, 0.1 / 1.2 + 1 / 4, 1 / 4, 0.5 / 4]
    assert counts == pytest.approx([*shares, 0, 0, 1, 0], abs=1e-6)
    assert moved == pytest.approx([5000 * each for each in counts], abs=0.01)
    assert series.flows(range(2, 20))[0] == pytest.approx([*counts[2:], *[0] * 11], abs=1e-6)
    assert TimeSeries().span == range(0)
    assert TimeSeries().flows(range(2)) == ([0, 0], [0, 0])


@given(st.lists(st.tuples(st.floats(0, 20), st.floats(0.001, 30)), min_size=1, max_size=20))
def test_flows_lose_nothing(times: list[tuple[float, float]]) -> None:
    series = series_of(*(read(*each) for each in times))
    counts, moved = series.flows(range(60))
    assert sum(counts) == pytest.approx(len(times), abs=1e-3)
    assert sum(moved) == pytest.approx(5000 * len(times), abs=1)
