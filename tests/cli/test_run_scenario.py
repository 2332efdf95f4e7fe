"""run-scenario, in this process, with local workers and no store."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from ssbench.cli.master import main
from ssbench.core.errors import ExitStatus
from ssbench.core.messages import Jobs, decode
from ssbench.core.model import Phase
from ssbench.core.operations import CRUD
from ssbench.runner.local_workers import LocalWorkers
from ssbench.runner.results import read_stats
from ssbench.transport.master_transport import MasterTransport
from tests.cli.test_master import free_ports
from tests.fakes.hostile_swift import Behaviour, HostileSwift, of_objects, of_the_run
from tests.fakes.server_behaviours import saying

pytestmark = pytest.mark.usefixtures("forked_workers")


@pytest.fixture(autouse=True)
def _own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def scenario(tmp_path: Path, **keys: Any) -> Path:
    path = tmp_path / "own.scenario"
    given = {
        "name": "own", "sizes": [{"name": "tiny", "size_min": 1, "size_max": 99}],
        "initial_files": {"tiny": 5}, "operation_count": 50, "user_count": 4,
        "crud_profile": [4, 3, 2, 1], "container_count": 2, **keys,
    }  # fmt: skip
    path.write_text(json.dumps(given))
    return path


def run(path: object, tmp_path: Path, *words: str) -> tuple[ExitStatus, Path]:
    """The status and the stat file."""
    results = tmp_path / "x.stat.gz"
    command = [
        "run-scenario", "-f", str(path), "--noop", "-s", str(results), "--force", *free_ports(),
        *words,
    ]  # fmt: skip
    return ExitStatus(main(command)), results


def test_a_run_ends_with_its_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, results = run(scenario(tmp_path), tmp_path, "--workers", "1", "--seed", "7")
    out, err = capsys.readouterr()
    assert status is ExitStatus.OK
    assert "TOTAL" in out
    assert "seed 7" in err
    assert f"INFO:Scenario run results saved to {results}\n" in err
    assert f" report-scenario -s {results}\n" in err
    assert ("INFO:/tmp is emptied at a reboot;" in err) == str(results).startswith("/tmp/")
    stats = read_stats(str(results))
    assert stats.total().operations == 50
    assert stats.total().errors == 0


def test_quiet_prints_no_progress(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _ = run(scenario(tmp_path), tmp_path, "--workers", "1", "-q", "-R")
    assert status is ExitStatus.OK
    assert capsys.readouterr() == ("", "")


def test_csv_replaces_the_text_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(scenario(tmp_path), tmp_path, "--workers", "1", "--csv", "-q")
    assert capsys.readouterr().out.count("\n") == 2


def test_the_same_seed_gives_the_same_operations(tmp_path: Path) -> None:
    counts = []
    for _ in range(2):
        _, results = run(scenario(tmp_path), tmp_path, "--workers", "2", "-q", "-R", "--seed", "3")
        stats = read_stats(str(results))
        counts.append([stats.total(operation).operations for operation in CRUD])
    assert counts[0] == counts[1]


def test_a_run_out_of_objects_reports_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = scenario(tmp_path, crud_profile=[0, 0, 0, 1])
    status, results = run(path, tmp_path, "--workers", "1")
    assert status is ExitStatus.OK
    assert read_stats(str(results)).total().operations == 5
    assert "no object is left" in capsys.readouterr().err


def test_an_interrupted_run_keeps_its_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = threading.Event()
    send_jobs = MasterTransport.send_jobs

    def send_and_interrupt(self: MasterTransport, data: bytes) -> bool:
        done = send_jobs(self, data)
        message = decode(data)
        if done and isinstance(message, Jobs) and message.phase == Phase.RUN:
            batches.append(message.batch)
        if len(batches) > 200 and not sent.is_set():
            sent.set()
            os.kill(os.getpid(), 2)
        return done

    batches: list[int] = []
    monkeypatch.setattr(MasterTransport, "send_jobs", send_and_interrupt)
    path = scenario(tmp_path, crud_profile=[1, 5, 0, 0])
    status, results = run(path, tmp_path, "--workers", "1", "-r", "60")
    assert status is ExitStatus.INTERRUPTED
    assert read_stats(str(results)).total().operations > 0
    out, err = capsys.readouterr()
    assert "TOTAL" in out
    assert "SIGINT" in out + err


def test_a_second_interrupt_during_cleanup_reports_remaining_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_jobs = MasterTransport.send_jobs

    def send_or_end(self: MasterTransport, data: bytes) -> bool:
        message = decode(data)
        if isinstance(message, Jobs) and message.phase == Phase.CLEANUP:
            raise KeyboardInterrupt("interrupted by SIGINT")
        return send_jobs(self, data)

    monkeypatch.setattr(MasterTransport, "send_jobs", send_or_end)
    path = scenario(tmp_path, crud_profile=[1, 0, 0, 0])
    assert run(path, tmp_path, "--workers", "1", "-o", "20")[0] is ExitStatus.INTERRUPTED
    (results,) = tmp_path.glob("*.gz")
    stats = read_stats(str(results))
    assert stats.run.footer is not None
    assert stats.total().operations == stats.run.footer.left_behind == 20
    assert stats.run.left_behind == 0, "without a store nothing is"


def noted_workers(monkeypatch: pytest.MonkeyPatch) -> list[LocalWorkers]:
    """Those of each run, once there is a run."""
    begin = LocalWorkers.begin
    found = []

    def begin_and_note(self: LocalWorkers) -> None:
        begin(self)
        found.append(self)

    monkeypatch.setattr(LocalWorkers, "begin", begin_and_note)
    return found


def test_a_failed_cleanup_of_noop_reports_no_remaining_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    workers = noted_workers(monkeypatch)
    send_jobs = MasterTransport.send_jobs

    def send_and_kill(self: MasterTransport, data: bytes) -> bool:
        message = decode(data)
        if isinstance(message, Jobs) and message.phase == Phase.CLEANUP:
            workers[0].signal(signal.SIGKILL)
        return send_jobs(self, data)

    monkeypatch.setattr(MasterTransport, "send_jobs", send_and_kill)
    path = scenario(tmp_path, crud_profile=[1, 0, 0, 0])
    status, results = run(path, tmp_path, "--workers", "1", "-o", "20")
    footer = read_stats(str(results)).run.footer
    assert footer is not None
    assert (status, footer.left_behind) == (ExitStatus.WORKERS_LOST, 20)
    err = capsys.readouterr().err
    assert "Lost worker" in err
    assert "could not be deleted" not in err
    assert "--resume-cleanup" not in err


def test_a_scenario_from_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = scenario(tmp_path).read_text()
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert run("-", tmp_path, "--workers", "1", "-q", "-R")[0] is ExitStatus.OK
    monkeypatch.setattr("sys.stdin", io.StringIO(text[:-1]))
    assert run("-", tmp_path, "--noop")[0] is ExitStatus.USAGE


def test_log_paths_of_local_workers_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(scenario(tmp_path), tmp_path, "--workers", "2", "-R")
    logs = re.findall(r"logging to ([^\s)]+)", capsys.readouterr().err)
    assert len(logs) == 2
    for log in logs:
        assert "Worker local-" in Path(log).read_text()


def test_a_profile_of_master_and_workers_is_in_the_report_and_the_stat_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = scenario(tmp_path, operation_count=40_000)
    status, results = run(path, tmp_path, "--workers", "2", "--profile", "-q")
    text = capsys.readouterr().out
    assert status is ExitStatus.OK
    section = text[text.index("PROFILE") :]
    assert "Calls of the master" in section
    assert "Calls of the workers" in section
    assert "reported no profile" not in section
    stacks = tmp_path / "run.stacks"
    command = ["report-scenario", "-s", str(results), "--profile-file", str(stacks)]
    assert main(command) == 0
    assert capsys.readouterr().out == text
    lines = stacks.read_text().splitlines()
    for line in lines:
        stack, _, count = line.rpartition(" ")
        assert stack.split(";")[0] in ("master", "workers")
        assert int(count) > 0
    assert any(line.startswith("workers;") and "(ssbench/" in line for line in lines)


def test_an_existing_file_is_overwritten_only_with_force(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "precious.gz"
    results.write_bytes(b"")
    command = ["run-scenario", "-f", "very_small", "--noop", "-s", str(results)]
    assert main(command) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"ssbench-master: {results}: is there already; --force overwrites it"
    )
    status, results = run(scenario(tmp_path), tmp_path, "--workers", "1", "-q", "-R")
    before = results.read_bytes()
    assert run(scenario(tmp_path), tmp_path, "--workers", "1", "-q", "-R")[0] is status
    assert results.read_bytes() != before


def test_discarded_results_have_no_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["run-scenario", "-f", str(scenario(tmp_path)), "--noop", "--workers", "1"]
    assert main([*command, *free_ports(), "-s", "/dev/null"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "No report: the results went to /dev/null" in err
    assert "results saved to" not in err


# How it ends ------------------------------------------------------------------------------


def refused_deed(status: int) -> Behaviour:
    """A whole answer with this status and a short body."""
    return saying(b"HTTP/1.1 %d No\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno\n" % status)


def run_against(swift: HostileSwift, path: Path, tmp_path: Path, *words: str) -> int:
    """The exit status of the command; the stat file is x.stat.gz."""
    command = [
        "run-scenario", "-f", str(path), "-s", str(tmp_path / "x.stat.gz"), "--workers", "1",
        "--retries", "0", "-A", swift.auth_url, "-U", "a:b", "-K", "secret", "--progress", "none",
        *free_ports(), *words,
    ]  # fmt: skip
    return main(command)


@pytest.mark.parametrize(
    ("behaviours", "status", "last"),
    [
        ({"no": refused_deed(403)}, 1, "50 of 50 operations failed; the first error: "),
        (
            {"no": refused_deed(403), "no again": refused_deed(403), "well": None},
            1,
            "34 of 50 operations failed; the first error: ",
        ),
        ({"no": refused_deed(403), "well": None}, 0, None),
    ],
    ids=["all", "two of three", "half"],
)
def test_a_run_with_more_than_half_failed_operations_failed(
    behaviours: dict[str, Behaviour | None],
    status: int,
    last: str | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = scenario(tmp_path, crud_profile=[1, 0, 0, 0], user_count=1)
    with HostileSwift(behaviours, of_the_run("PUT")) as swift:
        assert run_against(swift, path, tmp_path) == status
    line = capsys.readouterr().err.splitlines()[-1]
    if last is None:
        assert "ssbench-master: " not in line
    else:
        assert line.startswith(f"ssbench-master: {last}")
        assert "PUT returned 403" in line
        assert line.endswith(" (exit status 1)")


def test_an_underfilled_run_ends_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with HostileSwift({"no": refused_deed(403)}, of_objects("PUT")) as swift:
        assert run_against(swift, scenario(tmp_path), tmp_path, "-q", "-R") == 1
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("ssbench-master: no initial object could be uploaded: ")


def test_a_missed_threshold_is_the_last_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--workers", "1", "--threshold", "rate > 1000000000/s")
    assert run(scenario(tmp_path), tmp_path, *words)[0] is ExitStatus.THRESHOLD_MISSED
    line = capsys.readouterr().err.splitlines()[-1]
    assert line == "ssbench-master: missed rate > 1000000000/s (exit status 3)"


def test_with_fewer_workers_than_expected_the_run_does_not_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--workers", "1", "--expect-workers", "2", "--worker-wait", "2"]
    assert run(scenario(tmp_path), tmp_path, *words)[0] is ExitStatus.WORKERS_LOST
    capsys.readouterr()
    status, results = run(scenario(tmp_path), tmp_path, *words, "--fewer-workers-ok")
    assert status is ExitStatus.OK
    assert read_stats(str(results)).total().operations == 50
    assert "Only 1 of 2 workers joined; continuing with 1" in capsys.readouterr().err


def test_a_worker_that_leaves_before_the_end_is_reported_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = threading.Event()
    workers = noted_workers(monkeypatch)
    send_jobs = MasterTransport.send_jobs

    def send_and_end_one(self: MasterTransport, data: bytes) -> bool:
        message = decode(data)
        if isinstance(message, Jobs) and message.phase == Phase.RUN and not sent.is_set():
            sent.set()
            os.kill(next(iter(workers[0].pids.values())), signal.SIGTERM)
        return send_jobs(self, data)

    monkeypatch.setattr(MasterTransport, "send_jobs", send_and_end_one)
    path = scenario(tmp_path, crud_profile=[1, 5, 0, 0])
    status, results = run(path, tmp_path, "--workers", "2", "-r", "2")
    assert status is ExitStatus.WORKERS_LOST
    out, err = capsys.readouterr()
    assert re.search(r"\nWarning: Worker \S+ \(\S+, pid \d+\) left before the end: SIGTERM\n", out)
    last = err.splitlines()[-1]
    assert re.fullmatch(
        r"ssbench-master: workers lost before the run ended: .* \(exit status 6\)", last
    )
    stats = read_stats(str(results))
    assert (len(stats.run.workers_lost), stats.run.lost) == (1, 0)
