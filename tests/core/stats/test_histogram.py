"""The histogram keeps its stated error, loses nothing on merging, and packs and unpacks whole."""

from __future__ import annotations

import random
from fractions import Fraction
from math import ceil
from statistics import fmean, pstdev
from unittest import mock

import msgpack
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given, settings
from hypothesis import strategies as st

from ssbench.core.errors import MessageError
from ssbench.core.stats import histogram as module
from ssbench.core.stats.histogram import MAX_NS, RELATIVE_ERROR, Histogram

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
    found = of(values).quantile(percent)
    truth = exact_quantile(values, percent)
    assert found is not None
    assert abs(found - truth) <= RELATIVE_ERROR * truth
    assert min(values) <= found <= max(values)


def test_the_stated_error_is_below_a_thousandth() -> None:
    assert RELATIVE_ERROR <= 0.001


@given(st.lists(st.integers(0, 4095), min_size=1, max_size=60), percents)
def test_short_values_have_exact_quantiles(values: list[int], percent: float) -> None:
    assert of(values).quantile(percent) == exact_quantile(values, percent)


@given(st.lists(durations, min_size=1, max_size=60))
def test_what_needs_no_bucket_is_exact(values: list[int]) -> None:
    histogram = of(values)
    assert (histogram.count, histogram.min, histogram.max) == (
        len(values), min(values), max(values),
    )  # fmt: skip
    assert histogram.mean == pytest.approx(fmean(values), rel=1e-12)
    assert histogram.std_dev == pytest.approx(pstdev(values), rel=1e-9)
    assert histogram.quantile(100) == max(values)


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


@given(st.lists(st.integers(-5, MAX_NS + 5), max_size=60))
def test_packing_and_unpacking_is_the_identity(values: list[int]) -> None:
    histogram = of(values)
    packed = msgpack.unpackb(msgpack.packb(histogram.to_packed()))
    assert Histogram.from_packed(packed) == histogram


malformed = st.recursive(
    st.none() | st.booleans() | st.integers() | st.binary(max_size=9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=8),
    max_leaves=12,
)


@given(malformed)
def test_anything_else_is_refused(packed: object) -> None:
    """Invariant: from_packed gives a histogram that packs the same, or raises MessageError."""
    try:
        histogram = Histogram.from_packed(packed)
    except MessageError:
        return
    assert histogram.to_packed() == packed


@settings(max_examples=300)
@given(st.lists(durations, min_size=1, max_size=9), st.integers(0, 7), malformed)
def test_a_damaged_histogram_is_refused_or_whole(
    values: list[int], place: int, damage: object
) -> None:
    """Invariant: whatever one field becomes, the result is refused or answers every question."""
    packed = of(values).to_packed()
    packed[place] = damage
    try:
        histogram = Histogram.from_packed(packed)
    except MessageError:
        return
    low, high = histogram.min, histogram.max
    assert low is not None
    assert high is not None
    for found in histogram.quantiles([1, 50, 99.9, 100]):
        assert found is not None
        assert low <= found <= high
    assert histogram.std_dev is not None
    assert all(count > 0 for _low, _high, count in histogram.buckets())


def test_it_agrees_with_hdrhistogram() -> None:
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
        assert histogram.quantile(percent) == pytest.approx(theirs, rel=0.001), percent
    assert histogram.mean == pytest.approx(oracle.get_mean_value(), rel=0.0005)
    assert histogram.std_dev == pytest.approx(oracle.get_stddev(), rel=0.001)


def test_what_is_out_of_range_is_counted_apart() -> None:
    histogram = of([-1, 5, MAX_NS, MAX_NS + 1])
    assert (histogram.count, histogram.out_of_range) == (2, 2)
    assert (histogram.min, histogram.max) == (5, MAX_NS)


def test_an_empty_one_has_no_figures() -> None:
    empty = Histogram()
    assert (empty.min, empty.max, empty.mean, empty.std_dev) == (None, None, None, None)
    assert empty.quantiles([50, 100]) == [None, None]


@pytest.mark.parametrize("percent", [0, -1, 100.1, float("nan")])
def test_a_percentile_that_is_none_is_refused(percent: float) -> None:
    with pytest.raises(ValueError, match="above 0 and at most 100"):
        of([1]).quantile(percent)


def test_the_rank_is_that_of_the_printed_percentile() -> None:
    # 1000 * 99.9 / 100 is 999.0000000000001 in floats, which would give the value after.
    assert of(list(range(1000))).quantile(99.9) == 998.5


def test_memory_follows_the_spread_not_the_number() -> None:
    histogram = Histogram()
    for _ in range(50):
        histogram.record_many(range(1_000_000, 1_002_000))
    assert histogram.count == 100_000
    assert len(list(histogram.buckets())) < 10


def test_the_buckets_cover_the_values() -> None:
    values = [0, 1, 4095, 4096, 4097, 10**6, MAX_NS]
    found = list(of(values).buckets())
    assert found[0] == (0, 0, 1)
    assert (4096, 4097, 2) in found
    assert sum(count for _low, _high, count in found) == len(values)
    assert all(any(low <= v <= high for low, high, _count in found) for v in values)
    assert all(high - low <= low * 0.0005 for low, high, _count in found)


@given(st.lists(durations, min_size=1, max_size=20), st.integers(1, 7))
def test_values_that_wait_count_like_those_that_are_counted(values: list[int], most: int) -> None:
    """Invariant: how many may wait makes no difference, to no question, asked whenever."""
    once = of(values)
    with mock.patch.object(module, "_MOST_WAITING", most):
        histogram = Histogram()
        for value in values:
            histogram.record(value)
            assert len(histogram._waiting) < most
            assert histogram.quantile(100) == histogram.max
    assert histogram == once
    assert list(histogram.buckets()) == list(once.buckets())
    assert histogram.to_packed() == once.to_packed()
