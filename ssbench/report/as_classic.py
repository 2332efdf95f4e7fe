"""A run as text, in the layout of ssbench 0.3.9: with units, or in its exact form (``--classic``).

A section with a title needs no layout here: a run's follow what is said of the load generator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import dropwhile
from math import sqrt
from typing import Any

from msgspec import structs

from ssbench.core.model import SECOND_NS
from ssbench.core.operations import CRUD
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.text import bytes_text, plural, printable, shortened
from ssbench.report.figures import columns_of, cut, source_tables
from ssbench.report.model import (
    ITEM_RATE,
    LATENCY,
    PAGE_RATE,
    RATE,
    SECONDS,
    THROUGHPUT,
    WORD,
    Column,
    Distribution,
    Report,
    Row,
    Section,
    Table,
    judged_latency,
    latency_text,
    percent_text,
    percentile_row,
    time_text,
)
from ssbench.report.tables import (
    COLUMNS,
    aligned,
    cell_text,
    judged_text,
    narrow_lines,
    note_lines,
    percentile_name,
    plain_number,
    section_lines,
    store_lines,
    titled,
    verified_text,
)

RATE_TITLE = "Average requests per second:"
_RULE = "-" * 69


def run_text(report: Report, most: int | None, *, classic: bool = False) -> str:
    """A run but for its summary, ending with a newline.

    :param most: columns of a table; None: as many as it takes.
    :param classic: exactly 0.3.9's form of what 0.3.9 had: all figures in seconds, no severity
        in front of the lines about the load generator, no line on percentiles of few operations.
    """
    block = _classic_figures if classic else _figures
    generator = report["load_generator"].notes or ()
    lines = ["", *_header(report), "", *_scenario_table(report)]
    for row in report.operations if classic else report.shown_operations:
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
        *([] if classic else _sources(report, most)),
        _errors("POPULATE ERRORS", populate),
        _errors("ERRORS", report["errors"].tables[0]),
        _errors("CLEAN-UP ERRORS", cleanup),
        [] if classic else note_lines(report["legend"].notes),
        section_lines(report["counters"], most),
        [spread] if spread else [],
        [*note_lines(report["steadiness"].notes), *note_lines(report["notes"].notes)],
        [n.sentence for n in generator if "text" in n.formats]
        if classic
        else note_lines(generator),
        *(section_lines(section, most) for section in others),
        note_lines(report["warnings"].notes),
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
    yield from (note.sentence for note in report["ending"].notes or ())  # in capitals


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
    yield from store_lines(report["store"])
    if run["overrides"]:
        given = (f"{key}={value}" for key, value in run["overrides"].items())
        yield "Overridden on the command line: " + printable(", ".join(given))
    yield from note_lines(settings.notes)
    verified = report["verified"]
    if verified["reads"] is not None:
        yield f"Verified: {verified_text(verified)}"
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
    average = run["operations_weighted_average"] or {}
    others = [name for name in average if name not in {row.name for row in CRUD}]
    named = "".join(f" {printable(name)}" for name in others)
    yield f"% Ops    C   R   U   D{named}       Size Range       Size Name"
    for size in run["sizes"].rows:
        low, high = _size(size["size_min"]), _size(size["size_max"])
        yield (
            f"{100 * size['share']:3.0f}%   %{_profile(size['crud'], size['profile'], others)}"
            f"      {low if low == high else f'{low} - {high}':15}  {printable(size['name'])}"
        )
    yield _RULE
    mean = _profile(run["crud_weighted_average"], run["operations_weighted_average"], others)
    yield f"        {mean}      CRUD weighted average"


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


def _figures(report: Report, row: Row, most: int | None) -> Iterator[str]:
    """The figures of an operation."""
    percent = report.percentile
    yield from _counts(row, most, throughput=not report.legacy)
    column = f"{percent_text(percent)}%-ile"
    headings = "".join(f"{name:>11}" for name in ("min", "max", "avg", "std_dev", f" {column:>11}"))
    narrow = bool(most and most < COLUMNS)
    blank = f"  {'':22}" if narrow else f"{_INDENT}{'':19}"
    yield f"{blank}{headings}" + ("" if most else f"{'':19}Worst latency TX ID")
    parts = [(row, "all obj sizes")]
    for of_class in row["size_classes"].rows:
        parts.append((of_class, f"{printable(of_class['size_class']):>8} objs"))
    for part, label in parts:
        for key, title in _TITLES.items():
            found: Distribution = part[key]
            if key == "first_byte_latency" and not row["receives"]:
                continue  # a response without a body has no first byte
            figures = (latency_text(getattr(found, name)) for name in _STATISTICS)
            percentile = latency_text(found.percentiles[percent])  # which may have a mark
            cells = "".join([*(f"{figure:>11}" for figure in figures), f"{percentile:>12}"])
            if narrow:  # the class stands in front
                of = "all sizes" if part is row else printable(part["size_class"])
                what = f"{title.partition(' ')[0]}, {of}"
                yield f"  {shortened(what, 22):22}{cells}"
                continue
            worst = "" if most else f"  {printable(found.worst_id or '')}"
            yield f"{_INDENT}{title}:{cells}  ({label}){worst}".rstrip()
    shown, service = dict(_percentile_lines(row)), row["last_byte_latency"]
    if shown:
        longest = max(map(len, shown))
        lines = [["".ljust(longest), *map(percentile_name, service.percentiles)]]
        for title, found in shown.items():
            values = [f"{latency_text(value):>9}" for value in found.percentiles.values()]
            lines.append([title.ljust(longest), *values])
        yield from (f"{_INDENT[2:]}{line}" for line in aligned(lines, most and most - 5))
    if most and service.worst_id:
        yield f"{_INDENT}Worst latency TX ID: {printable(service.worst_id)}"


def _percentile_lines(row: Row) -> Iterator[tuple[str, Distribution]]:
    """The latencies of which all percentiles are shown, by their titles."""
    service, response = row["last_byte_latency"], row["response_time"]
    if service.count:
        title = "Service time (from start)" if response else "Last-byte"
        yield f"{title} percentiles:", service
    if response:
        yield "Response time (from due) percentiles:", response


def _counts(row: Row, most: int | None, *, throughput: bool) -> Iterator[str]:
    """What succeeded and failed, and the rates; in one line where any width will do."""
    rates = f"{RATE_TITLE} {plain_number(row['requests_per_s'], RATE)}"
    if throughput:  # 0.3.9 does not store the size of what was read
        rates += f"  Throughput: {_megabytes(row['moved_bytes_per_s'])}"
    count = count_text(row)
    yield from (f"{_INDENT}{line}" for line in ([count, rates] if most else [f"{count}  {rates}"]))
    yield from _more_counts(row)
    for column in titled(columns_of("operations"), [row]):
        if column.key not in _IN_LINES:
            value = cell_text(row[column.key], column, symbol=True)
            yield f"{_INDENT}{column.title}: {value}"


#: Figures that the lines above and below have.
_IN_LINES = {
    "count", "errors", "retries", "requests_per_s", "moved_bytes_per_s", "lost_races", "items",
    "items_per_s", "pages", "pages_per_s",
}  # fmt: skip


def _more_counts(row: Row) -> Iterator[str]:
    """Of operations that 0.3.9 did not have."""
    if row.get("items") or row.get("pages"):
        yield f"{_INDENT}{items_text(row)}"
    if row.get("lost_races"):
        yield f"{_INDENT}{races_text(row)}"


def _megabytes(per_s: float | None) -> str:
    return "N/A" if per_s is None else f"{plain_number(per_s, THROUGHPUT)} MB/s"


def count_text(row: Row) -> str:
    """Successes, failures and retries of an operation."""
    retried = row["retry_percent"]
    retried_text = "   N/A" if retried is None else f"{retried:5.2f}%"
    return (
        f"Count: {row['count']:5} ({row['errors']:5} error; {row['retries']:5} retries: "
        f"{retried_text})"
    )


def races_text(row: Row) -> str:
    """Conditional writes that were refused."""
    return f"Lost races: {row['lost_races']} ({row['lost_race_percent']:.2f}%), which are no errors"


def items_text(row: Row) -> str:
    """Entries listed and objects handled by an operation."""
    rate = plain_number(row["items_per_s"], ITEM_RATE)
    text = f"Items: {row['items']}  Average items per second: {rate}"
    if row.get("pages"):
        rate = plain_number(row["pages_per_s"], PAGE_RATE)
        text += f"  Pages: {row['pages']}  Average pages per second: {rate}"
    return text


_NAME_WIDTH = 16  #: of a stage
_OF_STAGE = (
    Column("name", WORD, "Stage"),
    Column("rate_window_s", SECONDS, "Seconds"),
    Column("users", WORD, "Users"),
    Column("rate", WORD, "Rate/s"),
)


def _stages(report: Report, most: int | None) -> Iterator[str]:
    """A line for each stage of the load, where there is more than one."""
    (table,) = report["stages"].tables
    if len(table.rows) < 2:
        return
    yield table.title
    rows = []
    for number, row in enumerate(table.rows, 1):
        rows.append({
            **row,
            "name": shortened(printable(row["name"]), _NAME_WIDTH) or str(number),
            "users": _users(row["users"], row),
            "rate": _rate(row),
            **percentile_row("service", judged_latency(row).percentiles),
        })  # fmt: skip
    # The latencies are response times already, where the load had due times.
    figures = [
        column for column in columns_of("sources") if not (column.rare and column.unit is LATENCY)
    ]
    yield from narrow_lines([*_OF_STAGE, *figures], rows, most)


def _sources(report: Report, most: int | None) -> Iterator[list[str]]:
    """The figures of workers, endpoints and addresses, where there are several."""
    for table in source_tables(report):
        if "text" in table.formats:
            rows, more = cut(table.rows) if most else (table.rows, [])
            title = f"{table.title.upper()} (latencies: service time)"
            yield [title, *narrow_lines(table.columns, rows, most), *more]


def _users(asked: int | None, stage: Row) -> str:
    """``64``; ``4 of 64`` or ``2 to 4 of 64`` where fewer users ran than were asked for."""
    ran = [each["users"] for each in stage["users_by_time"]]
    if not stage["short_of_users"]:
        to = stage["users_to"]
        return _or_none(asked) if to is None else f"{stage['users']} to {to}"
    least, most = min(ran), max(ran)
    return f"{least if least == most else f'{least} to {most}'} of {stage['users']}"


def _rate(stage: Row) -> str:
    """Operations/s that fell due; marked where they were missed."""
    if not stage["rate_per_s"]:
        return "-"
    to = "" if stage["rate_to_per_s"] is None else f" to {stage['rate_to_per_s']:g}"
    return f"{stage['rate_per_s']:g}{to}{' missed' if stage.get('rate_missed') else ''}"


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


def _classic_figures(report: Report, row: Row, _most: int | None) -> Iterator[str]:
    """The figures of an operation, as in 0.3.9."""
    rate, moved = row["requests_per_s"], row["moved_bytes_per_s"]
    line = f"       {count_text(row)}  {RATE_TITLE} {'  N/A' if rate is None else f'{rate:5.1f}'}"
    if not report.legacy:  # 0.3.9 does not store the size of what was read
        line += f"  Throughput: {_megabytes(moved)}"
    yield line
    percent = report.percentile
    column = f"{percent_text(percent)}%-ile"
    yield f"{'':28}min       max      avg      std_dev  {column:26}Worst latency TX ID"
    parts = [(row, "all obj sizes")]
    for of_class in row["size_classes"].rows:
        parts.append((of_class, f"{printable(of_class['size_class']):>8} objs"))
    for part, label in parts:
        # Operations of 0.3.9 --noop took 0 s: no figure has them, but their id is shown.
        zeros = report.legacy and part["count"] and not part["last_byte_latency"].count
        for title, key in (("First-byte", "first_byte"), ("Last-byte ", "last_byte")):
            found: Distribution = part[f"{key}_latency"]
            # An empty id was Python's None.
            nothing = "None" if zeros or found.worst_id is not None else ""
            worst = printable(found.worst_id or "") or nothing
            yield f"{_latency_line(title, found, percent, label)}{worst}"
    yield from _more_counts(row)
    if report.legacy:
        return
    for title, found in _percentile_lines(row):
        shown = ", ".join(
            f"{percentile_name(each)} {'N/A' if value is None else f'{value / 1e6:.3f} ms'}"
            for each, value in found.percentiles.items()
        )
        yield f"       {title} {shown}"


def _latency_line(title: str, found: Distribution, percent: float, label: str) -> str:
    return (
        f"       {title} latency: {_seconds(found.min, 6)} - {_seconds(found.max, 7)}  "
        f"{_seconds(found.mean, 7)}  ({_seconds(found.std_dev, 7)})  "
        f"{_seconds(found.percentiles[percent], 7)}  ({label})  "
    )


def _seconds(value_ns: float | None, width: int) -> str:
    """Seconds with three decimals, or a centred N/A."""
    if value_ns is None:
        return "  N/A  "[7 - width :]
    return f"{value_ns / 1e9:{width}.3f}"


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


#: Remarks that the reports of ssbench 0.3.9 did not make.
_LATER_NOTES = ("no_store", "last_start", "closed_loop")


def as_0_3_9(report: Report, stats: RunStats) -> Report:
    """A report on a file of ssbench 0.3.9, with its figures, and without what it did not say: how
    the load was made, that a run is short, and whether the load generator was the limit (it
    recorded no metrics)."""
    figures = dict(_figures_of_0_3_9(report, stats))
    sections = []
    for section in report.sections:
        facts = [
            structs.replace(fact, value=figures.get(fact.column.key, fact.value))
            for fact in section.facts
        ]
        notes = section.notes
        if section.key == "settings":
            notes = []
        elif section.key == "notes":
            notes = [each for each in notes or () if each.figures["note"] not in _LATER_NOTES]
        elif section.key == "steadiness":
            short = [n.sentence for n in notes or () if n.figures.get("finding") == "too_short"]
            notes = [n for n in notes or () if "json" in n.formats or n.sentence not in short]
        elif section.key == "load_generator":
            notes = [structs.replace(each, formats="json") for each in notes or ()]
        elif section.key.startswith("by_"):
            tables = [structs.replace(each, formats="json") for each in section.tables]
            section = structs.replace(section, tables=tables, formats="json")
        sections.append(structs.replace(section, facts=facts, notes=notes))
    return structs.replace(report, sections=sections, legacy=True)


def _figures_of_0_3_9(report: Report, stats: RunStats) -> Iterator[tuple[str, Any]]:
    """The values that it computed in its own way, by the keys of their facts."""
    header, last_ns = stats.run.header, stats.total().last_end_ns
    if header is not None:
        # From the whole second of the first completion less its latency, which ``statfile.legacy``
        # puts into the header, to the whole second of the last.
        ended_s = stats.ended_s if last_ns is None else float(last_ns // SECOND_NS)
        yield "started_at_s", header.started_at
        yield "ended_at_s", ended_s
        yield "duration_s", None if ended_s is None else ended_s - header.started_at
    # Seconds count from the first success.
    yield "completions_per_s", [*dropwhile(lambda count: not count, stats.completions())]
    counts = report["workers"]["requests_by_worker_id"].values()
    if counts:
        # Python 2 rounds integer divisions down: 5000 requests of 3 workers had an average of
        # 1666.000, and the deviation was computed around that.
        mean = float(sum(counts) // len(counts))
        yield "requests_mean", mean
        yield "requests_std_dev", sqrt(sum((count - mean) ** 2 for count in counts) / len(counts))
