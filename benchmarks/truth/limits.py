"""How far off `find-limit --over rate` is, where the limit is known: at a simulated M/M/1 store.

One server works for an exponentially distributed time on each request, and requests arrive by a
Poisson process. Then the response time at rate r is exponential with the mean 1 / (capacity - r),
so the rate at which a percentile is at its limit is known exactly (Kleinrock 1975, Queueing
Systems, 3.2). Runs begin with no request in the store, and are short, as those of the command.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, log
from statistics import fmean, quantiles
from typing import NamedTuple

import numpy as np

from ssbench.core.stats.steps import Search
from ssbench.runner.series import LONGER

CAPACITY = 200.0  #: requests a second that the store can do
_WARMUP_S, _FIRST, _PRECISION = 3.0, 10.0, 0.05  #: the command's defaults
_FARTHEST = 0.15  #: of nine in ten answers from the limit


class Row(NamedTuple):
    """Searches for the rate at which the p95 is below a limit."""

    limit_s: float
    step_s: float = 10.0
    mean: float = 0.04  #: of the answers, at most so far from the limit

    @property
    def name(self) -> str:
        return (
            f"find-limit: M/M/1 of {CAPACITY:g}/s, p95 < {1000 * self.limit_s:g} ms, steps of"
            f" {self.step_s:g} s"
        )

    @property
    def rate(self) -> float:
        """The highest rate that meets it."""
        return CAPACITY - log(20) / self.limit_s


ROWS = (Row(0.06), Row(0.06, 4.0), Row(0.03), Row(0.15))


def found(row: Row, rng: np.random.Generator) -> Search:
    """A search, once it is over."""
    search = Search(
        _FIRST, 1e6, least=_FIRST / 64, whole=False, precision=_PRECISION, confirm=1
    )  # fmt: skip
    while (rate := search.next) is not None:
        seconds = row.step_s * (LONGER if search.is_near else 1)
        search.record(rate, kept=_p95(rng, rate, seconds) < row.limit_s)
    return search


def _p95(rng: np.random.Generator, rate: float, seconds: float) -> float:
    """The percentile of the response times of a run, in seconds, without those of its warm-up."""
    whole_s = _WARMUP_S + seconds
    dues = np.sort(rng.random(rng.poisson(rate * whole_s))) * whole_s
    works = rng.exponential(1 / CAPACITY, len(dues))
    # Lindley's recursion: each waits for what the one before left, less the time since then.
    owed = np.concatenate([[0.0], works[:-1] - np.diff(dues)]).cumsum()
    responses = owed - np.minimum.accumulate(owed) + works
    rising = np.sort(responses[dues >= _WARMUP_S])
    return float(rising[ceil(0.95 * len(rising)) - 1])


def check(searches: int, only: str = "") -> Iterator[str]:
    """Print a line for each row; yields what is beyond its bound."""
    for seed, row in enumerate(ROWS):
        if only not in row.name:
            continue
        rng = np.random.default_rng(seed)
        ended = [found(row, rng) for _ in range(searches)]
        off = [(search.kept or 0.0) / row.rate - 1 for search in ended]
        tenths = quantiles(off, n=20)
        low, high = tenths[0], tenths[-1]
        spans = [search.interval for search in ended]
        within = sum((a or 0) <= row.rate <= (b or np.inf) for a, b in spans)
        print(
            f"{row.name}: limit {row.rate:.1f}/s; found {fmean(off):+.1%} on average, nine in ten"
            f" from {low:+.1%} to {high:+.1%}; within the printed interval {within} of {searches}"
            f" (at most {row.mean:.0%} on average, {_FARTHEST:.0%} for nine in ten)",
            flush=True,
        )
        if abs(fmean(off)) > row.mean:
            yield f"MISSED: {row.name}: average"
        if max(-low, high) > _FARTHEST:
            yield f"MISSED: {row.name}: nine in ten"
