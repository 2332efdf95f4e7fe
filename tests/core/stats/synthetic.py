"""Runs whose truth is known: rate, distribution of latencies, how long its noise lasts."""

from __future__ import annotations

import random
from collections.abc import Iterator

from ssbench.core.stats.histogram import Buckets
from ssbench.core.stats.series import Second

MEDIAN_NS = 20_000_000
SIGMA = 0.5  #: of the latencies' logarithm
_NOTHING = Buckets.of([])


def noise(rng: random.Random, lasting: float = 0.0) -> Iterator[float]:
    """Standard deviation 1; neighbours are correlated by ``lasting``."""
    value = rng.gauss(0, 1)
    while True:
        yield value
        value = lasting * value + (1 - lasting**2) ** 0.5 * rng.gauss(0, 1)


def seconds_of(
    rng: random.Random,
    seconds: int,
    *,
    rate: float = 1000,
    spread: float = 0.05,
    lasting: float = 0.0,
    slower: float = 1.0,
    samples: int | None = None,
) -> list[Second]:
    """Seconds of log-normal latencies around MEDIAN_NS.

    :param spread: standard deviation of the rate, as a share of it.
    :param lasting: correlation of the rates of neighbouring seconds.
    :param slower: what latencies are multiplied by.
    :param samples: latencies a second, None for as many as operations.
    """
    found = []
    state = rng.gauss(0, 1)
    for at in range(seconds):
        count = max(0, round(rate * (1 + spread * state)))
        state = lasting * state + (1 - lasting**2) ** 0.5 * rng.gauss(0, 1)
        many = count if samples is None else samples
        times = [int(MEDIAN_NS * slower * rng.lognormvariate(0, SIGMA)) for _ in range(many)]
        service = Buckets.of(times) if times else _NOTHING
        found.append(Second(at, count, 0, 4096 * count, 0, service, response=_NOTHING))
    return found
