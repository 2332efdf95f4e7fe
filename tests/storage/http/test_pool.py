"""Connection reuse, timeouts, and killed greenlets."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from time import perf_counter_ns

import gevent
import pytest

from ssbench.core.errors import StorageError
from ssbench.core.model import SECOND_NS, ErrorKind
from ssbench.storage.http import pool as httppool
from ssbench.storage.http.addresses import Dialler, Endpoint
from ssbench.storage.http.connection import Upload
from ssbench.storage.http.stream import PlainStream
from tests.fakes.scripted_server import Peer, Script, answering, ok
from tests.fakes.served_pool import (
    CHUNKED,
    HEAD,
    PUT,
    START,
    big_upload,
    failure,
    serving,
    silent_after,
)
from tests.ports import held_port


class SweepClock:
    """The pool's clock: stands still until a script is where it shall run.

    From then on each sweep is 50 ms after the one before, however long that took, and comes once
    the server has said something more, if it drips.
    """

    STEP_NS = 50_000_000

    def __init__(self) -> None:
        self.now_ns = perf_counter_ns()
        self.running = False
        self._drops: threading.Semaphore | None = None

    def __call__(self) -> int:
        if self.running:
            assert self._drops is None or self._drops.acquire(timeout=60), "the server is stuck"
            self.now_ns += self.STEP_NS
        return self.now_ns

    def dripping(self, start: bytes, drop: bytes) -> Script:
        self.running, self._drops = False, threading.Semaphore(0)

        def script(peer: Peer) -> None:
            peer.hear()
            peer.say(start)
            self.running = True
            while not peer.is_over(0.01):
                peer.say(drop)
                self._drops.release()  # type: ignore[union-attr]

        return script


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SweepClock:
    made = SweepClock()
    monkeypatch.setattr(httppool, "perf_counter_ns", made)
    return made


# --- connections are reused, and replaced


def closed_after_one(peer: Peer) -> None:
    peer.hear()
    peer.say(ok(b"x"))


def reset_after_one(peer: Peer) -> None:
    closed_after_one(peer)
    peer.reset()


def closed_in_service(peer: Peer) -> None:
    closed_after_one(peer)
    peer.hear()


def reset_in_service(peer: Peer) -> None:
    closed_in_service(peer)
    time.sleep(0.005)
    peer.reset()


def swallowing(upload: Upload | None) -> Script:
    """Takes a request and all of its body."""

    def script(peer: Peer) -> None:
        heard = len(peer.hear().partition(b"\r\n\r\n")[2])
        while upload is not None and heard < upload.size:
            heard += len(peer.sock.recv(1 << 20))
        peer.say(ok(b"y"))

    return script


in_service = pytest.mark.parametrize("script", [closed_in_service, reset_in_service])


@pytest.mark.parametrize("script", [closed_after_one, reset_after_one])
@pytest.mark.parametrize("upload", [None, Upload(3, b"abc"), big_upload()])
def test_a_connection_closed_while_idle_is_replaced_and_counted(
    script: Script, upload: Upload | None
) -> None:
    with serving(script, swallowing(upload)) as (server, pool):
        assert pool.request(HEAD).reconnects == 0
        server.wait_closed()
        timing = pool.request(HEAD if upload is None else PUT % upload.size, upload)
        assert (timing.status, timing.reconnects) == (200, 1)
        assert timing.bytes_moved == (1 if upload is None else upload.size)
        assert server.connections == 2


#: As HAProxy has it when no request came within ``timeout http-request``.
TIMED_OUT = b"HTTP/1.0 408 Request Time-out\r\nConnection: close\r\n\r\n<html>"


@pytest.mark.parametrize("leave", [Peer.reset, lambda peer: None])
@pytest.mark.parametrize("upload", [None, Upload(3, b"abc"), big_upload()])
def test_a_timeout_that_came_before_the_request_is_no_response_to_it(
    upload: Upload | None, leave: Callable[[Peer], None]
) -> None:
    def script(peer: Peer) -> None:
        peer.say(TIMED_OUT)
        time.sleep(0.005)
        leave(peer)

    with serving(script, swallowing(upload)) as (server, pool):
        pool.connect(1)
        server.wait_closed()
        timing = pool.request(HEAD if upload is None else PUT % upload.size, upload)
        assert (timing.status, timing.reconnects, server.connections) == (200, 1, 2)


@in_service
@pytest.mark.parametrize("upload", [None, Upload(3, b"abc"), big_upload()])
def test_a_request_cut_off_on_a_busy_connection_is_not_repeated(
    script: Script, upload: Upload | None
) -> None:
    with serving(script, answering(ok(b"y"))) as (server, pool):
        pool.request(HEAD)
        gevent.sleep(0.005)
        with pytest.raises(StorageError) as caught:
            pool.request(HEAD if upload is None else PUT % upload.size, upload)
        error = caught.value
        assert (error.kind, error.sent, error.reconnects) == (ErrorKind.DISCONNECTED, True, 0)
        assert server.connections == 1


def test_the_time_of_a_request_is_no_idle_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(httppool, "_LONG_IDLE_NS", 200_000_000)

    def slowly_reset(peer: Peer) -> None:
        closed_in_service(peer)
        time.sleep(0.4)
        peer.reset()

    with serving(slowly_reset, answering(ok(b"y"))) as (server, pool):
        pool.request(HEAD)
        with pytest.raises(StorageError) as caught:
            pool.request(HEAD)
        assert (caught.value.kind, server.connections) == (ErrorKind.DISCONNECTED, 1)


def test_a_connection_is_replaced_once_and_counted_even_if_that_fails() -> None:
    with serving(closed_after_one, lambda peer: peer.hear()) as (server, pool):
        pool.request(HEAD)
        server.wait_closed()
        with pytest.raises(StorageError) as caught:
            pool.request(HEAD)
        assert (caught.value.kind, caught.value.reconnects) == (ErrorKind.DISCONNECTED, 1)
        assert server.connections == 2


@pytest.mark.parametrize("kept", [True, False])
def test_sent_is_false_only_if_nothing_was_ever_sent(
    kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server went down: what it heard over the kept connection it may have done."""
    with serving(closed_after_one) as (server, pool):
        if kept:
            pool.request(HEAD)
            server.wait_closed()
        refused = Dialler(Endpoint("127.0.0.1", held_port(), False), 1.0).open
        monkeypatch.setattr(Dialler, "open", lambda _self, deadline_ns: refused(deadline_ns))
        with pytest.raises(StorageError) as caught:
            pool.request(HEAD)
    assert caught.value.kind is ErrorKind.CONNECT
    assert caught.value.sent is kept
    assert caught.value.reconnects == kept


@pytest.mark.parametrize(
    ("start", "drop"),
    [
        (START.replace(b"100", b"10000"), b"x"),
        (START.replace(b"100", b"1000000"), b"x"),  # waited for in heaps
        (CHUNKED, b"1\r\nx\r\n"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x"),
    ],
)
def test_only_bytes_of_an_object_reset_the_idle_timeout(
    start: bytes, drop: bytes, clock: SweepClock
) -> None:
    error = failure(clock.dripping(start, drop), network_timeout_s=0.2, upload=Upload(2, b"ab"))
    assert error.kind is ErrorKind.NETWORK_TIMEOUT
    with serving(clock.dripping(start, drop), network_timeout_s=0.2) as (_, pool):
        deadline_ns = clock.now_ns + 600_000_000
        with pytest.raises(StorageError) as caught:
            pool.request(HEAD, None, deadline_ns, None, 10_000)
        assert caught.value.kind is ErrorKind.OPERATION_TIMEOUT
        # Two more sweeps may run before this thread hears of it.
        assert 0 < clock.now_ns - deadline_ns <= 3 * clock.STEP_NS


def test_timeouts_apply_while_a_connection_opens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened = Dialler.open

    def late(dialler: Dialler, deadline_ns: int = 0) -> PlainStream:
        gevent.sleep(0.2)
        return opened(dialler, deadline_ns)

    scripts = (answering(ok(b"x")), silent_after(b""))
    with serving(*scripts, network_timeout_s=0.1) as (server, pool), gevent.Timeout(60):
        monkeypatch.setattr(Dialler, "open", late)
        pool.request(HEAD)
        server.wait_closed()
        with pytest.raises(StorageError) as caught:
            pool.request(HEAD)
        assert caught.value.kind is ErrorKind.NETWORK_TIMEOUT


def test_a_suspended_process_causes_no_timeout(clock: SweepClock) -> None:
    # After SIGSTOP and SIGCONT half an answer is in the socket, and the sweep is due at once.
    heard, stopped, said, continued = (threading.Event() for _ in range(4))

    def script(peer: Peer) -> None:
        peer.hear()
        heard.set()
        stopped.wait(60)
        peer.say(START + b"x" * 50)
        said.set()
        continued.wait(60)
        peer.say(b"x" * 50)

    with serving(script, network_timeout_s=0.12) as (_, pool):
        user = gevent.spawn(pool.request, HEAD)
        while not heard.is_set():
            gevent.sleep(0.01)
        gevent.sleep(0.1)  # some sweeps
        stopped.set()
        said.wait(60)  # nothing else runs in this thread
        clock.now_ns += 60 * SECOND_NS
        pool._sweep()  # the loop may look at its timers before it looks at the socket
        continued.set()
        assert user.get().status == 200


# --- who reads late


def test_a_first_byte_read_late_has_an_uncertain_time() -> None:
    """The last byte has; and what the first bytes' time can have been at the latest is told."""

    said = threading.Semaphore(0)

    def dripped(peer: Peer) -> None:
        peer.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answer = ok(b"0123456789")
        while peer.hear():
            for part in (answer[:-10], answer[-10:-5], answer[-5:]):
                peer.say(part)
                time.sleep(0.005)
            said.release()

    with serving(dripped) as (_, pool):
        pool.request(HEAD)  # the kernel begins to note a moment after it was asked
        assert said.acquire(timeout=60)
        user = gevent.spawn(pool.request, HEAD)
        gevent.sleep(0)
        gevent.sleep(0)
        began_ns = perf_counter_ns()
        assert said.acquire(timeout=60)  # nothing lets the loop wake
        late = user.get()
        assert late.last_byte_ns > began_ns
        assert late.headers_ns == late.first_byte_ns == -late.last_byte_ns
        assert late.status == 200


# --- greenlets that go away


def test_close_ends_requests_in_flight() -> None:
    with serving(silent_after(b"")) as (_, pool):
        pool.connect(4)
        users = [gevent.spawn(pool.request, HEAD) for _ in range(3)]
        gevent.sleep(0.02)
        pool.close()
        gevent.joinall(users)
        assert [user.exception.kind for user in users] == [ErrorKind.RESET] * 3
        with pytest.raises(StorageError, match="closed by us") as caught:
            pool.request(HEAD)
        assert not caught.value.sent


def test_the_repr_shows_the_state_and_no_secret() -> None:
    with serving(answering(ok(b"x"))) as (server, pool):
        pool.request(HEAD.replace(b"Host", b"X-Auth-Token: secret\r\nHost"))
        assert repr(pool) == f"<ConnectionPool to 127.0.0.1:{server.port}, 1 open, 1 idle>"
        assert "secret" not in repr(vars(pool))
