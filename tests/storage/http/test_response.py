from __future__ import annotations

import gzip
from contextlib import suppress

import pytest

from ssbench.storage.http.response import (
    BadResponse,
    ChunkedBody,
    Collector,
    HeadPatternCache,
    parse_head,
)
from tests.corpus import recorded

SWIFT_GET = (
    b"HTTP/1.1 200 OK\r\n"
    b"content-type: application/octet-stream\r\n"
    b"etag: 620f0b67a91f7f74151bc5be745b7110\r\n"
    b"last-modified: Fri, 20 Nov 2026 18:09:12 GMT\r\n"
    b"accept-ranges: bytes\r\n"
    b"x-timestamp: 1795198151.34567\r\n"
    b"content-length: 4096\r\n"
    b"x-trans-id: tx5d5d1d8e3c5b4b8d9d2a1-00691f5b07-extra\r\n"
    b"x-openstack-request-id: tx5d5d1d8e3c5b4b8d9d2a1-00691f5b07-extra\r\n"
    b"date: Fri, 20 Nov 2026 18:09:13 GMT\r\n\r\n"
)
NGINX_PUT = (
    b"HTTP/1.1 201 Created\r\nServer: nginx/1.22.1\r\nDate: Fri, 20 Nov 2026 18:28:33 GMT\r\n"
    b"Content-Length: 0\r\nLocation: http://127.0.0.1/x\r\nConnection: keep-alive\r\n"
    b"X-Trans-Id: tx9ceed9b0b25c69f5d5539c1fc29a9d30\r\n\r\n"
)
S3_GET = (
    b"HTTP/1.1 200 OK\r\nx-amz-id-2: abc\r\nx-amz-request-id: 4442587FB7D0A2F9\r\n"
    b"Content-Length: 17\r\nServer: AmazonS3\r\n\r\n"
)
#: Responses of the usual form, as real servers send them.
USUAL = [
    SWIFT_GET,
    NGINX_PUT,
    S3_GET,
    b"HTTP/1.1 204 No Content\r\nX-Trans-Id: tx1\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\nContent-Length: 12\r\n\r\n",
    b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html; charset=UTF-8\r\n"
    b"Content-Length: 70\r\nX-Trans-Id: txAbC\r\n\r\n",
    b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
    b"HTTP/1.1 200\r\nContent-Length: 5\r\n\r\n",
    b"HTTP/1.1 503 \r\ncontent-length:0\r\nx-openstack-request-id:tx2\r\n\r\n",
]
#: Responses that only parse_head accepts.
UNUSUAL = [
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX!Trans-Id: 1\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n\r\n",
    b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nConnection: close\r\nContent-Length: 5\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n , close\r\nContent-Length: 5\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Trans-Id: tx1\r\n\tfolded\r\n\r\n",
]
#: No HTTP, or without a valid length.
BAD = [
    b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    b"\x16\x03\x01\x02\x00\r\n\r\n",
    b"HTTP/2 200\r\n\r\n",
    b"HTTP/1.1 2000 OK\r\nContent-Length: 5\r\n\r\n",
    b"HTTP/1.1 600 OK\r\nContent-Length: 5\r\n\r\n",
    b"HTTP/1.1 099 OK\r\nContent-Length: 5\r\n\r\n",
    b"HTTP/1.1 OK\r\nContent-Length: 5\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n 6\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 19 + b"\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
]
_ALIKE = b'HTTP/1.1 200 O%bK\r\nContent-Length: 5\r\nX-Trans-Id: tx%b\r\nETag: "%ba"\r\n\r\n'
ALIKE = _ALIKE % (b"", b"", b"")
#: With what would end the header line where such a value is sent back.
STRAY = [
    _ALIKE % places
    for stray in (b"\n", b"\r", b"\0", b"\n\n")
    for places in ((stray, b"", b""), (b"", stray, b""), (b"", b"", stray + b"X-Other: 1"))
]


def taught(*heads: bytes, bodiless: bool = False) -> HeadPatternCache:
    head_patterns = HeadPatternCache(bodiless=bodiless)
    for head in heads:
        head_patterns.learn(head)
    return head_patterns


@pytest.mark.parametrize("head", USUAL)
def test_a_learned_pattern_parses_the_head(head: bytes) -> None:
    data = head + b"body\r\n\r\nbody"
    assert HeadPatternCache().read(bytearray(data), len(data)) is None
    fast = taught(head).read(bytearray(data), len(data))
    assert fast is not None
    assert fast == parse_head(data)[0]
    assert fast.end == len(head)


@pytest.mark.parametrize("head", UNUSUAL)
def test_unusual_heads_are_not_learned(head: bytes) -> None:
    assert taught(head).read(bytearray(head), len(head)) is None


@pytest.mark.parametrize("head", [*BAD, *STRAY])
def test_invalid_heads_are_rejected(head: bytes) -> None:
    with pytest.raises(BadResponse):
        parse_head(head)
    with pytest.raises(BadResponse):
        HeadPatternCache().learn(head)


@pytest.mark.parametrize("head", STRAY)
def test_no_pattern_matches_a_value_that_would_end_its_line(head: bytes) -> None:
    known = taught(ALIKE)
    assert known.read(bytearray(ALIKE), len(ALIKE)) is not None
    assert known.read(bytearray(head), len(head)) is None


def test_the_number_of_patterns_is_bounded() -> None:
    heads = [b"HTTP/1.1 204 X\r\nX-%d: 1\r\n\r\n" % number for number in range(100)]
    large = b"HTTP/1.1 204 X\r\nX: %b\r\n\r\n" % (b"x" * 60_000)
    head_patterns = taught(large, *heads)
    known = [head_patterns.read(bytearray(head), len(head)) for head in (large, *heads)]
    assert [head is not None for head in known] == [False] + [True] * 32 + [False] * 68


def read_alike(data: bytes) -> None:
    """Invariant: read(x) is None or parse_head(x)[0] == read(x), whatever was learned before.

    ``data`` is a response to learn from, b"\\0\\0", and a response to read. Each is taken as one
    to GET and as one to HEAD.
    """
    shown, _, read = data.partition(b"\0\0")
    for bodiless in (False, True):
        head_patterns = taught(*USUAL, bodiless=bodiless)
        with suppress(BadResponse):
            head_patterns.learn(shown)
        for candidate in (shown, read):
            fast = head_patterns.read(bytearray(candidate), len(candidate))
            if fast is not None:
                assert parse_head(candidate, bodiless=bodiless)[0] == fast


TWO_HEADS = [head + b"\0\0" + head for head in (*USUAL, *recorded("answers"))]


@pytest.mark.parametrize(
    "data",
    [
        b"\r\n",
        b"xyz\r\n",
        b"-5\r\n",
        b"0x5\r\nhello\r\n",
        b"5\nhello\r\n",
        b"5\r\nhello!\r\n",
        b"1" * 16 + b"\r\n",
        b"5;" + b"x" * 2000 + b"\r\n",
        b"0\r\n" + b"X: 12345678901234567890\r\n" * 4000,
        b"1\r\nx\r\n" * 5000,
    ],
)
def test_bad_chunks_are_rejected(data: bytes) -> None:
    with pytest.raises(BadResponse):
        ChunkedBody().feed(memoryview(data))


def test_what_follows_a_compressed_body_is_rejected_at_once() -> None:
    """zlib keeps it: 50 MiB that a store sent behind two bytes took 5 s of CPU and 100 MB."""
    body = Collector()
    body.headers = {"content-encoding": "gzip"}
    body.add(memoryview(gzip.compress(b"[]")))
    with pytest.raises(BadResponse, match="more follows its end"):
        body.add(memoryview(b"x"))
    assert body.body == b"[]"
