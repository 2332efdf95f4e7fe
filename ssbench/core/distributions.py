"""How the sizes of a class's objects are distributed.

A size is a function of one number in [0, 1), so that it can follow from an object's name or from a
run's seed.
"""

from __future__ import annotations

import math
from bisect import bisect
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from statistics import NormalDist

#: The open interval in which a normal distribution has quantiles.
_LEAST, _MOST = 2.0**-1022, 1 - 2.0**-53


class LogNormal(Struct, frozen=True, dict=True, tag=True):
    """A log-normal distribution, cut off at both ends."""

    median: float  #: bytes, of the whole distribution
    sigma: float  #: standard deviation of the sizes' natural logarithms
    low: int  #: bytes; sizes are from low to high
    high: int

    @cached_property
    def share(self) -> float:
        """The share of the whole distribution that is within the bounds."""
        begin, end = self._bounds
        return end - begin

    def at(self, u: float) -> int:
        """The size below which a share ``u`` of all sizes is."""
        begin, end = self._bounds
        quantile = min(max(begin + u * (end - begin), _LEAST), _MOST)
        size = self.median * math.exp(self.sigma * self._normal.inv_cdf(quantile))
        return int(min(max(size, self.low), self.high))

    @cached_property
    def _bounds(self) -> tuple[float, float]:
        return self._below(self.low), self._below(self.high + 1)

    def _below(self, size: int) -> float:
        return self._normal.cdf(math.log(size / self.median) / self.sigma) if size else 0.0

    @cached_property
    def _normal(self) -> NormalDist:
        from statistics import NormalDist  # loads slowly, and few scenarios need it

        return NormalDist()


class SizeBins(Struct, frozen=True, dict=True, tag=True):
    """Weighted bins; within a bin all sizes are equally likely."""

    bins: tuple[tuple[int, int, float], ...]  #: (from, to, both included; weight)

    def at(self, u: float) -> int:
        """The size below which a share ``u`` of all sizes is."""
        sums = self._sums
        wanted = u * sums[-1]
        at = bisect(sums, wanted)
        low, high, weight = self.bins[at]
        within = (wanted - (sums[at - 1] if at else 0.0)) / weight
        return low + min(int(within * (high - low + 1)), high - low)

    @cached_property
    def _sums(self) -> list[float]:
        return list(accumulate(weight for _low, _high, weight in self.bins))


Distribution = LogNormal | SizeBins
