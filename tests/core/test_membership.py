"""What beats mean for a worker."""

from __future__ import annotations

from typing import Any

import pytest

from ssbench.core.membership import Membership, MembershipStatus
from ssbench.core.messages import ControlState

OURS, OTHER = 11, 22


def beat(workers: tuple[int, ...] = (), master: int = 1, **other: Any) -> ControlState:
    said: dict[str, Any] = {
        "serial": 1, "master_ns": 0, "run": "", "phase": 0, "start_ns": 0, "refused": {},
        "settings": {}, "timeout_s": 10.0, "operation_timeout_s": 0.0, "pipe": 2, "live": False,
        "ending": False, "stopping": False, "quit": False, **other,
    }  # fmt: skip
    return ControlState(master=master, workers=dict.fromkeys(workers, (0, None)), **said)


def known(master: int = 1) -> Membership:
    standing = Membership(OURS)
    standing.accept(beat((OURS,), master))
    return standing


@pytest.mark.parametrize(
    ("said", "stranger", "friend"),
    [
        (beat(), MembershipStatus.UNMENTIONED, MembershipStatus.DROPPED),
        (beat((OTHER,)), MembershipStatus.UNMENTIONED, MembershipStatus.DROPPED),
        (beat((OTHER,), master=2), MembershipStatus.UNMENTIONED, MembershipStatus.REPLACED),
        (beat((OTHER, OURS)), MembershipStatus.ACCEPTED, MembershipStatus.ACCEPTED),
        (beat((OURS,), master=2), MembershipStatus.ACCEPTED, MembershipStatus.ACCEPTED),
        (beat(refused={OURS: "taken"}), MembershipStatus.REFUSED, MembershipStatus.REFUSED),
        (beat(refused={OTHER: "taken"}), MembershipStatus.UNMENTIONED, MembershipStatus.DROPPED),
        (beat((OURS,), quit=True), MembershipStatus.QUIT, MembershipStatus.QUIT),
        (beat(refused={OURS: "taken"}, quit=True), MembershipStatus.QUIT, MembershipStatus.QUIT),
        (beat((OTHER,), quit=True), MembershipStatus.UNMENTIONED, MembershipStatus.DROPPED),
    ],
)
def test_what_a_beat_means_for_one_that_is_known_and_for_one_that_is_not(
    said: ControlState, stranger: MembershipStatus, friend: MembershipStatus
) -> None:
    assert Membership(OURS).status_in(said) is stranger
    assert known().status_in(said) is friend


def test_who_is_known_need_not_greet() -> None:
    assert Membership(OURS).must_say_hello(None)
    assert Membership(OURS).must_say_hello(beat((OTHER,)))
    assert not Membership(OURS).must_say_hello(beat((OURS,))), "it is about to be known"
    assert not known().must_say_hello(beat((OURS,)))
    assert not known().must_say_hello(beat((OTHER,), master=2)), "it is another one first"


def test_another_incarnation_is_known_to_nobody() -> None:
    standing = known(master=7)
    assert repr(standing) == "<Membership known to 7>"
    standing.renew(33)
    assert (standing.incarnation, standing.previous, standing.known) == (33, OURS, False)
    assert standing.must_say_hello(beat((OURS,), master=7))
    assert standing.status_in(beat((33,), master=7)) is MembershipStatus.ACCEPTED
    assert standing.master == 7, "a master that has given us up is still the one we know"


def test_how_long_it_has_been_refused() -> None:
    standing = Membership(OURS)
    assert standing.refuse(100) is None
    assert standing.refuse(100) == 0
    assert standing.refuse(350) == 250
    standing.accept(beat((OURS,)))
    assert standing.refuse(900) is None
