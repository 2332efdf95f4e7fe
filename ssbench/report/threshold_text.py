"""Promises that the run kept or missed: as lines, rows for JSON, and columns for CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ssbench.core.stats.metrics import metric_of
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.thresholds import Threshold, ThresholdResult
from ssbench.core.text import printable

#: Which latency was judged -> its name in the report.
_JUDGED = {
    "last_byte": "service time",
    "response": "response time",
    "first_byte": "to the first byte",
    "headers": "to the headers",
}


def threshold_lines(stats: RunStats, thresholds: Sequence[Threshold]) -> Iterator[str]:
    """A headed line for each; nothing where there is none."""
    if not thresholds:
        return
    width = max(len(printable(str(threshold))) for threshold in thresholds)
    yield "THRESHOLDS"
    for threshold in thresholds:
        verdict = threshold.judge(stats)
        word = "pass" if verdict.passed else "FAIL"
        yield f"  {word}  {printable(str(threshold)):<{width}}  {_found(verdict)}"


def actual_text(verdict: ThresholdResult) -> str:
    """``12.4ms``; "N/A" where there was nothing to judge by."""
    actual = _in_unit(verdict)
    if actual is None:
        return "N/A"
    return _shown(actual, float(verdict.threshold.number)) + verdict.threshold.unit


def _found(verdict: ThresholdResult) -> str:
    """``12.4ms (response time)``, or why there is nothing."""
    if verdict.actual is None:
        return printable(verdict.why)
    notes = [_JUDGED[verdict.latency]] if verdict.latency else []
    if verdict.borderline:
        notes.append("closer to the limit than the percentile's accuracy")
    text = actual_text(verdict)
    return f"{text} ({', '.join(notes)})" if notes else text


def _in_unit(verdict: ThresholdResult) -> float | None:
    """The actual value in the threshold's own unit."""
    threshold = verdict.threshold
    if verdict.actual is None:
        return None
    return verdict.actual / metric_of(threshold.metric).units[threshold.unit]


def _shown(actual: float, limit: float) -> str:
    """Six digits, or as many as put it on its side of the limit."""
    for digits in range(6, 18):
        text = f"{actual:.{digits}g}"
        if (float(text) > limit, float(text) < limit) == (actual > limit, actual < limit):
            break
    return f"{float(text):f}".rstrip("0").rstrip(".") if "e+" in text else text


def threshold_rows(stats: RunStats, thresholds: Sequence[Threshold]) -> list[dict[str, Any]]:
    """Each with its verdict; values are in the threshold's own unit."""
    return [verdict_row(threshold.judge(stats)) for threshold in thresholds]


def verdict_row(verdict: ThresholdResult) -> dict[str, Any]:
    """A verdict for JSON."""
    threshold = verdict.threshold
    return {
        "threshold": str(threshold),
        "passed": verdict.passed,
        "actual": _in_unit(verdict),
        "limit": float(threshold.number),
        "unit": threshold.unit,
        "latency": _JUDGED[verdict.latency] if verdict.latency else None,
        "borderline": verdict.borderline,
        "why": verdict.why or None,
    }


def threshold_columns(
    stats: RunStats, thresholds: Sequence[Threshold]
) -> Iterator[tuple[str, str | int | float | None]]:
    """Three for each, numbered from 1 as they were given."""
    for number, row in enumerate(threshold_rows(stats, thresholds), 1):
        yield f"threshold_{number}", row["threshold"]
        yield f"threshold_{number}_passed", int(row["passed"])
        yield f"threshold_{number}_actual", row["actual"]
