"""The master's ends: where it listens, what it sends and takes, and what is said when it can't."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack, closing, suppress

import pytest
import zmq

from ssbench.core.errors import ExitStatus
from ssbench.core.messages import SECRET_BYTES, Ack, Bye, Hello, Message, Results, encode
from ssbench.transport import master_transport
from ssbench.transport.authenticator import ZapAuthenticator
from ssbench.transport.key import CurveKey
from ssbench.transport.master_transport import MasterTransport, pipe_length
from ssbench.transport.sockets import Ports, TransportError
from tests.fakes.hostile_peers import admitted, is_hung_up, zmtp_frame
from tests.transport.ends import ANY, PATIENCE_S, until

#: The longest that a worker sends.
LONG = Results(1, "run", 2, [], bytes(500_000))
THEIRS, OWN = b"t" * SECRET_BYTES, b"o" * SECRET_BYTES


@pytest.mark.parametrize(
    ("jobs", "messages"), [(0, 16), (1, 16), (4, 16), (8, 8), (64, 2), (256, 2)]
)
def test_high_water_marks_are_lower_for_larger_batches(jobs: int, messages: int) -> None:
    assert pipe_length(jobs) == messages


# Addresses --------------------------------------------------------------------------------


def test_a_port_in_use_is_reported_with_its_options() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        for ports in (Ports(port, 0, 0), Ports(0, port, 0), Ports(0, 0, port)):
            with pytest.raises(TransportError) as caught:
                MasterTransport("127.0.0.1", ports, CurveKey.generate())
            text = str(caught.value)
            assert f"127.0.0.1:{port}" in text
            assert "Address already in use; is another ssbench-master running?" in text
            assert "--zmq-work-port" in text
            assert "\n" not in text
            assert caught.value.exit_status is ExitStatus.FAILED


def test_an_address_of_another_host_is_reported() -> None:
    with pytest.raises(TransportError, match=r"192\.0\.2\.1.*--zmq-bind-ip") as caught:
        MasterTransport("192.0.2.1", ANY, None)
    assert "another ssbench-master" not in str(caught.value), "nobody else is to blame"


@pytest.mark.parametrize("sender", ["a stranger", "a peer as another worker"])
def test_a_long_message_is_decoded_only_if_a_present_worker_sealed_it(
    sender: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its items cost more than its bytes, and whoever sends it can do so all the time."""
    theirs, own = b"t" * SECRET_BYTES, b"o" * SECRET_BYTES
    forged = encode(Ack(1, "run", list(range(60_000))), own)
    spoiled = forged.replace(b"\xcd\xea\x5f", b"\xa2no")  # decoding would end there
    secrets = {1: theirs} if sender == "a peer as another worker" else {}
    with MasterTransport("127.0.0.1", ANY, None) as master, zmq.Context() as context:
        with context.socket(zmq.PUSH) as peer:
            peer.connect(f"tcp://127.0.0.1:{master.ports.results}")
            for data in (spoiled, forged, encode(Bye(2, ""))):
                peer.send(data)
            received: list[tuple[Message, int]] = []
            assert until(lambda: bool(received.extend(master.receive(0.05, secrets)) or received))
        assert received == [(Bye(2, ""), len(encode(Bye(2, ""))))]
        assert master.rejected == 2
        assert ("not sealed" if secrets else "not present") in caplog.text
        assert "expected" not in caplog.text.lower()


def test_a_short_message_of_a_present_worker_needs_its_seal() -> None:
    sealed = encode(Bye(1, ""), THEIRS)
    with MasterTransport("127.0.0.1", ANY, None) as master, zmq.Context() as context:
        with context.socket(zmq.PUSH) as peer:
            peer.connect(f"tcp://127.0.0.1:{master.ports.results}")
            for data in (encode(Bye(1, "")), encode(Bye(1, ""), OWN), sealed):
                peer.send(data)
            received: list[tuple[Message, int]] = []
            assert until(
                lambda: bool(received.extend(master.receive(0.05, {1: THEIRS})) or received)
            )
        assert (received, master.rejected) == ([(Bye(1, ""), len(sealed))], 2)


def test_a_long_hello_is_not_decoded() -> None:
    schema = tuple((str(column).ljust(64, "x"),) * 2 for column in range(64))
    data = encode(Hello(1, 0, "w", 1, "h", 1, "v", (schema,) * 16), bytes(SECRET_BYTES))
    with MasterTransport("127.0.0.1", ANY, None) as master, zmq.Context() as context:
        with context.socket(zmq.PUSH) as peer:
            peer.connect(f"tcp://127.0.0.1:{master.ports.results}")
            for each in (data, encode(Bye(2, ""))):
                peer.send(each)
            received: list[tuple[Message, int]] = []
            assert until(lambda: bool(received.extend(master.receive(0.05, {})) or received))
        assert ([message for message, _ in received], master.rejected) == ([Bye(2, "")], 1)


# What a connection may cost ---------------------------------------------------------------


def taken(sock: socket.socket, data: bytes, most_bytes: int) -> int:
    """How many bytes the other side takes before it waits or hangs up, at most so many."""
    sock.settimeout(1)
    sent = 0
    with suppress(OSError):
        while sent < most_bytes:
            sent += sock.send(data[sent % len(data) :])
    return sent


def test_who_floods_with_what_no_worker_sealed_is_disconnected_and_hardly_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Half a megabyte takes 0.5 ms to check. A worker beside it is heard."""
    check, checked = master_transport._check_sender, list[int]()
    monkeypatch.setattr(
        master_transport,
        "_check_sender",
        lambda data, secrets: checked.append(len(data)) or check(data, secrets),
    )
    forged, honest = zmtp_frame(encode(LONG, OWN)), encode(LONG, THEIRS)
    with MasterTransport("127.0.0.1", ANY, None) as master, zmq.Context() as context:
        port, received = master.ports.results, list[tuple[Message, int]]()
        with admitted(port, b"PUSH") as hostile, context.socket(zmq.PUSH) as worker:
            worker.connect(f"tcp://127.0.0.1:{port}")
            hostile.setblocking(False)
            at, began_s, was_reset = 0, time.monotonic(), False
            while not was_reset and time.monotonic() - began_s < PATIENCE_S:
                try:
                    at = (at + hostile.send(forged[at:])) % len(forged)
                except BlockingIOError:
                    received += master.receive(0.01, {1: THEIRS})
                except ConnectionError:
                    was_reset = True
            assert was_reset
            assert master.rejected < 200
            assert len(checked) <= 3 + (time.monotonic() - began_s) / 2, "2, and 1 each 2 s"
            worker.send(honest)
            assert until(
                lambda: bool(received.extend(master.receive(0.05, {1: THEIRS})) or received)
            )
        assert [message for message, _ in received] == [LONG]
        (line,) = master.rejected_peers(last=True)
        assert "it sent more than any worker does" in line


def test_one_connection_takes_few_places_of_workers() -> None:
    """2,048 who only say hello would keep all others out until the worker timeout."""
    said = b"".join(
        zmtp_frame(encode(Hello(number, 0, f"w{number}", 1, "h", 1, "v", secret=OWN), OWN))
        for number in range(1, 2049)
    )
    with MasterTransport("127.0.0.1", ANY, None) as master:
        began_s, heard = time.monotonic(), list[Message]()
        with admitted(master.ports.results, b"PUSH") as hostile:
            sent = 0
            hostile.setblocking(False)
            with suppress(ConnectionError):
                while sent < len(said) and time.monotonic() - began_s < PATIENCE_S:
                    with suppress(BlockingIOError):
                        sent += hostile.send(said[sent:])
                    heard += [message for message, _ in master.receive(0.01, {})]
        while more := [message for message, _ in master.receive(0.2, {})]:
            heard += more
        assert 1 <= len(heard) <= 16 + 4 * (time.monotonic() - began_s)


@pytest.mark.parametrize(
    ("channel", "kind", "most"),
    [("results", b"PUSH", 512 << 10), ("control", b"SUB", 512), ("work", b"PULL", 512)],
)
def test_a_message_longer_than_a_worker_sends_ends_its_connection(
    channel: str, kind: bytes, most: int
) -> None:
    data = zmtp_frame(b"\x01" + bytes(most))
    with (
        MasterTransport("127.0.0.1", ANY, None) as master,
        admitted(getattr(master.ports, channel), kind) as hostile,
    ):
        hostile.settimeout(10)
        with suppress(ConnectionError):
            hostile.sendall(data)
        assert is_hung_up(hostile)


@pytest.mark.parametrize(
    ("message", "peers", "each", "most"),
    [(Ack(1, "run", [1000] * 600), 20, 100, 256), (LONG, 1, 16, 3)],
    ids=["short", "long"],
)
def test_a_poll_reads_a_bounded_part_of_what_waits(
    message: Message, peers: int, each: int, most: int
) -> None:
    """At most 256 messages, and none after 1 MiB."""
    data, polls = encode(message, THEIRS), list[int]()
    with (
        MasterTransport("127.0.0.1", ANY, None) as master,
        zmq.Context() as context,
        ExitStack() as opened,
    ):
        for _ in range(peers):
            peer = opened.enter_context(context.socket(zmq.PUSH))
            peer.connect(f"tcp://127.0.0.1:{master.ports.results}")
            for _ in range(each):
                peer.send(data)
        while sum(polls) < peers * each:
            polls.append(len(list(master.receive(PATIENCE_S, {1: THEIRS}))))
            assert 0 < polls[-1] <= most


def test_what_is_read_does_not_count_as_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(master_transport, "MAX_UNREAD_BYTES", 1 << 20)
    data, looks = encode(LONG, THEIRS), list[ZapAuthenticator]()
    look = ZapAuthenticator._disconnect_talkative
    monkeypatch.setattr(
        ZapAuthenticator, "_disconnect_talkative", lambda own: looks.append(own) or look(own)
    )
    with MasterTransport("127.0.0.1", ANY, None) as master, zmq.Context() as context:
        with context.socket(zmq.PUSH) as worker:
            worker.connect(f"tcp://127.0.0.1:{master.ports.results}")
            for _ in range(5):
                worker.send(data)
                assert len(list(master.receive(PATIENCE_S, {1: THEIRS}))) == 1
            seen = len(looks)
            assert until(lambda: len(looks) > seen + 1)
        assert master.rejected_peers(last=True) == []


@pytest.mark.parametrize("more", [False, True], ids=["messages", "parts of one message"])
def test_what_is_not_read_takes_little_memory(*, more: bool) -> None:
    data = zmtp_frame(encode(LONG, OWN), more=more)
    with (
        MasterTransport("127.0.0.1", ANY, None) as master,
        admitted(master.ports.results, b"PUSH") as hostile,
    ):
        sent = taken(hostile, data, 256 << 20)
        if more:
            hostile.settimeout(PATIENCE_S)
            assert is_hung_up(hostile)
        else:
            assert sent < 64 << 20
