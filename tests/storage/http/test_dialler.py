from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import gevent
import pytest

from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind
from ssbench.storage.http.addresses import Dialler, Endpoint
from ssbench.storage.http.pool import ConnectionPool
from ssbench.storage.http.stream import PlainStream
from ssbench.storage.options import HttpSettings, client_context
from tests.fakes.http_server import FakeSwift
from tests.fakes.scripted_server import Peer, ScriptedServer
from tests.servers.certificates import Certificates

HEAD = b"GET /info HTTP/1.1\r\nHost: x\r\n\r\n"


def dialling(
    port: int,
    host: str = "127.0.0.1",
    timeout_s: float = 5.0,
    deadline_ns: int = 0,
    context: ssl.SSLContext | None = None,
) -> PlainStream:
    return Dialler(Endpoint(host, port, context is not None), timeout_s, context).open(deadline_ns)


def refusal(port: int, **options: object) -> StorageError:
    with pytest.raises(StorageError) as caught:
        dialling(port, **options)  # type: ignore[arg-type]
    assert not caught.value.sent, "nothing goes out before there is a connection"
    return caught.value


def quiet(peer: Peer) -> None:
    peer.linger()


def leading_to(monkeypatch: pytest.MonkeyPatch, port: int, *hosts: str) -> None:
    """Let every name lead to these addresses."""
    families = [socket.AF_INET6 if ":" in host else socket.AF_INET for host in hosts]
    found = [
        (family, socket.SOCK_STREAM, 6, "", (host, port))
        for family, host in zip(families, hosts, strict=True)
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: found)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", pytest.param("::1", marks=pytest.mark.program("ipv6"))]
)
def test_a_name_of_both_families_connects_to_the_listening_one(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedServer(quiet, host=host) as server:
        leading_to(monkeypatch, server.port, "::1", "127.0.0.1")
        dialling(server.port, "both.test").close()
        dialling(server.port, host).close()


@pytest.mark.parametrize("host", ["no.such.invalid", "x" * 70 + ".invalid"])
def test_an_unknown_name_is_a_one_line_error(
    host: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    look_up = socket.getaddrinfo

    def numeric_only(host: str, port: int, family: int, kind: int, *_: int) -> object:
        return look_up(host, port, family, kind, 0, socket.AI_NUMERICHOST)  # asks no server

    monkeypatch.setattr(socket, "getaddrinfo", numeric_only)
    assert refusal(1, host=host).kind is ErrorKind.NAME_LOOKUP
    assert capfd.readouterr().err == ""


# --- TLS


@pytest.fixture(scope="module")
def swift(certificates: Certificates) -> Iterator[FakeSwift]:
    with FakeSwift(context=certificates.server_context()) as swift:
        yield swift


def trusting(certificates: Certificates) -> ssl.SSLContext:
    return client_context(HttpSettings(cacert_pem=certificates.authority.read_text()))


def test_an_unknown_authority_is_rejected(swift: FakeSwift) -> None:
    error = refusal(swift.port, context=client_context(HttpSettings()))
    assert error.kind is ErrorKind.TLS
    assert "certificate refused: unable to get local issuer certificate" in error.detail


def test_a_certificate_for_another_host_is_rejected(
    swift: FakeSwift, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    leading_to(monkeypatch, swift.port, "127.0.0.1")
    error = refusal(swift.port, host="other.test", context=trusting(certificates))
    assert error.kind is ErrorKind.TLS
    assert "other.test" in error.detail


def test_a_server_without_tls_is_a_tls_failure(certificates: Certificates) -> None:
    for said in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"220 hello\r\n", b""):
        with ScriptedServer(partial(Peer.say, data=said)) as server:
            error = refusal(server.port, context=trusting(certificates))
        assert error.kind is ErrorKind.TLS
        assert "TLS failed: " in error.detail


def test_an_endless_handshake_is_a_connect_timeout(certificates: Certificates) -> None:
    with ScriptedServer(quiet) as server:
        error = refusal(server.port, timeout_s=0.05, context=trusting(certificates))
    assert error.kind is ErrorKind.CONNECT_TIMEOUT


def test_a_fast_tls_server_does_not_starve_other_greenlets(certificates: Certificates) -> None:
    context = certificates.server_context()

    def pouring(peer: Peer) -> None:
        with context.wrap_socket(peer.sock, server_side=True) as tls:
            while not peer.is_over():
                tls.sendall(bytes(65536))

    with (
        ScriptedServer(pouring) as server,
        closing(dialling(server.port, context=trusting(certificates))) as stream,
        gevent.Timeout(0.05, False),
    ):
        while stream.discard(10**9):
            pass
        pytest.fail("the server ended before the timeout came")


def test_faults_after_the_handshake(certificates: Certificates) -> None:
    context = certificates.server_context()

    def leaving(said: bytes, *, silent: bool = False) -> ErrorKind:
        def script(peer: Peer) -> None:
            with context.wrap_socket(peer.sock, server_side=True) as tls:
                inner = Peer(tls, peer.gone)
                inner.hear()
                inner.say(said)
                if silent:
                    inner.linger()

        with ScriptedServer(script) as server:
            endpoint = Endpoint("127.0.0.1", server.port, True)
            pool = ConnectionPool(Dialler(endpoint, 5.0, trusting(certificates)), 0.1)
            with pytest.raises(StorageError) as caught:
                pool.request(HEAD)
            pool.close()
            return caught.value.kind

    half = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"
    assert leaving(b"") is ErrorKind.DISCONNECTED
    assert leaving(half) is ErrorKind.TRUNCATED
    assert leaving(half, silent=True) is ErrorKind.NETWORK_TIMEOUT


def test_a_client_certificate_is_sent(certificates: Certificates, tmp_path: Path) -> None:
    client = client_context(
        HttpSettings(
            cacert_pem=certificates.authority.read_text(),
            cert_path=str(certificates.certificate),
            cert_key_path=str(certificates.key),
        )
    )
    with FakeSwift(context=certificates.server_context(asks_client=True)) as swift:
        pool = ConnectionPool(Dialler(Endpoint("127.0.0.1", swift.port, True), 5.0, client), 5.0)
        assert pool.request(HEAD).status == 200
        pool.close()


@pytest.mark.parametrize("own_first", [True, False])
def test_a_shortage_at_one_address_does_not_hide_the_failure_of_another(
    own_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where IPv6 is switched off, ::1 can't be assigned; that the store is down matters more."""
    failures = [OSError(errno.EADDRNOTAVAIL, "own"), OSError(errno.ECONNREFUSED, "refused")]

    def fail(*_args: object) -> None:
        raise failures.pop(0 if own_first else -1)

    monkeypatch.setattr(socket.socket, "connect_ex", fail)
    found = [(socket.AF_INET, (host, 1)) for host in ("127.0.0.1", "127.0.0.2")]
    monkeypatch.setattr(Dialler, "look_up", lambda _self: found)
    error = refusal(1)
    assert (error.kind, error.detail) == (ErrorKind.CONNECT, "127.0.0.1:1: refused")


def test_a_lookup_without_a_descriptor_is_a_load_generator_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_args: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    assert refusal(1, host="store.invalid").kind is ErrorKind.LOAD_GENERATOR
