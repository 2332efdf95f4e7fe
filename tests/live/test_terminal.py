from __future__ import annotations

import io
import logging
import os
import re
import subprocess
import sys
from array import array
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ssbench.cli.console import log_to_stderr, tell
from ssbench.cli.options import PROGRESS
from ssbench.core.live import OperationProgress, RunProgress, WorkerProgress
from ssbench.core.model import NONE_NS, ErrorKind, Phase
from ssbench.core.operations import CREATE, OPERATIONS, READ, Operation
from ssbench.live.terminal import LEGEND, Screen, make_progress, progress_chars
from ssbench.live.watch import Watch, figures, operation_rows, rate_text
from tests.fakes.terminal import FakeTerminal

XTERM = {"TERM": "xterm-256color"}
DONE = RunProgress(12.0, 613, 613, rate=118.7)
#: In the middle of an open loop, with errors, and with a worker that is gone.
BUSY = RunProgress(
    34.0, 1000, None, 12, 118.7, 0.0123, 1.25, 26.0, 2, 8, 120.0, 1920,
    operations={
        READ: OperationProgress(700, 10, 90.0, 0.0123, 1.25),
        CREATE: OperationProgress(288, 2, 28.7, 0.2, 0.3),
    },
    errors_by_cause={ErrorKind.STATUS: 2, ErrorKind.NETWORK_TIMEOUT: 10},
    errors_by_status={503: 2},
    bytes_rate=12_300_000.0,
    response_p50_s=0.02,
    response_p99_s=3.5,
    history=tuple((float(rate), 1e6 * rate) for rate in range(1, 9)),
    workers_seen=[
        WorkerProgress("anna (bench-1, pid 7)", "running", 4, 5, 56.3),
        WorkerProgress("berta (bench-2, pid 8)", "gone", 0, 0, None),
        WorkerProgress("clara\x1b[2J (bench-3, pid 9)", "running", 4, 3, 12.0),
    ],
)  # fmt: skip


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def columns(count: int, operation: Operation = READ) -> list[list[int]]:
    return [[operation] * count, [0] * count, [5] * count, [5] * count]


def run_through(progress: Watch, clock: Clock) -> None:
    """All that the commands do with a display, a second between any two."""
    steps = [
        lambda: progress.start_phase(Phase.IDLE, 80),
        lambda: progress.update(RunProgress(1.0, 40, 80, rate=40)),
        lambda: progress.update(RunProgress(2.0, 80, 80, rate=40)),
        lambda: progress.start_phase(Phase.POPULATE, 110),
        lambda: progress.update(RunProgress(1.0, 60, 110, rate=60, remaining_s=1)),
        lambda: progress.message("worker 3 is lost\x1b[2J"),
        lambda: progress.update(RunProgress(2.0, 110, 110, rate=55)),
        lambda: progress.start_phase(Phase.RUN, 613),
        lambda: progress.results(columns(100)),
        lambda: progress.update(
            RunProgress(6.0, 100, 613, 2, 16.7, 0.0123, 0.25, 31.0, workers=2, users=4)
        ),
        lambda: progress.message("worker 4 is lost"),
        lambda: progress.results(columns(513, CREATE)),
        lambda: progress.update(DONE),
        lambda: progress.end_phase(),
        lambda: progress.end_phase(),
    ]
    with progress:
        for step in steps:
            step()
            clock.now += 1.0


class Terminal:
    """The lines that a terminal shows: a small one, of what we and rich send."""

    def __init__(self, width: int = 200) -> None:
        self.lines, self.row, self.column = [""], 0, 0
        self.width = width

    def feed(self, output: str) -> None:
        for token in re.findall(r"\x1b\[[?0-9;]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", output):
            row = self.row
            if token == "\n":
                self.row, self.column = row + 1, 0
                self.lines += [""] * (row + 2 - len(self.lines))
            elif token == "\r":
                self.column = 0
            elif token.startswith("\x1b["):
                number, letter = token[2:-1], token[-1]
                if letter == "A":
                    self.row = max(row - int(number or 1), 0)
                elif letter == "K":
                    self.lines[row] = "" if number == "2" else self.lines[row][: self.column]
                elif letter == "J":
                    self.lines[row:] = [self.lines[row][: self.column]]
                else:
                    assert letter in "mhl", token
            else:
                self.lines[row] = self.lines[row][: self.column].ljust(self.column) + token
                self.column += len(token)
                assert self.column <= self.width, "a line wraps"

    def resize(self, width: int) -> None:
        """Wrap lines that are too long now, as most terminals do."""
        self.width, old = width, self.lines
        self.lines = []
        for row, line in enumerate(old):
            self.lines += [line[at : at + width] for at in range(0, max(len(line), 1), width)]
            if row == self.row:
                cursor, self.column = len(self.lines) - 1, len(self.lines[-1])
        self.row = cursor

    @property
    def shown(self) -> list[str]:
        """Without blank lines below, except for the one with the cursor."""
        lines = [line.rstrip() for line in self.lines]
        while len(lines) > self.row + 1 and not lines[-1]:
            lines.pop()
        return lines


def screen_after(output: str, width: int = 200) -> list[str]:
    """The lines that a terminal shows in the end."""
    terminal = Terminal(width)
    terminal.feed(output)
    return terminal.shown


@pytest.mark.parametrize("mode", PROGRESS.choices)
def test_no_control_characters_without_a_terminal(mode: str) -> None:
    stream, clock = io.StringIO(), Clock()
    run_through(make_progress(mode, stream, XTERM, clock=clock), clock)
    shown = stream.getvalue()
    assert set(shown) - {"\n"} <= {chr(code) for code in range(32, 127)}
    assert "worker 3 is lost" in shown


@pytest.mark.parametrize("phase", [None, Phase.RUN])
def test_long_messages_wrap_at_spaces_on_a_terminal(
    phase: Phase | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    message = f"Spawning local ssbench-worker (logging to /{'x' * 40}) with it"
    wrapped = f"INFO:Spawning local ssbench-worker\n  (logging to\n  /{'x' * 40})\n  with it\n"
    table = "   12      3.4   " * 6
    for stream, expected in ((io.StringIO(), f"INFO:{message}\n"), (FakeTerminal(), wrapped)):
        with make_progress("live", stream, XTERM, clock=Clock()) as progress:
            if phase is not None:
                progress.start_phase(phase)
            progress.info(message)
            progress.message(table)
        assert expected in stream.getvalue()
        assert table in stream.getvalue()


def test_chars_mode_prints_the_legend_and_78_characters_per_line() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = make_progress("chars", stream, XTERM, clock=clock)
    progress.start_phase(Phase.RUN, 613)
    for count in (1, 76, 1, 1, 300, 0, 234):
        progress.results(columns(count))
    progress.end_phase()
    shown = stream.getvalue()
    assert shown.startswith(LEGEND)
    lines = shown[len(LEGEND) :].splitlines()
    assert [len(line) for line in lines] == [78] * 7 + [67]
    assert set("".join(lines)) == {"."}
    assert shown.endswith("\n")


def test_without_a_terminal_a_phase_prints_periodic_lines_and_a_final_one() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = make_progress("live", stream, XTERM, clock=clock)
    progress.start_phase(Phase.IDLE, 96)
    for done in range(1, 97):
        clock.now += 0.125
        progress.update(RunProgress(clock.now, done, 96, rate=8, remaining_s=(96 - done) / 8))
    progress.end_phase()
    assert stream.getvalue().splitlines() == [
        "Making containers 0:10: 80 of 96 (83 %), 8/s, 0 errors, 0:02 left",
        "Making containers: 96 in 0:12 (8/s)",
    ]


def test_without_a_terminal_a_line_of_the_run_has_all_figures() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = make_progress("live", stream, XTERM, clock=clock)
    progress.start_phase(Phase.RUN)
    clock.now = 34.0
    progress.update(BUSY)
    assert stream.getvalue() == (
        "Benchmark run 0:34: 1,000, 119/s of 120/s due, 12.3 MB/s, 1,920 late, 12 errors"
        " (10 network timeout, 2 status 503), 0:26 left, p50 12.3 ms, p99 1.25 s\n"
    )
    assert rate_text(replace(BUSY, target_rate=2896.429276)) == "119/s of 2,896.4/s due"


def test_lost_races_are_shown_apart_from_errors() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = make_progress("live", stream, XTERM, clock=clock)
    progress.start_phase(Phase.RUN)
    clock.now = 34.0
    raced = replace(BUSY, operations={CREATE: OperationProgress(900, 12, 28.7, 0.2, 0.3, 88)})
    progress.update(raced)
    assert "1,920 late, 88 lost races, 12 errors (" in stream.getvalue()
    progress.end_phase()
    assert stream.getvalue().endswith("1,920 never started, 88 lost races, 12 errors\n")
    assert ("Lost races", "88 (8.8 %)") in [each[:2] for each in figures(raced)]
    assert operation_rows(raced) == [
        ("operation", "done", "per s", "p50", "p99", "lost races", "errors"),
        ("CREATE", "900", "29", "200.0 ms", "300.0 ms", "88", "12 (1.2 %)"),
    ]


def live_screen(
    update: RunProgress, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch, wait: str = ""
) -> tuple[list[str], str]:
    """The lines of the display on a terminal of a size, and all that was written."""
    monkeypatch.setenv("COLUMNS", str(size[0]))
    monkeypatch.setenv("LINES", str(size[1]))
    stream, clock = FakeTerminal(), Clock()
    with make_progress("live", stream, XTERM, clock=clock) as progress:
        progress.start_phase(Phase.RUN)
        for _ in range(8):
            progress.wait_for(wait)
            progress.update(update)
            clock.now += 0.5
        written = stream.getvalue()
    assert screen_after(stream.getvalue()) == [
        "Benchmark run: 1,000 in 0:34 (29/s), 1,920 never started, 12 errors",
        "",
    ], "a line of it stays"
    return [line.rstrip() for line in screen_after(written, size[0])], written


def test_a_terminal_of_80_columns_shows_all_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, written = live_screen(BUSY, (80, 24), monkeypatch, "Waiting for 3 operations")
    head, *others = shown
    assert re.fullmatch(r"Benchmark run  0:34 elapsed, 0:26 left  [━╺╸]+  57 %", head)
    assert others == [
        "Operations  1,000, 119/s of 120/s due                ▂▃▄▅▅▆▇█",
        "Data        12.3 MB/s                                ▂▃▄▅▅▆▇█",
        "Latency     p50 12.3 ms, p99 1.25 s",
        "Backlog     1,920 operations due and not started",
        "Response    p50 20.0 ms, p99 3.50 s",
        "Errors      12 (1.2 %): 10 network timeout, 2 status 503",
        "",
        "operation  done  per s       p50       p99      errors",
        "CREATE      288     29  200.0 ms  300.0 ms  2 (0.69 %)",
        "READ        700     90   12.3 ms    1.25 s  10 (1.4 %)",
        "",
        "worker                         state    users  jobs   CPU",
        "berta (bench-2, pid 8)         gone         0     0     -",
        "anna (bench-1, pid 7)          running      4     5  56 %",
        "clara\\x1b[2J (bench-3, pid 9)  running      4     3  12 %",
        "Waiting for 3 operations",
    ]
    assert "\x1b[1;31m12 (1.2 %)" in written


def test_a_wide_terminal_shows_workers_beside_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, _ = live_screen(BUSY, (160, 50), monkeypatch)
    (row,) = [line for line in shown if "CREATE" in line]
    assert row.endswith("berta (bench-2, pid 8)         gone         0     0     -")


@pytest.mark.parametrize("lines", [2, 3, 8, 11, 14, 17])
@pytest.mark.parametrize("columns", [20, 40, 100, 160])
def test_the_display_fits_any_terminal(
    columns: int, lines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, _ = live_screen(BUSY, (columns, lines), monkeypatch, "Waiting for 3 operations")
    assert 1 <= len(shown) < lines + (lines < 3)


def test_a_low_terminal_leaves_out_the_least_important_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown, _ = live_screen(BUSY, (50, 12), monkeypatch)
    assert shown == [
        "Benchmark run  0:34 elapsed, 0:26 left, 57 %",
        "Operations  1,000, 119/s of 120/s due",
        "Data        12.3 MB/s",
        "Latency     p50 12.3 ms, p99 1.25 s",
        "Backlog     1,920 operations due and not started",
        "Response    p50 20.0 ms, p99 3.50 s",
        "Errors      12 (1.2 %): 10 network timeout, 2 sta…",
        "Workers     1 gone, 2 running; 8 users",
        "",
        "operation  done  per s       p50       p99      errors"[:49] + "…",
        "CREATE      288     29  200.0 ms  300.0 ms  2 (0.69 %)"[:49] + "…",
    ]
    shown, _ = live_screen(BUSY, (50, 6), monkeypatch, "Waiting for 3 operations")
    assert [line.split()[0] for line in shown] == [
        "Benchmark", "Operations", "Errors", "Workers", "Waiting",
    ]  # fmt: skip


def test_workers_that_do_not_fit_are_summed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = [WorkerProgress(f"w{n}", "running", 2, 0, None) for n in range(2000)]
    crowd[1234] = crowd[1234]._replace(name="w1234", state="silent")
    shown, _ = live_screen(replace(BUSY, workers_seen=crowd), (80, 18), monkeypatch)
    assert shown[-4:] == [
        "w1234           silent             2     0    -",
        "w0              running            2     0    -",
        "w1              running            2     0    -",
        "and 1,997 more  1,997 running  3,994",
    ]


def test_without_utf_8_there_are_no_spark_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeTerminal, "encoding", "ascii", raising=False)
    shown, _ = live_screen(BUSY, (80, 24), monkeypatch)
    assert all(line.isascii() for line in shown)


def test_a_resized_terminal_keeps_no_trace_of_the_display_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream, clock, terminal = FakeTerminal(), Clock(), Terminal(80)
    stream.write("$ ssbench-master run-scenario\n")
    monkeypatch.setenv("LINES", "50")
    with make_progress("live", stream, XTERM, clock=clock) as progress:
        progress.start_phase(Phase.RUN)
        for columns in (80, 40, 160, 33):
            terminal.resize(columns)
            monkeypatch.setenv("COLUMNS", str(columns))
            progress.update(BUSY)
            clock.now += 1
            terminal.feed(stream.getvalue())
            stream.seek(0)
            stream.truncate()
            assert terminal.shown[0] == "$ ssbench-master run-scenario"
            assert [line[:13] for line in terminal.shown].count("Benchmark run") == 1
            assert [line[:6] for line in terminal.shown].count("Errors") == 1
    terminal.resize(100)
    terminal.feed(stream.getvalue())
    assert terminal.shown == [
        "$ ssbench-master run-scenario",
        "Benchmark run: 1,000 in 0:34 (29/s), 1,920 never started, 12 errors",
        "",
    ]


def test_messages_logs_and_output_stay_above_the_display(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream, clock, root = FakeTerminal(), Clock(), logging.Logger("root")
    monkeypatch.setattr(logging, "root", root)
    log_to_stderr(logging.WARNING, "%(message)s")
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(sys, "stdout", stream)
    with make_progress("live", stream, XTERM, clock=clock) as progress:
        progress.start_phase(Phase.RUN)
        progress.update(DONE)
        progress.message("worker 4 is \x1blost, and [red]this is no markup[/red]")
        print("[1/2] from elsewhere")
        tell("and this")
        root.warning("a log")
        shown = [line.rstrip() for line in screen_after(stream.getvalue())]
    assert shown[:4] == [
        "worker 4 is \\x1blost, and [red]this is no markup[/red]",
        "[1/2] from elsewhere",
        "and this",
        "a log",
    ]
    assert shown[4].startswith("Benchmark run  0:12 elapsed")
    assert sys.stderr is stream
    assert sys.stdout is stream


def test_the_display_is_drawn_once_a_second() -> None:
    stream, clock = FakeTerminal(), Clock()
    progress = make_progress("live", stream, XTERM, clock=clock)
    progress.start_phase(Phase.RUN)
    for done in range(2000):
        clock.now += 0.001
        progress.update(RunProgress(clock.now, done))
    assert stream.getvalue().count("Benchmark run") == 2
    progress.end_phase()


def test_a_brief_display_is_not_silent_over_many_short_phases() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = make_progress("live", stream, {}, brief=True, clock=clock)
    for number in range(25):  # of a second each
        clock.now = float(number)
        progress.start_phase(Phase.RUN, 80)
        clock.now += 0.9
        progress.update(RunProgress(0.9, 40, 80, rate=4))
        progress.end_phase()
    assert stream.getvalue().count("Benchmark run 0:00: 40 of 80") == 2


def test_a_brief_display_shows_the_course_and_leaves_nothing() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = make_progress("live", stream, {}, brief=True, clock=clock)
    progress.info("ssbench")
    progress.start_phase(Phase.RUN, 80)
    clock.now = 10.0
    progress.update(RunProgress(10.0, 40, 80, rate=4))
    progress.end_phase()
    assert stream.getvalue() == "Benchmark run 0:10: 40 of 80 (50 %), 4/s, 0 errors\n"


@pytest.mark.parametrize("mode", PROGRESS.choices)
def test_an_unread_stderr_does_not_block_the_run(mode: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as stream:
        stream.isatty = lambda: True  # type: ignore[method-assign]
        clock = Clock()
        run_through(make_progress(mode, stream, XTERM, clock=clock), clock)


def test_a_slow_reader_gets_every_character_without_blocking_the_run() -> None:
    reader, writer = os.pipe()
    with open(writer, "w") as stream:
        progress = make_progress("chars", stream, XTERM)
        progress.start_phase(Phase.RUN)
        for _ in range(200):
            progress.results(columns(1000))
        shown = os.read(reader, 1 << 20)
        progress.results(columns(0))
        shown += os.read(reader, 1 << 20)
        progress.results(columns(0))
        while shown.count(b"\n") < len(LEGEND.splitlines()) + 200_000 // 78:
            shown += os.read(reader, 1 << 20)
            progress.results(columns(0))
        progress.end_phase()
    while more := os.read(reader, 1 << 20):
        shown += more
    os.close(reader)
    assert shown.decode().removeprefix(LEGEND).count(".") == 200_000


@pytest.mark.parametrize("mode", PROGRESS.choices)
def test_a_stopped_terminal_delays_no_run_and_gets_all_messages_later(mode: str) -> None:
    """More than a pipe takes, of which nothing is read before the run is over."""
    reader, writer = os.pipe()
    with open(reader) as received, ThreadPoolExecutor() as pool, open(writer, "w") as stream:
        clock = Clock()
        with make_progress(mode, stream, XTERM, clock=clock) as progress:
            run_through(progress, clock)
            for number in range(3000):
                progress.message(f"WARNING: the worker {number:04} is late, as it was before")
            progress.start_phase(Phase.CLEANUP)
            progress.end_phase()
            read = pool.submit(received.read)
        stream.close()
        told = re.findall(r"worker (\d+) is late", read.result())
    assert told == [f"{number:04}" for number in range(3000)]


def test_rich_is_imported_for_live_only() -> None:
    code = "import sys, ssbench.live.terminal; sys.exit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def waited(mode: str, stream: io.StringIO, seconds: int) -> str:
    """What is shown of a wait of so many seconds, looked at ten times a second."""
    clock = Clock()
    progress = make_progress(mode, stream, XTERM, clock=clock)
    for tenth in range(10 * seconds):
        clock.now = tenth / 10
        progress.wait_for(f"Waiting for workers: 1 of 3 ({seconds - tenth // 10} s left)")
    progress.wait_for("")
    return stream.getvalue()


@pytest.mark.parametrize("mode", ["chars", "live"])
def test_a_wait_is_shown_from_its_first_second_on_a_terminal(mode: str) -> None:
    shown = waited(mode, FakeTerminal(), 5)
    found = [int(left) for left in re.findall(r"1 of 3 \((\d+) s left", shown)]
    assert list(dict.fromkeys(found)) == [4, 3, 2, 1]
    assert not any(screen_after(shown)), "no trace of it stays"


@pytest.mark.parametrize("mode", ["chars", "live"])
def test_a_wait_prints_a_line_every_ten_seconds_without_a_terminal(mode: str) -> None:
    told = waited(mode, io.StringIO(), 30)
    assert [int(left) for left in re.findall(r"1 of 3 \((\d+) s left\)\n", told)] == [27, 17, 7]


def test_short_waits_and_quiet_mode_print_nothing() -> None:
    assert waited("chars", io.StringIO(), 2) == ""
    assert waited("none", io.StringIO(), 30) == ""


# The screen


@pytest.mark.parametrize(
    ("stream", "environ", "moves", "colour"),
    [
        (FakeTerminal(), XTERM, True, True),
        (FakeTerminal(), {**XTERM, "NO_COLOR": "1"}, True, False),
        (FakeTerminal(), {**XTERM, "NO_COLOR": ""}, True, True),
        (FakeTerminal(), {"TERM": "dumb"}, False, False),
        (io.StringIO(), XTERM, False, False),
    ],
)
def test_screen_capabilities(
    stream: io.StringIO, environ: dict[str, str], moves: bool, colour: bool
) -> None:
    screen = Screen(stream, environ)
    assert (screen.moves_cursor, screen.isatty(), screen.colour) == (moves, moves, colour)


def test_writing_to_a_closed_stream_is_no_error() -> None:
    stream = io.StringIO()
    screen = Screen(stream)
    stream.close()
    screen.line("hello")
    assert screen.gone
    assert not screen.ready()
    Screen(stream).line("hello")


def test_a_broken_pipe_is_no_error_then_or_at_exit() -> None:
    reader, writer = os.pipe()
    stream = open(writer, "w")  # noqa: SIM115  # closed below, which would fail
    screen = Screen(stream, XTERM)
    assert screen.ready()
    os.close(reader)
    screen.line("hello")
    assert screen.gone
    screen.line("hello again")
    stream.write("and others may write to it")
    stream.close()


def test_a_non_blocking_descriptor_drops_text_and_stays_open() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    stream = open(os.dup(writer), "w")  # noqa: SIM115  # drained before it is closed
    screen = Screen(stream, XTERM)
    for _ in range(100):
        screen.write("x" * 4096)
    assert not screen.gone
    os.read(reader, 1 << 20)
    stream.close()
    os.close(reader)
    os.close(writer)


# Characters of progress


S = 1_000_000_000


def test_a_read_is_shown_by_its_first_byte_latency() -> None:
    assert progress_chars([[READ, READ], [0, 0], [5, S], [20 * S, 20 * S]]) == ".o"


def test_failures_are_shown_whatever_their_latency() -> None:
    assert progress_chars([[READ, CREATE], [1, 14], [NONE_NS, NONE_NS], [5, 20 * S]]) == "XX"


def test_no_results_are_no_characters() -> None:
    assert progress_chars([[], [], [], []]) == ""


@pytest.mark.parametrize("operation", [200, 300, -1, 2**40])
def test_unknown_operation_numbers_have_their_own_character(operation: int) -> None:
    assert progress_chars([[operation, READ], [0, 0], [1, 1], [1, 1]]) == "?."
    assert progress_chars([[operation, READ], [0, 0], [1, 1], [2 * S, 2 * S]]) == "?."


@given(
    st.lists(
        st.tuples(
            st.sampled_from(list(OPERATIONS.values())),
            st.just(0),
            st.integers(0, S - 1),
            st.integers(0, S - 1),
        )
    ),
)
def test_the_fast_path_agrees_with_the_slow_one(rows: list[tuple[int, int, int, int]]) -> None:
    """Invariant: a batch shows the same whether or not a slow result is among it."""
    slow = [*rows, (CREATE, 0, NONE_NS, 20 * S)]
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    packed = [array("B", columns[0]), *columns[1:]]
    assert progress_chars(packed) + "@" == progress_chars(list(zip(*slow, strict=True)))
