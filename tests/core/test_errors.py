"""Errors say what is wrong in a line, and lead to one exit status."""

from __future__ import annotations

from ssbench.core import errors
from ssbench.core.errors import (
    GRAVITY,
    ExitStatus,
    ScenarioError,
    SsbenchError,
)


def test_exit_statuses_are_stable() -> None:
    assert [int(status) for status in ExitStatus] == [0, 1, 2, 3, 4, 5, 6]


def test_every_status_has_its_gravity() -> None:
    assert set(GRAVITY) == set(ExitStatus)


def test_the_documented_tree_has_every_error() -> None:
    for name, thing in vars(errors).items():
        if isinstance(thing, type) and issubclass(thing, SsbenchError):
            assert name in (errors.__doc__ or "")


def test_all_faults_of_a_scenario_are_reported() -> None:
    error = ScenarioError(["a.scenario: one", "a.scenario: two"])
    assert error.faults == ("a.scenario: one", "a.scenario: two")
    assert str(error).splitlines() == list(error.faults)
