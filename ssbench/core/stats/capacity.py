"""The capacity of a store by a series of runs with more and more users.

Throughput of N users after the universal scalability law (Gunther 1993; *Guerrilla Capacity
Planning*, 2007)::

    X(N) = rate * N / (1 + contention * (N - 1) + coherency * N * (N - 1))

``contention`` is the share of the work that users do one after the other, ``coherency`` what each
pair of users costs: with it, throughput falls beyond a peak. N / X is linear in three coefficients,
none of them negative. They are fitted to the relative deviations, which are what noise is like in
rates. Intervals come from repeated fits to curves with as much noise as the residuals have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

Floats = npt.NDArray[np.float64]

LEAST_LOADS = 4  #: that differ: one more than there are coefficients
_RESAMPLES = 1000
_OUTSIDE = (0.025, 0.975)
_POOR_FIT = 0.1  #: of the rates, the root mean square of relative residuals
_MOST_NOISE = 3.0  #: the logarithm of a factor: Student's distribution has no bound
_EACH_TERM = [[0], *([0, *more] for more in ([1], [2], [1, 2]))]  #: the first one is above 0


class Estimate(Struct, frozen=True):
    """A number with its 95 % confidence interval; math.inf where there is no bound. Where ``low``
    is -math.inf, the number is at most ``value``, the lowest load of all runs.
    """

    value: float
    low: float
    high: float


class Law(Struct, frozen=True):
    """The universal scalability law with its coefficients."""

    rate_per_s: float  #: of one user
    contention: float
    coherency: float

    def at(self, users: float) -> float:
        """Operations per second of a number of users."""
        contended = self.contention * (users - 1)
        return self.rate_per_s * users / (1 + contended + self.coherency * users * (users - 1))

    @property
    def peak(self) -> float:
        """The users of the highest throughput; inf: it grows with each user."""
        if self.contention >= 1:
            return 1.0
        if not self.coherency:
            return math.inf
        return max(math.sqrt((1 - self.contention) / self.coherency), 1.0)

    @property
    def knee(self) -> float:
        """The users of the highest throughput by latency, X / (N / X), which Kleinrock (1979) calls
        power: with more, latency grows faster than throughput. inf: there are none."""
        return _root(3 * self.coherency, self.contention - self.coherency, self.contention - 1)

    def users_for(self, rate_per_s: float) -> float:
        """The fewest users of this throughput; inf: no number of users has it."""
        if rate_per_s <= self.rate_per_s:
            return 1.0
        linear = self.contention - self.coherency - self.rate_per_s / rate_per_s
        # coherency N^2 + linear N + (1 - contention) = 0, the lower root.
        square, constant = self.coherency, 1 - self.contention
        inside = linear * linear - 4 * square * constant
        if constant <= 0 or linear >= 0 or inside < 0:
            return math.inf
        return 2 * constant / (-linear + math.sqrt(inside))


class Capacity(Struct, frozen=True):
    """What a series of runs says about the capacity of a store."""

    law: Law
    knee: Estimate  #: users
    peak: Estimate  #: users
    peak_per_s: Estimate  #: operations per second; of ever more users where there is no peak
    least_users: int  #: of all runs
    most_users: int  #: of all runs
    most_per_s: float  #: the highest throughput of a run
    doubled: Estimate  #: users for twice ``most_per_s``
    residual: float  #: root mean square of the relative differences of the runs from the law

    @property
    def doubts(self) -> list[str]:
        """Why the law may not say much about this store."""
        found = []
        if self.residual > _POOR_FIT:
            found.append(
                f"The rates differ from the curve by {self.residual:.0%} on average: this store "
                "does not follow it, or the runs are too short."
            )
        if self.knee.value > self.most_users:
            found.append(f"The knee lies beyond the {self.most_users} users that were tried.")
        elif math.isinf(self.knee.low):
            found.append(f"The knee lies below the {self.least_users} users that were tried.")
        elif self.knee.high > 2 * self.knee.low:
            found.append("The knee is uncertain: more loads around it would say more.")
        return found


def capacity_of(users: Sequence[float], rates_per_s: Sequence[float]) -> Capacity | None:
    """Fit the law to runs; None: fewer than LEAST_LOADS different numbers of users have a rate.

    :param rates_per_s: the throughput of each; a run without one is left out.
    """
    pairs = [(n, x) for n, x in zip(users, rates_per_s, strict=True) if n >= 1 and x > 0]
    if len({n for n, _ in pairs}) < LEAST_LOADS:
        return None
    loads, rates = (np.array(each, np.float64) for each in zip(*pairs, strict=True))
    laws, counts = _fits(loads, rates[None])
    law, terms = laws[0], int(counts[0])
    expected = np.array([law.at(n) for n in loads])
    residuals = rates / expected - 1
    freedom = max(len(loads) - terms, 1)
    spread = math.sqrt(float(residuals @ residuals) / freedom)
    # Student's distribution, because the spread is itself an estimate.
    noise = np.random.default_rng(0).standard_t(freedom, (_RESAMPLES, len(loads))) * spread
    factors = np.exp(np.clip(noise, -_MOST_NOISE, _MOST_NOISE))
    laws, _ = _fits(loads, expected * factors)
    most, least = max(x for _, x in pairs), int(loads.min())
    return Capacity(
        law=law,
        knee=_within(_estimate(law.knee, [each.knee for each in laws]), least),
        peak=_within(_estimate(law.peak, [each.peak for each in laws]), least),
        peak_per_s=_estimate(_peak_rate(law, least), [_peak_rate(each, least) for each in laws]),
        least_users=least,
        most_users=int(loads.max()),
        most_per_s=most,
        doubled=_estimate(law.users_for(2 * most), [each.users_for(2 * most) for each in laws]),
        residual=spread,
    )


def _fits(loads: Floats, rates: Floats) -> tuple[list[Law], npt.NDArray[np.int64]]:
    """The law of the least relative squares for each row of rates, and how many of its coefficients
    are not 0."""
    of_rate = (
        np.column_stack([np.ones_like(loads), loads - 1, loads * (loads - 1)]) / loads[:, None]
    )
    terms = of_rate * rates[:, :, None]
    least = np.full(len(rates), math.inf)
    best, counts = np.zeros((len(rates), 3)), np.zeros(len(rates), np.int64)
    for chosen in _EACH_TERM:
        some = terms[:, :, chosen]
        found = np.linalg.pinv(some).sum(axis=2)
        rest = 1 - (some @ found[:, :, None])[:, :, 0]
        squares = (rest * rest).sum(axis=1)
        better = (found >= 0).all(axis=1) & (found[:, 0] > 0) & (squares < least)
        least[better], counts[better], best[better] = squares[better], len(chosen), 0
        best[np.ix_(better, chosen)] = found[better]
    return [Law(1 / a, b / a, c / a) for a, b, c in best.tolist()], counts


def _within(found: Estimate, least: int) -> Estimate:
    """At most the lowest load, where the estimate is below it: of fewer users nothing is known."""
    if least == 1 or found.value > least:
        return found
    return Estimate(least, -math.inf, max(found.high, least))


def _peak_rate(law: Law, least: int) -> float:
    if not math.isinf(law.peak):
        return law.at(max(law.peak, least))
    return law.rate_per_s / law.contention if law.contention else math.inf


def _estimate(value: float, draws: Sequence[float]) -> Estimate:
    low, high = np.quantile(draws, _OUTSIDE, method="inverted_cdf").tolist()
    return Estimate(value, min(low, value), max(high, value))


def _root(square: float, linear: float, constant: float) -> float:
    """The positive root where ``constant`` is negative; inf: there is none."""
    if constant >= 0:
        return 1.0
    if not square:
        return max(-constant / linear, 1.0) if linear > 0 else math.inf
    root = math.sqrt(linear * linear - 4 * square * constant)
    # In the form that loses no digits.
    found = -2 * constant / (linear + root) if linear > 0 else (root - linear) / (2 * square)
    return max(found, 1.0)
