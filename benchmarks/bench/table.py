"""The table as text, the record of ratios, and what the exit status says. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from benchmarks.bench.figure import Figure, Verdict

#: By so much may a ratio be worse than the recorded one before it is pointed out.
WORSE = 0.10
MISSED, INCOMPLETE = 1, 2  #: exit statuses
_CELLS = "| {} | {} | {} | {} | {} | {} | {} |"


def head() -> list[str]:
    """The lines above the first row; the table is Markdown, so that it can be kept."""
    names = ("what", "ours", "reference", "theirs", "ratio", "wanted", "")
    return [_CELLS.format(*names), _CELLS.format(*["---"] * len(names))]


def line(row: str, figure: Figure, recorded: float | None) -> str:
    """A figure's line: medians with their spread, the ratio, the bound and what is remarkable."""
    if figure.why_not:
        return _CELLS.format(
            f"{row}: {figure.words}", "", figure.reference, "", "", figure.bound, figure.why_not
        )
    remarks = [] if figure.verdict is Verdict.KEPT else [f"**{figure.verdict.value}**"]
    if worse_by(figure, recorded) > WORSE:
        remarks.append(f"worse than the recorded {recorded:.3g}")
    remarks += [figure.note] if figure.note else []
    return _CELLS.format(
        f"{row}: {figure.words}",
        samples(figure.ours, figure.unit),
        figure.reference,
        samples(figure.theirs, figure.unit),
        f"{figure.ratio:.3g}",
        figure.bound,
        ", ".join(remarks),
    )


def samples(values: Sequence[float], unit: str) -> str:
    """The median, and from where to where the samples go, where there are several."""
    spread = f" ({number(min(values))} to {number(max(values))})" if len(values) > 1 else ""
    return f"{number(median(values))} {unit}{spread}"


def number(value: float) -> str:
    """Three digits that count, and no exponents."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def status(figures: Sequence[Figure]) -> int:
    """0: all bounds are kept; 1: one is missed; 2: none is, but not all could be measured."""
    verdicts = {figure.verdict for figure in figures if not (figure.why_not and figure.optional)}
    if Verdict.MISSED in verdicts:
        return MISSED
    return INCOMPLETE if Verdict.NOT_RUN in verdicts or not verdicts else 0


def name(row: str, figure: Figure) -> str:
    """What a figure is recorded under."""
    return f"{row}: {figure.words} ({figure.reference})"


def ratios(measured: Sequence[tuple[str, Figure]]) -> dict[str, float]:
    """What to record."""
    return {
        name(row, figure): round(figure.ratio, 4) for row, figure in measured if not figure.why_not
    }


def ending(measured: Sequence[tuple[str, Figure]], recorded: Mapping[str, float]) -> Iterator[str]:
    """What to look at, a line each."""
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
    """By what part its ratio is worse than the recorded one; 0 where either isn't there."""
    if figure.why_not or recorded is None:
        return 0.0
    return figure.bound.worse_by(figure.ratio, recorded)
