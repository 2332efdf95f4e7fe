"""Both sides on loopback: who may talk, and what gets through."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import zmq

from ssbench.transport.batch_scheduling import HAS_BATCH
from ssbench.transport.key import CurveKey
from ssbench.transport.master_transport import MasterTransport
from ssbench.transport.ports import Ports
from ssbench.transport.sockets import BACKLOG
from tests.transport.ends import ANY, PATIENCE_S, all_channels, until, worker_of

#: Long enough for a handshake on loopback, which takes some 20 ms, to have happened.
GRACE_S = 0.4

has_ipv6 = pytest.mark.skipif(
    not (socket.has_ipv6 and os.path.exists("/proc/net/if_inet6")), reason="no IPv6 here"
)


@pytest.mark.parametrize("with_key", [False, True], ids=["plain", "encrypted"])
def test_all_channels_carry_messages(with_key: bool) -> None:
    key = CurveKey.generate() if with_key else None
    with (
        MasterTransport("127.0.0.1", ANY, key) as master,
        worker_of(master, key) as (transport, control),
    ):
        assert all_channels(master, transport, control, PATIENCE_S) == (True, True, True)
        assert master.refused == 0


def zeromqs_threads() -> Iterator[int]:
    """Those of this process that libzmq has for itself."""
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it has ended meanwhile
            if "ZMQ" in (task / "comm").read_text():
                yield int(task.name)


@pytest.mark.skipif(not HAS_BATCH, reason="only Linux has such threads")
def test_zeromqs_own_threads_give_way_to_ours() -> None:
    before = set(zeromqs_threads())
    with MasterTransport("127.0.0.1", ANY, None) as master, worker_of(master):
        # Two of each side. They name themselves once they run.
        assert until(lambda: len(set(zeromqs_threads()) - before) == 4)
        policies = {os.sched_getscheduler(task) for task in set(zeromqs_threads()) - before}
        assert policies == {os.SCHED_BATCH}
        assert os.sched_getscheduler(0) == os.SCHED_OTHER


@has_ipv6
def test_ipv6() -> None:
    with (
        MasterTransport("::1", ANY, None) as master,
        worker_of(master, host="::1") as (transport, control),
    ):
        assert master.ip == "::1"
        assert all_channels(master, transport, control, PATIENCE_S) == (True, True, True)


KEYS = {
    "no key": lambda key: None,
    "another key": lambda key: CurveKey.generate(),
    "another client's": lambda key: CurveKey(
        key.server_public,
        "x" * 40,
        *(lambda k: (k.client_public, k.client_secret))(CurveKey.generate()),
    ),
}


@pytest.mark.parametrize("other", KEYS.values(), ids=KEYS)
def test_without_the_masters_key_nothing_gets_in_or_out(
    other: Callable[[CurveKey], CurveKey | None],
) -> None:
    key = CurveKey.generate()
    with (
        MasterTransport("127.0.0.1", ANY, key) as master,
        worker_of(master, other(key)) as (transport, control),
    ):
        assert all_channels(master, transport, control, GRACE_S) == (False, False, False)
        # The lock is no way to keep others out, either.
        with worker_of(master, key) as (friend, friends_control):
            assert all_channels(master, friend, friends_control, PATIENCE_S)[:2] == (True, True)


def test_a_worker_with_a_key_tells_nothing_to_a_master_without() -> None:
    with (
        MasterTransport("127.0.0.1", ANY, None) as master,
        worker_of(master, CurveKey.generate()) as (transport, control),
    ):
        assert all_channels(master, transport, control, GRACE_S) == (False, False, False)


def test_hundreds_of_workers_may_come_at_once() -> None:
    """The kernel turns away who finds the queue of a port full, and tells nobody."""
    with MasterTransport("127.0.0.1", Ports(0, 0, 0), None) as transport:
        for sock in (transport._work, transport._results, transport._control):
            assert sock.getsockopt(zmq.BACKLOG) == BACKLOG
