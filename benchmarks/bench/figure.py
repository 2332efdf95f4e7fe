"""A line of the table: our samples, a reference's, and the bound that their ratio has to keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import median


@dataclass(frozen=True, slots=True)
class Bound:
    """What a ratio has to be."""

    limit: float
    at_most: bool  #: False: at least

    def keeps(self, ratio: float) -> bool:
        """Whether it is on the right side."""
        return ratio <= self.limit if self.at_most else ratio >= self.limit

    def worse_by(self, ratio: float, before: float) -> float:
        """By what part the ratio is worse than it was; below 0 where it is better."""
        return ratio / before - 1 if self.at_most else before / ratio - 1

    def __str__(self) -> str:
        return f"{'<=' if self.at_most else '>='} {self.limit:g}"


def at_most(limit: float) -> Bound:
    """The bound of what should be small: times, processor time, memory."""
    return Bound(limit, at_most=True)


def at_least(limit: float) -> Bound:
    """The bound of what should be large: rates."""
    return Bound(limit, at_most=False)


class Verdict(Enum):
    """What became of a figure."""

    KEPT = "kept"
    MISSED = "MISSED"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True)
class Figure:
    """One thing that was measured, several times, beside its reference.

    :param ours, theirs: samples in ``unit``, in the order in which they were taken, one of each
        in turn. A reference that is a known number is one sample.
    :param why_not: why it couldn't be measured, and what would help; "" where it was.
    :param optional: whether a success may be claimed without it, where it couldn't be measured.
    :param note: what else to know in order to judge it.
    """

    words: str
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
        """Of the medians."""
        return median(self.ours) / median(self.theirs)

    @property
    def verdict(self) -> Verdict:
        """Whether the ratio keeps its bound."""
        if self.why_not:
            return Verdict.NOT_RUN
        return Verdict.KEPT if self.bound.keeps(self.ratio) else Verdict.MISSED


def below(words: str, unit: str, ours: Sequence[float], limit: float) -> Figure:
    """A figure that is held against a number: its ratio is its share of the limit."""
    return Figure(words, unit, ours, f"{limit:g} {unit}", [limit], at_most(1.0))


def not_run(
    words: str, reference: str, bound: Bound, why_not: str, *, optional: bool = False
) -> Figure:
    """A figure that can't be measured here."""
    return Figure(words, "", (), reference, (), bound, why_not, optional)
