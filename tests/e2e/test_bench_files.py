"""gen-files, diff-dirs and bench files, as their users run them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.commands import Commands

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """20 files, which each method reads, writes beside them or copies."""
    place = tmp_path_factory.mktemp("bench_files")
    commands = Commands(place)
    made = commands.master("gen-files", place / "files", 20, "1000k").wait().fine()
    assert made.out == f"{place / 'files'}: 20 files, 1000 KiB\n"
    yield place / "files"
    commands.close()


@pytest.mark.parametrize(
    ("method", "more", "columns"),
    [
        ("read", [], "users buffer files size cost speed"),
        ("write", ["--fsync"], "users files size cost speed"),
        ("copy", ["--queue", "10"], "users buffer queue files size cost speed"),
    ],
)
def test_the_tables_have_a_row_for_each_step(
    commands: Commands, folder: Path, method: str, more: list[str], columns: str
) -> None:
    words = ["bench", "files", method, folder, "--sweep", "users=1,2", "--sweep", "files=10,20"]
    ended = commands.master(*words, *more).wait().fine()
    lines = ended.out.splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if "|" in line]
    assert [cell.split()[-1] for cell in rows[0]] == columns.split()
    assert len(rows) == 2 + 4
    assert all(len(row) == len(rows[0]) for row in rows)
    assert re.fullmatch(r"[\d.]+s", rows[-1][-2])
    assert re.fullmatch(r"\d+ MiB/s", rows[-1][-1])
    assert lines[-1].startswith("Disk usage (du): ")
    assert lines[-1].endswith(" for 1000 KiB of content.")


def test_a_copy_is_compared_by_the_short_names_of_old(commands: Commands, tmp_path: Path) -> None:
    folder, copy = tmp_path / "files", tmp_path / "copy"
    commands.master("genFiles", folder, 5, "100k").wait().fine()
    commands.master("bench", "files", "copy", folder, "--to", copy).wait().fine()
    assert commands.master("diffDir", folder, copy).wait().fine().out == ""
    (copy / "file_3.txt").write_bytes(b"other")
    ended = commands.master("diff-dirs", folder, copy).wait().fine(1)
    assert ended.out == (
        f"{folder}/file_3.txt and {copy}/file_3.txt differ from byte offset 0 on\n"
    )


def test_failures_are_shown_and_set_the_status(commands: Commands, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "file_0.txt").write_bytes(b"0" * 1024)
    link = tmp_path / "files.ssbench"
    link.symlink_to(tmp_path / "files")
    ended = commands.master("bench", "files", "write", tmp_path / "files").wait().fine(2)
    assert "did not make it" in ended.err
    wrong = commands.master("bench", "files", "read", tmp_path / "files", "--to", "x").wait()
    assert "--to: read writes nothing" in wrong.fine(2).err
    wrong = commands.master("bench", "files", "read", tmp_path / "files", "--sweep", "x=1").wait()
    assert "give users=1,20,50 or files=100,1000" in wrong.fine(2).err
