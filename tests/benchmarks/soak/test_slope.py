from __future__ import annotations

import random

import pytest

from benchmarks.soak.slope import ENOUGH_S, slope

NOISE = random.Random(1)


def line(per_s: float, seconds: int = 1200, noise: float = 0.0) -> list[tuple[float, float]]:
    return [(float(s), 5e7 + per_s * s + noise * NOISE.gauss(0, 1)) for s in range(seconds)]


@pytest.mark.parametrize(
    ("per_s", "noise", "within"),
    [(1500.0, 0, 0.01), (-20.0, 0, 0.01), (0.0, 0, 0), (1700.0, 3e5, 150), (0.0, 3e5, 150)],
)
def test_noise_neither_hides_nor_makes_growth(per_s: float, noise: float, within: float) -> None:
    assert slope(line(per_s, noise=noise)) == pytest.approx(per_s, abs=within)


def test_spikes_and_a_single_step_are_no_growth() -> None:
    spiky = [(at, value + (2e7 if at % 100 < 10 else 0)) for at, value in line(0.0)]
    assert slope(spiky) == pytest.approx(0, abs=100)
    step = [(at, value + (1e6 if at > 1100 else 0)) for at, value in line(0.0)]
    assert slope(step) == pytest.approx(0, abs=100)


def test_growth_by_steps_is_growth() -> None:
    stairs = [(at, 5e7 + 200_000 * (at // 120)) for at, _ in line(0.0)]
    assert slope(stairs) == pytest.approx(200_000 / 120, rel=0.1)


def test_few_samples_have_no_slope() -> None:
    assert slope([]) is None
    assert slope([(1.0, 1.0)]) is None
    assert slope(line(1.0, int(ENOUGH_S) - 20)) is None


def test_gaps_do_not_change_the_slope() -> None:
    gaps = [(at, value) for at, value in line(1000.0) if not 300 < at < 900]
    assert slope(gaps) == pytest.approx(1000)
