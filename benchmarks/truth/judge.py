"""Compares figures of reports with the truth, within bounds. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from benchmarks.truth.cases import MS
from benchmarks.truth.log import Entry

RELATIVE, LEAST_NS = 0.01, 0.4 * MS  #: how far off a time may be: the larger of the two
LEFT_OUT = 0.02  #: of the READs: what figures of the first byte may leave out as uncertain
Results = Mapping[str, tuple[int, int, int]]


class Figure(NamedTuple):
    """One line of the table; times in ns."""

    name: str
    truth: float
    ours: float
    bound: float  #: how far off it may be
    is_time: bool = True
    digits: int = 0  #: that are shown of what is no time

    @property
    def error(self) -> float:
        """Our figure minus the truth."""
        return self.ours - self.truth

    @property
    def fine(self) -> bool:
        """Whether the difference is within the bound."""
        return abs(self.error) <= self.bound


def quantile(rising: Sequence[float], percent: float) -> float:
    """As ssbench defines it: at a whole rank the mean of both neighbors, else the next above."""
    rank = len(rising) * Fraction(repr(percent)) / 100
    lower = rank.numerator // rank.denominator
    if rank.denominator != 1:
        return rising[lower]
    return (rising[lower - 1] + rising[min(lower, len(rising) - 1)]) / 2


def time_figures(
    name: str, truth: Sequence[float], told: Mapping[str, Any], looseness: float = 1.0
) -> Iterator[Figure]:
    """Mean and percentiles of logged times, beside a latency of the JSON report."""
    rising = sorted(truth)
    pairs = [("mean", sum(rising) / len(rising), told["mean_s"])]
    pairs += [
        (f"p{percent}", quantile(rising, float(percent)), value)
        for percent, value in told["percentiles_s"].items()
        if float(percent) < 100
    ]
    for figure, true_ns, told_s in pairs:
        bound = max(RELATIVE * true_ns, LEAST_NS) * looseness
        yield Figure(f"{name} {figure}", true_ns, told_s * 1e9, bound)


def exact(name: str, truth: float, ours: float) -> Figure:
    """A count."""
    return Figure(name, truth, ours, 0, is_time=False)


def count_figures(
    log: Sequence[Entry], results: Results, report: Mapping[str, Any]
) -> list[Figure]:
    """Operations, errors and bytes of the run phase: equal to the unit.

    :param log: of all phases.
    """
    run = [row for row in log if row.transaction in results]
    good = [row for row in run if row.status < 300]
    told, total = report["operations"], report["total"]
    uploads = [row for row in good if row.method == "PUT"]
    sent = sum(told[name]["moved_bytes"] for name in ("CREATE", "UPDATE"))
    return [
        exact("operations done", len(good), total["count"]),
        exact("operations failed", len(run) - len(good), total["errors"]),
        exact("bytes uploaded", sum(row.received for row in uploads), sent),
        exact(
            "bytes downloaded",
            sum(row.sent for row in good if row.method == "GET"),
            told["READ"]["moved_bytes"],
        ),
    ]


def broken_figures(
    log: Sequence[Entry], results: Results, report: Mapping[str, Any]
) -> list[Figure]:
    """READs whose connection ended in the body: each with its id, status and bytes."""
    broken = [row for row in log if row.lied]
    of_status = sum(error["count"] for error in report["errors"] if error["status"] == 200)
    moved = report["operations"]["READ"]["failed_moved_bytes"]
    return [
        exact("broken, with their ids", len(broken), sum(r.transaction in results for r in broken)),
        exact("broken, with status 200", len(broken), of_status),
        exact("bytes of the broken", sum(row.sent for row in broken), moved),
    ]


def rate_figure(
    log: Sequence[Entry],
    results: Results,
    total: Mapping[str, Any],
    load_ns: tuple[int, int],
    warmup_s: float = 0.0,
) -> Figure:
    """The average rate of a run, from the server's log.

    In an open loop the successes that completed in the window; in a closed one each by the share
    of its time, at the server, in it. A closed loop begins with its first request.

    :param total: the figures of the report.
    :param load_ns: when it began and ended, as the due times count.
    """
    run = [row for row in log if row.transaction in results]
    good = [row for row in run if row.status < 300]
    begin_ns, end_ns = (_origin_ns(run, results) + at_ns for at_ns in load_ns)
    is_open = min(results[row.transaction][0] for row in run) >= 0
    low_ns = (begin_ns if is_open else min(row.got_ns for row in run)) + warmup_s * 1e9
    high_ns = end_ns if is_open else low_ns - warmup_s * 1e9 + end_ns - begin_ns
    if is_open:
        counted: float = sum(low_ns <= row.last_ns < high_ns for row in good)
    else:
        counted = sum(
            max(0.0, min(row.last_ns, high_ns) - max(row.got_ns, low_ns))
            / (row.last_ns - row.got_ns)
            for row in good
        )
    truth = counted / ((high_ns - low_ns) / 1e9)
    ours = total["requests_per_s"]
    return Figure("operations/s", truth, ours, RELATIVE * truth, is_time=False, digits=3)


def _origin_ns(run: Sequence[Entry], results: Results) -> int:
    """When the offsets of the results count from: by the request that travelled fastest."""
    return min(row.got_ns - results[row.transaction][1] for row in run)


def strangers(log: Sequence[Entry], ours: set[str]) -> Figure:
    """Requests that only one side has; HEADs have no result of their own."""
    theirs = {row.transaction for row in log if row.method != "HEAD"}
    return exact("requests known to one side only", 0, len(theirs ^ ours))


def service_times(log: Sequence[Entry], results: Results) -> list[float]:
    """Time from the first byte received to the last sent, of the run's successes."""
    return [
        row.last_ns - row.got_ns for row in log if row.transaction in results and row.status < 300
    ]


def first_bytes(
    log: Sequence[Entry], results: Results, uncertain: Collection[str] = ()
) -> list[float]:
    """Time to the body's first byte, of READs but for those that ssbench's figures leave out."""
    return [
        row.first_ns - row.got_ns
        for row in log
        if row.transaction in results
        and row.status < 300
        and row.method == "GET"
        and row.transaction not in uncertain
    ]


def left_out(first: Sequence[float], uncertain: Collection[str]) -> Figure:
    """READs that were read so late that it is unknown when their first byte came."""
    bound = LEFT_OUT * (len(first) + len(uncertain))
    return exact("first bytes left out", 0, len(uncertain))._replace(bound=bound)


def response_times(log: Sequence[Entry], results: Results) -> list[float]:
    """Time from due to the last byte sent."""
    run = [row for row in log if row.transaction in results]
    origin_ns = _origin_ns(run, results)
    return [
        row.last_ns - origin_ns - results[row.transaction][0] for row in run if row.status < 300
    ]
