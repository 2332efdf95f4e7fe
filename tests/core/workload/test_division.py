"""A load that is divided among identities: every object has one owner, whose users alone use it."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from ssbench.core.content import initial_size
from ssbench.core.errors import UsageError
from ssbench.core.model import Failure, Job, identity_of_group
from ssbench.core.naming import ObjectNaming
from ssbench.core.operations import CREATE, DELETE, LIST, Effect, row_of
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.workload.bench import bench_jobs
from ssbench.core.workload.division import Division, identity_of, load_of
from ssbench.core.workload.workload import Workload, divided, initial_jobs

IDENTITIES = 3
THREE = Division(IDENTITIES)
MIX = {"create": 3, "read": 5, "update": 2, "delete": 2, "copy": 1, "list": 1, "bulk_delete": 1}


def scenario(**keys: Any) -> Scenario:
    text = {
        "name": "t",
        "sizes": [{"name": "a", "size_min": 100, "size_max": 900}, {"name": "b", "size": 50}],
        "initial_files": {"a": 40, "b": 31},
        "operations": MIX,
        "operation_count": 500,
        "container_count": 10,
        "user_count": 7,
    }
    return THREE.adapted(Scenario.from_json(json.dumps({**text, **keys})))


def begun(given: Scenario) -> tuple[Workload, Workload]:
    """The populate phase, and the run after it."""
    initial = initial_jobs(given, THREE)
    list(all_jobs(populate := divided(initial, THREE)))
    run = bench_jobs(given, 1, initial.population, division=THREE)
    return populate, divided(run, THREE)


def all_jobs(workload: Workload, failing: Counter[int] | None = None) -> list[Job]:
    """What it gives to users that ask in turn; some jobs fail."""
    found: list[Job] = []
    while not workload.finished:
        for group in range(len(workload.groups) or 1):
            jobs = workload.take(len(found) + 1, 2, 0.0, group)
            found += jobs
            for job in jobs:
                if failing is not None and job.number % 7 == 0:
                    failing[job.operation] += 1
                    workload.failed(job, Failure(500), 0.0)
                else:
                    workload.succeeded([job], 0.0)
    return found


def test_initial_objects_are_those_of_an_undivided_run() -> None:
    given = scenario()
    jobs = all_jobs(divided(initial_jobs(given, THREE), THREE))
    alone = all_jobs(initial_jobs(given))
    assert sorted(job[1:] for job in jobs) == sorted(job[1:] for job in alone)
    assert all(job.size == initial_size(given.sizes[job.size_class], job.object) for job in jobs)


def test_users_of_an_identity_ask_for_its_objects_alone() -> None:
    given = scenario()
    naming = ObjectNaming(given.sizes, "r", given.container_count)
    _, run = begun(given)
    jobs = all_jobs(run)
    assert len(jobs) == given.operation_count
    assert {job.operation for job in jobs} >= {CREATE, DELETE, LIST}
    for job in jobs:
        owner = identity_of(job, IDENTITIES)
        assert identity_of_group(job.group, IDENTITIES) == owner
        for number in (job.object, *job.others):
            container = number
            if job.operation != LIST:
                container = naming.container_index(job.size_class, number)
            assert container % IDENTITIES == owner
    shares = Counter(identity_of(job, IDENTITIES) for job in jobs)
    assert min(shares.values()) > len(jobs) / 4


@pytest.mark.parametrize("seed", range(5))
def test_removals_that_wait_count_whosever_they_are(seed: int) -> None:
    """With many operations in flight, removals wait for others on their object. The run has
    neither more jobs than it is to have, nor fewer."""
    given = scenario(operations={"create": 3, "read": 10, "delete": 3}, operation_count=300)
    _, run = begun(given)
    chance, flying = Random(seed), list[Job]()
    while not (run.finished and not flying):
        for group in range(IDENTITIES):
            jobs = run.take(run.taken + 1, 1, 0.0, group)
            flying += jobs
        if len(flying) > 30 or not jobs:
            run.succeeded([flying.pop(chance.randrange(len(flying)))], 0.0)
    assert run.taken == 300


def test_what_is_left_is_removed_by_its_owner_once() -> None:
    """Objects that exist, by the jobs alone, are those that the clean-up removes."""
    given = scenario()
    _, run = begun(given)
    failing: Counter[int] = Counter()
    there: set[tuple[int, int]] = set()
    for job in all_jobs(run, failing):
        if job.number % 7 == 0:
            continue
        effect = row_of(job.operation).effect
        touched = {(job.size_class, each) for each in job.others or (job.object,)}
        if effect is Effect.CREATES:
            assert not touched & there
            there |= touched
        elif effect is Effect.REMOVES:
            there -= {(job.size_class, each) for each in (job.object, *job.others)}
    assert failing[CREATE]
    cleanup = run.cleanup()
    assert cleanup
    jobs = all_jobs(divided(cleanup, THREE))
    removed = [(job.size_class, job.object) for job in jobs]
    assert sorted(removed) == sorted(there)


def test_each_identity_has_its_share_of_users_and_rate_in_each_group_and_stage() -> None:
    given = scenario(
        stages=[{"seconds": 5, "users": [6, 10], "rate": 30}, {"seconds": 5, "rate": [30, 60]}],
        operation_count=None,
    )
    first, second = load_of(given, THREE)
    assert [(each.users, each.users_to) for each in first.groups] == [(2, 4), (2, 3), (2, 3)]
    assert [each.rate for each in first.groups] == [10.0] * 3
    assert [(each.users, each.rate, each.rate_to) for each in second.groups] == [
        (3, 10.0, 20.0), (2, 10.0, 20.0), (2, 10.0, 20.0),
    ]  # fmt: skip
    groups = {
        "readers": {"users": 4, "operations": {"read": 1}, "sizes": {"b": 1}},
        "writers": {"users": 3, "operations": {"create": 1}},
    }
    given = scenario(groups=groups, operations=None, user_count=None)
    (stage,) = load_of(given, THREE)
    assert [each.users for each in stage.groups] == [2, 1, 1, 1, 1, 1]
    _, run = begun(given)
    jobs = all_jobs(run)
    kinds = {(job.operation == CREATE, job.group // IDENTITIES) for job in jobs}
    assert kinds == {(False, 0), (True, 1)}
    assert {job.group for job in jobs} == set(range(6))


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        ({"user_count": 2}, "2 users can't be divided among 3 identities"),
        ({"stages": [{"seconds": 5, "users": [9, 1]}], "operation_count": None}, "stage 1: 1 user"),
        ({"initial_files": {"a": 40, "b": 2}}, 'initial_files of "b" is 2'),
        (
            {"stages": [{"operations": {"read": 1}, "epochs": 1}], "operation_count": None,
             "operations": None},
            "epochs end",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_divided_is_refused(keys: dict[str, Any], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        scenario(**keys)


def test_containers_are_rounded_up() -> None:
    assert scenario().container_count == 12
    assert scenario(container_count=12).container_count == 12


@drawn(st.integers(1, 9), st.integers(0, 5), st.integers(0, 1000), st.integers(0, 8))
def test_numbers_inside_and_outside_fit(
    count: int, size_class: int, number: int, other: int
) -> None:
    division = Division(count)
    outside = Job(1, int(CREATE), size_class, number, 0, 10, others=(number + count * other,))
    inside = division.inner_job(outside)
    assert inside.size_class // count == size_class
    assert division.outer_job(inside) == outside
