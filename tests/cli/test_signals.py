"""Signals: the first is a word, the second an end."""

from __future__ import annotations

import os
import signal

import gevent
import pytest

from ssbench.cli import start as module
from ssbench.cli.start import STARTUP_GRACE_S, Signals
from ssbench.runner.session import own_hub
from ssbench.runner.stop import Stop


def send(number: int) -> None:
    os.kill(os.getpid(), number)


def test_a_signal_ends_a_wait_for_greenlets_without_a_traceback(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with own_hub(), Signals(Stop()):
        gevent.get_hub().loop.run_callback(send, signal.SIGINT)
        with pytest.raises(KeyboardInterrupt, match="SIGINT"):
            gevent.sleep(10)
    assert capfd.readouterr().err == ""


def test_an_ignored_sighup_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        stop = Stop()
        with Signals(stop):
            send(signal.SIGHUP)
            assert not stop.requested
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_third_signal_exits_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[int] = []
    monkeypatch.setattr("os._exit", left.append)
    stop = Stop()
    with Signals(stop):
        stop.listen(lambda reason: None)
        send(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):  # the real one doesn't come back from os._exit
            send(signal.SIGTERM)
        assert left == [5]


# While they are held ------------------------------------------------------------------------


def test_held_signals_raise_only_in_check() -> None:
    stop = Stop()
    with Signals(stop, hold=True):
        stop.check()
        for _ in range(3):
            send(signal.SIGTERM)
            send(signal.SIGINT)
        assert stop.reason == "interrupted by SIGTERM"
        with pytest.raises(KeyboardInterrupt, match="SIGTERM"):
            stop.check()
        send(signal.SIGINT)  # what unwinds isn't disturbed


def test_an_earlier_signal_reaches_the_first_listener() -> None:
    heard: list[str] = []
    stop = Stop()
    with Signals(stop, hold=True):
        send(signal.SIGINT)
        send(signal.SIGINT)
        stop.listen(heard.append)
        assert heard == ["interrupted by SIGINT"]
        with pytest.raises(KeyboardInterrupt, match="SIGINT"):
            send(signal.SIGTERM)


def test_a_slow_cleanup_at_the_start_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[int] = []
    now_s = 100.0
    monkeypatch.setattr("os._exit", left.append)
    monkeypatch.setattr(module, "monotonic", lambda: now_s)
    with Signals(Stop(), hold=True):
        send(signal.SIGINT)
        now_s += STARTUP_GRACE_S
        send(signal.SIGINT)
        assert left == []
        now_s += 0.1
        send(signal.SIGINT)
        assert left == [5]
