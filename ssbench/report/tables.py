"""What people read of a report, laid out once: titles, notes, facts and tables, and their values.

Pages and Markdown show all of it, text the tables of series and comparisons, and each section that
it has no other layout for; a run's text has the layout of ssbench 0.3.9 (``as_classic``). Tables
that are wider than a text continue below, under the same first column.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import chain
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ssbench.core.sparse import SPARSE_MARK, Sparse
from ssbench.core.stats.thresholds import DURATIONS, THROUGHPUTS
from ssbench.core.text import bytes_text, plural, printable, wrapped
from ssbench.report.figures import columns_of, source_tables
from ssbench.report.model import (
    BYTES,
    COUNT,
    LATENCY,
    MANY_TIMES,
    OUTCOME,
    WALL_CLOCK,
    WORD,
    Actual,
    Column,
    Distribution,
    Level,
    Note,
    Report,
    Row,
    Section,
    Table,
    Unit,
    change_text,
    judged_latency,
    latency_name,
    latency_text,
    percent_label,
    percent_text,
    shown_columns,
    time_text,
)

_WHOLE_SECONDS = Unit("s")
COLUMNS = 100  #: of a table in text
_LEAST_OF_UNIT = 0.001  #: of a threshold's unit, until a smaller one is easier to read
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
        files = [f"{run['run'].capitalize()}: {run['file']}" for run in runs]
        return f"Comparison of {len(runs)} runs", files
    if report.kind == "series":
        top = report[""]
        return top["scenario"], [
            f"A series of runs by {top['over']}",
            *store_lines(report["store"]),
        ]
    run = report["run"]
    version = run["ssbench_version"] or "unknown"
    started = time_text(run["started_at_s"])
    return report["settings"]["scenario_name"] or "Run", [
        f"{started}, run {run['run_id'] or 'unknown'}, ssbench {version}",
        *store_lines(report["store"]),
    ]


def store_lines(store: Section) -> list[str]:
    """Which store was measured, if it is known."""
    return [f"Store: {printable(store['line'])}"] if store["line"] else []


def notes_of(report: Report) -> list[tuple[Level, str]]:
    """What a reader should know beside the figures: the gravest first."""
    order = list(Level)
    return sorted(_notes(report), key=lambda note: order.index(note[0]))


def _notes(report: Report) -> Iterator[tuple[Level, str]]:
    keys = (
        "ending", "changes", "", "legend", "steadiness", "notes", "load_generator", "warnings",
        "counters", "remarks",
    )  # fmt: skip
    named = [section for key in keys for section in report.sections if section.key == key]
    titled = [section for section in report.sections if section.title and section.key]
    for note in chain.from_iterable(section.notes or () for section in [*named, *titled]):
        if "text" in note.formats:
            yield note.level, printable(note.sentence)
    if report.kind == "run":
        for each in report["counters"].facts:
            yield Level.PLAIN, f"{each.column.key}: {each.value}"
    elif report.kind == "comparison":
        for run in report["runs"].tables[0].rows:
            for note in run["notes"]:
                yield note.level, f"{run['run'].capitalize()}: {printable(note.sentence)}"
        yield Level.PLAIN, " ".join(note.sentence for note in report["closing"].notes or ())


def facts_of(report: Report) -> Iterator[tuple[str, str]]:
    """(topic, text) of a run's scenario, load and environment."""
    if report.kind != "run":
        return
    run, settings = report["run"].row, report["settings"].row
    yield "Storage", printable(str(run["driver"]))
    yield "Policy", printable(str(settings["policy"] or "default"))
    yield "Seed", str(run["seed"])
    yield "Users", str(run["users"])
    yield "Workers", str(settings["worker_count"])
    if settings["block_size"] is not None:
        yield "Block size", bytes_text(settings["block_size"])
    if settings["run_started_at_s"] is not None:
        yield (
            "Run phase",
            " to ".join(time_text(settings[key]) for key in ("run_started_at_s", "run_ended_at_s")),
        )
    if run["overrides"]:
        given = (f"{key}={value}" for key, value in run["overrides"].items())
        yield "Overridden on the command line", printable(", ".join(given))
    for note in report["settings"].notes or ():
        topic, _, text = note.sentence.partition(": ")
        yield printable(topic), printable(text)
    if report["verified"]["reads"] is not None:
        yield "Verified", verified_text(report["verified"])
    for name, facts in (("Versions", run["versions"]), ("Host of the master", run["hosts"])):
        if facts:
            yield name, printable(_flat(facts))


def _flat(facts: Row) -> str:
    """``python 3.11.7, gevent 26.9``; what is nested as JSON."""
    return ", ".join(_named(key, value) for key, value in facts.items())


def _named(key: str, value: Any) -> str:
    if key.endswith("_bytes") and isinstance(value, int):
        return f"{key.removesuffix('_bytes')} {bytes_text(value)}"
    if isinstance(value, list):  # of the load average, which has sixteen binary digits
        value = [round(each, 2) if isinstance(each, float) else each for each in value]
    return f"{key} {json.dumps(value) if isinstance(value, dict | list) else value}"


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
    columns = shown_columns(table.columns, table.rows)
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
    says = "/s" in column.title or column.title == "Seconds" or column.unit is WALL_CLOCK
    return printable(column.title if says else heading(column))


def _run(report: Report) -> Iterator[Table]:
    judged = [{**row, "measured": judged_text(row)} for row in report["thresholds"].tables[0].rows]
    yield _table(
        "Thresholds", judged,
        ("threshold", WORD, "Threshold"), ("passed", WORD, "Met"), ("measured", WORD, "Measured"),
    )  # fmt: skip
    operations = report.shown_operations
    yield _figures("Operations", [(row["operation"], row) for row in operations])
    classes = [
        (f"{row['operation']} {each['size_class']}", each)
        for row in operations
        for each in row["size_classes"].rows
    ]
    yield _figures("Operations by size class", classes)
    stages = report["stages"].tables[0].rows
    if len(stages) > 1:
        named = [(row["name"] or f"stage {number}", row) for number, row in enumerate(stages, 1)]
        yield _figures("Stages", named)
    yield from source_tables(report)
    yield _errors("Errors", report["errors"].tables[0].rows)
    populate, cleanup = report["phase_errors"].tables
    yield _errors("Errors while populating", populate.rows)
    yield _errors("Errors while cleaning up", cleanup.rows)
    phases = report["phases"].tables[0]
    rows = [row for row in phases.rows if row["count"] or row["errors"]]
    columns = titled(phases.columns, rows)
    yield Table("phases", columns, rows, "Populate and clean-up")
    yield replace(report["load_generator"]["hosts"], title="Hosts of the load generator")
    yield replace(report["clocks"].tables[0], title="Clocks of the workers")
    sizes = [{**row, "profile": _profile(row["profile"])} for row in report["run"]["sizes"].rows]
    yield _table(
        "Size classes of the scenario", sizes, ("name", WORD, "Size class"),
        ("size_min", COUNT, "Smallest (B)"), ("size_max", COUNT, "Largest (B)"),
        ("initial_files", COUNT, "Initial objects"), ("profile", WORD, "Operations"),
    )  # fmt: skip


def _figures(title: str, named: Sequence[tuple[str, Row]]) -> Table:
    """Figures of operations, and their latencies."""
    rows, latencies = [], dict[str, float | None]()
    for name, row in named:
        found = judged_latency(row)
        percentiles = {percent_label(each): value for each, value in found.percentiles.items()}
        latencies = {"mean": found.mean, **percentiles}
        rows.append({**row, "name": name, **latencies})
    columns = [
        Column("name", WORD, "Name"),
        *titled(columns_of("operations"), rows),
        *(Column(label, LATENCY, label) for label in latencies),
    ]
    return Table(title, columns, rows, f"{title} (latencies: {latency_name(rows)})")


def titled(columns: Sequence[Column], rows: Sequence[Row]) -> list[Column]:
    """Those with a title, of figures that people see in a table."""
    return [column for column in shown_columns(columns, rows) if column.title]


def _table(title: str, rows: Sequence[Row], *columns: tuple[str, Unit, str]) -> Table:
    """:param columns: key, unit and heading of each."""
    return Table(title, [Column(key, unit, name) for key, unit, name in columns], rows, title)


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


def compared_runs(report: Report) -> Table:
    """The runs of a comparison, and how much of each is compared."""
    rows, whole = [], "run"
    if any(section.key == "part" for section in report.sections):
        whole = "part"
    for run in report["runs"].tables[0].rows:
        compared = f"{plural(run['whole_seconds'], 'whole second')} compared"
        if run["short"] and "side" not in run:
            compared = f"too short for intervals: its figures cover the whole {whole}"
        rows.append({**run, "run": run["run"].capitalize(), "compared": compared})
    return _table(
        "Runs", rows, ("run", WORD, "Run"), ("scenario_name", WORD, "Scenario"),
        ("started_at_s", WALL_CLOCK, "Started"), ("duration_s", _WHOLE_SECONDS, "Duration"),
        ("compared", WORD, "Compared"), ("store", WORD, "Store"),
    )  # fmt: skip


def _comparison(report: Report) -> Iterator[Table]:
    names = compared_names(report)
    runs = range(1, len(names) + 1)
    settings = [
        {"key": row["key"], **{f"run_{run}": row["values"][run - 1] for run in runs}}
        for row in report["differing_settings"].tables[0].rows
    ]
    named = [(f"run_{run}", WORD, names[run - 1]) for run in runs]
    yield compared_runs(report)
    yield _table("Settings that differ", settings, ("key", WORD, "Setting"), *named)
    yield from compared_tables(report)


def compared_names(report: Report) -> list[str]:
    """Of what is compared: ``Run 1`` and so on; of groups of runs ``A``, ``B``."""
    runs = report["runs"].tables[0].rows
    if runs and "side" in runs[0]:
        return list(dict.fromkeys(run["side"] for run in runs))
    return [run["run"].capitalize() for run in runs]


def compared_tables(report: Report) -> Iterator[Table]:
    """The figures of each operation: of the first run, of another, and the change."""
    names = compared_names(report)
    others = range(2, len(names) + 1)
    sure = f"{100 * report['']['confidence']:.3g}% interval"
    for other in others:
        columns = [
            Column("figure", WORD, "Figure"),
            Column("first", COUNT, names[0]),
            Column("first_interval", COUNT, sure, formats="wide"),
            Column("other", COUNT, names[other - 1]),
            Column("other_interval", COUNT, sure, formats="wide"),
            Column("change", COUNT, "Change"),
            Column("interval", COUNT, sure),
            Column("verdict", WORD, "Verdict"),
        ]
        for part in report.operations:
            title = part["operation"]
            if len(others) > 1:
                first, second = (names[at].replace("Run", "run") for at in (0, other - 1))
                title = f"{title}: {second} against {first}"
            rows = [*_changes(part, other - 1)]
            for column in columns_of("compared"):
                if not column.rare or any(part.get(column.key, ())):
                    rows.append(_compared(part, column, other - 1))
            yield Table(part["operation"], columns, rows, title)


def _changes(part: Row, other: int) -> Iterator[Row]:
    rows = list(_figures_of(part))
    found = [row["changes_against_first"][other - 1] for row in rows]
    ratios = [change[key] or 0 for change in found for key in ("ratio", "low", "high")]
    factor = any(ratio >= MANY_TIMES for ratio in ratios)
    for row, change in zip(rows, found, strict=True):
        cells = {"figure": row["title"], "verdict": _verdict(row, change)}
        for name, each in (("first", row["runs"][0]), ("other", row["runs"][other])):
            value, low, high = (
                number_text(n, each.unit) for n in (each.value, each.low, each.high)
            )
            cells |= {name: value, f"{name}_interval": _between(low, high)}
        ratio, low, high = (
            change_text(change[key], factor=factor) for key in ("ratio", "low", "high")
        )
        # Of several runs of each side, which differ so much that nothing is known.
        blank = "unknown" if "runs_needed" in change and ratio != "N/A" else ""
        yield {**cells, "change": ratio, "interval": _between(low, high) or blank}


def _compared(part: Row, column: Column, other: int) -> Row:
    """A count, which is not judged."""
    first, second = (
        f"{part[column.key][at]} of {part['operations'][at]}"
        if column.unit is OUTCOME
        else number_text(part[column.key][at], column.unit)
        for at in (0, other)
    )
    blank = dict.fromkeys(("first_interval", "other_interval", "change", "interval", "verdict"), "")
    return {"figure": column.title, "first": first, "other": second, **blank}


def _between(low: str, high: str) -> str:
    return "" if "N/A" in (low, high) else f"{low} to {high}"


def _verdict(figure: Row, change: Row) -> str:
    """``better: more than noise``: a rate is the better the higher it is, a latency the lower."""
    from ssbench.core.stats.intervals import ChangeVerdict  # few processes need it

    verdict = ChangeVerdict[change["verdict"].upper()]
    if verdict is not ChangeVerdict.REAL or change["ratio"] is None:
        return verdict.value
    higher = change["ratio"] > 1
    is_rate = figure["figure"].endswith("_per_s")
    return f"{'better' if higher == is_rate else 'worse'}: {verdict.value}"


def _figures_of(part: Row) -> Iterator[Row]:
    """The figures of an operation; none of bytes where no run moved any."""
    for row in part["figures"].rows:
        if row["figure"] != "moved_bytes_per_s" or any(each.value for each in row["runs"]):
            yield row


def judged_text(row: Row) -> str:
    """``12.4ms (response time)``, or why there is nothing."""
    if row["actual"] is None:
        return printable(row["why"])
    remarks = [row["latency"]] if row["latency"] else []
    if row["borderline"]:
        remarks.append("closer to the limit than the percentile's accuracy")
    if row["sparse"]:
        remarks.append("fewer than ten operations beyond it")
    text = actual_text(Actual(row["actual"], row["limit"], row["unit"]))
    return f"{text} ({', '.join(remarks)})" if remarks else text


def verified_text(verified: Section) -> str:
    """``1,234 reads, 5.6 GB; 0 corrupt, 0 stale``: of all operations that receive content."""
    return (
        f"{plural(verified['reads'], 'read')}, {bytes_text(verified['bytes_read'])};"
        f" {verified['corrupt']:,} corrupt, {verified['stale']:,} stale"
    )


def section_lines(section: Section, most: int | None) -> Iterator[str]:
    """A section of any report.

    :param most: columns of a table; None: as many as it takes.
    """
    if "text" not in section.formats:
        return
    if section.title:
        yield section.title
    yield from note_lines(section.notes)
    for fact in section.facts:
        if "text" in fact.column.formats:
            column = fact.column
            yield f"{column.title or column.key}: {cell_text(fact.value, column, symbol=True)}"
    for table in section.tables:
        if "text" in table.formats and table.rows:
            yield from _table_lines(table, most)


def _table_lines(table: Table, most: int | None) -> Iterator[str]:
    """Headings with their units above aligned figures."""
    columns = shown_columns(table.columns, table.rows)
    lines = [[heading(column) for column in columns]]
    lines += [[cell_text(row[column.key], column) for column in columns] for row in table.rows]
    if columns[-1].unit is WORD:  # text, on the left, of any width if all else fits
        longest = max(len(cells[-1]) for cells in lines)
        lines = [[*cells[:-1], cells[-1].ljust(longest)] for cells in lines]
        before = sum(max(map(len, cells)) + 2 for cells in list(zip(*lines, strict=True))[:-1])
        most = None if most and before < most else most
    if table.title:
        yield table.title
    yield from aligned(lines, most)


def heading(column: Column) -> str:
    name = column.title or column.key
    return f"{name} ({column.unit.symbol})" if column.unit.symbol else name


def narrow_lines(columns: Sequence[Column], rows: Sequence[Row], most: int | None) -> Iterator[str]:
    """A table of figures in text: short headings, and latencies in units of their own."""
    shown = titled(columns, rows)
    lines = [[column.unit.short or column.title for column in shown]]
    lines += [[_narrow_text(row[column.key], column.unit) for column in shown] for row in rows]
    yield from aligned(lines, most)


def _narrow_text(value: Any, unit: Unit) -> str:
    if unit is LATENCY:
        return latency_text(value)
    if unit is WORD:
        return printable(value)
    return plain_number(value, unit)


def plain_number(value: float | None, unit: Unit) -> str:
    """``1234.5``: without commas, as programs of long ago read it; N/A for None."""
    return "N/A" if value is None else f"{value / unit.divisor:.{unit.digits}f}"


def cell_text(value: Any, column: Column, *, symbol: bool = False) -> str:
    """A value in its column's unit; N/A for None."""
    unit = column.unit
    if value is None:
        return "N/A"
    if isinstance(value, Actual):
        return actual_text(value)
    if isinstance(value, Distribution):
        return ", ".join(
            f"{percentile_name(percent)} {latency_text(each)}"
            for percent, each in value.percentiles.items()
        )
    if isinstance(value, bool):
        return "yes" if value else "no"
    if unit is WALL_CLOCK:
        return time_text(value)
    is_number = isinstance(value, int | float) and unit is not WORD
    text = number_text(value, unit) if is_number else printable(str(value))
    return f"{text} {unit.symbol}" if symbol and unit.symbol else text


def number_text(value: float | None, unit: Unit) -> str:
    """``1,234``, ``12.35``, ``25.3 GB``: a number as people write it, without its unit's symbol;
    N/A for None."""
    if value is None:
        return "N/A"
    if unit is BYTES:
        return bytes_text(int(value))
    scaled = value / unit.divisor
    if unit is COUNT and value != int(value):
        return f"{value:,.6g}"
    # A latency is a number of nanoseconds: 0.000341 ms rather than 0.000.
    digits = 6 if unit is LATENCY and 0 < scaled < 0.1 else unit.digits
    mark = SPARSE_MARK if isinstance(value, Sparse) else ""
    return f"{mark}{round(scaled, digits) + 0.0:,.{digits}f}"  # -0.0 + 0.0 is 0.0


def percentile_name(percent: float) -> str:
    return "max" if percent == 100 else f"{percent_text(percent)}%"


def actual_text(actual: Actual) -> str:
    """``12.4 ms``: five digits, or as many as put it on its side of the limit; in the limit's unit,
    or, below a thousandth of that, in a smaller one."""
    value, limit, unit = actual.value, actual.limit, actual.unit
    if value is None:
        return "N/A"
    units = DURATIONS if unit in DURATIONS else THROUGHPUTS
    if 0 < value < _LEAST_OF_UNIT and unit in units:
        base, base_limit = value * units[unit], limit * units[unit]
        alike = [name for name in units if ("i" in name) == ("i" in unit) or name == "B/s"]
        fitting = [name for name in alike if units[name] <= base]
        unit = max(fitting or [min(units, key=units.__getitem__)], key=units.__getitem__)
        value, limit = base / units[unit], base_limit / units[unit]
    for digits in range(5, 18):
        text = f"{value:.{digits}g}"
        if (float(text) > limit, float(text) < limit) == (value > limit, value < limit):
            break
    space = "" if unit.startswith("/") else " "
    return f"{Decimal(text):,f}{space}{unit}".rstrip()


def note_lines(notes: Sequence[Note] | None) -> Iterator[str]:
    for note in notes or ():
        if "text" in note.formats:
            yield f"{note.level.prefix}{note.sentence}"


def aligned(lines: Sequence[Sequence[str]], most: int | None) -> Iterator[str]:
    """Lines of aligned cells; columns that do not fit ``most`` follow below, behind the first."""
    widths = [max(map(len, cells)) + 2 for cells in zip(*lines, strict=True)]
    parts, used = [[0]], widths[0]
    for at, width in enumerate(widths[1:], 1):
        if most and used + width > most and len(parts[-1]) > 1:
            parts.append([0])
            used = widths[0]
        parts[-1].append(at)
        used += width
    for part in parts:
        for cells in lines:
            yield padded([cells[at] for at in part], [widths[at] for at in part]).rstrip()


def wrapped_lines(text: str, columns: int) -> str:
    """The same lines, each broken where it is longer; what follows is indented."""
    lines = []
    for line in text.split("\n"):
        indent = " " * min(len(line) - len(line.lstrip()) + 2, columns // 2)
        lines += wrapped(line, columns, indent=indent) if len(line) > columns else [line]
    return "\n".join(lines)


def padded(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
