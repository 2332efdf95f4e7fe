"""run-scenario, in this process, with local workers and no store."""

from __future__ import annotations

import io
import os
import re
import signal
import threading
from typing import Any

import pytest

from ssbench.core.errors import ExitStatus
from ssbench.core.messages import Jobs, decode
from ssbench.core.model import Phase
from ssbench.core.stats.run_stats import RunStats
from ssbench.runner.local_workers import LocalWorkers
from ssbench.runner.results import read_stats
from ssbench.transport.master_transport import MasterTransport
from tests.cli.shell import Said, Shell, free_ports, scenario
from tests.fakes.hostile_swift import HostileSwift, of_objects, of_the_run
from tests.fakes.loopback_http import Behaviour
from tests.fakes.server_behaviours import saying, stall

pytestmark = pytest.mark.usefixtures("forked_workers")


def stats_of(shell: Shell) -> RunStats:
    return read_stats(str(shell.results))


def test_a_run_out_of_objects_reports_it(shell: Shell) -> None:
    said = shell.run(crud_profile=[0, 0, 0, 1])
    assert said.status is ExitStatus.OK
    assert stats_of(shell).total().operations == 5
    assert "no object is left" in said.err


def test_a_stage_out_of_objects_is_named(shell: Shell) -> None:
    said = shell.run(
        crud_profile=None, operation_count=None,
        stages=[
            {"name": "delete", "operations": {"delete": 1}, "operation_count": 9},
            {"name": "write", "operations": {"create": 1}, "operation_count": 3},
        ],
    )  # fmt: skip
    assert said.status is ExitStatus.OK
    assert stats_of(shell).total().operations == 5 + 3
    assert "Stage delete: no object is left, and no operation" in said.err


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
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = noted_workers(monkeypatch)
    send_jobs = MasterTransport.send_jobs

    def send_and_kill(self: MasterTransport, data: bytes) -> bool:
        message = decode(data)
        if isinstance(message, Jobs) and message.phase == Phase.CLEANUP:
            workers[0].signal(signal.SIGKILL)
        return send_jobs(self, data)

    monkeypatch.setattr(MasterTransport, "send_jobs", send_and_kill)
    said = shell.run("-o", "20", crud_profile=[1, 0, 0, 0])
    footer = stats_of(shell).run.footer
    assert footer is not None
    assert (said.status, footer.left_behind) == (ExitStatus.WORKERS_LOST, 20)
    assert "Lost worker" in said.err
    assert "could not be deleted" not in said.err
    assert "--resume-cleanup" not in said.err


def test_a_scenario_from_standard_input(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    text = scenario(shell.folder).read_text()
    for content, status in ((text, ExitStatus.OK), (text[:-1], ExitStatus.USAGE)):
        monkeypatch.setattr("sys.stdin", io.StringIO(content))
        said = shell(*shell.noop("run-scenario", "-"), "--force", "-q", "-R")
        assert said.status is status
    assert "stdin" in said.err


# How it ends ------------------------------------------------------------------------------


def refused_deed(status: int) -> Behaviour:
    """A whole answer with this status and a short body."""
    return saying(b"HTTP/1.1 %d No\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno\n" % status)


def run_against(swift: HostileSwift, shell: Shell, *words: str, **keys: Any) -> Said:
    """What run-scenario comes to; the keys are those of the scenario."""
    return shell(
        "run-scenario", "-f", scenario(shell.folder, **keys), "-s", shell.results, "--workers", 1,
        "--retries", 0, "-A", swift.auth_url, "-U", "a:b", "-K", "secret", "--progress", "none",
        *free_ports(), *words,
    )  # fmt: skip


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
    behaviours: dict[str, Behaviour | None], status: int, last: str | None, shell: Shell
) -> None:
    with HostileSwift(behaviours, of_the_run("PUT")) as swift:
        said = run_against(swift, shell, crud_profile=[1, 0, 0, 0], user_count=1)
    assert said.status == status
    line = said.last
    if last is None:
        assert "ssbench-master: " not in line
    else:
        assert line.startswith(f"ssbench-master: {last}")
        assert "PUT returned 403" in line
        assert line.endswith(" (exit status 1)")


def test_a_run_whose_operations_were_all_lost_failed(shell: Shell) -> None:
    """Nothing succeeded, although nothing is known to have failed."""
    with HostileSwift({"silent": stall}, of_the_run("PUT")) as swift:
        said = run_against(
            swift, shell, "-r", "0.2", "--drain-timeout", "0.2", crud_profile=[1, 0, 0, 0],
            user_count=1,
        )  # fmt: skip
    assert said.status == 1
    assert said.last == "ssbench-master: 1 of 1 operation failed or were lost (exit status 1)"


def test_an_underfilled_run_ends_with_the_reason(shell: Shell) -> None:
    with HostileSwift({"no": refused_deed(403)}, of_objects("PUT")) as swift:
        said = run_against(swift, shell, "-q", "-R")
    assert said.status == 1
    assert said.last.startswith("ssbench-master: no initial object could be uploaded: ")


def test_with_fewer_workers_than_expected_the_run_does_not_start(shell: Shell) -> None:
    words = ["--expect-workers", "2", "--worker-wait", "2"]
    assert shell.run(*words).status is ExitStatus.WORKERS_LOST
    said = shell.run(*words, "--fewer-workers-ok")
    assert said.status is ExitStatus.OK
    assert stats_of(shell).total().operations == 50
    assert "Only 1 of 2 workers joined; continuing with 1" in said.err


def test_a_worker_that_leaves_before_the_end_is_reported_missing(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
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
    said = shell.run("-r", "2", workers=2, crud_profile=[1, 5, 0, 0])
    assert said.status is ExitStatus.WORKERS_LOST
    missing = r"\nWarning: Worker \S+ \(\S+, pid \d+\) left before the end: SIGTERM\n"
    assert re.search(missing, said.out)
    lost = r"ssbench-master: workers lost before the run ended: .* \(exit status 6\)"
    assert re.fullmatch(lost, said.last)
    stats = stats_of(shell)
    assert (len(stats.run.workers_lost), stats.run.lost) == (1, 0)
