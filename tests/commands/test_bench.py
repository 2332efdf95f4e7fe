"""bench and its suite without a store: statuses, and what becomes of their files."""

from __future__ import annotations

import errno
import os
import re
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ssbench.commands.bench import command as bench_commands
from ssbench.commands.bench.command import (
    BenchConfig,
    EmptiedContainers,
    pause,
    run_bench,
    run_in,
    suite_steps,
)
from ssbench.commands.bench.settings import BENCH_PREFIX, METHODS
from ssbench.core.dispatch.dispatcher import JobCounts
from ssbench.core.live import Observer, RunProgress
from ssbench.core.model import Phase
from ssbench.master.phase_machine import PhaseOutcome
from ssbench.report.operations import MIXED_COLUMNS, READ_COLUMNS, WRITE_COLUMNS
from ssbench.runner.session import Session
from ssbench.runner.single_run import Aborted, RunResult
from ssbench.runner.stop import Stop
from tests.cli.shell import Said, Shell, free_ports, stat_file
from tests.report import runs


@pytest.fixture(autouse=True)
def _two_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """4KBput1 and 4KBput2."""
    monkeypatch.setattr(bench_commands, "suite_steps", lambda config: suite_steps(config)[:2])


@pytest.fixture
def command(shell: Shell) -> Callable[..., Said]:
    """``bench`` that sends nothing to a store."""
    more = ["--noop", "-s", shell.results, "--force", *free_ports()]
    return lambda *words: shell("bench", *words, *more)


@pytest.fixture
def suite(shell: Shell, command: Callable[..., Said]) -> Callable[..., Said]:
    words = ["--count", 5, "--containers", 1, "-u", 1, "--pause", 0, "--csv-dir", shell.folder]
    return lambda *more: command("suite", *words, *more)


def test_each_step_of_the_suite_is_judged(suite: Callable[..., Said], tmp_path: Path) -> None:
    said = suite("--threshold", "rate > 1000000000/s", "--progress", "live")
    assert said.status == 3
    assert "4KBput1: missed rate" in said.err
    assert "Benchmark run (2: 4KBput2)" in said.err
    assert len((tmp_path / "bench4KBput2.csv").read_text().splitlines()) == 6
    assert suite("--threshold", "errors < 1%").status == 0


def test_an_interrupt_between_two_steps_is_status_5(
    suite: Callable[..., Said], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pause(session: Session, seconds: float, before: str) -> None:
        if (tmp_path / "bench4KBput1.csv").exists():
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(bench_commands, "pause", pause)
    said = suite()
    assert said.status == 5
    assert "interrupted by SIGINT" in said.err
    assert "\n4KBput1 " in said.out  # the table of the finished step
    assert not (tmp_path / "bench4KBput2.csv").exists()


def test_a_threshold_that_a_step_cannot_meet_is_rejected_before_the_first(
    suite: Callable[..., Said], tmp_path: Path
) -> None:
    said = suite("--threshold", "p99(READ) < 1s")
    assert said.status == 2
    assert "4KBput1: " in said.err
    assert [*tmp_path.iterdir()] == []


def test_a_run_that_fails_before_it_has_results_leaves_earlier_files(shell: Shell) -> None:
    place = shell.folder
    for name in ("ops.csv", "over.csv", "bench4KBput1.csv", "bench4KBput2.csv"):
        (place / name).write_text("precious")
    more = ["--storage", "file", "--path", place / "nowhere", *free_ports()]
    outputs = ["--csv", place / "ops.csv", "--csv-over-time", place / "new.csv"]
    assert shell("bench", "put", "c", *outputs, *more).status in (1, 2)
    assert shell("bench", "suite", "--csv-dir", place, "-u1", *more).status in (1, 2)
    assert {path.read_text() for path in place.glob("*.csv")} == {"precious"}
    assert not (place / "new.csv").exists()


def test_each_minute_has_a_line_of_what_succeeded(
    command: Callable[..., Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(config: BenchConfig, observers: Sequence[Observer], stop: Stop) -> Any:
        lines = observers[0]
        lines.start_phase(Phase.RUN)
        for elapsed_s in (59.0, 60.0, 61.0, 120.0):
            lines.update(RunProgress(elapsed_s, 900, None, errors=300))
        lines.end_phase()
        lines.update(RunProgress(180.0, 900, None))
        return run_bench(config, observers[1:], stop)

    monkeypatch.setattr(bench_commands, "run_bench", told)
    said = command("put", "c", "--count", 5)
    assert said.status == 0
    assert [line for line in said.out.splitlines() if " so far, " in line] == [
        "60.00000s for 600 PUTs so far, 10.00000 PUTs per second...",
        "120.00000s for 600 PUTs so far, 5.00000 PUTs per second...",
    ]


class Bench:
    """bench against a folder as store, whose run has already been: with a stat file of 200
    operations."""

    def __init__(self, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
        self.config: BenchConfig | None = None
        self.counts = JobCounts(sent=20, done=20)
        self.emptied: EmptiedContainers | None = None
        self.in_part = False
        self.path = stat_file(shell.results, runs.normal())
        self._shell = shell
        monkeypatch.setattr(bench_commands, "run_bench", self.ended)

    def ended(self, config: BenchConfig, observers: Sequence[Observer], stop: Stop) -> Any:
        self.config = config
        for phase in (Phase.POPULATE, Phase.RUN):
            observers[0].start_phase(phase)
        outcome = PhaseOutcome(self.counts, 2.5, "complete", example="503\x1b")
        result = RunResult("1", str(self.path), {}, True, True, self.in_part, outcome)
        return result, self.emptied

    def __call__(self, *words: object) -> Said:
        return self._shell("bench", *words, "--storage", "file", "--path", "/tmp")


@pytest.fixture
def fake(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(shell, monkeypatch)


@pytest.mark.parametrize(
    ("words", "begin", "end"),
    [
        ("put c", "Bench-PUT of 1,000 objects, in 1 container, at 1 concurrency...",
         "2.50000s total time, 8.00000 PUTs per second."),
        ("get c --iterations 3 --containers 2 --count 1 -u 9",
         "Bench-GET of 1 object, 3 times, in 2 containers, at 9 concurrency...",
         "2.50000s total time, 8.00000 GETs per second."),
        ("mixed c --time 90",
         "Bench-MIXED of objects for 90s, in 1 container, at 1 concurrency for each operation...",
         "2.50000s for 20 requests, 8.00000 requests per second."),
    ],
)  # fmt: skip
def test_a_run_begins_and_ends_with_the_lines_of_nectar(
    words: str, begin: str, end: str, fake: Bench
) -> None:
    out = f"{begin}\n{end}\n"
    assert fake(*words.split()) == (0, out, f"INFO:Results saved to {fake.path}\n")
    fake.in_part = True
    assert fake(*words.split()) == (0, out, f"INFO:Some results saved to {fake.path}\n")
    assert fake(*words.split(), "-q") == (0, out, "")


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        (JobCounts(done=18, failed=2), "2 of 20 PUTs failed"),
        (JobCounts(done=17, failed=2, lost=1), "2 of 20 PUTs failed, 1 lost with a worker"),
        (JobCounts(done=1000, lost=200), "0 of 1,200 PUTs failed, 200 lost with a worker"),
    ],
)
def test_failures_of_a_run_are_told(counts: JobCounts, told: str, fake: Bench) -> None:
    fake.counts = counts
    assert fake("put", "c", "-q").err == f"WARNING: {told}; the first error: 503\\x1b\n"


def test_what_became_of_emptied_containers_is_told(fake: Bench) -> None:
    fake.emptied = EmptiedContainers(3, Counter({"not empty": 1, "not made by ssbench": 2}))
    said = fake("delete", "c", "-q")
    assert said.status == 0
    assert said.out.splitlines()[-1] == "Deleted 3 emptied containers."
    assert said.err.splitlines() == [
        "Left alone: 1 container: not empty",
        "Left alone: 2 containers: not made by ssbench",
    ]


@pytest.mark.parametrize(
    ("method", "columns", "over_time"),
    [
        ("put", WRITE_COLUMNS, ["count_since_last_time"]),
        ("delete", WRITE_COLUMNS, ["count_since_last_time"]),
        ("get", READ_COLUMNS, ["count_since_last_time"]),
        ("head", READ_COLUMNS, ["count_since_last_time"]),
        ("mixed", MIXED_COLUMNS, METHODS["mixed"].columns),
    ],
)
def test_csv_files_have_the_columns_of_the_method(
    method: str, columns: Sequence[str], over_time: Sequence[str], fake: Bench, tmp_path: Path
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    assert fake(method, "c", "--csv", one, "--csv-over-time", other).status == 0
    lines = one.read_text().splitlines()
    assert lines[0] == ",".join(columns)
    assert len(lines) == 201
    assert other.read_text().splitlines()[0] == ",".join(["time_unix_nano", *over_time])


def test_a_container_may_have_a_prefix_headers_and_a_page(fake: Bench, tmp_path: Path) -> None:
    page = tmp_path / "a.html"
    places = []
    for words in ("c", "c/a/b-", "c b-"):
        more = ["--header", "X-A: 1", "--header", "X-B: 2", "--html", page]
        assert fake("put", *words.split(), *more).status == 0
        assert fake.config is not None
        places.append((fake.config.container, fake.config.prefix))
        assert fake.config.headers == {"X-A": "1", "X-B": "2"}
    assert places == [("c", BENCH_PREFIX), ("c", "a/b-"), ("c", "b-")]
    assert page.read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError])
def test_the_suite_prints_its_finished_steps_however_it_ends(
    suite: Callable[..., Said],
    shell: Shell,
    monkeypatch: pytest.MonkeyPatch,
    failure: type[BaseException],
) -> None:
    finished: list[str] = []

    def run_once(session: Session, config: BenchConfig) -> Any:
        result, emptied = run_in(session, config)
        if finished and failure is OSError:
            raise OSError(errno.ENOSPC, "No space left on device")
        if finished:
            raise Aborted("interrupted by SIGINT", result)
        finished.append(result.path)
        return result, emptied

    monkeypatch.setattr(bench_commands, "run_in", run_once)
    status, out, err = suite()
    assert status == (5 if failure is KeyboardInterrupt else 1)
    rows = [line.split() for line in out.split("Successes per second")[1].splitlines()[2:4]]
    assert [(row[0], len(row)) for row in rows] == [("4KBput1", 4), ("4KBput2", 3)]
    path = shell.folder / "x.4KBput2.stat.gz"
    assert (f"INFO:Results saved to {path}" in err) is (failure is KeyboardInterrupt)


def test_an_interrupted_step_of_the_suite_is_marked_and_what_is_left_is_told(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_and_interrupt(session: Session, config: BenchConfig) -> Any:
        result, emptied = run_in(session, config)
        session.stop("interrupted by SIGINT")
        return result, emptied

    monkeypatch.setattr(bench_commands, "run_in", run_and_interrupt)
    (tmp_path / "store").mkdir()
    place = ["--storage", "file", "--path", tmp_path / "store", "--csv-dir", tmp_path]
    words = ["--count", 5, "--containers", 2, "-u", 1, "--pause", 0, *place, *free_ports()]
    status, out, err = shell("bench", "suite", *words)
    assert status == 5
    table = out.split("Successes per second")[1].splitlines()
    assert table[1].startswith(f"Store: file, directory {tmp_path}")
    table = table[3:]
    assert table[0].split()[0] == "4KBput1"
    assert table[0].endswith("  *")
    assert not table[1].endswith("*")
    assert re.search(r"\* 4KBput1 was interrupted after [\d.]+ s: its rate is that of a part", out)
    left = re.search(r"Left: 2 containers (\S+)\.\.\., with objects\. To delete them: (.*)", err)
    assert left
    assert left[2].startswith(f"ssbench-master bench delete {left[1]} bench- --containers 2")
    assert (tmp_path / "store" / f"{left[1]}0").is_dir()
    more = ["--storage", "file", "--path", tmp_path / "store", *free_ports()]
    assert shell(*left[2].split()[1:], *more).status == 0
    assert not (tmp_path / "store" / f"{left[1]}0").exists()


def test_a_pause_of_the_suite_says_what_it_waits_for() -> None:
    said: list[str] = []
    session = SimpleNamespace(stop=Stop(), meanwhile=lambda work: work(), wait_for=said.append)
    pause(session, 0.02, "4KBget1")  # type: ignore[arg-type]
    assert said == ["Pausing before 4KBget1: 0:01 left", ""]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["get", "c", "--max-size", "9"], "--size is missing"),
        (["put", "c", "--size", "10", "--max-size", "10"], "--max-size 10 is not above --size 10"),
        (["put", "/x"], "CONTAINER: is empty"),
        (["put", "..", "x"], 'no segment may be "." or ".."'),
        (["put", "c", "--csv", "/nowhere/x.csv"], "/nowhere/x.csv: can't be written"),
        (["head", "c", "--size", "10"], "unknown option: --size"),
        (["get", "c", "--header", "X-Auth-Token: 1"], "X-Auth-Token"),
        (["get", "c", "--header", "none"], "give a header as 'NAME: VALUE'"),
        (["suite", "--csv-dir", "/nowhere"], "/nowhere/bench4KBput1.csv: can't be written"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_sent(
    shell: Shell, words: list[str], reason: str
) -> None:
    said = shell("bench", *words, "--noop")
    assert said.status in (1, 2)
    assert reason in said.err
