"""Users take jobs, try again where that helps, and write down what happened."""

from __future__ import annotations

import gc
import itertools
import random
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gevent
import gevent.event
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssbench.core import retry
from ssbench.core.errors import ExitStatus, StorageError
from ssbench.core.messages import Results, Returned
from ssbench.core.model import NONE_NS, ErrorKind, Job, Phase, Result, SizeClass, Timing
from ssbench.core.operations import (
    CREATE,
    OPERATIONS,
    READ,
    RECEIVING,
    UPDATE,
    Operation,
)
from ssbench.core.settings import StorageSettings, WorkerSettings
from ssbench.worker import user_pool
from ssbench.worker.machine import (
    CloseJobs,
    EndPhase,
    HeldJobs,
    WorkerMachine,
    WorkerPhase,
)
from ssbench.worker.thread_users import ThreadUserPool
from ssbench.worker.user_pool import QUICK, Bandwidth, UserPool
from tests.fakes.control_states import IDLE
from tests.fakes.scripted_master import rows_of

MS = 1_000_000
SECOND = 1000 * MS
Outcome = StorageError | Exception | Callable[[], None] | None


class Driver:
    """Each attempt takes 10 ms of a clock of its own, and ends as the script says."""

    def __init__(self) -> None:
        self.now_ns = 5 * SECOND
        self.script: deque[Outcome] = deque()
        self.always: Outcome = None
        self.done: list[int] = []
        self.deadlines: list[int] = []
        self.gate: Any = None  #: an Event: attempts wait for it
        self.in_flight = self.most_in_flight = 0
        self.credentials_serial = 1
        self.actions: Mapping[int, Any] = dict.fromkeys(OPERATIONS, self.act)

    def clock(self) -> int:
        return self.now_ns

    def act(self, job: Job, deadline_ns: int) -> Timing:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        self.deadlines.append(deadline_ns)
        try:
            if self.gate is not None:
                self.gate.wait()
            self.now_ns += 10 * MS
            outcome = self.script.popleft() if self.script else self.always
            if isinstance(outcome, Exception):
                raise outcome
            if outcome is not None:
                outcome()
        finally:
            self.in_flight -= 1
        self.done.append(job.number)
        return Timing(
            self.now_ns - 3 * MS, self.now_ns - 2 * MS, self.now_ns, job.size, 200, b"tx1", 1, 0
        )


TWO_ADDRESSES = StorageSettings(store={"urls": ("a", "b")}).to_map()


class Channel:
    """A JobChannel without sockets: reports are kept, jobs are added by the test."""

    def __init__(self, machine: WorkerMachine, clock: Callable[[], int]) -> None:
        self.clock = clock
        self.fetches = self.flushes = 0
        self.rows: list[Result] = []
        self.batches: list[int] = []
        self.returned: list[int] = []
        self._machine = machine

    def fetch(self) -> int:
        self.fetches += 1
        self.flush()
        return 0

    def listen(self, on: bool) -> None:
        pass

    def flush(self) -> None:
        self.flushes += 1
        outbox = self._machine.outbox
        while outbox:
            message = outbox.popleft()
            if isinstance(message, Results):
                rows = rows_of(message)
                self.batches.append(len(rows))
                self.rows += rows
            if isinstance(message, Returned):
                self.returned += message.numbers


class Store:
    """A WorkerStore of which only renewals are asked for."""

    def __init__(self, renew: Callable[[int], bool]) -> None:
        self.renew = lambda began_ns, identity: renew(began_ns)


class Team:
    """The users of a phase on a real machine."""

    def __init__(
        self,
        driver: Driver,
        count: int = 1,
        *,
        retries: int = 10,
        timeout_s: float = 0,
        think_s: tuple[float, float] = (0.0, 0.0),
        renew: Callable[[int], bool] = lambda began_ns: False,
        pool: type[UserPool] = UserPool,
        settings: Mapping[str, Any] = TWO_ADDRESSES,
    ) -> None:
        self.driver = driver
        now_ns = driver.clock()
        own = WorkerSettings("w", concurrency=50, retries=retries)
        self.machine = WorkerMachine(own, random.Random(1), now_ns)
        # The clocks are one: the phase began at 2 s.
        state = IDLE._replace(
            master_ns=now_ns, run="run", phase=Phase.RUN, start_ns=2 * SECOND, settings=settings,
            workers={self.machine.incarnation: (count, None)}, timeout_s=1e6,
            operation_timeout_s=timeout_s, think_min_s=think_s[0], think_max_s=think_s[1],
        )  # fmt: skip
        self.machine.receive_control_state(state, now_ns, now_ns)
        assert self.machine.phase is not None
        self.phase = self.machine.phase
        self.held = self.phase.held
        self.machine.connected(self.phase, count)
        self.machine.actions.clear()
        self.machine.outbox.clear()
        self.channel = Channel(self.machine, lambda: driver.clock())
        self.wake = gevent.event.Event()
        self.user_pool = pool(
            self.machine,
            self.phase,
            driver,  # type: ignore[arg-type]
            self.channel,  # type: ignore[arg-type]
            Store(renew),  # type: ignore[arg-type]
            self.wake,
        )
        self.user_pool.resize()

    @property
    def rows(self) -> list[Result]:
        return self.channel.rows

    def add(self, jobs: Sequence[Job]) -> None:
        """Jobs arrive."""
        self.held.add(jobs)
        self.user_pool.start_jobs()

    def resize(self, count: int) -> None:
        self.held.users = [count]
        self.user_pool.resize()

    def do(self, *jobs: Job) -> list[Result]:
        """Rows of these jobs, once all are done."""
        self.add(jobs)
        self.settle(len(self.rows) + len(jobs))
        return self.rows[-len(jobs) :]

    def wait_until_busy(self, count: int) -> None:
        """Let greenlets run until so many operations are in flight."""
        with gevent.Timeout(60):
            while self.held.busy != count:
                gevent.sleep(0.001)

    def settle(self, rows: int) -> None:
        """Let greenlets run until there are so many rows."""
        with gevent.Timeout(60):
            while len(self.rows) < rows:
                gevent.sleep(0.001)


@pytest.fixture(autouse=True)
def _no_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_pool, "FLUSH_S", 3600.0)  # on a busy machine one comes at any time


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(retry, "LONGEST_PAUSE_S", 0.002)
    monkeypatch.setattr(retry, "NOT_FOUND_PAUSE_S", 0.003)


def job(number: int = 1, operation: Operation = CREATE, *, due_ns: int = NONE_NS) -> Job:
    return Job(number, operation, 2, 40 + number, 0, 100, due_ns)


def refused(status: int) -> StorageError:
    kind = ErrorKind.UNAUTHORIZED if status == 401 else ErrorKind.STATUS
    return StorageError(kind, f"{status}", status=status)


def result_row(driver: Driver, operation: Operation = CREATE, **options: Any) -> Result:
    """The row of one job that one user does."""
    (row,) = Team(driver, **options).do(job(1, operation))
    return row


# What a row says --------------------------------------------------------------------------


def test_the_row_of_a_success() -> None:
    for operation in OPERATIONS.values():
        assert result_row(Driver(), operation) == Result(
            number=1, operation=operation, size_class=2, object=41, due_ns=NONE_NS,
            start_ns=3 * SECOND, headers_ns=7 * MS,
            first_byte_ns=8 * MS if operation in RECEIVING else NONE_NS,
            last_byte_ns=10 * MS, bytes_moved=100, retries=0, not_found_retries=0, rate_limited=0,
            reconnects=0, renewals=0, url=1, status=200, error=0, unknown=0,
            transaction_id=b"tx1", detail="",
        )  # fmt: skip


def test_the_row_of_a_failure_without_a_response() -> None:
    driver = Driver()
    driver.always = StorageError(ErrorKind.RESET, "the connection broke", url=1)
    row = result_row(driver, UPDATE, retries=2)
    assert row == Result(
        number=1, operation=UPDATE, size_class=2, object=41, due_ns=NONE_NS,
        start_ns=3 * SECOND, headers_ns=NONE_NS, first_byte_ns=NONE_NS, last_byte_ns=30 * MS,
        bytes_moved=0, retries=2, not_found_retries=0, rate_limited=0, reconnects=0, renewals=0,
        url=1, status=0, error=ErrorKind.RESET, unknown=1,
        transaction_id=b"", detail="the connection broke",
    )  # fmt: skip


# Trying again -----------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [None, 404, 500])
def test_every_request_is_counted(ending: int | None) -> None:
    """A request of the driver's that it repeated by itself is two."""
    driver = Driver()
    lost = StorageError(ErrorKind.CONNECT, "and no connection in its place")
    lost.reconnects = 1
    driver.script += [lost, refused(503), refused(401), lost, refused(404)]
    if ending:
        driver.always = refused(ending)
    row = result_row(driver, READ, renew=lambda began_ns: True)
    counted = row.retries + row.not_found_retries + row.renewals + row.reconnects
    assert row.reconnects == 2
    assert 1 + counted == len(driver.deadlines) + row.reconnects


@pytest.mark.parametrize("pool", [UserPool, ThreadUserPool])
@pytest.mark.parametrize("before", ["", "retried", "noted"])
def test_a_read_of_another_length_is_a_failure(pool: type[UserPool], before: str) -> None:
    driver = Driver()
    page = Timing(5 * SECOND, 5 * SECOND, 6 * SECOND, 26, 200, b"txpage")
    driver.coding = lambda: "gzip"  # type: ignore[attr-defined]
    driver.actions = {READ: lambda job, deadline_ns: driver.act(job, deadline_ns) and page}
    if before == "retried":
        driver.script.append(refused(503))
    if before == "noted":
        driver.script.append(StorageError(ErrorKind.NONE, "it has a coding", timing=page))
    sizes = (SizeClass("small", 100, 100, ((int(READ), 1.0),), 10),)
    team = Team(driver, pool=pool, settings=StorageSettings(sizes=sizes).to_map())
    team.add([job(1, READ)._replace(size_class=0, object=3)])
    with gevent.Timeout(60):
        while not (team.rows or team.held.finished):
            gevent.sleep(0.001)
    team.user_pool.flush()
    (row,) = team.rows
    assert (row.error, row.retries) == (ErrorKind.WRONG_LENGTH, int(before == "retried"))
    assert (row.status, row.transaction_id, row.bytes_moved) == (200, b"txpage", 26)
    assert row.detail.removesuffix("; it has a coding" if before == "noted" else "") == (
        "ssbench_000003/small_000003: 26 bytes in place of 100; Content-Encoding gzip"
    )


def test_an_operation_has_a_deadline_for_all_of_its_attempts() -> None:
    driver = Driver()
    driver.always = refused(503)
    row = result_row(driver, CREATE, timeout_s=0.035)
    assert set(driver.deadlines) == {5 * SECOND + 35 * MS}
    assert row.retries == len(driver.deadlines) == 4
    assert row.last_byte_ns == 40 * MS


# The token --------------------------------------------------------------------------------


def test_a_renewal_is_counted_and_in_no_latency() -> None:
    driver = Driver()
    driver.script.append(refused(401))

    def renew(began_ns: int) -> bool:
        assert began_ns == 5 * SECOND
        driver.now_ns += 700 * MS
        return True

    row = result_row(driver, CREATE, renew=renew)
    assert (row.renewals, row.retries, row.error, row.status) == (1, 0, 0, 200)
    assert row.last_byte_ns == 10 * MS
    assert row.start_ns == 3 * SECOND + 710 * MS
    assert row.renewed_ns == 710 * MS  # it was started first when the user took it


# Defects of a driver ----------------------------------------------------------------------


def test_out_of_memory_fails_the_operation_and_ends_the_worker(
    caplog: pytest.LogCaptureFixture,
) -> None:
    driver = Driver()
    driver.script.extend([refused(503), MemoryError()])
    team = Team(driver)
    (row,) = team.do(job(1))
    assert (row.error, row.detail) == (ErrorKind.INTERNAL, "the worker is out of memory")
    assert team.held.busy == 0
    assert team.wake.is_set()
    team.machine.tick(driver.now_ns)
    assert team.machine.status is ExitStatus.FAILED
    assert "defect" not in caplog.text


def test_an_invalid_timing_after_a_retry_fails_that_job_only() -> None:
    driver = Driver()
    answers = deque([refused(503), None])

    def act(job: Job, deadline_ns: int) -> Any:
        answer = answers.popleft()
        if answer:
            raise answer
        return answer

    driver.actions = {**driver.actions, READ: act}
    row, after = Team(driver).do(job(1, READ), job(2))
    assert (row.error, row.retries, after.error) == (ErrorKind.INTERNAL, 1, 0)
    assert row.detail.endswith("TypeError: the driver gave NoneType for a Timing")


# How many users ---------------------------------------------------------------------------


def at_once(driver: Driver, team: Team) -> int:
    """How many jobs are in flight when there are plenty."""
    driver.gate = gevent.event.Event()
    jobs = [job(n) for n in range(1000, 1050)]
    rows = len(team.rows)
    driver.most_in_flight = 0
    team.add(jobs)
    gevent.sleep(0.01)
    busy = team.held.busy
    driver.gate.set()
    team.settle(rows + len(jobs))
    assert driver.most_in_flight == busy
    return busy


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.booleans(), st.integers(0, 8)), max_size=8))
def test_resizing_during_work(changes: list[tuple[int, bool, int]]) -> None:
    """Invariant: after any changes there are as many users as there should be, and each job
    was done once."""
    driver = Driver()
    team = Team(driver, 2)
    given_out = 0
    for count, pause, jobs in changes:
        driver.gate = gevent.event.Event()
        team.resize(count)
        team.add([job(given_out + n) for n in range(jobs)])
        given_out += jobs
        if pause:
            gevent.sleep(0)
        driver.gate.set()
        if pause:
            gevent.sleep(0)
    team.resize(4)
    team.settle(given_out)
    assert sorted(row.number for row in team.rows) == list(range(given_out))
    assert at_once(driver, team) == 4


def test_users_start_as_jobs_need_them() -> None:
    def greenlets() -> int:
        return sum(isinstance(each, gevent.Greenlet) for each in gc.get_objects())

    before, team = greenlets(), Team(Driver())
    team.resize(10_000)
    team.do(job(1), job(2))
    assert greenlets() - before <= 2


@pytest.mark.parametrize(
    ("in_a_tick", "queued"), [(0, 4), (24, 4), (25, 5), (50, 10), (160, QUICK), (999, QUICK)]
)
def test_faster_stores_have_longer_queues(in_a_tick: int, queued: int) -> None:
    team = Team(Driver(), 2)
    if in_a_tick:
        team.do(*[job(n) for n in range(in_a_tick)])
    team.user_pool.tick()
    team.held.queues[0].extend(job(n) for n in range(queued - 1))
    assert team.held.wants_more
    team.held.queues[0].append(job(queued))
    assert not team.held.wants_more


# Rows out ---------------------------------------------------------------------------------


def test_results_gather_while_jobs_wait_for_their_time() -> None:
    driver = Driver()
    driver.clock = time.perf_counter_ns  # type: ignore[method-assign]
    team = Team(driver)
    team.add([job(1, due_ns=0), job(2, due_ns=time.perf_counter_ns() + 3600 * SECOND)])
    while not driver.done:
        gevent.idle()
    gevent.idle()
    assert team.rows == []
    team.user_pool.tick()
    assert len(team.rows) == 1
    team.user_pool.close()


def test_the_loop_sleeps_after_an_acknowledgement_took_the_results_along() -> None:
    driver = Driver()
    team = Team(driver)
    gate = gevent.event.Event()

    def acknowledge() -> None:
        team.machine.report(team.channel.clock())
        team.channel.flush()
        gate.wait()

    driver.script.extend([None, acknowledge])
    team.add([job(1), job(2)])
    team.settle(1)
    iterations = itertools.count()
    watcher: Any = gevent.get_hub().loop.prepare()
    watcher.start(lambda: next(iterations))
    gevent.sleep(0.05)
    watcher.stop()
    watcher.close()
    assert next(iterations) < 10  # thousands, if it did not sleep
    gate.set()
    team.settle(2)


class HeldTimer:
    """A timer that the test lets expire."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.expire = call
        self.at_ns = 0

    def set(self, at_ns: int) -> None:
        self.at_ns = at_ns

    def close(self) -> None:
        pass


def test_a_job_starts_when_it_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    timers: list[HeldTimer] = []

    def timer(call: Callable[[], object]) -> HeldTimer:
        timers.append(HeldTimer(call))
        return timers[0]

    monkeypatch.setattr(user_pool, "Timer", timer)
    driver = Driver()
    team = Team(driver, 2)
    now_ns = driver.now_ns - 2 * SECOND
    dues = [now_ns + 90 * MS, now_ns + 50 * MS, 0]
    for number, due_ns in enumerate(dues):
        team.add([job(number, due_ns=due_ns)])
    assert team.held.total == 3
    for done, due_ns in enumerate(sorted(dues)):
        if due_ns:
            assert timers[0].at_ns == due_ns + 2 * SECOND
            driver.now_ns = timers[0].at_ns
            timers[0].expire()
        with gevent.Timeout(60):
            while len(driver.done) <= done:
                gevent.sleep(0.001)
    team.settle(3)
    assert driver.done == [2, 1, 0]
    assert [row.due_ns for row in team.rows] == sorted(dues)
    assert all(row.start_ns >= row.due_ns for row in team.rows)
    assert team.held.total == 0


def waits(bandwidth: int, *jobs: Job, share: float = 1.0, idle_s: float = 0.0) -> list[float]:
    """How long these jobs wait, each of which ends at once."""
    now_ns = 5 * SECOND
    held = HeldJobs()
    held.share = share
    state = IDLE._replace(phase=Phase.RUN, settings={"bandwidth": bandwidth})
    phase = WorkerPhase(1, state, 0, held)
    limit = Bandwidth(phase, lambda: now_ns)
    assert limit.is_limited
    found = []
    for each in jobs:
        found.append(limit.wait_s(each))
        now_ns += round(found[-1] * SECOND) + 1
        assert found[-1] == 0 or limit.wait_s(each) == 0, "then it starts"
        now_ns += int(idle_s * SECOND)
    return found


def test_operations_start_once_their_bytes_are_within_the_bandwidth() -> None:
    reads = [job(number, READ) for number in range(4)]
    assert waits(1000, *reads) == pytest.approx([0.1] * 4)
    assert waits(1000, *reads, share=0.5) == pytest.approx([0.2] * 4)
    idle = waits(1000, *reads, idle_s=9.0)
    assert idle == pytest.approx([0.1, 0.0, 0.0, 0.0]), "no more than the burst"


@pytest.mark.parametrize("pool", [UserPool, ThreadUserPool])
def test_the_users_of_a_group_wait_for_the_bandwidth_one_after_another(
    pool: type[UserPool],
) -> None:
    driver, real_ns = Driver(), time.monotonic_ns
    begun_ns = real_ns() - driver.now_ns
    driver.clock = lambda: real_ns() - begun_ns  # type: ignore[method-assign]
    team = Team(driver, 3, settings={**TWO_ADDRESSES, "bandwidth": 10_000}, pool=pool)
    team.do(*[job(number, READ) for number in range(6)])
    assert sorted(driver.done) == [*range(6)]
    starts = sorted(row.start_ns - 3 * SECOND for row in team.rows)
    # Each reads 100 bytes; the first has to wait for its own.
    assert all(at_ns >= (index + 1) * 10 * MS for index, at_ns in enumerate(starts)), starts


# The lease, and the end -------------------------------------------------------------------


def test_after_the_lease_nothing_is_started() -> None:
    driver = Driver()
    team = Team(driver, 3)
    team.held.lease_expires_ns = driver.now_ns - 1
    team.add([job(n) for n in range(5)])
    gevent.sleep(0.002)
    assert (driver.done, driver.deadlines) == ([], [])
    assert team.machine.phase is None
    assert [type(action) for action in team.machine.actions] == [EndPhase, CloseJobs]
    assert sorted(team.channel.returned) == [0, 1, 2, 3, 4]
    assert team.wake.is_set()


def test_after_the_lease_no_retry_is_started() -> None:
    driver = Driver()
    driver.always = refused(503)
    team = Team(driver)
    team.held.lease_expires_ns = driver.now_ns + 15 * MS
    (row,) = team.do(job())
    assert len(driver.deadlines) == 2
    assert row.status == 503


def test_a_closed_pool_starts_nothing_more() -> None:
    driver = Driver()
    team = Team(driver, 2)
    team.do(job(1))
    driver.gate = gevent.event.Event()
    team.add([job(n) for n in range(2, 9)])
    team.wait_until_busy(2)
    team.user_pool.close()
    driver.gate.set()
    team.wait_until_busy(0)
    assert [row.number for row in team.rows] == [1]
    assert sorted(driver.done) == [1, 2, 3]
    team.user_pool.close()
    team.user_pool.flush()
