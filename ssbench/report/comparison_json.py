"""Runs side by side, as JSON: every figure, with its unit in its name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ssbench.core.stats.compare import CONFIDENCE, RESAMPLES, Measure, Row
from ssbench.core.stats.comparison import Comparison, Run, Section
from ssbench.core.stats.run_stats import operation_name
from ssbench.report.as_json import finite, plain
from ssbench.report.host_text import host_rows
from ssbench.report.options import percent_text
from ssbench.report.steady_text import steady_rows

SCHEMA_VERSION = 1

#: Measure -> its key (with the percentile in it) and what its figures are divided by.
_KEYS = {
    "rate": ("operations_per_s", 1.0),
    "throughput": ("moved_bytes_per_s", 1.0),
    "service": ("service_p{}_s", 1e9),
    "response": ("response_p{}_s", 1e9),
}


def render_comparison_json(found: Comparison) -> str:
    """One JSON object, indented, ASCII only. Ratios are a run's figure over the first run's."""
    report = {
        "schema_version": SCHEMA_VERSION,
        "confidence": CONFIDENCE,
        "resamples": RESAMPLES,
        "seed": found.seed,
        "runs": [_run(run) for run in found.runs],
        "differing_settings": [
            {"key": each.key, "of_scenario": each.of_scenario, "values": each.values}
            for each in found.unlike
        ],
        "total": None,
        "operations": {},
    }
    operations: dict[str, Any] = {}
    for section in found.sections:
        rows = _section(found, section)
        if section.operation is None:
            report["total"] = rows
        else:
            operations[operation_name(section.operation)] = rows
    report["operations"] = operations
    return json.dumps(finite(report), indent=2, default=plain) + "\n"


def _run(run: Run) -> dict[str, Any]:
    stats = run.stats
    return {
        "file": run.name,
        "run_id": stats.run.header.run_id if stats.run.header else None,
        "scenario_name": stats.run.scenario.name,
        "complete": stats.run.complete,
        "users_ran": stats.run.users_ran,
        "short_of_users": stats.run.short_of_users,
        "started_at_s": stats.started_s,
        "duration_s": stats.duration_s,
        "whole_seconds": run.seconds,
        "steadiness": steady_rows(stats),
        "hosts": host_rows(run.hosts),
    }


def _section(found: Comparison, section: Section) -> dict[str, Any]:
    busy = [run.disturbed for run in found.runs]
    totals = [run.stats.total(section.operation) for run in found.runs]
    return {
        "operations": [tally.operations for tally in totals],
        "errors": [tally.errors for tally in totals],
        "figures": dict(_figure(row, busy) for row in section.rows),
    }


def _figure(row: Row, busy: Sequence[bool]) -> tuple[str, dict[str, Any]]:
    key, divisor = _key(row.measure)
    runs = [
        {
            name: None if value is None else round(value / divisor, 9)
            for name, value in (("value", each.value), ("low", each.low), ("high", each.high))
        }
        for each in row.estimates
    ]
    changes = [
        {
            "ratio": change.ratio,
            "low": change.low,
            "high": change.high,
            "verdict": change.verdict.name.lower(),
            "other_work": busy[0] or busy[at],
        }
        for at, change in enumerate(row.changes, 1)
    ]
    return key, {"runs": runs, "changes_against_first": changes}


def _key(measure: Measure) -> tuple[str, float]:
    key, divisor = _KEYS[measure.name]
    percent = "" if measure.percent is None else percent_text(measure.percent)
    return key.format(percent), divisor
