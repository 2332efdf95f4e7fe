"""A token in a thread of its own: one at a time, and not too often."""

from __future__ import annotations

import threading
import time

import pytest

from ssbench.core.dispatch.worker_registry import SECOND
from ssbench.core.errors import AuthError
from ssbench.master.renewal import Renewal


class Tokens:
    """Where tokens come from; holds back until it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.asked = 0
        self.fault: Exception | None = None

    def renew(self) -> tuple[str, int]:
        self.asked += 1
        assert self.go.wait(5)
        if self.fault:
            raise self.fault
        return f"token {self.asked}", self.asked


def outcome_of(renewal: Renewal) -> tuple[str, int, str]:
    deadline = time.monotonic() + 5
    while (outcome := renewal.outcome()) is None:
        assert time.monotonic() < deadline, "the renewal does not end"
    return outcome


def test_nothing_is_new_before_it_is_asked_for() -> None:
    assert Renewal(Tokens().renew).outcome() is None


def test_the_caller_does_not_wait_and_hears_of_it_once() -> None:
    tokens = Tokens()
    renewal = Renewal(tokens.renew)
    renewal.begin(0)
    assert renewal.outcome() is None
    tokens.go.set()
    assert outcome_of(renewal) == ("token 1", 1, "")
    assert renewal.outcome() is None


def test_one_under_way_is_enough() -> None:
    tokens = Tokens()
    renewal = Renewal(tokens.renew)
    for _ in range(3):
        renewal.begin(0)
    tokens.go.set()
    outcome_of(renewal)
    assert tokens.asked == 1


def test_the_next_one_is_a_second_later_at_the_earliest() -> None:
    tokens = Tokens()
    tokens.go.set()
    renewal = Renewal(tokens.renew)
    renewal.begin(0)
    outcome_of(renewal)
    renewal.begin(SECOND - 1)
    assert renewal.outcome() is None
    assert tokens.asked == 1
    renewal.begin(SECOND)
    assert outcome_of(renewal) == ("token 2", 2, "")


def test_a_refusal_is_an_outcome() -> None:
    tokens = Tokens()
    tokens.go.set()
    tokens.fault = AuthError("the user is disabled")
    renewal = Renewal(tokens.renew)
    renewal.begin(0)
    assert outcome_of(renewal) == ("", 0, "the user is disabled")


def test_a_defect_is_an_outcome_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda told: None)
    tokens = Tokens()
    tokens.go.set()
    tokens.fault = KeyError("defect")
    renewal = Renewal(tokens.renew)
    renewal.begin(0)
    assert outcome_of(renewal) == ("", 0, "the renewal failed")
