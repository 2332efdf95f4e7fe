from __future__ import annotations

import errno
import gzip
import re
import socket
import ssl
import threading
from itertools import pairwise
from urllib.parse import urlsplit

import pytest
import requests

from ssbench.core.errors import AuthError
from ssbench.storage.http.session import (
    MAX_RESPONSE,
    BoundedSession,
    reason_of,
    same_host,
)
from ssbench.storage.options import HttpSettings
from tests.fakes.scripted_server import Peer, Script, ScriptedServer, answering, ok
from tests.fakes.served_pool import CHUNKED, START, dripping, endless


@pytest.mark.parametrize(
    ("here", "there", "same"),
    [
        ("http://h/a", "http://h/b", True),
        ("http://h/a", "http://h:80/b", True),
        ("http://H/a", "http://h/b", True),
        ("http://h/a", "https://h/b", True),  # a step up
        ("https://h/a", "http://h/b", False),  # a step down
        ("http://h:8080/a", "https://h:8443/b", False),
        ("https://h:8443/a", "http://h:8443/b", False),
        ("http://h:8080/a", "http://h:8081/b", False),
        ("http://h/a", "http://evil/b", False),
        ("http://h/a", "http://h.evil/b", False),
        ("http://h/a", "http://h@evil/b", False),
        ("http://h/a", "ftp://h/b", False),
        ("http://h/a", "http://h:99999/b", False),
        ("http://h/a", "http://[::1", False),
    ],
)
def test_redirects_that_may_be_followed(here: str, there: str, same: bool) -> None:
    assert same_host(urlsplit(here), there) is same


def nested(*chain: BaseException) -> BaseException:
    """The first, raised from the second, raised from the third, ..."""
    for outer, inner in pairwise(chain):
        outer.__cause__ = inner
    return chain[0]


def refused_certificate(code: int, message: str) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "verify failed")
    error.verify_code, error.verify_message = code, message
    return error


def tls_fault(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, "handshake failed")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.ECONNREFUSED, "Connection refused"), "connection refused: .* is the port r"),
        (OSError(errno.EHOSTUNREACH, "No route to host"), "no route to host: .* is there a route"),
        (OSError(errno.ENETUNREACH, "Network is unreachable"), "unreachable: .* is there a route"),
        (requests.ConnectionError(OSError(errno.EIO, "Input/output error")), "^input/output error"),
        (socket.gaierror(-2, "Name or service not known"), "does this host's DNS know it"),
        (requests.ConnectTimeout(), "within --connect-timeout: .* does a firewall drop packets"),
        (requests.ReadTimeout(), "within --network-timeout: is the service overloaded or stuck"),
        (tls_fault("WRONG_VERSION_NUMBER"), "TLS failed: the server speaks no TLS there"),
        (tls_fault("UNSUPPORTED_PROTOCOL"), "TLS failed: UNSUPPORTED_PROTOCOL"),
        (tls_fault(""), "TLS failed: does the server speak TLS at this port?"),
        (ValueError("secret"), "the connection broke, or the response is not HTTP: is the port r"),
        (refused_certificate(20, "unable to get local issuer"), "give its CA with --os-cacert"),
        (refused_certificate(10, "certificate has expired"), "renew it, or set this host's clock"),
        (refused_certificate(9, "not yet valid"), "is this host's clock right"),
        (refused_certificate(62, "Hostname mismatch"), "give the URL with the host's name in it"),
        (refused_certificate(64, "IP address mismatch"), "give the URL with the host's name in it"),
    ],
)  # fmt: skip
def test_the_innermost_error_is_the_reason_and_leads_to_advice(
    error: BaseException, reason: str
) -> None:
    said = reason_of(nested(ValueError("x"), error))
    assert re.search(reason, said)
    assert "secret" not in said


def test_proxies_are_named_where_they_may_be_why_the_host_is_not_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = OSError(errno.ECONNREFUSED, "Connection refused")
    for name in ("http_proxy", "HTTPS_PROXY", "all_proxy"):
        monkeypatch.delenv(name.lower(), raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("no_proxy", "localhost")
    assert "proxy" not in reason_of(refused)
    monkeypatch.setenv("HTTPS_PROXY", "http://user:secret@proxy:3128")
    assert "https_proxy is set, and ssbench uses no proxy" in reason_of(refused)
    assert "secret" not in reason_of(refused)
    assert "proxy" not in reason_of(refused_certificate(10, "certificate has expired"))


# Limits on a response -------------------------------------------------------------------


def asked(*scripts: Script, timeout_s: float = 10.0, scheme: str = "http") -> requests.Response:
    """:param timeout_s: of all, of which a connection may be silent for half."""
    settings, limits = HttpSettings(insecure=True), (timeout_s / 2, timeout_s / 2)
    with ScriptedServer(*scripts) as server, BoundedSession(settings, limits) as session:
        return session.get(f"{scheme}://127.0.0.1:{server.port}/")


@pytest.mark.parametrize("status", [100, 102, 103])
def test_interim_responses_are_skipped(status: int) -> None:
    interim = b"HTTP/1.1 %d Soon\r\nLink: </x>\r\nContent-Length: 9\r\n\r\n" % status
    answer = asked(answering(interim * 3 + ok(b"abc")))
    assert (answer.status_code, answer.content, "Link" in answer.headers) == (200, b"abc", False)


@pytest.mark.parametrize("location", [b"http://\xff/", b"http://[/", "http://\u2100/".encode()])
def test_a_redirect_to_what_is_no_url_is_a_response_like_any_other(location: bytes) -> None:
    head = b"HTTP/1.1 301 Gone\r\nContent-Length: 0\r\nLocation: %b\r\n\r\n" % location
    assert asked(answering(head)).status_code == 301


def test_the_zone_of_an_address_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the interface to use."""
    called, heard = [], []

    def look_up(*address: object) -> list[object]:
        called.append(address[:2])
        return [(socket.AF_INET, 0, 0, "", ("127.0.0.1", server.port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)

    def script(peer: Peer) -> None:
        heard.append(peer.hear())
        peer.say(ok(b""))

    with ScriptedServer(script) as server, BoundedSession(HttpSettings()) as session:
        session.request("GET", f"http://[fe80::1%25lo]:{server.port}/x")
    assert called == [("fe80::1%lo", server.port)]
    assert f"Host: [fe80::1]:{server.port}\r\n".encode() in heard[0]


@pytest.mark.parametrize(
    "script",
    [
        dripping(b"", b"x"),
        dripping(b"HTTP/1.1 200 OK\r\nX: ", b"x"),
        dripping(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        dripping(START.replace(b"100", b"10000"), b"x"),
        dripping(CHUNKED, b"1\r\nx\r\n"),
        dripping(CHUNKED + b"0\r\n", b"X: y\r\n"),
    ],
)
def test_a_dripping_answer_is_a_timeout(script: Script) -> None:
    with pytest.raises(requests.Timeout):
        asked(script, timeout_s=0.2)


def test_a_dripping_handshake_is_a_timeout() -> None:
    def script(peer: Peer) -> None:
        # The start of a record of 16 kB, whose end each byte brings a little nearer.
        peer.say(b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc\x03\x03")
        while not peer.is_over(0.01):
            peer.say(b"x")

    with pytest.raises(requests.Timeout):
        asked(script, timeout_s=0.3, scheme="https")


@pytest.mark.parametrize(
    ("start", "part"),
    [(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65536), (CHUNKED, b"10000\r\n%b\r\n" % (b"x" * 65536))],
)
def test_an_endless_answer_is_an_error(start: bytes, part: bytes) -> None:
    assert MAX_RESPONSE == 8 << 20
    with pytest.raises(AuthError, match=f"more than {MAX_RESPONSE} bytes"):
        asked(endless(start, part))


@pytest.mark.parametrize(
    "said", [b"", b"220 ESMTP\r\n\r\n", START + b"half", CHUNKED + b"x\r\n", CHUNKED + b"5\r\nh"]
)
def test_an_incomplete_answer_is_a_broken_connection(said: bytes) -> None:
    with pytest.raises(requests.ConnectionError):
        asked(answering(said))


@pytest.mark.parametrize(("body", "coding", "says"), [
    (gzip.compress(bytes(MAX_RESPONSE + 1)), b"gzip", f"more than {MAX_RESPONSE} bytes"),
    (b"no gzip", b"gzip", "the body is not valid gzip"),
    (gzip.compress(b"{}", mtime=0) + b"{}", b"gzip", "not valid gzip: more follows its end"),
    (b"x", b"br", "a body with Content-Encoding br, which was not requested"),
    (b" [" + b"1," * 1_000_000 + b"1]", b"identity", "JSON of more than 1,000,000 values"),
    (b" " * 99 + b"[" + b"1," * 1_000_000 + b"1]", b"identity", "more than 1,000,000 values"),
])  # fmt: skip
def test_what_can_not_be_decoded_is_named(body: bytes, coding: bytes, says: str) -> None:
    with pytest.raises(AuthError, match=says):
        asked(answering(ok(body, b"Content-Encoding: " + coding)))


def test_json_of_a_million_values_is_read() -> None:
    body = b"[" + b"1," * 999_999 + b"1]"
    assert asked(answering(ok(body))).content == body


@pytest.mark.parametrize("named", [b"application/json; charset=punycode", b"text/plain", b"x"])
def test_a_body_is_read_as_utf_8_whatever_its_encoding_is_said_to_be(named: bytes) -> None:
    """Decoding 8 MiB of punycode takes the better part of an hour."""
    response = asked(answering(ok('{"a": "Zoë"}'.encode(), b"Content-Type: " + named)))
    assert (response.text, response.json()) == ('{"a": "Zoë"}', {"a": "Zoë"})


def test_a_resolver_that_never_answers_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def silent(*_: object) -> list[object]:
        over.wait()
        raise socket.gaierror(socket.EAI_AGAIN, "no answer")

    monkeypatch.setattr(socket, "getaddrinfo", silent)
    try:
        with (
            BoundedSession(HttpSettings(), timeouts_s=(0.1, 60.0)) as session,
            pytest.raises(requests.ConnectTimeout) as caught,
        ):
            session.get("http://store.example/")
    finally:
        over.set()
    assert reason_of(caught.value).startswith("no connection within --connect-timeout")
