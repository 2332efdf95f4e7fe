"""Silence counts only as far as somebody listened."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.master_timeout import MasterTimeout

MS = 1_000_000
SECOND = 1000 * MS


def test_it_grows_until_a_beat_comes() -> None:
    silence = MasterTimeout(0)
    assert [silence.tick(None, at * 250 * MS) for at in (1, 2, 4)] == [250 * MS, 500 * MS, SECOND]
    assert silence.tick("beat", 1250 * MS) == 0
    assert silence.tick("beat", 1500 * MS) == 250 * MS


def test_while_we_were_stopped_nobody_was_silent() -> None:
    silence = MasterTimeout(0)
    assert silence.tick("beat", 250 * MS) == 0
    assert silence.tick("beat", 3600 * SECOND) == SECOND
    assert silence.tick("later", 3600 * SECOND + 1) == 0


@given(st.lists(st.tuples(st.integers(0, 10**11), st.booleans()), max_size=50))
def test_it_never_is_longer_than_the_time_since_the_newest_beat(
    steps: list[tuple[int, bool]],
) -> None:
    """Never longer than the time that has passed, nor than a second for each time it was asked."""
    silence, now_ns, newest, heard_ns, asked = MasterTimeout(0), 0, 0, 0, 0
    for step_ns, beats in steps:
        now_ns += step_ns
        asked += 1
        if beats:
            newest, heard_ns, asked = newest + 1, now_ns, 0
        lasted_ns = silence.tick(newest or None, now_ns)
        assert 0 <= lasted_ns <= min(now_ns - heard_ns, asked * SECOND)
