"""Drivers with --verify, against stores that tell the truth and that don't."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from hashlib import sha256

import gevent
import pytest

from ssbench.core.content import PERIOD
from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind, Job, SizeClass
from ssbench.core.operations import CREATE, ENSURE, READ, UPDATE, Operation
from ssbench.core.scenario.values import crud_profile
from ssbench.storage.base import ObjectStore
from ssbench.storage.http.connection import Upload
from ssbench.storage.http.verify import FOREIGN_ETAGS, sum_of
from ssbench.storage.registry import open_store
from tests.fakes.drivers import driver_settings, pieces
from tests.fakes.http_server import FakeContainer, etag_of
from tests.fakes.lying_swift import PUT_ETAG, LyingSwift
from tests.fakes.scripted_server import ScriptedServer, answering, ok
from tests.servers.certificates import Certificates

PROFILE = crud_profile([1, 1, 1, 1])
SIZES = (
    SizeClass("tiny", 1000, 1000, PROFILE, 10),
    SizeClass("any", 0, PERIOD + 1000, PROFILE, 10),
)


class Opened(ExitStack):
    """Servers and drivers, closed in the end."""

    def driver(self, url: str, **changes: object) -> ObjectStore:
        values = {"urls": (url,), "token": "tk", "run_id": "run1", "sizes": SIZES}
        values |= {"container_count": 1, "verify": True, "block_size": 700, **changes}
        settings = driver_settings(**values)  # type: ignore[arg-type]
        return self.enter_context(closing(open_store(settings)))

    def swift(self, lies: Sequence[str] = (), context: ssl.SSLContext | None = None) -> LyingSwift:
        swift = self.enter_context(LyingSwift(lies, context))
        swift.containers["ssbench_000000"] = FakeContainer("gold", {})
        return swift

    def answering(self, *answers: bytes, **changes: object) -> ObjectStore:
        server = self.enter_context(ScriptedServer(answering(*answers)))
        return self.driver(f"http://127.0.0.1:{server.port}/v1/AUTH_test", **changes)


@pytest.fixture
def opened() -> Iterator[Opened]:
    with Opened() as opened:
        yield opened


def job(
    operation: Operation, number: int = 0, version: int = 0, size: int = 1000, size_class: int = 0
) -> Job:
    return Job(1, operation, size_class, number, version, size)


def do(driver: ObjectStore, what: Job) -> StorageError | None:
    """What it raised; None where all of the object was moved."""
    try:
        moved = driver.actions[what.operation](what, 0).bytes_moved
    except StorageError as error:
        return error
    assert moved == what.size
    return None


def kind(error: StorageError | None) -> ErrorKind:
    return error.kind if error else ErrorKind.NONE


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("compressible", [False, True])
def test_correct_content_passes_verification(
    opened: Opened, certificates: Certificates, tls: bool, compressible: bool
) -> None:
    swift = opened.swift(context=certificates.server_context() if tls else None)
    driver = opened.driver(swift.url, compressible=compressible, insecure=tls)
    for number, size in enumerate([0, 1, 699, 700, 701, 200_000, PERIOD + 1]):
        for operation, version in ((ENSURE, 0), (READ, 0), (UPDATE, 1), (READ, 1)):
            assert do(driver, job(operation, number, version, size, 1)) is None, size


@pytest.mark.parametrize("operation", [CREATE, UPDATE])
def test_an_upload_is_verified_by_its_etag(opened: Opened, operation: Operation) -> None:
    swift = opened.swift([PUT_ETAG])
    driver = opened.driver(swift.url)
    assert do(driver, job(operation)) is None
    # The content was read back, and is right: the ETag is no MD5, and no further one is checked.
    noted = do(driver, job(operation, 0, 1))
    assert noted is not None
    assert (noted.kind, noted.detail, noted.status) == (ErrorKind.NONE, FOREIGN_ETAGS, 201)
    assert noted.timing is not None
    assert noted.timing.bytes_moved == 1000
    for version in range(2, 6):
        assert do(driver, job(operation, 0, version)) is None


def test_an_old_version_with_the_new_etag_is_corrupt(opened: Opened) -> None:
    old = b"".join(pieces(b"tiny_000000", 0, 1000, 700))
    new = etag_of(b"".join(pieces(b"tiny_000000", 1, 1000, 700)))
    driver = opened.answering(ok(old, f'Etag: "{new}"'.encode()))
    error = do(driver, job(READ, 0, 1))
    assert kind(error) is ErrorKind.CORRUPT
    assert "version 0, expected 1; the ETag is" in str(error)


def test_wrong_content_with_a_coding_is_told_with_it(opened: Opened) -> None:
    """A proxy that compressed what it forwards, say."""
    driver = opened.answering(ok(bytes(1000), b"Content-Encoding: zst\x1b"))
    error = do(driver, job(READ))
    assert kind(error) is ErrorKind.CORRUPT
    assert str(error).endswith("; Content-Encoding zst\\x1b")


def chunked(body: bytes, step: int) -> bytes:
    parts = [body[at : at + step] for at in range(0, len(body), step)]
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


def test_bodies_in_chunks_and_until_the_end(opened: Opened) -> None:
    body = b"".join(pieces(b"any_000000", 0, 100_000, 700))
    spoilt = body[:77_777] + bytes([body[77_777] ^ 4]) + body[77_778:]
    driver = opened.answering(
        chunked(body, 999), chunked(spoilt, 999), b"HTTP/1.1 200 OK\r\n\r\n" + spoilt
    )
    what = job(READ, 0, 0, 100_000, 1)
    assert do(driver, what) is None
    for _ in range(2):
        error = do(driver, what)
        assert kind(error) is ErrorKind.CORRUPT
        assert "byte offset 77777 on" in str(error)


def test_other_greenlets_run_while_a_long_content_is_hashed() -> None:
    seen: list[int] = []
    content = bytes(1 << 20)

    def pieces() -> Iterator[memoryview]:
        for index in range(4):
            seen.append(index)
            yield memoryview(content)

    other = gevent.spawn(lambda: seen.append(-1))
    found = sum_of(sha256, Upload(5 + (4 << 20), b"first", pieces))
    other.join()
    assert found == sha256(b"first" + 4 * content).digest()
    assert seen == [0, -1, 1, 2, 3]
