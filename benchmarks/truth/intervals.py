"""How often `compare` calls two runs different, where the truth is known.

Simulated pairs of runs of 60 s: of one setting (A/A), and with 5 % more operations and shorter
latencies (A/B). A second shows the store through a limited number of operations, so counting adds
its own noise to what the store does.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ssbench.core.stats.histogram import Buckets
from ssbench.core.stats.intervals import ChangeVerdict, Measure, compare
from ssbench.core.stats.series import Second

SECONDS = 60
MEASURES = (Measure("rate"), Measure("service", 50.0), Measure("service", 90.0))
_SIGMA = 0.5  #: of the latencies' logarithm
_NOTHING = Buckets.of([])


class Row(NamedTuple):
    """Pairs of one kind, and what share of them may, or must, be called different."""

    load: str  #: "closed", or arrivals of an open loop: "uniform", "poisson"
    lasting: float  #: correlation of the store's latency in neighbouring seconds
    bound: float  #: at most in A/A pairs, at least in A/B pairs
    ratio: float = 1.0  #: of the rates, and inversely of the latencies
    rate: int = 400
    spread: float = 0.05  #: standard deviation of the store's latency from second to second

    @property
    def name(self) -> str:
        pair = "A/A" if self.ratio == 1 else f"A/B of {self.ratio - 1:.0%}"
        return (
            f"compare: {pair}, {self.load}, seconds differ by {self.spread:.0%}, correlation"
            f" {self.lasting:g}"
        )

    def missed(self, different: int, pairs: int) -> bool:
        """Whether so many are more, or fewer, than chance allows (2 standard deviations)."""
        chance = 2 * (self.bound * (1 - self.bound) * pairs) ** 0.5
        if self.ratio == 1:
            return bool(different > self.bound * pairs + chance)
        return bool(different < self.bound * pairs - chance)


LOADS = ("closed", "uniform", "poisson")
ROWS = (
    *(Row(load, lasting, 0.02) for load in LOADS for lasting in (0.0, 0.3, 0.6, 0.8)),
    *(Row(load, 0.95, 0.05) for load in LOADS),
    *(
        Row(load, 0.0, bound, 1.05, 1000, spread)
        for spread, bound in ((0.02, 0.99), (0.03, 0.98), (0.05, 0.9))
        for load in LOADS
    ),
)


def called_different(row: Row, pairs: int, seed: int) -> dict[Measure, int]:
    """How many of so many pairs, by measure that may differ."""
    numbers, rng = np.random.default_rng(seed), random.Random(seed)
    percents = [measure.percent for measure in MEASURES if measure.percent is not None]
    found = dict.fromkeys(MEASURES, 0)
    for _ in range(pairs):
        sides = [_run(numbers, row, ratio) for ratio in (1.0, row.ratio)]
        for each in compare(sides, rng, percents=percents, resamples=400):
            if each.measure in found:
                found[each.measure] += each.changes[0].verdict is ChangeVerdict.REAL
    return found


def _run(rng: np.random.Generator, row: Row, ratio: float) -> list[Second]:
    state = rng.standard_normal()
    found = []
    for at in range(SECONDS):
        slower = float(np.exp(row.spread * state))
        state = row.lasting * state + (1 - row.lasting**2) ** 0.5 * rng.standard_normal()
        due = row.rate * ratio
        count = round(due / slower if row.load == "closed" else due)
        count = int(rng.poisson(due)) if row.load == "poisson" else count
        times = 2e7 / ratio * slower * rng.lognormal(0, _SIGMA, count)
        service = Buckets.of(times.astype(np.int64).tolist())
        found.append(Second(at, count, 0, 4096 * count, 0, service, _NOTHING))
    return found


def check(pairs: int, only: str = "") -> Iterator[str]:
    """Print a line for each row; yields what is beyond its bound."""
    for seed, row in enumerate(ROWS):
        if only not in row.name:
            continue
        found = called_different(row, pairs, seed)
        words = {m: m.name if m.percent is None else f"p{m.percent:g}" for m in MEASURES}
        texts = [f"{words[measure]} {count}" for measure, count in found.items()]
        bound = f"{'most' if row.ratio == 1 else 'least'} {row.bound:.0%}"
        print(f"{row.name}: different {', '.join(texts)} of {pairs} (at {bound})", flush=True)
        for measure, count in found.items():
            if row.missed(count, pairs):
                yield f"MISSED: {row.name}: {words[measure]}"
