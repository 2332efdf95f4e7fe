"""Texts that the displays of a run share."""

from __future__ import annotations

from ssbench.core.live import RunProgress
from ssbench.core.model import ErrorKind, error_label
from ssbench.core.text import latency_text

_CAUSES_SHOWN = 4  #: of errors; a line has no space for more


def error_causes(progress: RunProgress) -> list[str]:
    """``10 network timeout``, ``2 status 503``: the most frequent causes first."""
    causes = {
        error_label(kind): count
        for kind, count in progress.errors_by_cause.items()
        if kind != ErrorKind.STATUS
    }
    causes |= {f"status {code}": count for code, count in progress.errors_by_status.items()}
    ordered = sorted(causes.items(), key=lambda item: -item[1])
    shown = [f"{count:,} {label}" for label, count in ordered[:_CAUSES_SHOWN]]
    others = sum(count for _, count in ordered[_CAUSES_SHOWN:])
    return [*shown, f"{others:,} of other causes"] if others else shown


def phase_title(title: str, run: tuple[int, str] | None) -> str:
    """``Benchmark run``; of a run of a series ``Benchmark run (3: users 8)``."""
    return title if run is None else f"{title} ({run[0]}: {run[1]})"


def rate_text(progress: RunProgress) -> str:
    """``118/s``; in an open loop ``118/s of 120/s due``."""
    target = "" if progress.target_rate is None else f" of {progress.target_rate:,.10g}/s due"
    return f"{progress.rate:,.0f}/s{target}"


def latencies(p50_s: float | None, p99_s: float | None) -> list[str]:
    """``p50 1.2 ms``, ``p99 3.4 ms``."""
    return [f"p50 {latency_text(p50_s)}", f"p99 {latency_text(p99_s)}"]
