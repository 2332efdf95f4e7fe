"""What control states mean for a worker: membership, clock and lease."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.settings import WorkerSettings
from ssbench.worker.machine import ClockSync, WorkerMachine
from tests.fakes.control_states import IDLE

OTHER = 22
SECOND = 1_000_000_000


def meaning(machine: WorkerMachine, **changes: Any) -> str:
    """What a control state means for a worker, by what it does next."""
    before = machine.incarnation
    machine.receive_control_state(IDLE._replace(**changes), 0, 0)
    machine.tick(0)
    if machine.status is not None:
        return "exit"
    if machine.incarnation != before:
        return "join anew"
    return "join" if machine.hello(2 * SECOND) else "stay"


@pytest.mark.parametrize(
    ("workers", "changes", "unknown", "known"),
    [
        ("", {}, "join", "join anew"),
        ("other", {}, "join", "join anew"),
        ("other", {"master": 2}, "join", "join anew"),
        ("own other", {}, "stay", "stay"),
        ("own", {"master": 2}, "stay", "stay"),
        ("", {"refused": "own"}, "join", "stay"),
        ("", {"refused": "other"}, "join", "join anew"),
        ("own", {"quit": True}, "exit", "exit"),
        ("", {"refused": "own", "quit": True}, "exit", "exit"),
        ("other", {"quit": True}, "join", "join anew"),
    ],
)
def test_what_a_control_state_means_for_an_unknown_and_a_known_worker(
    workers: str, changes: dict[str, Any], unknown: str, known: str
) -> None:
    for is_known, expected in enumerate((unknown, known)):
        machine = WorkerMachine(WorkerSettings("w"), Random(1), 0)
        number = {"own": machine.incarnation, "other": OTHER}
        if is_known:
            assert meaning(machine, workers={machine.incarnation: (0, None)}) == "stay"
        state = {**changes, "workers": {number[each]: (0, None) for each in workers.split()}}
        if "refused" in changes:
            state["refused"] = {number[changes["refused"]]: "taken"}
        assert meaning(machine, **state) == expected


# The clock and the lease -----------------------------------------------------------------


def test_the_shortest_transit_of_the_newest_states_of_a_master_gives_the_offset() -> None:
    clock = ClockSync()
    for master_ns, arrived_ns, delay_ns in (
        (100, 1150, 1050),
        (200, 1210, 1010),
        (300, 1390, 1010),
        *((300 + newer, 1320 + newer, 1010) for newer in range(1, 63)),
        (363, 1383, 1020),  # 64 are known, and that of 200 no more
    ):
        clock.update(IDLE._replace(master_ns=master_ns), arrived_ns)
        assert clock.delay_ns == delay_ns
    clock.update(IDLE._replace(master=2), 9000)
    assert clock.delay_ns == 9000


def test_leases_and_messages_are_good_for_half_the_timeout() -> None:
    clock, at_ns = ClockSync(), 5 * SECOND
    # Before the first control state the clocks count as equal.
    for delay_ns in (0, 1000):
        assert [clock.is_stale(0, at_ns + delay_ns + late) for late in (0, 1)] == [False, True]
        clock.update(IDLE, 1000)
        assert clock.lease_expires_ns == at_ns + 1000
    # A delayed control state says nothing about the time since it was sent.
    clock.update(IDLE._replace(master_ns=SECOND, timeout_s=2.0), 4 * SECOND)
    assert clock.lease_expires_ns == 2 * SECOND + 1000


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
        clock.update(IDLE._replace(master_ns=sent_ns), arrived_ns)
        assert clock.lease_expires_ns <= arrived_ns + 5 * SECOND
        assert clock.lease_expires_ns >= sent_ns + ahead_ns + 5 * SECOND
