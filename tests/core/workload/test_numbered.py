from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssbench.core.content import initial_size
from ssbench.core.model import UNKNOWN_SIZE, Failure, Group, Job, Phase, SizeClass
from ssbench.core.operations import CREATE, DELETE, HEAD, POST, READ, REMOVE
from ssbench.core.workload.workload import MixedWorkload, NumberedWorkload

FIXED = SizeClass("bench", 4096, 4096, (), 0)
VARIED = SizeClass("bench", 100, 199, (), 0)
PUT, USE, GONE = 0, 2, 4  # groups
GROUPS = [Group(row.name, 3, ((row, 1.0),)) for row in (CREATE, POST, READ, HEAD, DELETE)]


def objects(jobs: Sequence[Job]) -> list[int]:
    return [job.object for job in jobs]


def test_objects_are_used_in_order_of_number() -> None:
    work = NumberedWorkload(READ, FIXED, 3, iterations=2)
    assert work.total == 6
    assert objects(work.take(1, 4, 0.0)) == [0, 1, 2, 0]
    jobs = work.take(5, 4, 0.0)
    assert objects(jobs) == [1, 2]
    assert [job.number for job in jobs] == [5, 6]
    assert work.finished
    assert work.take(7, 4, 0.0) == []


def test_sizes_follow_from_the_number() -> None:
    work = NumberedWorkload(CREATE, VARIED, 50)
    sizes = [job.size for job in work.take(1, 50, 0.0)]
    assert sizes == [initial_size(VARIED, number) for number in range(50)]
    assert len({*sizes}) > 20
    assert {job.size for job in NumberedWorkload(CREATE, FIXED, 9).take(1, 9, 0.0)} == {4096}
    assert {job.size for job in NumberedWorkload(READ, None, 9).take(1, 9, 0.0)} == {UNKNOWN_SIZE}


def test_no_outcome_matters_and_nothing_is_cleaned_up() -> None:
    work = NumberedWorkload(CREATE, FIXED, 4)
    first, second, third, fourth = work.take(1, 4, 0.0)
    work.succeeded([first], 1.0)
    work.failed(second, Failure(503, unknown=True), 1.0)
    work.lost([third])
    work.withdrawn([fourth])
    assert (work.left_behind, work.cleanup()) == (0, None)


# Mixed ------------------------------------------------------------------------------------


def created(work: MixedWorkload, count: int) -> list[Job]:
    jobs = work.take(1, count, 0.0, PUT)
    work.succeeded(jobs, 0.0)
    return jobs


def test_objects_are_used_after_successful_creation_only() -> None:
    work = MixedWorkload(FIXED, GROUPS, 10)
    assert work.groups == (3, 3, 3, 3, 3)
    assert work.take(1, 3, 0.0, USE) == []
    first, second, third = work.take(1, 3, 0.0, PUT)
    work.succeeded([second], 0.0)
    assert objects(work.take(4, 2, 0.0, USE)) == [1, 1]
    work.succeeded([first, third], 0.0)
    assert objects(work.take(6, 4, 0.0, USE)) == [2, 0, 1, 2]


def test_an_object_in_use_is_removed_later() -> None:
    work = MixedWorkload(FIXED, GROUPS, 1)
    created(work, 3)
    used = work.take(4, 2, 0.0, USE)
    assert objects(used) == [0, 1]
    assert work.take(6, 5, 0.0, GONE) == []
    work.succeeded(used[1:], 0.0)
    assert objects(work.take(6, 5, 0.0, GONE)) == [1]
    assert objects(work.take(7, 2, 0.0, USE)) == [2, 2]  # 0 is closed to new operations
    work.failed(used[0], Failure(500), 0.0)
    assert objects(work.take(9, 5, 0.0, GONE)) == [0]


def test_if_no_creation_succeeds_nothing_is_used() -> None:
    work = MixedWorkload(FIXED, GROUPS, 0)
    for job in work.take(1, 3, 0.0, PUT):
        work.failed(job, Failure(507), 0.0)
    assert work.take(4, 3, 0.0, USE) == []
    assert work.take(4, 3, 0.0, GONE) == []
    assert work.cleanup() is None


def test_an_object_of_unknown_outcome_is_left_to_cleanup() -> None:
    work = MixedWorkload(FIXED, GROUPS, 1)
    first, second, third = work.take(1, 3, 0.0, PUT)
    work.failed(first, Failure(0, unknown=True), 0.0)
    work.lost([second])
    work.succeeded([third], 0.0)
    assert objects(work.take(4, 2, 0.0, USE)) == [2, 2]
    cleanup = work.cleanup()
    assert cleanup is not None
    assert cleanup.phase is Phase.CLEANUP
    jobs = cleanup.take(10, 9, 0.0)
    assert sorted(objects(jobs)) == [0, 1, 2]
    assert {(job.operation, job.size) for job in jobs} == {(REMOVE, 0)}
    cleanup.succeeded(jobs[:2], 0.0)
    cleanup.failed(jobs[2], Failure(503), 0.0)
    assert work.left_behind == 1


@pytest.mark.parametrize(("status", "left"), [(404, 1), (503, 2)])
def test_a_failed_removal_is_repeated_by_cleanup(status: int, left: int) -> None:
    work = MixedWorkload(FIXED, GROUPS, 1)
    created(work, 2)
    (removal,) = work.take(3, 2, 0.0, GONE)
    work.failed(removal, Failure(status), 0.0)
    assert work.left_behind == left


def test_a_withdrawn_removal_leaves_its_object() -> None:
    work = MixedWorkload(FIXED, GROUPS, 0)
    created(work, 1)
    work.withdrawn(work.take(2, 1, 0.0, GONE))
    assert work.left_behind == 1
    work.withdrawn(work.take(3, 4, 0.0, PUT))
    assert work.left_behind == 1


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 8))
def test_no_operation_uses_a_removed_object(seed: int, behind: int) -> None:
    """Whatever the order and the outcomes: what is left at the end is what is in the store."""
    rng = random.Random(seed)
    work = MixedWorkload(VARIED, GROUPS, behind)
    store: set[int] = set()
    in_flight: list[Job] = []
    users: Counter[int] = Counter()
    for _ in range(300):
        if rng.random() < 0.5:
            group = rng.randrange(5)
            jobs = work.take(1, rng.randint(1, 3), 0.0, group)
            if group == GONE:
                assert not any(users[job.object] for job in jobs)
            elif group != PUT:
                assert {*objects(jobs)} <= store
                users.update(objects(jobs))
            in_flight += jobs
        elif in_flight:
            job = in_flight.pop(rng.randrange(len(in_flight)))
            fails = rng.random() < 0.2
            if job.group == PUT and not fails:
                store.add(job.object)
            elif job.group == GONE and not fails:
                store.remove(job.object)
            elif job.group not in (PUT, GONE):
                users[job.object] -= 1
            if fails:
                work.failed(job, Failure(503), 0.0)
            else:
                work.succeeded([job], 0.0)
    work.withdrawn(in_flight)
    cleanup = work.cleanup()
    left = [] if cleanup is None else objects(cleanup.take(1, 10_000, 0.0))
    assert sorted(left) == sorted(store)
    assert work.left_behind == len(store)
