"""Signals: the first is a word, the second an end."""

from __future__ import annotations

import os
import signal

import gevent
import pytest

from ssbench.cli import start as module
from ssbench.cli.start import SIGNALS, STARTUP_GRACE_S, Signals
from ssbench.runner.session import own_hub
from ssbench.runner.stop import Stop


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_is_noted_and_the_second_raises(number: signal.Signals) -> None:
    heard: list[str] = []
    stop = Stop()
    with Signals(stop):
        stop.listen(heard.append)
        assert not stop.requested
        send(number)
        assert heard == [stop.reason] == [f"interrupted by {number.name}"]
        assert stop.requested
        with pytest.raises(KeyboardInterrupt, match=number.name):
            send(number)


def test_the_first_signal_raises_without_a_listener() -> None:
    stop = Stop()
    with Signals(stop):
        with pytest.raises(KeyboardInterrupt, match="SIGTERM"):
            send(signal.SIGTERM)
        assert stop.requested


def test_a_signal_ends_a_wait_for_greenlets_without_a_traceback(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with own_hub(), Signals(Stop()):
        gevent.get_hub().loop.run_callback(send, signal.SIGINT)
        with pytest.raises(KeyboardInterrupt, match="SIGINT"):
            gevent.sleep(10)
    assert capfd.readouterr().err == ""


def test_signal_handlers_are_restored() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with Signals(Stop()):
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert [signal.getsignal(number) for number in SIGNALS] == before


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


class First:
    """A handler that has another for what comes once it is told."""

    def __init__(self) -> None:
        self.heard: list[int] = []

    def __call__(self, number: int, frame: object) -> None:
        raise AssertionError("told twice")

    def second(self, number: int, frame: object) -> None:
        self.heard.append(number)


def test_a_signal_after_the_exception_is_not_a_first_one() -> None:
    first = First()
    before = signal.signal(signal.SIGTERM, first)
    try:
        stop = Stop()
        with Signals(stop):
            stop.listen(lambda reason: None)
            send(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is first
        with Signals(Stop()), pytest.raises(KeyboardInterrupt):
            send(signal.SIGTERM)
        send(signal.SIGTERM)
        assert first.heard == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


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


def test_a_listener_gets_a_held_signal_at_once() -> None:
    heard: list[str] = []
    stop = Stop()
    with Signals(stop, hold=True):
        stop.listen(heard.append)
        send(signal.SIGINT)
        assert heard == ["interrupted by SIGINT"]
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGINT)


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
