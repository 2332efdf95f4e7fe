"""A series or a search as text: a line for each step, which appears when the step is over."""

from __future__ import annotations

from ssbench.core.text import printable
from ssbench.report.model import LATENCY, Column, Report, Row, Table
from ssbench.report.text_layout import COLUMNS, cell_text, note_lines, padded, section_lines

_STEP_WIDTHS = {"users": 8, "rate": 8, "seconds": 9, "operations": 9, "errors": 7,
                "operations_per_s": 9, "bytes_per_s": 8}  # fmt: skip
_LATENCY_WIDTH = 9
_LEAST_WIDTH = 8  #: of a threshold's value
_ONLY_WIDE = ("seconds",)  #: the same for most steps


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
    lines = ["", top.title]
    if report["store"]["line"]:
        lines.append(f"Store: {printable(report['store']['line'])}")
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
            cells[at] = f"{row[column.key] / column.unit.divisor:,.0f}"
    cells[0] = f"{row[load.key]:g}"
    if load.key == "users" and not row["counts"]:
        cells[0] = f"{row['users_ran']} of {cells[0]}"
    line = padded(cells, [width for _column, width in shown])
    words = [f"{printable(column.title)} {cell_text(row[column.key], column)}" for column in rest]
    words += [printable(row["remarks"])] if row["remarks"] else []
    remark = "; ".join(words)
    if not remark:
        return f"{line}\n"
    fits = most is None or len(line) + 2 + len(remark) <= most
    return f"{line}  {remark}\n" if fits else f"{line}\n{'':{shown[0][1]}}  {remark}\n"
