"""When operations fall due."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Iterator
from itertools import islice
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from ssbench.core.arrivals import MODELS, poisson, uniform
from ssbench.core.model import SECOND_NS, Stage
from ssbench.core.units import MAX_RATE
from ssbench.core.workload.bench import BenchWorkload, bench_jobs
from ssbench.core.workload.pacing import (
    LOOKAHEAD_NS,
    MAX_COUNTED,
    Backlog,
    DueTimes,
    due_times,
)
from ssbench.core.workload.picker import BenchPlan
from ssbench.core.workload.population import Population
from tests.core.workload.scenes import scenario, size_class

SECOND = SECOND_NS


def open_loop(*stages: Stage, model: str = "uniform") -> Iterator[int]:
    return due_times(stages, MODELS[model], Random(1))


def paced_reads(
    total: int, offsets: Iterator[int], rate: float, at: tuple[float, int] = (0.0, 0)
) -> tuple[BenchWorkload, DueTimes]:
    """READs at due times, which begin ``at`` (now, offset of the phase)."""
    population = Population([size_class((0, 1, 0, 0))])
    dues = DueTimes(islice(offsets, total), rate)
    dues.begin(*at)
    return BenchWorkload(population, BenchPlan(seed=1, total=total, dues={0: dues})), dues


def test_evenly_spaced_arrivals_do_not_drift_in_a_week() -> None:
    rate = 3
    last = next(islice(uniform(rate, Random()), rate * 604_800, None))
    assert last == 604_800 * SECOND


@example([(0.010000000000000002, 100.0)], "uniform")  # a length that rounding makes shorter
@given(
    st.lists(st.tuples(st.floats(0.01, 3), st.floats(0.5, 200)), min_size=1, max_size=4),
    st.sampled_from(sorted(MODELS)),
)
def test_due_times_rise_and_end_with_the_last_stage(
    stages: list[tuple[float, float]], model: str
) -> None:
    times = list(open_loop(*(Stage(s, 1, rate) for s, rate in stages), model=model))
    assert times == sorted(times)
    end_ns = round(sum(s for s, _ in stages) * SECOND)
    assert all(0 <= due_ns < end_ns for due_ns in times)
    if model == "uniform":
        assert len(times) == pytest.approx(sum(s * r for s, r in stages), abs=len(stages) + 1)


def test_the_same_seed_gives_the_same_arrivals() -> None:
    assert list(open_loop(Stage(1, 1, 99), model="poisson")) == list(
        open_loop(Stage(1, 1, 99), model="poisson")
    )


def test_jobs_are_taken_ahead_by_the_transit_time() -> None:
    paced, dues = paced_reads(1000, open_loop(Stage(math.inf, 4, 100)), 100, (50.0, 7 * SECOND))
    first = paced.take(1, 500, 50.0)
    assert [job.due_ns - 7 * SECOND for job in first] == [n * SECOND // 100 for n in range(20)]
    assert paced.take(21, 500, 50.0) == []
    assert len(paced.take(21, 500, 50.1)) == 10
    assert len(paced.take(31, 3, 51.0)) == 3, "what is late waits for the next time"
    assert paced.take(34, 500, 51.0)[0].due_ns - 7 * SECOND == 33 * SECOND // 100
    assert dues.ahead >= 100 * LOOKAHEAD_NS // SECOND


def test_jobs_are_taken_in_batches() -> None:
    paced, _ = paced_reads(10_000, open_loop(Stage(math.inf, 4, 1000)), 1000)
    given = [len(paced.take(1, 500, n / 1000)) for n in range(150)]
    assert sum(given) == 150 + 150
    assert sorted(given)[-4:] == [0, 50, 50, 200]


def test_due_times_end_with_the_stages_or_the_operations() -> None:
    paced, _ = paced_reads(1000, open_loop(Stage(1, 4, 10)), 10)
    assert len(paced.take(1, 100, 0.5)) == 7
    assert not paced.finished
    assert len(paced.take(8, 100, 5.0)) == 3
    assert paced.finished
    paced, _ = paced_reads(5, open_loop(Stage(math.inf, 4, 10)), 10)
    assert len(paced.take(1, 100, 5.0)) == 5
    assert paced.finished


def test_overdue_unstarted_operations_are_counted() -> None:
    paced, dues = paced_reads(1000, open_loop(Stage(math.inf, 4, 100)), 100, (10.0, SECOND))
    jobs = paced.take(1, 500, 10.0)
    assert len(jobs) == 20
    paced.withdrawn(jobs[5:])
    # Due until 0.1 s: 10, of which 5 were kept.
    assert dues.never_started(10.1) == 5
    # Nobody asked for those from 0.2 s to 1 s.
    assert dues.never_started(11.0) == 15 + 80


def test_the_oldest_waiting_job_is_known() -> None:
    paced, dues = paced_reads(1000, open_loop(Stage(20, 4, 100)), 100, (10.0, SECOND))
    paced.take(1, 10, 10.0)
    assert dues.waiting_since(10.05) is None, "what is due was taken"
    assert dues.waiting_since(12.0) == pytest.approx(10.09, abs=0.011)
    paced.take(1, 500, 12.0)
    assert dues.waiting_since(12.0) is None
    paced, dues = paced_reads(5, open_loop(Stage(20, 4, 100)), 100)
    paced.take(1, 5, 1.0)
    assert dues.waiting_since(9.0) is None, "there are no more"


@pytest.mark.parametrize(("per_s", "missed"), [(199, False), (150, True), (80, True)])
def test_a_backlog_that_grows_misses_the_rate(per_s: int, missed: bool) -> None:
    backlog = Backlog()
    found = [backlog.grows(t / 2, 100 * t, per_s * t // 2) for t in range(1, 41)]
    assert found[-1] is missed
    assert not found[0], "half a second proves nothing"


@pytest.mark.parametrize("seed", range(5))
def test_a_backlog_of_random_arrivals_and_slow_operations_does_not(seed: int) -> None:
    rng, backlog = Random(seed), Backlog()
    dues = [due / SECOND for due in islice(poisson(100, rng), 2000)]
    ends = sorted(due + rng.expovariate(0.5) for due in dues)
    for t in range(12, 41):
        assert not backlog.grows(t / 2, 50.0 * t, sum(end < t / 2 for end in ends))


def test_no_operation_is_overdue_beyond_the_count() -> None:
    paced, dues = paced_reads(25, open_loop(Stage(math.inf, 4, 100)), 100)
    assert len(paced.take(1, 500, 0.0)) == 20
    assert dues.never_started(9.0) == 5
    assert len(paced.take(1, 500, 1.0)) == 5
    assert dues.never_started(9.0) == 0


@pytest.mark.parametrize("arrivals", ["uniform", "poisson"])
def test_a_large_backlog_costs_neither_time_nor_memory(arrivals: str) -> None:
    """Every due time was drawn and kept: the master waited for 13 s after a minute at 200,000/s."""
    given = scenario(size_class((0, 1, 0, 0)), count=None)
    stages = (Stage(100, 4, MAX_RATE), Stage(1000, 4, MAX_RATE / 2))
    paced = bench_jobs(replace(given, stages=stages, arrivals=arrivals), 1, Population(given.sizes))
    assert paced.dues
    paced.dues.begin(0.0, 0)
    taken = len(paced.take(1, 500, 0.0))
    tracemalloc.start()
    try:
        missed = paced.dues.never_started(1000.0)
        assert tracemalloc.get_traced_memory()[1] < 40e6
    finally:
        tracemalloc.stop()
    assert missed + taken == pytest.approx(100 * MAX_RATE + 900 * MAX_RATE / 2, rel=1e-4)
    paced.withdrawn(paced.take(1, 50, 1000.0))
    assert paced.dues.never_started(1000.0) == pytest.approx(missed, rel=1e-4)


@pytest.mark.parametrize("millis", [0, 1, MAX_COUNTED - 1, MAX_COUNTED, 3 * MAX_COUNTED])
def test_a_backlog_of_any_length_is_known(millis: int) -> None:
    offsets, rate = open_loop(Stage(math.inf, 4, 1000)), 1000.0
    dues = DueTimes(offsets, rate, lambda since_ns, until_ns: (until_ns - since_ns) * rate / SECOND)
    dues.begin(0.0, 0)
    assert dues.never_started(millis / 1000) == pytest.approx(millis, abs=millis >= MAX_COUNTED)
