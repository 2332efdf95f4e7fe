"""Draws against the distributions that they are of."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.picks import zipf


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
