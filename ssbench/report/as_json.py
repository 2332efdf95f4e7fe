"""The JSON report: every figure, with its unit in its name. What isn't known is null.

History of the schema: 1 (ssbench 1.0). New keys may come without a new number; a key that goes,
or changes its meaning, gives a new one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ssbench.core.model import Phase
from ssbench.core.stats.run_stats import RunStats, operation_name
from ssbench.core.stats.scenario_view import crud_of
from ssbench.core.stats.tally import (
    COUNTERS,
    LATENCIES,
    Counts,
    ErrorExample,
    ErrorTally,
    Latency,
    Tally,
)
from ssbench.core.stats.verified import VERIFIED, Verified
from ssbench.report import cells
from ssbench.report.host_text import clock_rows, verdict_map
from ssbench.report.notes import note_rows
from ssbench.report.options import ReportOptions, percent_text
from ssbench.report.steady_text import steady_rows
from ssbench.report.threshold_text import threshold_rows
from ssbench.report.timeseries import series_rows

SCHEMA_VERSION = 1


def render_json(stats: RunStats, options: ReportOptions) -> str:
    """One JSON object, indented, ASCII only."""
    report = {
        "schema_version": SCHEMA_VERSION,
        "run": _run(stats),
        "total": _operation(stats, options, None),
        "operations": {
            operation_name(operation): _operation(stats, options, operation)
            for operation in stats.operations
        },
        "phases": {
            phase.name: _counts(stats.phase(phase)) for phase in (Phase.POPULATE, Phase.CLEANUP)
        },
        "errors": _errors(stats.errors),
        "phase_errors": {
            phase.name: _errors(stats.phase_errors(phase))
            for phase in (Phase.POPULATE, Phase.CLEANUP)
        },
        "workers": _workers(stats),
        "completions_per_s": stats.completions(),
        "stages": [_stage(stats, options, index) for index in range(stats.stage_count)],
        "seconds": series_rows(stats),
        "steadiness": steady_rows(stats),
        "notes": note_rows(stats),
        "thresholds": threshold_rows(stats, options.thresholds),
        "load_generator": verdict_map(stats.verdict()),
        "clocks": clock_rows(stats),
        "verified": _verified(stats.verified),
    }
    return json.dumps(finite(report), indent=2, default=plain) + "\n"


def _run(stats: RunStats) -> dict[str, Any]:
    run = stats.run
    header, footer, view = run.header, run.footer, run.scenario
    after_end = stats.after_end
    return {
        "run_id": header.run_id if header else None,
        "ssbench_version": header.ssbench_version if header else None,
        "scenario": header.scenario if header else None,
        "scenario_given": header.scenario_given if header else None,
        "overrides": header.overrides if header else None,
        "seed": header.seed if header else None,
        "driver": header.driver if header else None,
        "store_involved": not run.no_store,
        "hosts": header.hosts if header else None,
        "versions": header.versions if header else None,
        "sizes": [{**asdict(size), "crud": crud_of(size.profile)} for size in view.sizes],
        "crud_weighted_average": crud_of(view.profile),
        "operations_weighted_average": view.profile,
        "complete": run.complete,
        "damage": run.damage,
        "ended": run.ending,
        "reason": footer.reason if footer else None,
        "started_at_s": stats.started_s,
        "ended_at_s": stats.ended_s,
        "duration_s": stats.duration_s,
        "users": max((users.asked for users in run.stage_users), default=view.user_count),
        "users_ran": run.users_ran,
        "short_of_users": run.short_of_users,
        "sent": run.sent,
        "lost": run.lost,
        "unaccounted": stats.unaccounted,
        "late": run.late,
        "refused": run.refused,
        "skipped": run.skipped,
        "out_of_range": stats.out_of_range,
        "left_out": stats.left_out,
        "rate_basis": stats.rate_basis.value,
        "completed_after_end": after_end.operations if after_end else 0,
        "completed_after_end_s": after_end.seconds if after_end else None,
        "warmup_s": view.warmup_s,
        "cooldown_s": view.cooldown_s,
        "left_behind": run.left_behind,
        "left_unknown": run.left_unknown,
        "workers_lost": run.workers_lost,
        "warnings": run.warnings,
    }


def _operation(stats: RunStats, options: ReportOptions, operation: int | None) -> dict[str, Any]:
    return {
        **_tally(stats.total(operation), options),
        "size_classes": {
            stats.class_name(size_class): _tally(stats.total(operation, size_class), options)
            for size_class in stats.classes(operation)
        },
    }


def _tally(tally: Tally, options: ReportOptions) -> dict[str, Any]:
    latencies = {f"{name}_latency": _latency(getattr(tally, name), options) for name in LATENCIES}
    is_open = tally.response.histogram.count
    response = _latency(tally.response, options) if is_open else None
    return {**_counts(tally), **latencies, "response_time": response}


def _stage(stats: RunStats, options: ReportOptions, index: int) -> dict[str, Any]:
    marks = stats.run.stages
    mark = marks[index] if index < len(marks) else None
    users = stats.run.stage_users[index] if mark else None
    return {
        "users": mark.users if mark else None,
        "users_ran": users.least if users else None,
        "users_by_time": [{"from_s": at_s, "users": ran} for at_s, ran in users.ran]
        if users
        else [],
        "rate_per_s": mark.rate if mark else None,
        "seconds": stats.stage_seconds(index),
        "warmup_s": stats.run.scenario.stage_warmup_s(index),
        **_tally(stats.total(stage=index), options),
    }


def _verified(verified: Verified | None) -> dict[str, Any] | None:
    if verified is None:
        return None
    example = _example(verified.example) if verified.example else None
    return {**{name: getattr(verified, name) for name in VERIFIED}, "first_corrupt": example}


def _counts(counts: Counts) -> dict[str, Any]:
    return {
        "count": counts.count,
        "errors": counts.errors,
        **{name: getattr(counts, name) for name in COUNTERS},
        "retry_percent": counts.retry_percent,
        "moved_bytes": counts.moved_bytes,
        "failed_moved_bytes": counts.failed_moved_bytes,
        "rate_window_s": counts.throughput.seconds,
        "requests_per_s": counts.rate_per_s,
        "moved_bytes_per_s": counts.bytes_per_s,
        "span_s": counts.seconds,
        "span_requests_per_s": counts.over_span.rate_per_s,
    }


def _latency(latency: Latency, options: ReportOptions) -> dict[str, Any]:
    histogram, percents = latency.histogram, options.all_percentiles
    values = histogram.quantiles(percents)
    return {
        "count": histogram.count,
        "out_of_range": histogram.out_of_range,
        "uncertain": latency.uncertain,
        "min_s": _seconds(histogram.min),
        "max_s": _seconds(histogram.max),
        "mean_s": _seconds(histogram.mean),
        "std_dev_s": _seconds(histogram.std_dev),
        "percentiles_s": {
            percent_text(percent): _seconds(value)
            for percent, value in zip(percents, values, strict=True)
        },
        "worst_transaction_id": (
            latency.worst[1].decode("utf-8", "replace") if latency.worst else None
        ),
    }


def _errors(errors: Mapping[tuple[int, int], ErrorTally]) -> list[dict[str, Any]]:
    return [
        {
            "kind": cells.error_label(kind),
            "status": status or None,
            "count": error.count,
            "example": _example(error.example),
        }
        for (kind, status), error in sorted(errors.items())
    ]


def _example(example: ErrorExample) -> dict[str, Any]:
    return {
        "operation": operation_name(example.operation),
        "detail": example.detail,
        "transaction_id": example.transaction_id.decode("utf-8", "replace"),
        "at_s": example.at_ns / 1e9,
    }


def _workers(stats: RunStats) -> dict[str, Any]:
    spread = stats.worker_spread
    return {
        "requests_by_worker_id": stats.requests_per_worker(),
        "requests_min": spread.min if spread else None,
        "requests_max": spread.max if spread else None,
        "requests_mean": spread.mean if spread else None,
        "requests_std_dev": spread.std_dev if spread else None,
    }


def _seconds(value_ns: float | None) -> float | None:
    return None if value_ns is None else value_ns / 1e9


def finite(value: Any) -> Any:
    """The same value, with null for infinities and NaN, which JSON doesn't have."""
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    if isinstance(value, dict):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    return value


def plain(value: Any) -> Any:
    """For what ``json`` doesn't know: mappings that aren't dicts, bytes of another's making."""
    return dict(value) if hasattr(value, "keys") else str(value)
