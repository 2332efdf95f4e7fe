"""Histograms keep their stated errors, and lose nothing on merging."""

from __future__ import annotations

import random
import tracemalloc
from fractions import Fraction
from math import ceil, sqrt

import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.stats.histogram import (
    MAX_NS,
    MOST_BITS,
    RELATIVE_ERROR,
    SECOND_ERROR,
    Buckets,
    Histogram,
    coarser,
    rank_of,
    relative_error,
    summed,
)

durations = st.one_of(
    st.integers(0, 5000), st.integers(1000, MAX_NS), st.integers(0, 63).map(lambda b: 1 << b % 41)
)
percents = st.one_of(
    st.integers(1, 100).map(float), st.sampled_from([0.1, 50, 99.9, 99.99, 100]), st.floats(1, 100)
)


def of(values: list[int]) -> Histogram:
    histogram = Histogram()
    histogram.record_many(values)
    return histogram


def exact_quantile(values: list[int], percent: float) -> float:
    """The convention, on the sorted values themselves."""
    ordered = sorted(values)
    rank = len(ordered) * Fraction(repr(percent)) / 100
    if rank.denominator != 1:
        return ordered[int(rank)]
    at = int(rank)
    return ordered[-1] if at == len(ordered) else (ordered[at - 1] + ordered[at]) / 2


@given(st.lists(durations, min_size=1, max_size=60), percents)
def test_a_quantile_is_within_the_stated_error(values: list[int], percent: float) -> None:
    """Invariant: |quantile - truth| <= RELATIVE_ERROR * truth, and min <= quantile <= max."""
    found = of(values).percentile(percent)
    truth = exact_quantile(values, percent)
    assert found is not None
    assert abs(found - truth) <= RELATIVE_ERROR * truth
    assert min(values) <= found <= max(values)


@given(st.lists(st.lists(durations, max_size=20), max_size=5), st.randoms(use_true_random=False))
def test_merging_in_any_order_equals_recording_all(
    parts: list[list[int]], rng: random.Random
) -> None:
    """Invariant: any order of merges, and one histogram of all values, are equal."""
    whole = of([value for part in parts for value in part])
    rng.shuffle(parts)
    merged = Histogram()
    for part in parts:
        merged.merge(of(part))
    assert merged == whole


def test_quantiles_agree_with_hdrhistogram() -> None:
    rng = random.Random(4)
    values = [int(rng.lognormvariate(16, 1.5)) + 1000 for _ in range(19_999)]
    oracle = HdrHistogram(1, MAX_NS, 4)
    for value in values:
        oracle.record_value(value)
    histogram = of(values)
    for percent in (1, 25, 50, 90, 95, 99, 99.9, 99.99, 100):
        # Asked by position, because the two round a fractional rank differently.
        position = ceil(len(values) * percent / 100)
        theirs = oracle.get_value_at_percentile(100 * position / len(values))
        assert histogram.percentile(percent) == pytest.approx(theirs, rel=0.001), percent


def test_values_out_of_range_are_counted_apart() -> None:
    histogram = of([-1, 5, MAX_NS, MAX_NS + 1])
    assert (histogram.count, histogram.out_of_range) == (2, 2)
    assert (histogram.min, histogram.max) == (5, MAX_NS)


def test_memory_follows_the_range_not_the_count() -> None:
    tracemalloc.start()
    try:
        histogram = Histogram()
        for _ in range(50):
            histogram.record_many(range(1_000_000, 1_002_000))
        histogram.record_many([0, MAX_NS])
        held, _most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert histogram.count == 100_002
    assert held < 700_000


@given(st.lists(st.integers(0, MAX_NS) | durations, min_size=1, max_size=60))
def test_all_figures_but_quantiles_are_exact_in_any_portions(values: list[int]) -> None:
    """Invariant: mean and standard deviation are those of whole numbers, without rounding."""
    many = of(values * 50)
    assert many.mean == 50 * sum(values) / (50 * len(values))
    one = Histogram()
    for value in values:
        one.record_many([value])
    total, squares, n = sum(values), sum(value * value for value in values), len(values)
    assert one.std_dev == sqrt(n * squares - total * total) / n
    assert (one.count, one.min, one.max, one.percentile(100)) == (
        n, min(values), max(values), max(values),
    )  # fmt: skip
    assert one == of(values)


def quantile(buckets: Buckets, percent: float) -> float | None:
    return buckets.quantiles((percent,))[0]


@given(st.lists(st.integers(0, MAX_NS), min_size=1), st.sampled_from([0.1, 25, 50, 99.9, 100]))
def test_a_seconds_quantile_is_within_the_stated_error(values: list[int], percent: float) -> None:
    true = sorted(values)[rank_of(percent, len(values)) - 1]
    assert quantile(Buckets.of(values), percent) == pytest.approx(true, rel=SECOND_ERROR)


def wider(buckets: Buckets, bits: int) -> Buckets:
    return Buckets(*summed(coarser(buckets.keys, bits), buckets.counts))


@given(
    st.lists(st.integers(0, MAX_NS), min_size=1),
    st.integers(0, MOST_BITS),
    st.sampled_from([1, 50, 99, 100]),
)
def test_coarser_buckets_keep_the_error_stated_for_them(
    values: list[int], bits: int, percent: float
) -> None:
    buckets = wider(Buckets.of(values), bits)
    true = sorted(values)[rank_of(percent, len(values)) - 1]
    assert quantile(buckets, percent) == pytest.approx(true, rel=relative_error(bits))
    assert buckets.count == len(values)


@pytest.mark.parametrize("bits", range(MOST_BITS + 1))
def test_the_error_of_coarser_buckets_is_no_less_than_stated(bits: int) -> None:
    lowest = 1 << 40  #: the lower edge of an octave, where buckets are widest
    found = quantile(wider(Buckets.of([lowest]), bits), 100)
    assert found is not None
    assert found / lowest - 1 == pytest.approx(relative_error(bits), rel=1e-6)


def test_a_quantile_is_a_share_as_in_numpy() -> None:
    """A percent in its place is an error, never another figure."""
    histogram = of(list(range(1, 1001)))
    assert histogram.quantile(0.99) == histogram.percentile(99) == 990.5
    assert histogram.quantile(1) == histogram.percentile(100) == 1000
    # 1000 * 99.9 / 100 is 999.0000000000001 in floats, which would give the value after.
    assert histogram.percentile(99.9) == 999.5
    for wrong in (0, 99, -0.5):
        with pytest.raises(ValueError, match="must be above 0 and at most 1"):
            histogram.quantile(wrong)
    for wrong in (0, -1, 100.1, float("nan")):
        with pytest.raises(ValueError, match="above 0 and at most 100"):
            histogram.percentile(wrong)
