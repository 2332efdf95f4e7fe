"""What can be promised of a run: the table of metrics that thresholds speak of."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ssbench.core.stats.run_stats import RunStats
    from ssbench.core.stats.tally import Tally


Number = int | float | Fraction

_DURATIONS = {"us": 1000, "ms": 1_000_000, "s": 1_000_000_000, "m": 60_000_000_000}
_RATES = {"/s": 1, "": 1}
_THROUGHPUTS = {
    **{f"{prefix}B/s": 1000**n for n, prefix in enumerate(("", "k", "M", "G"))},
    **{f"{prefix}iB/s": 1024**n for n, prefix in enumerate(("K", "M", "G"), 1)},
}
_COUNTS = {"": 1, "%": 1}
_ONLY_COUNT = {"": 1}


class Metric(NamedTuple):
    """A row of the table of metrics."""

    units: Mapping[str, int]  #: unit -> base units: nanoseconds, bytes a second, percent, 1
    example: str
    #: (run, its part that the scope names, unit) -> the value in base units.
    measure: Callable[[RunStats, Tally, str], Number | None]
    scoped: bool = True


def _errors(_stats: RunStats, tally: Tally, unit: str) -> Number | None:
    return _share(tally.errors, tally.operations, unit) if tally.operations else None


def _retries(_stats: RunStats, tally: Tally, unit: str) -> Number | None:
    # In percent of the successes, as the report gives them.
    return _share(tally.retries, tally.count, unit) if tally.operations else None


def _of_footer(name: str) -> Callable[[RunStats, Tally, str], Number | None]:
    """A count of RunRecords that only a footer tells; its share is of all operations and itself."""

    def measure(stats: RunStats, tally: Tally, unit: str) -> Number | None:
        known = stats.run.footers.keys() >= stats.run.headers.keys()
        count: int = getattr(stats.run, name)
        lost = 0 if name == "lost" else stats.run.lost
        whole = tally.operations + stats.left_out + lost + count
        return _share(count, whole, unit) if known and whole else None

    return measure


def _late(stats: RunStats, tally: Tally, unit: str) -> Number | None:
    is_open = any(mark.rate for mark in stats.run.stages)
    return _of_footer("late")(stats, tally, unit) if is_open else None


def _counter(name: str) -> Callable[[RunStats, Tally, str], Number | None]:
    def measure(_stats: RunStats, tally: Tally, unit: str) -> Number | None:
        count: int = getattr(tally, name)
        return _share(count, tally.operations, unit) if tally.operations else None

    return measure


def _share(part: int, whole: int, unit: str) -> Number | None:
    if unit != "%":
        return part
    return Fraction(100 * part, whole) if whole else None


#: All but the latencies.
METRICS: dict[str, Metric] = {
    "rate": Metric(_RATES, "1000/s", lambda _stats, tally, _unit: tally.rate_per_s),
    "throughput": Metric(_THROUGHPUTS, "100MB/s", lambda _stats, tally, _unit: tally.bytes_per_s),
    "errors": Metric(_COUNTS, "0.1%", _errors),
    "retries": Metric(_COUNTS, "1%", _retries),
    "rate_limited": Metric(_COUNTS, "1%", _counter("rate_limited")),
    "lost": Metric(_COUNTS, "1", _of_footer("lost"), scoped=False),
    "late": Metric(_COUNTS, "1%", _late, scoped=False),
    "skipped": Metric(_COUNTS, "1%", _of_footer("skipped_count"), scoped=False),
    "left_behind": Metric(_ONLY_COUNT, "1", _of_footer("left_behind"), scoped=False),
}

#: What a latency's name begins with -> Tally's attribute; "" is decided by the run.
_LATENCIES = {
    "": "",
    "service_": "last_byte",
    "response_": "response",
    "first_byte_": "first_byte",
    "headers_": "headers",
}
LATENCY = re.compile(
    rf"({'|'.join(_LATENCIES)})(?:p([0-9]{{1,6}}(?:\.[0-9]{{1,6}})?)|mean|min|max)"
)
KNOWN = (
    "p50, p99.9 and the like, mean, min, max, each also as service_p99, response_p99, "
    f"first_byte_p99, headers_p99; {', '.join(METRICS)}"
)


def metric_of(name: str) -> Metric:
    """The row of a metric, a latency's included; the name must be one."""
    return METRICS.get(name) or Metric(_DURATIONS, "50ms", _measure_of(name))


def _measure_of(name: str) -> Callable[[RunStats, Tally, str], Number | None]:
    def measure(_stats: RunStats, tally: Tally, _unit: str) -> Number | None:
        histogram = getattr(tally, latency_of(name, tally) or "").histogram
        percent = percent_of(name)
        if percent is not None:
            found: Number | None = histogram.quantile(percent)
        else:
            found = getattr(histogram, name.rpartition("_")[2])
        return found

    return measure


def latency_of(name: str, tally: Tally) -> str | None:
    """The attribute of the tally that a latency's name stands for; None for other metrics."""
    match = LATENCY.fullmatch(name)
    if match is None:
        return None
    return _LATENCIES[match[1]] or ("response" if tally.response.histogram.count else "last_byte")


def percent_of(name: str) -> float | None:
    """99.9 for ``service_p99.9``; None for what is no percentile."""
    match = LATENCY.fullmatch(name)
    return float(match[2]) if match and match[2] else None
