"""The table as text, the ratios to record, and the exit status. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from benchmarks.bench.figure import Figure, Verdict

#: Ratios that are worse than recorded by more than this fraction get a remark.
WORSE = 0.10
MISSED, INCOMPLETE = 1, 2  #: exit statuses
_CELLS = "| {} | {} | {} | {} | {} | {} | {} |"


def head() -> list[str]:
    """The lines above the first row, in Markdown."""
    names = ("what", "ours", "reference", "theirs", "ratio", "wanted", "")
    return [_CELLS.format(*names), _CELLS.format(*["---"] * len(names))]


def line(row: str, figure: Figure, recorded: float | None) -> str:
    """A figure's line: medians with their range, the ratio, the bound and remarks."""
    if figure.why_not:
        return _CELLS.format(
            f"{row}: {figure.title}", "", figure.reference, "", "", figure.bound, figure.why_not
        )
    remarks = [] if figure.verdict is Verdict.KEPT else [f"**{figure.verdict.value}**"]
    if worse_by(figure, recorded) > WORSE:
        remarks.append(f"worse than the recorded {recorded:.3g}")
    remarks += [figure.note] if figure.note else []
    return _CELLS.format(
        f"{row}: {figure.title}",
        samples(figure.ours, figure.unit),
        figure.reference,
        samples(figure.theirs, figure.unit),
        f"{figure.ratio:.3g}",
        figure.bound,
        ", ".join(remarks),
    )


def samples(values: Sequence[float], unit: str) -> str:
    """The median, and the range if there are several samples."""
    spread = f" ({number(min(values))} to {number(max(values))})" if len(values) > 1 else ""
    return f"{number(median(values))} {unit}{spread}"


def number(value: float) -> str:
    """Three significant digits, without exponent."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def status(figures: Sequence[Figure]) -> int:
    """0: all bounds are met; 1: one is missed; 2: none is, but not all were measured."""
    verdicts = {figure.verdict for figure in figures if not (figure.why_not and figure.optional)}
    if Verdict.MISSED in verdicts:
        return MISSED
    return INCOMPLETE if Verdict.NOT_RUN in verdicts or not verdicts else 0


def name(row: str, figure: Figure) -> str:
    """The key of a recorded figure."""
    return f"{row}: {figure.title} ({figure.reference})"


def ratios(measured: Sequence[tuple[str, Figure]]) -> dict[str, float]:
    """Ratios to record, by name."""
    return {
        name(row, figure): round(figure.ratio, 4) for row, figure in measured if not figure.why_not
    }


def ending(measured: Sequence[tuple[str, Figure]], recorded: Mapping[str, float]) -> Iterator[str]:
    """A line per figure that missed its bound, was not measured or got worse."""
    for row, figure in measured:
        what = name(row, figure)
        if figure.verdict is Verdict.MISSED:
            yield f"MISSED: {what}: {figure.ratio:.3g}, wanted {figure.bound}"
        elif figure.verdict is Verdict.NOT_RUN and not figure.optional:
            yield f"NOT MEASURED, so no success: {what}: {figure.why_not}"
        elif figure.verdict is Verdict.NOT_RUN:
            yield f"not measured: {what}: {figure.why_not}"
    for row, figure in measured:
        what = name(row, figure)
        worse = worse_by(figure, recorded.get(what))
        if worse > WORSE:
            yield (
                f"WORSE: {what}: {figure.ratio:.3g}, by {worse:.0%} worse than the recorded"
                f" {recorded[what]:.3g}"
            )


def worse_by(figure: Figure, recorded: float | None) -> float:
    """How much worse than recorded, as a fraction; 0 if either is missing."""
    if figure.why_not or recorded is None:
        return 0.0
    return figure.bound.worse_by(figure.ratio, recorded)
