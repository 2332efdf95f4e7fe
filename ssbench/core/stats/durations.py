"""Durations of some operations, and what several reckoners ask of them, found out once."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import cached_property


class Durations:
    """Whole nanoseconds, at least one."""

    def __init__(self, values_ns: Sequence[int]) -> None:
        self.values_ns = values_ns

    def __len__(self) -> int:
        return len(self.values_ns)

    def __repr__(self) -> str:
        return f"<Durations: {len(self)} from {self.least} to {self.most} ns>"

    @cached_property
    def least(self) -> int:
        """The smallest."""
        return min(self.values_ns)

    @cached_property
    def most(self) -> int:
        """The largest."""
        return max(self.values_ns)

    @cached_property
    def doubles(self) -> array[float]:
        """The same numbers in the form whose upper bits name a bucket."""
        return array("d", self.values_ns)

    def not_below(self, low_ns: int) -> Durations | None:
        """Those that aren't shorter; None where there are none."""
        if self.least >= low_ns:
            return self
        values = [value for value in self.values_ns if value >= low_ns]
        return Durations(values) if values else None
