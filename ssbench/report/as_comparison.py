"""Runs side by side, as text: each further run in tables with the first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ssbench.core.stats.compare import (
    CONFIDENCE,
    Change,
    ChangeVerdict,
    Estimate,
    Measure,
    Row,
    SettingDifference,
)
from ssbench.core.stats.comparison import Comparison, Run, Section
from ssbench.core.stats.run_stats import operation_name
from ssbench.core.text import plural, printable
from ssbench.report import cells
from ssbench.report.host_text import other_work_lines
from ssbench.report.load_text import missing_users_lines
from ssbench.report.options import percent_text
from ssbench.report.steady_text import steady_lines

_MOST_UNLIKE = 20  #: settings that differ, named in the text
_LONGEST_VALUE = 40
_MANY_TIMES = 5  #: from then on a change is told as a factor: +1,190 % makes nobody any wiser
_HIGHEST_TOLD = 99.0  #: a percentile in the words at the top; what is above hangs on few values
_CLOSING = (
    "An interval covers the random variation within its run (block bootstrap), but not differences",
    "in conditions between the runs: repeat the runs to see those.",
)


class _Unit(NamedTuple):
    title: str  #: in a table
    words: str  #: in a sentence
    divisor: float
    digits: int
    more: str
    less: str


_UNITS = {
    "rate": _Unit("Operations/s", "operations a second", 1, 1, "more", "fewer"),
    "throughput": _Unit("MB/s", "MB/s", 1e6, 2, "more", "less"),
    "service": _Unit("Service time {} ms", "service time {}", 1e6, 3, "longer", "shorter"),
    "response": _Unit("Response time {} ms", "response time {}", 1e6, 3, "longer", "shorter"),
}


def render_comparison(found: Comparison) -> str:
    """The comparison for people, ending with a newline."""
    others = range(1, len(found.runs))
    lines = [*_settings(found), "", *_runs(found.runs), ""]
    lines += (line for other in others for line in _in_words(found, other))
    for other in others:
        for section in found.sections:
            lines += ["", *_table(found, section, other)]
    if found.legacy:
        lines += ["", "Files of ssbench 0.3.9 do not record bytes read: no throughput is compared."]
    elif found.no_store:
        lines += [
            "",
            "Without a store (--noop) no bytes are transferred: no throughput is compared.",
        ]
    return "\n".join([*lines, "", *_CLOSING]) + "\n"


def _settings(found: Comparison) -> Iterator[str]:
    """Scenarios first: figures of different ones are hardly a comparison."""
    scenario = [each for each in found.unlike if each.of_scenario]
    others = [each for each in found.unlike if not each.of_scenario]
    if scenario:
        yield "THE SCENARIOS DIFFER, which may explain differences in the figures:"
        yield from _unlike(scenario)
    else:
        yield "The scenarios are the same."
    if others:
        yield "Also different:"
        yield from _unlike(others)


def _unlike(differing: Sequence[SettingDifference]) -> Iterator[str]:
    for each in differing[:_MOST_UNLIKE]:
        yield f"  {printable(each.key)}: {' | '.join(map(_value, each.values))}"
    if len(differing) > _MOST_UNLIKE:
        yield f"  and {len(differing) - _MOST_UNLIKE} more (--json has all)"


def _value(value: object) -> str:
    text = "none" if value is None else printable(str(value))
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."


def _runs(runs: Sequence[Run]) -> Iterator[str]:
    for number, run in enumerate(runs, 1):
        stats = run.stats
        duration = "N/A" if stats.duration_s is None else f"{stats.duration_s:.0f} s"
        yield f"Run {number}: {printable(run.name)}"
        yield (
            f"  {printable(stats.run.scenario.name)}, {cells.time_text(stats.started_s)}, "
            f"{duration}, {_compared(run)}"
        )
        if not stats.run.complete:
            yield "  Warning: some of its results are missing"
        yield from (f"  {line}; it is not judged" for line in missing_users_lines(stats))
        yield from (f"  {line}" for line in steady_lines(stats))
        yield from (f"  {line}" for line in other_work_lines(run.hosts))


def _compared(run: Run) -> str:
    if run.short:
        return "too short for intervals: its figures are of the whole run"
    return f"{plural(run.seconds, 'whole second')} of which are compared"


def _in_words(found: Comparison, other: int) -> Iterator[str]:
    """The rate, and of each kind of latency the highest percentile of which enough is known."""
    section = found.sections[0]
    told: dict[str, Row] = {}
    for row in _rows(section):
        percent = row.measure.percent or 0
        known = row.changes[other - 1].verdict in (ChangeVerdict.REAL, ChangeVerdict.NOISE)
        if row.measure.name not in told or (known and percent <= _HIGHEST_TOLD):
            told[row.measure.name] = row
    for row in told.values():
        change = row.changes[other - 1]
        what = _named(_UNITS[row.measure.name].words, row.measure)
        difference = _difference(row.measure, change)
        yield f"Run {other + 1} against run 1: {difference}{what}: {change.verdict.value}."
    taken = [str(number) for number in (1, other + 1) if found.runs[number - 1].disturbed]
    if taken:
        runs = f"run{'s' if len(taken) > 1 else ''} {' and '.join(taken)}"
        yield f"Other processes took the cores in {runs}: figures may differ because of it."


def _rows(section: Section) -> Iterator[Row]:
    """Without the throughput of what moves nothing."""
    for row in section.rows:
        if row.measure.name != "throughput" or any(each.value for each in row.estimates):
            yield row


def _difference(measure: Measure, change: Change) -> str:
    if change.ratio is None:
        return ""
    unit = _UNITS[measure.name]
    if change.ratio >= _MANY_TIMES:
        return f"{change.ratio:,.1f} times the "
    word = unit.more if change.ratio >= 1 else unit.less
    return f"{abs(change.ratio - 1):.1%} {word} "


def _table(found: Comparison, section: Section, other: int) -> Iterator[str]:
    operation = section.operation
    title = "TOTAL" if operation is None else operation_name(operation)
    sure = f"{CONFIDENCE:.0%} interval"
    yield _line(title, "Run 1", sure, f"Run {other + 1}", sure, "Change", sure)
    for row in _rows(section):
        change = row.changes[other - 1]
        first, second = row.estimates[0], row.estimates[other]
        yield _line(
            _named(_UNITS[row.measure.name].title, row.measure),
            *_estimate(row.measure, first),
            *_estimate(row.measure, second),
            _percent(change.ratio),
            _between(_percent(change.low), _percent(change.high)),
            change.verdict.value,
        )
    first_errors, errors = (_errors(found.runs[at], operation) for at in (0, other))
    yield _line("Errors", first_errors, "", errors)


def _errors(run: Run, operation: int | None) -> str:
    tally = run.stats.total(operation)
    return f"{tally.errors} of {tally.operations}"


def _named(pattern: str, measure: Measure) -> str:
    percent = "" if measure.percent is None else f"p{percent_text(measure.percent)}"
    return pattern.format(percent)


def _estimate(measure: Measure, estimate: Estimate) -> tuple[str, str]:
    low, high = _figure(measure, estimate.low), _figure(measure, estimate.high)
    return _figure(measure, estimate.value), _between(low, high)


def _figure(measure: Measure, value: float | None) -> str:
    unit = _UNITS[measure.name]
    return "N/A" if value is None else f"{value / unit.divisor:,.{unit.digits}f}"


def _between(low: str, high: str) -> str:
    return "" if "N/A" in (low, high) else f"{low} to {high}"


def _percent(ratio: float | None) -> str:
    if ratio is None:
        return "N/A"
    return f"{ratio - 1:+.1%}" if ratio < _MANY_TIMES else f"x {ratio:,.1f}"


_WIDTHS = (-24, 14, 24, 14, 24, 10, 20)


def _line(*values: str) -> str:
    """Title to the left, figures to the right, and a last word."""
    cut = [
        f"{value:<{-width}}" if width < 0 else f"{value:>{width}}"
        for value, width in zip(values, _WIDTHS, strict=False)
    ]
    return "".join([*cut, *(f"  {word}" for word in values[len(_WIDTHS) :])]).rstrip()
