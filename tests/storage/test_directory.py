"""Real files as the content of objects: what is sent of them, how, and what is wrong with them."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import md5
from pathlib import Path

import pytest
from msgspec.structs import asdict, replace

from ssbench.core.errors import StorageError, UsageError
from ssbench.core.model import SECOND_NS, ErrorKind, Job, SizeClass
from ssbench.core.naming import pack_names
from ssbench.core.operations import CREATE, READ
from ssbench.core.settings import StorageSettings
from ssbench.storage.directory import PIECE, DirectorySource, FileContents, SourceFile
from ssbench.storage.http.verify import FOREIGN_ETAGS
from ssbench.storage.registry import open_store
from tests.descriptors import open_descriptors
from tests.fakes.drivers import driver_settings
from tests.fakes.scripted_server import Peer, ScriptedServer, ok

NAMES = ["large", "deep/small", "empty"]
SIZES = [3 * PIECE + 5, 100, 0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, size in zip(NAMES, SIZES, strict=True):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(os.urandom(size))
    return tmp_path


def settings(folder: Path, url: str = "", **contents: object) -> StorageSettings:
    newest_ns = max((folder / name).stat().st_ctime_ns for name in NAMES)
    given = {"path": str(folder), "prefix": "in/", "newest_ns": newest_ns, **contents}
    return driver_settings(
        urls=(url,), token="tk", sizes=(SizeClass("file", 0, max(SIZES), ((0, 1.0),), 3),),
        names={
            "kind": "listed", "containers": ["c"],
            "packed_names": pack_names([f"in/{name}" for name in NAMES]),
        },
        contents=asdict(FileContents(**given)),  # type: ignore[arg-type]
    )  # fmt: skip


def source(folder: Path, **contents: object) -> DirectorySource:
    made = settings(folder, **contents)
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


class Uploads:
    """A driver on a server that takes uploads and keeps them."""

    def __init__(self, port: int, folder: Path, **contents: object) -> None:
        self.storage = open_store(settings(folder, f"http://127.0.0.1:{port}/v1/A", **contents))

    def __call__(self, number: int = 0) -> object:
        return self.storage.actions[CREATE](job(number), 0)


@contextmanager
def uploads(
    folder: Path, heads: list[str], bodies: list[bytes], etag: str = "", damage: bool = False,
    **contents: object,
) -> Iterator[Uploads]:  # fmt: skip
    """:param damage: what is read back is not what was sent."""

    def serve(peer: Peer) -> None:
        while data := peer.hear():
            head, _, body = data.partition(b"\r\n\r\n")
            heads.append(head.decode())
            if head.startswith(b"GET"):
                kept = bodies[-1][:-1] + b"?" if damage else bodies[-1]
                peer.say(ok(kept))
                continue
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            while len(body) < length:
                more = peer.sock.recv(1 << 20)
                if not more:
                    return
                body += more
            bodies.append(body)
            shown = etag or md5(body).hexdigest()
            peer.say(f"HTTP/1.1 201 Created\r\nContent-Length: 0\r\nETag: {shown}\r\n\r\n".encode())

    with ScriptedServer(serve) as server:
        made = Uploads(server.port, folder, **contents)
        try:
            yield made
        finally:
            made.storage.close()


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
    heads: list[str] = []
    bodies: list[bytes] = []
    with uploads(folder, heads, bodies) as upload:
        for number in (0, 1, 2, 0):
            upload(number)
        assert upload.storage.moving() == {}
    assert set(calls[:1]) == {"sendfile"}
    assert calls.count("preadv") == 1  # of the small file
    assert bodies == [(folder / NAMES[number]).read_bytes() for number in (0, 1, 2, 0)]
    assert heads[1].startswith("PUT /v1/A/c/in%2Fdeep%2Fsmall HTTP/1.1")


def test_a_store_that_is_closed_keeps_no_folder_of_files_open(folder: Path) -> None:
    deep = str(folder / "deep")
    with uploads(folder, [], []) as upload:
        upload(1)
        assert deep in {target for _, target in open_descriptors()}
    assert deep not in {target for _, target in open_descriptors()}


def test_a_checksum_known_beforehand_is_sent(folder: Path, calls: list[str]) -> None:
    heads: list[str] = []
    digest = md5((folder / "large").read_bytes()).digest()
    with uploads(folder, heads, [], md5=digest + bytes(32)) as upload:  # zeros: unknown
        assert [upload(number).items for number in (0, 1)] == [1, 0]  # type: ignore[attr-defined]
    assert f"ETag: {digest.hex()}" in heads[0].split("\r\n")
    assert "ETag" not in heads[1]
    assert "sendfile" in calls


def test_an_etag_of_another_content_is_corruption(folder: Path) -> None:
    with uploads(folder, [], [], etag="0" * 32, damage=True, hashes=True) as upload:
        with pytest.raises(StorageError, match="large: the store's MD5 is 000") as caught:
            upload()
        assert caught.value.kind is ErrorKind.CORRUPT


def test_right_content_under_a_foreign_etag_is_a_note_once(folder: Path) -> None:
    with uploads(folder, [], [], etag="0" * 32, hashes=True) as upload:
        with pytest.raises(StorageError) as noted:
            upload()
        assert (noted.value.kind, noted.value.detail) == (ErrorKind.NONE, FOREIGN_ETAGS)
        assert upload().items == 0  # type: ignore[attr-defined]


def test_a_file_that_is_cut_while_the_kernel_sends_it_ends_the_connection(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.sendfile

    def cutting(out: int, fd: int, offset: int, count: int) -> int:
        sent = real(out, fd, offset, 1000)
        os.truncate(folder / "large", 1000)
        return sent

    monkeypatch.setattr(os, "sendfile", cutting)
    bodies: list[bytes] = []
    with uploads(folder, [], bodies) as upload:
        with pytest.raises(StorageError, match=r"while it was sent \(1,000 bytes, not") as caught:
            upload()
        assert (caught.value.kind, caught.value.sent) == (ErrorKind.SOURCE_FILE, True)
        upload(1)  # over a connection of its own
    assert bodies == [(folder / "deep/small").read_bytes()]


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

    with ScriptedServer(refuse) as server:
        upload = Uploads(server.port, folder, hashes=hashes)
        with pytest.raises(StorageError, match="PUT returned 413"):
            upload()
        upload.storage.close()


def test_reads_are_compared_with_known_checksums(folder: Path) -> None:
    def serve(peer: Peer) -> None:
        while peer.hear():
            peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")

    known = md5(b"hello").digest() + b"\x01" * 16 + bytes(16)
    with ScriptedServer(serve) as server:
        made = settings(folder, f"http://127.0.0.1:{server.port}/v1/A", path="", md5=known)
        storage = open_store(replace(made, verify=True))
        for number in (0, 2):
            assert storage.actions[READ](job(number, READ), 0).bytes_moved == 5
        with pytest.raises(StorageError, match="c/in/deep/small: its MD5 is") as caught:
            storage.actions[READ](job(1, READ), 0)
        assert caught.value.kind is ErrorKind.CORRUPT
        storage.close()
