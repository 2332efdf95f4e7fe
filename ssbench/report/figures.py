"""Figures of operations and phases; and of each worker, endpoint and address, of a run and of runs
side by side.

Of the latter, there is a section for each kind of part, ``by_worker`` for example. JSON and pages
have each part; text and CSV leave out a kind of which there is only one, and texts cut a long list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from msgspec import Struct, structs

from ssbench.core.model import Job
from ssbench.core.operations import Body, row_of
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.tally import Counts, Latency, PartTimes, Source, SourceTally, Tally
from ssbench.core.stats.thresholds import ThresholdResult, metric_of
from ssbench.report.model import (
    ALL,
    BYTES,
    COUNT,
    DATA,
    ITEM_RATE,
    LATENCY,
    OUTCOME,
    PAGE_RATE,
    PERCENT,
    RATE,
    SECONDS,
    THROUGHPUT,
    WORD,
    Column,
    Distribution,
    Fact,
    Formats,
    Report,
    Row,
    Section,
    Table,
    Unit,
    fact,
    percentile_column,
    percentile_row,
    plain_note,
    quantiles,
    section_of,
    shown_columns,
)
from ssbench.report.operations import naming_of_run

_MOST = 12  #: rows in a text


class Figure(Struct, frozen=True):
    """A figure of operations: its column, which people see if it has a title, and its value.

    Tables are "operations" (with their size classes and stages), "phases" (around the run),
    "sources" (workers, endpoints, ...), of runs side by side "compared" (operations) and
    "compared_sources", and "steps" of a series.
    """

    column: Column
    of: Callable[[Any], Any]  #: from a Tally; from a SourceTally in tables of sources
    tables: str = "operations"  #: that have it
    rare: str = ""  #: further ones, where people do not see it if no row has any
    known: Callable[[Counts], bool] | None = None  #: which runs have it; None: all


def _figure(
    name: str, unit: Unit, title: str = "", tables: str = "operations",
    rare: str = "", *,
    key: str = "", known: str = "", of: Callable[[Any], Any] | None = None, **column: Any,
) -> Figure:  # fmt: skip
    """:param name: attribute of Counts with its value, where ``of`` does not give it.
    :param known: attribute of Counts that says whether the run has it.
    """
    shown = Column(key or name, unit, title, **column)
    is_known = attrgetter(known) if known else None
    return Figure(shown, of or attrgetter(name), tables, rare, is_known)


def _percentile(kind: str, percent: float, tables: str = "", rare: str = "") -> Figure:
    """A percentile of the service time; or of the response time, where operations had due times."""

    def of(tally: SourceTally) -> float | None:
        times = getattr(tally, kind)
        return None if times is None else quantiles(times, (percent,))[percent]

    column = percentile_column(kind, percent)
    title = column.title if kind == "service" else f"{kind} {column.title}"
    return Figure(structs.replace(column, title=title), of, tables, rare)


def _lost_race_percent(counts: Counts) -> float | None:
    return 100 * counts.lost_races / counts.operations if counts.operations else None


_MOVED_BYTES = ("moved_bytes", BYTES, "Data")
#: All figures of operations, in the order of people and JSON. Those that few runs have are last in
#: JSON and CSV.
FIGURES = (
    _figure("count", COUNT, "Count", "operations phases sources"),
    _figure("errors", OUTCOME, "Errors", "operations phases sources compared compared_sources"),
    _figure("lost_races", OUTCOME, "Lost races",
            "", "operations compared steps", known="has_races"),
    _figure("lost_race_percent", PERCENT, of=_lost_race_percent, known="has_races", formats=DATA),
    _figure("retries", COUNT, "Retries", "operations", "sources compared compared_sources steps"),
    _figure("not_found_retries", COUNT, formats=DATA),
    _figure("rate_limited", COUNT, "Slow-downs",
            "", "operations sources compared compared_sources steps"),
    _figure("reconnects", COUNT, formats=DATA),
    _figure("renewals", COUNT, formats=DATA),
    _figure("retry_percent", PERCENT, csv="retry_rate"),
    _figure(*_MOVED_BYTES, "operations phases", formats=DATA, csv="bytes"),
    _figure("failed_moved_bytes", BYTES, formats="json"),
    _figure("throughput.seconds", SECONDS, key="rate_window_s", formats="json"),
    _figure("rate_per_s", RATE, "Rate",
            "operations sources compared_sources", key="requests_per_s", csv="avg_req_per_s"),
    _figure(*_MOVED_BYTES, "sources", formats=DATA),  # in CSV behind the rate
    _figure("bytes_per_s", THROUGHPUT, "Data", "operations sources",
            key="moved_bytes_per_s", csv="bytes_per_s"),
    _figure("seconds", SECONDS, "Time",
            "operations phases", key="span_s", csv="seconds", formats="json"),
    _figure("over_span.rate_per_s", RATE, key="span_requests_per_s", formats="json"),
    _figure("items", COUNT, "Items", "", "operations", known="has_items"),
    _figure("throughput.items_per_s", ITEM_RATE,
            "Items/s", "", "operations", key="items_per_s", known="has_items"),
    _figure("pages", COUNT, "Pages", "", "operations", known="has_pages"),
    _figure("throughput.pages_per_s", PAGE_RATE,
            "Pages/s", "", "operations", key="pages_per_s", known="has_pages"),
    _percentile("service", 50, "sources"),
    _percentile("service", 99, "sources compared_sources"),
    _percentile("service", 100, "sources"),
    _percentile("response", 50, rare="sources"),
    _percentile("response", 99, rare="sources compared_sources"),
)  # fmt: skip


def figures_of(table: str) -> list[Figure]:
    """Those of a table, whose columns are as it has them."""
    return [
        structs.replace(each, column=structs.replace(each.column, rare=table in each.rare.split()))
        for each in FIGURES
        if table in f"{each.tables} {each.rare}".split()
    ]


def columns_of(table: str) -> list[Column]:
    """Those of the figures in a table."""
    return [each.column for each in figures_of(table)]


def values_of(table: str, tally: Counts) -> dict[str, Any]:
    """The figures of a table, by key."""
    return {each.column.key: each.of(tally) for each in figures_of(table)}


_RUNS = Column("runs", WORD)
#: Kind of part -> title, columns of its names, and what gives the parts of a run.
_KINDS: Mapping[str, tuple[str, Sequence[Column], Callable[[RunStats], list[Source]]]] = {
    "worker": (
        "Workers",
        (Column("worker", WORD, "Worker"), Column("host", WORD, "Host")),
        RunStats.workers,
    ),
    "endpoint": (
        "Endpoints",
        (Column("endpoint", WORD, "Endpoint"),),
        RunStats.endpoints,
    ),
    "address": (
        "Addresses",
        (Column("address", WORD, "Address"),),
        RunStats.addresses,
    ),
    "identity": (
        "Identities",
        (Column("identity", WORD, "Identity"),),
        RunStats.identities,
    ),
    "group": (
        "Groups of users",
        (Column("group", WORD, "Group"), Column("asked", WORD, "Asked for")),
        RunStats.groups,
    ),
}
#: The same of a comparison. The report of a run has a layout of its own for stages.
_COMPARED_KINDS = {
    **_KINDS,
    "stage": (
        "Stages",
        (Column("stage", WORD, "Stage"),),
        RunStats.stages,
    ),
}
#: Kinds whose names may be others in each run: without one in several, they are not side by side.
_NAMED_ANEW = ("worker",)


def source_sections(stats: RunStats) -> Iterator[Section]:
    """Of a run: the figures of each part."""
    for kind, (title, names, parts_of) in _KINDS.items():
        rows = [
            {**_named(names, source), **values_of("sources", source.tally)}
            for source in parts_of(stats)
        ]
        formats: Formats = ALL if len(rows) > 1 else "json"
        key = f"by_{kind}"
        columns = (*names, *columns_of("sources"))
        table = Table(key, columns, rows, title, csv=kind, formats=formats)
        yield section_of(table, formats=formats)


def _named(names: Sequence[Column], source: Source) -> Row:
    return dict(zip((column.key for column in names), (source.name, source.where), strict=False))


def source_tables(report: Report) -> Iterator[Table]:
    """Those of a run, each with its title."""
    for kind in _KINDS:
        yield report[f"by_{kind}"].tables[0]


_OF_PARTS = (50, 99, 100)
_PART_FIGURES = (
    Column("count", COUNT, "Parts"),
    *(percentile_column("", each) for each in _OF_PARTS),
    Column("slowest_object", WORD, "Slowest"),
    Column("slowest_part", COUNT, "Part"),
    Column("slowest_bytes", WORD, "Bytes"),
    Column("slowest_endpoint", WORD, "Endpoint"),
    Column("slowest_id", WORD, "Id"),
)
_OPERATION = Column("operation", WORD, "Operation")
PARTS = "object_parts"  #: key of the section


def parts_section(stats: RunStats) -> Iterator[Section]:
    """Of a run: the times of the parts of objects, by operation; nothing if there are none."""
    rows = [{"operation": name, **found} for name, found in _parts(stats).items()]
    if rows:
        table = Table(PARTS, (_OPERATION, *_PART_FIGURES), rows, csv="parts")
        yield Section(PARTS, "PARTS OF OBJECTS", tables=[table])


def _parts(stats: RunStats) -> dict[str, Row]:
    tallies = {stats.operation_name(each): stats.total(each).parts for each in stats.operations}
    return {name: _of_parts(stats, found) for name, found in tallies.items() if found.slowest}


def _of_parts(stats: RunStats, found: PartTimes) -> Row:
    slowest, times = found.slowest, found.histogram
    assert slowest is not None  # nosec B101 # for the type checker
    scenario, header = stats.run.scenario, stats.run.header
    naming = naming_of_run(header, scenario) if header else None
    object_ = Job(0, slowest.operation, slowest.size_class, slowest.object, 0, 0)
    received = row_of(slowest.operation, stats.run.operations).body is Body.RECEIVED
    large = scenario.large_read if received else scenario.large_object
    extent = None
    if large:
        first = slowest.part * large.segment
        last = first + large.segment
        extent = f"{first}-{(min(last, slowest.size) if slowest.size > first else last) - 1}"
    return {
        "count": times.count,
        **percentile_row("", quantiles(times, _OF_PARTS)),
        "slowest_object": naming.path(object_) if naming else None,
        "slowest_part": slowest.part + 1,
        "slowest_bytes": extent,
        "slowest_endpoint": stats.run.endpoint(slowest.url),
        "slowest_id": slowest.transaction_id.decode("utf-8", "replace"),
    }


def compared_parts(runs: Sequence[RunStats], names_of_runs: Sequence[str]) -> Iterator[Section]:
    """Of a comparison: the times of parts in each run, which are not judged."""
    found: dict[str, list[Row | None]] = {}
    for at, stats in enumerate(runs):
        for name, row in _parts(stats).items():
            found.setdefault(name, [None] * len(runs))[at] = row
    shown = [each for each in _PART_FIGURES if each.title in ("p50", "p99")]
    columns = [_OPERATION, *_of_runs(shown, names_of_runs)]
    rows = [_side_by_side(_OPERATION.key, *each, _PART_FIGURES, shown) for each in found.items()]
    if rows:
        yield Section(
            PARTS, "PARTS OF OBJECTS",
            tables=[
                Table(PARTS, (_OPERATION, _RUNS), rows, formats="json"),
                Table(PARTS, columns, rows, formats="text"),
            ],
            formats="text json",
        )  # fmt: skip


def compared_sections(runs: Sequence[RunStats], names_of_runs: Sequence[str]) -> Iterator[Section]:
    """Of a comparison: the figures of each part in each run, which are not judged.

    :param names_of_runs: ``run 1``, ``A1``.
    """
    for kind, (title, names, parts_of) in _COMPARED_KINDS.items():
        found: dict[str, list[Row | None]] = {}
        for at, stats in enumerate(runs):
            for source in parts_of(stats):
                of_runs = found.setdefault(source.name, [None] * len(runs))
                of_runs[at] = {**_named(names, source), **values_of("sources", source.tally)}
        shown = shown_columns(
            columns_of("compared_sources"), [row for each in found.values() for row in each if row]
        )
        figures = columns_of("sources")
        rows = [_side_by_side(names[0].key, *each, figures, shown) for each in found.items()]
        several = any(len(parts_of(stats)) > 1 for stats in runs) and (
            kind not in _NAMED_ANEW
            or any(sum(each is not None for each in row["runs"]) > 1 for row in rows)
        )
        few, more = cut(rows, by=_least_change)
        columns = [names[0], *_of_runs(shown, names_of_runs)]
        key = f"by_{kind}"
        yield Section(
            key, f"{title.upper()} (latencies: service time)" if several else "",
            notes=[plain_note(line) for line in more],
            tables=[
                Table(key, (names[0], _RUNS), rows, formats="json"),
                Table(key, columns, few, formats="text" if several else ""),
            ],
            formats="text json" if several else "json",
        )  # fmt: skip


def _of_runs(shown: Sequence[Column], names_of_runs: Sequence[str]) -> list[Column]:
    """A column of each run for each of these."""
    return [
        structs.replace(each, key=f"run_{at}_{each.key}", title=f"{run} {each.title}", rare=False)
        for each in shown for at, run in enumerate(map(str.capitalize, names_of_runs), 1)
    ]  # fmt: skip


def _side_by_side(
    key: str,
    name: str,
    of_runs: Sequence[Row | None],
    figures: Sequence[Column],
    shown: Sequence[Column],
) -> Row:
    """The figures of a part in each run: for JSON all, for people those shown."""
    return {
        key: name,
        "runs": [row and {c.key: _stored(row[c.key], c) for c in figures} for row in of_runs],
        **{
            f"run_{at}_{each.key}": row and row[each.key]
            for each in shown for at, row in enumerate(of_runs, 1)
        },
    }  # fmt: skip


def _stored(value: float | None, column: Column) -> float | None:
    stored = column.unit.stored
    return value if value is None or stored == 1 else round(value / stored, 9)


def _least_change(row: Row) -> float:
    """The larger, the more the part is like itself in the first run."""
    first, *others = (part["requests_per_s"] if part else None for part in row["runs"])
    if not first:
        return 0.0
    return min((-abs((each or 0) / first - 1) for each in others), default=0.0)


def _by_trouble(row: Row) -> tuple[float, float]:
    return -row["errors"], row["requests_per_s"] or 0.0


def cut(
    rows: Sequence[Row], by: Callable[[Row], Any] = _by_trouble
) -> tuple[Sequence[Row], list[str]]:
    """The rows for a text, and a line on those that it leaves out, if any.

    :param by: what the rows of a long list are sorted by: first what a reader looks for, such as
        parts with errors, then the slowest.
    """
    more = len(rows) - _MOST
    if more <= 0:
        return rows, []
    return sorted(rows, key=by)[:_MOST], [f"  and {more} more (--json has all)"]


#: Latency judged -> its name in the report.
_JUDGED = {
    "last_byte": "service time",
    "response": "response time",
    "first_byte": "to the first byte",
    "headers": "to the headers",
}


def operation_facts(
    stats: RunStats, operation: int | None, percents: Sequence[float]
) -> list[Fact]:
    """The figures of an operation, None for all together, and of its size classes."""
    rows = [
        [fact("size_class", stats.class_name(size_class), WORD),
         *tally_facts(stats.total(operation, size_class), percents)]
        for size_class in stats.classes(operation)
    ]  # fmt: skip
    table = Table.of("size_classes", rows, by="size_class")
    figures = tally_facts(stats.total(operation), percents)
    those = stats.operations if operation is None else [operation]
    receives = any(row_of(each, stats.run.operations).receives for each in those)
    return [
        *figures,
        fact("size_classes", table, WORD, "text json"),
        fact("receives", receives, WORD, "text"),
    ]


def tally_facts(tally: Tally, percents: Sequence[float]) -> list[Fact]:
    latencies = (tally.headers, tally.first_byte, tally.last_byte, tally.response)
    headers, first, last, due = (_distribution(each, percents) for each in latencies)
    response = due if tally.has_due_times else None
    return [
        *_counts(tally),
        # CSV has a column for each of their figures.
        fact("headers_latency", headers, LATENCY, "text json"),
        fact("first_byte_latency", first, LATENCY, "text json"),
        fact("last_byte_latency", last, LATENCY, "text json"),
        fact("response_time", response, LATENCY, "text json"),
    ]


def _counts(counts: Counts) -> Iterator[Fact]:
    """Those that few runs have come last."""
    for each in sorted(figures_of("operations"), key=lambda each: each.known is not None):
        if each.known is None or each.known(counts):
            yield Fact(each.column, each.of(counts))


def around_facts(counts: Counts) -> Iterator[Fact]:
    """The figures of a phase around the run, of which only JSON has all."""
    shown = {column.key for column in columns_of("phases")}
    for each in _counts(counts):
        formats = ALL if each.column.key in shown else "json"
        yield Fact(structs.replace(each.column, formats=formats), each.value)


def _distribution(latency: Latency, percents: Sequence[float]) -> Distribution:
    histogram = latency.histogram
    return Distribution(
        histogram.count, histogram.out_of_range, latency.uncertain, histogram.min, histogram.max,
        histogram.mean, histogram.std_dev,
        quantiles(histogram, percents),
        latency.worst[1].decode("utf-8", "replace") if latency.worst else None,
    )  # fmt: skip


def threshold_facts(verdict: ThresholdResult) -> list[Fact]:
    """Whether a threshold was met; the values are in its own unit."""
    threshold, actual = verdict.threshold, verdict.actual
    if actual is not None:
        actual /= metric_of(threshold.metric).units[threshold.unit]
    latency = _JUDGED[verdict.latency] if verdict.latency else None
    return [
        fact("threshold", str(threshold), WORD),
        fact("passed", verdict.passed, WORD),
        fact("actual", actual, COUNT),
        fact("limit", float(threshold.number), COUNT, "json"),
        fact("unit", threshold.unit, WORD, "json"),
        fact("latency", latency, WORD, "json"),
        fact("borderline", verdict.borderline, WORD, "json"),
        fact("sparse", verdict.sparse, WORD, "json"),
        fact("why", verdict.why or None, WORD, "json"),
    ]
