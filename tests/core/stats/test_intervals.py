"""Intervals by block bootstrap."""

from __future__ import annotations

import random
import tracemalloc
from itertools import islice
from math import ceil, exp
from statistics import NormalDist, fmean

import numpy as np
import pytest

from benchmarks.truth.intervals import MEASURES, ROWS, Row, called_different
from ssbench.core.stats.histogram import Buckets
from ssbench.core.stats.intervals import (
    CONFIDENCE,
    MOST_RESAMPLES,
    ChangeVerdict,
    Percentile,
    Resampled,
    Sides,
    block_length,
    compare,
    estimate_of,
    interval,
    student,
    variance_factor,
)
from tests.core.stats.synthetic import MEDIAN_NS, SIGMA, noise, seconds_of

# Each process of pytest loads all modules of tests: libraries that few tests compare with, and that
# take a second of CPU, are loaded by these.


def varying(seed: int, seconds: int, lasting: float) -> list[float]:
    """Noise around 20."""
    return [20 + each for each in islice(noise(random.Random(seed), lasting), seconds)]


@pytest.mark.parametrize("seconds", [10, 11, 60, 300, 2000])
@pytest.mark.parametrize("lasting", [0.0, 0.3, 0.8, 0.95])
def test_block_length_is_that_of_arch(seconds: int, lasting: float) -> None:
    from arch.bootstrap import optimal_block_length

    for seed in range(5):
        values = np.array(varying(seed, seconds, lasting))
        with np.errstate(divide="ignore", invalid="ignore"):
            expected = optimal_block_length(values)["circular"].iloc[0]
        assert block_length(values) == pytest.approx(expected)


@pytest.mark.parametrize("values", [[5], [5] * 40, [1, 2, 3]])
def test_without_variation_or_seconds_a_block_is_one_second(values: list[int]) -> None:
    assert block_length(values) == 1
    assert Resampled(values, 1, 5).block == 1


@pytest.mark.parametrize(("most", "draws"), [(100_000, 1000), (10_000, 100), (9000, 0)])
def test_fewer_resamples_are_made_of_many_blocks(most: int, draws: int) -> None:
    """Too few of them are none: the figure has no interval."""
    drawn = Resampled([5] * 100, 1, 1000, most)
    assert drawn.blocks == 100
    assert len(drawn.means(drawn.values)[0]) == draws


@pytest.mark.parametrize("lasting", [0.0, 0.8])
def test_draws_are_those_of_arch(lasting: float) -> None:
    """Intervals of mean and percentile agree within the error of 2,000 draws."""
    from arch.bootstrap import CircularBlockBootstrap

    rng = random.Random(3)
    run = seconds_of(rng, 120, rate=100, lasting=lasting)
    counts = np.array([second.count for second in run], float)
    drawn = Resampled(counts, 1, 2000)
    arch = CircularBlockBootstrap(drawn.block, counts, seed=1)
    expected = arch.conf_int(np.mean, 2000, method="percentile")[:, 0]
    low, high = np.quantile(*drawn.means(counts), (0.025, 0.975))
    assert (low, high) == pytest.approx(expected, rel=0.003)

    services = [second.service for second in run]
    latencies = Percentile(services, Buckets.merged(services), 90, 1, 2000)

    def ninetieth(places: np.ndarray) -> float:
        return float(
            Buckets.merged([services[int(at)] for at in places[:, 0]]).quantiles([90])[0] or 0
        )

    arch = CircularBlockBootstrap(latencies.drawn.block, np.arange(120.0)[:, None], seed=1)
    spread = [np.std(arch.apply(ninetieth, 300)), np.std(latencies.draws)]
    assert spread[0] == pytest.approx(spread[1], rel=0.15)


def test_draws_of_a_long_run_take_little_memory_and_are_the_same() -> None:
    """A file of 44 kB has 20,000 seconds: 320 MB of draws, and as much of what they draw."""
    values = np.array([random.Random(4).random()] * 3 + [1.0, 9.0] * 10_000)
    drawn = Resampled(values, 5, 1000)
    tracemalloc.start()
    (means,) = drawn.means(values)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000_000
    blocks = ceil(len(values) / drawn.block)
    draws = np.random.default_rng(5).integers(len(values), size=(1000, blocks))
    circle = np.concatenate([values, values])
    expected = [
        np.concatenate([circle[at : at + drawn.block] for at in draws[n]]).mean()
        for n in (0, 500, 999)
    ]
    assert means[[0, 500, 999]] == pytest.approx(expected)


@pytest.mark.parametrize("freedom", [1, 1.1, 2, 3, 4.5, 10, 100, 1e6])
@pytest.mark.parametrize("level", [0.8, 0.95, 0.975, 0.995, 0.9985])
def test_students_quantile_is_that_of_scipy(level: float, freedom: float) -> None:
    from scipy.stats import t

    assert student(level, freedom) == pytest.approx(t.ppf(level, freedom), rel=1e-5)


@pytest.mark.parametrize(("seconds", "lasting"), [(30, 0.0), (60, 0.5), (120, 0.7)])
def test_intervals_have_their_nominal_coverage(seconds: int, lasting: float) -> None:
    """95 % intervals of the rate and of a percentile, of 120 runs; below 88 % it'd be a lie."""
    rng = random.Random(seconds)
    rate_held = percentile_held = 0
    truth = MEDIAN_NS * exp(NormalDist(0, SIGMA).inv_cdf(0.9))
    for _ in range(120):
        run = seconds_of(rng, seconds, rate=300, lasting=lasting, samples=30)
        counts = [second.count for second in run]
        drawn = Resampled(counts, 1, 200)
        low, high = interval(*drawn.means(counts), 0.95, drawn.blocks, variance_factor([drawn]))
        rate_held += low <= 300 <= high
        services = [second.service for second in run]
        found = Percentile(services, Buckets.merged(services), 90, 1, 200)
        wider = variance_factor([found.drawn])
        low, high = interval(found.draws, 0.95, found.drawn.blocks, wider)
        percentile_held += low <= 1.001 * truth and 0.999 * truth <= high
    assert rate_held >= 106
    assert percentile_held >= 106
    assert rate_held + percentile_held < 240  # else they'd be too wide to be of use


def test_few_blocks_widen_the_interval() -> None:
    values = [float(n) for n in range(1000)]
    low, high = interval(values, 0.95, 1000)
    assert (low, high) == pytest.approx((24, 975), abs=1)
    assert interval(values, 0.95, 8)[0] < 15
    low, high = interval(values, 0.95, 1)
    assert 0 < low < 1, "nothing that is measured is less than 0"
    assert high > 999, "beyond what any draw had"


@pytest.mark.parametrize(("share", "least", "most"), [(0.0, 1.0, 1.6), (0.5, 1.6, 3), (1, 1.8, 4)])
def test_noise_does_not_hide_correlation(share: float, least: float, most: float) -> None:
    """Of 60 s correlated by 0.9, the mean varies 2.2 times as much as draws of blocks of 8 s;
    where half of the variance is noise, as much as 2.1 times."""
    factors = []
    for seed in range(20):
        signal, rest = varying(seed, 60, 0.9), varying(99 - seed, 60, 0.0)
        values = [
            share**0.5 * a + (1 - share) ** 0.5 * b for a, b in zip(signal, rest, strict=True)
        ]
        factors.append(variance_factor([Resampled(values, 1, 1)]))
    assert least <= fmean(factors) <= most


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_pairs_of_runs_are_called_different_as_often_as_they_should(row: Row) -> None:
    """The same with 200 pairs each: make truth."""
    found = called_different(row, 12, seed=5)
    for measure in MEASURES:
        if row.ratio == 1:
            assert found[measure] <= 1
        else:
            assert found[measure] >= int(12 * row.bound)


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


def test_the_mean_of_several_runs_has_the_interval_of_scipy() -> None:
    from scipy.stats import gmean, sem, t

    rates = [100.0, 112.0, 104.0]
    logs = np.log(rates)
    ends = t.interval(CONFIDENCE, 2, loc=logs.mean(), scale=sem(logs))
    found = estimate_of(rates)
    assert found.value == pytest.approx(gmean(rates))
    assert (found.low, found.high) == pytest.approx(tuple(np.exp(ends)))


def test_an_interval_of_two_pairs_that_differ_much_is_unknown() -> None:
    """By Student's t of one degree of freedom it would be from 1e-40 to 1e40."""
    rng = random.Random(8)
    runs = [seconds_of(rng, 20, rate=rate, samples=0) for rate in (1000, 1000, 3000, 500)]
    (row, *_) = compare(runs, rng, percents=(), resamples=300, sides=Sides((2, 2), paired=True))
    (change,) = row.changes
    assert change.ratio == pytest.approx(1.5**0.5, rel=0.1)
    assert (change.low, change.high, change.verdict) == (None, None, ChangeVerdict.NOISE)
    assert change.runs_needed
    assert [each.low is None for each in row.estimates] == [False, True]


@pytest.mark.parametrize(("counts", "resamples"), [([], 5), ([1], 0), ([1], MOST_RESAMPLES + 1)])
def test_the_work_is_bounded(counts: list[int], resamples: int) -> None:
    with pytest.raises(ValueError, match="10,000 resamples"):
        Resampled(counts, 1, resamples)
