"""Logs and profiles: nobody else can read them, or say where they are written to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ssbench.cli.private_files import new_file, numbered_file
from ssbench.core.errors import StatFileError


@pytest.fixture(autouse=True)
def _own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def test_each_is_new_and_private_in_a_private_folder(tmp_path: Path) -> None:
    made = [new_file("log-", ".log") for _ in range(3)]
    for fd, path in made:
        os.close(fd)
        assert Path(path).parent == tmp_path / "ssbench-results"
        assert Path(path).name.startswith("log-")
        assert Path(path).stat().st_mode & 0o777 == 0o600
        assert Path(path).parent.stat().st_mode & 0o777 == 0o700
    assert len({path for _, path in made}) == 3


def test_a_number_is_taken_again_emptied_once_it_is_free(tmp_path: Path) -> None:
    folder = tmp_path / "ssbench-results"
    first, path, number = numbered_file("log", ".log", 0)
    assert (path, number) == (str(folder / "log-0.log"), 0)
    os.write(first, b"of the first")
    second, path, number = numbered_file("log", ".log", 0)
    assert (path, number) == (str(folder / "log-1.log"), 1)
    os.close(second)
    os.close(first)
    again, path, number = numbered_file("log", ".log", 0)
    assert (Path(path).read_bytes(), Path(path).stat().st_mode & 0o777, number) == (b"", 0o600, 0)
    os.close(again)


def test_links_pipes_and_folders_of_the_name_are_passed_over(tmp_path: Path) -> None:
    fd, path, _ = numbered_file("log", ".log", 0)
    os.close(fd)
    (tmp_path / "victim").write_text("mine")
    os.unlink(path)
    os.symlink(tmp_path / "victim", path)
    folder = Path(path).parent
    os.mkfifo(folder / "log-1.log")
    os.mkdir(folder / "log-2.log")
    os.link(tmp_path / "victim", folder / "log-9.log")
    fd, path, number = numbered_file("log", ".log", 0)
    os.close(fd)
    assert number == 3
    assert (tmp_path / "victim").read_text() == "mine"


def test_a_folder_that_others_have_planted_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "ssbench-results").symlink_to(tmp_path / "elsewhere")
    fd, path = new_file("log-", ".log")
    os.close(fd)
    assert Path(path).parent == tmp_path / f"ssbench-results-{os.geteuid()}"
    (tmp_path / f"ssbench-results-{os.geteuid()}" / "x").touch()
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_where_there_is_none_it_says_what_helps(tmp_path: Path) -> None:
    for name in ("ssbench-results", f"ssbench-results-{os.geteuid()}"):
        (tmp_path / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StatFileError, match="set TMPDIR to a folder of your own"):
        new_file("log-", ".log")
