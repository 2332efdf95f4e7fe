"""The fault matrix of workers and links, as scripts in simulated time.

The same faults on real processes, sockets and a real Swift are in tests/e2e/faults.
"""

from __future__ import annotations

import cProfile
import itertools
import re
from collections.abc import Callable
from functools import partial
from types import CodeType

import pytest
from msgspec.structs import replace

from ssbench.core.columns import pack_results
from ssbench.core.errors import ExitStatus
from ssbench.core.messages import (
    MAX_NUMBERS,
    MAX_RESULT_BYTES,
    Ack,
    Addresses,
    Bye,
    Expired,
    Heartbeat,
    Hello,
    Host,
    Jobs,
    Leaving,
    Message,
    Network,
    Profiled,
    Ready,
    Results,
    Returned,
    decode,
    pack,
)
from ssbench.core.model import ErrorKind, Phase, Stage
from ssbench.master.phase_machine import PhaseOutcome, PhasePlan
from tests.core.workload.fleet import Ledger, row
from tests.fakes.cluster import Cluster, SimWorker


def test_without_faults_every_job_is_done_once() -> None:
    cluster = Cluster()
    outcome = cluster.run(1000)
    assert (outcome.ended, outcome.counts.done) == ("complete", 1000)
    assert set(cluster.begun.values()) == {1}
    assert cluster.messages == []
    assert cluster.end() == [ExitStatus.OK] * 3


def test_a_phase_by_time_returns_what_was_not_started() -> None:
    cluster = Cluster()
    outcome = cluster.run(10**6, seconds=3.0)
    assert outcome.ended == "complete"
    assert outcome.counts.lost == outcome.counts.failed == 0
    assert outcome.seconds == pytest.approx(3.0, abs=0.3)
    assert sum(cluster.begun.values()) == outcome.counts.done


def kill(cluster: Cluster) -> None:
    cluster.workers[0].kill()


def kill_local(cluster: Cluster) -> None:
    cluster.workers[0].kill()
    cluster.notice_exit(cluster.workers[0])


def stop(cluster: Cluster) -> None:
    cluster.workers[0].running = False


def stop_and_continue(cluster: Cluster) -> None:
    stop(cluster)
    cluster.at(8.0, lambda: setattr(cluster.workers[0], "running", True))


def cut(cluster: Cluster) -> None:
    cluster.workers[0].cut()


def cut_and_restore(cluster: Cluster) -> None:
    cut(cluster)
    cluster.at(8.0, lambda: setattr(cluster.workers[0], "connected", True))


def restart(cluster: Cluster) -> None:
    kill(cluster)
    cluster.at(6.0, cluster.workers[0].restart)


def lists_of(kind: type[Message]) -> Callable[[Cluster], None]:
    """A worker sends the longest lists, twenty times a second."""

    def begin(cluster: Cluster) -> None:
        liar = cluster.workers[0]
        own, numbers = liar.machine.incarnation, list(range(10**6, 10**6 + MAX_NUMBERS))
        lists: dict[type[Message], Message] = {
            Ack: Ack(own, "run", numbers),
            Returned: Returned(own, "another", numbers),
            Results: Results(own, "run", Phase.RUN, [], bytes(MAX_RESULT_BYTES)),
        }
        for n in range(60):
            cluster.at(n / 20, lambda: cluster.send(liar, lists[kind]))

    return begin


TOO_MANY = "it sent more messages, batches and jobs than it was due"

#: What a worker has a reason to say now and then.
FLOODS: dict[str, Message] = {
    "hellos": Hello(0, 0, "w0", 4, "host", 1, "1.0"),
    "heartbeats": Heartbeat(0, 10**6, 0, 0, 0, 0, 0),
    "readies": Ready(0, "run", Phase.RUN, False),
    "metrics": Host(0, 0, "", dict.fromkeys(map("cpu{}".format, range(500)), 1.0)),
    "profiles": Profiled(0, "run", dict.fromkeys(map("a{}".format, range(500)), 1), 1, 1),
    "addresses": Addresses(0, "run", Phase.RUN, ["192.0.2.1:80"] * 60),
    "checks": Network(0, 1, None, "x" * 4000),
    "expiries": Expired(0, 10**6),
    "farewells": Leaving(0),
    "empty lists": Ack(0, "run", []),
    "lists of nothing": Returned(0, "another", []),
    "empty results": Results(0, "another", Phase.RUN, [], b""),
}
#: Messages of one poll, a hundred times a second.
FLOOD, FLOOD_POLLS = 256, 100


def floods_of(message: Message) -> Callable[[Cluster], None]:
    """A worker repeats one message as often as the master reads it, for a second."""

    def begin(cluster: Cluster) -> None:
        liar = cluster.workers[0]
        repeated = message._replace(incarnation=liar.machine.incarnation)
        for n in range(FLOOD_POLLS):
            cluster.at(n / 100, lambda: cluster.send(liar, repeated, FLOOD))

    return begin


@pytest.fixture(scope="module")
def honest_outcome() -> PhaseOutcome:
    return Cluster().run(6000)


def test_who_only_says_hello_takes_no_users_and_no_time_of_the_run(
    honest_outcome: PhaseOutcome,
) -> None:
    """Of 25,600 in a second, 2,048 took all users, and the control states were as long as many."""
    flooded = Cluster()
    numbers = itertools.count(10**6)

    def hellos() -> None:
        for number in itertools.islice(numbers, FLOOD):
            flooded.send(flooded.workers[0], Hello(number, 0, f"x{number}", 4, "host", 1, "1.0"))

    for n in range(FLOOD_POLLS):
        flooded.at(3 + n / 100, hellos)
    outcomes = [honest_outcome, flooded.run(6000)]
    assert [(each.ended, each.counts.lost) for each in outcomes] == [("complete", 0)] * 2
    assert flooded.master.workers_lost == []
    assert outcomes[1].seconds == pytest.approx(outcomes[0].seconds, rel=0.02)


def test_a_worker_holds_no_job_of_a_batch_that_another_one_was_sent() -> None:
    """With numbers in order it could guess those of others: whose results were rejected, as it had
    acknowledged their batches first."""
    cluster = Cluster()
    liar, seen = cluster.workers[0], {1}

    def acknowledge() -> None:
        sent = [decode(data) for _, data in liar.pipe]
        seen.update(message.batch for message in sent if isinstance(message, Jobs))
        near = [*range(max(seen) - 1, max(seen) + 3)]
        cluster.send(liar, Ack(liar.machine.incarnation, "run", near))

    for n in range(200):
        cluster.at(n / 100, acknowledge)
    outcome = cluster.run(400)
    assert (outcome.ended, outcome.counts.done, outcome.counts.rejected) == ("complete", 400, 0)
    assert len(seen) > 10
    assert cluster.master.workers_lost == []


#: fault, what the master says of the lost worker, whether it comes back
LOSSES: dict[str, tuple[Callable[[Cluster], None], str, bool]] = {
    "acknowledging": (lists_of(Ack), TOO_MANY, False),
    "returning": (lists_of(Returned), TOO_MANY, False),
    "reporting nothing": (lists_of(Results), TOO_MANY, False),
    "killed": (kill, "no heartbeat for 4 s", False),
    "killed on this host": (kill_local, "it was killed by SIGKILL", False),
    "stopped": (stop, "no heartbeat for 4 s", False),
    "stopped and continued": (stop_and_continue, "no heartbeat for 4 s", True),
    "cut off": (cut, "no heartbeat for 4 s", False),
    "cut off and back": (cut_and_restore, "no heartbeat for 4 s", True),
    "restarted": (restart, "no heartbeat for 4 s", True),
}


@pytest.mark.parametrize(("fault", "reason", "is_back"), LOSSES.values(), ids=LOSSES)
def test_a_lost_worker_loses_what_it_held_and_nothing_runs_twice(
    fault: Callable[[Cluster], None], reason: str, is_back: bool
) -> None:
    """And one that comes back works again."""
    cluster, busy = Cluster(), list[int]()

    def look() -> None:
        phase = cluster.workers[0].machine.phase
        busy.append(phase.held.busy if phase else 0)

    cluster.at(3.0, lambda: fault(cluster))
    cluster.at(14.0, look)
    outcome = cluster.run(6000)
    counts = outcome.counts
    assert (outcome.ended, counts.sent, counts.failed) == ("complete", 6000, 0)
    assert 0 < counts.lost <= 16  # two per user and those on their way
    assert max(cluster.begun.values()) == 1
    lost = [text for text in cluster.messages if text.startswith("Lost worker w0 ")]
    assert len(lost) == 1
    assert reason in lost[0]
    assert [name.split()[0] for name in cluster.master.workers_lost] == ["w0"]
    assert busy[0] > 0 or not is_back


def work_of_master(cluster: Cluster) -> int:
    """Calls of the master's functions in a run of 6 s that loses one of three workers after 3."""
    with cProfile.Profile(subcalls=False, builtins=False) as profile:
        outcome = cluster.run(2000)
    counts = outcome.counts
    assert (outcome.ended, counts.sent, counts.failed) == ("complete", 2000, 0)
    assert counts.lost <= 16
    assert [name.split()[0] for name in cluster.master.workers_lost] == ["w0"]
    return sum(
        each.callcount
        for each in profile.getstats()
        if isinstance(each.code, CodeType)
        and re.search("ssbench/(master|core/dispatch)/", each.code.co_filename)
    )


@pytest.fixture(scope="module")
def honest_work() -> int:
    cluster = Cluster()
    cluster.at(3.0, lambda: kill_local(cluster))
    return work_of_master(cluster)


@pytest.mark.parametrize("flood", FLOODS)
def test_a_worker_that_floods_is_dropped_and_takes_a_small_share_of_the_master(
    flood: str, honest_work: int
) -> None:
    """Nearly all of its 25,600 messages are rejected before anything is done."""
    flooded = Cluster()
    flooded.at(3.0, lambda: floods_of(FLOODS[flood])(flooded))
    work = work_of_master(flooded) - honest_work
    assert any(TOO_MANY in text for text in flooded.messages)
    assert work < 7 * FLOOD_POLLS * FLOOD


@pytest.mark.parametrize("kind", ["bye", "detail of an error"])
def test_what_a_worker_says_is_shown_in_part_and_steers_no_terminal(kind: str) -> None:
    cluster, text = Cluster(max_consecutive_errors=1), "\x1b[2J gone" + "x" * 4000
    liar = cluster.workers[0]

    def say() -> None:
        own, phase = liar.machine.incarnation, liar.machine.phase
        if kind == "bye":
            cluster.send(liar, Bye(own, text))
            return
        assert phase
        jobs = list(phase.held.queues[0])
        if not jobs:  # they are on their way
            cluster.at(0.01, say)
            return
        failed = [row(job, error=int(ErrorKind.RESET))._replace(detail=text) for job in jobs]
        for job in jobs:
            cluster.note_start(job)
        cluster.send(liar, Results(own, "run", Phase.RUN, [], pack(pack_results(failed))))

    cluster.at(3.0, say)
    outcome = cluster.run(6000)
    shown = [line for line in (*cluster.messages, outcome.reason) if "gone" in line]
    assert len(shown) == 1
    assert "\\x1b[2J gonexxx" in shown[0]
    assert "\x1b" not in shown[0]
    assert len(shown[0]) < 700


def test_a_stopped_and_cut_off_worker_starts_no_lost_job() -> None:
    cluster = Cluster()
    worker = cluster.workers[0]
    worker.operation_s = 1.0
    cluster.at(1.5, worker.cut)
    cluster.at(1.5, lambda: stop(cluster))
    cluster.at(8.0, lambda: setattr(worker, "running", True))  # its links are still down
    outcome = cluster.run(6000)
    assert 0 < outcome.counts.lost <= 16
    assert cluster.too_late == []


def test_an_operation_whose_acknowledgement_is_too_late_may_run_twice() -> None:
    """The worker starts jobs, and is stopped before ZeroMQ has sent that it has them."""
    cluster = Cluster()
    worker = cluster.workers[0]
    cluster.at(3.0, lambda: setattr(worker, "sends", False))
    cluster.at(3.04, lambda: stop(cluster))
    cluster.at(8.0, lambda: setattr(worker, "running", True))
    cluster.at(8.0, lambda: setattr(worker, "sends", True))
    outcome = cluster.run(6000)
    counts = outcome.counts
    assert (outcome.ended, counts.sent) == ("complete", 6000)
    assert cluster.started_twice > 0
    assert cluster.started_twice <= counts.doubtful <= 16
    told = f"Up to {counts.doubtful} operations may have run in addition to those counted: "
    assert any(text.startswith(told) for text in cluster.messages)
    assert counts.done + counts.lost == 6000


def test_a_worker_that_receives_no_control_state_gets_no_users_and_is_dropped_once() -> None:
    cluster = Cluster(workers=2)
    deaf = cluster.workers[0]
    deaf.hears = False
    cluster.master.gather_workers(2)
    cluster.master.wait_for_workers(8, 1)
    cluster.ledger = Ledger(10**6)
    outcome = cluster.master.run_phase(PhasePlan(Phase.RUN, cluster.ledger, 8, seconds=8.0))
    cluster.check(outcome)
    assert (outcome.ended, outcome.counts.lost) == ("complete", 0)
    assert cluster.master.workers_lost == []
    few, lost = cluster.messages
    assert f"can run only 4 of 8 users (w0 (host, pid {deaf.pid}): 0, w1" in few
    assert f"can it reach port {cluster.ports.control}, --zmq-control-port?" in lost


def test_a_short_interruption_loses_no_worker() -> None:
    cluster = Cluster()
    worker = cluster.workers[0]
    cluster.at(3.0, worker.cut)
    cluster.at(4.0, lambda: setattr(worker, "connected", True))
    outcome = cluster.run(6000)
    assert outcome.ended == "complete"
    assert cluster.master.workers_lost == []


def test_a_worker_told_to_exit_loses_nothing() -> None:
    cluster = Cluster()
    cluster.at(3.0, lambda: cluster.workers[0].machine.stop("SIGTERM"))
    outcome = cluster.run(6000)
    assert (outcome.counts.done, outcome.counts.lost) == (6000, 0)
    assert max(cluster.begun.values()) == 1
    assert cluster.into_closed == 0
    (left,) = cluster.messages
    assert "left before the end: SIGTERM" in left


def starts_per_s(cluster: Cluster, since_s: float, until_s: float) -> list[float]:
    """Operations that begin per second in this time; filled in by the run."""
    rates: list[float] = []
    counts: list[int] = []
    cluster.at(since_s, lambda: counts.append(sum(cluster.begun.values())))
    cluster.at(
        until_s,
        lambda: rates.append((sum(cluster.begun.values()) - counts[0]) / (until_s - since_s)),
    )
    return rates


def test_a_worker_without_users_returns_its_jobs_at_once() -> None:
    cluster = Cluster()
    alone = starts_per_s(cluster, 3.1, 7)
    after = starts_per_s(cluster, 7.1, 10)
    outcome = cluster.run(10**6, stages=[Stage(3, 12), Stage(4, 1), Stage(3, 12)])
    assert (outcome.counts.lost, outcome.counts.failed) == (0, 0)
    assert cluster.into_closed == 0
    assert alone[0] == pytest.approx(33, rel=0.25)  # one user, 30 ms an operation
    assert after[0] == pytest.approx(400, rel=0.25)
    assert max(cluster.begun.values()) == 1


@pytest.mark.parametrize("every_s", [0.1, 1.0])
@pytest.mark.parametrize("concurrency", [0, 4], ids=["without users", "leaving"])
def test_a_worker_that_opens_and_closes_its_socket_costs_others_a_tenth(
    concurrency: int, every_s: float, honest_outcome: PhaseOutcome
) -> None:
    """The master paused four fifths of the time, for two messages a second."""
    troubled = Cluster()
    troubled.foreign_connections = 1  # the socket of which it says that it is closed
    liar = SimWorker(troubled, "liar", concurrency, 0)

    def say(message: Message) -> None:
        troubled.send(liar, message._replace(incarnation=liar.machine.incarnation))

    troubled.at(1.5, lambda: troubled.workers.append(liar))
    troubled.at(2.5, lambda: say(Leaving(0)))
    for n in range(int(60 / every_s)):
        ready = Ready(0, "run", Phase.RUN, False, 0, receiving=not n % 2)
        troubled.at(3 + n * every_s, partial(say, ready))
    outcomes = [honest_outcome, troubled.run(6000)]
    assert [(each.ended, each.counts.lost) for each in outcomes] == [("complete", 0)] * 2
    assert outcomes[1].seconds < outcomes[0].seconds * 1.12 + 2


def test_no_job_is_sent_to_a_closed_socket_in_a_series_of_runs() -> None:
    cluster = Cluster()
    settings = cluster.master.settings
    for number, users in enumerate((12, 1, 12, 2, 1)):
        cluster.master.begin_run(replace(settings, run_id=f"run{number}"), cluster)
        assert cluster.run(50, users).counts.done == 50
        cluster.master.keep_workers_once()
    assert (cluster.into_closed, cluster.messages) == (0, [])


def test_all_workers_killed_end_the_run_with_a_reason() -> None:
    cluster = Cluster()
    for worker in cluster.workers:
        cluster.at(3.0, worker.kill)
    outcome = cluster.run(6000)
    assert (outcome.ended, outcome.reason) == ("failed", "all workers are gone")
    assert outcome.counts.lost > 0


def test_a_late_worker_takes_over_when_all_others_are_gone() -> None:
    cluster = Cluster()
    for worker in cluster.workers:
        cluster.at(3.0, worker.kill)
    cluster.at(9.0, cluster.workers[2].restart)
    outcome = cluster.run(1000)
    assert (outcome.ended, outcome.counts.sent) == ("complete", 1000)
    assert max(cluster.begun.values()) == 1


def test_an_interrupt_waits_for_operations_in_flight() -> None:
    cluster = Cluster()
    cluster.at(3.0, lambda: cluster.master.interrupt("interrupted by SIGINT"))
    outcome = cluster.run(10**6)
    assert (outcome.ended, outcome.reason) == ("interrupted", "interrupted by SIGINT")
    assert outcome.counts.lost == outcome.counts.failed == 0
    assert sum(cluster.begun.values()) == outcome.counts.done
    assert cluster.messages == [
        "interrupted by SIGINT: waiting for operations in flight, at most 30 s;"
        " a second signal ends it at once"
    ]
    # The clean-up is done all the same.
    cluster.ledger = Ledger(8)
    cleanup = cluster.master.run_phase(PhasePlan(Phase.CLEANUP, cluster.ledger, 4))
    assert cleanup.counts.done == 8


def test_a_worker_whose_users_hang_is_lost_after_the_drain_timeout() -> None:
    cluster = Cluster(drain_timeout_s=5.0)
    cluster.at(2.0, lambda: setattr(cluster.workers[0], "operation_s", 3600.0))
    outcome = cluster.run(10**6, seconds=4.0)
    assert outcome.ended == "complete"
    assert outcome.counts.lost == 4
    assert any("4 operations did not end within 5 s" in text for text in cluster.messages)


def test_another_master_gets_workers_that_dropped_the_first_ones_jobs() -> None:
    first = Cluster()
    first.at(2.0, lambda: setattr(first, "send_control_state", lambda state: None))
    first.at(2.0, lambda: first.master.interrupt("killed"))
    first.run(10**6)
    second = Cluster(0)
    second.now_ns = first.now_ns
    second.workers = first.workers
    for worker in second.workers:
        worker.cluster = second
    outcome = second.run(500)
    assert (outcome.ended, outcome.counts.done, outcome.counts.lost) == ("complete", 500, 0)
