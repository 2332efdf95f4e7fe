"""run-scenario --sweep, in this process, with local workers and no store."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from ssbench.cli.options import master_parser
from ssbench.cli.reporting import read_stats
from ssbench.cli.run_config import run_options
from ssbench.cli.sweep import run_sweep
from ssbench.core.errors import ExitStatus, UsageError
from ssbench.core.model import Phase
from tests.cli.test_master import free_ports
from tests.cli.test_run_scenario import scenario


@pytest.fixture(autouse=True)
def _own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def sweep(tmp_path: Path, loads: str, *words: str, **keys: Any) -> ExitStatus:
    path = scenario(tmp_path, **keys)
    command = [
        "run-scenario", "-f", str(path), "--noop", "--workers", "2", "--sweep", loads, "-s",
        str(tmp_path / "x.stat.gz"), *free_ports(), *words,
    ]  # fmt: skip
    options = run_options(master_parser().parse_args(command), {})
    assert options.sweep is not None
    return run_sweep(options, options.sweep)


def test_a_run_for_each_load_with_the_same_workers_and_objects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = sweep(tmp_path, "users=3,1,8", crud_profile=[1, 4, 0, 0])
    out, err = capsys.readouterr()
    assert status is ExitStatus.OK
    table, _, note = out.partition("\nNote: ")
    assert [line.split()[0] for line in table.splitlines()[2:]] == ["Users", "3", "1", "8"]
    assert note.startswith("No store was involved (--noop)")
    assert all(line in err.splitlines() for line in table.splitlines()), "also while it grew"
    assert err.count("INFO:Spawning local ssbench-worker (logging to ") == 2
    assert err.count("Making containers") <= 1
    stats = [read_stats(str(tmp_path / f"x.users{n}.stat.gz")) for n in (3, 1, 8)]
    for users, each in zip((3, 1, 8), stats, strict=True):
        assert each.run.complete
        assert each.total().operations == 50
        assert each.run.scenario.user_count == users
        assert each.worker_count == 2
        assert f"x.users{users}.stat.gz" in err
    assert [Phase.POPULATE in each.phases for each in stats] == [True, False, False]
    assert len({each.run.header.seed for each in stats if each.run.header}) == 1
    assert len({each.run.run_id for each in stats}) == 3


def test_objects_that_a_run_changes_are_seen_to_before_the_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep(tmp_path, "users=2,4", "-R", "-q") is ExitStatus.OK
    assert capsys.readouterr() == ("", "")
    for users in (2, 4):
        assert Phase.POPULATE in read_stats(str(tmp_path / f"x.users{users}.stat.gz")).phases


def test_the_table_as_csv_says_what_the_files_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep(tmp_path, "users=1,4", "--csv", "--pctile", "75")
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["users"] for row in rows] == ["1", "4"]
    for row in rows:
        total = read_stats(row["stats_file"]).total()
        assert int(row["operations"]) == total.count == 50
        assert float(row["operations_per_s"]) == total.rate_per_s
        quantile = total.last_byte.histogram.quantile(75)
        assert quantile is not None
        assert float(row["service_p75_s"]) == pytest.approx(quantile / 1e9)


def test_rates_and_thresholds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = sweep(
        tmp_path, "rate=100,300", "-r", "0.6", "--json", "--threshold", "rate > 200/s"
    )  # fmt: skip
    out, err = capsys.readouterr()
    made = json.loads(out)
    assert status is ExitStatus.THRESHOLD_MISSED
    assert err.splitlines()[-1] == ("ssbench-master: rate 100: missed rate > 200/s (exit status 3)")
    assert [step["rate"] for step in made["steps"]] == [100, 300]
    assert [step["missed"] for step in made["steps"]] == [["rate > 200/s"], []]
    assert all(step["response_p50_s"] > 0 for step in made["steps"])


def test_faults_are_told_before_anything_is_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError, match="leave out -u"):
        sweep(tmp_path, "users=1,2", "-u", "3")
    with pytest.raises(UsageError, match="leave out --rate"):
        sweep(tmp_path, "rate=1,2", "--rate", "3")
    (tmp_path / "x.users2.stat.gz").touch()
    with pytest.raises(UsageError, match="is there already"):
        sweep(tmp_path, "users=1,2")
    with pytest.raises(UsageError, match="no size class"):
        sweep(tmp_path, "users=1,3", "--force", "--threshold", "p99(huge) < 1s")
    assert "Spawning" not in capsys.readouterr().err
