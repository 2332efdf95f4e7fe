"""Requests of the WebDAV driver, and scripted responses; the contract test has real servers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec.structs import asdict

from ssbench.core.errors import StorageError, UsageError
from ssbench.core.model import ErrorKind, Job, SizeClass
from ssbench.core.operations import (
    COPY,
    CREATE,
    DELETE,
    ENSURE,
    HEAD,
    POST,
    READ,
)
from ssbench.core.scenario.values import crud_profile
from ssbench.core.settings import StorageSettings
from ssbench.storage.registry import open_store
from ssbench.storage.webdav.digest import DigestChallenge, digest_credentials, parse_challenges
from tests.contract import stores
from tests.fakes.answered_store import Answer, Request, always, response
from tests.fakes.drivers import pieces
from tests.fakes.scripted_server import ok

PLAIN = DigestChallenge("r", "", "MD5", None, has_qop=True, stale=False, userhash=False)
SIZES = (SizeClass("tiny", 10, 200, crud_profile([1, 1, 1, 1]), 10),)
DIGEST = asdict(digest_credentials(PLAIN, "u", "p"))


def settings(**changes: Any) -> StorageSettings:
    values = {"container_base": "c", "container_count": 2, "sizes": SIZES, **changes}
    own = {"urls": ["http://127.0.0.1:1/dav/"], **values.pop("store", {})}
    return StorageSettings("webdav", store=own, **values)


@contextmanager
def driver_on(
    *answers: Answer,
    issued: dict[str, object] | None = None,
    kind: Callable[[StorageSettings], Any] = open_store,
    **changes: Any,
) -> Iterator[tuple[Any, list[Request]]]:
    """As of the fake, with folders of its own."""
    values = {"network_timeout_s": 2.0, "container_base": "c", "sizes": SIZES, **changes}
    given = {"access": [issued or {}]}
    with stores.driver_on(
        "webdav", *answers, kind=kind, issued=given, paths=("/dav/",), **values
    ) as found:
        yield found


def in_folder(name: str) -> tuple[SizeClass, ...]:
    return (SizeClass(name, 10, 200, crud_profile([1, 0, 0, 0]), 10),)


def job(operation: int, number: int = 3, size: int = 100, **more: object) -> Job:
    return Job(1, operation, 0, number, 0, size)._replace(**more)  # type: ignore[arg-type]


def challenged(nonce: str, *, stale: bool = False, realm: str = "r") -> bytes:
    more = ", stale=true" if stale else ""
    given = f'realm="{realm}", nonce="{nonce}", qop="auth", algorithm=MD5{more}'
    return response(401, WWW_Authenticate=f"Digest {given}")


def signed(request: Request) -> dict[str, str]:
    found = parse_challenges(request.headers.get("authorization", ""))
    return found[0].parameters if found else {}


class Nonces:
    """Accepts each nonce so often, then says that it is stale."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.issued = 0
        self.used = times

    def __call__(self, request: Request) -> bytes:
        given = signed(request)
        if given and given["nonce"] == f"n{self.issued}" and self.used < self.times:
            self.used += 1
            assert int(given["nc"], 16) == self.used
            return ok(b"x" * 100)
        self.issued += 1
        self.used = 0
        return challenged(f"n{self.issued}", stale=bool(given))


def test_a_stale_nonce_is_replaced_and_is_no_error() -> None:
    server = Nonces(3)
    with driver_on(server, issued={"digest": DIGEST}) as (driver, heard):
        driver.connect(1)
        assert [each.method for each in heard] == ["PROPPATCH"]  # for no operation to wait
        for _ in range(7):
            assert driver.actions[READ](job(READ), 0).status == 200
    # Two more nonces when the third READ under each was done.
    assert [each.method for each in heard].count("GET") == 9
    assert server.issued == 3
    assert {signed(each).get("uri") for each in heard if each.method == "GET"} == {
        "/dav/c_000001/tiny_000003"
    }


@pytest.mark.parametrize(("answer", "says", "requests"), [
    (challenged("n1"), "HEAD returned 401", 2),  # one for a nonce, one signed
    (challenged("n1", stale=True), "HEAD returned 401 3 times, each with a new nonce", 4),
    (challenged("n1", stale=True, realm="other"), "HEAD returned 401", 2),
])  # fmt: skip
def test_a_rejected_digest_asks_for_new_credentials(
    answer: bytes, says: str, requests: int
) -> None:
    with (
        driver_on(always(answer), issued={"digest": DIGEST}) as (driver, heard),
        pytest.raises(StorageError, match=f"{says}$") as caught,
    ):
        driver.actions[HEAD](job(HEAD), 0)
    assert (caught.value.kind, caught.value.status) == (ErrorKind.UNAUTHORIZED, 401)
    assert len(heard) == requests


def test_a_copy_names_its_destination_and_overwrites_nothing() -> None:
    with driver_on(always(response(201))) as (driver, heard):
        timing = driver.actions[COPY](job(COPY, others=(12,)), 0)
        assert (timing.status, timing.bytes_moved) == (201, 0)
        driver.actions[DELETE](job(DELETE), 0)
    (copied, other) = heard
    headers = copied.headers
    assert not {"destination", "overwrite"} & set(other.headers)
    assert copied.line == "COPY /dav/c_000001/tiny_000003"
    host = headers["host"]
    assert headers["destination"] == f"http://{host}/dav/c_000000/tiny_run1_000012"
    assert headers["overwrite"] == "F"


PROPERTY = (
    b'<multistatus xmlns="DAV:"><response><href>/dav/c/x</href><propstat><prop/><status>%s'
    b"</status></propstat></response></multistatus>"
)


def test_the_worst_status_inside_of_a_proppatch_counts() -> None:
    fine = PROPERTY % b"HTTP/1.1 200 OK"
    also = b"<status>HTTP/1.1 %d X</status></response>"
    answers: list[tuple[bytes, ErrorKind | None, int]] = [
        (fine, None, 207),
        (fine.replace(b"</response>", also % 200), None, 207),
        (fine.replace(b"</response>", also % 299), None, 207),
        (fine.replace(b"</response>", also % 300), ErrorKind.STATUS, 300),
        (PROPERTY % b"HTTP/1.1 507 Full", ErrorKind.STATUS, 507),
        (b'<multistatus xmlns="DAV:"/>', ErrorKind.STATUS, 500),
        (b"<html/>", ErrorKind.PROTOCOL, 207),
    ]
    with driver_on(*(response(207, body) for body, _, _ in answers)) as (driver, heard):
        for _, kind, status in answers:
            if kind is None:
                assert driver.actions[POST](job(POST), 0).status == status
                continue
            with pytest.raises(StorageError) as caught:
                driver.actions[POST](job(POST), 0)
            assert (caught.value.kind, caught.value.status) == (kind, status)
            if kind is ErrorKind.STATUS:
                assert caught.value.detail.endswith(f"{status} for the property")
                assert caught.value.timing is not None
                assert (caught.value.timing.status, caught.value.timing.bytes_moved) == (status, 0)
    assert {each.line for each in heard} == {"PROPPATCH /dav/c_000001/tiny_000003"}


def test_a_copy_into_a_folder_makes_the_folder_first() -> None:
    statuses = [201, 201, 404, 409, 201, 201]
    deep = in_folder("a/tiny")
    with driver_on(*map(response, statuses), sizes=deep) as (driver, heard):
        copy = driver.actions[COPY]
        copy(job(COPY, others=(14,)), 0)
        for status in ("404", "409"):  # the source is missing, or the folder
            with pytest.raises(StorageError, match=status):
                copy(job(COPY, others=(16,)), 0)
        copy(job(COPY, others=(18,)), 0)  # the folder was gone: makes it again
    make, made = "MKCOL /dav/c_000000/a/", "COPY /dav/c_000001/a/tiny_000003"
    assert [each.line for each in heard] == [make, made, made, made, make, made]


BODY = b"".join(pieces(b"tiny_000003", 0, 100, 65536))


@pytest.mark.parametrize(
    ("answer", "uploads"),
    [
        (response(206, Content_Range="bytes 0-63/100", body=BODY[:64]), False),
        (response(206, Content_Range="bytes 0-63/101", body=BODY[:64]), True),
        (response(206, Content_Range="bytes 0-63/100", body=BODY[1:65]), True),
        (response(206, Content_Range="nonsense", body=BODY[:64]), True),
        (response(200, BODY), False),
        (response(200, BODY[:99]), True),
        (response(404), True),
        (response(416, Content_Range="bytes */0"), True),
    ],
)
def test_an_initial_object_is_known_by_length_and_first_bytes(answer: bytes, uploads: bool) -> None:
    def serve(request: Request) -> bytes:
        if request.method == "GET":
            assert request.headers["range"] == "bytes=0-63"
            return answer
        return response(201)

    with driver_on(serve) as (driver, heard):
        timing = driver.actions[ENSURE](job(ENSURE), 0)
        assert (timing.status, timing.bytes_moved) == ((201, 100) if uploads else (200, 0))
    assert [each.method for each in heard] == ["GET", "PUT"] if uploads else ["GET"]


def test_folders_are_made_before_the_first_upload_into_them() -> None:
    statuses = [201, 405, 409, 201, 201, 201, 201]
    deep = in_folder("a/b/tiny")
    with driver_on(*map(response, statuses), sizes=deep) as (driver, heard):
        with pytest.raises(StorageError, match="409"):
            driver.actions[CREATE](job(CREATE), 0)
        driver.actions[CREATE](job(CREATE), 0)  # the folder was gone: makes it again
        driver.actions[CREATE](job(CREATE, 5), 0)  # it is known now
    made = ["MKCOL /dav/c_000001/a/", "MKCOL /dav/c_000001/a/b/"]
    puts = [f"PUT /dav/c_000001/a/b/tiny_00000{number}" for number in (3, 3, 5)]
    assert [each.line for each in heard] == [*made, puts[0], *made, puts[1], puts[2]]


def test_a_folder_that_another_client_makes_at_this_moment_is_no_failure() -> None:
    statuses = [500, 405, 201]  # as wsgidav answers
    deep = in_folder("a/tiny")
    with driver_on(*map(response, statuses), sizes=deep) as (driver, heard):
        assert driver.actions[CREATE](job(CREATE), 0).status == 201
    assert [each.method for each in heard] == ["MKCOL", "MKCOL", "PUT"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"placement": "gold"}, "no storage policies"),
        ({"container_base": "a/b"}, 'container_base "a/b"'),
        ({"sizes": (SizeClass("a//b", 1, 1, (), 1),)}, 'size class "a//b"'),
        ({"sizes": (SizeClass("../b", 1, 1, (), 1),)}, 'size class "../b"'),
        ({"store": {"urls": []}}, "--url"),
        (
            {
                "sizes": (SizeClass("t", 1, 1, ((int(POST), 1.0),), 1),),
                "store": {"urls": ["http://127.0.0.1:1/"], "methods": ["GET", "PUT"]},
            },
            "has no PROPPATCH, which the operation POST needs",
        ),
    ],
)
def test_what_webdav_lacks_is_refused(changes: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)):
        open_store(settings(**changes))
