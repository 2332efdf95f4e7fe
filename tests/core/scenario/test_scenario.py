import json
import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.errors import ScenarioError
from ssbench.core.model import UNKNOWN_SIZE, Group, Stage
from ssbench.core.operations import CREATE, OPERATIONS, READ, UPDATE, Effect, Operation
from ssbench.core.scenario.checks import MAX_FAULTS, ValidationErrors
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.scenario.values import profile
from ssbench.core.text import printable
from tests.fakes.values import any_of, boolean, integer, none, number, scripted
from tests.fakes.values import text as word

GROUPS = {
    "puts": {"users": 3, "operations": {"create": 1}},
    "gets": {"users": 1, "crud_profile": [0, 3, 1, 0]},
}

#: With every key that ssbench 0.3.9 knew, and in its way: null for what isn't used.
OLD: dict[str, Any] = {
    "name": "Small test scenario",
    "sizes": [
        {"name": "zero", "size_min": 0, "size_max": 0, "crud_profile": [60, 15, 20, 5]},
        {"name": "tiny", "size_min": 4096, "size_max": 65536},
        {"name": "small", "size_min": 100000, "size_max": 200000},
    ],
    "initial_files": {"zero": 300, "tiny": 100},
    "operation_count": 500,
    "run_seconds": None,
    "crud_profile": [3, 4, 2, 2],
    "user_count": 7,
    "container_base": "ssbench",
    "container_count": 100,
    "container_concurrency": 10,
    "delete_after": None,
    "policy": "gold",
}


def text(**changes: object) -> str:
    return json.dumps({**OLD, **changes})


def faults_of(text: str | bytes, **overrides: object) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        Scenario.resolve(text, "x.scenario", **overrides)
    return list(caught.value.faults)


def places_of(text: str, **overrides: object) -> list[str]:
    return [line.split(": ")[1] for line in faults_of(text, **overrides)]


def test_durations_and_sizes_may_have_units_and_the_header_keeps_numbers() -> None:
    given = text(
        sizes=[{"name": "tiny", "size_min": "4k", "size_max": "10MiB"}], initial_files={"tiny": 5},
        run_seconds="2h", warmup="90s", cooldown="500ms", delete_after="1d", block_size="1MiB",
        think_time=["100ms", 2],
    )  # fmt: skip
    scenario = Scenario.resolve(given, run_seconds=7200.0)
    header = scenario.to_dict()
    assert header["sizes"] == [
        {**scenario.to_dict()["sizes"][0], "size_min": 4096, "size_max": 10 << 20}  # type: ignore[index]
    ]
    wanted = {
        "run_seconds": 7200.0, "warmup": 90.0, "cooldown": 0.5, "delete_after": 86400,
        "block_size": 1 << 20, "think_time": [0.1, 2.0],
    }  # fmt: skip
    assert {key: header[key] for key in wanted} == wanted
    assert Scenario.from_json(json.dumps(header)) == scenario
    staged = text(stages=[{"seconds": "1m", "users": 2, "warmup": "5s"}], operation_count=None)
    assert Scenario.resolve(staged).to_dict()["stages"] == [
        {"seconds": 60.0, "users": 2, "warmup": 5.0}
    ]


@pytest.mark.parametrize(
    ("changes", "keeps"),
    [
        ({"crud_profile": [1, 5, 0, 0]}, True),
        ({"crud_profile": [1, 5, 1, 0]}, False),
        ({"crud_profile": [1, 5, 0, 1]}, False),
        ({"crud_profile": [0, 1, 0, 0], "delete_after": 90}, False),
    ],
)
def test_runs_that_keep_the_initial_objects_are_recognised(
    changes: dict[str, Any], keeps: bool
) -> None:
    sizes = [
        {"name": "tiny", "size_min": 1, "size_max": 2},
        {"name": "unused", "size_min": 1, "size_max": 2, "crud_profile": [0, 0, 0, 1]},
    ]
    given = text(sizes=sizes, initial_files={"tiny": 5}, **changes)
    assert Scenario.from_json(given).keeps_initial_objects is keeps


def test_no_limit_at_all_is_a_fault_once_the_command_line_is_known() -> None:
    one = text(operation_count=None)
    assert Scenario.from_json(one, "x.scenario").run_seconds is None
    line = (
        "x.scenario: operation_count: missing, and run_seconds as well; "
        "one of them here, or -o COUNT or -r SECONDS"
    )
    assert faults_of(one) == [line]
    assert faults_of(one, user_count=3) == [line]


def test_of_both_limits_the_time_counts_and_is_the_only_override() -> None:
    scenario = Scenario.resolve(text(), operation_count=100, run_seconds=2.0)
    assert (scenario.operation_count, scenario.run_seconds) == (None, 2.0)
    assert scenario.overrides == {"run_seconds": 2.0}


def test_an_unknown_override_is_a_programming_error() -> None:
    for key in ("users", "sizes", "crud_profile", "given"):
        with pytest.raises(TypeError):
            Scenario.resolve(text(), **{key: 1})


def test_all_faults_of_a_file_and_its_overrides_are_reported_together() -> None:
    one = (
        '{"nam": "x", "sizes": [{"name": "tiny", "size_min": 9, "size_max": 1},'
        '{"name": "tiny", "size_min": true, "size_max": NaN, "crud_profile": [1, 2, 3]}],'
        '"initial_files": {"tiny": -1, "tinny": 3}, "user_count": "4", "user_count": 1.5,'
        '"policy": "", "seed": -1, "crud_profile": [0, 0, 0, 0]}'
    )
    lines = faults_of(one, container_count=0)
    assert [line.partition("; ")[0] for line in lines] == [
        "x.scenario: user_count: the key is given more than once",
        "container_count: 0 is below 1",
        "x.scenario: nam: unknown key",
        "x.scenario: crud_profile: all four weights are 0",
        "x.scenario: name: missing",
        "x.scenario: user_count: 1.5 is not a whole number",
        "x.scenario: policy: the string is empty",
        "x.scenario: seed: -1 is below 0",
        "x.scenario: sizes[0].size_min: 9 is above size_max 1",
        "x.scenario: sizes[1].size_min: true is a truth value",
        "x.scenario: sizes[1].size_max: NaN is not a finite number",
        "x.scenario: sizes[1].crud_profile: [1, 2, 3] has 3 entries",
        'x.scenario: sizes[1].name: "tiny" is the name of sizes[0] as well',
        "x.scenario: initial_files.tiny: -1 is below 0",
        "x.scenario: initial_files.tinny: no size has this name",
        "x.scenario: operation_count: missing, and run_seconds as well",
    ]
    assert all("; " in line for line in lines)


def test_a_container_name_with_number_and_policy_has_256_bytes_at_most() -> None:
    base = "b" * (256 - len("_000099_gold"))
    assert Scenario.from_json(text(container_base=base)).container_base == base
    assert places_of(text(container_base=base + "b")) == ["container_base"]


def test_many_faults_are_cut_off_with_a_count() -> None:
    lines = faults_of(text(initial_files={f"k{n}": 1 for n in range(MAX_FAULTS + 1234)}))
    assert len(lines) == MAX_FAULTS + 1
    assert lines[-1] == "x.scenario: and 1,234 more errors"


def test_a_very_long_word_is_compared_with_nothing() -> None:
    (line,) = faults_of(text(**{"seed" * 1000: 1}))
    assert "unknown key; one of " in line


def test_the_summary_is_one_line() -> None:
    scenario = Scenario.from_json(text())
    assert scenario.summary() == (
        "zero 0 B, tiny 4.1 kB - 65.5 kB; 400 initial objects; CRUD 52/20/20/8 %; "
        "500 operations; 7 users"
    )
    timed = Scenario.resolve(text(), run_seconds=1.5, user_count=1)
    assert "; 1.5 s; 1 user" in timed.summary()


STAGES = [{"seconds": 30, "users": 8}, {"seconds": 60, "users": 64}]
NO_LIMIT: dict[str, Any] = {"operation_count": None, "user_count": None}


def loaded(**changes: object) -> Scenario:
    return Scenario.resolve(text(**{**NO_LIMIT, **changes}))


def test_without_stages_there_is_a_single_one() -> None:
    assert loaded(user_count=4, run_seconds=9).load == (Stage(9, 4, None),)
    assert loaded(user_count=4, operation_count=9, rate=5).load == (Stage(math.inf, 4, 5),)


def test_stages_have_durations_and_loads() -> None:
    scenario = loaded(stages=STAGES)
    assert (scenario.run_seconds, scenario.operation_count) == (90, None)
    assert (scenario.user_count, scenario.most_users) == (64, 64)
    assert scenario.load == (Stage(30, 8, None), Stage(60, 64, None))
    stages = [{"seconds": 1, "rate": 5}, {"seconds": 1, "users": 2}]
    assert loaded(stages=stages, user_count=7, rate=3).load == (Stage(1, 7, 5), Stage(1, 2, 3))
    rates = text(**{**NO_LIMIT, "stages": [{"seconds": 5, "rate": 5}]})
    assert Scenario.resolve(rates, user_count=3).most_users == 3


def test_a_stage_may_warm_up_and_the_run_for_longer_than_a_stage() -> None:
    stages = [{"seconds": 5, "users": 1}, {"seconds": 5, "users": 2, "warmup": 1}]
    scenario = loaded(stages=stages, warmup=6, cooldown=2)
    assert [scenario.warmup_of(stage) for stage in range(3)] == [0, 1, 0]


@pytest.mark.parametrize(
    "keys",
    [
        {"stages": STAGES, "warmup": 5, "cooldown": 2.5},
        {"stages": [{"seconds": 2, "users": 8, "warmup": 0.5}]},
        {"stages": [{"seconds": 2, "rate": 8}], "user_count": 2, "arrivals": "poisson"},
        {"user_count": 2, "run_seconds": 5, "think_time": [0.5, 2]},
        {"user_count": 2, "operation_count": 5, "rate": 0.25},
        {"run_seconds": 3, "groups": GROUPS, "crud_profile": None, "sizes": OLD["sizes"][1:],
         "initial_files": {"tiny": 5}},
    ],
)  # fmt: skip
def test_a_load_round_trips_through_json_and_a_header(keys: dict[str, object]) -> None:
    scenario = loaded(**keys)
    again = Scenario.from_json(json.dumps(scenario.to_dict()))
    assert again == scenario
    assert again.to_dict() == scenario.to_dict()
    assert Scenario.of_header(scenario.to_dict()) == scenario


def test_groups_have_their_own_users_and_operations() -> None:
    scenario = loaded(
        run_seconds=3, groups=GROUPS, crud_profile=None, sizes=OLD["sizes"][1:],
        initial_files={"tiny": 5},
    )  # fmt: skip
    assert scenario.user_count == 4
    assert scenario.groups == (
        Group("puts", 3, ((CREATE, 1.0),)), Group("gets", 1, ((READ, 0.75), (UPDATE, 0.25))),
    )  # fmt: skip
    assert dict(scenario.sizes[0].profile) == {CREATE: 0.75, READ: 0.1875, UPDATE: 0.0625}
    assert scenario.summary().endswith("4 users (puts 3, gets 1)")


def test_a_header_of_any_release_is_read() -> None:
    """Unknown keys and missing ones are no errors; what is impossible has its default."""
    assert Scenario.of_header({}) == Scenario("", (), 0)
    faults = ValidationErrors("h", of_header=OPERATIONS)
    stages = [{"seconds": 9, "warmup": 2}, "damaged", {"warmup": -3}]
    sizes = [{"name": "a", "size_min": 5, "size_max": 9, "later": 1}, {"size_min": "x"}]
    header = {
        "later": 1, "stages": stages, "sizes": sizes, "initial_files": {"a": 3, "z": 1, "b": "x"},
        "crud_profile": [3, 1, 0, 0], "think_time": [2], "user_count": 0, "block_size": 4096,
        "arrivals": "replayed",
    }  # fmt: skip
    scenario = Scenario.of_header(header, faults=faults)
    assert [scenario.warmup_of(stage) for stage in range(4)] == [2, 0, 0, 0]
    first, second = scenario.sizes
    assert (first.size_min, first.initial_files, dict(first.profile)[CREATE]) == (5, 3, 0.75)
    assert (second.name, second.size_min, second.initial_files) == ("class 1", UNKNOWN_SIZE, 0)
    assert (scenario.user_count, scenario.block_size, scenario.think_time) == (0, 4096, None)
    assert scenario.arrivals == "replayed"
    assert [line.split(": ")[1] for line in faults.lines] == [
        "user_count", "think_time", "sizes[1].size_min", "initial_files.b", "stages[1]",
        "stages[2].warmup",
    ]  # fmt: skip


def test_a_header_may_have_operations_that_this_process_does_not_know() -> None:
    row = Operation(250, "PLUGIN", Effect.NONE)
    header = {"sizes": [{"name": "a", "size": 1}], "operations": {"plugin": 1, "read": 1}}
    assert Scenario.of_header(header).sizes[0].profile == ()
    known = {**OPERATIONS, 250: row}
    assert dict(Scenario.of_header(header, known).sizes[0].profile) == {READ: 0.5, 250: 0.5}


COUNT = st.integers(1, 2**53 - 1)
NAME = st.text("abc_. %é对\u202e\U0001f600", min_size=1, max_size=9)
WEIGHT = st.integers(0, 100) | st.floats(0, 1e308)
CRUD = st.lists(WEIGHT, min_size=4, max_size=4).filter(any)


BYTES = st.integers(0, 2**40)
PAIR = st.tuples(BYTES, st.floats(0.001, 1e6)).map(list)
DISTRIBUTION = st.one_of(
    BYTES,
    st.builds(lambda value: {"fixed": value}, BYTES),
    st.builds(lambda two: {"uniform": sorted(two)}, st.tuples(BYTES, BYTES)),
    st.builds(lambda rows: {"list": rows}, st.lists(PAIR, min_size=1, max_size=5)),
    st.builds(
        lambda ends: {"histogram": [[low, high, 2] for low, high in pairwise(sorted(ends))]},
        st.lists(BYTES, min_size=2, max_size=6, unique=True),
    ),
)
PICK = st.sampled_from(["uniform", "round_robin", "zipf", {"zipf": 0.5}, {"newest_first": 2}])


@st.composite
def scenarios(draw: st.DrawFn) -> dict[str, object]:
    names = draw(st.lists(NAME, min_size=1, max_size=4, unique=True))
    bounds = st.lists(st.integers(0, 2**40), min_size=2, max_size=2).map(sorted)
    sizes = []
    for name in names:
        low, high = draw(bounds)
        own = draw(st.none() | CRUD)
        kind = draw(st.sampled_from(["bounds", "size", "log_normal"]))
        size: dict[str, object] = {
            "name": name,
            "crud_profile": own,
            "pick": draw(st.none() | PICK),
        }
        if kind != "size":
            size |= {"size_min": low, "size_max": high}
        if kind == "log_normal":
            size["size_max"] = max(high, 2 * low + 1)  # a quarter of all sizes, at least
            size["size"] = {"log_normal": {"median": max(low, 1), "sigma": 1}}
        elif kind == "size":
            size["size"] = draw(DISTRIBUTION)
        sizes.append(size)
    counts = {name: draw(st.integers(0, 10**9)) for name in names}
    counts[names[0]] += 1
    maybe = {
        "operation_count": COUNT,
        "run_seconds": st.integers(1, 10**9) | st.floats(1e-3, 1e9),
        "container_base": NAME.filter(lambda name: len(name.encode()) < 200),
        "container_count": st.integers(1, 10**7),
        "container_concurrency": COUNT,
        "delete_after": st.just(0) | COUNT,
        "policy": st.from_regex(r"[A-Za-z0-9-]{1,20}", fullmatch=True),
        "block_size": st.integers(1, 2**30),
        "seed": st.integers(0, 2**64 - 1),
        "pick": PICK,
    }
    optional = {key: draw(st.none() | strategy) for key, strategy in maybe.items()}
    fixed = {"name": draw(NAME), "user_count": draw(COUNT), "crud_profile": draw(CRUD)}
    return {**fixed, "sizes": sizes, "initial_files": counts, **optional}


@given(scenarios())
def test_a_scenario_round_trips_through_json(values: dict[str, object]) -> None:
    scenario = Scenario.from_json(json.dumps(values))
    assert Scenario.from_json(json.dumps(scenario.to_dict())) == scenario
    assert Scenario.from_json(json.dumps(scenario.given)) == scenario
    assert printable(scenario.summary()) == scenario.summary()


JSON = scripted(any_of(none, boolean, integer, number, word, key=word), 20)


@given(st.dictionaries(st.sampled_from([*OLD, "stages", "groups", "operations"]), JSON))
def test_any_header_is_read(header: dict[str, Any]) -> None:
    """Invariant: a scenario; nothing is raised."""
    scenario = Scenario.of_header({**OLD, **header})
    shares = [share for _, share in scenario.profile]
    assert sum(shares) == pytest.approx(1 if shares else 0)
    assert printable(scenario.summary()) == scenario.summary()


WEIGHTS = st.floats(0, 1.7e308, allow_nan=False)


@given(st.tuples(WEIGHTS, WEIGHTS, WEIGHTS, WEIGHTS).filter(any))
def test_shares_are_not_normalised_if_they_sum_to_one(weights: tuple[float, ...]) -> None:
    shares = dict(profile(dict(enumerate(weights))))
    assert math.isclose(math.fsum(shares.values()), 1, abs_tol=2e-9)
    assert dict(profile(shares)) == shares
