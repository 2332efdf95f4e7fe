"""Summaries of the times of parts: bounded, and as exact as that allows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.part_times import MOST, is_possible, summary, weights


@given(st.lists(st.integers(0, 10**13), min_size=1, max_size=1000))
def test_each_time_stands_for_those_up_to_it(times_ns: list[int]) -> None:
    urls = list(range(len(times_ns)))
    count, slowest, url, *times_us = found = summary(times_ns, urls)
    assert is_possible(found)
    assert (count, url) == (len(times_ns), slowest)
    assert times_ns[slowest] == max(times_ns)
    assert len(times_us) == min(count, MOST)
    assert sum(weights(count)) == count
    ascending, at = sorted(times_ns), 0
    for each_us, weight in zip(times_us, weights(count), strict=True):
        at += weight
        assert each_us == -(-ascending[at - 1] // 1000)


def test_other_numbers_are_refused() -> None:
    for wrong in (
        (1,), (1, 0, 0), (1, 1, 0, 5), (2, 0, 0, 5), (1, 0, -1, 5), (2, 0, 0, 5, 4),
        (1, 0, 0, 1 << 41), (1, 0, 0, -1), (0, 0, 0, 5), (300, 0, 0, *range(300)),
    ):  # fmt: skip
        assert not is_possible(wrong)
    assert is_possible(())
