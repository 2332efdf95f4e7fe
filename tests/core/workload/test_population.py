"""Which objects exist, what is known of them, and at what cost in memory."""

from __future__ import annotations

import sys
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.content import initial_size
from ssbench.core.model import SizeClass
from ssbench.core.operations import DELETE
from ssbench.core.scenario.values import crud_profile
from ssbench.core.workload.population import ObjectPool, Population, lifetime_s

ALL = (0.25, 0.25, 0.25, 0.25)


def size_class(
    profile: tuple[float, float, float, float] = ALL,
    initial: int = 5,
    sizes: tuple[int, int] = (1, 999),
) -> SizeClass:
    return SizeClass("tiny", *sizes, crud_profile([*profile]), initial)


def started(size: SizeClass, delete_after_s: int | None = None, verify: bool = False) -> ObjectPool:
    population = Population([size], delete_after_s)
    population.start(verify)
    return population.pools[0]


# Members ----------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", [ALL, (0, 1, 0, 0), (1, 0, 0, 0)])
@given(
    steps=st.lists(st.tuples(st.sampled_from(["join", "leave"]), st.integers(0, 30)), max_size=40)
)
def test_members_are_those_that_joined_and_did_not_leave(
    profile: tuple[float, float, float, float], steps: list[tuple[str, int]]
) -> None:
    """Invariant: members is a set in an order of its own, whatever is kept beside it."""
    pool = started(size_class(profile))
    known, expected = 5, {0, 1, 2, 3, 4}
    for step, choice in steps:
        if step == "join":
            pool.join(pool.reserve(10))
            expected.add(known)
            known += 1
        else:
            number = choice % known
            assert pool.leave(number) == (number in expected)
            expected.discard(number)
        assert len(pool.members) == len(expected)
        assert set(pool.members) == expected


def test_a_reserved_object_is_no_member_before_it_was_created() -> None:
    pool = started(size_class((0, 1, 0, 0)))
    pool.reserve(10)
    assert not pool.leave(5)
    assert list(pool.members) == [0, 1, 2, 3, 4]


# Sizes and versions -----------------------------------------------------------------------


def test_sizes_are_the_initial_ones_until_something_is_written() -> None:
    size = size_class()
    pool = started(size)
    assert [pool.size(n) for n in range(5)] == [initial_size(size, n) for n in range(5)]
    number = pool.reserve(77)
    pool.updated(2, 1, 999)
    assert (pool.size(number), pool.size(2)) == (77, 999)


def test_an_older_version_does_not_replace_a_newer_one() -> None:
    pool = started(size_class())
    for version in (1, 3, 2):
        pool.updated(0, version, 10)
    assert pool.versions is not None
    assert pool.versions[0] == 3


def test_classes_of_more_than_4_gib_keep_their_sizes() -> None:
    pool = started(size_class(sizes=(0, 5 << 30)))
    assert pool.size(pool.reserve(5 << 30)) == 5 << 30


# DELETE -----------------------------------------------------------------------------------


def test_a_close_waits_for_operations_in_flight() -> None:
    pool = started(size_class())
    assert pool.busy is not None
    pool.busy[3] = 2
    assert not pool.close(3)
    pool.hold(3, DELETE, group=2)
    assert (pool.held, pool.closing, list(pool.ready[2])) == (1, 1, [])
    pool.release(3)
    assert not pool.ready[2]
    pool.release(3)
    assert list(pool.ready[2]) == [(3, DELETE)]
    assert 3 not in pool.members
    assert pool.close(4), "nothing is in flight on this one"


# What clean-up has to remove --------------------------------------------------------------


def test_a_created_object_that_was_removed_is_not_listed() -> None:
    pool = started(size_class())
    first, second = pool.reserve(1), pool.reserve(1)
    pool.join(first)
    pool.close(first)
    pool.removed(first)
    assert (list(pool.created()), pool.left_behind, pool.closing) == ([second], 1, 0)


def test_objects_of_unknown_outcome_are_listed_in_order_and_counted_apart() -> None:
    population = Population([size_class()])
    population.start()
    (pool,) = population.pools
    numbers = [pool.reserve(1) for _ in range(6)]
    pool.set_absent(numbers[2])
    for number in numbers[3:5]:
        pool.set_unknown(number)
    pool.set_unknown(0)
    assert (population.left_behind, population.left_unknown) == (5, 2)
    created = pool.created()
    assert next(created) == numbers[0]
    pool.set_absent(numbers[0])
    assert list(created) == [numbers[1], *numbers[3:]]
    assert (population.left_behind, population.left_unknown) == (4, 2)


# Time -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("delete_after_s", "lifetime"), [(1, -0.5), (4, 1), (10, 4), (60, 54)])
def test_objects_leave_before_they_expire_in_the_store(
    delete_after_s: int, lifetime: float
) -> None:
    assert lifetime_s(delete_after_s) == lifetime


def test_concurrent_writes_expire_by_the_earlier_draw() -> None:
    """Which one came back isn't known; to take the later would offer objects past their time."""
    pool = started(size_class(), delete_after_s=60)
    pool.writing(0, 100.0)
    pool.writing(0, 150.0)
    pool.written(0, True)
    pool.written(0, False)
    assert pool.expired(0, 154.0)


def test_an_object_whose_time_ended_while_it_was_closed_is_not_opened_again() -> None:
    pool = started(size_class(), delete_after_s=60)
    number = pool.reserve(10)
    pool.writing(number, 100.0)
    pool.written(number, True)
    pool.join(number)
    pool.close(number)
    pool.expire(200.0)
    pool.reopen(number, 200.0)
    assert number not in pool.members
    assert pool.left_behind == 0


# Cost -------------------------------------------------------------------------------------


def test_a_read_only_class_uses_no_memory_per_object() -> None:
    pool = started(size_class((0, 1, 0, 0), 10_000_000, sizes=(4096, 4096)))
    assert (pool.sizes, pool.versions, pool.busy) == (None, None, None)
    assert sys.getsizeof(pool.members) < 100


def test_an_object_costs_at_most_20_bytes_where_all_operations_are_used() -> None:
    size = size_class(initial=20_000)
    tracemalloc.start()
    try:
        pool = started(size)
        assert tracemalloc.get_traced_memory()[0] < 20 * 20_000
    finally:
        tracemalloc.stop()
    assert len(pool.members) == 20_000


def test_the_repr_shows_the_state() -> None:
    assert repr(Population([size_class()])) == "<Population 5 objects, 0 created>"
