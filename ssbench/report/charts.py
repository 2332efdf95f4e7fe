"""The charts of pages: which figures are drawn, along which axes.

A run has them where its statistics were read in detail. They are computed when a page is made.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from math import isnan, log10
from statistics import fmean, median
from typing import Any

from ssbench.core.model import SECOND_NS
from ssbench.core.sparse import Sparse
from ssbench.core.stats.capacity import Law
from ssbench.core.stats.headroom import ProcessSeries
from ssbench.core.stats.histogram import Buckets, Histogram
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.tally import Tally
from ssbench.core.stats.thresholds import DURATIONS
from ssbench.core.stats.windows import NEVER_NS
from ssbench.core.text import plural, printable
from ssbench.report.model import (
    COUNT,
    LATENCY,
    PERCENT,
    RATE,
    THROUGHPUT,
    Chart,
    Line,
    Mark,
    Row,
    Section,
    Unit,
    percent_label,
    percentile_column,
    quantiles,
)
from ssbench.report.notes import cause_text

#: Points of a line: more can't be told apart on a screen. Longer runs have several seconds each.
_MOST_POINTS = 600
_LEAST_OF_SECOND = 0.5  #: in which the load began; a rate over less is chance
_CURVE_STEPS = 60  #: of a fitted line
_MOST_LINES = 12  #: of hosts or processes in a chart
#: Percentiles of a distribution, evenly spaced on its axis: 90, 99, 99.9 and 99.99 are as far from
#: each other.
_PERCENTS = tuple(round(100 - 100 * 10 ** -(step / 20), 6) for step in range(1, 81))
_PARTS = (50, 99)  #: of seconds, of parts of a run, and of steps
#: Those that the axis names.
_NAMED_PERCENTS = (0.0, 50.0, 90.0, 99.0, 99.9, 99.99)
_MOST_NAMES = 4  #: below bars; more would overlap, and are numbered
_LONGEST_NAME = 20
_SINCE_START = "seconds since the start"
_DUE = "operations/s due"
_ROOM = 0.12  #: of an axis, for a text beside a point
_OF_REPEATS = ", and of several runs their median"
#: Title of a chart -> its unit, and the metrics of each host with what they are.
_HOST_CHARTS: dict[str, tuple[Unit, Mapping[str, str]]] = {
    "CPU of the hosts, all cores": (PERCENT, {"cpu_percent": ""}),
    "Memory in use": (PERCENT, {"memory_used_percent": ""}),
    "Network of the hosts": (
        THROUGHPUT,
        {"network_received_bytes_per_s": "received", "network_sent_bytes_per_s": "sent"},
    ),
    "Disks of the hosts": (
        THROUGHPUT,
        {"disk_read_bytes_per_s": "read", "disk_written_bytes_per_s": "written"},
    ),
}
#: The same of a master's or worker's process.
_PROCESS_CHARTS = {
    "CPU of each process's event loop": "loop_cpu_percent",
    "Time that each event loop waited for a core": "loop_waiting_percent",
}

Points = Iterable[tuple[float, float | None]]


def run_charts(stats: RunStats) -> Iterator[Chart]:
    marks, points = list(_marks(stats)), list(_points(stats))

    def over_time(title: str, y_title: str, unit: Unit, *names: str, **more: Any) -> Chart:
        found = [_line(n, ((row["at_s"], row.get(n)) for row in points), unit) for n in names]
        lines = [line for line in found if any(line.y)]
        return Chart(title, _SINCE_START, y_title, lines, marks=marks, **more)

    yield over_time("Throughput", "operations/s", RATE, "operations/s", "errors/s")
    yield over_time("Data moved", "MB/s", THROUGHPUT, "MB/s")
    kind = "response" if stats.total().has_due_times else "service"
    kinds = dict.fromkeys((kind, "service"))
    names = [_named(kind, percent) for kind in kinds for percent in _PARTS]
    yield over_time("Latency", "ms", LATENCY, *names, y_log=True)
    yield _distribution("Latency distribution by operation", [
        (stats.operation_name(each), stats.total(each)) for each in stats.operations
    ])  # fmt: skip
    classes = [(stats.class_name(each), stats.total(size_class=each)) for each in stats.classes()]
    by_class = _distribution("Latency distribution by size class", classes)
    if len(by_class.lines) > 1:
        yield by_class
    latencies = [
        (name, tally.rate_per_s, (tally.response if kind == "response" else tally.last_byte))
        for name, tally in classes
    ]
    yield from _bars("size class", [
        (name, rate, latency.histogram) for name, rate, latency in latencies
        if kind == "service" or latency.histogram.count
    ], kind)  # fmt: skip
    for what, sources in (
        ("worker", stats.workers()),
        ("endpoint", stats.endpoints()),
        ("address", stats.addresses()),
        ("identity", stats.identities()),
    ):
        parts = [(each.name, each.tally.rate_per_s, each.tally.service) for each in sources]
        yield from _bars(what, parts, "service")
    causes = list(_causes(stats))
    yield Chart("Errors by cause", _SINCE_START, "errors/s", causes, "stack", marks=marks)
    yield over_time("Operations in flight", "operations", COUNT, "in flight")
    for title, unit, lines in _host_metrics(stats):
        yield Chart(title, _SINCE_START, unit.symbol, lines, marks=marks)


def _named(kind: str, percent: float) -> str:
    return f"{kind} time {percent_label(percent)}"


def _line(name: str, points: Points, unit: Unit) -> Line:
    x, y = [], []
    for at, value in points:
        x.append(_rounded(at))
        y.append(_scaled(value, unit))
    return Line(printable(name), x, y)


def _scaled(value: float | None, unit: Unit) -> float | None:
    return None if value is None else _rounded(value / unit.divisor)


def _rounded(value: float) -> float:
    """Six digits: what a chart can show, at a third of the length."""
    return float(f"{value:.6g}")


def _width(stats: RunStats) -> int:
    """The seconds of a point."""
    return -(-len(stats.series.span) // _MOST_POINTS) or 1


def _points(stats: RunStats) -> Iterator[Row]:
    """What the lines have at each point, by their names: rates are per second of it; latencies of
    its seconds are merged, never averaged."""
    width, seconds = _width(stats), stats.seconds()
    has_bytes = stats.total().has_bytes
    begin_s = stats.run.stages[0].at_ns / SECOND_NS if stats.run.stages else 0.0
    while some := list(islice(seconds, width)):
        if some[-1].second == stats.series.span.stop - 1:
            # The last second is no whole one: its figures would be a drop or a jump that was none.
            yield {"at_s": some[0].second}
            return
        moved = sum(second.bytes_moved for second in some)
        covered_s = sum(min(1.0, max(0.0, s.second + 1 - begin_s)) for s in some)  # by the load
        whole = covered_s >= len(some) - _LEAST_OF_SECOND
        row: dict[str, float | None] = {
            "at_s": some[0].second,
            "operations/s": sum(s.count for s in some) / covered_s if whole else None,
            "errors/s": sum(s.errors for s in some) / covered_s if whole else None,
            "MB/s": moved / covered_s if whole and has_bytes else None,
            "in flight": some[-1].in_flight,
        }
        for name in ("service", "response"):
            merged = Buckets.merged([getattr(second, name) for second in some])
            row |= {_named(name, each): value for each, value in quantiles(merged, _PARTS).items()}
        yield row


def _marks(stats: RunStats) -> Iterator[Mark]:
    """Stages, what does not count, changes of the users, and the load's end; rising."""
    run = stats.run
    stages, spans, end_ns = run.stages, run.spans, run.end_ns
    for number, mark in enumerate(stages, 1):
        if len(stages) > 1:
            load = f"{mark.rate:g} operations/s" if mark.rate else plural(mark.users, "user")
            name = run.scenario.stage_name(number - 1)
            yield Mark("stage", mark.at_ns / SECOND_NS, None, f"{name}: {load}")
    begin_ns = stages[0].at_ns if stages else None
    edges = [begin_ns, *(edge for span in spans for edge in span), end_ns]
    known = [edge for edge in edges if edge is not None and edge != NEVER_NS]
    for low_ns, high_ns in list(pairwise(known))[::2]:
        if high_ns > low_ns:
            name = "cool-down" if high_ns == end_ns else "warm-up"
            name = "not in this part" if stats.chosen.in_time else name
            low_s, high_s = low_ns / SECOND_NS, high_ns / SECOND_NS
            yield Mark("excluded", low_s, high_s, f"{name}, not counted")
    for users in run.stage_users:
        for at_s, ran in users.ran:
            if users.short and ran < users.asked:
                yield Mark("fault", at_s, None, f"only {ran} of {plural(users.asked, 'user')}")
    for at_s, event in stats.marked:
        yield Mark("marked", at_s, None, printable(event.text))
    if end_ns is not None:
        yield Mark("end", end_ns / SECOND_NS, None, "end of the load")


def _causes(stats: RunStats) -> Iterator[Line]:
    """Failures by cause, the most frequent first."""
    width = _width(stats)
    counts: defaultdict[str, defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
    for (kind, status, second), count in stats.breakdown.errors.items():
        counts[cause_text(kind, status)][second // width * width] += count
    at_s = range(0, stats.series.span.stop, width)
    for cause, found in sorted(counts.items(), key=lambda each: (-sum(each[1].values()), each[0])):
        rates = (found[at] / width if at + width < at_s.stop else None for at in at_s)
        yield _line(cause, zip(at_s, rates, strict=True), RATE)


def by_response(tallies: Iterable[Tally]) -> bool:
    """Whether all have response times, so that these are drawn and compared."""
    return all(each.has_due_times or not each.last_byte.histogram.count for each in tallies)


def _distribution(title: str, named: Sequence[tuple[str, Tally]]) -> Chart:
    """Latency by percentile, as far as the number of values tells it: the response time where all
    have one, else the service time."""
    due = by_response(tally for _name, tally in named)
    lines = []
    for name, tally in named:
        histogram = (tally.response if due else tally.last_byte).histogram
        if histogram.count:
            lines.append(_line(name, (
                (_place(percent), None if isinstance(value, Sparse) else value)
                for percent, value in quantiles(histogram, _PERCENTS).items()
            ), LATENCY))  # fmt: skip
    return Chart(
        title, "percentile", f"{'response' if due else 'service'} time, ms", lines, y_log=True,
        ticks=[(_rounded(_place(p)), f"{p:g}") for p in _NAMED_PERCENTS],
        note="Each line ends at the highest percentile that its number of operations supports.",
    )  # fmt: skip


def _place(percent: float) -> float:
    """On the axis of percentiles: 90, 99 and 99.9 are evenly spaced."""
    return -log10(1 - percent / 100)


def _bars(
    what: str, parts: Sequence[tuple[str, float | None, Histogram]], kind: str
) -> Iterator[Chart]:
    """Bars for the rate and the latency of each part, where there are several."""
    if len(parts) < 2:
        return
    x, names = range(len(parts)), [printable(name) for name, _rate, _latency in parts]
    ticks, note = [(float(at), name[:_LONGEST_NAME]) for at, name in enumerate(names)], ""
    if len(parts) > _MOST_NAMES:
        ticks = [(at, str(at + 1)) for at in x[:: -(-len(parts) // 10)]]
        note = f"In the order of the table by {what} below."
    rates = [_scaled(rate, RATE) for _name, rate, _latency in parts]
    yield Chart(
        f"Throughput by {what}", what, "operations/s", [Line("operations/s", x, rates, names)],
        "bars", ticks=ticks, note=note,
    )  # fmt: skip
    found = [quantiles(latency, _PARTS) for _name, _rate, latency in parts]
    latencies = [
        Line(_named(kind, percent), x, [_scaled(each[percent], LATENCY) for each in found], names)
        for percent in _PARTS
    ]
    yield Chart(
        f"Latency by {what}", what, f"{kind} time, ms", latencies, "bars", ticks=ticks, note=note
    )


def _host_metrics(stats: RunStats) -> Iterator[tuple[str, Unit, list[Line]]]:
    """Lines of the hosts, and of the processes that used most of a core; with title and unit."""
    machines = stats.hosts.machines().items()
    busiest = sorted(stats.hosts.processes(), key=_mean_loop, reverse=True)[:_MOST_LINES]
    charts = [
        (title, unit, [
            (f"{host} {what}".rstrip(), series.points(key))
            for host, series in machines for key, what in keys.items()
        ])
        for title, (unit, keys) in _HOST_CHARTS.items()
    ]  # fmt: skip
    for title, key in _PROCESS_CHARTS.items():
        named = [(each.who.worker_id or "master", each.series.points(key)) for each in busiest]
        charts.append((title, PERCENT, named))
    for title, unit, named in charts:
        found = [(name, list(_averaged(points))) for name, points in named[:_MOST_LINES]]
        lines = [_line(name, points, unit) for name, points in found if points]
        if lines:
            yield title, unit, lines


def _averaged(points: Iterable[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """What is known of a metric, in as many points as a line can have."""
    known = [(at_s, value) for at_s, value in points if not isnan(value)]
    step = -(-len(known) // _MOST_POINTS) or 1
    for first in range(0, len(known), step):
        yield known[first][0], fmean(value for _at_s, value in known[first : first + step])


def _mean_loop(process: ProcessSeries) -> float:
    values = process.values("loop_cpu_percent")
    return fmean(values) if values else 0.0


def comparison_charts(runs: Sequence[RunStats], names: Sequence[str]) -> Iterator[Chart]:
    """Each run's throughput from the start of its load on, and its latencies."""
    lines = []
    for name, stats in zip(names, runs, strict=True):
        points = [row for row in _points(stats) if row.get("operations/s") is not None]
        since = ((row["at_s"] - points[0]["at_s"], row["operations/s"]) for row in points)
        lines.append(_line(name, since, RATE))
    yield Chart("Throughput by run", "seconds since the load's start", "operations/s", lines)
    named = [(name, stats.total()) for name, stats in zip(names, runs, strict=True)]
    yield _distribution("Latency distribution by run, all operations", named)


def series_charts(top: Section, ending: Section, capacity: Section | None) -> Iterator[Chart]:
    """:param top: the first section of a series; ``ending``: its summary.
    :param capacity: the law of its throughput, if it has one.
    """
    over, rows = top["over"], [row for row in top["steps"].rows if row["counts"]]
    rows = [row for row in rows if row["operations_per_s"] is not None]
    rows.sort(key=lambda row: row[over])
    unit = "users" if over == "users" else _DUE
    limit, best = top.row.get("largest_kept"), ending["operations_per_s"]
    marks, at_limit = [], []
    if limit is not None:
        text = f"highest load that met the SLO: {_load(limit, over)}"
        marks = [Mark("limit", limit, None, text)]
        if best is not None:  # the step whose figures the summary has
            text = f"{_load(limit, over)}: highest load that met the SLO"
            at_limit = [Mark("limit", _rounded(best), None, text)]
    response = any(each.get("response_p50_s") is not None for each in rows)
    name = "response" if response else "service"
    keys = {_named(name, each): percentile_column(name, each).key for each in _PARTS}
    rates = {"operations/s": [row["operations_per_s"] for row in rows]}
    latencies = {
        each: [row[key] for row in rows] for each, key in keys.items() if rows and key in rows[0]
    }
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
        [
            *_by_load(rates, loads, over, 1),
            *([_curve(capacity, loads)] if capacity else []),
            *_slos(rows, loads, {"/s": 1}, 1),
        ],
        "points", marks=[*marks, *_knee(capacity, loads)],
    )  # fmt: skip
    yield Chart(
        "Latency by load", unit, f"{name} time, ms",
        [*_by_load(latencies, loads, over, 1e6), *_slos(rows, loads, DURATIONS, 1e6)],
        "points", y_log=True, marks=marks,
    )  # fmt: skip


def _curve(capacity: Section, loads: Sequence[float]) -> Line:
    """The fitted throughput."""
    law = Law(capacity["rate_per_s"], capacity["contention"], capacity["coherency"])
    least, ratio = min(loads), max(loads) / min(loads)
    x = [_rounded(least * ratio ** (step / _CURVE_STEPS)) for step in range(_CURVE_STEPS + 1)]
    y = [_rounded(law.at(users)) for users in x]
    return Line("universal scalability law", x, y, form="limit")


def _knee(capacity: Section | None, loads: Sequence[float]) -> Iterator[Mark]:
    found = capacity["knee_users"] if capacity else None
    if found and found.low is not None and found.value is not None and found.value <= max(loads):
        yield Mark("limit", found.value, None, f"knee: {found.value:,.0f} users")


def _by_load(
    named: Mapping[str, Sequence[float | None]], loads: Sequence[float], over: str, divisor: float
) -> Iterator[Line]:
    """A line through the median of each load; where a load was run more than once, the single runs
    as points, too."""
    for name, values in named.items():
        of_load: defaultdict[float, list[float | None]] = defaultdict(list)
        for load, value in zip(loads, values, strict=True):
            of_load[load].append(value)
        distinct = sorted(of_load)
        medians = [_median(of_load[load]) for load in distinct]
        scaled = [None if y is None else _rounded(y / divisor) for y in medians]
        yield Line(name, distinct, scaled, [_load(load, over) for load in distinct])
        if len(distinct) < len(loads):
            runs = [
                (load, None if y is None else _rounded(y / divisor))
                for load, y in zip(loads, values, strict=True)
                if len(of_load[load]) > 1
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
