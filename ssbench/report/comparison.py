"""Runs side by side as a report: each further run against the first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from ssbench.core.sparse import marked
from ssbench.core.stats.compare import ComparedOperation, ComparedRun, Comparison, JudgedChange
from ssbench.core.stats.findings import bottleneck, steady
from ssbench.core.stats.intervals import (
    CONFIDENCE,
    CONFIDENCE_OF_LOOK,
    RESAMPLES,
    Change,
    ChangeVerdict,
    ComparedFigure,
    Measure,
    Pairs,
    Sides,
)
from ssbench.core.stats.selection import Selection
from ssbench.core.stats.tally import Tally
from ssbench.core.stats.thresholds import ChangeRule
from ssbench.core.text import plural
from ssbench.report import summary
from ssbench.report.charts import by_response, comparison_charts
from ssbench.report.figures import columns_of, compared_parts, compared_sections, figures_of
from ssbench.report.load_generator import host_table
from ssbench.report.model import (
    COUNT,
    LATENCY,
    MANY_TIMES,
    RATE,
    SCHEMA_VERSION,
    SECONDS,
    THROUGHPUT,
    WALL_CLOCK,
    WORD,
    Fact,
    Interval,
    Level,
    Note,
    Report,
    Row,
    Section,
    Table,
    Unit,
    fact,
    percentile_column,
    plain_note,
    section_of,
    sparse_notes,
)
from ssbench.report.notes import notes_of_compared, part_text, steadiness_notes, unusual
from ssbench.report.run import part_section, store_section

_HIGHEST_PERCENT = 99.0  #: in the sentences at the top; above it a percentile depends on few values
_CLOSING_OF_SIDES = (
    "An interval covers what runs of the same side differ by (Welch's t of their logarithms),",
    "and is at least as wide as the variation within the runs.",
)
_CLOSING_OF_PAIRS = (
    "An interval is Student's t of the differences of neighbouring runs (A1 and B1, A2 and B2),",
    "and is at least as wide as the variation within the runs.",
)
_CLOSING_OF_LOOKS = (
    f"It is at {CONFIDENCE_OF_LOOK:.1%}, so that stopping at a precision raises no false alarms:",
    f"over all looks it holds for {CONFIDENCE:.0%}.",
)
_CLOSING = (
    "An interval covers the random variation within its run (block bootstrap), but not differences",
    "in conditions between the runs: repeat the runs to see those.",
)


class _Measure(NamedTuple):
    key: str  #: in JSON
    title: str  #: in a table
    words: str  #: in a sentence
    unit: Unit
    more: str
    less: str

    @classmethod
    def of(cls, measure: Measure) -> _Measure:
        if measure.percent is None:
            return _MEASURES[measure.name]
        column = percentile_column(measure.name, measure.percent)
        words = f"{measure.name} time {column.title}"
        title = f"{words.capitalize()} {LATENCY.symbol}"
        return cls(column.key, title, words, LATENCY, "longer", "shorter")


_MEASURES = {
    "rate": _Measure("operations_per_s", "Operations/s", "operations/s", RATE, "more", "fewer"),
    "throughput": _Measure("moved_bytes_per_s", "MB/s", "MB/s", THROUGHPUT, "more", "less"),
}


def of_comparison(found: Comparison, rules: Sequence[ChangeRule] = ()) -> Report:
    """The report of a comparison.

    :param rules: conditions that no change may meet.
    """
    judged = [each for rule in rules for each in found.judge(rule)]
    confidence = found.sides.confidence if found.sides else CONFIDENCE
    facts = [
        SCHEMA_VERSION,
        fact("confidence", confidence, COUNT),
        fact("resamples", RESAMPLES, COUNT, "json"),
        fact("seed", found.seed, COUNT, "json"),
    ]
    settings = _differing(found)
    parts = {section.operation: _figures(found, section) for section in found.sections}
    operations = [
        [fact("operation", operation, WORD), *part]
        for operation, part in parts.items()
        if operation is not None
    ]
    chosen, names = found.runs[0].stats.chosen, found.run_names
    sections = [
        Section("", facts=facts),
        *([part_section(chosen)] if chosen else []),
        *_grouped(found.sides),
        section_of(Table.of("runs", list(_runs(found)))),
        section_of(Table.of("differing_settings", settings)),
        Section("total", facts=parts.get(None, ())),
        section_of(Table.of("operations", operations, by="operation")),
        Section("changes", notes=_changes(found, chosen), formats="text"),
        Section("remarks", notes=list(_remarks(found, parts.values())), formats="text"),
        Section("closing", notes=[plain_note(line) for line in _closing(found)], formats="text"),
        *([section_of(_rules(judged), "FAIL IF")] if judged else []),
    ]
    by_key = {section.key: section for section in sections}
    rows, stats = by_key["runs"].tables[0].rows, [run.stats for run in found.runs]
    kind = "response" if by_response(each.total() for each in stats) else "service"
    sections.append(
        summary.of_comparison(
            rows,
            by_key["total"].row,
            len(settings),
            kind,
            found.names,
            [*map(_failed, judged)],
            found.sides,
        )
    )
    sections += compared_parts(stats, names)
    by_source = list(compared_sections(stats, names))
    sections += by_source
    lines = [line for part in found.sections for line in _lines(found, part, parts)]
    lines += [line for section in by_source for line in _source_lines(found, section)]
    charts = partial(comparison_charts, stats, names)
    return Report("comparison", sections, rows=Table.of("figures", lines), charts=charts)


def _differing(found: Comparison) -> list[list[Fact]]:
    return [
        [
            fact("key", each.key, WORD),
            fact("of_scenario", each.of_scenario, WORD, "text json"),
            fact("values", each.values, WORD),
        ]
        for each in found.differing_settings
    ]


def _runs(found: Comparison) -> Iterator[list[Fact]]:
    """Each run, with its side where they are in groups."""
    runs = [_run(*each) for each in zip(found.run_names, found.runs, strict=True)]
    if found.sides is None:
        yield from runs
        return
    for run, side in zip(runs, _side_of_runs(found.sides), strict=True):
        yield [*run, side]


def _grouped(sides: Sides | None) -> list[Section]:
    """The sides, and how pairs came about."""
    if sides is None:
        return []
    found = [Section("sides", tables=[_sides(sides)], formats="json")]
    return [*found, *([_pairs(sides.pairs)] if sides.pairs else [])]


def _side_of_runs(sides: Sides) -> list[Fact]:
    return [
        fact("side", Sides.letter(place), WORD)
        for place, count in enumerate(sides.counts) for _run in range(count)
    ]  # fmt: skip


def _sides(sides: Sides) -> Table:
    rows = [
        [
            fact("side", Sides.letter(place), WORD),
            fact("name", sides.names[place] if sides.names else None, WORD),
            fact("runs", count, COUNT),
            fact("paired", sides.paired, WORD),
        ]
        for place, count in enumerate(sides.counts)
    ]
    return Table.of("sides", rows)


def _pairs(pairs: Pairs) -> Section:
    """For JSON: how the pairs came about."""
    left_out = [[fact("file", path, WORD), fact("why", why, WORD)] for path, why in pairs.left_out]
    facts = [
        fact("asked", pairs.asked, COUNT),
        fact("complete", not pairs.ended, WORD),
        fact("reason", pairs.ended or None, WORD),
        fact("left_out", Table.of("left_out", left_out), WORD),
    ]
    return Section("pairs", facts=facts, formats="json")


def _incomplete(found: Comparison) -> Iterator[Note]:
    """Why fewer pairs are compared than were asked for."""
    pairs = found.sides.pairs if found.sides else None
    if pairs is None:
        return
    if pairs.ended:
        many = f"{len(found.groups[0])} of {plural(pairs.asked, 'pair')}"
        yield Note(Level.WARNING, f"Ended early, with {many}: {pairs.ended}.", formats="text")
    for path, why in pairs.left_out:
        yield Note(Level.WARNING, f"Not compared: {path}: {why}.", formats="text")


def _closing(found: Comparison) -> Sequence[str]:
    if found.sides is None:
        return _CLOSING
    if found.sides.paired:
        pairs = found.sides.pairs
        looks = _CLOSING_OF_LOOKS if pairs and pairs.sequential else ()
        return (*_CLOSING_OF_PAIRS, *looks)
    return _CLOSING_OF_SIDES


def _failed(judged: JudgedChange) -> tuple[str, bool]:
    return f"{judged.rule}", judged.passed


def _rules(judged: Sequence[JudgedChange]) -> Table:
    rows = [
        [
            fact("passed", each.passed, WORD, title=""),
            fact("rule", str(each.rule), WORD, title="rule"),
            fact("side", each.side, WORD, title="of"),
            fact("change", each.text, WORD, title="change"),
        ]
        for each in judged
    ]
    return Table.of("fail_if", rows, formats="text json")


def _run(name: str, run: ComparedRun) -> list[Fact]:
    of_run, header = run.stats, run.stats.run.header
    ran, short = of_run.run.users_ran, of_run.run.short_of_users
    steadiness = [note for note in steadiness_notes(of_run) if "json" in note.formats]
    verdict = of_run.verdict()
    generator, whose = verdict.headroom.value, bottleneck(of_run, verdict).value
    wrong = notes_of_compared(of_run, run.hosts)
    return [
        fact("run", name, WORD, "text"),
        fact("file", run.name, WORD),
        fact("run_id", header and header.run_id, WORD, "json"),
        fact("scenario_name", of_run.run.scenario.name, WORD),
        fact("store", store_section(header)["line"], WORD),
        fact("complete", of_run.run.complete, WORD, "json"),
        fact("users_ran", ran, COUNT, "json"),
        fact("short_of_users", short, WORD, "json"),
        fact("started_at_s", of_run.started_s, WALL_CLOCK),
        fact("duration_s", of_run.duration_s, SECONDS),
        fact("whole_seconds", run.seconds, COUNT),
        fact("steady", steady(of_run), WORD, "json"),
        fact("steadiness", steadiness, WORD, "json"),
        fact("load_generator", generator, WORD, "json"),
        fact("bottleneck", whose, WORD, "json"),
        fact("hosts", host_table(run.hosts), WORD),
        fact("short", run.short, WORD, "text"),
        fact("notes", wrong, WORD, "text"),
        fact("unusual", unusual(of_run), WORD, "text"),
    ]


def _figures(found: Comparison, section: ComparedOperation) -> list[Fact]:
    disturbed = [any(run.disturbed for run in group) for group in found.groups]
    totals = [
        [run.stats.total(run.number_of(section.operation)) for run in group]
        for group in found.groups
    ]
    rows = [_figure(row, disturbed, totals) for row in section.rows]
    figures = Table.of("figures", rows, by="figure")
    return [*_counts(found, totals), fact("figures", figures, WORD)]


def _counts(found: Comparison, totals: Sequence[Sequence[Tally]]) -> Iterator[Fact]:
    """Of each side, over its runs."""
    sides = [Tally() for _side in totals]
    for side, own in zip(sides, totals, strict=True):
        for tally in own:
            side.merge(tally)
    yield fact("operations", [side.operations for side in sides], COUNT)
    for each in figures_of("compared"):
        if each.known is None or any(each.known(run.stats.total()) for run in found.runs):
            yield Fact(each.column, [each.of(side) for side in sides])


def _lines(
    found: Comparison, section: ComparedOperation, parts: Mapping[str | None, Sequence[Fact]]
) -> Iterator[list[Fact]]:
    """For CSV: each figure of each run."""
    name, groups = section.operation or "TOTAL", found.groups
    files = [" ".join(run.name for run in group) for group in groups]
    part = {each.column.key: each for each in parts[section.operation]}
    for row in part["figures"].value.rows:
        for at, estimate in enumerate(row["runs"]):
            change = row["changes_against_first"][at - 1] if at else {}
            yield _line(name, row["figure"], at, files[at], estimate, change)
    for column in columns_of("compared"):
        values = part[column.key].value if column.key in part else ()
        for at, value in enumerate(values):
            each = Interval(value, None, None, column.unit)
            yield _line(name, column.key, at, files[at], each)


def _source_lines(found: Comparison, section: Section) -> Iterator[list[Fact]]:
    """For CSV: each figure of a worker or endpoint, in each run that has it."""
    table = section.tables[0]
    for row in table.rows if "text" in section.formats else ():
        for at, figures in enumerate(row["runs"]):
            for figure, value in (figures or {}).items():
                each = Interval(value, None, None, COUNT)  # in the unit of CSV already
                source = row[table.columns[0].key]
                yield _line("", figure, at, found.runs[at].name, each, source=source)


def _line(
    operation: str, figure: str, at: int, file: str, found: Interval,
    change: Row | None = None,
    source: str = "",
) -> list[Fact]:  # fmt: skip
    change = change or {}
    value, low, high = (
        None if each is None else each / found.unit.stored if found.unit.stored != 1 else each
        for each in (found.value, found.low, found.high)
    )
    return [
        fact("operation", operation, WORD),
        fact("figure", figure, WORD),
        fact("run", at + 1, COUNT),
        fact("file", file, WORD),
        fact("value", value, COUNT),
        fact("low", low, COUNT),
        fact("high", high, COUNT),
        fact("ratio", change.get("ratio"), COUNT),
        fact("ratio_low", change.get("low"), COUNT),
        fact("ratio_high", change.get("high"), COUNT),
        fact("verdict", change.get("verdict"), WORD),
        fact("source", source, WORD),
    ]


def _figure(
    row: ComparedFigure, disturbed: Sequence[bool], totals: Sequence[Sequence[Tally]]
) -> list[Fact]:
    measure, percent = _Measure.of(row.measure), row.measure.percent
    latency = "response" if row.measure.name == "response" else "last_byte"
    counts = [sum(getattr(each, latency).histogram.count for each in own) for own in totals]
    runs = [
        Interval(marked(percent or 100, each.value, many), each.low, each.high, measure.unit)
        for each, many in zip(row.estimates, counts, strict=True)
    ]
    changes = [
        {
            "ratio": change.ratio,
            "low": change.low,
            "high": change.high,
            "verdict": change.verdict.name.lower(),
            "other_work": disturbed[0] or disturbed[at],
            **({"runs_needed": change.runs_needed} if len(totals[0]) + len(totals[at]) > 2 else {}),
        }
        for at, change in enumerate(row.changes, 1)
    ]
    return [
        fact("figure", measure.key, WORD),
        fact("title", measure.title, WORD, "text"),
        fact("runs", runs, WORD),
        fact("changes_against_first", changes, COUNT),
    ]


def _named_sides(found: Comparison) -> Iterator[Note]:
    names = found.sides.names if found.sides is not None else ()
    for place, name in enumerate(names):
        yield plain_note(f"{Sides.letter(place)}: {name}")


def _changes(found: Comparison, chosen: Selection) -> list[Note]:
    part = [plain_note(part_text(chosen))] if chosen else []
    return [*part, *_named_sides(found), *_incomplete(found), *_summary(found)]


def _summary(found: Comparison) -> Iterator[Note]:
    """Of each further run the rate, and of each kind of latency the highest percentile that
    enough is known of."""
    first, groups = found.names[0], found.groups
    for other in range(1, len(groups)):
        shown: dict[str, ComparedFigure] = {}
        for row in found.sections[0].rows:
            values = [row.estimates[at].value for at in (0, other)]
            if row.measure.name == "throughput" and not any(values):
                continue  # nothing was moved
            if row.measure.name == "response" and None in values:
                continue  # one is a closed loop
            percent = row.measure.percent or 0
            known = row.changes[other - 1].verdict in (ChangeVerdict.REAL, ChangeVerdict.NOISE)
            if row.measure.name not in shown or (known and percent <= _HIGHEST_PERCENT):
                shown[row.measure.name] = row
        for row in shown.values():
            change = row.changes[other - 1]
            measure = _Measure.of(row.measure)
            yield plain_note(
                f"{found.names[other].replace('run', 'Run')} against {first}: "
                f"{_difference(measure, change)}{measure.words}"
                f"{_ratio(change)}: {change.verdict.value}{_needed(found.sides, change)}."
            )
        taken = [at for at in (0, other) if any(run.disturbed for run in groups[at])]
        if taken:
            runs = " and ".join(found.names[at] for at in taken)
            if found.sides is None and len(taken) > 1:
                runs = f"runs 1 and {other + 1}"
            text = f"Other processes used the cores in {runs}, which may explain a difference."
            yield Note(Level.WARNING, text, formats="text")


def _difference(measure: _Measure, change: Change) -> str:
    if change.ratio is None:
        return ""
    if change.ratio >= MANY_TIMES:
        return f"{change.ratio:,.1f} times the "
    word = measure.more if change.ratio >= 1 else measure.less
    return f"{abs(change.ratio - 1):.1%} {word} "


def _ratio(change: Change) -> str:
    """What was seen, where no verdict says whether it means anything."""
    seen = change.verdict is ChangeVerdict.UNKNOWN and change.ratio is not None
    return f" (ratio {change.ratio:.3g})" if seen else ""


def _needed(sides: Sides | None, change: Change) -> str:
    """How many runs would tell, where these did not."""
    if sides is None or change.runs_needed is None:
        return ""
    what = "pairs" if sides.paired else "runs of each side"
    return f"; about {change.runs_needed:,} {what} would tell such a change"


def _remarks(found: Comparison, parts: Iterable[Sequence[Fact]]) -> Iterator[Note]:
    shown = [
        estimate.value
        for part in parts
        for each in part if each.column.key == "figures"
        for row in each.value.rows
        for estimate in row["runs"]
    ]  # fmt: skip
    yield from sparse_notes(shown)
    if found.no_bytes:
        yield plain_note(f"No throughput is compared: {found.no_bytes}.")
