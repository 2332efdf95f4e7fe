"""What counts of each stage of a load."""

from __future__ import annotations

from typing import Any

import pytest

from ssbench.core.stats.scenario_view import ScenarioView
from ssbench.core.stats.windows_of_stages import NEVER_NS, SECOND_NS, Span, gaps_ns, joined, spans


def spans_s(begins_s: list[int], end_s: int | None, **scenario: Any) -> list[tuple[float, float]]:
    end_ns = None if end_s is None else end_s * SECOND_NS
    found = spans([at * SECOND_NS for at in begins_s], end_ns, ScenarioView.of(scenario))
    return [
        (low / SECOND_NS, high if high == NEVER_NS else high / SECOND_NS) for low, high in found
    ]


def warming(*warmups: float) -> list[dict[str, float]]:
    return [{"seconds": 10, "users": 1, "warmup": warmup} for warmup in warmups]


@pytest.mark.parametrize(
    ("scenario", "found"),
    [
        ({}, [(1, 11), (11, 21)]),
        ({"warmup": 2, "cooldown": 3}, [(3, 11), (11, 18)]),
        ({"stages": warming(0, 2.5)}, [(1, 11), (13.5, 21)]),
        ({"stages": warming(4, 1), "warmup": 2}, [(5, 11), (12, 21)]),
        ({"stages": warming(0, 1), "warmup": 12}, [(13, 13), (13, 21)]),
        ({"stages": warming(0, 3), "warmup": 12}, [(13, 13), (14, 21)]),
        ({"cooldown": 12}, [(1, 9), (11, 11)]),
    ],
)
def test_ramps_are_left_out(scenario: dict[str, Any], found: list[tuple[float, float]]) -> None:
    assert spans_s([1, 11], 21, **scenario) == found


def test_an_end_that_nobody_knows_is_never() -> None:
    assert spans_s([1], None, cooldown=3) == [(1, NEVER_NS)]
    assert spans([], 5, ScenarioView.of({})) == []
    assert Span(0, NEVER_NS).seconds is None
    assert Span(SECOND_NS, 3 * SECOND_NS).seconds == 2


def test_neighbours_are_one_stretch_and_what_is_empty_is_none() -> None:
    assert joined([Span(0, 5), Span(5, 9), Span(12, 12), Span(13, 20)]) == [
        Span(0, 9), Span(13, 20),
    ]  # fmt: skip
    assert joined([]) == []


def test_gaps_are_what_lies_between_within_the_time_asked_for() -> None:
    parts = [Span(0, 10), Span(15, 20), Span(20, 30), Span(32, NEVER_NS)]
    assert gaps_ns(parts, 0, 100) == 7
    assert gaps_ns(parts, 12, 31) == 4
    assert gaps_ns(parts, 16, 29) == 0
    assert gaps_ns([], 0, 100) == 0
