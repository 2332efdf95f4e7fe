"""The keys ``size`` and ``pick``: what they mean, and where an error is."""

from __future__ import annotations

import json

import pytest

from ssbench.core.distributions import LogNormal, Pick, SizeBins
from ssbench.core.errors import ScenarioError
from ssbench.core.model import SizeClass
from ssbench.core.scenario.scenario import Scenario


def read(size: dict[str, object], **keys: object) -> SizeClass:
    values = {
        "name": "x", "initial_files": {"a": 1}, "operations": {"read": 1}, "user_count": 1,
        "operation_count": 1, "sizes": [{"name": "a", **size}], **keys,
    }  # fmt: skip
    (found,) = Scenario.from_json(json.dumps(values), "x").sizes
    return found


def faults(size: dict[str, object], **keys: object) -> list[str]:
    with pytest.raises(ScenarioError) as raised:
        read(size, **keys)
    return str(raised.value).split("\n")


BOUNDS = {"size_min": 100, "size_max": 5000}


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
            {"size": {"histogram": [[0, "1k", 3], ["1k", "4k", 1]]}}, 0, 4095,
            SizeBins(((0, 1023, 3), (1024, 4095, 1))),
        ),
        (
            {"size": {"log_normal": {"median": "1k", "sigma": 1.5}}, **BOUNDS}, 100, 5000,
            LogNormal(1024, 1.5, 100, 5000),
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
    found = read(size)
    assert (found.size_min, found.size_max, found.distribution) == (low, high, distribution)


@pytest.mark.parametrize(
    ("size", "wrong"),
    [
        ({}, "size_min: missing; as in"),
        ({"size": "4"}, 'size: "4" is a string without a unit'),
        ({"size": {"fixd": 4}}, 'size: there is no distribution "fixd"; did you mean "fixed"?'),
        ({"size": {"fixed": 4, "list": []}}, "has 2 keys"),
        ({"size": {"uniform": [4, 1]}}, "size: 4 is above 1; the smaller size first"),
        ({"size": {"uniform": [4]}}, "size: uniform: [4]; a list of 2"),
        ({"size": 4, "size_max": 5}, "size_max: 5 is not the 4 of size; leave it out"),
        ({"size": {"list": []}}, '"list" is 0 entries; a list of 1 to 256 entries'),
        ({"size": {"list": [[1, 1]] * 257}}, '"list" is 257 entries'),
        ({"size": {"list": [[1, -1]]}}, "-1 is below 0; a weight of 0 or more"),
        ({"size": {"list": [[1, 0]]}}, "all weights are 0"),
        ({"size": {"list": [[1, 1e308], [2, 1e308]]}}, "1e+308 is out of range; 0, or a weight"),
        ({"size": {"list": [[1, 5e-324], [2, 1]]}}, "5e-324 is out of range; 0, or a weight"),
        ({"size": {"histogram": [[4, 4, 1]]}}, "histogram[0] ends at 4; above its begin, 4"),
        (
            {"size": {"histogram": [[0, 9, 1], [8, 12, 1]]}},
            "histogram[1] begins at 8; at least 9, where the one before it ends",
        ),
        ({"size": {"log_normal": {"median": 5}}, **BOUNDS}, '"log_normal": {"median": 5} is not'),
        ({"size": {"log_normal": {"median": 500, "sigma": 0}}, **BOUNDS}, "sigma 0 is out of"),
        ({"size": {"log_normal": {"median": 500, "sigma": 10.1}}, **BOUNDS}, "sigma 10.1 is out"),
        ({"size": {"log_normal": {"median": 500, "sigma": 1}}}, "size_max: missing"),
        (
            {"size": {"log_normal": {"median": "1G", "sigma": 1}}, **BOUNDS},
            "size: hardly any size is from 100 to 5000 bytes",
        ),
        ({"size": 4, "pick": "zipfian"}, 'pick: there is no pick "zipfian"; did you mean "zipf"?'),
        ({"size": 4, "pick": {"zipf": 0}}, "pick: the exponent 0 is out of range"),
        ({"size": 4, "pick": {"uniform": 1}}, 'pick: "uniform" has no exponent; "uniform"'),
        ({"size": 4, "pick": 7}, 'pick: 7 is a number; "uniform", "round_robin"'),
    ],
)  # fmt: skip
def test_an_error_names_its_place(size: dict[str, object], wrong: str) -> None:
    lines = faults(size)
    assert any(line.startswith("x: sizes[0].") and wrong in line for line in lines), lines


def test_a_class_has_its_own_pick_or_the_scenario_s() -> None:
    assert read({"size": 1}).pick == Pick()
    assert read({"size": 1}, pick="round_robin").pick == Pick("round_robin")
    assert read({"size": 1, "pick": {"zipf": 2}}, pick="round_robin").pick == Pick("zipf", 2.0)
    assert read({"size": 1, "pick": "newest_first"}).pick == Pick("newest_first", 0.99)
