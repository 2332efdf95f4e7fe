"""Intervals by block bootstrap."""

from __future__ import annotations

import random
from math import exp
from statistics import NormalDist

import pytest

from ssbench.core.counts.buckets import Buckets
from ssbench.core.figures.bootstrap import MOST_RESAMPLES, Resampled, block_length, interval
from tests.core.figures.synthetic import MEDIAN_NS, SIGMA, seconds_of


@pytest.mark.parametrize(("seconds", "lasting"), [(30, 0.0), (60, 0.5), (120, 0.7)])
def test_intervals_hold_the_truth_about_as_often_as_they_say(seconds: int, lasting: float) -> None:
    """95 % intervals of the rate and of a percentile, of 120 runs; below 88 % it'd be a lie."""
    rng = random.Random(seconds)
    rate_held = percentile_held = 0
    truth = MEDIAN_NS * exp(NormalDist(0, SIGMA).inv_cdf(0.9))
    for _ in range(120):
        run = seconds_of(rng, seconds, rate=300, lasting=lasting, samples=30)
        counts = [second.count for second in run]
        drawn = Resampled(counts, rng, 200)
        low, high = interval(drawn.means(counts), 0.95, drawn.blocks)
        rate_held += low <= 300 <= high
        found = drawn.latencies([second.service for second in run], [90]).quantiles(90)
        low, high = interval([value or 0 for value in found], 0.95, drawn.blocks)
        percentile_held += low <= 1.001 * truth and 0.999 * truth <= high
    assert rate_held >= 106
    assert percentile_held >= 106
    assert rate_held + percentile_held < 240  # else they'd be too wide to be of use


@pytest.mark.parametrize("told", [(50, 99), (), (0.1, 25, 50, 90, 95, 99, 99.9, 100)])
@pytest.mark.parametrize("slow", [1, 40])
def test_a_percentile_is_that_of_all_values_drawn(told: tuple[float, ...], slow: int) -> None:
    """Whatever was said before of percentiles, and however seconds differ from each other."""
    rng = random.Random(1)
    run = seconds_of(rng, 20, rate=50)
    for second in run[:7]:
        second.service.add([slow * rng.randrange(10**6, 10**9) for _ in range(100)])
    drawn = Resampled([second.count for second in run], rng, 30)
    latencies = drawn.latencies([second.service for second in run], told)
    found = {percent: latencies.quantiles(percent) for percent in (0.1, 50, 99, 100)}
    for index, draw in enumerate(drawn._draws):
        every = Buckets()
        for start in draw:
            for at in range(start, start + drawn.block):
                every.merge(run[at % 20].service)
        assert every.quantiles(list(found)) == [values[index] for values in found.values()]


def test_seconds_alike_make_an_interval_of_no_width() -> None:
    drawn = Resampled([7] * 40, random.Random(1), 50)
    assert interval(drawn.means([7] * 40), 0.95, drawn.blocks) == (7, 7)


def test_without_a_value_there_is_no_percentile() -> None:
    drawn = Resampled([0] * 12, random.Random(1), 5)
    assert drawn.latencies([Buckets()] * 12, [50]).quantiles(50) == [None] * 5


def test_blocks_are_longer_where_seconds_are_alike() -> None:
    rng = random.Random(2)
    alone = [second.count for second in seconds_of(rng, 600, samples=0)]
    lasting = [second.count for second in seconds_of(rng, 600, lasting=0.9, samples=0)]
    assert block_length(alone) == 9
    assert 25 <= block_length(lasting) <= 60
    assert block_length(list(range(40))) == 10
    assert block_length([5]) == 1


def test_few_blocks_widen_the_interval() -> None:
    values = [float(n) for n in range(1000)]
    low, high = interval(values, 0.95, 1000)
    assert (low, high) == (24, 975)
    assert interval(values, 0.95, 8)[0] < 15
    assert interval(values, 0.95, 1) == (0, 999)


@pytest.mark.parametrize(("counts", "resamples"), [([], 5), ([1], 0), ([1], MOST_RESAMPLES + 1)])
def test_the_work_is_bounded(counts: list[int], resamples: int) -> None:
    with pytest.raises(ValueError, match="10,000 resamples"):
        Resampled(counts, random.Random(1), resamples)
