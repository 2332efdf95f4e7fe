"""Thresholds as test cases, in the XML of JUnit that CI systems read.

A run is a test suite, each step of a series is one. Its first test case is the run itself: figures
of a run that did not end as it should prove nothing, so that is an error, not a failure. The format
has no standard; this is the part that Jenkins, GitLab and GitHub's actions agree on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree as ET  # nosec B405 # only writes

from ssbench.core.text import printable
from ssbench.report.model import Report, Row, time_text
from ssbench.report.tables import judged_text


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
