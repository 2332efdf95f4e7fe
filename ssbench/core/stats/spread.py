"""How evenly a few numbers are spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, pstdev


@dataclass(frozen=True, slots=True)
class Spread:
    """Standard deviation is that of the population."""

    min: int
    max: int
    mean: float
    std_dev: float


def spread_of(counts: Sequence[int]) -> Spread | None:
    """None for no number."""
    if not counts:
        return None
    return Spread(min(counts), max(counts), fmean(counts), pstdev(counts))


def spread_of_legacy(counts: Sequence[int]) -> Spread | None:
    """As ssbench 0.3.9 reckons it, so that its files give its own figures.

    It ran on Python 2, where dividing whole numbers rounds down: 5000 requests on 3 workers had
    an average of 1666.000, and the standard deviation was taken around that. ``spread_of`` gives
    the true 1666.667.
    """
    if not counts:
        return None
    mean = sum(counts) // len(counts)
    variance = sum((count - mean) ** 2 for count in counts) / len(counts)
    return Spread(min(counts), max(counts), float(mean), sqrt(variance))
