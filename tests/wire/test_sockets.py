"""Sockets on loopback: who may talk, what gets through, and what is said when it can't be."""

from __future__ import annotations

import os
import resource
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
import zmq

from ssbench.core.errors import ExitStatus
from ssbench.core.messages import Beat, Bye, Expired, Jobs, Message, decode, encode
from ssbench.wire.key import Key
from ssbench.wire.sockets import (
    BACKLOG,
    RECEIVED_AT_ONCE,
    Control,
    MasterWire,
    Ports,
    WireError,
    WorkerWire,
    pipe_length,
    resolve,
)
from ssbench.wire.yielding import HAS_BATCH

ANY = Ports(0, 0, 0)
PATIENCE_S = 5.0  #: never needed in full, unless something is wrong
#: Long enough for a handshake on loopback, which takes some 20 ms, to have happened.
GRACE_S = 0.4

has_ipv6 = pytest.mark.skipif(
    not (socket.has_ipv6 and os.path.exists("/proc/net/if_inet6")), reason="no IPv6 here"
)


def beat(serial: int = 1) -> Beat:
    return Beat(1, serial, 0, "", 0, 0, {}, {}, {}, 10.0, 0.0, 2, *[False] * 4)


@contextmanager
def worker_of(
    master: MasterWire, key: Key | None = None, host: str = "127.0.0.1"
) -> Iterator[tuple[WorkerWire, Control]]:
    """A worker's ends, connected to this master."""
    wire = WorkerWire(host, master.ports, key)
    control = wire.control()
    try:
        yield wire, control
    finally:
        control.close()
        wire.close()


def until(condition: Callable[[], bool], patience_s: float = PATIENCE_S) -> bool:
    """Whether this became true in time."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.005)
    return False


def all_channels(
    master: MasterWire, wire: WorkerWire, control: Control, patience_s: float
) -> tuple[bool, bool, bool]:
    """Whether results, beats and jobs get through."""
    heard: list[Message] = []

    def results() -> bool:
        wire.send(Expired(1, 2))
        heard.extend(master.receive(0.005))
        return Expired(1, 2) in heard

    def beats() -> bool:
        master.send_beat(beat())
        return control.receive(0.005) == beat()

    def jobs() -> bool:
        master.send_jobs(encode(Jobs("r", 2, 1, 0, [])))
        data = wire.receive()
        return data is not None and decode(data) == Jobs("r", 2, 1, 0, [])

    wire.open_work(2)
    return until(results, patience_s), until(beats, patience_s), until(jobs, patience_s)


# Getting through --------------------------------------------------------------------------


@pytest.mark.parametrize("with_key", [False, True], ids=["plain", "encrypted"])
def test_all_channels_carry_messages(with_key: bool) -> None:
    key = Key.generate() if with_key else None
    with MasterWire("127.0.0.1", ANY, key) as master, worker_of(master, key) as (wire, control):
        assert all_channels(master, wire, control, PATIENCE_S) == (True, True, True)
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
    with MasterWire("127.0.0.1", ANY, None) as master, worker_of(master):
        # Two of each side. They name themselves once they run.
        assert until(lambda: len(set(zeromqs_threads()) - before) == 4)
        policies = {os.sched_getscheduler(task) for task in set(zeromqs_threads()) - before}
        assert policies == {os.SCHED_BATCH}
        assert os.sched_getscheduler(0) == os.SCHED_OTHER


@has_ipv6
def test_ipv6() -> None:
    with MasterWire("::1", ANY, None) as master, worker_of(master, host="::1") as (wire, control):
        assert master.ip == "::1"
        assert all_channels(master, wire, control, PATIENCE_S) == (True, True, True)


KEYS = {
    "no key": lambda key: None,
    "another key": lambda key: Key.generate(),
    "another client's": lambda key: Key(
        key.server_public, "x" * 40, *(lambda k: (k.client_public, k.client_secret))(Key.generate())
    ),
}


@pytest.mark.parametrize("other", KEYS.values(), ids=KEYS)
def test_without_the_masters_key_nothing_gets_in_or_out(
    other: Callable[[Key], Key | None],
) -> None:
    key = Key.generate()
    with (
        MasterWire("127.0.0.1", ANY, key) as master,
        worker_of(master, other(key)) as (wire, control),
    ):
        assert all_channels(master, wire, control, GRACE_S) == (False, False, False)
        # The lock is no way to keep others out, either.
        with worker_of(master, key) as (friend, friends_control):
            assert all_channels(master, friend, friends_control, PATIENCE_S)[:2] == (True, True)


def test_a_worker_with_a_key_tells_nothing_to_a_master_without() -> None:
    with (
        MasterWire("127.0.0.1", ANY, None) as master,
        worker_of(master, Key.generate()) as (wire, control),
    ):
        assert all_channels(master, wire, control, GRACE_S) == (False, False, False)


def test_rubbish_is_refused_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    with MasterWire("127.0.0.1", ANY, None) as master, zmq.Context() as context:
        with context.socket(zmq.PUSH) as stranger:
            stranger.connect(f"tcp://127.0.0.1:{master.ports.results}")
            for data in (b"rubbish", b"\xc1", encode(Bye(1, "x"))[:-1]):
                stranger.send(data)
            stranger.send(encode(Bye(1, "x")))
            heard: list[Message] = []
            assert until(lambda: bool(heard.extend(master.receive(0.05)) or heard))
        assert heard == [Bye(1, "x")]
        assert master.refused == 3
        assert "Refused a message on the results port" in caplog.text


def test_rubbish_on_the_control_port_is_no_beat() -> None:
    with MasterWire("127.0.0.1", ANY, None) as master, worker_of(master) as (_wire, control):
        assert until(lambda: bool(master.send_beat(beat()) or control.receive(0.01)))
        master._control.send(b"rubbish")
        assert control.receive(0.2) is None


def test_of_many_beats_the_newest_counts() -> None:
    with MasterWire("127.0.0.1", ANY, None) as master, worker_of(master) as (_wire, control):
        assert until(lambda: bool(master.send_beat(beat()) or control.receive(0.01)))
        for serial in range(2, 6):
            master.send_beat(beat(serial))
        time.sleep(0.05)
        assert control.receive(1) == beat(5)


# What is in the pipes ---------------------------------------------------------------------


def test_without_workers_no_job_is_taken() -> None:
    with MasterWire("127.0.0.1", ANY, None) as master:
        assert not master.send_jobs(b"x")


def test_a_worker_that_reads_nothing_swallows_little() -> None:
    with MasterWire("127.0.0.1", ANY, None) as master, worker_of(master) as (wire, _control):
        wire.open_work(master.pipe)
        message = encode(Jobs("r", 2, 1, 0, [bytes(4000)]))
        assert until(lambda: master.send_jobs(message))
        swallowed = 1
        while until(lambda: master.send_jobs(message), 0.05):
            swallowed += 1
            assert swallowed < 100
        assert swallowed < 30


def test_a_closed_work_socket_gives_nothing() -> None:
    with MasterWire("127.0.0.1", ANY, None) as master, worker_of(master) as (wire, _control):
        assert wire.receive() is None
        assert wire.open_work(2) == wire.open_work(2)
        wire.close_work()
        wire.close_work()
        assert wire.receive() is None


@pytest.mark.parametrize(
    ("jobs", "messages"), [(0, 16), (1, 16), (4, 16), (8, 8), (64, 2), (256, 2)]
)
def test_pipes_are_shorter_for_larger_batches(jobs: int, messages: int) -> None:
    assert pipe_length(jobs) == messages


def test_of_many_messages_none_is_missing_and_the_loop_gets_its_turn() -> None:
    with MasterWire("127.0.0.1", ANY, None) as master, worker_of(master) as (wire, _):
        count = 2 * RECEIVED_AT_ONCE + 5
        sent = 0
        got: list[int] = []

        def all_came() -> bool:
            nonlocal sent
            while sent < count and wire.send(Expired(1, sent)):
                sent += 1
            some = [m.token_serial for m in master.receive(0.02) if isinstance(m, Expired)]
            assert len(some) <= RECEIVED_AT_ONCE
            got.extend(some)
            return len(got) == count

        assert until(all_came)
        assert got == list(range(count))


def test_waiting_for_messages_is_bounded() -> None:
    with MasterWire("127.0.0.1", ANY, None) as master:
        for timeout_s, most_s in ((-5, 0.2), (0, 0.2), (0.05, 0.5)):
            started = time.monotonic()
            assert list(master.receive(timeout_s)) == []
            assert time.monotonic() - started < most_s


# Ends -------------------------------------------------------------------------------------


def test_a_worker_ends_without_a_master() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    wire = WorkerWire("127.0.0.1", Ports(port, port, port), None)
    control = wire.control()
    assert not wire.send(Bye(1, ""))
    assert control.receive(0.01) is None
    assert not control.send(Bye(1, ""))
    started = time.monotonic()
    control.close()
    wire.close()
    assert time.monotonic() - started < 1


def test_what_was_sent_last_still_goes_out() -> None:
    with MasterWire("127.0.0.1", ANY, None) as master:
        with worker_of(master) as (wire, _control):
            assert until(lambda: wire.send(Bye(1, "last words")))
        assert next(iter(master.receive(PATIENCE_S))) == Bye(1, "last words")


def test_ports_are_free_again_when_the_master_is_gone() -> None:
    with MasterWire("127.0.0.1", ANY, Key.generate()) as first:
        ports = first.ports
    with MasterWire("127.0.0.1", ports, None) as second:
        assert second.ports == ports


# Addresses --------------------------------------------------------------------------------


def test_where_a_master_listens() -> None:
    with MasterWire(None, ANY, None) as master:
        assert master.ip == "127.0.0.1"
    with MasterWire(None, ANY, Key.generate()) as master:
        assert master.ip == "0.0.0.0"
    with MasterWire("127.0.0.2", ANY, Key.generate()) as master:
        assert master.ip == "127.0.0.2"


def test_a_port_in_use_is_said_with_the_options_that_help() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        for ports in (Ports(port, 0, 0), Ports(0, port, 0), Ports(0, 0, port)):
            with pytest.raises(WireError) as caught:
                MasterWire("127.0.0.1", ports, Key.generate())
            text = str(caught.value)
            assert f"127.0.0.1:{port}" in text
            assert "Address already in use; is another ssbench-master running?" in text
            assert "--zmq-work-port" in text
            assert "\n" not in text
            assert caught.value.exit_status is ExitStatus.FAILED


def test_an_address_of_another_host_is_said() -> None:
    with pytest.raises(WireError, match=r"192\.0\.2\.1.*--zmq-bind-ip") as caught:
        MasterWire("192.0.2.1", ANY, None)
    assert "another ssbench-master" not in str(caught.value), "nobody else is to blame"


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 300, "a..b", "ex ample", ""])
def test_a_host_without_an_address(host: str) -> None:
    with pytest.raises(WireError, match="no address is known") as caught:
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


def test_a_worker_without_a_descriptor_left_says_so() -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    wire = WorkerWire("127.0.0.1", Ports(), None)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        for needs_one in (wire.control, lambda: wire.open_work(2)):
            with pytest.raises(WireError, match="Too many open files"):
                needs_one()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        wire._context.destroy()


def test_hundreds_of_workers_may_come_at_once() -> None:
    """The kernel turns away who finds the queue of a port full, and tells nobody."""
    with MasterWire("127.0.0.1", Ports(0, 0, 0), None) as wire:
        for sock in (wire._work, wire._results, wire._control):
            assert sock.getsockopt(zmq.BACKLOG) == BACKLOG
