"""Folders of files: made, compared and measured."""

from __future__ import annotations

import inspect
import os
import resource
import stat
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from ssbench.commands.files.command import first_difference, generate, measure
from ssbench.commands.files.settings import FilesConfig
from ssbench.core.errors import SsbenchError, UsageError
from ssbench.master.master import Master
from ssbench.runner.stop import Stop
from ssbench.storage.file.admin import FileAdmin
from tests.fakes.observers import Recorder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    said: list[str] = []
    generate(str(tmp_path / "files"), 7, 10_003, said.append)
    assert said[0] == "Writing: 0 of 7 files, 1.4 kB of 10.0 kB"
    assert said[-1] == "Writing: 6 of 7 files, 10.0 kB of 10.0 kB"
    return tmp_path / "files"


def test_files_are_numbered_and_have_the_total_size(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == [f"file_{n}.txt" for n in range(7)]
    sizes = [(folder / f"file_{n}.txt").stat().st_size for n in range(7)]
    assert sizes == [1429] * 7
    assert len({path.read_bytes() for path in folder.iterdir()}) == 7


@pytest.mark.parametrize(("total", "sizes"), [(10, [4, 3, 3]), (11, [4, 4, 3]), (2, [1, 1, 0])])
def test_the_first_files_take_what_is_left(tmp_path: Path, total: int, sizes: list[int]) -> None:
    generate(str(tmp_path / "few"), 3, total)
    assert [(tmp_path / f"few/file_{n}.txt").stat().st_size for n in range(3)] == sizes


def test_a_folder_with_something_in_it_is_not_filled(folder: Path) -> None:
    with pytest.raises(UsageError, match="is not empty"):
        generate(str(folder), 1, 1)
    with pytest.raises(SsbenchError, match="Not a directory"):
        generate(str(folder / "file_0.txt" / "x"), 1, 1)


def test_no_files_go_where_a_link_of_another_user_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, shared = tmp_path / "mine", tmp_path / "shared"
    mine.mkdir()
    shared.mkdir()
    (shared / "files").symlink_to(mine)
    real = os.fstat

    def fstat(file: int) -> os.stat_result:
        """As if links were another user's."""
        facts = real(file)
        uid = os.geteuid() + stat.S_ISLNK(facts.st_mode)
        return os.stat_result([*facts[:4], uid, *facts[5:10]])

    monkeypatch.setattr("ssbench.host.files.os.fstat", fstat)
    generate(str(shared / "files"), 1, 1)
    (mine / "file_0.txt").unlink()
    shared.chmod(0o1777)
    with pytest.raises(SsbenchError, match="placed the link files there"):
        generate(str(shared / "files"), 1, 1)
    assert not any(mine.iterdir())


def test_a_file_that_can_not_be_written_whole_is_an_error(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1500, before[1]))  # as if the disk were full
    try:
        with pytest.raises(SsbenchError, match="File too large"):
            generate(str(tmp_path / "files"), 1, 2000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_equal_trees_do_not_differ(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    generate(str(other), 7, 10_003)
    (other / ".ssbench").touch()  # the mark of a folder that bench files wrote
    for path in (folder, other):
        (path / "deep").mkdir()
        (path / "deep" / "link").symlink_to("anywhere")
        (path / "deep" / "large").write_bytes(b"x" * 3_000_000)
    said: list[str] = []
    assert first_difference(str(folder), str(other), said.append) == ""
    assert f"Comparing {folder}/file_0.txt: 0 B" in said


def test_trees_may_be_deeper_than_python_recurses(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    deep = "/d" * 300
    for name in ("a", "b"):
        os.makedirs(f"{tmp_path}/{name}{deep}")
    Path(f"{tmp_path}/b{deep}/file").touch()
    request.addfinalizer(partial(sys.setrecursionlimit, sys.getrecursionlimit()))
    sys.setrecursionlimit(len(inspect.stack(0)) + 200)
    found = first_difference(str(tmp_path / "a"), str(tmp_path / "b"))
    assert found == f"only in {tmp_path}/b{deep}: file"


def swap_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[1_100_000] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (swap_byte, "differ from byte offset 1100000 on"),
        (lambda path: path.write_bytes(path.read_bytes()[:9]), "differ from byte offset 9 on"),
        (lambda path: path.unlink(), "only in "),
        (lambda path: (path.unlink(), path.mkdir()), "are of different kinds"),
        (lambda path: (path.unlink(), path.symlink_to("large2")), "are of different kinds"),
        (lambda path: (path.parent / "more").touch(), "only in "),
    ],
)
def test_the_first_difference(tmp_path: Path, change: Callable[[Path], object], words: str) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "large").write_bytes(b"y" * 2_000_000)
    change(tmp_path / "b" / "large")
    for first, second in (("a", "b"), ("b", "a")):
        assert words in first_difference(str(tmp_path / first), str(tmp_path / second))


def test_links_are_compared_by_what_they_say(tmp_path: Path) -> None:
    for name, place in (("a", "here"), ("b", "there")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "link").symlink_to(place)
        (tmp_path / name / place).touch()
    (tmp_path / "a/there").touch()
    (tmp_path / "b/here").touch()
    found = first_difference(str(tmp_path / "a"), str(tmp_path / "b"))
    assert found == f"{tmp_path}/a/link and {tmp_path}/b/link are links to different places"


def test_a_folder_that_is_not_there_cannot_be_compared(tmp_path: Path) -> None:
    with pytest.raises(SsbenchError, match="No such file or directory"):
        first_difference(str(tmp_path), str(tmp_path / "none"))


@pytest.mark.parametrize("method", ["read", "write", "copy"])
def test_each_step_moves_all_files(folder: Path, method: str) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    config = FilesConfig(method=method, folder=str(folder), users=(1, 3), files=(2, 7), passes=2)
    steps = [*measure(config)]
    assert [(step.files, step.users) for step in steps] == [(2, 1), (2, 3), (7, 1), (7, 3)]
    for step in steps:
        assert (step.failed, step.passes) == (0, 2)
        assert step.bytes == 1429 * step.files
        assert step.disk_bytes >= 0
        assert step.seconds > 0
        assert step.bytes_per_s == step.bytes / step.seconds
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert [*folder.parent.iterdir()] == [folder]  # and nothing is left beside it


def test_workers_are_kept_while_files_are_deleted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete, keep, kept, waits = FileAdmin.bulk_delete, Master.keep_workers, Event(), []

    def keep_workers(master: Master, until: Callable[[], bool]) -> None:
        kept.set()
        keep(master, until)

    def delete_when_kept(*arguments: Any) -> Any:
        waits.append(kept.wait(10))
        return delete(*arguments)

    monkeypatch.setattr(Master, "keep_workers", keep_workers)
    monkeypatch.setattr(FileAdmin, "bulk_delete", delete_when_kept)
    steps = measure(FilesConfig(method="write", folder=str(folder), passes=2))
    assert next(steps).passes == 2
    assert waits == [True]
    steps.close()  # type: ignore[attr-defined]


def test_a_pass_that_fails_is_the_last_of_its_step(folder: Path) -> None:
    steps = measure(FilesConfig(method="read", folder=str(folder), users=(1, 2, 1), passes=2))
    first = next(steps)
    assert (first.failed, first.passes, first.example) == (0, 2, "")
    (folder / "file_3.txt").unlink()
    second = next(steps)
    assert (second.failed, second.passes, second.bytes, second.disk_bytes) == (1, 1, 0, 0)
    assert "file_3.txt: No such file" in second.example
    (folder / "file_3.txt").write_bytes(bytes(1429))
    assert [(step.failed, step.passes) for step in steps] == [(0, 2)]


def test_a_file_that_others_delete_meanwhile_is_an_error(folder: Path) -> None:
    class Deletes(Recorder):
        def results(self, columns: Sequence[Sequence[int]]) -> None:
            Path(f"{folder}.ssbench", "file_0.txt").unlink(missing_ok=True)

    with pytest.raises(SsbenchError, match=r"file_0.txt: No such file"):
        [*measure(FilesConfig(method="write", folder=str(folder)), [Deletes()])]
    assert [*folder.parent.iterdir()] == [folder]


def test_a_series_of_passes_can_be_stopped(folder: Path) -> None:
    stop = Stop()
    steps = measure(FilesConfig(method="write", folder=str(folder), users=(1, 2)), stop=stop)
    next(steps)
    stop("enough")
    with pytest.raises(KeyboardInterrupt, match="enough"):
        next(steps)
    assert [*folder.parent.iterdir()] == [folder]  # what was written is deleted


def test_a_stop_ends_the_deletion_between_passes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete, stop, deleted = FileAdmin.bulk_delete, Stop(), []

    def delete_and_stop(storage: FileAdmin, container: str, names: Sequence[str]) -> Any:
        deleted.append([*names])
        stop("enough")
        return delete(storage, container, names)

    monkeypatch.setattr(FileAdmin, "bulk_delete", delete_and_stop)
    monkeypatch.setattr("ssbench.commands.files.command._DELETED", 4)
    with pytest.raises(KeyboardInterrupt, match="enough"):
        [*measure(FilesConfig(method="write", folder=str(folder), passes=2), stop=stop)]
    names = [f"file_{n}.txt" for n in range(7)]
    assert deleted == [names[:4], names[:4], names[4:]]  # all of them at the end
    assert [*folder.parent.iterdir()] == [folder]


def test_a_deletion_says_how_far_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ssbench.commands.files.command._DELETED", 4)
    recorder = Recorder()
    [*measure(FilesConfig(method="write", folder=str(folder)), [recorder])]
    assert recorder.waits[-3:] == ["Deleting: 0 of 7 files", "Deleting: 4 of 7 files", ""]


def test_a_named_copy_stays_and_is_written_anew(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    config = FilesConfig(method="copy", folder=str(folder), target=str(target))
    for _ in range(2):
        assert [step.failed for step in measure(config)] == [0]
        assert first_difference(str(folder), str(target)) == ""
    (target / "file_0.txt").write_text("of an earlier pass")
    (target / "theirs").write_text("precious")
    assert [step.failed for step in measure(config)] == [0]
    assert (target / "theirs").read_text() == "precious"


def test_a_folder_of_others_is_not_written_to(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "theirs"
    target.mkdir()
    (target / "file_0.txt").write_text("precious")
    for method in ("write", "copy"):
        with pytest.raises(UsageError, match="did not make it"):
            [*measure(FilesConfig(method=method, folder=str(folder), target=str(target)))]
    assert (target / "file_0.txt").read_text() == "precious"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"method": "write", "target": "file_0.txt"}, "Not a directory"),
        ({"method": "write", "target": "x" * 300}, "File name too long"),
        ({"method": "read", "files": (8,)}, "files=8"),
        ({"method": "read", "folder": "hollow"}, "make a folder with gen-files"),
    ],
)
def test_folders_that_can_not_be_measured_are_usage_errors(
    folder: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], why: str
) -> None:
    monkeypatch.chdir(folder)
    Path("hollow").mkdir()
    with pytest.raises(UsageError, match=why):
        [*measure(FilesConfig(**{"folder": ".", **changes}))]
