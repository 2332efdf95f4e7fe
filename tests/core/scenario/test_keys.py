"""Objects by their tables of keys."""

from __future__ import annotations

from ssbench.core.scenario.checks import KeyRule, ValidationErrors, integer, read_keys

TABLE = {"count": KeyRule(integer(1), required=True, example="4"), "more": KeyRule(integer(0))}


def read(raw: dict[str, object]) -> tuple[dict[str, object], list[str]]:
    faults = ValidationErrors("x")
    return read_keys(raw, TABLE, "rows[2]", faults, ("other",)), faults.lines


def test_values_are_checked_and_null_means_absent() -> None:
    assert read({"count": 3, "more": None, "other": []}) == ({"count": 3}, [])


def test_every_fault_has_its_place() -> None:
    values, faults = read({"more": -1, "cuont": 3})
    assert values == {"more": None}
    assert faults == [
        'x: rows[2].cuont: unknown key; did you mean "count"?',
        'x: rows[2].count: missing; as in "count": 4',
        "x: rows[2].more: -1 is below 0; a whole number from 0 up",
    ]
