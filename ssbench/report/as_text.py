"""Reports for people: the layout of ssbench 0.3.9 with units, and a summary that ends it.

Tables fit 100 columns: wider ones continue below, under the same first column. A section with a
title needs no layout here: a run's follow what is said of the load generator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

from ssbench.core.stats.scenario_view import other_operations
from ssbench.core.stats.thresholds import DURATIONS, THROUGHPUTS
from ssbench.core.text import bytes_text, plural, printable, shortened
from ssbench.report.model import (
    LATENCY,
    WALL_CLOCK,
    WORD,
    Actual,
    Column,
    Distribution,
    Note,
    Report,
    Row,
    Section,
    Table,
    change_text,
    latency_text,
    percent_text,
    time_text,
)
from ssbench.report.summary import TOPIC_WIDTH, WIDTH


def render_text(report: Report) -> str:
    """The report for people, ending with a newline; its tables fit 100 columns."""
    return _rendered(report, COLUMNS)


def render_wide(report: Report) -> str:
    """The same with a line for each row of a table, and with what only fits there."""
    return _rendered(report, None)


def _rendered(report: Report, most: int | None) -> str:
    """:param most: columns of a table; None: as many as it takes."""
    if report.kind == "series":
        text = _series(report, most)
    elif report.kind == "comparison":
        text = _comparison(report, most)
    else:
        text = run_text(report, most, _block)
    return "\n".join([text, *summary_lines(report)]) + "\n"


def summary_lines(report: Report) -> Iterator[str]:
    """The report's last lines: at most eight."""
    for row in report["summary"].tables[0].rows:
        topic, text = row["topic"], row["text"]
        fits = TOPIC_WIDTH + len(text) <= WIDTH or topic != "Results"
        yield f"{topic:{TOPIC_WIDTH}}{text}" if fits else text


# A run

COLUMNS = 100  #: of a table
RATE_TITLE = "Average requests per second:"
_RULE = "-" * 69

#: Lays out the figures of an operation, in at most so many columns.
Block = Callable[[Report, Row, int | None], Iterator[str]]


def run_text(report: Report, most: int | None, block: Block) -> str:
    """A run but for its summary, ending with a newline."""
    lines = ["", *_header(report), "", *_scenario_table(report)]
    for row in report.operations:
        lines += ["", row["operation"], *block(report, row, most)]
    populate, cleanup = report["phase_errors"].tables
    others = [section for section in report.sections if section.title]
    workers, spread = report["workers"], ""
    if workers["requests_min"] is not None:
        spread = (
            "Distribution of requests per worker-ID:"
            f" {workers['requests_min']:7.3f} - {workers['requests_max']:7.3f}"
            f" (avg: {workers['requests_mean']:7.3f}; stddev: {workers['requests_std_dev']:7.3f})"
        )
    for part in (
        _stages(report, most),
        _errors("POPULATE ERRORS", populate),
        _errors("ERRORS", report["errors"].tables[0]),
        _errors("CLEAN-UP ERRORS", cleanup),
        _section(report["counters"], most),
        [spread] if spread else [],
        [*_notes(report["steadiness"].notes), *_notes(report["notes"].notes)],
        _notes(report["load_generator"].notes),
        *(_section(section, most) for section in others),
        _notes(report["warnings"].notes),
        threshold_lines(report),
    ):
        found = list(part)
        if found:
            lines += ["", *found]
    return "\n".join(line.rstrip("\n") for line in lines) + "\n"


def _header(report: Report) -> Iterator[str]:
    run, settings = report["run"], report["settings"]
    version = run["ssbench_version"]
    yield (
        f"{printable(settings['scenario_name'])}  (generated with ssbench version"
        f" {'unknown' if version is None else printable(version)})"
    )
    # Of several stages, each shows its users in a line of its own.
    ran = [row for row in report["stages"].tables[0].rows if row["users_by_time"]]
    users = settings["concurrency"]
    users_text = _users(users, ran[0]) if len(ran) == 1 else _or_none(users)
    yield (
        f"Worker count: {settings['worker_count']:3}   Concurrency: {users_text:>3}  "
        f"{_when(run, settings)}"
    )
    yield f"Object expiration (X-Delete-After): {settings['delete_after']} (sec)"
    if not report.legacy and version is not None:
        yield from _more_header(report)
    yield from _notes(report["ending"].notes)


def _when(run: Section, settings: Section) -> str:
    """``Ran A to B (13s)``; where a part of it counts: ``, 10s of it counted``."""
    duration_s = run["duration_s"]
    counted = "N/A" if duration_s is None else f"{duration_s:.0f}s"
    first, last = time_text(run["started_at_s"]), time_text(run["ended_at_s"])
    if not settings["excludes"]:
        return f"Ran {first} to {last} ({counted})"
    begin_s, end_s = settings["run_started_at_s"], settings["run_ended_at_s"]
    if begin_s is None:
        return f"Counted {first} to {last} ({counted})"
    whole = f"{time_text(begin_s)} to {time_text(end_s)} ({end_s - begin_s:.0f}s)"
    return f"Ran {whole}, {counted} of it counted"


def _more_header(report: Report) -> Iterator[str]:
    run, settings = report["run"], report["settings"]
    yield (
        f"Seed: {run['seed']}   Storage: {printable(run['driver'])}   "
        f"Policy: {printable(settings['policy'] or 'default')}   "
        f"Block size: {_or_none(settings['block_size'])}"
    )
    if run["overrides"]:
        given = (f"{key}={value}" for key, value in run["overrides"].items())
        yield "Overridden on the command line: " + printable(", ".join(given))
    yield from _notes(settings.notes)
    verified = report["verified"]
    if verified["reads"] is not None:
        yield (
            f"Verified: {verified['reads']:,} READs, {bytes_text(verified['bytes_read'])}; "
            f"{verified['corrupt']:,} corrupt, {verified['stale']:,} stale"
        )
        if verified["first_corrupt"]:
            yield f"  First corrupt: {_example(verified['first_corrupt'])}"
    populate, cleanup = report["phases"].tables[0].rows
    for title, row, verb in (
        ("Initial objects", populate, "uploaded"),
        ("Clean-up", cleanup, "moved"),
    ):
        if row["count"] or row["errors"]:
            took = "" if row["span_s"] is None else f" in {row['span_s']:.1f} s"
            moved = f", {bytes_text(row['moved_bytes'])} {verb}" if row["moved_bytes"] else ""
            yield f"{title}: {row['count']} done, {plural(row['errors'], 'error')}{moved}{took}"


def _scenario_table(report: Report) -> Iterator[str]:
    run = report["run"]
    others = other_operations(run["operations_weighted_average"])
    named = "".join(f" {printable(name)}" for name in others)
    yield f"% Ops    C   R   U   D{named}       Size Range       Size Name"
    for size in run["sizes"].rows:
        low, high = _size(size["size_min"]), _size(size["size_max"])
        yield (
            f"{100 * size['share']:3.0f}%   %{_profile(size['crud'], size['profile'], others)}"
            f"      {low if low == high else f'{low} - {high}':15}  {printable(size['name'])}"
        )
    yield _RULE
    average = _profile(run["crud_weighted_average"], run["operations_weighted_average"], others)
    yield f"        {average}      CRUD weighted average"


def _profile(crud: Sequence[float] | None, profile: Row | None, others: Sequence[str]) -> str:
    """Shares in per cent: of CREATE, READ, UPDATE, DELETE, 15 wide, then of others by name."""
    if crud is None or profile is None:
        return " ".join(["N/A"] * 4)
    cells = [f"{100 * share:3.0f}" for share in crud]
    return " ".join(cells + [f"{100 * profile.get(n, 0.0):{len(n)}.0f}" for n in others])


def _size(count: int | None) -> str:
    """``  4 kB``, six wide."""
    if count is None:
        return "   N/A"
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count / unit >= 0.9995:
            return f"{count / unit:3.0f} {name}"
    return f"{count:3}  B"


_TITLES = {"first_byte_latency": "First-byte latency", "last_byte_latency": "Last-byte  latency"}
_STATISTICS = ("min", "max", "mean", "std_dev")
_INDENT = " " * 7


def _block(report: Report, row: Row, most: int | None) -> Iterator[str]:
    """The figures of an operation."""
    percent = report.percentile
    yield from _counts(row, most, throughput=not report.legacy)
    column = f"{percent_text(percent)}%-ile"
    headings = "".join(f"{name:>11}" for name in ("min", "max", "avg", "std_dev", column))
    yield f"{_INDENT}{'':19}{headings}" + ("" if most else f"{'':19}Worst latency TX ID")
    parts = [(row, "all obj sizes")]
    for of_class in row["size_classes"].rows:
        parts.append((of_class, f"{printable(of_class['size_class']):>8} objs"))
    for part, label in parts:
        for key, title in _TITLES.items():
            found: Distribution = part[key]
            if key == "first_byte_latency" and not row["receives"]:
                continue  # a response without a body has no first byte
            values = [*(getattr(found, name) for name in _STATISTICS), found.percentiles[percent]]
            cells = "".join(f"{latency_text(value):>11}" for value in values)
            worst = "" if most else f"  {printable(found.worst_id or '')}"
            yield f"{_INDENT}{title}:{cells}  ({label}){worst}".rstrip()
    service, response = row["last_byte_latency"], row["response_time"]
    if service.count:
        title = "Service time (from start)" if response else "Last-byte"
        shown = {f"{title} percentiles:": service}
        if response:
            shown["Response time (from due) percentiles:"] = response
        longest = max(map(len, shown))
        lines = [["".ljust(longest), *map(percentile_name, service.percentiles)]]
        for title, found in shown.items():
            values = [f"{latency_text(value):>9}" for value in found.percentiles.values()]
            lines.append([title.ljust(longest), *values])
        yield from (f"{_INDENT[2:]}{line}" for line in _aligned(lines, most and most - 5))
    if most and service.worst_id:
        yield f"{_INDENT}Worst latency TX ID: {printable(service.worst_id)}"


def _counts(row: Row, most: int | None, *, throughput: bool) -> Iterator[str]:
    """What succeeded and failed, and the rates; in one line where any width will do."""
    rates = f"{RATE_TITLE} {_number(row['requests_per_s'], 1)}"
    if throughput:  # 0.3.9 does not store the size of what was read
        rates += f"  Throughput: {_number(row['moved_bytes_per_s'], 2, 1e6, ' MB/s')}"
    count = count_text(row)
    yield from (f"{_INDENT}{line}" for line in ([count, rates] if most else [f"{count}  {rates}"]))
    if row.get("items"):
        yield f"{_INDENT}{items_text(row)}"


def count_text(row: Row) -> str:
    """Successes, failures and retries of an operation."""
    retried = row["retry_percent"]
    retried_text = "   N/A" if retried is None else f"{retried:5.2f}%"
    return (
        f"Count: {row['count']:5} ({row['errors']:5} error; {row['retries']:5} retries: "
        f"{retried_text})"
    )


def items_text(row: Row) -> str:
    """Entries listed and objects handled by an operation."""
    return f"Items: {row['items']}  Average items per second: {_number(row['items_per_s'], 1)}"


def percentile_name(percent: float) -> str:
    return "max" if percent == 100 else f"{percent_text(percent)}%"


def _number(value: float | None, digits: int, divisor: float = 1, unit: str = "") -> str:
    return "N/A" if value is None else f"{value / divisor:.{digits}f}{unit}"


_STAGE_HEADINGS = (
    "#", "Seconds", "Users", "Rate/s", "Count", "Errors", "Ops/s", "MB/s", "p50", "p99", "max",
)  # fmt: skip


def _stages(report: Report, most: int | None) -> Iterator[str]:
    """A line for each stage of the load, where there is more than one."""
    (table,) = report["stages"].tables
    if len(table.rows) < 2:
        return
    yield table.title
    lines: list[Sequence[str]] = [_STAGE_HEADINGS]
    for number, row in enumerate(table.rows, 1):
        latencies = (row["response_time"] or row["last_byte_latency"]).percentiles
        cells = (
            str(number),
            _number(row["rate_window_s"], 1),
            _users(row["users"], row),
            f"{row['rate_per_s']:g}" if row["rate_per_s"] else "-",
            str(row["count"]),
            str(row["errors"]),
            _number(row["requests_per_s"], 1),
            _number(row["moved_bytes_per_s"], 2, 1e6),
            *(latency_text(latencies[percent]) for percent in (50, 99, 100)),
        )
        lines.append(cells)
    yield from _aligned(lines, most)


def _padded(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def _aligned(lines: Sequence[Sequence[str]], most: int | None) -> Iterator[str]:
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
            yield _padded([cells[at] for at in part], [widths[at] for at in part]).rstrip()


def _users(asked: int | None, stage: Row) -> str:
    """``64``; ``4 of 64`` or ``2 to 4 of 64`` where fewer users ran than were asked for."""
    ran = [each["users"] for each in stage["users_by_time"]]
    if not ran or min(ran) >= stage["users"]:
        return _or_none(asked)
    least, most = min(ran), max(ran)
    return f"{least if least == most else f'{least} to {most}'} of {stage['users']}"


def _or_none(value: int | None) -> str:
    return "N/A" if value is None else str(value)


def _errors(title: str, errors: Table) -> Iterator[str]:
    if not errors.rows:
        return
    yield title
    yield f"       {'Count':>7}  {'Cause':20}Status  Example"
    for row in sorted(errors.rows, key=lambda row: -row["count"]):
        yield (
            f"       {row['count']:7}  {row['kind']:20}{row['status'] or '-'!s:6}  "
            f"{_example(row['example'])}"
        )


def _example(example: Row) -> str:
    text = printable(example["detail"]) or "no detail"
    identifier = printable(example["transaction_id"])
    return f"{example['operation']}: {text}{f'  {identifier}' if identifier else ''}"


def threshold_lines(report: Report) -> Iterator[str]:
    """A line for each threshold, under a heading; nothing where there is none."""
    rows = report["thresholds"].tables[0].rows
    if not rows:
        return
    names = [printable(row["threshold"]) for row in rows]
    width = max(map(len, names))
    yield "THRESHOLDS"
    for name, row in zip(names, rows, strict=True):
        yield f"  {'pass' if row['passed'] else 'FAIL'}  {name:<{width}}  {judged_text(row)}"


def judged_text(row: Row) -> str:
    """``12.4ms (response time)``, or why there is nothing."""
    if row["actual"] is None:
        return printable(row["why"])
    remarks = [row["latency"]] if row["latency"] else []
    if row["borderline"]:
        remarks.append("closer to the limit than the percentile's accuracy")
    text = _actual(Actual(row["actual"], row["limit"], row["unit"]))
    return f"{text} ({', '.join(remarks)})" if remarks else text


_LEAST_OF_UNIT = 0.001  #: of a threshold's unit, until a smaller one is easier to read


def _actual(actual: Actual) -> str:
    """``12.4ms``: six digits, or as many as put it on its side of the limit; in the limit's unit,
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
    for digits in range(6, 18):
        text = f"{value:.{digits}g}"
        if (float(text) > limit, float(text) < limit) == (value > limit, value < limit):
            break
    return (f"{Decimal(text):f}" if "e" in text else text) + unit


# What has no layout of its own


def _section(section: Section, most: int | None) -> Iterator[str]:
    if "text" not in section.formats:
        return
    if section.title:
        yield section.title
    yield from _notes(section.notes)
    for fact in section.facts:
        if "text" in fact.column.formats:
            column = fact.column
            yield f"{column.title or column.key}: {cell_text(fact.value, column, symbol=True)}"
    for table in section.tables:
        yield from _table(table.title, table.columns, table.rows, table.formats, most)
    for series in section.series:
        columns = (series.x, *series.y)
        yield from _table(series.title, columns, list(series.rows), series.formats, most)


def _table(
    title: str, columns: Sequence[Column], rows: Sequence[Row], formats: str, most: int | None
) -> Iterator[str]:
    """Headings with their units above aligned figures."""
    if "text" not in formats or not rows:
        return
    columns = [column for column in columns if "text" in column.formats]
    lines = [[heading(column) for column in columns]]
    lines += [[cell_text(row[column.key], column) for column in columns] for row in rows]
    if columns[-1].unit is WORD:  # text, at the end: aligned on the left, of any width
        longest = max(len(cells[-1]) for cells in lines)
        lines = [[*cells[:-1], cells[-1].ljust(longest)] for cells in lines]
        most = None
    if title:
        yield title
    yield from _aligned(lines, most)


def heading(column: Column) -> str:
    name = column.title or column.key
    return f"{name} ({column.unit.symbol})" if column.unit.symbol else name


def cell_text(value: Any, column: Column, *, symbol: bool = False) -> str:
    """A value in its column's unit; N/A for None."""
    unit = column.unit
    if value is None:
        return "N/A"
    if isinstance(value, Actual):
        return _actual(value)
    if isinstance(value, Distribution):
        return ", ".join(
            f"{percentile_name(percent)} {latency_text(each)}"
            for percent, each in value.percentiles.items()
        )
    if isinstance(value, bool):
        return "yes" if value else "no"
    if unit is WALL_CLOCK:
        return time_text(value)
    if isinstance(value, int | float) and (unit.digits or unit.divisor != 1):
        scaled = value / unit.divisor
        # A latency is a number of nanoseconds: 0.000341 ms rather than 0.000.
        digits = 6 if unit is LATENCY and 0 < scaled < 0.1 else unit.digits
        text = f"{scaled:.{digits}f}"
    else:
        text = printable(str(value))
    return f"{text} {unit.symbol}" if symbol and unit.symbol else text


def _notes(notes: Sequence[Note] | None) -> Iterator[str]:
    for note in notes or ():
        if "text" in note.formats:
            yield f"{note.level.value}{note.sentence}"


# A series

_STEP_WIDTHS = {"users": 8, "rate": 8, "seconds": 9, "operations": 9, "errors": 7,
                "operations_per_s": 9, "bytes_per_s": 8}  # fmt: skip
_LATENCY_WIDTH = 9
_LEAST_WIDTH = 8  #: of a threshold's value
_ONLY_WIDE = ("seconds",)  #: the same for most steps


def _series(report: Report, most: int | None) -> str:
    top = report[""]
    table = top["steps"]
    others = [list(_section(each, most)) for each in report.sections if each.title and each.key]
    remarks = list(_notes([note for note in top.notes or () if note.level.value]))
    found = list(_notes([note for note in top.notes or () if not note.level.value]))
    blocks = ["\n".join(["", *part, ""]) for part in (*others, remarks, found) if part]
    rows = (_step(table, row, most) for row in table.rows)
    return "".join([series_head(report, most), *rows, *blocks])


def series_head(report: Report, most: int | None = COLUMNS) -> str:
    """What stands above the rows of a series."""
    top = report[""]
    lines = ["", top.title]
    if top["thresholds"]:
        lines.append(f"Thresholds: {' and '.join(map(printable, top['thresholds']))}")
    shown, _rest = _step_columns(top["steps"], most)
    headings = "".join(f"{printable(column.title):>{width}}" for column, width in shown)
    return "\n".join([*lines, headings]) + "\n"


def series_row(report: Report, most: int | None = COLUMNS) -> str:
    """The row of a series' newest step."""
    table = report[""]["steps"]
    return _step(table, table.rows[-1], most)


def _step_columns(table: Table, most: int | None) -> tuple[list[tuple[Column, int]], list[Column]]:
    """The columns but the remarks, with their widths; and those that do not fit."""
    shown, rest, used = list[tuple[Column, int]](), list[Column](), 0
    for column in table.columns:
        if "text" not in column.formats or column.key == "remarks":
            continue
        if most and column.key in _ONLY_WIDE:
            continue
        least = _LATENCY_WIDTH if column.unit is LATENCY else _LEAST_WIDTH
        own = max(least, len(printable(column.title)) + 2)
        width = _STEP_WIDTHS.get(column.key) or own
        used += width
        if rest or (most and used > most):
            rest.append(column)
        else:
            shown.append((column, width))
    return shown, rest


def _step(table: Table, row: Row, most: int | None) -> str:
    """A line; what is left for people to read of it follows, on a line of its own if it must."""
    shown, rest = _step_columns(table, most)
    load = shown[0][0]
    cells = [cell_text(row[column.key], column) for column, _width in shown]
    for at, (column, width) in enumerate(shown):
        if column.unit is LATENCY and len(cells[at]) >= width:  # from 10 s on
            cells[at] = f"{row[column.key] / column.unit.divisor:.0f}"
    cells[0] = f"{row[load.key]:g}"
    if load.key == "users" and not row["counts"]:
        cells[0] = f"{row['users_ran']} of {cells[0]}"
    line = _padded(cells, [width for _column, width in shown])
    words = [f"{printable(column.title)} {cell_text(row[column.key], column)}" for column in rest]
    words += [printable(row["remarks"])] if row["remarks"] else []
    remark = "; ".join(words)
    if not remark:
        return f"{line}\n"
    fits = most is None or len(line) + 2 + len(remark) <= most
    return f"{line}  {remark}\n" if fits else f"{line}\n{'':{shown[0][1]}}  {remark}\n"


# A comparison

_MOST_SETTINGS = 20  #: that are named
_LONGEST_VALUE = 40
_WIDE = (-24, 14, 24, 14, 24, 10, 20)  #: widths of a figure's columns; negative: to the left
_NARROW = (-22, 12, 12, 9, 20)  #: the same without the intervals of the runs


def _comparison(report: Report, most: int | None) -> str:
    runs = report["runs"].tables[0].rows
    lines = [*_settings(report["differing_settings"].tables[0]), ""]
    for number, run in enumerate(runs, 1):
        lines += _run_of_comparison(number, run)
    lines += ["", *_notes(report["changes"].notes)]
    for other in range(1, len(runs)):
        for part in report.operations:
            lines += ["", *_changes(part, other, wide=most is None)]
    others = [section for section in report.sections if section.title]
    for section in (*others, report["remarks"], report["closing"]):
        found = list(_section(section, most))
        lines += ["", *found] if found else []
    return "\n".join(lines) + "\n"


def _settings(settings: Table) -> Iterator[str]:
    """Scenarios first: figures of different ones are hardly a comparison."""
    differ = "THE SCENARIOS DIFFER, which may explain differences in the figures:"
    if not any(row["of_scenario"] for row in settings.rows):
        yield "The scenarios are the same."
    for title, of_scenario in ((differ, True), ("Other differences:", False)):
        rows = [row for row in settings.rows if row["of_scenario"] == of_scenario]
        if rows:
            yield title
        for row in rows[:_MOST_SETTINGS]:
            texts = ["none" if value is None else printable(str(value)) for value in row["values"]]
            short = " | ".join(shortened(text, _LONGEST_VALUE) for text in texts)
            yield f"  {printable(row['key'])}: {short}"
        if len(rows) > _MOST_SETTINGS:
            yield f"  and {len(rows) - _MOST_SETTINGS} more (--json has all)"


def _run_of_comparison(number: int, run: Row) -> Iterator[str]:
    duration_s = run["duration_s"]
    duration = "N/A" if duration_s is None else f"{duration_s:.0f} s"
    compared = f"{plural(run['whole_seconds'], 'whole second')} compared"
    if run["short"]:
        compared = "too short for intervals: its figures cover the whole run"
    yield f"Run {number}: {printable(run['file'])}"
    yield (
        f"  {printable(run['scenario_name'])}, {time_text(run['started_at_s'])}, "
        f"{duration}, {compared}"
    )
    yield from (f"  {line}" for line in _notes(run["notes"]))


def _changes(part: Row, other: int, *, wide: bool) -> Iterator[str]:
    """The figures of an operation: of the first run, of another, and the change."""
    from ssbench.core.stats.compare import CONFIDENCE, ChangeVerdict  # runs need none of it

    sure = f"{CONFIDENCE:.0%} interval"
    own = [sure] if wide else []
    yield _columns(part["operation"], "Run 1", *own, f"Run {other + 1}", *own, "Change", sure)
    for row in part["figures"].rows:
        if row["figure"] == "moved_bytes_per_s" and not any(each.value for each in row["runs"]):
            continue  # nothing was moved
        cells = []
        for found in (row["runs"][0], row["runs"][other]):
            value, low, high = (
                "N/A" if each is None else f"{each / found.unit.divisor:,.{found.unit.digits}f}"
                for each in (found.value, found.low, found.high)
            )
            cells += [value, _between(low, high)] if wide else [value]
        change = row["changes_against_first"][other - 1]
        ratio, low, high = (change_text(change[key]) for key in ("ratio", "low", "high"))
        verdict = ChangeVerdict[change["verdict"].upper()].value
        yield _columns(row["title"], *cells, ratio, _between(low, high), verdict)
    first, second = (f"{part['errors'][at]} of {part['operations'][at]}" for at in (0, other))
    blank = [""] if wide else []
    yield _columns("Errors", first, *blank, second, *blank, "", "")


def _columns(*cells: str) -> str:
    """A title to the left, figures to the right, and a verdict."""
    widths = _WIDE if len(cells) >= len(_WIDE) else _NARROW
    padded = [
        f"{cell:<{-width}}" if width < 0 else f"{cell:>{width}}"
        for cell, width in zip(cells, widths, strict=False)
    ]
    return "".join([*padded, *(f"  {word}" for word in cells[len(padded) :])]).rstrip()


def _between(low: str, high: str) -> str:
    return "" if "N/A" in (low, high) else f"{low} to {high}"
