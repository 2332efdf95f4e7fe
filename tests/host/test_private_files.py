"""The folder for files of ours: made, made private, or another one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ssbench.core.errors import StatFileError
from ssbench.host import private_files
from ssbench.host.private_files import private_folder

WHAT_HELPS = "set TMPDIR"


def mode(folder: Path) -> int:
    return folder.stat().st_mode & 0o7777


def test_it_is_made_and_closed_to_others(tmp_path: Path) -> None:
    folder = private_folder(tmp_path, WHAT_HELPS)
    assert (folder, mode(folder)) == (tmp_path / "ssbench-results", 0o700)
    assert private_folder(tmp_path, WHAT_HELPS) == folder


def test_an_open_one_of_ours_is_made_private(tmp_path: Path) -> None:
    (tmp_path / "ssbench-results").mkdir()
    (tmp_path / "ssbench-results").chmod(0o777)
    assert mode(private_folder(tmp_path, WHAT_HELPS)) == 0o700


def test_another_users_folder_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ssbench-results").mkdir(mode=0o755)
    real, own = os.fstat, tmp_path / f"ssbench-results-{os.geteuid()}"

    def fstat(file: int) -> os.stat_result:
        """As if every folder but the last resort were another user's."""
        facts = real(file)
        if own.exists() and os.path.samestat(facts, own.stat()):
            return facts
        return os.stat_result([*facts[:4], os.geteuid() + 1, *facts[5:10]])

    monkeypatch.setattr(private_files.os, "fstat", fstat)
    assert private_folder(tmp_path, WHAT_HELPS) == own
    assert mode(tmp_path / "ssbench-results") == 0o755


def test_where_neither_can_be_had_it_says_what_helps(tmp_path: Path) -> None:
    for name in ("ssbench-results", f"ssbench-results-{os.geteuid()}"):
        (tmp_path / name).symlink_to(tmp_path)
    with pytest.raises(StatFileError, match=f"no folder that can be trusted.*{WHAT_HELPS}"):
        private_folder(tmp_path, WHAT_HELPS)
