"""When a run has been steady for long enough, by what the master receives."""

from __future__ import annotations

from statistics import median

import numpy as np
import pytest

from ssbench.core.stats.auto_stop import SteadyStateDetector
from ssbench.core.stats.steady import Stalled, check

SECOND = 1_000_000_000
BEGIN = 77 * SECOND + 5


def ends_at(rates: list[int], window_s: int = 5, **options: float) -> int | None:
    """The second in which a run ends whose results come ten times a second; None where it doesn't.

    :param rates: successes of each second.
    """
    detector = SteadyStateDetector(window_s=window_s, **options)
    detector.begin(BEGIN)
    done = 0
    for tenth in range(10 * len(rates)):
        if detector.reason_to_end(BEGIN + tenth * SECOND // 10, done):
            return tenth // 10
        rate, part = rates[tenth // 10], tenth % 10
        done += rate * (part + 1) // 10 - rate * part // 10
    return None


def test_a_steady_run_ends_after_two_windows() -> None:
    assert ends_at([100] * 60, window_s=8) == 16
    assert ends_at([100] * 60) == 12, "what a report needs to tell"


def test_the_reason_states_second_and_tolerance() -> None:
    detector = SteadyStateDetector(window_s=1, tolerance=0.05)
    detector.begin(0)
    said = ""
    for second in range(1, 13):
        detector.reason_to_end(second * SECOND - 1, 100 * second)
        said = detector.reason_to_end(second * SECOND, 100 * second)
    assert said.startswith("the rate was steady at second 12: ")
    assert said.endswith("within 5 %")


def test_the_reason_says_what_a_report_finds_before_the_run_became_steady() -> None:
    detector = SteadyStateDetector(window_s=5)
    detector.begin(0)
    counts = [100] * 60
    counts[4] = 0
    said = [detector.reason_to_end(at * SECOND, sum(counts[:at])) for at in range(60)]
    first = next(at for at, reason in enumerate(said) if reason)
    assert said[first].startswith(
        f"the rate was steady from second {first - first // 2} to {first}"
    )
    assert "earlier it was not" in said[first]
    (found,) = check(counts[:first])
    assert isinstance(found, Stalled)


def test_seconds_count_when_the_warm_up_is_over() -> None:
    assert ends_at([100] * 60, warmup_s=7.5) == 20
    ramp = [min(1000, 50 * second) for second in range(100)]
    assert ends_at(ramp, window_s=10) == 40, "without it, when the later half is steady"
    assert ends_at([50 * second for second in range(100)], window_s=10) is None
    assert ends_at(ramp, window_s=10, warmup_s=20) == 40


def test_a_slow_run_can_be_steady() -> None:
    """With one success in two seconds."""
    detector = SteadyStateDetector(window_s=20)
    detector.begin(0)
    ended = [s for s in range(60) if detector.reason_to_end(s * SECOND, (s + 1) // 2)]
    assert ended[0] == 40


def test_a_stall_is_not_steady() -> None:
    counts = [1000] * 60
    counts[15] = 0
    assert ends_at(counts[:30], window_s=10) is None
    assert ends_at(counts, window_s=10) == 40, "the later half has none"
    assert ends_at([1000, 1000, 1000, 1000, 0] * 20, window_s=10) is None


@pytest.mark.parametrize("rate", [20, 100, 1000])
def test_a_store_that_slows_is_never_steady_whatever_the_noise(rate: int) -> None:
    """By 2 % a second, under Poisson arrivals; a constant rate is steady, sooner if it is high."""
    rng = np.random.default_rng(rate)
    ends = []
    for _ in range(10):
        slowing = rng.poisson([rate * 0.98**second for second in range(60)])
        assert ends_at(slowing.tolist(), window_s=9) is None
        ends.append(ends_at(rng.poisson([rate] * 400).tolist(), window_s=9) or 999)
    assert 18 <= median(ends) <= max(20, 4000 / rate)


def test_a_drift_within_the_tolerance_is_steady_and_beyond_it_not() -> None:
    assert ends_at([1000 + 10 * (s // 10) for s in range(60)], window_s=10, tolerance=0.05) == 20
    rising = [10 * round(100 * 1.01**second) for second in range(60)]
    assert ends_at(rising, window_s=10, tolerance=0.05) is None


def test_noise_beyond_the_tolerance_never_ends() -> None:
    assert ends_at([50, 150] * 30, tolerance=0.05) is None


def test_a_run_without_a_success_never_ends() -> None:
    assert ends_at([0] * 60) is None


@pytest.mark.parametrize("options", [{"window_s": 0}, {"tolerance": 0.0}, {"tolerance": 1.0}])
def test_senseless_bounds_are_rejected(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="a window"):
        SteadyStateDetector(**options)  # type: ignore[arg-type]
