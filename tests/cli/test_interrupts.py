"""Signals: the first is a word, the second an end."""

from __future__ import annotations

import os
import signal

import gevent
import pytest

from ssbench.cli.interrupts import SIGNALS, Interrupts
from ssbench.cli.start import First


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_is_told_and_the_second_raises(number: signal.Signals) -> None:
    heard: list[str] = []
    with Interrupts() as interrupts:
        interrupts.listen(heard.append)
        assert not interrupts.came
        send(number)
        assert heard == [interrupts.reason] == [f"interrupted by {number.name}"]
        assert interrupts.came
        with pytest.raises(KeyboardInterrupt, match=number.name):
            send(number)


def test_while_nobody_listens_the_first_raises() -> None:
    with Interrupts() as interrupts:
        with pytest.raises(KeyboardInterrupt, match="SIGTERM"):
            send(signal.SIGTERM)
        assert interrupts.came


def test_who_waits_for_greenlets_is_ended_without_a_traceback(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with Interrupts():
        gevent.get_hub().loop.run_callback(send, signal.SIGINT)
        with pytest.raises(KeyboardInterrupt, match="SIGINT"):
            gevent.sleep(10)
    assert capfd.readouterr().err == ""


def test_afterwards_all_is_as_it_was() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with Interrupts():
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_a_hang_up_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts() as interrupts:
            send(signal.SIGHUP)
            assert not interrupts.came
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_third_leaves_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[int] = []
    monkeypatch.setattr("os._exit", left.append)
    with Interrupts() as interrupts:
        interrupts.listen(lambda reason: None)
        send(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):  # the real one doesn't come back from os._exit
            send(signal.SIGTERM)
        assert left == [5]


def test_once_it_has_raised_what_comes_later_is_no_first_one() -> None:
    heard: list[int] = []
    first = First(lambda number, frame: heard.append(number))
    before = signal.signal(signal.SIGTERM, first)
    try:
        with Interrupts() as interrupts:
            interrupts.listen(lambda reason: None)
            send(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is first
        with Interrupts(), pytest.raises(KeyboardInterrupt):
            send(signal.SIGTERM)
        send(signal.SIGTERM)
        assert heard == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)
