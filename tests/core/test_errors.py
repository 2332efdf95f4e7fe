"""Errors say what is wrong in a line, and lead to one exit status."""

from __future__ import annotations

from itertools import permutations

import pytest

from ssbench.core import errors
from ssbench.core.errors import (
    GRAVITY,
    ExitStatus,
    ScenarioError,
    SsbenchError,
    gravest,
)

OK, FAILED, USAGE, THRESHOLD, CORRUPTION, INTERRUPTED, LOST = ExitStatus


def test_exit_statuses_are_stable() -> None:
    assert [int(status) for status in ExitStatus] == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("statuses", "wins"),
    [
        ([], OK),
        ([OK], OK),
        ([OK, THRESHOLD], THRESHOLD),
        ([THRESHOLD, LOST], LOST),
        ([LOST, INTERRUPTED, OK], INTERRUPTED),
        ([INTERRUPTED, CORRUPTION], CORRUPTION),
        ([CORRUPTION, FAILED], FAILED),
    ],
)
def test_the_gravest_status_wins_in_any_order(statuses: list[ExitStatus], wins: ExitStatus) -> None:
    assert {gravest(order) for order in permutations(statuses)} == {wins}


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
