"""Jobs for results, with a crew in memory: what goes where, and what is none of ours."""

from __future__ import annotations

import pytest

from ssbench.core.columns import unpack_jobs
from ssbench.core.dispatch.dispatcher import Dispatcher
from ssbench.core.messages import Ack, Jobs, Results, Returned, decode
from ssbench.core.model import Job, Phase
from ssbench.master.job_transport import JobTransport
from ssbench.master.safe_recorder import SafeRecorder
from tests.core.workload.fleet import Ledger, packed
from tests.master import test_worker_manager
from tests.master.test_master import Observer, Recorder
from tests.master.test_worker_manager import hello

RUN = "run1"


class Scene(test_worker_manager.Scene):
    """A crew of one worker that is 4 users, in a run, and what is sent to it."""

    def __init__(self, total: int = 100) -> None:
        super().__init__()
        self.deliver(hello(1))
        self.manager.enter(Phase.RUN)
        self.manager.allocate_users(4)
        self.room = 1000
        self.sent: list[bytes] = []
        self.ledger, self.observer, self.recorder = Ledger(total), Observer(), Recorder()
        self.safe_recorder = SafeRecorder(self.recorder, self.warnings.append)
        self.job_transport = JobTransport(
            Dispatcher(self.ledger, self.manager.registry, 2),
            self.manager,
            self.safe_recorder,
            [self.observer],
            self.send,
            lambda: self.now_ns,
        )

    def send(self, data: bytes) -> bool:
        if len(self.sent) >= self.room:
            return False
        self.sent.append(data)
        return True

    def batches(self) -> list[tuple[int, list[Job]]]:
        """Number and jobs of each message that was sent."""
        found = []
        for data in self.sent:
            message = decode(data)
            assert isinstance(message, Jobs)
            assert (message.run, message.phase) == (RUN, Phase.RUN)
            found.append((message.batch, unpack_jobs(message.packed)))
        return found

    def done(self, jobs: list[Job], **other: object) -> Results:
        """What the worker says of them, but for what is ``other``."""
        said = {"incarnation": 1, "run": RUN, "phase": Phase.RUN, "acked": [], **other}
        return Results(packed=packed(jobs), **said)  # type: ignore[arg-type]


def test_jobs_go_out_as_far_as_there_is_room_and_the_rest_waits() -> None:
    here = Scene()
    here.room = 1
    here.job_transport.send(here.now_ns)
    assert [number for number, _ in here.batches()] == [1]
    assert here.job_transport.has_unsent
    here.room = 1000
    here.job_transport.send(here.now_ns)
    numbers = [number for number, _ in here.batches()]
    assert numbers == list(range(1, len(numbers) + 1))
    assert not here.job_transport.has_unsent
    jobs = sum(len(jobs) for _, jobs in here.batches())
    assert here.job_transport.numbers == (jobs + 1, len(numbers) + 1)


def test_what_is_withheld_is_not_sent() -> None:
    here = Scene()
    here.room = 0
    here.job_transport.send(here.now_ns)
    here.job_transport.drop_unsent()
    assert not here.job_transport.has_unsent


def test_results_are_kept_counted_and_shown() -> None:
    here = Scene()
    here.job_transport.send(here.now_ns)
    (number, jobs), *_ = here.batches()
    assert here.job_transport.on_results(here.done(jobs, acked=[number]))
    assert here.job_transport.dispatcher.counts.done == len(jobs) == here.observer.rows
    assert here.recorder.batches == 1


@pytest.mark.parametrize(
    "other", [{"incarnation": 7}, {"run": "run0"}, {"phase": Phase.POPULATE}], ids=str
)
def test_results_of_nobody_here_or_of_another_phase_are_none_of_ours(
    other: dict[str, object],
) -> None:
    here = Scene()
    here.job_transport.send(here.now_ns)
    (number, jobs), *_ = here.batches()
    assert not here.job_transport.on_results(here.done(jobs, acked=[number], **other))
    assert here.job_transport.dispatcher.counts.done == here.recorder.batches == 0


def test_rubbish_for_results_is_counted_and_not_kept() -> None:
    here = Scene()
    assert here.job_transport.on_results(Results(1, RUN, Phase.RUN, [], b"rubbish"))
    assert here.job_transport.dispatcher.counts.refused == 1
    assert here.recorder.batches == here.observer.rows == 0


def test_columns_that_cannot_be_shown_are_kept(caplog: pytest.LogCaptureFixture) -> None:
    here = Scene()
    here.job_transport._display([2, *[b"odd"] * 30])
    assert "can't be shown" in caplog.text
    assert here.observer.rows == 0


@pytest.mark.parametrize(
    ("taken_of", "returned_of", "again"), [(RUN, RUN, 2), ("run0", RUN, 0), (RUN, "run0", 0)]
)
def test_jobs_that_come_back_go_out_again_where_they_are_of_this_run(
    taken_of: str, returned_of: str, again: int
) -> None:
    here = Scene(total=2)
    here.job_transport.send(here.now_ns)
    ((number, jobs),) = here.batches()
    here.job_transport.on_ack(Ack(1, taken_of, [number]))
    here.job_transport.on_returned(Returned(1, returned_of, [job.number for job in jobs]))
    here.sent.clear()
    here.job_transport.send(here.now_ns)
    assert sum(len(jobs) for _, jobs in here.batches()) == again


def test_what_a_worker_held_is_lost_with_it_and_the_rest_at_the_end() -> None:
    here = Scene(total=4)
    here.job_transport.send(here.now_ns)
    (number, jobs), _ = here.batches()
    here.job_transport.on_ack(Ack(1, RUN, [number]))
    assert here.job_transport.on_worker_left(1) == len(jobs) == 2
    here.job_transport.close()
    counts = here.job_transport.dispatcher.counts
    assert counts.sent == counts.lost + counts.withdrawn == 4
