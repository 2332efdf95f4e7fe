"""What control states mean for a worker: membership, clock and lease."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.messages import ControlState
from ssbench.worker.machine import ClockSync, Membership, MembershipStatus
from tests.fakes.control_states import IDLE

OURS, OTHER = 11, 22
SECOND = 1_000_000_000


def state(workers: tuple[int, ...] = (), master: int = 1, **other: Any) -> ControlState:
    return IDLE._replace(master=master, workers=dict.fromkeys(workers, (0, None)), **other)


def known(master: int = 1) -> Membership:
    membership = Membership(OURS)
    membership.accept(state((OURS,), master))
    return membership


@pytest.mark.parametrize(
    ("control_state", "unknown", "listed"),
    [
        (state(), MembershipStatus.UNMENTIONED, MembershipStatus.DROPPED),
        (state((OTHER,)), MembershipStatus.UNMENTIONED, MembershipStatus.DROPPED),
        (state((OTHER,), master=2), MembershipStatus.UNMENTIONED, MembershipStatus.REPLACED),
        (state((OTHER, OURS)), MembershipStatus.ACCEPTED, MembershipStatus.ACCEPTED),
        (state((OURS,), master=2), MembershipStatus.ACCEPTED, MembershipStatus.ACCEPTED),
        (state(refused={OURS: "taken"}), MembershipStatus.REFUSED, MembershipStatus.REFUSED),
        (state(refused={OTHER: "taken"}), MembershipStatus.UNMENTIONED, MembershipStatus.DROPPED),
        (state((OURS,), quit=True), MembershipStatus.QUIT, MembershipStatus.QUIT),
        (state(refused={OURS: "taken"}, quit=True), MembershipStatus.QUIT, MembershipStatus.QUIT),
        (state((OTHER,), quit=True), MembershipStatus.UNMENTIONED, MembershipStatus.DROPPED),
    ],
)
def test_what_a_control_state_means_for_an_unknown_and_a_known_worker(
    control_state: ControlState, unknown: MembershipStatus, listed: MembershipStatus
) -> None:
    assert Membership(OURS).status_in(control_state) is unknown
    assert known().status_in(control_state) is listed


def test_a_new_incarnation_is_unknown() -> None:
    membership = known(master=7)
    assert repr(membership) == "<Membership known to 7>"
    membership.renew(33)
    assert (membership.incarnation, membership.previous, membership.known) == (33, OURS, False)
    assert membership.status_in(state((33,), master=7)) is MembershipStatus.ACCEPTED
    assert membership.master == 7, "the master that dropped us is still the known one"


def test_a_worker_knows_how_long_it_has_been_rejected() -> None:
    membership = Membership(OURS)
    assert membership.refuse(100) is None
    assert membership.refuse(100) == 0
    assert membership.refuse(350) == 250
    membership.accept(state((OURS,)))
    assert membership.refuse(900) is None


# The clock and the lease -----------------------------------------------------------------


def test_the_shortest_transit_gives_the_offset() -> None:
    clock = ClockSync()
    for master_ns, arrived_ns, delay_ns in (
        (100, 1150, 1050),
        (200, 1210, 1010),
        (300, 1390, 1010),
    ):
        clock.update(state(master_ns=master_ns), arrived_ns)
        assert clock.delay_ns == delay_ns


def test_old_samples_are_dropped() -> None:
    clock = ClockSync()
    clock.update(state(), 1000)
    for serial in range(1, 65):
        clock.update(state(master_ns=serial), serial + 1005)
    assert clock.delay_ns == 1005


def test_samples_of_another_master_are_dropped() -> None:
    clock = ClockSync()
    clock.update(state(), 1000)
    clock.update(state(master=2), 9000)
    assert clock.delay_ns == 9000


def test_the_lease_ends_half_the_timeout_after_the_newest_state_was_sent() -> None:
    clock = ClockSync()
    clock.update(state(), 1000)
    assert clock.lease_expires_ns == 5 * SECOND + 1000
    # A delayed control state says nothing about the time since it was sent.
    clock.update(state(master_ns=SECOND, timeout_s=2.0), 4 * SECOND)
    assert clock.lease_expires_ns == 2 * SECOND + 1000


def test_a_message_older_than_half_the_timeout_is_stale() -> None:
    clock = ClockSync()
    clock.update(state(), 1000)
    assert not clock.is_stale(0, 5 * SECOND + 1000)
    assert clock.is_stale(0, 5 * SECOND + 1001)


def test_before_the_first_control_state_the_clocks_count_as_equal() -> None:
    clock = ClockSync()
    assert not clock.is_stale(0, 5 * SECOND)
    assert clock.is_stale(0, 5 * SECOND + 1)


@given(
    st.integers(-(10**15), 10**15),
    st.lists(st.tuples(st.integers(0, 10**10), st.integers(0, 10**10)), min_size=1, max_size=80),
)
def test_the_lease_never_ends_too_late(ahead_ns: int, states: list[tuple[int, int]]) -> None:
    """It ends at most half the timeout after the newest control state arrived, whatever the clocks
    show and the transit takes."""
    clock = ClockSync()
    for sent_ns, transit_ns in sorted(states):
        arrived_ns = sent_ns + transit_ns + ahead_ns
        clock.update(state(master_ns=sent_ns), arrived_ns)
        assert clock.lease_expires_ns <= arrived_ns + 5 * SECOND
        assert clock.lease_expires_ns >= sent_ns + ahead_ns + 5 * SECOND
