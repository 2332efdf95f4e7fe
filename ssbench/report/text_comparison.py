"""A comparison as text: settings that differ, then the figures of each run beside the first's."""

from __future__ import annotations

from collections.abc import Iterator

from ssbench.core.stats.compare import CONFIDENCE, ChangeVerdict
from ssbench.core.text import plural, printable, shortened
from ssbench.report.model import MANY_TIMES, Report, Row, Table, change_text, time_text
from ssbench.report.text_layout import COLUMNS, note_lines, number_text, section_lines

_MOST_SETTINGS = 20  #: that are named
_LONGEST_VALUE = 40
_WIDE = (-24, 14, 24, 14, 24, 10, 20)  #: widths of a figure's columns; negative: to the left
_NARROW = (-22, 12, 12, 9, 20)  #: the same without the intervals of the runs


def comparison_text(report: Report, most: int | None) -> str:
    """A comparison but for its summary, ending with a newline."""
    runs = report["runs"].tables[0].rows
    lines = [*_settings(report["differing_settings"].tables[0]), ""]
    for number, run in enumerate(runs, 1):
        lines += _run_of_comparison(number, run)
    lines += ["", *note_lines(report["changes"].notes)]
    for other in range(1, len(runs)):
        for part in report.operations:
            rows = list(_changes(part, other, wide=most is None))
            if most and most < COLUMNS:  # the verdict, behind two spaces, on a line of its own
                rows = [_narrowed(line, most) for line in rows]
            lines += ["", *rows]
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
    if run["store"]:
        yield f"  {printable(run['store'])}"
    yield from (f"  {line}" for line in note_lines(run["notes"]))


def _changes(part: Row, other: int, *, wide: bool) -> Iterator[str]:
    """The figures of an operation: of the first run, of another, and the change."""
    sure = f"{CONFIDENCE:.0%} interval"
    own = [sure] if wide else []
    yield _columns(part["operation"], "Run 1", *own, f"Run {other + 1}", *own, "Change", sure)
    rows = list(compared_figures(part))
    found = [row["changes_against_first"][other - 1] for row in rows]
    ratios = [change[key] or 0 for change in found for key in ("ratio", "low", "high")]
    factor = any(ratio >= MANY_TIMES for ratio in ratios)
    for row in rows:
        cells = []
        for found in (row["runs"][0], row["runs"][other]):
            value, low, high = (
                number_text(each, found.unit) for each in (found.value, found.low, found.high)
            )
            cells += [value, _between(low, high)] if wide else [value]
        change = row["changes_against_first"][other - 1]
        ratio, low, high = (
            change_text(change[key], factor=factor) for key in ("ratio", "low", "high")
        )
        yield _columns(row["title"], *cells, ratio, _between(low, high), verdict_text(row, change))
    first, second = (f"{part['errors'][at]} of {part['operations'][at]}" for at in (0, other))
    blank = [""] if wide else []
    yield _columns("Errors", first, *blank, second, *blank, "", "")


def verdict_text(figure: Row, change: Row) -> str:
    """``better: more than noise``: a rate is the better the higher it is, a latency the lower."""
    verdict = ChangeVerdict[change["verdict"].upper()]
    if verdict is not ChangeVerdict.REAL or change["ratio"] is None:
        return verdict.value
    higher = change["ratio"] > 1
    is_rate = figure["figure"].endswith("_per_s")
    return f"{'better' if higher == is_rate else 'worse'}: {verdict.value}"


def _narrowed(line: str, most: int) -> str:
    if len(line) <= most:
        return line
    figures, _, verdict = line.rpartition("  ")
    return f"{figures.rstrip()}\n  {verdict}"


def compared_figures(part: Row) -> Iterator[Row]:
    """The figures of an operation; none of bytes where no run moved any."""
    for row in part["figures"].rows:
        if row["figure"] != "moved_bytes_per_s" or any(each.value for each in row["runs"]):
            yield row


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
