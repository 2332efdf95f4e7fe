"""File systems that fail below the file store."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ssbench.core.errors import ExitStatus
from ssbench.core.model import ErrorKind
from tests.e2e.commands import Commands, Ended, Started, stats_of, until
from tests.e2e.faults.matrix import Row
from tests.e2e.namespaces import Namespace

#: Permissions count for root, too.
UNPRIVILEGED = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]

#: Some hundred operations a second, until an interrupt.
PACED = {"operation_count": 10**6, "think_time": 0.02}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "objects"
    made.mkdir()
    return made


@pytest.fixture
def disks() -> Iterator[Namespace]:
    with Namespace("--mount") as there:
        there.run("mount", "--make-rprivate", "/")
        yield there


@dataclass
class Disk:
    """A run on a file system."""

    commands: Commands
    folder: Path
    prefix: list[str] = field(default_factory=list)

    def start(self, *options: object, **keys: object) -> Started:
        path = self.commands.scenario(**keys)
        words = ["-f", path, "--storage", "file", "--path", self.folder, *options]
        return self.commands.start_run(*words, workers=1, prefix=self.prefix)

    def populate(self) -> None:
        """Make containers and initial objects."""
        self.start(crud_profile=[0, 1, 0, 0], operation_count=1).wait().fine()


def fails(started: Started) -> Ended:
    """Wait for failed operations in the stat file; then interrupt the run."""
    path = started.stat_file
    assert path is not None
    until("failures", lambda: stats_of(path, damaged=True).total().errors)
    started.interrupt()
    return started.wait().fine(5)


@pytest.mark.fault("file: the disk is full")
def test_a_full_disk_fails_uploads(
    commands: Commands, folder: Path, disks: Namespace, row: Row
) -> None:
    disks.run("mount", "-t", "tmpfs", "-o", "size=128k", "none", str(folder))
    disk = Disk(commands, disks.path(folder))
    ended = disk.start(crud_profile=[1, 0, 0, 0]).wait().fine(1)
    account = row.accounted(ended.stats)
    assert {kind for kind, _ in ended.stats.errors} == {ErrorKind.NO_SPACE}
    assert "No space left on device" in ended.out
    assert account.failed > account.done
    # What was created before the disk was full is deleted.
    left = {path.name for path in disks.path(folder).rglob("tiny_*")}
    assert all(name.count("_") == 1 for name in left), left
    row.saw(f"{account.failed} no space, status 1")


@pytest.mark.fault("file: read-only")
def test_a_read_only_disk_is_read(
    commands: Commands, folder: Path, disks: Namespace, row: Row
) -> None:
    Disk(commands, folder).populate()
    disks.run("mount", "--bind", str(folder), str(folder))
    disks.run("mount", "-o", "remount,bind,ro", str(folder))
    ended = Disk(commands, disks.path(folder)).start(crud_profile=[0, 1, 1, 0]).wait()
    account = row.accounted(ended.stats)
    assert {kind for kind, _ in ended.stats.errors} == {ErrorKind.ACCESS_DENIED}
    assert "Read-only file system" in ended.out
    assert ended.counted("READ")[1] == 0
    assert ended.counted("UPDATE")[0] == 0
    row.saw(f"READs go on, {account.failed} access denied")


@pytest.mark.fault("file: no permission for a container's folder")
def test_a_folder_without_permission_is_denied(commands: Commands, folder: Path, row: Row) -> None:
    Disk(commands, folder).populate()
    disk = Disk(commands, folder, UNPRIVILEGED)
    started = disk.start(crud_profile=[0, 1, 0, 0], **PACED)
    until("reads", lambda: started.on_disk("READ") > 20)
    closed = folder / "ssbench_000001"
    closed.chmod(0)
    try:
        ended = fails(started)
        line = disk.start().wait().one_line()
    finally:
        closed.chmod(0o700)
    account = row.accounted(ended.stats)
    assert {kind for kind, _ in ended.stats.errors} == {ErrorKind.ACCESS_DENIED}
    assert account.done > 20
    assert "ssbench_000001" in line
    assert "ermission denied" in line
    row.saw(f"{account.failed} access denied; then status 1, one line")


@pytest.mark.fault("file: the directory vanishes")
def test_a_directory_that_vanishes_is_no_success(
    commands: Commands, folder: Path, row: Row
) -> None:
    disk = Disk(commands, folder)
    started = disk.start(crud_profile=[1, 2, 1, 0], **PACED)
    until("reads", lambda: started.on_disk("READ") > 20)
    away = folder.rename(folder.with_name("away"))
    shutil.rmtree(away, ignore_errors=True)  # it may still grow
    ended = fails(started)
    account = row.accounted(ended.stats)
    assert account.failed > 0
    assert {status for _, status in ended.stats.errors} == {404}
    line = disk.start().wait().one_line(ExitStatus.USAGE)
    assert str(folder) in line
    row.saw(f"{account.failed} status 404; then status 2, one line")
