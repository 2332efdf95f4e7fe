"""What a connection may send that no worker has sealed: its account, in numbers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from ssbench.transport.unsealed import (
    BYTES_PER_UNIT,
    UNITS_PER_HELLO,
    UNITS_PER_MESSAGE,
    UnsealedMessages,
)

HELLO = UNITS_PER_MESSAGE + UNITS_PER_HELLO
QUEUED = 16


class Peer:
    """A connection, and messages of it as ZeroMQ gives them."""

    def __init__(self, opened: ExitStack, number: int) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.sock = opened.enter_context(socket.create_connection(server.getsockname(), 10))
            ours = opened.enter_context(server.accept()[0])
        self.frame: Any = {"User-Id": str(number), "__fd": str(ours.fileno())}

    def is_connected(self) -> bool:
        self.sock.setblocking(False)
        try:
            return self.sock.recv(1) != b""
        except BlockingIOError:
            return True


@pytest.fixture
def peers() -> Iterator[list[Peer]]:
    with ExitStack() as opened:
        yield [Peer(opened, number) for number in range(2)]


@pytest.fixture
def disconnected() -> list[str]:
    return []


@pytest.fixture
def accounts(disconnected: list[str]) -> Iterator[UnsealedMessages]:
    found = UnsealedMessages(QUEUED, disconnected.append)
    yield found
    found.close()


def test_a_message_costs_16_and_1_for_each_256_bytes_and_a_hello_256_more() -> None:
    assert (UNITS_PER_MESSAGE, BYTES_PER_UNIT, UNITS_PER_HELLO) == (16, 256, 256)


def test_a_connection_pays_16_hellos_at_once_and_4_a_second(
    accounts: UnsealedMessages, peers: list[Peer]
) -> None:
    one, other = (peer.frame for peer in peers)
    paid = [accounts.pays(one, HELLO, 0.0) for _ in range(17)]
    assert paid == [True] * 16 + [False]
    assert accounts.pays(other, 4352, 0.0), "an account of its own"
    assert [accounts.pays(one, 1024, 1.0), accounts.pays(one, 1, 1.0)] == [True, False]
    assert [accounts.pays(one, 4352, 100.0), accounts.pays(one, 1, 100.0)] == [True, False]
    assert accounts.pays(one, -16, 100.0), "a worker had sealed it"
    assert accounts.pays(one, 16, 100.0)


def test_who_can_not_pay_is_disconnected_once_that_is_certainly_its_own(
    accounts: UnsealedMessages, peers: list[Peer], disconnected: list[str]
) -> None:
    """ZeroMQ may hold messages of a connection that is closed, with a number of another one."""
    one, _ = peers
    accounts.pays(one.frame, 4352, 0.0)
    for _ in range(1 + QUEUED):
        assert not accounts.pays(one.frame, 1, 0.0)
        assert one.is_connected()
    assert not accounts.pays(one.frame, 1, 0.0)
    assert not one.is_connected()
    assert disconnected == ["127.0.0.1"]
    assert not accounts.pays(one.frame, 1, 1e9), "nothing more of it is looked at"


def test_a_limited_number_of_connections_is_remembered(
    accounts: UnsealedMessages, peers: list[Peer]
) -> None:
    for number in range(5000):
        accounts.pays({**peers[0].frame, "User-Id": str(number)}, 16, 0.0)  # type: ignore[arg-type]
    assert repr(accounts) == "<UnsealedMessages of 4096 connections>"
