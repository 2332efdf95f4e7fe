"""Operations on several objects, on a source and its copy, and on containers."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.core import operations
from ssbench.core.content import KEYS, content_key, version_of_copy
from ssbench.core.model import Failure, Group, Job, SizeClass
from ssbench.core.naming import ObjectNaming
from ssbench.core.operations import (
    BULK_DELETE,
    COPY,
    CREATE,
    DELETE,
    LIST,
    OPERATIONS,
    READ,
    UPDATE,
    Effect,
    Operation,
    Target,
)
from ssbench.core.scenario.values import mix
from ssbench.core.workload.bench import BenchWorkload
from ssbench.core.workload.picker import BenchPlan
from ssbench.core.workload.population import Population
from ssbench.core.workload.workload import CleanupWorkload

BULK_PUT, BULK_UPDATE, BULK_READ = range(500, 503)
PARAMETERS = {"bulk_count": 3, "list_prefix": "tiny", "list_limit": 7}


def _range(rng: Random, size: int) -> tuple[int | bytes, ...]:
    first = rng.randrange(size)
    return first, size - first


ROWS = [
    Operation(BULK_PUT, "BULK_PUT", Effect.CREATES, target=Target.OBJECTS, set_size=3),
    Operation(BULK_UPDATE, "BULK_UPDATE", Effect.REPLACES, target=Target.OBJECTS, set_size=3),
    Operation(
        BULK_READ, "BULK_READ", Effect.NONE, target=Target.OBJECTS, set_size=3,
        arguments=("first", "count"), draw=_range,
    ),
]  # fmt: skip


@pytest.fixture(autouse=True)
def _rows() -> Iterator[None]:
    before = dict(OPERATIONS)
    for row in ROWS:
        operations.register(row)
    yield
    OPERATIONS.clear()
    OPERATIONS.update(before)


def bench(*drawn: int, initial: int = 10, verify: bool = False, seed: int = 1) -> BenchWorkload:
    profile = tuple((each, 1 / len(drawn)) for each in sorted(drawn))
    sizes = [SizeClass("tiny", 10, 99, profile, initial)]
    naming = ObjectNaming(sizes, "0123456789", 7)
    plan = BenchPlan(seed=seed, verify=verify, containers=7, naming=naming, parameters=PARAMETERS)
    return BenchWorkload(Population(sizes), plan)


def objects(job: Job) -> list[int]:
    return [job.object, *job.others]


def test_sets_have_distinct_objects_and_removals_are_exclusive() -> None:
    workload = bench(BULK_DELETE)
    jobs = workload.take(1, 10, 0.0)
    taken = [number for job in jobs for number in objects(job)]
    assert sorted(taken) == list(range(10))
    assert max(len(objects(job)) for job in jobs) == 3
    assert not workload.finished, "they may fail, and be there again"
    workload.succeeded(jobs, 0.0)
    assert workload.finished


def test_a_removal_of_several_leaves_out_objects_in_use() -> None:
    workload = bench(BULK_DELETE, READ, initial=6)
    jobs = workload.take(1, 12, 0.0)
    reads = {job.object for job in jobs if job.operation == READ}
    removed = [n for job in jobs if job.operation == BULK_DELETE for n in objects(job)]
    assert reads
    assert removed
    assert len(removed) == len(set(removed))
    first = next(at for at, job in enumerate(jobs) if job.operation == READ)
    assert jobs[first].object not in {
        n for job in jobs[first:] if job.operation == BULK_DELETE for n in objects(job)
    }


def test_each_object_of_a_removal_has_its_own_outcome() -> None:
    workload = bench(BULK_DELETE, initial=4)
    pool = workload.population.pools[0]
    job = next(job for job in workload.take(1, 1, 0.0) if len(objects(job)) == 3)
    gone, failed, unknown = objects(job)
    workload.failed(job, Failure(500, statuses=(204, 409, 0)), 0.0)
    assert failed in pool.members
    assert not {gone, unknown} & set(pool.members)
    assert pool.closing == 0


@pytest.mark.parametrize("status", [0, 408, 500, 503])
def test_an_object_that_may_be_gone_is_quarantined(status: int) -> None:
    workload = bench(BULK_DELETE, initial=3)
    (job,) = workload.take(1, 1, 0.0)
    workload.failed(job, Failure(409, statuses=(409, status, 204)), 0.0)
    assert list(workload.population.pools[0].members) == [job.object]


def test_created_sets_are_of_one_size_and_all_are_cleaned_up() -> None:
    workload = bench(BULK_PUT)
    there, partly, lost, back = workload.take(1, 4, 0.0)
    pool = workload.population.pools[0]
    assert {pool.size(number) for number in objects(there)} == {there.size}
    workload.succeeded([there], 0.0)
    workload.failed(partly, Failure(500, statuses=(201, 413, 0)), 0.0)
    workload.lost([lost])
    workload.withdrawn([back])
    assert set(objects(there)) | {partly.object} < set(pool.members)
    left = {*objects(there), partly.object, partly.others[1], *objects(lost)}
    assert {job.object for job in CleanupWorkload(workload.population).take(1, 99, 0.0)} == left
    assert workload.population.left_unknown == 1 + 3


@pytest.mark.parametrize(("fate", "left"), [("lost", {1}), ("withdrawn", set())])
def test_the_source_of_a_lost_copy_stays_and_the_copy_is_cleaned_up(
    fate: str, left: set[int]
) -> None:
    workload = bench(COPY, initial=1)
    (job,) = workload.take(1, 1, 0.0)
    getattr(workload, fate)([job])
    assert list(workload.population.pools[0].members) == [0]
    assert {job.object for job in CleanupWorkload(workload.population).take(1, 9, 0.0)} == left


def test_a_listing_names_a_container_and_reserves_nothing() -> None:
    workload = bench(LIST, BULK_DELETE, initial=1)
    jobs = [job for job in workload.take(1, 50, 0.0) if job.operation == LIST]
    assert {job.object for job in jobs} <= set(range(7))
    assert len({job.object for job in jobs}) > 1
    (listing,) = {job._replace(number=1, object=0) for job in jobs}
    assert listing == Job(1, LIST, 0, 0, version=0, size=0, arguments=(b"tiny", 7, b""))
    workload.succeeded(jobs[:1], 0.0)
    workload.failed(jobs[1], Failure(404), 0.0)
    workload.lost(jobs[2:3])
    workload.withdrawn(jobs[3:])
    assert not workload.finished, "a container can always be listed"


def test_arguments_are_drawn_by_the_row_and_the_same_from_the_same_seed() -> None:
    first, second = (bench(BULK_READ).take(1, 20, 0.0) for _ in range(2))
    assert first == second
    assert {sum(job.arguments) - job.size for job in first} == {0}  # type: ignore[arg-type]
    assert len({job.arguments for job in first}) > 5


@given(st.text(max_size=9), st.text(max_size=9), st.integers(0, 2**32 - 1))
def test_a_copy_s_version_stands_for_the_source_s_content(a: str, b: str, version: int) -> None:
    copied = version_of_copy(a.encode(), version, b.encode())
    assert 0 <= copied < KEYS
    assert content_key(b.encode(), copied) == content_key(a.encode(), version)


def test_under_verify_a_read_of_a_copy_expects_the_source_s_content() -> None:
    workload = bench(COPY, UPDATE, READ, initial=1, verify=True)
    pool = workload.population.pools[0]
    naming = ObjectNaming([pool.size_class], "0123456789", 7)
    expected = {0: content_key(b"tiny_000000", 0)}
    for number in range(1, 200):
        (job,) = workload.take(number, 1, 0.0)
        name = naming.object(0, job.object).encode()
        here = content_key(name, job.version)
        if job.operation == UPDATE:
            expected[job.object] = here
        else:
            assert here == expected[job.object]
        if job.operation == COPY:
            expected[job.others[0]] = here
        workload.succeeded([job], 0.0)
    assert len(pool.members) == len(expected) > 20


def test_a_source_is_not_replaced_while_it_is_copied() -> None:
    workload = bench(COPY, UPDATE, initial=1)
    jobs = workload.take(1, 50, 0.0)
    assert len({job.operation for job in jobs if job.object == 0}) == 1


def test_groups_draw_operations_of_their_own_on_one_population() -> None:
    groups = [Group("puts", 2, ((int(CREATE), 1.0),)), Group("deletes", 1, ((int(DELETE), 1.0),))]
    sizes = [SizeClass("tiny", 10, 99, mix((each.users, each.profile) for each in groups), 1)]
    workload = BenchWorkload(Population(sizes), BenchPlan(seed=1, groups=groups))
    assert workload.groups == (2, 1)
    (gone,) = workload.take(1, 1, 0.0, 1)
    assert (gone.operation, gone.group) == (DELETE, 1)
    workload.succeeded([gone], 0.0)
    assert workload.take(2, 5, 0.0, 1) == []
    assert not workload.skipped, "it waits for the other group, and skips nothing"
    assert not workload.finished
    created = workload.take(2, 3, 0.0, 0)
    assert {(job.operation, job.group) for job in created} == {(CREATE, 0)}
    workload.succeeded(created, 0.0)
    assert len(workload.take(5, 9, 0.0, 1)) == 3
