"""Counts by stretches of buckets."""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.stats.buckets import Buckets, merged, rank_of
from ssbench.core.stats.coarse_series import Stretches, divided, edges_about

LATENCIES = st.lists(st.integers(0, 10**9), max_size=30)


@given(st.lists(LATENCIES, min_size=1, max_size=6), st.data())
def test_a_draws_counts_are_those_of_its_blocks(
    values: list[list[int]], data: st.DataObject
) -> None:
    """Invariant: what is drawn twice counts twice, whatever the stretches."""
    seconds = [Buckets() for _ in values]
    for second, those in zip(seconds, values, strict=True):
        second.add(those)
    keys = merged(seconds).levels().keys
    if not keys:
        return
    cuts = data.draw(st.sets(st.integers(1, len(keys))))
    edges = sorted({0, len(keys), *cuts})
    draw = data.draw(st.lists(st.integers(0, len(values) - 1), min_size=1, max_size=9))
    found = Stretches(seconds, keys, edges, list).cumulative(draw)
    drawn = merged([seconds[at] for at in draw])
    expected = [sum(n for _key, n in drawn.items(keys[0], keys[end - 1])) for end in edges[1:]]
    assert list(found) == expected


def test_only_the_buckets_between_the_edges_count() -> None:
    second = Buckets()
    second.add([5, 5, 7, 9, 11])
    stretches = Stretches([second], second.levels().keys, [1, 2, 3], list)
    assert list(stretches.cumulative([0, 0])) == [2, 4]


@pytest.mark.parametrize("percent", [0.1, 50.0, 99.9, 100.0])
def test_stretches_are_narrow_about_a_percentile_and_leave_nothing_out(percent: float) -> None:
    cumulative = [10 * n for n in range(1, 5001)]
    edges = edges_about([percent], cumulative)
    assert (edges[0], edges[-1]) == (0, 5000)
    assert len(edges) < 60
    place = bisect_left(cumulative, rank_of(percent, 50000))
    for at in range(max(0, place - 5), place + 1) if percent == 50 else [place]:
        (width,) = (high - low for low, high in pairwise(edges) if low <= at < high)
        assert width <= 12


@pytest.mark.parametrize(("low", "high"), [(0, 1), (3, 50), (3, 51), (3, 52), (0, 9999)])
def test_a_stretch_is_divided_into_a_few(low: int, high: int) -> None:
    edges = divided(low, high)
    assert edges == sorted(set(edges))
    assert (edges[0], edges[-1]) == (low, high)
    assert len(edges) <= 49
