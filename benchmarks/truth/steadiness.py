"""How often a run is called steady, by its report and by `--auto-stop`, where the truth is known.

Simulated runs of a minute under random arrivals (a Poisson process): of a constant rate, and of a
store that slows by 2 % a second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ssbench.core.stats.steady import SteadyStateDetector, check

SECONDS = 60
_SECOND_NS = 1_000_000_000
_LATENCY_NS, _BYTES = 1_000_000, 4096  #: of each operation


class Row(NamedTuple):
    """Runs of one kind, and what share of them may at most be judged wrongly."""

    rate: int
    slower: float = 0.0  #: by this share in each second
    bound: float = 0.02  #: at 1 % each for a drift and for the spread

    @property
    def name(self) -> str:
        what = f"slows by {self.slower:.0%} a second" if self.slower else "constant"
        return f"steadiness: {self.rate:,}/s (poisson), {what}"


RATES = (20, 100, 1000)
ROWS = (*map(Row, RATES), *(Row(rate, 0.02, 0.0) for rate in RATES))


def is_stopped(counts: Sequence[int]) -> bool:
    """Whether `--auto-stop` ends a run of these successes by second."""
    detector = SteadyStateDetector()
    detector.begin(0)
    for second, count in enumerate(counts, 1):
        detector.add(second * _SECOND_NS - 1, [_LATENCY_NS] * count, [_BYTES] * count)
        if detector.reason_to_end(second * _SECOND_NS):
            return True
    return False


def check_rows(runs: int, only: str = "") -> Iterator[str]:
    """Print a line for each row; yields what is beyond its bound."""
    for seed, row in enumerate(ROWS):
        if only not in row.name:
            continue
        rng = np.random.default_rng(seed)
        rates = [row.rate * (1 - row.slower) ** second for second in range(SECONDS)]
        drawn = [rng.poisson(rates).tolist() for _ in range(runs)]
        steady = sum(not check(counts) for counts in drawn)
        # A constant rate ends some runs later than others: only the other ones must never end.
        stopped = sum(map(is_stopped, drawn)) if row.slower else 0
        wrong = steady + stopped if row.slower else runs - steady
        ended = f", ended by --auto-stop {stopped}" if row.slower else ""
        print(
            f"{row.name}: called steady {steady} of {runs}{ended} (wrong at most {row.bound:.0%})",
            flush=True,
        )
        if wrong > row.bound * runs + 2 * (row.bound * (1 - row.bound) * runs) ** 0.5:
            yield f"MISSED: {row.name}"
