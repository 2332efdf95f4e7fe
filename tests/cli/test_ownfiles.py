"""Logs and profiles: nobody else can read them, or say where they are written to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ssbench.cli.ownfiles import new_file
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
