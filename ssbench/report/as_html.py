"""Reports as a page: one file without any request to a network.

Its charts need plotly (the extra ``html``), whose script is part of the page or lies beside it.
Without it each line of a chart is a small drawing of ours. All names are from outside: the template
escapes them, and none gets into the script.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from importlib import resources
from math import ceil, floor, log10
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from ssbench.core.text import printable
from ssbench.report.model import Chart, Line, Report, Row
from ssbench.report.tables import facts_of, notes_of, shown, tables_of, title_of

_SPARK_WIDTH, _SPARK_HEIGHT = 320, 40


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
    charts = [chart for chart in report.charts() if any(map(_has_values, chart.lines))]
    # The script is plotly's own; a </script> in it would end the element.
    script = "" if script_url else (plotly_script() or "").replace("</script", r"<\/script")
    markup = Markup(script)  # nosec B704 # nothing of a run's
    title, lines = title_of(report)
    page: str = (
        _template().render(
            kind=report.kind,
            title=printable(title),
            lines=[printable(line) for line in lines],
            summary=report["summary"].tables[0].rows,
            notes=[(level.value, sentence) for level, sentence in notes_of(report)],
            charts=charts,
            sparks=[_sparks(chart) for chart in charts],
            figures=[_figure(chart) for chart in charts],
            tables=[shown(table) for table in tables_of(report) if table.rows],
            facts=list(facts_of(report)),
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


def _scenario(report: Report) -> str | None:
    if report.kind != "run" or not report["run"]["scenario"]:
        return None
    text = json.dumps(report["run"]["scenario"], indent=2, default=str)
    return "\n".join(map(printable, text.split("\n")))


def _figure(chart: Chart) -> Row:
    """What the page's script gives to plotly; colours are the page's."""
    values = [y for line in chart.lines for y in line.y if y]
    ticks = _log_ticks(min(values), max(values)) if chart.y_log and values else []
    axis: dict[str, Any] = {"title": {"text": chart.x_title}, "type": "linear"}
    if chart.ticks:
        axis |= {
            "tickvals": [at for at, _text in chart.ticks],
            "ticktext": [text.replace("<", "&lt;") for _at, text in chart.ticks],
        }
    return {
        "kind": chart.kind,
        "lines": [
            {
                "name": line.name,
                "x": list(line.x),
                "y": list(line.y),
                "labels": list(line.labels),
                "texts": list(line.texts),
                "form": line.form,
                "colour": colour,
            }
            for line, colour in zip(chart.lines, _colours(chart), strict=True)
        ],
        "xaxis": axis,
        "yaxis": {
            "title": {"text": chart.y_title},
            "type": "log" if chart.y_log else "linear",
            **({} if chart.y_log else {"rangemode": "tozero"}),
            **(_log_axis(ticks, min(values), max(values)) if ticks else {}),
        },
        "marks": [
            [mark.kind, mark.at, mark.until, *([mark.text] if mark.kind == "marked" else [])]
            for mark in chart.marks
        ],
    }


def _has_values(line: Line) -> bool:
    return any(value is not None for value in line.y)


def _colours(chart: Chart) -> Iterator[str]:
    """Names of the page's colours: points that belong to a line have that of the line."""
    number = -1
    for line in chart.lines:
        number += not line.form
        yield "warn" if line.form == "limit" else f"l{max(number, 0) % 8}"


def _log_axis(ticks: list[float], least: float, most: float) -> Row:
    """What plotly is told of a logarithmic axis."""
    low, high = log10(min(least, ticks[0])), log10(max(most, ticks[-1]))
    margin = (high - low) / 25 or 0.1
    return {
        "tickvals": ticks,
        "ticktext": [f"{at:,.10g}" for at in ticks],
        "range": [low - margin, high + margin],
    }


def _log_ticks(least: float, most: float) -> list[float]:
    """At least three, so that the axis can be read: 1 of each power of ten; 1, 2 and 5; or, of
    values near each other, even steps. The first and the last enclose the values."""
    low, high = floor(log10(least)), floor(log10(most)) + 1
    step = -(-(high - low) // 6)
    for of_each, wanted in (((1,), 3), ((1, 2, 5), 2)):
        ticks = [n * 10.0**power for power in range(low, high + step, step) for n in of_each]
        inside = [at for at in ticks if least <= at <= most]
        if len(inside) >= wanted:
            below = max((at for at in ticks if at <= least), default=least)
            above = min((at for at in ticks if at >= most), default=most)
            return sorted({below, *inside, above})
    width = (most - least) / 3 or least / 4
    size = 10.0 ** floor(log10(width))
    even = max((n * size for n in (1, 2, 5) if n * size <= width), default=size)  # if rounded up
    first, last = floor(least / even), ceil(most / even)
    return [float(f"{at * even:.6g}") for at in range(first or 1, max(last, first + 2) + 1)]


def _sparks(chart: Chart) -> list[tuple[str, str, str]]:
    """(name, points of a polyline, range in words) of each line."""
    found = []
    for line in chart.lines:
        points = [(x, y) for x, y in zip(line.x, line.y, strict=True) if y is not None]
        if points:
            least, most = min(y for _x, y in points), max(y for _x, y in points)
            span = f"{least:.4g} to {most:.4g}"
            if chart.kind == "bars":  # their outlines
                least = 0
                points = [
                    corner for x, y in points
                    for corner in ((x, 0), (x, y), (x + 0.8, y), (x + 0.8, 0))
                ]  # fmt: skip
            least_x, most_x = points[0][0], points[-1][0]
            wide, high = (most_x - least_x) or 1, (most - least) or 1
            text = " ".join(
                f"{(x - least_x) / wide * _SPARK_WIDTH:.1f},"
                f"{_SPARK_HEIGHT - 2 - (y - least) / high * (_SPARK_HEIGHT - 4):.1f}"
                for x, y in points
            )
            found.append((line.name, text, span))
    return found
