"""What run-scenario prints and serves around its run, which has already been here."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Sequence
from contextlib import closing
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest

from ssbench.commands import run as run_commands
from ssbench.core.dispatch.dispatcher import JobCounts
from ssbench.core.errors import ExitStatus
from ssbench.core.live import Observer
from ssbench.master.phase_machine import PhaseOutcome
from ssbench.runner.config import RunConfig
from ssbench.runner.single_run import Aborted, RunResult
from ssbench.runner.stop import Stop
from tests.cli.shell import Said, Shell, scenario, stat_file
from tests.report import runs


class Run:
    """run-scenario, whose run gives the stat file of 200 operations."""

    def __init__(self, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = stat_file(shell.results, runs.normal())
        self.folder = shell.folder
        self.is_aborted = False
        self.result: dict[str, Any] = {}
        self._shell = shell
        monkeypatch.setattr(run_commands.runner, "run", self.ended)

    def ended(self, config: RunConfig, observers: Sequence[Observer], stop: Stop) -> RunResult:
        values = {"reasons": {}, "readable": True, "has_results": True, "in_part": False}
        outcome = PhaseOutcome(JobCounts(sent=200, done=200), 2.0, "complete")
        result = RunResult("1", str(self.path), outcome=outcome, **{**values, **self.result})
        if self.is_aborted:
            raise Aborted("interrupted by SIGINT", result)
        return result

    def __call__(self, *words: object) -> Said:
        store = [] if {"--storage", "--embedded-swift"} & {*words} else ["--noop"]
        return self._shell("run-scenario", "-f", scenario(self.folder), *store, *words)

    @property
    def saved(self) -> str:
        """What is told of the stat file."""
        return f"INFO:Scenario run results saved to {self.path}\n"


@pytest.fixture
def run(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(shell, monkeypatch)


@pytest.mark.parametrize(
    ("words", "has_report", "is_told"),
    [("", True, True), ("-R", False, True), ("-q", True, False), ("-R -q", False, False)],
)
def test_the_report_and_its_place_can_be_left_out(
    words: str, has_report: bool, is_told: bool, run: Run
) -> None:
    status, out, err = run(*words.split())
    assert status == 0
    assert out.endswith(f"\n{run.path}\n") if has_report else out == ""
    if is_told:
        assert err.startswith(run.saved)
        assert re.search(rf"\n  .+ report-scenario -s {run.path}\n", err)
    else:
        assert err == ""


@pytest.mark.parametrize(
    ("words", "is_told"), [("", False), ("--wide", False), ("--classic", True), ("--json", True)]
)
def test_on_a_terminal_the_place_is_told_once(
    words: str, is_told: bool, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The summary ends with it."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    status, out, err = run(*words.split())
    assert status == 0
    assert (run.saved in err) is is_told
    assert is_told or out.endswith(f"\n{run.path}\n")


def test_without_a_report_thresholds_are_told(run: Run) -> None:
    said = run("-R", "-q", "--threshold", "errors < 5%")
    told = "THRESHOLDS\n  FAIL  errors < 5%  10 %\n"
    assert said == (0, "", told), "the run's reasons set the status"
    run.result["reasons"] = {ExitStatus.THRESHOLD_MISSED: "missed errors < 5%"}
    said = run("-q", "--threshold", "errors < 5%")
    assert said.status == 3
    assert f"\n{told}" in said.out
    assert said.err == "ssbench-master: missed errors < 5% (exit status 3)\n"


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ({"in_part": True}, "INFO:Some of the scenario run's results saved to {path}\n"),
        ({"readable": False}, "INFO:No report: the results went to {path}\n"),
        ({"has_results": False}, ""),
    ],
)
def test_it_is_told_which_results_there_are(result: dict[str, bool], told: str, run: Run) -> None:
    run.result |= result
    status, out, err = run()
    assert status == 0
    assert err.startswith(told.format(path=run.path))
    assert bool(err) == bool(told)
    assert bool(out) == result.get("readable", True)
    assert run("-q").err == ""


def test_damage_of_the_results_is_told(run: Run) -> None:
    run.path.write_bytes(run.path.read_bytes()[:-30])
    status, out, err = run("-q")
    assert status == 0
    assert re.fullmatch(rf"(?:{run.path}: .+\n)+", err)
    assert "\nINCOMPLETE: some results of the run are missing" in out


@pytest.mark.parametrize(
    ("words", "is_told", "may_remain"),
    [("", True, False), ("--storage file --path /tmp", True, True), ("-q", False, False),
     ("-q --storage file --path /tmp", False, False), ("--embedded-swift", True, False)],
)  # fmt: skip
def test_an_aborted_run_says_how_its_objects_are_deleted(
    words: str, is_told: bool, may_remain: bool, run: Run
) -> None:
    run.is_aborted = True
    status, out, err = run(*words.split())
    assert (status, out) == (5, "")
    assert err.startswith(run.saved) is is_told
    delete = rf"to delete them .+:\n  .+ cleanup-containers --resume-cleanup {run.path}\n"
    assert bool(re.search(delete, err)) is may_remain
    assert err.endswith("ssbench-master: interrupted by SIGINT\n")
    run.result["has_results"] = False
    assert run(*words.split()) == (5, "", "ssbench-master: interrupted by SIGINT\n")


def test_the_page_of_a_run_is_served_until_ctrl_c(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    statuses: list[int] = []

    def look(_seconds: float) -> None:
        told = capsys.readouterr().err
        first, last = re.findall(r"(?:The run|Its report) is shown at (http://[^\s]+)", told)
        assert first == last
        assert f"INFO:Its report is shown at {last} until Ctrl-C\n" in told
        url = urlsplit(last)
        for path in ("/", "/report"):
            with closing(HTTPConnection("127.0.0.1", url.port or 0, timeout=60)) as connection:
                connection.request("GET", f"{path}?{url.query}", headers={"Host": url.netloc})
                statuses.append(connection.getresponse().status)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("ssbench.commands.base.sleep", look)
    run.result["reasons"] = {ExitStatus.THRESHOLD_MISSED: "missed"}
    assert run("--web", "127.0.0.1:0", "-R").status == 3, "the status is the run's"
    assert statuses == [200, 200]


def test_a_run_that_is_aborted_leaves_no_page(run: Run) -> None:
    run.is_aborted = True
    said = run("--web", "127.0.0.1:0", "-q")
    assert said.status == 5
    assert "INFO:The run is shown at " in said.err
    assert "Its report" not in said.err
