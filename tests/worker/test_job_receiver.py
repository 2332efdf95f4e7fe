"""The work port on real sockets, with the loop of this thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import gevent

from ssbench.transport.master_transport import MasterTransport
from ssbench.transport.worker_transport import WorkerTransport
from ssbench.worker.job_receiver import JobReceiver
from tests.transport.ends import ANY, PATIENCE_S


class Scene:
    """A master, and a port that takes what it hears."""

    def __init__(self, master: MasterTransport, transport: WorkerTransport) -> None:
        self.master, self.transport = master, transport
        self.takes = True
        self.calls = 0
        self.heard: list[bytes] = []
        self.port = JobReceiver(transport, self.on_readable)

    def on_readable(self) -> None:
        self.calls += 1
        while self.takes and (data := self.transport.receive()) is not None:
            self.heard.append(data)

    def send(self, data: bytes) -> None:
        with gevent.Timeout(PATIENCE_S):
            while not self.master.send_jobs(data):
                gevent.sleep(0.005)

    def until_heard(self, *wanted: bytes) -> None:
        with gevent.Timeout(PATIENCE_S):
            while self.heard != list(wanted):
                gevent.sleep(0.005)


@contextmanager
def scene() -> Iterator[Scene]:
    with MasterTransport("127.0.0.1", ANY, None) as master:
        transport = WorkerTransport("127.0.0.1", master.ports, None)
        here = Scene(master, transport)
        try:
            yield here
        finally:
            here.port.close()
            transport.close()


def test_who_listens_is_told_of_jobs() -> None:
    with scene() as here:
        here.port.open(2)
        here.send(b"one")
        here.until_heard(b"one")
        here.port.open(2)  # it is open
        here.send(b"two")
        here.until_heard(b"one", b"two")
        assert repr(here.port) == "<JobReceiver heard>"


def test_who_leaves_messages_is_told_again_and_again_but_for_one_that_does_not_listen() -> None:
    with scene() as here:
        here.takes = False
        here.port.open(2)
        here.send(b"one")
        with gevent.Timeout(PATIENCE_S):
            while here.calls < 3:
                gevent.sleep(0.005)
        here.port.listen(False)
        calls = here.calls
        for _ in range(5):
            gevent.sleep(0.002)
        assert here.calls == calls
        assert repr(here.port) == "<JobReceiver open>"
        here.takes = True
        here.port.listen(True)
        here.until_heard(b"one")


def test_closed_it_takes_nothing_and_can_be_opened_again() -> None:
    with scene() as here:
        here.port.listen(True)  # there is nothing to listen to
        assert repr(here.port) == "<JobReceiver closed>"
        here.port.close()
        assert not here.master.send_jobs(b"nobody has room")
        here.port.open(2)
        here.send(b"one")
        here.until_heard(b"one")
        here.port.close()
        assert here.transport._work is None
        here.port.open(2)
        with gevent.Timeout(PATIENCE_S):
            while b"two" not in here.heard:  # the first may still go where nobody is any more
                here.master.send_jobs(b"two")
                gevent.sleep(0.005)
