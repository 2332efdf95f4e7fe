"""Peers that are rejected at each of the three ports: real sockets, and the log lines."""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest
import zmq
from zmq.utils.monitor import recv_monitor_message

from ssbench.core.messages import Bye, Jobs, encode
from ssbench.transport import authenticator, master_transport
from ssbench.transport.authenticator import CLOSED_EARLY, NO_KEY, OTHER_KEY, ZapAuthenticator
from ssbench.transport.key import CurveKey
from ssbench.transport.master_transport import MasterTransport
from ssbench.transport.sockets import Ports
from ssbench.transport.worker_transport import Control, WorkerTransport
from tests.fakes.control_states import IDLE
from tests.fakes.hostile_peers import call, greeting, subscriptions
from tests.transport.ends import ANY, PATIENCE_S, all_channels, until, worker_of

#: The master's socket -> the socket that a peer would connect to it.
PEERS = {"work": zmq.PULL, "results": zmq.PUSH, "control": zmq.SUB}
#: Long enough for everything on loopback to have happened: handshakes take some 20 ms.
GRACE_S = 0.4

#: ZeroMQ may have closed the connection already; certain are only those that it asks us about.
SOMEWHERE = r"(127\.0\.0\.1|an unknown address)"

Locks = Callable[[zmq.Socket[bytes], CurveKey], None]


def no_lock(sock: zmq.Socket[bytes], key: CurveKey) -> None:
    pass


def curve(sock: zmq.Socket[bytes], server: CurveKey, client: CurveKey) -> None:
    sock.setsockopt(zmq.CURVE_SERVERKEY, server.server_public.encode())
    sock.setsockopt(zmq.CURVE_PUBLICKEY, client.client_public.encode())
    sock.setsockopt(zmq.CURVE_SECRETKEY, client.client_secret.encode())


def another_key(sock: zmq.Socket[bytes], key: CurveKey) -> None:
    other = CurveKey.generate()
    curve(sock, other, other)


def wrong_client(sock: zmq.Socket[bytes], key: CurveKey) -> None:
    curve(sock, key, CurveKey.generate())


def password(sock: zmq.Socket[bytes], key: CurveKey) -> None:
    sock.setsockopt(zmq.PLAIN_USERNAME, b"admin")
    sock.setsockopt(zmq.PLAIN_PASSWORD, b"admin")


LOCKS = {
    # Either side may be the first to see that they don't fit, and hang up.
    "no key": (no_lock, {NO_KEY, CLOSED_EARLY}),
    "another key": (another_key, {OTHER_KEY}),
    "the server's key, but another client's": (wrong_client, {OTHER_KEY}),
    "a password": (password, {NO_KEY, CLOSED_EARLY}),
}


class Guest:
    """A socket of a peer without the key, which receives what it gets."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], kind: int) -> None:
        self.sock = context.socket(kind)
        self.sock.setsockopt(zmq.LINGER, 0)
        if kind == zmq.SUB:
            self.sock.setsockopt(zmq.SUBSCRIBE, b"")

    def try_all(self) -> None:
        if self.sock.type == zmq.PUSH:
            with suppress(zmq.Again):
                while True:
                    self.sock.send(encode(Bye(1, "forged")), zmq.NOBLOCK)

    def got(self) -> list[bytes]:
        found = []
        while self.sock.type != zmq.PUSH and self.sock.poll(0):
            found.append(self.sock.recv())
        return found


@contextmanager
def guest(kind: int, port: int, lock: Locks, key: CurveKey) -> Iterator[Guest]:
    with zmq.Context() as context:
        made = Guest(context, kind)
        lock(made.sock, key)
        made.sock.setsockopt(zmq.SNDHWM, 10)
        made.sock.connect(f"tcp://127.0.0.1:{port}")
        try:
            yield made
        finally:
            made.sock.close(0)


def told(master: MasterTransport, lines: list[str]) -> bool:
    lines += master.rejected_peers()
    return bool(lines)


@pytest.mark.parametrize("channel", PEERS)
@pytest.mark.parametrize(("lock", "whys"), LOCKS.values(), ids=LOCKS)
def test_a_peer_without_the_key_neither_sends_nor_receives_and_is_logged_once(
    channel: str, lock: Locks, whys: set[str]
) -> None:
    key = CurveKey.generate()
    with MasterTransport("127.0.0.1", ANY, key) as master:
        port = getattr(master.ports, channel)
        lines: list[str] = []
        with guest(PEERS[channel], port, lock, key) as rejected:
            rejected.try_all()
            assert until(lambda: told(master, lines))
            deadline = time.monotonic() + GRACE_S
            while time.monotonic() < deadline:
                rejected.try_all()
                master.send_control_state(IDLE)
                assert not master.send_jobs(encode(Jobs("r", 2, 1, 0, b"")))
                assert list(master.receive(0.01, {})) == []
                told(master, lines)
            assert rejected.got() == []
        addresses = []
        for line in lines:
            place = re.match(rf"Rejected a peer at ({SOMEWHERE}), port {port}: ", line)
            assert place
            assert line.endswith(tuple(whys))
            addresses.append(place[1])
        # A busy host may not know it until the peer has connected once more.
        assert sorted(set(addresses)) == sorted(addresses) != []
        assert master.rejected == 0
        # And whoever has the key gets in, all the same.
        with worker_of(master, key) as (friend, control):
            assert all_channels(master, friend, control, PATIENCE_S) == (True, True, True)


@pytest.mark.timeout(30)
def test_hundreds_of_rejected_peers_do_not_block_workers() -> None:
    key = CurveKey.generate()
    with MasterTransport("127.0.0.1", ANY, key) as master:
        for _ in range(600):
            with socket.create_connection(("127.0.0.1", master.ports.results)) as sock:
                sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
        with worker_of(master, key) as (transport, control):
            assert all_channels(master, transport, control, PATIENCE_S) == (True, True, True)
        assert len(master.rejected_peers(last=True)) <= 1


# A worker that isn't let in ---------------------------------------------------------------


def tended(transport: WorkerTransport, control: Control) -> bool:
    """What a worker does all the time."""
    transport.rejection()
    control.receive(0.01)
    return True


def second_hears(master: MasterTransport, transport: WorkerTransport) -> bool:
    master.send_control_state(IDLE)
    return transport.send(Bye(1, "")) and bool(list(master.receive(0.01, {})))


def refusal_of(transport: WorkerTransport) -> str:
    said = ""

    def told() -> bool:
        nonlocal said
        said = transport.rejection()
        return bool(said)

    assert until(told)
    return said


@pytest.mark.parametrize(
    ("masters", "workers", "said"),
    [
        ("one", "another", "its key is another one"),
        ("one", "wrong client", "its key is another one"),
        ("one", None, "it has a key, this worker has none"),
        # Where the master is the first to see it, it only hangs up.
        (
            None,
            "one",
            ("this worker has a key", "its key is another one, or it has none"),
        ),
    ],
)
def test_a_worker_logs_what_is_wrong_with_its_key(
    masters: str | None, workers: str | None, said: str | tuple[str, ...]
) -> None:
    key, other = CurveKey.generate(), CurveKey.generate()
    mixed = CurveKey(key.server_public, key.server_secret, other.client_public, other.client_secret)
    keys = {"one": key, "another": other, "wrong client": mixed, None: None}
    with (
        MasterTransport("127.0.0.1", ANY, keys[masters]) as master,
        worker_of(master, keys[workers]) as (transport, _control),
    ):
        assert refusal_of(transport).startswith(said)
        deadline = time.monotonic() + GRACE_S
        while time.monotonic() < deadline:
            assert transport.rejection() == "", "told twice"


@pytest.mark.parametrize("key", [None, CurveKey.generate()], ids=["no key", "a key"])
def test_a_relay_that_does_not_reach_the_master_need_not_be_another_key(
    key: CurveKey | None,
) -> None:
    """It takes connections, and closes them as soon as it finds nobody behind it."""
    with ExitStack() as opened:
        places = [opened.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        ports = [place.getsockname()[1] for place in places]
        for place in places:
            threading.Thread(target=_hang_up, args=(place,), daemon=True).start()
        transport = WorkerTransport("127.0.0.1", Ports(*ports), key)
        control = transport.control()
        try:
            assert "does not reach it: give both" in refusal_of(transport)
        finally:
            control.close()
            transport.close()


def _hang_up(listener: socket.socket) -> None:
    with suppress(OSError):
        while True:
            listener.accept()[0].close()


@pytest.mark.parametrize("first", [None, CurveKey.generate()], ids=["no key", "another key"])
def test_a_worker_retries_and_can_join_the_next_master(first: CurveKey | None) -> None:
    key = CurveKey.generate()
    master = MasterTransport("127.0.0.1", ANY, first)
    ports = master.ports
    with worker_of(master, key) as (transport, control):
        with master:
            assert refusal_of(transport)
        with MasterTransport("127.0.0.1", ports, key) as second:
            assert until(lambda: tended(transport, control) and second_hears(second, transport), 10)
            assert all_channels(second, transport, control, PATIENCE_S) == (True, True, True)
        with MasterTransport("127.0.0.1", ports, CurveKey.generate()):
            assert refusal_of(transport), "one that had joined logs the next rejection"


def megabytes() -> float:
    """Of memory that this process has."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


@pytest.mark.parametrize(("count", "size"), [(2_000, 2048), (40_000, 500), (200_000, 60)])
@pytest.mark.parametrize(("channel", "kind"), [("control", b"SUB"), ("work", b"PULL")])
def test_a_peer_that_sends_oversized_frames_is_disconnected(
    channel: str, kind: bytes, count: int, size: int
) -> None:
    """2,000 subscriptions of 2 KB took 415 MB; while more of them came, nothing else went on."""
    said = memoryview(subscriptions(count, size))
    with (
        MasterTransport("127.0.0.1", ANY, None) as master,
        worker_of(master) as (transport, control),
    ):
        assert until(lambda: tended(transport, control) and received_state(master, control))
        before_mb = megabytes()
        sock = call(getattr(master.ports, channel), greeting(kind))
        assert until(lambda: sock.recv(9999, socket.MSG_PEEK)[-3:] in (b"PUB", b"USH"))
        sock.settimeout(0.01)

        def is_cut_off() -> bool:
            nonlocal said
            master.send_control_state(IDLE)
            with suppress(TimeoutError):
                said = said[sock.send(said[:100_000]) :]
            return bool(master.rejected_peers())

        def is_closed() -> bool:
            with suppress(TimeoutError):
                return not sock.recv(65536)
            return False

        with suppress(ConnectionError):  # of a message that is too long nothing is told
            if channel == "control":
                assert until(is_cut_off, 10)
                assert until(is_closed)
            else:  # as little as isn't read there may be too little to be cut off for
                until(is_cut_off, 1)
        sock.close()
        assert megabytes() - before_mb < 50
        assert until(lambda: received_state(master, control))


def received_state(master: MasterTransport, control: Control) -> bool:
    master.send_control_state(IDLE)
    return control.receive(0.01) is not None


@pytest.mark.parametrize("key", [None, CurveKey.generate()], ids=["no key", "key"])
def test_messages_of_workers_stay_below_the_size_limit(
    key: CurveKey | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(master_transport, "MAX_PEER_BYTES", authenticator.MAX_PEER_BYTES // 4)
    monkeypatch.setattr(authenticator, "_LISTEN_MS", 10)
    with (
        MasterTransport("127.0.0.1", ANY, key) as master,
        worker_of(master, key) as (transport, control),
    ):
        assert all_channels(master, transport, control, PATIENCE_S) == (True, True, True)
        time.sleep(0.3)
        assert all_channels(master, transport, control, PATIENCE_S) == (True, True, True)
        assert master.rejected_peers(last=True) == []


@pytest.mark.parametrize("key", [None, CurveKey.generate()], ids=["no key", "a key"])
def test_nobody_is_accepted_where_no_authenticator_runs(key: CurveKey | None) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    sock, peer = context.socket(zmq.PULL), context.socket(zmq.PUSH)
    try:
        own = ZapAuthenticator(context, key)
        own.lock(sock, authenticator.MAX_PEER_BYTES)
        own.close()
        sock.setsockopt(zmq.HANDSHAKE_IVL, 200)
        port = sock.bind_to_random_port("tcp://127.0.0.1")
        failures = zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_DISCONNECTED
        events = peer.get_monitor_socket(failures | zmq.EVENT_HANDSHAKE_SUCCEEDED)
        if key:
            curve(peer, key, key)
        peer.connect(f"tcp://127.0.0.1:{port}")
        assert recv_monitor_message(events)["event"] & failures
    finally:
        context.destroy(0)


def test_a_reused_descriptor_blames_no_other_peer() -> None:
    key = CurveKey.generate()
    with zmq.Context() as context, context.socket(zmq.PULL) as sock:
        zap = ZapAuthenticator(context, key)
        zap.lock(sock, authenticator.MAX_PEER_BYTES)
        port = sock.bind_to_random_port("tcp://127.0.0.1")
        address = f"tcp://127.0.0.1:{port}"
        try:
            with context.socket(zmq.PUSH) as keyless, context.socket(zmq.PUSH) as keyed:
                # A peer without a key comes and goes before the events are read.
                keyless.setsockopt(zmq.RECONNECT_IVL, -1)
                keyless.connect(f"tcp://127.0.0.2:0;127.0.0.1:{port}")
                time.sleep(GRACE_S)
                curve(keyed, key, key)
                keyed.connect(address.replace("//", "//127.0.0.3:0;"))
                time.sleep(GRACE_S)
                zap.begin([port])
                time.sleep(GRACE_S)
                lines = zap.rejected_peers(last=True)
        finally:
            zap.close()
    assert [line for line in lines if "127.0.0.3" in line] == []
    (line,) = lines
    assert NO_KEY in line
