import pytest

from ssbench.core.model import SizeClass
from ssbench.core.naming import ObjectNaming
from ssbench.core.scenario.checks import ValidationErrors
from ssbench.core.scenario.fields import NO_PROFILE, crud_profile
from ssbench.core.scenario.size_keys import (
    MAX_OBJECT_NAME,
    OBJECT_SUFFIX_LENGTH,
    read_initial_files,
    read_sizes,
    size_name,
)
from ssbench.core.units import ValidationError


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
