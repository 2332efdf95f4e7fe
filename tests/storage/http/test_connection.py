"""The engine against servers that do what they like."""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from functools import cache, partial
from random import Random
from threading import Event
from time import perf_counter_ns
from typing import Any, NamedTuple

import pytest

from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind
from ssbench.storage.http.connection import Connection, EndpointState, Upload
from ssbench.storage.http.response import (
    HEAD_ONLY,
    BadResponse,
    Collector,
    HeadPatternCache,
    RangeCollector,
)
from tests.corpus import recorded
from tests.fakes.piecewise_stream import PiecewiseStream
from tests.fakes.scripted_server import Peer, Script, answering, ok
from tests.fakes.served_pool import (
    CHUNKED,
    HEAD,
    PUT,
    START,
    ask,
    big_upload,
    endless,
    failure,
    saying,
    serving,
)
from tests.fakes.terminal import must_be_line

BODY = b"0123456789" * 500
CHUNKS = b"1000\r\n" + BODY[:4096] + b"\r\n388;x=y\r\n" + BODY[4096:] + b"\r\n0\r\nT: 1\r\n\r\n"

#: The same answer in every form that HTTP/1.1 has for it.
FORMS = {
    "usual": [ok(BODY, b"X-Trans-Id: tx1")],
    "head and body apart": [ok(BODY, b"X-Trans-Id: tx1")[:-5000], BODY],
    "byte by byte": [bytes([byte]) for byte in ok(BODY, b"X-Trans-Id: tx1")[:80]]
    + [ok(BODY, b"X-Trans-Id: tx1")[80:]],
    "interim responses": [b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Wait\r\nA: b\r\n\r\n"
                        + ok(BODY, b"X-Trans-Id: tx1")],
    "chunked": [b"HTTP/1.1 200 OK\r\nx-trans-id:tx1\r\nTransfer-Encoding:chunked\r\n\r\n" + CHUNKS],
    "chunks apart": [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Trans-Id: tx1\r\n\r\n",
                     CHUNKS[:3], CHUNKS[3:2000], CHUNKS[2000:4104], CHUNKS[4104:-3], CHUNKS[-3:]],
    "until close": [b"HTTP/1.1 200 OK\r\nX-Trans-Id: tx1\r\n\r\n" + BODY[:5], BODY[5:]],
    "HTTP/1.0": [b"HTTP/1.0 200 OK\r\nX-Trans-Id: tx1\r\nContent-Length: 5000\r\n\r\n" + BODY],
    "folded": [b"HTTP/1.1 200 OK\r\nX-Trans-Id:\r\n tx1\r\nContent-Length: 5000\r\n\r\n" + BODY],
    "huge headers": [ok(BODY, *[b"X-Filler: " + b"x" * 1000] * 60, b"X-Trans-Id: tx1")],
}  # fmt: skip

PARTIAL = (
    b"HTTP/1.1 206 Partial Content\r\nContent-Length: 5\r\ncontent-range: bytes 10-14/99\r\n"
    b"X-Trans-Id: tx1\r\n\r\nhello"
)


@pytest.mark.parametrize("form", FORMS)
def test_a_collector_gets_headers_and_body_of_every_form(form: str) -> None:
    collector = Collector(10_000)
    with serving(saying(*FORMS[form], pause_s=0.0005)) as (_, pool):
        assert pool.request(HEAD, None, 0, collector).bytes_moved == 5000
    assert bytes(collector.body) == BODY
    assert collector.headers["x-trans-id"].strip() == "tx1"


def test_headers_that_do_not_end_are_an_error() -> None:
    with (
        serving(saying(b"HTTP/1.1 200 OK\r\nX: ", b"x" * (64 << 10), b"x" * 64)) as (_, pool),
        pytest.raises(StorageError, match="headers of more than 65536 bytes") as caught,
    ):
        pool.request(HEAD, None, 0, Collector())
    assert caught.value.kind is ErrorKind.PROTOCOL


def test_headers_that_do_not_end_are_an_error_during_an_upload_too() -> None:
    def script(peer: Peer) -> None:
        peer.hear()
        peer.say(b"HTTP/1.1 200 OK\r\nX: " + b"x" * (64 << 10))
        peer.linger()  # and reads no more of the upload

    upload = big_upload()
    with (
        serving(script, network_timeout_s=60.0) as (_, pool),
        pytest.raises(StorageError, match="headers of more than 65536 bytes"),
    ):
        pool.request(PUT % upload.size, upload)


def test_small_chunks_reach_a_collector_together() -> None:
    """One at a time, a listing of 1 MiB in chunks of 64 bytes took 1.6 s of CPU, of 64 MiB 100."""
    fed: list[int] = []

    class Counted(Collector):
        def feed(self, data: bytes | memoryview) -> None:
            fed.append(len(data))

    start = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    said = start + b"40\r\n%b\r\n" % (b"x" * 64) * 20_000 + b"0\r\n\r\n"
    stream = PiecewiseStream(said, lambda: 65536)
    connection = Connection(stream, EndpointState("h:80", 0, True))  # type: ignore[arg-type]
    assert connection.request(HEAD, None, 0, Counted(1 << 21)).bytes_moved == sum(fed) == 1_280_000
    assert len(fed) == -(-len(said) // 65536)


def test_each_time_is_that_of_the_receive_which_brought_it() -> None:
    pieces = [b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n", b"ab", b"cd"]
    later_ns = perf_counter_ns() + 10**9
    arrivals = iter((later_ns + 10, later_ns + 20, later_ns + 30))
    sizes = map(len, pieces)
    stream = PiecewiseStream(b"".join(pieces), sizes.__next__)
    stream.arrived_ns = arrivals.__next__  # type: ignore[method-assign]
    timing = Connection(stream, EndpointState("h:80", 0, True)).request(HEAD, None, 0, None)  # type: ignore[arg-type]
    times_ns = timing.headers_ns, timing.first_byte_ns, timing.last_byte_ns
    assert times_ns == (later_ns + 10, later_ns + 20, later_ns + 30)


@pytest.mark.parametrize("collector", [None, Collector()])
@pytest.mark.parametrize("read_at_once", [20, 1000])
def test_a_response_that_was_there_before_its_request_answers_another(
    collector: Collector | None, read_at_once: int
) -> None:
    """A store that sends a response too many: the kernel's time of arrival shows it."""
    early_ns = perf_counter_ns() - 10**6
    for sign in (1, -1):  # negative: read late
        stream = PiecewiseStream(ok(b"two"), lambda: read_at_once)
        stream.arrived_ns = lambda sign=sign: sign * early_ns  # type: ignore[method-assign]
        with pytest.raises(StorageError, match="a response that was there before its reque") as e:
            Connection(stream, EndpointState("h:80", 0, True)).request(HEAD, None, 0, collector)  # type: ignore[arg-type]
        assert e.value.kind is ErrorKind.PROTOCOL


@pytest.mark.parametrize(
    "surplus",
    [ok(b"two"), ok(b"two")[:20], b"x", b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"],
)
def test_a_response_that_was_there_before_a_long_upload_answers_another(surplus: bytes) -> None:
    read, sent = Event(), Event()

    def script(peer: Peer) -> None:
        peer.hear()
        peer.say(ok(b"one"))
        read.wait(60)
        peer.say(surplus)
        sent.set()
        peer.linger()

    with serving(script) as (_, pool):
        assert pool.request(HEAD, None).bytes_moved == 3
        read.set()
        sent.wait(60)
        upload = big_upload()
        with pytest.raises(StorageError, match="a response that was there before its request") as e:
            pool.request(PUT % upload.size, upload)
    assert e.value.kind is ErrorKind.PROTOCOL


def test_the_range_of_each_response_is_its_own_on_the_fast_path_too() -> None:
    usual = PARTIAL.replace(b"10-14", b"%d-%d")
    responses = [usual % (n, n + 4) for n in range(3)]
    unlike = PARTIAL.replace(b"X-Trans-Id: tx1", b"Content-Range: bytes 1-5/99")
    with serving(answering(*responses, unlike, PARTIAL)) as (server, pool):
        found = []
        for _ in range(5):
            collector = RangeCollector(5)
            timing = pool.request(HEAD, None, 0, collector)
            assert (timing.status, timing.bytes_moved) == (206, 5)
            found.append(collector.headers["content-range"])
        assert server.connections == 1
    assert found == [
        "bytes 0-4/99", "bytes 1-5/99", "bytes 2-6/99", "bytes 10-14/99, bytes 1-5/99",
        "bytes 10-14/99",
    ]  # fmt: skip


def test_bytes_behind_the_response_to_head_are_an_error() -> None:
    usual = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
    with serving(answering(usual, usual + b"no")) as (_, pool):
        pool.request(HEAD, None, 0, HEAD_ONLY)
        with pytest.raises(StorageError, match="2 bytes more than the announced 0"):
            pool.request(HEAD, None, 0, HEAD_ONLY)


# --- faults


def resetting(*said: bytes) -> Script:
    def script(peer: Peer) -> None:
        peer.hear()
        for part in said:
            peer.say(part)
        time.sleep(0.01)
        peer.reset()

    return script


IDENTIFIED = b"HTTP/1.1 200 OK\r\nX-Trans-Id: tx1\r\nContent-Length: 100\r\n\r\n"
FAULTS: dict[str, tuple[Script, ErrorKind, str]] = {
    "closed at once": (lambda peer: None, ErrorKind.DISCONNECTED, "reset|closed unanswered"),
    "closed unanswered": (
        lambda peer: bool(peer.hear()), ErrorKind.DISCONNECTED, "closed unanswered"),
    "reset unanswered": (resetting(), ErrorKind.DISCONNECTED, "connection reset by peer"),
    "closed in the headers": (saying(START[:20]), ErrorKind.RESET, "in the headers"),
    "closed in the body": (saying(START + b"half"), ErrorKind.TRUNCATED, "4 of 100"),
    "reset in the body": (resetting(START + b"half"), ErrorKind.RESET, "connection reset"),
    "closed before the body": (saying(START), ErrorKind.TRUNCATED, "0 of 100"),
    "closed in chunks": (saying(CHUNKED + b"5\r\nhal"), ErrorKind.TRUNCATED, "3 body bytes"),
    "reset until close": (
        resetting(b"HTTP/1.1 200 OK\r\n\r\nhalf"), ErrorKind.RESET, "connection reset"),
    "more than announced": (saying(START + b"x" * 101), ErrorKind.PROTOCOL, "1 bytes more"),
    "more behind chunks": (saying(CHUNKED + b"0\r\n\r\nx"), ErrorKind.PROTOCOL, "behind the last"),
    "garbage": (saying(b"\x15\x03\x03\0\x02\r\n\r\n"), ErrorKind.PROTOCOL, "not an HTTP"),
    "another protocol": (saying(b"220 ESMTP\r\n\r\n"), ErrorKind.PROTOCOL, "220 ESMTP"),
    "no chunk size": (saying(CHUNKED + b"hello\r\n"), ErrorKind.PROTOCOL, "no chunk size"),
    "endless chunk size": (saying(CHUNKED + b"0" * 5000), ErrorKind.PROTOCOL, "too long"),
    "bad length": (
        saying(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"), ErrorKind.PROTOCOL, "-1"),
    "endless interim responses": (
        saying(b"HTTP/1.1 100 Continue\r\n\r\n" * 200), ErrorKind.PROTOCOL, "interim"),
    "too large headers": (
        saying(ok(b"x", b"X: " + b"x" * 70_000)), ErrorKind.PROTOCOL, "65536 bytes"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_has_its_error_kind(fault: str) -> None:
    script, kind, words = FAULTS[fault]
    error = failure(script)
    assert (error.kind, error.sent, error.status) == (kind, True, 0)
    assert re.search(words, error.detail)


@pytest.mark.parametrize(("script", "moved"), [
    (saying(IDENTIFIED + b"half"), 4),
    (resetting(IDENTIFIED + b"half"), 4),
    (saying(IDENTIFIED + b"x" * 60, b"y" * 30), 90),
    (saying(IDENTIFIED), 0),
    (saying(CHUNKED.replace(b"\r\n", b"\r\nX-Trans-Id: tx1\r\n", 1), b"5\r\nhal"), 3),
    (saying(IDENTIFIED.replace(b"200 OK", b"503 No"), b"half"), 0),  # a page is no content
])  # fmt: skip
def test_a_response_that_breaks_in_its_body_is_recorded(script: Script, moved: int) -> None:
    timing = failure(script).timing
    assert timing is not None
    assert timing.status in (200, 503)
    assert (timing.transaction_id, timing.bytes_moved) == (b"tx1", moved)
    assert abs(timing.headers_ns) <= timing.last_byte_ns


# --- length of bodies


def test_a_collector_rejects_an_endless_body() -> None:
    for start, part in [
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 1000),
        (CHUNKED, b"64\r\n%b\r\n" % (b"x" * 100)),
    ]:
        with serving(endless(start, part)) as (_, pool), pytest.raises(StorageError) as caught:
            pool.request(HEAD, None, 0, Collector(100_000))
        assert caught.value.kind is ErrorKind.OVERLONG
        assert "more than 100000 bytes" in caught.value.detail


@pytest.mark.parametrize("longest", [0, 2_000_000])
@pytest.mark.parametrize(
    ("start", "part"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 60_000),
        (CHUNKED, b"ea60\r\n" + b"x" * 60_000 + b"\r\n"),
        (CHUNKED + b"fffffffffffffff\r\n", b"x" * 60_000),
        (START.replace(b"100", b"999999999999999999"), b""),
    ],
)
def test_a_body_longer_than_the_largest_object_is_an_error(
    start: bytes, part: bytes, longest: int
) -> None:
    with serving(endless(start, part)) as (_, pool), pytest.raises(StorageError) as caught:
        pool.request(HEAD, None, 0, None, longest)
    assert caught.value.kind is ErrorKind.OVERLONG
    assert f"more than {longest or 1048576} bytes" in caught.value.detail


# --- a response before the end of the upload


@pytest.mark.parametrize("then", [Peer.reset, Peer.linger])
def test_a_response_before_the_request_is_returned(then: Callable[[Peer], object]) -> None:
    """A full proxy refuses connections so, also those that were opened before there was a job."""

    def script(peer: Peer) -> None:
        peer.say(b"HTTP/1.1 503 Too many\r\nContent-Length: 0\r\n\r\n")
        time.sleep(0.01)
        then(peer)

    with serving(script) as (_, pool):
        pool.connect(1)
        time.sleep(0.02)
        upload = Upload(3, b"abc")
        assert pool.request(PUT % 3, upload).status == 503


def test_an_interim_response_does_not_stop_the_upload() -> None:
    upload = big_upload(5_000_000)
    received = []

    def script(peer: Peer) -> None:
        heard = len(peer.hear().partition(b"\r\n\r\n")[2])
        peer.say(b"HTTP/1.1 100 Con")
        time.sleep(0.01)
        peer.say(b"tinue\r\n\r\n")
        while heard < upload.size:
            heard += len(peer.sock.recv(1 << 20))
        received.append(heard)
        peer.say(ok(b"done"))

    timing = ask(script, upload=upload)
    assert (timing.status, timing.bytes_moved, received) == (200, upload.size, [upload.size])


def test_endless_interim_responses_stop_the_upload() -> None:
    error = failure(endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 9), upload=big_upload())
    assert error.kind is ErrorKind.PROTOCOL
    assert "interim" in error.detail


# Whatever arrives, in whatever pieces ----------------------------------------------------------

_FILLER = Upload(3000, bytes(3000))


class Outcome(NamedTuple):
    """What became of an exchange: an answer, or a kind of error; and the bytes left unread."""

    answer: tuple[int, int, bytes, bytes, str | None] | None
    error: ErrorKind | None
    left: int


@cache
def taught() -> HeadPatternCache:
    """The patterns of all recorded responses."""
    head_patterns = HeadPatternCache()
    for head in (*recorded("answers"), PARTIAL):
        with suppress(BadResponse):
            head_patterns.learn(head)
    return head_patterns


def outcome(
    data: bytes, size: Callable[[], int], *, collect: type[Collector] | None, upload: bool,
    early: bool, fast: bool,
) -> Outcome:  # fmt: skip
    shared = EndpointState("h:80", 0, True)
    if fast:
        shared.head_patterns = deepcopy(taught())
        shared.range_patterns = deepcopy(taught())
    stream = PiecewiseStream(data, size, room=100 if early else None)
    connection = Connection(stream, shared)  # type: ignore[arg-type]
    collector = collect(4000) if collect else None
    try:
        timing = connection.request(HEAD, _FILLER if upload else None, 0, collector)
    except StorageError as error:
        must_be_line(error)
        # What is too long may be malformed as well: which one is seen first depends on the pieces.
        kind = ErrorKind.PROTOCOL if error.kind is ErrorKind.OVERLONG else error.kind
        return Outcome(None, kind, len(stream.left))
    assert 0 < timing.headers_ns <= timing.first_byte_ns <= timing.last_byte_ns
    body = bytes(collector.body) if collector else b""
    stated = collector.headers.get("content-range") if collector else None
    answer = (timing.status, timing.bytes_moved, timing.transaction_id, body, stated)
    return Outcome(answer, None, len(stream.left))


def same_in_pieces(data: bytes) -> None:
    """Invariant: a response is the same one, or the same error, in whatever pieces it comes, by
    the fast path and by the careful one, received during the upload or after it.

    But for what comes behind it: that is an error where it came along, and else not seen yet.
    The first two bytes say which pieces.
    """
    chance, data = Random(data[:2]), data[2:]
    most = chance.choice((1, 40, 400)) if len(data) < 800 else 400
    collect, upload = chance.choice(
        ((None, False), (Collector, False), (RangeCollector, False), (None, True))
    )
    whole = len(data) + 1
    ways = [(whole, False, False), (whole, False, True), (most, upload, True), (most, False, False)]
    found = [
        outcome(data, partial(chance.randint, 1, longest), collect=collect, upload=upload,
                early=early, fast=fast)
        for longest, early, fast in ways
    ]  # fmt: skip
    if any(each.answer and each.left for each in found):
        found = [each for each in found if each.error is not ErrorKind.PROTOCOL]
    assert len({each[:2] for each in found}) == 1, found


ANSWERS = [
    b"ab" + answer for answer in (*recorded("answers"), PARTIAL, *map(b"".join, FORMS.values()))
]


class Failing(PiecewiseStream):
    """Receives no response, but this error."""

    def __init__(self, error: OSError) -> None:
        super().__init__(b"", lambda: 1)
        self._error = error

    def recv_into(self, buffer: Any) -> int:
        raise self._error


def test_a_failure_of_tls_is_told_from_a_reset() -> None:
    tls = ssl.SSLError(1, "[SSL] no")
    tls.reason = "BAD_RECORD_MAC"
    for error, kind, says in (
        (tls, ErrorKind.TLS, "h:80: TLS failed: BAD_RECORD_MAC"),
        (OSError(5, "Broken In Two"), ErrorKind.DISCONNECTED, "h:80: broken in two"),
    ):
        connection = Connection(Failing(error), EndpointState("h:80", 0, True))  # type: ignore[arg-type]
        with pytest.raises(StorageError) as caught:
            connection.request(HEAD, None, 0, None)
        assert (caught.value.kind, caught.value.detail) == (kind, says)
