"""compare: stat files in, a table or JSON out, and one line where a file is none."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path

import pytest

from tests.cli.shell import Shell, stat_file
from tests.report import runs

OLD = Path(__file__).parents[1] / "golden" / "ssbench-0.3.9" / "noop.stat.gz"


@pytest.fixture
def two(tmp_path: Path) -> list[Path]:
    """The stat files of two runs of the same scenario."""
    return [stat_file(tmp_path / f"{n}.gz", runs.lasting(12, 20, seed=n)) for n in (1, 2)]


def test_runs_are_compared_side_by_side(two: list[Path], shell: Shell) -> None:
    status, out, err = shell("compare", *two, "--operation", "read")
    assert (status, err) == (0, "")
    assert "The scenarios are the same.\nOther differences:\n  seed: 1 | 2\n" in out
    assert f"Run 1: {two[0]}\n" in out
    assert "\nREAD " in out
    assert "\nTOTAL " not in out


def test_a_difference_of_a_fifth_is_significant_and_none_is_not(shell: Shell) -> None:
    slow, same, fast = (
        stat_file(shell.folder / f"{n}.gz", runs.lasting(12, rate, seed=n, due=True, rate=rate))
        for n, rate in enumerate((100, 100, 120))
    )
    said = shell("compare", slow, same).out
    assert re.search(r"^Run 2 against run 1: .* operations/s: no more than noise\.$", said, re.M)
    rows = list(csv.DictReader(shell("compare", slow, fast, "--csv").out.splitlines()))
    counts = [
        row["value"] for row in rows if (row["operation"], row["figure"]) == ("TOTAL", "errors")
    ]
    assert counts == ["0", "0"]
    found = json.loads(shell("compare", slow, fast, same, "--json").out)
    rate = found["total"]["figures"]["operations_per_s"]
    more, none = rate["changes_against_first"]
    assert (more["verdict"], none["verdict"]) == ("real", "noise")
    assert more["ratio"] == pytest.approx(1.2, rel=0.02)


def test_files_of_0_3_9_compare_with_current_ones(two: list[Path], shell: Shell) -> None:
    said = shell("compare", OLD, two[0])
    assert said.status == 0
    assert "ssbench_version: 0.3.9 | 1.0.0" in said.out


def test_the_same_run_twice_is_refused(two: list[Path], shell: Shell) -> None:
    first, other = two
    copy = shutil.copy(first, shell.folder / "copy.gz")
    for words, same, name in (
        ([first, first], first, first),
        ([first, other, copy], copy, first),
        ([OLD, OLD], OLD, OLD),
    ):
        said = shell("compare", *words)
        assert (said.status, said.out) == (2, "")
        assert said.last == f"ssbench-master: {same}: is the same run as {name}"


@pytest.mark.parametrize("damage", ["cut", "overwritten"])
def test_a_run_with_missing_results_gets_no_verdict(damage: str, shell: Shell) -> None:
    whole, damaged = (
        stat_file(shell.folder / f"{n}.gz", runs.lasting(20, 20, seed=n)) for n in (1, 2)
    )
    content = damaged.read_bytes()
    middle = len(content) // 2
    rest = bytes(50) + content[middle + 50 :] if damage == "overwritten" else b""
    damaged.write_bytes(content[:middle] + rest)
    said = shell("compare", whole, damaged, "--fail-if", "p50 > +500%")
    assert said.status == 1
    assert said.last == (
        f"ssbench-master: {damaged}: some results of the run are missing (exit status 1)"
    )
    assert "  WARNING: some of its results are missing\n" in said.out
    assert (
        "\nRun         2 runs, 1 different setting, run 2 cut off: Small test scenario\n"
        in said.out
    )
    assert "\nRules       FAIL IF p50 > +500% by the results left\n" in said.out
    assert "noise" not in said.out
