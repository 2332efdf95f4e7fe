"""The file store: both halves over a directory, whatever others put into it."""

from __future__ import annotations

import errno
import os
import re
import resource
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import pytest
from msgspec.structs import asdict

from ssbench.core.errors import AuthError, StorageError, UsageError
from ssbench.core.model import ErrorKind, Job, SizeClass
from ssbench.core.operations import (
    BULK_DELETE,
    COPY,
    CREATE,
    DELETE,
    ENSURE,
    HEAD,
    LIST,
    POST,
    READ,
    REMOVE,
    UPDATE,
    Operation,
)
from ssbench.core.scenario.values import crud_profile
from ssbench.core.settings import StorageSettings
from ssbench.storage import filetree
from ssbench.storage.base import ObjectEntry
from ssbench.storage.directory import FileContents
from ssbench.storage.file import driver as file
from ssbench.storage.filetree import FileTree
from ssbench.storage.options import StoreOptions
from ssbench.storage.registry import open_provider
from tests.descriptors import open_descriptors
from tests.fakes.drivers import WholeDriver, pieces

SIZES = (
    SizeClass("o", 0, 3_000_000, crud_profile([1, 1, 1, 1]), 4),
    SizeClass("deep/er", 1, 100, crud_profile([1, 1, 1, 1]), 4),
)
FIRST = "ssbench_000000"
OBJECT = f"{FIRST}/o_000000"

Opener = Callable[..., Any]


def settings_for(path: Path, given: dict[str, Any], **run: Any) -> StorageSettings:
    options = StoreOptions("file", {"path": str(path), **given})
    access = open_provider(options).log_in()
    values = {"run_id": "0123456789", "sizes": SIZES, "container_count": 2, **run}
    return StorageSettings("file", store=access.settings, **values)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opener]:
    """``opened(options of the store, **settings)``: both halves, with two containers."""
    drivers = []

    def open_driver(given: dict[str, Any] | None = None, **run: Any) -> WholeDriver:
        driver = WholeDriver(settings_for(tmp_path, given or {}, **run))
        drivers.append(driver)
        for index in range(2):
            driver.make_container(f"ssbench_{index:06d}")
        return driver

    yield open_driver
    for driver in drivers:
        driver.close()


def job(operation: Operation, number: int = 0, size: int = 100, **more: Any) -> Job:
    size_class = more.pop("size_class", 0)
    return Job(7, operation, size_class, number, more.pop("version", 0), size, **more)


def run(driver: Any, operation: Operation, *args: Any, **more: Any) -> Any:
    return driver.actions[operation](job(operation, *args, **more), 0)


def refused(call: Callable[..., object], *args: Any, **more: Any) -> StorageError:
    with pytest.raises(StorageError) as caught:
        call(*args, **more)
    return caught.value


def fails(driver: Any, operation: Operation, *args: Any, **more: Any) -> StorageError:
    return refused(run, driver, operation, *args, **more)


def content(name: str, size: int, version: int = 0) -> bytes:
    return b"".join(pieces(name.encode(), version, size, 65536))


def raising(number: int) -> Callable[..., bytes]:
    def call(*_: object) -> bytes:
        raise OSError(number, os.strerror(number))

    return call


# Content --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"io_buffer": 4096},
        {"direct": True, "io_buffer": 16384},
        {"fsync": True, "page_cache": "keep", "io_buffer": 1000},
    ],
    ids=["default", "small-buffer", "direct", "fsync"],
)
def test_content_of_any_size_by_any_way(
    opened: Opener, tmp_path: Path, given: dict[str, Any]
) -> None:
    driver = opened(given, verify=True)
    for size in (0, 1, 511, 512, 4096, 4097, 65536, 1_000_003):
        assert run(driver, CREATE, 0, size).bytes_moved == size
        assert (tmp_path / OBJECT).read_bytes() == content("o_000000", size)
        read = run(driver, READ, 0, size)
        assert (read.status, read.bytes_moved) == (200, size)
        assert read.headers_ns <= read.first_byte_ns <= read.last_byte_ns
        assert run(driver, UPDATE, 0, size + 3, version=1).bytes_moved == size + 3
        assert run(driver, READ, 0, size + 3, version=1).bytes_moved == size + 3


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("buffer", [4096, 512 << 10])
def test_real_files_are_read_and_written_in_pieces_of_the_buffer(
    opened: Opener, tmp_path: Path, outside: Path, monkeypatch: pytest.MonkeyPatch, buffer: int,
    direct: bool,
) -> None:  # fmt: skip
    (outside / "file").write_bytes(os.urandom(600_001))
    driver = opened(
        {"io_buffer": buffer, "direct": direct},
        contents=asdict(FileContents(str(outside), "in/", time.time_ns())),
        names={"kind": "listed", "containers": [FIRST], "names": ["in/file"]},
    )
    written, write = list[int](), os.write
    read, preadv = list[int](), os.preadv
    monkeypatch.setattr(
        os, "preadv", lambda fd, parts, at: read.append(len(parts[0])) or preadv(fd, parts, at)
    )
    monkeypatch.setattr(os, "write", lambda fd, part: written.append(len(part)) or write(fd, part))
    assert run(driver, CREATE, 0, 600_001).bytes_moved == 600_001
    assert max(written) == max(read) == buffer
    assert (tmp_path / FIRST / "in/file").read_bytes() == (outside / "file").read_bytes()
    (outside / "file").unlink()


def test_readers_meet_the_old_content_or_the_new_one_whole(opened: Opener) -> None:
    driver = opened({"page_cache": "keep"})
    run(driver, CREATE, 0, 200_000)
    sizes, ended = set(), threading.Event()

    def read() -> None:
        while not ended.is_set():
            sizes.add(run(driver, READ, 0, 200_000).bytes_moved)

    reader = threading.Thread(target=read)
    reader.start()
    for version in range(200):
        run(driver, UPDATE, 0, 100_000 + 100_000 * (version % 2), version=version)
    ended.set()
    reader.join()
    assert sizes <= {100_000, 200_000}


def test_a_write_that_is_cut_short_leaves_the_old_content(opened: Opener, tmp_path: Path) -> None:
    driver = opened({"io_buffer": 4096})
    run(driver, CREATE, 0, 100)
    late = perf_counter_ns() + 1
    for operation, number in ((UPDATE, 0), (CREATE, 5)):
        with pytest.raises(StorageError) as caught:
            driver.actions[operation](job(operation, number, 100_000), late)
        assert caught.value.kind is ErrorKind.OPERATION_TIMEOUT
    assert (tmp_path / OBJECT).read_bytes() == content("o_000000", 100)
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {".ssbench", "o_000000"}


def test_a_bulk_delete_syncs_each_folder_once(
    opened: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, synced = opened({"fsync": True}), list[str]()
    driver.make_container("c")
    names = [f"{folder}{number}" for folder in ("", "a/", "a/b/") for number in range(10)]
    for name in names:
        (tmp_path / "c" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "c" / name).touch()
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    assert driver.bulk_delete("c", [*names, "missing", "gone/missing"]) == []
    assert sorted(synced) == [str(tmp_path / "c" / part).rstrip("/") for part in ("", "a", "a/b")]
    assert [path.name for path in (tmp_path / "c").rglob("*") if path.is_file()] == [".ssbench"]


@pytest.mark.parametrize("fsync", [True, False])
def test_fsync_reaches_each_file_and_folder_that_changes(
    opened: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fsync: bool
) -> None:
    driver, synced = opened({"fsync": fsync}), set[Path]()

    def note(fd: int) -> None:
        synced.add(Path(os.readlink(f"/proc/self/fd/{fd}")).relative_to(tmp_path))

    def during(call: Callable[..., object], *args: Any, **more: Any) -> set[str]:
        synced.clear()
        call(*args, **more)
        return {path.name.partition("-")[0] for path in synced}

    monkeypatch.setattr(os, "fsync", note)
    found = [
        during(driver.make_container, "c"),
        during(run, driver, CREATE),
        during(run, driver, UPDATE),  # under another name, until it is complete
        during(run, driver, POST),
        during(run, driver, COPY, others=(9,)),
        during(run, driver, DELETE, 9),
        during(driver.delete_object, FIRST, "o_000000"),
        during(driver.delete_container, FIRST),
    ]
    expected = [
        {"", "c", ".ssbench"}, {FIRST, "o_000000"}, {FIRST, ".ssbench"}, {"o_000000"},
        {"ssbench_000001", "o_0123456789_000009"}, {"ssbench_000001"}, {FIRST}, {""},
    ]  # fmt: skip
    assert found == (expected if fsync else [set() for _ in expected])


@pytest.mark.parametrize(
    ("given", "drops"),
    [({}, 1), ({"page_cache": "keep"}, 0), ({"direct": True}, 0), ({"fsync": True}, 1)],
)
def test_a_read_first_drops_what_the_page_cache_has(
    opened: Opener, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], drops: int
) -> None:
    driver, advice = opened(given), list[tuple[int, ...]]()
    run(driver, CREATE)
    monkeypatch.setattr(os, "posix_fadvise", lambda fd, *args: advice.append(args))
    run(driver, READ)
    assert advice == [(0, 0, os.POSIX_FADV_DONTNEED)] * drops


# Names ----------------------------------------------------------------------------------------


def test_listings_by_prefix_limit_and_delimiter(opened: Opener, tmp_path: Path) -> None:
    driver = opened()
    for name in ("a-1", "a/1", "a/2", "a/b/3", "a0", "c/d/4"):
        path = tmp_path / FIRST / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    def items(prefix: bytes = b"", limit: int = 100, delimiter: bytes = b"") -> int:
        timing = run(driver, LIST, arguments=(prefix, limit, delimiter))
        assert (timing.status, timing.bytes_moved) == (200, 0)
        return int(timing.items)

    assert items() == 6
    assert items(limit=4) == 4
    assert items(b"a/") == 3
    assert items(b"a/b") == items(b"c/d/") == 1
    assert items(b"", 100, b"/") == 4  # a-1, a/, a0, c/
    assert items(b"a/", 100, b"/") == 3
    assert items(b"none") == 0
    assert fails(opened(container_base="no"), LIST, arguments=(b"", 1, b"")).status == 404
    # The order of whole names: "a-1" comes before what is in the folder "a".
    names = [found.name for found in driver.list_objects(FIRST, "", 100)]
    assert names == ["a-1", "a/1", "a/2", "a/b/3", "a0", "c/d/4"]


def test_a_folder_is_read_once_for_all_pages_of_a_listing(
    opened: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, names = opened(), [f"o_{number:06d}" for number in range(10)]
    for name in names:
        (tmp_path / FIRST / name).touch()
    scanned, scan = list[int](), os.scandir
    monkeypatch.setattr(os, "scandir", lambda fd: scanned.append(fd) or scan(fd))
    found, marker = list[str](), ""
    while page := driver.list_objects(FIRST, marker, 3):
        marker = page[-1].name
        found += [entry.name for entry in page]
        driver.delete_object(FIRST, "o_000003")
    assert found == [name for name in names if name != "o_000003"]
    assert len(scanned) == 1


def test_bulk_deletes_have_an_outcome_for_each(opened: Opener, tmp_path: Path) -> None:
    driver = opened()
    for number in range(3):
        run(driver, CREATE, number)
    gone = run(driver, BULK_DELETE, 0, others=(1, 9))
    assert (gone.status, gone.items, gone.statuses) == (200, 2, ())
    (tmp_path / FIRST / "o_000000").mkdir()
    error = fails(driver, BULK_DELETE, 0, others=(2,))
    assert error.kind is ErrorKind.STATUS
    assert (error.timing.items, error.timing.statuses) == (1, (409, 204))


@pytest.mark.parametrize("name", ["..", "../x", "a/../../x", "a//b", "/etc/x", "a/", ".ssbench"])
def test_names_that_lead_elsewhere_are_not_tried(opened: Opener, tmp_path: Path, name: str) -> None:
    victim = tmp_path.parent / "x"
    victim.write_text("precious")
    driver = opened(names={"kind": "listed", "containers": [FIRST], "names": [name]})
    (tmp_path / FIRST / "a").mkdir()
    for operation in (CREATE, READ, UPDATE, HEAD, POST, DELETE, ENSURE):
        error = fails(driver, operation)
        assert (error.kind, error.sent) == (ErrorKind.PROTOCOL, False)
    for call in (driver.delete_object, driver.object_run_id):
        refused(call, FIRST, name)
    assert victim.read_text() == "precious"
    assert (tmp_path / FIRST / ".ssbench").exists()


# Hostile trees --------------------------------------------------------------------------------


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A folder beside the store's, which must stay as it is."""
    folder = tmp_path.parent / f"{tmp_path.name}-outside"
    folder.mkdir()
    (folder / "o_000000").write_text("precious")
    (folder / ".ssbench").touch()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    yield folder
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_link_in_place_of_an_object_is_not_followed(
    opened: Opener, tmp_path: Path, outside: Path
) -> None:
    driver = opened()
    link = tmp_path / OBJECT
    link.symlink_to(outside / "o_000000")
    for operation in (READ, POST, COPY):
        error = fails(driver, operation, others=(9,) if operation is COPY else ())
        assert (error.kind, error.status) == (ErrorKind.ACCESS_DENIED, 403)
        assert "symbolic link" in error.detail
    assert fails(driver, HEAD).status == 403
    with pytest.raises(StorageError, match="symbolic link"):
        driver.object_run_id(FIRST, "o_000000")
    assert driver.list_objects(FIRST, "", 10) == []
    run(driver, UPDATE)  # takes the link's name
    assert not link.is_symlink()
    link.unlink()
    link.symlink_to(outside / "o_000000")
    run(driver, CREATE)
    assert not link.is_symlink()
    link.unlink()
    link.symlink_to(outside / "o_000000")
    run(driver, DELETE)  # the link, as rm does
    assert not link.is_symlink()


def test_a_hard_link_in_place_of_an_object_is_not_written_to(
    opened: Opener, tmp_path: Path, outside: Path
) -> None:
    driver = opened()
    for operation in (CREATE, UPDATE, ENSURE):
        os.link(outside / "o_000000", tmp_path / OBJECT)
        run(driver, operation)
        (tmp_path / OBJECT).unlink()


def test_a_link_in_place_of_a_folder_is_not_followed(
    opened: Opener, tmp_path: Path, outside: Path
) -> None:
    driver = opened()
    driver.delete_container(FIRST)
    (tmp_path / FIRST).symlink_to(outside)
    for operation in (CREATE, READ, UPDATE, DELETE, HEAD, POST):
        assert fails(driver, operation).status in (404, 409)
    for call in (driver.owns, driver.delete_container, driver.make_container):
        refused(call, FIRST)
    refused(driver.delete_object, FIRST, "o_000000")
    names = [entry.name for entry in driver.list_containers("", "", 10)]
    assert FIRST not in names
    (tmp_path / "ssbench_000001" / "deep").symlink_to(outside)
    assert fails(driver, CREATE, 0, size_class=1).status == 409
    assert driver.list_objects("ssbench_000001", "", 10) == []


def test_pipes_sockets_and_folders_are_no_objects(opened: Opener, tmp_path: Path) -> None:
    driver = opened()
    path = tmp_path / OBJECT
    os.mkfifo(path)
    for operation in (READ, HEAD, POST):  # and none of them waits for its other end
        assert fails(driver, operation).status == 403
    assert driver.object_run_id(FIRST, "o_000000") is None
    path.unlink()
    with socket.socket(socket.AF_UNIX) as server:
        there = os.open(path.parent, os.O_RDONLY)
        server.bind(f"/proc/self/fd/{there}/{path.name}")
        os.close(there)
    for operation in (READ, HEAD, POST):
        assert fails(driver, operation).status == 403
    path.unlink()
    path.mkdir()
    for operation in (READ, UPDATE, POST, DELETE):
        assert fails(driver, operation).status == 409
    assert fails(driver, HEAD).status == 403
    assert driver.list_objects(FIRST, "", 10) == []


def test_a_file_that_grew_is_read_to_a_bound(opened: Opener, tmp_path: Path) -> None:
    driver = opened()
    with (tmp_path / OBJECT).open("wb") as file:
        file.truncate(1 << 30)
    assert fails(driver, READ).kind is ErrorKind.OVERLONG


def test_folders_of_any_depth_are_listed(opened: Opener, tmp_path: Path) -> None:
    driver = opened()
    place = os.open(tmp_path / FIRST, os.O_RDONLY)
    for _ in range(200):
        os.mkdir("d", dir_fd=place)
        place, above = os.open("d", os.O_RDONLY, dir_fd=place), place
        os.close(above)
    os.close(os.open("file", os.O_CREAT, dir_fd=place))
    os.close(place)
    (found,) = driver.list_objects(FIRST, "", 10)
    assert found == ObjectEntry("d/" * 200 + "file", 0)
    assert driver.delete_object(FIRST, found.name)
    assert driver.delete_container(FIRST)


# Ownership ------------------------------------------------------------------------------------


def test_without_the_marker_nothing_is_deleted(opened: Opener, tmp_path: Path) -> None:
    driver = opened()
    theirs = tmp_path / "ssbench_000007"
    theirs.mkdir()
    (theirs / "o_000000").write_text("precious")
    found = driver.make_container("ssbench_000007")
    assert (found.marked, found.object_count) == (False, None)
    assert not driver.owns("ssbench_000007")
    for call in (
        lambda: driver.delete_object("ssbench_000007", "o_000000"),
        lambda: driver.delete_container("ssbench_000007"),
    ):
        error = refused(call)
        assert error.kind is ErrorKind.ACCESS_DENIED
        assert "ssbench may not have created it" in error.detail
    assert driver.bulk_delete("ssbench_000007", ["o_000000"]) == [("o_000000", 403)]
    (theirs / ".ssbench").symlink_to(tmp_path / FIRST / ".ssbench")
    assert not driver.owns("ssbench_000007")
    assert (theirs / "o_000000").read_text() == "precious"


def test_a_container_that_can_not_go_keeps_its_marker(
    opened: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = opened()
    unlink = os.unlink

    def and_another_client_writes(path: str, *, dir_fd: int) -> None:
        unlink(path, dir_fd=dir_fd)
        (tmp_path / FIRST / "theirs").touch()

    monkeypatch.setattr(os, "unlink", and_another_client_writes)
    assert refused(driver.delete_container, FIRST).status == 409
    assert driver.owns(FIRST)
    assert (tmp_path / FIRST / ".ssbench").read_text() == "0123456789\n"


def test_a_marker_that_is_none_stays(opened: Opener, tmp_path: Path) -> None:
    driver = opened()
    (tmp_path / "c").mkdir()
    (tmp_path / "c/.ssbench").symlink_to("elsewhere")
    with pytest.raises(StorageError, match="c: File exists"):
        driver.make_container("c")
    assert (tmp_path / "c/.ssbench").is_symlink()


def test_a_file_of_others_is_of_no_run(opened: Opener, tmp_path: Path) -> None:
    driver = opened()
    run(driver, CREATE)
    (tmp_path / FIRST / "theirs").touch()
    assert driver.object_run_id(FIRST, "o_000000") == "0123456789"
    assert driver.object_run_id(FIRST, "theirs") is None
    for mark, run_id in ((b"", None), (b"\xff 0", "\ufffd")):
        os.setxattr(tmp_path / FIRST / "theirs", "user.ssbench", mark)
        assert driver.object_run_id(FIRST, "theirs") == run_id


def test_a_folder_that_others_put_in_place_of_a_container_is_not_ours(
    opened: Opener, tmp_path: Path
) -> None:
    driver = opened()
    run(driver, CREATE)
    (tmp_path / FIRST).rename(tmp_path / "moved")
    (tmp_path / FIRST).mkdir()
    (tmp_path / OBJECT).write_text("precious")
    assert not driver.owns(FIRST)
    for call in (lambda: driver.delete_object(FIRST, "o_000000"),
                 lambda: driver.delete_container(FIRST)):  # fmt: skip
        with pytest.raises(StorageError, match="may not have created it"):
            call()
    assert (tmp_path / OBJECT).read_text() == "precious"
    assert (tmp_path / "moved/o_000000").exists()


def test_a_container_that_was_made_anew_is_found(opened: Opener) -> None:
    driver = opened()
    for size_class in (0, 1):
        run(driver, CREATE, size_class, size_class=size_class)
    for name in ("o_000000", "deep/er_000001"):
        driver.delete_object(FIRST, name)
    driver.delete_container(FIRST)
    assert fails(driver, CREATE).status == 404
    driver.make_container(FIRST)
    for size_class in (1, 0):
        assert run(driver, CREATE, size_class, size_class=size_class).status == 201


@pytest.mark.parametrize("key_names", ["flat", "hashed", "deep"])
def test_without_attributes_names_tell_whose_an_object_is(
    opened: Opener, monkeypatch: pytest.MonkeyPatch, key_names: str
) -> None:
    driver = opened(names={"kind": "run", "key_names": key_names})
    run(driver, CREATE, 0)
    run(driver, CREATE, 12)
    names = [found.name for found in driver.list_objects(FIRST, "", 9)]
    monkeypatch.setattr(os, "getxattr", raising(errno.EOPNOTSUPP))
    cleaning = opened(run_id="")  # as --resume-cleanup opens it
    found = {cleaning.object_run_id(FIRST, name) for name in names}
    assert (len(names), found) == (2, {None, "0123456789"})
    assert refused(cleaning.object_run_id, FIRST, "o_0123456789_000099").status == 404


# Failures -------------------------------------------------------------------------------------


def test_descriptors_run_out(opened: Opener) -> None:
    driver = opened()
    run(driver, CREATE)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # No new one is below 3, whatever other threads of this process close meanwhile.
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        errors = [fails(driver, operation) for operation in (READ, CREATE)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    for error in errors:
        assert error.kind is ErrorKind.LOAD_GENERATOR
        assert "ulimit -n" in error.detail
    assert not errors[1].sent  # nothing was created
    assert run(driver, READ).bytes_moved == 100


def test_a_closed_driver_does_nothing(opened: Opener) -> None:
    driver = opened()
    driver.close()
    for operation in (CREATE, READ, DELETE, REMOVE):
        error = fails(driver, operation)
        assert (error.kind, error.sent) == (ErrorKind.RESET, False)


# The directory --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"path": "/no/such"}, "--path /no/such: No such file or directory; make it first"),
        ({"path": "/etc/passwd"}, "--path /etc/passwd: Not a directory$"),
        ({"path": "a\0b"}, "embedded null (byte|character)"),
        ({"path": ""}, "the file store needs a directory: --path DIR"),
        ({"direct": True, "io_buffer": 1000}, "--io-buffer 1000: with --direct, a multiple of"),
        ({"io_buffer": 1 << 62}, f"--io-buffer {1 << 62}: not enough memory for such a buffer"),
    ],
)
def test_a_directory_that_cannot_be_used(tmp_path: Path, given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_provider(StoreOptions("file", {"path": str(tmp_path), **given}))
    assert re.search(words, str(caught.value))


def test_a_worker_must_see_the_directory_of_the_master(tmp_path: Path) -> None:
    options = StoreOptions("file", {"path": str(tmp_path)}, remote_workers=True)
    first, second = (open_provider(options).log_in().settings for _ in range(2))
    for own in (first, second):  # each of two masters
        WholeDriver(StorageSettings("file", store=own)).close()
    (tmp_path / ".ssbench").write_text("2026-01-01T00:00:00Z 0123456789abcdef\n")
    with pytest.raises(UsageError, match="is not the directory that the master uses"):
        WholeDriver(StorageSettings("file", store=second))
    (tmp_path / ".ssbench").unlink()
    (tmp_path / ".ssbench").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AuthError, match="workers on other hosts"):
        open_provider(options).log_in()
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("place", "given", "words"),
    [
        ("/dev/shm", {}, "is in memory (tmpfs)"),
        ("", {}, "data that the kernel has not written to the disk yet"),
        ("", {"direct": True}, "beyond its last whole block is written through the page cache"),
        ("", {"page_cache": "keep"}, None),
        ("", {"fsync": True}, None),
    ],
)
def test_notes_say_what_the_options_come_to(
    tmp_path: Path, place: str, given: dict[str, Any], words: str | None
) -> None:
    notes = open_provider(StoreOptions("file", {"path": place or str(tmp_path), **given})).notes
    assert [note for note in notes if words and words in note] or not (words or notes)


def test_free_space_is_that_of_the_directory(opened: Opener, tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    assert 0.5 < (opened().state().free_bytes + 1) / (free + 1) < 2  # others write there, too


@pytest.mark.parametrize("call", ["stat", "fpathconf", "fstatvfs"])
def test_a_disk_that_fails_is_an_error_of_the_store(
    opened: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    driver = opened()
    (tmp_path / OBJECT).touch()
    monkeypatch.setattr(os, call, lambda *args, **more: raising(errno.EIO)())
    with pytest.raises(StorageError, match="Input/output error") as caught:
        {
            "stat": lambda: driver.list_objects(FIRST, "", 9),
            "fpathconf": driver.limits,
            "fstatvfs": driver.state,
        }[call]()
    assert caught.value.kind is ErrorKind.IO


def test_a_tree_keeps_few_of_its_folders_open(tmp_path: Path) -> None:
    tree = FileTree(str(tmp_path))
    before = open_descriptors()
    for number in range(600):
        (tmp_path / str(number)).mkdir()
        tree.folder(str(number))
    assert len(open_descriptors() - before) < 560
    assert tree.folder("0") is tree.folder("0")
    tree.close()


@pytest.mark.parametrize(("page_cache", "times"), [("drop-all", 2), ("drop", 0), ("keep", 0)])
def test_all_caches_are_dropped_by_master_and_workers_if_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page_cache: str, times: int
) -> None:
    calls: list[int] = []
    for module in (file, filetree):
        monkeypatch.setattr(module, "drop_all_caches", lambda: calls.append(1))
    driver = WholeDriver(settings_for(tmp_path, {"page_cache": page_cache}))
    driver.connect(1)
    driver.close()
    assert len(calls) == times


def folders_open() -> set[Path]:
    return {Path(target) for _, target in open_descriptors()}


def test_no_descriptor_is_left_open(opened: Opener, tmp_path: Path) -> None:
    driver, before = opened(), set[tuple[int, str]]()
    (tmp_path / FIRST / "theirs").touch()
    for _ in range(2):
        for operation in (CREATE, ENSURE, READ, POST, HEAD, COPY, UPDATE):
            run(driver, operation, others=(9,) if operation is COPY else ())
        for name in ("o_000000", "theirs"):
            driver.object_run_id(FIRST, name)
        driver.make_container("c")
        driver.delete_container("c")
        driver.list_objects(FIRST, "", 9)
        before = before or open_descriptors()
    assert open_descriptors() <= before
    there = tmp_path / FIRST
    assert there in folders_open()
    driver.close()
    assert there not in folders_open()


def test_there_is_nothing_to_renew(tmp_path: Path) -> None:
    with pytest.raises(AuthError, match="no credentials"):
        open_provider(StoreOptions("file", {"path": str(tmp_path)})).renew()


def test_a_fifo_in_place_of_the_marker_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".ssbench")
    with pytest.raises(OSError, match="No such device"):
        FileTree(str(tmp_path)).announce("one")
    assert not FileTree(str(tmp_path)).has_session("one")


def test_a_session_is_found_among_the_newest(tmp_path: Path) -> None:
    tree = FileTree(str(tmp_path))
    assert not tree.has_session("one")
    tree.announce("one")
    tree.announce("two")
    found = [tree.has_session(name) for name in ("one", "two", "tw", "")]
    assert found == [True, True, False, False]
    with (tmp_path / ".ssbench").open("a") as marker:
        marker.write("2026-01-01T00:00:00Z 0123456789\n" * 2500)
    assert not tree.has_session("one")


def test_no_marker_counts_that_another_user_may_have_placed(
    tmp_path: Path, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder for everybody: clean-up would delete what is in it, and a session's id would be
    written into a file of ours elsewhere."""
    folder, mine = tmp_path / FIRST, tmp_path / "mine"
    admin, tree = opened(), FileTree(str(tmp_path))
    marker = folder / ".ssbench"
    marker.unlink()
    for path in (folder / "photo", mine):
        path.write_text("mine")
    real = os.stat

    def of_others(path: Any, **keywords: Any) -> os.stat_result:
        facts = real(path, **keywords)
        return os.stat_result([*facts[:4], os.geteuid() + (path == ".ssbench"), *facts[5:10]])

    for place in (marker, tmp_path / ".ssbench"):
        os.link(mine, place)
    for each in (folder, tmp_path):
        each.chmod(0o1777)
    with pytest.raises(PermissionError, match="a hard link"):
        tree.announce("one")
    assert not admin.owns(FIRST)
    marker.unlink()
    marker.touch()
    assert admin.owns(FIRST)
    monkeypatch.setattr("ssbench.storage.file.admin.os.stat", of_others)
    assert not admin.owns(FIRST)
    with pytest.raises(StorageError, match=r"has no \.ssbench file"):
        admin.delete_object(FIRST, "photo")
    assert mine.read_text() == (folder / "photo").read_text() == "mine"
    folder.chmod(0o755)  # nobody else could place it
    assert admin.owns(FIRST)
    assert admin.delete_object(FIRST, "photo")
