from __future__ import annotations

import gzip
import os
import stat
from datetime import datetime
from io import BytesIO
from pathlib import Path

import pytest

from ssbench.core.errors import StatFileError, UsageError
from ssbench.host.files import Place
from ssbench.statfile import StatFileWriter, check_new, default_path, is_being_written, read
from tests.statfile.samples import FOOTER, HEADER, OLD, write_run

NOW = datetime(2013, 6, 7, 10, 23, 14)


def test_the_default_path_is_that_of_0_3_9(tmp_path: Path) -> None:
    path = default_path("Small test scenario", 4, 613, None, NOW, parent=tmp_path)
    wanted = "ssbench-results/Small_test_scenario.u4.o613.r-.2013-06-07.102314.stat.gz"
    assert path == tmp_path / wanted
    path = default_path("a", 4, None, 60.0, NOW, parent=tmp_path)
    assert path.name == "a.u4.o-.r60.2013-06-07.102314.stat.gz"


@pytest.mark.parametrize(
    "scenario", ["x" * 1000, "../../etc/x", "a/b", "a\0b", "", ".", "..", "\x1b[2J", "é"]
)
def test_names_cannot_leave_the_folder(tmp_path: Path, scenario: str) -> None:
    path = default_path(scenario, 1, 1, None, NOW, parent=tmp_path)
    assert path.parent == tmp_path / "ssbench-results"
    assert path.name.isascii()
    assert path.name.isprintable()
    assert not path.name.startswith(".")
    assert len(path.name) < 200
    StatFileWriter.create(path).close()


def test_a_second_run_of_the_same_second_gets_its_own_file(tmp_path: Path) -> None:
    path = default_path("a", 1, 1, None, NOW, parent=tmp_path)
    path.symlink_to(tmp_path / "elsewhere")
    second = default_path("a", 1, 1, None, NOW, parent=tmp_path)
    assert second.name == "a.u1.o1.r-.2013-06-07.102314.2.stat.gz"


def test_a_link_or_file_in_place_of_the_folder_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "ssbench-results").symlink_to(tmp_path / "elsewhere")
    path = default_path("a", 1, 1, None, NOW, parent=tmp_path)
    assert path.parent == tmp_path / f"ssbench-results-{os.geteuid()}"
    path.parent.rmdir()
    path.parent.write_text("in the way")
    with pytest.raises(StatFileError, match=r"ssbench-results-.*name a stat file with -s"):
        default_path("a", 1, 1, None, NOW, parent=tmp_path)


def test_a_folder_of_ones_own_is_made_and_named_if_that_fails(tmp_path: Path) -> None:
    own = str(tmp_path / "own")
    for _ in range(2):
        assert str(default_path("a", 1, 1, None, NOW, results_dir=own).parent) == own
    assert stat.S_IMODE((tmp_path / "own").stat().st_mode) == 0o700
    assert list((tmp_path / "own").iterdir()) == []


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("no/where", r"--results-dir .*/no/where: can't be used: No such file"),
        ("file", r"--results-dir .*/file: can't be used: no folder"),
        ("file/in", r"--results-dir .*/file/in: can't be used: Not a directory"),
        ("/proc", r"/proc/a.*\.stat\.gz: can't be written: .*; .* -s"),
    ],
)
def test_a_folder_in_which_no_file_can_be_is_a_usage_error(
    tmp_path: Path, place: str, said: str
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=said):
        default_path("a", 1, 1, None, NOW, results_dir=str(tmp_path / place))


def test_a_home_that_does_not_exist_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match=r"--results-dir ~nobody-at-all/x: there is no such home"):
        default_path("a", 1, 1, None, NOW, results_dir="~nobody-at-all/x")


# Overwriting ---------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.stat.gz"


def test_a_file_is_readable_by_its_owner_only(path: Path) -> None:
    with StatFileWriter.create(path):
        assert path.stat().st_mode & 0o777 == 0o600


def test_an_own_stat_file_is_replaced(path: Path) -> None:
    write_run(path)
    write_run(path, [HEADER, FOOTER])
    with read(path) as run:
        assert list(run) == [HEADER, FOOTER]


@pytest.mark.parametrize("begin", [b"", (OLD / "real.stat.gz").read_bytes()])
def test_an_empty_file_and_an_old_stat_file_are_replaced(path: Path, begin: bytes) -> None:
    path.write_bytes(begin)
    path.chmod(0o644)
    write_run(path, [HEADER])
    assert path.stat().st_mode & 0o777 == 0o600
    with read(path) as run:
        assert list(run) == [HEADER]


@pytest.mark.parametrize(
    "content", [b"thesis", gzip.compress(b"thesis", mtime=0), b"\x1f", b"x" * 99]
)
def test_nothing_else_is_overwritten(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(StatFileError, match="isn't overwritten: it is no stat file"):
        StatFileWriter.create(path, overwrite=True)
    assert path.read_bytes() == content


def test_a_stat_file_of_another_user_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "theirs"
    write_run(path)
    path.chmod(0o644)
    before = path.read_bytes()
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    with pytest.raises(StatFileError, match="isn't overwritten: it belongs to another user"):
        StatFileWriter.create(path, overwrite=True)
    assert path.read_bytes() == before
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("empty", [False, True])
def test_an_existing_file_is_not_overwritten_by_default(path: Path, empty: bool) -> None:
    before = b"" if empty else write_run(path)
    path.write_bytes(before)
    with pytest.raises(UsageError, match=r"run\.stat\.gz: is there already; --force overwrites it"):
        StatFileWriter.create(path)
    assert path.read_bytes() == before


def test_a_file_in_use_by_another_run_is_rejected(path: Path) -> None:
    with StatFileWriter.create(path) as first:
        first.write(HEADER)
        with pytest.raises(StatFileError, match="another run is writing to it"):
            StatFileWriter.create(path, overwrite=True)
        first.write(FOOTER)
    with read(path) as run:
        assert list(run) == [HEADER, FOOTER]


@pytest.mark.parametrize("overwrite", [False, True])
def test_links_and_folders_are_rejected(tmp_path: Path, overwrite: bool) -> None:
    target = tmp_path / "target"
    write_run(target)
    before = target.read_bytes()
    (tmp_path / "link").symlink_to(target)
    (tmp_path / "dangling").symlink_to(tmp_path / "made-by-us")
    os.link(target, tmp_path / "hard link")
    for name in ("link", "dangling"):
        with pytest.raises(UsageError, match="is a link, which isn't followed; name the file"):
            StatFileWriter.create(tmp_path / name, overwrite=overwrite)
    with pytest.raises(StatFileError, match="Is a directory"):
        StatFileWriter.create(tmp_path, overwrite=overwrite)
    assert target.read_bytes() == before
    assert not (tmp_path / "made-by-us").exists()


@pytest.mark.parametrize("overwrite", [False, True])
def test_devices_are_written_directly(overwrite: bool) -> None:
    before = os.stat("/dev/null").st_mode
    with StatFileWriter.create("/dev/null", overwrite=overwrite) as writer:
        writer.write(HEADER)
        assert (writer.readable, writer.blocks) == (False, 2)
        with StatFileWriter.create("/dev/null") as another:  # nobody holds it
            another.write(HEADER)
    assert os.stat("/dev/null").st_mode == before


def test_a_pipe_takes_a_file_that_can_be_read_at_its_end(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(StatFileError, match="pipe: can't be written: No such device"):
        StatFileWriter.create(pipe)  # nobody is there to read it
    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with StatFileWriter.create(pipe) as writer:
        writer.write(HEADER)
        writer.write(FOOTER)
    with os.fdopen(end, "rb") as file:
        data = file.read()
    with read(BytesIO(data)) as run:
        assert list(run) == [HEADER, FOOTER]
    assert pipe.is_fifo()


def test_results_do_not_go_into_what_another_user_has_placed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In /tmp, where a run was told to write them."""
    pipe, other, run = (tmp_path / name for name in ("pipe", "other", "run"))
    os.mkfifo(pipe)
    before = write_run(run)
    os.link(run, other)
    tmp_path.chmod(0o1777)
    real = os.fstat

    def fstat(file: int) -> os.stat_result:
        """As if FIFOs and links were another user's."""
        facts = real(file)
        is_placed = stat.S_ISFIFO(facts.st_mode) or stat.S_ISLNK(facts.st_mode)
        return os.stat_result([*facts[:4], os.geteuid() + is_placed, *facts[5:]])

    monkeypatch.setattr("ssbench.host.files.os.fstat", fstat)
    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    for path, why in ((pipe, "another user has placed"), (other, r"it has another name \(a hard")):
        for create in (check_new, StatFileWriter.create):
            with pytest.raises(UsageError, match=f"{path.name}: can't be written: {why}"):
                create(str(path), overwrite=True)
    (tmp_path / "way").symlink_to(tmp_path)
    new = str(tmp_path / "way" / "new")
    with pytest.raises(UsageError, match="another user has placed the link way there; name"):
        check_new(new, overwrite=False)
    with pytest.raises(StatFileError, match="another user has placed the link way there; name"):
        StatFileWriter.create(new)
    assert os.read(end, 1) == b""
    os.close(end)
    assert run.read_bytes() == before
    tmp_path.chmod(0o755)
    check_new(str(other), overwrite=True)


def test_what_takes_the_place_of_a_file_is_neither_written_nor_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder where others may replace what is ours."""
    folder, aside, run = tmp_path / "folder", tmp_path / "aside", tmp_path / "folder" / "run"
    folder.mkdir()
    real = Place.why_placed

    def why_placed(place: Place, found: os.stat_result) -> str:
        (folder / "mine").rename(run)
        return real(place, found)

    run.touch()
    (folder / "mine").write_text("mine")
    with monkeypatch.context() as patched:
        patched.setattr(Place, "why_placed", why_placed)
        with StatFileWriter.create(run, overwrite=True) as writer:
            writer.write(HEADER)
    assert run.read_text() == "mine"
    new = folder / "new"
    with StatFileWriter.create(new, hold=True):
        folder.rename(aside)
        folder.mkdir()
        new.write_text("mine")
    assert new.read_text() == "mine"
    assert [*aside.iterdir()] == [aside / "run"]
    with StatFileWriter.create(new.with_name("other"), hold=True):
        new.rename(new.with_name("other"))
    assert [path.read_text() for path in folder.iterdir()] == ["mine"]


def test_a_file_in_use_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "run"
    assert not is_being_written(path)
    with StatFileWriter.create(path) as writer:
        writer.write(HEADER)
        assert is_being_written(path)
        assert is_being_written(path)  # asking doesn't take the lock away
    assert not is_being_written(path)
