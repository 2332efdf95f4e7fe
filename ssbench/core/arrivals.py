"""Load models of open loops: when operations fall due, as many as a rate says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING

from ssbench.core.model import SECOND_NS

if TYPE_CHECKING:
    from random import Random

#: ``arrivals(rate, rng)``: endless rising offsets in ns from the stage's start.
Arrivals = Callable[[float, "Random"], Iterator[int]]


def uniform(rate: float, rng: Random) -> Iterator[int]:
    """Evenly spaced, the first at 0. Each is computed from its index: no error accumulates."""
    return (round(n * SECOND_NS / rate) for n in count())


def poisson(rate: float, rng: Random) -> Iterator[int]:
    """A Poisson process: exponential gaps, as of many independent clients."""
    at_s = 0.0
    while True:
        at_s += rng.expovariate(rate)
        yield round(at_s * SECOND_NS)


#: ``arrivals`` of a scenario, ``--arrivals``
MODELS: dict[str, Arrivals] = {"uniform": uniform, "poisson": poisson}
