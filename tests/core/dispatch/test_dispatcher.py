"""How many jobs are sent, and when. What becomes of them in any run: tests/protocol."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from itertools import count, cycle
from typing import Any

import pytest

from ssbench.core.columns import MAX_LISTED, MAX_ROWS, RESULT_SCHEMAS, pack_results
from ssbench.core.dispatch.dispatcher import (
    CREDIT,
    QUICK_BATCH,
    Batch,
    Dispatcher,
)
from ssbench.core.dispatch.workers import Workers
from ssbench.core.messages import (
    Heartbeat,
    Hello,
    Results,
    decode,
    pack,
    unpack,
)
from ssbench.core.model import ErrorKind, Job, Result
from ssbench.core.operations import READ
from tests.core.workload.fleet import Fleet, Ledger, SimWorker, packed, row
from tests.corpus import recorded

# Cases ------------------------------------------------------------------------------------


@pytest.mark.parametrize("many", [False, True])  # a list of many details is in parts
def test_the_detail_of_the_first_failure_is_kept(many: bool) -> None:
    fleet = Fleet(8)
    worker = fleet.hello("w", 4)
    jobs = fleet.hold_all(worker)
    assert fleet.dispatcher.first_error == ""
    done, failed = row(jobs[0]), [row(job, error=int(ErrorKind.RESET)) for job in jobs[1:]]
    seen = []
    for part in (
        [failed[0]],  # without a detail
        [done, failed[1]._replace(detail="cut"), failed[2]._replace(detail="later")],
        [failed[3]._replace(detail="last")],
    ):
        columns = pack_results(part)
        if many:
            columns[-1] = [columns[-1][:2], columns[-1][2:]]
        assert fleet.dispatcher.results(worker.incarnation, pack(columns), fleet.now_ns)
        seen.append(fleet.dispatcher.first_error)
    assert seen == ["", "cut", "cut"]


@pytest.mark.parametrize("silent", [False, True])
def test_only_a_silent_worker_may_have_started_what_is_sent_again(silent: bool) -> None:
    """One that a slow store keeps busy reads late, and sends heartbeats."""
    fleet = Fleet(8)
    busy, other = fleet.hello("busy", 4), fleet.hello("other", 4)
    sent = fleet.send_all(busy)
    for second in range(12):
        fleet.heartbeat(other)
        if not silent or second < 8:
            fleet.heartbeat(busy)
        fleet.wait(1)
    again = fleet.send_all(other)
    objects = [job.object for batch in sent for job in batch.jobs]
    assert sorted(job.object for batch in again for job in batch.jobs) == sorted(objects)
    assert fleet.dispatcher.counts.doubtful == (len(objects) if silent else 0)


def one_of_two_users() -> tuple[Fleet, SimWorker, SimWorker]:
    """Two workers with jobs; the second has just lost its users."""
    fleet = Fleet(100)
    workers = fleet.hello("one", 4), fleet.hello("none", 4)
    for worker in workers:
        worker.ready()
        fleet.deliver(worker)
        fleet.send(worker)
    fleet.set_users(1)
    return fleet, *workers


def test_a_foreign_connection_delays_jobs_by_a_second_after_a_socket_was_closed() -> None:
    fleet, one, none = one_of_two_users()
    fleet.round(one)
    none.ready(receiving=False)
    fleet.deliver(none)
    fleet.registry.work_connections = 2
    assert fleet.send(one) is None
    fleet.wait(0.99)
    assert fleet.send(one) is None
    fleet.wait(0.01)
    assert fleet.send(one) is not None
    fleet.wait(5)
    assert fleet.send(one) is not None  # no pause without another end of a socket
    fleet.check()


def test_at_the_end_jobs_are_recalled_while_users_are_free() -> None:
    fleet = Fleet(8, max_batch=1)
    slow, quick = fleet.hello("slow", 2), fleet.hello("quick", 2)
    for worker in (slow, quick) * 4:
        fleet.send(worker)
        worker.take()
        fleet.deliver(worker)
    quick.work()
    fleet.deliver(quick)
    assert fleet.send(quick) is None  # nothing is left; four jobs wait at the slow one
    fleet.wait(0.2)
    assert not fleet.registry.ending
    fleet.wait(0.1)
    assert fleet.registry.ending
    slow.return_jobs(3)
    fleet.deliver(slow)
    # While ending, no more than users are free go out.
    assert sum(len(batch.jobs) for batch in fleet.send_all(quick)) == 3
    fleet.round(quick)
    fleet.round(slow)
    assert fleet.dispatcher.finished
    fleet.check()


def test_a_worker_whose_results_still_arrive_is_waited_for() -> None:
    fleet = Fleet(4)
    worker = fleet.hello("w", 2)
    fleet.hold_all(worker)
    worker.work(1)
    on_the_way = worker.outbox.popleft()
    worker.work()
    worker.outbox.clear()  # the other results were lost on the way
    for second in range(18):
        fleet.heartbeat(worker)
        fleet.wait(1)
        if second == 5:
            fleet.deliver_one(on_the_way)
        assert fleet.dispatcher.in_flight == (4 if second < 5 else 3 if second < 15 else 0)
    assert fleet.dispatcher.counts.lost == 3
    fleet.check()


def one_held(fleet: Fleet) -> tuple[SimWorker, Batch]:
    worker = fleet.hello("w", 4)
    batch = fleet.send(worker)
    assert batch is not None
    worker.take()
    fleet.deliver(worker)
    return worker, batch


@pytest.mark.parametrize(
    ("field", "value"),
    [("size_class", -1), ("bytes_moved", -(2**31)), ("start_ns", -(2**61)), ("start_ns", 1e308)],
)
def test_impossible_results_are_rejected(field: str, value: Any) -> None:
    """They reached the report: class -1, -2,000 MB/s, starts in 1880. All bounds: see
    test_result_bounds."""
    fleet = Fleet()
    worker, batch = one_held(fleet)
    column = 1 + Result._fields.index(field)
    forged = unpack(packed(batch.jobs))
    for bad in (value, [value, "B", bytes(len(batch.jobs))]):
        forged[column] = bad
        assert fleet.dispatcher.results(worker.incarnation, pack(forged), 0) is None
    assert fleet.dispatcher.counts.rejected == 2
    assert fleet.dispatcher.rejection, "the master warns of them"
    fleet.check()
    assert fleet.dispatcher.results(worker.incarnation, packed(batch.jobs), 0)
    assert fleet.dispatcher.results(worker.incarnation, packed(batch.jobs), 0) is None
    assert fleet.dispatcher.rejection == "", "no longer held: a late or repeated message"


@pytest.mark.parametrize("held", [0, 1])
@pytest.mark.parametrize(
    ("rows", "changed"),
    [
        (MAX_ROWS, {}),
        *((1, {name: [MAX_LISTED, 1]}) for name in ("others", "statuses", "parts")),
        (1, {"error": int(ErrorKind.RESET), "statuses": [MAX_LISTED, 1]}),
    ],
)
def test_a_few_bytes_do_not_unfold_to_more_than_the_jobs_of_their_worker_have(
    rows: int, changed: dict[str, Any], held: int
) -> None:
    """86 bytes took 0.2 s, of a worker with a job or without, and 120 such messages the run."""
    fleet = Fleet(held)
    worker = fleet.hello("w", 4)
    jobs = fleet.hold_all(worker)
    columns = {
        **dict(
            zip(Result._fields, pack_results([row(Job(1, READ, 0, 0, 0, 0))])[1:], strict=False)
        ),
        **dict.fromkeys(("items", "group", "renewed_ns", "pages", "address"), 0),
        **{name: [0, 0] for name in ("others", "statuses", "parts")},
        "part_id": ["plain", b"", b"\n" * rows],
        "transaction_id": ["plain", b"", b"\n" * rows],
        "number": jobs[0].number if jobs else 1,
        **changed,
    }
    names = [name for name, _ in RESULT_SCHEMAS[2]]
    data = pack([rows, *(columns[name] for name in names)])
    tracemalloc.start()
    try:
        assert fleet.dispatcher.results(worker.incarnation, data, fleet.now_ns, 2) is None
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000
    assert fleet.dispatcher.counts.rejected == 1
    assert fleet.dispatcher.held == held
    fleet.check()


def results_of_the_field() -> list[bytes]:
    """Packed results of recorded frames, and of jobs that are held here."""
    recordings = [m.packed for m in map(decode, recorded("frames")) if isinstance(m, Results)]
    fleet = Fleet(12)
    worker = fleet.hello("w", 12)
    fleet.send_all(worker)
    while worker.take():
        pass
    sizes = (1, 2, 3, 12)
    ours = [packed(worker.queue[:size], error=error) for size in sizes for error in (0, 6)]
    return [*ours, *recordings]


def accounted_for(data: bytes) -> None:
    """Invariant: whatever results say, each job of a worker has one outcome, and counts add up."""
    fleet = Fleet(12)
    worker = fleet.hello("w", 12)
    fleet.hold_all(worker)
    held = fleet.dispatcher.held
    for _ in range(2):  # the second time it is a replay
        kept = fleet.dispatcher.results(worker.incarnation, data, fleet.now_ns)
        fleet.check()
        counts = fleet.dispatcher.counts
        assert counts.done + counts.failed + fleet.dispatcher.held == held
        assert (kept is None) == (counts.rejected > 0)
    assert fleet.dispatcher.counts.rejected
    worker.work()
    fleet.deliver(worker)
    fleet.check()


# Groups of users --------------------------------------------------------------------------


def test_each_group_has_its_own_credit() -> None:
    workers = Workers()
    workers.users = 4
    dispatcher = Dispatcher(Ledger(1000, (1, 3)), workers, count(1), 8)
    workers.receive(Hello(7, 0, "w", 9, "host", 1, "1.0"), 0)
    state = workers.control_state(0)
    assert state
    workers.heartbeat(Heartbeat(7, state.serial, 0, 0, 0, 0, 0), 0)
    sent = list(iter(lambda: dispatcher.to_send(0), []))
    batches = [batch for some in sent for batch in some]
    assert all(len({job.group for job in batch.jobs}) == 1 for batch in batches)
    held = Counter(job.group for batch in batches for job in batch.jobs)
    assert held == {0: CREDIT * 1 + 1, 1: CREDIT * 3 + 3}
    dispatcher.acked(7, [batch.number for batch in batches], 0)
    mine = [job for batch in batches for job in batch.jobs if job.group == 0]
    dispatcher.results(7, packed(mine[:2]), 1)
    again = [job for batch in dispatcher.to_send(1, 9) for job in batch.jobs]
    assert [job.group for job in again] == [0, 0], "a group's results let only itself go on"
    dispatcher.returned(7, [mine[2].number])
    (back,) = [job for batch in dispatcher.to_send(2, 9) for job in batch.jobs]
    assert (back.object, back.group) == (mine[2].object, 0)
    assert dispatcher.worker_lost(7) == held[1]


def test_each_group_has_larger_batches_if_the_store_is_fast() -> None:
    fleet = Fleet(max_batch=256, workload=Ledger(100_000, (1, 3)))
    worker = fleet.hello("w", 4)
    for _ in range(100):
        fleet.send_all(worker)
        fleet.round(worker)
        fleet.wait(0.001)
    batches = [batch for some in iter(lambda: fleet.dispatcher.to_send(fleet.now_ns), [])
               for batch in some]  # fmt: skip
    for group in (0, 1):
        sizes = [len(batch.jobs) for batch in batches if batch.jobs[0].group == group]
        assert max(sizes) == QUICK_BATCH


def working(
    fleet: Fleet, workers: list[SimWorker], seconds: float, *, an_operation_s: float
) -> int:
    """Let workers of four users take what they need of what comes, as slowly as the store is; gives
    how many jobs were out there at most."""
    most = 0
    for _ in range(round(seconds / an_operation_s)):
        for _ in range(10):  # the master's turns meanwhile, and its ticks
            turn = cycle(workers)
            while fleet.send(next(turn)):
                pass
            for worker in workers:
                while len(worker.queue) < 4 and worker.take():
                    pass
                fleet.deliver(worker)
            most = max(most, fleet.dispatcher.in_flight)
            fleet.wait(an_operation_s / 10)
        for worker in workers:
            fleet.heartbeat(worker, busy=4, delay_ns=0)
            worker.work(4)
            fleet.deliver(worker)
    return most


def test_workers_that_open_late_in_a_stage_are_not_starved_by_the_rate_of_the_last_one() -> None:
    fleet = Fleet(100_000)
    early, late = fleet.hello("early", 4), fleet.hello("late", 4)
    fleet.set_users(1)
    working(fleet, [early], 10, an_operation_s=1.0)
    fleet.set_users(8)
    assert fleet.send_all(early), "all go to the only open socket"
    assert fleet.send(late) is None
    fleet.wait(2.0)
    fleet.dispatcher.tick(fleet.now_ns)
    assert sum(len(batch.jobs) for batch in fleet.send_all(late)) >= 4
    fleet.check()
