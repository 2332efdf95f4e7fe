"""The second thread: it answers beats whatever the event loop does."""

from __future__ import annotations

import time

from ssbench.core import live
from ssbench.core.messages import Bye, ControlState, Heartbeat, Host, Message
from ssbench.worker.heartbeat import Figures, HeartbeatThread, LiveCounts


class Wire:
    """Both sockets of the thread, in memory."""

    def __init__(self, *messages: Message) -> None:
        self.coming = list(messages)
        self.sent: list[Message] = []
        self.closed = False

    def receive(self, timeout_s: float) -> Message | None:
        if self.coming:
            return self.coming.pop(0)
        time.sleep(0.001)
        return None

    def send(self, message: Message) -> bool:
        self.sent.append(message)
        return True

    def close(self) -> None:
        self.closed = True


def state(serial: int) -> ControlState:
    return ControlState(1, serial, 0, "", 0, 0, {}, {}, {}, 10.0, 0.0, 2, *[False] * 4)


def test_each_beat_is_answered_and_the_newest_kept() -> None:
    transport, notices = Wire(state(1), Bye(1, "not for us"), state(2)), []
    figures = Figures(7, 5, 3, 2, {4000: 1})
    thread = HeartbeatThread(transport, lambda: figures, lambda: notices.append(1))  # type: ignore[arg-type]
    before_ns, wall_ns = time.perf_counter_ns(), time.time_ns()
    thread.start()
    while len(transport.sent) < 2:
        time.sleep(0.001)
    thread.stop()
    assert transport.closed
    assert not thread.is_alive()
    assert notices == [1, 1]
    assert thread.newest is not None
    assert thread.newest[0].serial == 2
    for serial, heartbeat in enumerate(transport.sent, 1):
        assert isinstance(heartbeat, Heartbeat)
        assert (heartbeat.incarnation, heartbeat.answered_serial) == (7, serial)
        assert (heartbeat.hub_idle_ns, heartbeat.busy, heartbeat.queued, heartbeat.live) == (
            5,
            3,
            2,
            {4000: 1},
        )
        assert before_ns < heartbeat.worker_ns - heartbeat.hold_ns <= heartbeat.worker_ns
        assert wall_ns <= heartbeat.wall_ns <= time.time_ns()


def test_it_ends_without_a_beat() -> None:
    transport = Wire()
    thread = HeartbeatThread(transport, lambda: Figures(1, 0, 0, 0, {}), lambda: None)  # type: ignore[arg-type]
    thread.start()
    thread.stop()
    assert transport.closed
    assert transport.sent == []


def test_what_ends_it_can_be_asked_for() -> None:
    def figures() -> Figures:
        raise MemoryError

    transport = Wire(state(1))
    thread = HeartbeatThread(transport, figures, lambda: None)  # type: ignore[arg-type]
    assert thread.fault is None
    thread.start()
    thread.join(5)
    assert not thread.is_alive()
    assert isinstance(thread.fault, MemoryError)
    assert transport.closed


def test_latencies_are_taken_once() -> None:
    counts = LiveCounts()
    counts.add([1000, 2000])
    counts.add([1000])
    assert counts.take() == live.buckets([1000, 2000, 1000])
    assert counts.take() == {}


def test_what_else_there_is_to_tell_goes_out_without_a_beat() -> None:
    host = Host(7, 5, "", {"cpu_percent": 1.0})
    more = [[host], [host, host]]
    transport = Wire()
    thread = HeartbeatThread(
        transport,  # type: ignore[arg-type]
        lambda: Figures(1, 0, 0, 0, {}),
        lambda: None,
        lambda: more.pop() if more else (),
    )
    thread.start()
    while len(transport.sent) < 3:
        time.sleep(0.001)
    thread.stop()
    assert transport.sent == [host] * 3
