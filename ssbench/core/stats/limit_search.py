"""The search for the largest load that keeps a promise: doubling, then bisection.

A pure machine: ask ``next`` for the load to try, tell ``record`` how that went, until ``next`` is
None. On its way it believes each step, since most loads are far from the limit. At its end it tries
the two loads again that it would answer with; where that contradicts, the majority counts, and the
search goes on from there.
"""

from __future__ import annotations

import math
from collections import Counter


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
    :param confirm: how often the two loads are tried again; one on which tries differ, until a
        majority of twice that and one is certain.
    """

    def __init__(
        self,
        first: float,
        most: float,
        *,
        least: float = 1,
        whole: bool = True,
        precision: float = 0.05,
        confirm: int = 0,
    ) -> None:
        if not 0 < least <= most or precision <= 0:
            raise ValueError("a least load above 0, a most not below it, a precision above 0")
        self.kept: float | None = None
        self.broken: float | None = None
        self._confirm = confirm
        self._kept_of: Counter[float] = Counter()  # how often a load has kept the promise
        self._tries: Counter[float] = Counter()
        self._whole = whole
        self.bound_by = ""  #: what lowered the most that is tried; "": nothing
        self._least, self._most = self._rounded(least), self._rounded(most)
        self._first = self._rounded(min(max(first, least), most))
        self._precision = precision

    def __repr__(self) -> str:
        return f"<Search kept {self.kept}, broken {self.broken}, next {self.next}>"

    def record(self, load: float, *, kept: bool) -> None:
        """A step with this load was made.

        :raises ValueError: where it isn't the one that was asked for.
        """
        if load != self.next:
            raise ValueError(f"load {load:g} was not asked for, by {self!r}")
        self._tries[load] += 1
        self._kept_of[load] += kept
        leaning = {load: 2 * self._kept_of[load] - self._tries[load] for load in self._tries}
        self.broken = min((load for load in leaning if leaning[load] < 0), default=None)
        most = self.broken or math.inf
        good = (load for load in leaning if leaning[load] > 0 and load < most)
        self.kept = max(good, default=None)

    def tries(self, load: float) -> tuple[int, int]:
        """How often a load has kept the promise, and of how many steps."""
        return self._kept_of[load], self._tries[load]

    @property
    def most(self) -> float:
        """No load above it is tried."""
        return self._most

    def limit(self, most: float, bound_by: str = "workers") -> None:
        """No load above this is tried, nor above what was said before.

        :param bound_by: what doesn't allow more.
        """
        most = self._rounded(max(most, self._least))
        if most < self._most:
            self._most, self.bound_by = most, bound_by
            self._first = min(self._first, most)

    @property
    def next(self) -> float | None:
        """The load to try; None where the search is over."""
        undecided = (
            load for load, tries in self._tries.items() if tries == 2 * self._kept_of[load]
        )
        found = next((load for load in undecided if load <= self._most), None) or self._new()
        return self._unconfirmed() if found is None else found

    def _unconfirmed(self) -> float | None:
        """Of the two loads at the limit one that isn't certain, and can still be tried."""
        for load in (self.broken, self.kept):
            if load is not None and load <= self._most:
                kept, tries = self.tries(load)
                if max(kept, tries - kept) <= self._confirm:
                    return load
        return None

    def _new(self) -> float | None:
        """A load between those that are known; None where there is none left."""
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
