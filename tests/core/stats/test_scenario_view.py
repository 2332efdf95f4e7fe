"""A scenario's facts, whatever version or hand its header is of."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.stats.scenario_view import ScenarioView, crud_of
from tests.fakes.values import any_of, boolean, integer, none, number, scripted, text
from tests.report.runs import SCENARIO


def test_shares_and_the_weighted_average() -> None:
    facts = ScenarioView.of(SCENARIO)
    assert [round(size.share, 3) for size in facts.sizes] == [0.909, 0.091]
    assert crud_of(facts.sizes[0].profile) == pytest.approx([0.3, 0.4, 0.2, 0.1])
    crud = crud_of(facts.profile)
    assert crud == pytest.approx([0.2818, 0.4318, 0.1955, 0.0909], abs=1e-4)
    assert facts.initial_files == 110
    assert (facts.policy, facts.block_size, facts.user_count) == ("gold", 65536, 4)


def test_headers_of_0_3_9_nest_the_users_json() -> None:
    header = {"name": "over", "user_count": 24, "_scenario_data": {**SCENARIO, "user_count": 4}}
    facts = ScenarioView.of(header)
    assert (facts.name, facts.user_count, len(facts.sizes)) == ("over", 24, 2)


def test_without_initial_files_there_are_no_shares() -> None:
    facts = ScenarioView.of({**SCENARIO, "initial_files": {}})
    assert [size.share for size in facts.sizes] == [0.0, 0.0]
    assert facts.profile is None


def test_warm_ups_of_stages() -> None:
    stages = [{"seconds": 9, "warmup": 2}, {"seconds": 9}, "damaged", {"warmup": -3}]
    facts = ScenarioView.of({**SCENARIO, "stages": stages})
    assert [facts.stage_warmup_s(stage) for stage in range(5)] == [2, 0, 0, 0, 0]
    assert ScenarioView.of({**SCENARIO, "stages": stages[1:]}).stage_warmups_s == ()


json_values = scripted(any_of(none, boolean, integer, number, text, key=text), 60)


@given(st.dictionaries(st.sampled_from([*SCENARIO, "_scenario_data", "stages"]), json_values))
def test_any_scenario_is_accepted(scenario: dict[str, Any]) -> None:
    """Invariant: any mapping has facts; shares are 0 or sum to 1."""
    facts = ScenarioView.of({**SCENARIO, **scenario})
    total = sum(size.share for size in facts.sizes)
    assert total == 0 or total == pytest.approx(1)
