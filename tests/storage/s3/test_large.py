"""Multipart uploads on recorded responses: failures, and what the requests say.

tests/contract and tests/e2e/test_s3.py run them against real servers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from hashlib import md5

import pytest

from ssbench.core.content import SyntheticSource
from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind, Job, LargeObject
from ssbench.core.operations import COPY, CREATE, POST, REMOVE
from ssbench.storage.base import ContainerInfo, ObjectStore, OpenUpload
from ssbench.storage.http.verify import FOREIGN_ETAGS
from ssbench.storage.s3 import client as s3account
from tests.fakes.answered_store import Request, response
from tests.fakes.scripted_server import ok
from tests.storage.s3.test_driver import asked, driver_on, error

NAME = b"tiny_run1_000012"
BEGUN = ok(b"<InitiateMultipartUploadResult><UploadId>id&amp;1</UploadId>"
           b"</InitiateMultipartUploadResult>")  # fmt: skip
DONE = ok(b"<CompleteMultipartUploadResult><ETag>x-2</ETag></CompleteMultipartUploadResult>")
ABORTED = b"HTTP/1.1 204 No Content\r\n\r\n"
FAILED = response(200, error("InternalError", "We encountered an internal error."))


def part(etag: str = '"a&b"') -> bytes:
    return response(200, ETag=etag)


def copied(etag: str = "&quot;c&quot;") -> bytes:
    return ok(f"<CopyPartResult><ETag>{etag}</ETag></CopyPartResult>".encode())


#: Objects of more than 30 bytes are in parts of 40.
LARGE = LargeObject(30, 40, "", 1)
store_of = partial(driver_on, large=LARGE)


def lines(requests: Sequence[Request]) -> list[str]:
    return [f"{each.method} {each.target.partition('?')[2]}" for each in requests]


def heads(requests: Sequence[Request]) -> list[str]:
    return [each.head.lower() for each in requests]


def job(operation: int, size: int = 60, number: int = 12) -> Job:
    others = (13,) if operation == COPY else ()
    return Job(7, operation, 0, number, 2, size, others=others)


def failure_of(store: ObjectStore, operation: int = CREATE) -> StorageError:
    with pytest.raises(StorageError) as caught:
        store.actions[operation](job(operation), 0)
    return caught.value


PARTS = ["PUT partNumber=1&uploadId=id%261", "PUT partNumber=2&uploadId=id%261"]
ABORT, COMPLETE = "DELETE uploadId=id%261", "POST uploadId=id%261"


@pytest.mark.parametrize("answers", [
    [part(), response(400, error("InvalidPart"))],
    [part(), part(""), DONE],
    [part(), part(), FAILED],
    [part(), part(), response(200, "<html/>")],
    [part(), part(), response(400, error("EntityTooSmall"))],
])  # fmt: skip
def test_a_failed_upload_is_aborted_at_once(answers: list[bytes]) -> None:
    with store_of(BEGUN, *answers, ABORTED) as (store, requests):
        failure = failure_of(store)
    assert failure.kind in (ErrorKind.STATUS, ErrorKind.PROTOCOL)
    assert not failure.partly_done
    assert lines(requests)[-1] == ABORT


def test_an_upload_that_can_not_be_aborted_is_aborted_after_a_later_one() -> None:
    refused = response(403, error("AccessDenied"))
    with store_of(BEGUN, refused, refused, BEGUN, part(), part(), DONE, ABORTED) as (
        store,
        requests,
    ):
        failure = failure_of(store)
        assert (failure.status, failure.partly_done) == (403, True)
        assert store.actions[CREATE](job(CREATE, number=9), 0).status == 200
    assert lines(requests)[-2:] == [COMPLETE, ABORT]
    assert "/tiny_run1_000012?" in heads(requests)[-1]


@pytest.mark.parametrize("answer", [
    ok(b"<InitiateMultipartUploadResult/>"), ok(b"<html/>"), ok(b"<Error/>"),
])  # fmt: skip
def test_an_upload_without_an_id_is_an_error(answer: bytes) -> None:
    with store_of(answer) as (store, requests):
        failure = failure_of(store)
    assert failure.kind in (ErrorKind.PROTOCOL, ErrorKind.STATUS)
    assert lines(requests) == ["POST uploads="]


@pytest.mark.parametrize("operation", [CREATE, COPY])
def test_a_parts_etag_that_is_no_md5_is_a_note_once_unless_the_content_is_wrong(
    operation: int,
) -> None:
    content = b"".join(SyntheticSource(1 << 20).pieces(NAME, 2, 60))
    of_part = part if operation == CREATE else copied
    right = of_part(f'"{md5(content[:40]).hexdigest()}"')
    upload = [BEGUN, right, of_part(f'"{"0" * 32}"'), DONE]
    for read_back in (ok(b"?" * 60), response(404)):
        with store_of(*upload, read_back, verify=True) as (store, _):
            failure = failure_of(store, operation)
        assert failure.kind is ErrorKind.CORRUPT
        assert "tiny_run1_000012: part 2: the ETag is 0000" in failure.detail
    with store_of(*upload, ok(content), *upload, verify=True) as (store, _):
        noted = failure_of(store, operation)
        again = store.actions[operation](job(operation), 0)
    assert (noted.kind, noted.detail) == (ErrorKind.NONE, FOREIGN_ETAGS)
    assert noted.timing is not None
    assert noted.timing.bytes_moved == again.bytes_moved == (60 if operation == CREATE else 0)


@pytest.mark.parametrize(("size", "ranges"), [(60, ["0-39", "40-59"]), (40, [""]), (35, [""])])
@pytest.mark.parametrize(
    ("operation", "number", "sent"), [(COPY, 13, [None] * 2), (POST, 12, ["7", "2"])]
)
def test_a_copy_names_the_ranges_of_its_parts_unless_it_has_one_only(
    operation: int, number: int, sent: list[str | None], size: int, ranges: list[str]
) -> None:
    with store_of(BEGUN, *[copied()] * len(ranges), DONE) as (store, requests):
        timing = store.actions[operation](job(operation, size), 0)
    assert (timing.status, timing.bytes_moved) == (200, 0)
    assert lines(requests) == ["POST uploads=", *PARTS[: len(ranges)], COMPLETE]
    assert all(f"/tiny_run1_{number:06d}?" in each.target for each in requests)
    metadata = [
        requests[0].headers.get(f"x-amz-meta-ssbench-{name}") for name in ("post", "version")
    ]
    assert metadata == sent
    for each, wanted in zip(requests[1:-1], ranges, strict=True):
        assert each.headers["x-amz-copy-source"] == "/ssbench-000000/tiny_run1_000012"
        assert each.headers.get("x-amz-copy-source-range", "") == (wanted and f"bytes={wanted}")
        assert each.headers["content-length"] == "0"


# --- Open uploads


def page_of(*names: str, truncated: bool = False, first: int = 0) -> bytes:
    uploads = "".join(
        f"<Upload><Key>{name}</Key><UploadId>id{index}</UploadId><Initiator><ID>x</ID></Initiator>"
        "<Initiated>2026-01-02T03:04:05.000Z</Initiated></Upload>"
        for index, name in enumerate(names, first)
    )
    body = f"<IsTruncated>{str(truncated).lower()}</IsTruncated>{uploads}"
    return ok(f"<ListMultipartUploadsResult>{body}</ListMultipartUploadsResult>".encode())


def test_clean_up_of_an_object_aborts_its_open_uploads_only() -> None:
    name = NAME.decode()
    pages = page_of(name, name, f"{name}3")
    with store_of(ABORTED, pages, ABORTED, response(404)) as (store, requests):
        assert store.actions[REMOVE](job(REMOVE), 0).status == 204
    assert lines(requests)[1:] == [
        f"GET encoding-type=url&max-uploads=1000&prefix={name}&uploads=",
        "DELETE uploadId=id0", "DELETE uploadId=id1",
    ]  # fmt: skip


def test_more_open_uploads_of_a_name_than_a_page_are_all_listed() -> None:
    pages = [
        page_of("c/a", "c/a", truncated=True), page_of("c/a", truncated=True, first=2),
        page_of("c/a", "c/b", truncated=True, first=3),
    ]  # fmt: skip
    found, requests = asked(lambda admin: admin.open_uploads("c", ""), *pages, bucket="bench")
    assert found == [OpenUpload("a", f"id{index}", 1767323045.0) for index in range(4)]
    query = "encoding-type=url&{}max-uploads=1000&prefix=c%2F&{}uploads="
    assert lines(requests) == [
        f"GET {query.format(key, upload)}"
        for key, upload in (
            ("", ""),
            ("key-marker=c%2Fa&", "upload-id-marker=id1&"),
            ("key-marker=c%2Fa&", "upload-id-marker=id2&"),
        )
    ]


def test_uploads_of_one_name_without_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert s3account._UPLOADS_HELD == 100_000
    monkeypatch.setattr(s3account, "_UPLOADS_HELD", 5)
    pages = [page_of("a", "a", truncated=True, first=2 * number) for number in range(3)]
    with pytest.raises(StorageError, match=r"^a: more than 5 open uploads of one object"):
        asked(lambda admin: admin.open_uploads("c_000000", ""), *pages)


def test_a_store_that_ignores_the_marker_of_an_upload_is_refused() -> None:
    page = page_of("a", "a", truncated=True)
    with pytest.raises(StorageError, match="goes on after its marker"):
        asked(lambda admin: admin.open_uploads("c_000000", ""), page, page, page)


@pytest.mark.parametrize("name", ["d/a", "a", "../c/a"])
def test_open_uploads_outside_of_the_prefix_are_none_of_ours(name: str) -> None:
    with pytest.raises(StorageError, match="expected a listing of the prefix that was requested"):
        asked(lambda admin: admin.open_uploads("c", ""), page_of("c/a", name), bucket="bench")


LISTED = b"<ListBucketResult><IsTruncated>false</IsTruncated>%s</ListBucketResult>"
EMPTY = ok(LISTED % b"")
MARKED = ok(LISTED % b"<Contents><Key>.ssbench</Key></Contents>")


def test_a_container_in_which_others_upload_is_neither_marked_nor_deleted() -> None:
    unmarked, foreign = [EMPTY, response(404)], page_of("somebody_elses")
    found, _ = asked(lambda admin: admin.container_info("c_000000"), *unmarked, foreign)
    assert found == ContainerInfo(None, marked=False, object_count=None)
    found, requests = asked(lambda admin: admin.make_container("c_000000"), *unmarked, foreign)
    assert found == ContainerInfo(None, marked=False, object_count=None)
    assert {line.partition(" ")[0] for line in lines(requests)} == {"GET", "HEAD"}
    for answers in ([MARKED, foreign], [*unmarked, foreign]):
        with pytest.raises(StorageError) as caught:
            asked(lambda admin: admin.delete_container("c_000000"), *answers)
        assert caught.value.status == 409
