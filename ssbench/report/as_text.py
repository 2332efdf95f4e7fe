"""Reports for people: the layout of ssbench 0.3.9, and more lines where there is more to say.

A section with a title needs no layout here: a run's follow what is said of the load generator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ssbench.core.stats.compare import CONFIDENCE, ChangeVerdict
from ssbench.core.stats.scenario_view import other_operations
from ssbench.core.text import bytes_text, plural, printable
from ssbench.report.comparison import MANY_TIMES
from ssbench.report.model import (
    WALL_CLOCK,
    WORD,
    Actual,
    Column,
    Distribution,
    Interval,
    Note,
    Report,
    Row,
    Section,
    Table,
    percent_text,
    time_text,
)


def render_text(report: Report) -> str:
    """The report for people, ending with a newline."""
    return {"run": _run, "series": _series, "comparison": _comparison}[report.kind](report)


# A run

_RULE = "-" * 69
_RATE = "Average requests per second:"


def _run(report: Report) -> str:
    lines = ["", *_header(report), "", *_scenario_table(report)]
    for row in (
        {"operation": "TOTAL", **report["total"].row},
        *report["operations"].tables[0].rows,
    ):
        lines += ["", row["operation"], *_block(report, row)]
    populate, cleanup = report["phase_errors"].tables
    others = [section for section in report.sections if section.title]
    for part in (
        _stages(report),
        _errors("POPULATE ERRORS", populate),
        _errors("ERRORS", report["errors"].tables[0]),
        _errors("CLEAN-UP ERRORS", cleanup),
        _section(report["counters"]),
        _workers(report["workers"]),
        [*_notes(report["steadiness"].notes), *_notes(report["notes"].notes)],
        _notes(report["load_generator"].notes),
        *map(_section, others),
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
        yield (
            f"{100 * size['share']:3.0f}%   %{_profile(size['crud'], size['profile'], others)}"
            f"      {_size_range(size)}  {printable(size['name'])}"
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


def _size_range(size: Row) -> str:
    """``  4 kB -   8 kB``, or one size, both 15 wide."""
    low, high = _size(size["size_min"]), _size(size["size_max"])
    return f"{low if low == high else f'{low} - {high}':15}"


def _size(count: int | None) -> str:
    if count is None:
        return "   N/A"
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count / unit >= 0.9995:
            return f"{count / unit:3.0f} {name}"
    return f"{count:3}  B"


def _block(report: Report, row: Row) -> Iterator[str]:
    """The figures of an operation."""
    yield _count_line(row, throughput=not report.legacy)
    percent = report.percentile
    column = f"{percent_text(percent)}%-ile"
    yield f"{'':28}min       max      avg      std_dev  {column:26}Worst latency TX ID"
    parts = [(row, "all obj sizes")]
    for of_class in row["size_classes"].rows:
        parts.append((of_class, f"{printable(of_class['size_class']):>8} objs"))
    for part, label in parts:
        first, last = part["first_byte_latency"], part["last_byte_latency"]
        yield _latency_line("First-byte latency", first, percent, label)
        yield _latency_line("Last-byte  latency", last, percent, label)
    if row.get("items"):
        rate = _number(row["items_per_s"], 1)
        yield f"       Items: {row['items']}  Average items per second: {rate}"
    service, response = row["last_byte_latency"], row["response_time"]
    title = "Service time (from start)" if response else "Last-byte"
    for name, found in ((title, service), ("Response time (from due)", response)):
        if found and found.count:
            yield f"       {name} percentiles: {_percentiles(found)}"


def _count_line(row: Row, *, throughput: bool) -> str:
    rate, retried = row["requests_per_s"], row["retry_percent"]
    rate_text = "  N/A" if rate is None else f"{rate:5.1f}"
    retried_text = "   N/A" if retried is None else f"{retried:5.2f}%"
    line = (
        f"       Count: {row['count']:5} ({row['errors']:5} error; {row['retries']:5} retries: "
        f"{retried_text})  {_RATE} {rate_text}"
    )
    if not throughput:  # 0.3.9 does not store the size of what was read
        return line
    return f"{line}  Throughput: {_number(row['moved_bytes_per_s'], 2, 1e6, ' MB/s')}"


def _latency_line(title: str, found: Distribution, percent: float, label: str) -> str:
    worst = "" if found.worst_id is None else printable(found.worst_id) or "None"
    return (
        f"       {title}: {_seconds(found.min, 6)} - {_seconds(found.max, 7)}  "
        f"{_seconds(found.mean, 7)}  ({_seconds(found.std_dev, 7)})  "
        f"{_seconds(found.percentiles[percent], 7)}  ({label})  {worst}"
    )


def _seconds(value_ns: float | None, width: int) -> str:
    """Seconds with three decimals, or a centred N/A as ssbench has always shown it."""
    if value_ns is None:
        return "  N/A  "[7 - width :]
    return f"{value_ns / 1e9:{width}.3f}"


def _percentiles(found: Distribution) -> str:
    return ", ".join(
        f"{'max' if percent == 100 else f'{percent_text(percent)}%'} {_milliseconds(value)}"
        for percent, value in found.percentiles.items()
    )


def _milliseconds(value_ns: float | None) -> str:
    return _number(value_ns, 3, 1e6, " ms")


def _number(value: float | None, digits: int, divisor: float = 1, unit: str = "") -> str:
    return "N/A" if value is None else f"{value / divisor:.{digits}f}{unit}"


_STAGE_HEADINGS = (
    "#", "Seconds", "Users", "Rate/s", "Count", "Errors", "Ops/s", "MB/s", "p50", "p99", "max",
)  # fmt: skip
_STAGE_WIDTHS = (3, 9, 9, 9, 10, 8, 11, 10, 15, 15, 15)


def _stages(report: Report) -> Iterator[str]:
    """A line for each stage of the load, where there is more than one."""
    (table,) = report["stages"].tables
    if len(table.rows) < 2:
        return
    yield table.title
    yield _padded(_STAGE_HEADINGS, _STAGE_WIDTHS)
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
            *(_milliseconds(latencies[percent]) for percent in (50, 99, 100)),
        )
        yield _padded(cells, _STAGE_WIDTHS)


def _padded(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


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


def _workers(workers: Section) -> Iterator[str]:
    least, most = workers["requests_min"], workers["requests_max"]
    if least is not None:
        yield (
            f"Distribution of requests per worker-ID: {least:7.3f} - {most:7.3f} "
            f"(avg: {workers['requests_mean']:7.3f}; stddev: {workers['requests_std_dev']:7.3f})"
        )


def threshold_lines(report: Report) -> Iterator[str]:
    """A line for each threshold, under a heading; nothing where there is none."""
    rows = report["thresholds"].tables[0].rows
    if not rows:
        return
    names = [printable(row["threshold"]) for row in rows]
    width = max(map(len, names))
    yield "THRESHOLDS"
    for name, row in zip(names, rows, strict=True):
        yield f"  {'pass' if row['passed'] else 'FAIL'}  {name:<{width}}  {_judged(row)}"


def _judged(row: Row) -> str:
    """``12.4ms (response time)``, or why there is nothing."""
    if row["actual"] is None:
        return printable(row["why"])
    remarks = [row["latency"]] if row["latency"] else []
    if row["borderline"]:
        remarks.append("closer to the limit than the percentile's accuracy")
    text = _actual(Actual(row["actual"], row["limit"], row["unit"]))
    return f"{text} ({', '.join(remarks)})" if remarks else text


def _actual(actual: Actual) -> str:
    """``12.4ms``: six digits, or as many as put it on its side of the limit."""
    value, limit = actual.value, actual.limit
    if value is None:
        return "N/A"
    for digits in range(6, 18):
        text = f"{value:.{digits}g}"
        if (float(text) > limit, float(text) < limit) == (value > limit, value < limit):
            break
    text = f"{float(text):f}".rstrip("0").rstrip(".") if "e+" in text else text
    return text + actual.unit


# What has no layout of its own


def _section(section: Section) -> Iterator[str]:
    if "text" not in section.formats:
        return
    if section.title:
        yield section.title
    yield from _notes(section.notes)
    for fact in section.facts:
        if "text" in fact.column.formats:
            column = fact.column
            yield f"{column.title or column.key}: {_cell(fact.value, column, symbol=True)}"
    for table in section.tables:
        yield from _table(table.title, table.columns, table.rows, table.formats)
    for series in section.series:
        columns = (series.x, *series.y)
        yield from _table(series.title, columns, list(series.rows), series.formats)


def _table(
    title: str, columns: Sequence[Column], rows: Sequence[Row], formats: str
) -> Iterator[str]:
    """Headings with their units above aligned figures."""
    if "text" not in formats or not rows:
        return
    columns = [column for column in columns if "text" in column.formats]
    lines = [[_heading(column) for column in columns]]
    lines += [[_cell(row[column.key], column) for column in columns] for row in rows]
    widths = [max(map(len, cells)) + 2 for cells in zip(*lines, strict=True)]
    if columns[-1].unit is WORD:  # text, at the end: aligned on the left
        lines = [[*cells[:-1], f"  {cells[-1]}"] for cells in lines]
        widths[-1] = 0
    if title:
        yield title
    yield from (_padded(cells, widths) for cells in lines)


def _heading(column: Column) -> str:
    name = column.title or column.key
    return f"{name} ({column.unit.symbol})" if column.unit.symbol else name


def _cell(value: Any, column: Column, *, symbol: bool = False) -> str:
    """A value in its column's unit; N/A for None."""
    unit = column.unit
    if value is None:
        return "N/A"
    if isinstance(value, Actual):
        return _actual(value)
    if isinstance(value, Distribution):
        return _percentiles(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if unit is WALL_CLOCK:
        return time_text(value)
    if isinstance(value, int | float) and (unit.digits or unit.divisor != 1):
        text = f"{value / unit.divisor:.{unit.digits}f}"
    else:
        text = printable(str(value))
    return f"{text} {unit.symbol}" if symbol and unit.symbol else text


def _notes(notes: Sequence[Note] | None) -> Iterator[str]:
    for note in notes or ():
        if "text" in note.formats:
            yield f"{note.level.value}{note.sentence}"


# A series

_STEP_WIDTHS = {"users": 12, "rate": 9, "seconds": 9, "operations": 11, "errors": 8,
                "operations_per_s": 11, "bytes_per_s": 10}  # fmt: skip
_LATENCY_WIDTH = 12  #: also of a threshold's value, or as wide as its name


def _series(report: Report) -> str:
    top = report[""]
    table = top["steps"]
    others = [list(_section(section)) for section in report.sections[1:]]
    remarks = list(_notes([note for note in top.notes or () if note.level.value]))
    found = list(_notes([note for note in top.notes or () if not note.level.value]))
    blocks = ["\n".join(["", *part, ""]) for part in (*others, remarks, found) if part]
    return "".join([series_head(report), *(_step(table, row) for row in table.rows), *blocks])


def series_head(report: Report) -> str:
    """What stands above the rows of a series."""
    top = report[""]
    lines = ["", top.title]
    if top["thresholds"]:
        lines.append(f"Thresholds: {' and '.join(map(printable, top['thresholds']))}")
    headings = "".join(f"{name:>{width}}" for name, width in _step_columns(top["steps"]))
    return "\n".join([*lines, headings]) + "\n"


def series_row(report: Report) -> str:
    """The row of a series' newest step."""
    table = report[""]["steps"]
    return _step(table, table.rows[-1])


def _step_columns(table: Table) -> list[tuple[str, int]]:
    """Headings and widths of all columns but the remarks."""
    columns = [c for c in table.columns if "text" in c.formats and c.key != "remarks"]
    names = [printable(column.title) for column in columns]
    return [
        (name, _STEP_WIDTHS.get(column.key) or max(_LATENCY_WIDTH, len(name) + 2))
        for name, column in zip(names, columns, strict=True)
    ]


def _step(table: Table, row: Row) -> str:
    load, *columns = [c for c in table.columns if "text" in c.formats and c.key != "remarks"]
    load_text = f"{row[load.key]:g}"
    if load.key == "users" and not row["counts"]:
        load_text = f"{row['users_ran']} of {load_text}"
    cells = [load_text, *(_cell(row[column.key], column) for column in columns)]
    widths = [width for _name, width in _step_columns(table)]
    return f"{_padded(cells, widths)}  {printable(row['remarks'])}".rstrip() + "\n"


# A comparison

_MOST_SETTINGS = 20  #: that are named
_LONGEST_VALUE = 40
_VERDICTS = {verdict.name.lower(): verdict.value for verdict in ChangeVerdict}
_COMPARISON_WIDTHS = (-24, 14, 24, 14, 24, 10, 20)


def _comparison(report: Report) -> str:
    runs = report["runs"].tables[0].rows
    lines = [*_settings(report["differing_settings"].tables[0]), ""]
    for number, run in enumerate(runs, 1):
        lines += _run_of_comparison(number, run)
    lines += ["", *_notes(report["summary"].notes)]
    total = report["total"].row
    parts = [{"operation": "TOTAL", **total}] if total else []
    for other in range(1, len(runs)):
        for part in (*parts, *report["operations"].tables[0].rows):
            lines += ["", *_changes(part, other)]
    others = [section for section in report.sections if section.title]
    for section in (*others, report["remarks"], report["closing"]):
        found = list(_section(section))
        lines += ["", *found] if found else []
    return "\n".join(lines) + "\n"


def _settings(settings: Table) -> Iterator[str]:
    """Scenarios first: figures of different ones are hardly a comparison."""
    scenario = [row for row in settings.rows if row["of_scenario"]]
    others = [row for row in settings.rows if not row["of_scenario"]]
    if scenario:
        yield "THE SCENARIOS DIFFER, which may explain differences in the figures:"
        yield from _differing(scenario)
    else:
        yield "The scenarios are the same."
    if others:
        yield "Other differences:"
        yield from _differing(others)


def _differing(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows[:_MOST_SETTINGS]:
        yield f"  {printable(row['key'])}: {' | '.join(map(_setting, row['values']))}"
    if len(rows) > _MOST_SETTINGS:
        yield f"  and {len(rows) - _MOST_SETTINGS} more (--json has all)"


def _setting(value: object) -> str:
    text = "none" if value is None else printable(str(value))
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."


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


def _changes(part: Row, other: int) -> Iterator[str]:
    """The figures of an operation: of the first run, of another, and the change."""
    sure = f"{CONFIDENCE:.0%} interval"
    yield _columns(part["operation"], "Run 1", sure, f"Run {other + 1}", sure, "Change", sure)
    for row in part["figures"].rows:
        if row["figure"] == "moved_bytes_per_s" and not any(each.value for each in row["runs"]):
            continue  # nothing was moved
        change = row["changes_against_first"][other - 1]
        yield _columns(
            row["title"],
            *_interval(row["runs"][0]),
            *_interval(row["runs"][other]),
            _change(change["ratio"]),
            _between(_change(change["low"]), _change(change["high"])),
            _VERDICTS[change["verdict"]],
        )
    failed, done = part["errors"], part["operations"]
    first, second = (f"{failed[at]} of {done[at]}" for at in (0, other))
    yield _columns("Errors", first, "", second)


def _columns(*cells: str) -> str:
    """A title to the left, figures to the right, and a last word."""
    padded = [
        f"{cell:<{-width}}" if width < 0 else f"{cell:>{width}}"
        for cell, width in zip(cells, _COMPARISON_WIDTHS, strict=False)
    ]
    return "".join([*padded, *(f"  {word}" for word in cells[len(padded) :])]).rstrip()


def _interval(found: Interval) -> tuple[str, str]:
    """The estimate; and the interval, "" where there is none."""
    unit = found.unit
    value, low, high = (
        "N/A" if each is None else f"{each / unit.divisor:,.{unit.digits}f}"
        for each in (found.value, found.low, found.high)
    )
    return value, _between(low, high)


def _between(low: str, high: str) -> str:
    return "" if "N/A" in (low, high) else f"{low} to {high}"


def _change(ratio: float | None) -> str:
    if ratio is None:
        return "N/A"
    return f"{ratio - 1:+.1%}" if ratio < MANY_TIMES else f"x {ratio:,.1f}"
