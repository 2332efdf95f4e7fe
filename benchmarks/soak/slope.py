"""Detects memory growth by a slope that is robust against jumps and noise. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import combinations

Sample = tuple[float, float]  #: second, value

WINDOW_S = 10.0
#: Of less than this nothing is said: a minute's ups and downs are no trend.
ENOUGH_S = 300.0


def slope(samples: Sequence[Sample], enough_s: float = ENOUGH_S) -> float | None:
    """Growth of the value per second; None if the samples span too little time.

    Theil and Sen's: the median of the slopes between any two points, here the medians of windows
    of 10 s. Up to 29 % of the points may be wild without any harm.
    """
    points = _medians(samples)
    if len(points) < 2 or points[-1][0] - points[0][0] < enough_s:
        return None
    return statistics.median(
        (later - earlier) / (to_s - from_s)
        for (from_s, earlier), (to_s, later) in combinations(points, 2)
    )


def _medians(samples: Sequence[Sample]) -> list[Sample]:
    """One point for each window: the medians of its times and values."""
    windows: dict[int, list[Sample]] = {}
    for sample in samples:
        windows.setdefault(int(sample[0] // WINDOW_S), []).append(sample)
    return [
        (statistics.median(at for at, _ in window), statistics.median(value for _, value in window))
        for window in windows.values()
    ]
