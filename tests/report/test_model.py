"""What is true of a report in every format."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from ssbench.report import all_percentiles, of_run, render
from ssbench.report.model import (
    COUNT,
    LATENCY,
    SECONDS,
    Column,
    Level,
    Note,
    Section,
    Series,
    Table,
    fact,
)
from tests.report import runs
from tests.report.reports import MORE, REPORTS


def test_a_new_block_of_figures_is_in_every_format() -> None:
    """A section that no renderer knows."""
    rows = [
        [fact("city", city, COUNT, "where"), fact("delay_s", delay, LATENCY, "how far")]
        for city, delay in (("Ulm", 2_500_000), ("Bonn", None))
    ]
    times = Series(
        "load",
        Column("second", COUNT, "when"),
        [Column("lag_s", SECONDS, "how late"), Column("jobs", COUNT, "how many")],
        [{"second": 1, "lag_s": 0.25, "jobs": 7}],
    )
    section = Section(
        "network",
        "NETWORK",
        facts=[fact("round_trip_s", 1_234_567, LATENCY, "there and back", title="Round trip")],
        tables=[Table.of("cities", rows, by="city")],
        series=[times],
        notes=[Note(Level.WARNING, "it is slow", {"note": "slow"})],
    )
    report = REPORTS["small/normal"]()
    report = replace(report, sections=[*report.sections, section])
    text = render(report, "text")
    for line in (
        "NETWORK", "Warning: it is slow", "Round trip: 1.235 ms", "  city  delay_s (ms)",
        "   Ulm         2.500", "  Bonn           N/A", "  second  lag_s (s)  jobs",
        "       1        0.2     7",
    ):  # fmt: skip
        assert f"\n{line}\n" in text
    assert json.loads(render(report, "json"))["network"] == {
        "round_trip_s": 0.001234567,
        "cities": {"Ulm": {"delay_s": 0.0025}, "Bonn": {"delay_s": None}},
        "load": [{"second": 1, "lag_s": 0.25, "jobs": 7}],
        "notes": [{"note": "slow", "severity": "warning", "sentence": "it is slow"}],
    }
    names, values = render(report, "csv").splitlines()
    assert names.endswith('"network_round_trip_s","cities_Ulm_delay_s","cities_Bonn_delay_s"')
    assert values.endswith('0.001234567,0.0025,""')


@pytest.mark.parametrize("percentiles", [(0.0,), (95.0, 100.1), (float("nan"),), ()])
def test_an_invalid_percentile_is_rejected(percentiles: tuple[float, ...]) -> None:
    for reject in (all_percentiles, lambda asked: of_run(runs.stats_of([]), asked)):
        with pytest.raises(ValueError, match="above 0 and at most 100"):
            reject(percentiles)


def test_what_one_compared_operation_has_json_says_of_each() -> None:
    report = MORE["races compared"]()
    found = json.loads(render(report, "json"))["operations"]
    races = {name: figures["lost_races"] for name, figures in found.items()}
    assert races == {"CREATE_IF_ABSENT": [1, 1], "UPDATE_IF_MATCH": [0, 0]}
    text = render(report, "text")
    assert text.count("Lost races") == 2  # of all, and of the one
