"""Data of the progress display: the state of a phase, and coarse latency counts.

The counts are cheap to make and small in a heartbeat. A bucket is the upper part of the value's
IEEE 754 double, with 5 bits of the mantissa, so it is 3 % wide. Reports never use these counts;
they use core.stats.histogram.
"""

from __future__ import annotations

import struct
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_SHIFT = 52 - 5
_INFINITE = 0x7FF0_0000_0000_0000 >> _SHIFT  #: from here on: infinities, NaN, negatives


@dataclass(frozen=True, slots=True)
class RunProgress:
    """The state of a phase."""

    elapsed_s: float
    done: int
    total: int | None = None  #: None if the phase ends by time
    errors: int = 0
    rate: float = 0.0  #: operations/s, over the last seconds
    p50_s: float | None = None  #: latency percentiles over the last seconds
    p99_s: float | None = None
    remaining_s: float | None = None
    workers: int = 0
    users: int = 0
    target_rate: float | None = None  #: target arrival rate in operations/s; None in a closed loop
    late: int = 0  #: operations past their due time that have not started
    #: number of an operation -> how many succeeded and how many failed; {} if no observer wants it
    operations: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    #: ErrorKind -> failed operations; {} if no observer wants it
    errors_by_cause: Mapping[int, int] = field(default_factory=dict)
    #: ``buckets`` of the latencies over the last seconds; {} if no observer wants them
    latencies: Mapping[int, int] = field(default_factory=dict)


def buckets(values_ns: Sequence[int]) -> Counter[int]:
    """Counts of values in ns, by bucket."""
    bits = memoryview(array("d", values_ns)).cast("B").cast("Q")
    return Counter([item >> _SHIFT for item in bits])


def quantile_s(counts: Mapping[int, int], percent: float) -> float | None:
    """The percentile (0 to 100) in seconds, within 3 %; None if there are no values."""
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
