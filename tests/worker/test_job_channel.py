"""Jobs in, results out: the channel between a worker's machine and its sockets."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator

import gevent
import pytest

from ssbench.worker.links import JobChannel


class Machine:
    """Takes messages until it has enough jobs; each has as many jobs as bytes."""

    def __init__(self) -> None:
        self.wanted = 100
        self.taken: list[bytes] = []
        self.outbox: deque[bytes] = deque()

    @property
    def wants_jobs(self) -> bool:
        return sum(map(len, self.taken)) < self.wanted

    def receive_jobs(self, data: bytes, now_ns: int) -> int:
        assert now_ns == 7
        self.taken.append(data)
        return len(data)

    def acknowledge(self) -> None:
        self.outbox.append(b"ack")

    def report(self, now_ns: int) -> None:
        assert now_ns == 7
        self.outbox.append(b"results")


class Sockets:
    """A work socket whose descriptor is a pipe's; like ZeroMQ's it stays readable until all was
    read."""

    def __init__(self) -> None:
        self.read_fd, self._write_fd = os.pipe()
        self._messages: deque[bytes] = deque()
        self.pipes: list[int] = []
        self.closed = 0
        self.room = 100
        self.sent: list[bytes] = []

    def arrive(self, *messages: bytes) -> None:
        self._messages += messages
        os.write(self._write_fd, b"x" * len(messages))

    def open_work(self, pipe: int) -> int:
        self.pipes.append(pipe)
        return self.read_fd

    def close_work(self) -> None:
        self.closed += 1
        self.sent_at_close = len(self.sent)

    def receive(self) -> bytes | None:
        if not self._messages:
            return None
        os.read(self.read_fd, 1)
        return self._messages.popleft()

    def send(self, message: bytes) -> bool:
        if len(self.sent) == self.room:
            return False
        self.sent.append(message)
        return True

    def end(self) -> None:
        os.close(self.read_fd)
        os.close(self._write_fd)


class Scene:
    def __init__(self) -> None:
        self.machine, self.sockets = Machine(), Sockets()
        self.counts: list[int] = []
        self.readable = 0
        self.channel = JobChannel(
            self.machine,  # type: ignore[arg-type]
            self.sockets,  # type: ignore[arg-type]
            lambda: 7,
            self.counts.append,
        )

    def on_readable(self) -> None:
        self.readable += 1
        assert self.readable < 1000, "the loop never sleeps"
        self.channel.fetch()
        if not self.machine.wants_jobs:
            self.channel.listen(False)


@pytest.fixture
def here() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    scene.channel.close()
    scene.sockets.end()


def turn() -> None:
    """The loop polls its descriptors before its timers."""
    for _ in range(2):
        gevent.sleep(0.001)


def test_messages_that_arrive_are_received_acknowledged_and_counted(here: Scene) -> None:
    here.channel.open(3, here.on_readable)
    here.sockets.arrive(b"12345", b"123")
    turn()
    assert here.sockets.pipes == [3]
    assert here.machine.taken == [b"12345", b"123"]
    assert here.sockets.sent == [b"ack"]
    assert here.counts == [8]


def test_what_the_machine_does_not_want_stays_in_the_socket_and_the_loop_sleeps(
    here: Scene,
) -> None:
    here.machine.wanted = 5
    here.channel.open(3, here.on_readable)
    here.sockets.arrive(b"12345", b"123")
    turn()
    assert here.machine.taken == [b"12345"]
    before = here.readable
    turn()
    assert here.readable == before, "it is not watched although it stays readable"
    here.machine.wanted = 100
    assert here.channel.fetch() == 3
    here.sockets.arrive(b"1")
    turn()
    assert here.machine.taken[2:] == [b"1"], "it is watched again once all was read"


def test_what_the_master_does_not_take_now_is_sent_later_in_order(here: Scene) -> None:
    here.sockets.room = 1
    here.machine.outbox += [b"one", b"two"]
    here.channel.report()
    assert here.sockets.sent == [b"one"]
    here.sockets.room = 9
    here.channel.flush()
    assert here.sockets.sent == [b"one", b"two", b"results"]


def test_closing_receives_what_is_in_the_socket_and_sends_after_it(here: Scene) -> None:
    here.channel.open(3, here.on_readable)
    here.machine.wanted = 0
    here.sockets.arrive(b"123", b"4")
    turn()
    here.machine.wanted = 100
    here.channel.close()
    assert here.machine.taken == [b"123", b"4"]
    assert here.sockets.sent[here.sockets.sent_at_close :] == [b"ack"]


def test_it_can_be_closed_and_opened_again(here: Scene) -> None:
    here.channel.close()
    here.channel.listen(True)
    here.channel.open(3, here.on_readable)
    here.channel.open(4, here.on_readable)  # of another run: it is open
    here.channel.close()
    here.sockets.arrive(b"12")
    turn()
    assert (here.sockets.pipes, here.sockets.closed, here.machine.taken) == ([3, 4], 2, [])
    here.channel.open(5, here.on_readable)
    turn()
    assert here.machine.taken == [b"12"]
