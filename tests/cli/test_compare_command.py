"""compare: stat files in, a table or JSON out, and one line where a file is none."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ssbench.cli.master import main
from ssbench.statfile import StatFileWriter
from tests.report import runs

OLD = Path(__file__).parents[1] / "golden" / "ssbench-0.3.9" / "noop.stat.gz"

Write = Callable[[str, list[runs.Record]], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a stat file and gives its path."""

    def to_file(name: str, records: list[runs.Record]) -> str:
        path = str(tmp_path / name)
        with StatFileWriter.create(path) as writer:
            for record in records:
                writer.write(record)
        return path

    return to_file


def test_runs_are_compared_side_by_side(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    first = write("a.gz", runs.lasting(12, 20))
    second = write("b.gz", runs.lasting(12, 24, seed=2))
    assert main(["compare", first, second, "--operation", "read"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert "The scenarios are the same.\nOther differences:\n  seed: 1 | 2\n" in said.out
    assert f"Run 1: {first}\n" in said.out
    assert "\nREAD " in said.out
    assert "\nTOTAL " not in said.out


def test_the_cool_down_is_excluded(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [
        write(f"{seed}.gz", runs.lasting(20, 20, seed=seed, warmup=2, cooldown=4))
        for seed in (1, 2)
    ]
    assert main(["compare", *paths]) == 0
    assert capsys.readouterr().out.count("13 whole seconds compared") == 2


def test_the_same_seed_gives_the_same(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [write(f"{seed}.gz", runs.lasting(12, 20, seed=seed)) for seed in (1, 2)]

    def found(*words: str) -> str:
        assert main(["compare", *paths, "--json", *words]) == 0
        return capsys.readouterr().out

    assert json.loads(found())["seed"] == 1
    assert found() == found("--seed", "1") != found("--seed", "2")


def test_requested_percentiles_are_shown(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [write(f"{seed}.gz", runs.lasting(12, 20, seed=seed)) for seed in (1, 2)]
    assert main(["compare", *paths, "--pctile", "75", "--pctile", "99.99"]) == 0
    out = capsys.readouterr().out
    assert "Service time p75 ms" in out
    assert "Service time p99.99 ms" in out
    assert "p50" not in out


def test_files_of_0_3_9_compare_with_current_ones(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(OLD), write("a.gz", runs.lasting(12, 20))]) == 0
    assert "ssbench_version: 0.3.9 | 1.0.0" in capsys.readouterr().out


def test_the_same_run_twice_is_refused(
    write: Write, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first, other = write("a.gz", runs.lasting(12, 20)), write("b.gz", runs.lasting(12, 20, seed=2))
    copy = str(shutil.copy(first, tmp_path / "copy.gz"))
    old = str(OLD)
    for words, same, name in (
        ([first, first], first, first),
        ([first, other, copy], copy, first),
        ([old, old], old, old),
    ):
        assert main(["compare", *words]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        line = f"ssbench-master: {same}: is the same run as {name}"
        assert said.err.splitlines()[-1] == line


@pytest.mark.parametrize("damage", ["cut", "overwritten"])
def test_a_run_with_missing_results_gets_no_verdict(
    write: Write, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    whole, damaged = (write(f"{seed}.gz", runs.lasting(20, 20, seed=seed)) for seed in (1, 2))
    content = Path(damaged).read_bytes()
    middle = len(content) // 2
    rest = bytes(50) + content[middle + 50 :] if damage == "overwritten" else b""
    Path(damaged).write_bytes(content[:middle] + rest)
    assert main(["compare", whole, damaged]) == 1
    said = capsys.readouterr()
    assert said.err.splitlines()[-1] == (
        f"ssbench-master: {damaged}: some results of the run are missing (exit status 1)"
    )
    assert "  Warning: some of its results are missing\n" in said.out
    assert (
        "\nRun         2 runs, 1 different setting, run 2 cut off: Small test scenario\n"
        in said.out
    )
    assert "noise" not in said.out


@pytest.mark.parametrize(("name", "status"), [("none.gz", 1), ("text", 1), (None, 2)])
def test_incomparable_files_give_a_one_line_error(
    write: Write,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    name: str | None,
    status: int,
) -> None:
    (tmp_path / "text").write_text("no stat file")
    words = [write("a.gz", runs.lasting(12, 20)), *([str(tmp_path / name)] if name else [])]
    assert main(["compare", *words]) == status
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith("ssbench-master: ")
