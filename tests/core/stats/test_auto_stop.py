"""When a run has been steady for long enough, by what the master receives."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np
import pytest

from ssbench.core.stats.steady import Stalled, SteadyStateDetector, check

SECOND = 1_000_000_000
BEGIN = 77 * SECOND + 5


def ends_at(rates: list[int], window_s: int = 5, **options: float) -> int | None:
    """The second in which a run ends whose results come ten times a second; None where it doesn't.

    :param rates: successes of each second.
    """
    detector = SteadyStateDetector(window_s=window_s, **options)
    detector.begin(BEGIN)
    for tenth in range(10 * len(rates)):
        now_ns = BEGIN + tenth * SECOND // 10
        if detector.reason_to_end(now_ns):
            return tenth // 10
        rate, part = rates[tenth // 10], tenth % 10
        succeed(detector, now_ns, rate * (part + 1) // 10 - rate * part // 10)
    return None


def succeed(detector: SteadyStateDetector, now_ns: int, count: int) -> None:
    """So many operations end, which took a millisecond and moved 10 kB each."""
    detector.add(now_ns, [1_000_000] * count, [10_000] * count)


def test_the_reason_states_second_and_tolerance() -> None:
    detector = SteadyStateDetector(window_s=1, tolerance=0.05)
    detector.begin(0)
    said = ""
    for second in range(1, 13):
        succeed(detector, second * SECOND - 1, 100)
        said = detector.reason_to_end(second * SECOND)
    assert said.startswith("the rate was steady at second 12: ")
    assert said.endswith("within 5 %")


def test_the_reason_says_what_a_report_finds_before_the_run_became_steady() -> None:
    detector = SteadyStateDetector(window_s=5)
    detector.begin(0)
    counts = [100] * 60
    counts[4] = 0
    said = []
    for at, count in enumerate(counts):
        said.append(detector.reason_to_end(at * SECOND))
        succeed(detector, at * SECOND + SECOND // 2, count)
    first = next(at for at, reason in enumerate(said) if reason)
    assert said[first].startswith(
        f"the rate was steady from second {first - first // 2} to {first}"
    )
    assert "earlier it was not" in said[first]
    (found,) = check(counts[:first])
    assert isinstance(found, Stalled)


def test_a_slow_run_can_be_steady() -> None:
    """With one success in two seconds."""
    detector = SteadyStateDetector(window_s=20)
    detector.begin(0)
    ended = []
    for second in range(120):
        if detector.reason_to_end(second * SECOND):
            ended.append(second)
        succeed(detector, second * SECOND + SECOND // 2, second % 2)
    assert ended[0] == 103, "10 windows of 5 successes, and partial seconds"


def of_eight_users(seconds: int, took_s: float, sizes: Sequence[int]) -> SteadyStateDetector:
    """The detector after these seconds of operations that end together, all users at once."""
    detector = SteadyStateDetector(window_s=5)
    detector.begin(0)
    for number in range(int(seconds / took_s)):
        end_ns = round((number + 1) * took_s * SECOND)
        detector.add(end_ns, [round(took_s * SECOND)] * 8, [sizes[number % len(sizes)]] * 8)
    return detector


def test_long_operations_are_judged_by_their_share_of_each_second_as_in_a_report() -> None:
    """Eight users that upload 50 MiB each in 6.5 s, at a constant rate."""
    detector = of_eight_users(150, 6.5, [50 << 20])
    assert not detector.reason_to_end(60 * SECOND), "a report wants ten windows of 7 s"
    assert detector.reason_to_end(150 * SECOND)


def test_bytes_that_change_are_not_steady_whatever_the_operations_do() -> None:
    assert of_eight_users(60, 0.1, [1000]).reason_to_end(60 * SECOND)
    jump = [1000] * 450 + [2000] * 150
    assert not of_eight_users(60, 0.1, jump).reason_to_end(60 * SECOND)
    falling = [round(10_000 * 0.99**number) for number in range(600)]
    assert not of_eight_users(60, 0.1, falling).reason_to_end(60 * SECOND)


RAMP = [min(1000, 50 * second) for second in range(100)]
STALLED = [1000] * 15 + [0] + [1000] * 44
STEPS = [1000 + 10 * (second // 10) for second in range(60)]
RISING = [10 * round(100 * 1.01**second) for second in range(60)]


@pytest.mark.parametrize(
    ("rates", "options", "end"),
    [
        ([100] * 60, {"window_s": 8}, 16),  # after two windows
        ([100] * 60, {}, 12),  # what a report needs to tell
        ([100] * 60, {"warmup_s": 7.5}, 20),
        (RAMP, {"window_s": 10}, 40),  # when the later half is steady
        (RAMP, {"window_s": 10, "warmup_s": 20}, 40),
        ([50 * second for second in range(100)], {"window_s": 10}, None),
        (STALLED[:30], {"window_s": 10}, None),
        (STALLED, {"window_s": 10}, 40),  # the later half has no stall
        ([1000, 1000, 1000, 1000, 0] * 20, {"window_s": 10}, None),
        (STEPS, {"window_s": 10, "tolerance": 0.05}, 20),
        (RISING, {"window_s": 10, "tolerance": 0.05}, None),
    ],
)
def test_a_run_ends_once_its_later_half_is_steady(
    rates: list[int], options: dict[str, Any], end: int | None
) -> None:
    """After the warm-up, without a stall, and with a drift within the tolerance."""
    assert ends_at(rates, **options) == end


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


@pytest.mark.parametrize("options", [{"window_s": 0}, {"tolerance": 0.0}, {"tolerance": 1.0}])
def test_senseless_bounds_are_rejected(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="a window"):
        SteadyStateDetector(**options)  # type: ignore[arg-type]
