"""A stint without sockets: what comes in on a list goes out on another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import gevent
import gevent.event
import pytest

from ssbench.core.clock_sync import ClockSync
from ssbench.core.columns import pack_jobs
from ssbench.core.messages import (
    Ack,
    Bye,
    ControlState,
    Jobs,
    Message,
    Ready,
    Results,
    Returned,
    encode,
)
from ssbench.core.model import Job, Phase, Timing
from ssbench.core.operations import OPERATIONS
from ssbench.core.settings import StorageSettings
from ssbench.storage.noop import NoopStorage
from ssbench.worker.worker_phase import PhaseHooks, WorkerPhase
from tests.fakes.scripted_master import RUN, jobs, rows_of

MS = 1_000_000
SECOND = 1000 * MS
BEAT = ControlState(1, 1, 0, RUN, Phase.RUN, 0, {}, {}, {}, 10.0, 0.0, 2, *[False] * 4)

Kind = TypeVar("Kind", bound=Message)


class Scene:
    """A stint; its operations take a millisecond, or wait for ``gate``."""

    def __init__(self, users: int = 2, on_job: Callable[[int], None] | None = None) -> None:
        self.now_ns = 100 * SECOND
        self.coming: deque[bytes] = deque()
        self.sent: list[Message] = []
        self.listened: list[bool] = []
        self.latencies: list[int] = []
        self.during: dict[int, Callable[[], None]] = {}  #: job -> what happens meanwhile
        self.gate = gevent.event.Event()
        self.gate.set()
        clock_sync = ClockSync()
        clock_sync.update(BEAT._replace(master_ns=self.now_ns), self.now_ns)
        storage = NoopStorage(StorageSettings())
        storage.actions = dict.fromkeys(OPERATIONS, self._act_on_reply)
        self.batch = 0
        self.worker_phase = WorkerPhase(
            PhaseHooks(
                clock=lambda: self.now_ns,
                clock_sync=clock_sync,
                receive=lambda: self.coming.popleft() if self.coming else None,
                listen=self.listened.append,
                send=self.sent.append,
                renew=lambda began_ns: False,
                on_lease_expired=lambda: None,
                on_out_of_memory=lambda: None,
                on_latencies=self.latencies.extend,
                on_job=on_job,
            ),
            storage,
            BEAT,
            7,
            99 * SECOND,
        )
        self.worker_phase.users.resize(users)

    def _act_on_reply(self, job: Job, deadline_ns: int) -> Timing:
        self.gate.wait()
        self.during.get(job.number, lambda: None)()
        self.now_ns += MS
        return Timing(self.now_ns, self.now_ns, self.now_ns, job.size, 200)

    def arrive(self, *numbers: int, **changes: Any) -> int:
        """A batch of jobs is there to be read; gives its number."""
        self.batch += 1
        message = Jobs(RUN, Phase.RUN, self.batch, self.now_ns, pack_jobs(jobs(*numbers)))
        self.coming.append(encode(message._replace(**changes)))
        return self.batch

    def follow(self, **changes: Any) -> None:
        self.worker_phase.follow(BEAT._replace(**changes))

    def all_of(self, kind: type[Kind]) -> list[Kind]:
        return [message for message in self.sent if isinstance(message, kind)]

    def until(self, true: Callable[[], object]) -> None:
        """Let greenlets run until it is so."""
        with gevent.Timeout(5):
            while not true():
                gevent.sleep(0)

    def done(self, count: int) -> list[int]:
        """Numbers of the operations that were reported, once there are so many."""
        self.until(lambda: len(self._reported()) >= count)
        return sorted(self._reported())

    def _reported(self) -> list[int]:
        return [row.number for results in self.all_of(Results) for row in rows_of(results)]


# Jobs in, results out ---------------------------------------------------------------------


def test_jobs_are_told_of_done_and_reported() -> None:
    counted: list[int] = []
    here = Scene(on_job=counted.append)
    batch = here.arrive(1, 2, 3)
    here.worker_phase.fetch_jobs()
    assert here.sent == [Ack(7, RUN, [batch])]  # before any of them has begun
    assert here.done(3) == [1, 2, 3]
    results = here.all_of(Results)[0]
    assert (results.incarnation, results.run, results.phase) == (7, RUN, Phase.RUN)
    assert rows_of(results)[0].start_ns >= SECOND  # since the phase began
    assert (counted, here.latencies) == ([3], [])


def test_finished_rows_take_the_word_of_new_batches_along() -> None:
    here = Scene(users=4)

    def another_arrives() -> None:
        here.arrive(6)
        here.worker_phase.fetch_jobs()

    here.during = {2: another_arrives}  # the row of 1 is written, and not yet sent
    here.arrive(1, 2, 3, 4, 5)
    here.worker_phase.fetch_jobs()
    assert here.done(6) == [1, 2, 3, 4, 5, 6]
    assert [took.batches for took in here.all_of(Ack)] == [[1]]
    first = here.all_of(Results)[0]
    assert ([row.number for row in rows_of(first)], first.acked) == ([1], [2])


def test_no_more_is_read_than_users_can_use() -> None:
    here = Scene(users=2)
    here.gate.clear()
    for number in range(1, 8):
        here.arrive(number)
    here.worker_phase.fetch_jobs()
    assert len(here.coming) == 3  # two for each
    here.until(lambda: here.worker_phase.users.busy == 2)
    here.worker_phase.fetch_jobs()
    assert len(here.coming) == 3
    here.gate.set()
    assert here.done(7) == [1, 2, 3, 4, 5, 6, 7]  # the queue ran low, and the rest was read


def test_messages_are_left_until_the_queue_runs_low() -> None:
    here = Scene(users=4)
    here.gate.clear()
    here.arrive(*range(1, 8))
    here.worker_phase.on_readable()
    here.until(lambda: here.worker_phase.users.busy == 4)
    here.arrive(8)
    here.listened.clear()
    here.worker_phase.on_readable()
    assert len(here.coming) == 1
    assert here.listened == [False]
    here.gate.set()
    assert here.done(8) == [*range(1, 9)]
    assert here.listened[1:]
    assert all(here.listened[1:])  # there are none left, so that it hears of the next one


def test_messages_are_read_at_once_where_they_have_to_go_back() -> None:
    here = Scene(users=4)
    here.gate.clear()
    here.arrive(*range(1, 8))
    here.worker_phase.on_readable()
    here.until(lambda: here.worker_phase.users.busy == 4)
    here.follow(ending=True)
    here.arrive(8)
    here.worker_phase.on_readable()
    assert here.all_of(Returned)[-1].numbers == [8]


def test_latencies_are_counted_where_they_are_wanted() -> None:
    here = Scene(users=1)
    here.follow(live=True)
    here.arrive(1)
    here.worker_phase.fetch_jobs()
    here.done(1)
    assert here.latencies == [MS]


# Jobs that are not for now ----------------------------------------------------------------


def test_jobs_of_another_run_go_back_under_its_name() -> None:
    here = Scene()
    batch = here.arrive(4, 5, run="another")
    here.worker_phase.fetch_jobs()
    assert here.sent == [Ack(7, "another", [batch]), Returned(7, "another", [4, 5])]


def test_jobs_of_another_phase_go_back() -> None:
    here = Scene()
    batch = here.arrive(4, phase=Phase.POPULATE)
    here.worker_phase.fetch_jobs()
    assert here.sent == [Ack(7, RUN, [batch]), Returned(7, RUN, [4])]


def test_jobs_that_were_long_on_their_way_go_back() -> None:
    here = Scene()
    here.arrive(4, sent_ns=here.now_ns - 5 * SECOND - 1)
    here.arrive(5, sent_ns=here.now_ns - 5 * SECOND)
    here.worker_phase.fetch_jobs()
    assert here.all_of(Returned) == [Returned(7, RUN, [4])]
    assert here.done(1) == [5]


MALFORMED = {
    "rubbish": b"rubbish",
    "another message": encode(Bye(1, "")),
    "no jobs": encode(Jobs(RUN, Phase.RUN, 99, 0, [])),
    "half a column": encode(Jobs(RUN, Phase.RUN, 99, 0, [2, [0, "B", b"1"], 0, 0, 0, 0, 0, 0])),
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
def test_malformed_jobs_are_refused(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    here = Scene()
    here.coming.append(data)
    here.arrive(1)
    here.worker_phase.fetch_jobs()
    assert here.done(1) == [1]
    assert "Refused a message on the work port" in caplog.text


# The end ----------------------------------------------------------------------------------


def test_when_ending_only_free_users_get_jobs() -> None:
    here = Scene(users=2)
    here.gate.clear()
    here.arrive(1, 2, 3)
    here.worker_phase.fetch_jobs()
    here.until(lambda: here.worker_phase.users.busy == 2)
    here.follow(ending=True)
    assert here.all_of(Returned) == [Returned(7, RUN, [3])]
    here.worker_phase.users.resize(4)
    here.arrive(4, 5, 6)
    here.worker_phase.fetch_jobs()
    assert here.all_of(Returned)[1:] == [Returned(7, RUN, [6])]
    here.gate.set()
    assert here.done(4) == [1, 2, 4, 5]


def test_when_stopping_all_goes_back_and_that_is_said_once() -> None:
    here = Scene(users=1)
    here.gate.clear()
    here.arrive(1, 2)
    here.worker_phase.fetch_jobs()
    here.until(lambda: here.worker_phase.users.busy == 1)
    here.follow(stopping=True)
    assert here.sent[-2:] == [Returned(7, RUN, [2]), here.worker_phase.ready(stopped=True)]
    here.arrive(3)
    here.follow(stopping=False)  # a beat that was overtaken
    assert here.sent[-1] == Returned(7, RUN, [3])
    assert len(here.all_of(Ready)) == 1
    here.gate.set()
    assert here.done(1) == [1]


def test_what_is_queued_can_be_given_back() -> None:
    here = Scene(users=1)
    here.arrive(1, 2, 3)
    here.worker_phase.fetch_jobs()
    here.worker_phase.return_unstarted()
    here.worker_phase.return_unstarted()
    assert here.all_of(Returned) == [Returned(7, RUN, [1, 2, 3])]


def test_it_says_what_it_is() -> None:
    assert repr(Scene().worker_phase) == "<WorkerPhase RUN <UserPool 0 busy of 2, 0 jobs queued>>"
