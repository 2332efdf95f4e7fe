"""The live display of a phase on a terminal, drawn by rich."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ssbench.cli.live_text import error_causes, latencies, rate_text
from ssbench.core.live import ATTENTION, RunProgress, WorkerProgress, by_attention
from ssbench.core.operations import OPERATIONS
from ssbench.core.text import clock_text, latency_text, plural, printable

_LEVELS = "▁▂▃▄▅▆▇█"  #: of a spark line
_LABEL_WIDTH, _FIGURE_WIDTH = 12, 40  #: columns before a spark line
_LONGEST_SPARK = 60  #: columns, one per second
_SHORTEST_BAR = 10
_BESIDE_WIDTH = 120  #: from so many columns on, workers stand beside operations
_ERROR, _WARNING, _DIM = "bold red", "yellow", "dim"
_STATES = dict(zip(ATTENTION, (_ERROR, _ERROR, _WARNING), strict=True))


def dashboard(
    title: str,
    progress: RunProgress | None,
    waiting: str,
    size: tuple[int, int],
    *,
    sparks: bool = True,
) -> RenderableType:
    """A phase on a terminal of ``size`` columns and lines, all but the last one.

    :param progress: None: nothing but the wait is shown.
    :param waiting: what is waited for, or "".
    :param sparks: the terminal has the characters of spark lines.
    """
    width, height = size
    foot = [_text(waiting, _WARNING)] if waiting else []
    if progress is None:
        return Group(*foot)
    lines: list[RenderableType] = [_head(title, progress, width)]
    lines += _figures(progress, width - _LABEL_WIDTH - _FIGURE_WIDTH - 1 if sparks else 0)
    left = height - 1 - len(foot)
    del lines[max(left, 1) :]
    left -= len(lines)
    if width >= _BESIDE_WIDTH:
        found = [_operations(progress, left - 1), _workers(progress.workers_seen, left - 1)]
        tables = [table for table in found if table is not None]
        if tables:
            side = Table.grid(padding=(0, 4), pad_edge=False)
            side.add_row(*tables)
            lines += [Text(), side]
    else:
        operations = _operations(progress, left - 1)
        if operations is not None:
            lines += [Text(), operations]
            left -= 2 + operations.row_count
        workers = _workers(progress.workers_seen, left - 1)
        if workers is not None:
            lines += [Text(), workers]
    return Group(*lines, *foot)


def _head(title: str, progress: RunProgress, width: int) -> RenderableType:
    """Title, time and, where there is space, a bar."""
    spent_s, left_s = progress.elapsed_s, progress.remaining_s
    share = None
    if progress.total:
        share = min(progress.done / progress.total, 1.0)
    elif left_s is not None and spent_s + left_s > 0:
        share = spent_s / (spent_s + left_s)
    times = f"{clock_text(spent_s)} elapsed"
    if left_s is not None:
        times += f", {clock_text(left_s)} left"
    text = _text("").append(printable(title), "bold").append(f"  {times}")
    if share is None:
        return text
    percent = f"{100 * share:.0f} %"
    if width < text.cell_len + len(percent) + _SHORTEST_BAR:
        return text.append(f", {percent}")
    grid = Table.grid(padding=(0, 2), pad_edge=False, expand=True)
    grid.add_column(no_wrap=True)
    grid.add_column(ratio=1)
    grid.add_row(text, ProgressBar(1.0, share), percent)
    return grid


def _figures(progress: RunProgress, spark_width: int) -> list[Text]:
    """The phase in lines of a label and a figure."""
    done = f"{progress.done:,}" + (f" of {progress.total:,}" if progress.total else "")
    rates = [rate for rate, _ in progress.history]
    moved = [per_s for _, per_s in progress.history]
    lines = [
        _line("Operations", f"{done}, {rate_text(progress)}", spark=_spark(rates, spark_width))
    ]
    if any(moved) or progress.bytes_rate:
        data = f"{progress.bytes_rate / 1e6:,.1f} MB/s"
        lines.append(_line("Data", data, spark=_spark(moved, spark_width)))
    if progress.p50_s is not None:
        lines.append(_line("Latency", ", ".join(latencies(progress.p50_s, progress.p99_s))))
    if progress.target_rate is not None:
        backlog = f"{plural(progress.late, 'operation')} due and not started"
        lines.append(_line("Backlog", backlog, _WARNING if progress.late else ""))
        if progress.response_p50_s is not None:
            response = latencies(progress.response_p50_s, progress.response_p99_s)
            lines.append(_line("Response", ", ".join(response)))
    if progress.errors:
        share = 100 * progress.errors / max(progress.done, 1)
        causes = ", ".join(error_causes(progress))
        errors = f"{progress.errors:,} ({share:.2g} %)" + (f": {causes}" if causes else "")
        lines.append(_line("Errors", errors, _ERROR))
    return lines


def _line(label: str, figure: str, style: str = "", spark: str = "") -> Text:
    line = _text("").append(f"{label:<{_LABEL_WIDTH}}", _DIM)
    return line.append(f"{figure:<{_FIGURE_WIDTH}} " if spark else figure, style).append(spark)


def _spark(values: Sequence[float], width: int) -> str:
    """The newest values as columns, the highest of them as a full one; "" without space."""
    values = values[-min(width, _LONGEST_SPARK) :] if width > 0 else ()
    highest = max(values, default=0.0)
    if highest <= 0:
        return ""
    return "".join(_LEVELS[round(value / highest * (len(_LEVELS) - 1))] for value in values)


def _operations(progress: RunProgress, most_lines: int) -> Table | None:
    """Operations in a table of at most so many lines; None if there are none, or no space."""
    rows = sorted(progress.operations.items())[: max(most_lines - 1, 0)]
    if not rows:
        return None
    timed = ("p50", "p99") if progress.p50_s is not None else ()
    table = _table("operation", "done", "per s", *timed, "errors")
    for number, row in rows:
        name = OPERATIONS[number].name if number in OPERATIONS else f"operation {number}"
        share = 100 * row.failed / max(row.done + row.failed, 1)
        table.add_row(
            name,
            f"{row.done:,}",
            f"{row.rate:,.0f}",
            *[latency_text(each) for each in (row.p50_s, row.p99_s) if timed],
            _text(f"{row.failed:,} ({share:.2g} %)", _ERROR) if row.failed else "0",
        )
    return table


def _workers(workers: Sequence[WorkerProgress], most_lines: int) -> Table | None:
    """The same of workers."""
    if not workers or most_lines < 2:
        return None
    ordered = by_attention(workers)
    fits = len(ordered) < most_lines
    rows = ordered if fits else ordered[: most_lines - 2]
    table = _table("worker", "state", "users", "jobs", "CPU")
    for worker in rows:
        table.add_row(
            _text(printable(worker.name)),
            _text(worker.state, _STATES.get(worker.state, "")),
            f"{worker.users:,}",
            f"{worker.jobs:,}",
            "-" if worker.cpu_percent is None else f"{worker.cpu_percent:.0f} %",
        )
    if not fits:
        states = Counter(worker.state for worker in ordered[len(rows) :])
        rest = ", ".join(f"{count:,} {state}" for state, count in states.items())
        users = sum(worker.users for worker in ordered[len(rows) :])
        more = f"{'and' if rows else ''} {sum(states.values()):,} {'more' if rows else 'workers'}"
        table.add_row(_text(more.strip(), _DIM), _text(rest), f"{users:,}", "", "")
    return table


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=_DIM)
    table.add_column(first, no_wrap=True)
    for name in others:
        left = name == "state"
        table.add_column(name, justify="left" if left else "right", no_wrap=True)
    return table


def _text(text: str, style: str = "") -> Text:
    """One line, cut where it is too long."""
    return Text(text, style, no_wrap=True, overflow="ellipsis")
