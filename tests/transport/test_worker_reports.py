"""What a group of workers tells the process that started it."""

from __future__ import annotations

import json

import pytest

from ssbench.core.model import WorkerExit
from ssbench.transport.worker_reports import GroupStarted, from_line, to_line

STARTED = GroupStarted("1.0.0", 1763800000.5, "2001:db8::7", {"a-0": 1, "a-1": 2})


@pytest.mark.parametrize("report", [STARTED, WorkerExit("a-0", 1, "it exited with status 1", 1)])
def test_a_report_survives_its_line(report: GroupStarted | WorkerExit) -> None:
    assert from_line(to_line(report)) == report


def test_control_characters_of_another_host_reach_no_terminal() -> None:
    found = from_line(to_line(WorkerExit("a\x1b[2J", 1, "\x07", 1)))
    assert found == WorkerExit("a\\x1b[2J", 1, "\\x07", 1)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Welcome to bench-01!",
        "ssbench-worker",
        "ssbench-worker {",
        "ssbench-worker []",
        "ssbench-worker 7",
        "ssbench-worker {}",
        'ssbench-worker {"exit": [1]}',
        'ssbench-worker {"exit": ["a", "b", "c", "d"]}',
        "ssbench-worker " + "[" * 100_000,
        'ssbench-worker {"release": "1", "clock": 1, "master": "", "workers": {}}',
        'ssbench-worker {"release": 1, "clock": 1, "master": "", "workers": {"a": 1}}',
        "ssbench-worker "
        + json.dumps({"release": "1", "clock": 1, "master": "", "workers": {"a": None}}),
    ],
)
def test_other_lines_are_no_report(line: str) -> None:
    assert from_line(line) is None
