"""A worker's live figures become messages, and its loop is timed."""

from __future__ import annotations

import time

import gevent

from ssbench.core.messages import Host
from ssbench.core.model import Phase
from ssbench.host.live import HostLive, Sample
from ssbench.worker.host_metrics import HostMetricsSender


def test_samples_are_told_under_the_present_incarnation() -> None:
    live = HostLive()
    watch = HostMetricsSender(live)
    live._samples.append(Sample(5, "boot", {"cpu_percent": 1.0}))
    assert list(watch.messages(7)) == [Host(7, 5, "boot", {"cpu_percent": 1.0})]
    assert list(watch.messages(7)) == []
    watch.stop()


def test_figures_are_wanted_in_phases_only() -> None:
    live = HostLive()
    watch = HostMetricsSender(live)
    watch.follow(Phase.RUN)
    assert live.wanted
    watch.follow(Phase.IDLE)
    assert not live.wanted
    watch.stop()


def test_a_loop_that_was_blocked_shows_in_the_lag() -> None:
    live = HostLive(interval_s=60)
    watch = HostMetricsSender(live)
    watch.start()
    gevent.sleep(0.12)
    live.lag.take()
    time.sleep(0.3)
    with gevent.Timeout(10):
        while (lag := live.lag.take()) is None:
            gevent.sleep(0.001)
    watch.stop()
    assert 0.2 < lag[0] < 5
    assert not live.is_alive()


def test_without_figures_there_is_nothing_to_tell() -> None:
    watch = HostMetricsSender(None)
    watch.start()
    watch.follow(Phase.RUN)
    assert list(watch.messages(7)) == []
    watch.stop()
