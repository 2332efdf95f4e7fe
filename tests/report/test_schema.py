"""The JSON schema of reports: what it promises holds for golden reports and for those of today."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for

from ssbench.core.records import Record
from ssbench.core.stats.compare import comparison
from ssbench.core.stats.merge import Part, end_of_load_ns, merged
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.steps import Step
from ssbench.core.stats.thresholds import Threshold
from ssbench.report import Report, of_run, render
from ssbench.report.comparison import of_comparison
from ssbench.report.series import SeriesSettings, of_series
from tests.golden import compare, legacy
from tests.report import runs
from tests.report.test_html import REPORTS, lasting
from tests.report.test_text import around

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA = json.loads((DOCS / "report-1.schema.json").read_text())
#: Parts that others extend, or whose further keys depend on the sentence.
OPEN = ("counts", "figures", "function", "note")
GOLDEN = sorted(compare.FOLDER.rglob("*.json"))


def strict(schema: Any) -> Any:
    """The schema, which then allows no key that it does not name."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {
        key: {name: strict(each) for name, each in value.items()}
        if key in ("properties", "patternProperties")
        else strict(value)
        for key, value in schema.items()
    }
    closed = {"properties", "$ref"} & found.keys() and found.get("$ref") != "#/$defs/note"
    return {**found, "unevaluatedProperties": False} if closed else found


def validator(kind: str) -> Draft202012Validator:
    """Of reports of that kind, without any unknown key."""
    parts = {name: part if name in OPEN else strict(part) for name, part in SCHEMA["$defs"].items()}
    return Draft202012Validator({"$defs": parts, "$ref": f"#/$defs/{kind}"})


def faults(kind: str, report: Any) -> Iterator[str]:
    for error in validator(kind).iter_errors(report):
        yield f"{error.json_path}: {error.message[:300]}"


def open_series() -> Report:
    """Of rates, one of which ran with too few users; no search."""
    slo = (Threshold.parse("p99 < 50ms"),)
    percentiles = (50.0, 95.0, 99.0, 99.9, 100.0)
    settings = SeriesSettings("own", "rate", percentiles, slo)
    few = runs.stats_of(runs.no_results())
    steps = [
        Step.of(stats, load, f"{load}.stat.gz", percentiles, slo)
        for load, stats in ((5.0, few), (50.0, runs.stats_of(lasting(12))))
    ]
    return of_series(settings, steps)


def part_of_comparison() -> Report:
    named = [(name, legacy.stats_of(name)) for name in ("noop", "real")]
    return of_comparison(comparison(named, seed=1, operations=["READ"]))


def judged_around() -> Report:
    """With errors around the run, and thresholds of which one has no figure."""
    judged = [Threshold.parse(text) for text in ("errors < 1%", "p99(POST) < 1s", "p99 < 1s")]
    return of_run(around(), (99.99,), judged, stats_file="a.stat.gz")


def without_a_scenario() -> Report:
    return of_run(runs.stats_of([runs.header(scenario={}, scenario_given={"x": float("inf")})]))


def of_two_masters() -> Report:
    both = [lasting_with(1), lasting_with(2)]
    parts = [Part.of(f"{at}.stat.gz", records) for at, records in enumerate(both)]
    stats = RunStats.of(merged(parts, both), end_of_load_ns(parts))
    return of_run(stats, parts=parts)


def lasting_with(seed: int) -> list[Record]:
    return runs.lasting(12, 50, seed=seed, run_seconds=12, operation_count=None)


MORE = {
    "merged": of_two_masters,
    "rates": open_series,
    "part": part_of_comparison,
    "judged": judged_around,
    "bare": without_a_scenario,
    "empty": lambda: of_run(runs.stats_of([])),
}


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name)
def test_golden_reports_are_valid(path: Path) -> None:
    kind = path.stem if path.stem in ("series", "comparison") else "run"
    assert list(faults(kind, json.loads(path.read_text()))) == []


@pytest.mark.parametrize("name", [*REPORTS, *MORE])
def test_reports_of_each_kind_are_valid(name: str) -> None:
    report = {**REPORTS, **MORE}[name]()
    assert list(faults(report.kind, json.loads(render(report, "json")))) == []


def test_each_report_is_of_one_kind() -> None:
    whole = Draft202012Validator(SCHEMA)
    for name in REPORTS:
        report = json.loads(render(REPORTS[name](), "json"))
        whole.validate(report)
        kinds = [each["$ref"].removeprefix("#/$defs/") for each in SCHEMA["anyOf"]]
        assert [kind for kind in kinds if not list(faults(kind, report))] == [REPORTS[name]().kind]


def test_a_key_that_goes_or_changes_its_type_is_a_fault() -> None:
    report = json.loads(render(REPORTS["plain run"](), "json"))
    del report["total"]["requests_per_s"]
    report["run"]["users"] = "4"
    report["total"]["more"] = 1
    assert len(list(faults("run", report))) == 3


def test_every_key_has_a_meaning() -> None:
    def without(schema: Any, path: str) -> Iterator[str]:
        for name, each in schema.get("properties", {}).items():
            if not {"description", "const"} & each.keys():
                yield f"{path}.{name}"
            yield from without(each, f"{path}.{name}")
        for key in ("items", "additionalProperties"):
            if isinstance(schema.get(key), dict):
                yield from without(schema[key], f"{path}[]")

    missing = [each for name, part in SCHEMA["$defs"].items() for each in without(part, name)]
    assert missing == []


def test_it_is_a_schema() -> None:
    validator_for(SCHEMA).check_schema(SCHEMA)
