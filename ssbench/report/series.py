"""The steps of a sweep or of find-limit as a report: a row for each load."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import inf, isfinite

from msgspec import Struct
from msgspec.structs import replace

from ssbench.core.sparse import marked
from ssbench.core.stats.capacity import Estimate, capacity_of
from ssbench.core.stats.headroom import Bottleneck, Headroom
from ssbench.core.stats.intervals import CONFIDENCE, estimate_of
from ssbench.core.stats.steps import Search, Step
from ssbench.core.stats.tally import Counts
from ssbench.core.stats.thresholds import Threshold
from ssbench.core.text import plural, printable
from ssbench.report import summary
from ssbench.report.charts import series_charts
from ssbench.report.figures import figures_of, threshold_facts
from ssbench.report.model import (
    COUNT,
    DATA,
    LATENCY,
    RATE,
    SCHEMA_VERSION,
    SECONDS,
    THROUGHPUT,
    WORD,
    Actual,
    Column,
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
    percent_label,
    percentile_column,
    percentile_facts,
    plain_note,
    section_of,
    sparse_notes,
    sparse_of,
)
from ssbench.report.notes import NO_STORE, cause_text
from ssbench.report.run import store_section

#: What a series is over -> the heading of its column, and a load in words.
_HEADINGS = {"users": "Users", "rate": "Rate/s"}
#: Bottlenecks that a row names.
_REMARKS = {
    Bottleneck.GENERATOR: "the load generator was the bottleneck",
    Bottleneck.GENERATOR_AT_TIMES: "the load generator was the bottleneck at times",
    Bottleneck.OTHERS: "other processes used the cores",
}
#: What bounded a search from above -> in words, with the load and the option for it.
_BOUNDS = {
    "": "nothing above {most} was tried (--max-{over})",
    "workers": "the workers can run only {most} (more workers, or a larger -c of ssbench-worker)",
}


class SeriesSettings(Struct, frozen=True):
    """What all steps of a series have in common.

    :param name: of the scenario.
    :param over: "users" or "rate".
    :param percentiles: of the latencies of each step; 100 is the maximum.
    :param thresholds: that each step is judged by.
    :param search: where the loads are searched for.
    """

    name: str
    over: str
    percentiles: tuple[float, ...]
    thresholds: tuple[Threshold, ...] = ()
    search: Search | None = None


def of_series(settings: SeriesSettings, steps: Sequence[Step], *, complete: bool = True) -> Report:
    """The report of a series of runs.

    :param steps: at least one, in the order in which they were run.
    :param complete: whether all was run that should be.
    """
    over, thresholds, search = settings.over, settings.thresholds, settings.search
    rows = [_step(step, settings) for step in steps]
    due = any(step.latencies is step.response for step in steps)
    which = "response time, from due" if due or over == "rate" else "service time, from start"
    table = Table.of("steps", rows)
    facts = [
        SCHEMA_VERSION,
        fact("scenario", settings.name, WORD, "json"),
        fact("over", over, WORD, "json"),
        fact("thresholds", list(map(str, thresholds)), WORD, "json"),
        fact("steps", table, WORD, "json"),
    ]
    notes = []
    if any(step.no_store for step in steps):
        notes.append(Note(Level.NOTE, NO_STORE, formats="text"))
    notes += sparse_notes(v for each in steps for v in _marked(each, each.latencies).values())
    if search is not None:
        capped = complete and search.broken is None and search.kept is not None
        bound = (search.bound_by or f"max-{over}") if capped else None
        facts += [
            fact("largest_kept", search.kept, COUNT, "json"),
            fact("smallest_broken", search.broken, COUNT, "json"),
            fact("interval", [*search.interval], COUNT, "json"),
            fact("complete", complete, WORD, "json"),
            fact("capped_by", bound, WORD, "json"),
        ]
        notes += map(plain_note, _search_lines(search, settings, complete=complete))
    title = f"{printable(settings.name)}, by {over} (latencies in ms: {which})"
    top = Section("", title, facts=facts, notes=notes)
    ending = summary.of_series(
        table.rows,
        over=over,
        name=settings.name,
        slo=" and ".join(map(str, thresholds)),
        search=top.row if search is not None else None,
    )
    store = store_section(steps[0].header)
    capacity = _capacity(table.rows) if over == "users" else None
    repeats = _repeats(steps, over) if search is None else []
    charts = partial(series_charts, top, ending, capacity)
    sections = [top, store, *repeats, capacity or Section("capacity"), ending]
    return Report("series", sections, rows=table, charts=charts)


def _repeats(steps: Sequence[Step], over: str) -> list[Section]:
    """Loads that ran several times: the means of their figures, with intervals."""
    by_load: defaultdict[float, list[Step]] = defaultdict(list)
    for step in steps:
        if step.rate_per_s:
            by_load[step.load].append(step)
    rows = [_repeated(load, over, own) for load, own in by_load.items() if len(own) > 1]
    if not rows:
        return []
    title = f"REPEATED RUNS (means, and {CONFIDENCE:.0%} intervals from what the runs differ by)"
    section = section_of(Table.of("repeats", rows), title)
    if any(len(own) == 2 for own in by_load.values()):
        few = "Intervals of two runs are about eight times as wide as those of three"
        section = replace(section, notes=[plain_note(f"{few}: use --repeat 3 or more")])
    return [section]


def _repeated(load: float, over: str, steps: Sequence[Step]) -> list[Fact]:
    facts = [fact(over, load, COUNT), fact("runs", len(steps), COUNT)]
    kind = "response" if all(step.response.get(50.0) for step in steps) else "service"
    figures = [(Column("operations_per_s", RATE, "rate"), [step.rate_per_s for step in steps])]
    for percent in (50.0, 99.0):
        values = [getattr(step, kind).get(percent) for step in steps]
        figures.append((percentile_column(kind, percent), values))
    for column, values in figures:
        known = [value for value in values if value]
        found = estimate_of(known) if len(known) == len(steps) else None
        facts += [
            Fact(column, found and found.value),
            fact(f"{column.key}_low", found and found.low, column.unit, title="from"),
            fact(f"{column.key}_high", found and found.high, column.unit, title="to"),
        ]
    return facts


def _capacity(rows: Sequence[Row]) -> Section | None:
    """The universal scalability law of the steps that count; None: it can't be fitted."""
    counted = [row for row in rows if row["counts"] and row["operations_per_s"]]
    found = capacity_of(
        [row["users"] for row in counted], [row["operations_per_s"] for row in counted]
    )
    if found is None:
        return None
    law, knee, peak = found.law, found.knee, found.peak
    lines = [
        f"Knee: {_estimate(knee, 'users')}, {law.at(knee.value):,.1f} operations/s:"
        " beyond it latency grows faster than throughput"
        if isfinite(knee.value)
        else "Knee: none, throughput grows with each user",
        f"Peak: {_estimate(peak, 'users')}, {_estimate(found.peak_per_s, 'operations/s')}"
        if isfinite(peak.value)
        else f"Peak: none; ever more users approach {_estimate(found.peak_per_s, 'operations/s')}",
        f"Twice the highest rate, {2 * found.most_per_s:,.1f} operations/s: "
        + (
            f"needs {_estimate(found.doubled, 'users')}"
            if isfinite(found.doubled.value)
            else "no number of users has it"
        ),
    ]
    own = [row["users"] for row in counted if row["load_generator"] == Headroom.NONE.value]
    doubts = found.doubts
    if own:
        loads = ", ".join(f"{load:g}" for load in sorted(set(own)))
        doubts.append(f"With {loads} users the load generator was the limit, not the store.")
    return Section(
        "capacity",
        "Capacity by the universal scalability law, with 95 % intervals",
        [
            fact("rate_per_s", _rounded(law.rate_per_s), RATE, "json"),
            fact("contention", _rounded(law.contention), WORD, "json"),
            fact("coherency", _rounded(law.coherency), WORD, "json"),
            fact("knee_users", _interval(knee), COUNT, "json"),
            fact("peak_users", _interval(peak), COUNT, "json"),
            fact("peak_per_s", _interval(found.peak_per_s, RATE), RATE, "json"),
            fact("doubled_users", _interval(found.doubled), COUNT, "json"),
            fact("residual", round(found.residual, 6), WORD, "json"),
        ],
        notes=[
            *map(plain_note, lines),
            *(Note(Level.WARNING, doubt) for doubt in doubts),
        ],
    )


def _interval(found: Estimate, unit: Unit = COUNT) -> Interval:
    """Without what is infinite."""
    value, low, high = (
        _rounded(x) if isfinite(x) else None for x in (found.value, found.low, found.high)
    )
    return Interval(value, low, high, unit)


def _rounded(value: float) -> float:
    """Six significant digits: the others depend on the machine."""
    return float(f"{value:.6g}")


def _estimate(found: Estimate, unit: str) -> str:
    """``20 users (18 to 22)``, ``1,590.2 operations/s (at least 1,490.1)``, ``at most 4 users``."""
    digits = 0 if unit == "users" else 1
    value, low, high = (f"{x:,.{digits}f}" for x in (found.value, found.low, found.high))
    if not isfinite(found.value):
        return f"any number of {unit}"
    if found.low == -inf:
        return f"at most {value} {unit}" + (f" (up to {high})" if found.high > found.value else "")
    within = f"{low} to {high}" if isfinite(found.high) else f"at least {low}"
    return f"{value} {'user' if (value, unit) == ('1', 'users') else unit} ({within})"


def _step(step: Step, settings: SeriesSettings) -> list[Fact]:
    """In the order of CSV, JSON and text."""
    over, percentiles, thresholds = settings.over, settings.percentiles, settings.thresholds
    load = COUNT if over == "users" else RATE
    kept = None if step.short_of_users else int(step.kept)
    counts, store = int(not step.short_of_users), int(not step.no_store)
    judged = Table.of("judged", [threshold_facts(verdict) for verdict in step.verdicts])
    causes = {cause_text(*cause): count for cause, count in step.causes.items()}
    latencies = _marked(step, step.latencies)
    remarks = "; ".join(_remarks(step, judged=bool(thresholds)))
    return [
        fact(over, step.load, load, title=_HEADINGS[over]),
        fact("ended", step.ended, WORD, DATA),
        fact("seconds", step.seconds, SECONDS, title="Seconds"),
        fact("operations", step.operations, COUNT, title="Count"),
        fact("errors", step.errors, COUNT, title="Errors"),
        fact("lost", step.lost, COUNT, DATA),
        fact("late", step.late, COUNT, DATA),
        fact("operations_per_s", step.rate_per_s, RATE, title="Ops/s"),
        fact("bytes_per_s", step.bytes_per_s, THROUGHPUT, title="MB/s"),
        *percentile_facts("service", _marked(step, step.service), DATA),
        *percentile_facts("response", _marked(step, step.response), DATA),
        *([fact("kept", kept, COUNT, DATA)] if thresholds else []),
        fact("users_ran", step.users_ran, COUNT, DATA),
        fact("counts", counts, COUNT, DATA),
        fact("load_generator", step.generator.value, WORD, DATA),
        fact("bottleneck", step.bottleneck.value, WORD, "json"),
        fact("stats_file", step.path, WORD, DATA),
        fact("store_involved", store, COUNT, DATA),
        fact("steady", step.steady, WORD, "json"),
        fact("rate_missed", step.rate_missed, WORD, "json"),
        fact("errors_by_cause", causes, COUNT, "json"),
        fact("missed", list(map(str, step.missed)), WORD, "json"),
        fact("judged", judged, WORD, "json"),
        *_shown_latencies(latencies, percentiles),
        *_of_thresholds(judged.rows, percentiles, thresholds),
        fact("sparse_percentiles", sparse_of(latencies), WORD, DATA),
        *(Fact(each.column, each.of(step.counts or Counts())) for each in figures_of("steps")),
        fact("remarks", remarks, WORD, "text", title="Remarks"),
    ]


def _marked(step: Step, values: Mapping[float, float | None]) -> dict[float, float | None]:
    return {each: marked(each, value, step.operations) for each, value in values.items()}


def _shown_latencies(
    latencies: Mapping[float, float | None], percentiles: Sequence[float]
) -> Iterator[Fact]:
    """For people: response times where operations had due times, else service times."""
    for percent in percentiles:
        label = percent_label(percent)
        yield fact(label, latencies[percent], LATENCY, "text", title=label)


def _of_thresholds(
    judged: Sequence[Row], percentiles: Sequence[float], thresholds: Sequence[Threshold]
) -> Iterator[Fact]:
    """For CSV three columns for each, numbered from 1 as they were given; for people the measured
    value, where no other column has it."""
    shown = {percent_label(percent) for percent in percentiles}
    for number, threshold in enumerate(thresholds, 1):
        row = judged[number - 1] if judged else {}
        value, name = row.get("actual"), f"threshold_{number}"
        yield fact(name, str(threshold), WORD, "csv")
        yield fact(f"{name}_passed", row.get("passed"), WORD, "csv")
        yield fact(f"{name}_actual", value, COUNT, "csv")
        if threshold.name not in shown:
            shown.add(threshold.name)
            actual = Actual(value, float(threshold.number), threshold.unit)
            yield fact(f"judged_{number}", actual, WORD, "text", title=threshold.name)


def _remarks(step: Step, *, judged: bool) -> list[str]:
    found = [f"{step.lost} lost"] if step.lost else []
    found += ["RATE MISSED"] if step.rate_missed else []
    found += [f"{step.late} never started"] if step.late else []
    found += [f"run {step.ended}"] if step.ended != "complete" else []
    if step.bottleneck in _REMARKS:
        found.append(_REMARKS[step.bottleneck])
    if step.short_of_users:
        return [*found, f"only {step.users_ran} of {step.users_asked} users ran: not counted"]
    if step.ended == "interrupted":
        return found  # unknown what it would have met
    missed = ", ".join(map(str, step.missed))
    if missed:
        return [*found, f"missed {missed}"]
    if not judged or step.rate_missed:
        return found
    return [*found, "met" if step.kept else "no result"]


def _search_lines(search: Search, settings: SeriesSettings, *, complete: bool) -> Iterator[str]:
    """What a search has found."""
    over = settings.over
    slo = " and ".join(printable(str(threshold)) for threshold in settings.thresholds)
    kept, broken = search.kept, search.broken
    if not complete:
        yield "The search was ended early:"
    if kept is None:
        yield f"No load met {slo}"
    else:
        met, tries = search.tries(kept)
        yield f"Highest load that met {slo}: {_words(kept, over)}{_times(met, tries)}"
    if broken is not None:
        met, tries = search.tries(broken)
        lowest = f"{_words(broken, over)}{_times(tries - met, tries)}"
        yield f"Lowest load that missed it: {lowest}"
        low, high = search.interval
        if (low, high) != (kept, broken):  # some loads had both outcomes
            least = "the lowest load" if low is None else _words(low, over)
            most = "the highest that was tried" if high is None else _words(high, over)
            yield f"By all runs the limit lies between {least} and {most}"
    elif complete and kept is not None:
        bound = _BOUNDS[search.bound_by].format(most=_words(search.most, over), over=over)
        yield f"The limit may be higher: {bound}"


def _times(count: int, tries: int) -> str:
    return f" (in {count} of {tries} runs)" if tries > 1 else ""


def _words(load: float, over: str) -> str:
    return plural(int(load), "user") if over == "users" else f"{load:g} operations/s"
