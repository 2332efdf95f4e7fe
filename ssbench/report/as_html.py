"""Reports as a page: one file without any request to a network.

Its charts need plotly (the extra ``html``), whose script is part of the page or lies beside it.
Without it each line of a chart is a small drawing of ours. All names are from outside: the template
escapes them, and none gets into the script.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from math import floor, log10
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from ssbench.core.text import printable
from ssbench.report.as_text import cell_text, heading
from ssbench.report.charts import Chart, charts_of
from ssbench.report.model import WORD, Note, Report, Row, Table, time_text
from ssbench.report.page_tables import tables_of

_SPARK_WIDTH, _SPARK_HEIGHT = 320, 40
_MOST_ROWS = 2000  #: of a table; a browser takes long over more


@dataclass(frozen=True, slots=True)
class _Shown:
    """A table as text."""

    title: str
    headings: Sequence[str]
    numeric: Sequence[bool]  #: of each column: aligned to the right
    rows: Sequence[Sequence[str]]
    more: int  #: rows that are left out


def plotly_script() -> str | None:
    """The script that draws the charts; None where plotly is not installed."""
    try:
        import plotly.offline
    except ImportError:
        return None
    script: str = plotly.offline.get_plotlyjs()
    return script


def render_page(report: Report, script_url: str | None = None) -> str:
    """The page, ending with a newline.

    :param script_url: of plotly's script, relative to the page; None: it is part of the page.
    """
    charts = list(charts_of(report))
    # The script is plotly's own; a </script> in it would end the element.
    script = "" if script_url else (plotly_script() or "").replace("</script", r"<\/script")
    markup = Markup(script)  # nosec B704 # nothing of a run's
    title, lines = _heading(report)
    page: str = (
        _template().render(
            kind=report.kind,
            title=printable(title),
            lines=[printable(line) for line in lines],
            summary=report["summary"].tables[0].rows,
            notes=list(_notes(report)),
            charts=charts,
            sparks=[_sparks(chart) for chart in charts],
            figures=[_figure(chart) for chart in charts],
            tables=[_shown(table) for table in tables_of(report) if table.rows],
            facts=list(_facts(report)),
            scenario=_scenario(report),
            script=markup,
            script_url=quote(script_url) if script_url else None,
        )
        + "\n"
    )
    return page


@cache
def _template() -> Any:
    text = resources.files("ssbench.report").joinpath("page.html.j2").read_text("utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.from_string(text)


def _heading(report: Report) -> tuple[str, list[str]]:
    """The title, and what stands below it."""
    if report.kind == "comparison":
        runs = report["runs"].tables[0].rows
        files = [f"Run {at}: {run['file']}" for at, run in enumerate(runs, 1)]
        return f"Comparison of {len(runs)} runs", files
    if report.kind == "series":
        top = report[""]
        return top["scenario"], [f"A series of runs by {top['over']}"]
    run = report["run"]
    version = run["ssbench_version"] or "unknown"
    started = time_text(run["started_at_s"])
    return report["settings"]["scenario_name"] or "Run", [
        f"{started}, run {run['run_id'] or 'unknown'}, ssbench {version}"
    ]


def _notes(report: Report) -> Iterator[tuple[str, str]]:
    """(class, sentence) of what a reader should know beside the figures."""
    for key in ("ending", "changes", "", "steadiness", "notes", "load_generator", "warnings",
                "counters"):  # fmt: skip
        for section in report.sections:
            if section.key == key:
                yield from _sentences(section.notes or ())
    for section in report.sections:
        if section.title and section.key:
            yield from _sentences(section.notes or ())


def _sentences(notes: Iterable[Note]) -> Iterator[tuple[str, str]]:
    for note in notes:
        if "text" in note.formats:
            yield note.level.name.lower(), printable(note.sentence)


def _shown(table: Table) -> _Shown:
    columns = [column for column in table.columns if "text" in column.formats]
    numeric = [column.unit is not WORD for column in columns]
    rows = [[cell_text(row[c.key], c) for c in columns] for row in table.rows[:_MOST_ROWS]]
    titles = [_plain(printable(heading(column))) for column in columns]
    return _Shown(table.title, titles, numeric, rows, max(len(table.rows) - _MOST_ROWS, 0))


def _plain(title: str) -> str:
    """A column's heading: a key in words, and no unit twice."""
    name, _, unit = title.partition(" (")
    if "/s" in name or name == "Seconds":
        return name
    if "_" in name:
        name = name.removesuffix("_percent").removesuffix("_s").removesuffix("_by")
        name = name.replace("_", " ").capitalize()
    return f"{name} ({unit}" if unit else name


def _facts(report: Report) -> Iterator[tuple[str, str]]:
    """Scenario and environment in words."""
    if report.kind != "run":
        return
    run, settings = report["run"].row, report["settings"].row
    yield "Storage", printable(str(run["driver"]))
    yield "Policy", printable(str(settings["policy"] or "default"))
    yield "Seed", str(run["seed"])
    yield "Users", str(run["users"])
    yield "Workers", str(settings["worker_count"])
    if run["overrides"]:
        given = (f"{key}={value}" for key, value in run["overrides"].items())
        yield "Overridden on the command line", printable(", ".join(given))
    for note in report["settings"].notes or ():
        topic, _, text = note.sentence.partition(": ")
        yield (printable(topic), printable(text)) if text else ("Load", printable(topic))
    for name, facts in (("Versions", run["versions"]), ("Host of the master", run["hosts"])):
        if facts:
            yield name, printable(_flat(facts))
    for fact in report["counters"].facts:
        yield fact.column.title or fact.column.key, cell_text(fact.value, fact.column, symbol=True)


def _flat(facts: Row) -> str:
    """``python 3.11.7, gevent 26.9``; what is nested as JSON."""
    return ", ".join(
        f"{key} {json.dumps(value) if isinstance(value, dict | list) else value}"
        for key, value in facts.items()
    )


def _scenario(report: Report) -> str | None:
    if report.kind != "run" or not report["run"]["scenario"]:
        return None
    text = json.dumps(report["run"]["scenario"], indent=2, default=str)
    return "\n".join(map(printable, text.split("\n")))


# Charts


def _figure(chart: Chart) -> Row:
    """What the page's script gives to plotly; colours are the page's."""
    values = [y for line in chart.lines for y in line.y if y]
    ticks = _log_ticks(min(values), max(values)) if chart.y_log and values else []
    axis: dict[str, Any] = {"title": {"text": chart.x_title}, "type": "linear"}
    if chart.ticks:
        axis |= {
            "tickvals": [at for at, _text in chart.ticks],
            "ticktext": [text for _at, text in chart.ticks],
        }
    return {
        "kind": chart.kind,
        "lines": [
            {"name": line.name, "x": list(line.x), "y": list(line.y), "labels": list(line.labels)}
            for line in chart.lines
        ],
        "xaxis": axis,
        "yaxis": {
            "title": {"text": chart.y_title},
            "type": "log" if chart.y_log else "linear",
            **({} if chart.y_log else {"rangemode": "tozero"}),
            **({"tickvals": ticks, "ticktext": [f"{at:g}" for at in ticks]} if ticks else {}),
        },
        "marks": [[mark.kind, mark.at, mark.until] for mark in chart.marks],
    }


def _log_ticks(least: float, most: float) -> list[float]:
    """1, 2 and 5 of each power of ten; of more than two powers, only 1."""
    low, high = floor(log10(least)), floor(log10(most))
    of_each = (1, 2, 5) if high - low < 2 else (1,)
    step = -(-(high - low) // 6) or 1
    return [n * 10.0**power for power in range(low, high + 2, step) for n in of_each]


def _sparks(chart: Chart) -> list[tuple[str, str, str]]:
    """(name, points of a polyline, range in words) of each line."""
    found = []
    for line in chart.lines:
        points = [(x, y) for x, y in zip(line.x, line.y, strict=True) if y is not None]
        if points:
            least_x, most_x = points[0][0], points[-1][0]
            least, most = min(y for _x, y in points), max(y for _x, y in points)
            wide, high = (most_x - least_x) or 1, (most - least) or 1
            text = " ".join(
                f"{(x - least_x) / wide * _SPARK_WIDTH:.1f},"
                f"{_SPARK_HEIGHT - 2 - (y - least) / high * (_SPARK_HEIGHT - 4):.1f}"
                for x, y in points
            )
            found.append((line.name, text, f"{least:.4g} to {most:.4g}"))
    return found
