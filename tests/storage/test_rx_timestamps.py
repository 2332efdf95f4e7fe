"""When bytes came."""

from __future__ import annotations

import os
import select
import socket
import sys
import time
from contextlib import closing
from struct import pack
from time import perf_counter_ns, time_ns

import gevent
import pytest
from gevent import get_hub

from ssbench.storage import rx_timestamps
from ssbench.storage.rx_timestamps import AncillaryData, RxTimestamps, hub_timestamps
from ssbench.storage.stream import PlainStream

MS = 1_000_000
SECOND = 1_000_000_000


def wall_ahead_ns() -> int:
    """How far the wall clock is ahead, by two looks between which nobody else had the core."""
    while True:
        before_ns, wall_ns, after_ns = perf_counter_ns(), time_ns(), perf_counter_ns()
        if after_ns - before_ns < MS // 10:
            return wall_ns - before_ns


def note(at_ns: int) -> AncillaryData:
    """The kernel's, of a time of perf_counter_ns."""
    wall_ns = at_ns + wall_ahead_ns()
    return [(socket.SOL_SOCKET, 35, pack("ll", *divmod(wall_ns, SECOND)))]


@pytest.fixture
def woken() -> RxTimestamps:
    """Of a loop that woke 20 ms ago and now, as far as it knows."""
    found = RxTimestamps()
    found.wake()
    found._before_ns = found._woken_ns - 20 * MS
    return found


def test_the_kernels_note_is_when_the_bytes_came(woken: RxTimestamps) -> None:
    came_ns = woken._woken_ns - 7 * MS
    woken.ancillary = note(came_ns)
    assert abs(woken.now()) == pytest.approx(came_ns, abs=MS)


def test_bytes_may_come_between_the_waking_and_their_reading(woken: RxTimestamps) -> None:
    woken._woken_ns -= 10 * MS
    came_ns = perf_counter_ns() - 5 * MS
    woken.ancillary = note(came_ns)
    assert abs(woken.now()) == pytest.approx(came_ns, abs=MS)


def test_a_wall_clock_that_was_set_moves_no_time_out_of_reach(woken: RxTimestamps) -> None:
    woken.ancillary = note(perf_counter_ns() - 3600 * SECOND)
    assert abs(woken.now()) == woken._before_ns
    woken.ancillary = note(perf_counter_ns() + 3600 * SECOND)
    assert woken._woken_ns <= abs(woken.now()) <= perf_counter_ns()


def test_who_loses_the_core_between_two_clocks_makes_no_latency_shorter(
    woken: RxTimestamps, monkeypatch: pytest.MonkeyPatch
) -> None:
    came_ns = perf_counter_ns() - 5 * MS
    woken.ancillary = note(came_ns)
    late_ns = 0

    def wall_clock() -> int:
        nonlocal late_ns
        late_ns = 3 * MS  # others had the core before this clock was read
        return time_ns() + late_ns

    monkeypatch.setattr(rx_timestamps, "time_ns", wall_clock)
    monkeypatch.setattr(rx_timestamps, "perf_counter_ns", lambda: perf_counter_ns() + late_ns)
    before_ns = woken._before_ns
    woken.wake()
    woken._before_ns = before_ns
    assert abs(woken.now()) == pytest.approx(came_ns, abs=MS)


def test_nor_does_who_loses_it_at_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    late_ns = 0

    def wall_clock() -> int:
        nonlocal late_ns
        seen_ns = time_ns() + late_ns
        late_ns = min(late_ns + 3 * MS, 6 * MS)  # twice others had the core after this clock
        return seen_ns

    monkeypatch.setattr(rx_timestamps, "time_ns", wall_clock)
    monkeypatch.setattr(rx_timestamps, "perf_counter_ns", lambda: perf_counter_ns() + late_ns)
    found = RxTimestamps()
    assert found._wall_offset_ns == pytest.approx(wall_ahead_ns(), abs=MS)


@pytest.mark.parametrize(
    ("after_waking_ns", "certain"),
    [(-5 * MS, False), (-MS // 2, True), (MS // 10, True), (5 * MS, False)],
)
def test_who_reads_late_does_not_know_when_the_first_bytes_came(
    after_waking_ns: int, certain: bool, woken: RxTimestamps
) -> None:
    woken.wake()
    woken._woken_ns -= 10 * MS
    woken._before_ns = woken._woken_ns - 20 * MS
    woken._timely_since_ns -= 10 * MS
    came_ns = woken._woken_ns + after_waking_ns
    woken.ancillary = note(came_ns)
    told_ns = woken.now()
    assert abs(told_ns) == pytest.approx(came_ns, abs=MS // 5)
    assert (told_ns > 0) is certain
    assert woken.came_after_wake(abs(told_ns)) is (after_waking_ns > MS)


def test_without_a_note_it_is_the_waking(woken: RxTimestamps) -> None:
    assert woken.now() == woken._woken_ns


@pytest.mark.skipif(sys.platform != "linux", reason="no other kernel is asked for notes")
def test_what_waited_to_be_read_came_when_it_came() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = socket.create_connection(listener.getsockname())
        receiver, _ = listener.accept()
    receiver.setblocking(False)
    stream = PlainStream(receiver)
    with closing(sender), closing(stream):
        while not stream._timestamps.ancillary:  # the kernel begins a moment after it was asked
            send_and_wait(sender, receiver)
            stream.recv_into(bytearray(9))
        for receive in (lambda: stream.recv_into(bytearray(9)), lambda: stream.discard(9)):
            before_ns = perf_counter_ns()
            there_ns = send_and_wait(sender, receiver)
            time.sleep(0.005)  # nobody lets the loop wake
            assert receive() == 1
            came_ns = abs(stream.arrived_ns())
            assert before_ns - MS // 10 <= came_ns <= there_ns + MS


def send_and_wait(sender: socket.socket, receiver: socket.socket) -> int:
    """Send a byte; when it was there to be read, which a busy machine may put off."""
    sender.send(b"x")
    select.select([receiver], [], [])
    return perf_counter_ns()


def test_what_was_there_when_the_loop_woke_has_the_time_of_waking() -> None:
    found, loop = hub_timestamps(), get_hub().loop
    found.ancillary = []  # pipes have none
    pipes = [os.pipe() for _ in range(4)]
    seen: list[tuple[int, int]] = []

    def read() -> None:
        seen.append((found.now(), perf_counter_ns()))
        time.sleep(0.005)  # what the handling of one answer takes

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


def test_each_waking_has_its_own() -> None:
    found = hub_timestamps()
    found.ancillary = []
    gevent.sleep(0.002)
    first_ns = found.now()
    gevent.sleep(0.002)
    assert found.now() - first_ns >= 1 * MS


def test_a_hub_has_one() -> None:
    assert hub_timestamps() is hub_timestamps()
