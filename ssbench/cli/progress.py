"""Progress displays: observers that write to stderr. None of them may delay or end the run.

The master's loop calls them; there is no thread. The run itself is shown in one of three modes
(``PROGRESS``). The phases around it are shown as one line each, unless the mode is "none".
"""

from __future__ import annotations

import os
import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from ssbench.cli.screen import PIECE, Screen, cut
from ssbench.core.live import RunProgress
from ssbench.core.model import Phase
from ssbench.core.operations import FIRST_BYTE, OPERATIONS
from ssbench.core.text import clock_text, latency_text, plural, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

REFRESH_S = 0.25  #: on a terminal
LINE_EVERY_S = 5.0  #: elsewhere
#: A wait is shown after this many seconds, and then every so many: on a terminal, and elsewhere.
WAIT_SHOWN_S, WAIT_TOLD_S = (1.0, 1.0), (3.0, 10.0)

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


class NoProgress:
    """Mode "none": shows only messages. Base of the other modes. An Observer.

    :param quiet: show no ``info`` messages.
    """

    wants_results = False
    wants_latencies = False
    wants_counts = False

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

    def start_phase(self, phase: Phase, total: int | None = None, title: str = "") -> None:
        """A phase begins; ``title`` replaces that of TITLES."""

    def results(self, columns: Sequence[Sequence[int]]) -> None:
        """A batch of results: columns operation, error, first_byte_ns, last_byte_ns."""

    def update(self, progress: RunProgress) -> None:
        """The state of the phase; may be called at any rate."""

    def wait_for(self, text: str) -> None:
        """What is waited for; "" when the wait is over. May be called at any rate."""

    def info(self, text: str) -> None:
        """A message in the form of ssbench 0.3.9's, which scripts look for; not if quiet."""
        if not self._quiet:
            self.message(f"INFO:{text}")

    def message(self, text: str) -> None:
        """Show lines above the progress."""
        for line in text.splitlines():
            self._screen.line(printable(line))

    def end_phase(self) -> None:
        """The phase is over; its last state stays on the screen."""

    def __enter__(self) -> NoProgress:
        return self

    def __exit__(self, *exc: object) -> None:
        self.end_phase()


class LineProgress(NoProgress):
    """A phase is one line, replaced in place; without a terminal, a line every few seconds."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._title = ""
        self._started = self._due = 0.0
        self._latest: RunProgress | None = None
        self._wait_due: float | None = None  # None: nothing

    def start_phase(self, phase: Phase, total: int | None = None, title: str = "") -> None:
        self.end_phase()
        self._title = title or TITLES[phase]
        self._started = now = self._clock()
        self._due = now if self._screen.moves_cursor else now + LINE_EVERY_S

    def update(self, progress: RunProgress) -> None:
        self._latest = progress
        if self._is_due():
            text = self._line(progress)
            if self._screen.moves_cursor:
                self._screen.replace(text)
            elif self._screen.ready():
                self._screen.line(text)

    def wait_for(self, text: str) -> None:
        in_place = self._screen.moves_cursor and not self._is_live
        first_s, every_s = WAIT_SHOWN_S if in_place else WAIT_TOLD_S
        now = self._clock()
        if not text:
            if self._wait_due is not None and in_place:
                self._screen.clear()
            self._wait_due = None
        elif self._wait_due is None:
            self._wait_due = now + first_s
        elif now >= self._wait_due:
            self._wait_due = now + every_s
            if in_place:
                self._screen.replace(printable(text))
            elif self._screen.ready():
                self.message(text)

    @property
    def _is_live(self) -> bool:
        """Whether rich draws on the last lines of the terminal."""
        return False

    def end_phase(self) -> None:
        if self._latest is not None:
            self._screen.line(_last_line(self._title, self._latest))
        self._latest = None

    def _line(self, progress: RunProgress) -> str:
        parts = _counts(progress)
        if progress.p50_s is not None:
            parts += _latencies(progress)
        return f"{self._title}: {', '.join(parts)}"

    def _is_due(self) -> bool:
        now = self._clock()
        if now < self._due:
            return False
        self._due = now + (REFRESH_S if self._screen.moves_cursor else LINE_EVERY_S)
        return True


class CharsProgress(LineProgress):
    """A character per operation, 78 per line, under a legend that is shown once."""

    wants_results = True

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._legend = LEGEND
        self._running = False
        self._column = 0
        self._pending = ""

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


class LiveProgress(LineProgress):
    """Two lines that rich updates; without a terminal as LineProgress."""

    wants_latencies = True

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._live: Live | None = None

    @property
    def _is_live(self) -> bool:
        return self._live is not None

    def start_phase(self, phase: Phase, total: int | None = None, title: str = "") -> None:
        super().start_phase(phase, total, title)
        if phase is Phase.RUN and self._screen.moves_cursor:
            self._live = self._open_live()
            self._live.start()

    def update(self, progress: RunProgress) -> None:
        if self._live is None:
            super().update(progress)
        else:
            self._latest = progress
            if self._is_due() and self._screen.ready():
                self._refresh(self._live, progress)

    def message(self, text: str) -> None:
        if self._live is None:
            super().message(text)
        else:
            for line in text.splitlines():
                self._live.console.out(printable(line), highlight=False)

    def end_phase(self) -> None:
        live, self._live = self._live, None
        if live is None:
            super().end_phase()
        else:
            if self._latest is not None:
                self._refresh(live, self._latest)
            self._latest = None
            live.stop()

    def _open_live(self) -> Live:
        # rich takes 0.1 s to import, and only this mode needs it.
        from rich.live import Live

        console = self._console()
        return Live(
            console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        )

    def _console(self) -> Console:
        from rich.console import Console

        return Console(
            file=self._screen,  # type: ignore[arg-type]  # has all that rich calls
            force_terminal=True,
            no_color=not self._screen.colour,
            _environ=self._screen.environ,
        )

    def _refresh(self, live: Live, progress: RunProgress) -> None:
        live.console.width = width = self._screen.width
        live.update(_two_lines(self._title, progress, width - 1), refresh=True)


def _two_lines(title: str, progress: RunProgress, width: int) -> Text:
    from rich.text import Text

    first = cut(f"{title} {clock_text(progress.elapsed_s)}: {', '.join(_counts(progress))}", width)
    text = Text(first, no_wrap=True, overflow="crop", end="")
    text.highlight_regex(r"\b(?!0 )[\d,]+ (?:errors?|late)\b", "red")
    second = [*_latencies(progress)]
    if progress.workers:
        second.append(plural(progress.workers, "worker"))
        second.append(plural(progress.users, "user"))
    return text.append("\n" + cut(", ".join(second), width))


def _counts(progress: RunProgress) -> list[str]:
    done = f"{progress.done:,}"
    if progress.total:
        done += f" of {progress.total:,} ({100 * progress.done // progress.total} %)"
    parts = [done, _rate(progress), plural(progress.errors, "error")]
    if progress.late:
        parts.insert(2, f"{progress.late:,} late")
    if progress.remaining_s is not None:
        parts.append(f"{clock_text(progress.remaining_s)} left")
    return parts


def _rate(progress: RunProgress) -> str:
    target = "" if progress.target_rate is None else f" of {progress.target_rate:,.10g}/s due"
    return f"{progress.rate:,.0f}/s{target}"


def _latencies(progress: RunProgress) -> list[str]:
    return [f"p50 {latency_text(progress.p50_s)}", f"p99 {latency_text(progress.p99_s)}"]


def _last_line(title: str, progress: RunProgress) -> str:
    done = f"{progress.done:,}"
    if progress.total and progress.total != progress.done:
        done += f" of {progress.total:,}"
    rate = progress.done / progress.elapsed_s if progress.elapsed_s > 0 else 0.0
    errors = f", {plural(progress.errors, 'error')}" if progress.errors else ""
    late = f", {progress.late:,} never started" if progress.late else ""
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
    mode: str | None = None,
    stream: TextIO | None = None,
    environ: Mapping[str, str] = os.environ,
    *,
    quiet: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> NoProgress:
    """The display of a mode of PROGRESS.

    :param mode: None: "live" on a terminal that moves its cursor, "chars" elsewhere.
    :param stream: None: stderr.
    :param quiet: the mode is "none", and info messages are not shown.
    """
    screen = Screen(stream or sys.stderr, environ)
    chosen = "none" if quiet else mode or ("live" if screen.moves_cursor else "chars")
    return PROGRESS[chosen](screen, clock, quiet=quiet)
