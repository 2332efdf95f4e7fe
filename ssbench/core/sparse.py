"""Percentiles that single values decide."""

from __future__ import annotations

ENOUGH_BEYOND = 10  #: values beyond a percentile; with fewer, single values decide it
SPARSE_MARK = "~"
SPARSE_NOTE = f"{SPARSE_MARK} marks a percentile with fewer than ten operations beyond it."


class Sparse(float):
    """A percentile with fewer than ten operations beyond it: texts mark it."""


def is_sparse(percent: float, count: int) -> bool:
    """Whether fewer than ``ENOUGH_BEYOND`` of this many values are beyond that percentile. The
    maximum (100) is exact."""
    return percent < 100 and round(count * (100 - percent) / 100, 6) < ENOUGH_BEYOND


def marked(percent: float, value: float | None, count: int) -> float | None:
    """A percentile of ``count`` operations, as ``Sparse`` if too few are beyond it."""
    return Sparse(value) if value is not None and is_sparse(percent, count) else value
