"""What each store over HTTP makes of one response, byte for byte, and what it sends.

test_storage_contract.py has whole stores, which rarely fail.
"""

from __future__ import annotations

import time
from random import Random
from time import perf_counter_ns
from typing import Any

import pytest

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
from ssbench.core.settings import Credentials
from ssbench.storage.registry import ROWS, load
from ssbench.storage.s3.sign import AwsKeys, issue
from tests.fakes.answered_store import ISSUED, SIZES, always, driver_on, response
from tests.fakes.scripted_server import ok

#: What the master issues at a renewal, and what only requests under it have.
RENEWED: dict[str, tuple[dict[str, Any], str]] = {
    "swift": ({"token": "newer"}, "X-Auth-Token: newer"),
    "s3": (
        issue(AwsKeys("NEWER", "s3cret-key", ""), "us-east-1", time.time())[0],
        "Credential=NEWER/",
    ),
    "webdav": ({"access": [{"basic": "bmV3"}]}, "Authorization: Basic bmV3"),
}
SUPPORTED = [
    (name, OPERATIONS[number]) for name in ISSUED for number in load(ROWS[name].driver).operations
]


def test_every_store_over_http_is_here() -> None:
    assert {*ISSUED} == {name for name, row in ROWS.items() if row.urls}


def job(operation: Operation, size: int = 50) -> Job:
    drawn = operation.draw(Random(1), size, **operation.parameter_values({})) if (
        operation.draw
    ) else ()  # fmt: skip
    return Job(1, operation, 0, 1, 0, size, others=(4,), arguments=drawn)


def act(name: str, asked: Job, answer: bytes, **changes: Any) -> Any:
    """The Timing, or the StorageError."""
    with driver_on(name, always(answer), **changes) as (store, _):
        try:
            return store.actions[asked.operation](asked, 0)
        except StorageError as error:
            return error


@pytest.mark.parametrize("status", [300, 404, 416, 507])
@pytest.mark.parametrize(("name", "operation"), SUPPORTED)
def test_a_bad_status_is_an_error_with_its_times(
    name: str, operation: Operation, status: int
) -> None:
    found = act(name, job(operation), response(status, X_Trans_Id="tx1"))
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
        driver_on(name, always(b"")) as (store, _),
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
    assert act(name, job(READ), large, sizes=sizes).bytes_moved == 3_000_000


@pytest.mark.parametrize(("name", "operation"), SUPPORTED)
def test_an_operation_takes_an_address_at_random(name: str, operation: Operation) -> None:
    with driver_on(name, always(response(403)), paths=("/a", "/b")) as (store, heard):
        urls = set()
        for _ in range(12):
            with pytest.raises(StorageError) as caught:
                store.actions[operation](job(operation), 0)
            assert caught.value.timing is not None
            urls.add(caught.value.timing.url)
    assert urls == {0, 1}
    assert {request.target[:2] for request in heard} == {"/a", "/b"}


@pytest.mark.parametrize("name", ISSUED)
def test_further_headers_are_those_of_their_operation_also_after_a_renewal(name: str) -> None:
    own = ((int(HEAD), "X-Newest: true\r\n"), (int(CREATE), "X-A: 1\r\n"))
    with driver_on(name, always(ok()), headers=own) as (store, heard):
        store.actions[CREATE](job(CREATE), 0)
        renewed, sign = RENEWED[name]
        store.set_credentials(Credentials(2, None, renewed))
        assert store.credentials_serial == 2
        for operation in (HEAD, READ):
            store.actions[operation](job(operation), 0)
    found = [
        ("x-newest" in each.headers, "x-a" in each.headers, sign in each.head) for each in heard
    ]
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
