"""Which object an operation picks."""

from __future__ import annotations

import random
from collections import Counter
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.model import Job, SizeClass
from ssbench.core.operations import CREATE, DELETE, READ, UPDATE
from ssbench.core.picks import AgeIndex, Pick, Shuffle, zipf
from ssbench.core.scenario.values import profile
from ssbench.core.workload.bench import BenchWorkload
from ssbench.core.workload.picker import BenchPlan
from ssbench.core.workload.population import Population
from tests.core.workload.scenes import all_jobs

N = 20_000


def workload(
    pick: Pick, *operations: int, initial: int = 10, verify: bool = False
) -> BenchWorkload:
    own = profile(dict.fromkeys(map(int, operations), 1.0))
    sizes = [SizeClass("a", 1, 1, own, initial, pick=pick)]
    return BenchWorkload(Population(sizes), BenchPlan(seed=1, verify=verify))


def picked(pick: Pick, *operations: int, count: int = N, **more: int) -> list[int]:
    jobs = islice(all_jobs(workload(pick, *operations, **more)), count)
    return [job.object for job in jobs]


def near(count: int, share: float) -> bool:
    """Within four standard deviations of a binomial count."""
    return abs(count - N * share) < 4 * (N * share * (1 - share)) ** 0.5


def test_uniform_picks_all_alike() -> None:
    counts = Counter(picked(Pick(), READ))
    assert all(near(counts[number], 0.1) for number in range(10))


def test_round_robin_picks_one_after_the_other() -> None:
    assert picked(Pick("round_robin"), READ, count=25) == [*range(10), *range(10), *range(5)]


def test_round_robin_deletes_each_object_once() -> None:
    removed = picked(Pick("round_robin"), DELETE, count=10)
    assert sorted(removed) == list(range(10))


def test_zipf_picks_the_first_most() -> None:
    counts = Counter(picked(Pick("zipf", 1.0), READ))
    whole = sum(1 / rank for rank in range(1, 11))
    assert all(near(counts[number], 1 / (number + 1) / whole) for number in range(10))


@given(st.floats(0.01, 10), st.integers(1, 2**32), st.integers(0, 9))
def test_a_rank_is_below_the_number_of_objects(exponent: float, most: int, seed: int) -> None:
    draw = zipf(exponent, random.Random(seed).random)
    assert all(0 <= draw(n) < n for n in (most, 1, 2, most))


def test_ten_million_ranks_cost_no_more_than_ten() -> None:
    """In numbers drawn: a rejected one costs another."""
    for most in (10, 10_000_000):
        chance = random.Random(4)
        drawn = 0

        def count() -> float:
            nonlocal drawn
            drawn += 1
            return chance.random()  # noqa: B023

        draw = zipf(0.99, count)
        for _ in range(10_000):
            draw(most)
        assert drawn < 1.3 * 10_000


def test_newest_first_picks_the_newest_most_whatever_was_removed() -> None:
    bench = workload(Pick("newest_first", 1.0), READ, DELETE, CREATE, initial=300)
    chance = random.Random(2)
    ranks: Counter[int] = Counter()
    in_flight: list[Job] = []
    reads = 0
    while reads < N:
        members = sorted(bench.population.pools[0].members, reverse=True)
        for job in bench.take(1, 1, 0.0):
            if job.operation == READ:
                ranks[members.index(job.object)] += 1
                reads += 1
            in_flight.append(job)
        while len(in_flight) > 8 or (in_flight and len(members) < 100):
            bench.succeeded([in_flight.pop(chance.randrange(len(in_flight)))], 0.0)
    newest = ranks.most_common(3)
    assert [rank for rank, _ in newest] == [0, 1, 2]
    # With some hundred members the first rank has a share of 1 / (1 + 1/2 + ... + 1/n).
    assert 0.13 < ranks[0] / N < 0.25
    assert ranks[1] / ranks[0] == pytest.approx(1 / 2, rel=0.1)
    assert ranks[3] / ranks[0] == pytest.approx(1 / 4, rel=0.15)


@pytest.mark.parametrize("kind", ["round_robin", "zipf", "newest_first"])
def test_under_verify_an_update_has_its_object_for_itself(kind: str) -> None:
    bench = workload(Pick(kind, 1.0), READ, UPDATE, verify=True)
    jobs = bench.take(1, 100, 0.0)
    updated = [job.object for job in jobs if job.operation == UPDATE]
    assert updated
    assert len(updated) == len(set(updated))
    assert not set(updated) & {job.object for job in jobs if job.operation == READ}


@given(
    st.integers(0, 40),
    st.sets(st.integers(0, 39)),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 99)), max_size=60),
)
def test_ages_are_those_of_a_sorted_list(
    count: int, absent: set[int], steps: list[tuple[int, int]]
) -> None:
    absent = {number for number in absent if number < count}
    ages, given_out = AgeIndex(count, absent), count
    present = set(range(count)) - absent
    for step, value in steps:
        gone = sorted(set(range(given_out)) - present)
        if step == 0:
            ages.append()
            given_out += 1
        elif step == 1 and gone:
            present.add(number := gone[value % len(gone)])
            ages.change(number, 1)
        elif step == 2 and present:
            present.remove(number := sorted(present)[value % len(present)])
            ages.change(number, -1)
        newest = [ages.newest(rank) for rank in range(len(present))]
        assert newest == sorted(present, reverse=True)


def test_shuffle_picks_each_object_once_per_epoch_in_another_order() -> None:
    found = picked(Pick("shuffle"), READ, count=30)
    epochs = [tuple(found[at : at + 10]) for at in (0, 10, 20)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(10))] * 3
    assert len(set(epochs)) == 3
    assert found == picked(Pick("shuffle"), READ, count=30)


def test_shuffle_leaves_out_what_left_and_takes_what_came_in_the_next_epoch() -> None:
    here = workload(Pick("shuffle"), READ, DELETE)
    pool = here.population.pools[0]
    shuffle = Shuffle(pool, Pick("shuffle"), random.Random(1).random)
    before = [shuffle() for _ in range(4)]
    gone = next(number for number in range(10) if number not in before)
    pool.close(gone)
    new = pool.reserve(1)
    pool.join(new)
    assert sorted(before + [shuffle() for _ in range(5)]) == sorted({*range(10)} - {gone})
    assert sorted(shuffle() for _ in range(10)) == sorted({*range(10), new} - {gone})


def test_an_object_in_use_has_its_turn_later_in_the_epoch() -> None:
    here = workload(Pick("shuffle"), READ, UPDATE, initial=40, verify=True)
    first = here.take(1, 30, 0.0)
    here.succeeded(first[10:], 0.0)
    rest = here.take(31, 10, 0.0)
    assert sorted(job.object for job in (*first, *rest)) == list(range(40))
