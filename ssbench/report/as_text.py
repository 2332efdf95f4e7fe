"""Reports for people, as text and as Markdown (of GitHub and GitLab, for issues, wikis and chats).

A series is a line for each step, which appears when the step is over; a comparison names the
settings that differ, then shows the figures of each run beside those of the first. A summary ends
each, but stands first in Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ssbench.core.sparse import SPARSE_MARK, Sparse
from ssbench.core.text import printable, shortened, wrapped
from ssbench.report.as_classic import run_text
from ssbench.report.model import (
    LATENCY,
    Column,
    Level,
    Report,
    Row,
    Table,
    shown_columns,
)
from ssbench.report.summary import TOPIC_WIDTH, WIDTH
from ssbench.report.tables import (
    COLUMNS,
    cell_text,
    compared_runs,
    compared_tables,
    facts_of,
    note_lines,
    notes_of,
    section_lines,
    shown,
    store_lines,
    tables_of,
    title_of,
    wrapped_lines,
)

_STEP_WIDTHS = {"users": 8, "rate": 8, "seconds": 9, "operations": 9, "errors": 7,
                "operations_per_s": 9, "bytes_per_s": 8}  # fmt: skip
_LATENCY_WIDTH = 9
_VALUE_WIDTHS = {"errors": 8}  #: of a threshold's value; else 12, as for 1,353.9 ms
_ONLY_WIDE = ("seconds",)  #: the same for most steps


_MOST_SETTINGS = 20  #: that are named
_LONGEST_VALUE = 40
_WIDE = (-24, 14, 24, 14, 24, 10, 20)  #: widths of a figure's columns; negative: to the left
_NARROW = (-22, 12, 12, 9, 20)  #: the same without the intervals of the runs


def render_text(report: Report, columns: int | None = None) -> str:
    """The report for people, ending with a newline; its tables fit 100 columns.

    :param columns: of the terminal that shows it, if it is one.
    """
    if columns is None:
        return _rendered(report, COLUMNS)
    return wrapped_lines(_rendered(report, min(columns, COLUMNS)), columns)


def render_wide(report: Report) -> str:
    """The same with a line for each row of a table, and with what only fits there."""
    return _rendered(report, None)


def render_classic(report: Report) -> str:
    """A run exactly as ssbench 0.3.9 printed it, and without a summary.

    0.3.9 had runs alone: a series or a comparison is as with --wide.
    """
    return run_text(report, None, classic=True) if report.kind == "run" else render_wide(report)


def _rendered(report: Report, most: int | None) -> str:
    """:param most: columns of a table; None: as many as it takes."""
    if report.kind == "series":
        text = series_text(report, most)
    elif report.kind == "comparison":
        text = comparison_text(report, most)
    else:
        text = run_text(report, most)
    return "\n".join([text, *summary_lines(report)]) + "\n"


def summary_lines(report: Report) -> Iterator[str]:
    """The report's last lines. What is too long for one goes on in the next; a path never does."""
    for row in report["summary"].tables[0].rows:
        topic, text = row["topic"], row["text"]
        if topic == "Results":
            yield text if TOPIC_WIDTH + len(text) > WIDTH else f"{topic:{TOPIC_WIDTH}}{text}"
            continue
        first, indent = f"{topic:{TOPIC_WIDTH}}", " " * TOPIC_WIDTH
        yield from wrapped(text, WIDTH, first, indent, broken=True)


def series_text(report: Report, most: int | None) -> str:
    """A series but for its summary, ending with a newline."""
    top = report[""]
    table = top["steps"]
    others = [
        list(section_lines(each, most)) for each in report.sections if each.title and each.key
    ]
    remarks = list(note_lines([note for note in top.notes or () if note.level.prefix]))
    found = list(note_lines([note for note in top.notes or () if not note.level.prefix]))
    blocks = ["\n".join(["", *part, ""]) for part in (*others, remarks, found) if part]
    rows = (_step(table, row, most) for row in table.rows)
    return "".join([series_head(report, most), *rows, *blocks])


def series_head(report: Report, most: int | None = COLUMNS) -> str:
    """What stands above the rows of a series."""
    top = report[""]
    lines = ["", top.title, *store_lines(report["store"])]
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
        if column.rare or (most and column.key in _ONLY_WIDE):
            continue
        least = _LATENCY_WIDTH if column.unit is LATENCY else _VALUE_WIDTHS.get(column.title, 12)
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
        if column.unit is LATENCY and len(cells[at]) >= width:  # from 10 s on, or marked
            value = row[column.key]
            scaled, mark = value / column.unit.divisor, SPARSE_MARK * isinstance(value, Sparse)
            cells[at] = f"{mark}{scaled:,.{0 if scaled >= 1 else 5}f}"
    cells[0] = f"{row[load.key]:g}"
    if load.key == "users" and not row["counts"]:
        cells[0] = f"{row['users_ran']} of {cells[0]}"
    pairs = zip(cells, (width for _column, width in shown), strict=True)
    line = "".join(f" {cell:>{width - 1}}" for cell, width in pairs)  # apart, if it is too long
    rest += [column for column in shown_columns(table.columns, [row]) if column.rare]
    words = [f"{printable(column.title)} {cell_text(row[column.key], column)}" for column in rest]
    words += [printable(row["remarks"])] if row["remarks"] else []
    remark = "; ".join(words)
    if not remark:
        return f"{line}\n"
    fits = most is None or len(line) + 2 + len(remark) <= most
    return f"{line}  {remark}\n" if fits else f"{line}\n{'':{shown[0][1]}}  {remark}\n"


def comparison_text(report: Report, most: int | None) -> str:
    """A comparison but for its summary, ending with a newline."""
    lines = [*_settings(report["differing_settings"].tables[0]), ""]
    table = compared_runs(report)
    columns = {column.key: column for column in table.columns}
    for row in table.rows:
        lines.append(f"{row['run']}: {printable(row['file'])}")
        cells = (
            cell_text(row[key], columns[key], symbol=True)
            for key in ("scenario_name", "started_at_s", "duration_s", "compared")
        )
        more = [", ".join(cells), *([printable(row["store"])] if row["store"] else [])]
        lines += [f"  {line}" for line in (*more, *note_lines(row["notes"]))]
    lines += ["", *note_lines(report["changes"].notes)]
    for table in compared_tables(report):
        lines += ["", *_compared(table, most)]
    others = [section for section in report.sections if section.title]
    for section in (*others, report["remarks"], report["closing"]):
        found = list(section_lines(section, most))
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


def _compared(table: Table, most: int | None) -> Iterator[str]:
    """The figures of an operation, whose name heads the titles of the figures."""
    columns = [column for column in table.columns if most is None or "text" in column.formats]
    yield _columns(table.key, *(column.title for column in columns[1:-1]))
    for row in table.rows:
        line = _columns(*(row[column.key] for column in columns))
        if most and most < COLUMNS:  # the verdict, behind two spaces, on a line of its own
            line = _narrowed(line, most)
        yield line


def _columns(*cells: str) -> str:
    """A title to the left, figures to the right, and a verdict."""
    widths = _WIDE if len(cells) >= len(_WIDE) else _NARROW
    padded = [
        f"{cell:<{-width}}" if width < 0 else f" {cell:>{width - 1}}"  # apart, if it is too long
        for cell, width in zip(cells, widths, strict=False)
    ]
    return "".join([*padded, *(f"  {word}" for word in cells[len(padded) :])]).rstrip()


def _narrowed(line: str, most: int) -> str:
    if len(line) <= most:
        return line
    figures, _, verdict = line.rpartition("  ")
    return f"{figures.rstrip()}\n  {verdict}"


#: What has a meaning anywhere in a line; and only at its beginning.
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~&$])")
_LIST_MARK = re.compile(r"^(\d*)([-+.)])(?=\s|$)")

_PREFIXES = {Level.NOTE: "Note: ", Level.WARNING: "**Warning:** ", Level.SEVERE: "**WARNING:** "}


def render_markdown(report: Report) -> str:
    """The summary, notes, tables and facts; text from outside is never markup."""
    title, lines = title_of(report)
    blocks = [
        [f"# {_escaped(title)}"],
        ["  \n".join(map(_escaped, lines))],
        [f"- **{_escaped(row['topic'])}:** {_escaped(row['text'])}"
         for row in report["summary"].tables[0].rows],
        [f"- {_PREFIXES.get(level, '')}{_escaped(text)}" for level, text in notes_of(report)],
    ]  # fmt: skip
    for table in map(shown, filter(lambda table: table.rows, tables_of(report))):
        blocks.append([f"## {_escaped(table.title)}"])
        rule = f"|{'|'.join('---:' if each else '---' for each in table.numeric)}|"
        blocks.append([_line(table.headings), rule, *map(_line, table.rows)])
        if table.more:
            blocks.append([f"{table.more:,} more rows are left out; `--json` has them."])
    facts = [f"- **{_escaped(topic)}:** {_escaped(text)}" for topic, text in facts_of(report)]
    if facts:
        blocks += [["## Scenario and environment"], facts]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(_escaped, cells))} |"


def _escaped(text: str) -> str:
    return _LIST_MARK.sub(r"\1\\\2", _MARKUP.sub(r"\\\1", printable(text)))
