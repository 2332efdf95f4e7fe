"""S3's XML: listings, multi-deletes, errors; whatever the bytes are."""

from __future__ import annotations

import re
import tracemalloc
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import pytest

from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind, Timing
from ssbench.storage.s3.bodies import (
    ItemCounter,
    S3Error,
    Xml,
    delete_request,
    region_of,
    time_of,
)

TIMING = Timing(1, 1, 1, 0, 200)
NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'


def listing(*names: str, prefixes: tuple[str, ...] = (), more: str = "") -> bytes:
    entries = "".join(
        f"<Contents><Key>{escape(name)}</Key><Size>7</Size><Owner><ID>me</ID></Owner></Contents>"
        for name in names
    )
    found = "".join(
        f"<CommonPrefixes><Prefix>{each}</Prefix></CommonPrefixes>" for each in prefixes
    )
    text = f"<ListBucketResult {NAMESPACE}><Name>b</Name>{more}{entries}{found}</ListBucketResult>"
    return b"<?xml version='1.0' encoding='UTF-8'?>\n" + text.encode() + b"\n"


QUOTED = "<EncodingType>url</EncodingType>"


def in_namespace(data: bytes) -> bytes:
    """The same with a prefix at each tag."""
    return re.sub(rb"<(/?)(?=[A-Za-z])", rb"<\1s3:", data).replace(b" xmlns=", b" xmlns:s3=")


DELETED = (
    f"<DeleteResult {NAMESPACE}><Deleted><Key>a</Key></Deleted>"
    "<Error><Key>b &amp; c</Key><Code>AccessDenied</Code><Message>no</Message></Error>"
    "<Error><Key>d</Key><Code>NoSuchKey</Code></Error>"
    "<Error><Key>e</Key><Code>Strange</Code></Error></DeleteResult>"
).encode()
ERROR = b"<Error><Code>SlowDown</Code><Message>Reduce your &lt;rate&gt;.</Message></Error>"
#: Of the corpus for mutations.
RESPONSES = [
    listing("a", "b&c", prefixes=("p/",), more="<IsTruncated>true</IsTruncated>"),
    DELETED,
    ERROR,
    b"<ListAllMyBucketsResult><Buckets><Bucket><Name>b</Name></Bucket></Buckets>"
    b"</ListAllMyBucketsResult>",
    b"<!DOCTYPE x [<!ENTITY a 'b'>]><x>&a;</x>",
    b"<ListMultipartUploadsResult><Upload><Key>k</Key><UploadId>i</UploadId><Initiator><ID>m</ID>"
    b"</Initiator><Initiated>2026-01-02T03:04:05.000Z</Initiated></Upload>"
    b"</ListMultipartUploadsResult>",
    b"<InitiateMultipartUploadResult><UploadId>i</UploadId></InitiateMultipartUploadResult>",
    b"<CopyPartResult><ETag>&quot;e&quot;</ETag></CopyPartResult>",
]


def parsed(data: bytes, limit: int = 10) -> Xml:
    xml = Xml(limit)
    xml.feed(memoryview(data))
    return xml


@pytest.mark.parametrize("data", [
    b"", b"<", listing("x")[:-20], listing("x") + b"<more/>", b"not XML",
    b"<Other></Other>", listing("x", "y", "z"), listing("n" * 17_000),
    b"<!DOCTYPE x [<!ENTITY a 'b'>]><ListBucketResult>&a;</ListBucketResult>",
    b"<ListBucketResult>" + b"<a>" * 40 + b"</a>" * 40 + b"</ListBucketResult>",
])  # fmt: skip
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(StorageError) as caught:
        parsed(data, limit=2).check("ListBucketResult", TIMING)
    assert caught.value.kind is ErrorKind.PROTOCOL


@pytest.mark.parametrize("step", [1, 13, 300, 100_000])
def test_entries_are_counted_without_marks(step: int) -> None:
    names = [f"c/{number:03d}" for number in range(300)]
    quoted = [name.replace("/", "%2F") for name in ("c/.ssbench", *names)]
    for data in (
        listing("c/.ssbench", *names, "c/not.ssbench", prefixes=("c/p/", "c/q/")),
        listing(*quoted, "c%2Fnot.ssbench", prefixes=("c%2Fp/", "c%2Fq/"), more=QUOTED),
        in_namespace(listing("c/.ssbench", *names, "c/x & y", prefixes=("c/p/", "c/q/"))),
    ):
        counter = ItemCounter("c/", "c/", 1000)
        for start in range(0, len(data), step):
            counter.feed(memoryview(data)[start : start + step])
        counter.check(TIMING)
        assert counter.items == 303


@pytest.mark.parametrize(("data", "says"), [
    (b"", "expected a listing"),
    (ERROR, "expected a listing"),
    (listing("a")[:-9], "expected a listing"),
    (listing("a", "b", "c"), "3 entries, where 2 were requested"),
    (listing("a", "b", "a0"), "3 entries, where 2 were requested"),
    (listing("a", "b"), "1 name outside of the prefix"),
    (listing("a1", prefixes=("b/",)), "1 name outside of the prefix"),
    (listing("a1", "a1"), "not in order, or there twice"),
    (listing(".ssbench", "a1"), "1 name outside of the prefix"),
    (in_namespace(listing("a2", "a1")), "not in order, or there twice"),
    (listing("a%2B", "a%2A", more=QUOTED), "not in order, or there twice"),
    (listing("a1").replace(b"Key>", b"Name>"), "an entry without a name"),
])  # fmt: skip
def test_a_page_that_is_none_is_refused(data: bytes, says: str) -> None:
    counter = ItemCounter("a", "", 2)
    counter.feed(memoryview(data))
    with pytest.raises(StorageError, match=re.escape(says)) as caught:
        counter.check(TIMING)
    assert caught.value.timing == TIMING


def test_a_mark_that_is_there_twice_is_refused() -> None:
    counter = ItemCounter("c/", "c/", 9)
    counter.feed(memoryview(listing("c/.ssbench", "c/.ssbench", "c/a")))
    with pytest.raises(StorageError, match="not in order, or there twice"):
        counter.check(TIMING)


def test_a_message_that_repeats_the_code_is_said_once() -> None:
    assert str(S3Error("NotImplemented", "NotImplemented")) == "NotImplemented"
    assert str(S3Error("NoSuchKey", "It is gone")) == "NoSuchKey: It is gone"


@pytest.mark.parametrize(
    ("said", "region"),
    [("eu-west-1", "eu-west-1"), ("", ""), ("a/b", ""), ("x" * 65, ""), ("a\nb", "")],
)
def test_a_region_is_a_short_word(said: str, region: str) -> None:
    """It is part of what is signed, and of messages."""
    assert region_of(S3Error(region=said), {}) == region
    assert region_of(S3Error(), {"x-amz-bucket-region": said}) == region


def test_a_store_reads_the_very_keys_that_are_to_be_deleted() -> None:
    keys = ["a\rb", "a\r\nb", "a\nb", " a\t<&>]]> ", "&#13;"]
    root = ElementTree.fromstring(delete_request(keys))
    assert [each.findtext("Key") for each in root.findall("Object")] == keys


@pytest.mark.parametrize(("text", "expected"), [
    ("2026-01-02T03:04:05.000Z", 1767323045.0), ("2026-01-02T03:04:05Z", 1767323045.0),
    ("2026-01-02T05:04:05+02:00", 1767323045.0), ("", 0.0), ("yesterday", 0.0),
    ("0001-01-01T00:00:00Z", 0.0),
])  # fmt: skip
def test_times_of_listings(text: str, expected: float) -> None:
    assert time_of(text) == expected


@pytest.mark.parametrize("begin", [b"", listing()[:-20]], ids=["no listing", "a listing"])
def test_an_entry_without_end_is_not_held(begin: bytes) -> None:
    counter, piece = ItemCounter("", "", 9), memoryview(bytes(1 << 16))
    counter.feed(memoryview(begin))
    tracemalloc.start()
    try:
        for _ in range(32):
            counter.feed(piece)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 500_000
    with pytest.raises(StorageError):
        counter.check(TIMING)
