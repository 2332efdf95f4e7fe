"""The charts of a page: which figures of a report are drawn, along which axes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import log10
from statistics import median
from typing import Any

from msgspec import Struct

from ssbench.core.stats.thresholds import DURATIONS
from ssbench.core.text import plural, printable
from ssbench.report.model import Report, Row, Series

#: Percentiles that the axis of a distribution names.
_NAMED_PERCENTS = (0.0, 50.0, 90.0, 99.0, 99.9, 99.99)
_MOST_NAMES = 4  #: below bars; more would overlap, and are numbered
_LONGEST_NAME = 20
_SINCE_START = "seconds since the start"
_DUE = "operations/s due"
_ROOM = 0.12  #: of an axis, for a text beside a point
_OF_REPEATS = ", and of several runs their median"


class Line(Struct, frozen=True):
    """A line of a chart; y is None where there is no value."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    labels: Sequence[str] = ()  #: of each point, for charts of single points
    texts: Sequence[str] = ()  #: beside the points
    form: str = ""  #: "points" (not joined, of the line before) or "limit" (dashed)


class Mark(Struct, frozen=True):
    """A moment, or a part, of the time of a chart."""

    kind: str  #: "stage", "excluded", "fault", "end" or "limit"
    at: float
    until: float | None
    text: str


class Chart(Struct, frozen=True):
    """Lines along common axes."""

    title: str
    x_title: str
    y_title: str
    lines: Sequence[Line]
    kind: str = "line"  #: "line", "stack" (areas on top of each other), "points" or "bars"
    y_log: bool = False
    marks: Sequence[Mark] = ()
    ticks: Sequence[tuple[float, str]] = ()
    note: str = ""  #: a sentence below it


def charts_of(report: Report) -> Iterator[Chart]:
    """Those of the report that have something to draw."""
    charts = {"run": _run, "series": _series, "comparison": _comparison}[report.kind](report)
    for chart in charts:
        if any(value is not None for line in chart.lines for value in line.y):
            yield chart


def _line(series: Series, rows: Sequence[Row], key: str, name: str = "") -> Line:
    column = next(column for column in series.y if column.key == key)
    x = [row[series.x.key] for row in rows if key in row]
    y = [row[key] for row in rows if key in row]
    scaled = [None if value is None else _rounded(value / column.unit.divisor) for value in y]
    return Line(printable(name or column.title or key), [_rounded(at) for at in x], scaled)


def _rounded(value: float) -> float:
    """Six digits: what a chart can show, at a third of the length."""
    return float(f"{value:.6g}")


def _run(report: Report) -> Iterator[Chart]:
    section = next((each for each in report.sections if each.key == "over_time"), None)
    if section is None:
        return
    marks = [Mark(row["kind"], row["at_s"], row["until_s"], printable(row["text"]))
             for row in report["marks"].tables[0].rows]  # fmt: skip
    (series,) = section.series
    rows = list(series.rows)

    def over_time(title: str, unit: str, *keys: str, **more: Any) -> Chart:
        lines = [_line(series, rows, key) for key in keys]
        lines = [line for line in lines if any(line.y)]
        return Chart(title, _SINCE_START, unit, lines, marks=marks, **more)

    yield over_time("Throughput", "operations/s", "operations_per_s", "errors_per_s")
    yield over_time("Data moved", "MB/s", "moved_bytes_per_s")
    kind = "response" if report["total"]["response_time"] else "service"
    latencies = [f"{name}_{p}_s" for name in dict.fromkeys((kind, "service"))
                 for p in ("p50", "p99")]  # fmt: skip
    yield over_time("Latency", "ms", *latencies, y_log=True)
    yield _distribution(report, "distribution", "Latency distribution by operation")
    if len(report["size_class_distribution"].series[0].y) > 1:
        title = "Latency distribution by size class"
        yield _distribution(report, "size_class_distribution", title)
    yield from _by_part(report, kind)
    (errors,) = report["errors_over_time"].series
    lines = [_line(errors, list(errors.rows), column.key) for column in errors.y]
    yield Chart("Errors by cause", _SINCE_START, "errors/s", lines, "stack", marks=marks)
    yield over_time("Operations in flight", "operations", "in_flight")
    for metric in report["host_metrics"].series:
        rows_of = list(metric.rows)
        lines = [_line(metric, rows_of, column.key) for column in metric.y]
        if lines:
            unit = metric.y[0].unit.symbol
            yield Chart(metric.title, _SINCE_START, unit, lines, marks=marks)


def _by_part(report: Report, kind: str) -> Iterator[Chart]:
    """Bars for each size class, worker and storage URL, where there are several."""
    latency = "response_time" if kind == "response" else "last_byte_latency"
    classes = [
        {"name": row["size_class"], "requests_per_s": row["requests_per_s"],
         **{f"p{percent}": row[latency].percentiles[percent] for percent in (50, 99)}}
        for row in report["total"]["size_classes"].rows
        if row[latency]
    ]  # fmt: skip
    yield from _bars("size class", classes, kind)
    yield from _bars("worker", report["by_worker"].tables[0].rows, "service")
    yield from _bars("storage URL", report["by_url"].tables[0].rows, "service")


def _bars(what: str, rows: Sequence[Row], kind: str) -> Iterator[Chart]:
    if len(rows) < 2:
        return
    x, names = range(len(rows)), [printable(row["name"]) for row in rows]
    ticks, note = [(float(at), name[:_LONGEST_NAME]) for at, name in enumerate(names)], ""
    if len(rows) > _MOST_NAMES:
        ticks = [(at, str(at + 1)) for at in x[:: -(-len(rows) // 10)]]
        note = f"In the order of the table by {what} below."
    found = (row["requests_per_s"] for row in rows)
    rates = [None if rate is None else _rounded(rate) for rate in found]
    yield Chart(
        f"Throughput by {what}", what, "operations/s", [Line("operations/s", x, rates, names)],
        "bars", ticks=ticks, note=note,
    )  # fmt: skip
    latencies = [
        Line(f"{kind} time {key}", x, [
            None if row[key] is None else _rounded(row[key] / 1e6) for row in rows
        ], names)
        for key in ("p50", "p99")
    ]  # fmt: skip
    yield Chart(
        f"Latency by {what}", what, f"{kind} time, ms", latencies, "bars", ticks=ticks, note=note
    )


def _distribution(report: Report, key: str, title: str) -> Chart:
    section = report[key]
    (series,) = section.series
    rows = list(series.rows)
    x = [_rounded(_place(row[series.x.key])) for row in rows]
    lines = []
    for column in series.y:
        line = _line(series, rows, column.key, column.title)
        lines.append(Line(line.name, x, line.y))
    ticks = [(_rounded(_place(p)), f"{p:g}") for p in _NAMED_PERCENTS]
    return Chart(
        title, "percentile", f"{section['latency']} time, ms", lines, y_log=True, ticks=ticks,
        note="Each line ends at the highest percentile that its number of operations supports.",
    )  # fmt: skip


def _place(percent: float) -> float:
    """On the axis of percentiles: 90, 99 and 99.9 are evenly spaced."""
    return -log10(1 - percent / 100)


def _series(report: Report) -> Iterator[Chart]:
    top = report[""]
    over, rows = top["over"], [row for row in top["steps"].rows if row["counts"]]
    rows = [row for row in rows if row["operations_per_s"] is not None]
    rows.sort(key=lambda row: row[over])
    unit = "users" if over == "users" else _DUE
    limit, best = top.row.get("largest_kept"), report["summary"]["operations_per_s"]
    marks, at_limit = [], []
    if limit is not None:
        text = f"highest load that met the SLO: {_load(limit, over)}"
        marks = [Mark("limit", limit, None, text)]
        if best is not None:  # the step whose figures the summary has
            text = f"{_load(limit, over)}: highest load that met the SLO"
            at_limit = [Mark("limit", _rounded(best), None, text)]
    response = any(each.get("response_p50_s") is not None for each in rows)
    name = "response" if response else "service"
    percents = [p for p in ("p50", "p99") if rows and f"{name}_{p}_s" in rows[0]]
    rates = {"operations/s": [row["operations_per_s"] for row in rows]}
    latencies = {f"{name} time {p}": [row[f"{name}_{p}_s"] for row in rows] for p in percents}
    loads = [row[over] for row in rows]
    through = [line for line in _by_load(rates, loads, over, 1) if not line.form]
    medians = [rate for line in through for rate in line.y if rate is not None]
    texts = _texts(medians, [f"{load:g}" for load in sorted(set(loads))])
    highest = next(reversed(latencies), "")
    repeats = _OF_REPEATS if len(loads) > len(medians) else ""
    yield Chart(
        "Throughput against latency", "operations/s", f"{name} time, ms",
        [
            *(Line(each.name, medians, each.y, each.labels, texts * (each.name == highest))
              for each in _by_load(latencies, loads, over, 1e6) if not each.form),
            *_slos(rows, medians, DURATIONS, 1e6),
        ],
        "points", y_log=True, marks=at_limit,
        note=f"Each point is a load, labelled by its {unit}{repeats}.",
    )  # fmt: skip
    yield Chart(
        "Throughput by load", unit, "operations/s",
        [*_by_load(rates, loads, over, 1), *_slos(rows, loads, {"/s": 1}, 1)],
        "points", marks=marks,
    )  # fmt: skip
    yield Chart(
        "Latency by load", unit, f"{name} time, ms",
        [*_by_load(latencies, loads, over, 1e6), *_slos(rows, loads, DURATIONS, 1e6)],
        "points", y_log=True, marks=marks,
    )  # fmt: skip


def _by_load(
    named: Mapping[str, Sequence[float | None]], loads: Sequence[float], over: str, divisor: float
) -> Iterator[Line]:
    """A line through the median of each load; where a load was run more than once, the single runs
    as points, too."""
    distinct = sorted(set(loads))
    for name, values in named.items():
        of_load = [
            _median([y for y, at in zip(values, loads, strict=True) if at == load])
            for load in distinct
        ]
        scaled = [None if y is None else _rounded(y / divisor) for y in of_load]
        yield Line(name, distinct, scaled, [_load(load, over) for load in distinct])
        if len(distinct) < len(loads):
            runs = [
                (load, None if y is None else _rounded(y / divisor))
                for load, y in zip(loads, values, strict=True)
                if loads.count(load) > 1
            ]
            names = [_load(load, over) for load, _y in runs]
            x, y = zip(*runs, strict=True)
            yield Line(f"{name}, single runs", x, y, names, form="points")


def _texts(x: Sequence[float], names: Sequence[str]) -> list[str]:
    """The names of points, as far as they do not overlap; "" for the others."""
    found, last = [], None
    room = (max(x) - min(x)) * _ROOM if x else 0.0
    for at, name in zip(x, names, strict=True):
        fits = last is None or abs(at - last) > room
        found.append(name if fits else "")
        last = at if fits else last
    return found


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _rounded(median(known)) if known else None


def _slos(
    rows: Sequence[Row], x: Sequence[float], units: Mapping[str, float], divisor: float
) -> Iterator[Line]:
    """The limit of each threshold in one of these units, across the chart."""
    judged = rows[0]["judged"].rows if rows else []
    for row in judged:
        if row["unit"] in units:
            limit = _rounded(row["limit"] * units[row["unit"]] / divisor)
            yield Line(f"SLO {printable(row['threshold'])}", [min(x), max(x)], [limit] * 2,
                       form="limit")  # fmt: skip


def _load(load: float, over: str) -> str:
    return plural(int(load), "user") if over == "users" else f"{load:g} {_DUE}"


def _comparison(report: Report) -> Iterator[Chart]:
    (series,) = report["throughput_over_time"].series
    rows = list(series.rows)
    lines = [_line(series, rows, column.key) for column in series.y]
    yield Chart("Throughput by run", "seconds since the load's start", "operations/s", lines)
    yield _distribution(report, "distributions", "Latency distribution by run, all operations")
