"""Reports as a page: one file without any request to a network.

Its charts need plotly (the extra ``html``), whose script is part of the page or lies beside it.
Without it each line of a chart is a small drawing of ours. All names are from outside: the template
escapes them, and none gets into the script.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from math import floor, log10
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from ssbench.core.text import printable
from ssbench.report.charts import Chart, charts_of
from ssbench.report.model import Report, Row
from ssbench.report.page_tables import facts_of, notes_of, shown, tables_of, title_of

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
    charts = list(charts_of(report))
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


# Charts


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
