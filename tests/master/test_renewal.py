"""Renewal of credentials: one at a time, not too often, and before they expire."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from ssbench.core.errors import RejectedError, SsbenchError
from ssbench.core.model import SECOND_NS
from ssbench.core.settings import Credentials
from ssbench.master.master import Renewal
from tests.timing import PATIENCE_S

NOW = 1_000_000.0


class Tokens:
    """Where credentials come from; holds back until it is let go."""

    def __init__(self, expires_at: float | None = None) -> None:
        self.go = threading.Event()
        self.asked = 0
        self.fault: Exception | None = None
        self.expires_at = expires_at

    def renew(self) -> Credentials:
        self.asked += 1
        assert self.go.wait(60)
        if self.fault:
            raise self.fault
        return Credentials(self.asked, self.expires_at)

    def renewal(self, expires_at: float | None = None) -> Renewal:
        self.first = Credentials(0, expires_at)
        return Renewal(self.renew, self.first, NOW)


def outcome_of(
    renewal: Renewal, previous: Credentials | None = None, now: float = NOW
) -> Credentials | SsbenchError:
    deadline = time.monotonic() + PATIENCE_S
    while (outcome := renewal.outcome(previous or Credentials(), now)) is None:
        assert time.monotonic() < deadline, "the renewal does not end"
    return outcome


class AtOnce:
    """A thread that is over when it has started."""

    def __init__(self, target: Callable[[], None], **_: object) -> None:
        self.start = target

    def is_alive(self) -> bool:
        return False


@pytest.mark.parametrize("fault", [None, RejectedError("the key is gone")])
def test_a_worker_that_asks_all_the_time_causes_ever_fewer_logins(
    fault: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One with the key may say each second that the token has expired; and so does an honest one
    where the store rejects a key that no other can replace."""
    monkeypatch.setattr("ssbench.master.master.threading", SimpleNamespace(Thread=AtOnce))
    tokens = Tokens()
    tokens.fault = fault
    tokens.go.set()
    renewal = tokens.renewal(NOW + 3600)
    begun = []
    for second in range(600):
        before = tokens.asked
        renewal.begin(second * SECOND_NS)
        renewal.outcome(Credentials(), NOW)
        if tokens.asked > before:
            begun.append(second)
    assert begun[:6] == [0, 1, 3, 7, 15, 31]
    assert len(begun) < 26
    tokens.expires_at, tokens.fault = NOW + 7200, None
    assert begun_at(renewal, tokens, 3550.0) == [3550.0], "the planned one does not wait"
    outcome_of(renewal)
    for second in (4000, 4001):  # after a quiet time it is as before
        renewal.begin(second * SECOND_NS)
        outcome_of(renewal)


def test_while_logins_fail_there_is_one_each_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ssbench.master.master.threading", SimpleNamespace(Thread=AtOnce))
    tokens = Tokens()
    tokens.fault = SsbenchError("nothing listens there")
    tokens.go.set()
    renewal = tokens.renewal()
    begun = []
    for quarter in range(40):
        before = tokens.asked
        renewal.begin(quarter * SECOND_NS // 4)
        renewal.outcome(Credentials(), NOW)
        if tokens.asked > before:
            begun.append(quarter / 4)
    assert begun == [*range(10)]


def test_an_unexpected_exception_is_an_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda told: None)
    tokens = Tokens()
    tokens.go.set()
    tokens.fault = KeyError("defect")
    renewal = tokens.renewal()
    renewal.begin(0)
    assert str(outcome_of(renewal)) == "the renewal failed"


def begun_at(renewal: Renewal, tokens: Tokens, *seconds: float) -> list[float]:
    """Those of the times, after NOW, at which a renewal begins."""
    begun = []
    for after in seconds:
        asked = tokens.asked
        renewal.begin_if_due(int(after * SECOND_NS), int((NOW + after) * SECOND_NS))
        if tokens.asked > asked:
            begun.append(after)
    return begun


@pytest.mark.parametrize(
    ("life_s", "due_s"), [(3600.0, 3540.0), (100.0, 90.0), (None, None), (-5.0, None), (0.0, None)]
)
def test_credentials_are_renewed_before_they_expire(
    life_s: float | None, due_s: float | None
) -> None:
    tokens = Tokens()
    renewal = tokens.renewal(None if life_s is None else NOW + life_s)
    if due_s is None:
        assert begun_at(renewal, tokens, 0.0, 1e6) == []
    else:
        assert begun_at(renewal, tokens, 0.0, due_s - 1, due_s, due_s + 1) == [due_s]
    tokens.go.set()


@pytest.mark.parametrize(("later_s", "begun"), [(0.0, []), (1.0, []), (1.5, [101.0])])
def test_a_token_that_expires_within_a_second_of_the_other_is_the_same(
    later_s: float, begun: list[float]
) -> None:
    """Stores say in how many whole seconds it expires. The same one is renewed when it is
    rejected."""
    tokens = Tokens(NOW + 100 + later_s)
    tokens.go.set()
    renewal = tokens.renewal(NOW + 100)
    assert begun_at(renewal, tokens, 90.0) == [90.0]
    outcome_of(renewal, tokens.first, NOW + 90)
    assert begun_at(renewal, tokens, 92.0, 101.0, 200.0) == begun


def test_a_rejection_before_it_is_due_leaves_the_planned_renewal() -> None:
    expires_at = NOW + 3600
    tokens = Tokens(expires_at)
    tokens.go.set()
    renewal = tokens.renewal(expires_at)
    renewal.begin(0)  # a worker met a rejection; the new key expires at the same time
    outcome_of(renewal, tokens.first)
    tokens.expires_at = expires_at + 3600
    renewal.begin_if_due(10 * SECOND_NS, int((expires_at - 61) * SECOND_NS))
    assert tokens.asked == 1
    renewal.begin_if_due(20 * SECOND_NS, int((expires_at - 59) * SECOND_NS))
    outcome_of(renewal, Credentials(1, expires_at))
    assert tokens.asked == 2
