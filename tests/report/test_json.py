"""The JSON report: everything, with units in the names."""

from __future__ import annotations

from typing import Any

from ssbench.core.model import Phase
from ssbench.core.records import ClockRecord
from tests.report import runs


def report(records: Any, *percentiles: float) -> Any:
    return runs.as_json(runs.stats_of(records), *percentiles)


def test_clocks_of_workers_are_in_seconds() -> None:
    first, second = (
        ClockRecord(0, Phase.RUN, -2_500_000, 150_000, 12_000_000),
        ClockRecord(7, Phase.RUN, 4_000, 1_000, None),
    )
    found = report([*runs.normal()[:6], first, second, runs.footer()])["clocks"]
    assert found == [
        {
            "worker_id": "alpha", "host": "bench-01", "corrected_by_s": -0.0025,
            "uncertainty_s": 0.00015, "wall_clock_ahead_s": 0.012,
        },
        {
            "worker_id": "#7", "host": None, "corrected_by_s": 0.000004,
            "uncertainty_s": 0.000001, "wall_clock_ahead_s": None,
        },
    ]  # fmt: skip


def test_a_scenario_that_json_cannot_hold() -> None:
    weird = {"name": "x", "user_count": float("inf"), "sizes": [b"\xff"], "nan": float("nan")}
    found = report([runs.header(scenario=weird, scenario_given=weird)])
    assert found["run"]["scenario"]["nan"] is None
