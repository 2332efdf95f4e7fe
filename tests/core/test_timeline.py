"""Completions by second."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.timeline import MAX_SECONDS, SECOND_NS, Timeline


def test_seconds_without_a_completion_are_there() -> None:
    timeline = Timeline()
    timeline.add([1 * SECOND_NS, 3 * SECOND_NS - 1, 4 * SECOND_NS], 0)
    assert timeline.per_second() == [0, 1, 1, 0, 1]
    assert timeline.per_second(from_first=True) == [1, 1, 0, 1]


def test_times_that_cannot_be_true_are_counted_apart() -> None:
    timeline = Timeline()
    timeline.add([5, (MAX_SECONDS + 1) * SECOND_NS, -(1 << 63)], 0)
    timeline.add([(MAX_SECONDS + 1) * SECOND_NS], 0)
    assert timeline.untimed == 3
    assert timeline.per_second() == [1]


def test_of_nothing_there_is_no_second() -> None:
    timeline = Timeline()
    timeline.add([], 5)
    assert timeline.per_second() == []


ends = st.lists(st.integers(0, 9 * SECOND_NS), max_size=9)


@given(st.lists(st.tuples(ends, st.integers(0, 5 * SECOND_NS)), min_size=3, max_size=3))
def test_the_order_of_merges_does_not_matter(
    parts: list[tuple[list[int], int]],
) -> None:
    """Invariant: (a + b) + c equals a + (c + b), and no completion is lost."""

    def of(*several: tuple[list[int], int]) -> Timeline:
        timeline = Timeline()
        for values, origin in several:
            timeline.add(values, origin)
        return timeline

    a, b, c = parts
    left = of(a, b)
    left.merge(of(c))
    right = of(a)
    right.merge(of(c, b))
    assert left.per_second() == right.per_second()
    assert sum(left.per_second()) == sum(len(values) for values, _origin in parts)
