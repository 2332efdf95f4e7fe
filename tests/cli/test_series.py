"""Where the stat files of a series are."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from ssbench.cli.interrupts import Interrupts
from ssbench.cli.options import master_parser
from ssbench.cli.run_config import run_options
from ssbench.cli.series import RunSeries, check_paths, step_path
from ssbench.cli.session import Session
from ssbench.core.errors import ExitStatus, NoWorkersError, UsageError
from ssbench.core.scenario.scenario import Scenario
from ssbench.report import SeriesSettings
from tests.cli.test_master import free_ports
from tests.report.test_series import step

TEXT = json.dumps(
    {
        "name": "own", "sizes": [{"name": "tiny", "size_min": 1, "size_max": 99}],
        "initial_files": {"tiny": 5}, "user_count": 4, "crud_profile": [0, 1, 0, 0],
    }
)  # fmt: skip
SCENARIO = Scenario.resolve(TEXT, run_seconds=30)


def test_each_run_has_a_file_of_its_own() -> None:
    assert step_path("a/x.stat.gz", SCENARIO, "users", 20) == "a/x.users20.stat.gz"
    assert step_path("a/x", SCENARIO, "rate", 0.5) == "a/x.rate0.5"
    assert step_path("a/x.stat.gz", SCENARIO, "users", 20, 2) == "a/x.users20-2.stat.gz"
    path = step_path(None, SCENARIO, "rate", 500)
    assert Path(path).name.startswith("own.u4.o-.r30.")
    assert path.endswith(".rate500.stat.gz")


def test_a_file_that_is_there_is_told_of_before_the_first_run(tmp_path: Path) -> None:
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


def test_results_that_go_nowhere_make_no_table() -> None:
    with pytest.raises(UsageError, match="/dev/null: the table needs the stored results"):
        check_paths("/dev/null", "users", force=True)


def test_an_error_costs_no_table_of_the_steps_before_it(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run-scenario", "-f", "s", "--noop", "--csv", *free_ports()]
    options = run_options(master_parser().parse_args(words), {})
    with ExitStack() as stack:
        session = Session(options, stack, Interrupts(), most_users=4, seed=1)
        series = RunSeries(
            session, SeriesSettings("own", "users", (50.0, 99.9, 100.0)), TEXT, "own"
        )
        with pytest.raises(NoWorkersError):
            series.fail(NoWorkersError("nobody"))
        series.steps.append(step(20))
        series.fail(NoWorkersError("nobody is left"))
        series.finish(over=False)
    out, err = capsys.readouterr()
    assert out.count("\n") == 2
    assert "WARNING: nobody is left" in err
    assert series.reasons == {ExitStatus.FAILED: "nobody is left"}
