"""Users of a driver that blocks: threads do the work, the loop keeps the books."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import gevent
import pytest

from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind, Job, Timing
from ssbench.core.operations import OPERATIONS, READ
from ssbench.worker.thread_users import ThreadUserPool
from tests.timing import PATIENCE_S
from tests.worker import test_user_pool

DOWN = StorageError(ErrorKind.RESET, "reset")


class Blocking:
    """A driver whose calls block their thread until it may go on, and fail by job number."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.go_on.set()
        self.faults: dict[int, list[object]] = {}
        self.lock = threading.Lock()
        self.in_flight = self.most_in_flight = self.begun = 0
        self.threads: set[int] = set()
        self.actions = dict.fromkeys(OPERATIONS, self.act)
        self.clock = time.perf_counter_ns

    def act(self, job: Job, deadline_ns: int) -> Timing:
        with self.lock:
            self.in_flight += 1
            self.begun += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            self.threads.add(threading.get_ident())
        self.go_on.wait()
        with self.lock:
            self.in_flight -= 1
            faults = self.faults.get(job.number)
            fault = faults.pop(0) if faults else None
        if isinstance(fault, Exception):
            raise fault
        now = time.perf_counter_ns()
        return Timing(now, now, now, job.size, 200) if fault is None else fault  # type: ignore[return-value]


class Team(test_user_pool.Team):
    """Users in threads."""

    driver: Blocking

    def __init__(self, count: int, **options: Any) -> None:
        self.others = {*threading.enumerate()}  # of other tests
        super().__init__(Blocking(), count, retries=2, pool=ThreadUserPool, **options)  # type: ignore[arg-type]

    def work(self, *numbers: int) -> None:
        """These jobs arrive."""
        self.add([Job(number, READ, 0, number, 0, 7) for number in numbers])

    def until(self, done: Callable[[], bool]) -> None:
        with gevent.Timeout(PATIENCE_S):
            while not done():
                gevent.sleep(0.002)

    def until_threads_end(self) -> None:
        self.until(
            lambda: all(
                each.name != "ssbench-user" for each in {*threading.enumerate()} - self.others
            )
        )

    def results(self, count: int) -> list[tuple[int, int]]:
        """(number, error) of so many results."""
        self.until(lambda: len(self.rows) + len(self.held.finished) >= count)
        self.user_pool.flush()
        return sorted((row.number, row.error) for row in self.rows)


@pytest.fixture
def team() -> Iterator[Callable[..., Team]]:
    made: list[Team] = []

    def make(count: int, **options: object) -> Team:
        made.append(Team(count, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.driver.go_on.set()
        each.user_pool.close()


def test_users_pause_between_operations(team: Callable[..., Team]) -> None:
    here = team(1, think_s=(0.1, 0.1))
    began = time.monotonic()
    here.work(1, 2, 3)
    here.results(3)
    assert time.monotonic() - began >= 0.2


def test_nothing_starts_after_the_lease_or_the_close(team: Callable[..., Team]) -> None:
    here = team(1)
    here.held.lease_expires_ns = 1
    here.work(1)
    assert here.user_pool.closed
    assert here.driver.threads == set()


def ahead(team: Callable[..., Team]) -> Team:
    """One user of a store that was quick until now, with 8 of 20 jobs waiting for its thread."""
    here = team(1)
    here.held.quick = 8
    here.driver.go_on.clear()
    here.work(*range(1, 21))
    while not here.driver.in_flight:
        time.sleep(0.001)  # the loop does not run
    assert (here.held.busy, here.held.queued) == (9, 11)
    return here


def test_threads_of_a_quick_store_do_not_wait_for_the_loop(team: Callable[..., Team]) -> None:
    here = ahead(team)
    here.driver.go_on.set()
    while here.driver.begun < 9:
        time.sleep(0.001)  # the loop does not run
    assert here.driver.begun == 9
    assert here.results(20) == [(number, 0) for number in range(1, 21)]
    assert (here.driver.most_in_flight, here.held.busy) == (1, 0)


def test_what_waits_for_threads_is_taken_back_when_the_store_becomes_slow(
    team: Callable[..., Team],
) -> None:
    here = ahead(team)
    here.held.quick = 0
    here.user_pool.tick()
    assert here.held.busy == 1
    assert [job.number for job in here.held.queues[0]] == [*range(2, 21)]


def test_without_users_an_operation_in_flight_is_retried(team: Callable[..., Team]) -> None:
    here = team(2)
    here.driver.go_on.clear()
    here.driver.faults = {1: [DOWN]}
    here.work(1)
    here.until(lambda: here.driver.in_flight == 1)
    here.resize(0)
    here.driver.go_on.set()
    assert here.results(1) == [(1, 0)]
    assert [row.retries for row in here.rows] == [1]
    here.until_threads_end()


def test_what_waits_for_threads_is_not_begun_after_the_lease(team: Callable[..., Team]) -> None:
    here = ahead(team)
    here.held.lease_expires_ns = 1
    here.driver.go_on.set()
    here.until(lambda: here.user_pool.closed)
    here.until_threads_end()
    assert here.driver.begun == 1
