"""Which peers count as rejected, and how often that is logged."""

from __future__ import annotations

import pytest

from ssbench import __version__
from ssbench.core.errors import MessageError, ProtocolError
from ssbench.core.messages import PROTOCOL
from ssbench.transport.authenticator import (
    CLOSED_EARLY,
    MAX_LOGGED,
    MAX_WORKERS,
    NO_KEY,
    OTHER_KEY,
    OTHER_PROTOCOL,
    PendingPeers,
    RejectedMessages,
    RejectedPeer,
    RejectedPeers,
)


def pending(*trusted: str, locked: bool = True) -> PendingPeers:
    made = PendingPeers(set(trusted), locked=locked)
    made.port = 5
    return made


def closes_early(peers: PendingPeers, address: str = "192.0.2.1") -> bool:
    """Whether a peer that closes during the handshake is reported."""
    peers.connected(11, address)
    peers.handshake_failed("closed")
    return peers.disconnected(11) == RejectedPeer(address, 5, CLOSED_EARLY)


def test_a_rejected_peer_is_the_next_to_disconnect() -> None:
    peers = pending()
    peers.connected(11, "192.0.2.1")
    peers.connected(12, "192.0.2.2")
    peers.handshake_succeeded()  # it might be either
    peers.handshake_failed(NO_KEY)
    assert peers.disconnected(12) == RejectedPeer("192.0.2.2", 5, NO_KEY)
    assert peers.disconnected(11) is None


def test_a_peer_that_disconnects_first_was_never_accepted() -> None:
    peers = pending()
    peers.connected(11, "192.0.2.1")
    assert peers.disconnected(11) == RejectedPeer("192.0.2.1", 5, OTHER_PROTOCOL)
    peers.connected(11, "192.0.2.1")
    peers.handshake_succeeded()
    assert peers.disconnected(11) is None
    assert peers.disconnected(11) is None


def test_a_peer_that_closes_during_the_handshake_is_logged() -> None:
    assert closes_early(pending())
    assert closes_early(pending(), "")
    assert closes_early(pending("192.0.2.9"))


@pytest.mark.parametrize(
    ("peers", "address"),
    [
        (pending("192.0.2.1"), "192.0.2.1"),
        (pending("192.0.2.9"), ""),
        (pending(locked=False), "192.0.2.1"),
    ],
    ids=["trusted", "perhaps trusted", "no key required"],
)
def test_a_possible_worker_is_logged_after_repeated_disconnects(
    peers: PendingPeers, address: str
) -> None:
    assert [closes_early(peers, address) for _ in range(3)] == [False] * 3
    peers.handshake_succeeded()
    assert [closes_early(peers, address) for _ in range(4)] == [False, False, False, True]


A, B = RejectedPeer("192.0.2.1", 5, NO_KEY), RejectedPeer("192.0.2.2", 5, OTHER_KEY)
NAMELESS = RejectedPeer("", 5, NO_KEY)


def test_at_most_ten_addresses_are_logged() -> None:
    peers = [RejectedPeer(f"192.0.2.{n}", 5, NO_KEY) for n in range(200)]
    lines = RejectedPeers().lines(peers, 0.0)
    assert len(lines) == 11
    assert lines[-1] == "Rejected peers at more than 10 addresses; no more are named"


def test_each_address_is_logged_once_and_an_unknown_one_after_a_wait() -> None:
    rejected = RejectedPeers()
    assert len(rejected.lines([A, B, A, B._replace(port=6)], 0.0)) == 2
    assert rejected.lines([A, B], 100.0, last=True) == []
    rejected = RejectedPeers()
    assert rejected.lines([NAMELESS], 10.0) == []
    assert rejected.lines([], 11.0) == []
    (line,) = rejected.lines([], 13.5)
    assert "an unknown address, port" in line
    assert rejected.lines([NAMELESS], 99.0, last=True) == []
    rejected = RejectedPeers()
    assert rejected.lines([NAMELESS], 10.0) == []
    assert len(rejected.lines([A], 11.0)) == 1, "its address is known by then"
    assert rejected.lines([], 99.0, last=True) == []


def test_only_a_few_of_many_messages_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    rejected = RejectedMessages("results")
    for number in range(10_000):
        rejected.add(MessageError(f"fault {number}"))
    assert rejected.count == 10_000
    assert len(caplog.messages) == MAX_LOGGED
    assert caplog.messages[0] == "Rejected a message on the results port: fault 0"
    assert caplog.messages[-1].endswith("further ones are only counted")
    assert repr(rejected) == "<RejectedMessages of the results port: 10000>"


def test_a_worker_of_another_protocol_is_named_in_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rejected = RejectedMessages("results")
    for _ in range(100):
        rejected.add(ProtocolError("protocol 2", 2, sender="w1 (host, pid 1)", release="1.1"))
        rejected.add(ProtocolError("protocol 2", 2))  # its other messages
    assert rejected.workers() == [
        "Worker w1 (host, pid 1) can't join: its ssbench 1.1 speaks protocol 2, this ssbench"
        f" {__version__} protocol {PROTOCOL}; install the same release on every host"
    ]
    assert rejected.workers() == []
    assert caplog.messages == []
    assert rejected.count == 200


def test_a_limited_number_of_workers_of_another_protocol_is_named() -> None:
    rejected = RejectedMessages("results")
    for number in range(10_000):
        rejected.add(ProtocolError("protocol 2", 2, sender=f"w{number} (h, pid 1)", release="2"))
    lines = rejected.workers()
    assert len(lines) == MAX_WORKERS
    assert lines[-1].endswith("further ones are not named")


def test_one_other_message_of_another_protocol_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rejected = RejectedMessages("control")
    for _ in range(100):
        rejected.add(ProtocolError("protocol 2; this ssbench speaks 1", 2))
    assert caplog.messages == [
        "Rejected a message on the control port: protocol 2; this ssbench speaks 1"
    ]
