"""Series: run-scenario --sweep and find-limit, in this process, with local workers and no store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ssbench.core.errors import ExitStatus, UsageError
from ssbench.core.messages import ControlState
from ssbench.core.model import Phase
from ssbench.core.scenario.scenario import Scenario
from ssbench.runner.results import read_stats
from ssbench.runner.series import check_paths, path_of_load
from ssbench.runner.single_run import Aborted, Run, RunResult
from ssbench.storage.noop import NoopStorage
from tests.cli.shell import Said, Shell, scenario

pytestmark = pytest.mark.usefixtures("forked_workers")


def sweep(shell: Shell, loads: str, *words: str, **keys: Any) -> Said:
    return shell.run("--sweep", loads, *words, workers=2, **keys)


def test_a_run_for_each_load_with_the_same_workers_and_objects(shell: Shell) -> None:
    status, out, err = sweep(shell, "users=3,1,8", crud_profile=[1, 4, 0, 0])
    assert status is ExitStatus.OK
    table, _, note = out.partition("\nNote: ")
    assert [line.split()[0] for line in table.splitlines()[2:]] == ["Users", "3", "1", "8"]
    assert note.startswith("No store was involved (--noop)")
    assert all(line in err.splitlines() for line in table.splitlines()), "also while it grew"
    assert err.count("INFO:Spawning local ssbench-worker (logging to ") == 2
    assert err.count("Making containers") <= 1
    stats = [read_stats(str(shell.folder / f"x.users{n}.stat.gz")) for n in (3, 1, 8)]
    for users, each in zip((3, 1, 8), stats, strict=True):
        assert each.run.complete
        assert each.total().operations == 50
        assert each.run.scenario.user_count == users
        assert each.worker_count == 2
        assert f"x.users{users}.stat.gz" in err
    assert [each.phase(Phase.POPULATE).count > 0 for each in stats] == [True, False, False]
    assert len({each.run.header.seed for each in stats if each.run.header}) == 1
    assert len({each.run.run_id for each in stats}) == 3


def test_rates_and_thresholds(shell: Shell) -> None:
    words = ["-r", "0.6", "--json", "--threshold", "rate > 200/s"]
    said = sweep(shell, "rate=100,300", *words)
    made = json.loads(said.out)
    assert said.status is ExitStatus.THRESHOLD_MISSED
    assert said.last == "ssbench-master: rate 100: missed rate > 200/s (exit status 3)"
    assert [step["rate"] for step in made["steps"]] == [100, 300]
    assert [step["missed"] for step in made["steps"]] == [["rate > 200/s"], []]
    assert all(step["response_p50_s"] > 0 for step in made["steps"])


@pytest.mark.parametrize(
    ("loads", "words", "says"),
    [
        ("users=1,2", [], "is there already"),
        ("users=1,3", ["--force", "--threshold", "p99(huge) < 1s"], "no size class"),
    ],
)
def test_errors_are_reported_before_the_first_step(
    loads: str, words: list[str], says: str, shell: Shell
) -> None:
    (shell.folder / "x.users2.stat.gz").touch()
    said = sweep(shell, loads, *words)
    assert said.status is ExitStatus.USAGE
    assert says in said.err
    assert "Spawning" not in said.err


def find(shell: Shell, slo: str, *words: str, **keys: Any) -> Said:
    keys = {"operation_count": None, "crud_profile": [0, 1, 0, 0], **keys}
    return shell(
        *shell.noop("find-limit", scenario(shell.folder, **keys), workers=1),
        "--slo", slo, "--step-seconds", "0.4", "--warmup", "0.1", "-q", *words,
    )  # fmt: skip


def test_the_highest_load_is_tried_and_marked_as_a_lower_bound(shell: Shell) -> None:
    said = find(shell, "p99 < 10s", "--max-users", "3")
    assert said.status is ExitStatus.OK
    lines = said.out.splitlines()
    assert [line.split()[0] for line in lines[4:8]] == ["1", "2", "3", "3"]
    assert all(line.endswith("  met") for line in lines[4:8])
    assert lines[-11:-9] == [
        "Highest load that met p99 < 10s and errors < 1%: 3 users (in 2 of 2 runs)",
        "The limit may be higher: nothing above 3 users was tried (--max-users)",
    ]
    assert (shell.folder / "x.users3.stat.gz").exists()
    assert (shell.folder / "x.users3-2.stat.gz").exists()


def test_an_objective_that_no_load_meets(shell: Shell) -> None:
    said = find(shell, "p50 < 0.001us", "--over", "rate", "--start", "64", "--json")
    made = json.loads(said.out)
    assert said.status is ExitStatus.THRESHOLD_MISSED
    assert (made["largest_kept"], made["smallest_broken"]) == (None, 1)
    assert [step["rate"] for step in made["steps"]] == [64, 32, 16, 8, 4, 2, 1, 1]
    assert made["complete"]


def test_users_are_limited_by_the_workers(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ssbench.runner.session.Session.concurrency", 5)
    said = find(shell, "p99 < 10s", "--json", "--confirm", "0")
    assert said.status is ExitStatus.OK
    assert [step["users"] for step in json.loads(said.out)["steps"]] == [1, 2, 4, 5]


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
    slo: str, keys: dict[str, Any], says: str, shell: Shell
) -> None:
    said = find(shell, slo, **keys)
    assert said.status is ExitStatus.USAGE
    assert says in said.err


@pytest.mark.parametrize("command", ["sweep", "find-limit"])
def test_an_error_after_the_first_step_still_prints_the_table(command: str, shell: Shell) -> None:
    path = shell.folder / "x.users2.stat.gz"
    path.mkdir()
    if command == "sweep":
        said = sweep(shell, "users=1,2,3", "--force", "--json")
    else:
        said = find(shell, "p99 < 10s", "--force", "--json")
    assert said.status is ExitStatus.FAILED
    assert [step["users"] for step in json.loads(said.out)["steps"]] == [1]
    assert "WARNING: " in said.err
    assert str(path) in said.last


def test_a_step_that_is_aborted_after_others_still_prints_the_table(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Aborting(Run):
        def execute(self) -> RunResult:
            result = super().execute()
            if self.scenario.user_count == 2:
                raise Aborted("interrupted", result)
            return result

    monkeypatch.setattr("ssbench.runner.series.Run", Aborting)
    said = sweep(shell, "users=1,2,3", "--json")
    assert said.status is ExitStatus.INTERRUPTED
    assert [step["users"] for step in json.loads(said.out)["steps"]] == [1]
    assert f"results saved to {shell.folder / 'x.users2.stat.gz'}\n" in said.err
    assert said.last == "ssbench-master: interrupted"


def test_an_error_of_the_first_step_prints_no_table(shell: Shell) -> None:
    (shell.folder / "x.users1.stat.gz").mkdir()
    said = sweep(shell, "users=1,2", "--force")
    assert (said.status, said.out) == (ExitStatus.FAILED, "")


def test_a_series_creates_containers_once_and_releases_workers_at_the_end(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, control_states: list[ControlState]
) -> None:
    states, made = control_states, list[str]()
    monkeypatch.setattr(
        NoopStorage, "make_container", lambda self, name, changing: made.append(name)
    )
    assert sweep(shell, "users=1,2", "-q", "-R").status is ExitStatus.OK
    assert sorted(made) == ["ssbench_000000", "ssbench_000001"]
    assert states[-1].is_goodbye
    assert len({state.run for state in states if state.run}) == 2
    assert not any(state.is_goodbye for state in states[:-1])


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
    assert path_of_load("a/x.gz", SCENARIO, "users", 20) == "a/x.users20.gz"
    path = path_of_load(None, SCENARIO, "rate", 500)
    assert Path(path).name.startswith("own.u4.o-.r30.")
    assert path.endswith(".rate500.stat.gz")


def test_discarded_results_give_no_table() -> None:
    with pytest.raises(UsageError, match="/dev/null: the table needs the stored results"):
        check_paths("/dev/null", "users", force=True)
