"""Reports as CSV: a line of names and a line of values, or of a table a line for each row.

A run's columns begin with those of ssbench 0.3.9, in its order and with its forms of values.
Which columns there are depends on the scenario, and on which classes had results of an operation.
Latencies are in seconds, as there. New columns come at the end.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ssbench.core.model import Phase
from ssbench.core.records import MASTER, HostRecord, PhaseRecord, Record, RunHeader, WorkerRecord
from ssbench.core.stats.host_metrics import (
    DSTAT,
    FIGURES,
    HostKey,
    HostSeconds,
    bounded,
    core_name,
)
from ssbench.core.stats.tally import COUNTERS
from ssbench.core.text import for_spreadsheet, printable
from ssbench.report.model import (
    COUNT,
    PERCENT,
    WALL_CLOCK,
    Column,
    Distribution,
    Report,
    Row,
    Table,
    Unit,
    percent_text,
    time_text,
)

#: A run's columns in the order in which they came; a name in capitals is a group of columns for
#: each operation or phase.
_ORDER = (
    "scenario_name", "ssbench_version", "worker_count", "concurrency", "start_time", "stop_time",
    "duration", "delete_after", "BLOCKS",
    "run_id", "ended", "seed", "driver", "policy", "block_size", "lost", "late", "refused",
    "left_behind", "skipped", "out_of_range", "MORE_OF_BLOCKS", "PHASES",
    "rate", "warmup_s", "cooldown_s", "left_out", "RESPONSES",
    "sent", "unaccounted", "load_generator", "load_generator_busiest_core_percent",
    "load_generator_busiest_loop_percent", "load_generator_loop_lag_max_s", "users_ran",
    "rate_basis", "rate_window_s", "completed_after_end", "completed_after_end_s",
    "verified_reads", "verified_bytes_read", "verified_corrupt", "verified_stale",
    "left_unknown", "store_involved", "store", "SPARSE",
)  # fmt: skip
#: Of these, rounded and N/A where unknown; others are empty where unknown.
_MEASURED = {
    "load_generator_busiest_core_percent", "load_generator_busiest_loop_percent",
    "load_generator_loop_lag_max_s", "rate_window_s", "completed_after_end_s",
}  # fmt: skip
#: Figures of an operation: the first are those of ssbench 0.3.9; what is in neither comes last.
_FIGURES = ("count", "errors", "retries", "retry_rate", "avg_req_per_s")
_MORE_FIGURES = ("bytes", "bytes_per_s", *COUNTERS[1:])
_NO_MINIMUM, _NOTHING = " N/A  ", "  N/A  "  # padded so in 0.3.9
_DIGITS = 6

_Cell = tuple[str, Any]


def render_csv(report: Report) -> str:
    """A line of names, and the values."""
    if report.rows is not None:
        columns = [column for column in report.rows.columns if "csv" in column.formats]
        lines = [[_cell(row[column.key], column) for column in columns] for row in report.rows.rows]
        return _text([column.csv or column.key for column in columns], lines)
    cells = list(_run(report))
    return _text([printable(name) for name, _value in cells], [[value for _name, value in cells]])


def rps_csv(report: Report) -> str:
    """A run's requests-per-second histogram: successes completed in each second, as in ssbench
    0.3.9."""
    counts = report["completions_per_s"]["completions_per_s"]
    return _text(["Seconds Since Start", "Requests Completed"], enumerate(counts, 1))


def time_series_csv(report: Report) -> str:
    """A run by seconds."""
    (table,) = report["seconds"].tables
    lines = ([_cell(row[column.key], column) for column in table.columns] for row in table.rows)
    return _text([column.key for column in table.columns], lines, csv.QUOTE_MINIMAL)


def _text(
    names: Sequence[Any], lines: Iterable[Sequence[Any]], quoting: int = csv.QUOTE_NONNUMERIC
) -> str:
    out = io.StringIO()
    writer = csv.writer(out, quoting=quoting, lineterminator="\n")  # type: ignore[arg-type]
    writer.writerow(map(for_spreadsheet, names))
    writer.writerows(map(for_spreadsheet, line) for line in lines)
    return out.getvalue()


def _cell(value: Any, column: Column) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, list):
        return " ".join(map(str, value))
    if column.unit is WALL_CLOCK:
        return time_text(value)
    if value is not None and column.unit.stored != 1:
        return round(value / column.unit.stored, 9)
    return value


def _facts(report: Report) -> Iterator[_Cell]:
    """Facts and tables of all sections that have no layout of their own."""
    for section in report.sections:
        if "csv" in section.formats and section.key not in ("total", "operations", "phases"):
            prefix = f"{section.key}_" if section.prefix is None else section.prefix
            for fact in section.facts:
                if "csv" in fact.column.formats:
                    name = fact.column.csv or f"{prefix}{fact.column.key}"
                    yield name, _cell(fact.value, fact.column)
            for table in section.tables:
                if "csv" in table.formats:
                    yield from _rows(table)


def _rows(table: Table) -> Iterator[_Cell]:
    """A group of columns for each row, called by its number or name."""
    for number, row in enumerate(table.rows, 1):
        name = f"{table.csv or table.key}_{row[table.by] if table.by else number}"
        for column in table.columns:
            if "csv" in column.formats and column.key != table.by:
                of_table = column.key == table.csv
                yield name if of_table else f"{name}_{column.key}", _cell(row[column.key], column)


def _run(report: Report) -> Iterator[_Cell]:
    known, percent = dict(_facts(report)), report.percentile
    (table,), (phases,) = report["operations"].tables, report["phases"].tables
    blocks = [
        (row["operation"].lower().replace(" ", "_"), row, dict(_figures(table, row)))
        for row in report.operations
    ]
    for name in _ORDER:
        if name == "PHASES":
            for row in phases.rows:
                for figure, value in _figures(phases, row):
                    yield f"{row['phase'].lower()}_{figure}", value
            continue
        for block, row, figures in blocks if name.isupper() else ():
            if name == "BLOCKS":
                yield from ((f"{block}_{each}", figures.pop(each)) for each in _FIGURES)
                yield from _latencies(f"{block}_%s_all", row, percent)
                for of_class in row["size_classes"].rows:
                    label = printable(of_class["size_class"]).replace("%", "%%")
                    yield from _latencies(f"{block}_%s_{label}", of_class, percent)
            elif name == "MORE_OF_BLOCKS":
                yield from ((f"{block}_{each}", figures.pop(each)) for each in _MORE_FIGURES)
                yield from _more_latencies(block, row, percent)
            elif name == "RESPONSES":
                yield from _response(block, row)
            else:
                yield f"{block}_sparse_pctiles", " ".join(row["last_byte_latency"].sparse)
        if not name.isupper():
            yield name, _of_fact(name, known.pop(name))
    yield from known.items()
    for block, _row, figures in blocks:
        yield from ((f"{block}_{each}", value) for each, value in figures.items())


def _figures(table: Table, row: Row) -> Iterator[_Cell]:
    """The figures of a row but for its distributions and size classes."""
    for column in table.columns:
        name, value = column.csv or column.key, row.get(column.key)
        if "csv" in column.formats and column.key != table.by:
            percent = column.unit is PERCENT and value is not None
            yield name, f"{value:.{_DIGITS}f}" if percent else _rounded(value, column.unit)


def _of_fact(name: str, value: Any) -> Any:
    if name == "delete_after":
        return str(value)
    return _rounded(value) if name in _MEASURED else value


def _latencies(pattern: str, row: Row, percent: float) -> Iterator[_Cell]:
    for part in ("first", "last"):
        found, prefix = row[f"{part}_byte_latency"], pattern % part
        yield f"{prefix}_min", _seconds(found.min, _NO_MINIMUM)
        yield f"{prefix}_max", _seconds(found.max)
        yield f"{prefix}_avg", _seconds(found.mean)
        yield f"{prefix}_std_dev", _seconds(found.std_dev)
        yield _percentile(prefix, found, percent)
        yield f"{prefix}_worst_txid", printable(found.worst_id or "")


def _more_latencies(name: str, row: Row, column_percent: float) -> Iterator[_Cell]:
    first, last = row["first_byte_latency"], row["last_byte_latency"]
    for percent in first.percentiles:
        if percent not in (column_percent, 100):  # 100 is the maximum, which has a column
            yield _percentile(f"{name}_first_all", first, percent)
            yield _percentile(f"{name}_last_all", last, percent)
    yield f"{name}_first_byte_uncertain", first.uncertain
    yield f"{name}_headers_uncertain", row["headers_latency"].uncertain


def _response(name: str, row: Row) -> Iterator[_Cell]:
    """From due to last byte; N/A in a closed loop."""
    found, prefix = row["response_time"], f"{name}_response"
    for statistic, value in (("min", "min"), ("max", "max"), ("avg", "mean")):
        yield f"{prefix}_{statistic}", _seconds(getattr(found, value, None))
    for percent in row["last_byte_latency"].percentiles:
        yield _percentile(prefix, found, percent)


def _percentile(prefix: str, found: Distribution | None, percent: float) -> _Cell:
    value = found.percentiles[percent] if found else None
    return f"{prefix}_{percent_text(percent)}_pctile", _seconds(value)


def _seconds(value_ns: float | None, nothing: str = _NOTHING) -> str | float:
    return nothing if value_ns is None else round(value_ns / 1e9, _DIGITS)


def _rounded(value: float | None, unit: Unit = COUNT) -> str | float:
    if value is None:
        return _NOTHING
    return round(value if unit.stored == 1 else value / unit.stored, _DIGITS)


# --host-stats: from the records, as a long run has more of them than memory should hold

#: Columns before the figures.
_FIRST = ("phase", "at_s", "wall_clock_s", "worker_index", "worker_id", "host", "boot_id")


def host_columns(records: Iterable[Record]) -> list[str]:
    """The names of the columns for these records: of all figures, and one for each core."""
    known = {
        name for record in records if isinstance(record, HostRecord) for name in record.figures
    }
    cores: list[str] = []
    while core_name(len(cores)) in known:
        cores.append(core_name(len(cores)))
    return [*_FIRST, *FIGURES, *cores]


def host_rows(records: Iterable[Record], names: Sequence[str]) -> Iterator[str]:
    """A line of ``names``, then a line for each process and second, in the order of the records.

    A figure that a host could not give is empty.
    """
    started_s: dict[Phase, float] = {}
    ids: dict[int, str] = {MASTER: ""}
    yield _text(names, (), csv.QUOTE_MINIMAL)
    for record in records:
        if isinstance(record, PhaseRecord):
            started_s[record.phase] = record.started_at
        elif isinstance(record, WorkerRecord):
            ids[record.index] = record.worker_id
        elif isinstance(record, HostRecord):
            begin_s = started_s.get(record.phase)
            first = [
                record.phase.name,
                f"{record.at_s:.3f}",
                "" if begin_s is None else f"{begin_s + record.at_s:.3f}",
                record.worker,
                printable(ids.get(record.worker, "")),
                printable(record.host),
                printable(record.boot_id),
            ]
            figures = bounded(record.figures)
            values = (figures.get(name) for name in names[len(_FIRST) :])
            rounded = (None if value is None else round(value, _DIGITS) for value in values)
            yield _text([*first, *rounded], (), csv.QUOTE_MINIMAL)


# --dstat: as dstat's CSV files, without the lines before the names

_DSTAT_FIRST = ("host", "time", "epoch", "phase")


def hosts_of(records: Iterable[Record]) -> list[HostKey]:
    """The hosts with metrics, by their names."""
    return sorted({(r.host, r.boot_id) for r in records if isinstance(r, HostRecord)})


def dstat_head() -> str:
    """The names of the columns of ``dstat_rows``."""
    return _text([*_DSTAT_FIRST, *DSTAT], (), csv.QUOTE_MINIMAL)


def dstat_rows(records: Iterable[Record], host: HostKey) -> Iterator[str]:
    """A line for each second of a host: per cent, bytes, and bytes or events per second.

    A figure that the host could not give is empty.
    """
    started_s: dict[Phase, float] = {}
    seconds = HostSeconds()
    for record in records:
        if isinstance(record, RunHeader):
            seconds = HostSeconds()
        elif isinstance(record, PhaseRecord):
            started_s[record.phase] = record.started_at
        elif isinstance(record, HostRecord) and (record.host, record.boot_id) == host:
            if not seconds.is_new(record):
                continue
            begin_s = started_s.get(record.phase)
            epoch_s = None if begin_s is None else begin_s + record.at_s
            time = "" if epoch_s is None else time_text(epoch_s).removesuffix(" UTC")
            epoch = "" if epoch_s is None else f"{epoch_s:.3f}"
            figures = bounded(record.figures)
            values = (figures.get(name) for name in DSTAT.values())
            rounded = (None if value is None else round(value, 3) for value in values)
            first = (printable(record.host), time, epoch, record.phase.name)
            yield _text([*first, *rounded], (), csv.QUOTE_MINIMAL)
