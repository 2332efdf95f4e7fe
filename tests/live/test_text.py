"""Texts that the displays of a run share."""

from __future__ import annotations

from ssbench.live.watch import latencies


def test_latencies() -> None:
    assert latencies(0.0123, 1.25) == ["p50 12.3 ms", "p99 1.25 s"]
