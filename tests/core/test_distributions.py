"""Draws against the distributions that they are of."""

from __future__ import annotations

import math
from collections import Counter
from random import Random
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.distributions import LogNormal, SizeBins, zipf

N = 50_000
UNIT = st.floats(0, 1, exclude_max=True)


def near(count: int, share: float) -> bool:
    """Within four standard deviations of a binomial count."""
    return abs(count - N * share) < 4 * math.sqrt(N * share * (1 - share))


def test_log_normal_sizes_follow_their_distribution() -> None:
    chance, sizes = Random(1), LogNormal(1000, 1.2, 100, 10_000)
    drawn = [sizes.at(chance.random()) for _ in range(N)]
    whole = NormalDist(math.log(1000), 1.2)
    low, high = whole.cdf(math.log(100)), whole.cdf(math.log(10_001))
    for edge in (200, 500, 1000, 2000, 5000):
        share = (whole.cdf(math.log(edge)) - low) / (high - low)
        assert near(sum(size < edge for size in drawn), share)


@given(
    st.lists(st.tuples(st.integers(0, 99), st.floats(0.001, 1000)), min_size=1, max_size=9), UNIT
)
def test_a_size_of_a_histogram_is_in_one_of_its_bins(
    widths: list[tuple[int, float]], u: float
) -> None:
    bins, at = [], 0
    for width, weight in widths:
        bins.append((at, at + width, weight))
        at += width + 5
    size = SizeBins(tuple(bins)).at(u)
    assert any(low <= size <= high for low, high, _ in bins)


def test_sizes_follow_the_weights_of_a_histogram_and_are_uniform_within_a_bin() -> None:
    chance, sizes = Random(2), SizeBins(((10, 10, 5.0), (100, 109, 2.0), (20, 20, 1.0)))
    counts = Counter(sizes.at(chance.random()) for _ in range(N))
    assert near(counts[10], 5 / 8)
    assert near(counts[20], 1 / 8)
    assert all(near(counts[size], 2 / 8 / 10) for size in range(100, 110))
    assert counts.total() == N


@pytest.mark.parametrize("exponent", [0.5, 0.99, 1.0, 1.5, 3.0])
def test_ranks_follow_zipf_s_law(exponent: float) -> None:
    draw, most = zipf(exponent, Random(3).random), 1000
    counts = Counter(draw(most) for _ in range(N))
    weights = [rank**-exponent for rank in range(1, most + 1)]
    whole = sum(weights)
    assert set(counts) <= set(range(most))
    for rank in (0, 1, 2, 9):
        assert near(counts[rank], weights[rank] / whole), rank
    tail = sum(count for rank, count in counts.items() if rank >= 100)
    assert near(tail, sum(weights[100:]) / whole)


@given(st.floats(0.01, 10), st.integers(1, 2**32), st.integers(0, 9))
def test_a_rank_is_below_the_number_of_objects(exponent: float, most: int, seed: int) -> None:
    draw = zipf(exponent, Random(seed).random)
    assert all(0 <= draw(n) < n for n in (most, 1, 2, most))


def test_ten_million_ranks_cost_no_more_than_ten() -> None:
    """In numbers drawn: a rejected one costs another."""
    for most in (10, 10_000_000):
        chance = Random(4)
        drawn = 0

        def count() -> float:
            nonlocal drawn
            drawn += 1
            return chance.random()  # noqa: B023

        draw = zipf(0.99, count)
        for _ in range(10_000):
            draw(most)
        assert drawn < 1.3 * 10_000
