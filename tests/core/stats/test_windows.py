"""What counts, and to which stage it belongs."""

from __future__ import annotations

from typing import Any

import pytest

from ssbench.core.model import NONE_NS
from ssbench.core.operations import READ
from ssbench.core.records import MarkRecord, ResultBatch
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.stats.results import LEFT_OUT, PhaseResults
from ssbench.core.stats.windows import Windows
from tests.report import runs

SECOND = runs.SECOND


def windows_of(end_s: int | None = None, **scenario: object) -> Windows:
    return Windows(Scenario.of_header(scenario), None if end_s is None else end_s * SECOND)


def batch(*starts_s: float, due: bool = False) -> ResultBatch:
    rows = [
        runs.result(
            number,
            READ,
            start_ns=round(start * SECOND) + (5 * SECOND if due else 0),
            due_ns=round(start * SECOND) if due else NONE_NS,
            bytes_moved=number,
        )
        for number, start in enumerate(starts_s)
    ]
    return runs.batch(rows)


def stages(windows: Windows, given: ResultBatch) -> dict[int, list[int]]:
    """By stage: the places of its operations in the batch."""
    results = PhaseResults([given], {})
    groups = results.groups(windows.stages(results))
    return {group.stage: group.column("bytes_moved").tolist() for group in groups}


def marked(windows: Windows, *at_s: float) -> Windows:
    for index, at in enumerate(at_s):
        windows.mark(MarkRecord(round(at * SECOND), "stage", index))
    windows.mark(MarkRecord(100 * SECOND, "end"))
    return windows


def warming(*warmups: float) -> list[dict[str, float]]:
    return [{"seconds": 10, "users": 1, "warmup": warmup} for warmup in warmups]


RAMPS: dict[str, Any] = {"end_s": 100, "warmup": 2, "cooldown": 3}


@pytest.mark.parametrize(
    ("given", "marks_s", "starts_s", "found"),
    [
        (RAMPS, [1], [1, 2.999, 3, 96.999, 97, 120], {LEFT_OUT: [0, 1, 4, 5], 0: [2, 3]}),
        (RAMPS, [1], [0, 1], {LEFT_OUT: [0, 1]}),
        (RAMPS, [0], [1, 50, 99], {LEFT_OUT: [0, 2], 0: [1]}),
        # Without a warm-up nothing is left out at the start.
        ({}, [1, 2], [0.999, 1, 2], {0: [0, 1], 1: [2]}),
        ({}, [0, 10, 20], [20, 9.999, 10, 0, 19, 25], {0: [1, 3], 1: [2, 4], 2: [0, 5]}),
        # A stage has a warm-up of its own.
        (
            {"stages": warming(0, 4, 1)}, [0, 10, 20],
            [-0.001, 9, 10, 13.9, 14, 19, 20.9, 21, 300],
            {0: [0, 1], LEFT_OUT: [2, 3, 6], 1: [4, 5], 2: [7, 8]},
        ),
        # The longer of two warm-ups counts.
        (
            {"warmup": 5, "stages": warming(2, 0)}, [0, 10], [4.9, 5, 10],
            {LEFT_OUT: [0], 0: [1], 1: [2]},
        ),
        (
            {"warmup": 2, "stages": warming(5, 0)}, [0, 10], [4.9, 5, 10],
            {LEFT_OUT: [0], 0: [1], 1: [2]},
        ),
        # Warm-up and cool-down may be longer than stages.
        ({"warmup": 12}, [0, 10, 20], [9, 11.9, 12, 20], {LEFT_OUT: [0, 1], 1: [2], 2: [3]}),
        (
            {"end_s": 30, "cooldown": 15}, [0, 10, 20], [9, 14.9, 15, 20, 29],
            {0: [0], 1: [1], LEFT_OUT: [2, 3, 4]},
        ),
    ],
)  # fmt: skip
def test_an_operation_belongs_to_the_stage_in_which_it_began_if_that_part_counts(
    given: dict[str, Any], marks_s: list[float], starts_s: list[float], found: dict[int, list[int]]
) -> None:
    assert stages(marked(windows_of(**given), *marks_s), batch(*starts_s)) == found


def test_an_operation_with_a_due_time_belongs_to_that() -> None:
    windows = marked(windows_of(warmup=2), 0, 10)
    assert stages(windows, batch(1, 2, 9.5, 10, due=True)) == {LEFT_OUT: [0], 0: [1, 2], 1: [3]}
