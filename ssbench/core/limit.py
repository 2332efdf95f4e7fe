"""The search for the largest load that keeps a promise: doubling, then bisection.

A pure machine: ask ``next`` for the load to try, tell ``took`` how that went, until ``next`` is
None. It believes each step once: a load that breaks the promise by chance bounds the search all the
same, so what is between certain and chance is a matter of how long a step is.
"""

from __future__ import annotations

import math


class Search:
    """Finds ``kept``, the largest load that kept the promise, and ``broken``, the smallest above it
    that didn't.

    The two are a step apart at the end: for whole loads by 1, or, where that is more, by
    ``precision`` (a share of ``kept``). ``kept`` is None where the least load broke the promise
    already, ``broken`` where the most still kept it.

    :param first: the load that is tried first, and doubled.
    :param most: no load above it is tried.
    :param least: none below it either.
    :param whole: users are, rates needn't be.
    """

    def __init__(
        self,
        first: float,
        most: float,
        *,
        least: float = 1,
        whole: bool = True,
        precision: float = 0.05,
    ) -> None:
        if not 0 < least <= most or precision <= 0:
            raise ValueError("a least load above 0, a most not below it, a precision above 0")
        self.kept: float | None = None
        self.broken: float | None = None
        self._whole = whole
        self._least, self._most = self._rounded(least), self._rounded(most)
        self._first = self._rounded(min(max(first, least), most))
        self._precision = precision

    def __repr__(self) -> str:
        return f"<Search kept {self.kept}, broken {self.broken}, next {self.next}>"

    def took(self, load: float, *, kept: bool) -> None:
        """A step with this load was made.

        :raises ValueError: where the load isn't between those that are known.
        """
        if not (self.kept or 0) < load < (self.broken or math.inf):
            raise ValueError(f"load {load:g} is known already, from {self!r}")
        if kept:
            self.kept = load
        else:
            self.broken = load

    def limit(self, most: float) -> None:
        """No load above this is tried, nor above what was said before."""
        self._most = min(self._most, self._rounded(max(most, self._least)))

    @property
    def next(self) -> float | None:
        """The load to try; None where the search is over."""
        if self.broken is None:
            return self._upwards()
        if self.kept is None:
            return self._downwards(self.broken)
        gap = self.broken - self.kept
        if gap <= max(self._precision * self.kept, 1 if self._whole else 0):
            return None
        return self._rounded(self.kept + gap / 2)

    def _upwards(self) -> float | None:
        if self.kept is None:
            return self._first
        return min(2 * self.kept, self._most) if self.kept < self._most else None

    def _downwards(self, broken: float) -> float | None:
        """Nothing has kept the promise yet: halve, down to the least."""
        return max(self._rounded(broken / 2), self._least) if broken > self._least else None

    def _rounded(self, load: float) -> float:
        """Rates to three digits, as one would ask for them, where that is fine enough."""
        if self._whole:
            return int(load)
        if self.kept is None and self.broken is None:
            return load
        rounded = float(f"{load:.3g}")
        low, high = self.kept or 0, self.broken or math.inf
        return rounded if low < rounded < high else load
