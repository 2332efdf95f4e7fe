"""Real files as the content of objects: what is sent of them, how, and what is wrong with them."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict

from ssbench.core.errors import StorageError, UsageError
from ssbench.core.model import SECOND_NS, ErrorKind, Job, SizeClass, Timing
from ssbench.core.naming import pack_names
from ssbench.core.operations import CREATE, READ
from ssbench.core.settings import StorageSettings
from ssbench.storage.base import ObjectStore
from ssbench.storage.directory import PIECE, DirectorySource, FileContents, SourceFile
from ssbench.storage.http.verify import FOREIGN_ETAGS
from tests.contract.stores import driver_on, scripted_driver
from tests.descriptors import open_descriptors
from tests.fakes.answered_store import Request, always, response
from tests.fakes.scripted_server import Peer, ok

NAMES = ["large", "deep/small", "empty"]
SIZES = [3 * PIECE + 5, 100, 0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, size in zip(NAMES, SIZES, strict=True):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(os.urandom(size))
    return tmp_path


def facts(folder: Path, **contents: object) -> dict[str, Any]:
    """Settings by which objects have the files as content."""
    newest_ns = max((folder / name).stat().st_ctime_ns for name in NAMES)
    given = {"path": str(folder), "prefix": "in/", "newest_ns": newest_ns, **contents}
    return {
        "sizes": (SizeClass("file", 0, max(SIZES), ((0, 1.0),), 3),),
        "names": {
            "kind": "listed", "containers": ["c"],
            "packed_names": pack_names([f"in/{name}" for name in NAMES]),
        },
        "contents": asdict(FileContents(**given)),  # type: ignore[arg-type]
    }  # fmt: skip


def source(folder: Path, **contents: object) -> DirectorySource:
    made = StorageSettings(**facts(folder, **contents))
    return DirectorySource(made, FileContents(**made.contents))


def job(number: int = 0, operation: int = CREATE) -> Job:
    return Job(1, operation, 0, number, 0, SIZES[number])


@pytest.mark.parametrize("number", range(3))
def test_a_file_is_read_whole_and_anew_in_each_attempt(folder: Path, number: int) -> None:
    content = (folder / NAMES[number]).read_bytes()
    with source(folder, hashes=True).open(job(number)) as file:
        for _ in range(2):
            assert b"".join(map(bytes, file.pieces())) == content
            assert file.checksum == md5(content).hexdigest()
        file.check_unchanged()


def replace_by_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("elsewhere")


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (Path.unlink, "No such file or directory"),
        (replace_by_link, "is a symbolic link; links are not followed"),
        (replace_by_folder, "is no longer a regular file"),
        (lambda path: path.write_bytes(b"x"), r"was changed since it was listed \(1 byte, not"),
        (lambda path: path.write_bytes(bytes(SIZES[0])), "was changed since it was listed$"),
        (lambda path: os.mkfifo(path.with_name("p")) or os.rename(path.with_name("p"), path),
         "is no longer a regular file"),
    ],
)  # fmt: skip
def test_a_file_that_is_not_the_one_listed_is_not_opened(
    folder: Path, change: Callable[[Path], object], says: str
) -> None:
    files = source(folder)
    change(folder / "large")
    with pytest.raises(StorageError, match=f"{folder}/large: {says}") as caught:
        files.open(job())
    assert (caught.value.kind, caught.value.sent) == (ErrorKind.SOURCE_FILE, False)
    assert files.moving() == {}


def test_a_link_in_place_of_a_folder_is_not_followed(folder: Path) -> None:
    (folder / "deep").rename(folder / "moved")
    (folder / "deep").symlink_to("moved")
    with pytest.raises(StorageError) as caught:
        source(folder).open(job(1))
    assert caught.value.kind is ErrorKind.SOURCE_FILE


def finish(file: SourceFile, pieces: Iterator[memoryview]) -> None:
    for _ in pieces:
        pass
    file.check_unchanged()


@pytest.mark.parametrize(
    ("size", "says"),
    [(10, r"\(10 bytes, not [\d,]+\)"), (SIZES[0] + 1, r"\([\d,]+ bytes, not [\d,]+\)")],
)
def test_a_change_while_a_file_is_read_is_noticed(folder: Path, size: int, says: str) -> None:
    with source(folder).open(job()) as file:
        pieces = file.pieces()
        next(pieces)
        os.truncate(folder / "large", size)
        with pytest.raises(StorageError, match=f"was changed while it was sent {says}") as caught:
            finish(file, pieces)
        assert (caught.value.kind, caught.value.sent) == (ErrorKind.SOURCE_FILE, True)


def sent_to_a_socket(file: SourceFile) -> Iterator[bytes]:
    """The content, piece by piece, by ``send_to``."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        while file.sent < file.size:
            yield theirs.recv(file.send_to(ours.fileno()), socket.MSG_WAITALL)


WAYS = {"read": lambda file: map(bytes, file.pieces()), "sendfile": sent_to_a_socket}


@pytest.mark.parametrize("way", WAYS)
def test_a_file_that_shrinks_is_an_error_of_the_source(folder: Path, way: str) -> None:
    with source(folder).open(job()) as file:
        pieces = WAYS[way](file)
        next(pieces)
        os.truncate(folder / "large", 5)
        with pytest.raises(StorageError, match=r"while it was sent \(5 bytes, not ") as caught:
            b"".join(pieces)
        assert (caught.value.kind, caught.value.sent) == (ErrorKind.SOURCE_FILE, True)


@pytest.mark.parametrize("way", WAYS)
def test_a_file_that_can_not_be_read_is_an_error_of_the_source(
    folder: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "bad disk")

    for name in ("preadv", "sendfile"):
        monkeypatch.setattr(os, name, fail)
    with source(folder).open(job()) as file, pytest.raises(StorageError, match="large: bad disk"):
        next(WAYS[way](file))


def test_a_socket_that_fails_is_no_error_of_the_source(folder: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, source(folder).open(job()) as file:
        ours.setblocking(False)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        file.send_to(ours.fileno())
        with pytest.raises(BlockingIOError):
            file.send_to(ours.fileno())
        theirs.close()
        with pytest.raises(BrokenPipeError):
            file.send_to(ours.fileno())


def test_files_that_take_long_are_reported_with_what_is_sent(folder: Path) -> None:
    files = source(folder)
    with files.open(job()) as file, files.open(job(1)) as other:
        sent = len(next(file.pieces()))
        for each in (file, other):
            each.opened_ns += 3600 * SECOND_NS  # this test may take long, too
        assert files.moving() == {}
        file.opened_ns -= 7200 * SECOND_NS
        assert files.moving() == {0: sent}
        file.rewind()
        assert files.moving() == {0: 0}
    assert files.moving() == {}


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    contents = FileContents(str(tmp_path / "none"))
    with pytest.raises(UsageError, match=r"folder of files to send, .*none: No such file"):
        DirectorySource(StorageSettings(names={"kind": "listed", "containers": [], "names": []}),
                        contents)  # fmt: skip


# Sent by HTTP -----------------------------------------------------------------------------


@contextmanager
def uploads(
    folder: Path, etag: str = "", damage: bool = False, **contents: object
) -> Iterator[tuple[Callable[..., Timing], ObjectStore, list[Request]]]:
    """Uploads a file by its number to a server that takes it; the driver, and the requests.

    :param etag: of each upload; "": the right one.
    :param damage: what is read back is not what was sent.
    """

    def answer(request: Request) -> bytes:
        if request.method == "GET":
            sent = heard[-2].body
            return ok(sent[:-1] + b"?" if damage else sent)
        return response(201, ETag=etag or md5(request.body).hexdigest())

    with driver_on("swift", answer, **facts(folder, **contents)) as (store, heard):
        yield lambda number=0: store.actions[CREATE](job(number), 0), store, heard


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the calls by which files are read and sent."""
    found: list[str] = []
    for name in ("sendfile", "preadv"):

        def counted(*args: object, name: str = name, real: object = getattr(os, name)) -> object:
            found.append(name)
            return real(*args)  # type: ignore[operator]

        monkeypatch.setattr(os, name, counted)
    return found


def test_without_a_checksum_the_kernel_sends_large_files(folder: Path, calls: list[str]) -> None:
    with uploads(folder) as (upload, store, heard):
        for number in (0, 1, 2, 0):
            upload(number)
        assert store.moving() == {}
    assert set(calls[:1]) == {"sendfile"}
    assert calls.count("preadv") == 1  # of the small file
    files = [(folder / NAMES[number]).read_bytes() for number in (0, 1, 2, 0)]
    assert [each.body for each in heard] == files
    assert heard[1].line == "PUT /v1/a/c/in%2Fdeep%2Fsmall"


def test_a_store_that_is_closed_keeps_no_folder_of_files_open(folder: Path) -> None:
    deep = str(folder / "deep")
    with uploads(folder) as (upload, _, _):
        upload(1)
        assert deep in {target for _, target in open_descriptors()}
    assert deep not in {target for _, target in open_descriptors()}


def test_a_checksum_known_beforehand_is_sent(folder: Path, calls: list[str]) -> None:
    digest = md5((folder / "large").read_bytes()).digest()
    with uploads(folder, md5=digest + bytes(32)) as (upload, _, heard):  # zeros: unknown
        assert [upload(number).items for number in (0, 1)] == [1, 0]
    assert [each.headers.get("etag") for each in heard] == [digest.hex(), None]
    assert "sendfile" in calls


def test_an_etag_of_another_content_is_corruption(folder: Path) -> None:
    with uploads(folder, etag="0" * 32, damage=True, hashes=True) as (upload, _, _):
        with pytest.raises(StorageError, match="large: the store's MD5 is 000") as caught:
            upload()
        assert caught.value.kind is ErrorKind.CORRUPT


def test_right_content_under_a_foreign_etag_is_a_note_once(folder: Path) -> None:
    with uploads(folder, etag="0" * 32, hashes=True) as (upload, _, _):
        with pytest.raises(StorageError) as noted:
            upload()
        assert (noted.value.kind, noted.value.detail) == (ErrorKind.NONE, FOREIGN_ETAGS)
        assert upload().items == 0


def test_a_file_that_is_cut_while_the_kernel_sends_it_ends_the_connection(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.sendfile

    def cutting(out: int, fd: int, offset: int, count: int) -> int:
        sent = real(out, fd, offset, 1000)
        os.truncate(folder / "large", 1000)
        return sent

    monkeypatch.setattr(os, "sendfile", cutting)
    with uploads(folder) as (upload, _, heard):
        with pytest.raises(StorageError, match=r"while it was sent \(1,000 bytes, not") as caught:
            upload()
        assert (caught.value.kind, caught.value.sent) == (ErrorKind.SOURCE_FILE, True)
        upload(1)  # over a connection of its own
    assert [each.body for each in heard] == [(folder / "deep/small").read_bytes()]


@pytest.mark.parametrize("hashes", [False, True])
def test_a_response_ends_an_upload_that_is_not_complete(
    folder: Path, hashes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.storage.test_directory.SIZES", [50 << 20, *SIZES[1:]])
    os.truncate(folder / "large", 50 << 20)

    def refuse(peer: Peer) -> None:
        peer.hear()
        peer.say(b"HTTP/1.1 413 Too large\r\nContent-Length: 0\r\n\r\n")
        peer.is_over(0.5)

    with (
        scripted_driver("swift", refuse, **facts(folder, hashes=hashes)) as (store, _),
        pytest.raises(StorageError, match="PUT returned 413"),
    ):
        store.actions[CREATE](job(), 0)


def test_reads_are_compared_with_known_checksums(folder: Path) -> None:
    known = md5(b"hello").digest() + b"\x01" * 16 + bytes(16)
    given = facts(folder, path="", md5=known)
    with driver_on("swift", always(ok(b"hello")), verify=True, **given) as (store, _):
        for number in (0, 2):
            assert store.actions[READ](job(number, READ), 0).bytes_moved == 5
        with pytest.raises(StorageError, match="c/in/deep/small: its MD5 is") as caught:
            store.actions[READ](job(1, READ), 0)
        assert caught.value.kind is ErrorKind.CORRUPT
