"""Outcomes as text."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.cases import MS
from benchmarks.truth.judge import Figure
from benchmarks.truth.rows import Outcome

_COLUMNS = ("truth", "ssbench", "error", "bound", "wrk's truth", "wrk says")


def lines(outcome: Outcome, of_tries: str = "") -> Iterator[str]:
    """The table of one row; times in ms."""
    yield f"{outcome.row.name}{of_tries}"
    wrk = {name: (truth, said) for name, truth, said in outcome.wrk}
    if outcome.figures:
        yield _line("", *_COLUMNS)
    for figure in outcome.figures:
        beside = [f"{value / MS:.3f}" for value in wrk.get(figure.name, ())]
        cells = [_cell(figure, value) for value in (figure.truth, figure.ours)]
        verdict = "" if figure.fine else "  not judged" if outcome.not_judged else "  MISSED"
        error = (
            f"{figure.error / MS:+.3f}" if figure.is_time else f"{figure.error:+.{figure.digits}f}"
        )
        yield _line(figure.name, *cells, error, _cell(figure, figure.bound), *beside) + verdict
    if outcome.not_run or outcome.not_judged:
        yield f"  {outcome.not_run or outcome.not_judged}"
    for note in outcome.notes:
        yield f"  {note}"
    yield ""


def _cell(figure: Figure, value: float) -> str:
    return f"{value / MS:.3f}" if figure.is_time else f"{value:.{figure.digits}f}"


def _line(name: str, *cells: str) -> str:
    return f"  {name:<32}" + "".join(f"{cell:>13}" for cell in cells).rstrip()
