"""The file store, as its users run it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.commands import Commands, finished, free_ports, workers_of
from tests.e2e.namespaces import Namespace

pytestmark = pytest.mark.e2e
OPERATIONS = {
    "create": 3, "read": 3, "update": 2, "delete": 1, "head": 1, "post": 1, "list": 1, "copy": 1,
    "range_read": 1, "bulk_delete": 0.5,
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "objects"
    made.mkdir()
    return made


def scenario(commands: Commands, **keys: object) -> Path:
    given = {"operations": OPERATIONS, "bulk_count": 2, "range_bytes": 50, "operation_count": 100}
    return commands.scenario(**{**given, **keys})


def store(folder: Path, *more: object) -> list[object]:
    return ["--storage", "file", "--path", folder, *more]


def files_of(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("more", [[], ["--direct", "--fsync", "--io-buffer", "64k"]])
def test_two_workers_run_ten_operations_and_leave_the_initial_objects(
    commands: Commands, folder: Path, more: list[str]
) -> None:
    path = scenario(commands)
    for seed in (1, 2):  # the second run finds the objects of the first as they must be
        # With these seeds there is each operation.
        words = ["-f", path, "--verify", "--seed", seed, *store(folder, *more)]
        ended = commands.run(*words).fine()
        assert ended.counted()[:2] == (100, 0)
        assert set(finished(ended.stats)) == {name.upper() for name in OPERATIONS}
        assert len(workers_of(ended.results)) == 2
        left = {name for name in files_of(folder) if not name.endswith("/.ssbench")}
        assert all(name.count("_") == 2 for name in left)  # none with a run's id
    cleaned = commands.master("cleanup-containers", "--yes", *store(folder)).wait().fine()
    assert "3 containers" in cleaned.out
    assert [*folder.iterdir()] == []


@pytest.fixture
def disks() -> Iterator[Namespace]:
    with Namespace("--mount") as there:
        there.run("mount", "--make-rprivate", "/")
        yield there


def test_a_file_system_without_direct_access_is_refused(
    commands: Commands, folder: Path, disks: Namespace
) -> None:
    disks.run("mount", "-t", "ramfs", "none", str(folder))
    words = ["-f", scenario(commands), *store(folder, "--direct")]
    ended = commands.run(*words, workers=1, preexec_fn=disks.enter())
    assert f"--direct: {folder} (ramfs) has no O_DIRECT" in ended.one_line(2)


def test_a_worker_that_sees_another_directory_is_refused(
    commands: Commands, folder: Path, disks: Namespace
) -> None:
    disks.run("mount", "-t", "tmpfs", "none", str(folder))
    ports = free_ports()
    worker = commands.worker(*ports, "--allow-path", folder, "far", preexec_fn=disks.enter())
    ended = commands.run(
        "-f", scenario(commands), "--expect-workers", 1, *store(folder), workers=None, ports=ports
    )
    assert ended.status != 0
    assert f"{folder} is not the directory that the master uses" in ended.err
    assert "is not the directory" in worker.wait().fine(1).err


def test_a_worker_that_sees_the_same_directory_takes_part(
    commands: Commands, folder: Path, disks: Namespace
) -> None:
    ports = free_ports()
    words = ["--allow-path", folder, "--exit-with-master", *ports, "far"]
    commands.worker(*words, preexec_fn=disks.enter())
    ended = commands.run(
        "-f", scenario(commands), "--expect-workers", 2, "--zmq-bind-ip", "127.0.0.1",
        *store(folder), workers=1, ports=ports,
    ).fine()  # fmt: skip
    assert len(workers_of(ended.results)) == 2
    assert (folder / ".ssbench").is_file()


@pytest.mark.parametrize("allowed", [["--allow-path", "/elsewhere"], []])
def test_a_worker_touches_only_directories_that_its_user_allows(
    commands: Commands, folder: Path, allowed: list[str]
) -> None:
    """As if somebody else had listened at the master's ports first."""
    ports = free_ports()
    worker = commands.worker(*allowed, *ports, "careful")
    ended = commands.run(
        "-f", scenario(commands), "--expect-workers", 1, *store(folder), workers=None, ports=ports
    )
    assert ended.status != 0
    said = f"{folder} is not used here: start this worker with --allow-path {folder}"
    assert said in ended.err
    assert said in worker.wait().fine(1).err
    assert {Path(path).name for path in files_of(folder)} == {".ssbench"}


def test_only_root_drops_all_caches(commands: Commands, folder: Path) -> None:
    words = ["-f", scenario(commands), *store(folder, "--page-cache", "drop-all")]
    folder.chmod(0o777)
    if not os.access("/proc/sys/vm/drop_caches", os.W_OK):
        assert "only root may drop" in commands.run(*words, workers=1).one_line(2)
    else:
        commands.run(*words, "--verify", "-o", 20, workers=1).fine()
