"""Addresses: of names, and as ZeroMQ wants them."""

from __future__ import annotations

import socket

import pytest

from ssbench.transport.ports import TransportError, endpoint, resolve


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 300, "a..b", "ex ample", ""])
def test_a_host_without_an_address(host: str) -> None:
    with pytest.raises(TransportError, match="no address is known") as caught:
        resolve(host)
    assert "\n" not in str(caught.value)


def test_names_with_both_kinds_of_address_give_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    v6 = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("2001:db8::1", 0, 0, 0))
    v4 = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.7", 0))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kw: [v6, v4])
    assert resolve("both.example") == "192.0.2.7"
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kw: [v6])
    assert resolve("six.example") == "2001:db8::1"


def test_addresses_stay_what_they_are() -> None:
    assert resolve("127.0.0.1") == "127.0.0.1"
    assert resolve("::") == "::"


@pytest.mark.parametrize(
    ("ip", "port", "place"),
    [
        ("192.0.2.7", 13579, "tcp://192.0.2.7:13579"),
        ("127.0.0.1", "*", "tcp://127.0.0.1:*"),
        ("2001:db8::1", 13580, "tcp://[2001:db8::1]:13580"),
    ],
)
def test_endpoints(ip: str, port: int | str, place: str) -> None:
    assert endpoint(ip, port) == place
