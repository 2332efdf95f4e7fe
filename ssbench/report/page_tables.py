"""What pages and Markdown show: titles, notes, and tables with a row for each operation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from ssbench.core.stats.compare import ChangeVerdict
from ssbench.core.text import printable
from ssbench.report.model import (
    COUNT,
    LATENCY,
    RATE,
    SECONDS,
    THROUGHPUT,
    WORD,
    Column,
    Distribution,
    Fact,
    Report,
    Row,
    Table,
    Unit,
    fact,
    percent_label,
    time_text,
)
from ssbench.report.text_layout import cell_text, heading

_CHANGE = Unit("%", digits=1)
_MOST_ROWS = 2000  #: of a table; a browser takes long over more


class Shown(Struct, frozen=True):
    """A table as text."""

    title: str
    headings: Sequence[str]
    numeric: Sequence[bool]  #: of each column: aligned to the right
    rows: Sequence[Sequence[str]]
    more: int  #: rows that are left out


def title_of(report: Report) -> tuple[str, list[str]]:
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


def notes_of(report: Report) -> Iterator[tuple[str, str]]:
    """(class, sentence) of what a reader should know beside the figures."""
    keys = (
        "ending", "changes", "", "steadiness", "notes", "load_generator", "warnings", "counters",
    )  # fmt: skip
    named = [section for key in keys for section in report.sections if section.key == key]
    titled = [section for section in report.sections if section.title and section.key]
    for note in chain.from_iterable(section.notes or () for section in [*named, *titled]):
        if "text" in note.formats:
            yield note.level.name.lower(), printable(note.sentence)


def tables_of(report: Report) -> Iterator[Table]:
    """Those of the report, with their titles."""
    if report.kind == "series":
        yield replace(report[""]["steps"], title="Steps")
    elif report.kind == "comparison":
        yield from _comparison(report)
    else:
        yield from _run(report)
    for section in report.sections:
        if section.title and section.key and "text" in section.formats:
            for table in section.tables:
                if "text" in table.formats:
                    yield replace(table, title=table.title or section.title.capitalize())


def shown(table: Table) -> Shown:
    columns = [column for column in table.columns if "text" in column.formats]
    numeric = [column.unit is not WORD for column in columns]
    rows = [[cell_text(row[c.key], c) for c in columns] for row in table.rows[:_MOST_ROWS]]
    return Shown(
        table.title,
        list(map(_heading, columns)),
        numeric,
        rows,
        max(len(table.rows) - _MOST_ROWS, 0),
    )


def _heading(column: Column) -> str:
    """With its unit, where it does not say it by itself."""
    says = "/s" in column.title or column.title == "Seconds"
    return printable(column.title if says else heading(column))


def _run(report: Report) -> Iterator[Table]:
    thresholds = report["thresholds"].tables[0]
    keys = ("threshold", "passed", "actual", "unit", "latency", "why")
    columns = [replace(c, title=c.key, formats="text") for c in thresholds.columns if c.key in keys]
    yield replace(thresholds, columns=columns, title="Thresholds")
    operations = report.operations
    yield _figures("Operations", [(row["operation"], row) for row in operations])
    classes = [
        (f"{row['operation']} {each['size_class']}", each)
        for row in operations
        for each in row["size_classes"].rows
    ]
    yield _figures("Operations by size class", classes)
    stages = report["stages"].tables[0].rows
    if len(stages) > 1:
        named = [(f"stage {number}", row) for number, row in enumerate(stages, 1)]
        yield _figures("Stages", named)
    titles = {"by_worker": "Workers", "by_url": "Storage URLs"}
    for section in report.sections:
        if section.key in titles:
            yield replace(section.tables[0], title=titles[section.key])
    yield _errors("Errors", report["errors"].tables[0].rows)
    populate, cleanup = report["phase_errors"].tables
    yield _errors("Errors while populating", populate.rows)
    yield _errors("Errors while cleaning up", cleanup.rows)
    phases = report["phases"].tables[0].rows
    yield _table(
        "Populate and clean-up", [row for row in phases if row["count"] or row["errors"]],
        ("phase", WORD, "Phase"), ("count", COUNT, "Count"), ("errors", COUNT, "Errors"),
        ("span_s", SECONDS, "Time"),
    )  # fmt: skip
    yield replace(report["load_generator"]["hosts"], title="Hosts of the load generator")
    yield replace(report["clocks"].tables[0], title="Clocks of the workers")
    sizes = [{**row, "profile": _profile(row["profile"])} for row in report["run"]["sizes"].rows]
    yield _table(
        "Size classes of the scenario", sizes, ("name", WORD, "Size class"),
        ("size_min", COUNT, "Smallest (B)"), ("size_max", COUNT, "Largest (B)"),
        ("initial_files", COUNT, "Initial objects"), ("profile", WORD, "Operations"),
    )  # fmt: skip


def _figures(title: str, named: Sequence[tuple[str, Row]]) -> Table:
    """Counts, rates and latencies, which are response times where there are any."""
    kind = "response" if any(row["response_time"] for _name, row in named) else "service"
    rows = []
    for name, row in named:
        found: Distribution = row["response_time"] or row["last_byte_latency"]
        rows.append([
            fact("name", name, WORD, "which", title="Name"),
            fact("count", row["count"], COUNT, "successes", title="Count"),
            fact("errors", row["errors"], COUNT, "failures", title="Errors"),
            fact("retries", row["retries"], COUNT, "repeated attempts", title="Retries"),
            fact("rate", row["requests_per_s"], RATE, "successes per second", title="Rate"),
            fact("moved", row["moved_bytes_per_s"], THROUGHPUT, "by these", title="Data"),
            fact("mean", found.mean, LATENCY, "average", title="mean"),
            *(fact(label := percent_label(percent), value, LATENCY, "percentile", title=label)
              for percent, value in found.percentiles.items()),
        ])  # fmt: skip
    return Table.of(title, rows, title=f"{title} (latencies: {kind} time)")


def _table(title: str, rows: Sequence[Row], *columns: tuple[str, Unit, str]) -> Table:
    """:param columns: key, unit and heading of each."""
    return Table(title, [Column(key, unit, name, name) for key, unit, name in columns], rows, title)


def _errors(title: str, rows: Sequence[Row]) -> Table:
    shown = [
        {**row["example"], **row, "status": row["status"] or "-"}
        for row in sorted(rows, key=lambda row: -row["count"])
    ]
    return _table(
        title, shown, ("count", COUNT, "Count"), ("kind", WORD, "Cause"),
        ("status", WORD, "Status"), ("operation", WORD, "Operation"), ("detail", WORD, "Example"),
        ("transaction_id", WORD, "Transaction id"),
    )  # fmt: skip


def _profile(profile: Row | None) -> str:
    if profile is None:
        return "unknown"
    return ", ".join(f"{name} {100 * share:.0f} %" for name, share in profile.items() if share)


def _comparison(report: Report) -> Iterator[Table]:
    settings = report["differing_settings"].tables[0]
    shown = [
        [fact("key", row["key"], WORD, "a setting", title="Setting"),
         *(fact(f"run_{at}", value, WORD, "its value", title=f"Run {at}")
           for at, value in enumerate(row["values"], 1))]
        for row in settings.rows
    ]  # fmt: skip
    yield Table.of("settings", shown, title="Settings that differ")
    for part in report.operations:
        rows = [list(_change(row)) for row in part["figures"].rows]
        yield Table.of(part["operation"], rows, title=part["operation"])


def _change(row: Row) -> Iterator[Fact]:
    yield fact("figure", row["title"], WORD, "what is compared", title="Figure")
    for at, found in enumerate(row["runs"], 1):
        unit, value = found.unit, found.value
        shown = None if value is None else round(value / unit.divisor, unit.digits)
        yield fact(f"run_{at}", shown, COUNT, "of the run", title=f"Run {at}")
        if at > 1:
            change = row["changes_against_first"][at - 2]
            percents = [
                None if change[key] is None else 100 * (change[key] - 1)
                for key in ("ratio", "low", "high")
            ]
            titles = (f"Change {at}", f"{at}: least", f"{at}: most")
            for title, percent in zip(titles, percents, strict=True):
                yield fact(title, percent, _CHANGE, "against the first run", title=title)
            verdict = ChangeVerdict[change["verdict"].upper()].value
            yield fact(f"verdict_{at}", verdict, WORD, "on the change", title=f"Verdict {at}")
