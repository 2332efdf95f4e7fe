"""What all texts of reports are laid out with: sections, tables, cells with units, notes.

A section of any report has a layout here. Tables that are wider than a text continue below, under
the same first column.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

from ssbench.core.stats.thresholds import DURATIONS, THROUGHPUTS
from ssbench.core.text import bytes_text, printable
from ssbench.report.model import (
    BYTES,
    COUNT,
    LATENCY,
    SPARSE_MARK,
    WALL_CLOCK,
    WORD,
    Actual,
    Column,
    Distribution,
    Note,
    Row,
    Section,
    Sparse,
    Unit,
    latency_text,
    percent_text,
    time_text,
)

COLUMNS = 100  #: of a table


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
        yield from _table_lines(table.title, table.columns, table.rows, table.formats, most)
    for series in section.series:
        columns = (series.x, *series.y)
        yield from _table_lines(series.title, columns, list(series.rows), series.formats, most)


def _table_lines(
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
    yield from aligned(lines, most)


def heading(column: Column) -> str:
    name = column.title or column.key
    return f"{name} ({column.unit.symbol})" if column.unit.symbol else name


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


_LEAST_OF_UNIT = 0.001  #: of a threshold's unit, until a smaller one is easier to read


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


def wrapped(text: str, columns: int) -> str:
    """The same lines, each broken between its words where it is longer; what follows is indented.

    A word that is longer than a line, such as a path, stays whole.
    """
    lines = []
    for line in text.split("\n"):
        indent = " " * min(len(line) - len(line.lstrip()) + 2, columns // 2)
        lines += textwrap.wrap(
            line, columns, subsequent_indent=indent, expand_tabs=False, replace_whitespace=False,
            break_long_words=False, break_on_hyphens=False,
        ) or [line]  # fmt: skip
    return "\n".join(lines)


def padded(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
