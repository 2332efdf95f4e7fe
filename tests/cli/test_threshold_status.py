"""--threshold: what is wrong with it comes before the run, what is missed after it."""

from __future__ import annotations

import argparse

import pytest

from ssbench.cli.threshold_status import check, reasons, thresholds_from
from ssbench.core.errors import ExitStatus, UsageError, gravest
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.scenario_view import ScenarioView
from ssbench.core.stats.thresholds import Threshold
from tests.report import runs

FACTS = ScenarioView.of(runs.SCENARIO)


def parsed(*texts: str) -> tuple[Threshold, ...]:
    return thresholds_from(argparse.Namespace(thresholds=list(texts)))


def test_each_comes_once_in_the_order_given() -> None:
    found = parsed("rate > 5/s", "errors < 1%", "rate > 5/s")
    assert [str(each) for each in found] == ["rate > 5/s", "errors < 1%"]
    assert thresholds_from(argparse.Namespace(thresholds=None)) == ()


def test_all_that_are_malformed_are_told_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        parsed("p99 < 50", "errors < 1%", "speed > 5")
    first, second = str(caught.value).splitlines()
    assert first.startswith('--threshold "p99 < 50": character 9: p99 needs a unit')
    assert second.startswith('--threshold "speed > 5": character 1: "speed" is no metric')


def test_all_that_the_scenario_cannot_have_are_told_at_once() -> None:
    check(parsed("p99(READ, tiny) < 50ms", "response_p99 < 5s"), FACTS)
    with pytest.raises(UsageError) as caught:
        check(parsed("p99(tny) < 50ms", "response_p99 < 5s"), FACTS, open_loop=False)
    first, second = str(caught.value).splitlines()
    assert first.endswith('the scenario has no size class "tny"; did you mean "tiny"?')
    assert "a closed loop has no due times" in second


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ((), ExitStatus.OK),
        (("errors <= 20", "p99 < 1s"), ExitStatus.OK),
        (("errors <= 20", "errors < 20"), ExitStatus.THRESHOLD_MISSED),
    ],
)
def test_one_that_is_missed_is_a_status(texts: tuple[str, ...], expected: ExitStatus) -> None:
    assert gravest([*reasons(RunStats.of(runs.normal()), parsed(*texts))]) is expected


def test_where_nothing_is_to_judge_by_it_is_missed() -> None:
    thresholds = parsed("p99(READ) < 1s")
    assert reasons(RunStats.of(runs.no_results()), thresholds) == {
        ExitStatus.THRESHOLD_MISSED: "missed " + "; ".join(map(str, thresholds))
    }
