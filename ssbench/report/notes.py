"""The sentences of a run's report: about its load, its end, and its steadiness."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import ceil

from msgspec import structs

from ssbench.core.model import ErrorKind, Phase, error_label
from ssbench.core.operations import Target, of_phase, operation_named, parameters_of, row_of
from ssbench.core.records import MarkRecord
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.stats.findings import Arrivals, arrivals, omission, steadiness
from ssbench.core.stats.headroom import (
    HostLoad,
)
from ssbench.core.stats.histogram import SECOND_ERROR
from ssbench.core.stats.merge import Part, common_s
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.selection import Selection
from ssbench.core.stats.steady import (
    SEVERAL,
    Drifted,
    Incomplete,
    Stalled,
    SteadinessFinding,
    TooShort,
    TwoLevels,
    Unsteady,
)
from ssbench.core.stats.tally import Basis
from ssbench.core.text import due_text, in_unit, plural, printable
from ssbench.report.load_generator import other_work
from ssbench.report.model import Level, Note, latency_text, plain_note, rate_text

NO_STORE = (
    "No store was involved (--noop): rates and latencies are what ssbench itself can do, and no"
    " object was uploaded, read or deleted."
)


#: Keys of a scenario that change requests or their pace; the header has those that are not default.
_REQUESTS = (
    "bandwidth",
    "key_names",
    "keep_alive",
    "expect_continue",
    "headers",
    "populate_headers",
    "checksum",
    "checksum_in",
)


def load_lines(stats: RunStats) -> Iterator[str]:
    """How the load was made, what is excluded, and what the rates cover; nothing on the model of a
    plain closed loop, which is what ssbench 0.3.9 had."""
    view = stats.run.scenario
    yield from _model_lines(stats)
    settings = stats.run.header.scenario if stats.run.header else {}
    given = [key for key in parameters_of(of_phase(Phase.RUN)) if settings.get(key)]
    if given:
        values = ", ".join(f"{key} {printable(str(settings[key]))}" for key in given)
        yield f"Operations: {values}"
    changed = [f"{key} {printable(str(settings[key]))}" for key in _REQUESTS if key in settings]
    if changed:
        yield f"Requests: {', '.join(changed)}"
    if view.versioning:
        yield "Versions: the containers keep those of replaced and deleted objects"
    for key, title in (
        ("large_object", "Large objects"), ("large_read", "Large reads"),
        ("object_lock", "Object lock"),
    ):  # fmt: skip
        large = settings.get(key)
        if isinstance(large, Mapping):
            sizes = ("above", "segment")
            kept = ", ".join(
                f"{name} {_exact_size(value) if name in sizes else printable(str(value))}"
                for name, value in large.items()
            )
            yield f"{title}: {kept}"
    if mix := view.mix:
        yield (
            f"Content: {mix.compressible:.0%} of each {mix.compressible_block:,} bytes zeros,"
            f" {mix.duplicate:.0%} of blocks of {mix.duplicate_block:,} bytes duplicates"
        )
    excluded = excluded_text(stats)
    if excluded:
        yield (
            f"Excluded: {excluded} ({plural(stats.left_out, 'operation')});"
            " the figures below do not include them"
        )
    yield from _rate_line(stats)


def _model_lines(stats: RunStats) -> Iterator[str]:
    """When operations were started."""
    view = stats.run.scenario
    open_rates = [_rate_of(mark, view) for mark in stats.run.stages if mark.rate]
    if open_rates:
        rates = ", ".join(open_rates)
        model = printable(view.arrivals)
        found = arrivals(stats)
        by_end = ""
        if found:
            done = f"{found.completed:,} of {found.due:,} that were due"
            by_end = (
                f"; {found.started_per_s:,.1f}/s were started, and {done} completed, by its end"
            )
        yield f"Load: open loop, {rates} operations/s due ({model} arrivals){by_end}"
        if stats.lateness.count:
            late = stats.lateness.quantiles([50, 99, 100])
            p50, p99, worst = (latency_text(value or 0) for value in late)
            yield f"Lateness (from due to start): 50% {p50}, 99% {p99}, worst {worst}"
    elif view.think_time or stats.stage_count > 1:
        pause = ""
        if view.think_time:
            least, longest = view.think_time
            span = f"{least:g} s" if least == longest else f"{least:g} to {longest:g} s"
            pause = f", after a think time of {span}"
        yield (
            "Load: closed loop: each user starts an operation when its previous one has"
            f" completed{pause}"
        )


def _exact_size(count: object) -> str:
    """``8 MiB``; ``1,500 B`` where no larger unit is exact."""
    if not isinstance(count, int) or count < 0:
        return printable(str(count))
    value, unit = in_unit(count, 1024)
    return f"{value:g} {unit}" if value.is_integer() else f"{count:,} B"


def part_text(chosen: Selection) -> str:
    """What stands above the figures of a part of a run."""
    return (
        f"PART: {chosen.text}. Operations lost, late or skipped, orphaned objects and"
        " metrics of hosts are those of all operations; populating and clean-up are left out"
    )


def _rate_of(mark: MarkRecord, view: Scenario) -> str:
    """``50``; ``5 to 50`` of a ramp."""
    to = view.load[mark.stage].ends[1] if mark.stage < len(view.load) else None
    return f"{mark.rate:g}" if to is None else f"{mark.rate:g} to {to:g}"


def _stage_name(stats: RunStats, stage: int) -> str:
    """As in the table of stages: its number where it has no name."""
    stages = stats.run.scenario.stages
    name = stages[stage].name if stage < len(stages) else ""
    return printable(name) or str(stage + 1)


def excluded_text(stats: RunStats) -> str:
    """``the first 5 s, the last 3 s and the first 2 s of stages 2, 3``; "" for nothing."""
    view, stages, chosen = stats.run.scenario, stats.stage_count, stats.chosen
    warmup_s = stats.run.warmup_s
    parts = [f"the first {warmup_s:g} s"] if warmup_s else []
    parts += [f"all before {chosen.from_s:g} s"] if chosen.from_s else []
    parts += [f"all after {chosen.to_s:g} s"] if chosen.to_s else []
    parts += [f"the last {view.cooldown:g} s"] if view.cooldown else []
    of_stages: defaultdict[float, list[str]] = defaultdict(list)
    for stage in range(stages):
        of_stages[view.warmup_of(stage)].append(_stage_name(stats, stage))
    for seconds, those in of_stages.items():
        if seconds:
            named = f"stage{'s' if len(those) > 1 else ''} {', '.join(those)}"
            of = "each stage" if len(those) == stages > 1 else named
            parts.append(f"the first {seconds:g} s of {of}")
    *most, last = parts or [""]
    return f"{', '.join(most)} and {last}" if most else last


#: How successes are counted for a rate.
_COUNTED = {
    Basis.WINDOW: "; successes count when they complete",
    Basis.SHARE: "; a success that is only partly within that time counts by that part",
    Basis.COMPLETED: "; each operation over its own time",
    Basis.UNKNOWN_END: " (unknown when the load ended); each operation over its own time",
}


def _rate_line(stats: RunStats) -> Iterator[str]:
    """What the rates are divided by."""
    view, basis = stats.run.scenario, stats.rate_basis
    seconds = stats.total().throughput.seconds
    if seconds is None or basis not in _COUNTED:
        return
    begin, end = "first start", "last completion"
    if basis in (Basis.WINDOW, Basis.SHARE):
        begin = "start of the load" if basis is Basis.WINDOW else begin
        begin = "end of the warm-up" if stats.run.warmup_s or view.warmup_of(0) else begin
        end = "start of the cool-down" if view.cooldown else "end of the load"
        begin = "start of the part" if stats.chosen.from_s else begin
        end = "end of the part" if stats.chosen.to_s else end
    if any(view.warmup_of(stage) for stage in range(1, stats.stage_count)):
        end += ", without the warm-ups in between"
    yield f"Rates: over {seconds:.3f} s, from the {begin} to the {end}{_COUNTED[basis]}"


#: How a run ended -> what the report says of it, above everything else.
_ENDINGS = {
    "interrupted": "INTERRUPTED: the run was stopped before its end",
    "failed": "FAILED: the run did not reach its end",
    "exhausted": "EXHAUSTED: no object was left for the operations that the scenario asks for",
}
_CUT_OFF = "INCOMPLETE: some results of the run are missing; the figures below cover the rest"
_MOST_LOST = 1000  #: workers that are named
_MOST_CHANGES = 5  #: of the number of users that a line names


def ending_notes(stats: RunStats, parts: Sequence[Part] = ()) -> Iterator[Note]:
    """Whether runs were merged, what is missing, how the run ended, and whether fewer users ran
    than asked for."""
    if stats.chosen:
        yield Note(Level.PLAIN, part_text(stats.chosen))
    if parts:
        common, whole = common_s(parts)
        yield Note(
            Level.PLAIN,
            f"MERGED: the runs of {len(parts)} masters as one, by the clocks of the masters; they"
            f" ran together for {common:.1f} of {whole:.1f} s",
            {},
        )
    if not stats.run.complete:
        yield Note(Level.SEVERE, _CUT_OFF)
        for fault in stats.run.damage:
            yield Note(Level.SEVERE, f"  {printable(fault)}", formats="text")
    for line in stats.run.left_out:
        yield Note(Level.NOTE, f"More than is kept of one run: {line}")
    footer = stats.run.footer
    if footer is not None and footer.ended in _ENDINGS:
        reason = f" ({printable(footer.reason)})" if footer.reason else ""
        yield Note(Level.SEVERE, _ENDINGS[footer.ended] + reason)
    elif footer is not None and footer.reason:
        yield Note(Level.NOTE, f"Ended early: {printable(footer.reason)}")
    yield from (Note(Level.SEVERE, line) for line in _missing_users(stats))


def unusual(stats: RunStats) -> list[str]:
    """What sets a run apart from a complete one of a store, in a few words each."""
    run = stats.run
    words = [] if run.ending == "complete" else [run.ending]
    words += ["short of users"] if run.short_of_users else []
    return words + (["without a store"] if run.no_store else [])


def _missing_users(stats: RunStats) -> Iterator[str]:
    """``4 of 64 users ran``, ``64 of 64 users ran at first, 32 from second 12.0``."""
    stages = stats.run.stage_users
    for index, users in enumerate(stages):
        if not users.short:
            continue
        stage = f"in stage {_stage_name(stats, index)} " if len(stages) > 1 else ""
        (_at_s, first), *changes = users.ran
        begin_s = stages[0].ran[0][0]
        ran = f"{first} of {plural(users.asked, 'user')} ran{' at first' if changes else ''}"
        for at_s, count in changes[:_MOST_CHANGES]:
            ran += f", {count} from second {at_s - begin_s:.1f}"
        if len(changes) > _MOST_CHANGES:
            ran += f", and {len(changes) - _MOST_CHANGES} more changes (--json has all)"
        yield (
            f"FEWER USERS THAN REQUESTED: {stage}{ran}; the figures below do not describe"
            f" {plural(users.asked, 'user')}"
        )


def counter_lines(stats: RunStats) -> Iterator[str]:
    """Operations that found no object, and those that completed after the load's end."""
    skipped = ", ".join(f"{printable(name)} {n}" for name, n in stats.run.skipped.items() if n)
    if skipped:
        where = " in the whole run" if stats.chosen else ""
        yield f"Skipped{where}, no object available: {skipped}"
    if stats.after_end is not None:
        completed, seconds = stats.after_end
        time = f"{seconds:.1f} s"
        if seconds < 1:
            time = f"{seconds * 1000:.{0 if seconds >= 0.01 else 1}f} ms"
        yield f"{plural(completed, 'operation')} completed in the {time} after the load ended"


def warning_notes(stats: RunStats) -> list[Note]:
    """Lost workers, and the warnings of the run."""
    run = stats.run
    # A warning that names the worker says more.
    warnings, workers = run.warnings, run.workers_lost
    lost = [w for w in workers[:_MOST_LOST] if not any(w in text for text in warnings[:_MOST_LOST])]
    texts = [*(f"worker {printable(worker)} was lost" for worker in lost)]
    if len(workers) > _MOST_LOST:
        texts.append(f"{len(workers) - _MOST_LOST:,} more workers were lost")
    texts += [printable(text) for text in warnings]
    return [Note(Level.WARNING, text) for text in texts]


#: Kind of finding -> its name for programs.
_FINDINGS: dict[type[SteadinessFinding], str] = {
    TooShort: "too_short",
    Incomplete: "incomplete",
    Stalled: "stalled",
    Drifted: "drifted",
    TwoLevels: "two_levels",
    Unsteady: "unsteady",
}
_MOST_LINES = 2


def steadiness_notes(stats: RunStats) -> list[Note]:
    """What speaks against quoting an average of the run: every finding for JSON, a line for each
    sentence, with its stages and two at most, for people."""
    view = stats.run.scenario
    warmups_s = [view.warmup_of(stage) for stage in range(stats.stage_count)]
    excluded_s = max(stats.run.warmup_s, *warmups_s) + view.cooldown
    found, by_sentence = [], defaultdict[tuple[Level, str], list[str]](list)
    for stage, finding in steadiness(stats):
        sentence = _sentence(finding, stats.total(stage=stage).seconds, excluded_s)
        number = None if stage is None else stage + 1
        figures = {"finding": _FINDINGS[type(finding)], "stage": number, **structs.asdict(finding)}
        level = Level.NOTE if isinstance(finding, TooShort | Incomplete) else Level.WARNING
        found.append(Note(level, sentence, figures, "json"))
        by_sentence[level, sentence] += [] if stage is None else [_stage_name(stats, stage)]
    lines = [
        Note(
            level,
            f"Stage{'s' * (len(those) > 1)} {', '.join(those)}: {sentence}" if those else sentence,
            {},
            "text",
        )
        for (level, sentence), those in by_sentence.items()
    ]
    left = len(lines) - _MOST_LINES
    if left > 0:
        more = f"({left} more finding{'s' * (left > 1)} of this kind: --json has all)"
        lines[_MOST_LINES:] = [plain_note(more)]
    return found + lines


def _sentence(finding: SteadinessFinding, span_s: float | None, excluded_s: float) -> str:
    """:param span_s: of the run, or of the stage that the finding is about.
    :param excluded_s: the longest warm-up, and the cool-down.
    """
    if isinstance(finding, Incomplete):
        return (
            f"Results are missing ({printable(finding.damage[0])}): whether the rate was steady is"
            " unknown."
        )
    if isinstance(finding, TooShort) and finding.few:
        return (
            f"Operations are few ({SEVERAL} in about {finding.window_s} s): to tell whether the"
            f" rate was steady, run for {ceil(finding.wanted + 2 + excluded_s):,} s or more."
        )
    if isinstance(finding, TooShort) and finding.window_s > 1:
        return (
            f"Operations take about {finding.window_s} s, and no shorter stall shows: to tell"
            f" whether the rate was steady, run for {ceil(finding.wanted + 2 + excluded_s):,} s or"
            " more."
        )
    if isinstance(finding, TooShort):
        what = f"only {plural(finding.seconds, 'whole second')} completed"
        if not finding.seconds:
            brief = span_s is not None and span_s < 1
            what = "shorter than one second" if brief else "no whole second completed"
        return (
            f"Too short to tell whether the rate was steady ({what}): run for"
            f" {ceil(finding.wanted + 2 + excluded_s):,} s or more."
        )
    if isinstance(finding, Stalled):
        return (
            f"In {finding.stalled} of {finding.seconds} seconds almost nothing completed (longest"
            f" {finding.longest} s, first at {finding.first} s): the average hides such stalls;"
            " --time-series has the single seconds."
        )
    if isinstance(finding, Drifted):
        word = "rose" if finding.change > 0 else "fell"
        return (
            f"The rate of {finding.what} {word} by {100 * abs(finding.change):.0f} % during the run"
            ": the average depends on when the run ended; use a longer warm-up, or find the cause."
        )
    low, high = (rate_text(finding.what, each) for each in (finding.low, finding.high))
    if isinstance(finding, TwoLevels):
        return (
            f"The rate of {finding.what} had two levels: {low} in"
            f" {finding.low_seconds} of {finding.seconds} seconds, {high} in the"
            " others; the average is neither of them."
        )
    return (
        f"The rate of {finding.what} varied by {100 * finding.spread:.0f} % from second to second"
        f" ({low} to {high}): too much to quote an average."
    )


_CLOSED_LOOP = (
    "Coordinated omission: in a closed loop, users that wait for a response send nothing, so stalls"
    " are under-represented in percentiles; a run with --rate shows them."
)
_MIX_SHARE = 0.02  #: of the operations drawn; fewer leave the mix as it was asked for


def run_notes(stats: RunStats) -> Iterator[Note]:
    """In most runs none."""
    if stats.left_out and not stats.total().operations:
        yield _note(
            "nothing_counts",
            "No results to report: warm-up and cool-down cover the whole run"
            f" ({plural(stats.left_out, 'operation')}).",
        )
        return
    if stats.run.no_store:
        yield _note("no_store", NO_STORE)
    for text in stats.store_notes:
        shown = printable(text)
        yield _note("store", f"{shown[:1].upper()}{shown[1:]}.")
    found_rate = arrivals(stats)
    if found_rate and found_rate.missed:
        yield _rate_missed(found_rate, stats)
    yield from _last_start(stats)
    if not stats.chosen:  # how many of a part were skipped is unknown
        yield from _skipped(stats)
    found = omission(stats)
    if found is not None:
        slowest, p99 = latency_text(found.slowest_ns), latency_text(found.p99_ns)
        hidden = f"The slowest operation took {slowest}, 99 % of them at most {p99}. "
        yield _note(
            "closed_loop",
            f"{hidden if found.hidden else ''}{_CLOSED_LOOP}",
            slowest_s=found.slowest_ns / 1e9,
            p99_s=found.p99_ns / 1e9,
        )
    error = stats.series.relative_error
    if error > SECOND_ERROR:
        yield _note(
            "wide_seconds",
            f"Percentiles of single seconds are accurate to {error * 100:.2g} %: their buckets were"
            " widened to bound memory. Those of the whole run are not affected.",
            relative_error=error,
        )


def _rate_missed(found: Arrivals, stats: RunStats) -> Note:
    rate = stats.total().rate_per_s
    what = f"{found.completed:,} of {found.due:,} operations that were due were complete at the end"
    if found.late:
        what += f", {found.late:,} were never started"
    if stats.stage_count > 1 and found.missed_stages:
        several = "s" * (len(found.missed_stages) > 1)
        names = ", ".join(_stage_name(stats, stage) for stage in found.missed_stages)
        what += f" (stage{several} {names})"
    achieved = "" if rate is None else f"{rate:,.1f} of "
    return _note(
        "behind",
        f"the load missed its rate: {achieved}{due_text(found.due_per_s)} operations/s; {what} (a"
        " store or a load generator that is too slow, or too few users)",
        Level.SEVERE,
        target_per_s=found.target_per_s,
        due_per_s=found.due_per_s,
        started_per_s=found.started_per_s,
        due=found.due,
        completed=found.completed,
        late=found.late,
        mean_lag_s=found.mean_lag_s,
    )


def _last_start(stats: RunStats) -> Iterator[Note]:
    found = stats.up_to_last_start
    if found is None or found.throughput.rate_per_s is None:
        return
    rate = found.throughput.rate_per_s
    moved = found.throughput.bytes_per_s if stats.total().has_bytes else None
    megabytes = "N/A" if moved is None else f"{moved / 1e6:.2f} MB/s"
    yield _note(
        "last_start",
        f"{found.share_after * 100:.0f} % of the time that the rates cover came after the last"
        " operation had started, while users went idle; until then the rate was"
        f" {rate:,.1f} operations/s ({megabytes}).",
        share_after=found.share_after,
        requests_per_s=rate,
        moved_bytes_per_s=moved,
    )


def notes_of_compared(stats: RunStats, hosts: Sequence[HostLoad]) -> list[Note]:
    """What is wrong with a run that is compared: each line is about its figures."""
    missing = Note(Level.SEVERE, "some of its results are missing")
    found = [] if stats.run.complete else [missing]
    found += [
        Note(Level.SEVERE, f"{line}; the run is not judged") for line in _missing_users(stats)
    ]
    found += [note for note in steadiness_notes(stats) if "text" in note.formats]
    return [*found, *other_work(hosts)]


def cause_text(kind: int, status: int) -> str:
    """``status 503``, and of other causes the label alone."""
    return f"{error_label(kind)} {status}" if kind == ErrorKind.STATUS else error_label(kind)


def _skipped(stats: RunStats) -> Iterator[Note]:
    """That the mix of operations is not the scenario's, and which of them never ran."""
    run = stats.run
    drawn = run.skipped_count + stats.total().operations + stats.left_out
    if run.skipped_count and run.skipped_count >= _MIX_SHARE * drawn:
        share = run.skipped_count / drawn
        yield _note(
            "mix",
            f"{100 * share:.1f} % of the drawn operations found no object, so the mix of"
            " operations differs from the scenario's; use more initial objects or fewer users.",
            skipped_share=share,
        )
    if stats.left_out:  # they may have run then
        return
    ran = {row_of(number).name for number in stats.operations if stats.total(number).operations}
    for name, count in run.skipped.items():
        if not count or name in ran:
            continue
        row = operation_named(name)
        what = "object was free for it"
        if row and row.target is Target.VERSION:
            what = "older version was known; the store may not state the ids of versions"
        yield _note("never_ran", f"{printable(name)} never ran: no {what}.", Level.WARNING)


def _note(name: str, sentence: str, level: Level = Level.NOTE, **figures: float | None) -> Note:
    return Note(level, sentence, {"note": name, **figures})
