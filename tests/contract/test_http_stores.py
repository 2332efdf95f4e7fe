"""What each store over HTTP makes of one response, byte for byte, and what it sends.

test_storage_contract.py has whole stores, which rarely fail.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from random import Random
from time import perf_counter_ns
from typing import Any

import pytest
from msgspec.structs import replace

from ssbench.core.content import SyntheticSource
from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind, Job, SizeClass, Timing
from ssbench.core.operations import (
    CREATE,
    HEAD,
    OPERATIONS,
    RANGE_READ,
    READ,
    REMOVE,
    Operation,
)
from ssbench.core.scenario.fields import crud_profile
from ssbench.core.settings import Credentials, StorageSettings
from ssbench.storage.registry import ROWS, load, open_store
from ssbench.storage.s3.sign import AwsKeys, issue
from tests.fakes.scripted_server import Peer, Script, ScriptedServer, ok

SIZES = (SizeClass("tiny", 1, 999, crud_profile([1, 1, 1, 1]), 10),)
#: Store -> what the master issues for it.
ISSUED: dict[str, dict[str, Any]] = {
    "swift": {"token": "tk"},
    "s3": issue(AwsKeys("AKID", "s3cret-key", ""), "us-east-1", time.time())[0],
    "webdav": {},
}
#: The same after a renewal, and what only requests under it have.
RENEWED: dict[str, tuple[dict[str, Any], bytes]] = {
    "swift": ({"token": "newer"}, b"X-Auth-Token: newer\r\n"),
    "s3": (
        issue(AwsKeys("NEWER", "s3cret-key", ""), "us-east-1", time.time())[0],
        b"Credential=NEWER/",
    ),
    "webdav": ({"access": [{"basic": "bmV3"}]}, b"Authorization: Basic bmV3\r\n"),
}
SUPPORTED = [
    (name, OPERATIONS[number]) for name in ISSUED for number in load(ROWS[name].driver).operations
]


def test_every_store_over_http_is_here() -> None:
    assert {*ISSUED} == {name for name, row in ROWS.items() if row.urls}


@contextmanager
def store_on(
    name: str, script: Script, *, paths: tuple[str, ...] = ("/v1/a",), **changes: Any
) -> Iterator[tuple[Any, StorageSettings]]:
    """A driver on a server.

    :param paths: of its addresses, all of this server.
    """
    with ScriptedServer(script) as server:
        settings = StorageSettings(
            name, "run1", "w1", SIZES, container_count=2,
            store={"urls": [f"http://127.0.0.1:{server.port}{path}" for path in paths]},
            credentials=(Credentials(1, None, ISSUED[name]),), **changes,
        )  # fmt: skip
        with closing(open_store(settings, 1)) as store:
            yield store, settings


def always(answer: bytes, heard: list[bytes] | None = None) -> Script:
    """The same response to each request, whole with its body."""

    def script(peer: Peer) -> None:
        while request := peer.hear_whole():
            if heard is not None:
                heard.append(request)
            peer.say(answer)

    return script


def job(operation: Operation, size: int = 50) -> Job:
    drawn = operation.draw(Random(1), size, **operation.parameter_values({})) if (
        operation.draw
    ) else ()  # fmt: skip
    return Job(1, operation, 0, 1, 0, size, others=(4,), arguments=drawn)


def act(name: str, asked: Job, answer: bytes, **changes: Any) -> Any:
    """The Timing, or the StorageError."""
    with store_on(name, always(answer), **changes) as (store, _):
        try:
            return store.actions[asked.operation](asked, 0)
        except StorageError as error:
            return error


@pytest.mark.parametrize("status", [300, 404, 416, 507])
@pytest.mark.parametrize(("name", "operation"), SUPPORTED)
def test_a_bad_status_is_an_error_with_its_times(
    name: str, operation: Operation, status: int
) -> None:
    answer = b"HTTP/1.1 %d X\r\nContent-Length: 0\r\nX-Trans-Id: tx1\r\n\r\n" % status
    found = act(name, job(operation), answer)
    if (operation, status) == (REMOVE, 404):
        assert isinstance(found, Timing)
        assert found.status == 404  # what should go, is gone
        return
    assert isinstance(found, StorageError)
    assert (found.kind, found.status, found.sent) == (ErrorKind.STATUS, status, True)
    assert found.timing is not None
    assert (found.timing.transaction_id, found.timing.bytes_moved) == (b"tx1", 0)
    assert found.detail.startswith("127.0.0.1:")
    assert f"returned {status}" in found.detail


@pytest.mark.parametrize("name", ISSUED)
def test_the_deadline_reaches_the_engine(name: str) -> None:
    with (
        store_on(name, Peer.linger) as (store, _),
        pytest.raises(StorageError) as caught,
    ):
        store.actions[READ](job(READ), perf_counter_ns() + 30_000_000)
    assert caught.value.kind is ErrorKind.OPERATION_TIMEOUT


@pytest.mark.parametrize("name", ISSUED)
def test_reads_are_bounded_by_the_size_class(name: str) -> None:
    large = ok(bytes(3_000_000))
    found = act(name, job(READ), large)
    assert found.kind is ErrorKind.OVERLONG
    sizes = (SizeClass("large", 1, 3_000_000, SIZES[0].profile, 10),)
    with store_on(name, always(large)) as (_, settings):
        store = open_store(replace(settings, sizes=sizes))
        with closing(store):
            assert store.actions[READ](job(READ), 0).bytes_moved == 3_000_000


@pytest.mark.parametrize(("name", "operation"), SUPPORTED)
def test_an_operation_takes_an_address_at_random(name: str, operation: Operation) -> None:
    heard: list[bytes] = []
    refused = b"HTTP/1.1 403 X\r\nContent-Length: 0\r\n\r\n"
    with store_on(name, always(refused, heard), paths=("/a", "/b")) as (store, _):
        urls = set()
        for _ in range(12):
            with pytest.raises(StorageError) as caught:
                store.actions[operation](job(operation), 0)
            assert caught.value.timing is not None
            urls.add(caught.value.timing.url)
    assert urls == {0, 1}
    assert {request.split(b" ")[1][:2] for request in heard} == {b"/a", b"/b"}


@pytest.mark.parametrize("name", ISSUED)
def test_further_headers_are_those_of_their_operation_also_after_a_renewal(name: str) -> None:
    heard: list[bytes] = []
    own = ((int(HEAD), "X-Newest: true\r\n"), (int(CREATE), "X-A: 1\r\n"))
    with store_on(name, always(ok(), heard), headers=own) as (store, _):
        store.actions[CREATE](job(CREATE), 0)
        renewed, sign = RENEWED[name]
        store.set_credentials(Credentials(2, None, renewed))
        assert store.credentials_serial == 2
        for operation in (HEAD, READ):
            store.actions[operation](job(operation), 0)
    found = [(b"X-Newest: true" in each, b"X-A: 1" in each, sign in each) for each in heard]
    assert found == [(False, True, False), (True, False, True), (False, False, True)]


# Parts of objects -------------------------------------------------------------------------------

CONTENT = b"".join(SyntheticSource(64).pieces(b"tiny_000003", 2, 500))
RANGE = Job(1, RANGE_READ, 0, 3, 2, 500, arguments=(100, 50))


def partial(body: bytes, content_range: str = "bytes 100-149/500", status: int = 206) -> bytes:
    lines = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n"
    lines += f"Content-Range: {content_range}\r\n" if content_range else ""
    return lines.encode() + b"\r\n" + body


@pytest.mark.parametrize(("answer", "kind", "says"), [
    (partial(CONTENT[100:150]), None, ""),
    (ok(CONTENT), ErrorKind.PROTOCOL, "status 200 and 500 bytes, not 206"),
    (partial(CONTENT[100:150], "bytes 100-149/*", 200), ErrorKind.PROTOCOL, "status 200"),
    (partial(CONTENT[:50], "bytes 0-49/500"), ErrorKind.PROTOCOL, "returned bytes 0-49/500"),
    (partial(CONTENT[100:140], "bytes 100-139/140"), ErrorKind.PROTOCOL, "bytes 100-139/140"),
    (partial(CONTENT[100:150], ""), ErrorKind.PROTOCOL, "no Content-Range"),
    (partial(CONTENT[100:150], "lines 1-2/3"), ErrorKind.PROTOCOL, "Content-Range 'lines 1-2/3'"),
    (partial(CONTENT[100:140]), ErrorKind.TRUNCATED, "40 bytes"),
    (partial(CONTENT[100:151]), ErrorKind.PROTOCOL, "51 bytes"),
])  # fmt: skip
@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize("name", ISSUED)
def test_a_range_is_read_and_any_other_part_is_an_error(
    name: str, answer: bytes, kind: ErrorKind | None, says: str, verify: bool
) -> None:
    found = act(name, RANGE, answer, verify=verify)
    if kind is None:
        assert (found.status, found.bytes_moved) == (206, 50)
        return
    assert found.kind is kind
    assert says in found.detail
    assert found.timing is not None


@pytest.mark.parametrize("name", ISSUED)
def test_a_corrupt_or_stale_part_is_found_under_verify(name: str) -> None:
    wrong = bytearray(CONTENT[100:150])
    wrong[7] ^= 1
    older = b"".join(SyntheticSource(64).pieces(b"tiny_000003", 1, 500))[100:150]
    for body, kind in ((bytes(wrong), ErrorKind.CORRUPT), (older, ErrorKind.STALE)):
        assert act(name, RANGE, partial(body), verify=True).kind is kind
        assert act(name, RANGE, partial(body)).status == 206
