"""The live display of a phase on a terminal.

rich draws it, but lays nothing out: its tables take 5 to 25 ms per frame, in which the master's
loop stands still and the workers run dry. Lines that are laid out here take 0.5 ms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from math import ceil

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.progress_bar import ProgressBar
from rich.segment import Segment

from ssbench.core.live import ATTENTION, RunProgress, WorkerProgress, by_attention
from ssbench.core.text import clock_text, plural, printable
from ssbench.live.watch import figures, operation_rows

_LEVELS = "▁▂▃▄▅▆▇█"  #: of a spark line
_LABEL_WIDTH, _FIGURE_WIDTH = 12, 40  #: columns before a spark line
_LONGEST_SPARK = 60  #: columns, one per second
_SHORTEST_BAR = 10
_BESIDE_WIDTH = 120  #: from this many columns on, workers stand beside operations
_GAP, _TABLE_GAP = "  ", "    "  #: between columns, between tables that stand side by side
_SHORTEST_NAME = 10  #: columns that the first one of a table keeps
_LEAST_TABLE = 3  #: lines: a blank one, the heads of the columns, a row
_ERROR, _WARNING, _DIM, _PLAIN = "bold red", "yellow", "dim", ""
_LEVEL_STYLES = {"": _PLAIN, "warning": _WARNING, "error": _ERROR}
_STATES = dict(zip(ATTENTION, (_ERROR, _ERROR, _WARNING), strict=True))
#: Figures from the one that a low terminal keeps longest to the first that it leaves out.
_RANKS = ("Operations", "Errors", "Workers", "Latency", "Backlog", "Response", "Data")

Piece = tuple[str, str]  #: text and style
Line = list[Piece]


class Dashboard:
    """A phase on a terminal of ``size`` columns and lines, all but the last one: for rich.

    :param progress: None: nothing but the wait is shown.
    :param waiting: what is waited for, or "".
    :param utf8: the terminal has characters beyond ASCII.
    """

    def __init__(
        self,
        title: str,
        progress: RunProgress | None,
        waiting: str,
        size: tuple[int, int],
        *,
        utf8: bool = True,
    ) -> None:
        self._width, height = size
        self._more = "…" if utf8 else "."
        self._bar: ProgressBar | None = None  # stands in the first line
        self._lines: list[Line] = []
        foot: list[Line] = [[(waiting, _WARNING)]] if waiting else []
        if progress is not None:
            self._lines = [self._head(title, progress)]
            self._lines += self._body(progress, max(height - 2 - len(foot), 0), utf8=utf8)
        self._lines += foot

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for number, line in enumerate(self._lines):
            pieces = list(_cut(line, self._width, self._more))
            for at, (text, style) in enumerate(pieces):
                if number == 0 and self._bar and at == len(pieces) - 1:
                    yield from console.render(self._bar, options)
                yield Segment(text, console.get_style(style) if style else None)
            yield Segment.line()

    def _head(self, title: str, progress: RunProgress) -> Line:
        """Title, time and, where there is space, a bar."""
        spent_s, left_s = progress.elapsed_s, progress.remaining_s
        share = None
        if progress.total:
            share = min(progress.done / progress.total, 1.0)
        elif left_s is not None and spent_s + left_s > 0:
            share = spent_s / (spent_s + left_s)
        times = f"  {clock_text(spent_s)} elapsed"
        if left_s is not None:
            times += f", {clock_text(ceil(left_s))} left"
        name = printable(title)
        if share is None:
            return [(name, "bold"), (times, _PLAIN)]
        percent = f"{100 * share:.0f} %"
        free = self._width - cell_len(name) - len(times) - len(percent) - 2 * len(_GAP)
        if free < _SHORTEST_BAR - 2 * len(_GAP):
            return [(name, "bold"), (f"{times}, {percent}", _PLAIN)]
        self._bar = ProgressBar(1.0, share, width=free)
        return [(name, "bold"), (times + _GAP, _PLAIN), (_GAP + percent, _PLAIN)]

    def _body(self, progress: RunProgress, space: int, *, utf8: bool) -> Iterator[Line]:
        """Figures and tables in at most ``space`` lines.

        The states of the workers are always among them: in a line, if there is no space for rows.
        """
        spark_width = self._width - _LABEL_WIDTH - _FIGURE_WIDTH - 1 if utf8 else 0
        figures = _figures(progress, spark_width)
        beside, workers = self._width >= _BESIDE_WIDTH, progress.workers_seen
        wanted = 2 + len(progress.operations) if progress.operations and not beside else 0
        if workers and space - len(figures) < wanted + _LEAST_TABLE:
            figures["Workers"] = _line("Workers", _states(workers))
            workers = ()
        kept = set(sorted(figures, key=_RANKS.index)[:space])
        yield from (line for label, line in figures.items() if label in kept)
        space -= len(kept)
        operations = _operations(progress, space - 2)
        if not beside:
            if operations:
                yield from ([], *_table(operations, self._width))
                space -= 1 + len(operations)
            rows = _workers(workers, space - 2)
            if rows:
                yield from ([], *_table(rows, self._width))
            return
        left = _table(operations, self._width)
        width = max((_length(line) for line in left), default=-len(_TABLE_GAP)) + len(_TABLE_GAP)
        right = _table(_workers(workers, space - 2), self._width - width)
        if left or right:
            yield []
        for number in range(max(len(left), len(right))):
            line = left[number] if number < len(left) else []
            if number < len(right):
                line = [*line, (" " * (width - _length(line)), _PLAIN), *right[number]]
            yield line


def _figures(progress: RunProgress, spark_width: int) -> dict[str, Line]:
    """The phase in lines of a label and a figure, by their label."""
    return {
        each.label: _line(
            each.label, each.text, _LEVEL_STYLES[each.level], _spark(each.history, spark_width)
        )
        for each in figures(progress)
    }


def _line(label: str, figure: str, style: str = _PLAIN, spark: str = "") -> Line:
    line = [(f"{label:<{_LABEL_WIDTH}}", _DIM)]
    if not spark:
        return [*line, (figure, style)]
    return [*line, (f"{figure:<{_FIGURE_WIDTH}} ", style), (spark, _PLAIN)]


def _spark(values: Sequence[float], width: int) -> str:
    """The newest values as columns, the highest of them as a full one; "" without space."""
    values = values[-min(width, _LONGEST_SPARK) :] if width > 0 else ()
    highest = max(values, default=0.0)
    if highest <= 0:
        return ""
    return "".join(_LEVELS[round(value / highest * (len(_LEVELS) - 1))] for value in values)


def _operations(progress: RunProgress, most_rows: int) -> list[Line]:
    """Rows of operations under the heads of their columns; [] if there are none, or no space."""
    heads, *found = operation_rows(progress) or [()]
    if not found or most_rows < 1:
        return []
    rows = [_heads(*heads)]
    for row in found[:most_rows]:
        rows.append([*_cells(*row[:-1]), (row[-1], _PLAIN if row[-1] == "0" else _ERROR)])
    return rows


def _workers(workers: Sequence[WorkerProgress], most_rows: int) -> list[Line]:
    """The same of workers; the last row sums up those that there is no space for."""
    if not workers or most_rows < 1:
        return []
    ordered = by_attention(workers)
    shown = ordered if len(ordered) <= most_rows else ordered[: most_rows - 1]
    rows = [_heads("worker", "state", "users", "jobs", "CPU")]
    for each in shown:
        cpu = "-" if each.cpu_percent is None else f"{each.cpu_percent:.0f} %"
        state = each.state, _STATES.get(each.state, _PLAIN)
        numbers = _cells(f"{each.users:,}", f"{each.jobs:,}", cpu)
        rows.append([(printable(each.name), _PLAIN), state, *numbers])
    rest = ordered[len(shown) :]
    if rest:
        name = f"and {len(rest):,} more" if shown else plural(len(rest), "worker")
        users = sum(worker.users for worker in rest)
        rows.append([(name, _DIM), *_cells(_counted(rest), f"{users:,}")])
    return rows


def _states(workers: Sequence[WorkerProgress]) -> str:
    """``1 gone, 2 running; 8 users``."""
    users = sum(worker.users for worker in workers)
    return f"{_counted(by_attention(workers))}; {plural(users, 'user')}"


def _counted(workers: Iterable[WorkerProgress]) -> str:
    states = Counter(worker.state for worker in workers)
    return ", ".join(f"{count:,} {state}" for state, count in states.items())


def _heads(*names: str) -> Line:
    return [(name, _DIM) for name in names]


def _cells(*texts: str) -> Line:
    return [(text, _PLAIN) for text in texts]


def _table(rows: Sequence[Line], width: int) -> list[Line]:
    """Rows of cells as lines: names and states to the left, numbers to the right. The first column
    is cut if the others need its space."""
    if not rows:
        return []
    columns = list(zip_longest(*rows, fillvalue=("", _PLAIN)))
    widths = [max(cell_len(text) for text, _ in column) for column in columns]
    others = sum(widths[1:]) + len(_GAP) * (len(widths) - 1)
    widths[0] = max(min(widths[0], width - others), min(widths[0], _SHORTEST_NAME))
    to_left = [number == 0 or column[0][0] == "state" for number, column in enumerate(columns)]
    lines = []
    for row in rows:
        line: Line = []
        for (text, style), size, left in zip(row, widths, to_left, strict=False):
            space = " " * (size - cell_len(text))
            line.append((set_cell_size(text, size) if left else space + text, style))
            line.append((_GAP, _PLAIN))
        lines.append(line[:-1])
    return lines


def _length(line: Line) -> int:
    return sum(cell_len(text) for text, _ in line)


def _cut(line: Line, width: int, more: str) -> Iterator[Piece]:
    """A line in this many columns; ``more`` ends one that is cut."""
    if _length(line) <= width:
        yield from line
        return
    left = width - 1
    for text, style in line:
        size = cell_len(text)
        if size > left:
            yield set_cell_size(text, left) + more, style
            return
        left -= size
        yield text, style
