from __future__ import annotations

import io
import os
import re
import subprocess
import sys

import pytest

from ssbench.cli.progress import LEGEND, PROGRESS, TITLE, NoProgress, make_progress
from ssbench.core.live import RunProgress
from ssbench.core.model import NONE_NS, Phase
from ssbench.core.operations import CREATE, DELETE, ENSURE, READ, Operation

XTERM = {"TERM": "xterm-256color"}
DONE = RunProgress(12.0, 613, 613, rate=118.7)


class FakeTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def columns(count: int, operation: Operation = READ) -> list[list[int]]:
    return [[operation] * count, [0] * count, [5] * count, [5] * count]


def run_through(progress: NoProgress, clock: Clock) -> None:
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


def screen_after(output: str, width: int = 200) -> list[str]:
    """The lines that a terminal shows in the end: a small one, of what we and rich send."""
    lines, row, column = [""], 0, 0
    for token in re.findall(r"\x1b\[[?0-9;]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", output):
        if token == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif token == "\r":
            column = 0
        elif token.startswith("\x1b["):
            number, letter = token[2:-1], token[-1]
            if letter == "A":
                row -= int(number or 1)
            elif letter == "K":
                lines[row] = "" if number == "2" else lines[row][:column]
            else:
                assert letter in "mhl", token
        else:
            lines[row] = lines[row][:column].ljust(column) + token
            column += len(token)
            assert column <= width, "a line wraps"
    return lines


@pytest.mark.parametrize("mode", PROGRESS)
def test_no_control_characters_without_a_terminal(mode: str) -> None:
    stream, clock = io.StringIO(), Clock()
    run_through(make_progress(mode, stream, XTERM, clock=clock), clock)
    shown = stream.getvalue()
    assert set(shown) - {"\n"} <= {chr(code) for code in range(32, 127)}
    assert "worker 3 is lost" in shown


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


def test_a_message_between_characters_starts_a_new_line() -> None:
    stream = io.StringIO()
    progress = make_progress("chars", stream, XTERM)
    progress.start_phase(Phase.RUN)
    progress.results(columns(3))
    progress.message("worker 4 is lost\nso is worker 5")
    progress.results(columns(78, DELETE))
    progress.end_phase()
    assert stream.getvalue()[len(LEGEND) :].splitlines() == [
        "...",
        "worker 4 is lost",
        "so is worker 5",
        "_" * 78,
    ]


def test_only_the_run_phase_prints_characters() -> None:
    stream = io.StringIO()
    progress = make_progress("chars", stream, XTERM)
    progress.start_phase(Phase.POPULATE, 10)
    progress.results(columns(10, ENSURE))
    progress.end_phase()
    assert stream.getvalue() == ""


def test_without_a_terminal_a_phase_prints_periodic_lines_and_a_final_one() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = make_progress("chars", stream, XTERM, clock=clock)
    progress.start_phase(Phase.IDLE, 72)
    for done in range(1, 73):
        clock.now += 0.125
        progress.update(RunProgress(clock.now, done, 72, rate=8, remaining_s=(72 - done) / 8))
    progress.end_phase()
    assert stream.getvalue().splitlines() == [
        "Making containers: 40 of 72 (55 %), 8/s, 0 errors, 0:04 left",
        "Making containers: 72 in 0:09 (8/s)",
    ]


def test_status_lines_show_errors_and_missing_workers() -> None:
    stream = io.StringIO()
    progress = make_progress("chars", stream, XTERM)
    progress.start_phase(Phase.POPULATE, 10)
    progress.update(RunProgress(2.0, 8, 10, errors=1))
    progress.end_phase()
    assert stream.getvalue() == "Uploading initial objects: 8 of 10 in 0:02 (4/s), 1 error\n"


def test_status_lines_of_an_open_loop_show_target_and_backlog() -> None:
    stream, clock = FakeTerminal(), Clock()
    progress = make_progress("live", stream, XTERM, clock=clock)
    progress.start_phase(Phase.RUN)
    behind = RunProgress(6.0, 552, None, 0, 92.1, workers=1, users=4, target_rate=2400.0, late=1920)
    progress.update(behind)
    assert screen_after(stream.getvalue())[0] == (
        "Benchmark run 0:06: 552, 92/s of 2,400/s due, 1,920 late, 0 errors"
    )
    assert "\x1b[31m1,920 late" in stream.getvalue()
    assert "\x1b[31m0 errors" not in stream.getvalue()
    progress.end_phase()
    plain = io.StringIO()
    progress = make_progress("live", plain, XTERM, clock=clock)
    progress.start_phase(Phase.RUN)
    progress.update(behind)
    progress.end_phase()
    assert plain.getvalue() == "Benchmark run: 552 in 0:06 (92/s), 1,920 never started\n"


def test_on_a_terminal_a_phase_updates_one_line() -> None:
    stream, clock = FakeTerminal(), Clock()
    progress = make_progress("chars", stream, XTERM, clock=clock)
    progress.start_phase(Phase.CLEANUP, 4, "Deleting containers")
    for done in range(1, 1000):
        clock.now += 0.001
        progress.update(RunProgress(clock.now, done, 1000, rate=1000))
    assert stream.getvalue().count("\r") == 4, "four times a second"
    progress.message("hello")
    progress.end_phase()
    assert screen_after(stream.getvalue()) == [
        "hello",
        "Deleting containers: 999 of 1,000 in 0:00 (1,000/s)",
        "",
    ]


def test_live_mode_updates_two_lines() -> None:
    stream, clock = FakeTerminal(), Clock()
    progress = make_progress("live", stream, XTERM, clock=clock)
    progress.start_phase(Phase.RUN, 613)
    progress.update(RunProgress(6.0, 100, 613, 2, 16.7, 0.0123, 1.25, 31.0, workers=2, users=4))
    assert screen_after(stream.getvalue()) == [
        "Benchmark run 0:06: 100 of 613 (16 %), 17/s, 2 errors, 0:31 left",
        "p50 12.3 ms, p99 1.25 s, 2 workers, 4 users",
    ]
    assert "\x1b[31m2 errors" in stream.getvalue()
    progress.message("worker 4 is \x1blost, and [red]this is no markup[/red]")
    progress.update(DONE)
    progress.end_phase()
    assert [line.rstrip() for line in screen_after(stream.getvalue())] == [
        "worker 4 is \\x1blost, and [red]this is no markup[/red]",
        "Benchmark run 0:12: 613 of 613 (100 %), 119/s, 0 errors",
        "p50 -, p99 -",
        "",
    ]
    assert stream.getvalue().endswith("\x1b[?25h"), "the cursor is visible again"


def test_live_mode_refreshes_about_four_times_a_second() -> None:
    stream, clock = FakeTerminal(), Clock()
    progress = make_progress("live", stream, XTERM, clock=clock)
    progress.start_phase(Phase.RUN)
    for done in range(2000):
        clock.now += 0.001
        progress.update(RunProgress(clock.now, done))
    assert stream.getvalue().count("Benchmark run") == 8
    progress.end_phase()


def test_live_mode_without_colours() -> None:
    stream, clock = FakeTerminal(), Clock()
    run_through(make_progress("live", stream, {**XTERM, "NO_COLOR": "1"}, clock=clock), clock)
    assert "2 errors" in stream.getvalue()
    assert "\x1b[31m" not in stream.getvalue()


def test_live_mode_truncates_long_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    stream, clock = FakeTerminal(), Clock()
    progress = make_progress("live", stream, XTERM, clock=clock)
    progress.start_phase(Phase.RUN)
    progress.update(RunProgress(6.0, 100, 613, workers=20, users=400))
    assert screen_after(stream.getvalue(), 20) == ["Benchmark run 0:...", "p50 -, p99 -, 20..."]
    progress.end_phase()


@pytest.mark.parametrize(
    ("mode", "stream", "environ", "quiet", "chosen"),
    [
        (None, FakeTerminal(), XTERM, False, "live"),
        (None, FakeTerminal(), {"TERM": "dumb"}, False, "chars"),
        (None, io.StringIO(), XTERM, False, "chars"),
        ("chars", FakeTerminal(), XTERM, False, "chars"),
        ("none", FakeTerminal(), XTERM, False, "none"),
        ("live", FakeTerminal(), XTERM, True, "none"),
    ],
)
def test_the_default_mode_depends_on_the_terminal(
    mode: str | None, stream: io.StringIO, environ: dict[str, str], quiet: bool, chosen: str
) -> None:
    progress = make_progress(mode, stream, environ, quiet=quiet)
    assert type(progress) is PROGRESS[chosen]
    assert progress.wants_results is (chosen == "chars")


def test_quiet_prints_no_progress() -> None:
    stream, clock = FakeTerminal(), Clock()
    progress = make_progress(None, stream, XTERM, quiet=True, clock=clock)
    progress.start_phase(Phase.RUN, 10)
    progress.results(columns(10))
    progress.update(DONE)
    progress.end_phase()
    assert stream.getvalue() == ""


@pytest.mark.parametrize("mode", PROGRESS)
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


def test_a_missing_first_byte_latency_is_accepted() -> None:
    stream = io.StringIO()
    progress = make_progress("chars", stream)
    progress.start_phase(Phase.RUN)
    progress.results([[CREATE], [0], [NONE_NS], [2_000_000_000]])
    progress.end_phase()
    assert stream.getvalue().endswith("|\n")


def test_rich_is_imported_for_live_only() -> None:
    code = "import sys, ssbench.cli.progress; sys.exit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_series_prints_the_legend_once() -> None:
    stream = io.StringIO()
    progress = make_progress("chars", stream, XTERM)
    for _ in range(2):
        progress.start_phase(Phase.RUN)
        progress.end_phase()
    assert stream.getvalue().count("first-byte-latency") == LEGEND.count("first-byte-latency")
    assert stream.getvalue().count(TITLE) == 2


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
def test_a_wait_updates_each_second_on_a_terminal(mode: str) -> None:
    shown = waited(mode, FakeTerminal(), 5)
    assert [int(left) for left in re.findall(r"1 of 3 \((\d+) s left", shown)] == [4, 3, 2, 1]
    assert shown.endswith("\r\x1b[K"), "no trace of it stays"
    assert "\n" not in shown


@pytest.mark.parametrize("mode", ["chars", "live"])
def test_a_wait_prints_a_line_every_ten_seconds_without_a_terminal(mode: str) -> None:
    told = waited(mode, io.StringIO(), 30)
    assert [int(left) for left in re.findall(r"1 of 3 \((\d+) s left\)\n", told)] == [27, 17, 7]


def test_short_waits_and_quiet_mode_print_nothing() -> None:
    assert waited("chars", io.StringIO(), 2) == ""
    assert waited("none", io.StringIO(), 30) == ""


def test_a_wait_during_live_mode_prints_nothing() -> None:
    clock, stream = Clock(), FakeTerminal()
    progress = make_progress("live", stream, XTERM, clock=clock)
    progress.start_phase(Phase.RUN, 10)
    for second in range(20):
        clock.now = float(second)
        progress.wait_for("Waiting for workers to connect to the store: 1 of 3")
    progress.wait_for("")
    progress.end_phase()
    assert stream.getvalue().count("1 of 3\n") == 2
