"""Which objects exist, what is known of them, and at what cost in memory."""

from __future__ import annotations

import sys

from ssbench.core.model import SizeClass
from ssbench.core.workload.population import ObjectPool, Population
from tests.core.workload.scenes import size_class


def started(size: SizeClass, delete_after_s: int | None = None, verify: bool = False) -> ObjectPool:
    population = Population([size], delete_after_s)
    population.start(verify)
    return population.pools[0]


# Sizes and versions -----------------------------------------------------------------------


def test_classes_of_more_than_4_gib_keep_their_sizes() -> None:
    pool = started(size_class(sizes=(0, 5 << 30)))
    assert pool.size(pool.reserve(5 << 30)) == 5 << 30


# Time -------------------------------------------------------------------------------------


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


def test_the_repr_shows_the_state() -> None:
    assert repr(Population([size_class()])) == "<Population 10 objects, 0 created>"
