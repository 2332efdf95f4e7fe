"""When bytes came."""

from __future__ import annotations

import os
import time
from time import perf_counter_ns

import gevent
from gevent import get_hub

from ssbench.storage.arrival import arrival_clock

MS = 1_000_000


def test_what_was_there_when_the_loop_woke_has_the_time_of_waking() -> None:
    now, loop = arrival_clock(), get_hub().loop
    pipes = [os.pipe() for _ in range(4)]
    seen: list[tuple[int, int]] = []

    def read() -> None:
        seen.append((now(), perf_counter_ns()))
        time.sleep(0.005)  # what the handling of one answer takes

    watchers = [loop.io(reading, 1) for reading, _ in pipes]
    began_ns = perf_counter_ns()
    for watcher, (_, writing) in zip(watchers, pipes, strict=True):
        os.write(writing, b"x")
        watcher.start(lambda watcher=watcher: (watcher.stop(), read()))
    gevent.sleep(0.1)
    for watcher, pair in zip(watchers, pipes, strict=True):
        watcher.close()
        for fd in pair:
            os.close(fd)
    arrived = {at for at, _ in seen}
    assert len(seen) == 4
    assert len(arrived) == 1
    assert began_ns <= arrived.pop() <= seen[0][1]
    assert seen[-1][1] - seen[-1][0] >= 15 * MS


def test_each_waking_has_its_own() -> None:
    now = arrival_clock()
    gevent.sleep(0.002)
    first_ns = now()
    gevent.sleep(0.002)
    assert now() - first_ns >= 1 * MS


def test_a_hub_has_one() -> None:
    assert arrival_clock() == arrival_clock()
