"""Keys of a scenario that are parameters of its operations."""

from __future__ import annotations

import json

import pytest

from ssbench.core.errors import ScenarioError
from ssbench.core.model import LargeObject
from ssbench.core.scenario.scenario import Scenario


def scenario(operations: dict[str, int], size_min: int = 1, **keys: object) -> Scenario:
    return Scenario.from_json(json.dumps({
        "name": "x", "user_count": 1, "operation_count": 1, "initial_files": {"tiny": 5},
        "sizes": [{"name": "tiny", "size_min": size_min, "size_max": 100}],
        "operations": operations, **keys,
    }), "x.scenario")  # fmt: skip


def test_operations_in_use_have_their_parameters_or_the_defaults() -> None:
    read = scenario({"range_read": 1, "bulk_delete": 1}, range_bytes="4KiB", bulk_count=None)
    assert read.parameters == {"range_bytes": 4096, "bulk_count": 100}
    assert scenario({"read": 1}).parameters == {}


def test_the_scenario_that_a_stat_file_keeps_has_them_all() -> None:
    read = scenario({"list": 1, "range_read": 1}, list_prefix="tiny_")
    kept = read.to_dict()
    assert kept["list_prefix"] == "tiny_"
    assert kept["list_delimiter"] == ""
    assert kept["range_bytes"] == 65536
    assert Scenario.from_json(json.dumps(kept)) == read


def test_groups_have_parameters_too() -> None:
    groups = {"reads": {"users": 1, "operations": {"range_read": 1}}}
    text = json.dumps({
        "name": "x", "operation_count": 1, "groups": groups, "initial_files": {"tiny": 5},
        "sizes": [{"name": "tiny", "size_min": 1, "size_max": 1}], "range_bytes": 5,
    })  # fmt: skip
    assert Scenario.from_json(text).parameters == {"range_bytes": 5}


@pytest.mark.parametrize(("operations", "keys", "fault"), [
    ({"range_read": 1}, {"range_bytes": 0}, "range_bytes: 0 is below 1; bytes from 1 to "),
    ({"range_read": 1}, {"range_bytes": "x"}, 'range_bytes: "x" can\'t be read; bytes from 1'),
    ({"range_read": 1}, {"range_byte": 1}, 'range_byte: unknown key; did you mean "range_bytes"?'),
    ({"bulk_delete": 1}, {"bulk_count": 10_001}, "bulk_count: 10001 is above 10000"),
    ({"list": 1}, {"list_prefix": 3}, "list_prefix: 3 is a number; a string"),
    ({"list": 1}, {"list_prefix": "é" * 128}, "list_prefix: the text has 256 bytes; at most 255"),
    ({"read": 1}, {"bulk_count": 5},
     "bulk_count: the scenario has no operation that uses it; leave it out, or add bulk_delete"),
    ({"range_read": 1}, {"size_min": 0},
     "sizes[0].size_min: 0 is too small for range_read; at least 1"),
])  # fmt: skip
def test_a_fault_names_its_place(operations: dict[str, int], keys: object, fault: str) -> None:
    assert isinstance(keys, dict)
    with pytest.raises(ScenarioError) as caught:
        scenario(operations, **keys)
    (line,) = caught.value.faults
    assert line.startswith(f"x.scenario: {fault}")


LARGE = {"above": "1KiB", "segment": 100}


def test_large_objects_are_read_and_kept() -> None:
    read = scenario({"read": 1}, large_object={**LARGE, "kind": "dlo", "parallel": 2})
    assert read.large_object == LargeObject(1024, 100, "dlo", 2)
    assert [read.large_object.count(size) for size in (1024, 1025, 1100)] == [0, 11, 11]
    assert Scenario.from_json(json.dumps(read.to_dict())) == read
    assert scenario({"read": 1}).large_object is None


@pytest.mark.parametrize(("large", "fault"), [
    ({"above": 1}, 'large_object.segment: missing; as in "segment": "5MiB"'),
    ({**LARGE, "segment": 0}, "large_object.segment: 0 is below 1"),
    ({**LARGE, "segments": 1}, 'large_object.segments: unknown key; did you mean "segment"?'),
    ([], "large_object: [] is a list; an object like"),
])  # fmt: skip
def test_a_fault_in_a_large_object_names_its_place(large: object, fault: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        scenario({"read": 1}, large_object=large)
    (line,) = caught.value.faults
    assert line.startswith(f"x.scenario: {fault}")


@pytest.mark.parametrize("name", ["tiny_000001_0", "tiny_0123456789_000001_22"])
def test_no_size_may_be_named_like_segments_of_another(name: str) -> None:
    sizes = [{"name": each, "size_min": 1, "size_max": 9} for each in ("tiny", name)]
    scenario({"read": 1}, sizes=sizes)
    with pytest.raises(ScenarioError, match=rf'sizes\[1\].name: objects of "{name}" would be'):
        scenario({"read": 1}, sizes=sizes, large_object=LARGE)
