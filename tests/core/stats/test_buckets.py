"""Latency counts of one second."""

from __future__ import annotations

import random
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.stats.buckets import (
    MOST_BITS,
    RELATIVE_ERROR,
    Buckets,
    merged,
    rank_of,
    relative_error,
)
from ssbench.core.stats.histogram import MAX_NS

durations = st.integers(0, MAX_NS)


def of(*values: int) -> Buckets:
    buckets = Buckets()
    buckets.add(values)
    return buckets


@given(st.lists(durations, min_size=1), st.sampled_from([0.1, 25, 50, 90, 99, 99.9, 100]))
def test_a_quantile_is_within_the_stated_error(values: list[int], percent: float) -> None:
    (found,) = of(*values).quantiles((percent,))
    true = sorted(values)[rank_of(percent, len(values)) - 1]
    assert found == pytest.approx(true, rel=RELATIVE_ERROR)


def test_below_a_microsecond_quantiles_are_exact() -> None:
    assert of(*range(1024)).quantiles((0.05, 50, 100)) == [0, 511, 1023]


def test_of_nothing_there_is_no_quantile() -> None:
    assert of().quantiles((50, 99)) == [None, None]
    assert of(-1, MAX_NS + 1).quantiles((50,)) == [None]


def test_what_is_out_of_range_is_in_no_bucket() -> None:
    assert of(-1, 0, 5, MAX_NS, MAX_NS + 1).count == 3


@pytest.mark.parametrize(("percent", "rank"), [(99.9, 999), (50, 500), (0.01, 1), (100, 1000)])
def test_ranks_are_those_of_the_printed_number(percent: float, rank: int) -> None:
    assert rank_of(percent, 1000) == rank


@given(st.lists(st.lists(durations), max_size=4), st.randoms(use_true_random=False))
def test_parts_in_any_order_are_the_whole(parts: list[list[int]], rng: random.Random) -> None:
    """Invariant: however values are cut, and whenever they are flushed, the counts are equal."""
    shares = []
    for part in parts:
        share = Buckets()
        for value in part:
            share.add([value])
            if rng.random() < 0.3:
                share.flush()
        shares.append(share)
    rng.shuffle(shares)
    assert merged(shares) == of(*(value for part in parts for value in part))


def test_a_merge_leaves_the_other_as_it_was() -> None:
    one, other = of(1, 2), of(3)
    one.flush()
    other.merge(one)
    one.add([7])
    assert (one.count, other.count) == (3, 3)


@given(
    st.lists(durations, min_size=1), st.integers(0, MOST_BITS), st.sampled_from([1, 50, 99, 100])
)
def test_thinned_buckets_keep_the_error_stated_for_them(
    values: list[int], bits: int, percent: float
) -> None:
    buckets = of(*values)
    buckets.coarsen(bits)
    (found,) = buckets.quantiles((percent,))
    true = sorted(values)[rank_of(percent, len(values)) - 1]
    assert found == pytest.approx(true, rel=relative_error(bits))
    assert buckets.count == len(values)


@given(st.lists(durations), st.integers(0, MOST_BITS), st.integers(0, MOST_BITS))
def test_thinning_by_steps_is_thinning(values: list[int], some: int, more: int) -> None:
    steps, once = of(*values), of(*values)
    for bits in (some, max(some, more), max(some, more)):
        steps.coarsen(bits)
    once.coarsen(max(some, more))
    assert steps == once


def test_thinning_makes_room() -> None:
    buckets = of(*range(1_000_000, 2_000_000, 100))
    sizes = []
    for bits in range(MOST_BITS + 1):
        buckets.coarsen(bits)
        sizes.append(buckets.size)
    assert sizes[0] > 500
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] <= 2


@pytest.mark.parametrize("times", [255, 256, 70_000])
def test_many_of_one_value_are_all_counted(times: int) -> None:
    one = of(5_000, *[1_000_000] * times)
    assert one.count == times + 1
    assert [count for _key, count in one.items(0, 1 << 16)] == [1, times]
    one.merge(of(*[5_000] * 255))
    assert [count for _key, count in one.items(0, 1 << 16)] == [256, times]


def test_a_second_at_rest_takes_little() -> None:
    """A day of four types in an open loop has 700,000 of them."""
    one = of(*[100_000 * 2**n for n in range(15)] * 7)
    one.flush()
    held = (one, one._packed_keys, one._counts)
    assert sum(map(sys.getsizeof, held)) < 150 + 3 * one.size
    assert one._waiting is Buckets()._waiting
