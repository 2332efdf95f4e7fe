"""From options to the master's sockets."""

from __future__ import annotations

from collections.abc import Callable

from ssbench.cli.zmq_options import ZmqOptions
from ssbench.host.process import allow_many_connections
from ssbench.transport.key import CurveKey
from ssbench.transport.master_transport import MasterTransport, pipe_length
from ssbench.transport.sockets import Ports


def ports_of(zmq: ZmqOptions) -> Ports:
    """The three ports."""
    return Ports(zmq.work_port, zmq.results_port, zmq.control_port)


def key_of(zmq: ZmqOptions) -> CurveKey | None:
    """The key of the key file, where there is one.

    :raises UsageError: where the file can't be used.
    """
    return CurveKey.load(zmq.key_file) if zmq.key_file else None


def bind(
    zmq: ZmqOptions,
    key: CurveKey | None,
    address: str | None,
    warn: Callable[[str], None],
    jobs_a_message: int = 1,
) -> MasterTransport:
    """The master's sockets, with a word of warning where anybody could talk to them.

    :param jobs_a_message: how many jobs batches will hold.
    :raises TransportError: where a port can't be had.
    """
    allow_many_connections()
    transport = MasterTransport(address, ports_of(zmq), key, pipe=pipe_length(jobs_a_message))
    if key is None and not transport.is_loopback:
        ports = transport.ports
        warn(
            f"anyone who can reach {transport.ip}, ports {ports.work}, {ports.results} and"
            f" {ports.control}, can read the token and take jobs; use --zmq-key-file to reject"
            " unknown peers"
        )
    return transport
