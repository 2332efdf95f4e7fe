"""The run by whole seconds: rows for JSON, and a CSV file."""

from __future__ import annotations

import csv
import io
from typing import Any

from ssbench.core.stats.buckets import Buckets
from ssbench.core.stats.run_stats import RunStats

_PERCENTILES = (50.0, 99.0)


def series_rows(stats: RunStats) -> list[dict[str, Any]]:
    """A row for each second, warm-up and cool-down included; None where there is nothing."""
    return [
        {
            "second": second.second + 1,
            "operations": second.count,
            "errors": second.errors,
            "moved_bytes": None if stats.run.no_store else second.bytes_moved,
            **_quantiles("service", second.service),
            **_quantiles("response", second.response),
            "in_flight": second.in_flight,
        }
        for second in stats.series.seconds()
    ]


def _quantiles(name: str, latencies: Buckets) -> dict[str, float | None]:
    found = latencies.quantiles(_PERCENTILES)
    return {
        f"{name}_p{percent:g}_s": None if value is None else round(value / 1e9, 9)
        for percent, value in zip(_PERCENTILES, found, strict=True)
    }


def render_series(stats: RunStats) -> str:
    """The rows as CSV, with a line of column names even where there is no row."""
    rows = series_rows(stats)
    names = list(rows[0]) if rows else list(_EMPTY)
    out = io.StringIO()
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


_EMPTY = (
    "second", "operations", "errors", "moved_bytes", "service_p50_s", "service_p99_s",
    "response_p50_s", "response_p99_s", "in_flight",
)  # fmt: skip
