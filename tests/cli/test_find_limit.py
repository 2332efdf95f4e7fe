"""find-limit, in this process, with local workers and no store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ssbench.cli.find_limit import run_find_limit
from ssbench.cli.limit_options import limit_options
from ssbench.cli.options import master_parser
from ssbench.core.errors import ExitStatus, UsageError
from tests.cli.test_master import free_ports
from tests.cli.test_run_scenario import scenario


@pytest.fixture(autouse=True)
def _own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def find(tmp_path: Path, slo: str, *words: str, **keys: Any) -> ExitStatus:
    keys = {"operation_count": None, "crud_profile": [0, 1, 0, 0], **keys}
    command = [
        "find-limit", "-f", str(scenario(tmp_path, **keys)), "--noop", "--workers", "1",
        "--slo", slo, "--step-seconds", "0.4", "--warmup", "0.1",
        "-s", str(tmp_path / "x.stat.gz"), "-q", *free_ports(), *words,
    ]  # fmt: skip
    return run_find_limit(limit_options(master_parser().parse_args(command), {}))


def test_the_most_is_tried_and_may_not_be_the_limit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert find(tmp_path, "p99 < 10s", "--max-users", "3") is ExitStatus.OK
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[4:8]] == ["1", "2", "3", "3"]
    assert all(line.endswith("  met") for line in lines[4:8])
    assert lines[-2:] == [
        "Highest load that met p99 < 10s and errors < 1%: 3 users (in 2 of 2 runs)",
        "The limit may be higher: nothing above 3 users was tried (--max-users)",
    ]
    assert (tmp_path / "x.users3.stat.gz").exists()
    assert (tmp_path / "x.users3-2.stat.gz").exists()


def test_a_promise_that_no_load_keeps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = find(tmp_path, "p50 < 0.001us", "--over", "rate", "--start", "64", "--json")
    made = json.loads(capsys.readouterr().out)
    assert status is ExitStatus.THRESHOLD_MISSED
    assert (made["largest_kept"], made["smallest_broken"]) == (None, 1)
    assert [step["rate"] for step in made["steps"]] == [64, 32, 16, 8, 4, 2, 1, 1]
    assert made["complete"]


def test_the_workers_bound_the_users(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ssbench.cli.session.Session.concurrency", 5)
    assert find(tmp_path, "p99 < 10s", "--json", "--confirm", "0") is ExitStatus.OK
    made = json.loads(capsys.readouterr().out)
    assert [step["users"] for step in made["steps"]] == [1, 2, 4, 5]


def test_scenarios_that_it_is_not_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--over rate"):
        find(tmp_path, "p99 < 10s", rate=50)
    with pytest.raises(UsageError, match="stages set their own loads"):
        find(tmp_path, "p99 < 10s", stages=[{"seconds": 1, "users": 1}, {"seconds": 1, "users": 2}])
    with pytest.raises(UsageError, match="no size class"):
        find(tmp_path, "p99(huge) < 10s")
