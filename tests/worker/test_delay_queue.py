"""Jobs that wait for their time."""

from __future__ import annotations

from collections.abc import Callable

from ssbench.core.model import Job
from ssbench.worker.delay_queue import DelayQueue

ORIGIN = 1000


class FakeAlarm:
    """Rings when the test says what time it is."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.call = call
        self.at_ns: int | None = None
        self.closed = False

    def set(self, at_ns: int) -> None:
        self.at_ns = at_ns

    def close(self) -> None:
        self.closed = True


class Scene:
    def __init__(self) -> None:
        self.now_ns = ORIGIN
        self.alarms: list[FakeAlarm] = []
        self.due: list[int] = []
        self.delay_queue = DelayQueue(lambda: self.now_ns, ORIGIN, self._take, self._make)

    def _make(self, call: Callable[[], object]) -> FakeAlarm:
        self.alarms.append(FakeAlarm(call))
        return self.alarms[-1]

    def _take(self, jobs: list[Job]) -> None:
        self.due += [job.number for job in jobs]

    def at(self, offset_ns: int) -> list[int]:
        """Let the alarm ring as it was set, up to this time; what fell due."""
        self.due.clear()
        for timer in self.alarms:
            while timer.at_ns is not None and timer.at_ns <= ORIGIN + offset_ns:
                self.now_ns, timer.at_ns = timer.at_ns, None
                timer.call()
        self.now_ns = ORIGIN + offset_ns
        return list(self.due)


def job(number: int, due_ns: int) -> Job:
    return Job(number, 1, 0, number, 0, 1, due_ns)


def test_each_comes_at_its_time_whatever_the_order_of_arrival() -> None:
    scene = Scene()
    scene.delay_queue.add([job(1, 30), job(2, 10), job(3, 20)])
    scene.delay_queue.add([job(4, 5), job(5, 20)])
    assert len(scene.delay_queue) == 5
    assert scene.at(4) == []
    assert scene.at(5) == [4]
    assert scene.at(20) == [2, 3, 5]
    assert scene.at(100) == [1]
    assert len(scene.delay_queue) == 0
    assert len(scene.alarms) == 1


def test_what_is_late_already_comes_at_once_and_the_rest_later() -> None:
    scene = Scene()
    scene.now_ns += 15
    scene.delay_queue.add([job(1, 10), job(2, 15), job(3, 16)])
    assert scene.due == [1, 2]
    assert scene.at(16) == [3]


def test_without_jobs_that_wait_there_is_no_alarm() -> None:
    scene = Scene()
    scene.delay_queue.add([job(1, 0)])
    assert scene.due == [1]
    assert scene.alarms == []


def test_what_is_taken_back_never_comes() -> None:
    scene = Scene()
    scene.delay_queue.add([job(1, 30), job(2, 10)])
    assert sorted(scene.delay_queue.remove_unstarted()) == [1, 2]
    assert scene.at(100) == []
    scene.delay_queue.add([job(3, 130)])
    assert scene.at(130) == [3]


def test_a_closed_one_is_silent() -> None:
    scene = Scene()
    scene.delay_queue.add([job(1, 30)])
    scene.delay_queue.close()
    assert scene.alarms[0].closed
    assert len(scene.delay_queue) == 0
