"""The master's ends: where it listens, what it sends and takes, and what is said when it can't."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest
import zmq

from ssbench.core.errors import ExitStatus
from ssbench.core.messages import SECRET_BYTES, Ack, Bye, Hello, Message, encode
from ssbench.transport.key import CurveKey
from ssbench.transport.master_transport import MasterTransport, pipe_length
from ssbench.transport.sockets import Ports, TransportError
from tests.transport.ends import ANY, until


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
