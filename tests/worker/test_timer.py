"""Calls at a time."""

from __future__ import annotations

from time import perf_counter_ns

import gevent
import pytest
from gevent.event import Event

from ssbench.worker.timer import Timer
from tests.descriptors import open_descriptors

MS = 1_000_000


def test_a_timer_fires_once_and_not_early() -> None:
    expired: list[int] = []
    done = Event()

    def ring() -> None:
        expired.append(perf_counter_ns())
        done.set()

    timer = Timer(ring)
    at_ns = perf_counter_ns() + 5 * MS
    timer.set(at_ns)
    assert done.wait(60)
    gevent.sleep(0.01)
    timer.close()
    assert len(expired) == 1
    assert expired[0] >= at_ns


def test_the_last_setting_of_a_timer_counts() -> None:
    expired: list[int] = []
    timer = Timer(lambda: expired.append(1))
    timer.set(perf_counter_ns() + 3600 * 1000 * MS)
    timer.set(perf_counter_ns() + 2 * MS)
    with gevent.Timeout(60):
        while not expired:
            gevent.sleep(0.001)
    assert expired == [1]
    timer.set(perf_counter_ns() + 2 * MS)
    timer.close()
    gevent.sleep(0.02)
    assert expired == [1]


@pytest.mark.parametrize("at_ns", [-5, 0, 1])
def test_a_past_time_fires_at_once(at_ns: int) -> None:
    done = Event()
    timer = Timer(done.set)
    timer.set(at_ns)
    assert done.wait(60)
    timer.close()
    timer.close()


def test_descriptors_are_closed() -> None:
    gevent.sleep(0.001)  # the event loop opens its own, where no test has used it yet
    before = open_descriptors()
    for _ in range(20):
        Timer(lambda: None).close()
    gevent.sleep(0)
    assert open_descriptors() <= before
