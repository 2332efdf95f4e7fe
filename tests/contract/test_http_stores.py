"""What each store over HTTP makes of one response, byte for byte, and what it sends.

test_storage_contract.py has whole stores, which rarely fail.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial as partial_of
from hashlib import md5
from random import Random
from time import perf_counter_ns
from typing import Any

import pytest

from ssbench.core.content import SyntheticSource
from ssbench.core.errors import StorageError
from ssbench.core.model import (
    ContentMix,
    ErrorKind,
    InitialHeaders,
    Job,
    LargeObject,
    LargeRead,
    SizeClass,
    Timing,
)
from ssbench.core.naming import pack_names
from ssbench.core.operations import (
    CREATE,
    ENSURE,
    GET_TAGS,
    HEAD,
    LIST,
    LIST_ALL,
    OPERATIONS,
    RANGE_READ,
    READ,
    REMOVE,
    Operation,
    Target,
)
from ssbench.core.settings import Credentials, StorageSettings
from ssbench.storage.http import connection as httpconn
from ssbench.storage.http import store as httpstore
from ssbench.storage.http.connection import NO_CONTINUE
from ssbench.storage.http.pool import ConnectionPool
from ssbench.storage.options import shown_url
from ssbench.storage.registry import ROWS, load, open_admin, open_store
from tests.contract.stores import OVER_HTTP, driver_on, scripted_driver
from tests.fakes.answered_store import SIZES, Request, always, response
from tests.fakes.scripted_server import Peer, Script, answering, ok
from tests.fakes.served_pool import dripping, endless

SUPPORTED = [
    (name, OPERATIONS[number])
    for name in OVER_HTTP
    for number in load(ROWS[name].driver).operations
]


def job(operation: Operation, size: int = 50) -> Job:
    drawn: tuple[int | bytes, ...] = (b"an/id",) if operation.target is Target.VERSION else ()
    if operation.draw:
        drawn = operation.draw(Random(1), size, **operation.parameter_values({}))
    return Job(1, operation, 0, 1, 0, size, others=(4,), arguments=drawn)


def attempt(store: Any, asked: Job) -> Any:
    """The Timing, or the StorageError."""
    try:
        return store.actions[asked.operation](asked, 0)
    except StorageError as error:
        return error


def act(name: str, asked: Job, answer: bytes, **changes: Any) -> Any:
    """What the store makes of this response."""
    with driver_on(name, always(answer), **changes) as (store, _):
        return attempt(store, asked)


#: Where a redirect may point: to the host itself, or to another one.
ELSEWHERE = "http://127.0.0.1:1/v1/a/x"
REDIRECTS = [
    (301, "/v1/other"),
    (302, ELSEWHERE),
    (303, ELSEWHERE),
    (307, "//h/x"),
    (308, ELSEWHERE),
]


@pytest.mark.parametrize(("name", "operation"), SUPPORTED)
def test_a_bad_status_of_an_address_at_random_is_an_error_with_its_times(
    name: str, operation: Operation
) -> None:
    """And no redirect is followed."""
    said = b""
    seeded, urls = partial_of(open_store, seed=1), set[int]()
    with driver_on(name, lambda _: said, paths=("/a", "/b"), kind=seeded) as (store, heard):
        for status, location in [(300, ""), *REDIRECTS, (404, ""), (416, ""), (507, "")]:
            headers = {"Location": location} if location else {}
            said = response(status, X_Trans_Id="tx1", **headers)
            heard.clear()
            found = attempt(store, job(operation))
            assert len(heard) == 1 or not location
            if (operation, status) == (REMOVE, 404):
                assert isinstance(found, Timing)
                assert found.status == 404  # what should go, is gone
                continue
            assert isinstance(found, StorageError)
            assert (found.kind, found.status, found.sent) == (ErrorKind.STATUS, status, True)
            assert found.timing is not None
            assert (found.timing.transaction_id, found.timing.bytes_moved) == (b"tx1", 0)
            assert found.detail.startswith("127.0.0.1:")
            assert f"returned {status}" in found.detail
            if location:
                assert f"{status}, a redirect to {shown_url(location)}" in found.detail
            assert {each.target[:2] for each in heard} == {("/a", "/b")[found.timing.url]}
            urls.add(found.timing.url)
    assert urls == {0, 1}


@pytest.mark.parametrize("name", OVER_HTTP)
def test_no_redirect_of_an_administrative_request_is_followed(name: str) -> None:
    asks: list[Callable[[Any], object]] = [
        lambda admin: admin.list_objects("ssbench_000000", "", 10),
        lambda admin: admin.list_containers("", "", 10),
        lambda admin: admin.delete_object("ssbench_000000", "x"),
        lambda admin: admin.delete_container("ssbench_000000"),
        lambda admin: admin.make_container("ssbench_000000"),
    ]
    for status, location in REDIRECTS:
        answer = always(response(status, Location=location))
        with driver_on(name, answer, kind=open_admin) as (admin, heard):
            for times, ask in enumerate(asks, 1):
                with pytest.raises(StorageError, match=f"{status}, a redirect to"):
                    ask(admin)
                assert len(heard) == times


@pytest.mark.parametrize("name", OVER_HTTP)
def test_the_deadline_reaches_the_engine(name: str) -> None:
    with (
        driver_on(name, always(b"")) as (store, _),
        pytest.raises(StorageError) as caught,
    ):
        store.actions[READ](job(READ), perf_counter_ns() + 30_000_000)
    assert caught.value.kind is ErrorKind.OPERATION_TIMEOUT


#: How a response with tags is sent, its start, the part that is repeated, and the error.
TAGS_THAT_NEVER_END = [
    (dripping, b"<Tagging>", b" ", ErrorKind.OPERATION_TIMEOUT),
    (endless, b"<Tagging>", b" " * 65536, ErrorKind.OVERLONG),
]


@pytest.mark.timeout(30)
@pytest.mark.parametrize(("how", "start", "part", "kind"), TAGS_THAT_NEVER_END)
def test_a_response_with_tags_that_never_ends_is_an_error(
    how: Callable[[bytes, bytes], Script], start: bytes, part: bytes, kind: ErrorKind
) -> None:
    script = how(b"HTTP/1.1 200 OK\r\n\r\n" + start, part)
    within_ns = 300_000_000 if kind is ErrorKind.OPERATION_TIMEOUT else 60_000_000_000
    with (
        scripted_driver("s3", script, network_timeout_s=30.0) as (store, _),
        pytest.raises(StorageError) as caught,
    ):
        store.actions[GET_TAGS](job(GET_TAGS), perf_counter_ns() + within_ns)
    assert caught.value.kind is kind


@pytest.mark.parametrize("name", OVER_HTTP)
def test_reads_are_bounded_by_the_size_class(name: str) -> None:
    large = ok(bytes(3_000_000))
    found = act(name, job(READ), large)
    assert found.kind is ErrorKind.OVERLONG
    sizes = (SizeClass("large", 1, 3_000_000, SIZES[0].profile, 10),)
    assert act(name, job(READ), large, sizes=sizes).bytes_moved == 3_000_000


@pytest.mark.parametrize("name", OVER_HTTP)
def test_further_headers_are_those_of_their_operation_also_after_a_renewal(name: str) -> None:
    own = ((int(HEAD), "X-Newest: true\r\n"), (int(CREATE), "X-A: 1\r\n"))
    with driver_on(name, always(ok()), headers=own) as (store, heard):
        store.actions[CREATE](job(CREATE), 0)
        renewed, sign = OVER_HTTP[name].renewed, OVER_HTTP[name].sign
        store.set_credentials(Credentials(2, None, renewed))
        assert store.credentials_serial == 2
        for operation in (HEAD, READ):
            store.actions[operation](job(operation), 0)
    found = [
        ("x-newest" in each.headers, "x-a" in each.headers, sign in each.head) for each in heard
    ]
    assert found == [(False, True, False), (True, False, True), (False, False, True)]


def test_swift_gets_the_md5_of_an_upload_and_a_read_compares_it() -> None:
    content = b"".join(SyntheticSource(64).pieces(b"tiny_000001", 0, 50))
    right = md5(content).hexdigest()
    with driver_on("swift", always(response(201)), checksum="md5") as (store, heard):
        store.actions[CREATE](job(CREATE), 0)
        store.actions[ENSURE](job(ENSURE), 0)
    assert [each.headers["etag"] for each in heard if each.method == "PUT"] == [right] * 2
    read = job(OPERATIONS[READ])
    good = act("swift", read, response(200, content, ETag=right), checksum="md5")
    assert good.bytes_moved == 50
    bad = act("swift", read, response(200, content, ETag="0" * 32), checksum="md5")
    assert (bad.kind, "the store's checksum is 00" in bad.detail) == (ErrorKind.CORRUPT, True)


MADE = InitialHeaders("X-Class: cold\r\n", "abcdef")


@pytest.mark.parametrize("found", ["abcdef", "other", ""])
@pytest.mark.parametrize("name", OVER_HTTP)
def test_initial_objects_are_made_with_their_headers_unless_they_were(
    name: str, found: str
) -> None:
    mark = OVER_HTTP[name].headers_mark

    def answer(request: Request) -> bytes:
        if request.method == "PUT":
            return response(201)
        return response(200, bytes(50), **({mark: found} if mark and found else {}))[:-50]

    own = {"headers": ((int(ENSURE), "X-All: 1\r\n"),), "initial_headers": MADE}
    with driver_on(name, answer, **own) as (store, heard):
        store.actions[ENSURE](job(ENSURE), 0)
        store.actions[CREATE](job(CREATE), 0)
    *probes, created = heard
    puts = [each for each in probes if each.method == "PUT"]
    assert len(puts) == (not mark or found != "abcdef")
    assert len(probes) - len(puts) == bool(mark)  # where it can't be seen, nothing is asked
    assert all(each.headers["x-all"] == "1" for each in probes)
    assert [each for each in heard if "x-class" in each.headers] == puts
    assert all(each.headers[mark.lower()] == "abcdef" for each in puts if mark)
    assert not {"x-all", mark.lower()} & created.headers.keys()


# Parts of objects -------------------------------------------------------------------------------

CONTENT = b"".join(SyntheticSource(64).pieces(b"tiny_000003", 2, 500))
RANGE = Job(1, RANGE_READ, 0, 3, 2, 500, arguments=(100, 50))


def partial(body: bytes, content_range: str = "bytes 100-149/500", status: int = 206) -> bytes:
    lines = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n"
    lines += f"Content-Range: {content_range}\r\n" if content_range else ""
    return lines.encode() + b"\r\n" + body


PARTS = [
    (partial(CONTENT[100:150]), None, ""),
    (ok(CONTENT), ErrorKind.PROTOCOL, "status 200 and 500 bytes, not 206"),
    (partial(CONTENT[100:150], "bytes 100-149/*", 200), ErrorKind.PROTOCOL, "status 200"),
    (partial(CONTENT[:50], "bytes 0-49/500"), ErrorKind.PROTOCOL, "returned bytes 0-49/500"),
    (partial(CONTENT[100:140], "bytes 100-139/140"), ErrorKind.PROTOCOL, "bytes 100-139/140"),
    (partial(CONTENT[100:150], ""), ErrorKind.PROTOCOL, "no Content-Range"),
    (partial(CONTENT[100:150], "lines 1-2/3"), ErrorKind.PROTOCOL, "Content-Range 'lines 1-2/3'"),
    (partial(CONTENT[100:140]), ErrorKind.TRUNCATED, "40 bytes"),
    (partial(CONTENT[100:151]), ErrorKind.PROTOCOL, "51 bytes"),
]


@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize("name", OVER_HTTP)
def test_a_range_is_read_and_any_other_part_is_an_error(name: str, verify: bool) -> None:
    with driver_on(name, *(answer for answer, _, _ in PARTS), verify=verify) as (store, _):
        for answer, kind, says in PARTS:
            found = attempt(store, RANGE)
            if kind is None:
                assert (found.status, found.bytes_moved) == (206, 50)
                continue
            assert (found.kind, found.timing is None) == (kind, False), answer
            assert says in found.detail


@pytest.mark.parametrize("name", OVER_HTTP)
def test_a_corrupt_or_stale_part_is_found_under_verify(name: str) -> None:
    wrong = bytearray(CONTENT[100:150])
    wrong[7] ^= 1
    older = b"".join(SyntheticSource(64).pieces(b"tiny_000003", 1, 500))[100:150]
    for body, kind in ((bytes(wrong), ErrorKind.CORRUPT), (older, ErrorKind.STALE)):
        assert act(name, RANGE, partial(body), verify=True).kind is kind
        assert act(name, RANGE, partial(body)).status == 206


# Reads in ranges --------------------------------------------------------------------------------

IN_RANGES = LargeRead(segment=200, above=200, parallel=2)
WHOLE = Job(1, READ, 0, 3, 2, 500)
#: What a server makes of the part from this byte on, and of If-Match, if not what is right.
Changed = Callable[[int, str], bytes | None]


def in_ranges(name: str, changed: Changed = lambda start, match: None, **settings: Any) -> Any:
    """The Timing, or the StorageError, of a READ of an object of 500 bytes; and the requests."""

    def answer(request: Request) -> bytes:
        first, last = map(int, request.headers["range"].removeprefix("bytes=").split("-"))
        found = changed(first, request.headers.get("if-match", ""))
        return found or response(
            206, CONTENT[first : last + 1], ETag='"v2"', X_Trans_Id=f"tx{first}",
            Content_Range=f"bytes {first}-{last}/500",
        )  # fmt: skip

    with driver_on(name, answer, large_read=IN_RANGES, **settings) as (store, heard):
        return attempt(store, WHOLE), heard


@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize("name", OVER_HTTP)
def test_a_large_object_is_read_in_ranges_of_one_version(name: str, verify: bool) -> None:
    found, heard = in_ranges(name, verify=verify)
    assert [heard[0].headers["range"], *sorted(each.headers["range"] for each in heard[1:])] == [
        "bytes=0-199", "bytes=200-399", "bytes=400-499",
    ]  # fmt: skip
    assert [each.headers.get("if-match") for each in heard] == [None, '"v2"', '"v2"']
    assert (found.status, found.bytes_moved) == (206, 500)
    count, slowest, url, *times = found.parts
    assert (count, url, len(times)) == (3, 0, 3)
    assert found.part_id == b"tx%d" % (200 * slowest)
    assert times == sorted(times)
    assert found.last_byte_ns - abs(found.headers_ns) >= 0


@pytest.mark.parametrize("name", OVER_HTTP)
def test_a_small_object_is_read_by_one_request(name: str) -> None:
    with driver_on(name, always(ok(CONTENT[:200])), large_read=IN_RANGES) as (store, heard):
        assert store.actions[READ](WHOLE._replace(size=200), 0).parts == ()
    assert "range" not in heard[0].headers


def newer(etag: str = '"v3"', size: int = 500) -> bytes:
    return response(206, CONTENT[:200], ETag=etag, Content_Range=f"bytes 200-399/{size}")


OF_BYTES_200_TO_399: list[tuple[bytes, ErrorKind, str]] = [
    (response(412), ErrorKind.CHANGED, "the part from byte 200 on"),
    (response(416), ErrorKind.CHANGED, "the part from byte 200 on"),
    (newer(), ErrorKind.CHANGED, "another version"),
    (newer('"v2"', 600), ErrorKind.CHANGED, "another version"),
    (response(404), ErrorKind.STATUS, "404"),
    (response(200, CONTENT, ETag='"v2"', Content_Range="bytes 200-399/500"), ErrorKind.PROTOCOL,
     "status 200"),
    (response(206, CONTENT[200:390], ETag='"v2"', Content_Range="bytes 200-399/500"),
     ErrorKind.TRUNCATED, "190 bytes"),
]  # fmt: skip


@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize("name", OVER_HTTP)
def test_parts_of_two_versions_never_mix(name: str, verify: bool) -> None:
    for answer, kind, says in OF_BYTES_200_TO_399:
        of_second = {200: answer}
        found, _ = in_ranges(
            name, lambda start, _, found=of_second: found.get(start), verify=verify
        )
        assert found.kind is kind, answer
        assert says in found.detail


@pytest.mark.parametrize("name", OVER_HTTP)
def test_a_store_that_does_not_tell_versions_apart_has_no_reads_in_ranges(name: str) -> None:
    for says, headers in {
        "no ETag": {"Content_Range": "bytes 0-199/500"},
        "no size of the object": {"Content_Range": "bytes 0-199/*", "ETag": '"v2"'},
    }.items():
        only = response(206, CONTENT[:200], **headers)
        found, _ = in_ranges(name, lambda start, match, only=only: only)
        assert found.kind is ErrorKind.PROTOCOL
        assert says in found.detail


@pytest.mark.parametrize("name", OVER_HTTP)
def test_a_weak_etag_is_compared_but_no_condition(name: str) -> None:
    def weak(start: int, match: str) -> bytes:
        assert match == ""
        part = CONTENT[start : min(start + 200, 500)]
        stated = f"bytes {start}-{start + len(part) - 1}/500"
        return response(206, part, ETag='W/"v2"', Content_Range=stated)

    assert in_ranges(name, weak)[0].bytes_moved == 500


@pytest.mark.parametrize("name", OVER_HTTP)
def test_a_wrong_byte_of_any_part_is_found_under_verify(name: str) -> None:
    def wrong(start: int, match: str) -> bytes | None:
        body = bytes([CONTENT[400] ^ 1]) + CONTENT[401:]
        stated = "bytes 400-499/500"
        if start != 400:
            return None
        return response(206, body, ETag='"v2"', Content_Range=stated)

    assert in_ranges(name, wrong, verify=True)[0].kind is ErrorKind.CORRUPT
    assert in_ranges(name, wrong)[0].bytes_moved == 500


@pytest.mark.parametrize("name", OVER_HTTP)
def test_an_object_of_another_length_is_read_as_it_is_unless_verified(name: str) -> None:
    def short(start: int, match: str) -> bytes:
        stated = f"bytes {start}-{min(start + 199, 249)}/250"
        return response(206, CONTENT[start : min(start + 200, 250)], ETag="e", Content_Range=stated)

    found, heard = in_ranges(name, short)
    assert (found.bytes_moved, found.parts[0], len(heard)) == (250, 2, 2)
    assert in_ranges(name, short, verify=True)[0].kind is ErrorKind.CORRUPT


# Initial objects --------------------------------------------------------------------------------

#: Those whose responses to HEAD tell an initial object.
TELLING = [name for name, http in OVER_HTTP.items() if http.meta]


def ensured(
    name: str, size: int, length: int, meta: dict[str, str], status: int = 200, **changes: Any
) -> bool:
    """Whether ENSURE keeps an object of which HEAD shows this; else it must upload it."""
    shown = {f"{OVER_HTTP[name].meta}{each}": text for each, text in meta.items()}
    lines = "".join(f"{each.replace('_', '-')}: {text}\r\n" for each, text in shown.items())
    head = f"HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n{lines}\r\n".encode()

    def answer(request: Request) -> bytes:
        if request.method == "HEAD":
            return head
        if request.method == "POST":  # begins or completes an upload to S3
            body = b"<UploadId>id</UploadId>"
            kind = b"Initiate" if "uploads=" in request.target else b"Complete"
            return ok(b"<%bMultipartUploadResult>%b</%bMultipartUploadResult>" % (kind, body, kind))
        return response(200, ETag="0" * 32, Content_Type="text/plain")

    with driver_on(name, answer, **changes) as (store, heard):
        timing = store.actions[ENSURE](job(ENSURE, size), 0)
    is_kept = [each.method for each in heard] == ["HEAD"]
    assert (timing.status, timing.bytes_moved) == (200, 0 if is_kept else size)
    return is_kept


@pytest.mark.parametrize(("length", "meta", "changes", "kept"), [
    (50, {}, {}, True),
    (51, {}, {}, False),
    (50, {"Version": "1"}, {}, False),
    (50, {"Segments": "slo 40"}, {}, False),
    (50, {"Letters": "yes"}, {}, False),
    (50, {"Letters": "yes"}, {"compressible": True}, True),
    (50, {}, {"compressible": True}, False),
    (50, {"Letters": "compressible 0.5/4096 duplicate 0/4096"}, {"mix": ContentMix(0.5)}, True),
    (50, {"Letters": "compressible 0.4/4096 duplicate 0/4096"}, {"mix": ContentMix(0.5)}, False),
    (50, {}, {"status": 404}, False),
])  # fmt: skip
@pytest.mark.parametrize("name", TELLING)
def test_an_initial_object_is_kept_only_as_the_run_would_upload_it(
    name: str, length: int, meta: dict[str, str], changes: dict[str, Any], kept: bool
) -> None:
    assert ensured(name, 50, length, meta, **changes) is kept


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name in TELLING for kind in OVER_HTTP[name].kinds]
)
def test_an_initial_object_is_kept_only_in_such_parts(name: str, kind: str) -> None:
    large = LargeObject(above=100, segment=40, kind=kind, parallel=1)
    for length, meta, kept in (
        (110, {"Segments": f"{kind} 40"}, True),
        (111, {"Segments": f"{kind} 40"}, False),
        (110, {"Segments": f"{kind} 50"}, False),
        (110, {"Segments": "other 40"}, False),
        (110, {"Segments": f"{kind} 40", "Letters": "yes"}, False),
        (110, {}, False),
    ):
        assert ensured(name, 110, length, meta, large_object=large) is kept
    assert not ensured(name, 110, 110, {"Segments": f"{kind} 40"}, 404, large_object=large)


# Listings ---------------------------------------------------------------------------------------


REFUSED = "PROTOCOL, 0 bytes"


def listed(name: str, body: str, kind: Callable[[StorageSettings], Any]) -> str | int:
    """How many entries LIST, or the admin, finds in a page of at most three; or its error."""
    page = response(OVER_HTTP[name].listed_status, body, Content_Type="text/plain")
    names = {"kind": "listed", "containers": ["c"], "packed_names": pack_names(["x"])}
    with driver_on(name, page, kind=kind, own=OVER_HTTP[name].own, names=names) as (driver, _):
        try:
            if kind is open_admin:
                return len(driver.list_objects("c", "", 3))
            timing = driver.actions[LIST](Job(1, LIST, 0, 0, 0, 0, arguments=(b"", 3, b"")), 0)
            assert timing.bytes_moved == 0
            return int(timing.items)
        except StorageError as error:
            moved = 0 if error.timing is None else error.timing.bytes_moved
            return f"{error.kind.name}, {moved} bytes"


@pytest.mark.parametrize("name", OVER_HTTP)
def test_a_listing_has_the_same_verdict_by_the_operation_and_by_the_admin(name: str) -> None:
    http = OVER_HTTP[name]
    has_pages = ROWS[name].features.count("list_limit")
    for page, kind in ((http.page, open_store), (http.admin_page, open_admin)):
        assert listed(name, page(*http.marks, "a", "b"), kind) == 2
        assert listed(name, page(), kind) == 0
        for wrong in (page("a", "b")[:-1], "<html>no</html>", *http.other_pages):
            assert listed(name, wrong, kind) == REFUSED
        if has_pages:
            assert listed(name, page("a", "b", "c", "d"), kind) == REFUSED
    for names in (("a", "a"), ("b", "a")):
        hot = listed(name, http.page(*names), open_store)
        assert hot == (REFUSED if has_pages or names == ("a", "a") else 2)


FOLLOWED = {name: http.followed for name, http in OVER_HTTP.items() if http.followed}


@pytest.mark.parametrize("name", FOLLOWED)
@pytest.mark.parametrize(
    ("pages", "expected"),
    [
        ([("t1", "a", "b"), ("t2", "c")], "3 items, 3 pages"),
        ([("t1", "a", "b"), ("t2", "b", "c")], "PROTOCOL"),  # one is there twice
        ([("t1", "b"), ("t2", "a")], "PROTOCOL"),
        ([("t1", "a"), ("t1", "a")], "PROTOCOL"),
        ([("t1", "a"), ("t1", "b", "c", "d", "e")], "PROTOCOL"),
    ],
)  # fmt: skip
def test_pages_of_a_whole_listing_follow_each_other(
    name: str, pages: list[tuple[str, ...]], expected: str
) -> None:
    page, end = FOLLOWED[name]
    texts = [*(page(*each) for each in pages), end]
    server = answering(*(response(200, text, Content_Type="text/plain") for text in texts))
    assert listed_all(name, server) == expected


def test_a_listing_that_does_not_advance_is_an_error() -> None:
    texts = [FOLLOWED["s3"][0]("t1"), FOLLOWED["s3"][0]("t2"), FOLLOWED["s3"][0]("t1")]
    assert listed_all("s3", answering(*(response(200, text) for text in texts))) == "PROTOCOL"
    text = OVER_HTTP["s3"].page("a").replace("</List", "<IsTruncated>true</IsTruncated></List")
    assert listed_all("s3", answering(*[response(200, text)] * 2)) == "PROTOCOL"


def listed_all(name: str, script: Any) -> str:
    names = {"kind": "listed", "containers": ["c"], "packed_names": pack_names(["x"])}
    with scripted_driver(name, script, own=OVER_HTTP[name].own, names=names) as (driver, _):
        asked = Job(1, LIST_ALL, 0, 0, 0, 0, arguments=(b"", 3, b""))
        try:
            timing = driver.actions[LIST_ALL](asked, 0)
        except StorageError as error:
            return error.kind.name
        return f"{timing.items} items, {timing.pages} pages"


# Connections ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OVER_HTTP)
def test_connections_are_opened_to_each_address(name: str) -> None:
    with driver_on(name, paths=("/a", "/b")) as (store, _):
        store.connect(3)
        assert repr(store).count("3 open, 3 idle") == 2


@pytest.mark.parametrize("name", OVER_HTTP)
def test_without_keep_alive_each_request_has_a_connection_of_its_own(name: str) -> None:
    with scripted_driver(name, answering(*[ok()] * 9), keep_alive=False) as (store, server):
        store.connect(4)
        for _ in range(3):
            store.actions[READ](job(READ), 0)
        assert server.connections == 3


@pytest.mark.parametrize("name", OVER_HTTP)
def test_connections_come_from_the_source_addresses_in_turn(name: str) -> None:
    peers: list[str] = []

    def serve(peer: Peer) -> None:
        peers.append(peer.sock.getpeername()[0])
        answering(ok())(peer)

    sources = ("127.0.0.2", "127.0.0.3")
    given = {"keep_alive": False, "source_addresses": sources}
    with scripted_driver(name, serve, **given) as (store, _):
        for _ in range(4):
            store.actions[READ](job(READ), 0)
    assert peers == [*sources, *sources]
    with driver_on(name, source_addresses=("192.0.2.7",)) as (store, _):
        with pytest.raises(StorageError, match=r"source address 192\.0\.2\.7") as caught:
            store.actions[READ](job(READ), 0)
        assert caught.value.kind is ErrorKind.LOAD_GENERATOR


@pytest.mark.parametrize("name", OVER_HTTP)
def test_a_dripping_administrative_request_times_out(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(httpstore, "ADMIN_TIMEOUTS", 0.05)
    drips = dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n", b" ")
    given = {"kind": open_admin, "network_timeout_s": 4.0}
    with (
        scripted_driver(name, drips, **given) as (admin, _),
        pytest.raises(StorageError) as caught,
    ):
        admin.list_objects("ssbench_000000", "", 10)
    assert caught.value.kind is ErrorKind.OPERATION_TIMEOUT


@pytest.mark.parametrize("name", OVER_HTTP)
def test_the_reconnects_of_a_probe_count_where_the_upload_fails(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = ConnectionPool.request
    monkeypatch.setattr(
        ConnectionPool, "request", lambda *given: request(*given)._replace(reconnects=1)
    )
    with (
        driver_on(name, response(404), response(507)) as (store, heard),
        pytest.raises(StorageError) as caught,
    ):
        store.actions[ENSURE](job(ENSURE), 0)
    assert caught.value.reconnects == len(heard) == 2


EXPECTING = {"headers": ((int(CREATE), "Expect: 100-continue\r\n"),), "expect_continue": True}


def uploaded(name: str, *answers: bytes) -> tuple[Any, list[bytes]]:
    """What an upload with Expect gives, and what the server heard: the head, and the content.

    :param answers: the first one to the head, and others once the content has come.
    """
    heard: list[bytes] = []

    def serve(peer: Peer) -> None:
        first, *others = answers
        heard.append(peer.hear())
        peer.say(first)
        if others:
            _, _, body = heard[0].partition(b"\r\n\r\n")  # on a busy host it comes along
            while len(body) < 50:
                body += peer.sock.recv(50)
            heard.append(body)
            peer.say(others[0])
        peer.linger(0.2)

    with scripted_driver(name, serve, **EXPECTING) as (store, _):
        return attempt(store, job(CREATE)), heard


@pytest.mark.parametrize("name", OVER_HTTP)
def test_an_upload_waits_for_100_continue(name: str) -> None:
    timing, (head, body) = uploaded(name, b"HTTP/1.1 100 Continue\r\n\r\n", response(201))
    assert (timing.status, timing.bytes_moved) == (201, 50)
    assert b"\r\nExpect: 100-continue\r\n" in head
    assert head.endswith(b"\r\n\r\n"), "the object comes later"
    assert body == b"".join(SyntheticSource(64).pieces(b"tiny_000001", 0, 50))


@pytest.mark.parametrize("name", OVER_HTTP)
def test_a_store_that_rejects_an_upload_receives_no_content(name: str) -> None:
    error, (head,) = uploaded(name, response(507))
    assert (error.status, error.timing.bytes_moved) == (507, 0)
    assert head.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("name", OVER_HTTP)
def test_a_store_that_does_not_know_expect_gets_the_object_after_a_second(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(httpconn, "CONTINUE_S", 0.05)
    noted, _ = uploaded(name, b"", response(201))
    assert (noted.kind, noted.detail) == (ErrorKind.NONE, NO_CONTINUE)
    assert (noted.status, noted.timing is not None) == (201, True)


@pytest.mark.parametrize("name", OVER_HTTP)
def test_a_coding_of_objects_that_nobody_asked_for_is_known(name: str) -> None:
    for stated, known in [("gzip", "gzip"), ("br", "br"), ("aws-chunked", ""), ("identity", "")]:
        answer = response(200, b"x" * 20, Content_Encoding=stated)
        with driver_on(name, always(answer)) as (store, _):
            for _ in range(2):  # the second takes the fast path
                assert store.actions[READ](job(READ), 0).bytes_moved == 20
                assert store.coding() == known  # of an upload, as versitygw keeps it: none
