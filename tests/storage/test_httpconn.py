"""The engine against servers that do what they like."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise, repeat
from time import perf_counter_ns

import gevent
import pytest

from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind, Timing
from ssbench.storage.httpconn import Collector, Pool, Upload
from ssbench.storage.stream import Dialler, Endpoint
from tests.fakes.scripted_server import Peer, Script, ScriptedServer, answering, ok

HEAD = b"GET /v1/a/c/o HTTP/1.1\r\nHost: x\r\n\r\n"
PUT = b"PUT /v1/a/c/o HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"


@contextmanager
def pool_on(port: int, network_timeout_s: float = 5.0, host: str = "127.0.0.1") -> Iterator[Pool]:
    pool = Pool(Dialler(Endpoint(host, port, False), 5.0), network_timeout_s)
    try:
        yield pool
    finally:
        pool.close()


@contextmanager
def serving(
    *scripts: Script, network_timeout_s: float = 5.0
) -> Iterator[tuple[ScriptedServer, Pool]]:
    with ScriptedServer(*scripts) as server, pool_on(server.port, network_timeout_s) as pool:
        yield server, pool


def ask(*scripts: Script, network_timeout_s: float = 5.0, upload: Upload | None = None) -> Timing:
    """One request to a server of such scripts."""
    with serving(*scripts, network_timeout_s=network_timeout_s) as (_, pool):
        return pool.request(HEAD if upload is None else PUT % upload.size, upload)


def failure(
    *scripts: Script, network_timeout_s: float = 5.0, upload: Upload | None = None
) -> StorageError:
    with pytest.raises(StorageError) as caught:
        ask(*scripts, network_timeout_s=network_timeout_s, upload=upload)
    assert caught.value.detail.startswith("127.0.0.1:"), "an error names its host and port"
    return caught.value


def big_upload(size: int = 20_000_000) -> Upload:
    """More than any socket buffer takes."""
    block = memoryview(bytes(100_000))
    return Upload(size, block, lambda: repeat(block, size // len(block) - 1))


def saying(*parts: bytes, pause_s: float = 0.002) -> Script:
    """An answer in several segments, then the end of the connection."""

    def script(peer: Peer) -> None:
        peer.hear()
        for part in parts:
            peer.say(part)
            time.sleep(pause_s)

    return script


BODY = b"0123456789" * 500
CHUNKS = b"1000\r\n" + BODY[:4096] + b"\r\n388;x=y\r\n" + BODY[4096:] + b"\r\n0\r\nT: 1\r\n\r\n"

#: The same answer in every form that HTTP/1.1 has for it.
FORMS = {
    "usual": [ok(BODY, b"X-Trans-Id: tx1")],
    "head and body apart": [ok(BODY, b"X-Trans-Id: tx1")[:-5000], BODY],
    "byte by byte": [bytes([byte]) for byte in ok(BODY, b"X-Trans-Id: tx1")[:80]]
    + [ok(BODY, b"X-Trans-Id: tx1")[80:]],
    "interim answers": [b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Wait\r\nA: b\r\n\r\n"
                        + ok(BODY, b"X-Trans-Id: tx1")],
    "chunked": [b"HTTP/1.1 200 OK\r\nx-trans-id:tx1\r\nTransfer-Encoding:chunked\r\n\r\n" + CHUNKS],
    "chunks apart": [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Trans-Id: tx1\r\n\r\n",
                     CHUNKS[:3], CHUNKS[3:2000], CHUNKS[2000:4104], CHUNKS[4104:-3], CHUNKS[-3:]],
    "until close": [b"HTTP/1.1 200 OK\r\nX-Trans-Id: tx1\r\n\r\n" + BODY[:5], BODY[5:]],
    "HTTP/1.0": [b"HTTP/1.0 200 OK\r\nX-Trans-Id: tx1\r\nContent-Length: 5000\r\n\r\n" + BODY],
    "folded": [b"HTTP/1.1 200 OK\r\nX-Trans-Id:\r\n tx1\r\nContent-Length: 5000\r\n\r\n" + BODY],
    "huge headers": [ok(BODY, *[b"X-Filler: " + b"x" * 1000] * 60, b"X-Trans-Id: tx1")],
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_an_answer_is_understood(form: str) -> None:
    timing = ask(saying(*FORMS[form], pause_s=0.0005))
    assert (timing.status, timing.bytes_moved) == (200, 5000)
    assert timing.transaction_id.strip() == b"tx1"
    assert timing.headers_ns <= timing.first_byte_ns <= timing.last_byte_ns


@pytest.mark.parametrize("form", FORMS)
def test_a_collector_gets_headers_and_body_of_every_form(form: str) -> None:
    collector = Collector(10_000)
    with serving(saying(*FORMS[form], pause_s=0.0005)) as (_, pool):
        assert pool.request(HEAD, None, 0, collector).bytes_moved == 5000
    assert bytes(collector.body) == BODY
    assert collector.headers["x-trans-id"].strip() == "tx1"


def test_times_are_told_apart() -> None:
    started = perf_counter_ns()
    timing = ask(
        saying(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n", b"ab", b"cd", pause_s=0.03)
    )
    marks = [started, timing.headers_ns, timing.first_byte_ns, timing.last_byte_ns]
    gaps_ms = [(after - before) / 1e6 for before, after in pairwise(marks)]
    assert gaps_ms[0] < 25
    assert 20 < gaps_ms[1] < 100
    assert 20 < gaps_ms[2] < 100


@pytest.mark.parametrize("status", [301, 404, 500, 503, 429])
def test_any_status_is_an_answer(status: int) -> None:
    # Redirects too: they are not followed, so no token goes elsewhere.
    answer = b"HTTP/1.1 %d X\r\nLocation: http://h/\r\nContent-Length: 2\r\n\r\nno" % status
    with serving(answering(answer)) as (server, pool):
        assert pool.request(HEAD).status == status
        assert server.connections == 1


def test_the_answer_to_head_ends_with_its_head() -> None:
    with serving(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", ok(b"next"))) as (
        _,
        pool,
    ):
        collector = Collector(100, bodiless=True)
        assert pool.request(HEAD, None, 0, collector).bytes_moved == 0
        assert collector.headers["content-length"] == "5"
        assert pool.request(HEAD).bytes_moved == 4


# --- connections are kept, and replaced


def test_a_connection_serves_one_request_after_another() -> None:
    with serving(answering(*[ok(b"x")] * 20)) as (server, pool):
        for _ in range(20):
            assert pool.request(HEAD).reconnects == 0
        assert server.connections == 1


@pytest.mark.parametrize(
    "last", [ok(b"x", b"Connection: close"), b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx"]
)
def test_an_answer_that_says_so_is_the_connections_last(last: bytes) -> None:
    with serving(answering(last, b"never said")) as (server, pool):
        assert [pool.request(HEAD).reconnects for _ in range(3)] == [0, 0, 0]
        assert server.connections == 3


def closed_after_one(peer: Peer) -> None:
    peer.hear()
    peer.say(ok(b"x"))


def reset_after_one(peer: Peer) -> None:
    closed_after_one(peer)
    peer.hear()
    peer.reset()


@pytest.mark.parametrize("script", [closed_after_one, reset_after_one])
@pytest.mark.parametrize("upload", [None, Upload(3, b"abc"), big_upload()])
def test_a_kept_connection_that_was_closed_is_replaced_and_counted(
    script: Script, upload: Upload | None
) -> None:
    def swallow(peer: Peer) -> None:
        heard = len(peer.hear().partition(b"\r\n\r\n")[2])
        while upload is not None and heard < upload.size:
            heard += len(peer.sock.recv(1 << 20))
        peer.say(ok(b"y"))

    with serving(script, swallow) as (server, pool):
        assert pool.request(HEAD).reconnects == 0
        gevent.sleep(0.005)
        timing = pool.request(HEAD if upload is None else PUT % upload.size, upload)
        assert (timing.status, timing.reconnects) == (200, 1)
        assert timing.bytes_moved == (1 if upload is None else upload.size)
        assert server.connections == 2


def test_it_is_replaced_once_only() -> None:
    with serving(closed_after_one, lambda peer: peer.hear()) as (server, pool):
        pool.request(HEAD)
        with pytest.raises(StorageError) as caught:
            pool.request(HEAD)
        assert caught.value.kind is ErrorKind.RESET
        assert server.connections == 2


def test_nothing_is_sent_again_once_an_answer_began() -> None:
    with serving(answering(ok(b"x"), b"HTTP/1.1 2")) as (server, pool):
        pool.request(HEAD)
        with pytest.raises(StorageError) as caught:
            pool.request(HEAD)
        assert caught.value.kind is ErrorKind.RESET
        assert server.connections == 1


def test_no_more_connections_than_requests_in_flight() -> None:
    def slow(peer: Peer) -> None:
        while peer.hear():
            time.sleep(0.001)
            peer.say(ok(b"x"))

    with serving(slow) as (server, pool):
        users = [gevent.spawn(lambda: [pool.request(HEAD) for _ in range(10)]) for _ in range(5)]
        gevent.joinall(users, raise_error=True)
        assert server.connections == 5


def test_connections_are_opened_ahead() -> None:
    with serving(answering(*[ok()] * 3)) as (server, pool):
        pool.connect(4)
        pool.connect(4)
        assert repr(pool) == f"<Pool to 127.0.0.1:{server.port}, 4 open, 4 idle>"


def test_a_connection_opened_ahead_may_be_gone_when_it_is_used() -> None:
    with serving(lambda peer: None, answering(ok(b"x"))) as (_, pool):
        pool.connect(1)
        gevent.sleep(0.005)
        assert pool.request(HEAD).reconnects == 1


def test_opening_ahead_fails_in_silence() -> None:
    with pool_on(free_port()) as pool:
        pool.connect(3)


def free_port() -> int:
    """A port on which nobody listens."""
    with ScriptedServer(answering()) as server:
        return server.port


# --- faults


def refused_port() -> StorageError:
    with pool_on(free_port()) as pool, pytest.raises(StorageError) as caught:
        pool.request(HEAD)
    return caught.value


def test_a_refused_connection() -> None:
    error = refused_port()
    assert (error.kind, error.sent) == (ErrorKind.CONNECT, False)
    assert error.detail.endswith(": connection refused")


def test_an_unknown_name() -> None:
    with pool_on(80, host="no-such-host.invalid") as pool, pytest.raises(StorageError) as caught:
        pool.request(HEAD)
    assert (caught.value.kind, caught.value.sent) == (ErrorKind.NAME_LOOKUP, False)
    assert "no-such-host.invalid:80" in caught.value.detail


def resetting(*said: bytes) -> Script:
    def script(peer: Peer) -> None:
        peer.hear()
        for part in said:
            peer.say(part)
        time.sleep(0.01)
        peer.reset()

    return script


START = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

FAULTS: dict[str, tuple[Script, ErrorKind, str]] = {
    "closed at once": (lambda peer: None, ErrorKind.RESET, "reset|closed unanswered"),
    "closed unanswered": (lambda peer: bool(peer.hear()), ErrorKind.RESET, "closed unanswered"),
    "reset unanswered": (resetting(), ErrorKind.RESET, "connection reset by peer"),
    "closed in the headers": (saying(START[:20]), ErrorKind.RESET, "in the headers"),
    "closed in the body": (saying(START + b"half"), ErrorKind.TRUNCATED, "4 of 100"),
    "reset in the body": (resetting(START + b"half"), ErrorKind.RESET, "connection reset"),
    "closed before the body": (saying(START), ErrorKind.TRUNCATED, "0 of 100"),
    "closed in chunks": (saying(CHUNKED + b"5\r\nhal"), ErrorKind.TRUNCATED, "3 bytes of chunks"),
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
    "endless interim answers": (
        saying(b"HTTP/1.1 100 Continue\r\n\r\n" * 200), ErrorKind.PROTOCOL, "interim"),
    "too large headers": (
        saying(ok(b"x", b"X: " + b"x" * 70_000)), ErrorKind.PROTOCOL, "65536 bytes"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_an_error_of_its_kind(fault: str) -> None:
    script, kind, words = FAULTS[fault]
    error = failure(script)
    assert (error.kind, error.sent, error.status) == (kind, True, 0)
    assert re.search(words, error.detail)


def endless(start: bytes, part: bytes) -> Script:
    def script(peer: Peer) -> None:
        peer.hear()
        peer.say(start)
        while True:
            peer.say(part)

    return script


def test_headers_without_end_are_given_up() -> None:
    error = failure(endless(b"HTTP/1.1 200 OK\r\n", b"X-More: more\r\n" * 1000))
    assert error.kind is ErrorKind.PROTOCOL
    assert "65536 bytes" in error.detail


def test_a_body_without_end_is_given_up_by_a_collector() -> None:
    for start, part in [(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 1000), (CHUNKED, b"2\r\nab\r\n" * 500)]:
        with serving(endless(start, part)) as (_, pool), pytest.raises(StorageError) as caught:
            pool.request(HEAD, None, 0, Collector(100_000))
        assert caught.value.kind is ErrorKind.PROTOCOL
        assert "more than 100000 bytes" in caught.value.detail


def silent_after(said: bytes) -> Script:
    def script(peer: Peer) -> None:
        peer.hear()
        peer.say(said)
        peer.linger()

    return script


@pytest.mark.parametrize("said", [b"", START[:10], START, START + b"half", CHUNKED + b"5\r\nh"])
def test_silence_is_a_network_time_out(said: bytes) -> None:
    started = time.perf_counter()
    error = failure(silent_after(said), network_timeout_s=0.1)
    assert error.kind is ErrorKind.NETWORK_TIMEOUT
    assert error.detail.endswith("silent for 0.1 s")
    assert 0.08 < time.perf_counter() - started < 0.5


def test_a_server_that_takes_no_body_is_a_network_time_out() -> None:
    error = failure(lambda peer: peer.linger(), network_timeout_s=0.1, upload=big_upload())
    assert error.kind is ErrorKind.NETWORK_TIMEOUT


def dripping(start: bytes, drop: bytes) -> Script:
    def script(peer: Peer) -> None:
        peer.hear()
        peer.say(start)
        while True:
            peer.say(drop)
            time.sleep(0.01)

    return script


@pytest.mark.parametrize(
    ("start", "drop"),
    [
        (b"HTTP/1.1 200 OK\r\nX: ", b"x"),
        (START.replace(b"100", b"10000"), b"x"),
        (CHUNKED, b"1\r\nx\r\n"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x"),
    ],
)
def test_the_deadline_ends_an_answer_that_drips(start: bytes, drop: bytes) -> None:
    # Each drop would keep a network time-out away for ever.
    with serving(dripping(start, drop), network_timeout_s=0.15) as (_, pool):
        deadline_ns = perf_counter_ns() + 300_000_000
        with pytest.raises(StorageError) as caught:
            pool.request(HEAD, None, deadline_ns)
        assert caught.value.kind is ErrorKind.OPERATION_TIMEOUT
        assert 0 < perf_counter_ns() - deadline_ns < 150_000_000


def test_a_connection_that_timed_out_is_not_used_again() -> None:
    with serving(silent_after(b""), answering(ok(b"x")), network_timeout_s=0.1) as (server, pool):
        with pytest.raises(StorageError):
            pool.request(HEAD)
        timing = pool.request(HEAD)
        assert (timing.status, timing.reconnects, server.connections) == (200, 0, 2)


def test_idle_connections_do_not_time_out() -> None:
    with serving(answering(ok(b"x"), ok(b"y")), network_timeout_s=0.05) as (server, pool):
        pool.request(HEAD)
        gevent.sleep(0.15)
        assert pool.request(HEAD).reconnects == 0
        assert server.connections == 1


# --- an answer before the end of the upload


@pytest.mark.parametrize("leave", [Peer.linger, Peer.reset, lambda peer: None])
@pytest.mark.parametrize("status", [401, 413, 507])
def test_an_early_answer_is_reported_as_what_it_is(
    status: int, leave: Callable[[Peer], None]
) -> None:
    def script(peer: Peer) -> None:
        peer.hear()
        peer.say(b"HTTP/1.1 %d No\r\nContent-Length: 2\r\nX-Trans-Id: tx1\r\n\r\nno" % status)
        time.sleep(0.02)
        leave(peer)

    with serving(script, answering(ok(b"x"))) as (server, pool):
        upload = big_upload()
        timing = pool.request(PUT % upload.size, upload)
        assert (timing.status, timing.transaction_id) == (status, b"tx1")
        assert pool.request(HEAD).status == 200
        assert server.connections == 2, "a connection in the middle of an upload is of no use"


def test_an_interim_answer_does_not_stop_the_upload() -> None:
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


def test_an_upload_that_is_cut_off() -> None:
    def script(peer: Peer) -> None:
        peer.hear()
        peer.reset()

    error = failure(script, upload=big_upload())
    assert (error.kind, error.sent) == (ErrorKind.RESET, True)


# --- greenlets that go away


def test_a_killed_greenlet_takes_its_connection_along() -> None:
    with serving(silent_after(START + b"half"), answering(ok(b"whole"))) as (server, pool):
        user = gevent.spawn(pool.request, HEAD)
        gevent.sleep(0.02)
        user.kill()
        assert pool.request(HEAD).bytes_moved == 5
        assert server.connections == 2


def test_an_exception_from_outside_goes_through_unchanged() -> None:
    with (
        serving(silent_after(b"")) as (_, pool),
        pytest.raises(gevent.Timeout),
        gevent.Timeout(0.02),
    ):
        pool.request(HEAD)


def test_close_ends_what_is_in_flight() -> None:
    with serving(silent_after(b"")) as (_, pool):
        users = [gevent.spawn(pool.request, HEAD) for _ in range(3)]
        gevent.sleep(0.02)
        pool.close()
        gevent.joinall(users)
        assert [user.exception.kind for user in users] == [ErrorKind.RESET] * 3
        with pytest.raises(StorageError, match="closed by us"):
            pool.request(HEAD)


def test_a_repr_tells_the_state_and_no_secret() -> None:
    with serving(answering(ok(b"x"))) as (server, pool):
        pool.request(HEAD.replace(b"Host", b"X-Auth-Token: secret\r\nHost"))
        assert repr(pool) == f"<Pool to 127.0.0.1:{server.port}, 1 open, 1 idle>"
        assert "secret" not in repr(vars(pool))
