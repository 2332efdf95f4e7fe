import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.errors import ScenarioError
from ssbench.core.model import Group, SizeClass
from ssbench.core.naming import ObjectNaming
from ssbench.core.operations import CREATE, READ, UPDATE
from ssbench.core.scenario.checks import ValidationError, ValidationErrors, read_keys
from ssbench.core.scenario.fields import (
    MAX_OBJECT_NAME,
    NO_PROFILE,
    OBJECT_SUFFIX_LENGTH,
    SIZE_KEYS,
    container_base,
    crud_profile,
    delete_after,
    policy,
    profile,
    read_initial_files,
    read_sizes,
    size_name,
)
from ssbench.core.scenario.scenario import Scenario

WEIGHTS = st.floats(0, 1.7e308, allow_nan=False)


def test_a_profile_is_four_shares() -> None:
    assert crud_profile([3, 4, 2, 2]) == ((0, 3 / 11), (1, 4 / 11), (2, 2 / 11), (3, 2 / 11))
    assert crud_profile([0, 0, 0, 1e-320]) == ((3, 1),)


@pytest.mark.parametrize(
    ("raw", "wrong"),
    [
        ([0, 0, 0, 0], "all four weights are 0"),
        ([1, 2, 3], "has 3 entries"),
        ([1, 2, 3, 4, 5], "has 5 entries"),
        ([1, 2, 3, -4], "-4 is negative"),
        ([1, 2, 3, "4"], '"4" is a string'),
        ([1, 2, 3, True], "true is a truth value"),
        ([1, 2, 3, None], "null is null"),
        ([1, 2, 3, math.inf], "Infinity is not a finite number"),
        ({"C": 1}, "is an object"),
        (100, "100 is"),
    ],
)
def test_other_profiles_are_rejected(raw: object, wrong: str) -> None:
    with pytest.raises(ValidationError) as caught:
        crud_profile(raw)
    assert wrong in str(caught.value)


@given(st.tuples(WEIGHTS, WEIGHTS, WEIGHTS, WEIGHTS).filter(any))
def test_shares_are_not_normalised_if_they_sum_to_one(weights: tuple[float, ...]) -> None:
    shares = dict(profile(dict(enumerate(weights))))
    assert math.isclose(math.fsum(shares.values()), 1, abs_tol=2e-9)
    assert dict(profile(shares)) == shares


@pytest.mark.parametrize("name", ["/tiny", "a//b", "./a", "a/../b", "../a", "", "a\0", "é" * 500])
def test_names_that_swift_or_proxies_change_are_rejected(name: str) -> None:
    with pytest.raises(ValidationError):
        size_name(name)


@pytest.mark.parametrize("name", ["tiny", "1 kB", "größe", "a/b", "a?b#c%20", "..", "tiny "])
def test_other_names_are_accepted(name: str) -> None:
    assert size_name(name) == name


def test_the_longest_name_still_fits_with_all_that_naming_adds() -> None:
    name = size_name("x" * (MAX_OBJECT_NAME - OBJECT_SUFFIX_LENGTH))
    naming = ObjectNaming([SizeClass(name, 0, 0, NO_PROFILE, 1)], "f" * 32, 1)
    assert len(naming.object(0, 2**63 - 1)) == MAX_OBJECT_NAME
    with pytest.raises(ValidationError, match="at most 971 bytes"):
        size_name(name + "x")


def test_containers_have_no_slash_and_at_most_256_bytes() -> None:
    assert container_base("x" * 249) == "x" * 249
    for base in ["a/b", "", "x" * 250, "é" * 125, 5]:
        with pytest.raises(ValidationError):
            container_base(base)


@pytest.mark.parametrize("raw", ["", "two words", "a/b", "größe", "a\r\nX-Evil: 1", 1])
def test_policies_fit_a_header_and_a_container_name(raw: object) -> None:
    assert policy("Policy-0") == "Policy-0"
    with pytest.raises(ValidationError):
        policy(raw)


def test_delete_after_0_means_never() -> None:
    assert delete_after(0) is None
    assert delete_after(60) == 60


def test_keys_are_read_by_their_table() -> None:
    faults = ValidationErrors("x")
    raw = {"name": "tiny", "size_max": None, "sizemin": 1, "crud_profile": None}
    assert read_keys(raw, SIZE_KEYS, "sizes[0]", faults) == {"name": "tiny"}
    assert faults.lines == [
        'x: sizes[0].sizemin: unknown key; did you mean "size_min"?',
    ]


def test_initial_files_of_unknown_sizes_are_reported() -> None:
    faults = ValidationErrors("x")
    assert read_initial_files({"tinny": 1}, ["tiny"], faults) is None
    assert faults.lines == ['x: initial_files.tinny: no size has this name; did you mean "tiny"?']
    faults = ValidationErrors("x")
    assert read_initial_files({"tinny": 1}, ["tiny", None], faults) == {"tinny": 1}
    assert not faults


@pytest.mark.parametrize("raw", [{}, {"tiny": 0}, {"tiny": -1}, {"tiny": "5"}, None, [], 5])
def test_initial_files_need_one_at_least(raw: object) -> None:
    faults = ValidationErrors("x")
    assert not any((read_initial_files(raw, ["tiny"], faults) or {}).values())
    assert len(faults.lines) == 1


@pytest.mark.parametrize("raw", [None, [], {}, "tiny", 5])
def test_missing_sizes_and_faults_of_initial_files_are_reported(raw: object) -> None:
    faults = ValidationErrors("x")
    assert read_sizes(raw, {"tiny": -1}, NO_PROFILE, faults) == ()
    places = [line.split(": ")[1] for line in faults.lines]
    assert places == ["sizes", "initial_files.tiny"]


def test_sizes_without_initial_files_need_no_profile() -> None:
    faults = ValidationErrors("x")
    raw = [
        {"name": "a", "size_min": 0, "size_max": 1, "crud_profile": [1, 0, 0, 0]},
        {"name": "b", "size_min": 2, "size_max": 2},
    ]
    assert read_sizes(raw, {"a": 3}, None, faults) == (
        SizeClass("a", 0, 1, crud_profile([1, 0, 0, 0]), 3),
        SizeClass("b", 2, 2, NO_PROFILE, 0),
    )
    read_sizes(raw, {"a": 3, "b": 1}, None, faults)
    assert faults.lines == [
        "x: crud_profile: missing, and sizes[1] has none of its own; "
        "four weights here or in the size, as in [3, 4, 2, 2], or operations"
    ]


def test_duplicate_names_and_crossed_bounds_are_reported() -> None:
    faults = ValidationErrors("x")
    row = {"name": "a", "size_min": 900, "size_max": 100}
    read_sizes([row, row, 7], {"a": 1}, NO_PROFILE, faults)
    assert [line.partition("; ")[0] for line in faults.lines] == [
        "x: sizes[0].size_min: 900 is above size_max 100",
        "x: sizes[1].size_min: 900 is above size_max 100",
        "x: sizes[2]: 7 is a number",
        'x: sizes[1].name: "a" is the name of sizes[0] as well',
    ]


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
    with pytest.raises(ScenarioError, match=r"groups \(-u\): they have users of their own"):
        Scenario.resolve(grouped(), user_count=9)
