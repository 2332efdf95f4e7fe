"""A worker's ends: what is in its pipes, what it hears, and how it ends."""

from __future__ import annotations

import resource
import socket
from contextlib import closing, suppress

import pytest

from ssbench.core.messages import Bye
from ssbench.transport.master_transport import MasterTransport
from ssbench.transport.sockets import Ports, TransportError
from ssbench.transport.worker_transport import WorkerTransport
from tests.fakes.control_states import IDLE
from tests.fakes.hostile_peers import greeting, is_hung_up, zmtp_frame
from tests.transport.ends import ANY, until, worker_of


def test_malformed_messages_on_the_control_port_are_rejected() -> None:
    with (
        MasterTransport("127.0.0.1", ANY, None) as master,
        worker_of(master) as (_transport, control),
    ):
        assert until(lambda: bool(master.send_control_state(IDLE) or control.receive(0.01)))
        master.send_control_state(IDLE._replace(serial=-1))
        assert control.receive(0.2) is None


def test_a_message_longer_than_a_master_sends_ends_its_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        transport = WorkerTransport("127.0.0.1", Ports(1, 1, server.getsockname()[1]), None)
        control = transport.control()
        try:
            with server.accept()[0] as hostile:
                hostile.settimeout(10)
                hostile.sendall(greeting(b"PUB"))
                with suppress(ConnectionError):
                    hostile.sendall(zmtp_frame(bytes((8 << 20) + 1)))
                assert is_hung_up(hostile)
        finally:
            control.close()
            transport.close()


# Ends -------------------------------------------------------------------------------------


def test_a_worker_ends_without_a_master(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ssbench.transport.worker_transport.LINGER_MS", 3_600_000)
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    transport = WorkerTransport("127.0.0.1", Ports(port, port, port), None)
    control = transport.control()
    assert not transport.send(Bye(1, ""))
    assert control.receive(0.01) is None
    assert not control.send(Bye(1, ""))
    control.close()
    transport.close()  # the messages are given up at once, not after an hour


def test_a_worker_out_of_descriptors_reports_it() -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    transport = WorkerTransport("127.0.0.1", Ports(), None)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        for needs_one in (transport.control, lambda: transport.open_work(2)):
            with pytest.raises(TransportError, match="Too many open files"):
                needs_one()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        transport.close()
