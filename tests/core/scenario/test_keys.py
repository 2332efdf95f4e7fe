"""Each key of a scenario: what it accepts, and the error and the place of anything else."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from ssbench.core.distributions import LogNormal, SizeBins
from ssbench.core.errors import ScenarioError
from ssbench.core.model import LargeObject, ObjectLock, SizeClass
from ssbench.core.naming import ObjectNaming
from ssbench.core.operations import (
    CREATE,
    CREATE_IF_ABSENT,
    DELETE,
    ENSURE,
    HEAD,
    OPERATIONS,
    READ,
    REMOVE,
    UPDATE,
    UPDATE_IF_MATCH,
)
from ssbench.core.picks import Pick
from ssbench.core.scenario.checks import Key
from ssbench.core.scenario.parts import GROUP_KEYS, LARGE_KEYS, LOCK_KEYS, SIZE_KEYS, STAGE_KEYS
from ssbench.core.scenario.scenario import KEYS, Scenario, parameter_keys
from ssbench.core.scenario.values import NO_PROFILE, OBJECT_SUFFIX_LENGTH
from ssbench.core.units import Unit

BASE = {
    "name": "x", "sizes": [{"name": "tiny", "size_min": 1, "size_max": 9}], "user_count": 4,
    "initial_files": {"tiny": 5},
    "operations": {"range_read": 1, "list": 1, "list_random": 1, "bulk_delete": 1, "put_tags": 1,
                   "create_if_absent": 1},
    "run_seconds": 100,
}  # fmt: skip
STAGES = [{"seconds": 30, "users": 8}, {"seconds": 60, "users": 64}]
GROUPS = {
    "puts": {"users": 3, "operations": {"create": 1}},
    "gets": {"users": 1, "crud_profile": [0, 3, 1, 0]},
}
LARGE = {"above": "1KiB", "segment": 100}
#: As BASE, but for a place below them.
OTHERS: dict[str, dict[str, Any]] = {
    "stages": {**BASE, "stages": STAGES, "run_seconds": None},
    "groups": {**BASE, "groups": GROUPS, "user_count": None, "operations": None},
    "large_object": {**BASE, "large_object": LARGE},
    "object_lock": {**BASE, "versioning": True, "object_lock": {"seconds": 9}},
}
SEEDS = [json.dumps(each).encode() for each in (BASE, *OTHERS.values())]
BOUNDS = {"size_min": 100, "size_max": 5000}


def changed(place: str, value: object) -> dict[str, Any]:
    """A sound scenario with a value at this place, such as ``sizes[0].size``."""
    first, *path = re.findall(r"\w+", place)
    scenario: Any = json.loads(json.dumps(OTHERS.get(first, BASE)))
    inner, keys = scenario, [first, *path]
    for key in keys[:-1]:
        inner = inner[int(key) if key.isdigit() else key]
    last = keys[-1]
    if isinstance(value, dict) and place.startswith("sizes[") and not path[1:]:
        inner[int(last)] = {"name": "tiny", **value}
    else:
        inner[int(last) if last.isdigit() else last] = value
    return scenario  # type: ignore[no-any-return]


def read(keys: Mapping[str, object], **more: object) -> Scenario:
    return Scenario.resolve(json.dumps({**keys, **more}), "x")


def faults(keys: Mapping[str, object]) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        read(keys)
    return [line.removeprefix("x: ") for line in caught.value.faults]


PARTS: list[tuple[str, Mapping[str, Key]]] = [
    ("", KEYS), ("", parameter_keys()), ("sizes[0].", SIZE_KEYS), ("stages[0].", STAGE_KEYS),
    ("groups.puts.", GROUP_KEYS), ("large_object.", LARGE_KEYS), ("object_lock.", LOCK_KEYS),
]  # fmt: skip
ALL = [(place + name, key) for place, keys in PARTS for name, key in keys.items()]


def wrong_values(key: Key) -> list[object]:
    """Values that the declaration of a key excludes."""
    found: list[object] = [-1, "\x00"]
    if isinstance(key.check, Unit):
        found += [[], "3", True, float("nan"), "three", key.check.high * 2]
        found += [0] if key.check.above_0 else [key.check.low - 1]
        found += [1.5] if key.check.kind is int else []
    return found


@pytest.mark.parametrize(("place", "key"), ALL)
def test_a_value_that_a_key_excludes_is_an_error_at_its_place(place: str, key: Key) -> None:
    for value in wrong_values(key):
        lines = [line for line in faults(changed(place, value)) if line.startswith(f"{place}: ")]
        assert len(lines) == 1, value
        assert re.fullmatch(r".+: .+; .+", lines[0])
        assert lines[0].isprintable()


@pytest.mark.parametrize("place", [place for place, key in ALL if key.required])
def test_a_key_that_must_be_given_is_missing(place: str) -> None:
    lines = faults(changed(place, None))
    assert any(line.startswith(f"{place}: missing; ") for line in lines)


FAULTS: list[tuple[str, object, str]] = [
    ("name", "", "name: the string is empty; a string of one or more printable characters"),
    ("name", "a\nb", 'name: "a\\nb" has a control character'),
    ("name", "\x9b", "name: "),
    ("name", "\ud800", "name: "),
    ("naem", 1, 'naem: unknown key; did you mean "name"?'),
    ("crud_profile", [0, 0, 0, 0], "crud_profile: all four weights are 0"),
    ("crud_profile", [1, 2, 3], "crud_profile: [1, 2, 3] has 3 entries"),
    ("crud_profile", [1, 2, 3, 4, 5], "crud_profile: [1, 2, 3, 4, 5] has 5 entries"),
    ("crud_profile", [1, 2, 3, "4"], 'crud_profile: "4" is a string'),
    ("crud_profile", [1, 2, 3, True], "crud_profile: true is a truth value"),
    ("crud_profile", [1, 2, 3, None], "crud_profile: null is null"),
    ("crud_profile", {"C": 1}, 'crud_profile: {"C": 1} is an object'),
    ("operations", [1], "operations: [1] is a list"),
    ("operations", {}, "operations: the object is empty; at least one above 0"),
    ("operations", {"read": 0}, "operations: all weights are 0; at least one above 0"),
    ("operations", {"raed": 1}, 'operations: there is no operation "raed"; did you mean "read"?'),
    ("operations", {"get": 1, "read": 1}, 'operations: "read" is given twice'),
    ("container_base", "a/b", 'container_base: "a/b" has a slash; a name without slashes'),
    ("container_base", "é" * 125, "container_base: the name has 250 bytes; at most 249 bytes of"),
    ("policy", "two words", 'policy: "two words" is not the name of a policy'),
    ("policy", "a/b", 'policy: "a/b" is not the name of a policy'),
    ("policy", "größe", "policy: "),
    ("policy", "a\r\nX-Evil: 1", "policy: "),
    ("rate", 1e-300, "rate: 1e-300 is below 1e-09"),
    ("rate", 1e9, "rate: 1000000000.0 is above 10000000"),
    ("arrivals", "bursty", 'arrivals: "bursty" is not an arrival model; "uniform" or "poisson"'),
    ("key_names", ["flat"], 'key_names: ["flat"] is not a form of names; "flat", "hashed" or'),
    ("think_time", [2, 1], "think_time: [2, 1] has the longer one first"),
    ("think_time", [1], "think_time: [1] has 1 entry"),
    ("compressible", 1.5, "compressible: 1.5 is above 1; a share from 0 to 1"),
    ("compressible_block", 3000, "compressible_block: 3000 is not a power of two; as in 4096 or"),
    ("duplicate_block", "512b", 'duplicate_block: "512b" is below 4096'),
    ("keep_alive", 1, "keep_alive: 1 is a number; true or false"),
    ("versioning", "yes", 'versioning: "yes" is a string; true or false'),
    ("object_lock", 60, 'object_lock: 60 is a number; an object like {"seconds": 60'),
    ("object_lock", {"seconds": 0}, "object_lock.seconds: 0 is not above 0"),
    ("object_lock", {"seconds": 9, "mode": "legal"}, 'object_lock.mode: "legal" is not a mode;'),
    ("range_bytes", "x", 'range_bytes: "x" can\'t be read; bytes from 1'),
    ("range_byte", 1, 'range_byte: unknown key; did you mean "range_bytes"?'),
    ("bulk_count", 10_001, "bulk_count: 10001 is above 10000"),
    ("list_prefix", "é" * 128, "list_prefix: the text has 256 bytes; at most 255"),
    # Sizes and their objects
    ("sizes", [], "sizes: the list is empty; a list like"),
    ("sizes", "tiny", 'sizes: "tiny" is a string; a list like'),
    ("sizes[0]", 7, "sizes[0]: 7 is a number; an object like"),
    *(
        ("sizes[0].name", name, "sizes[0].name: ")
        for name in ("/tiny", "a//b", "./a", "a/../b", "../a", "", "a\0", "é" * 500)
    ),
    ("sizes[0].size_min", 900, "sizes[0].size_min: 900 is above size_max 9; at most 9"),
    ("sizes[0].size_min", 0, "sizes[0].size_min: 0 is too small for range_read; at least 1"),
    ("sizes[0]", {}, "sizes[0].size_min: missing; as in"),
    ("sizes[0]", {"size": "4"}, 'sizes[0].size: "4" is a string without a unit'),
    ("sizes[0]", {"size": {"fixd": 4}}, 'size: there is no distribution "fixd"; did you mean "fix'),
    ("sizes[0]", {"size": {"fixed": 4, "list": []}}, "has 2 keys"),
    ("sizes[0]", {"size": {"uniform": [4, 1]}}, "size: 4 is above 1; the smaller size first"),
    ("sizes[0]", {"size": {"uniform": [4]}}, "size: uniform: [4]; a list of 2"),
    ("sizes[0]", {"size": 4, "size_max": 5}, "size_max: 5 is not the 4 of size; leave it out"),
    ("sizes[0]", {"size": {"list": []}}, '"list" is 0 entries; a list of 1 to 256 entries'),
    ("sizes[0]", {"size": {"list": [[1, 1]] * 257}}, '"list" is 257 entries'),
    ("sizes[0]", {"size": {"list": [[1, -1]]}}, "-1 is below 0; a weight of 0 or more"),
    ("sizes[0]", {"size": {"list": [[1, 0]]}}, "all weights are 0"),
    ("sizes[0]", {"size": {"list": [[1, 1e308], [2, 1e308]]}}, "1e+308 is out of range; 0, or a"),
    ("sizes[0]", {"size": {"list": [[1, 5e-324], [2, 1]]}}, "5e-324 is out of range; 0, or a weig"),
    ("sizes[0]", {"size": {"histogram": [[4, 4, 1]]}}, "histogram[0] ends at 4; above its begin"),
    (
        "sizes[0]", {"size": {"histogram": [[0, 9, 1], [8, 12, 1]]}},
        "histogram[1] begins at 8; at least 9, where the one before it ends",
    ),
    ("sizes[0]", {"size": {"log_normal": {"median": 5}}, **BOUNDS}, '"log_normal": {"median": 5}'),
    ("sizes[0]", {"size": {"log_normal": {"median": 5, "sigma": 0}}, **BOUNDS}, "sigma 0 is out"),
    ("sizes[0]", {"size": {"log_normal": {"median": 5, "sigma": 10.1}}, **BOUNDS}, "sigma 10.1"),
    ("sizes[0]", {"size": {"log_normal": {"median": 5, "sigma": 1}}}, "size_max: missing"),
    (
        "sizes[0]", {"size": {"log_normal": {"median": "1G", "sigma": 1}}, **BOUNDS},
        "size: hardly any size is from 100 to 5000 bytes",
    ),
    ("sizes[0].pick", "zipfian", 'pick: there is no pick "zipfian"; did you mean "zipf"?'),
    ("sizes[0].pick", {"zipf": 0}, "pick: the exponent 0 is out of range"),
    ("sizes[0].pick", {"uniform": 1}, 'pick: "uniform" has no exponent; "uniform"'),
    ("initial_files", [], "initial_files: [] is a list; a count for each size"),
    ("initial_files", {"tinny": 1}, 'initial_files.tinny: no size has this name; did you mean "t'),
    ("initial_files", {"tiny": 0}, "initial_files: no size has any; at least one count above 0"),
    ("initial_files", {"tiny": "5"}, 'initial_files.tiny: "5" is a string'),
    ("initial_files", {"two words": 1}, 'initial_files["two words"]: no size has this name'),
    # The load
    ("stages", [], "stages: the list is empty; a list like"),
    ("stages", 3, "stages: 3 is a number; a list like"),
    ("stages[1]", 5, "stages[1]: 5 is a number; an object like"),
    ("stages[1].user_count", 5, 'stages[1].user_count: unknown key; did you mean "users"?'),
    ("users", 5, 'users: unknown key; did you mean "user_count"?'),
    ("stages[1]", {"seconds": 1, "rate": 5}, "stages: some have a rate and some have none"),
    ("stages[1].rat", 3, 'stages[1].rat: unknown key; did you mean "rate"?'),
    ("stages[1].warmup", 60, "stages[1].warmup: 60 s of a stage of 60 s; less than the stage"),
    ("groups", {}, "groups: the object is empty; an object like"),
    ("groups", [1], "groups: [1] is a list; an object like"),
    ("groups", {" ": GROUPS["puts"]}, 'groups: " " is no name; a name for each'),
    ("groups", {str(n): GROUPS["puts"] for n in range(65)}, "groups: there are 65; at most 64"),
    ("groups.a", 7, "groups.a: 7 is a number; an object like"),
    ("groups.a", {"users": 2}, 'groups.a: no operations; as in "operations"'),
    ("groups.puts.user", 1, 'groups.puts.user: unknown key; did you mean "users"'),
    ("groups.puts.crud_profile", [1, 1, 1, 1], "groups.puts.operations: crud_profile is given as"),
    ("large_object", [], "large_object: [] is a list; an object like"),
    ("large_object.segments", 1, 'large_object.segments: unknown key; did you mean "segment"?'),
    # Headers
    ("headers", 7, "headers: 7 is a number; names and values"),
    *(
        ("headers", {name: "x"}, f'headers: ssbench itself sets "{name}"; leave it out')
        for name in (
            "Host", "X-Object-Meta-Ssbench-Run", "x-amz-meta-ssbench-run", "X-Amz-Copy-Source",
            "Destination", "Overwrite", "X-HTTP-Method-Override",
        )
    ),
    *(
        ("headers", value, f'headers: "{name}" can refer to other data of the account; leave')
        for name in (
            "X-Symlink-Target", "x-symlink-target-account", "X-Object-Manifest",
            "X-Copy-From-Account", "X-Backend-Storage-Policy-Index", "X-Original-URL",
        )
        for value in ({name: "photos/a"}, {"update": {name: "photos/a"}})
    ),
    *(
        ("headers", value, f'headers: "{name}" is for credentials, and a scenario is stored')
        for name in (
            "Authorization", "authorization", "Proxy-Authorization", "X-Auth-Token", "x-auth-key",
            "Cookie", "X-Service-Token", "X-Amz-Security-Token", "X-Api-Key", "X-My-Secret",
            "Password", "X-Amz-Server-Side-Encryption-Customer-Key",
        )
        for value in ({name: "hunter2"}, {"read": {name: "hunter2"}})
    ),
    ("headers", {"x-amz-object-lock-legal-hold": "ON"}, "has no end, so no clean-up could delete"),
    ("headers", {"X A": "x"}, 'headers: "X A" is no name of a header'),
    ("headers", {"X-A": "x\r\nHost: y"}, "is no value of X-A; printable ASCII"),
    ("headers", {"X-A": "ä"}, "is no value of X-A"),
    ("headers", {"X-A": 1}, "headers: 1 is no value of X-A"),
    ("headers", {"X-A": "x" * 4097}, "headers: X-A has 4097 characters; at most 4096"),
    ("headers", {"X-A": "1", "x-a": "2"}, 'headers: "X-A" and "x-a" are one header; leave one'),
    ("headers", {"read": {"X-A": "1", "x-a": "2"}}, '"X-A" and "x-a" are one header; leave one'),
    ("headers", {"raed": {"X-A": "1"}}, 'there is no operation "raed"; did you mean "read"?'),
]  # fmt: skip


@pytest.mark.parametrize(("place", "value", "line"), FAULTS)
def test_an_error_says_what_is_wrong_and_where(place: str, value: object, line: str) -> None:
    lines = faults(changed(place, value))
    assert any(line in each for each in lines), lines
    assert all(each.isprintable() and "hunter2" not in each for each in lines)


#: Keys that do not go together: changes to BASE or, with stages or groups, to OTHERS.
CONTRADICTIONS: list[tuple[dict[str, object], str]] = [
    ({"crud_profile": [1, 1, 1, 1]}, "operations: crud_profile is given as well; one of the two"),
    ({"operations": None}, "crud_profile: missing, and sizes[0] has none of its own"),
    ({"operations": {"read": 1}, "bulk_count": 5},
     "bulk_count: the scenario has no operation that uses it; leave it out, or add bulk_delete"),
    ({"arrivals": "poisson"}, "arrivals: arrivals need a rate"),
    ({"rate": 5, "think_time": 1}, "think_time: an open loop (rate) has no think time"),
    ({"run_seconds": 9, "warmup": 5, "cooldown": 4}, "warmup: warm-up and cool-down are 9 s of a"),
    ({"stages": STAGES, "operation_count": 9, "run_seconds": None}, "operation_count: the stages"),
    ({"stages": STAGES, "run_seconds": 9}, "run_seconds: 9 is not the 90 s of the stages"),
    ({"stages": [{"operation_count": 5, "users": 1}], "run_seconds": 9},
     "run_seconds: 9 is not the end of the stages; leave it out"),
    ({"stages": [{"seconds": 5, "users": 1, "warmup": 3}], "run_seconds": None, "warmup": 1,
      "cooldown": 2}, "warmup: warm-up, cool-down and those of the stages exclude"),
    ({"groups": GROUPS}, "operations: the groups have operations of their own; leave it out"),
    ({"groups": GROUPS, "operations": None, "user_count": 5},
     "user_count: 5 is not the 4 users of the groups; leave it out"),
    ({"groups": GROUPS, "operations": None, "rate": 5},
     "groups: the groups have rates of their own"),
    ({"groups": GROUPS, "operations": None,
      "sizes": [{"name": "tiny", "size": 1, "operations": {"read": 1}}]},
     "sizes[0].operations: the groups have operations of their own"),
]  # fmt: skip


@pytest.mark.parametrize(("keys", "line"), CONTRADICTIONS)
def test_keys_that_do_not_go_together(keys: dict[str, object], line: str) -> None:
    (found,) = faults({**BASE, **keys})
    assert found.startswith(line)


@pytest.mark.parametrize(
    ("overrides", "keys", "line"),
    [
        ({"user_count": 3}, {"stages": STAGES}, "user_count: the stages have users of their"),
        ({"rate": 3.0}, {"stages": [{"seconds": 5, "rate": 5}]}, "rate: the stages have rates"),
        ({"run_seconds": 3.0}, {"stages": STAGES}, "run_seconds: 3 is not the 90 s of the st"),
        ({"operation_count": 3}, {"stages": STAGES}, "operation_count: the stages end the r"),
        ({"user_count": 9}, {"groups": GROUPS, "operations": None, "user_count": None},
         "user_count: the groups have users of their own"),
        ({"run_seconds": 5}, {"warmup": 10}, "run_seconds: warm-up and cool-down are 10 s"),
        ({"run_seconds": 5, "warmup": 10}, {}, "warmup, run_seconds: warm-up and cool-down"),
        ({"cooldown": 9}, {"run_seconds": 9}, "cooldown: warm-up and cool-down are 9 s"),
        ({"arrivals": "poisson"}, {}, "arrivals: arrivals need a rate"),
        ({"rate": 3.0}, {"think_time": 1}, "rate: an open loop (rate) has no"),
        ({"policy": "golden"}, {"container_base": "b" * 244}, "policy: container names like"),
        ({"container_count": 1_000_001}, {"container_base": "b" * 249},
         "container_count: container names like"),
    ],
)  # fmt: skip
def test_an_option_is_blamed_for_what_it_overrides(
    overrides: dict[str, object], keys: dict[str, object], line: str
) -> None:
    file = {**BASE, **({"run_seconds": None} if "stages" in keys else {}), **keys}
    with pytest.raises(ScenarioError) as caught:
        Scenario.resolve(json.dumps(file), "x", **overrides)
    (found,) = caught.value.faults
    assert found.startswith(line)


@pytest.mark.parametrize(
    ("size", "low", "high", "distribution"),
    [
        ({"size": 4096}, 4096, 4096, None),
        ({"size": "4k"}, 4096, 4096, None),
        ({"size": {"fixed": "4k"}}, 4096, 4096, None),
        ({"size": {"uniform": ["1k", "4k"]}}, 1024, 4096, None),
        ({"size": {"uniform": [1, 4]}, "size_min": 1, "size_max": 4}, 1, 4, None),
        ({"size": {"list": [["1k", 3]]}}, 1024, 1024, None),
        ({"size": {"list": [[9, 3], [5, 1], [7, 0]]}}, 5, 9, SizeBins(((9, 9, 3), (5, 5, 1)))),
        (
            {"size": {"histogram": [[1, "1k", 3], ["1k", "4k", 1]]}}, 1, 4095,
            SizeBins(((1, 1023, 3), (1024, 4095, 1))),
        ),
        (
            {"size": {"log_normal": {"median": "1k", "sigma": 10}}, **BOUNDS}, 100, 5000,
            LogNormal(1024, 10, 100, 5000),
        ),
    ],
)  # fmt: skip
def test_sizes_have_a_distribution(
    size: dict[str, object], low: int, high: int, distribution: object
) -> None:
    (found,) = kept(changed("sizes[0]", size)).sizes
    assert (found.size_min, found.size_max, found.distribution) == (low, high, distribution)


def test_a_class_has_its_own_pick_or_the_scenario_s() -> None:
    def pick(top: object, own: object) -> Pick:
        return read(changed("sizes[0].pick", own), pick=top).sizes[0].pick

    assert pick(None, None) == Pick()
    assert pick("round_robin", None) == Pick("round_robin")
    assert pick("round_robin", {"zipf": 2}) == Pick("zipf", 2.0)
    assert pick(None, "newest_first") == Pick("newest_first", 0.99)


@pytest.mark.parametrize("name", ["tiny", "1 kB", "größe", "a/b", "a?b#c%20", "..", "tiny "])
def test_names_of_classes(name: str) -> None:
    sizes = [{"name": name, "size": 1}]
    assert read(BASE, sizes=sizes, initial_files={name: 1}).sizes[0].name == name


def test_the_longest_name_still_fits_with_all_that_naming_adds() -> None:
    name = "x" * (1024 - OBJECT_SUFFIX_LENGTH)
    sizes = [{"name": name, "size": 1}]
    read(BASE, sizes=sizes, initial_files={name: 1})
    naming = ObjectNaming([SizeClass(name, 0, 0, NO_PROFILE, 1)], "f" * 32, 1)
    assert len(naming.object(0, 2**63 - 1)) == 1024
    (line,) = faults({**BASE, "sizes": [{"name": name + "x", "size": 1}]})
    assert line == "sizes[0].name: the name has 972 bytes; at most 971 bytes of UTF-8"


def test_two_classes_cannot_have_one_name_nor_that_of_the_segments_of_another() -> None:
    def sizes(*names: str) -> dict[str, object]:
        return {**BASE, "sizes": [{"name": name, "size": 1} for name in names]}

    (line,) = faults(sizes("tiny", "tiny"))
    assert line == 'sizes[1].name: "tiny" is the name of sizes[0] as well; a unique name'
    for name in ("tiny_000001_0", "tiny_0123456789_000001_22"):
        read(sizes("tiny", name))
        (line,) = faults({**sizes("tiny", name), "large_object": LARGE})
        assert line.startswith(f'sizes[1].name: objects of "{name}" would be named like segments')


def test_a_class_without_initial_files_needs_no_profile() -> None:
    sizes = [
        {"name": "a", "size": 1, "crud_profile": [1, 0, 0, 0]},
        {"name": "b", "size": 2},
    ]
    found = read(BASE, sizes=sizes, operations=None, initial_files={"a": 3}).sizes
    assert [size.profile for size in found] == [((CREATE, 1.0),), NO_PROFILE]
    (line,) = faults(
        {**BASE, "sizes": sizes, "operations": None, "initial_files": {"a": 3, "b": 1}}
    )
    assert line.startswith("crud_profile: missing, and sizes[1] has none of its own; four weights")


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"operations": {"update": 1, "read_version": 1}, "versioning": False},
         "versioning: false, and read_version has no effect without versions; true"),
        ({"operations": {"read": 1, "delete_version": 1}},
         "operations: nothing makes older versions, which delete_version is for; update or delete"),
        ({"operations": {"update": 1, "read_version": 1}, "delete_after": 60},
         "delete_after: versions expire, too, which read_version is for; leave it out"),
        ({"operations": {"update": 1, "delete_version": 1}, "object_lock": {"seconds": 60}},
         "object_lock: the store would refuse each delete_version of what is locked"),
        ({"operations": {"update": 1}, "versioning": False, "object_lock": {"seconds": 9}},
         "versioning: false, and object_lock has no effect without versions; true"),
    ],
)  # fmt: skip
def test_operations_on_versions_need_versions(keys: dict[str, object], says: str) -> None:
    found = faults({**BASE, "crud_profile": None, "versioning": True, **keys})
    assert [line for line in found if says in line] == found


def kept(keys: Mapping[str, object], **more: object) -> Scenario:
    """As read again from what it gives."""
    scenario = read(keys, **more)
    assert Scenario.from_json(json.dumps(scenario.to_dict())) == scenario
    return scenario


def test_locks_and_large_objects_are_read_and_kept() -> None:
    lock = {"seconds": "1m", "mode": "compliance"}
    scenario = kept(BASE, versioning=True, object_lock=lock)
    assert scenario.object_lock == ObjectLock(60, "compliance")
    scenario = kept(BASE, large_object={**LARGE, "kind": "dlo", "parallel": 2})
    assert scenario.large_object == LargeObject(1024, 100, "dlo", 2)
    assert [scenario.large_object.count(size) for size in (1024, 1025, 1100)] == [0, 11, 11]
    assert kept(BASE).large_object is None


def test_stages_are_read_and_kept() -> None:
    use = {"b": 1}
    for stages in (
        [
            {"name": "write", "operations": {"create": 1}, "operation_count": 30, "sizes": use},
            {"name": "read", "operations": {"read": 1}, "epochs": 2, "sizes": use},
            {"name": "delete", "operations": {"delete": 1}, "epochs": 1, "sizes": use},
        ],
        [{"name": "m", "seconds": 9, "groups": {
            "g": {"users": [1, 3], "operations": {"read": 1}, "pick": "shuffle"}
        }}],
    ):  # fmt: skip
        sizes = [{"name": "tiny", "size": 10}, {"name": "b", "size": 20}]
        kept(BASE, sizes=sizes, stages=stages, run_seconds=None, operations=None)
    kept(BASE, stages=[{"seconds": 9, "rate": [1, 9]}], run_seconds=None)


def lines_of(**keys: object) -> dict[int, str]:
    return dict(read(BASE, operations={"read": 1}, **keys).header_lines())


def test_headers_are_those_of_all_operations_and_of_one() -> None:
    headers = {"X-Debug": "1", "get": {"X-Newest": "true", "X-Debug": "2"}}
    lines = lines_of(headers=headers)
    assert lines[READ] == "X-Debug: 2\r\nX-Newest: true\r\n"
    assert lines[HEAD] == lines[DELETE] == "X-Debug: 1\r\n"
    assert lines[ENSURE] == "X-Debug: 1\r\n"  # initial objects are made with them
    assert REMOVE not in lines
    kept(BASE, headers=headers)


def test_a_header_of_one_operation_replaces_that_of_all_in_any_order_and_case() -> None:
    lines = lines_of(headers={"read": {"x-newest": "true"}, "X-Newest": "false"})
    assert (lines[READ], lines[HEAD]) == ("x-newest: true\r\n", "X-Newest: false\r\n")
    assert lines_of(headers={"X-Object-Meta-Author": "me"})  # no credential


def test_headers_of_initial_objects_replace_those_of_all_operations() -> None:
    headers = {"X-A": "1", "X-B": "2", "create": {"X-C": "3"}}
    scenario = kept(BASE, headers=headers, populate_headers={"x-a": "4", "X-D": "5"})
    assert dict(scenario.header_lines())[ENSURE] == "X-B: 2\r\n"
    made = scenario.initial_headers()
    assert made.lines == "x-a: 4\r\nX-D: 5\r\n"
    # Another order and case, or another place, are the same headers; other values are not.
    same = {"X-D": "5", "X-A": "4", "X-B": "2"}
    assert read(BASE, populate_headers=same).initial_headers().mark == made.mark
    assert read(BASE, headers=same).initial_headers().mark == made.mark
    other = read(BASE, headers={**same, "X-B": "3"}).initial_headers().mark
    assert len({made.mark, other, read(BASE).initial_headers().mark}) == 3
    assert read(BASE).initial_headers().mark == ""


@pytest.mark.parametrize("checksum", ["md5", "none"])
def test_what_has_no_trailer_is_refused(checksum: str) -> None:
    with pytest.raises(ScenarioError, match=f"checksum {checksum} has no trailer"):
        read(BASE, checksum=checksum, checksum_in="trailer")
    given = kept(BASE, checksum="sha256", checksum_in="trailer")
    assert given.initial_headers().mark  # the store keeps it with the object


def test_uploads_of_the_run_expect_and_every_request_closes() -> None:
    lines = lines_of(expect_continue=True, keep_alive=False)
    uploads = [CREATE, UPDATE, CREATE_IF_ABSENT, UPDATE_IF_MATCH]
    assert {lines[each] for each in uploads} == {"Expect: 100-continue\r\nConnection: close\r\n"}
    others = {lines[each] for each in OPERATIONS if each not in uploads}
    assert others == {"Connection: close\r\n"}
    assert lines_of() == {}
