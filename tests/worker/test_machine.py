"""The worker's decisions, as scripts of messages and times: no socket, no clock, no sleep."""

from __future__ import annotations

import random
from typing import Any, TypeVar

import pytest

from ssbench.core.columns import RESULT_SCHEMAS, ResultLayout
from ssbench.core.dispatch.result_bounds import MARGIN_NS, ResultBounds
from ssbench.core.errors import ExitStatus
from ssbench.core.messages import (
    MAX_WORKER_MESSAGE_BYTES,
    Ack,
    Addresses,
    Bye,
    Expired,
    Hello,
    Jobs,
    Leaving,
    Message,
    Network,
    NetworkCheck,
    NetworkResult,
    Ready,
    Results,
    Returned,
    encode,
    pack,
)
from ssbench.core.model import NONE_NS, RESULT_NUMBERS, ErrorKind, Job, Phase, Result, Timing
from ssbench.core.settings import Credentials, StorageSettings, WorkerSettings
from ssbench.worker.held_jobs import rows_of as completed_rows
from ssbench.worker.machine import (
    NO_MASTER_WARNING_S,
    CheckNetwork,
    CloseJobs,
    Connect,
    EndPhase,
    HeldJobs,
    OpenJobs,
    Resize,
    SetCredentials,
    WorkerMachine,
    WorkerPhase,
)
from tests.fakes.control_states import IDLE
from tests.fakes.scripted_master import RUN, jobs, rows_of

MS = 1_000_000
SECOND = 1000 * MS
Kind = TypeVar("Kind")


class Script:
    """A worker's machine, with the shell's part done at once; users work when told to."""

    def __init__(self, **settings: Any) -> None:
        self.now_ns = 100 * SECOND
        settings = {"concurrency": 4, **settings}
        own = WorkerSettings("w7", host="h", pid=5, version="1.2", **settings)
        self.machine = WorkerMachine(own, random.Random(1), self.now_ns)
        self.sent: list[Message] = []
        self.acted: list[Any] = []
        self.state = IDLE._replace(serial=0, pipe=3)
        self.batch = 0
        self.started: list[int] = []
        self.connects = True  #: the store connects at once

    def control(self, *, delay_ns: int = 0, **changes: Any) -> None:
        """A control state arrives; what is not given stays as it was."""
        changes = {"serial": self.state.serial + 1, **changes}
        self.state = self.state._replace(master_ns=self.now_ns - delay_ns, **changes)
        self.machine.receive_control_state(self.state, self.now_ns, self.now_ns)
        self.settle()

    def join(self, users: int = 2, phase: Phase = Phase.RUN, **changes: Any) -> int:
        """The worker joins a phase; returns its incarnation."""
        self.hello()
        incarnation = self.machine.incarnation
        workers = {incarnation: (users, None)}
        self.control(run=RUN, phase=int(phase), start_ns=self.now_ns, workers=workers, **changes)
        return incarnation

    def hello(self) -> Hello | None:
        """The hello that goes out now."""
        hello = self.machine.hello(self.now_ns)
        if hello:
            self.machine.hello_sent(self.now_ns)
        return hello

    def settle(self) -> None:
        """What the shell does after each step."""
        machine = self.machine
        while machine.actions:
            action = machine.actions.popleft()
            self.acted.append(action)
            if isinstance(action, Connect) and self.connects:
                machine.connected(action.phase, action.users)
        self.sent += machine.outbox
        machine.outbox.clear()

    def arrive(self, *numbers: int, **changes: Any) -> int:
        """A batch of jobs arrives, if one is wanted; returns its number."""
        self.batch += 1
        packed = pack(jobs(*numbers))
        message = Jobs(RUN, Phase.RUN, self.batch, self.now_ns, packed)
        self.receive(encode(message._replace(**changes)))
        return self.batch

    def receive(self, *messages: bytes) -> None:
        for data in messages:
            assert self.machine.wants_jobs
            self.machine.receive_jobs(data, self.now_ns)
        self.machine.acknowledge()
        self.settle()

    @property
    def phase(self) -> WorkerPhase:
        assert self.machine.phase is not None
        return self.machine.phase

    def start(self, count: int = 1) -> list[Job]:
        """Idle users start so many jobs of the queue."""
        held = self.phase.held
        found = [held.queues[0].popleft() for _ in range(count)]
        held.busy += len(found)
        self.started += [job.number for job in found]
        return found

    def finish(self, *done: Job) -> None:
        """Operations in flight end."""
        held = self.phase.held
        for job in done:
            at_ns = self.now_ns + MS
            timing = Timing(at_ns, at_ns, at_ns, job.size, 200)
            held.finished.append((job, self.now_ns, timing))
            held.busy -= 1

    def work(self, count: int) -> None:
        """Users complete so many jobs, which are reported."""
        self.finish(*self.start(count))
        self.machine.report(self.now_ns)
        self.settle()

    def wait(self, seconds: float, *, step_s: float = 0.25) -> None:
        """Time passes; the worker runs meanwhile."""
        for _ in range(round(seconds / step_s)):
            self.now_ns += round(step_s * SECOND)
            self.machine.tick(self.now_ns)
            self.settle()

    def all_of(self, kind: type[Kind]) -> list[Kind]:
        """Messages or actions of a kind so far."""
        return [item for item in (*self.sent, *self.acted) if isinstance(item, kind)]


def at_work(users: int = 2, **settings: Any) -> Script:
    here = Script(**settings)
    here.join(users)
    here.sent.clear()
    here.acted.clear()
    return here


def due(number: int, due_ns: int = NONE_NS) -> Job:
    return jobs(number)[0]._replace(due_ns=due_ns)


# Joining -----------------------------------------------------------------------------------


def test_a_worker_that_was_given_up_before_it_was_told_returns_as_another() -> None:
    """The master listed it and got no heartbeat: no control state arrived meanwhile."""
    here = Script()
    hello = here.hello()
    here.wait(6)
    here.control(workers={})
    assert here.hello() == hello, "the master may have begun to read only now"
    here.wait(4)
    here.control(workers={})
    here.wait(2)
    assert here.hello() == hello, "nothing says that control states arrive"
    here.control(workers={})
    here.wait(1)
    again = here.hello()
    assert again is not None
    assert (again.incarnation != hello.incarnation, again.previous) == (True, hello.incarnation)
    here.control(workers={again.incarnation: (2, None)})
    here.wait(2)
    assert here.hello() is None


def test_a_dropped_worker_gives_the_master_time_to_list_its_new_incarnation() -> None:
    """Else it would take another with each control state, and none would be listed."""
    here = Script()
    here.control(workers={})
    here.join()
    here.wait(60)
    here.control(run="", workers={})
    again = here.hello()
    here.wait(4)
    here.control()
    assert again == here.hello()


def test_a_refused_worker_keeps_asking_and_exits_after_a_while(
    caplog: pytest.LogCaptureFixture,
) -> None:
    here = Script()
    here.control(refused={here.machine.incarnation: "taken by another"})
    assert "refuses this worker: taken by another" in caplog.text
    for _ in range(16):
        assert here.hello() is not None
        assert here.machine.status is None
        here.wait(1)
        here.control()
    here.wait(1)
    assert here.machine.status is ExitStatus.FAILED
    here.machine.close()
    here.settle()
    assert here.all_of(Bye)[0].reason == "refused: taken by another"


def test_a_worker_that_the_master_rejects_does_not_ask_whether_one_is_running(
    caplog: pytest.LogCaptureFixture,
) -> None:
    here = Script()
    here.machine.rejected_by_master("its key is another one")
    here.wait(NO_MASTER_WARNING_S + 1)
    assert caplog.messages == ["The master rejects this worker: its key is another one"]


# A phase -----------------------------------------------------------------------------------


def test_without_users_in_a_phase_jobs_are_returned_until_none_is_on_its_way() -> None:
    here = at_work(2)
    own = here.machine.incarnation
    here.arrive(1, 2, 3)
    here.arrive(4)
    busy, _ = here.start(2)
    here.sent.clear()
    here.control(workers={own: (0, None)})
    assert here.sent == [Returned(own, RUN, [3, 4])]
    assert here.all_of(CloseJobs) == []
    assert here.machine.returns_jobs
    batch = here.arrive(5, 6)
    assert here.sent[1:] == [Ack(own, RUN, [batch]), Returned(own, RUN, [5, 6])]
    here.control(closing=True)
    here.control()
    assert len(here.all_of(CloseJobs)) == 1
    assert [ready.receiving for ready in here.all_of(Ready)] == [False]
    here.finish(busy)
    here.machine.report(here.now_ns)
    here.settle()
    assert [row.number for row in rows_of(here.all_of(Results)[0])] == [1]
    here.control(workers={own: (2, None)})
    assert here.acted[-2:] == [OpenJobs(3), Resize(here.phase)]
    assert [ready.receiving for ready in here.all_of(Ready)] == [False, True]
    here.arrive(7)
    here.work(1)
    assert here.started == [1, 2, 7]


def test_a_phase_that_ends_before_the_store_connects_is_not_reported() -> None:
    here = Script()
    here.connects = False
    here.join(2, Phase.POPULATE)
    here.control(phase=int(Phase.RUN))
    for connect in here.all_of(Connect):
        here.machine.connected(connect.phase, connect.users)
    here.settle()
    assert [ready.phase for ready in here.all_of(Ready)] == [Phase.RUN]


# Jobs in, results out ------------------------------------------------------------------------


def test_at_a_barrier_a_worker_stops_and_resumes_once_it_has_connections_for_the_next_stage() -> (
    None
):
    here = at_work(2)
    own = here.machine.incarnation
    here.arrive(1, 2, 3)
    (first,) = here.start(1)
    here.control(stopping=True)
    assert here.all_of(Returned)[0].numbers == [2, 3]
    assert [ready.stopped for ready in here.all_of(Ready)] == [True]
    here.finish(first)
    here.connects = False
    here.control(stopping=False, workers={own: (4, 0)})
    assert [connect.users for connect in here.all_of(Connect)] == [4]
    assert len(here.all_of(Ready)) == 1, "it is not yet connected for 4 users"
    here.machine.connected(here.phase, 4)
    here.settle()
    assert [ready.stopped for ready in here.all_of(Ready)] == [True, False]
    here.arrive(4)
    assert here.phase.held.users == [4]
    assert [job.number for job in here.start(1)] == [4]
    here.control(stopping=True)
    assert [ready.stopped for ready in here.all_of(Ready)] == [True, False, True]


def test_a_late_control_state_of_before_a_barrier_resumes_nothing() -> None:
    here = at_work(2)
    here.control(stopping=True)
    stopped = here.state.serial
    here.control(serial=stopped - 1, stopping=False)
    here.arrive(1)
    assert [message.numbers for message in here.all_of(Returned)] == [[1]]
    here.control(serial=stopped + 1, stopping=False)
    here.arrive(2)
    assert here.phase.held.queued == 1


@pytest.mark.parametrize(("users", "group"), [(1_000_000, ()), (2, (2, 1))])
def test_a_worker_runs_no_more_users_than_it_offered(users: int, group: tuple[int, ...]) -> None:
    here = Script(concurrency=2)
    here.join(users=users, **({"groups": {here.machine.incarnation: group}} if group else {}))
    here.wait(1)
    assert here.machine.phase is None
    assert here.machine.status is ExitStatus.FAILED


def test_large_results_are_split_into_messages_that_the_master_takes() -> None:
    here = at_work(users=64, concurrency=64)
    here.arrive(*range(1, 65))
    deleted = tuple(range(10_000, 20_000))
    for job in here.start(64):
        row = Result(*[0] * RESULT_NUMBERS)._replace(
            number=job.number, others=deleted, statuses=(404,) * len(deleted)
        )
        here.phase.held.finished.append(row)
    here.machine.report(here.now_ns)
    here.settle()
    parts = here.all_of(Results)
    assert max(len(encode(part)) for part in parts) <= MAX_WORKER_MESSAGE_BYTES
    assert [row.number for part in parts for row in rows_of(part)] == list(range(1, 65))
    assert [number for part in parts for number in part.acked] == []


def test_addresses_are_named_before_the_results_that_number_them() -> None:
    here, known = at_work(), ["10.0.0.1:80", "10.0.0.2:80"]
    here.phase.addresses = known
    for number in (1, 2, 3):
        here.arrive(number)
        (job,) = here.start(1)
        here.finish(job)
        if number == 2:
            known.append("10.0.0.3:80")
        here.machine.report(here.now_ns)
    here.settle()
    said = [each for each in here.sent if isinstance(each, Addresses | Results)]
    assert [type(each) for each in said] == [Addresses, Results, Addresses, Results, Results]
    assert [each.names for each in said if isinstance(each, Addresses)] == [
        tuple(known[:2]), tuple(known),
    ]  # fmt: skip


MALFORMED = {
    "rubbish": b"rubbish",
    "another message": encode(Bye(1, "")),
    "no jobs": encode(Jobs(RUN, Phase.RUN, 99, 0, b"\x90")),
    "half a job": encode(Jobs(RUN, Phase.RUN, 99, 0, b"\x91\x92\x01\x02")),
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
def test_malformed_jobs_are_rejected_and_logged(
    data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    here = at_work()
    here.receive(data)
    assert here.sent == []
    here.arrive(1)
    here.work(1)
    assert "Rejected a message on the work port" in caplog.text


def test_at_the_end_of_a_phase_only_idle_users_keep_jobs() -> None:
    here = at_work(2)
    here.arrive(1, 2, 3)
    here.start(2)
    here.control(ending=True)
    assert [returned.numbers for returned in here.all_of(Returned)] == [[3]]
    assert here.machine.returns_jobs
    here.control(workers={here.machine.incarnation: (4, None)})
    here.arrive(4, 5, 6)
    assert [returned.numbers for returned in here.all_of(Returned)] == [[3], [6]]


# HeldJobs ------------------------------------------------------------------------------------


def test_jobs_with_due_times_are_queued_in_their_order() -> None:
    held = HeldJobs()
    held.users = [2]
    held.add([due(1, 30)])
    held.add([due(2, 10), due(3, 30), due(4, 20)])
    held.release_due(9)
    assert not held.queues[0]
    assert (held.total, held.idle_users) == (4, 0)
    held.release_due(20)
    assert [job.number for job in held.queues[0]] == [2, 4]
    held.release_due(30)
    assert [job.number for job in held.queues[0]] == [2, 4, 1, 3]


# The lease -----------------------------------------------------------------------------------


def settings_with(serial: int) -> dict[str, Any]:
    return {"credentials": [{"serial": serial}]}


def test_the_master_is_asked_once_a_second_until_newer_credentials_come() -> None:
    here = Script()
    here.join(settings=settings_with(3))
    began_ns = here.now_ns + 1
    for _ in range(9):  # several users ask
        assert here.machine.credentials_renewed(began_ns, here.now_ns, here.now_ns) is None
    here.settle()
    assert here.all_of(Expired) == [Expired(here.machine.incarnation, 3)]
    here.wait(1)
    assert here.machine.credentials_renewed(began_ns, here.now_ns, here.now_ns) is None
    here.settle()
    assert len(here.all_of(Expired)) == 2
    here.control(settings=settings_with(4))
    assert here.machine.credentials_renewed(began_ns, here.now_ns, here.now_ns) is True
    assert here.all_of(SetCredentials)[-1].credentials.serial == 4


def test_what_repeats_a_token_or_the_one_before_is_masked_in_results() -> None:
    here = Script()
    for serial, token in enumerate(("token-of-before", "token-of-now"), 3):
        newest = Credentials(serial, None, {"token": token})
        settings = StorageSettings("noop", credentials=(newest,)).to_map()
        if serial == 3:
            here.join(settings=settings)
        else:
            here.control(settings=settings)
        for told in dict.fromkeys(("token-of-before", token)):
            here.arrive(serial)
            (job,) = here.start()
            timing = Timing(*[here.now_ns] * 3, job.size, 200, transaction_id=f"tx-{told}".encode())
            here.phase.held.finished.append((job, here.now_ns, timing))
            here.phase.held.busy -= 1
            here.machine.report(here.now_ns)
            here.settle()
    rows = [row for message in here.all_of(Results) for row in rows_of(message)]
    assert [row.transaction_id for row in rows] == [b"***"] * 3


def test_the_wait_for_credentials_ends_after_a_minute_and_with_the_phase() -> None:
    here = at_work()
    since_ns = here.now_ns
    later_ns = since_ns + 60 * SECOND
    assert here.machine.credentials_renewed(since_ns, since_ns, later_ns) is None
    assert here.machine.credentials_renewed(since_ns, since_ns, later_ns + 1) is False
    here.control(run="", phase=0)
    assert here.machine.credentials_renewed(since_ns, since_ns, since_ns) is False


def test_no_operation_waits_for_credentials_that_cannot_come() -> None:
    """Of one identity others may come later, and are asked for; the rest is as before."""
    here = Script()
    first = settings_with(3)
    first["credentials"][0]["rejected"] = [0, 2]
    here.join(settings=first)
    now_ns = here.now_ns + 1
    assert here.machine.credentials_renewed(now_ns, now_ns, now_ns, 2) is False
    assert here.machine.credentials_renewed(here.now_ns - 1, now_ns, now_ns, 2) is False
    here.settle()
    assert not here.all_of(Expired)
    assert here.machine.credentials_renewed(now_ns, now_ns, now_ns) is False
    here.settle()
    assert here.all_of(Expired) == [Expired(here.machine.incarnation, 3)]
    assert here.machine.credentials_renewed(now_ns, now_ns, now_ns, 1) is None
    here.wait(1)
    here.control(settings=settings_with(4))
    assert here.machine.credentials_renewed(now_ns, now_ns, now_ns, 2) is True


def test_without_control_states_the_worker_drops_its_queue_and_joins_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    here = at_work(1)
    first = here.machine.incarnation
    here.arrive(1, 2)
    here.start(1)
    here.wait(5)
    assert here.machine.incarnation == first
    here.wait(0.25)
    assert here.machine.incarnation != first
    assert here.sent[-1] == Returned(first, RUN, [2])
    assert here.acted == [EndPhase(), CloseJobs()]
    assert "half the worker timeout: dropped 2 jobs, joining again" in caplog.text
    hello = here.hello()
    assert hello is not None
    assert hello.previous == first
    here.join(1)
    here.arrive(3)
    here.work(1)
    assert here.all_of(Results)[0].incarnation == hello.incarnation
    assert here.started == [1, 3]


def test_a_delayed_control_state_does_not_extend_the_lease() -> None:
    here = at_work(1)
    first = here.machine.incarnation
    here.wait(4)
    here.control(delay_ns=4 * SECOND)
    here.wait(1)
    assert here.machine.incarnation == first
    here.wait(0.25)
    assert here.machine.incarnation != first


# The master is gone --------------------------------------------------------------------------


def test_a_dropped_worker_starts_nothing_and_joins_anew(caplog: pytest.LogCaptureFixture) -> None:
    here = at_work(1)
    first = here.machine.incarnation
    here.arrive(1, 2)
    here.start(1)
    here.control(workers={})
    assert here.machine.incarnation != first
    assert "The master has dropped this worker: dropped 2 jobs" in caplog.text
    assert here.hello() is None  # the last one was sent just now
    here.wait(1)
    assert here.hello() is not None


def test_a_lost_master_is_logged_with_what_was_dropped(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    here = at_work(1)
    here.arrive(1, 2, 3)
    here.start(1)
    here.wait(30)
    text = "gone (nothing received from it for 10 s): dropped 3 jobs, waiting for the next one"
    assert caplog.text.count(text) == 1
    assert here.machine.status is None


def test_another_master_replaces_the_first_without_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    here = Script()
    first = here.machine.incarnation
    here.control(workers={first: (0, None)})
    here.control(master=99, workers={})
    assert "The master is gone (another one has started): waiting" in caplog.text
    assert "WARNING" not in caplog.text
    hello = here.hello()
    assert hello is not None
    assert hello.previous == first


def test_time_in_which_the_worker_itself_was_stopped_does_not_count() -> None:
    here = Script(exit_with_master=True)
    here.control(workers={here.machine.incarnation: (1, None)})
    here.wait(3600, step_s=3600)  # SIGSTOP
    assert here.machine.status is None
    here.wait(9, step_s=1)
    assert here.machine.status is None
    here.wait(2, step_s=1)
    assert here.machine.status is ExitStatus.OK


@pytest.mark.parametrize("exits", [True, False])
def test_only_a_worker_that_stays_waits_for_ever_for_a_first_master(exits: bool) -> None:
    here = Script(exit_with_master=exits)
    here.wait(600, step_s=1)
    assert here.machine.status is None
    here.wait(2, step_s=1)
    assert here.machine.status is (ExitStatus.FAILED if exits else None)


def test_exit_with_a_master_whose_run_is_over() -> None:
    here = at_work(exit_with_master=True)
    here.arrive(1)
    here.work(1)
    # Between two phases, and before it is given users.
    for users in (2, 0):
        here.control(run="", phase=0, workers={here.machine.incarnation: (users, None)})
        here.wait(0.25)
        assert here.machine.status is None
    here.control(ending=True)
    here.wait(0.25)
    assert here.machine.status is ExitStatus.OK


def test_exit_with_a_master_that_ends_in_the_middle_waits_for_operations_in_flight() -> None:
    here = at_work(exit_with_master=True)
    here.arrive(1)
    (job,) = here.start()
    here.control(run="", phase=0, ending=True)
    here.wait(1)
    assert here.machine.status is None
    here.finish(job)
    here.wait(0.25)
    assert here.machine.status is ExitStatus.FAILED


def test_exit_with_a_master_that_another_one_has_replaced() -> None:
    here = at_work(exit_with_master=True)
    here.control(master=99, run="", phase=0, workers={})
    here.wait(0.25)
    assert here.machine.status is ExitStatus.FAILED


# Exits ---------------------------------------------------------------------------------------


def test_stop_returns_jobs_waits_for_operations_in_flight_and_says_bye() -> None:
    here = at_work(2)
    here.arrive(1, 2, 3)
    one, _ = here.start(2)
    here.machine.stop("SIGTERM")
    here.settle()
    assert here.sent[-2:] == [
        Leaving(here.machine.incarnation), Returned(here.machine.incarnation, RUN, [3])
    ]  # fmt: skip
    here.arrive(4)  # it was on its way
    assert here.sent[-1] == Returned(here.machine.incarnation, RUN, [4])
    assert CloseJobs() not in here.acted
    here.control(stopping=True, closing=True, workers={here.machine.incarnation: (0, 0)})
    here.settle()
    assert CloseJobs() in here.acted
    assert not here.all_of(Ready)[-1].receiving
    here.wait(5, step_s=0.02)
    assert here.machine.status is None
    here.finish(one, *here.phase.held.queues[0])
    here.phase.held.busy = 0
    here.wait(0.02, step_s=0.02)
    assert here.machine.status is ExitStatus.OK
    here.machine.close()
    here.settle()
    assert [type(message) for message in here.sent[-2:]] == [Results, Bye]
    assert here.all_of(Bye)[0].reason == "SIGTERM"


def test_a_second_stop_exits_at_once() -> None:
    here = at_work(1)
    here.arrive(1)
    here.start(1)
    here.machine.stop("SIGTERM")
    here.machine.stop("SIGTERM")
    assert here.machine.status is ExitStatus.OK


@pytest.mark.parametrize("change", [{"stopping": True}, {"phase": int(Phase.CLEANUP)}])
def test_a_worker_that_was_told_to_exit_waits_for_jobs_only_while_some_may_come(
    change: dict[str, Any],
) -> None:
    here = at_work(1)
    here.machine.stop("SIGTERM")
    here.wait(0.1, step_s=0.02)
    assert here.machine.status is None
    here.control(**change)
    here.wait(0.02, step_s=0.02)
    assert here.machine.status is ExitStatus.OK


def test_out_of_memory_returns_jobs_and_exits() -> None:
    here = at_work(1)
    here.arrive(1, 2)
    here.start(1)
    here.machine.out_of_memory()
    here.settle()
    assert here.sent[-1] == Returned(here.machine.incarnation, RUN, [2])
    here.phase.held.busy = 0
    here.machine.out_of_memory()
    here.wait(0.25)
    assert here.machine.status is ExitStatus.FAILED


@pytest.mark.parametrize(
    ("error", "reason"),
    [(MemoryError(), "out of memory"), (ValueError("odd"), "crashed: ValueError: odd")],
    ids=["memory", "defect"],
)
def test_an_error_that_nothing_caught_exits_at_once(error: Exception, reason: str) -> None:
    here = at_work(1)
    here.arrive(1, 2)
    here.start(1)
    here.machine.crash(error)
    assert here.machine.status is ExitStatus.FAILED
    here.machine.close()
    here.settle()
    assert here.all_of(Bye)[0].reason == reason
    assert here.all_of(Returned)[0].numbers == [2]


# Metrics, and the network --------------------------------------------------------------------


def test_a_check_of_the_network_is_made_once_by_the_worker_that_it_names() -> None:
    here = Script()
    incarnation = here.join()
    here.acted.clear()
    check = NetworkCheck(1, incarnation, "store", 13583, 5.0, 0, 10.0)
    here.control(network=check._replace(incarnation=incarnation + 1))
    assert here.acted == []
    for _ in range(2):
        here.control(network=check)
    assert here.acted == [CheckNetwork(check)]
    result = NetworkResult([0.1], [], [])
    here.machine.network_checked(check, result)
    here.machine.network_checked(check, None, "x" * 9999)
    here.settle()
    found = [message for message in here.sent if isinstance(message, Network)]
    assert found[0] == Network(incarnation, 1, result)
    assert (found[1].result, len(found[1].fault)) == (None, 4096)
    here.control(network=check._replace(number=2))
    here.control(network=check, master=2)  # another one, which counts from 1, too
    assert len(here.acted) == 3


@pytest.mark.parametrize(
    "figures",
    [
        {"last_byte_ns": 100 * SECOND + MARGIN_NS + 7200 * SECOND},
        {"headers_ns": 1 << 62, "first_byte_ns": 1 << 62, "last_byte_ns": 1 << 62},
        {"last_byte_ns": 1 << 70},
        {"bytes_moved": -1},
        {"bytes_moved": 1 << 64},
        {"status": 1000},
        {"status": "200"},
        {"url": 1},
        {"transaction_id": "text"},
        {"statuses": (200, -1)},
    ],
    ids=str,
)
@pytest.mark.parametrize("failed_before", [False, True], ids=["at once", "with a row of an error"])
def test_figures_that_the_master_would_reject_are_an_error_and_cost_no_other_result(
    figures: dict[str, Any], failed_before: bool
) -> None:
    here = Script()
    here.join()
    here.arrive(1, 2, 3)
    done = here.start(3)
    here.finish(*done)
    finished = here.phase.held.finished
    job, start_ns, timing = finished[1]
    finished[1] = job, start_ns, timing._replace(**figures)
    if failed_before:
        (row,) = completed_rows(finished[2:], here.phase.origin_ns)
        finished[2] = Result(*row)._replace(error=int(ErrorKind.RESET))
    here.machine.report(here.now_ns + MS)
    here.settle()
    (message,) = here.all_of(Results)
    bounds = ResultBounds()
    bounds.begin(here.phase.origin_ns)
    columns = ResultLayout(RESULT_SCHEMAS[message.schema]).decode(message.packed)
    bounds.check(columns, here.now_ns + MS)  # as the master does
    rows = rows_of(message)
    assert [row.number for row in rows] == [1, 2, 3]
    assert rows[0].error == 0
    assert (rows[1].error, rows[1].status, rows[1].bytes_moved) == (ErrorKind.IMPOSSIBLE, 0, 0)
    assert rows[1].last_byte_ns == MS
    assert rows[2].error == (ErrorKind.RESET if failed_before else 0)
