"""The S3 driver on recorded responses: errors, expiry, redirects, rate limits, clocks.

tests/contract and tests/e2e/test_s3.py run it against real servers.
"""

from __future__ import annotations

import gzip
import itertools
import re
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from email.utils import formatdate
from hashlib import md5, sha256
from typing import Any

import pytest

from ssbench.core.content import SyntheticSource
from ssbench.core.errors import StorageError, UsageError
from ssbench.core.hiding import Secrets
from ssbench.core.model import ErrorKind, Job, LargeObject, SizeClass
from ssbench.core.naming import pack_names
from ssbench.core.operations import (
    BULK_DELETE,
    COPY,
    CREATE,
    DELETE,
    HEAD,
    LIST,
    POST,
    RANGE_READ,
    READ,
)
from ssbench.core.settings import StorageSettings
from ssbench.storage.base import ListedVersion, StoreAdmin
from ssbench.storage.http.response import LISTING_MAX
from ssbench.storage.registry import open_admin, open_store
from ssbench.storage.s3.client import AwsKeys, issue
from tests.contract import stores
from tests.fakes.answered_store import Answer, Request, response
from tests.fakes.scripted_server import answering, ok
from tests.fakes.small_stores import Buckets
from tests.storage.s3.test_sign import recomputed

KEYS = AwsKeys("AKID", "s3cret-key", "")
SIZES = (SizeClass("tiny", 1, 999, ((int(CREATE), 1.0),), 10),)


def error(code: str, message: str = "m", more: str = "") -> str:
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Error><Code>{code}</Code><Message>{message}</Message>{more}"
        "<RequestId>4442587FB7D0A2F9</RequestId></Error>"
    )


@contextmanager
def driver_on(
    *answers: Answer,
    keys: AwsKeys | None = KEYS,
    region: str = "us-east-1",
    large: LargeObject | None = None,
    kind: Callable[[StorageSettings], Any] = open_store,
    verify: bool = False,
    headers: Sequence[tuple[int, str]] = (),
    more: Mapping[str, Any] = {},
    changes: Mapping[str, Any] = {},
    **own: Any,
) -> Iterator[tuple[Any, list[Request]]]:
    """As of the fake; what is not named is the store's own.

    :param changes: of the other settings.
    """
    issued = {**(issue(keys, region, time.time())[0] if keys else {}), **more}
    with stores.driver_on(
        "s3", *answers, kind=kind, issued=issued, paths=own.pop("paths", ("",)), own=own,
        sizes=SIZES, large_object=large, verify=verify, headers=headers, **changes,
    ) as found:  # fmt: skip
        yield found


def job(operation: int) -> Job:
    others = (4, 5) if operation in (COPY, BULK_DELETE) else ()
    arguments: Any = {LIST: (b"", 10, b""), RANGE_READ: (3, 5)}.get(operation, ())
    return Job(1, operation, 0, 1 if arguments else 3, 2, 50, -1, others, arguments)


@contextmanager
def outcome_of(operation: int, *answers: bytes, **own: Any) -> Iterator[Any]:
    """What the driver makes of these responses: a Timing or a StorageError."""
    with driver_on(*answers, **own) as (store, _):
        try:
            yield store.actions[operation](job(operation), 0)
        except StorageError as failure:
            yield failure


def test_the_name_of_our_own_region_is_no_hint_at_another() -> None:
    # As MinIO answers if it has been given a region.
    answer = response(404, error("NoSuchKey", "no key", "<Region>us-east-1</Region>"))
    with outcome_of(READ, answer) as failure:
        assert failure.kind is ErrorKind.STATUS
        assert failure.detail.endswith("GET returned 404: NoSuchKey: no key")


@pytest.mark.parametrize(("offset_s", "says"), [(-1200, "ahead of"), (1200, "behind")])
def test_a_wrong_clock_is_named_with_what_to_do(offset_s: int, says: str) -> None:
    date = formatdate(time.time() + offset_s, usegmt=True)
    answer = response(403, error("RequestTimeTooSkewed", "The difference ..."), Date=date)
    with outcome_of(READ, answer) as failure:
        found = re.search(
            r"this host's clock is ([\d,]+) s (.+) the store's.*: set it", failure.detail
        )
        assert found
        assert found[2] == says
        assert abs(int(found[1].replace(",", "")) - 1200) < 10


def test_a_copy_is_verified_by_its_etag() -> None:
    body = b"<CopyObjectResult><ETag>&quot;%s&quot;</ETag></CopyObjectResult>" % (b"0" * 32)
    with outcome_of(COPY, ok(body)) as timing:
        assert timing.status == 200
    with outcome_of(COPY, ok(body), ok(b"wrong"), verify=True) as failure:
        assert failure.kind is ErrorKind.CORRUPT
    with outcome_of(COPY, ok(body), response(404), verify=True) as failure:
        assert failure.kind is ErrorKind.CORRUPT
    # Under a key of KMS the ETag has as many digits, and is no MD5.
    encrypted = response(200, body.decode(), x_amz_server_side_encryption="aws:kms")
    with outcome_of(COPY, encrypted, verify=True) as timing:
        assert timing.status == 200


DELETED = b"<DeleteResult><Error><Key>%s</Key><Code>%s</Code></Error></DeleteResult>"
GONE = b"<DeleteResult/>"


def test_each_object_of_a_bulk_delete_has_an_outcome() -> None:
    key = b"ssbench_000001/tiny_000005"
    left = ok(DELETED % (key, b"AccessDenied"))
    with outcome_of(BULK_DELETE, left, bucket="b") as failure:
        assert (failure.kind, failure.status) == (ErrorKind.STATUS, 403)
        assert failure.timing.statuses == (204, 204, 403)
        assert failure.timing.items == 2
        assert "ssbench_000001/tiny_000005: 403" in failure.detail
    with outcome_of(BULK_DELETE, ok(DELETED % (key, b"NoSuchKey")), bucket="b") as timing:
        assert (timing.items, timing.statuses) == (3, ())


@pytest.mark.parametrize("record", [b"<Key>other</Key>", b"<Key></Key>", b""])
def test_an_error_of_no_requested_object_fails_a_bulk_delete(record: bytes) -> None:
    answer = ok(b"<DeleteResult><Error>%s<Code>AccessDenied</Code></Error></DeleteResult>" % record)
    with outcome_of(BULK_DELETE, answer, bucket="b") as failure:
        assert failure.kind is ErrorKind.PROTOCOL
        assert (failure.timing.status, failure.timing.statuses) == (200, ())
    with pytest.raises(StorageError) as caught:
        asked(lambda admin: admin.bulk_delete("ssbench_000000", ["a"]), answer)
    assert caught.value.kind is ErrorKind.PROTOCOL


def test_an_error_of_a_version_may_name_its_object_only() -> None:
    versions = [ListedVersion(*each, True, False) for each in ("a1", "a2", "b3", "c4")]
    prefix = "ssbench_000000/"
    errors = "".join(
        f"<Error><Key>{prefix}{key}</Key>{more}</Error>"
        for key, more in [
            ("a", "<Code>ServiceUnavailable</Code>"),
            ("b", "<VersionId>3</VersionId><Code>SlowDown</Code>"),
            ("a", "<Code>ServiceUnavailable</Code>"),
        ]
    )

    def left(text: str) -> list[tuple[str, str, bool]]:
        answer = ok(f"<DeleteResult>{text}</DeleteResult>".encode())
        found, _ = asked(
            lambda admin: admin.delete_versions("ssbench_000000", versions), answer, bucket="b"
        )
        return [(version.id, why, is_busy) for version, why, is_busy in found]

    busy = [("1", "ServiceUnavailable", True), ("3", "SlowDown", True)]
    assert left(errors) == [*busy, ("2", "ServiceUnavailable", True)]
    with pytest.raises(StorageError, match="errors of the versions that were requested"):
        left(errors + f"<Error><Key>{prefix}a</Key><Code>SlowDown</Code></Error>")


def test_a_bulk_delete_over_two_buckets_is_two_requests() -> None:
    with outcome_of(BULK_DELETE, ok(GONE), ok(GONE)) as timing:
        assert timing.items == 3
    # Objects 3 and 5 are in the first of them, 4 in the other.
    with outcome_of(BULK_DELETE, ok(GONE), response(403, error("AccessDenied"))) as failure:
        assert failure.status == 403
        assert failure.timing.statuses == (204, 0, 204)


@pytest.mark.parametrize("last", [ok(GONE), response(403, error("AccessDenied"))])
def test_a_bulk_delete_counts_the_reconnects_of_all_its_requests(last: bytes) -> None:
    scripts = answering(ok()), answering(ok(GONE), last)
    with stores.scripted_driver("s3", *scripts, paths=("",), sizes=SIZES) as (store, server):
        store.actions[READ](Job(1, READ, 0, 3, 0, 50), 0)
        server.wait_closed()
        try:
            found = store.actions[BULK_DELETE](Job(2, BULK_DELETE, 0, 3, 2, 50, others=(4,)), 0)
        except StorageError as failure:
            found = failure
    assert found.reconnects == 1


# --- Requests, as captured


@contextmanager
def capturing(**own: Any) -> Iterator[Callable[[int], dict[str, Any]]]:
    """Gives the request that the driver sends for an operation: method, path and query, headers by
    lower-case name, body."""

    def answer(request: Request) -> bytes:
        return ok(b"" if request.method == "HEAD" else b"<CopyObjectResult/>")

    with driver_on(answer, **own) as (store, heard):

        def capture(operation: int) -> dict[str, Any]:
            store.actions[operation](Job(1, operation, 0, 12, 2, 50, others=(13,)), 0)
            sent = heard.pop()
            assert heard == []
            return {
                **sent.headers, "method": sent.method, "target": sent.target, "body": sent.body,
            }  # fmt: skip

        yield capture


def captured(operation: int, **own: Any) -> dict[str, Any]:
    """One such request."""
    with capturing(**own) as capture:
        return capture(operation)


def signed_headers(sent: dict[str, Any]) -> list[str]:
    return str(sent["authorization"].split("SignedHeaders=")[1].split(",")[0]).split(";")


TOKEN = AwsKeys("AKID", "s3cret-key", "session/token==")


@pytest.mark.parametrize("keys", [KEYS, TOKEN])
@pytest.mark.parametrize("own", [
    {}, {"bucket": "b"}, {"bucket": "b", "style": "virtual"}, {"payload": "unsigned"},
])  # fmt: skip
def test_botocore_recomputes_the_signature_of_captured_requests(
    keys: AwsKeys, own: dict[str, str]
) -> None:
    with capturing(keys=keys, **own) as capture:
        for operation in (CREATE, READ, HEAD, COPY, DELETE):
            sent = capture(operation)
            signed = signed_headers(sent)
            moment = time.strptime(sent["x-amz-date"], "%Y%m%dT%H%M%SZ")
            now = time.mktime(moment) - time.timezone
            headers = {name: sent[name] for name in signed}
            url = f"http://{sent['host']}{sent['target']}"
            expected = recomputed(keys, "us-east-1", sent["method"], url, headers, now)
            assert sent["authorization"].replace(",", ", ") == expected
            assert {"host", "x-amz-content-sha256", "x-amz-date"} <= set(signed)
            assert ("x-amz-security-token" in signed) == bool(keys.token)
            body = "UNSIGNED-PAYLOAD" if own.get("payload") and operation == CREATE else None
            assert sent["x-amz-content-sha256"] == (body or sha256(sent["body"]).hexdigest())


ECHO = "x-amz-security-token: {0} Authorization: AWS4 SignedHeaders=host,Signature={1} {0}"


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize("size", [9, 60])
def test_an_endpoint_that_echoes_headers_tells_no_secret(status: int, size: int) -> None:
    """Nor the beginning of one, where the message is cut off."""
    keys = AwsKeys("AKID", "s3cret-key", "session/token&x==" * size)
    said = ECHO.format(keys.token.replace("&", "&amp;"), "0123456789abcdef" * 4)
    answer = response(status, error("ExpiredToken", said))
    secrets = Secrets({"token": keys.token})
    with outcome_of(COPY, answer, keys=keys) as failure:
        shown = secrets.masked(failure.detail)
        assert "ExpiredToken: x-amz-security-token: *** " in f"{shown} "
        for secret in ("session", "token&", "0123"):
            assert secret not in shown
    with pytest.raises(StorageError) as caught:
        asked(lambda admin: admin.list_objects("c_000000", "", 9), answer, keys=keys)
    assert "session/" not in secrets.masked(caught.value.detail)


def test_anonymous_requests_are_not_signed() -> None:
    sent = captured(READ, keys=None)
    assert not [name for name in sent if name == "authorization" or name.startswith("x-amz")]


CONTENT = b"".join(SyntheticSource(1 << 20).pieces(b"tiny_run1_000012", 2, 50))
SUM = b64encode(sha256(CONTENT).digest()).decode()


def test_an_upload_has_its_checksum_in_a_header_and_is_summed_once() -> None:
    sent = captured(CREATE, changes={"checksum": "sha256"})
    assert sent["x-amz-checksum-sha256"] == SUM
    assert sent["x-amz-sdk-checksum-algorithm"] == "SHA256"
    assert sent["x-amz-content-sha256"] == sha256(CONTENT).hexdigest()
    assert sent["body"] == CONTENT
    assert ";x-amz-checksum-sha256;" in sent["authorization"]
    checksum = b64encode(md5(CONTENT).digest()).decode()
    assert captured(CREATE, changes={"checksum": "md5"})["content-md5"] == checksum
    assert captured(READ, changes={"checksum": "sha256"})["x-amz-checksum-mode"] == "ENABLED"
    assert "x-amz-checksum-mode" not in captured(READ, changes={"checksum": "md5"})


def test_an_upload_has_its_checksum_behind_the_content() -> None:
    in_trailer = {"checksum": "sha256", "checksum_in": "trailer"}
    sent = captured(CREATE, changes=in_trailer)
    assert sent["body"] == (
        b"32\r\n" + CONTENT + b"\r\n0\r\nx-amz-checksum-sha256:" + SUM.encode() + b"\r\n\r\n"
    )
    assert int(sent["content-length"]) == len(sent["body"])
    assert sent["x-amz-decoded-content-length"] == "50"
    assert sent["content-encoding"] == "aws-chunked"
    assert sent["x-amz-trailer"] == "x-amz-checksum-sha256"
    assert sent["x-amz-content-sha256"] == "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
    with driver_on(ok(), changes=in_trailer) as (store, _):
        assert store.actions[CREATE](job(CREATE), 0).bytes_moved == 50


@pytest.mark.parametrize(
    ("stated", "kind"),
    [
        (SUM, None),
        (b64encode(bytes(32)).decode(), ErrorKind.CORRUPT),
        ("no base64", ErrorKind.CORRUPT),
        (f"{SUM[:-4]}AAA=-3", None),  # of the checksums of parts
    ],
)
@pytest.mark.parametrize("verify", [True, False])
def test_a_read_compares_the_checksum_that_the_store_states(
    stated: str, kind: ErrorKind | None, verify: bool
) -> None:
    answer = response(200, CONTENT, x_amz_checksum_sha256=stated)
    read = Job(1, READ, 0, 12, 2, 50)
    with driver_on(answer, verify=verify, changes={"checksum": "sha256"}) as (store, _):
        if kind is None:
            assert store.actions[READ](read, 0).bytes_moved == 50
            return
        with pytest.raises(StorageError, match="the store's checksum is") as caught:
            store.actions[READ](read, 0)
    assert caught.value.kind is kind


def test_the_key_of_sse_c_is_signed() -> None:
    name, key = "x-amz-server-side-encryption-customer-key", "A" * 43 + "="
    source = name.replace("x-amz", "x-amz-copy-source")
    with capturing(more={"customer_key": key}) as capture:
        for operation in (READ, HEAD, POST, COPY):
            sent = capture(operation)
            assert sent[name] == key
            assert f";{name};{name}-md5" in sent["authorization"]
            assert (source in sent) == (operation in (POST, COPY))
        assert "customer" not in str(capture(DELETE))


def test_the_expected_owner_of_the_bucket_is_signed() -> None:
    name, source = "x-amz-expected-bucket-owner", "x-amz-source-expected-bucket-owner"
    with capturing(bucket_owner="123456789012") as capture, capturing() as without:
        for operation in (CREATE, READ, HEAD, POST, COPY, DELETE):
            sent = capture(operation)
            assert sent[name] == "123456789012"
            assert name in signed_headers(sent)
            assert sent.get(source) == ("123456789012" if operation in (POST, COPY) else None)
            assert name not in without(operation)


NO_BUCKETS = b"<ListAllMyBucketsResult><Buckets/></ListAllMyBucketsResult>"


def test_administration_names_the_expected_owner_where_there_is_a_bucket() -> None:
    def answer(request: Request) -> bytes:
        if request.method in ("PUT", "DELETE"):
            return ok()
        if request.method == "HEAD":
            return response(404)
        return (
            response(404, error("NoSuchBucket")) if "ssbench" in request.target else ok(NO_BUCKETS)
        )

    with driver_on(answer, kind=open_admin, bucket_owner="123456789012") as (admin, heard):
        admin.make_container("ssbench_000001")
        admin.delete_object("ssbench_000001", "a")
        admin.list_containers("ssbench", "", 10)
    owned = {
        f"{each.method} {each.target.partition('?')[0]}": "x-amz-expected-bucket-owner"
        in each.headers
        for each in heard
    }
    assert owned.pop("DELETE /ssbench-000001/a")
    assert [target for target, is_sent in owned.items() if not is_sent] == [
        "PUT /ssbench-000001", "GET /",
    ]  # fmt: skip


def test_a_new_bucket_of_another_owner_than_expected_does_not_stay() -> None:
    """Clean-up would leave it alone, as the mark was refused."""
    buckets = set[str]()

    def answer(request: Request) -> bytes:
        path = request.target.partition("?")[0]
        bucket, _, key = path[1:].partition("/")
        if request.method == "PUT" and not key:
            buckets.add(bucket)
        elif bucket not in buckets:
            return response(404, error("NoSuchBucket"))
        elif "x-amz-expected-bucket-owner" in request.headers:
            return response(403, error("AccessDenied"))
        elif request.method == "DELETE":
            buckets.remove(bucket)
        return ok()

    with (
        driver_on(answer, kind=open_admin, bucket_owner="123456789012") as (admin, _),
        pytest.raises(StorageError, match=r"account 123456789012 \(--s3-bucket-owner\)"),
    ):
        admin.make_container("ssbench_000001")
    assert buckets == set()


@pytest.mark.parametrize("body", [error("AccessDenied"), b""])
@pytest.mark.parametrize("bucket", ["", "mine"])
def test_a_refusal_asks_whether_the_expected_owner_is_right(body: bytes, bucket: str) -> None:
    """Of a bucket that exists; a HEAD has no body."""
    own = {"bucket": bucket, "bucket_owner": "123456789012"}
    says = r"403[:;] (AccessDenied: m; )?does the bucket belong to account 1\d* \(--s3-bucket-owne"
    with driver_on(lambda request: response(403, body), kind=open_admin, **own) as (admin, _):
        with pytest.raises(StorageError, match=says):
            admin.make_container("ssbench_000001")
        with pytest.raises(StorageError, match=says):
            admin.container_info("ssbench_000001")


# --- Names


def test_headers_of_the_scenario_are_sent_and_those_of_s3_signed() -> None:
    lines = "x-amz-storage-class: GLACIER\r\nX-Other: 1\r\n"
    for operation in (CREATE, COPY):
        sent = captured(operation, headers=((operation, lines),))
        assert (sent["x-amz-storage-class"], sent["x-other"]) == ("GLACIER", "1")
        assert "x-amz-storage-class" in signed_headers(sent)
        assert "x-other" not in signed_headers(sent)
    assert "x-other" not in captured(READ, headers=((CREATE, lines),))
    alike = "x-amz-meta-foo: 1\r\nfoo: 1\r\n"
    assert captured(READ, headers=((READ, alike),))["foo"] == "1"


@pytest.mark.parametrize("bucket", [
    "my-photos", "photos-2024.example.org", "a--2db", "a--ff", "a--zz", "x---9",
    # Amazon refuses these; other stores may not.
    "My_Bucket", "ab", "a" * 255, "1.2.3.4", "a..b", "xn--b", "x_", "-x",
    # Of the form of our own.
    "logs_000001", "logs_000001_old", "A_000001",
])  # fmt: skip
def test_the_bucket_that_a_user_names_is_that_one(bucket: str) -> None:
    listed = {"kind": "listed", "containers": [bucket], "packed_names": pack_names(["a"] * 13)}
    assert captured(READ, changes={"names": listed})["target"] == f"/{bucket}/a"
    numbered = {"names": {"kind": "numbered", "prefix": "p-"}, "container_base": bucket}
    sent = captured(READ, changes={**numbered, "container_count": 1})
    assert sent["target"] == f"/{bucket}/p-12"
    buckets = f"<ListAllMyBucketsResult><Bucket><Name>{bucket}</Name></Bucket>"
    answer = ok(f"{buckets}</ListAllMyBucketsResult>".encode())
    with driver_on(answer, kind=open_admin, changes={"names": listed}) as (admin, _):
        assert [each.name for each in admin.list_containers("", "", 9)] == [bucket]


def test_a_bucket_of_another_client_is_listed_by_its_name_if_a_container_may_have_it() -> None:
    there = ["My_Bucket", "Bucket_000001", "1.2.3.4", "a--zz", "a.b-000001", "bücket"]
    named = "".join(f"<Bucket><Name>{each}</Name></Bucket>" for each in there)
    page = ok(f"<ListAllMyBucketsResult>{named}</ListAllMyBucketsResult>".encode())
    found, _ = asked(lambda admin: [each.name for each in admin.list_containers("", "", 9)], page)
    assert sorted(found) == ["1.2.3.4", "My_Bucket", "a--zz", "a.b-000001"]  # type: ignore[call-overload]


@pytest.mark.parametrize("bucket", ["My_Bucket", "a..b", "b-"])
def test_a_bucket_in_a_host_name_must_be_one(bucket: str) -> None:
    with pytest.raises(UsageError, match="Give --s3-style path"):
        captured(READ, bucket=bucket, style="virtual")


def test_neither_policies_nor_expiry_are_taken() -> None:
    own = {"urls": ("http://127.0.0.1:9",)}
    with pytest.raises(UsageError, match="no storage policies"):
        open_admin(StorageSettings("s3", placement="gold", store=own))
    with pytest.raises(UsageError, match="no delete_after"):
        open_store(StorageSettings("s3", delete_after_s=5, store=own))


@pytest.mark.parametrize(("region", "named"), [("us-east-1", False), ("eu-west-1", True)])
def test_a_bucket_is_made_in_the_region(region: str, named: bool) -> None:
    """Amazon refuses a bucket whose request names no region but the default, or names that."""

    def answer(request: Request) -> bytes:
        return ok() if request.method == "PUT" else response(404, error("NoSuchBucket"))

    with driver_on(answer, kind=open_admin, region=region) as (admin, heard):
        assert admin.make_container("ssbench_000001") is None
    bodies = [each.body for each in heard if each.head.startswith("PUT /ssbench-000001 ")]
    constraint = f"<LocationConstraint>{region}</LocationConstraint>"
    inside = f"<CreateBucketConfiguration>{constraint}</CreateBucketConfiguration>"
    assert bodies == [inside.encode() if named else b""]


# --- Listings of containers and prefixes


def asked(
    call: Callable[[Any], object], *answers: bytes, **own: Any
) -> tuple[object, list[Request]]:
    """What the driver's cold half makes of these responses, and what it sent."""
    with driver_on(*answers, kind=open_admin, **own) as (admin, heard):
        return call(admin), heard


def compressed(said: bytes, coding: str = "gzip") -> bytes:
    """The same response, compressed."""
    body = gzip.compress(said.partition(b"\r\n\r\n")[2])
    return ok(body, f"Content-Encoding: {coding}".encode())


def test_a_listing_that_comes_compressed_unasked_is_read() -> None:
    page = compressed(listing_page("a", "b"))
    found, _ = asked(lambda admin: admin.list_objects("ssbench_000000", "", 10), page)
    assert [entry.name for entry in found] == ["a", "b"]  # type: ignore[attr-defined]
    with outcome_of(LIST, page) as timing:
        assert timing.items == 2
    with outcome_of(LIST, compressed(listing_page(), "br")) as failure:
        assert "Content-Encoding br, which was not requested" in failure.detail
    with outcome_of(
        READ, compressed(response(404, error("NoSuchKey"))).replace(b"200", b"404")
    ) as no:
        assert "NoSuchKey" in no.detail


def test_a_compressed_listing_has_the_limit_of_any_other() -> None:
    bomb = compressed(ok(bytes(LISTING_MAX + 1)))
    with outcome_of(LIST, bomb) as failure:
        assert failure.kind is ErrorKind.OVERLONG


def listing_page(*names: str, token: str = "", more: str = "") -> bytes:
    """A page of a listing, which is truncated."""
    entries = "".join(f"<Contents><Key>{name}</Key><Size>1</Size></Contents>" for name in names)
    next_token = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    return ok(
        f"<ListBucketResult><IsTruncated>true</IsTruncated>{next_token}{entries}{more}"
        "</ListBucketResult>".encode()
    )


@pytest.mark.parametrize("marker", ["", ".ssbench", "tiny_000001"])
def test_a_listing_that_stands_still_is_refused(marker: str) -> None:
    """Its marker does not go back to the mark, either: the names before it would come again."""
    pages = [listing_page(), listing_page(), listing_page("a")]
    with pytest.raises(StorageError) as caught:
        asked(lambda admin: admin.list_objects("ssbench_000000", marker, 10), *pages)
    assert caught.value.kind is ErrorKind.PROTOCOL


@pytest.mark.parametrize("call", [
    lambda admin: admin.list_objects("ssbench_000000", "", 10),
    lambda admin: admin.list_containers("ssbench", "", 10),
])  # fmt: skip
def test_names_of_another_prefix_are_refused(call: Callable[[StoreAdmin], object]) -> None:
    prefix = "<CommonPrefixes><Prefix>other/</Prefix></CommonPrefixes>"
    with pytest.raises(StorageError, match="of the prefix that was requested"):
        asked(call, listing_page("other/x", more=prefix), bucket="b")


@pytest.mark.parametrize("version", ["", "<VersionId></VersionId>"])
def test_a_list_of_versions_without_ids_is_refused(version: str) -> None:
    """Their deletion would be that of the objects."""
    entry = f"<Version><Key>tiny_000001</Key>{version}<IsLatest>false</IsLatest></Version>"
    page = ok(f"<ListVersionsResult>{entry}</ListVersionsResult>".encode())
    with pytest.raises(StorageError, match="expected an id of each version"):
        asked(lambda admin: admin.list_versions("ssbench_000000", None), page)


@pytest.mark.parametrize("of_mark", [False, True])
def test_a_listing_of_versions_that_advances_without_end_ends(of_mark: bool) -> None:
    """Also where its pages are empty. That of the versions of the mark comes last."""
    numbers = itertools.count(1)

    def answer(request: Request) -> bytes:
        if "uploads" in request.target:
            return ok(b"<ListMultipartUploadsResult/>")
        if "versioning" in request.target:
            return ok(
                b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
            )
        if "versions" not in request.target:
            contents = b"<Contents><Key>ssbench_000000/.ssbench</Key><Size>0</Size></Contents>"
            return ok(b"<ListBucketResult>" + contents + b"</ListBucketResult>")
        if of_mark and ".ssbench" not in request.target.partition("prefix=")[2]:
            return ok(b"<ListVersionsResult/>")
        return ok(
            b"<ListVersionsResult><IsTruncated>true</IsTruncated><NextKeyMarker>z</NextKeyMarker>"
            b"<NextVersionIdMarker>%d</NextVersionIdMarker></ListVersionsResult>" % next(numbers)
        )

    with (
        driver_on(
            answer, kind=open_admin, changes={"listed_max": 20_000}, bucket="b"
        ) as (admin, heard),
        pytest.raises(StorageError, match=r"no end after 21,000 .* --max-listed"),
    ):  # fmt: skip
        admin.delete_container("ssbench_000000")
    assert next(numbers) == 22
    assert len(heard) < 30


@pytest.mark.parametrize("tokens", ["aa", "aba"])
def test_a_listing_of_prefixes_with_a_repeated_token_is_refused(tokens: str) -> None:
    prefix = "<CommonPrefixes><Prefix>ssbench_000000/</Prefix></CommonPrefixes>"
    pages = [listing_page(token=token, more=prefix) for token in tokens]
    pages.append(ok(f"<ListBucketResult>{prefix}</ListBucketResult>".encode()))
    with pytest.raises(StorageError) as caught:
        asked(lambda admin: admin.list_containers("", "", 10), *pages, bucket="b")
    assert caught.value.kind is ErrorKind.PROTOCOL


def test_a_listing_of_prefixes_that_advances_without_end_ends() -> None:
    tokens = itertools.count(1)

    def page(request: Request) -> bytes:
        names = "".join(
            f"<CommonPrefixes><Prefix>{number}/</Prefix></CommonPrefixes>" for number in range(10)
        )
        return listing_page(token=f"t{next(tokens)}", more=names)

    changes = {"listed_max": 20_000}
    with (
        driver_on(page, kind=open_admin, changes=changes, bucket="b") as (admin, heard),
        pytest.raises(StorageError, match=r"^b: .* no end after 21,000 .* --max-listed"),
    ):
        admin.list_containers("", "", 10)
    assert len(heard) == 21  # a page counts as a full one


# --- Buckets


@contextmanager
def admin_of(server: Buckets) -> Iterator[StoreAdmin]:
    with driver_on(server, kind=open_admin) as (admin, _):
        yield admin


def test_a_bucket_that_another_master_makes_at_this_moment_is_no_failure() -> None:
    for there, status in ((True, 409), (False, 409), (True, 403)):
        server = Buckets(**{"PUT_b-000001": status})
        server.faults["GET /b-000001"] = 404
        if there:
            server.paths.add("/b-000001")
        with admin_of(server) as admin:
            if (there, status) == (True, 409):
                assert admin.make_container("b_000001") is None
                assert "/b-000001/.ssbench" in server.paths
            else:
                with pytest.raises(StorageError) as caught:
                    admin.make_container("b_000001")
                assert caught.value.status == (0 if status == 409 else 403)
                assert "/b-000001/.ssbench" not in server.paths


@pytest.mark.parametrize("marked", [True, False])
def test_a_bucket_that_can_not_be_deleted_keeps_its_mark(marked: bool) -> None:
    server = Buckets("/b-000001", **{"DELETE_b-000001": 409})
    if marked:
        server.paths.add("/b-000001/.ssbench")
    before = {*server.paths}
    with admin_of(server) as admin:
        with pytest.raises(StorageError) as caught:
            admin.delete_container("b_000001")
        assert caught.value.status == 409
        assert server.paths == before
        assert admin.delete_container("b_000001")
        assert server.paths == set()
        assert not admin.delete_container("b_000001")


@pytest.mark.parametrize(("status", "deleted"), [(403, True), (501, True), (500, False)])
def test_a_store_may_have_no_listing_of_uploads(status: int, deleted: bool) -> None:
    server = Buckets("/b-000001", "/b-000001/.ssbench")
    server.said["uploads="] = response(status)
    with admin_of(server) as admin:
        if deleted:
            assert admin.delete_container("b_000001")
        else:
            with pytest.raises(StorageError, match="500"):
                admin.delete_container("b_000001")
    assert ("/b-000001" in server.paths) != deleted


def test_a_store_without_version_2_of_listings_keeps_nothing() -> None:
    server = Buckets()

    def version_1(request: Request) -> bytes:
        said = server(request)
        return ok(b"<ListBucketResult><Marker/></ListBucketResult>") if b"<List" in said else said

    with (
        driver_on(version_1, kind=open_admin) as (admin, _),
        pytest.raises(StorageError, match="no ListObjectsV2"),
    ):
        admin.make_container("b_000001")
    assert server.paths == set()


def test_a_list_of_buckets_may_have_another_root() -> None:
    buckets = b"<All><Buckets><Bucket><Name>ssbench-000000</Name></Bucket></Buckets></All>"
    with driver_on(ok(buckets), ok(b"<html></html>"), kind=open_admin) as (admin, _):
        assert [each.name for each in admin.list_containers("", "", 9)] == ["ssbench_000000"]
        with pytest.raises(StorageError, match="expected ListAllMyBucketsResult in XML, and this"):
            admin.list_containers("", "", 9)
