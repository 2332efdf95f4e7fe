"""What the tests of the contract know of each store: a row of ``STORES`` for each.

A store has whole servers (``subjects``), and one among whose containers are others' (``place``).
One over HTTP also has what single requests and responses of it look like (``http``).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from _pytest.mark import ParameterSet

from ssbench.core.model import SizeClass
from ssbench.core.operations import (
    BULK_DELETE,
    COPY,
    CREATE_IF_ABSENT,
    DELETE_VERSION,
    GET_TAGS,
    LIST,
    LIST_ALL,
    LIST_RANDOM,
    OPERATIONS,
    POST,
    PUT_TAGS,
    RANGE_READ,
    READ_VERSION,
    UPDATE_IF_MATCH,
    Operation,
)
from ssbench.core.scenario.values import crud_profile
from ssbench.core.settings import Credentials, StorageSettings
from ssbench.embedded import EmbeddedSwift
from ssbench.storage.options import StoreOptions
from ssbench.storage.registry import open_admin, open_provider, open_store
from ssbench.storage.s3.bodies import bucket_of
from ssbench.storage.s3.client import AwsKeys, issue
from tests.fakes import answered_store
from tests.fakes.answered_store import Answer, Request
from tests.fakes.drivers import WholeDriver, driver_settings
from tests.fakes.http_server import FakeContainer, FakeObject, FakeSwift
from tests.fakes.scripted_server import Peer, Script, ScriptedServer
from tests.fakes.small_stores import Buckets, Tree
from tests.servers.dictstore import DRIVER, DictStore
from tests.servers.s3 import RcloneS3, S3Server, SwiftS3, VersityGW
from tests.servers.seaweed import SeaweedDav, SeaweedS3
from tests.servers.webdav import Apache, DavServer, Nginx, Rclone, WsgiDav

MARK = ".ssbench"


class OverHttp(NamedTuple):
    """What single requests and responses of a store over HTTP look like."""

    issued: Mapping[str, Any]  #: by the master
    renewed: Mapping[str, Any]  #: likewise, later
    sign: str  #: what only requests under ``renewed`` have
    login: Mapping[str, str]  #: options; the path of the login in place of an address
    page: Callable[..., str]  #: of LIST, with these names
    admin_page: Callable[..., str]  #: of the admin, likewise
    other_pages: Sequence[str] = ()  #: of another place
    #: A page behind which others follow, from the token of the next, and the end; None: listings
    #: have no pages, or no order.
    followed: tuple[Callable[..., str], str] | None = None
    environ: Mapping[str, str] = {}  #: of the login
    #: The metadata by which it knows that an object was made with such headers; "": none.
    headers_mark: str = ""
    #: How names of metadata begin by which HEAD tells initial objects; "": it does not.
    meta: str = ""
    kinds: Sequence[str] = ()  #: of large objects
    own: Mapping[str, Any] = {}  #: settings of the store for listings
    listed_status: int = 200
    marks: Sequence[str] = (MARK,)  #: entries that a listing leaves out


@contextmanager
def scripted_driver(
    name: str,
    *scripts: Script,
    kind: Callable[[StorageSettings], Any] = open_store,
    issued: Mapping[str, Any] | None = None,
    paths: Sequence[str] = ("/v1/a",),
    own: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Iterator[tuple[Any, ScriptedServer]]:
    """A half of a store's driver on a server, which serves its connections by these scripts.

    :param issued: the credentials.
    :param paths: of its addresses, all of this server.
    :param own: the store's own settings.
    :param changes: of the other settings.
    """
    with ScriptedServer(*scripts) as server:
        urls = [f"http://127.0.0.1:{server.port}{path}" for path in paths]
        credentials = Credentials(1, None, OVER_HTTP[name].issued if issued is None else issued)
        values = {
            "run_id": "run1", "worker_id": "w1", "sizes": answered_store.SIZES,
            "container_count": 2, "credentials": (credentials,), **changes,
        }  # fmt: skip
        settings = StorageSettings(name, store={"urls": urls, **(own or {})}, **values)
        with closing(kind(settings)) as driver:
            yield driver, server


@contextmanager
def driver_on(name: str, *answers: Answer, **given: Any) -> Iterator[tuple[Any, list[Request]]]:
    """A half of a store's driver on a server, and the requests that the server received.

    :param answers: responses to one request after another, on whatever connection; a callable
        gives those to all further requests. Then the connection ends.
    :param given: as of ``scripted_driver``.
    """
    left, heard = list(answers), list[Request]()

    def script(peer: Peer) -> None:
        while data := peer.hear_whole():
            request = Request.of(data)
            heard.append(request)
            if not left:
                return
            answer = left[0] if callable(left[0]) else left.pop(0)
            peer.say(answer(request) if callable(answer) else answer)

    with scripted_driver(name, script, **given) as (driver, _):
        yield driver, heard


class Place(NamedTuple):
    """A store that others use."""

    admin: Any
    make: Callable[..., None]  #: a container with objects of these names, by somebody else
    contents: Callable[[], set[str]]  #: ``container/`` and ``container/object``; the mark is one
    #: Contents of containers of somebody else's that get our mark, or our run's id in it.
    changed: tuple[tuple[str, ...], ...] = ((),)
    names_are_paths: bool = True  #: of containers


@contextmanager
def beside_swift(folder: Path) -> Iterator[Place]:
    with (
        FakeSwift() as swift,
        closing(open_admin(driver_settings("tk", urls=(swift.url,), run_id="run1"))) as admin,
    ):
        there = swift.containers

        def make(container: str, *names: str) -> None:
            headers = {"X-Container-Meta-Ssbench": "another"} if MARK in names else {}
            objects = {each: FakeObject(b"", {}) for each in names if each != MARK}
            there[container] = FakeContainer("gold", headers, objects)

        def contents() -> set[str]:
            marks = {each for each in there if "X-Container-Meta-Ssbench" in there[each].headers}
            objects = {f"{each}/{name}" for each in there for name in there[each].objects}
            return {f"{each}/" for each in there} | {f"{each}/{MARK}" for each in marks} | objects

        yield Place(admin, make, contents)


@contextmanager
def beside_s3(folder: Path) -> Iterator[Place]:
    server = Buckets()

    def make(container: str, *names: str) -> None:
        bucket = f"/{container.replace('_', '-')}"
        server.paths |= {bucket, *(f"{bucket}/{each}" for each in names)}

    def contents() -> set[str]:
        found = (each[1:].replace("-", "_", 1) for each in server.paths)
        return {each if "/" in each else f"{each}/" for each in found}

    with driver_on("s3", server, kind=open_admin, paths=("",)) as (admin, _):
        yield Place(admin, make, contents, names_are_paths=False)


@contextmanager
def beside_webdav(folder: Path) -> Iterator[Place]:
    tree = Tree()

    def make(container: str, *names: str) -> None:
        tree.paths |= Tree(f"{container}/", *(f"{container}/{each}" for each in names)).paths

    with driver_on("webdav", tree, kind=open_admin, paths=("/dav/",)) as (admin, _):
        yield Place(
            admin, make, lambda: {each[5:] for each in tree.paths} - {""}, changed=((MARK,),)
        )


@contextmanager
def beside_files(folder: Path) -> Iterator[Place]:
    def make(container: str, *names: str) -> None:
        for name in ("", *names):
            place = folder / container / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch() if name else place.mkdir()

    def contents() -> set[str]:
        found = (str(each.relative_to(folder)) for each in folder.rglob("*"))
        return {each if "/" in each else f"{each}/" for each in found}

    settings = StorageSettings("file", store={"path": str(folder)}, run_id="run1")
    with closing(open_admin(settings)) as admin:
        yield Place(admin, make, contents)


SIZES = (
    SizeClass("tiny \u00e9/?%", 100, 200, crud_profile([1, 1, 1, 1]), 10),
    SizeClass("b", 0, 0, crud_profile([1, 0, 0, 0]), 1),
)

TAGS = PUT_TAGS, GET_TAGS
CONDITIONAL = CREATE_IF_ABSENT, UPDATE_IF_MATCH
VERSIONS = READ_VERSION, DELETE_VERSION

CONTAINERS = [f"contract_{index:06d}" for index in range(3)]


def settings(**changes: object) -> StorageSettings:
    values = {"run_id": "run1", "sizes": SIZES, "container_base": "contract", "container_count": 3}
    return driver_settings(**{**values, **changes})  # type: ignore[arg-type]


class Subject(NamedTuple):
    """A driver under test, how to open another on the same store, and the store's own facts."""

    open: Callable[..., Any]
    stateful: bool = True
    policies: tuple[str, ...] = ("gold", "silver")
    rejection: int = 401  #: status of a request with wrong credentials; 0: there are none
    longest_name: int = 1024  #: bytes of an object's name
    tells_missing: bool = True  #: a DELETE says whether there was something to delete
    lists_missing: bool = False  #: a container that doesn't exist is listed as an empty one
    lacks: Collection[Operation] = ()  #: operations that it doesn't support
    refused: Collection[Operation] = ()  #: operations that this server doesn't support
    ignores: Collection[Operation] = ()  #: conditional ones whose condition this server ignores
    states_limits: bool = True
    has_folders: bool = False  #: names with slashes are in folders, and listings have no pages
    knows_content: bool = True  #: tells initial objects from others of their size
    part: int = 0  #: bytes of the parts of large objects in these tests; 0: there are none
    kinds: tuple[str, ...] = ()  #: of large objects
    reads_ranges: bool = True  #: READ of large objects in ranges
    named: Callable[[str], str] = str  #: what other clients call a container that ssbench names


def on_noop() -> Iterator[Subject]:
    yield Subject(
        lambda **changes: WholeDriver(settings(driver="noop", **changes)), False, reads_ranges=False
    )


def on_fake_swift() -> Iterator[Subject]:
    with FakeSwift() as swift:
        given = {"token": "tk", "urls": (swift.url,)}
        yield Subject(
            lambda **changes: WholeDriver(settings(**{**given, **changes})),
            lacks=[*TAGS, UPDATE_IF_MATCH],
            ignores=[CREATE_IF_ABSENT],
            refused=VERSIONS,
        )


def on_real_swift(server: SwiftS3) -> Iterator[Subject]:
    swift = server.swift
    given = {"token": token_of(swift), "urls": (swift.storage_url,)}
    yield Subject(
        lambda **changes: WholeDriver(settings(**{**given, **changes})),
        part=60,
        kinds=("slo", "dlo"),
        lacks=[*TAGS, UPDATE_IF_MATCH],
    )


def on_s3(
    server: AbstractContextManager[S3Server],
    part: int = 5 << 20,
    refused: Collection[Operation] = (),
    **own: str,
) -> Iterator[Subject]:
    with server as store:
        options = StoreOptions("s3", {"s3_endpoints": [store.url], **own}, store.environment)
        if "s3_bucket" in own:
            store.make_bucket(own["s3_bucket"])
        access = open_provider(options).log_in()

        def open_driver(token: str = "", **changes: Any) -> WholeDriver:
            right = access.credentials.payload
            days = {date: key[::-1] if token else key for date, key in right["days"].items()}
            credentials = (Credentials(0, None, {**right, "days": days}),)
            given = {"driver": "s3", "store": access.settings, "credentials": credentials}
            return WholeDriver(settings(**{**given, **changes}))

        yield Subject(
            open_driver, policies=(), rejection=403, tells_missing=False,
            lists_missing="s3_bucket" in own, part=part, kinds=("multipart",),
            named=str if "s3_bucket" in own else bucket_of,
            refused=[*refused, *(VERSIONS if "s3_bucket" in own else ())],  # not ours to turn on
        )  # fmt: skip


def on_files(place: str | None) -> Iterator[Subject]:
    with TemporaryDirectory(dir=place) as path:
        access = open_provider(StoreOptions("file", {"path": path})).log_in()
        given = {"driver": "file", "store": access.settings}
        yield Subject(
            lambda **changes: WholeDriver(settings(**given, **changes)),
            policies=(),
            rejection=0,
            longest_name=255,
            lacks=[*TAGS, *CONDITIONAL, *VERSIONS],
            reads_ranges=False,
        )


def on_webdav(server: DavServer, **facts: Any) -> Iterator[Subject]:
    with server as store:
        options = StoreOptions("webdav", {"urls": [store.url]}, store.environment)
        access = open_provider(options).log_in()

        def open_driver(token: str = "", **changes: Any) -> WholeDriver:
            (issued,) = access.credentials.payload["access"]
            if token and "digest" in issued:
                issued = {"digest": {**issued["digest"], "ha1": "0" * 32}}
            elif token:
                issued = {"basic": "bm9ib2R5Og=="}
            credentials = (Credentials(0, None, {"access": [issued]}),)
            given = {"driver": "webdav", "store": access.settings, "credentials": credentials}
            return WholeDriver(settings(**{**given, **changes}))

        yield Subject(
            open_driver, policies=(), lacks=[BULK_DELETE, *TAGS, UPDATE_IF_MATCH, *VERSIONS],
            states_limits=False, has_folders=True, **facts,
        )  # fmt: skip


def on_outside_driver() -> Iterator[Subject]:
    with DictStore() as store:
        options = StoreOptions(DRIVER, {"address": store.address}, store.environment)
        access = open_provider(options).log_in()
        # Its operation is of no concern to other tests of this process.
        OPERATIONS.pop(1000)
        given = {"store": access.settings, "token": access.credentials.payload["token"]}
        yield Subject(
            lambda **changes: WholeDriver(settings(driver=DRIVER, **{**given, **changes})),
            lacks=[
                LIST,
                LIST_ALL,
                LIST_RANDOM,
                COPY,
                RANGE_READ,
                BULK_DELETE,
                *TAGS,
                *CONDITIONAL,
                *VERSIONS,
            ],
            knows_content=False,
            reads_ranges=False,
        )


def token_of(swift: EmbeddedSwift) -> str:
    connection = HTTPConnection(urlsplit(swift.auth_url).netloc)
    try:
        headers = {"X-Auth-User": swift.user, "X-Auth-Key": swift.key}
        connection.request("GET", "/auth/v1.0", headers=headers)
        token = connection.getresponse().headers["X-Auth-Token"]
    finally:
        connection.close()
    assert token
    return token


def on_swift_s3(server: SwiftS3, **own: str) -> Iterator[Subject]:
    yield from on_s3(nullcontext(server), part=60, refused=[*TAGS, UPDATE_IF_MATCH], **own)


class ContractRow(NamedTuple):
    """A store in the tests of the contract."""

    #: What opens the store on a server; those of ``SHARED`` get the Swift that tests share.
    subjects: Sequence[ParameterSet]
    place: Callable[[Path], AbstractContextManager[Place]] | None = None  #: None: nobody else's
    http: OverHttp | None = None  #: None: it does not speak HTTP


def real(subject: Callable[..., Iterator[Subject]], name: str, *programs: str) -> ParameterSet:
    """A parameter of a real server.

    :param programs: of tests/servers/programs.py that it needs.
    """
    needs = (pytest.mark.program(each) for each in programs)
    return pytest.param(subject, id=name, marks=[pytest.mark.e2e, *needs])


def issued_of_s3(key_id: str) -> Mapping[str, Any]:
    return issue(AwsKeys(key_id, "s3cret-key", ""), "us-east-1", time.time())[0]


def swift_page(*names: str) -> str:
    return "".join(f"{name}\n" for name in names)


def s3_page(*names: str) -> str:
    entries = (f"<Contents><Key>c/{name}</Key></Contents>" for name in names)
    return f"<ListBucketResult>{''.join(entries)}</ListBucketResult>"


def followed_s3_page(token: str, *names: str) -> str:
    more = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>"
    return s3_page(*names).replace("</List", f"{more}</List")


def dav_page(*names: str) -> str:
    responses = (f"<response><href>/v1/a/c/{name}</href></response>" for name in names)
    return f'<multistatus xmlns="DAV:">{"".join(responses)}</multistatus>'


on_swift_s3_prefixes = partial(on_swift_s3, s3_bucket="prefixes")
#: Subjects that take the Swift that tests share.
SHARED = (on_real_swift, on_swift_s3, on_swift_s3_prefixes)
#: Name of a store -> its row; "outside": a driver that is not in the package.
STORES = {
    "swift": ContractRow(
        subjects=(
            pytest.param(on_fake_swift, id="swift-on-fake"),
            real(on_real_swift, "swift-on-swift"),
        ),
        place=beside_swift,
        http=OverHttp(
            issued={"token": "tk"},
            renewed={"token": "newer"},
            sign="X-Auth-Token: newer",
            login={"auth": "/auth/v1.0", "user": "a:u", "key": "k3y"},
            page=swift_page,
            admin_page=lambda *names: json.dumps([{"name": name} for name in names]),
            followed=(lambda token, *names: swift_page(*names), ""),
            headers_mark="X-Object-Meta-Ssbench-Headers",
            meta="X_Object_Meta_Ssbench_",
            kinds=("slo", "dlo"),
            marks=(),  # it is no object
        ),
    ),
    "s3": ContractRow(
        subjects=(
            real(on_swift_s3, "s3-buckets-on-swift"),
            real(on_swift_s3_prefixes, "s3-prefixes-on-swift"),
            real(lambda: on_s3(VersityGW()), "s3-buckets-on-versitygw", "versitygw"),
            real(
                lambda: on_s3(VersityGW(), s3_bucket="contract", s3_payload="unsigned"),
                "s3-prefixes-on-versitygw", "versitygw",
            ),
            real(
                lambda: on_s3(RcloneS3(), refused=[*TAGS, *VERSIONS]),
                "s3-buckets-on-rclone", "rclone",
            ),
            real(lambda: on_s3(SeaweedS3()), "s3-buckets-on-seaweedfs", "weed"),
        ),
        place=beside_s3,
        http=OverHttp(
            issued=issued_of_s3("AKID"),
            renewed=issued_of_s3("NEWER"),
            sign="Credential=NEWER/",
            login={"s3_endpoints": ""},
            environ={"AWS_ACCESS_KEY_ID": "AK", "AWS_SECRET_ACCESS_KEY": "s3cret"},
            page=s3_page,
            admin_page=s3_page,
            other_pages=[s3_page("a").replace("c/", "d/")],
            followed=(followed_s3_page, s3_page()),
            headers_mark="x-amz-meta-ssbench-headers",
            meta="x_amz_meta_ssbench_",
            kinds=("multipart",),
            own={"bucket": "b"},
        ),
    ),
    "webdav": ContractRow(
        subjects=(
            real(
                lambda: on_webdav(Rclone("basic"), ignores=[CREATE_IF_ABSENT]),
                "webdav-on-rclone", "rclone",
            ),
            real(
                lambda: on_webdav(
                    SeaweedDav(), refused=[POST], ignores=[CREATE_IF_ABSENT], rejection=0
                ),
                "webdav-on-seaweedfs", "weed",
            ),
            real(lambda: on_webdav(Apache("digest")), "webdav-on-apache", "apache2"),
            real(
                lambda: on_webdav(Nginx("basic"), refused=[POST], ignores=[CREATE_IF_ABSENT]),
                "webdav-on-nginx", "nginx-dav-ext",
            ),
            real(lambda: on_webdav(WsgiDav("digest")), "webdav-on-wsgidav"),
        ),
        place=beside_webdav,
        http=OverHttp(
            issued={},
            renewed={"access": [{"basic": "bmV3"}]},
            sign="Authorization: Basic bmV3",
            login={"urls": "/dav/"},
            page=dav_page,
            admin_page=dav_page,
            other_pages=[dav_page("a").replace("/c/", "/d/"), dav_page("a/b")],
            listed_status=207,
        ),
    ),
    "file": ContractRow(
        subjects=(
            pytest.param(lambda: on_files(None), id="files-on-disk"),
            pytest.param(lambda: on_files("/dev/shm"), id="files-in-memory"),  # nosec B108
        ),
        place=beside_files,
    ),
    "noop": ContractRow(subjects=(pytest.param(on_noop, id="noop"),)),
    "outside": ContractRow(subjects=(pytest.param(on_outside_driver, id="outside"),)),
}  # fmt: skip
SUBJECTS = [subject for row in STORES.values() for subject in row.subjects]
PLACES = {name: row.place for name, row in STORES.items() if row.place}
OVER_HTTP = {name: row.http for name, row in STORES.items() if row.http}
