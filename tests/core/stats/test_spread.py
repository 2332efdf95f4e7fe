"""How evenly the workers shared the work."""

from __future__ import annotations

import pytest

from ssbench.core.stats.spread import spread_of, spread_of_legacy

NOOP_SAMPLE = [1626, 1746, 1628]


def test_it_is_the_populations() -> None:
    spread = spread_of(NOOP_SAMPLE)
    assert spread is not None
    assert (spread.min, spread.max) == (1626, 1746)
    assert spread.mean == pytest.approx(1666.6667)
    assert spread.std_dev == pytest.approx(56.1031, abs=1e-4)


def test_0_3_9_rounded_its_average_down() -> None:
    spread = spread_of_legacy(NOOP_SAMPLE)
    assert spread is not None
    assert (spread.mean, round(spread.std_dev, 3)) == (1666.0, 56.107)


def test_of_nothing_there_is_none() -> None:
    assert spread_of([]) is None
    assert spread_of_legacy([]) is None
