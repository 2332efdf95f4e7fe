"""The universal scalability law against curves whose coefficients are known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ssbench.core.stats.capacity import Law, capacity_of

LOADS = [1, 2, 4, 8, 16, 32, 64, 128]
LAWS = [Law(100, 0.02, 0.0005), Law(100, 0.05, 0), Law(100, 0.01, 1e-5), Law(3, 0, 0.01)]


@pytest.mark.parametrize("law", LAWS)
def test_a_curve_without_noise_gives_its_coefficients(law: Law) -> None:
    found = capacity_of(LOADS, [law.at(n) for n in LOADS])
    assert found
    for each in ("rate_per_s", "contention", "coherency"):
        assert getattr(found.law, each) == pytest.approx(getattr(law, each), rel=1e-6, abs=1e-9)
    assert found.residual < 1e-9


@pytest.mark.parametrize("law", LAWS)
def test_peak_knee_and_doubling_are_those_of_the_curve(law: Law) -> None:
    users = np.arange(1, 10_000)
    rates = np.array([law.at(n) for n in users])
    if not math.isinf(law.peak):
        assert abs(law.peak - users[rates.argmax()]) < 1
    assert abs(law.knee - users[(rates**2 / users).argmax()]) < 1
    wanted = rates.max() / 2
    assert abs(law.users_for(wanted) - users[(rates >= wanted).argmax()]) <= 1
    assert math.isinf(law.users_for(rates.max() * 25))


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    law, noise, held = LAWS[0], np.random.default_rng(1), 0
    for _ in range(40):
        rates = [law.at(n) * (1 + 0.03 * noise.standard_normal()) for n in LOADS]
        found = capacity_of(LOADS, rates)
        assert found
        held += found.knee.low <= law.knee <= found.knee.high
    assert held >= 34  # of 40; with 95 %, fewer in one of 1,000 tests, and the seed is fixed


def test_a_store_that_is_saturated_by_the_lowest_load_has_its_knee_there_at_most() -> None:
    found = capacity_of([4, 8, 16, 32], [400, 401, 399, 400])
    assert found
    assert (found.knee.value, found.knee.low, found.peak_per_s.value) == (
        4, -math.inf, pytest.approx(400, rel=0.01)
    )  # fmt: skip
    assert "The knee lies below the 4 users that were tried." in found.doubts


def test_no_law_of_fewer_than_four_loads() -> None:
    assert capacity_of([1, 2, 2, 4, 8], [10, 20, 20, 40, 0]) is None


@pytest.mark.parametrize(
    ("rates", "doubt"),
    [
        ([10, 20, 40, 80], "The knee lies beyond the 8 users that were tried."),
        ([100, 300, 200, 700], "The rates differ from the curve by "),
        ([100, 180, 330, 430], "The knee is uncertain"),
    ],
)
def test_what_the_runs_do_not_support_is_said(rates: list[float], doubt: str) -> None:
    found = capacity_of([1, 2, 4, 8], rates)
    assert found
    assert any(each.startswith(doubt) for each in found.doubts), (found, found.doubts)


def test_rates_without_any_order_have_a_law() -> None:
    found = capacity_of([1, 2, 4, 8], [10_000, 1, 10_000, 1])
    assert found
    assert found.residual > 0.9
    assert found.doubled.low >= 1
