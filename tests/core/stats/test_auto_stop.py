"""When a run has been steady for long enough, by what the master hears of."""

from __future__ import annotations

from ssbench.core.stats.auto_stop import SteadyStateDetector
from ssbench.core.stats.steady import AutoStop

SECOND = 1_000_000_000
BEGIN = 77 * SECOND + 5


def ends_at(settling: SteadyStateDetector, rates: list[int]) -> tuple[int, str]:
    """The second in which it ends, and why; -1 where it doesn't. Heard of ten times a second."""
    settling.begin(BEGIN)
    done = 0
    for tenth in range(10 * len(rates)):
        said = settling.heard(BEGIN + tenth * SECOND // 10, done)
        if said:
            return tenth // 10, said
        done += rates[tenth // 10] // 10
    return -1, ""


def test_a_steady_run_ends_after_two_windows() -> None:
    second, why = ends_at(SteadyStateDetector(AutoStop(window_s=5, tolerance=0.05)), [100] * 60)
    assert second == 10
    assert why == "the rate was steady at second 10: within 5 % for 5 s"


def test_windows_begin_when_the_warm_up_is_over() -> None:
    rule = AutoStop(window_s=5, tolerance=0.05)
    assert ends_at(SteadyStateDetector(rule, 7.5), [100] * 60)[0] == 18


def test_a_ramp_puts_the_end_off() -> None:
    rates = [*range(0, 2000, 100), *[2000] * 40]
    second, _ = ends_at(SteadyStateDetector(AutoStop(window_s=5, tolerance=0.05)), rates)
    assert 25 <= second <= 30


def test_noise_beyond_the_tolerance_never_ends() -> None:
    assert (
        ends_at(SteadyStateDetector(AutoStop(window_s=5, tolerance=0.05)), [50, 150] * 30)[0] == -1
    )


def test_a_run_without_a_success_never_ends() -> None:
    assert ends_at(SteadyStateDetector(AutoStop(window_s=2)), [0] * 30) == (-1, "")
