"""How hard, and when: what a scenario may say of it."""

from __future__ import annotations

import json
import math

import pytest

from ssbench.core.errors import ScenarioError
from ssbench.core.model import Group, Stage
from ssbench.core.operations import CREATE, READ, UPDATE
from ssbench.core.scenario.fields import ARRIVALS
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.workload.pacing import MODELS

PLAIN = {
    "name": "load",
    "sizes": [{"name": "tiny", "size_min": 1, "size_max": 9}],
    "initial_files": {"tiny": 5},
    "crud_profile": [1, 1, 1, 1],
}
STAGES = [{"seconds": 30, "users": 8}, {"seconds": 60, "users": 64}]


def made(overrides: dict[str, object] | None = None, **keys: object) -> Scenario:
    return Scenario.resolve(json.dumps({**PLAIN, **keys}), "x", **(overrides or {}))


def fault(overrides: dict[str, object] | None = None, **keys: object) -> str:
    with pytest.raises(ScenarioError) as caught:
        made(overrides, **keys)
    (line,) = str(caught.value).splitlines()
    return line.removeprefix("x: ")


def test_without_stages_there_is_a_single_one() -> None:
    assert made(user_count=4, run_seconds=9).load == (Stage(9, 4, None),)
    assert made(user_count=4, operation_count=9, rate=5).load == (Stage(math.inf, 4, 5),)


def test_stages_have_durations_and_loads() -> None:
    scenario = made(stages=STAGES)
    assert (scenario.run_seconds, scenario.operation_count) == (90, None)
    assert (scenario.user_count, scenario.most_users) == (64, 64)
    assert scenario.load == (Stage(30, 8, None), Stage(60, 64, None))
    rates = made(
        stages=[{"seconds": 1, "rate": 5}, {"seconds": 1, "users": 2}], user_count=7, rate=3
    )
    assert rates.load == (Stage(1, 7, 5), Stage(1, 2, 3))


def test_a_stage_may_warm_up_and_the_run_for_longer_than_a_stage() -> None:
    stages = [{"seconds": 5, "users": 1}, {"seconds": 5, "users": 2, "warmup": 1}]
    scenario = made(stages=stages, warmup=6, cooldown=2)
    assert [stage.warmup for stage in scenario.load] == [0, 1]


@pytest.mark.parametrize(
    "keys",
    [
        {"stages": STAGES, "warmup": 5, "cooldown": 2.5},
        {"stages": [{"seconds": 2, "users": 8, "warmup": 0.5}]},
        {"stages": [{"seconds": 2, "rate": 8}], "user_count": 2, "arrivals": "poisson"},
        {"user_count": 2, "run_seconds": 5, "think_time": [0.5, 2]},
        {"user_count": 2, "operation_count": 5, "rate": 0.25},
    ],
)
def test_a_load_round_trips_through_json(keys: dict[str, object]) -> None:
    scenario = made(**keys)
    again = Scenario.from_json(json.dumps(scenario.to_dict()), "x")
    assert again == scenario
    assert again.to_dict() == scenario.to_dict()


def test_defaults_are_left_out() -> None:
    plain = made(user_count=2, run_seconds=5).to_dict()
    assert not plain.keys() & {"arrivals", "warmup", "cooldown", "stages", "think_time", "rate"}


def test_the_command_line_overrides_the_file() -> None:
    overrides: dict[str, object] = {"rate": 50.0, "think_time": None, "warmup": 1.0}
    scenario = made(overrides, user_count=2, run_seconds=5, rate=1, warmup=3)
    assert (scenario.rate, scenario.warmup) == (50, 1)
    assert made({"think_time": [1.0, 2.0]}, user_count=2, run_seconds=5).think_time == (1, 2)
    assert (
        made({"think_time": [0.0, 0.0]}, user_count=2, run_seconds=5, think_time=3).think_time
        is None
    )


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"stages": []}, "stages: the list is empty"),
        ({"stages": 3}, "stages: 3 is a number"),
        ({"stages": [5]}, "stages[0]: 5 is a number"),
        ({"stages": [{"seconds": 5}]}, "stages[0]: neither users nor rate"),
        ({"stages": [{"users": 5}]}, "stages[0].seconds: missing"),
        ({"stages": [{"seconds": 0, "users": 1}]}, "stages[0].seconds: 0 is not above 0"),
        ({"stages": [{"seconds": 1, "users": 1, "rat": 3}]}, "stages[0].rat: unknown key"),
        (
            {"stages": [{"seconds": 1, "users": 1, "warmup": -1}]},
            "stages[0].warmup: -1 is below 0",
        ),
        (
            {"stages": [*STAGES, {"seconds": 5, "users": 1, "warmup": 5}]},
            "stages[2].warmup: 5 s of a stage of 5 s",
        ),
        (
            {"stages": [{"seconds": 5, "users": 1, "warmup": 3}], "warmup": 1, "cooldown": 2},
            "warmup: warm-up, cool-down and those of the stages exclude",
        ),
        ({"stages": STAGES, "operation_count": 9}, "operation_count: the stages end"),
        ({"stages": STAGES, "run_seconds": 9}, "run_seconds: 9 is not the 90 s of the stages"),
        (
            {"stages": [*STAGES, {"seconds": 1, "rate": 5}]},
            "stages: some have a rate and some have none",
        ),
        ({"run_seconds": 9, "rate": 0}, "rate: 0 is not above 0"),
        ({"run_seconds": 9, "rate": 1e9}, "rate: 1000000000.0 is above 10000000"),
        (
            {"run_seconds": 9, "rate": 1e-300},
            "rate: 1e-300 is below 1e-09",
        ),
        ({"run_seconds": 9, "rate": 5, "arrivals": "bursty"}, 'arrivals: "bursty" is not'),
        ({"run_seconds": 9, "arrivals": "poisson"}, "arrivals: arrivals need a rate"),
        ({"run_seconds": 9, "key_names": ["flat"]}, 'key_names: ["flat"] is not a form of names'),
        ({"run_seconds": 9, "rate": 5, "think_time": 1}, "think_time: an open loop"),
        ({"run_seconds": 9, "think_time": [2, 1]}, "think_time: [2, 1] has the longer one"),
        ({"run_seconds": 9, "think_time": [1]}, "think_time: [1] has 1 entries"),
        ({"run_seconds": 9, "think_time": -1}, "think_time: -1 is below 0"),
        ({"run_seconds": 9, "warmup": 5, "cooldown": 4}, "warmup: warm-up and cool-down are 9 s"),
    ],
)  # fmt: skip
def test_faults(keys: dict[str, object], words: str) -> None:
    assert fault(user_count=4, **keys).startswith(words)


def test_options_that_stages_exclude() -> None:
    words = "-u (user_count): the stages have users of their own; leave it out"
    assert fault({"user_count": 3}, stages=STAGES) == words
    rates = [{"seconds": 5, "rate": 5}]
    words = "--rate: the stages have rates of their own; leave it out"
    assert fault({"rate": 3.0}, stages=rates, user_count=1) == words
    words = "-r (run_seconds): 3 is not the 90 s of the stages"
    assert fault({"run_seconds": 3.0}, stages=STAGES).startswith(words)
    words = "-o (operation_count): the stages end the run by time"
    assert fault({"operation_count": 3}, stages=STAGES).startswith(words)
    assert made({"user_count": 3}, stages=rates).most_users == 3


@pytest.mark.parametrize(
    ("overrides", "keys", "says"),
    [
        ({"run_seconds": 5}, {"warmup": 10}, "-r (run_seconds): warm-up and cool-down are 10 s"),
        ({"run_seconds": 5, "warmup": 10}, {}, "--warmup, -r (run_seconds): warm-up and cool-down"),
        ({"cooldown": 9}, {"run_seconds": 9}, "--cooldown: warm-up and cool-down are 9 s"),
        ({"arrivals": "poisson"}, {"run_seconds": 9}, "--arrivals: arrivals need a rate"),
        ({"rate": 3.0}, {"run_seconds": 9, "think_time": 1}, "--rate: an open loop (rate) has no"),
    ],
)
def test_values_that_do_not_go_together_are_blamed_on_those_that_were_overridden(
    overrides: dict[str, object], keys: dict[str, object], says: str
) -> None:
    assert fault(overrides, user_count=2, **keys).startswith(says)


def test_the_names_of_arrivals_are_those_of_the_models() -> None:
    assert set(ARRIVALS) == MODELS.keys()


# Groups of users --------------------------------------------------------------------------

GROUPS = {
    "puts": {"users": 3, "operations": {"create": 1}},
    "gets": {"users": 1, "crud_profile": [0, 3, 1, 0]},
}


def grouped(**changes: object) -> str:
    keys = {
        "name": "g", "run_seconds": 3, "groups": GROUPS, "initial_files": {"tiny": 5},
        "sizes": [{"name": "tiny", "size_min": 1, "size_max": 9}],
    }  # fmt: skip
    return json.dumps({**keys, **changes})


def test_groups_have_their_own_users_and_operations() -> None:
    scenario = Scenario.from_json(grouped())
    assert scenario.user_count == 4
    assert scenario.groups == (
        Group("puts", 3, ((CREATE, 1.0),)), Group("gets", 1, ((READ, 0.75), (UPDATE, 0.25))),
    )  # fmt: skip
    assert dict(scenario.sizes[0].profile) == {CREATE: 0.75, READ: 0.1875, UPDATE: 0.0625}
    assert scenario.summary().endswith("4 users (puts 3, gets 1)")
    assert Scenario.from_json(json.dumps(scenario.to_dict())) == scenario


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"groups": {}}, "groups: the object is empty; an object like"),
        ({"groups": [1]}, "groups: [1] is a list; an object like"),
        ({"groups": {" ": GROUPS["puts"]}}, 'groups: " " is no name; a name for each'),
        ({"groups": {"a": 7}}, "groups.a: 7 is a number; an object, as in"),
        ({"groups": {"a": {"users": 2}}}, 'groups.a: no operations; as in "operations"'),
        ({"groups": {"a": {**GROUPS["puts"], "user": 1}}}, 'unknown key; did you mean "users"'),
        ({"groups": {str(n): GROUPS["puts"] for n in range(65)}}, "there are 65; at most 64"),
        ({"user_count": 5}, "user_count: 5 is not the 4 users of the groups; leave it out"),
        ({"rate": 5}, "groups: there are stages or a rate as well; one of them"),
        ({"crud_profile": [1, 1, 1, 1]}, "crud_profile: the groups have operations of their own"),
        (
            {"sizes": [{"name": "tiny", "size_min": 1, "size_max": 9, "operations": {"read": 1}}]},
            "sizes[0].operations: the groups have operations of their own",
        ),
    ],
)  # fmt: skip
def test_faults_of_groups_are_reported(changes: dict[str, object], said: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        Scenario.from_json(grouped(**changes))
    (fault,) = caught.value.faults
    assert said in fault


def test_the_user_count_option_excludes_groups() -> None:
    with pytest.raises(ScenarioError, match=r"-u \(user_count\): the groups have"):
        Scenario.resolve(grouped(), user_count=9)
