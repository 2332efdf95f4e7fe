"""Stages with operations, sizes, groups and ends of their own: which jobs they draw."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest

from ssbench.core.errors import ScenarioError
from ssbench.core.model import SECOND_NS, Job, Stage
from ssbench.core.operations import CREATE, DELETE, READ
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.workload.bench import bench_jobs
from ssbench.core.workload.pacing import StageSchedule, ramp_time_ns
from ssbench.core.workload.workload import initial_jobs

SECOND = 10**9


def scenario(*stages: dict[str, Any], **keys: Any) -> Scenario:
    given = {
        "name": "x",
        "sizes": [{"name": "a", "size": 10}, {"name": "b", "size": 20}],
        "user_count": 4,
        "stages": stages,
    }
    return Scenario.from_json(json.dumps({**given, **keys}))


def jobs_of_stages(given: Scenario, seed: int = 1) -> list[list[Job]]:
    """What each stage draws, all of it successful."""
    workload = bench_jobs(given, seed, initial_jobs(given).population)
    found, number = [], 1
    for at, stage in enumerate(given.load):
        if at:
            workload.begin_stage(at)
        found.append([])
        while not workload.finished:
            groups = range(stage.first_group, stage.first_group + len(stage.groups))
            jobs = [job for group in groups for job in workload.take(number, 3, 0.0, group)]
            workload.succeeded(jobs, 0.0)
            number += len(jobs)
            found[-1] += jobs
    return found


CHAINED = (
    {"name": "write", "operations": {"create": 1}, "operation_count": 30, "sizes": {"b": 1}},
    {"name": "read", "operations": {"read": 1}, "epochs": 2, "sizes": {"b": 1}},
    {"name": "delete", "operations": {"delete": 1}, "epochs": 1, "sizes": {"b": 1}},
)


def test_stages_write_read_and_delete_all_objects() -> None:
    written, read, deleted = jobs_of_stages(scenario(*CHAINED))
    assert {(job.operation, job.size_class) for job in written} == {(CREATE, 1)}
    assert {job.operation for job in read} == {READ}
    assert {job.operation for job in deleted} == {DELETE}
    objects = sorted(job.object for job in written)
    assert len(objects) == 30
    assert sorted(job.object for job in read[:30]) == objects
    assert sorted(job.object for job in read[30:]) == objects
    assert sorted(job.object for job in deleted) == objects


def test_the_same_seed_gives_the_same_stages() -> None:
    given = scenario(*CHAINED)
    assert jobs_of_stages(given) == jobs_of_stages(given)
    assert jobs_of_stages(given) != jobs_of_stages(given, seed=2)


def test_each_stage_has_the_users_and_groups_that_it_asks_for() -> None:
    groups = {
        "gets": {"users": [2, 5], "operations": {"read": 1}},
        "puts": {"users": 1, "operations": {"create": 1}},
    }
    given = scenario(
        {"seconds": 10, "users": [1, 10], "operations": {"create": 1}},
        {"name": "mixed", "seconds": 9, "groups": groups},
    )
    names = [group.name for group in given.crowds]
    assert names == ["stage 1", "mixed/gets", "mixed/puts"]
    assert (given.user_count, given.most_users, given.run_seconds) == (4, 10, None)
    schedule = StageSchedule(given.load)
    schedule.begin(0)
    assert [schedule.users_at(at * SECOND) for at in (0, 5, 10)] == [1, 6, 10]
    schedule.begin(0, 1)
    shares = [schedule.groups_at(at * SECOND, 3) for at in (0, 5, 9)]
    assert shares == [(0, 2, 1), (0, 4, 1), (0, 5, 1)]


def test_a_barrier_is_beside_each_stage_that_is_apart() -> None:
    plain, own = {"seconds": 1}, {"seconds": 1, "operations": {"read": 1}}
    given = scenario(
        plain, plain, own, plain, {**plain, "barrier": True}, crud_profile=[1, 1, 0, 0],
        initial_files={"a": 3},
    )  # fmt: skip
    assert [stage.barrier for stage in given.load] == [False, False, True, True, True]
    assert [stage.first_group for stage in given.load] == [0, 0, 1, 0, 0]
    # As reports name them: of each stage that is apart, and of the others together.
    assert [group.name for group in given.crowds] == [
        "stage 1, stage 2, stage 4, stage 5",
        "stage 3",
    ]


def test_a_ramp_of_a_rate_is_due_as_its_line_says() -> None:
    ramp = Stage(10.0, rate=0.0001, rate_to=20.0)
    assert ramp_time_ns(ramp, 25) == pytest.approx(5 * SECOND, rel=1e-4)
    assert ramp_time_ns(ramp, 99.9) == pytest.approx(10 * SECOND, rel=1e-3)
    given = scenario(
        {"seconds": 10, "rate": [10, 30]},
        {"seconds": 1, "rate": 30},
        crud_profile=[1, 0, 0, 0],
        initial_files={"a": 1},
    )
    schedule = StageSchedule(given.load)
    schedule.begin(0)
    assert schedule.due_between(0, 10 * SECOND) == pytest.approx(200)
    assert schedule.due_between(5 * SECOND, 11 * SECOND) == pytest.approx(125 + 30)
    workload = bench_jobs(given, 1, initial_jobs(given).population)
    assert workload.dues is not None
    workload.dues.begin(0.0, 0)
    assert [workload.dues.of(0).ready(999, at - 0.2) for at in (5, 10)] == [75, 200]


def test_groups_have_rates_of_their_own() -> None:
    groups = {
        "gets": {"users": 2, "rate": 40, "operations": {"create": 1}},
        "puts": {"users": 1, "rate": 5, "operations": {"create": 1}},
    }
    given = scenario({"seconds": 2, "groups": groups})
    workload = bench_jobs(given, 1, initial_jobs(given).population)
    assert workload.dues is not None
    workload.dues.begin(0.0, 0)
    assert [len(workload.take(1, 999, 1.0, group)) for group in (0, 1)] == [48, 6]


@pytest.mark.parametrize(
    ("stage", "line"),
    [
        ({"seconds": 5, "epochs": 1}, "stages[0].epochs: seconds is given as well"),
        ({"users": 3}, "stages[0].seconds: missing, as are operation_count and epochs"),
        ({"epochs": 1, "users": [1, 2]}, "stages[0].users: a ramp needs a duration"),
        ({"epochs": 1, "operations": {"create": 1}}, "stages[0].epochs: create does not use one"),
        ({"epochs": 1, "operations": {"read": 1}, "pick": "zipf"},
         "stages[0].epochs: with pick zipf objects have no turns"),
        ({"seconds": 5, "sizes": {"c": 1}}, "stages[0].sizes.c: no size has this name"),
        ({"seconds": 5, "users": 3, "groups": {"g": {"users": 1, "operations": {"read": 1}}}},
         "stages[0].users: the groups have users of their own"),
        ({"seconds": 5, "groups": {"g": {"users": 1}}}, "stages[0].groups.g: no operations"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_in_a_stage(stage: dict[str, Any], line: str) -> None:
    has_own = stage.get("operations") or stage.get("groups")
    keys = {} if has_own else {"crud_profile": [1, 1, 1, 1]}
    with pytest.raises(ScenarioError, match=re.escape(f"scenario: {line}")):
        scenario(stage, initial_files={"a": 4}, **keys)


# The schedule of stages, one after the other


AT = 7 * SECOND_NS


def begun(*seconds: float) -> StageSchedule:
    schedule = StageSchedule([Stage(s, users) for users, s in enumerate(seconds, 1)])
    schedule.begin(AT)
    return schedule


def test_a_schedule_without_an_end() -> None:
    schedule = begun(math.inf)
    assert (schedule.end_ns, schedule.next_ns) == (None, None)
    assert not schedule.advance(AT + 10**18)


def test_operations_due_in_an_interval() -> None:
    schedule = StageSchedule([Stage(2, 8, 10), Stage(3, 8, 100), Stage(math.inf, 8, 1)])
    schedule.begin(AT)
    assert schedule.due_between(0, AT + SECOND_NS // 2) == 5
    assert schedule.due_between(AT + SECOND_NS, AT + 3 * SECOND_NS) == 10 + 100
    assert schedule.due_between(AT, AT + 10 * SECOND_NS) == 20 + 300 + 5
    assert begun(2, 3).due_between(AT, AT + SECOND_NS) == 0, "a closed loop"


def test_a_late_query_leaves_out_no_stage() -> None:
    schedule = begun(1, 1, 1, math.inf)
    assert [schedule.advance(AT + 2 * SECOND_NS) for _ in range(3)] == [True, True, False]
    assert schedule.index == 2
    assert schedule.advance(AT + 100 * SECOND_NS)
    assert (schedule.index, schedule.next_ns, schedule.end_ns) == (3, None, None)
    assert not schedule.advance(AT + 100 * SECOND_NS)
