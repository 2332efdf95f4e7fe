"""Coarse latencies: 3 % wide, mergeable, and harmless whoever sent them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.live import buckets, quantile_s

latencies = st.lists(st.integers(1, 10**13), min_size=1, max_size=200)


@given(latencies, st.sampled_from([50, 95, 99, 100]))
def test_quantiles_are_within_three_percent(values_ns: list[int], percent: float) -> None:
    """Invariant: the value found is within 3 % of the one of that rank."""
    exact = sorted(values_ns)[-(-len(values_ns) * percent // 100) - 1] / 1e9
    found = quantile_s(buckets(values_ns), percent)
    assert found == pytest.approx(exact, rel=0.03)


naturals = st.integers(0, 2**64 - 1)


@given(st.dictionaries(naturals, naturals, max_size=5))
def test_malformed_counts_give_a_latency_or_none(counts: dict[int, int]) -> None:
    """Invariant: whatever the counts are, the quantile is a finite number from 0 on, or None."""
    found = quantile_s(counts, 99)
    assert found is None or 0 <= found < float("inf")
    for bits in (0x7FF0 << 48, 0x7FF8 << 48, 0xFFF0 << 48, 0xC000 << 48):
        assert quantile_s({bits >> 47: 1}, 50) is None, "infinite, or negative"
