"""A run's statistics as a report. A new figure is a line here, a new block a section; what its key
means is in docs/report-1.schema.json."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from statistics import fmean, pstdev

from msgspec import structs

from ssbench.core.model import UNKNOWN_SIZE, Phase, Profile, SizeClass, Stage, error_label
from ssbench.core.operations import CRUD, Operation, row_of
from ssbench.core.records import RunHeader
from ssbench.core.stats.findings import arrivals, steady
from ssbench.core.stats.merge import Part
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.selection import Selection
from ssbench.core.stats.tally import ErrorExample
from ssbench.core.stats.thresholds import (
    Threshold,
    thresholds_of_run,
)
from ssbench.core.text import plural
from ssbench.report import notes, summary
from ssbench.report.as_classic import as_0_3_9
from ssbench.report.figures import (
    around_facts,
    operation_facts,
    parts_section,
    source_sections,
    tally_facts,
    threshold_facts,
)
from ssbench.report.load_generator import (
    clocks_section,
    host_use_section,
    load_generator_section,
    profile_section,
)
from ssbench.report.model import (
    BYTES,
    COUNT,
    DATA,
    RATE,
    SCHEMA_VERSION,
    SECONDS,
    WALL_CLOCK,
    WORD,
    Chart,
    Column,
    Fact,
    LazyRows,
    Note,
    Report,
    Row,
    Section,
    Table,
    all_percentiles,
    as_row,
    fact,
    latency_name,
    percentile_column,
    percentile_facts,
    percentile_row,
    plain_note,
    quantiles,
    section_of,
    sparse_notes,
)

_MOST_URLS = 3  #: in a line
_OF_SECONDS = (50, 99)  #: percentiles
_AROUND = (Phase.POPULATE, Phase.CLEANUP)


def of_run(
    stats: RunStats,
    percentiles: Sequence[float] = (95.0,),
    thresholds: Sequence[Threshold] = (),
    *,
    stats_file: str | None = None,
    parts: Sequence[Part] = (),
) -> Report:
    """The report of a run.

    :param percentiles: beside the usual ones; the first is the column of the text's tables.
    :param thresholds: conditions that the run is judged by, beside those of its scenario.
    :param stats_file: path of its results, for the summary.
    :param parts: the runs that it is merged from, if it is.
    :raises ValueError: as ``all_percentiles``.
    """
    percents = all_percentiles(percentiles)
    operations = [
        [fact("operation", stats.operation_name(each), WORD),
         *operation_facts(stats, each, percents)]
        for each in stats.operations
    ]  # fmt: skip
    thresholds = thresholds_of_run(stats, thresholds)
    judged = [threshold_facts(threshold.judge(stats)) for threshold in thresholds]
    classes = [each for row in map(as_row, operations) for each in row["size_classes"].rows]
    sections = [
        Section("", facts=[SCHEMA_VERSION]),
        _run(stats),
        store_section(stats.run.header),
        _settings(stats),
        Section("total", facts=operation_facts(stats, None, percents)),
        section_of(Table.of("operations", operations, by="operation")),
        section_of(_around(stats)),
        section_of(_errors("errors", stats, Phase.RUN)),
        Section("phase_errors", tables=[_errors(each.name, stats, each) for each in _AROUND]),
        _workers(stats),
        Section("completions_per_s", facts=[_completions(stats)]),
        section_of(_stages(stats, percents)),
        _seconds(stats),
        Section("steadiness", notes=notes.steadiness_notes(stats)),
        Section("notes", notes=list(notes.run_notes(stats))),
        *([_marked(stats)] if stats.run.events else []),
        section_of(Table.of("thresholds", judged, csv="threshold")),
        load_generator_section(stats),
        host_use_section(stats),
        clocks_section(stats),
        _verified(stats),
        _counters(stats),
        *([profile_section(stats.run)] if stats.run.profiles else []),
        *([_merged(parts)] if parts else []),
        *([part_section(stats.chosen)] if stats.chosen else []),
        *source_sections(stats),
        *parts_section(stats),
        Section("legend", notes=_legend(classes), formats="text"),
        Section("ending", notes=list(notes.ending_notes(stats, parts)), formats="text json"),
        Section("warnings", notes=notes.warning_notes(stats), formats="text"),
    ]
    sections.append(
        summary.of_run({each.key: each for each in sections}, steady(stats), stats_file)
    )
    report = Report("run", sections, percentiles[0], charts=partial(_charts, stats))
    return as_0_3_9(report, stats) if "load" in stats.run.unrecorded else report


def _around(stats: RunStats) -> Table:
    """The phases before and after the run."""
    phases = [
        [fact("phase", each.name, WORD, title="Phase"), *around_facts(stats.phase(each))]
        for each in _AROUND
    ]
    return Table.of("phases", phases, by="phase")


def _stages(stats: RunStats, percents: Sequence[float]) -> Table:
    stages = [_stage(stats, index, percents) for index in range(stats.stage_count)]
    title = f"STAGES (latencies: {latency_name(map(as_row, stages))})"
    return Table.of("stages", stages, title=title, formats="json")


def _charts(stats: RunStats) -> Iterator[Chart]:
    from ssbench.report.charts import run_charts  # of all formats, pages alone draw

    return run_charts(stats)


def _legend(rows: Iterable[Row]) -> list[Note]:
    """What the mark of a percentile means, where one is shown."""
    return sparse_notes(v for row in rows for v in row["last_byte_latency"].percentiles.values())


def _run(stats: RunStats) -> Section:
    """The run as a whole, in the order of JSON's keys."""
    run = stats.run
    header, footer, view, after = run.header, run.footer, run.scenario, stats.after_end
    asked = max((users.most_asked for users in run.stage_users), default=view.user_count or None)
    after_count, after_s = after or (0, None)
    facts = [
        fact("run_id", header and header.run_id, WORD, DATA),
        fact("ssbench_version", header and header.ssbench_version, WORD, DATA),
        fact("scenario", header and header.scenario, WORD, "json"),
        fact("scenario_given", header and header.scenario_given, WORD, "json"),
        fact("overrides", header and header.overrides, WORD, "json"),
        fact("seed", header and header.seed, COUNT, DATA),
        fact("driver", header and header.driver, WORD, DATA),
        fact("store_involved", not run.no_store, WORD, DATA),
        fact("hosts", header and header.hosts, WORD, "json"),
        fact("versions", header and header.versions, WORD, "json"),
        *_mix_facts(stats),
        fact("complete", run.complete, WORD, "json"),
        fact("damage", run.damage, WORD, "json"),
        fact("ended", run.ending, WORD, DATA),
        fact("reason", footer and footer.reason, WORD, "json"),
        fact("started_at_s", stats.started_s, WALL_CLOCK, DATA, csv="start_time"),
        fact("ended_at_s", stats.ended_s, WALL_CLOCK, DATA, csv="stop_time"),
        fact("duration_s", stats.duration_s, SECONDS, DATA, csv="duration"),
        fact("users", asked, COUNT, "json"),
        fact("users_ran", run.users_ran, COUNT, DATA),
        fact("short_of_users", run.short_of_users, WORD, "json"),
        fact("sent", run.sent, COUNT, DATA),
        fact("lost", run.lost, COUNT, DATA),
        fact("unaccounted", stats.unaccounted, COUNT, DATA),
        fact("late", run.late, COUNT, DATA),
        *_arrivals(stats),
        fact("refused", run.refused, COUNT, DATA),
        fact("skipped", run.skipped, COUNT, "json"),
        fact("out_of_range", stats.out_of_range, COUNT, DATA),
        fact("left_out", stats.left_out, COUNT, DATA),
        fact("rate_basis", stats.rate_basis.value, WORD, DATA),
        fact("completed_after_end", after_count, COUNT, DATA),
        fact("completed_after_end_s", after_s, SECONDS, DATA),
        fact("warmup_s", run.warmup_s, SECONDS, DATA),
        fact("cooldown_s", view.cooldown, SECONDS, DATA),
        fact("left_behind", run.left_behind, COUNT, DATA),
        fact("left_unknown", run.left_unknown, COUNT, DATA),
        fact("workers_lost", run.workers_lost, WORD, "json"),
        fact("warnings", run.warnings, WORD, "json"),
    ]
    return Section("run", facts=facts, prefix="")


def _mix_facts(stats: RunStats) -> list[Fact]:
    """The size classes, and the shares of the operations."""
    run, view = stats.run, stats.run.scenario
    files = sum(size.initial_files for size in view.sizes)
    # With operations of stages the mix depends on how many operations each does.
    planned = () if any(each.profile or each.groups for each in view.stages) else view.profile
    sizes = [
        _size(
            structs.replace(size, profile=planned and size.profile),
            size.initial_files / files if files else 1 / len(view.sizes),
            run.operations,
        )
        for size in view.sizes
    ]
    return [
        fact("sizes", Table.of("sizes", sizes), WORD, "json"),
        fact("crud_weighted_average", _crud(planned), WORD, "json"),
        fact("operations_weighted_average", _named(planned, run.operations), WORD, "json"),
    ]


def part_section(chosen: Selection) -> Section:
    """The part of the run, or of each run, that all figures are of."""
    facts = [
        fact("line", chosen.text, WORD, csv="part"),
        fact("from_s", chosen.from_s, SECONDS, "json"),
        fact("to_s", chosen.to_s, SECONDS, "json"),
        fact("warmup_s", chosen.warmup_s, SECONDS, "json"),
        fact("stage", chosen.stage, WORD, "json"),
        fact("operations", chosen.operation_names, WORD, "json"),
        fact("size_classes", chosen.size_class_names, WORD, "json"),
        fact("endpoints", chosen.endpoint_names, WORD, "json"),
        fact("addresses", chosen.address_names, WORD, "json"),
        fact("identities", chosen.identity_names, WORD, "json"),
        fact("workers", chosen.worker_names, WORD, "json"),
    ]
    return Section("part", facts=facts, formats="csv json")


def store_section(header: RunHeader | None) -> Section:
    """Which store was measured; nothing where there was none, or the file does not say."""
    place = header.store if header else {}
    urls, given = place.get("urls"), header.scenario if header and place else {}
    existing = place.get("existing")
    base = None if existing else given.get("container_base")
    is_base = not header or header.names.get("kind") != "listed"  # else the container's own name
    kind = header.driver if header and place else None
    listed = list(urls) if isinstance(urls, list | tuple) else None
    of = place.get("identities")
    names = list(map(str, of)) if isinstance(of, list | tuple) else None
    facts = [
        fact("kind", kind, WORD, "json"),
        fact("urls", listed, WORD, "json"),
        fact("region", place.get("region"), WORD, "json"),
        fact("bucket", place.get("bucket"), WORD, "json"),
        fact("directory", place.get("path"), WORD, "json"),
        fact("existing", existing, WORD, "json"),
        fact("identities", names, WORD, "json"),
        fact("container_base", base, WORD, "json"),
        fact("policy", given.get("policy"), WORD, "json"),
    ]
    facts.append(_store_line(facts, is_base=is_base))
    return Section("store", facts=facts, formats="text csv json")


def _store_line(facts: Sequence[Fact], *, is_base: bool) -> Fact:
    """``s3 at http://h:9000, region r, bucket b, container base ssbench``."""
    values = {each.column.key: each.value for each in facts}
    urls = [str(url) for url in values.pop("urls") or ()]
    more = f" and {len(urls) - _MOST_URLS} more" if len(urls) > _MOST_URLS else ""
    where = f" at {', '.join(urls[:_MOST_URLS])}{more}" if urls else ""
    kind = values.pop("kind")
    names = values.pop("identities") or ()
    words = {"container_base": "container base" if is_base else "container"}
    parts = [f"{words.get(key, key)} {value}" for key, value in values.items() if value]
    parts += [plural(len(names), "identity")] if names else []
    line = ", ".join([f"{kind}{where}", *parts]) if kind else None
    return fact("line", line, WORD, csv="store")


def _arrivals(stats: RunStats) -> list[Fact]:
    """Nothing in a closed loop."""
    if not stats.lateness.count:
        return []
    found = arrivals(stats)
    return [
        fact("due", found and found.due, COUNT, "json"),
        fact("due_per_s", found and found.due_per_s, RATE, "json"),
        fact("due_completed", found and found.completed, COUNT, "json"),
        fact("rate_missed", found and found.missed, WORD, "json"),
        *percentile_facts("lateness", quantiles(stats.lateness, (50, 99, 100)), "json"),
    ]


def _named(profile: Profile, known: Mapping[int, Operation]) -> dict[str, float] | None:
    """Shares by the operations' names, also those of CRUD that are 0 if there are no others."""
    if not profile:
        return None
    shares = dict(profile)
    rows = shares if shares.keys() - {*CRUD} else CRUD
    return {row_of(row, known).name: shares.get(row, 0.0) for row in rows}


def _crud(profile: Profile) -> list[float] | None:
    return [dict(profile).get(row, 0.0) for row in CRUD] if profile else None


def _known(size: int) -> int | None:
    return None if size == UNKNOWN_SIZE else size


def _size(size: SizeClass, share: float, known: Mapping[int, Operation]) -> list[Fact]:
    return [
        fact("name", size.name, WORD),
        fact("size_min", _known(size.size_min), BYTES),
        fact("size_max", _known(size.size_max), BYTES),
        fact("initial_files", size.initial_files, COUNT),
        fact("share", share, COUNT),
        fact("profile", _named(size.profile, known), WORD),
        fact("crud", _crud(size.profile), WORD),
    ]


def _settings(stats: RunStats) -> Section:
    """What JSON has only inside the scenario; and the lines about the load."""
    run, view = stats.run, stats.run.scenario
    block_size = None if "block size" in run.unrecorded else view.block_size
    begin_s, end_s = stats.whole_run_s or (None, None)
    window_s = stats.total().throughput.seconds
    facts = [
        fact("scenario_name", view.name, WORD),
        fact("worker_count", stats.worker_count, COUNT),
        fact("concurrency", view.user_count or None, COUNT),
        fact("delete_after", view.delete_after, SECONDS),
        fact("policy", view.policy, WORD),
        fact("block_size", block_size, COUNT),
        fact("skipped", run.skipped_count, COUNT, "csv"),
        fact("rate", view.rate, RATE, "csv"),
        fact("rate_window_s", window_s, SECONDS, "csv"),
        fact("run_started_at_s", begin_s, WALL_CLOCK, "text"),
        fact("run_ended_at_s", end_s, WALL_CLOCK, "text"),
        fact("excludes", notes.excluded_text(stats), WORD, "text"),
    ]
    found = [] if run.header is None else _plain(notes.load_lines(stats))
    return Section("settings", facts=facts, notes=found, prefix="", formats="text csv")


def _marked(stats: RunStats) -> Section:
    """What somebody marked during the run."""
    rows = [
        [
            fact("at_s", at_s, SECONDS, title="at"),
            fact("time", event.at_s, WALL_CLOCK),
            fact("who", event.who, WORD),
            fact("text", event.text, WORD, title="mark"),
        ]
        for at_s, event in stats.marked
    ]
    return section_of(Table.of("marks", rows), "MARKS")


def _errors(key: str, stats: RunStats, phase: Phase) -> Table:
    errors = stats.errors if phase is Phase.RUN else stats.phase_errors(phase)
    rows = [
        [
            fact("kind", error_label(kind), WORD),
            fact("status", status or None, COUNT),
            fact("count", error.count, COUNT),
            fact("example", _example(stats, error.example), WORD),
        ]
        for (kind, status), error in sorted(errors.items())
    ]
    return Table.of(key, rows, formats="json")


def _example(stats: RunStats, example: ErrorExample) -> Row:
    return {
        "operation": stats.operation_name(example.operation),
        "detail": example.detail,
        "transaction_id": example.transaction_id.decode("utf-8", "replace"),
        "at_s": example.at_ns / 1e9,
    }


def _workers(stats: RunStats) -> Section:
    by_worker = stats.requests_per_worker()
    counts = list(by_worker.values())
    mean, std_dev = (fmean(counts), pstdev(counts)) if counts else (None, None)
    facts = [
        fact("requests_by_worker_id", by_worker, COUNT, "json"),
        fact("requests_min", min(counts, default=None), COUNT, "json"),
        fact("requests_max", max(counts, default=None), COUNT, "json"),
        fact("requests_mean", mean, COUNT, "json"),
        fact("requests_std_dev", std_dev, COUNT, "json"),
    ]
    return Section("workers", facts=facts)


def _completions(stats: RunStats) -> Fact:
    return fact("completions_per_s", stats.completions(), COUNT, "json")


def _stage(stats: RunStats, index: int, percents: Sequence[float]) -> list[Fact]:
    marks = stats.run.stages
    mark = marks[index] if index < len(marks) else None
    ran = stats.run.stage_users[index] if mark else None
    by_time = [{"from_s": at_s, "users": users} for at_s, users in ran.ran] if ran else []
    warmup_s = stats.run.scenario.warmup_of(index)
    load = stats.run.scenario.load
    stage = load[index] if index < len(load) else Stage(0.0)
    users_to, rate_to = stage.ends
    return [
        fact("name", stage.name, WORD),
        fact("users", mark and mark.users, COUNT),
        fact("users_to", users_to, COUNT),
        fact("users_ran", ran and ran.least, COUNT),
        fact("users_by_time", by_time, COUNT),
        fact("short_of_users", ran and ran.short, WORD),
        fact("rate_per_s", mark and mark.rate, RATE),
        fact("rate_to_per_s", rate_to, RATE),
        fact("seconds", stats.stage_seconds(index), SECONDS),
        fact("warmup_s", warmup_s, SECONDS),
        *_in_time(stats, index),
        *tally_facts(stats.total(stage=index), percents),
    ]


def _in_time(stats: RunStats, stage: int) -> list[Fact]:
    """Nothing in a closed loop; zeros of a stage of which nothing was started."""
    if not stats.lateness.count:
        return []
    punctuality = stats.punctuality.get(stage)
    found = punctuality and punctuality.in_time
    missed = stats.missed_rate(stage)
    return [
        fact("due", found.due if found else 0, COUNT, "json"),
        fact("due_completed", found.completed if found else 0, COUNT, "json"),
        fact("rate_missed", missed, WORD, "json"),
    ]


def _seconds(stats: RunStats) -> Section:
    columns = [
        Column("second", COUNT),
        Column("operations", COUNT),
        Column("errors", COUNT),
        Column("moved_bytes", BYTES),
        *(percentile_column(of, p) for of in ("service", "response") for p in _OF_SECONDS),
        Column("in_flight", COUNT),
    ]
    rows = LazyRows(partial(_of_seconds, stats))
    return section_of(Table("seconds", columns, rows, formats="json"))


def _of_seconds(stats: RunStats) -> Iterator[Row]:
    """A row for each second, warm-up and cool-down included."""
    has_bytes = stats.total().has_bytes
    for second in stats.seconds():
        yield {
            "second": second.second + 1,
            "operations": second.count,
            "errors": second.errors,
            "moved_bytes": second.bytes_moved if has_bytes else None,
            **percentile_row("service", quantiles(second.service, _OF_SECONDS)),
            **percentile_row("response", quantiles(second.response, _OF_SECONDS)),
            "in_flight": second.in_flight,
        }


def _merged(parts: Sequence[Part]) -> Section:
    rows = []
    for part in parts:
        run, header = part.run, part.header
        asked = max(users.asked for users in run.stage_users)
        rows.append([
            fact("file", part.name, WORD),
            fact("run_id", header.run_id, WORD, title="run"),
            fact("host", header.hosts.get("hostname"), WORD),
            fact("started_at_s", part.begins_ns[0] / 1e9, WALL_CLOCK, title="began"),
            fact("users", asked, COUNT),
            fact("users_ran", run.users_ran, COUNT, title="ran"),
            fact("sent", run.sent, COUNT),
            fact("ended", run.ending, WORD),
        ])  # fmt: skip
    table = Table.of("merged", rows, formats="text json")
    return section_of(table, f"MERGED RUNS OF {len(parts)} MASTERS")


def _verified(stats: RunStats) -> Section:
    """None of it is known where the run was not verified."""
    found = stats.verified
    example = _example(stats, found.example) if found and found.example else None
    facts = [
        fact("reads", found and found.reads, COUNT, DATA),
        fact("bytes_read", found and found.bytes_read, COUNT, DATA),
        fact("corrupt", found and found.corrupt, COUNT, DATA),
        fact("stale", found and found.stale, COUNT, DATA),
        fact("first_corrupt", example, WORD, "json"),
    ]
    return Section("verified", facts=facts)


def _counters(stats: RunStats) -> Section:
    """What a run should have none of, and other rare things: a line each, where not zero."""
    total, run = stats.total(), stats.run
    late_reads = "latencies excluded because the response was read late"
    rows = (
        ("Lost with their worker, or without a result (not counted above)", run.lost),
        ("Sent, but neither in the results nor known to be lost", stats.unaccounted),
        ("Fell due and never started", run.late),
        ("Retries after 404 (not among the retries above)", total.not_found_retries),
        ("Responses that asked to slow down", total.rate_limited),
        ("Idle connections found closed and replaced", total.reconnects),
        ("Operations restarted with a new token", total.renewals),
        (f"First-byte {late_reads}", total.first_byte.uncertain),
        (f"Header {late_reads}", total.headers.uncertain),
        ("Out of range (took over an hour, or its timestamp cannot be right)", stats.out_of_range),
        ("Result messages rejected (stale or malformed)", run.refused),
        ("Orphaned objects", run.left_behind),
        ("Objects possibly orphaned (unknown whether they were created or deleted)",
         run.left_unknown),
    )  # fmt: skip
    facts = [fact(words, count, COUNT) for words, count in rows if count]
    return Section(
        "counters", facts=facts, notes=_plain(notes.counter_lines(stats)), formats="text"
    )


def _plain(lines: Iterable[str]) -> list[Note]:
    return [plain_note(line) for line in lines]
