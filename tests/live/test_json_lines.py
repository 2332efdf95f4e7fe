"""--live-json: what its lines say, and that no reader delays a run."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ssbench.core.errors import SsbenchError
from ssbench.core.live import OperationProgress, RunProgress, WorkerProgress
from ssbench.core.model import ErrorKind, Phase
from ssbench.core.operations import READ
from ssbench.live.watch import LiveJson, Watch
from tests.cli.shell import Shell

pytestmark = pytest.mark.usefixtures("forked_workers")

STATE = RunProgress(
    2.5, 42, 100, 3, 16.0, 0.005, 0.02, 3.75, 2, 8,
    operations={int(READ): OperationProgress(37, 3, 15.0, 0.004, lost_races=2)},
    errors_by_cause={int(ErrorKind.STATUS): 3}, errors_by_status={503: 3}, bytes_rate=1e6,
    workers_seen=[WorkerProgress(name, "running", 4, 1, None) for name in "ab"],
)  # fmt: skip


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def watched(path: object, clock: Clock, tell: Callable[[str], None] = pytest.fail) -> Watch:
    """An observer that writes to a file."""
    watch = Watch(clock, lambda: 1_700_000_000.5)
    watch.add(LiveJson(str(path), tell))
    return watch


def test_a_line_a_second_and_one_at_the_end_of_a_phase(tmp_path: Path) -> None:
    clock = Clock()
    with watched(tmp_path / "a", clock) as live:
        live.start_phase(Phase.RUN, 100)
        for _ in range(10):
            clock.now_s += 0.25
            live.update(STATE)
        live.end_phase()
    lines = [json.loads(line) for line in (tmp_path / "a").read_text().splitlines()]
    assert [line["over"] for line in lines] == [False, False, True]
    assert lines[0] == {
        "run": None, "run_name": None, "time_s": 1_700_000_000.5, "phase": "run",
        "over": False, "elapsed_s": 2.5,
        "remaining_s": 3.75, "done": 42, "total": 100, "errors": 3, "lost_races": 2,
        "operations_per_s": 16.0,
        "due_per_s": None, "bytes_per_s": 1e6, "p50_s": 0.005, "p99_s": 0.02,
        "response_p50_s": None, "response_p99_s": None, "workers": 2, "users": 8, "late": 0,
        "rate_missed": False,
        "operations": {"READ": {
            "count": 37, "errors": 3, "lost_races": 2, "operations_per_s": 15.0, "p50_s": 0.004,
            "p99_s": None,
        }},
        "errors_by_cause": {"status": 3}, "errors_by_status": {"503": 3}, "identities": {},
        "workers_by_state": {"running": 2}, "marks": [], "dropped": 0,
    }  # fmt: skip


def test_a_new_file_is_its_owners_and_one_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    new, shared = tmp_path / "new", tmp_path / "shared"
    shared.touch()
    shared.chmod(0o644)
    for path, mode in ((new, 0o600), (shared, 0o644)):
        LiveJson(str(path), pytest.fail).close()
        assert path.stat().st_mode & 0o777 == mode


def test_the_run_of_a_series_is_named(tmp_path: Path) -> None:
    with watched(tmp_path / "a", Clock()) as live:
        for number, name in ((1, "users 4"), (2, "users 8")):
            live.start_run(number, name)
            live.start_phase(Phase.RUN)
            live.update(STATE)
            live.end_phase()
    lines = [json.loads(line) for line in (tmp_path / "a").read_text().splitlines()]
    assert [(line["run"], line["run_name"]) for line in lines] == [(1, "users 4"), (2, "users 8")]


def test_a_reader_that_stops_reading_delays_nothing_and_is_told(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    clock, data = Clock(), b""
    with watched(pipe, clock) as live:
        live.start_phase(Phase.RUN)
        for _ in range(2000):  # 64 kB are in the pipe long before
            clock.now_s += 1
            live.update(STATE)
        while piece := _read(reader):
            data += piece
        for _ in range(2):
            clock.now_s += 1
            live.update(STATE)
        data += _read(reader)
    os.close(reader)
    lines = [json.loads(line) for line in data.splitlines()]
    assert lines[0]["dropped"] == 0
    assert lines[-1]["dropped"] + len(lines) == 2002


def _read(reader: int) -> bytes:
    try:
        return os.read(reader, 1 << 20)
    except BlockingIOError:
        return b""


def test_a_full_disk_does_not_end_the_run_and_is_told() -> None:
    told: list[str] = []
    with watched("/dev/full", Clock(), told.append) as live:
        for _ in range(3):
            live.start_phase(Phase.RUN)
            live.update(STATE)
            live.end_phase()
        assert told == []
    assert told == ["--live-json /dev/full: is incomplete: No space left on device"]


def test_a_reader_that_leaves_does_not_end_the_run(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    clock = Clock()
    with watched(pipe, clock) as live:
        os.close(reader)
        live.start_phase(Phase.RUN)
        for _ in range(3):
            clock.now_s += 1
            live.update(STATE)


def test_a_pipe_without_a_reader_is_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SsbenchError, match=r"--live-json .*can't be written"):
        LiveJson(str(tmp_path / "pipe"), pytest.fail)


def test_a_run_writes_its_phases(shell: Shell) -> None:
    live = shell.folder / "live"
    assert shell.run("-q", "-R", "--live-json", live) == (0, "", "")
    lines = [json.loads(line) for line in live.read_text().splitlines()]
    last = {line["phase"]: line for line in lines if line["over"]}
    assert last["run"]["done"] == sum(each["count"] for each in last["run"]["operations"].values())
