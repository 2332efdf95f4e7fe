"""Sections of a run that only a page shows: over time, distributions, by worker, by storage URL.

They are there where the statistics were read in detail, and are computed when they are read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice, pairwise
from math import isnan

from ssbench.core.model import SECOND_NS
from ssbench.core.stats.breakdown import Breakdown
from ssbench.core.stats.headroom import ProcessSeries
from ssbench.core.stats.histogram import Buckets
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.scenario_view import NEVER_NS
from ssbench.core.stats.tally import Tally
from ssbench.core.stats.thresholds import is_sparse
from ssbench.core.text import plural
from ssbench.report.model import (
    BYTES,
    COUNT,
    LATENCY,
    PERCENT,
    RATE,
    SECONDS,
    THROUGHPUT,
    WORD,
    Column,
    Fact,
    LazyRows,
    Row,
    Section,
    Series,
    Table,
    Unit,
    fact,
    marked,
    section_of,
)
from ssbench.report.notes import cause_text

#: Points of a line: more can't be told apart on a screen. Longer runs have several seconds each.
_MOST_POINTS = 600
_LEAST_OF_SECOND = 0.5  #: in which the load began; a rate over less is chance
_MOST_LINES = 12  #: of hosts or processes in a chart
_HTML = "html"
_SINCE_START = Column("at_s", SECONDS, "since the run's start")
#: Percentiles of a distribution, evenly spaced on its axis: 90, 99, 99.9 and 99.99 are as far from
#: each other.
_PERCENTS = tuple(round(100 - 100 * 10 ** -(step / 20), 6) for step in range(1, 81))
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


def detail_sections(stats: RunStats) -> list[Section]:
    """All of these; none where the statistics have no breakdown."""
    if stats.breakdown is None:
        return []
    return [
        section_of(Series(
            "over_time", _SINCE_START, _OVER_TIME, LazyRows(partial(_points, stats))
        ), formats=_HTML),
        section_of(Table.of("marks", list(_marks(stats))), formats=_HTML),
        _errors_over_time(stats, stats.breakdown),
        distribution_section("distribution", [
            (stats.operation_name(each), stats.total(each))
            for each in stats.operations
        ]),
        distribution_section("size_class_distribution", [
            (stats.class_name(each), stats.total(size_class=each)) for each in stats.classes()
        ]),
        _sources(stats, "worker"),
        _sources(stats, "url"),
        _host_metrics(stats),
    ]  # fmt: skip


#: Columns of what is known of each second.
AT_A_TIME = (
    Column("service_p50_s", LATENCY, "median service time", "service time p50"),
    Column("service_p99_s", LATENCY, "its 99th percentile", "service time p99"),
    Column("response_p50_s", LATENCY, "median response time; open loop only", "response time p50"),
    Column("response_p99_s", LATENCY, "its 99th percentile", "response time p99"),
    Column("in_flight", COUNT, "started and not completed at the end of it", "in flight"),
)
_OVER_TIME = (
    Column("operations_per_s", RATE, "successes completed", "operations/s"),
    Column("errors_per_s", RATE, "failures completed", "errors/s"),
    Column("moved_bytes_per_s", THROUGHPUT, "by successes", "MB/s"),
    *AT_A_TIME,
)


def seconds(stats: RunStats) -> Iterator[Row]:
    """A row for each second, warm-up and cool-down included."""
    has_bytes = stats.total().has_bytes
    for second in stats.series.seconds():
        yield {
            "second": second.second + 1,
            "operations": second.count,
            "errors": second.errors,
            "moved_bytes": second.bytes_moved if has_bytes else None,
            **_quantiles("service", second.service),
            **_quantiles("response", second.response),
            "in_flight": second.in_flight,
        }


def _quantiles(name: str, latencies: Buckets) -> dict[str, float | None]:
    p50, p99 = latencies.quantiles((50.0, 99.0))
    return {f"{name}_p50_s": p50, f"{name}_p99_s": p99}


def _points(stats: RunStats) -> Iterator[Row]:
    """As ``seconds``, but per second of each point, which may cover several: their latencies are
    merged, never averaged."""
    width = -(-len(stats.series.span) // _MOST_POINTS) or 1
    seconds = iter(stats.series.seconds())
    has_bytes = stats.total().has_bytes
    begin_s = stats.run.stages[0].at_ns / SECOND_NS if stats.run.stages else 0.0
    while some := list(islice(seconds, width)):
        if some[-1].second == stats.series.span.stop - 1:
            # The last second is no whole one: its figures would be a drop or a jump that was none.
            yield {"at_s": some[0].second, **dict.fromkeys(each.key for each in _OVER_TIME)}
            return
        moved = sum(second.bytes_moved for second in some)
        covered_s = sum(min(1.0, max(0.0, s.second + 1 - begin_s)) for s in some)  # by the load
        whole = covered_s >= len(some) - _LEAST_OF_SECOND
        yield {
            "at_s": some[0].second,
            "operations_per_s": sum(s.count for s in some) / covered_s if whole else None,
            "errors_per_s": sum(s.errors for s in some) / covered_s if whole else None,
            "moved_bytes_per_s": moved / covered_s if whole and has_bytes else None,
            **_quantiles("service", Buckets.merged([second.service for second in some])),
            **_quantiles("response", Buckets.merged([second.response for second in some])),
            "in_flight": some[-1].in_flight,
        }


def _marks(stats: RunStats) -> Iterator[list[Fact]]:
    """Stages, what does not count, changes of the users, and the load's end; rising."""
    run = stats.run
    stages, spans, end_ns = run.stages, run.spans, run.end_ns
    for number, mark in enumerate(stages, 1):
        if len(stages) > 1:
            load = f"{mark.rate:g} operations/s" if mark.rate else plural(mark.users, "user")
            yield _mark("stage", mark.at_ns, None, f"stage {number}: {load}")
    begin_ns = stages[0].at_ns if stages else None
    edges = [begin_ns, *(edge for span in spans for edge in span), end_ns]
    known = [edge for edge in edges if edge is not None and edge != NEVER_NS]
    for low_ns, high_ns in list(pairwise(known))[::2]:
        if high_ns > low_ns:
            name = "cool-down" if high_ns == end_ns else "warm-up"
            yield _mark("excluded", low_ns, high_ns, f"{name}, not counted")
    for users in run.stage_users:
        for at_s, ran in users.ran:
            if ran < users.asked:
                text = f"only {ran} of {plural(users.asked, 'user')}"
                yield _mark("fault", round(at_s * SECOND_NS), None, text)
    if end_ns is not None:
        yield _mark("end", end_ns, None, "end of the load")


def _mark(kind: str, at_ns: int, until_ns: int | None, text: str) -> list[Fact]:
    until_s = None if until_ns is None else until_ns / SECOND_NS
    return [
        fact("kind", kind, WORD, "stage, excluded, fault or end"),
        fact("at_s", at_ns / SECOND_NS, SECONDS, "since the run's start"),
        fact("until_s", until_s, SECONDS, "of what lasts"),
        fact("text", text, WORD, "the same in words"),
    ]


def _errors_over_time(stats: RunStats, breakdown: Breakdown) -> Section:
    """Failures by cause; a point is as wide as those of _Points."""
    width = -(-len(stats.series.span) // _MOST_POINTS) or 1
    counts: defaultdict[int, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    totals: defaultdict[str, int] = defaultdict(int)
    for (kind, status, second), count in breakdown.errors.items():
        cause = cause_text(kind, status)
        counts[second // width * width][cause] += count
        totals[cause] += count
    causes = sorted(totals, key=lambda cause: (-totals[cause], cause))
    columns = [Column(cause, RATE, "failures completed", cause) for cause in causes]
    points = range(0, stats.series.span.stop, width) if causes else range(0)
    rows = [
        {
            "at_s": at,
            **{
                cause: counts[at][cause] / width if at + width < points.stop else None
                for cause in causes
            },
        }
        for at in points
    ]
    return section_of(Series("errors_over_time", _SINCE_START, columns, rows), formats=_HTML)


def throughput_section(key: str, named: Sequence[tuple[str, RunStats]]) -> Section:
    """The throughput of runs beside each other, each from the start of its load on."""
    rows: defaultdict[int, dict[str, float | None]] = defaultdict(dict)
    columns = []
    for at, (name, stats) in enumerate(named):
        columns.append(Column(str(at), RATE, "successes completed", name))
        points = [row for row in _points(stats) if row["operations_per_s"] is not None]
        for row in points:
            rows[row["at_s"] - points[0]["at_s"]][str(at)] = row["operations_per_s"]
    merged: list[Row] = [{_SINCE_START.key: at_s, **row} for at_s, row in sorted(rows.items())]
    return section_of(Series(key, _SINCE_START, columns, merged), formats=_HTML)


def distribution_section(key: str, named: Sequence[tuple[str, Tally]]) -> Section:
    """Latency by percentile, as far as the number of values tells it: the response time where all
    have one, else the service time."""
    due = all(
        tally.response.histogram.count or not tally.last_byte.histogram.count
        for _name, tally in named
    )
    latencies = [(name, tally.response if due else tally.last_byte) for name, tally in named]
    lines = [(name, each.histogram) for name, each in latencies if each.histogram.count]
    quantiles = [histogram.quantiles(_PERCENTS) for _name, histogram in lines]
    columns = [
        Column(str(at), LATENCY, "latency at that percentile", name)
        for at, (name, _histogram) in enumerate(lines)
    ]
    rows: list[Row] = [
        {"percentile": percent, **{
            str(line): None if is_sparse(percent, histogram.count) else quantiles[line][at]
            for line, (_name, histogram) in enumerate(lines)
        }}
        for at, percent in enumerate(_PERCENTS)
    ]  # fmt: skip
    x = Column("percentile", PERCENT, "share of the operations that took no longer")
    kind = fact("latency", "response" if due else "service", WORD, "which one it is")
    return Section(key, facts=[kind], series=[Series(key, x, columns, rows)], formats=_HTML)


_OF_SOURCE = (
    Column("name", WORD, "which", "Name"),
    Column("count", COUNT, "successes", "Count"),
    Column("errors", COUNT, "failures", "Errors"),
    Column("requests_per_s", RATE, "successes per second", "Rate"),
    Column("moved_bytes", BYTES, "by successes", "Data"),
    Column("p50", LATENCY, "median service time"),
    Column("p99", LATENCY, "its 99th percentile"),
    Column("max", LATENCY, "the slowest"),
)


def _sources(stats: RunStats, source: str) -> Section:
    """A row for each worker, or storage URL, with results."""
    rows = []
    for name, tally in stats.sources(source):
        p50, p99, worst = tally.service.quantiles((50.0, 99.0, 100.0))
        rows.append({
            "name": name, "count": tally.count, "errors": tally.errors,
            "requests_per_s": tally.rate_per_s, "moved_bytes": tally.moved_bytes,
            "p50": marked(50, p50, tally.service.count),
            "p99": marked(99, p99, tally.service.count), "max": worst,
        })  # fmt: skip
    return section_of(Table(f"by_{source}", _OF_SOURCE, rows), formats=_HTML)


def _host_metrics(stats: RunStats) -> Section:
    """Lines of the hosts, and of the processes that used most of a core."""
    charts = [
        _metrics(title, unit, [
            (f"{host} {what}".rstrip(), series.points(key))
            for host, series in stats.machines().items()
            for key, what in keys.items()
        ])
        for title, (unit, keys) in _HOST_CHARTS.items()
    ]  # fmt: skip
    busiest = sorted(stats.processes(), key=_mean_loop, reverse=True)[:_MOST_LINES]
    charts += [
        _metrics(title, PERCENT, [
            (each.who.worker_id or "master", each.series.points(key)) for each in busiest
        ])
        for title, key in _PROCESS_CHARTS.items()
    ]  # fmt: skip
    return Section("host_metrics", series=[each for each in charts if each.y], formats=_HTML)


def _mean_loop(process: ProcessSeries) -> float:
    values = process.values("loop_cpu_percent")
    return sum(values) / len(values) if values else 0.0


def _metrics(
    title: str, unit: Unit, named: Sequence[tuple[str, Iterable[tuple[float, float]]]]
) -> Series:
    """Lines of one kind, each with its own times: its rows have no other line's value."""
    rows: list[Row] = []
    columns = []
    for at, (name, points) in enumerate(named[:_MOST_LINES]):
        known = [(at_s, value) for at_s, value in points if not isnan(value)]
        if known:
            columns.append(Column(str(at), unit, title, name))
        step = -(-len(known) // _MOST_POINTS) or 1
        for first in range(0, len(known), step):
            values = [value for _at_s, value in known[first : first + step]]
            rows.append({"at_s": known[first][0], str(at): sum(values) / len(values)})
    return Series(title, _SINCE_START, columns, rows, title)
