"""Whether a run was steady."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.stats.steady import (
    Drifted,
    Stalled,
    TooShort,
    TwoLevels,
    Unsteady,
    check,
)


def noise(rng: random.Random, lasting: float = 0.0) -> Iterator[float]:
    """Standard deviation 1; neighbours are correlated by ``lasting``."""
    value = rng.gauss(0, 1)
    while True:
        yield value
        value = lasting * value + (1 - lasting**2) ** 0.5 * rng.gauss(0, 1)


def series(seconds: int, rate: Callable[[int], float], spread: float = 0.02) -> list[int]:
    """Completions a second, a bit noisy, between two partial seconds."""
    errors = noise(random.Random(seconds))
    whole = [round(rate(s) * (1 + spread * next(errors))) for s in range(seconds)]
    return [3, *whole, 5]


def kinds(counts: list[int], bytes_moved: list[int] | None = None) -> list[type]:
    return [type(finding) for finding in check(counts, bytes_moved or [])]


@pytest.mark.parametrize("seconds", [10, 60, 1000])
def test_a_steady_run_has_no_findings(seconds: int) -> None:
    counts = series(seconds, lambda _s: 1000)
    assert check(counts, [count * 4096 for count in counts]) == []


def test_a_rate_within_one_unit_is_steady() -> None:
    assert check([500] * 60, [500_000] * 60) == []


@pytest.mark.parametrize("counts", [[], [5], [5, 5], [9] * 11])
def test_a_short_run_is_too_short_to_tell(counts: list[int]) -> None:
    (finding,) = check(counts)
    assert finding == TooShort(max(0, len(counts) - 2))


def test_stalls_of_a_short_run_are_reported() -> None:
    assert check([1000] * 7 + [0, 3, 0]) == [TooShort(8), Stalled(2, 8, 2, 6)]
    assert check([1000] * 7 + [0, 3, 0], zero_s=31)[1] == Stalled(2, 8, 2, 37)


@pytest.mark.parametrize("rise", [0.2, -0.2, 3.0])
def test_a_drift_is_found_and_measured(rise: float) -> None:
    (finding,) = check(series(120, lambda s: 1000 * (1 + rise * (s - 60) / 120 / (1 + rise**2))))
    assert isinstance(finding, Drifted)
    assert finding.change == pytest.approx(rise / (1 + rise**2), rel=0.15)


@pytest.mark.parametrize(("seconds", "lasting"), [(12, 0), (60, 0), (60, 0.7), (400, 0.9)])
def test_noise_is_rarely_reported_as_drift(seconds: int, lasting: float) -> None:
    """1 % is the test's level where noise doesn't last; where it does, two or three times that."""
    rng = random.Random(5)
    wrong = 0
    for _ in range(150):
        errors = noise(rng, lasting)
        counts = [round(1000 + 90 * next(errors)) for _ in range(seconds + 2)]
        wrong += Drifted in kinds(counts)
    assert wrong <= 7


def test_highly_variable_rates_are_reported() -> None:
    (finding,) = check(series(60, lambda _s: 1000, spread=0.2))
    assert isinstance(finding, Unsteady)
    assert finding.spread == pytest.approx(0.2, rel=0.2)


def test_few_operations_vary_by_chance() -> None:
    rng = random.Random(3)
    counts = [sum(rng.random() < 0.01 for _ in range(500)) for _ in range(200)]
    assert check(counts) == []


@pytest.mark.parametrize("rate", [5, 20, 100])
def test_a_constant_rate_of_random_arrivals_is_steady(rate: int) -> None:
    """One in a hundred is called unsteady at 1 % each for drift and spread; it was one in six."""
    rng = np.random.default_rng(rate)
    wrong = sum(bool(check(rng.poisson([rate] * 62).tolist())) for _ in range(200))
    assert wrong <= 8


def test_long_operations_are_judged_by_windows_as_long() -> None:
    flow = [4.5, *[1.2, 0.8, 1.0, 1.0] * 15, 2.0]
    assert check(flow, window_s=4) == []
    assert check(flow[:41], window_s=4) == [TooShort(39, 40, 4)]
    falling = [10 - second / 10 for second in range(62)]
    assert isinstance(check(falling, window_s=4)[0], Drifted)
    stalled = [1000.0] * 21 + [0.0] * 8 + [1000.0] * 32
    (finding,) = check(stalled, window_s=2)
    assert isinstance(finding, Stalled)
    assert (finding.seconds, finding.longest) == (58, 8)


def test_seconds_without_anything_between_partial_ones_with_are_a_stall() -> None:
    assert check([5, *[0] * 14, 3]) == [Stalled(14, 14, 14, 0)]


def test_stalls_are_found_and_excluded_from_the_rest() -> None:
    counts = series(60, lambda s: 0 if s % 5 == 4 else 1000)
    assert check(counts) == [Stalled(12, 60, 1, 4)]
    counts = series(60, lambda s: 2 if 20 <= s < 30 else 1000)
    assert check(counts) == [Stalled(10, 60, 10, 20)]


def test_a_slow_run_stalls_only_beyond_chance() -> None:
    rng = random.Random(3)
    counts = [sum(rng.random() < 0.01 for _ in range(200)) for _ in range(100)]
    assert 0 in counts
    assert check(counts) == []
    counts[40:60] = [0] * 20
    (stalled,) = check(counts)
    assert isinstance(stalled, Stalled)
    assert stalled.longest == pytest.approx(20, abs=2)


def test_two_levels_are_reported() -> None:
    (finding,) = check(series(60, lambda s: 1000 if s % 3 else 600))
    assert isinstance(finding, TwoLevels)
    assert (finding.low_seconds, finding.seconds) == (20, 60)
    assert finding.low == pytest.approx(600, rel=0.03)
    assert finding.high == pytest.approx(1000, rel=0.03)


def test_a_run_without_a_success_has_no_rate() -> None:
    assert check([0] * 60, [0] * 60) == []


def test_bytes_are_judged_if_operations_were_steady() -> None:
    counts = [1000] * 62
    moved = [1000 * (1000 + 20 * s) for s in range(62)]
    (finding,) = check(counts, moved)
    assert isinstance(finding, Drifted)
    assert finding.what == "bytes"
    drifting = series(60, lambda s: 1000 + 10 * s)
    (finding,) = check(drifting, [count * 100 for count in drifting])
    assert isinstance(finding, Drifted)
    assert finding.what == "operations"


@given(st.lists(st.integers(0, 10**6), max_size=60))
def test_any_series_is_judged(counts: list[int]) -> None:
    """Invariant: whatever came in a second, a finding of each kind at most."""
    found = check(counts, [7 * count for count in counts])
    assert len({(type(each), getattr(each, "what", "")) for each in found}) == len(found)
