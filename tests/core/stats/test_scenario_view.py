"""A scenario as reports show it, whatever wrote its header, and which parts of a run count."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.model import SECOND_NS
from ssbench.core.stats.scenario_view import NEVER_NS, ScenarioView, Span, crud_of, gaps_ns, joined
from tests.fakes.values import any_of, boolean, integer, none, number, scripted, text
from tests.report.runs import SCENARIO


def test_shares_and_the_weighted_average() -> None:
    view = ScenarioView.of(SCENARIO)
    assert [round(size.share, 3) for size in view.sizes] == [0.909, 0.091]
    assert crud_of(view.sizes[0].profile) == pytest.approx([0.3, 0.4, 0.2, 0.1])
    crud = crud_of(view.profile)
    assert crud == pytest.approx([0.2818, 0.4318, 0.1955, 0.0909], abs=1e-4)
    assert sum(size.initial_files for size in view.sizes) == 110
    assert (view.policy, view.block_size, view.user_count) == ("gold", 65536, 4)


def test_headers_of_0_3_9_nest_the_users_json() -> None:
    header = {"name": "over", "user_count": 24, "_scenario_data": {**SCENARIO, "user_count": 4}}
    view = ScenarioView.of(header)
    assert (view.name, view.user_count, len(view.sizes)) == ("over", 24, 2)


def test_without_initial_files_there_are_no_shares() -> None:
    view = ScenarioView.of({**SCENARIO, "initial_files": {}})
    assert [size.share for size in view.sizes] == [0.0, 0.0]
    assert view.profile is None


def test_warm_ups_of_stages() -> None:
    stages = [{"seconds": 9, "warmup": 2}, {"seconds": 9}, "damaged", {"warmup": -3}]
    view = ScenarioView.of({**SCENARIO, "stages": stages})
    assert [view.stage_warmup_s(stage) for stage in range(5)] == [2, 0, 0, 0, 0]
    assert ScenarioView.of({**SCENARIO, "stages": stages[1:]}).stage_warmups_s == ()


@pytest.mark.parametrize(
    ("raw", "found"),
    [([0.5, 2], (0.5, 2)), ([0.5], None), ([1, 2, 3], None), (["a", 2], None), (2, None)],
)
def test_a_think_time_is_a_range_of_two_numbers(raw: object, found: object) -> None:
    assert ScenarioView.of({**SCENARIO, "think_time": raw}).think_time == found


json_values = scripted(any_of(none, boolean, integer, number, text, key=text), 60)


@given(st.dictionaries(st.sampled_from([*SCENARIO, "_scenario_data", "stages"]), json_values))
def test_any_scenario_is_accepted(scenario: dict[str, Any]) -> None:
    """Invariant: any mapping has a view; shares are 0 or sum to 1."""
    view = ScenarioView.of({**SCENARIO, **scenario})
    total = sum(size.share for size in view.sizes)
    assert total == 0 or total == pytest.approx(1)


def warming(*warmups: float) -> list[dict[str, float]]:
    return [{"warmup": warmup} for warmup in warmups]


def spans_s(begins_s: list[int], end_s: int | None, **scenario: Any) -> list[tuple[float, float]]:
    end_ns = None if end_s is None else end_s * SECOND_NS
    found = ScenarioView.of(scenario).spans([at * SECOND_NS for at in begins_s], end_ns)
    return [
        (low / SECOND_NS, high if high == NEVER_NS else high / SECOND_NS) for low, high in found
    ]


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


def test_an_unknown_end_is_infinite() -> None:
    assert spans_s([1], None, cooldown=3) == [(1, NEVER_NS)]
    assert ScenarioView.of({}).spans([], 5) == []
    assert Span(0, NEVER_NS).seconds is None
    assert Span(SECOND_NS, 3 * SECOND_NS).seconds == 2


def test_adjacent_windows_are_merged_and_empty_ones_dropped() -> None:
    assert joined([Span(0, 5), Span(5, 9), Span(12, 12), Span(13, 20)]) == [
        Span(0, 9), Span(13, 20),
    ]  # fmt: skip
    assert joined([]) == []


def test_gaps_lie_between_windows_within_the_range() -> None:
    parts = [Span(0, 10), Span(15, 20), Span(20, 30), Span(32, NEVER_NS)]
    assert gaps_ns(parts, 0, 100) == 7
    assert gaps_ns(parts, 12, 31) == 4
    assert gaps_ns(parts, 16, 29) == 0
    assert gaps_ns([], 0, 100) == 0
