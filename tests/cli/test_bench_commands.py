"""bench and its suite without a store: statuses, and what becomes of their files."""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ssbench.cli import bench_commands
from ssbench.cli.console import check_writable
from ssbench.cli.master import main
from ssbench.core.errors import UsageError
from ssbench.core.live import Observer, RunProgress
from ssbench.core.model import Phase
from ssbench.runner.bench import BenchConfig, run_bench, run_in, suite_steps
from ssbench.runner.session import Session
from ssbench.runner.single_run import Aborted
from ssbench.runner.stop import Stop
from tests.ports import held_port


@pytest.fixture(autouse=True)
def _two_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """4KBput1 and 4KBput2."""
    monkeypatch.setattr(bench_commands, "suite_steps", lambda config: suite_steps(config)[:2])


def command(tmp_path: Path, *words: str) -> int:
    ports = [f"--zmq-{name}-port={held_port()}" for name in ("work", "results", "control")]
    stats_file = tmp_path / "x.stat.gz"
    return main(["bench", *words, "--noop", "-s", str(stats_file), "--force", *ports])


def suite(tmp_path: Path, *more: str) -> int:
    return command(
        tmp_path, "suite", "--count", "5", "--containers", "1", "-u", "1", "--pause", "0",
        "--csv-dir", str(tmp_path), *more,
    )  # fmt: skip


def test_each_step_of_the_suite_is_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert suite(tmp_path, "--threshold", "rate > 1000000000/s", "--progress", "live") == 3
    printed = capsys.readouterr().err
    assert "4KBput1: missed rate" in printed
    assert "Benchmark run (2: 4KBput2)" in printed
    assert len((tmp_path / "bench4KBput2.csv").read_text().splitlines()) == 6
    assert suite(tmp_path, "--threshold", "errors < 1%") == 0


def test_an_interrupt_between_two_steps_is_status_5(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def pause(session: Session, seconds: float) -> None:
        if (tmp_path / "bench4KBput1.csv").exists():
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(bench_commands, "pause", pause)
    assert suite(tmp_path) == 5
    said = capsys.readouterr()
    assert "interrupted by SIGINT" in said.err
    assert "4 KiB" in said.out or "4KB" in said.out  # the table of the finished step
    assert not (tmp_path / "bench4KBput2.csv").exists()


def test_a_threshold_that_a_step_cannot_meet_is_rejected_before_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert suite(tmp_path, "--threshold", "p99(READ) < 1s") == 2
    assert "4KBput1: " in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []


def test_a_page_that_cannot_be_written_costs_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "none" / "run.html"
    assert main(["bench", "put", "c", "--noop", "--html", str(page)]) in (1, 2)
    assert str(page) in capsys.readouterr().err
    assert main(["bench", "put", "c", "--noop", "--html-assets", str(tmp_path)]) == 2
    assert "--html FILE; give both" in capsys.readouterr().err


def test_a_run_that_fails_before_it_has_results_leaves_earlier_files(tmp_path: Path) -> None:
    for name in ("ops.csv", "over.csv", "bench4KBput1.csv", "bench4KBput2.csv"):
        (tmp_path / name).write_text("precious")
    nowhere = ["--storage", "file", "--path", str(tmp_path / "nowhere")]
    ports = [f"--zmq-{name}-port={held_port()}" for name in ("work", "results", "control")]
    outputs = ["--csv", str(tmp_path / "ops.csv"), "--csv-over-time", str(tmp_path / "new.csv")]
    assert main(["bench", "put", "c", *outputs, *nowhere, *ports]) in (1, 2)
    assert main(["bench", "suite", "--csv-dir", str(tmp_path), "-u1", *nowhere, *ports]) in (1, 2)
    assert {path.read_text() for path in tmp_path.glob("*.csv")} == {"precious"}
    assert not (tmp_path / "new.csv").exists()


def test_a_pipe_is_not_opened_before_there_are_results(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    check_writable(str(tmp_path / "pipe"), "--csv")
    for path in (tmp_path, tmp_path / "none" / "x.csv"):
        with pytest.raises(UsageError, match=f"--csv {path}: can't be written"):
            check_writable(str(path), "--csv")


def test_an_aborted_run_says_where_its_results_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def aborted(config: BenchConfig, *rest: Any) -> None:
        raise Aborted("interrupted by SIGINT", run_bench(config, *rest)[0])

    monkeypatch.setattr(bench_commands, "run_bench", aborted)
    assert command(tmp_path, "put", "c", "--count", "5") == 5
    lines = capsys.readouterr().err.splitlines()
    assert lines[-2:] == [
        f"INFO:Results saved to {tmp_path / 'x.stat.gz'}",
        "ssbench-master: interrupted by SIGINT",
    ]


def test_each_minute_has_a_line_of_what_succeeded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
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
    assert command(tmp_path, "put", "c", "--count", "5") == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if " so far, " in line]
    assert lines == [
        "60.00000s for 600 PUTs so far, 10.00000 PUTs per second...",
        "120.00000s for 600 PUTs so far, 5.00000 PUTs per second...",
    ]


@pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError])
def test_the_suite_prints_its_finished_steps_however_it_ends(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
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
    assert suite(tmp_path) == (5 if failure is KeyboardInterrupt else 1)
    out, err = capsys.readouterr()
    rows = [line.split() for line in out.split("Successes per second")[1].splitlines()[2:4]]
    assert [(row[0], len(row)) for row in rows] == [("4KBput1", 4), ("4KBput2", 3)]
    path = tmp_path / "x.4KBput2.stat.gz"
    assert (f"INFO:Results saved to {path}" in err) is (failure is KeyboardInterrupt)


def test_workers_stay_while_the_csv_file_of_a_step_is_written_slowly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe = tmp_path / "bench4KBput1.csv"
    os.mkfifo(pipe)
    read: list[str] = []

    def read_late() -> None:
        time.sleep(3)
        read.append(pipe.read_text())

    reader = threading.Thread(target=read_late)
    reader.start()
    assert suite(tmp_path, "--worker-timeout", "1") == 0
    reader.join()
    assert read[0].count("\n") == 6
    assert "Lost worker" not in capsys.readouterr().err


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
    capsys: pytest.CaptureFixture[str], words: list[str], reason: str
) -> None:
    assert status(["bench", *words, "--noop"]) in (1, 2)
    assert reason in capsys.readouterr().err


def status(words: list[str]) -> int | str | None:
    """Of a command line, which argparse may end."""
    try:
        return main(words)
    except SystemExit as ended:
        return ended.code
