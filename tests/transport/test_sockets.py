"""Both sides on loopback: who may talk, and what gets through."""

from __future__ import annotations

import os
import socket
import threading

import pytest
import zmq

from ssbench.transport.key import CurveKey
from ssbench.transport.master_transport import MasterTransport
from ssbench.transport.sockets import (
    BACKLOG,
    TransportError,
    batch_scheduling,
    make_socket,
    resolve,
)
from tests.transport.ends import ANY, PATIENCE_S, all_channels, worker_of

#: Long enough for a handshake on loopback, which takes some 20 ms, to have happened.
GRACE_S = 0.4


@pytest.mark.program("ipv6")
def test_ipv6() -> None:
    with (
        MasterTransport("::1", ANY, None) as master,
        worker_of(master, host="::1") as (transport, control),
    ):
        assert master.ip == "::1"
        assert all_channels(master, transport, control, PATIENCE_S) == (True, True, True)


def test_a_worker_with_a_key_sends_nothing_to_a_master_without() -> None:
    with (
        MasterTransport("127.0.0.1", ANY, None) as master,
        worker_of(master, CurveKey.generate()) as (transport, control),
    ):
        assert all_channels(master, transport, control, GRACE_S) == (False, False, False)


@pytest.mark.parametrize("kind", [zmq.PUSH, zmq.PULL, zmq.PUB])
def test_hundreds_of_workers_can_join_at_once(kind: int) -> None:
    """The kernel turns away who finds the queue of a port full, and tells nobody."""
    with zmq.Context() as context, make_socket(context, kind, "127.0.0.1") as sock:
        assert sock.getsockopt(zmq.BACKLOG) == BACKLOG


# Addresses ---------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 300, "a..b", "ex ample", ""])
def test_a_host_name_without_an_address(host: str) -> None:
    with pytest.raises(TransportError, match="no address is known") as caught:
        resolve(host)
    assert "\n" not in str(caught.value)
    assert "Errno" not in str(caught.value)


def test_names_with_both_kinds_of_address_give_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    v6 = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("2001:db8::1", 0, 0, 0))
    v4 = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.7", 0))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kw: [v6, v4])
    assert resolve("both.example") == "192.0.2.7"
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kw: [v6])
    assert resolve("six.example") == "2001:db8::1"


# Batch scheduling --------------------------------------------------------------------------


def policies() -> tuple[int, int]:
    """Of this thread, and of one that it starts."""
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(os.sched_getscheduler(0)))
    thread.start()
    thread.join()
    return os.sched_getscheduler(0), found[0]


def test_another_policy_is_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getscheduler", lambda pid: os.SCHED_IDLE)
    monkeypatch.setattr(os, "sched_setscheduler", None)
    with batch_scheduling():
        pass


def test_without_permission_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    with batch_scheduling():
        assert policies() == (os.SCHED_OTHER, os.SCHED_OTHER)
