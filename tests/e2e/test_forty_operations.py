"""Operations of a driver's module, in several processes, and in one that lacks their rows."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ssbench import statfile
from ssbench.core.model import Phase
from ssbench.core.operations import OPERATIONS, Operation, rows_of
from ssbench.core.records import RunFooter, RunHeader
from tests.e2e.commands import ROOT, Commands, free_ports

DRIVER = "tests.fakes.forty_operations:FortyStore"
COUNT = 1000


@pytest.fixture(scope="module")
def ssbench(fork_server: None, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """``ssbench(*words, status=0)``: what a command in a process of its own prints."""
    commands = Commands(tmp_path_factory.mktemp("forty"))

    def run(*words: str | Path, status: int = 0) -> str:
        return commands.master(*words).wait().fine(status).out

    return run


@pytest.fixture(scope="module")
def rows() -> list[Operation]:
    """The driver's rows, which are not registered in this process."""
    code = (
        "import json; from tests.fakes.forty_operations import ROWS;"
        " print(json.dumps([row.to_map() for row in ROWS]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    made = [Operation.from_map(row) for row in json.loads(done.stdout)]
    assert len(made) == len({row.name for row in made}) == 43
    assert not OPERATIONS.keys() & set(map(int, made))
    return made


@pytest.fixture(scope="module")
def runs(
    ssbench: Callable[..., str], rows: list[Operation], tmp_path_factory: pytest.TempPathFactory
) -> list[Path]:
    """Stat files of two runs with two workers each."""
    folder = tmp_path_factory.mktemp("forty")
    scenario = folder / "forty.scenario"
    scenario.write_text(json.dumps({
        "name": "forty", "user_count": 8, "operation_count": COUNT,
        "sizes": [
            {"name": "tiny", "size_min": 1, "size_max": 99},
            {"name": "one", "size_min": 5, "size_max": 5},
        ],
        "initial_files": {"tiny": 300, "one": 50},
        "operations": {row.name.lower(): 1 for row in rows},
    }))  # fmt: skip
    files = [folder / "one.stat.gz", folder / "two.stat.gz"]
    for path in files:
        ssbench(
            "run-scenario", "-f", scenario, "--storage", DRIVER, "--workers", "2", "-q",
            "--seed", "1", "-s", path, "--no-default-report",
            *free_ports(),
        )  # fmt: skip
    return files


def test_each_operation_has_results_and_nothing_is_left_behind(
    ssbench: Callable[..., str], rows: list[Operation], runs: list[Path]
) -> None:
    with statfile.read(str(runs[0])) as reader:
        records = list(reader)
    header = next(record for record in records if isinstance(record, RunHeader))
    known = rows_of(header.operations)
    assert [known[row].to_map() for row in rows] == [row.to_map() for row in rows]
    (footer,) = [record for record in records if isinstance(record, RunFooter)]
    assert (footer.ended, footer.sent, footer.lost) == ("complete", COUNT, 0)
    assert (footer.left_behind, footer.left_unknown) == (0, 0)
    report = json.loads(ssbench("report-scenario", "-s", runs[0], "--json"))
    done, phases = report["operations"], report["phases"]
    assert {row.name for row in rows} <= done.keys()
    assert sum(each["count"] + each["errors"] for each in done.values()) == COUNT
    assert phases[Phase.POPULATE.name]["count"] == 350
    assert phases[Phase.CLEANUP.name]["errors"] == 0


def test_reports_have_them_in_a_process_without_their_rows(
    ssbench: Callable[..., str], rows: list[Operation], runs: list[Path]
) -> None:
    text = ssbench("report-scenario", "-s", runs[0])
    blocks = re.findall(r"^([A-Z_]+)\n +Count: ", text, re.MULTILINE)
    assert blocks == ["TOTAL", *(row.name for row in rows)]
    head, values = csv.reader(io.StringIO(ssbench("report-scenario", "-s", runs[0], "--csv")))
    counts = {name: int(value) for name, value in zip(head, values, strict=True)
              if name.endswith("_count") and value.isdigit()}  # fmt: skip
    assert all(counts[f"{row.name.lower()}_count"] > 0 for row in rows)


def test_thresholds_and_comparisons_of_one_operation(
    ssbench: Callable[..., str], rows: list[Operation], runs: list[Path]
) -> None:
    one = rows[0].name
    met, missed = f"p99({one.lower()}, tiny) < 50s", f"p99({one.lower()}) < 0.000001ms"
    ssbench("report-scenario", "-s", runs[0], "--threshold", met)
    assert one in ssbench("report-scenario", "-s", runs[0], "--threshold", missed, status=3)
    found = json.loads(ssbench("compare", *runs, "--json"))
    assert {row.name for row in rows} <= found["operations"].keys()
    found = json.loads(ssbench("compare", *runs, "--json", "--operation", one.lower()))
    assert [*found["operations"]] == [one]
