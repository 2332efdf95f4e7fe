"""What reports say stays as it was, and each fact of the model is in each of its formats.

Text, CSV and JSON of the files of format 1 are held by tests/statfile/test_golden.py, what 0.3.9
itself printed of its files by test_text.py and test_csv.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for
from msgspec.structs import replace

from ssbench.report import render, render_html
from ssbench.report.model import Report, Section
from tests.golden import compare
from tests.report import cases
from tests.report.reports import MORE, REPORTS

FORMATS = {
    "text": "txt", "wide": "wide.txt", "classic": "classic.txt", "csv": "csv", "json": "json",
    "markdown": "md", "html": "html.txt", "junit": "xml",
}  # fmt: skip


#: Intervals come from logarithms, whose last digits depend on the processor.
_LAST_DIGITS = re.compile(r"\d+\.\d{9,}(?:e-\d+)?")


def rendered(report: Report, form: str) -> str:
    if form in ("csv", "json") and report.kind == "comparison":
        return _LAST_DIGITS.sub(lambda found: f"{float(found[0]):.8g}", render(report, form))
    if form != "html":
        return render(report, form)
    page = render_html(report, "plotly.js").partition("<body>")[2]
    page = re.sub(r"(?s)<(script|style|svg)\b.*?</\1>", "", page)
    page = re.sub(r"</t[dh]>\s*", " | ", page)
    lines = unescape(re.sub(r"<[^>]*>", " ", page)).splitlines()
    return "\n".join(" ".join(line.split()) for line in lines if line.strip()) + "\n"


def pairs() -> list[tuple[str, str]]:
    held = {("format-1", form) for form in ("text", "csv", "json")} | {
        ("comparison", "junit"),
        ("small/comparison", "junit"),
    }
    return [
        (name, form)
        for name in REPORTS
        for form in FORMATS
        if not {(name, form), (name.partition("/")[0], form)} & held
    ]


@pytest.mark.parametrize(("name", "form"), pairs())
def test_a_report_stays_as_it_was(name: str, form: str) -> None:
    compare.check(f"formats/{name}.{FORMATS[form]}", rendered(REPORTS[name](), form))


def lines_of(report: Report) -> list[str]:
    """What a report says beside the figures of operations."""
    if report.kind != "run":
        return render(report, "text").splitlines()
    blocks = render(report, "text").split("\n\n")
    if report["thresholds"].tables[0].rows:
        blocks = [block for block in blocks if block.startswith(("THRESHOLDS", "Throughput"))]
    figures = tuple(f"{row['operation']}\n" for row in report.operations)
    return [
        line
        for block in blocks
        for line in ([] if block.startswith(figures) else block.splitlines())
    ]


@pytest.mark.parametrize("group", cases.GROUPS)
def test_a_report_says_what_it_said(group: str) -> None:
    (first, plain), *others = cases.GROUPS[group].items()
    before = lines_of(plain())
    said = [f"# {first}", *before]
    for name, make in others:
        changes = unified_diff(before, lines_of(make()), lineterm="", n=0)
        said += ["", f"# {name}", *(each for each in list(changes)[2:] if each[:2] != "@@")]
    compare.check(f"said/{group.replace(' ', '_').replace(',', '')}.txt", "\n".join(said) + "\n")


#: Facts that say how others are shown, or that stand in a note as well.
NOT_SHOWN = {
    "receives", "excludes", "short", "of_scenario",  # how, or under which heading
    "concurrency", "retry_percent",  # pages: users, and retries beside successes
    "whole_seconds",  # of a run that is too short for intervals
    "phase", "run_started_at_s", "run_ended_at_s",  # text: where a part of the run counts
}  # fmt: skip
#: CSV of a series or a comparison has a line for each row of one table.
OF_FACTS = ("format-1/healthy", "format-1/open_loop")


def changed(value: object) -> object:
    """Another value of the same kind, of another length in any unit; None: no such value."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return type(value)(value * 3 + 70_000_000)
    return f"{value}X" if isinstance(value, str) else None


def with_another_value(
    report: Report, seen: set[tuple[str, ...]]
) -> Iterator[tuple[str, str, Report]]:
    """(fact or cell, its formats, the report in which this alone is different).

    :param seen: places that are left out; those of this report are added.
    """

    def is_new(*place: str) -> bool:
        before = len(seen)
        seen.add(place)
        return len(seen) > before

    for at, section in enumerate(report.sections):

        def put(section: Section, at: int = at) -> Report:
            sections = [*report.sections]
            sections[at] = section
            return replace(report, sections=sections)

        for number, fact in enumerate(section.facts):
            other = changed(fact.value)
            if other is not None and is_new(section.key, fact.column.key, fact.column.formats):
                facts = [*section.facts]
                facts[number] = replace(fact, value=other)
                formats = " ".join(
                    each for each in fact.column.formats.split() if each in section.formats
                )
                yield fact.column.key, formats, put(replace(section, facts=facts))
        for number, table in enumerate(section.tables):
            row = table.rows[0] if table.rows else {}
            for column in table.columns:
                other = changed(row.get(column.key))
                if other is not None and is_new(section.key, table.key, column.key, column.formats):
                    tables = [*section.tables]
                    tables[number] = replace(
                        table, rows=[{**row, column.key: other}, *table.rows[1:]]
                    )
                    formats = " ".join(
                        each
                        for each in column.formats.split()
                        if each in table.formats and each in section.formats
                    )
                    yield column.key, formats, put(replace(section, tables=tables))


@pytest.mark.parametrize("names", [OF_FACTS, ("series",), ("comparison",)])
def test_each_fact_of_the_model_appears_in_each_of_its_formats(names: Sequence[str]) -> None:
    forms = {"text": ("wide", "markdown", "html"), "json": ("json",)}
    if names == OF_FACTS:
        forms["csv"] = ("csv",)
    missing, seen = [], set[tuple[str, ...]]()
    for report in (REPORTS[name]() for name in names):
        before = {form: rendered(report, form) for group in forms.values() for form in group}
        missing += [
            (key, form)
            for key, formats, other in with_another_value(report, seen)
            for kind in formats.split()
            for form in forms.get(kind, ())
            if key not in NOT_SHOWN and rendered(other, form) == before[form]
        ]
    assert missing == []


# The JSON schema

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA = json.loads((DOCS / "report-1.schema.json").read_text())
#: Parts that others extend, or whose further keys depend on the sentence.
OPEN = ("source", "part_times", "counts", "figures", "function", "note")
_JSON = sorted(compare.FOLDER.rglob("*.json"))


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


@pytest.mark.parametrize("path", _JSON, ids=lambda path: path.name)
def test_golden_reports_are_valid(path: Path) -> None:
    kind = path.stem if path.stem in ("series", "comparison") else "run"
    assert list(faults(kind, json.loads(path.read_text()))) == []


@pytest.mark.parametrize("name", MORE)
def test_reports_of_each_kind_are_valid(name: str) -> None:
    report = MORE[name]()
    assert list(faults(report.kind, json.loads(render(report, "json")))) == []


def test_a_key_that_goes_or_changes_its_type_is_a_fault() -> None:
    report = json.loads(render(REPORTS["small/normal"](), "json"))
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
