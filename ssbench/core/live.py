"""Where a run stands, for who watches it.

Coarse latency counts, cheap to make and small in a heartbeat.

A bucket is the upper part of the value's IEEE 754 double, with 5 bits of the mantissa: 3 % wide.
Reports never use these; they have core.stats.histogram.
"""

from __future__ import annotations

import struct
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_SHIFT = 52 - 5
_INFINITE = 0x7FF0_0000_0000_0000 >> _SHIFT  #: from here on buckets are of no number from 0 on


@dataclass(frozen=True, slots=True)
class RunProgress:
    """Where a phase stands."""

    elapsed_s: float
    done: int
    total: int | None = None  #: None where the phase ends by time
    errors: int = 0
    rate: float = 0.0  #: operations per second, of the last seconds
    p50_s: float | None = None  #: latencies of the last seconds
    p99_s: float | None = None
    remaining_s: float | None = None
    workers: int = 0
    users: int = 0
    target_rate: float | None = None  #: operations a second that fall due; None: a closed loop
    late: int = 0  #: operations that fell due and have not been started


def buckets(values_ns: Sequence[int]) -> Counter[int]:
    """Counts by bucket."""
    bits = memoryview(array("d", values_ns)).cast("B").cast("Q")
    return Counter([item >> _SHIFT for item in bits])


def quantile_s(counts: Mapping[int, int], percent: float) -> float | None:
    """The percentile in seconds, within 3 %; None without a value."""
    rank = sum(counts.values()) * percent / 100
    if not rank:
        return None
    seen = 0
    for bucket in sorted(counts):
        seen += counts[bucket]
        if seen >= rank:
            break
    if bucket >= _INFINITE:
        return None
    middle = (bucket << _SHIFT) + (1 << (_SHIFT - 1))
    (value_ns,) = struct.unpack("=d", struct.pack("=Q", middle))
    return float(value_ns) / 1e9
