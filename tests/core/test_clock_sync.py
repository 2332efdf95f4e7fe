"""The master's clock as a worker sees it: the distance of the two, and the fence."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.clock_sync import ClockSync
from ssbench.core.messages import ControlState

MS = 1_000_000
SECOND = 1000 * MS


def beat(master_ns: int, *, master: int = 1, timeout_s: float = 10.0) -> ControlState:
    return ControlState(master, 1, master_ns, "", 0, 0, {}, {}, {}, timeout_s, 0.0, 2, *[False] * 4)


def test_the_fastest_beat_tells_the_distance() -> None:
    clock = ClockSync()
    for master_ns, arrived_ns, delay_ns in (
        (100, 1150, 1050),
        (200, 1210, 1010),
        (300, 1390, 1010),
    ):
        clock.update(beat(master_ns), arrived_ns)
        assert clock.delay_ns == delay_ns


def test_a_fast_beat_of_long_ago_is_forgotten() -> None:
    clock = ClockSync()
    clock.update(beat(0), 1000)
    for serial in range(1, 65):
        clock.update(beat(serial), serial + 1005)
    assert clock.delay_ns == 1005


def test_another_master_has_another_clock() -> None:
    clock = ClockSync()
    clock.update(beat(0), 1000)
    clock.update(beat(0, master=2), 9000)
    assert clock.delay_ns == 9000


def test_the_fence_is_half_a_time_out_after_the_newest_beat_was_sent() -> None:
    clock = ClockSync()
    clock.update(beat(0), 1000)
    assert clock.lease_expires_ns == 5 * SECOND + 1000
    # One that was long on its way says nothing of the time since.
    clock.update(beat(SECOND, timeout_s=2.0), 4 * SECOND)
    assert clock.lease_expires_ns == 2 * SECOND + 1000


def test_stale_is_what_was_on_its_way_for_half_the_time_out() -> None:
    clock = ClockSync()
    clock.update(beat(0), 1000)
    assert not clock.is_stale(0, 5 * SECOND + 1000)
    assert clock.is_stale(0, 5 * SECOND + 1001)


def test_before_the_first_beat_the_clocks_are_one() -> None:
    clock = ClockSync()
    assert not clock.is_stale(0, 5 * SECOND)
    assert clock.is_stale(0, 5 * SECOND + 1)


@given(
    st.integers(-(10**15), 10**15),
    st.lists(st.tuples(st.integers(0, 10**10), st.integers(0, 10**10)), min_size=1, max_size=80),
)
def test_the_fence_never_falls_too_late(ahead_ns: int, beats: list[tuple[int, int]]) -> None:
    """The fence is at the latest half a time-out after the newest beat arrived, however far apart
    the clocks are and however long beats take."""
    clock = ClockSync()
    for sent_ns, way_ns in sorted(beats):
        arrived_ns = sent_ns + way_ns + ahead_ns
        clock.update(beat(sent_ns), arrived_ns)
        assert clock.lease_expires_ns <= arrived_ns + 5 * SECOND
        assert clock.lease_expires_ns >= sent_ns + ahead_ns + 5 * SECOND
