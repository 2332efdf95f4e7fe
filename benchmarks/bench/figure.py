"""A line of the table: our samples, the reference's, and the bound of their ratio."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import median


@dataclass(frozen=True, slots=True)
class Bound:
    limit: float
    at_most: bool  #: False: at least

    def keeps(self, ratio: float) -> bool:
        """Whether the ratio meets the bound."""
        return ratio <= self.limit if self.at_most else ratio >= self.limit

    def worse_by(self, ratio: float, before: float) -> float:
        """How much worse the ratio is than before, as a fraction; negative: better."""
        return ratio / before - 1 if self.at_most else before / ratio - 1

    def __str__(self) -> str:
        return f"{'<=' if self.at_most else '>='} {self.limit:g}"


def at_most(limit: float) -> Bound:
    """A bound for times, CPU time and memory."""
    return Bound(limit, at_most=True)


def at_least(limit: float) -> Bound:
    """A bound for rates."""
    return Bound(limit, at_most=False)


class Verdict(Enum):
    KEPT = "kept"
    MISSED = "MISSED"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True)
class Figure:
    """Samples of a measurement and of its reference.

    :param ours, theirs: samples in ``unit``, taken alternately. A fixed reference is one sample.
    :param why_not: why it was not measured, and what would help; "" if it was.
    :param optional: the exit status may be 0 if it was not measured.
    :param note: shown in the last column.
    """

    title: str
    unit: str
    ours: Sequence[float]
    reference: str
    theirs: Sequence[float]
    bound: Bound
    why_not: str = ""
    optional: bool = False
    note: str = ""

    @property
    def ratio(self) -> float:
        """Ratio of the medians."""
        return median(self.ours) / median(self.theirs)

    @property
    def verdict(self) -> Verdict:
        """Whether the ratio meets its bound."""
        if self.why_not:
            return Verdict.NOT_RUN
        return Verdict.KEPT if self.bound.keeps(self.ratio) else Verdict.MISSED


def below(title: str, unit: str, ours: Sequence[float], limit: float) -> Figure:
    """A figure with an absolute limit: the ratio is its share of the limit."""
    return Figure(title, unit, ours, f"{limit:g} {unit}", [limit], at_most(1.0))


def not_run(
    title: str, reference: str, bound: Bound, why_not: str, *, optional: bool = False
) -> Figure:
    """A figure that can't be measured on this host."""
    return Figure(title, "", (), reference, (), bound, why_not, optional)
