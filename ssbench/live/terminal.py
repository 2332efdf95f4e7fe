"""The display of a run on stderr: in place on a terminal, lines elsewhere, or progress characters.

Stderr may be no terminal, stall, or be closed at any time: none of that may delay or end a run.
"""

from __future__ import annotations

import os
import select
import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil
from shutil import get_terminal_size
from typing import TYPE_CHECKING, TextIO

from ssbench.core.live import RunProgress
from ssbench.core.model import Phase
from ssbench.core.operations import FIRST_BYTE, OPERATIONS
from ssbench.core.text import bytes_text, clock_text, plural, printable, wrapped
from ssbench.host.process import discard
from ssbench.live.watch import LiveState, Sink, Watch, error_causes, latencies, rate_text

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

_LINE_EVERY_S = 10.0  #: elsewhere than on a terminal
#: A wait is shown after this many seconds: on a terminal, and elsewhere.
_WAIT_SHOWN_S, _WAIT_TOLD_S = 1.0, 3.0

_COLUMNS = 78  #: progress characters in a line
#: Latencies from which the next progress character is shown.
_BOUNDS_NS = (1_000_000_000, 3_000_000_000, 10_000_000_000)
_FAILED, _UNKNOWN = "X", "?"
TITLE = "Benchmark Run:\n"
#: As in ssbench 0.3.9; a DELETE shows as CREATE and UPDATE do.
LEGEND = f"""\
{TITLE}\
  X    work job raised an exception
  .  <  1s first-byte-latency
  o  <  3s first-byte-latency
  O  < 10s first-byte-latency
  * >= 10s first-byte-latency
  _  <  1s last-byte-latency  (CREATE or UPDATE)
  |  <  3s last-byte-latency  (CREATE or UPDATE)
  ^  < 10s last-byte-latency  (CREATE or UPDATE)
  @ >= 10s last-byte-latency  (CREATE or UPDATE)
"""
_FAST = bytes(
    ord(OPERATIONS[code].progress[0]) if code in OPERATIONS else ord(_UNKNOWN)
    for code in range(256)
)

#: Characters kept while stderr takes none; older ones are dropped.
_MOST_PENDING = 1_000_000
_LEAST_WIDTH = 20  #: that messages are wrapped to
#: Values of TERM of terminals that can't move their cursor.
_DUMB = frozenset({"dumb", "unknown"})
#: A pipe that is "ready" takes at least this much without blocking (PIPE_BUF).
_PIECE = 4096


class RunView:
    """What the display shows of a state."""

    wants_counts = True

    def line(self, state: LiveState, progress: RunProgress) -> str:
        parts = [*counts(progress)]
        if progress.bytes_rate:
            parts.insert(2, f"{bytes_text(int(progress.bytes_rate))}/s")
        if progress.p50_s is not None:
            parts += latencies(progress.p50_s, progress.p99_s)
        return f"{state.title} {clock_text(progress.elapsed_s)}: {', '.join(parts)}"

    def picture(
        self, state: LiveState, waiting: str, size: tuple[int, int], *, utf8: bool
    ) -> RenderableType:
        """For a terminal of this many columns and lines."""
        from ssbench.live.dashboard import Dashboard

        return Dashboard(state.title, state.progress, waiting, size, utf8=utf8)


class Terminal(Sink):
    """Stderr. On a terminal rich replaces the display in place; elsewhere there is a line every few
    seconds. One line of each phase stays.

    :param mode: the value of --progress. "chars" shows a character per operation of the run, and
        all else as "live" does; "none" shows only messages.
    :param quiet: show no ``info`` messages, and no line of a phase that has ended.
    """

    at_once = True

    def __init__(
        self,
        screen: Screen,
        mode: str = "live",
        *,
        quiet: bool = False,
        view: RunView | None = None,
    ) -> None:
        self.mode = mode
        self._screen = screen
        self._quiet = quiet
        self._view = view or RunView()
        self._chars = Characters(screen)  # of the run, with "chars"
        self.wants_results = mode == "chars"
        self.wants_counts = mode == "live" and self._view.wants_counts
        self._live: Live | None = None
        self._size = (0, 0)  # of the terminal, when it was drawn on
        self._phases = 0  # that have begun
        self._line_due_s, self._wait_told_s = 0.0, _WAIT_TOLD_S
        if screen.moves_cursor and mode != "none":
            import ssbench.live.dashboard  # noqa: F401 # takes 0.1 s: not while load runs

    @property
    def _in_place(self) -> bool:
        return self._screen.moves_cursor and not self._chars.running

    def results(self, columns: Sequence[Sequence[int]]) -> None:
        self._chars.add(columns)

    def show(self, state: LiveState) -> None:
        self._screen.flush()
        if self.mode == "none":
            return
        if state.over:
            self._chars.end()
            self._clear()
            if state.progress is not None and not self._quiet:
                self._screen.line(_last_line(state.title, state.progress))
            return
        if state.phases != self._phases:
            if not (self._quiet and self._phases):  # else nothing has been said of the last one
                self._line_due_s = state.now_s + _LINE_EVERY_S
            self._phases = state.phases
            if self.mode == "chars" and state.phase is Phase.RUN:
                self._chars.begin()
        if self._in_place:
            self._draw(state)
        else:
            self._print(state)

    def _print(self, state: LiveState) -> None:
        """Print a line, if it is time."""
        if not state.waiting:
            self._wait_told_s = _WAIT_TOLD_S
        elif state.waited_s >= self._wait_told_s and self._screen.ready():
            self._wait_told_s += _LINE_EVERY_S
            self.message(state.waiting)
        if state.now_s >= self._line_due_s and state.progress and not self._chars.running:
            next_s = self._line_due_s + _LINE_EVERY_S
            self._line_due_s = next_s if next_s > state.now_s else state.now_s + _LINE_EVERY_S
            if self._screen.ready():
                self._screen.line(self._view.line(state, state.progress))

    def message(self, text: str, *, info: bool = False) -> None:
        """Show lines above the progress. Info messages have the form of ssbench 0.3.9's, which
        scripts look for."""
        if info and self._quiet:
            return
        self._chars.end_line()
        for line in self._lines(f"INFO:{text}" if info else text):
            if self._live is None:
                self._screen.line(line)
            else:
                self._live.console.out(line, highlight=False)

    def _lines(self, text: str) -> Iterator[str]:
        """Its lines; on a terminal, long messages are wrapped at spaces. Tables are not."""
        for line in map(printable, text.splitlines()):
            if self._screen.moves_cursor and line.startswith(("INFO:", "WARNING:")):
                yield from wrapped(line, max(self._screen.size[0], _LEAST_WIDTH), indent="  ")
            else:
                yield line

    def _draw(self, state: LiveState) -> None:
        waiting = printable(state.waiting) if state.waited_s >= _WAIT_SHOWN_S else ""
        if not (state.title or state.waiting):
            self._clear()
        if not (state.progress or waiting) or not self._screen.ready():
            return
        size = self._screen.size
        if self._live is None:
            self._live = self._open(size)
        elif size != self._size:
            self._resize(self._live, size)
        utf8 = self._screen.encoding.lower().startswith("utf")
        self._live.update(self._view.picture(state, waiting, size, utf8=utf8), refresh=True)

    def _open(self, size: tuple[int, int]) -> Live:
        from rich.console import Console
        from rich.live import Live

        self._size = size
        console = Console(
            file=self._screen,  # type: ignore[arg-type]  # has all that rich calls
            force_terminal=True,
            no_color=not self._screen.colour,
            width=size[0],
            height=size[1],
            _environ=self._screen.environ,
        )
        live = Live(
            console=console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),
        )
        live.start()
        console.show_cursor(True)  # whatever ends this process, the terminal has one
        return live

    def _resize(self, live: Live, size: tuple[int, int]) -> None:
        """Adapt to another size of the terminal, which has wrapped lines that are too long now.

        rich goes up by the lines that it drew: first go up by those that have come since. (A
        terminal that cuts lines instead loses as many lines above the display.)
        """
        drawn = live.console.render_lines(live.renderable, pad=False)
        widths = [sum(segment.cell_length for segment in line) for line in drawn]
        more = sum(max(width - 1, 0) // size[0] for width in widths)
        if more:
            self._screen.write(f"\r\x1b[{more}A\x1b[J")
        live.console.width, live.console.height = self._size = size

    def _clear(self) -> None:
        """Remove the display, and leave the terminal to others."""
        live, self._live = self._live, None
        if live is not None:
            live.update("")
            live.stop()

    def close(self) -> None:
        self._clear()
        self._screen.drain()


class Characters:
    """A character per operation of a run, 78 per line, under a legend that is shown once."""

    def __init__(self, screen: Screen) -> None:
        self.running = False
        self._screen = screen
        self._legend = LEGEND
        self._column = 0

    def begin(self) -> None:
        self.running = True
        self._screen.write(self._legend)
        self._legend = TITLE

    def add(self, columns: Sequence[Sequence[int]]) -> None:
        if self.running:
            text = progress_chars(columns)
            left = _COLUMNS - self._column
            lines = [text[:left]]
            lines += [text[i : i + _COLUMNS] for i in range(left, len(text), _COLUMNS)]
            self._column = (self._column + len(text)) % _COLUMNS
            self._screen.write("\n".join(lines) + ("" if self._column or not text else "\n"))

    def end(self) -> None:
        self.end_line()
        self.running = False

    def end_line(self) -> None:
        if self._column:
            self._screen.write("\n")
            self._column = 0


def counts(progress: RunProgress) -> list[str]:
    """What was done, the rate, and errors: ``613 of 1,000 (61 %)``, ``118/s``, ``0 errors``."""
    done = f"{progress.done:,}"
    if progress.total:
        done += f" of {progress.total:,} ({100 * progress.done // progress.total} %)"
    causes = ", ".join(error_causes(progress))
    errors = plural(progress.errors, "error") + (f" ({causes})" if causes else "")
    parts = [done, rate_text(progress), errors]
    if progress.lost_races:
        parts.insert(2, plural(progress.lost_races, "lost race"))
    if progress.late:
        parts.insert(2, f"{progress.late:,} late")
    if progress.rate_missed:
        parts.insert(2, "RATE MISSED")
    if progress.remaining_s is not None:
        parts.append(f"{clock_text(ceil(progress.remaining_s))} left")
    return parts


def _last_line(title: str, progress: RunProgress) -> str:
    done = f"{progress.done:,}"
    if progress.total and progress.total != progress.done:
        done += f" of {progress.total:,}"
    rate = progress.done / progress.elapsed_s if progress.elapsed_s > 0 else 0.0
    errors = f", {plural(progress.errors, 'error')}" if progress.errors else ""
    races = f", {plural(progress.lost_races, 'lost race')}" if progress.lost_races else ""
    late = f", {progress.late:,} never started" if progress.late else ""
    late += ", RATE MISSED" if progress.rate_missed else ""
    counted = f"{late}{races}{errors}"
    return f"{title}: {done} in {clock_text(progress.elapsed_s)} ({rate:,.0f}/s){counted}"


def progress_chars(columns: Sequence[Sequence[int]]) -> str:
    """One character per result, from columns operation, error, first_byte_ns, last_byte_ns."""
    operations, errors, first_bytes, last_bytes = columns
    # Successful and below a second, as nearly always: the operation alone decides. No first byte
    # is later than its last byte.
    if not any(errors) and max(last_bytes, default=0) < _BOUNDS_NS[0]:
        try:
            codes = bytes(operations)
        except ValueError:
            codes = b""  # numbers of no operation
        if len(codes) == len(operations):
            return codes.translate(_FAST).decode("ascii")
    return "".join(map(_progress_char, operations, errors, first_bytes, last_bytes))


def _progress_char(operation: int, error: int, first_byte_ns: int, last_byte_ns: int) -> str:
    if error:
        return _FAILED
    row = OPERATIONS.get(operation)
    if row is None:
        return _UNKNOWN
    by_first_byte = row.progress == FIRST_BYTE and first_byte_ns >= 0
    latency_ns = first_byte_ns if by_first_byte else last_byte_ns
    return row.progress[bisect_right(_BOUNDS_NS, latency_ns)]


class Screen:
    """Lines of text, and a text file (``write``, ``flush``, ``isatty``) that rich draws on.

    :param environ: has TERM and NO_COLOR.
    """

    def __init__(self, stream: TextIO, environ: Mapping[str, str] = os.environ) -> None:
        self.gone = False  #: it was closed; everything is dropped
        self._pending = ""
        self.environ = environ
        self.encoding = getattr(stream, "encoding", None) or "utf-8"
        self._stream = stream
        self._fd = _descriptor(stream)
        self.moves_cursor = _is_terminal(stream) and environ.get("TERM", "") not in _DUMB
        self.colour = self.moves_cursor and not environ.get("NO_COLOR")

    @property
    def size(self) -> tuple[int, int]:
        """Present columns and lines of the terminal; 80 and 24 if unknown."""
        columns, lines = get_terminal_size((80, 24))
        if self._fd is not None:
            try:
                found = os.get_terminal_size(self._fd)
            except OSError:
                pass  # no terminal
            else:
                columns, lines = found.columns or 80, found.lines or 24
        return columns, lines

    def ready(self) -> bool:
        """Whether a little text would be shown now. A stopped terminal or full pipe takes none."""
        self.flush()
        return not (self.gone or self._pending) and self._takes_text()

    def write(self, text: str) -> int:
        """Write what can be written now, the rest later; never raises, and waits for nothing.

        :return: the length, as files do.
        """
        self._pending = (self._pending + text)[-_MOST_PENDING:]
        self.flush()
        return len(text)

    def flush(self) -> None:
        """Write what can be written now of the text that is still kept."""
        while self._pending and self._takes_text():
            self._write_piece()

    def drain(self) -> None:
        """Write all text that is still kept: wait until it is taken."""
        while self._pending:
            self._write_piece()

    def _takes_text(self) -> bool:
        if self.gone or self._fd is None:
            return True
        try:
            return bool(select.select([], [self._fd], [], 0)[1])
        except (OSError, ValueError):
            return True  # writing will show it

    def _write_piece(self) -> None:
        """As much as a pipe that is ready takes without blocking."""
        piece, self._pending = self._pending[: _PIECE // 2], self._pending[_PIECE // 2 :]
        if not self.gone:
            try:
                self._stream.write(piece)
                self._stream.flush()
            except BlockingIOError:
                pass  # the descriptor is non-blocking and full: the text is lost
            except (OSError, ValueError) as error:
                self._vanished(error)

    def isatty(self) -> bool:
        """Whether control characters may be written."""
        return self.moves_cursor

    def line(self, text: str) -> None:
        self.write(text + "\n")

    def _vanished(self, error: Exception) -> None:
        self.gone = True
        if isinstance(error, BrokenPipeError):
            discard(self._stream)


def _descriptor(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except (OSError, ValueError, AttributeError):
        return None  # text in memory


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except (OSError, ValueError):
        return False  # closed


def make_progress(
    mode: str = "live",
    stream: TextIO | None = None,
    environ: Mapping[str, str] = os.environ,
    *,
    quiet: bool = False,
    brief: bool = False,
    view: RunView | None = None,
    watch: Watch | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Watch:
    """An observer with the display of a mode, which is the value of --progress.

    :param stream: None: stderr.
    :param quiet: the mode is "none", and info messages are not shown.
    :param brief: neither info messages nor lines of what has ended are shown.
    :param watch: gets the display, if there is one already.
    """
    screen = Screen(stream or sys.stderr, environ)
    watch = watch or Watch(clock)
    watch.add(Terminal(screen, "none" if quiet else mode, quiet=quiet or brief, view=view))
    return watch
