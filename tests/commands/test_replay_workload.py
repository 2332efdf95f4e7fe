"""Replays: requests at their due times, and what is left of them in the store."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import numpy as np

from ssbench.commands.replay.access_log import Requests
from ssbench.commands.replay.formats import UNKNOWN
from ssbench.commands.replay.plan import PreparedObjects, ReplayWorkload
from ssbench.core.model import SECOND_NS, Failure, Job
from ssbench.core.naming import HASHED_CONTAINERS
from ssbench.core.operations import COPY, CREATE, DELETE, HEAD, LIST, RANGE_READ, READ, UPDATE
from tests.core.workload.fleet import Fleet

NEW, OLD = 1 << 40, (2 << 40) + 1  # an object that the requests make, and one that was there


class Row(NamedTuple):
    due_s: float
    operation: int
    object: int = OLD
    size: int = 100
    length: int = 0


def requests(*rows: Row) -> Requests:
    objects = [NEW, OLD]
    return Requests(
        np.array([round(row.due_s * SECOND_NS) for row in rows], np.int64),
        np.array([int(row.operation) for row in rows], np.uint16),
        np.array([objects.index(row.object) for row in rows], np.uint32),
        np.array([row.size for row in rows], np.int64),
        np.array([row.length for row in rows], np.int64),
        np.array(objects, np.int64),
        np.array([UNKNOWN, 100], np.int64),
    )


def begun(*rows: Row) -> ReplayWorkload:
    workload = ReplayWorkload(requests(*rows), 2, Random(1))
    workload.dues.begin(0.0, 0)
    return workload


def taken(workload: ReplayWorkload, now_s: float = 100.0) -> list[Job]:
    return workload.take(workload.taken + 1, 100, now_s)


def numbers(workload: ReplayWorkload) -> list[int]:
    """Of the objects that the clean-up removes."""
    cleanup = workload.cleanup()
    return [job.object for job in cleanup.take(1, 100, 0.0)] if cleanup else []


def test_requests_are_sent_in_order_at_their_due_times() -> None:
    rows = [
        Row(0.0, READ), Row(0.1, CREATE, NEW, 55), Row(0.1, DELETE), Row(0.3, READ),
        Row(0.9, UPDATE, NEW, 77),
    ]  # fmt: skip
    workload = ReplayWorkload(requests(*rows), 2, Random(1))
    fleet = Fleet(workload=workload)
    worker = fleet.hello("w")
    workload.dues.begin(fleet.now_ns / SECOND_NS, 7)

    def sent() -> list[Job]:
        return [job for batch in fleet.send_all(worker) for job in batch.jobs]

    first = sent()
    assert [(job.number, job.operation, job.due_ns - 7) for job in first] == [
        (1, READ, 0), (2, CREATE, 10**8), (3, DELETE, 10**8),
    ]  # fmt: skip
    assert (first[1].object, first[1].size) == (NEW, 55)
    fleet.now_ns += 3 * SECOND_NS // 10
    assert [job.object for job in sent()] == [OLD], "also where the object is gone"
    fleet.round(worker)
    fleet.now_ns += 7 * SECOND_NS // 10
    assert workload.dues.never_started(fleet.now_ns / SECOND_NS) == 1
    (last,) = sent()
    assert (last.size, last.due_ns) == (77, 9 * 10**8 + 7)
    assert last.version > 0, "so that a later run does not take it for the prepared object"
    worker.take()
    fleet.deliver(worker)
    fleet.dispatcher.worker_lost(worker.incarnation)
    assert fleet.dispatcher.finished
    counts = fleet.dispatcher.counts
    assert (counts.sent, counts.done, counts.lost) == (5, 4, 1)
    assert numbers(workload) == [NEW]


def test_objects_that_are_not_made_are_prepared() -> None:
    prepared = PreparedObjects(requests(Row(0.0, READ)))
    assert prepared.total == 1
    (job,) = prepared.take(1, 10, 0.0)
    assert (job.object, job.size, job.version) == (OLD, 100, 0)
    prepared.failed(job, Failure(500), 0.0)
    assert prepared.missing == 1


def test_arguments_are_those_of_the_log_or_drawn() -> None:
    rows = [Row(0.0, RANGE_READ, size=1000, length=length) for length in (10, -1)]
    part, unknown, listing = taken(begun(*rows, Row(0.0, LIST)))
    offset, length = part.arguments
    assert isinstance(offset, int)
    assert 0 <= offset <= 990
    assert length == 10
    assert unknown.arguments == (0, 1000), "65,536 bytes, of so many as there are"
    assert listing.object == OLD % 2, "a container"
    assert listing.arguments == (b"", 1000, b"")


def test_copies_are_new_objects_of_the_same_container_and_are_removed() -> None:
    workload = begun(Row(0.0, COPY), Row(0.1, COPY))
    jobs = taken(workload)
    made = [number for job in jobs for number in job.others]
    assert len({*made, NEW, OLD}) == 4
    assert {number % HASHED_CONTAINERS for number in made} == {OLD % HASHED_CONTAINERS}
    assert all(0 <= number < 1 << 53 for number in made)
    workload.succeeded(jobs[:1], 0.0)
    workload.failed(jobs[1], Failure(unknown=True), 0.0)
    assert sorted(numbers(workload)) == sorted(made)


def after(*outcomes: tuple[int, Failure | None]) -> ReplayWorkload:
    """The workload after operations on one object; None: a success."""
    workload = begun(*(Row(0.0, operation, NEW) for operation, _ in outcomes))
    for job, (_, failure) in zip(taken(workload), outcomes, strict=True):
        if failure is None:
            workload.succeeded([job], 0.0)
        else:
            workload.failed(job, failure, 0.0)
    return workload


REFUSED, NOT_FOUND, BROKEN = Failure(507), Failure(404), Failure(unknown=True)


def left(workload: ReplayWorkload) -> tuple[int, int]:
    return workload.left_behind, workload.left_unknown


def test_what_was_created_and_not_deleted_is_left() -> None:
    assert left(after((CREATE, None))) == (1, 0)
    assert left(after((CREATE, None), (UPDATE, REFUSED))) == (1, 0)
    assert left(after((CREATE, None), (DELETE, None))) == (0, 0)
    assert left(after((CREATE, None), (DELETE, NOT_FOUND))) == (0, 0)
    assert left(after((CREATE, None), (DELETE, REFUSED))) == (1, 0)
    assert left(after((CREATE, REFUSED))) == (0, 0)
    assert left(after((CREATE, REFUSED), (UPDATE, None))) == (1, 0)
    assert left(after((CREATE, BROKEN))) == (1, 1)
    assert left(after((CREATE, BROKEN), (HEAD, None), (DELETE, None))) == (0, 0)


def test_reads_that_miss_the_object_of_a_failed_upload_are_counted() -> None:
    rows: Sequence[tuple[int, Failure | None]] = [
        (READ, NOT_FOUND), (CREATE, REFUSED), (READ, NOT_FOUND), (HEAD, NOT_FOUND),
        (READ, REFUSED), (UPDATE, None), (READ, NOT_FOUND),
    ]  # fmt: skip
    assert after(*rows).after_failed_upload == 2


def test_prepared_objects_stay_and_the_clean_up_counts_down() -> None:
    workload = begun(Row(0.0, UPDATE), Row(0.1, DELETE), Row(0.2, CREATE, NEW), Row(0.3, READ))
    *sent, unstarted = taken(workload)
    workload.succeeded(sent, 0.0)
    workload.withdrawn([unstarted])
    assert (workload.dues.never_started(1.0), workload.left_behind) == (1, 1)
    cleanup = workload.cleanup()
    assert cleanup is not None
    jobs = cleanup.take(1, 10, 0.0)
    assert [job.object for job in jobs] == [NEW]
    cleanup.succeeded(jobs, 0.0)
    assert (workload.left_behind, workload.cleanup()) == (0, None)
