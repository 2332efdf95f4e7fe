"""What a person sees on stderr while a run goes on. Nothing here may hold up or end the run.

The master's loop calls; there is no thread. The run itself is shown in one of three modes
(``PROGRESS``); the phases around it, by all but "none", as one line each.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TextIO

from ssbench.cli.progress_chars import COLUMNS, LEGEND, TITLE, progress_chars
from ssbench.cli.screen import PIECE, Screen, cut
from ssbench.core.live import RunProgress
from ssbench.core.model import Phase
from ssbench.core.text import clock_text, latency_text, plural, printable

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

REFRESH_S = 0.25  #: on a terminal
LINE_EVERY_S = 5.0  #: elsewhere
#: A wait is told of after, and then every so many seconds: on a terminal, and elsewhere.
WAIT_SHOWN_S, WAIT_TOLD_S = (1.0, 1.0), (3.0, 10.0)

#: Phase -> what is going on. IDLE: before the workers have jobs, containers are made.
TITLES: Mapping[Phase, str] = {
    Phase.IDLE: "Making containers",
    Phase.POPULATE: "Uploading initial objects",
    Phase.RUN: "Benchmark run",
    Phase.CLEANUP: "Deleting objects",
}

#: Progress characters kept for a stderr that takes none just now; older ones are dropped.
_MOST_PENDING = 1_000_000


class NoProgress:
    """Mode "none", and the interface of the others. Messages are shown by all."""

    #: Whether ``results`` does anything: if not, batches needn't be unpacked for it.
    wants_results = False
    #: Whether p50 and p99 of a run are shown: if not, workers needn't count for them.
    wants_latencies = False
    #: Whether ``update`` needs counts by operation and cause.
    wants_counts = False

    def __init__(self, screen: Screen, clock: Callable[[], float] = time.monotonic) -> None:
        self._screen = screen
        self._clock = clock

    def start_phase(self, phase: Phase, total: int | None = None, title: str = "") -> None:
        """A phase begins. ``title`` where TITLES has no right words for it."""

    def results(self, columns: Sequence[Sequence[int]]) -> None:
        """A batch of results: columns operation, error, first_byte_ns, last_byte_ns."""

    def update(self, progress: RunProgress) -> None:
        """Where the phase stands. May be called as often as one likes."""

    def count(self, done: int, total: int) -> None:
        """Where a phase without operations stands: ``update`` with what the clock says."""

    def wait_for(self, text: str) -> None:
        """What is waited for; "" where that is over. May be called as often as one likes."""

    def message(self, text: str) -> None:
        """Show a line (or some) beside the progress, without disturbing it."""
        for line in text.splitlines():
            self._screen.line(printable(line))

    def end_phase(self) -> None:
        """The phase is over: what is shown of it stays. Does nothing without a phase."""

    def __enter__(self) -> NoProgress:
        return self

    def __exit__(self, *exc: object) -> None:
        self.end_phase()


class LineProgress(NoProgress):
    """A phase is one line, replaced in place; where that can't be done, a line now and then."""

    def __init__(self, screen: Screen, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(screen, clock)
        self._title = ""
        self._started = self._due = 0.0
        self._latest: RunProgress | None = None
        self._wait_due: float | None = None  # None: nothing is waited for

    def start_phase(self, phase: Phase, total: int | None = None, title: str = "") -> None:
        self.end_phase()
        self._title = title or TITLES[phase]
        self._started = now = self._clock()
        self._due = now if self._screen.moves_cursor else now + LINE_EVERY_S

    def update(self, progress: RunProgress) -> None:
        self._latest = progress
        if self._is_due():
            text = _line(self._title, progress)
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
        """Whether rich has the last lines of the terminal."""
        return False

    def count(self, done: int, total: int) -> None:
        elapsed_s = max(self._clock() - self._started, 1e-9)
        rate = done / elapsed_s
        remaining_s = (total - done) / rate if rate else None
        self.update(RunProgress(elapsed_s, done, total, rate=rate, remaining_s=remaining_s))

    def end_phase(self) -> None:
        if self._latest is not None:
            self._screen.line(_last_line(self._title, self._latest))
        self._latest = None

    def _is_due(self) -> bool:
        now = self._clock()
        if now < self._due:
            return False
        self._due = now + (REFRESH_S if self._screen.moves_cursor else LINE_EVERY_S)
        return True


class CharsProgress(LineProgress):
    """A character per operation, 78 a line, under a legend; in a series of runs that comes once."""

    wants_results = True

    def __init__(self, screen: Screen, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(screen, clock)
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
        """Some of the pending characters, as many as are surely taken at once."""
        room = COLUMNS - self._column
        piece, self._pending = self._pending[: PIECE // 2], self._pending[PIECE // 2 :]
        lines = [piece[:room]]
        lines += [piece[i : i + COLUMNS] for i in range(room, len(piece), COLUMNS)]
        self._column = (self._column + len(piece)) % COLUMNS
        self._screen.write("\n".join(lines) + ("" if self._column else "\n"))

    def _end_line(self) -> None:
        if self._column:
            self._screen.write("\n")
            self._column = 0


class LiveProgress(LineProgress):
    """Two lines that are kept up to date, by rich; without a terminal as LineProgress."""

    wants_latencies = True

    def __init__(self, screen: Screen, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(screen, clock)
        self._live: Live | None = None

    @property
    def _is_live(self) -> bool:
        return self._live is not None

    def start_phase(self, phase: Phase, total: int | None = None, title: str = "") -> None:
        super().start_phase(phase, total, title)
        if phase is Phase.RUN and self._screen.moves_cursor:
            self._live = _open_live(self._screen)

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

    def _refresh(self, live: Live, progress: RunProgress) -> None:
        live.console.width = width = self._screen.width
        live.update(_two_lines(self._title, progress, width - 1), refresh=True)


def _open_live(screen: Screen) -> Live:
    # Here, not above: rich takes 0.1 s to import, and only this mode needs it.
    from rich.console import Console
    from rich.live import Live

    console = Console(
        file=screen,  # type: ignore[arg-type]  # a file of text in all that rich calls
        force_terminal=True,
        no_color=not screen.colour,
        _environ=screen.environ,
    )
    live = Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
    live.start()
    return live


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


def _line(title: str, progress: RunProgress) -> str:
    parts = _counts(progress)
    if progress.p50_s is not None:
        parts += _latencies(progress)
    return f"{title}: {', '.join(parts)}"


def _last_line(title: str, progress: RunProgress) -> str:
    done = f"{progress.done:,}"
    if progress.total and progress.total != progress.done:
        done += f" of {progress.total:,}"
    rate = progress.done / progress.elapsed_s if progress.elapsed_s > 0 else 0.0
    errors = f", {plural(progress.errors, 'error')}" if progress.errors else ""
    late = f", {progress.late:,} never started" if progress.late else ""
    return f"{title}: {done} in {clock_text(progress.elapsed_s)} ({rate:,.0f}/s){late}{errors}"


#: Value of --progress -> what shows it.
PROGRESS: Mapping[str, Callable[[Screen, Callable[[], float]], NoProgress]] = {
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
    :param stream: None is stderr.
    :param quiet: "none", whatever the mode.
    """
    screen = Screen(stream or sys.stderr, environ)
    chosen = "none" if quiet else mode or ("live" if screen.moves_cursor else "chars")
    return PROGRESS[chosen](screen, clock)
