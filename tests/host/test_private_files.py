"""Private folder and files, safe against other users' links."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from ssbench.core.errors import StatFileError
from ssbench.host import files
from ssbench.host.files import new_file, numbered_log, private_folder

WHAT_HELPS = "set TMPDIR"


def mode(folder: Path) -> int:
    return folder.stat().st_mode & 0o7777


def test_the_folder_is_private_and_made_so_where_it_was_open(tmp_path: Path) -> None:
    folder = private_folder(tmp_path, WHAT_HELPS)
    assert (folder, mode(folder)) == (tmp_path / "ssbench-results", 0o700)
    folder.chmod(0o777)
    assert private_folder(tmp_path, WHAT_HELPS) == folder
    assert mode(folder) == 0o700


def test_a_folder_of_another_user_is_not_used(
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

    monkeypatch.setattr(files.os, "fstat", fstat)
    assert private_folder(tmp_path, WHAT_HELPS) == own
    assert mode(tmp_path / "ssbench-results") == 0o755


def test_without_a_folder_the_error_says_what_helps(tmp_path: Path) -> None:
    for name in ("ssbench-results", f"ssbench-results-{os.geteuid()}"):
        (tmp_path / name).symlink_to(tmp_path)
    with pytest.raises(StatFileError, match=f"no folder that can be trusted.*{WHAT_HELPS}"):
        private_folder(tmp_path, WHAT_HELPS)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("no parent", "can't be made: No such file or directory; set TMPDIR"),
        ("files", "is no folder that can be trusted: Not a directory; set TMPDIR"),
        ("fixed mode", "can't be made private: Operation not permitted; set TMPDIR"),
    ],
)
def test_what_is_wrong_with_the_folder_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, says: str
) -> None:
    parent = tmp_path / "parent"
    own = parent / f"ssbench-results-{os.geteuid()}"
    if fault != "no parent":
        parent.mkdir()
        for path in (parent / "ssbench-results", own):
            path.touch() if fault == "files" else path.mkdir(mode=0o755)

    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "fchmod", refuse)
    with pytest.raises(StatFileError) as caught:
        private_folder(parent, WHAT_HELPS)
    assert str(caught.value) == f"{own}: {says}"


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder for temporary files is ``tmp_path``; returns it."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_new_files_are_private(results: Path) -> None:
    made = [new_file("log-", ".log") for _ in range(3)]
    for fd, path in made:
        os.close(fd)
        assert Path(path).parent == results / "ssbench-results"
        assert Path(path).name.startswith("log-")
        assert Path(path).stat().st_mode & 0o777 == 0o600
        assert Path(path).parent.stat().st_mode & 0o777 == 0o700
    assert len({path for _, path in made}) == 3


def test_a_free_number_is_reused_with_an_empty_file(results: Path) -> None:
    folder = results / "ssbench-results"
    first, path, number = numbered_log("log", 0)
    assert (path, number) == (str(folder / "log-0.log"), 0)
    os.write(first, b"of the first")
    second, path, number = numbered_log("log", 0)
    assert (path, number) == (str(folder / "log-1.log"), 1)
    os.close(second)
    os.close(first)
    (folder / "log-0.log").chmod(0o644)
    again, path, number = numbered_log("log", 0)
    assert (Path(path).read_bytes(), Path(path).stat().st_mode & 0o777, number) == (b"", 0o600, 0)
    os.close(again)


def test_links_pipes_and_folders_are_skipped(results: Path) -> None:
    fd, path, _ = numbered_log("log", 0)
    os.close(fd)
    (results / "victim").write_text("mine")
    os.unlink(path)
    os.symlink(results / "victim", path)
    folder = Path(path).parent
    os.mkfifo(folder / "log-1.log")
    os.mkdir(folder / "log-2.log")
    os.link(results / "victim", folder / "log-9.log")
    fd, path, number = numbered_log("log", 0)
    os.close(fd)
    assert number == 3
    assert (results / "victim").read_text() == "mine"


def test_a_file_that_can_not_be_written_is_an_error(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = os.open

    def full(path: str, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.ENOSPC, "No space left on device")
        return really(path, flags, mode)

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(StatFileError, match=r"log-0\.log: can't be written: No space left"):
        numbered_log("log", 0)
    with pytest.raises(StatFileError, match="-results: can't be written: No space left"):
        new_file("log-", ".log")


def test_without_locks_a_file_counts_as_free(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    for _ in range(2):
        fd, _, number = numbered_log("log", 3)
        os.close(fd)
        assert number == 3


def test_a_file_that_was_deleted_meanwhile_is_not_used(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked_after_its_removal(fd: int, _: int) -> None:
        path = os.readlink(f"/proc/self/fd/{fd}")
        if path.endswith("log-0.log"):
            os.unlink(path)

    monkeypatch.setattr(fcntl, "flock", locked_after_its_removal)
    fd, _, number = numbered_log("log", 0)
    os.close(fd)
    assert number == 1


def test_a_folder_planted_by_others_is_not_used(results: Path) -> None:
    (results / "elsewhere").mkdir()
    (results / "ssbench-results").symlink_to(results / "elsewhere")
    fd, path = new_file("log-", ".log")
    os.close(fd)
    assert Path(path).parent == results / f"ssbench-results-{os.geteuid()}"
    (results / f"ssbench-results-{os.geteuid()}" / "x").touch()
    assert list((results / "elsewhere").iterdir()) == []
