"""Reports for programs. As JSON: every value, its unit in its name; what is not known is null.

The schema of a run's report is 1 (since ssbench 1.0), and so are those of series and comparisons.
New keys may come without a new number; a key that goes, or changes its meaning, gives a new one.
docs/report-1.schema.json describes them.

As JUnit's XML, which CI systems read: thresholds as test cases. A run is a test suite, each step of
a series is one. Its first test case is the run itself: figures of a run that did not end as it
should prove nothing, so that is an error, not a failure. The format has no standard; this is the
part that Jenkins, GitLab and GitHub's actions agree on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree as ET  # nosec B405 # only writes

import msgspec

from ssbench.core.sparse import Sparse
from ssbench.core.text import printable
from ssbench.report.model import (
    WORD,
    Column,
    Distribution,
    Interval,
    Note,
    Report,
    Row,
    Section,
    Table,
    Unit,
    percent_text,
    time_text,
)
from ssbench.report.tables import judged_text

_NOT_ASCII = re.compile(r"[^\x00-\x7e]")
_DIGITS = 9  #: decimals of single durations in seconds, and of estimates


def render_json(report: Report) -> str:
    """One JSON object, indented, ASCII only."""
    found: dict[str, Any] = {}
    for section in report.sections:
        if "json" in section.formats:
            value = _section(section)
            if section.key:
                found[section.key] = value
            else:
                found.update(value)
    return _indented(_finite(found)) + "\n"


def _indented(value: Any) -> str:
    """As json.dumps(indent=2), whose encoder is Python and takes four times as long."""
    line = json.dumps(value, default=_plain, ensure_ascii=False)
    data = msgspec.json.format(line.encode("utf-8", "surrogatepass"))
    return _NOT_ASCII.sub(
        lambda found: json.dumps(found[0])[1:-1], data.decode("utf-8", "surrogatepass")
    )


def _section(section: Section) -> Any:
    facts = [fact for fact in section.facts if "json" in fact.column.formats]
    found = {fact.column.key: _value(fact.value, fact.column.unit) for fact in facts}
    found |= {each.key: _value(each, WORD) for each in section.tables if "json" in each.formats}
    notes = None if section.notes is None else _value(section.notes, WORD)
    if [*found] == [section.key]:
        return found[section.key]
    if not found and notes is not None:
        return notes
    found |= {"notes": notes} if notes else {}
    return found if any(value is not None for value in found.values()) else None


def _value(value: Any, unit: Unit) -> Any:
    """A value of the model as json.dumps takes it."""
    if isinstance(value, Table):
        if not value.by:
            return [_row(value.columns, row) for row in value.rows]
        columns = [column for column in value.columns if column.key != value.by]
        return {row[value.by]: _row(columns, row) for row in value.rows}
    if isinstance(value, Distribution):
        return {
            "count": value.count,
            "out_of_range": value.out_of_range,
            "uncertain": value.uncertain,
            "min_s": _seconds(value.min),
            "max_s": _seconds(value.max),
            "mean_s": _seconds(value.mean),
            "std_dev_s": _seconds(value.std_dev),
            "percentiles_s": {percent_text(p): _seconds(v) for p, v in value.percentiles.items()},
            "sparse_percentiles": value.sparse,
            "worst_transaction_id": value.worst_id,
        }
    if isinstance(value, Interval):
        scaled = (("value", value.value), ("low", value.low), ("high", value.high))
        return {
            **{
                name: None if each is None else round(each / value.unit.stored, _DIGITS)
                for name, each in scaled
            },
            "sparse": isinstance(value.value, Sparse),
        }
    if isinstance(value, Note):
        return {**value.figures, "severity": value.level.value, "sentence": value.sentence}
    if isinstance(value, list | tuple):
        notes = [each for each in value if not isinstance(each, Note) or "json" in each.formats]
        return [_value(each, unit) for each in notes]
    if value is not None and unit.stored != 1:
        return round(value / unit.stored, _DIGITS)
    return value


def _row(columns: Iterable[Column], row: Row) -> dict[str, Any]:
    return {
        column.key: _value(row[column.key], column.unit)
        for column in columns
        if "json" in column.formats
    }


def _seconds(value_ns: float | None) -> float | None:
    return None if value_ns is None else value_ns / 1e9


def _finite(value: Any) -> Any:
    """The same value, with null for infinities and NaN, which JSON does not have."""
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value


def _plain(value: Any) -> Any:
    """For what ``json`` does not know: mappings that are no dicts, and bytes."""
    return dict(value) if isinstance(value, Mapping) else str(value)


def render_junit(report: Report) -> str:
    """The test suites of a run or a series.

    :raises ValueError: for a comparison, which has no thresholds.
    """
    root = ET.Element("testsuites", name="ssbench")
    if report.kind == "run":
        _run(root, report)
    elif report.kind == "series":
        _series(root, report)
    else:
        raise ValueError(f"a {report.kind} has no test cases")
    ET.indent(root)
    text = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _run(root: ET.Element, report: Report) -> None:
    run, name = report["run"].row, report["settings"]["scenario_name"]
    faults = [] if run["ended"] == "complete" else [f"the run is {run['ended']}"]
    if run["short_of_users"]:
        faults.append(f"only {run['users_ran']} of {run['users']} users ran")
    faults += [text for text in (run["reason"], *run["damage"]) if text]
    suite = _suite(root, name, report["thresholds"].tables[0].rows, faults, run["duration_s"])
    if report["store"]["line"]:
        properties = ET.Element("properties")
        ET.SubElement(
            properties, "property", name="store", value=printable(report["store"]["line"])
        )
        suite.insert(0, properties)  # before all test cases, as Jenkins wants it
    started = time_text(run["started_at_s"])
    if started != "N/A":
        suite.set("timestamp", started.removesuffix(" UTC").replace(" ", "T"))


def _series(root: ET.Element, report: Report) -> None:
    top = report[""]
    for row in top["steps"].rows:
        faults = [] if row["ended"] == "complete" else [f"the run is {row['ended']}"]
        if not row["counts"]:
            faults.append(f"only {row['users_ran']} users ran")
        name = f"{top['scenario']} {top['over']}={row[top['over']]:g}"
        _suite(root, name, row["judged"].rows, faults, row["seconds"])


def _suite(
    root: ET.Element,
    name: str,
    judged: Sequence[Row],
    faults: Sequence[str],
    duration_s: float | None,
) -> ET.Element:
    failures = sum(not row["passed"] for row in judged)
    length: dict[str, Any] = {} if duration_s is None else {"time": f"{duration_s:.3f}"}
    name = printable(name)
    suite = ET.SubElement(
        root, "testsuite", name=name, tests=str(1 + len(judged)), failures=str(failures),
        errors=str(int(bool(faults))), skipped="0", **length,
    )  # fmt: skip
    case = ET.SubElement(suite, "testcase", classname=name, name="the run is complete", **length)
    if faults:
        lines = [printable(fault) for fault in faults]
        ET.SubElement(case, "error", type="Run", message=lines[0]).text = "\n".join(lines)
    for row in judged:
        condition = printable(row["threshold"])
        case = ET.SubElement(suite, "testcase", classname=name, name=condition, time="0.000")
        if not row["passed"]:
            message = f"{condition}: {judged_text(row)}"
            ET.SubElement(case, "failure", type="Threshold", message=message).text = message
        else:
            ET.SubElement(case, "system-out").text = judged_text(row)
    return suite
