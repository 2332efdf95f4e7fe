"""The ends of both sides on loopback, for tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ssbench.core.messages import Expired, Jobs, Message, decode, encode
from ssbench.transport.key import CurveKey
from ssbench.transport.master_transport import MasterTransport
from ssbench.transport.sockets import Ports
from ssbench.transport.worker_transport import Control, WorkerTransport
from tests.fakes.control_states import IDLE
from tests.timing import PATIENCE_S

ANY = Ports(0, 0, 0)


@contextmanager
def worker_of(
    master: MasterTransport, key: CurveKey | None = None, host: str = "127.0.0.1"
) -> Iterator[tuple[WorkerTransport, Control]]:
    """A worker's ends, connected to this master."""
    transport = WorkerTransport(host, master.ports, key)
    control = transport.control()
    try:
        yield transport, control
    finally:
        control.close()
        transport.close()


def until(condition: Callable[[], bool], patience_s: float = PATIENCE_S) -> bool:
    """Whether this became true in time."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.005)
    return False


def all_channels(
    master: MasterTransport, transport: WorkerTransport, control: Control, patience_s: float
) -> tuple[bool, bool, bool]:
    """Whether results, control states and jobs get through."""
    received: list[Message] = []

    def results() -> bool:
        transport.send(Expired(1, 2))
        received.extend(message for message, _ in master.receive(0.005, {}))
        return Expired(1, 2) in received

    def states() -> bool:
        master.send_control_state(IDLE)
        return control.receive(0.005) == IDLE

    def jobs() -> bool:
        master.send_jobs(encode(Jobs("r", 2, 1, 0, b"")))
        data = transport.receive()
        return data is not None and decode(data) == Jobs("r", 2, 1, 0, b"")

    transport.open_work(2)
    return until(results, patience_s), until(states, patience_s), until(jobs, patience_s)
