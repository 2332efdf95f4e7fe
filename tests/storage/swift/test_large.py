"""What the Swift driver makes of failures of single segments; tests/e2e/test_large_objects.py has
the rest, on the real Swift."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from ssbench.core.content import SyntheticSource
from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind, Job, LargeObject, SizeClass, Timing
from ssbench.core.operations import (
    BULK_DELETE,
    COPY,
    CREATE,
    DELETE,
    ENSURE,
    POST,
    READ,
    REMOVE,
    UPDATE,
)
from ssbench.storage.base import ObjectStore
from ssbench.storage.http.pool import ConnectionPool
from ssbench.storage.http.verify import FOREIGN_ETAGS
from ssbench.storage.registry import open_store
from tests.contract.stores import driver_on
from tests.fakes.answered_store import Request, response
from tests.fakes.drivers import driver_settings
from tests.fakes.http_server import FakeContainer, FakeSwift
from tests.fakes.scripted_server import ok

SIZES = (SizeClass("tiny", 1, 999, ((int(READ), 1.0),), 10),)
SEGMENTS = [f"tiny_run1_000012_0_{index:06d}" for index in range(9)]


def in_parts(kind: str = "slo", **changes: Any) -> dict[str, Any]:
    """Settings: objects of more than 100 bytes are in parts of 40."""
    large = LargeObject(above=100, segment=40, kind=kind, parallel=1)
    return {"sizes": SIZES, "container_count": 1, "large_object": large, **changes}


def store_at(url: str, kind: str = "slo", **changes: Any) -> ObjectStore:
    return open_store(
        driver_settings("tk", urls=(url,), run_id="run1", **in_parts(kind, **changes))
    )


def job(operation: int, size: int = 110, version: int = 0) -> Job:
    return Job(1, operation, 0, 12, version, size)


def failed(
    operation: int, *answers: bytes, verify: bool = False, asked: Job | None = None
) -> StorageError:
    """The error that these responses, one after the other, lead to."""
    with (
        driver_on("swift", *answers, **in_parts(verify=verify)) as (store, _),
        pytest.raises(StorageError) as caught,
    ):
        store.actions[operation](asked or job(operation), 0)
    return caught.value


def created(etag: str = "") -> bytes:
    etag_line = f"Etag: {etag or '0' * 32}\r\n"
    return f"HTTP/1.1 201 X\r\nContent-Length: 0\r\n{etag_line}\r\n".encode()


@pytest.fixture
def swift() -> Iterator[FakeSwift]:
    with FakeSwift() as swift:
        swift.containers["ssbench_000000"] = FakeContainer("gold", {})
        yield swift


def content_of(asked: Job) -> bytes:
    return b"".join(SyntheticSource(1 << 20).pieces(b"tiny_run1_000012", asked.version, asked.size))


@pytest.mark.parametrize("operation", [CREATE, UPDATE, COPY])
def test_a_segments_etag_that_is_no_md5_is_a_note_once_unless_the_content_is_wrong(
    operation: int,
) -> None:
    asked = job(operation)._replace(others=(13,) if operation == COPY else ())
    written = [created()] * 4  # the ETags that the server makes up
    after = [page()] if operation == UPDATE else []
    for read_back in (ok(b"?" * asked.size), response(404)):
        error = failed(operation, *written, read_back, *after, verify=True, asked=asked)
        assert (error.kind, error.status) == (ErrorKind.CORRUPT, 201)
        assert re.match(
            r"ssbench_000000/tiny_run1_000012: tiny_run1_00001[23]_\d+_000000: the ETag is 0000",
            error.detail,
        )
    answers = [*written, ok(content_of(asked)), *after, *written, *after]
    with driver_on("swift", *answers, **in_parts(verify=True)) as (store, _):
        with pytest.raises(StorageError) as noted:
            store.actions[operation](asked, 0)
        again = store.actions[operation](asked, 0)
    assert (noted.value.kind, noted.value.detail) == (ErrorKind.NONE, FOREIGN_ETAGS)
    assert noted.value.timing is not None
    moved = 0 if operation == COPY else asked.size
    assert noted.value.timing.bytes_moved == again.bytes_moved == moved


def deleted(
    count: int, errors: list[list[str]], whole: str = "200 OK", missing: int | None = None
) -> bytes:
    missing = int(not count) if missing is None else missing
    said = {"Number Deleted": count, "Number Not Found": missing, "Errors": errors}
    return ok(json.dumps({**said, "Response Status": whole}).encode())


def test_a_missing_object_is_a_404_inside_a_200() -> None:
    error = failed(DELETE, deleted(0, []))
    assert (error.kind, error.status, error.partly_done) == (ErrorKind.STATUS, 404, False)


@pytest.mark.parametrize("missing", [0, 2])
def test_a_static_object_is_deleted_by_one_request(missing: int) -> None:
    with driver_on("swift", deleted(2, [], missing=missing), **in_parts()) as (store, _):
        timing = store.actions[DELETE](job(DELETE), 0)
    assert (timing.status, timing.bytes_moved) == (200, 0)


def test_without_an_expiry_a_post_is_one_of_the_manifest() -> None:
    _, sent, whole = requests(job(POST)._replace(object=3))
    assert sent == ["POST tiny_000003"]
    assert whole[0].headers["x-object-meta-ssbench-segments"] == "slo 40"
    assert "x-delete-after" not in whole[0].headers


def test_a_segment_that_was_not_deleted_is_an_error() -> None:
    error = failed(DELETE, deleted(2, [["/c/tiny_1", "409 Conflict"]], "400 Bad Request"))
    assert (error.kind, error.status, error.partly_done) == (ErrorKind.STATUS, 409, True)
    assert error.timing is not None
    assert error.detail == "c/tiny_1: 409"


def test_deleting_a_dynamic_object_again_deletes_what_is_left_of_it(swift: FakeSwift) -> None:
    store = store_at(swift.url, kind="dlo")
    objects = swift.containers["ssbench_000000"].objects
    store.actions[CREATE](job(CREATE), 0)
    del objects["tiny_run1_000012"]  # by an attempt that failed after that
    assert store.actions[DELETE](job(DELETE), 0).status == 204
    assert not objects
    with pytest.raises(StorageError) as caught:
        store.actions[DELETE](job(DELETE), 0)
    store.close()
    assert caught.value.status == 404


@pytest.mark.parametrize(("kind", "manifest"), [
    ("slo", None), ("dlo", "ssbench_000000/tiny_run1_000012_0_"),
])  # fmt: skip
def test_post_repeats_the_manifest_and_renews_all_segments(
    swift: FakeSwift, kind: str, manifest: str | None
) -> None:
    store = store_at(swift.url, kind=kind, delete_after_s=60)
    store.actions[CREATE](job(CREATE), 0)
    del swift.seen[:]
    assert store.actions[POST](job(POST), 0).bytes_moved == 0
    store.close()
    *segments, last = swift.seen
    assert {seen.method for seen in swift.seen} == {"POST"}
    assert [seen.path.rpartition("/")[2] for seen in segments] == SEGMENTS[:3]
    assert {seen.headers["X-Delete-After"] for seen in swift.seen} == {"60"}
    assert last.headers["X-Object-Meta-Ssbench-Segments"] == f"{kind} 40"
    assert last.headers.get("X-Object-Manifest") == manifest


def requests(asked: Job, found: str = "", **own: Any) -> tuple[Timing, list[str], list[Request]]:
    """What an operation gives, and is sent for it: method and name, and the whole.

    :param found: the headers of the response to HEAD; "": it is 404.
    """

    def answer(request: Request) -> bytes:
        if request.method == "HEAD":
            return f"HTTP/1.1 200 X\r\n{found}\r\n".encode() if found else response(404)
        if request.method != "GET":
            return created()
        if "marker=&" not in f"{request.target}&":
            return page()
        return page("tiny_000003_0_000000", "tiny_000003_0_000007", "tiny_000003_x")

    with driver_on("swift", answer, **in_parts(**own)) as (store, heard):
        timing = store.actions[asked.operation](asked, 0)
    names = (each.target.rpartition("/")[2].partition("&")[0] for each in heard)
    return timing, [f"{each.method} {name}" for each, name in zip(heard, names, strict=True)], heard


UPLOAD = [
    *(f"PUT tiny_000003_0_00000{index}" for index in range(3)),
    "PUT tiny_000003?multipart-manifest=put",
    *["GET ssbench_000000?format=plain"] * 2,
    "DELETE tiny_000003_0_000007",
]
IN_PARTS = "Content-Length: 110\r\nX-Object-Meta-Ssbench-Segments: slo 40\r\n"


@pytest.mark.parametrize(("expiry", "sent"), [(None, ["HEAD tiny_000003", *UPLOAD]), (60, UPLOAD)])
def test_an_initial_object_replaces_other_segments(expiry: int | None, sent: list[str]) -> None:
    asked = job(ENSURE)._replace(object=3)
    timing, seen, _ = requests(asked, IN_PARTS if expiry else "", delete_after_s=expiry)
    assert seen == sent
    assert (timing.status, timing.bytes_moved) == (201, 110)


@pytest.mark.parametrize("operation", [CREATE, UPDATE, DELETE, POST, COPY, ENSURE, REMOVE])
def test_reconnects_of_all_requests_are_counted(
    operation: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = ConnectionPool.request
    monkeypatch.setattr(
        ConnectionPool, "request", lambda *given: request(*given)._replace(reconnects=1)
    )
    asked = job(operation)._replace(object=3, others=(13,) if operation == COPY else ())
    timing, sent, _ = requests(asked, kind="dlo", delete_after_s=60 if operation == POST else None)
    assert timing.reconnects == len(sent) > 1


def test_a_failed_delete_that_says_nothing_may_have_deleted_a_part() -> None:
    error = failed(DELETE, ok(b"<html/>"))
    assert (error.kind, error.partly_done) == (ErrorKind.PROTOCOL, True)
    assert error.timing is not None
    assert (error.timing.status, error.timing.bytes_moved) == (200, 0)


def bulk(operation: int = BULK_DELETE) -> Job:
    return job(operation)._replace(others=(13, 14))


NONE = b""
BULK_ANSWERS = [
    ok(b"tiny_run1_000012_0_000000\n", b"Content-Type: text/plain"), ok(NONE),
    ok(b"tiny_run1_000013_0_000000\n", b"Content-Type: text/plain"), ok(NONE),
    ok(NONE),
]  # fmt: skip


@pytest.mark.parametrize(("largest", "answers"), [
    (100, [deleted(3, [])]),
    (101, [*BULK_ANSWERS, deleted(2, []), deleted(3, [])]),
])  # fmt: skip
def test_a_bulk_delete_looks_for_segments_where_there_may_be_some(
    largest: int, answers: list[bytes]
) -> None:
    sizes = (SizeClass("tiny", 1, largest, ((int(READ), 1.0),), 10),)
    with driver_on("swift", *answers, **in_parts(sizes=sizes)) as (store, heard):
        timing = store.actions[BULK_DELETE](bulk(), 0)
    assert (timing.items, timing.statuses, timing.reconnects) == (3, (), 0)
    bodies = [each.body.split() for each in heard if each.method == "POST"]
    objects = [f"ssbench_000000/tiny_run1_0000{number}".encode() for number in (12, 13, 14)]
    assert bodies[-1] == objects
    listed = [f"ssbench_000000/tiny_run1_0000{number}_0_000000".encode() for number in (12, 13)]
    assert bodies[:-1] == ([listed] if largest > 100 else [])


def test_an_object_of_which_a_segment_is_left_is_of_unknown_state() -> None:
    left = [["/ssbench_000000/tiny_run1_000013_0_000000", "503 Unavailable"]]
    answers = [*BULK_ANSWERS, deleted(1, left, "400 Bad Request"), deleted(2, [])]
    error = failed(BULK_DELETE, *answers, asked=bulk())
    assert (error.kind, error.status) == (ErrorKind.STATUS, 503)
    assert error.timing is not None
    assert (error.timing.statuses, error.timing.items) == ((200, 0, 200), 2)
    assert "ssbench_000000/tiny_run1_000013_0_000000: 503" in error.detail


def test_a_bulk_delete_that_fails_after_its_first_request_is_partly_done() -> None:
    error = failed(BULK_DELETE, *BULK_ANSWERS, deleted(2, []), response(500), asked=bulk())
    assert (error.status, error.partly_done) == (500, True)
    error = failed(BULK_DELETE, response(500), asked=bulk())
    assert (error.status, error.partly_done) == (500, False)


def page(*names: str) -> bytes:
    return ok("".join(f"{name}\n" for name in names).encode(), b"Content-Type: text/plain")


@pytest.mark.parametrize("pages", [
    [page(*SEGMENTS[:2])] * 2,  # the store ignores the marker
    [page(*SEGMENTS[2:4]), page(*SEGMENTS[:2])],
    [page(SEGMENTS[1], SEGMENTS[0])],
    [page(SEGMENTS[0], "", SEGMENTS[1])],
])  # fmt: skip
def test_a_listing_of_segments_that_might_never_end_is_refused(pages: list[bytes]) -> None:
    error = failed(REMOVE, response(204), *pages)
    assert (error.kind, error.partly_done) == (ErrorKind.PROTOCOL, True)
    assert "a listing that is not in order" in error.detail


def test_a_listing_has_no_more_segments_than_an_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ssbench.storage.swift.driver._LISTED_MAX", 5)
    error = failed(REMOVE, response(204), page(*SEGMENTS[:3]), page(*SEGMENTS[3:6]))
    assert (error.kind, error.partly_done) == (ErrorKind.PROTOCOL, True)
    assert error.detail == "a listing of more than 5 segments"
