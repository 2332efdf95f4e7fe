from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ssbench.core.errors import SsbenchError
from ssbench.embedded import plan


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_the_directory_is_private_and_named_after_this_process(tmp_path: Path) -> None:
    made = plan.make_workdir(str(tmp_path))
    assert made.parent == tmp_path
    assert plan.owner_pid(made.name) == os.getpid()
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert list(made.iterdir()) == []


@pytest.mark.parametrize("full", [0, 1])
def test_the_directory_is_where_most_space_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: int
) -> None:
    places = [tmp_path / "a", tmp_path / "b"]
    for place in places:
        place.mkdir()
    free = {str(place): 1000 - 10 * (number == full) for number, place in enumerate(places)}
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(plan, "WORKDIR_PLACES", (*map(str, places), str(tmp_path / "missing")))
    monkeypatch.setattr(plan, "free_bytes", free.__getitem__)
    assert plan.make_workdir().parent == places[1 - full]


def test_the_next_place_is_taken_where_the_first_can_not_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "workdir_places", lambda parent: ["/proc", str(tmp_path)])
    assert plan.make_workdir().parent == tmp_path


def test_free_space_is_that_of_the_user(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    assert 0.5 < (plan.free_bytes(str(tmp_path)) + 1) / (free + 1) < 2  # others write, too
    assert plan.free_bytes("/no/such/place") == 0


def test_only_directories_of_dead_processes_are_removed_and_no_link_is_followed(
    tmp_path: Path,
) -> None:
    stale = tmp_path / f"{plan.WORKDIR_PREFIX}{dead_pid()}-abc"
    (stale / "node").mkdir(parents=True)
    precious = tmp_path / "precious"
    precious.mkdir()
    link = tmp_path / f"{plan.WORKDIR_PREFIX}{dead_pid()}-link"
    link.symlink_to(precious)
    others = [
        tmp_path / f"{plan.WORKDIR_PREFIX}{os.getppid()}-abc",
        tmp_path / f"{plan.WORKDIR_PREFIX}notanumber",
        tmp_path / f"{plan.WORKDIR_PREFIX}{10**30}-abc",
        tmp_path / f"{plan.WORKDIR_PREFIX}\u0663-abc",
        tmp_path / "unrelated",
    ]
    for other in others:
        other.mkdir()
    plan.make_workdir(str(tmp_path))
    assert not stale.exists()
    assert link.is_symlink()
    assert all(other.is_dir() for other in (*others, precious))


def test_directories_of_other_users_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = tmp_path / f"{plan.WORKDIR_PREFIX}{dead_pid()}-abc"
    theirs.mkdir()
    monkeypatch.setattr(os, "getuid", lambda: theirs.stat().st_uid + 1)
    plan.remove_stale(str(tmp_path))
    assert theirs.is_dir()
    assert not plan.is_ours(tmp_path / "missing")


def test_a_missing_directory_is_named() -> None:
    with pytest.raises(SsbenchError, match=r"/no/such/place: No such file.*TMPDIR"):
        plan.make_workdir("/no/such/place")


def test_a_file_system_without_xattrs_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "setxattr", refuse)
    with pytest.raises(SsbenchError, match="no user attributes"):
        plan.make_workdir(str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_tmpdir_overrides_the_default_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert plan.workdir_places(None) == [str(tmp_path)]
    assert plan.workdir_places("/else") == ["/else"]
    monkeypatch.delenv("TMPDIR")
    assert "/tmp" in plan.workdir_places(None)


def test_remove_removes_a_tree_that_may_be_missing(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "a" / "b").mkdir(parents=True)
    plan.remove_workdir(str(tree))
    assert not tree.exists()
    plan.remove_workdir(str(tree))
