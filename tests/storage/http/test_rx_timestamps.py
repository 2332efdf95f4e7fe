"""Arrival times of received bytes."""

from __future__ import annotations

import os
import select
import socket
import time
from contextlib import closing
from struct import pack
from time import perf_counter_ns, time_ns
from typing import NamedTuple

import gevent
import pytest
from gevent import get_hub

from ssbench.storage.http import stream
from ssbench.storage.http.stream import AncillaryData, PlainStream, RxTimestamps, hub_timestamps

MS = 1_000_000
SECOND = 1_000_000_000


def wall_ahead_ns() -> int:
    """Wall clock minus perf_counter_ns: of many pairs of reads the one with least in between."""
    reads = ((perf_counter_ns(), time_ns(), perf_counter_ns()) for _ in range(100))
    _took_ns, ahead_ns = min((after - before, wall - before) for before, wall, after in reads)
    return ahead_ns


def timestamp(at_ns: int) -> AncillaryData:
    """The kernel's ancillary data for a perf_counter_ns time."""
    wall_ns = at_ns + wall_ahead_ns()
    return [(socket.SOL_SOCKET, 35, pack("ll", *divmod(wall_ns, SECOND)))]


def woken_at(patch: pytest.MonkeyPatch, *times_ns: int) -> RxTimestamps:
    """RxTimestamps of a loop that woke at these times."""
    found, ahead_ns = RxTimestamps(), wall_ahead_ns()
    for at_ns in times_ns:
        with patch.context() as clocks:
            clocks.setattr(stream, "perf_counter_ns", lambda now_ns=at_ns: now_ns)
            clocks.setattr(stream, "time_ns", lambda now_ns=at_ns: now_ns + ahead_ns)
            found.wake()
    return found


class Woken(NamedTuple):
    found: RxTimestamps
    at_ns: int


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> Woken:
    """A loop that woke 20 ms ago and now."""
    now_ns = perf_counter_ns()
    return Woken(woken_at(monkeypatch, now_ns - 20 * MS, now_ns), now_ns)


def test_preemption_between_two_clock_reads_shortens_no_latency(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_ns = perf_counter_ns()
    found = woken_at(monkeypatch, now_ns - 20 * MS)
    arrived_ns = now_ns - 5 * MS
    found.ancillary = timestamp(arrived_ns)
    late_ns = 0

    def wall_clock() -> int:
        nonlocal late_ns
        late_ns = 3 * MS  # preempted before this clock was read
        return time_ns() + late_ns

    monkeypatch.setattr(stream, "time_ns", wall_clock)
    monkeypatch.setattr(stream, "perf_counter_ns", lambda: perf_counter_ns() + late_ns)
    found.wake()
    assert abs(found.now()) == pytest.approx(arrived_ns, abs=MS)


def test_preemption_during_the_first_clock_reads_shortens_no_latency(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late_ns = 0

    def wall_clock() -> int:
        nonlocal late_ns
        seen_ns = time_ns() + late_ns
        late_ns = min(late_ns + 3 * MS, 6 * MS)  # preempted twice after this clock was read
        return seen_ns

    monkeypatch.setattr(stream, "time_ns", wall_clock)
    monkeypatch.setattr(stream, "perf_counter_ns", lambda: perf_counter_ns() + late_ns)
    found = RxTimestamps()
    arrived_ns = perf_counter_ns() - 5 * MS
    found.ancillary = timestamp(arrived_ns)
    assert abs(found.now()) == pytest.approx(arrived_ns, abs=MS)


@pytest.mark.parametrize(
    ("after_waking_ns", "certain"),
    [(-5 * MS, False), (-MS // 2, True), (MS // 10, True), (5 * MS, False)],
)
def test_a_late_read_has_an_uncertain_time(
    after_waking_ns: int, certain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken_ns = perf_counter_ns() - 10 * MS
    woken = woken_at(monkeypatch, woken_ns - 20 * MS, woken_ns)
    arrived_ns = woken_ns + after_waking_ns
    woken.ancillary = timestamp(arrived_ns)
    reported_ns = woken.now()
    assert abs(reported_ns) == pytest.approx(arrived_ns, abs=MS // 5)
    assert (reported_ns > 0) is certain
    assert woken.came_after_wake(abs(reported_ns)) is (after_waking_ns > MS)


@pytest.mark.parametrize(
    ("busy_ns", "arrived_ns", "may_have_waited"),
    [
        (MS // 10, 9 * MS, False),  # the loop waited: the first bytes would have woken it
        (5 * MS, 5 * MS, True),
        (5 * MS, 5 * MS - 100_000, True),
        (5 * MS, MS // 10, False),  # the wake-up before would have found those of long before
    ],
)
def test_bytes_wait_while_the_loop_is_busy(
    busy_ns: int, arrived_ns: int, may_have_waited: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns = perf_counter_ns()
    found = woken_at(monkeypatch, now_ns)
    with monkeypatch.context() as clocks:
        clocks.setattr(stream, "perf_counter_ns", lambda: now_ns + busy_ns)
        found.poll()
        clocks.setattr(stream, "perf_counter_ns", lambda: now_ns + 10 * MS)
        found.wake()
    assert found.was_busy_before(now_ns + arrived_ns) is may_have_waited


def test_waiting_bytes_have_their_arrival_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = socket.create_connection(listener.getsockname())
        receiver, _ = listener.accept()
    receiver.setblocking(False)
    stream = PlainStream(receiver)
    with closing(sender), closing(stream):
        while not hub_timestamps().ancillary:  # the kernel enables timestamps with a delay
            send_and_wait(sender, receiver)
            stream.recv_into(bytearray(9))
        for receive in (lambda: stream.recv_into(bytearray(9)), lambda: stream.discard(9)):
            for _ in range(10):  # wake-ups, which compare the clocks unless they are preempted
                gevent.sleep(0.001)
            before_ns = perf_counter_ns()
            there_ns = send_and_wait(sender, receiver)
            time.sleep(0.005)  # without running the loop
            assert receive() == 1
            arrived_ns = abs(stream.arrived_ns())
            assert before_ns - MS // 10 <= arrived_ns <= there_ns + MS


def send_and_wait(sender: socket.socket, receiver: socket.socket) -> int:
    """Send a byte; when it was there to be read, which a busy machine may put off."""
    sender.send(b"x")
    select.select([receiver], [], [])
    return perf_counter_ns()


def test_bytes_present_at_the_wake_up_have_its_time() -> None:
    found, loop = hub_timestamps(), get_hub().loop
    found.ancillary = []  # pipes have no timestamps
    pipes = [os.pipe() for _ in range(4)]
    seen: list[tuple[int, int]] = []

    def read() -> None:
        seen.append((found.now(), perf_counter_ns()))
        time.sleep(0.005)  # the time to handle one response

    watchers = [loop.io(reading, 1) for reading, _ in pipes]
    began_ns = perf_counter_ns()
    for watcher, (_, writing) in zip(watchers, pipes, strict=True):
        os.write(writing, b"x")
        watcher.start(lambda watcher=watcher: (watcher.stop(), read()))
    while len(seen) < len(pipes):
        gevent.sleep(0.001)
    for watcher, pair in zip(watchers, pipes, strict=True):
        watcher.close()
        for fd in pair:
            os.close(fd)
    arrived = {at for at, _ in seen}
    assert len(arrived) == 1
    assert began_ns <= arrived.pop() <= seen[0][1]
    assert seen[-1][1] - seen[-1][0] >= 15 * MS
