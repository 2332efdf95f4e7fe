"""Progress displays: observers that write to stderr. None of them may delay or end the run.

The master's loop calls them; there is no thread. The run itself is shown in one of three modes
(``PROGRESS``). The phases around it are shown live, unless the mode is "none"; one line of each
stays.
"""

from __future__ import annotations

import os
import sys
import textwrap
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any, TextIO

from ssbench.core.live import Observer, RunProgress
from ssbench.core.model import Phase
from ssbench.core.operations import FIRST_BYTE, OPERATIONS
from ssbench.core.text import bytes_text, clock_text, plural, printable
from ssbench.live.screen import PIECE, Screen
from ssbench.live.text import error_causes, latencies, phase_title, rate_text

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

REFRESH_S = 1.0  #: on a terminal
LINE_EVERY_S = 10.0  #: elsewhere
#: A wait is shown after this many seconds, and then every so many: on a terminal, and elsewhere.
WAIT_SHOWN_S, WAIT_TOLD_S = (1.0, REFRESH_S), (3.0, LINE_EVERY_S)

COLUMNS = 78  #: progress characters in a line
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

#: IDLE: containers are made before the workers have jobs.
TITLES: Mapping[Phase, str] = {
    Phase.IDLE: "Making containers",
    Phase.POPULATE: "Uploading initial objects",
    Phase.RUN: "Benchmark run",
    Phase.CLEANUP: "Deleting objects",
}

#: Progress characters kept while stderr takes none; older ones are dropped.
_MOST_PENDING = 1_000_000
_LEAST_WIDTH = 20  #: that messages are wrapped to


class NoProgress(Observer):
    """Mode "none": shows only messages. Base of the other modes.

    :param quiet: show no ``info`` messages, and no line of a phase that has ended.
    """

    def __init__(
        self,
        screen: Screen,
        clock: Callable[[], float] = time.monotonic,
        *,
        quiet: bool = False,
    ) -> None:
        self._screen = screen
        self._clock = clock
        self._quiet = quiet

    def info(self, text: str) -> None:
        """A message in the form of ssbench 0.3.9's, which scripts look for; not if quiet."""
        if not self._quiet:
            self.message(f"INFO:{text}")

    def message(self, text: str) -> None:
        """Show lines above the progress."""
        for line in self._lines(text):
            self._screen.line(line)

    def _lines(self, text: str) -> Iterator[str]:
        """Its lines; on a terminal, long messages are wrapped at spaces. Tables are not."""
        for line in map(printable, text.splitlines()):
            if self._screen.moves_cursor and line.startswith(("INFO:", "WARNING:")):
                yield from textwrap.wrap(
                    line, max(self._screen.size[0], _LEAST_WIDTH), subsequent_indent="  ",
                    break_long_words=False, break_on_hyphens=False,
                )  # fmt: skip
            else:
                yield line

    def __enter__(self) -> NoProgress:
        return self

    def __exit__(self, *exc: object) -> None:
        self.end_phase()


class LiveProgress(NoProgress):
    """On a terminal a display that rich replaces in place; elsewhere a line every few seconds."""

    wants_counts = True

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._live: Live | None = None
        self._size = (0, 0)  # of the terminal, when it was drawn on
        self._run: tuple[int, str] | None = None  # of a series
        self._title = ""  # "": no phase
        self._latest: RunProgress | None = None
        self._due = 0.0
        self._wait = ""  # shown on a terminal
        self._wait_due: float | None = None  # None: nothing

    def __enter__(self) -> LiveProgress:
        if self._in_place:
            import ssbench.live.dashboard  # noqa: F401 # takes 0.1 s: not while load runs

        return self

    @property
    def _in_place(self) -> bool:
        return self._screen.moves_cursor

    def start_run(self, number: int, name: str) -> None:
        self._run = number, name

    def start_phase(self, phase: Phase, total: int | None = None, title: str = "") -> None:
        self.end_phase()
        self._title = phase_title(title or TITLES[phase], self._run)
        self._due = self._clock() + (0 if self._in_place else LINE_EVERY_S)

    def update(self, progress: RunProgress) -> None:
        self._latest = progress
        if self._in_place:
            self._draw()
        elif self._is_due(LINE_EVERY_S) and self._screen.ready():
            self._screen.line(self._line(progress))

    def wait_for(self, text: str) -> None:
        now = self._clock()
        first_s, every_s = WAIT_SHOWN_S if self._in_place else WAIT_TOLD_S
        if not text:
            self._wait, self._wait_due = "", None
            if not self._title:
                self._close()
        elif self._wait_due is None:
            self._wait_due = now + first_s
        elif now >= self._wait_due:
            if self._in_place:
                self._wait = printable(text)
                self._draw()
            else:
                self._wait_due = now + every_s
                if self._screen.ready():
                    self.message(text)

    def message(self, text: str) -> None:
        if self._live is None:
            super().message(text)
            return
        for line in self._lines(text):
            self._live.console.out(line, highlight=False)

    def end_phase(self) -> None:
        self._close()
        if self._latest is not None and not self._quiet:
            self._screen.line(_last_line(self._title, self._latest))
        self._latest, self._title = None, ""

    def _line(self, progress: RunProgress) -> str:
        parts = [*counts(progress)]
        if progress.bytes_rate:
            parts.insert(2, f"{bytes_text(int(progress.bytes_rate))}/s")
        if progress.p50_s is not None:
            parts += latencies(progress.p50_s, progress.p99_s)
        return f"{self._title} {clock_text(progress.elapsed_s)}: {', '.join(parts)}"

    def _is_due(self, every_s: float) -> bool:
        """Whether to show a state; counts from when it was due, as updates are 0.5 s apart."""
        now = self._clock()
        if now < self._due:
            return False
        self._due += every_s
        if self._due <= now:
            self._due = now + every_s
        return True

    # On a terminal -----------------------------------------------------------------------------

    def _picture(self, size: tuple[int, int]) -> RenderableType:
        """What is shown now on a terminal of so many columns and lines."""
        from ssbench.live.dashboard import Dashboard

        utf8 = self._screen.encoding.lower().startswith("utf")
        return Dashboard(self._title, self._latest, self._wait, size, utf8=utf8)

    def _draw(self) -> None:
        """Draw, if it is time and the terminal is not stopped."""
        if not self._is_due(REFRESH_S) or not self._screen.ready():
            return
        size = self._screen.size
        if self._live is None:
            self._open(size)
        elif size != self._size:
            self._resize(self._live, size)
        assert self._live is not None  # nosec B101 # for the type checker
        self._live.update(self._picture(size), refresh=True)

    def _open(self, size: tuple[int, int]) -> None:
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
        self._live = Live(
            console=console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),
        )
        self._live.start()
        console.show_cursor(True)  # whatever ends this process, the terminal has one

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

    def _close(self) -> None:
        """Clear the display, and leave the terminal to others."""
        live, self._live = self._live, None
        if live is not None:
            live.update("")
            live.stop()


class CharsProgress(LiveProgress):
    """A character per operation, 78 per line, under a legend that is shown once."""

    wants_results = True
    wants_counts = False

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._legend = LEGEND
        self._running = False
        self._column = 0
        self._pending = ""

    @property
    def _in_place(self) -> bool:
        return super()._in_place and not self._running

    def start_phase(self, phase: Phase, total: int | None = None, title: str = "") -> None:
        super().start_phase(phase, total, title)
        self._running = phase is Phase.RUN
        if self._running:
            self._screen.write(self._legend)
            self._legend = TITLE

    def results(self, columns: Sequence[Sequence[int]]) -> None:
        if self._running:
            self._pending = (self._pending + progress_chars(columns))[-_MOST_PENDING:]
            while self._pending and self._screen.ready():
                self._write_piece()

    def update(self, progress: RunProgress) -> None:
        if not self._running:
            super().update(progress)

    def message(self, text: str) -> None:
        self._end_line()
        super().message(text)

    def end_phase(self) -> None:
        while self._pending and not self._screen.gone:
            self._write_piece()
        self._pending = ""
        self._end_line()
        self._running = False
        super().end_phase()

    def _write_piece(self) -> None:
        """Write as many pending characters as a pipe takes without blocking."""
        left = COLUMNS - self._column
        piece, self._pending = self._pending[: PIECE // 2], self._pending[PIECE // 2 :]
        lines = [piece[:left]]
        lines += [piece[i : i + COLUMNS] for i in range(left, len(piece), COLUMNS)]
        self._column = (self._column + len(piece)) % COLUMNS
        self._screen.write("\n".join(lines) + ("" if self._column else "\n"))

    def _end_line(self) -> None:
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
    late = f", {progress.late:,} never started" if progress.late else ""
    late += ", RATE MISSED" if progress.rate_missed else ""
    return f"{title}: {done} in {clock_text(progress.elapsed_s)} ({rate:,.0f}/s){late}{errors}"


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


#: Value of --progress -> its display.
PROGRESS: Mapping[str, type[NoProgress]] = {
    "chars": CharsProgress,
    "live": LiveProgress,
    "none": NoProgress,
}


def make_progress(
    mode: str = "live",
    stream: TextIO | None = None,
    environ: Mapping[str, str] = os.environ,
    *,
    quiet: bool = False,
    brief: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> NoProgress:
    """The display of a mode of PROGRESS.

    :param mode: a key of PROGRESS.
    :param stream: None: stderr.
    :param quiet: the mode is "none", and info messages are not shown.
    :param brief: neither info messages nor lines of what has ended are shown.
    """
    screen = Screen(stream or sys.stderr, environ)
    return PROGRESS["none" if quiet else mode](screen, clock, quiet=quiet or brief)
