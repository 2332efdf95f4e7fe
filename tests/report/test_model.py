"""What is true of a report in every format."""

from __future__ import annotations

import json
import re

import pytest
from msgspec.structs import replace

from ssbench.core.stats.compare import comparison
from ssbench.core.stats.steps import Step
from ssbench.report import figures, render
from ssbench.report.comparison import of_comparison
from ssbench.report.model import (
    COUNT,
    LATENCY,
    SECONDS,
    Column,
    LazyRows,
    Level,
    Note,
    Section,
    Table,
    all_percentiles,
    fact,
)
from ssbench.report.run import of_run
from ssbench.report.series import SeriesSettings, of_series
from tests.report import runs
from tests.report.reports import MORE, REPORTS


def test_json_is_indented_and_ascii_whatever_a_name_is() -> None:
    """As Python's own encoder writes it; the name of a file may be no UTF-8."""
    name = '\x7f\0\u2028\u00e9\U0001f600\udcff\\"'
    text = render(of_run(runs.stats_of(runs.normal()), stats_file=name), "json")
    found = json.loads(text)
    assert found["summary"]["stats_file"] == name
    assert text == json.dumps(found, indent=2) + "\n"


def test_a_new_block_of_figures_is_in_every_format() -> None:
    """A section that no renderer knows."""
    rows = [
        [fact("city", city, COUNT), fact("delay_s", delay, LATENCY)]
        for city, delay in (("Ulm", 2_500_000), ("Bonn", None))
    ]
    load = Table(
        "load",
        [Column("second", COUNT), Column("lag_s", SECONDS), Column("jobs", COUNT)],
        LazyRows(lambda: iter([{"second": 1, "lag_s": 0.25, "jobs": 7}])),
    )
    section = Section(
        "network",
        "NETWORK",
        facts=[fact("round_trip_s", 1_234_567, LATENCY, title="Round trip")],
        tables=[Table.of("cities", rows, by="city"), load],
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
    assert names.endswith(
        '"network_round_trip_s","cities_Ulm_delay_s","cities_Bonn_delay_s","load_1_second",'
        '"load_1_lag_s","load_1_jobs"'
    )
    assert values.endswith('0.001234567,0.0025,"",1,0.25,7')


def test_a_new_figure_is_in_every_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of FIGURES, of which no renderer or builder knows."""
    column = Column("answers", COUNT, "Answers")
    tables = "operations sources compared compared_sources"
    row = figures.Figure(column, lambda each: each.operations + each.retries, tables, "steps")
    monkeypatch.setattr(figures, "FIGURES", (*figures.FIGURES, row))
    stats = runs.stats_of(runs.normal())
    report = of_run(stats)
    blocks, _, workers = render(report, "text").partition("WORKERS")
    assert blocks.count("\n       Answers: ") == 5  # of all operations, and of each
    assert "\n       Answers: 241\n" in blocks
    assert "Answers" in workers
    assert "Answers" not in render(report, "classic")  # 0.3.9 had none
    for form, start in (("markdown", "| TOTAL |"), ("html", "<tr><td>TOTAL</td>")):
        line = next(line for line in render(report, form).splitlines() if line.startswith(start))
        assert "241" in line
        assert render(report, form).count("Answers") > 3
    found = json.loads(render(report, "json"))
    assert found["total"]["answers"] == 241
    assert sum(each["answers"] for each in found["by_worker"]) == 241
    assert found["operations"]["READ"]["size_classes"]["tiny"]["answers"] > 0
    names, _values = render(report, "csv").splitlines()
    assert '"total_answers"' in names
    assert '"worker_2_answers"' in names
    compared = of_comparison(comparison([("a.gz", stats), ("b.gz", stats)], seed=1))
    assert json.loads(render(compared, "json"))["total"]["answers"] == [241, 241]
    assert '"TOTAL","answers",2,"b.gz",241,' in render(compared, "csv")
    text = render(compared, "text")
    assert re.search(r"\nAnswers +241 +241\n", text)
    assert "Run 2 Answers" in text
    step = Step.of(stats, 4, "a.gz", (50.0, 99.0, 100.0))
    series = of_series(SeriesSettings("own", "users", (50.0, 99.0, 100.0)), [step])
    assert json.loads(render(series, "json"))["steps"][0]["answers"] == 241
    assert '"answers"' in render(series, "csv")
    assert "Answers 241" in render(series, "text")
    assert "| Answers |" in render(series, "markdown")


def test_a_knee_below_all_loads_is_said_as_a_bound() -> None:
    steps = [Step.of(runs.stats_of(runs.lasting(12, 50)), n, "a", (50.0,)) for n in (4, 8, 16, 32)]
    series = of_series(SeriesSettings("own", "users", (50.0,)), steps)
    for form in ("text", "markdown", "html"):
        assert "Knee: at most 4 users, 50.0 operations/s: " in render(series, form)
    assert "knee: 4 users" not in render(series, "html"), "no mark in a chart"
    knee = json.loads(render(series, "json"))["capacity"]["knee_users"]
    assert (knee["value"], knee["low"]) == (4, None)


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
