"""Series: run-scenario --sweep and find-limit, in this process, with local workers and no store."""

from __future__ import annotations

import csv
import io
import json
import time
from pathlib import Path
from typing import Any

import pytest

from ssbench.cli.master import main
from ssbench.core.errors import ExitStatus, UsageError
from ssbench.core.messages import ControlState, Jobs, decode
from ssbench.core.model import Phase
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.stats.run_stats import RunStats
from ssbench.runner.results import read_stats
from ssbench.runner.series import check_paths, path_of_load
from ssbench.storage.noop import NoopStorage
from ssbench.transport.master_transport import MasterTransport
from tests.cli.test_master import free_ports
from tests.cli.test_run_scenario import scenario

pytestmark = pytest.mark.usefixtures("forked_workers")


@pytest.fixture(autouse=True)
def _own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def sweep(tmp_path: Path, loads: str, *words: str, **keys: Any) -> ExitStatus:
    path = scenario(tmp_path, **keys)
    command = [
        "run-scenario", "-f", str(path), "--noop", "--workers", "2", "--sweep", loads, "-s",
        str(tmp_path / "x.stat.gz"), *free_ports(), *words,
    ]  # fmt: skip
    return ExitStatus(main(command))


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


def test_objects_changed_by_a_step_are_restored_before_the_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep(tmp_path, "users=2,4", "-R", "-q") is ExitStatus.OK
    assert capsys.readouterr() == ("", "")
    for users in (2, 4):
        assert Phase.POPULATE in read_stats(str(tmp_path / f"x.users{users}.stat.gz")).phases


def test_the_csv_table_agrees_with_the_stat_files(
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


@pytest.mark.parametrize(
    ("loads", "words", "says"),
    [
        ("users=1,2", ["-u", "3"], "leave out -u"),
        ("rate=1,2", ["--rate", "3"], "leave out --rate"),
        ("users=1,2", [], "is there already"),
        ("users=1,3", ["--force", "--threshold", "p99(huge) < 1s"], "no size class"),
    ],
)
def test_errors_are_reported_before_the_first_step(
    loads: str, words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.users2.stat.gz").touch()
    assert sweep(tmp_path, loads, *words) is ExitStatus.USAGE
    err = capsys.readouterr().err
    assert says in err
    assert "Spawning" not in err


def find(tmp_path: Path, slo: str, *words: str, **keys: Any) -> ExitStatus:
    keys = {"operation_count": None, "crud_profile": [0, 1, 0, 0], **keys}
    command = [
        "find-limit", "-f", str(scenario(tmp_path, **keys)), "--noop", "--workers", "1",
        "--slo", slo, "--step-seconds", "0.4", "--warmup", "0.1",
        "-s", str(tmp_path / "x.stat.gz"), "-q", *free_ports(), *words,
    ]  # fmt: skip
    return ExitStatus(main(command))


def test_the_highest_load_is_tried_and_marked_as_a_lower_bound(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert find(tmp_path, "p99 < 10s", "--max-users", "3") is ExitStatus.OK
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[4:8]] == ["1", "2", "3", "3"]
    assert all(line.endswith("  met") for line in lines[4:8])
    assert lines[-11:-9] == [
        "Highest load that met p99 < 10s and errors < 1%: 3 users (in 2 of 2 runs)",
        "The limit may be higher: nothing above 3 users was tried (--max-users)",
    ]
    assert (tmp_path / "x.users3.stat.gz").exists()
    assert (tmp_path / "x.users3-2.stat.gz").exists()


def test_an_objective_that_no_load_meets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = find(tmp_path, "p50 < 0.001us", "--over", "rate", "--start", "64", "--json")
    made = json.loads(capsys.readouterr().out)
    assert status is ExitStatus.THRESHOLD_MISSED
    assert (made["largest_kept"], made["smallest_broken"]) == (None, 1)
    assert [step["rate"] for step in made["steps"]] == [64, 32, 16, 8, 4, 2, 1, 1]
    assert made["complete"]


def test_users_are_limited_by_the_workers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ssbench.runner.session.Session.concurrency", 5)
    assert find(tmp_path, "p99 < 10s", "--json", "--confirm", "0") is ExitStatus.OK
    made = json.loads(capsys.readouterr().out)
    assert [step["users"] for step in made["steps"]] == [1, 2, 4, 5]


@pytest.mark.parametrize(
    ("slo", "keys", "says"),
    [
        ("p99 < 10s", {"rate": 50}, "--over rate"),
        (
            "p99 < 10s",
            {"stages": [{"seconds": 1, "users": 1}, {"seconds": 1, "users": 2}]},
            "stages set their own loads",
        ),
        ("p99(huge) < 10s", {}, "no size class"),
    ],
)
def test_scenarios_that_find_limit_rejects(
    slo: str, keys: dict[str, Any], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert find(tmp_path, slo, **keys) is ExitStatus.USAGE
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("command", ["sweep", "find-limit"])
def test_an_error_after_the_first_step_still_prints_the_table(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.users2.stat.gz").mkdir()
    if command == "sweep":
        status = sweep(tmp_path, "users=1,2,3", "--force", "--json")
    else:
        status = find(tmp_path, "p99 < 10s", "--force", "--json")
    out, err = capsys.readouterr()
    assert status is ExitStatus.FAILED
    assert [step["users"] for step in json.loads(out)["steps"]] == [1]
    assert "WARNING: " in err
    assert f"{tmp_path}/x.users2.stat.gz" in err.splitlines()[-1]


def test_a_step_that_is_aborted_says_where_its_results_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    send_jobs = MasterTransport.send_jobs

    def send_or_end(self: MasterTransport, data: bytes) -> bool:
        message = decode(data)
        if isinstance(message, Jobs) and message.phase == Phase.CLEANUP:
            raise KeyboardInterrupt("interrupted by SIGINT")
        return send_jobs(self, data)

    monkeypatch.setattr(MasterTransport, "send_jobs", send_or_end)
    assert sweep(tmp_path, "users=1,2", crud_profile=[1, 0, 0, 0]) is ExitStatus.INTERRUPTED
    err = capsys.readouterr().err
    assert f"INFO:Scenario run results saved to {tmp_path}/x.users1.stat.gz\n" in err


def test_an_error_of_the_first_step_prints_no_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.users1.stat.gz").mkdir()
    assert sweep(tmp_path, "users=1,2", "--force") is ExitStatus.FAILED
    assert capsys.readouterr().out == ""


def test_a_series_creates_containers_once_and_releases_workers_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states: list[ControlState] = []
    made: list[str] = []
    send = MasterTransport.send_control_state

    def send_and_record(self: MasterTransport, state: ControlState) -> None:
        states.append(state)
        send(self, state)

    monkeypatch.setattr(MasterTransport, "send_control_state", send_and_record)
    monkeypatch.setattr(
        NoopStorage, "make_container", lambda self, name, changing: made.append(name)
    )
    assert sweep(tmp_path, "users=1,2", "-q", "-R") is ExitStatus.OK
    assert sorted(made) == ["ssbench_000000", "ssbench_000001"]
    assert states[-1].is_goodbye
    assert len({state.run for state in states if state.run}) == 2
    first = next(n for n, state in enumerate(states) if state.run)
    assert not any(state.is_goodbye for state in states[first:-1])


def test_no_worker_is_lost_while_the_results_of_a_step_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def slowly(path: str) -> RunStats:
        time.sleep(2)
        return read_stats(path)

    monkeypatch.setattr("ssbench.runner.series.read_stats", slowly)
    assert sweep(tmp_path, "users=1,2", "--worker-timeout", "1") is ExitStatus.OK
    assert "Lost worker" not in capsys.readouterr().err


def test_a_first_load_above_the_highest_is_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert find(tmp_path, "p99<1s", "--start", "9", "--max-users", "8") is ExitStatus.USAGE
    assert "--start 9 is above --max-users 8" in capsys.readouterr().err


TEXT = json.dumps(
    {
        "name": "own", "sizes": [{"name": "tiny", "size_min": 1, "size_max": 99}],
        "initial_files": {"tiny": 5}, "user_count": 4, "crud_profile": [0, 1, 0, 0],
    }
)  # fmt: skip
SCENARIO = Scenario.resolve(TEXT, run_seconds=30)


def test_each_step_has_its_own_stat_file() -> None:
    assert path_of_load("a/x.stat.gz", SCENARIO, "users", 20) == "a/x.users20.stat.gz"
    assert path_of_load("a/x", SCENARIO, "rate", 0.5) == "a/x.rate0.5"
    assert path_of_load("a/x.stat.gz", SCENARIO, "users", 20, 2) == "a/x.users20-2.stat.gz"
    path = path_of_load(None, SCENARIO, "rate", 500)
    assert Path(path).name.startswith("own.u4.o-.r30.")
    assert path.endswith(".rate500.stat.gz")


def test_an_existing_stat_file_is_reported_before_the_first_step(tmp_path: Path) -> None:
    path = str(tmp_path / "x[1].stat.gz")
    check_paths(path, "users", force=False)
    Path(tmp_path / "x[1].users.stat.gz").touch()  # nobody's step
    Path(tmp_path / "x[1].rate5.stat.gz").touch()
    check_paths(path, "users", force=False)
    there = tmp_path / "x[1].users16.stat.gz"
    there.touch()
    with pytest.raises(UsageError, match="is there already; --force overwrites it") as caught:
        check_paths(path, "users", force=False)
    assert str(there) in str(caught.value)
    check_paths(path, "users", force=True)
    check_paths(None, "users", force=False)


def test_discarded_results_give_no_table() -> None:
    with pytest.raises(UsageError, match="/dev/null: the table needs the stored results"):
        check_paths("/dev/null", "users", force=True)
