"""What is asked of durations is found out once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.model import NONE_NS
from ssbench.core.stats.durations import Durations


@given(st.lists(st.integers(NONE_NS, 10), min_size=1, max_size=6), st.integers(NONE_NS, 10))
def test_they_are_what_the_numbers_are(values: list[int], low: int) -> None:
    durations = Durations(values)
    assert (durations.least, durations.most) == (min(values), max(values))
    assert list(durations.doubles) == values
    longer = durations.not_below(low)
    assert (list(longer.values_ns) if longer else []) == [v for v in values if v >= low]


class Counted(Sequence[Any]):
    """Numbers that count how often somebody goes through them."""

    def __init__(self) -> None:
        self.times = 0

    def __len__(self) -> int:
        return 2

    def __getitem__(self, at: Any) -> Any:
        return (5, 7)[at]

    def __iter__(self) -> Iterator[int]:
        self.times += 1
        return iter((5, 7))


def test_nobody_goes_through_them_twice_for_the_same() -> None:
    values = Counted()
    durations = Durations(values)
    for _ in range(3):
        assert (durations.least, durations.most, len(durations.doubles)) == (5, 7, 2)
        assert durations.not_below(0) is durations
    assert values.times <= 3  # array looks through a sequence of Python's in its own way
