"""The CSV report: a line of column names and a line of values.

The columns of ssbench 0.3.9 come first, in its order and with its forms of values; ours follow.
Which columns there are depends on the scenario, and on which classes had results of an
operation. Latencies are in seconds, as there.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from ssbench.core.model import Phase
from ssbench.core.stats.headroom import HeadroomVerdict
from ssbench.core.stats.run_stats import RunStats, operation_name
from ssbench.core.stats.tally import COUNTERS, Counts, Latency, Tally
from ssbench.core.stats.verified import VERIFIED
from ssbench.core.text import printable
from ssbench.report import cells
from ssbench.report.options import ReportOptions, percent_text
from ssbench.report.threshold_text import threshold_columns

Cell = tuple[str, str | int | float | None]

_NO_MINIMUM, _NOTHING = " N/A  ", "  N/A  "  # padded so in 0.3.9
_DIGITS = 6


def render_csv(stats: RunStats, options: ReportOptions) -> str:
    """Two lines, names and values."""
    columns = [*_run_columns(stats)]
    blocks = [("total", None), *((operation_name(o).lower(), o) for o in stats.operations)]
    for name, operation in blocks:
        columns += _block_columns(stats, options, name.replace(" ", "_"), operation)
    columns += _new_columns(stats, options)
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerow([printable(name) for name, _value in columns])
    writer.writerow([printable(v) if isinstance(v, str) else v for _name, v in columns])
    return out.getvalue()


def _run_columns(stats: RunStats) -> Iterator[Cell]:
    run, view = stats.run, stats.run.scenario
    yield "scenario_name", view.name
    yield "ssbench_version", run.header.ssbench_version if run.header else ""
    yield "worker_count", stats.worker_count
    yield "concurrency", view.user_count
    yield "start_time", cells.time_text(stats.started_s)
    yield "stop_time", cells.time_text(stats.ended_s)
    yield "duration", stats.duration_s
    yield "delete_after", str(view.delete_after)


def _block_columns(
    stats: RunStats, options: ReportOptions, name: str, operation: int | None
) -> Iterator[Cell]:
    everything = stats.total(operation)
    yield f"{name}_count", everything.count
    yield f"{name}_errors", everything.errors
    yield f"{name}_retries", everything.retries
    retried, rate = everything.retry_percent, everything.rate_per_s
    yield f"{name}_retry_rate", _NOTHING if retried is None else f"{retried:.6f}"
    yield f"{name}_avg_req_per_s", _NOTHING if rate is None else round(rate, _DIGITS)
    yield from _latency_columns(options, f"{name}_%s_all", everything)
    for size_class in stats.classes(operation):
        label = stats.class_name(size_class).replace("%", "%%")
        yield from _latency_columns(
            options, f"{name}_%s_{label}", stats.total(operation, size_class)
        )


def _latency_columns(options: ReportOptions, pattern: str, tally: Tally) -> Iterator[Cell]:
    percent = options.percentiles[0]
    for part, latency in (("first", tally.first_byte), ("last", tally.last_byte)):
        prefix = pattern % part
        histogram = latency.histogram
        yield f"{prefix}_min", _seconds(histogram.min, _NO_MINIMUM)
        yield f"{prefix}_max", _seconds(histogram.max)
        yield f"{prefix}_avg", _seconds(histogram.mean)
        yield f"{prefix}_std_dev", _seconds(histogram.std_dev)
        yield _percentile_column(prefix, latency, percent)
        yield f"{prefix}_worst_txid", _worst(latency)


def _percentile_column(prefix: str, latency: Latency, percent: float) -> Cell:
    value = _seconds(latency.histogram.quantile(percent))
    return f"{prefix}_{percent_text(percent)}_pctile", value


def _seconds(value_ns: float | None, nothing: str = _NOTHING) -> str | float:
    return nothing if value_ns is None else round(value_ns / 1e9, _DIGITS)


def _or_nothing(value: int | None) -> str | int:
    return _NOTHING if value is None else value


def _worst(latency: Latency) -> str:
    return cells.transaction_text(latency.worst[1]) if latency.worst else ""


def _new_columns(stats: RunStats, options: ReportOptions) -> Iterator[Cell]:
    """Those that 0.3.9 doesn't have. Listed in docs/report.rst."""
    run, view = stats.run, stats.run.scenario
    header = run.header
    yield "run_id", header.run_id if header else ""
    yield "ended", run.ending
    yield "seed", header.seed if header else None
    yield "driver", header.driver if header else ""
    yield "policy", view.policy or ""
    yield "block_size", view.block_size
    for counter in ("lost", "late", "refused", "left_behind"):
        yield counter, getattr(run, counter)
    yield "skipped", sum(run.skipped.values())
    yield "out_of_range", stats.out_of_range
    blocks = [("total", None), *((operation_name(o).lower(), o) for o in stats.operations)]
    for name, operation in blocks:
        yield from _new_block_columns(stats, options, name.replace(" ", "_"), operation)
    for phase in (Phase.POPULATE, Phase.CLEANUP):
        yield from _phase_columns(phase.name.lower(), stats.phase(phase))
    yield "rate", view.rate
    yield "warmup_s", view.warmup_s
    yield "cooldown_s", view.cooldown_s
    yield "left_out", stats.left_out
    for name, operation in blocks:
        yield from _response_columns(options, name.replace(" ", "_"), stats.total(operation))
    yield "sent", run.sent
    yield "unaccounted", stats.unaccounted
    yield from _verdict_columns(stats.verdict())
    yield "users_ran", run.users_ran
    yield "rate_basis", stats.rate_basis.value
    yield "rate_window_s", _rounded(stats.total().throughput.seconds)
    yield "completed_after_end", stats.after_end.operations if stats.after_end else 0
    yield "completed_after_end_s", _rounded(stats.after_end.seconds if stats.after_end else None)
    for name in VERIFIED:
        yield f"verified_{name}", getattr(stats.verified, name, None)
    yield "left_unknown", run.left_unknown
    yield "store_involved", int(not run.no_store)
    yield from threshold_columns(stats, options.thresholds)


def _new_block_columns(
    stats: RunStats, options: ReportOptions, name: str, operation: int | None
) -> Iterator[Cell]:
    tally = stats.total(operation)
    yield f"{name}_bytes", _or_nothing(tally.moved_bytes)
    rate = tally.bytes_per_s
    yield f"{name}_bytes_per_s", _NOTHING if rate is None else round(rate, _DIGITS)
    for counter in COUNTERS[1:]:
        yield f"{name}_{counter}", getattr(tally, counter)
    for percent in options.all_percentiles:
        if percent not in (options.percentiles[0], 100):  # 100 is the maximum, long there
            yield _percentile_column(f"{name}_first_all", tally.first_byte, percent)
            yield _percentile_column(f"{name}_last_all", tally.last_byte, percent)
    yield f"{name}_first_byte_uncertain", tally.first_byte.uncertain
    yield f"{name}_headers_uncertain", tally.headers.uncertain


def _verdict_columns(verdict: HeadroomVerdict) -> Iterator[Cell]:
    yield "load_generator", verdict.headroom.value
    yield "load_generator_busiest_core_percent", _rounded(verdict.busiest_core_percent)
    yield "load_generator_busiest_loop_percent", _rounded(verdict.busiest_loop_percent)
    yield "load_generator_loop_lag_max_s", _rounded(verdict.loop_lag_max_s)


def _rounded(value: float | None) -> str | float:
    return _NOTHING if value is None else round(value, _DIGITS)


def _response_columns(options: ReportOptions, name: str, tally: Tally) -> Iterator[Cell]:
    """From due to last byte; of a closed loop there are none."""
    histogram = tally.response.histogram
    yield f"{name}_response_min", _seconds(histogram.min)
    yield f"{name}_response_max", _seconds(histogram.max)
    yield f"{name}_response_avg", _seconds(histogram.mean)
    for percent in options.all_percentiles:
        yield _percentile_column(f"{name}_response", tally.response, percent)


def _phase_columns(name: str, counts: Counts) -> Iterator[Cell]:
    yield f"{name}_count", counts.count
    yield f"{name}_errors", counts.errors
    yield f"{name}_bytes", _or_nothing(counts.moved_bytes)
    yield f"{name}_seconds", _NOTHING if counts.seconds is None else round(counts.seconds, _DIGITS)
