"""How late an event loop is, by a timer of its own."""

from __future__ import annotations

import pytest

from ssbench.host.live import LoopLag

MS = 1_000_000


class Clock:
    now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


def run_at(lag: LoopLag, clock: Clock, *times_ms: int) -> None:
    for at_ms in times_ms:
        clock.now_ns = at_ms * MS
        lag.ran()


def test_a_blocked_loop_reports_its_present_lag() -> None:
    clock = Clock()
    lag = LoopLag(0.05, clock)
    run_at(lag, clock, 0)
    lag.take()
    clock.now_ns = 2050 * MS
    assert lag.take() == (2.0, 2.0)
    run_at(lag, clock, 2050, 2100)
    clock.now_ns = 3150 * MS
    most_s, mean_s = lag.take() or (0, 0)
    assert most_s == 2.0  # it ran that late, and then stands still for a second
    assert mean_s == pytest.approx((2.0 + 0.05 + 1.05) / 3)


def test_lag_can_be_reported_by_others() -> None:
    lag = LoopLag(0.05, Clock())
    lag.add(7 * MS)
    lag.add(-MS)  # early is not late
    assert repr(lag) == "<LoopLag 2 not yet taken>"
    assert lag.take() == (pytest.approx(0.007), pytest.approx(0.0035))
    assert lag.take() is None
