"""The listening side of check-network and the side that measures, over loopback."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ssbench.core.messages import NetworkCheck
from ssbench.transport import network
from ssbench.transport.key import CurveKey, channel_key
from ssbench.transport.network import (
    MAX_BYTES,
    MAX_CONNECTIONS,
    MAX_SECONDS,
    UNUSED_S,
    MeasureRequest,
    NetworkError,
    NetworkListener,
    end,
    measure,
    receive_body,
)
from ssbench.transport.sockets import Ports, TransportError
from ssbench.transport.worker_transport import WorkerTransport

KEY = CurveKey.generate()


@contextmanager
def listening(key: CurveKey | None = None) -> Iterator[tuple[str, int]]:
    with NetworkListener("127.0.0.1", 0, key, "--an-option") as listener:
        thread = threading.Thread(target=listener.serve)
        thread.start()
        try:
            yield listener.ip, listener.port
        finally:
            listener.close()
            thread.join(60)
            assert not thread.is_alive()


def test_a_worker_needs_no_key_of_its_host_for_a_server_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    key = channel_key(None, None, print)
    assert key
    piped = CurveKey.from_text(key.to_text(), "a pipe")  # of a group
    for own in (key, piped):
        transport = WorkerTransport("127.0.0.1", Ports(1, 2, 3), own)
        with listening() as (host, port):
            result = transport.check_network(NetworkCheck(1, 1, host, port, 0.0, 1000, 5.0))
        assert sum(each.size_bytes for each in result.sent) == 1000
        transport.close()


@contextmanager
def answering(*answers: bytes) -> Iterator[tuple[str, int]]:
    """A listener that sends these bytes, one answer for each line that it gets, and closes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                connection, _ = server.accept()
                with connection:
                    connection.sendall(answers[0])
                    for answer in answers[1:]:
                        while not connection.recv(4096).endswith(b"\n"):
                            pass
                        connection.sendall(answer)
                    # Closed with data that nobody read, it would be reset.
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(65536):
                        pass

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()
        thread.join(60)


def test_a_transfer_of_a_time_has_an_interval_for_each_second() -> None:
    with listening() as address:
        found = measure(address, None, seconds=1.2)
    for intervals in (found.sent, found.received):
        assert [each.seconds for each in intervals[:-1]] == [1.0]
        assert 0.1 < intervals[-1].seconds < 2
        assert all(each.size_bytes for each in intervals)


@pytest.mark.parametrize(
    ("theirs", "ours", "why"),
    [
        (KEY, None, "it has a key, this side has none"),
        (None, KEY, "this side has a key .* it has none"),
        (KEY, CurveKey.generate(), "the key is another one"),
    ],
)
def test_both_sides_need_the_same_key(
    theirs: CurveKey | None, ours: CurveKey | None, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    with listening(theirs) as address:
        with pytest.raises(NetworkError, match=why):
            measure(address, ours, seconds=1)
        with pytest.raises(NetworkError, match=why):
            end(address, ours, 1.0)
        assert measure(address, theirs, seconds=0, size_bytes=1).sent
    for secret in (KEY.server_secret, KEY.client_secret):
        assert secret not in caplog.text


def test_a_listener_ends_when_a_client_says_so() -> None:
    with NetworkListener("127.0.0.1", 0, KEY, "") as listener:
        thread = threading.Thread(target=listener.serve)
        thread.start()
        end((listener.ip, listener.port), KEY, 1.0)
        thread.join(60)
        assert not thread.is_alive()


def test_a_client_that_sends_more_than_it_announced_is_disconnected(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with listening() as address, socket.create_connection(address, 10) as client:
        stream = client.makefile("rb")
        stream.readline()
        client.sendall(b"send 1000 0 nonce -\n")
        assert stream.readline() == b"ok -\n"
        client.sendall(b"\xff" * 1001)
        assert stream.readline() == b""
    assert "more arrived than was requested" in caplog.text


def test_a_listener_serves_a_limited_number_of_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert MAX_CONNECTIONS == 16
    monkeypatch.setattr(network, "MAX_CONNECTIONS", 2)
    with listening() as address:
        first, second = (socket.create_connection(address) for _ in range(2))
        with first, second:
            assert first.recv(100).startswith(b"ssbench-network 1 ")
            assert second.recv(100).startswith(b"ssbench-network 1 ")
            with pytest.raises(NetworkError):
                measure(address, None, seconds=1)


NO_REQUESTS = [
    b"", b"x", b"send 1 1 nonce", b"send -1 1 nonce -", b"send 1 nan nonce -",
    b"send 1 3601 nonce -", b"send 1 1e9 nonce -", b"send 1099511627777 1 nonce -",
    b"send 99999999999999999999 1 nonce -", b"run 1 1 nonce -",
    b"send 1 1 nonce - more", b"send x 1 nonce -", b"\xff\xfe", b"x" * 600,
]  # fmt: skip


def test_a_request_that_is_not_valid_is_rejected() -> None:
    with listening() as address:
        for line in NO_REQUESTS:
            with socket.create_connection(address, 10) as client:
                stream = client.makefile("rb")
                assert stream.readline() == b"ssbench-network 1 -\n"
                client.sendall(line + b"\n")
                answer = b""
                with suppress(ConnectionResetError):  # closed with bytes unread
                    answer = stream.readline()
                assert answer in (b"", b"error not a valid request\n"), line


def test_a_transfer_of_a_size_ends_after_an_hour_too() -> None:
    assert (MAX_SECONDS, MAX_BYTES) == (3600, 1 << 40)
    assert MeasureRequest("send", MAX_BYTES, 1.0).limit_s == 3600
    assert MeasureRequest("send", 0, 1.0).limit_s == 1


def test_a_listener_without_connections_ends() -> None:
    assert UNUSED_S == 600
    with NetworkListener("127.0.0.1", 0, KEY, "") as listener:
        thread = threading.Thread(target=listener.serve, args=(0.1,), daemon=True)
        thread.start()
        thread.join(30)
        assert not thread.is_alive()


def test_a_proof_of_the_key_is_good_for_its_own_connection_and_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What somebody recorded on the way."""
    said: list[str] = []
    send_line = network._send_line

    def record(connection: socket.socket, text: str) -> None:
        said.append(text)
        send_line(connection, text)

    def answer_to(line: str) -> bytes:
        with socket.create_connection(address, 10) as client:
            stream = client.makefile("rb")
            stream.readline()
            client.sendall(line.encode() + b"\n")
            return stream.readline()

    with listening(KEY) as address:
        with monkeypatch.context() as patched:
            patched.setattr(network, "_send_line", record)
            measure(address, KEY, seconds=0, size_bytes=1)
        (proved,) = [line for line in said if line.startswith("echo ")]
        assert answer_to(proved).startswith(b"error the key is another one")
        assert answer_to(proved.replace("echo", "end")).startswith(b"error the key is another one")
    greeting, accepted = (
        next(line for line in said if line.startswith(word)) for word in ("ssbench", "ok")
    )
    with (
        answering(f"{greeting}\n".encode(), f"{accepted}\n".encode()) as address,
        pytest.raises(NetworkError, match="its key is another one"),
    ):
        measure(address, KEY, seconds=0, size_bytes=1)


def test_a_request_that_is_changed_on_the_way_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    send_line = network._send_line
    monkeypatch.setattr(
        network, "_send_line", lambda to, text: send_line(to, text.replace("echo", "end"))
    )
    with listening(KEY) as address, pytest.raises(NetworkError, match="the key is another one"):
        measure(address, KEY, seconds=0)


@pytest.mark.program("ipv6")
def test_all_addresses_of_ipv6_are_those_of_ipv4_too() -> None:
    with NetworkListener("::", 0, None, "") as listener:
        thread = threading.Thread(target=listener.serve)
        thread.start()
        for host in ("127.0.0.1", "::1"):
            assert measure((host, listener.port), None, seconds=0, size_bytes=10).sent
        end(("127.0.0.1", listener.port), None, 1.0)
        thread.join(60)


def test_a_port_in_use_is_named_with_its_option() -> None:
    with listening() as (ip, port), pytest.raises(TransportError, match=f"{port}.*--an-option"):
        NetworkListener(ip, port, None, "--an-option")


@pytest.mark.parametrize(
    ("ip", "key", "expected", "is_open"),
    [
        (None, None, "127.0.0.1", False),
        (None, KEY, "0.0.0.0", False),
        ("0.0.0.0", None, "0.0.0.0", True),
        pytest.param("::1", None, "::1", False, marks=pytest.mark.program("ipv6")),
    ],
)
def test_without_a_key_only_loopback_is_listened_to_by_default(
    ip: str | None, key: CurveKey | None, expected: str, is_open: bool
) -> None:
    with NetworkListener(ip, 0, key, "") as listener:
        assert (listener.ip, listener.is_open) == (expected, is_open)


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([b"HTTP/1.1 400 Bad Request\r\n"], "no listening side of ssbench"),
        ([b"ssbench-network 2 -\n"], "or another release"),
        ([b"x" * 5000], "too long"),
        ([b""], "the connection was closed"),
        ([b"ssbench-network 1 -\n", b"error \x1b[2J\n"], r"rejects the request: \\x1b"),
        ([b"ssbench-network 1 -\n", b"ok -\n"], "the connection was closed"),
    ],
)
def test_a_listener_that_is_none_is_reported(answers: list[bytes], why: str) -> None:
    with answering(*answers) as address, pytest.raises(NetworkError, match=why):
        measure(address, None, seconds=1)


@pytest.mark.parametrize(
    ("host", "why"),
    [("no-such-host.invalid", "no address is known"), ("127.0.0.1", "refused")],
)
def test_an_unreachable_listener_is_reported(host: str, why: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(NetworkError, match=f"^{host}.*: .*{why}") as caught:
        measure((host, port), None, seconds=1)
    assert str(caught.value).count(host) == 1


def test_a_silent_listener_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "HANDSHAKE_S", 0.1)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        pytest.raises(NetworkError, match="no response"),
    ):
        measure(server.getsockname(), None, seconds=1)


class Dripping:
    """A connection on which a byte arrives at each call, for ever."""

    def __init__(self, first: int) -> None:
        self._first = first
        self._calls = 0

    def settimeout(self, seconds: float) -> None:
        assert seconds > 0

    def recv_into(self, buffer: bytearray) -> int:
        self._calls += 1
        assert self._calls < 1000
        buffer[0] = self._first
        return 1

    def recv(self, size: int) -> bytes:
        self._calls += 1
        assert self._calls < 1000
        return b"1"


@pytest.mark.parametrize("first", [0xFF, ord("[")], ids=["body", "report"])
def test_what_arrives_in_drips_ends_at_its_deadline(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "time", SimpleNamespace(monotonic=count().__next__))
    connection: Any = Dripping(first)
    with pytest.raises(TimeoutError, match="not complete in time"):
        receive_body(connection, MeasureRequest("send", 0, 1.0))
