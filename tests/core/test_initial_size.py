"""Sizes of initial objects."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.initial_size import initial_size
from tests.core.test_naming import size_class


@given(st.integers(0, 2**40), st.integers(0, 2**33), st.integers(0, 10**7))
def test_initial_sizes_are_within_the_class_and_reproducible(
    size_min: int, spread: int, number: int
) -> None:
    size = size_class("any", size_min, size_min + spread)
    assert size_min <= initial_size(size, number) <= size_min + spread
    assert initial_size(size, number) == initial_size(size, number)


def test_initial_sizes_equal_those_of_earlier_releases() -> None:
    """Were they to change, every object of a cluster would be uploaded again."""
    assert [initial_size(size_class(), number) for number in range(4)] == [173, 232, 372, 375]


def test_initial_sizes_are_uniform_both_ends_included() -> None:
    counts = Counter(initial_size(size_class("even", 5, 8), number) for number in range(4000))
    assert set(counts) == {5, 6, 7, 8}
    assert all(abs(count - 1000) < 3 * (4000 * 0.25 * 0.75) ** 0.5 for count in counts.values())
