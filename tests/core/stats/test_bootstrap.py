"""Intervals by block bootstrap."""

from __future__ import annotations

import random
from math import exp, log
from statistics import NormalDist, fmean

import pytest

from ssbench.core.stats.bootstrap import (
    MOST_RESAMPLES,
    Latencies,
    Resampled,
    block_length,
    interval,
    widening,
)
from ssbench.core.stats.compare import ChangeVerdict, compare
from ssbench.core.stats.histogram import Buckets
from tests.core.stats.synthetic import MEDIAN_NS, SIGMA, seconds_of


@pytest.mark.parametrize(("seconds", "lasting"), [(30, 0.0), (60, 0.5), (120, 0.7)])
def test_intervals_have_their_nominal_coverage(seconds: int, lasting: float) -> None:
    """95 % intervals of the rate and of a percentile, of 120 runs; below 88 % it'd be a lie."""
    rng = random.Random(seconds)
    rate_held = percentile_held = 0
    truth = MEDIAN_NS * exp(NormalDist(0, SIGMA).inv_cdf(0.9))
    for _ in range(120):
        run = seconds_of(rng, seconds, rate=300, lasting=lasting, samples=30)
        counts = [second.count for second in run]
        drawn = Resampled(counts, rng, 200)
        low, high = interval(drawn.means(counts), 0.95, drawn.blocks, drawn.widening)
        rate_held += low <= 300 <= high
        found = Latencies(drawn, [second.service for second in run], [90]).quantiles(90)
        low, high = interval([value or 0 for value in found], 0.95, drawn.blocks, drawn.widening)
        percentile_held += low <= 1.001 * truth and 0.999 * truth <= high
    assert rate_held >= 106
    assert percentile_held >= 106
    assert rate_held + percentile_held < 240  # else they'd be too wide to be of use


@pytest.mark.parametrize("told", [(50, 99), (), (0.1, 25, 50, 90, 95, 99, 99.9, 100)])
@pytest.mark.parametrize("slow", [1, 40])
def test_a_percentile_is_of_all_resampled_values(told: tuple[float, ...], slow: int) -> None:
    """Whatever was said before of percentiles, and however seconds differ from each other."""
    rng = random.Random(1)
    run = seconds_of(rng, 20, rate=50)
    drawn = Resampled([second.count for second in run], rng, 30)
    slower = [
        Buckets.of([slow * rng.randrange(10**6, 10**9) for _ in range(100 * (at < 7))])
        for at in range(20)
    ]
    seconds = [
        Buckets.merged([second.service, more]) for second, more in zip(run, slower, strict=True)
    ]
    latencies = Latencies(drawn, seconds, told)
    found = {percent: latencies.quantiles(percent) for percent in (0.1, 50, 99, 100)}
    for index, draw in enumerate(drawn.draws.tolist()):
        every = Buckets.merged(
            [seconds[at % 20] for start in draw for at in range(start, start + drawn.block)]
        )
        assert every.quantiles(list(found)) == [values[index] for values in found.values()]


def test_equal_seconds_give_an_interval_of_zero_width() -> None:
    drawn = Resampled([7] * 40, random.Random(1), 50)
    assert interval(drawn.means([7] * 40), 0.95, drawn.blocks) == (7, 7)


def test_no_values_have_no_percentile() -> None:
    drawn = Resampled([0] * 12, random.Random(1), 5)
    assert Latencies(drawn, [Buckets.of([])] * 12, [50]).quantiles(50) == [None] * 5


def test_correlated_seconds_give_longer_blocks() -> None:
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
    assert (low, high) == pytest.approx((24, 975), abs=1)
    assert interval(values, 0.95, 8)[0] < 15
    low, high = interval(values, 0.95, 1)
    assert 0 < low < 1, "nothing that is measured is less than 0"
    assert high > 999, "beyond what any draw had"


@pytest.mark.parametrize(
    ("confidence", "freedom", "quantile", "error"),
    [
        (0.9, 10, 1.812461, 1e-4),
        (0.95, 10, 2.228139, 1e-4),
        (0.95, 29, 2.045230, 1e-4),
        (0.99, 29, 2.756386, 1e-4),
        (0.99, 4, 4.604095, 0.02),
    ],
)
def test_an_interval_is_as_wide_as_students_t_wants(
    confidence: float, freedom: int, quantile: float, error: float
) -> None:
    """Quantiles from tables of the t distribution; the draws reach 1.959964 deviations."""
    low, high = interval([exp(-1), 1, exp(1)], confidence, freedom + 1)
    assert log(high) * 1.959964 == pytest.approx(quantile, rel=error)
    assert low * high == pytest.approx(1)


def test_an_interval_is_widened_by_the_given_factor() -> None:
    values = [1000.0 + n for n in range(1001)]
    narrow, wide = (interval(values, 0.95, 1000, wider) for wider in (1.0, 1.5))
    assert log(wide[1] / wide[0]) == pytest.approx(1.5 * log(narrow[1] / narrow[0]))


@pytest.mark.parametrize(("lasting", "least", "most"), [(0.0, 1.0, 1.1), (0.8, 1.3, 2.2)])
def test_short_blocks_are_corrected_for_correlation(
    lasting: float, least: float, most: float
) -> None:
    rng = random.Random(4)
    factors = []
    for _ in range(20):
        run = seconds_of(rng, 60, lasting=lasting, samples=0)
        factors.append(Resampled([second.count for second in run], rng, 1).widening)
    assert least <= fmean(factors) <= most
    assert widening([5], 1) == 1
    assert widening([5] * 40, 3) == pytest.approx((1 - 3 / 40) ** -0.5)


@pytest.mark.parametrize(("lasting", "most"), [(0.0, 4), (0.8, 12)])
def test_two_runs_of_one_setting_seldom_differ(lasting: float, most: int) -> None:
    """Pairs of 60 s at 99 %: of 400 at most 1 % alarms, 3 % where seconds are correlated by 0.8.
    Without the widening it was 8 % there."""
    rng = random.Random(7)
    assert sum(_differ(rng, lasting, 1.0) for _ in range(400)) <= most


def test_a_difference_of_five_percent_is_always_found() -> None:
    rng = random.Random(8)
    assert sum(_differ(rng, 0.0, 1.05, 90) for _ in range(40)) == 40


def _differ(rng: random.Random, lasting: float, ratio: float, seconds: int = 60) -> bool:
    """Whether compare calls the rates of two runs, whose seconds vary by 5 %, different."""
    sides = [
        seconds_of(rng, seconds, rate=rate, lasting=lasting, samples=0)
        for rate in (1000, 1000 * ratio)
    ]
    rows = compare(sides, rng, percents=(), resamples=300)
    return rows[0].changes[0].verdict is ChangeVerdict.REAL


@pytest.mark.parametrize(("counts", "resamples"), [([], 5), ([1], 0), ([1], MOST_RESAMPLES + 1)])
def test_the_work_is_bounded(counts: list[int], resamples: int) -> None:
    with pytest.raises(ValueError, match="10,000 resamples"):
        Resampled(counts, random.Random(1), resamples)
