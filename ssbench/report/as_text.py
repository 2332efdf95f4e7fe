"""The text report: the layout of ssbench 0.3.9, and more lines where there is more to say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ssbench.core.model import Phase
from ssbench.core.stats.run_stats import RunStats, operation_name
from ssbench.core.stats.scenario_view import other_operations
from ssbench.core.stats.tally import Counts, ErrorExample, ErrorTally, Latency, Tally
from ssbench.core.stats.verified import Verified
from ssbench.core.text import bytes_text, plural, printable
from ssbench.report import cells
from ssbench.report.host_text import verdict_lines
from ssbench.report.load_text import (
    leaves_out,
    load_lines,
    missing_users_lines,
    stage_lines,
    users_text,
)
from ssbench.report.notes import note_lines
from ssbench.report.options import ReportOptions, percent_text
from ssbench.report.steady_text import steady_lines
from ssbench.report.threshold_text import threshold_lines

_RULE = "-" * 69
_RATE = "Average requests per second:"
_ALL = "all obj sizes"
#: How a run ended -> what the report says of it, above everything else.
_ENDINGS = {
    "interrupted": "INTERRUPTED: the run was stopped before its end",
    "failed": "FAILED: the run did not reach its end",
    "exhausted": "EXHAUSTED: no object was left for the operations that the scenario asks for",
}
_CUT_OFF = "INCOMPLETE: some results of the run are missing; the figures below cover the rest"


def render_text(stats: RunStats, options: ReportOptions) -> str:
    """The report for people, ending with a newline."""
    lines = [
        "",
        *_header(stats),
        "",
        *_scenario_table(stats),
    ]
    for title, operation in [("TOTAL", None), *((operation_name(o), o) for o in stats.operations)]:
        lines += ["", title, *_block(stats, options, operation)]
    for section in (
        stage_lines(stats),
        _errors("POPULATE ERRORS", stats.phase_errors(Phase.POPULATE)),
        _errors("ERRORS", stats.errors),
        _errors("CLEAN-UP ERRORS", stats.phase_errors(Phase.CLEANUP)),
        _counters(stats),
        _workers(stats),
        [*steady_lines(stats), *note_lines(stats)],
        _load_generator(stats),
        _warnings(stats),
        threshold_lines(stats, options.thresholds),
    ):
        found = list(section)
        if found:
            lines += ["", *found]
    return "\n".join(line.rstrip("\n") for line in lines) + "\n"


def _header(stats: RunStats) -> Iterator[str]:
    run, view = stats.run, stats.run.scenario
    version = printable(run.header.ssbench_version) if run.header else "unknown"
    yield f"{printable(view.name)}  (generated with ssbench version {version})"
    # Of several stages, each says its users in a line of its own.
    ran = run.stage_users[0] if len(run.stage_users) == 1 else None
    users = users_text(view.user_count, ran)
    yield f"Worker count: {stats.worker_count:3}   Concurrency: {users:>3}  {_when(stats)}"
    yield f"Object expiration (X-Delete-After): {view.delete_after} (sec)"
    if not run.legacy:
        yield from _more_header(stats)
    yield from _ending(stats)


def _when(stats: RunStats) -> str:
    """``Ran A to B (13s)``; where a part of it counts: ``, 10s of it counted``."""
    counted = "N/A" if stats.duration_s is None else f"{stats.duration_s:.0f}s"
    first, last = cells.time_text(stats.started_s), cells.time_text(stats.ended_s)
    if not leaves_out(stats):
        return f"Ran {first} to {last} ({counted})"
    if stats.whole_run_s is None:
        return f"Counted {first} to {last} ({counted})"
    begin_s, end_s = stats.whole_run_s
    whole = f"{cells.time_text(begin_s)} to {cells.time_text(end_s)} ({end_s - begin_s:.0f}s)"
    return f"Ran {whole}, {counted} of it counted"


def _more_header(stats: RunStats) -> Iterator[str]:
    header, view = stats.run.header, stats.run.scenario
    if header is None:
        return
    yield (
        f"Seed: {header.seed}   Storage: {printable(header.driver)}   "
        f"Policy: {printable(view.policy or 'default')}   "
        f"Block size: {'N/A' if view.block_size is None else view.block_size}"
    )
    if header.overrides:
        given = (f"{key}={value}" for key, value in header.overrides.items())
        yield "Overridden on the command line: " + printable(", ".join(given))
    yield from load_lines(stats)
    yield from _verified(stats.verified)
    if Phase.POPULATE in stats.phases:
        yield f"Initial objects: {_phase_text(stats.phase(Phase.POPULATE), 'uploaded')}"
    if Phase.CLEANUP in stats.phases:
        yield f"Clean-up: {_phase_text(stats.phase(Phase.CLEANUP), 'moved')}"


def _verified(verified: Verified | None) -> Iterator[str]:
    if verified is None:
        return
    yield (
        f"Verified: {verified.reads:,} READs, {bytes_text(verified.bytes_read)}; "
        f"{verified.corrupt:,} corrupt, {verified.stale:,} stale"
    )
    if verified.example:
        yield f"  First corrupt: {_example_text(verified.example)}"


def _phase_text(counts: Counts, verb: str) -> str:
    took = "" if counts.seconds is None else f" in {counts.seconds:.1f} s"
    moved = f", {bytes_text(counts.moved_bytes)} {verb}" if counts.moved_bytes else ""
    return f"{counts.count} done, {plural(counts.errors, 'error')}{moved}{took}"


def _ending(stats: RunStats) -> Iterator[str]:
    if not stats.run.complete:
        yield _CUT_OFF
        yield from (f"  {printable(fault)}" for fault in stats.run.damage)
    for footer in stats.run.footers.values():
        if footer.ended in _ENDINGS:
            reason = f" ({printable(footer.reason)})" if footer.reason else ""
            yield _ENDINGS[footer.ended] + reason
        elif footer.reason:
            yield f"Ended early: {printable(footer.reason)}"
    yield from missing_users_lines(stats)


def _scenario_table(stats: RunStats) -> Iterator[str]:
    view = stats.run.scenario
    others = other_operations(view.profile)
    named = "".join(f" {printable(name)}" for name in others)
    yield f"% Ops    C   R   U   D{named}       Size Range       Size Name"
    for size in view.sizes:
        yield (
            f"{100 * size.share:3.0f}%   %{cells.profile_cells(size.profile, others)}      "
            f"{cells.size_range(size)}  {printable(size.name)}"
        )
    yield _RULE
    yield f"        {cells.profile_cells(view.profile, others)}      CRUD weighted average"


def _block(stats: RunStats, options: ReportOptions, operation: int | None) -> Iterator[str]:
    everything = stats.total(operation)
    yield _count_line(everything, throughput=not stats.run.legacy)
    column = f"{percent_text(options.percentiles[0])}%-ile"
    yield f"{'':28}min       max      avg      std_dev  {column:26}Worst latency TX ID"
    parts = [(everything, _ALL)]
    for size_class in stats.classes(operation):
        label = f"{printable(stats.class_name(size_class)):>8} objs"
        parts.append((stats.total(operation, size_class), label))
    percent = options.percentiles[0]
    for tally, label in parts:
        yield _latency_line("First-byte latency", tally.first_byte, percent, label)
        yield _latency_line("Last-byte  latency", tally.last_byte, percent, label)
    is_open = everything.response.histogram.count
    for title, latency in (
        ("Service time (from start)" if is_open else "Last-byte", everything.last_byte),
        ("Response time (from due)", everything.response),
    ):
        if latency.histogram.count:
            yield _percentiles_line(title, latency, options)


def _count_line(tally: Tally, *, throughput: bool) -> str:
    rate = "  N/A" if tally.rate_per_s is None else f"{tally.rate_per_s:5.1f}"
    retried = "   N/A" if tally.retry_percent is None else f"{tally.retry_percent:5.2f}%"
    line = (
        f"       Count: {tally.count:5} ({tally.errors:5} error; {tally.retries:5} retries: "
        f"{retried})  {_RATE} {rate}"
    )
    # 0.3.9 doesn't store the size of what was read: a figure from its files would be too low.
    return f"{line}  Throughput: {cells.megabytes_per_s(tally.bytes_per_s)}" if throughput else line


def _latency_line(title: str, latency: Latency, percent: float, label: str) -> str:
    histogram = latency.histogram
    return (
        f"       {title}: {cells.seconds_cell(histogram.min, 6)} - "
        f"{cells.seconds_cell(histogram.max, 7)}  {cells.seconds_cell(histogram.mean, 7)}  "
        f"({cells.seconds_cell(histogram.std_dev, 7)})  "
        f"{cells.seconds_cell(histogram.quantile(percent), 7)}  "
        f"({label})  {cells.worst_cell(latency.worst)}"
    )


def _percentiles_line(title: str, latency: Latency, options: ReportOptions) -> str:
    percents = options.all_percentiles
    found = latency.histogram.quantiles(percents)
    named = ("max" if p == 100 else f"{percent_text(p)}%" for p in percents)
    pairs = (f"{n} {cells.milliseconds(v)}" for n, v in zip(named, found, strict=True))
    return f"       {title} percentiles: " + ", ".join(pairs)


def _errors(title: str, errors: Mapping[tuple[int, int], ErrorTally]) -> Iterator[str]:
    if not errors:
        return
    yield title
    yield f"       {'Count':>7}  {'Cause':20}Status  Example"
    ranked = sorted(errors.items(), key=lambda item: (-item[1].count, item[0]))
    for (kind, status), error in ranked:
        yield (
            f"       {error.count:7}  {cells.error_label(kind):20}"
            f"{cells.status_text(status):6}  {_example_text(error.example)}"
        )


def _example_text(example: ErrorExample) -> str:
    identifier = cells.transaction_text(example.transaction_id)
    text = printable(example.detail) or "no detail"
    return f"{operation_name(example.operation)}: {text}{f'  {identifier}' if identifier else ''}"


def _counters(stats: RunStats) -> Iterator[str]:
    """What a run should have none of, and other rare things: a line each, where not zero."""
    total, run = stats.total(), stats.run
    skipped = ", ".join(f"{printable(name)} {n}" for name, n in run.skipped.items() if n)
    if skipped:
        yield f"Skipped, no object to be had: {skipped}"
    rows = (
        (run.lost, "Lost with their worker, or without an end (not among the results)"),
        (stats.unaccounted or 0, "Sent, but neither among the results nor known to be lost"),
        (run.late, "Fell due and never started"),
        (total.not_found_retries, "Retries after 404 (not among the retries above)"),
        (total.rate_limited, "Responses that asked to slow down"),
        (total.reconnects, "Idle connections found closed and replaced"),
        (total.renewals, "Operations restarted with a new token"),
        (
            total.first_byte.uncertain,
            "First-byte latencies excluded because the response was read late",
        ),
        (total.headers.uncertain, "Header latencies excluded because the response was read late"),
        (stats.out_of_range, "Out of range (longer than an hour, or at an impossible time)"),
        (run.refused, "Result messages rejected (stale or malformed)"),
        (run.left_behind, "Orphaned objects"),
        (
            run.left_unknown,
            "Objects possibly orphaned (unknown whether they were created or deleted)",
        ),
    )
    if stats.after_end is not None:
        completed, seconds = stats.after_end
        yield (
            f"{plural(completed, 'operation')} completed in the {cells.short_time(seconds)} after"
            " the load ended"
        )
    for count, meaning in rows:
        if count:
            yield f"{meaning}: {count}"


def _workers(stats: RunStats) -> Iterator[str]:
    spread = stats.worker_spread
    if spread is None:
        return
    yield (
        f"Distribution of requests per worker-ID: {spread.min:7.3f} - {spread.max:7.3f} "
        f"(avg: {spread.mean:7.3f}; stddev: {spread.std_dev:7.3f})"
    )


def _load_generator(stats: RunStats) -> Iterator[str]:
    if not stats.run.legacy:  # 0.3.9 took no such figures
        yield from verdict_lines(stats.verdict())


def _warnings(stats: RunStats) -> Iterator[str]:
    for worker_id in stats.run.workers_lost:
        if any(worker_id in text for text in stats.run.warnings):
            continue  # a warning tells more
        yield f"Warning: worker {printable(worker_id)} was lost"
    for text in stats.run.warnings:
        yield f"Warning: {printable(text)}"
